package host

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/console/consoletest"
	"github.com/windowsmachine/operator/pkg/facts"
	"github.com/windowsmachine/operator/pkg/host"
	"github.com/windowsmachine/operator/pkg/payload"
	"github.com/windowsmachine/operator/pkg/plan"
	"github.com/windowsmachine/operator/pkg/ticket"
	"github.com/windowsmachine/operator/pkg/transport"
)

const (
	token     = "canary-of-the-ticket"
	agentText = "MZ"
	patience  = 30 * time.Second
)

func errOf(s string) error { return errors.New(s) }

// machine is a Windows machine in memory, reached without SSH: an agent that answers as the real one does and accepts every plan. It shows
// what the reconciler has a machine do, and proves nothing of the machine.
type machine struct {
	digests []string
	// onApply is called when an envelope arrives, before the agent answers.
	onApply func(plan.Envelope)
	// refuse is what dialing ends with.
	refuse error
	// now is the machine's clock; it stands still when nil.
	now func() time.Time

	mu        sync.Mutex
	report    plan.Report
	ran       []string
	envelopes []plan.Envelope
	open      int
}

// Dial implements transport.Dialer.
func (m *machine) Dial(_ context.Context, t transport.Target) (transport.Conn, error) {
	if m.refuse != nil {
		return nil, m.refuse
	}
	if err := t.Verify(aKey("one")); err != nil {
		return nil, errors.Join(transport.ErrHostKey, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open++
	return &conn{m: m, done: make(chan struct{})}, nil
}

func (m *machine) verbs() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return strings.Join(m.ran, " ")
}

func (m *machine) connections() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.open
}

// conn is a connection to a machine.
type conn struct {
	transport.Conn
	m    *machine
	once sync.Once
	done chan struct{}
}

// Run implements transport.Conn. It ends with its context, as with the connection.
func (c *conn) Run(ctx context.Context, cmd transport.Command) (int, error) {
	if !consoletest.IsServe(cmd) {
		return c.run(ctx, cmd)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-c.done:
			cancel(transport.ErrDisconnected)
		case <-ctx.Done():
		}
	}()
	return consoletest.Serve(ctx, cmd, c.run)
}

func (c *conn) run(_ context.Context, cmd transport.Command) (int, error) {
	c.m.mu.Lock()
	c.m.ran = append(c.m.ran, cmd.Args[0])
	c.m.mu.Unlock()
	switch cmd.Args[0] {
	case "facts":
		return 0, c.m.answer(cmd.Stdout, c.m.facts())
	case "apply":
		return 0, c.m.apply(cmd)
	case "remove":
		c.m.set(plan.Report{})
	}
	return 0, c.m.answer(cmd.Stdout, c.m.set(plan.Report{}))
}

func (m *machine) answer(w io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

// set replaces the report, unless r is zero, and returns it.
func (m *machine) set(r plan.Report) plan.Report {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r.Phase != "" {
		m.report = r
	}
	return m.report
}

func (m *machine) facts() plan.HostFacts {
	v := aView(connected)
	f := *v.snap.Facts
	if m.now != nil {
		f.Time = m.now()
	}
	f.AgentDigest, f.HaveBlobs, f.Report = strings.Repeat("a", 64), m.digests, m.set(plan.Report{})
	if f.Report.Digest != "" {
		// The agent makes itself a service with the first plan that it accepts.
		f.ServiceAgent = f.AgentDigest
	}
	return f
}

func (m *machine) apply(cmd transport.Command) error {
	var e plan.Envelope
	if err := json.NewDecoder(cmd.Stdin).Decode(&e); err != nil {
		return err
	}
	if m.onApply != nil {
		m.onApply(e)
	}
	m.mu.Lock()
	m.envelopes = append(m.envelopes, e)
	m.mu.Unlock()
	return m.answer(cmd.Stdout, m.set(plan.Report{
		APIVersion: plan.ReportVersion, Host: e.Host, Generation: e.Generation, Digest: e.Plan.Digest(),
		Phase: plan.PhaseInSync, Total: len(e.Plan.Steps()), Seq: m.set(plan.Report{}).Seq + 9, BootID: "b1",
	}))
}

// Put implements transport.Conn.
func (c *conn) Put(context.Context, string, int64, func() (io.ReadCloser, error)) (bool, error) {
	return true, nil
}

// RemoveAll implements transport.Conn.
func (c *conn) RemoveAll(context.Context, string) error { return nil }

// Done implements transport.Conn.
func (c *conn) Done() <-chan struct{} { return c.done }

// Err implements transport.Conn.
func (c *conn) Err() error { return nil }

// Stats implements transport.Conn.
func (c *conn) Stats() transport.Stats { return transport.Stats{} }

// Close implements transport.Conn.
func (c *conn) Close() error {
	c.once.Do(func() {
		close(c.done)
		c.m.mu.Lock()
		defer c.m.mu.Unlock()
		c.m.open--
	})
	return nil
}

// world is the reconciler over a fake API server, which refuses stale writes, and one machine.
type world struct {
	t        *testing.T
	api      client.WithWatch
	clock    *clocktesting.FakePassiveClock
	recorder *events.FakeRecorder
	machine  *machine
	pool     *host.Pool
	r        *Reconciler
	notes    chan string
}

// newWorld holds the objects of a cluster and those given; hooks stand between the reconciler and the API server.
func newWorld(t *testing.T, hooks interceptor.Funcs, objects ...client.Object) *world {
	t.Helper()
	v := aView()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	v.profile.Spec.Connection.CredentialsRef.Name = "cloud-private-key"
	objects = append(objects, v.profile, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: v.namespace, Name: "cloud-private-key"}, Data: map[string][]byte{privateKey: aPrivateKey(t)},
	})
	api := fake.NewClientBuilder().WithScheme(s).WithObjects(objects...).WithStatusSubresource(&v1alpha1.WindowsHost{}).WithReturnManagedFields().
		WithIndex(&v1alpha1.WindowsHost{}, indexNode, nodeNames).WithInterceptorFuncs(serverSide()).Build()
	w := &world{
		t: t, api: api, clock: clocktesting.NewFakePassiveClock(at()), recorder: events.NewFakeRecorder(1000),
		machine: &machine{digests: v.payload.digests(), report: plan.Report{APIVersion: plan.ReportVersion, Phase: plan.PhaseIdle, BootID: "b1"}},
		notes:   make(chan string, 10_000),
	}
	w.pool = host.NewPool(host.Config{
		Dialer: w.machine, Now: w.clock.Now, Notify: func(k string) { w.notes <- k },
		Agent: agentBinary(),
	})
	t.Cleanup(w.pool.Close)
	known := &facts.Store{}
	d := *v.cluster
	d.Cluster.APIServerCA, d.Cluster.KubeletClientCA = aCA(t), aCA(t)
	known.Set("default", d)
	c := interceptor.NewClient(api, hooks)
	w.r = &Reconciler{
		Client: c, Recorder: w.recorder, Clock: w.clock, Pool: w.pool, Facts: known, Tickets: ticket.Issuer{Client: c},
		Notifier: &Notifier{}, Namespace: v.namespace, Payload: manifest(v.payload),
	}
	return w
}

func agentBinary() host.AgentBinary {
	return host.AgentBinary{Digest: strings.Repeat("a", 64), Size: int64(len(agentText)), Open: func() (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(agentText)), nil
	}}
}

func manifest(x payloadIndex) payload.Manifest {
	var m payload.Manifest
	for name, b := range x {
		m.Blobs = append(m.Blobs, payload.Blob{Name: name, SHA256: b.SHA256, Size: b.Size, Version: b.Version})
	}
	return m
}

// serverSide is what the API server does and the fake does not: UIDs and tokens.
func serverSide() interceptor.Funcs {
	return interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if o.GetUID() == "" {
				o.SetUID(uuid.NewUUID())
			}
			return c.Create(ctx, o, opts...)
		},
		SubResourceCreate: func(_ context.Context, _ client.Client, sub string, _, r client.Object, _ ...client.SubResourceCreateOption) error {
			tr, ok := r.(*authenticationv1.TokenRequest)
			if sub != "token" || !ok {
				return fmt.Errorf("no subresource %s", sub)
			}
			tr.Status = authenticationv1.TokenRequestStatus{Token: token, ExpirationTimestamp: metav1.NewTime(at().Add(ticket.Lifetime))}
			return nil
		},
	}
}

func aPrivateKey(t *testing.T) []byte {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

func aCA(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: at().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// object is the host of a view, as an admin has made it.
func object(edits ...func(*v1alpha1.WindowsHost)) *v1alpha1.WindowsHost {
	h := aView().host
	for _, e := range edits {
		e(h)
	}
	return h
}

// once runs one pass and waits until what it started on the machine has ended.
func (w *world) once() (reconcile.Result, error) {
	w.t.Helper()
	h := object()
	res, err := w.r.Reconcile(w.t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(h)})
	w.idle(h)
	return res, err
}

// pass is once without an error.
func (w *world) pass() reconcile.Result {
	w.t.Helper()
	res, err := w.once()
	if err != nil {
		w.t.Fatal(err)
	}
	return res
}

// idle waits until no verb is under way.
func (w *world) idle(h *v1alpha1.WindowsHost) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	for w.pool.Session(sessionKey(h)).Snapshot().Busy != "" {
		select {
		case <-w.notes:
		case <-ctx.Done():
			w.t.Fatalf("the machine is still busy: %s", w.machine.verbs())
		}
	}
}

// until runs passes until ok, at most so many as a first configuration may take.
func (w *world) until(what string, ok func(*v1alpha1.WindowsHost) bool) *v1alpha1.WindowsHost {
	w.t.Helper()
	var h *v1alpha1.WindowsHost
	for range 30 {
		w.pass()
		if h = w.host(); h != nil && ok(h) {
			return h
		}
	}
	w.t.Fatalf("never %s: %+v", what, h)
	return nil
}

// host reads the host back, nil when it is gone.
func (w *world) host() *v1alpha1.WindowsHost {
	w.t.Helper()
	h := &v1alpha1.WindowsHost{}
	if !w.get(client.ObjectKeyFromObject(object()), h) {
		return nil
	}
	return h
}

func (w *world) node(name string) *corev1.Node {
	w.t.Helper()
	n := &corev1.Node{}
	if !w.get(types.NamespacedName{Name: name}, n) {
		return nil
	}
	return n
}

// account reads the host's ticket account, nil when there is none.
func (w *world) account() *corev1.ServiceAccount {
	w.t.Helper()
	sa := &corev1.ServiceAccount{}
	h := object()
	if !w.get(types.NamespacedName{Namespace: ticket.Namespace, Name: ticket.AccountName(h.Name, h.UID)}, sa) {
		return nil
	}
	return sa
}

func (w *world) get(key client.ObjectKey, o client.Object) bool {
	w.t.Helper()
	err := w.api.Get(w.t.Context(), key, o)
	if err != nil && !apierrors.IsNotFound(err) {
		w.t.Fatal(err)
	}
	return err == nil
}

// told returns the events so far, one a line.
func (w *world) told() string {
	var out []string
	for len(w.recorder.Events) > 0 {
		out = append(out, <-w.recorder.Events)
	}
	return strings.Join(out, "\n")
}

// stand changes the host as another writer does.
func (w *world) stand(edit func(*v1alpha1.WindowsHost)) {
	w.t.Helper()
	h := w.host()
	edit(h)
	if err := w.api.Update(w.t.Context(), h.DeepCopy()); err != nil {
		w.t.Fatal(err)
	}
	if err := w.api.Get(w.t.Context(), client.ObjectKeyFromObject(h), &v1alpha1.WindowsHost{}); err != nil {
		return
	}
	fresh := w.host()
	fresh.Status = h.Status
	if err := w.api.Status().Update(w.t.Context(), fresh); err != nil {
		w.t.Fatal(err)
	}
}
