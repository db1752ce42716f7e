package join_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/google/go-cmp/cmp"

	"github.com/windowsmachine/operator/pkg/plan"
	"github.com/windowsmachine/operator/test/hostsim"
)

func (r *rig) join(h *hostsim.Host, name string) {
	r.t.Helper()
	if err := r.apply(h, r.plan(h), 1, map[string][]byte{"bootstrap-kubeconfig": r.ticket(strings.ToLower(name))}); err != nil {
		r.t.Fatal(err)
	}
	r.eventually(name+" is Ready", 30*time.Second, func() bool { return r.isReady(name) })
}

//evidence:fake node
func TestNodeBecomesReadyAndStaysSo(t *testing.T) {
	r := newRig(t)
	const name = "WIN-Worker-1"
	h := r.host(name)
	before := h.Machine().Dump()
	r.join(h, name)
	ip, _ := h.Addr()
	n, err := r.api.CoreV1().Nodes().Get(t.Context(), "win-worker-1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range map[string]string{"kubernetes.io/os": "windows", "node.openshift.io/os_id": "Windows", "node.kubernetes.io/windows-build": "10.0.20348"} {
		if n.Labels[k] != v {
			t.Errorf("label %s is %q, want %q", k, n.Labels[k], v)
		}
	}
	if !slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == "os" && t.Value == "Windows" && t.Effect == "NoSchedule" }) {
		t.Errorf("taints %v", n.Spec.Taints)
	}
	wantAddresses := []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: ip}, {Type: corev1.NodeHostName, Address: "win-worker-1"}}
	if diff := cmp.Diff(wantAddresses, n.Status.Addresses); diff != "" {
		t.Error(diff)
	}
	r.eventually("a lease", 10*time.Second, func() bool {
		l, err := r.api.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(t.Context(), "win-worker-1", metav1.GetOptions{})
		return err == nil && l.Spec.RenewTime != nil
	})
	r.eventually("the serving certificate", 20*time.Second, func() bool { return servingCert(r, ip, "win-worker-1") == nil })

	t.Run("W16", func(t *testing.T) { staleCNI(r, h, name) })
	t.Run("killed kubelet", func(t *testing.T) { killKubelet(r, h, name) })
	t.Run("reboot", func(t *testing.T) { rebootNode(r, h, name) })
	t.Run("removed", func(t *testing.T) { removed(r, h, before) })
}

func servingCert(r *rig, ip, name string) error {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(r.cp.CA())
	d := &net.Dialer{Timeout: 2 * time.Second}
	c, err := tls.DialWithDialer(d, "tcp", net.JoinHostPort(ip, "10250"), &tls.Config{RootCAs: pool, ServerName: name, MinVersion: tls.VersionTLS12})
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	leaf := c.ConnectionState().PeerCertificates[0]
	return errors.Join(leaf.VerifyHostname(name), leaf.VerifyHostname(ip))
}

// A stale configuration that comes first by name takes the network away, whatever stands behind it.
func staleCNI(r *rig, h *hostsim.Host, name string) {
	const stale = `C:\k\cni\config\00-old.conflist`
	if err := h.Machine().WriteFile(stale, []byte(`{"cniVersion":"0.3.0","name":"cbr0","plugins":[{"type":"flannel"}]}`)); err != nil {
		r.t.Fatal(err)
	}
	r.eventually("NotReady", 10*time.Second, func() bool {
		c := r.ready(name)
		return c != nil && c.Status == corev1.ConditionFalse && c.Reason == "KubeletNotReady" && strings.Contains(c.Message, "NetworkPluginNotReady")
	})
	if err := h.Machine().System().Files.Remove(stale); err != nil {
		r.t.Fatal(err)
	}
	r.eventually("Ready again", 10*time.Second, func() bool { return r.isReady(name) })
}

// kubeletPID is the process id of the kubelet, 0 when it does not run.
func kubeletPID(h *hostsim.Host) uint32 {
	for _, p := range h.Machine().Processes() {
		if strings.EqualFold(p.Exe(), `C:\k\kubelet.exe`) {
			return p.PID()
		}
	}
	return 0
}

func killKubelet(r *rig, h *hostsim.Host, _ string) {
	old := kubeletPID(h)
	for _, p := range h.Machine().Processes() {
		if p.PID() == old {
			p.Kill()
		}
	}
	r.eventually("the service manager recovers the kubelet", 15*time.Second, func() bool { pid := kubeletPID(h); return pid != 0 && pid != old })
}

// After a reboot the node comes back with the certificate that it has: without a bootstrap kubeconfig, without a new request.
func rebootNode(r *rig, h *hostsim.Host, name string) {
	files := h.Machine().System().Files
	requests := func() int {
		l, err := r.api.CertificatesV1().CertificateSigningRequests().List(r.t.Context(), metav1.ListOptions{})
		if err != nil {
			r.t.Fatal(err)
		}
		return len(l.Items)
	}
	r.eventually("the serving certificate is stored", 10*time.Second, func() bool {
		_, err := files.Stat(`C:\var\lib\kubelet\pki\kubelet-server-current.pem`)
		return err == nil
	})
	before, p := requests(), r.plan(h)
	p.Secrets = nil
	if err := r.apply(h, p, 2, nil); err != nil {
		r.t.Fatal(err)
	}
	r.eventually("the bootstrap kubeconfig is gone", 15*time.Second, func() bool {
		_, err := files.Stat(`C:\k\bootstrap-kubeconfig`)
		return err != nil
	})
	if err := h.Machine().Reboot(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	boot, err := h.Machine().System().Machine.BootID()
	if err != nil {
		r.t.Fatal(err)
	}
	r.eventually("Ready after the reboot", 30*time.Second, func() bool {
		n, err := r.api.CoreV1().Nodes().Get(r.t.Context(), strings.ToLower(name), metav1.GetOptions{})
		return err == nil && n.Status.NodeInfo.BootID == boot && r.isReady(name)
	})
	if got := requests(); got != before {
		r.t.Errorf("%d certificate requests, %d before the reboot", got, before)
	}
}

// removed takes everything back: the machine is as it was, file by file and service by service, but for the agent's program.
func removed(r *rig, h *hostsim.Host, before any) {
	c, err := r.dial(h)
	if err != nil {
		r.t.Fatal(err)
	}
	agent := plan.AgentPath(hostsim.Agent(agentFile()))
	_ = command(c, agent+" remove --json", nil) // the link drops when the network goes
	_ = c.Close()
	r.eventually("the agent's folder is gone", 30*time.Second, func() bool {
		if c, err := r.dial(h); err == nil {
			_ = command(c, agent+" remove --json", nil)
			_ = c.Close()
		}
		_, err := h.Machine().System().Files.Stat(plan.AgentRoot)
		return err != nil
	})
	files := h.Machine().System().Files
	for _, path := range []string{agent, agent[:strings.LastIndexByte(agent, '\\')], plan.AgentBin} {
		if err := files.Remove(path); err != nil {
			r.t.Error(err)
		}
	}
	r.eventually("the address is back on its adapter", 5*time.Second, func() bool { return cmp.Equal(before, any(h.Machine().Dump())) })
}

// A machine that is switched off for good leaves no goroutine of its kubelet behind.
func TestCloseEndsTheKubelet(t *testing.T) {
	r := newRig(t)
	h := r.host("closing")
	r.join(h, "closing")
	h.Close()
	r.eventually("all goroutines of the machine have ended", 10*time.Second, func() bool {
		stacks := make([]byte, 4<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		return !bytes.Contains(stacks, []byte("hostsim/node.")) && !bytes.Contains(stacks, []byte("util/certificate.")) &&
			!bytes.Contains(stacks, []byte("system/fake."))
	})
}

// missing is a plan without one thing.
type missing struct {
	name   string
	change func(*plan.Plan)
	// secret hands the bootstrap kubeconfig over.
	secret bool
}

func variants(whole plan.Plan) []missing {
	var out []missing
	for _, f := range whole.Files {
		out = append(out, missing{"file " + f.Path, func(p *plan.Plan) {
			p.Files = slices.DeleteFunc(slices.Clone(p.Files), func(g plan.File) bool { return g.Path == f.Path })
			p.Services = slices.Clone(p.Services)
			for i := range p.Services {
				p.Services[i].Watch = nil // what is not in the plan cannot be watched
			}
		}, true})
	}
	for _, s := range whole.Services {
		out = append(out, missing{"service " + s.Name, func(p *plan.Plan) {
			p.Services = slices.DeleteFunc(slices.Clone(p.Services), func(g plan.Service) bool { return g.Name == s.Name })
		}, true})
		for i, arg := range s.Args {
			// These have good defaults, or are for people. A kubelet without --windows-service is Ready until the service manager
			// ends it after 30 s, as the real one.
			if slices.ContainsFunc([]string{"--v=", "--log-file=", "--windows-service", "--also-stdout", "--cert-dir", "--node-ip", "--service-name", "containerd", "--node-labels"}, func(o string) bool { return strings.HasPrefix(arg, o) }) {
				continue
			}
			out = append(out, missing{fmt.Sprintf("argument %s of %s", arg, s.Name), func(p *plan.Plan) {
				p.Services = slices.Clone(p.Services)
				for j := range p.Services {
					if p.Services[j].Name == s.Name {
						p.Services[j].Args = slices.Delete(slices.Clone(p.Services[j].Args), i, i+1)
					}
				}
			}, true})
		}
	}
	return append(out,
		missing{"network", func(p *plan.Plan) { p.Networks = nil }, true},
		missing{"bootstrap kubeconfig", func(p *plan.Plan) { p.Secrets = nil }, false},
		missing{"log folder", func(p *plan.Plan) {
			p.Directories = slices.DeleteFunc(slices.Clone(p.Directories), func(d plan.Directory) bool { return d.Path == `C:\var\log\kubelet` })
		}, true},
	)
}

// Without any one of the things that the agent puts on the machine, the node does not become Ready.
func TestEveryProducedThingIsNeeded(t *testing.T) {
	r := newRig(t)
	whole := r.host("whole")
	all := variants(r.plan(whole))
	hosts := make([]*hostsim.Host, len(all))
	for i := range all {
		hosts[i] = r.host(fmt.Sprintf("missing-%d", i))
	}
	for i, v := range all {
		p := r.plan(hosts[i])
		v.change(&p)
		secrets := map[string][]byte{}
		if v.secret {
			secrets["bootstrap-kubeconfig"] = r.ticket(fmt.Sprintf("missing-%d", i))
		}
		if err := r.apply(hosts[i], p, 1, secrets); err != nil {
			t.Errorf("%s: %v", v.name, err)
		}
	}
	r.join(whole, "whole") // last, so that every other had more time
	end := time.NewTimer(3 * time.Second)
	defer end.Stop()
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		for i, v := range all {
			if r.isReady(fmt.Sprintf("missing-%d", i)) {
				t.Fatalf("the node is Ready without %s", v.name)
			}
		}
		select {
		case <-end.C:
			return
		case <-tick.C:
		}
	}
}
