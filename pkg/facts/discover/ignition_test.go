package discover

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/facts"
)

func TestIgnitionSources(t *testing.T) {
	ca := authority(t, "kubernetes")
	secret := func(key, value string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "ign"}, Data: map[string][]byte{key: []byte(value)}}
	}
	bySecret := &v1alpha1.IgnitionSpec{SecretName: "ign"}
	byConfigMap := &v1alpha1.IgnitionSpec{ConfigMapName: "ign"}
	for _, tt := range []struct {
		name     string
		spec     *v1alpha1.IgnitionSpec
		change   func(*world)
		reason   string
		says     []string
		provider string
		source   string
	}{
		{name: "Secret", spec: bySecret, change: func(w *world) { w.add(secret("worker.ign", workerIgnition)) }, provider: "external", source: "Secret windows-machine-operator/ign"},
		{name: "ConfigMap", spec: byConfigMap, change: func(w *world) { w.add(configMap(namespace, "ign", "worker.ign", "\ufeff"+workerIgnition)) }, provider: "external", source: "ConfigMap windows-machine-operator/ign"},
		{name: "ConfigMap with bytes", spec: byConfigMap, change: func(w *world) {
			w.add(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "ign"}, BinaryData: map[string][]byte{"worker.ign": []byte(workerIgnition)}})
		}, provider: "external", source: "ConfigMap windows-machine-operator/ign"},
		{name: "the profile's before the pool's", spec: bySecret, change: func(w *world) {
			w.add(secret("worker.ign", strings.ReplaceAll(workerIgnition, "external", "aws")))
		}, provider: "aws", source: "Secret windows-machine-operator/ign"},
		{
			name: "no Secret", spec: bySecret, change: func(*world) {}, reason: v1alpha1.ReasonIgnitionMissing,
			says: []string{"Secret windows-machine-operator/ign, which spec.ignition of the profile names, does not exist", "kubectl create secret generic ign -n windows-machine-operator --from-file=worker.ign"},
		},
		{name: "Secret of another namespace", spec: bySecret, change: func(w *world) {
			s := secret("worker.ign", workerIgnition)
			s.Namespace = "default"
			w.add(s)
		}, reason: v1alpha1.ReasonIgnitionMissing, says: []string{"does not exist"}},
		{
			name: "no key", spec: bySecret, change: func(w *world) { w.add(secret("other", workerIgnition)) }, reason: v1alpha1.ReasonIgnitionMissing,
			says: []string{"Secret windows-machine-operator/ign has no key worker.ign"},
		},
		{
			name: "no ConfigMap", spec: byConfigMap, change: func(*world) {}, reason: v1alpha1.ReasonIgnitionMissing,
			says: []string{"kubectl create configmap ign -n windows-machine-operator --from-file=worker.ign"},
		},
		{
			name: "empty", spec: bySecret, change: func(w *world) { w.add(secret("worker.ign", "")) }, reason: v1alpha1.ReasonIgnitionInvalid,
			says: []string{"Secret windows-machine-operator/ign key worker.ign cannot be used", "empty ignition"},
		},
		{name: "pointer", spec: bySecret, change: func(w *world) {
			w.add(secret("worker.ign", `{"ignition":{"version":"3.2.0","config":{"merge":[{"source":"https://api-int:22623/config/worker"}]}}}`))
		}, reason: v1alpha1.ReasonIgnitionInvalid, says: []string{"https://api-int:22623", "Give the whole ignition of a worker"}},
		{
			name: "no unit", spec: bySecret, change: func(w *world) { w.add(secret("worker.ign", `{"ignition":{"version":"3.2.0"}}`)) }, reason: v1alpha1.ReasonIgnitionInvalid,
			says: []string{"the ignition lacks: unit kubelet.service (no entry)"},
		},
		{
			name: "pool not rendered yet", change: func(w *world) { w.drop("worker").add(workerPoolNamed("")) }, reason: v1alpha1.ReasonIgnitionMissing,
			says: []string{"MachineConfigPool worker names no configuration in .status.configuration.name"},
		},
		{
			name: "rendered config gone", change: func(w *world) { w.drop("rendered-worker-1") }, reason: v1alpha1.ReasonIgnitionMissing,
			says: []string{"MachineConfig rendered-worker-1, which MachineConfigPool worker names in .status.configuration.name, does not exist"},
		},
		{name: "rendered config is broken", change: func(w *world) {
			w.drop("rendered-worker-1").add(machineConfig("rendered-worker-1", `{"ignition":{"version":"9.9.9"}}`))
		}, reason: v1alpha1.ReasonIgnitionInvalid, says: []string{"MachineConfig rendered-worker-1 .spec.config cannot be used", `"9.9.9"`}},
		{name: "broken kubelet CA", change: func(w *world) {
			w.drop("rendered-worker-1").add(machineConfig("rendered-worker-1", strings.Replace(workerIgnition, `"files":[`,
				`"files":[{"path":"/etc/kubernetes/kubelet-ca.crt","overwrite":true,"contents":{"compression":"gzip","source":"data:,CA-B%0A"}},`, 1)))
		}, reason: v1alpha1.ReasonIgnitionInvalid, says: []string{"file /etc/kubernetes/kubelet-ca.crt", "declared gzip, is not gzip"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := openshift(t, ca, ca)
			w.in.Profile.Ignition = tt.spec
			// The domain stands in the ignition; set, so that only the ignition is a problem.
			w.in.Profile.Cluster.Domain = "cluster.local"
			tt.change(w)
			if tt.reason == "" {
				cluster, problems := w.discover()
				if len(problems) > 0 || cluster.CloudProvider != tt.provider || cluster.Sources[facts.CloudProvider] != tt.source {
					t.Errorf("%q from %q, %+v", cluster.CloudProvider, cluster.Sources[facts.CloudProvider], problems)
				}
				return
			}
			p := w.onlyProblem()
			if p.Reason != tt.reason || !p.Fatal || p.Fact != facts.KubeletConfig {
				t.Errorf("got %+v", p)
			}
			for _, s := range tt.says {
				if !strings.Contains(p.Message, s) {
					t.Errorf("%q does not say %q", p.Message, s)
				}
			}
		})
	}
	t.Run("hosted control plane: no pool", func(t *testing.T) {
		w := openshift(t, ca, ca).drop("worker")
		w.in.Profile.Cluster.Domain = "cluster.local"
		p := w.onlyProblem()
		if p.Fatal || p.Reason != v1alpha1.ReasonIgnitionMissing || !strings.Contains(p.Message, "spec.ignition.secretName") {
			t.Errorf("got %+v", p)
		}
	})
}

func TestKubeletCAOnOpenShift(t *testing.T) {
	ca, inIgnition := authority(t, "api"), authority(t, "kubelet")
	withCA := strings.Replace(workerIgnition, `"files":[`, `"files":[{"path":"/etc/kubernetes/kubelet-ca.crt","contents":{"source":"data:,`+escape(inIgnition)+`"}},`, 1)
	t.Run("the ignition's where ControllerConfig has none", func(t *testing.T) {
		cluster, problems := openshift(t, ca, "").drop("rendered-worker-1").add(machineConfig("rendered-worker-1", withCA)).discover()
		if string(cluster.KubeletClientCA) != inIgnition || len(problems) > 0 {
			t.Errorf("got %q, %+v", cluster.KubeletClientCA, problems)
		}
	})
	t.Run("never the API server's own client CAs", func(t *testing.T) {
		p := openshift(t, ca, "").onlyProblem()
		if p.Fact != facts.KubeletClientCA || !p.Fatal || !strings.Contains(p.Message, "ControllerConfig machine-config-controller") {
			t.Errorf("got %+v", p)
		}
	})
}

func escape(s string) string {
	return strings.NewReplacer("\n", "%0A", "+", "%2B", " ", "%20", "=", "%3D", "/", "%2F").Replace(s)
}
