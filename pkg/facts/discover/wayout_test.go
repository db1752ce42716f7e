package discover

import (
	"slices"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/facts"
)

// TestWaysOutOnOpenShift: nobody is sent to look for kubeadm's objects where there are none.
func TestWaysOutOnOpenShift(t *testing.T) {
	ca := authority(t, "kubernetes")
	w := openshift(t, ca, ca).drop("rendered-worker-1").drop("cluster").drop("machine-config-controller")
	w.add(&configv1.Infrastructure{
		ObjectMeta: metav1.ObjectMeta{Name: "cluster"}, Status: configv1.InfrastructureStatus{APIServerInternalURL: "https://api-int.c1.example.com:6443"},
	})
	w.add(machineConfig("rendered-worker-1", `{"ignition":{"version":"3.2.0"},
		"systemd":{"units":[{"name":"kubelet.service","contents":"[Service]\nExecStart=/usr/bin/kubelet\n"}]}}`))
	w.in.Profile.Network.Mode = v1alpha1.NetworkL2Bridge
	_, problems := w.discover()
	want := map[string]string{
		facts.KubeletClientCA: "ControllerConfig machine-config-controller", facts.ClusterDNS: "Network cluster", facts.ClusterDomain: "spec.ignition",
		facts.PodCIDRs: ".status.clusterNetwork", facts.ServiceCIDRs: ".status.serviceNetwork",
	}
	problems = slices.DeleteFunc(problems, func(p facts.Problem) bool { return p.Fact == facts.PodNetwork && !p.Fatal })
	for _, p := range problems {
		if !p.Fatal || !strings.Contains(p.Message, want[p.Fact]) || strings.Contains(p.Message, "kubeadm") || !strings.Contains(p.Message, "WindowsNodeProfile default") {
			t.Errorf("%+v", p)
		}
	}
	if len(problems) != len(want) {
		t.Errorf("%d problems, want %d: %+v", len(problems), len(want), problems)
	}
}

// TestBrokenIgnitionIsTheOnlyProblem: the domain stands in it, so that to set the domain by hand is not the way out.
func TestBrokenIgnitionIsTheOnlyProblem(t *testing.T) {
	ca := authority(t, "kubernetes")
	w := openshift(t, ca, ca).drop("rendered-worker-1")
	if p := w.onlyProblem(); p.Reason != v1alpha1.ReasonIgnitionMissing || !p.Fatal {
		t.Errorf("%+v", p)
	}
	w.in.Profile.Cluster.Domain = "cluster.local"
	if p := w.onlyProblem(); p.Reason != v1alpha1.ReasonIgnitionMissing {
		t.Errorf("with a domain: %+v", p)
	}
}
