package node

import (
	"context"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/windowsmachine/operator/pkg/agent/system"
	version "github.com/windowsmachine/operator/pkg/kubelet"
	"github.com/windowsmachine/operator/pkg/kubeproxy"
	"github.com/windowsmachine/operator/pkg/plan"
	"github.com/windowsmachine/operator/test/payload"
)

// What pkg/kubeproxy renders starts a service, which waits for its network and then uses the token in its file.
func TestKubeProxyAsAService(t *testing.T) {
	asked := make(chan string, 10)
	api := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case asked <- r.Header.Get("Authorization"):
		default:
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind":"ServiceList","apiVersion":"v1","items":[]}`)
	}))
	t.Cleanup(api.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: api.Certificate().Raw})
	kubeconfig, err := kubeproxy.Kubeconfig(api.URL, ca, `C:\k\kube-proxy.token`)
	if err != nil {
		t.Fatal(err)
	}
	config, err := kubeproxy.Config(kubeproxy.Input{
		Version: version.Version{Major: 1, Minor: 37}, NodeName: "win-a", NodeIP: "192.0.2.10", Kubeconfig: `C:\k\kube-proxy.kubeconfig`, Network: "pods",
		ClusterCIDRs: []string{"10.244.0.0/16"},
	})
	if err != nil {
		t.Fatal(err)
	}
	m := newMachine(t)
	put(t, m, `C:\k\kube-proxy.exe`, string(payload.Marker("kube-proxy.exe")))
	put(t, m, `C:\k\kube-proxy.conf`, string(config))
	put(t, m, `C:\k\kube-proxy.kubeconfig`, string(kubeconfig))
	put(t, m, `C:\k\kube-proxy.token`, "canary")
	s := m.System()
	if err := s.Services.Create(system.ServiceConfig{Name: "kube-proxy", Exe: `C:\k\kube-proxy.exe`, Args: kubeproxy.Args(`C:\k\kube-proxy.conf`, 2)}); err != nil {
		t.Fatal(err)
	}
	if err := s.Services.Start("kube-proxy"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-asked:
		t.Error("asked for Services before there was a network")
	default:
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.Networks.Create(ctx, plan.Network{
		Name: "pods", Type: plan.NetworkL2Bridge, ManagementIP: "192.0.2.10", Prefix: "10.244.3.0/24", Gateway: "10.244.3.1",
	}); err != nil {
		t.Fatal(err)
	}
	select {
	case got := <-asked:
		if got != "Bearer canary" {
			t.Errorf("came with %q", got)
		}
	case <-ctx.Done():
		t.Fatal("never asked for Services")
	}
}

// Flags and fields that kube-proxy does not know, and gates that are locked, are a failed start.
func TestKubeProxyConfigIsReadStrictly(t *testing.T) {
	const head = "kind: KubeProxyConfiguration\napiVersion: kubeproxy.config.k8s.io/v1alpha1\nbindAddress: 192.0.2.10\nmode: kernelspace\n"
	const network = "winkernel: {networkName: pods}\n"
	for name, tc := range map[string]struct {
		config string
		args   []string
		ok     bool
	}{
		"fits":              {head + network, nil, true},
		"unknown field":     {head + network + "noSuchField: 1\n", nil, false},
		"no network":        {head, nil, false},
		"another mode":      {"kind: KubeProxyConfiguration\nbindAddress: 192.0.2.10\nmode: iptables\n" + network, nil, false},
		"locked gate":       {head + network + "featureGates: {WinDSR: true}\n", nil, false},
		"flag that is gone": {head + network, []string{"--logtostderr=false"}, false},
	} {
		m := newMachine(t)
		put(t, m, `C:\k\kube-proxy.exe`, string(payload.Marker("kube-proxy.exe")))
		put(t, m, `C:\k\kube-proxy.conf`, tc.config)
		exit, output := start(t, m, `C:\k\kube-proxy.exe`, append(kubeproxy.Args(`C:\k\kube-proxy.conf`, 2), tc.args...)...)
		// One that fits goes on to its kubeconfig, which is not there.
		if exit != 1 || strings.Contains(output, "loading the kubeconfig") != tc.ok {
			t.Errorf("%s: exit %d, %s", name, exit, output)
		}
	}
}
