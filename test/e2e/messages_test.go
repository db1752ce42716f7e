package e2e

import (
	"bytes"
	"fmt"
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/agent/system/fake"
	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/plan"
	"github.com/windowsmachine/operator/test/bed"
	"github.com/windowsmachine/operator/test/golden"
	"github.com/windowsmachine/operator/test/hostsim"
)

// scene is a host in trouble.
type scene struct {
	*rig
	m    *machine
	host *v1alpha1.WindowsHost
	// names are what a golden file calls things that differ from run to run.
	names map[string]string
	// repair ends the trouble, nil where there is nothing that could.
	repair func()
}

// call has name stand in golden files for what differs.
func (s *scene) call(what, name string) { s.names[what] = name }

// trouble is why a host does not become Ready, and what repairs it.
type trouble struct {
	reason string
	// set makes the trouble, before the host is created.
	set func(s *scene)
}

func troubles() map[string]trouble {
	return map[string]trouble{
		"wrong-key":                {v1alpha1.ReasonAuthenticationFailed, wrongKey},
		"closed-port":              {v1alpha1.ReasonUnreachable, closedPort},
		"nobody-listens":           {v1alpha1.ReasonUnreachable, nobodyListens},
		"says-nothing":             {v1alpha1.ReasonUnreachable, saysNothing},
		"small-disk":               {v1alpha1.ReasonPreflightFailed, smallDisk},
		"disk-fills-while-staging": {v1alpha1.ReasonStagingFailed, diskFillsWhileStaging},
		"disk-fills-in-a-step":     {v1alpha1.ReasonStepFailed, diskFillsInAStep},
		"no-ignition":              {v1alpha1.ReasonIgnitionMissing, noIgnition},
		"no-profile":               {v1alpha1.ReasonProfileMissing, noProfile},
		"strict-without-keys":      {v1alpha1.ReasonHostKeyUnknown, strictWithoutKeys},
		"no-secret":                {v1alpha1.ReasonCredentialsMissing, noSecret},
		"secret-without-key":       {v1alpha1.ReasonCredentialsMissing, secretWithoutKey},
		"secret-with-public-key":   {v1alpha1.ReasonCredentialsInvalid, secretWithPublicKey},
		"other-namespace":          {v1alpha1.ReasonNotAllowed, otherNamespace},
	}
}

// TestTroubles: what an admin reads names the object, the failing step, why, and the way out; once the cause is repaired the host becomes
// Ready by itself.
func TestTroubles(t *testing.T) {
	t.Parallel()
	for name, tc := range troubles() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, run.calm)
			s := &scene{rig: r, m: r.machine("trouble"), names: map[string]string{}}
			_, port := s.m.Addr()
			s.call(s.m.name, "HOST")
			s.call(s.m.ip, "ADDRESS")
			s.call(strconv.Itoa(port), "PORT")
			s.host = hostOf(s.m)
			tc.set(s)
			s.join(s.host)
			h := s.untilReason(client.ObjectKeyFromObject(s.host), tc.reason)
			s.golden(name, h)
			if s.repair == nil {
				return
			}
			began := time.Now()
			s.repair()
			s.untilReady(h.Name)
			s.took("repaired to Ready", began)
		})
	}
}

// golden compares what the object and its events say, and that `kubectl describe` shows all of it.
func (s *scene) golden(name string, h *v1alpha1.WindowsHost) {
	s.t.Helper()
	var shown bytes.Buffer
	var texts []string
	sorted := slices.SortedFunc(slices.Values(h.Status.Conditions), func(a, b metav1.Condition) int { return strings.Compare(a.Type, b.Type) })
	for _, c := range sorted {
		if c.Status == metav1.ConditionTrue && c.Type != v1alpha1.ConditionDeleting {
			continue
		}
		fmt.Fprintf(&shown, "%s=%s %s\n    %s\n", c.Type, c.Status, c.Reason, c.Message)
		texts = append(texts, c.Message)
	}
	ready := meta.FindStatusCondition(h.Status.Conditions, v1alpha1.ConditionReady)
	var events []corev1.Event
	s.until("an event tells "+ready.Reason, func() (bool, string) {
		events = s.events(h, ready.Reason)
		return len(events) > 0, "no event"
	})
	fmt.Fprintf(&shown, "event %s %s\n    %s\n", events[0].Type, events[0].Reason, events[0].Message)
	texts = append(texts, events[0].Reason+" ", events[0].Message)

	description := s.kubectl("describe", "winhost", "-n", h.Namespace, h.Name)
	for _, text := range texts {
		if !strings.Contains(description, text) {
			s.t.Errorf("kubectl describe does not show %q:\n%s", text, description)
		}
	}
	golden.Equal(s.t, filepath.Join("testdata", name+".golden"), []byte(s.normal(shown.String())))
}

// replacements are for what no test knows beforehand.
var replacements = []struct {
	what *regexp.Regexp
	by   string
}{
	{regexp.MustCompile(`SHA256:[A-Za-z0-9+/]{43}`), "FINGERPRINT"},
	{regexp.MustCompile(`\b[0-9a-f]{64}\b`), "DIGEST"},
	{regexp.MustCompile(`\bplan [0-9a-f]{8}\b`), "plan PLAN"},
	// Which file no longer fits depends on when the disk became full.
	{regexp.MustCompile(`\\tmp\\[0-9a-f]{32}`), `\tmp\TEMPORARY`},
	{regexp.MustCompile(`applying file C:\S+\.exe`), "applying file FILE"},
	{regexp.MustCompile(`frame \d+`), "frame N"},
}

// normal replaces what differs from run to run.
func (s *scene) normal(text string) string {
	var pairs []string
	for what := range s.names {
		pairs = append(pairs, what)
	}
	// The longest first, since one may be a part of another.
	slices.SortFunc(pairs, func(a, b string) int { return len(b) - len(a) })
	for _, what := range pairs {
		text = strings.ReplaceAll(text, what, s.names[what])
	}
	for _, r := range replacements {
		text = r.what.ReplaceAllString(text, r.by)
	}
	return text
}

// ownSecret gives the host a Secret of its own.
func (s *scene) ownSecret(data map[string][]byte) *corev1.Secret {
	s.t.Helper()
	secret := keySecret(unique("key"), nil)
	secret.Data = data
	s.create(secret)
	withSecret(secret.Name)(s.host)
	s.call(secret.Name, "SECRET")
	return secret
}

// rightKey puts into the Secret what logs in.
func (s *scene) rightKey(secret *corev1.Secret) func() {
	return func() {
		change(s.rig, secret, func(o *corev1.Secret) { o.Data = map[string][]byte{"private-key.pem": s.bed.PrivateKey()} })
	}
}

func wrongKey(s *scene) {
	private, _ := newKey(s.t, "another")
	s.repair = s.rightKey(s.ownSecret(map[string][]byte{"private-key.pem": private}))
}

func secretWithoutKey(s *scene) {
	s.repair = s.rightKey(s.ownSecret(map[string][]byte{"id_ed25519": s.bed.PrivateKey()}))
}

func secretWithPublicKey(s *scene) {
	_, public := newKey(s.t, "x")
	s.repair = s.rightKey(s.ownSecret(map[string][]byte{"private-key.pem": ssh.MarshalAuthorizedKey(public)}))
}

func noSecret(s *scene) {
	name := unique("key")
	withSecret(name)(s.host)
	s.call(name, "SECRET")
	s.repair = func() { s.create(keySecret(name, s.bed.PrivateKey())) }
}

func closedPort(s *scene) {
	// The port stays ours, so that nobody else answers there; a port that is bound and not listened at refuses.
	closed, err := net.ListenPacket("udp", net.JoinHostPort(s.m.ip, "0"))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = closed.Close() })
	port := closed.LocalAddr().(*net.UDPAddr).Port
	s.host.Spec.Port = int32(port)
	s.call(strconv.Itoa(port), "CLOSED-PORT")
	s.repair = func() {
		_, right := s.m.Addr()
		change(s.rig, s.host, func(h *v1alpha1.WindowsHost) { h.Spec.Port = int32(right) })
	}
}

// nobodyListens is a machine that is switched off.
func nobodyListens(s *scene) {
	s.m.Machine().PowerCut(fake.TearZeros)
	s.repair = func() {
		if err := s.m.Machine().PowerOn(s.ctx); err != nil {
			s.t.Error(err)
		}
	}
}

// saysNothing is a machine whose SSH service takes connections and hangs.
func saysNothing(s *scene) {
	s.m.SetKnobs(hostsim.Knobs{Hang: true})
	s.repair = func() { s.m.SetKnobs(hostsim.Knobs{}) }
}

func smallDisk(s *scene) {
	s.m.Machine().FillDisk(200 << 20)
	s.repair = func() { s.m.Machine().FillDisk(-1) }
}

// fillDiskAt fills the disk as soon as a write of the agent matches. From that moment to the one when the disk is full, what would not fit
// is refused in its stead, since a machine cannot be changed in the middle of a write.
func (s *scene) fillDiskAt(match func(fake.Op) bool) {
	full := make(chan struct{})
	done := make(chan struct{})
	filled := false
	s.m.Machine().Intercept(func(op fake.Op) fake.Verdict {
		if !filled && match(op) {
			filled = true
			close(full)
			return fake.Verdict{}
		}
		if filled && op.Kind == fake.OpWrite && len(op.Data) > 16<<10 {
			return fake.Verdict{Err: &fake.Error{Op: "write", Name: op.Path, Code: 112, Err: system.ErrDiskFull}}
		}
		return fake.Verdict{}
	})
	go func() {
		defer close(done)
		select {
		case <-full:
			// A little is left, as on a real disk that is full: the journal still has room.
			s.m.Machine().FillDisk(64 << 10)
			s.m.Machine().Intercept(nil)
		case <-s.ctx.Done():
		}
	}()
	s.t.Cleanup(func() { <-done })
	s.repair = func() { s.m.Machine().FillDisk(-1) }
}

func ofJournal(op fake.Op) bool { return strings.EqualFold(op.Path, journalFile) }

func diskFillsWhileStaging(s *scene) {
	s.m.SetKnobs(hostsim.Knobs{Bandwidth: 1 << 20})
	s.fillDiskAt(func(op fake.Op) bool {
		return op.Kind == fake.OpWrite && strings.HasPrefix(op.Path, plan.AgentRoot+`\blobs`)
	})
}

func diskFillsInAStep(s *scene) {
	s.fillDiskAt(func(op fake.Op) bool {
		return op.Kind == fake.OpWrite && ofJournal(op) &&
			bytes.Contains(op.Data, []byte(`"`+plan.StepFiles+`"`)) && bytes.Contains(op.Data, []byte(`"StepStarted"`))
	})
}

func noIgnition(s *scene) {
	port, err := s.bed.Port()
	if err != nil {
		s.t.Fatal(err)
	}
	p := customProfile(port)
	p.Name = unique("ignition")
	p.Spec.Ignition = &v1alpha1.IgnitionSpec{ConfigMapName: unique("worker")}
	s.create(p)
	withProfile(p.Name)(s.host)
	s.call(p.Name, "PROFILE")
	s.call(p.Spec.Ignition.ConfigMapName, "CONFIGMAP")
	const ignition = `{"ignition":{"version":"3.2.0"},"systemd":{"units":[{"name":"kubelet.service","contents":"[Service]\nExecStart=/usr/bin/kubelet --v=3\n"}]}}`
	s.repair = func() {
		s.create(&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: bed.Namespace, Name: p.Spec.Ignition.ConfigMapName}, Data: map[string]string{"worker.ign": ignition},
		})
	}
}

func noProfile(s *scene) {
	name := unique("profile")
	withProfile(name)(s.host)
	s.call(name, "PROFILE")
	s.repair = func() {
		port, err := s.bed.Port()
		if err != nil {
			s.t.Fatal(err)
		}
		p := customProfile(port)
		p.Name = name
		s.create(p)
	}
}

func strictWithoutKeys(s *scene) {
	s.host.Spec.HostKeys = nil
	s.repair = func() {
		change(s.rig, s.host, func(h *v1alpha1.WindowsHost) { h.Spec.HostKeys = []string{s.m.HostKey()} })
	}
}

func otherNamespace(s *scene) {
	s.host.Namespace = "default"
}

// TestHostKeyChanged: a machine that suddenly shows another key is left alone until a person has acted, and its Node is not counted as Ready.
func TestHostKeyChanged(t *testing.T) {
	t.Parallel()
	r := newRig(t, run.calm)
	p := r.ownProfile(v1alpha1.NetworkCustom)
	s := &scene{rig: r, m: r.machine("swapped"), names: map[string]string{}}
	s.call(s.m.name, "HOST")
	s.call(s.m.ip, "ADDRESS")
	s.host = r.join(hostOf(s.m, withProfile(p.Name)))
	r.untilReady(s.m.name)

	key, err := hostsim.NewHostKey()
	if err != nil {
		t.Fatal(err)
	}
	s.m.SetHostKey(key)
	s.m.Disconnect()
	// Something to do for the operator, so that it connects.
	change(r, p, louder)
	h := r.untilReason(client.ObjectKeyFromObject(s.host), v1alpha1.ReasonHostKeyChanged)
	s.golden("host-key-changed", h)

	before := s.m.Stats()
	for range 5 {
		change(r, s.host, func(h *v1alpha1.WindowsHost) { h.Spec.Paused = true })
		r.until("a pass has seen the pause", func() (bool, string) { return r.seen(s.host) })
		change(r, s.host, func(h *v1alpha1.WindowsHost) { h.Spec.Paused = false })
		r.untilReason(client.ObjectKeyFromObject(s.host), v1alpha1.ReasonHostKeyChanged)
	}
	after := s.m.Stats()
	if after.Connections != before.Connections || len(after.Commands) != len(before.Commands) {
		t.Errorf("there were %d connections and %d commands, then %d and %d", before.Connections, len(before.Commands), after.Connections, len(after.Commands))
	}
	t.Logf("%d connections in all, %d after ten more passes", before.Connections, after.Connections-before.Connections)

	change(r, s.host, func(h *v1alpha1.WindowsHost) { h.Spec.HostKeys = []string{s.m.HostKey()} })
	r.untilLouder(s.m)
}

// seen reports whether the newest generation was looked at.
func (r *rig) seen(h *v1alpha1.WindowsHost) (bool, string) {
	r.t.Helper()
	now := r.get(h.Name)
	return now.Status.ObservedGeneration == now.Generation, state(now)
}

// louder changes the plan, without other programs.
func louder(p *v1alpha1.WindowsNodeProfile) { p.Spec.Kubelet.Verbosity = ptr.To(int32(5)) }

// untilLouder waits until the machine has the plan that louder makes.
func (r *rig) untilLouder(m *machine) {
	r.t.Helper()
	r.until("the kubelet of "+m.name+" runs with the new plan", func() (bool, string) {
		h := r.get(m.name)
		args := m.Machine().Dump().Services["kubelet"].Config.Args
		return isReady(h) && h.Status.Plan.Applied == h.Status.Plan.Digest && slices.Contains(args, "--v=5"), fmt.Sprintf("%s, %q", state(h), args)
	})
}

// ownProfile is a profile of that network mode, for a test that changes it.
func (r *rig) ownProfile(mode v1alpha1.NetworkMode) *v1alpha1.WindowsNodeProfile {
	r.t.Helper()
	port, err := r.bed.Port()
	if err != nil {
		r.t.Fatal(err)
	}
	p := customProfile(port)
	if mode == v1alpha1.NetworkL2Bridge {
		p = bridgeProfile(port)
	}
	p.Name = unique("own")
	r.create(p)
	return p
}

// TestCleaningFailed: a host that is deleted while its machine cannot be reached says so, and how to go on without.
func TestCleaningFailed(t *testing.T) {
	t.Parallel()
	r := newRig(t, run.calm)
	s := &scene{rig: r, m: r.machine("stuck"), names: map[string]string{}}
	_, port := s.m.Addr()
	s.call(s.m.name, "HOST")
	s.call(s.m.ip, "ADDRESS")
	s.call(strconv.Itoa(port), "PORT")
	s.host = r.join(hostOf(s.m))
	h := r.untilReady(s.m.name)
	s.m.Machine().PowerCut(fake.TearZeros)
	r.kubectl("delete", "winhost", "-n", bed.Namespace, h.Name, "--wait=false")
	h = r.untilReason(client.ObjectKeyFromObject(h), v1alpha1.ReasonCleaningFailed)
	s.golden("cleaning-failed", h)

	// The way out that the message names.
	r.kubectl("annotate", "winhost", "-n", bed.Namespace, h.Name, v1alpha1.SkipCleaningAnnotation+"=true")
	r.until("the host is gone", func() (bool, string) { return !r.exists(bed.Namespace, h.Name, h), state(h) })
	if n := (&corev1.Node{}); r.exists("", h.Status.Node.Name, n) {
		t.Error("the Node is still there")
	}
}
