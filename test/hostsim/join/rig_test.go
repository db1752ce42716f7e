package join_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"net"
	"path"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/windowsmachine/operator/pkg/payload"
	"github.com/windowsmachine/operator/pkg/plan"
	"github.com/windowsmachine/operator/test/controlplane"
	"github.com/windowsmachine/operator/test/hostsim"
	standin "github.com/windowsmachine/operator/test/payload"
)

const ticketNamespace = "windows-machine-bootstrap"

func agentFile() []byte { return []byte("the agent") }

// rig is a control plane, a payload and an approver of every kubelet's certificate request.
type rig struct {
	t     *testing.T
	cp    *controlplane.ControlPlane
	api   kubernetes.Interface
	store *payload.Store
	key   ssh.Signer
}

func newRig(t *testing.T) *rig {
	t.Helper()
	cp := controlplane.StartForTest(t, controlplane.Options{})
	api, err := kubernetes.NewForConfig(cp.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	store, err := standin.Generate(t.TempDir(), 0.0001)
	if err != nil {
		t.Fatal(err)
	}
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, cp: cp, api: api, store: store, key: key}
	r.allowBootstrap()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.approve(ctx)
	}()
	t.Cleanup(func() { cancel(); <-done })
	return r
}

// allowBootstrap lets the tickets' group ask for client certificates, as config/rbac/bootstrap.yaml does.
func (r *rig) allowBootstrap() {
	r.t.Helper()
	ctx := r.t.Context()
	_, err := r.api.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ticketNamespace}}, metav1.CreateOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	_, err = r.api.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "bootstrap"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:node-bootstrapper"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "system:serviceaccounts:" + ticketNamespace}},
	}, metav1.CreateOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) ticket(name string) []byte {
	r.t.Helper()
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := r.api.CoreV1().ServiceAccounts(ticketNamespace).Create(r.t.Context(), sa, metav1.CreateOptions{}); err != nil {
		r.t.Fatal(err)
	}
	b, err := r.cp.ServiceAccountKubeconfig(r.t.Context(), ticketNamespace, name)
	if err != nil {
		r.t.Fatal(err)
	}
	return b
}

// approve approves every request until ctx ends.
func (r *rig) approve(ctx context.Context) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		list, err := r.api.CertificatesV1().CertificateSigningRequests().List(ctx, metav1.ListOptions{})
		if err != nil {
			continue
		}
		for _, csr := range list.Items {
			if len(csr.Status.Conditions) > 0 {
				continue
			}
			csr.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{
				Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Test", Message: "test",
			}}
			_, err := r.api.CertificatesV1().CertificateSigningRequests().UpdateApproval(ctx, csr.Name, &csr, metav1.UpdateOptions{})
			if err != nil && ctx.Err() == nil && !apierrors.IsConflict(err) {
				r.t.Errorf("approving %s: %v", csr.Name, err)
			}
		}
	}
}

// host makes a machine.
func (r *rig) host(name string) *hostsim.Host {
	r.t.Helper()
	h, err := hostsim.New(hostsim.Options{
		Hostname: name, AuthorizedKeys: []ssh.PublicKey{r.key.PublicKey()}, Agents: map[string]string{hostsim.Agent(agentFile()): "v0.1.0"},
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		if r.t.Failed() {
			r.explain(h)
		}
		h.Close()
	})
	return h
}

// explain logs what a machine of a failed test has to say.
func (r *rig) explain(h *hostsim.Host) {
	for _, path := range []string{plan.AgentRoot + `\journal.jsonl`, `C:\var\log\kubelet\kubelet.log`, `C:\var\log\containerd\containerd.log`} {
		b, err := h.Machine().ReadFile(path)
		r.t.Logf("%s: %v\n%s", path, err, b[max(0, len(b)-4000):])
	}
	for _, p := range h.Machine().Processes() {
		r.t.Logf("process %d %s %q", p.PID(), p.Exe(), p.Args())
	}
	for name, s := range h.Machine().Dump().Services {
		r.t.Logf("service %s: state %d", name, s.State)
	}
}

func (r *rig) dial(h *hostsim.Host) (*ssh.Client, error) {
	ip, port := h.Addr()
	return ssh.Dial("tcp", net.JoinHostPort(ip, strconv.Itoa(port)), &ssh.ClientConfig{
		User: "Administrator", Auth: []ssh.AuthMethod{ssh.PublicKeys(r.key)}, HostKeyCallback: ssh.InsecureIgnoreHostKey(), Timeout: 10 * time.Second,
	})
}

// plan is the whole plan for a machine.
func (r *rig) plan(h *hostsim.Host) plan.Plan {
	ip, _ := h.Addr()
	return wholePlan(r.t, r.store, ip, r.cp.CA())
}

// apply uploads the agent and the payload and hands a plan over, without waiting for it.
func (r *rig) apply(h *hostsim.Host, p plan.Plan, generation int64, secrets map[string][]byte) error {
	c, err := r.dial(h)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	agent := plan.AgentPath(hostsim.Agent(agentFile()))
	if err := putAgent(c, agent); err != nil {
		return err
	}
	if err := r.stage(c, agent, p.Blobs()); err != nil {
		return err
	}
	envelope, err := json.Marshal(plan.Envelope{APIVersion: plan.EnvelopeVersion, Host: "host-uid", Generation: generation, Plan: p, Secrets: secrets})
	if err != nil {
		return err
	}
	err = command(c, agent+" apply --json --follow=false", bytes.NewReader(envelope))
	if errors.As(err, new(*ssh.ExitMissingError)) {
		return nil // the agent's service was quick: its network cut this connection
	}
	return err
}

func putAgent(c *ssh.Client, agent string) error {
	s, err := sftp.NewClient(c)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	at := "/" + strings.ReplaceAll(agent, `\`, "/")
	if _, err := s.Stat(at); err == nil {
		return nil
	}
	if err := s.MkdirAll(path.Dir(at)); err != nil {
		return err
	}
	f, err := s.Create(at)
	if err != nil {
		return err
	}
	if _, err := f.Write(agentFile()); err != nil {
		return err
	}
	return f.Close()
}

func command(c *ssh.Client, line string, stdin io.Reader) error {
	s, err := c.NewSession()
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	var stdout, stderr bytes.Buffer
	s.Stdin, s.Stdout, s.Stderr = stdin, &stdout, &stderr
	if err := s.Start(line); err != nil {
		return err
	}
	if err := s.Wait(); err != nil {
		return errors.Join(err, errors.New(line+": "+stdout.String()+stderr.String()))
	}
	return nil
}

// stage sends the blobs through `wmcb receive`.
func (r *rig) stage(c *ssh.Client, agent string, digests []string) error {
	s, err := c.NewSession()
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	stdin, err := s.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := s.StdoutPipe()
	if err != nil {
		return err
	}
	if err := s.Start(agent + " receive"); err != nil {
		return err
	}
	var offer payload.Offer
	for _, d := range digests {
		b, _ := r.store.Blob(d)
		offer.Blobs = append(offer.Blobs, payload.OfferedBlob{SHA256: d, Size: b.Size})
	}
	if err := payload.WriteMessage(stdin, offer); err != nil {
		return err
	}
	lines := bufio.NewReader(stdout)
	line, err := payload.ReadLine(lines, payload.MaxMessage)
	if err != nil {
		return err
	}
	need, _, ok := payload.ParseAnswer(line)
	if !ok || need == nil {
		return errors.New("receive answered " + string(line))
	}
	if len(need.Need) > 0 {
		if err := payload.WriteFrames(stdin, r.store, *need, nil); err != nil {
			return err
		}
	}
	if err := stdin.Close(); err != nil && !errors.Is(err, io.EOF) { // the agent may have ended already
		return err
	}
	return s.Wait()
}

// ready returns the Ready condition of a node, nil when there is none.
func (r *rig) ready(name string) *corev1.NodeCondition {
	n, err := r.api.CoreV1().Nodes().Get(r.t.Context(), strings.ToLower(name), metav1.GetOptions{})
	if err != nil {
		return nil
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return &c
		}
	}
	return nil
}

func (r *rig) isReady(name string) bool {
	c := r.ready(name)
	return c != nil && c.Status == corev1.ConditionTrue
}

func (r *rig) eventually(what string, within time.Duration, ok func() bool) {
	r.t.Helper()
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline.C:
			r.t.Fatalf("%s: not within %s", what, within)
		case <-tick.C:
		}
	}
}
