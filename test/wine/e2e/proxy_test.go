//go:build linux && wine

package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/windowsmachine/operator/pkg/payload"
	"github.com/windowsmachine/operator/test/wine"
	"github.com/windowsmachine/operator/test/wine/hns"
)

const (
	proxyService = "kube-proxy"
	proxyFolder  = `C:\kube-proxy`
	proxyLog     = proxyFolder + `\kube-proxy.log`
	// proxyLimit is for kube-proxy's start, or for one change to reach HNS.
	proxyLimit = 20 * time.Second
	// tcp is its number in IP.
	tcp = 6
)

// proxyConfig makes kube-proxy balance in HNS, on the network that the operator made.
const proxyConfig = `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: kernelspace
hostnameOverride: %s
clusterCIDR: 10.244.0.0/16
clientConnection:
  kubeconfig: C:\kube-proxy\kubeconfig
winkernel:
  networkName: %s
`

// proxy runs the real kube-proxy.exe on a machine, by hand, since it is no part of the operator's plan: a Service becomes a load balancer of
// HNS, follows its endpoints, and goes. Afterwards the machine is as before.
func (r *rig) proxy(name string) {
	m, _ := r.yard.machine(name)
	filesBefore, servicesBefore := r.inventory(m)
	ctx := context.WithoutCancel(r.t.Context())
	defer func() {
		if err := m.Remove(proxyFolder); err != nil {
			r.t.Error(err)
		}
	}()
	r.layProxy(m)
	stop := sync.OnceValue(func() error { return m.RemoveService(ctx, proxyService) })
	defer func() {
		if r.t.Failed() {
			r.t.Logf("%s: %s", proxyLog, tail(m.File(proxyLog)))
		}
		if err := stop(); err != nil {
			r.t.Error(err)
		}
	}()
	r.must(m.StartService(r.t.Context(), proxyService,
		proxyFolder+`\kube-log-runner.exe`, "-log-file="+proxyLog,
		proxyFolder+`\kube-proxy.exe`, "--windows-service", "--config="+proxyFolder+`\config.yaml`, "--v=2",
	))
	r.balance(m)
	status, err := proxyHealth(ctx, m)
	r.must(err)
	if status != http.StatusOK {
		r.t.Errorf("kube-proxy says of itself %d", status)
	}
	r.must(stop())
	// The service manager has it as stopped a second before its process ends.
	r.until("kube-proxy.exe has ended", proxyLimit, func() (bool, string) {
		_, err := proxyHealth(ctx, m)
		return err != nil, "it answers"
	})
	r.sweep(m)
	r.must(m.Remove(proxyFolder))
	filesAfter, servicesAfter := r.inventory(m)
	if diff := cmp.Diff(servicesBefore, servicesAfter); diff != "" {
		r.t.Errorf("services of the machine (-before +after):\n%s", diff)
	}
	for f := range filesAfter {
		if _, ok := filesBefore[f]; !ok && strings.Contains(strings.ToLower(f), "proxy") {
			r.t.Errorf("%s is still there", f)
		}
	}
}

// proxyHealth asks kube-proxy for the status of its own health.
func proxyHealth(ctx context.Context, m *wine.Machine) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(m.Address(), "10256")+"/healthz", nil)
	if err != nil {
		return 0, err
	}
	request.Close = true
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	return answer.StatusCode, answer.Body.Close()
}

// layProxy puts kube-proxy's files on a machine.
func (r *rig) layProxy(m *wine.Machine) {
	r.t.Helper()
	store, err := payload.OpenStore(*payloadPath)
	r.must(err)
	for _, name := range []string{"kube-proxy.exe", "kube-log-runner.exe"} {
		b, err := program(store, name)
		r.must(err)
		r.must(m.Put(proxyFolder+`\`+name, b))
	}
	// The API server binds system:node-proxier to this user by itself.
	kubeconfig, err := r.Kubeconfig("system:kube-proxy")
	r.must(err)
	server, err := r.APIServer()
	r.must(err)
	r.must(m.Put(proxyFolder+`\kubeconfig`, []byte(strings.ReplaceAll(string(kubeconfig), r.URL(), server))))
	networks := m.HNS().Networks()
	if len(networks) != 1 {
		r.t.Fatalf("networks %v, want the operator's one", networks)
	}
	r.must(m.Put(proxyFolder+`\config.yaml`, fmt.Appendf(nil, proxyConfig, m.Name(), networks[0])))
}

func program(s *payload.Store, name string) ([]byte, error) {
	blob, ok := s.Lookup(name)
	if !ok {
		return nil, fmt.Errorf("%s: %w", name, payload.ErrUnknownBlob)
	}
	f, err := s.OpenPlain(blob.SHA256)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(f)
	return b, errors.Join(err, f.Close())
}

// balance, with a kube-proxy that was just started, makes a Service, changes who is behind it, and deletes it; HNS follows.
func (r *rig) balance(m *wine.Machine) {
	ctx := r.t.Context()
	const name = "balanced"
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080)}}},
	}
	ready := discoveryv1.EndpointConditions{Ready: ptr.To(true)}
	// The pods are on a node that does not exist, so that each becomes a remote endpoint in HNS.
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceDefault, Name: name + "-1", Labels: map[string]string{discoveryv1.LabelServiceName: name},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: ptr.To("http"), Port: ptr.To(int32(8080)), Protocol: ptr.To(corev1.ProtocolTCP)}},
		Endpoints: []discoveryv1.Endpoint{
			{Addresses: []string{"10.244.201.7"}, Conditions: ready, NodeName: ptr.To("elsewhere")},
			{Addresses: []string{"10.244.201.8"}, Conditions: ready, NodeName: ptr.To("elsewhere")},
		},
	}
	r.must(r.Client.Create(ctx, service))
	r.must(r.Client.Create(ctx, slice))
	vip := service.Spec.ClusterIP
	r.untilBalanced(m, vip, "10.244.201.7", "10.244.201.8")
	slice.Endpoints = slice.Endpoints[1:]
	r.must(r.Client.Update(ctx, slice))
	r.untilBalanced(m, vip, "10.244.201.8")
	r.must(r.Client.Delete(ctx, slice))
	r.must(r.Client.Delete(ctx, service))
	r.untilBalanced(m, vip)
}

// untilBalanced waits until there is one load balancer at an address with these backends, or none at all and no endpoint for any.
func (r *rig) untilBalanced(m *wine.Machine, vip string, backends ...string) {
	r.t.Helper()
	want := fmt.Sprintf("%s to port 8080 of %v", vip, backends)
	if len(backends) == 0 {
		want = vip + " no more"
	}
	took := r.until("HNS balances "+want, proxyLimit, func() (bool, string) {
		addresses := map[string]string{}
		var remote []string
		for _, e := range m.HNS().Endpoints() {
			addresses[strings.ToUpper(e.ID)] = strings.Join(e.Addresses, ",")
			if e.Remote && strings.HasPrefix(addresses[strings.ToUpper(e.ID)], "10.244.201.") {
				remote = append(remote, addresses[strings.ToUpper(e.ID)])
			}
		}
		slices.Sort(remote)
		found := balancersAt(m, vip)
		state := fmt.Sprintf("load balancers %+v, endpoints %v", found, addresses)
		if len(backends) == 0 {
			return len(found) == 0 && len(remote) == 0, state
		}
		if len(found) != 1 || !slices.Equal(found[0].Ports, []hns.Port{{Protocol: tcp, External: 80, Internal: 8080}}) {
			return false, state
		}
		var behind []string
		for _, id := range found[0].Endpoints {
			behind = append(behind, addresses[strings.ToUpper(id)])
		}
		slices.Sort(behind)
		return slices.Equal(behind, backends) && slices.Equal(remote, backends), state
	})
	r.t.Logf("%s: HNS balances %s after %.1f s", m.Name(), want, took.Seconds())
}

func balancersAt(m *wine.Machine, vip string) []hns.LoadBalancer {
	return slices.DeleteFunc(m.HNS().LoadBalancers(), func(b hns.LoadBalancer) bool { return !slices.Contains(b.VIPs, vip) })
}

// sweep removes from HNS what kube-proxy leaves when it stops: it has no way to clean up but its own next start.
func (r *rig) sweep(m *wine.Machine) {
	r.t.Helper()
	for _, b := range m.HNS().LoadBalancers() {
		m.HNS().Do("DeleteLoadBalancer", b.ID, "", "", "")
	}
	for _, e := range m.HNS().Endpoints() {
		if e.Remote {
			m.HNS().Do("DeleteEndpoint", e.ID, "", "", "")
		}
	}
	if b := m.HNS().LoadBalancers(); len(b) > 0 {
		r.t.Errorf("load balancers %+v", b)
	}
}
