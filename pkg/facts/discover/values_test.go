package discover

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/facts"
)

func TestUnusableValues(t *testing.T) {
	ca, other := authority(t, "kubernetes"), authority(t, "other")
	for _, tt := range []struct {
		name   string
		change func(*world)
		want   facts.Problem
	}{
		{
			"a DNS address that is none, with another source", func(w *world) { w.drop("kube-dns").add(dnsService("kube-dns", nil, "nonsense")) },
			facts.Problem{Fact: facts.ClusterDNS, Reason: v1alpha1.ReasonFactsDisagree, Message: "Service kube-system/kube-dns .spec.clusterIPs holds something that is not an IP address; ConfigMap kube-system/kubelet-config key kubelet clusterDNS is used"},
		},
		{"a CA that is none", func(w *world) {
			w.drop("extension-apiserver-authentication").add(configMap("kube-system", "extension-apiserver-authentication", "client-ca-file", "CA"))
		}, facts.Problem{Fact: facts.KubeletClientCA, Reason: v1alpha1.ReasonFactsMissing, Fatal: true, Message: "kubeletClientCA not found. ConfigMap kube-system/extension-apiserver-authentication key client-ca-file is not a bundle of PEM certificates. ConfigMap kube-system/extension-apiserver-authentication holds it under client-ca-file when kube-apiserver runs with --client-ca-file"}},
		{"a CA larger than is read", func(w *world) {
			w.drop("extension-apiserver-authentication").add(configMap("kube-system", "extension-apiserver-authentication", "client-ca-file", strings.Repeat("#", maxText)+"\n"+ca))
		}, facts.Problem{Fact: facts.KubeletClientCA, Reason: v1alpha1.ReasonFactsMissing, Fatal: true, Message: "kubeletClientCA not found. ConfigMap kube-system/extension-apiserver-authentication key client-ca-file is not a bundle of PEM certificates. ConfigMap kube-system/extension-apiserver-authentication holds it under client-ca-file when kube-apiserver runs with --client-ca-file"}},
		{
			"two CAs that have nothing in common", func(w *world) { w.in.OwnCA = []byte(other) },
			facts.Problem{Fact: facts.APIServerCA, Reason: v1alpha1.ReasonFactsDisagree, Message: "apiServerCA: ConfigMap kube-system/kube-root-ca.crt key ca.crt says 1 certificates that the other lacks, the operator's own configuration says 1 certificates that the other lacks; the first is used"},
		},
		{"an API server without TLS", func(w *world) {
			w.drop("cluster-info").add(configMap("kube-public", "cluster-info", "kubeconfig", clusterInfo("http://cp.example.com")))
		}, facts.Problem{Fact: facts.APIServer, Reason: v1alpha1.ReasonFactsDisagree, Message: "ConfigMap kube-public/cluster-info key kubeconfig is not an https:// URL of host and port only; ConfigMap kube-system/kubeadm-config ClusterConfiguration.controlPlaneEndpoint is used"}},
		{"more values than anyone needs", func(w *world) {
			w.drop("kube-proxy").add(configMap("kube-system", "kube-proxy", "config.conf", "clusterCIDR: "+strings.Repeat("10.0.0.0/8,", 100)+"10.0.0.0/8\n"))
		}, facts.Problem{Fact: facts.PodCIDRs, Reason: v1alpha1.ReasonFactsDisagree, Message: "ConfigMap kube-system/kube-proxy key config.conf clusterCIDR has too many values; ConfigMap kube-system/kubeadm-config ClusterConfiguration.networking.podSubnet is used"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := kubeadm(t, ca)
			tt.change(w)
			if diff := cmp.Diff(tt.want, w.onlyProblem()); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("texts that do not parse or are too large count as absent", func(t *testing.T) {
		w := kubeadm(t, ca).drop("kubeadm-config").drop("cluster-info").drop("coredns").add(
			configMap("kube-system", "kubeadm-config", "ClusterConfiguration", "controlPlaneEndpoint: cp\n"+strings.Repeat("#", maxText)),
			configMap("kube-public", "cluster-info", "kubeconfig", "{{{"),
			configMap("kube-system", "coredns", "Corefile", "kubernetes evil.local\n"+strings.Repeat("#", maxText)),
		)
		cluster, problems := w.discover()
		if len(problems) > 0 || cluster.APIServer != "https://192.168.1.10:6443" || cluster.ClusterDomain != "cluster.local" {
			t.Errorf("%+v %+v", cluster, problems)
		}
	})
	t.Run("a bundle with a private key in it", func(t *testing.T) {
		if _, err := normalPEM(ca + "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"); !errors.Is(err, errPEM) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a block of another type", func(t *testing.T) {
		if _, err := normalPEM(ca + strings.ReplaceAll(other, " CERTIFICATE", " TRUSTED CERTIFICATE")); !errors.Is(err, errPEM) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a rotating bundle agrees with its parts", func(t *testing.T) {
		both, err := normalPEM("# comment\n" + ca + other + ca)
		if err != nil || both != ca+other {
			t.Fatalf("%v: %q", err, both)
		}
		if !agree(facts.APIServerCA, []string{both}, []string{other}) || agree(facts.APIServerCA, []string{ca}, []string{other}) {
			t.Error("wrong agreement")
		}
	})
}

func TestValues(t *testing.T) {
	for _, tt := range []struct {
		fact, in, want string
	}{
		{facts.APIServer, "https://A.example.com:6443/", "https://a.example.com:6443"},
		{facts.APIServer, "https://user@a", ""},
		{facts.APIServer, "https://a/path", ""},
		{facts.APIServer, "https://a?x=y", ""},
		{facts.APIServer, "a:6443", ""},
		{facts.APIServer, "https://", ""},
		{facts.ClusterDNS, "::ffff:10.0.0.1", "10.0.0.1"},
		{facts.ClusterDNS, "fe80::1%eth0", ""},
		{facts.PodCIDRs, " 10.1.2.3/16 ", "10.1.0.0/16"},
		{facts.PodCIDRs, "10.1.2.3", ""},
		{facts.ClusterDomain, "Cluster.Local.", "cluster.local"},
		{facts.ClusterDomain, "a b", ""},
		{facts.ClusterDomain, "-x", ""},
		{facts.Platform, "AWS", "AWS"},
	} {
		got, err := normal(tt.fact, []string{tt.in})
		if (err == nil) != (tt.want != "") || err == nil && got[0] != tt.want {
			t.Errorf("%s %q: got %q, %v", tt.fact, tt.in, got, err)
		}
	}
}

// limitedLists fails a list that asks for more than maxSlices.
type limitedLists struct {
	client.Reader
	lists int
	t     *testing.T
}

// List implements client.Reader.
func (l *limitedLists) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(opts)
	l.lists++
	if o.Limit < 1 || o.Limit > maxSlices {
		l.t.Errorf("%T is read without a limit: %d", list, o.Limit)
	}
	return l.Reader.List(ctx, list, opts...)
}

func TestListsAreLimited(t *testing.T) {
	w := kubeadm(t, authority(t, "kubernetes"))
	r := &limitedLists{Reader: w.reader(), t: t}
	if _, _, err := Cluster(t.Context(), r, w.in); err != nil || r.lists == 0 {
		t.Errorf("%d lists, %v", r.lists, err)
	}
}

// A message holds no more of an object than maxMessage.
func TestMessagesAreBounded(t *testing.T) {
	w := kubeadm(t, authority(t, "kubernetes")).drop("kube-proxy")
	ranges := []string{"10.1.0.0/16"}
	for i := range maxValues - 1 {
		ranges = append(ranges, fmt.Sprintf("fd00:%04x:aaaa:bbbb:cccc:dddd::/96", i))
	}
	w.add(configMap("kube-system", "kube-proxy", "config.conf", "clusterCIDR: "+strings.Join(ranges, ",")+"\n"))
	p := w.onlyProblem()
	if p.Reason != v1alpha1.ReasonFactsDisagree || len(p.Message) > 2*maxMessage || !strings.Contains(p.Message, "...") {
		t.Errorf("%d bytes: %+v", len(p.Message), p)
	}
}

// FuzzValues: whatever an object holds, a value is refused or brought into a form that does not change any more and is no longer than what
// is read.
func FuzzValues(f *testing.F) {
	ca := authority(f, "kubernetes")
	for fact, v := range map[string]string{
		facts.APIServer: "HTTPS://Api.Example.test:6443/", facts.ClusterDNS: "::ffff:10.96.0.10", facts.ClusterDomain: "Cluster.Local.",
		facts.PodCIDRs: "10.244.7.7/16", facts.ServiceCIDRs: "fd00::/108", facts.APIServerCA: "noise\n" + ca + ca, facts.KubeletClientCA: ca, facts.Platform: "AWS",
	} {
		f.Add(fact, v)
	}
	f.Add(facts.KubeletClientCA, "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"+ca)
	f.Fuzz(func(t *testing.T, fact, v string) {
		once, err := normal(fact, []string{v})
		if err != nil {
			return
		}
		twice, err := normal(fact, once)
		if d := cmp.Diff(once, twice); d != "" || err != nil {
			t.Fatalf("%s: %v %s", fact, err, d)
		}
		if !agree(fact, once, twice) {
			t.Fatalf("%s %q does not agree with itself", fact, once)
		}
		isCA := fact == facts.APIServerCA || fact == facts.KubeletClientCA
		if isCA && strings.Contains(strings.Join(once, ""), "PRIVATE KEY") {
			t.Fatalf("%s holds a private key", fact)
		}
		if fact == facts.APIServer && !strings.HasPrefix(once[0], "https://") {
			t.Fatalf("%s %q", fact, once)
		}
	})
}
