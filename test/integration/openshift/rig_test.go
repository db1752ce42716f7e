package openshift

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/test/bed"
	"github.com/windowsmachine/operator/test/golden"
	"github.com/windowsmachine/operator/test/hostsim"
)

const (
	// patience bounds a test; nothing takes that long on an idle machine.
	patience = 3 * time.Minute
	glance   = 50 * time.Millisecond

	kubeletConf = `C:\k\kubelet.conf`
	kubeletCA   = `C:\k\kubelet-ca.crt`
)

// errLate: what was waited for did not come in time.
var errLate = errors.New("it took too long")

// poll looks until ok or the context ends; its error says what was seen last.
func poll(ctx context.Context, ok func() (bool, string)) error {
	tick := time.NewTicker(glance)
	defer tick.Stop()
	for {
		done, saw := ok()
		if done {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %s", errLate, saw)
		case <-tick.C:
		}
	}
}

// profile has a CNI configuration of its own: the Node needs one to become Ready, and none of ours goes with OVN-Kubernetes.
func profile(name string, port int, policy v1alpha1.HostKeyPolicy) *v1alpha1.WindowsNodeProfile {
	return &v1alpha1.WindowsNodeProfile{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.WindowsNodeProfileSpec{
			Connection: v1alpha1.ConnectionSpec{Port: int32(port)},
			Trust:      v1alpha1.TrustSpec{HostKeyPolicy: policy},
			Network:    v1alpha1.NetworkSpec{Mode: v1alpha1.NetworkCustom, CNIConfig: `{"cniVersion":"1.0.0","name":"own","type":"host-local"}`},
		},
	}
}

func defaultProfile(port int) *v1alpha1.WindowsNodeProfile {
	return profile(v1alpha1.DefaultProfile, port, v1alpha1.HostKeyTrustOnFirstUse)
}

// rig is a bed as one test sees it. What a test makes through it goes when the test ends.
type rig struct {
	t   *testing.T
	ctx context.Context
	bed *bed.Bed
}

func newRig(t *testing.T, on *table) *rig {
	t.Helper()
	b, err := on.get()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return &rig{t: t, ctx: ctx, bed: b}
}

// with is the rig of a subtest.
func (r *rig) with(t *testing.T) *rig { return &rig{t: t, ctx: r.ctx, bed: r.bed} }

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// until fails the test when ok does not come true before its context ends.
func (r *rig) until(what string, ok func() (bool, string)) {
	r.t.Helper()
	if err := poll(r.ctx, ok); err != nil {
		r.t.Fatalf("%s: %v", what, err)
	}
}

func (r *rig) afterwards(f func(context.Context)) {
	r.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), time.Minute)
		defer cancel()
		f(ctx)
	})
}

func (r *rig) create(o client.Object) {
	r.t.Helper()
	r.must(r.bed.Client.Create(r.ctx, o))
	r.afterwards(func(ctx context.Context) {
		if err := r.bed.Client.Delete(ctx, o); client.IgnoreNotFound(err) != nil {
			r.t.Errorf("deleting %T %s: %v", o, o.GetName(), err)
		}
	})
}

func (r *rig) get(name string, o client.Object) {
	r.t.Helper()
	r.must(r.bed.Client.Get(r.ctx, client.ObjectKey{Name: name}, o))
}

// host reads a host of the operator's namespace.
func (r *rig) host(name string) *v1alpha1.WindowsHost {
	r.t.Helper()
	h := &v1alpha1.WindowsHost{}
	r.must(r.bed.Client.Get(r.ctx, client.ObjectKey{Namespace: bed.Namespace, Name: name}, h))
	return h
}

func readyOf(h *v1alpha1.WindowsHost) metav1.Condition {
	if c := meta.FindStatusCondition(h.Status.Conditions, v1alpha1.ConditionReady); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// state is a condition in a line.
func state(c metav1.Condition) string { return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message) }

// untilReady waits until the host is Ready and the operator is done with it: its machine has the newest plan, the ticket is gone.
func (r *rig) untilReady(name string) *v1alpha1.WindowsHost {
	r.t.Helper()
	var h *v1alpha1.WindowsHost
	r.until(name+" becomes Ready", func() (bool, string) {
		h = r.host(name)
		c := readyOf(h)
		done := c.Status == metav1.ConditionTrue && strings.HasSuffix(c.Message, "equals its plan") && h.Status.Ticket == nil
		return done, h.Status.Step + " " + state(c)
	})
	return h
}

// untilSaid waits until Ready has that status and its message holds the words.
func (r *rig) untilSaid(name string, status metav1.ConditionStatus, words string) metav1.Condition {
	r.t.Helper()
	var c metav1.Condition
	r.until(fmt.Sprintf("%s is Ready=%s and says %q", name, status, words), func() (bool, string) {
		c = readyOf(r.host(name))
		return c.Status == status && strings.Contains(c.Message, words), state(c)
	})
	return c
}

// untilFacts waits until the operator has looked at the profile as it is now and found that.
func (r *rig) untilFacts(name string, status metav1.ConditionStatus, reason string) (*v1alpha1.DiscoveredStatus, metav1.Condition) {
	r.t.Helper()
	p := &v1alpha1.WindowsNodeProfile{}
	var c metav1.Condition
	r.until(fmt.Sprintf("facts of %s are %s %s", name, status, reason), func() (bool, string) {
		r.get(name, p)
		c = metav1.Condition{}
		if found := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionFactsComplete); found != nil {
			c = *found
		}
		return c.Status == status && c.Reason == reason && p.Status.ObservedGeneration == p.Generation, state(c)
	})
	return p.Status.Discovered, c
}

// nudge has the operator look at the profile now instead of within its half minute.
func (r *rig) nudge(name string) {
	r.t.Helper()
	p := &v1alpha1.WindowsNodeProfile{ObjectMeta: metav1.ObjectMeta{Name: name}}
	patch := fmt.Sprintf(`{"metadata":{"annotations":{"test/nudge":%q}}}`, time.Now().Format(time.RFC3339Nano))
	r.must(r.bed.Client.Patch(r.ctx, p, client.RawPatch("application/merge-patch+json", []byte(patch))))
}

// machine starts a simulated machine and gives it a WindowsHost of that profile, as an admin does.
func (r *rig) machine(name, profile string) *hostsim.Host {
	r.t.Helper()
	m, err := r.bed.NewHost(name)
	r.must(err)
	ip, _ := m.Addr()
	h := &v1alpha1.WindowsHost{
		ObjectMeta: metav1.ObjectMeta{Namespace: bed.Namespace, Name: name},
		Spec:       v1alpha1.WindowsHostSpec{Address: ip, HostKeys: []string{m.HostKey()}, ProfileRef: v1alpha1.ProfileReference{Name: profile}},
	}
	r.must(r.bed.Client.Create(r.ctx, h))
	r.afterwards(func(ctx context.Context) {
		if r.t.Failed() {
			r.explain(ctx, name)
		}
		if err := r.letGo(ctx, h); err != nil {
			r.t.Errorf("WindowsHost %s: %v", name, err)
		}
		if err := r.bed.Delete(ctx, "", name); err != nil {
			r.t.Error(err)
		}
	})
	return m
}

// letGo deletes a host without cleaning its machine, which may be in any state when a test ends.
func (r *rig) letGo(ctx context.Context, h *v1alpha1.WindowsHost) error {
	skip := fmt.Sprintf(`{"metadata":{"annotations":{%q:"true"}}}`, v1alpha1.SkipCleaningAnnotation)
	err := r.bed.Client.Patch(ctx, h, client.RawPatch("application/merge-patch+json", []byte(skip)))
	if err == nil {
		err = r.bed.Client.Delete(ctx, h)
	}
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	return poll(ctx, func() (bool, string) {
		err := r.bed.Client.Get(ctx, client.ObjectKeyFromObject(h), h)
		return apierrors.IsNotFound(err), state(readyOf(h))
	})
}

// explain logs what there is to say about the host of a failed test.
func (r *rig) explain(ctx context.Context, name string) {
	out, err := r.bed.Kubectl(ctx, "describe", "winhost", "-n", bed.Namespace, name)
	r.t.Logf("%s %v", out, err)
	if out, err = r.bed.File(name, `C:\var\log\kubelet\kubelet.log`); err == nil {
		r.t.Logf("kubelet.log:\n%s", out[max(0, len(out)-3000):])
	}
	log, err := os.ReadFile(r.bed.OperatorLog())
	if err != nil {
		r.t.Log(err)
	}
	r.t.Logf("the operator's log:\n%s", log[max(0, len(log)-3000):])
}

func (r *rig) file(machine, path string) []byte {
	r.t.Helper()
	b, err := r.bed.File(machine, path)
	r.must(err)
	return b
}

// settings is the kubelet's configuration on the machine.
func (r *rig) settings(machine string) map[string]any {
	r.t.Helper()
	var out map[string]any
	r.must(yaml.UnmarshalStrict(r.file(machine, kubeletConf), &out))
	return out
}

func nodeReady(n *corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// golden compares text with a file of testdata; the URL of this run's control plane becomes a name.
func (r *rig) golden(name string, text []byte) {
	r.t.Helper()
	text = bytes.ReplaceAll(text, []byte(r.bed.URL()), []byte("https://api-int:6443"))
	golden.Equal(r.t, filepath.Join("testdata", name), text)
}

func (r *rig) goldenYAML(name string, value any) {
	r.t.Helper()
	b, err := yaml.Marshal(value)
	r.must(err)
	r.golden(name, b)
}
