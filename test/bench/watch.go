package bench

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	machinev1 "github.com/openshift/api/machine/v1beta1"
	certv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/test/hostsim"
)

// sight is something that was first seen at a time.
type sight string

const (
	sawProvisioned sight = "Machine is Provisioned"
	sawHost        sight = "WindowsHost is there"
	sawCSR         sight = "CSR is there"
	sawApproved    sight = "CSR is approved"
	sawNode        sight = "Node is there"
	sawPodCIDR     sight = "Node has its pod CIDR"
	sawAdopted     sight = "Node bears the host's mark"
	sawNodeReady   sight = "Node is Ready"
	sawReady       sight = "WindowsHost is Ready"
)

// state is how a host stands.
type state struct {
	ready            bool
	digest, applied  string
	problem, profile string
}

func (s state) inSync() bool { return s.ready && s.digest != "" && s.digest == s.applied }

// watcher sees objects change, through watches as the operator's own.
type watcher struct {
	mu     sync.Mutex
	seen   map[sight]map[string]time.Time
	hosts  map[string]state
	change chan struct{}
}

// watch begins to watch; it ends with ctx.
func watch(ctx context.Context, cfg *rest.Config, scheme *runtime.Scheme) (*watcher, error) {
	w := &watcher{seen: map[sight]map[string]time.Time{}, hosts: map[string]state{}, change: make(chan struct{})}
	c, err := cache.New(cfg, cache.Options{Scheme: scheme})
	if err != nil {
		return nil, err
	}
	for _, o := range []client.Object{&machinev1.Machine{}, &v1alpha1.WindowsHost{}, &corev1.Node{}, &certv1.CertificateSigningRequest{}} {
		i, err := c.GetInformer(ctx, o, cache.BlockUntilSynced(false))
		if err != nil {
			return nil, fmt.Errorf("%T: %w", o, err)
		}
		if _, err := i.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: w.look, UpdateFunc: func(_, o any) { w.look(o) }, DeleteFunc: w.gone,
		}); err != nil {
			return nil, err
		}
	}
	go func() { _ = c.Start(ctx) }() // it ends with ctx only
	if !c.WaitForCacheSync(ctx) {
		return nil, context.Cause(ctx)
	}
	return w, nil
}

func (w *watcher) look(o any) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	switch o := o.(type) {
	case *machinev1.Machine:
		w.note(sawProvisioned, o.Name, now, o.Status.Phase != nil && (*o.Status.Phase == "Provisioned" || *o.Status.Phase == "Running"))
	case *v1alpha1.WindowsHost:
		w.lookAtHost(o, now)
	case *corev1.Node:
		w.lookAtNode(o, now)
	case *certv1.CertificateSigningRequest:
		w.note(sawCSR, o.Name, now, true)
		w.note(sawApproved, o.Name, now, len(o.Status.Conditions) > 0)
	}
	close(w.change)
	w.change = make(chan struct{})
}

func (w *watcher) lookAtHost(h *v1alpha1.WindowsHost, now time.Time) {
	s := state{ready: meta.IsStatusConditionTrue(h.Status.Conditions, v1alpha1.ConditionReady), profile: h.Spec.ProfileRef.Name}
	if p := h.Status.Plan; p != nil {
		s.digest, s.applied = p.Digest, p.Applied
	}
	if c := meta.FindStatusCondition(h.Status.Conditions, v1alpha1.ConditionReady); c != nil && !s.ready {
		s.problem = c.Reason + ": " + c.Message
	}
	w.hosts[h.Name] = s
	w.note(sawHost, h.Name, now, true)
	w.note(sawReady, h.Name, now, s.ready)
}

func (w *watcher) lookAtNode(n *corev1.Node, now time.Time) {
	w.note(sawNode, n.Name, now, true)
	w.note(sawPodCIDR, n.Name, now, n.Spec.PodCIDR != "")
	w.note(sawAdopted, n.Name, now, n.Annotations[v1alpha1.HostUIDAnnotation] != "")
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			w.note(sawNodeReady, n.Name, now, c.Status == corev1.ConditionTrue)
		}
	}
}

func (w *watcher) gone(o any) {
	if h, ok := o.(*v1alpha1.WindowsHost); ok {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.hosts, h.Name)
	}
}

// note keeps the first time; mu is held.
func (w *watcher) note(s sight, name string, now time.Time, is bool) {
	if !is {
		return
	}
	if w.seen[s] == nil {
		w.seen[s] = map[string]time.Time{}
	}
	if _, ok := w.seen[s][name]; !ok {
		w.seen[s][name] = now
	}
}

// times are when all were first seen so, since a time.
func (w *watcher) times(s sight, since time.Time) map[string]time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := map[string]time.Time{}
	for name, t := range w.seen[s] {
		if t.After(since) {
			out[name] = t
		}
	}
	return out
}

// digests of the hosts' present plans.
func (w *watcher) digests() map[string]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := map[string]string{}
	for name, s := range w.hosts {
		out[name] = s.digest
	}
	return out
}

// until waits until n hosts are as ok says.
func (w *watcher) until(ctx context.Context, n int, ok func(name string, s state) bool) error {
	for {
		w.mu.Lock()
		count, left := 0, ""
		for name, s := range w.hosts {
			if ok(name, s) {
				count++
			} else {
				left = name + ": " + s.problem
			}
		}
		change := w.change
		w.mu.Unlock()
		if count >= n {
			return nil
		}
		select {
		case <-change:
		case <-ctx.Done():
			return fmt.Errorf("%d of %d hosts after too long a time (%w), %s", count, n, context.Cause(ctx), left)
		}
	}
}

// tracer keeps what clients did to machines.
type tracer struct {
	mu      sync.Mutex
	moments map[string][]hostsim.Moment
}

// of is the function that keeps the moments of one machine.
func (t *tracer) of(name string) func(hostsim.Moment) {
	return func(m hostsim.Moment) {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.moments == nil {
			t.moments = map[string][]hostsim.Moment{}
		}
		t.moments[name] = append(t.moments[name], m)
	}
}

func (t *tracer) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.moments = nil
}

// since are the moments of all machines from a time on.
func (t *tracer) since(at time.Time) map[string][]hostsim.Moment {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := map[string][]hostsim.Moment{}
	for name, all := range t.moments {
		for _, m := range all {
			if m.At.After(at) {
				out[name] = append(out[name], m)
			}
		}
	}
	return out
}

// subcommand is the agent's subcommand in a command line, "" for another program.
func subcommand(line string) string {
	words := strings.Fields(line)
	if len(words) < 2 || !strings.Contains(words[0], "wmcb") {
		return ""
	}
	return words[1]
}
