//go:build linux && wine

package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/windowsmachine/operator/test/wine"
	"github.com/windowsmachine/operator/test/wine/hns"
)

const (
	proxyLog = `C:\var\log\kube-proxy\kube-proxy.log`
	// proxyLimit is for one change to reach HNS.
	proxyLimit = 20 * time.Second
	// tcp is its number in IP.
	tcp = 6
)

// proxy: the real kube-proxy.exe, which the operator made a service of the machine, has HNS balance Services, on the network that the operator made
// and with the token that it handed over. A Service becomes a load balancer, follows its endpoints, and goes.
func (r *rig) proxy(name string) {
	m, _ := r.yard.machine(name)
	ctx := context.WithoutCancel(r.t.Context())
	defer func() {
		if r.t.Failed() {
			r.t.Logf("%s: %s", proxyLog, tail(m.File(proxyLog)))
		}
	}()
	r.balance(m)
	status, err := proxyHealth(ctx, m)
	r.must(err)
	if status != http.StatusOK {
		r.t.Errorf("kube-proxy says of itself %d", status)
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

// balance makes a Service, changes who is behind it, and deletes it; HNS follows.
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
