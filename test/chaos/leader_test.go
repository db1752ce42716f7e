package chaos

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windowsmachine/operator/pkg/agent"
	"github.com/windowsmachine/operator/pkg/agent/system/fake"
	"github.com/windowsmachine/operator/pkg/host"
	"github.com/windowsmachine/operator/pkg/plan"
	"github.com/windowsmachine/operator/pkg/ticket"
	"github.com/windowsmachine/operator/pkg/transport"
	"github.com/windowsmachine/operator/pkg/transport/ssh"
	"github.com/windowsmachine/operator/test/bed"
	"github.com/windowsmachine/operator/test/hostsim"
)

// phase is a moment of a first configure. A held one lasts until the row lets go: the connection is silent from then on.
type phase struct {
	name string
	at   func() func(fake.Op, *plan.Entry) bool
	held bool
}

func phases(blobs int) []phase {
	return []phase{
		{"staging", func() func(fake.Op, *plan.Entry) bool { return stores(2) }, true},
		{"hand-over", func() func(fake.Op, *plan.Entry) bool { return stores(blobs) }, true},
		{"applying", func() func(fake.Op, *plan.Entry) bool { return begins(agent.CodeStepStarted, plan.StepFiles, 1) }, true},
		{"certificate", func() func(fake.Op, *plan.Entry) bool {
			return begins(agent.CodeStepStarted, plan.ServiceStep("kubelet"), 1)
		}, false},
		{"second plan", func() func(fake.Op, *plan.Entry) bool { return begins(agent.CodeAccepted, "", 2) }, false},
	}
}

// midway brings a machine to each of the phases, those that can be held first, and returns at the moment when the last one is there.
func (l *line) midway(prefix string, blobs int, last string) (machines []*machine, release func()) {
	l.t.Helper()
	var held []*machine
	for _, p := range phases(blobs) {
		if !p.held && p.name != last {
			continue
		}
		m := l.machine(fmt.Sprintf("%s-%d", prefix, len(machines)), at(p.at())).join()
		m.untilHit()
		if p.held {
			m.SetKnobs(hostsim.Knobs{Hang: true})
			held = append(held, m)
		}
		machines = append(machines, m)
	}
	return machines, func() {
		for _, m := range held {
			m.SetKnobs(hostsim.Knobs{})
		}
	}
}

// rule is what goes wrong with operators and the API server, one after the other.
func (l *line) rule(first *bed.Operator) {
	blobs := len(l.accepted("calm").Blobs())
	second := l.operator("second")

	machines, release := l.midway("killed", blobs, "certificate")
	l.must(first.Kill())
	release()
	l.leads(second)
	l.each(machines, "operator killed, another takes over")

	third := l.operator("third")
	machines, release = l.midway("stopped", blobs, "second plan")
	l.must(second.Stop())
	release()
	<-second.Done()
	l.leads(third)
	l.each(machines, "operator told to stop, another takes over")

	machines, release = l.midway("api", blobs, "certificate")
	l.must(l.bed.RestartAPIServer(l.ctx))
	release()
	l.each(machines, "API server restarted")

	l.wakes(third, blobs)
}

func (l *line) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *line) each(machines []*machine, kind string) {
	l.t.Helper()
	for _, m := range machines {
		m.settled(kind, 0)
	}
}

func (l *line) accepted(name string) plan.Plan {
	l.t.Helper()
	h, ok := l.bed.Host(name)
	if !ok {
		l.t.Fatalf("there is no machine %s", name)
	}
	p, _ := (&machine{Host: h, l: l, name: name}).accepted()
	return p
}

// wakes stops the leader where it stands, has another one take over, and wakes the old one.
func (l *line) wakes(old *bed.Operator, blobs int) {
	young := l.operator("young")
	machines, release := l.midway("slept", blobs, "second plan")
	l.must(old.Pause())
	release()
	l.leads(young)
	l.each(machines, "operator suspended, another takes over")
	var before []int64
	for _, m := range machines {
		_, g := m.accepted()
		before = append(before, g)
	}

	// The host of the last one goes while the old leader sleeps; who has its node's certificate asks for another one.
	gone := machines[len(machines)-1]
	h, err := gone.host()
	l.must(err)
	node := h.Status.Node.Name
	l.must(l.bed.Client.Delete(l.ctx, h))
	l.until("the host is gone", func() (bool, string) {
		_, err := gone.host()
		return client.IgnoreNotFound(err) == nil && err != nil, gone.state()
	})
	l.must(young.Pause())
	request := l.ask(node)
	l.must(old.Resume())
	l.until("the old leader ends by itself", func() (bool, string) {
		select {
		case <-old.Done():
			return true, ""
		default:
			return false, "it runs on"
		}
	})
	ready := true
	got := &certificatesv1.CertificateSigningRequest{}
	l.must(l.bed.Client.Get(l.ctx, client.ObjectKey{Name: request}, got))
	if len(got.Status.Conditions) > 0 {
		ready = false
		l.t.Errorf("the old leader decided about a request of a host that is gone: %+v", got.Status.Conditions)
	}
	l.must(young.Resume())
	for i, m := range machines[:len(machines)-1] {
		if _, g := m.accepted(); g < before[i] {
			ready = false
			l.t.Errorf("%s went back from plan %d to plan %d", m.name, before[i], g)
		}
	}
	matrix.row("old leader wakes up, approves nothing", ready, 0)
	l.fenced(machines[0])
}

// ask sends a request for the client certificate of a node, as that node.
func (l *line) ask(node string) string {
	l.t.Helper()
	l.must(l.request("late-"+node, node, ""))
	return "late-" + node
}

// request sends a request of that name for the client certificate of a node, as that node, or as somebody else who may send requests.
func (l *line) request(name, node, user string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	cn := "system:node:" + node
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: cn, Organization: []string{"system:nodes"}},
	}, key)
	if err != nil {
		return err
	}
	groups := []string{"system:nodes"}
	if user != "" {
		groups = []string{"system:serviceaccounts:" + ticket.Namespace}
	}
	config, err := l.bed.UserConfig(cmp.Or(user, cn), groups...)
	if err != nil {
		return err
	}
	c, err := client.New(config, client.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		return err
	}
	return c.Create(l.ctx, &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName,
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
		},
	})
}

// fenced hands over, with the operator's own hands and key, what a leader would that was suspended in the middle of it: an older plan, and the same plan
// with an order from before.
func (l *line) fenced(m *machine) {
	p, generation := m.accepted()
	h, err := m.host()
	l.must(err)
	older := p
	older.Services = nil
	envelope := plan.Envelope{APIVersion: plan.EnvelopeVersion, Host: string(h.UID), Order: 1, Generation: generation, Plan: p}
	before := envelope
	before.Generation, before.Plan = generation-1, older
	ok := true
	for code, e := range map[string]plan.Envelope{agent.CodeGenerationOld: before, agent.CodeOrderOld: envelope} {
		var refusal *host.Refusal
		if err := l.handOver(m, e); !errors.As(err, &refusal) || refusal.Code != code {
			ok = false
			l.t.Errorf("an older hand-over was answered with %v, want %s", err, code)
		}
	}
	if _, now := m.accepted(); now != generation {
		ok = false
		l.t.Errorf("the machine has plan %d, had %d", now, generation)
	}
	ready, saw := m.isReady()
	if !ready {
		l.t.Errorf("%s is not Ready after it: %s", m.name, saw)
	}
	matrix.row("older plan handed over by an old leader", ok && ready, 0)
}

// handOver is a verb of an operator's that nobody knows of.
func (l *line) handOver(m *machine, e plan.Envelope) error {
	ip, port := m.Addr()
	pool := host.NewPool(host.Config{
		Dialer: &ssh.Dialer{}, Agent: host.AgentBinary{Digest: hostsim.Agent([]byte("stands for the agent"))},
	})
	defer pool.Close()
	s := pool.Session("old")
	if !s.Start(host.VerbApply, host.Args{
		Target: transport.Target{
			Address: ip, Port: port, User: "Administrator", PrivateKeys: [][]byte{l.bed.PrivateKey()}, Verify: func(transport.HostKey) error { return nil },
		},
		Envelope: e,
	}) {
		l.t.Fatal("the verb did not start")
	}
	l.until("the agent answers", func() (bool, string) { return s.Snapshot().Busy == "", "busy" })
	return s.Snapshot().Last[host.VerbApply].Err
}
