package e2e

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/plan"
	"github.com/windowsmachine/operator/test/bed"
	"github.com/windowsmachine/operator/test/hostsim"
)

const (
	// patience bounds a test; nothing takes that long on an idle machine.
	patience = 3 * time.Minute
	glance   = 50 * time.Millisecond

	// profileCustom brings a CNI configuration, so that no link drops; profileBridge makes a network. Both are Strict.
	profileCustom, profileBridge = "custom", "bridge"

	journalFile = plan.AgentRoot + `\journal.jsonl`
	planFile    = plan.AgentRoot + `\plan.json`
	stateFile   = plan.AgentRoot + `\state.json`
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

// eventually fails the test when ok does not come true before the context ends.
func eventually(ctx context.Context, t *testing.T, what string, ok func() (bool, string)) {
	t.Helper()
	if err := poll(ctx, ok); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func customProfile(port int) *v1alpha1.WindowsNodeProfile {
	p := strictProfile(profileCustom, port)
	// The plugin stands for one that needs no HNS network before the first pod.
	p.Spec.Network = v1alpha1.NetworkSpec{Mode: v1alpha1.NetworkCustom, CNIConfig: `{"cniVersion":"1.0.0","name":"own","type":"host-local"}`}
	return p
}

func bridgeProfile(port int) *v1alpha1.WindowsNodeProfile {
	p := strictProfile(profileBridge, port)
	p.Spec.Network.Mode = v1alpha1.NetworkL2Bridge
	// A kubelet may not give itself a role; the operator has to.
	p.Spec.Kubelet.Labels = map[string]string{"team": "a", workerRole: ""}
	return p
}

func strictProfile(name string, port int) *v1alpha1.WindowsNodeProfile {
	return &v1alpha1.WindowsNodeProfile{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.WindowsNodeProfileSpec{
			Connection: v1alpha1.ConnectionSpec{Port: int32(port)},
			Trust:      v1alpha1.TrustSpec{HostKeyPolicy: v1alpha1.HostKeyStrict},
		},
	}
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

func (r *rig) until(what string, ok func() (bool, string)) {
	r.t.Helper()
	eventually(r.ctx, r.t, what, ok)
}

// afterwards runs f when the test has ended, with time of its own.
func (r *rig) afterwards(f func(context.Context)) {
	r.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), time.Minute)
		defer cancel()
		f(ctx)
	})
}

func (r *rig) create(o client.Object) {
	r.t.Helper()
	if err := r.bed.Client.Create(r.ctx, o); err != nil {
		r.t.Fatal(err)
	}
	r.afterwards(func(ctx context.Context) {
		if err := r.bed.Client.Delete(ctx, o); client.IgnoreNotFound(err) != nil {
			r.t.Errorf("deleting %T %s: %v", o, o.GetName(), err)
		}
	})
}

// exists reports whether the object is there, and reads it.
func (r *rig) exists(namespace, name string, o client.Object) bool {
	r.t.Helper()
	err := r.bed.Client.Get(r.ctx, client.ObjectKey{Namespace: namespace, Name: name}, o)
	if client.IgnoreNotFound(err) != nil {
		r.t.Fatal(err)
	}
	return err == nil
}

func (r *rig) kubectl(args ...string) string {
	r.t.Helper()
	out, err := r.bed.Kubectl(r.ctx, args...)
	if err != nil {
		r.t.Fatalf("kubectl %s: %v", strings.Join(args, " "), err)
	}
	return string(out)
}

// names counts objects, so that none has the name of another's in one run.
var names atomic.Int64

func unique(prefix string) string { return fmt.Sprintf("%s-%d", prefix, names.Add(1)) }

// machine is a simulated machine.
type machine struct {
	*hostsim.Host
	name, ip string
}

// machine starts one; a short prefix keeps its name below the 15 characters of a NetBIOS name.
func (r *rig) machine(prefix string, edits ...func(*hostsim.Options)) *machine {
	r.t.Helper()
	return r.machineNamed(unique(prefix), edits...)
}

func (r *rig) machineNamed(name string, edits ...func(*hostsim.Options)) *machine {
	r.t.Helper()
	h, err := r.bed.NewHost(name, edits...)
	if err != nil {
		r.t.Fatal(err)
	}
	r.afterwards(func(ctx context.Context) {
		if err := r.bed.Delete(ctx, "", name); err != nil {
			r.t.Error(err)
		}
	})
	ip, _ := h.Addr()
	return &machine{Host: h, name: name, ip: ip}
}

// explain logs what there is to say about the host of a failed test.
func (r *rig) explain(ctx context.Context, name string) {
	out, err := r.bed.Kubectl(ctx, "describe", "winhost", "-n", bed.Namespace, name)
	r.t.Logf("%s %v", out, err)
	for _, path := range []string{journalFile, `C:\var\log\kubelet\kubelet.log`} {
		b, err := r.bed.File(name, path)
		r.t.Logf("%s: %v\n%s", path, err, b[max(0, len(b)-3000):])
	}
	log, err := os.ReadFile(r.bed.OperatorLog())
	if err != nil {
		r.t.Log(err)
	}
	var lines [][]byte
	for line := range bytes.Lines(log) {
		if bytes.Contains(line, []byte(name)) {
			lines = append(lines, line)
		}
	}
	r.t.Logf("the operator's log:\n%s", bytes.Join(lines[max(0, len(lines)-20):], nil))
}

// file is a file of the machine.
func (r *rig) file(m *machine, path string) []byte {
	r.t.Helper()
	b, err := r.bed.File(m.name, path)
	if err != nil {
		r.t.Fatal(err)
	}
	return b
}

// journal is what the agent wrote down.
func (r *rig) journal(m *machine) []plan.Entry {
	r.t.Helper()
	var out []plan.Entry
	for line := range bytes.Lines(r.file(m, journalFile)) {
		var e plan.Entry
		if err := json.Unmarshal(line, &e); err != nil {
			r.t.Fatalf("%s: %v: %s", journalFile, err, line)
		}
		out = append(out, e)
	}
	return out
}

// hostOf is the WindowsHost of a machine as an admin writes it: its key pinned, the pod network brought along.
func hostOf(m *machine, edits ...func(*v1alpha1.WindowsHost)) *v1alpha1.WindowsHost {
	h := &v1alpha1.WindowsHost{
		ObjectMeta: metav1.ObjectMeta{Namespace: bed.Namespace, Name: m.name},
		Spec: v1alpha1.WindowsHostSpec{
			Address: m.ip, HostKeys: []string{m.HostKey()}, ProfileRef: v1alpha1.ProfileReference{Name: profileCustom},
		},
	}
	for _, edit := range edits {
		edit(h)
	}
	return h
}

func withProfile(name string) func(*v1alpha1.WindowsHost) {
	return func(h *v1alpha1.WindowsHost) { h.Spec.ProfileRef.Name = name }
}

func withSecret(name string) func(*v1alpha1.WindowsHost) {
	return func(h *v1alpha1.WindowsHost) { h.Spec.CredentialsRef = &v1alpha1.SecretReference{Name: name} }
}

// join creates the host. Its machine may be gone when the test ends, so it is let go without cleaning.
func (r *rig) join(h *v1alpha1.WindowsHost) *v1alpha1.WindowsHost {
	r.t.Helper()
	if err := r.bed.Client.Create(r.ctx, h); err != nil {
		r.t.Fatal(err)
	}
	key := client.ObjectKeyFromObject(h)
	r.afterwards(func(ctx context.Context) {
		if r.t.Failed() {
			r.explain(ctx, h.Name)
		}
		if err := r.letGo(ctx, key); err != nil {
			r.t.Errorf("WindowsHost %s: %v", key, err)
		}
	})
	return h
}

func (r *rig) letGo(ctx context.Context, key client.ObjectKey) error {
	h := &v1alpha1.WindowsHost{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	skip := fmt.Sprintf(`{"metadata":{"annotations":{%q:"true"}}}`, v1alpha1.SkipCleaningAnnotation)
	err := r.bed.Client.Patch(ctx, h, client.RawPatch("application/merge-patch+json", []byte(skip)))
	if err == nil {
		err = r.bed.Client.Delete(ctx, h)
	}
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	return poll(ctx, func() (bool, string) {
		err := r.bed.Client.Get(ctx, key, h)
		return apierrors.IsNotFound(err), state(h)
	})
}

// get reads a host of the operator's namespace.
func (r *rig) get(name string) *v1alpha1.WindowsHost {
	r.t.Helper()
	h := &v1alpha1.WindowsHost{}
	if !r.exists(bed.Namespace, name, h) {
		r.t.Fatalf("there is no WindowsHost %s", name)
	}
	return h
}

// change patches the object as it is now.
func change[T client.Object](r *rig, o T, edit func(T)) {
	r.t.Helper()
	if err := r.bed.Client.Get(r.ctx, client.ObjectKeyFromObject(o), o); err != nil {
		r.t.Fatal(err)
	}
	before := o.DeepCopyObject().(T)
	edit(o)
	if err := r.bed.Client.Patch(r.ctx, o, client.MergeFrom(before)); err != nil {
		r.t.Fatal(err)
	}
}

// state is a host in a line.
func state(h *v1alpha1.WindowsHost) string {
	c := meta.FindStatusCondition(h.Status.Conditions, v1alpha1.ConditionReady)
	if c == nil {
		return "no condition yet"
	}
	return fmt.Sprintf("step %q, ticket out %t, Ready=%s %s: %s", h.Status.Step, h.Status.Ticket != nil, c.Status, c.Reason, c.Message)
}

// untilReady waits until the host is Ready with the plan of its newest generation, and returns it.
func (r *rig) untilReady(name string) *v1alpha1.WindowsHost {
	r.t.Helper()
	var h *v1alpha1.WindowsHost
	r.until(name+" becomes Ready", func() (bool, string) {
		h = r.get(name)
		return h.Status.ObservedGeneration == h.Generation && isReady(h), state(h)
	})
	return h
}

// isReady reports whether the host is Ready and the operator is done with it: the ticket is gone.
func isReady(h *v1alpha1.WindowsHost) bool {
	c := meta.FindStatusCondition(h.Status.Conditions, v1alpha1.ConditionReady)
	sync := meta.IsStatusConditionTrue(h.Status.Conditions, v1alpha1.ConditionInSync)
	return c != nil && c.Status == metav1.ConditionTrue && c.Reason == v1alpha1.ReasonNodeReady && sync && h.Status.Ticket == nil
}

// untilReason waits until the host is not Ready for this reason.
func (r *rig) untilReason(key client.ObjectKey, reason string) *v1alpha1.WindowsHost {
	r.t.Helper()
	h := &v1alpha1.WindowsHost{}
	r.until(key.Name+" says "+reason, func() (bool, string) {
		if !r.exists(key.Namespace, key.Name, h) {
			return false, "it is gone"
		}
		c := meta.FindStatusCondition(h.Status.Conditions, v1alpha1.ConditionReady)
		return c != nil && c.Reason == reason && h.Status.ObservedGeneration == h.Generation, state(h)
	})
	return h
}

// node reads the host's Node.
func (r *rig) node(h *v1alpha1.WindowsHost) *corev1.Node {
	r.t.Helper()
	n := &corev1.Node{}
	if h.Status.Node == nil || !r.exists("", h.Status.Node.Name, n) {
		r.t.Fatalf("WindowsHost %s has no Node", h.Name)
	}
	return n
}

func nodeReady(n *corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// newKey makes a private key with that comment, and what a machine authorizes.
func newKey(t *testing.T, comment string) ([]byte, ssh.PublicKey) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, comment)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(block), key
}

func keySecret(name string, private []byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: bed.Namespace, Name: name}, Data: map[string][]byte{"private-key.pem": private},
	}
}

func authorize(keys ...ssh.PublicKey) func(*hostsim.Options) {
	return func(o *hostsim.Options) { o.AuthorizedKeys = keys }
}

// took logs how long something lasted.
func (r *rig) took(what string, since time.Time) {
	r.t.Helper()
	r.t.Logf("%s: %.1f s", what, time.Since(since).Seconds())
}
