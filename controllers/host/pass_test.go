package host

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windowsmachine/operator/pkg/agent"
	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/facts"
	"github.com/windowsmachine/operator/pkg/host"
	"github.com/windowsmachine/operator/pkg/plan"
	"github.com/windowsmachine/operator/pkg/planner"
	"github.com/windowsmachine/operator/pkg/transport"
)

func at() time.Time { return time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC) }

func aKey(s string) transport.HostKey {
	return transport.HostKey{Algorithm: "ssh-ed25519", Key: []byte(s), Fingerprint: "SHA256:" + s}
}

const ca = `-----BEGIN CERTIFICATE-----
MIIBgTCCASegAwIBAgIUXe3gSDWvXhkBVFbmqu4Gq4kSwwQwCgYIKoZIzj0EAwIw
-----END CERTIFICATE-----
`

// aView is a host that has just been made by hand, with its key in the spec, as everything looks before the first connection.
func aView(edits ...func(*view)) view {
	v := view{
		settings: settings{namespace: "wmo", payload: aPayload()},
		now:      at(),
		host: &v1alpha1.WindowsHost{
			ObjectMeta: metav1.ObjectMeta{Namespace: "wmo", Name: "win-a", UID: "uid-a", Generation: 1, CreationTimestamp: metav1.NewTime(at().Add(-time.Minute))},
			Spec: v1alpha1.WindowsHostSpec{
				Address: "192.0.2.10", Username: "Administrator", ProfileRef: v1alpha1.ProfileReference{Name: "default"},
				HostKeys: []string{formatPin(aKey("one"))},
			},
		},
		profile: &v1alpha1.WindowsNodeProfile{
			ObjectMeta: metav1.ObjectMeta{Name: "default"},
			Spec: v1alpha1.WindowsNodeProfileSpec{
				Connection: v1alpha1.ConnectionSpec{Port: 22},
				Trust:      v1alpha1.TrustSpec{HostKeyPolicy: v1alpha1.HostKeyStrict},
				Network:    v1alpha1.NetworkSpec{Mode: v1alpha1.NetworkNone, Name: "windowsmachine"},
			},
		},
		cluster: &facts.Discovered{Cluster: facts.Cluster{
			APIServer: "https://api.example.test:6443", APIServerCA: []byte(ca), KubeletClientCA: []byte(ca),
			ClusterDNS: []string{"10.96.0.10"}, ClusterDomain: "cluster.local", PodCIDRs: []string{"10.244.0.0/16"}, ServiceCIDRs: []string{"10.96.0.0/16"},
		}},
		creds: credentials{secret: "key", keys: [][]byte{[]byte("k")}},
		snap:  host.Snapshot{Last: map[host.Verb]host.Outcome{}},
	}
	for _, e := range edits {
		e(&v)
	}
	v.before = *v.host.Status.DeepCopy()
	return v
}

func aPayload() payloadIndex {
	x := payloadIndex{}
	for i, name := range append(planner.Needs(planner.Network{Mode: planner.ModeL2Bridge}), planner.BlobCrictl) {
		version := "v1.37.2"
		if strings.HasPrefix(name, "containerd") {
			version = "2.4.2"
		}
		x[name] = planner.Blob{SHA256: fmt.Sprintf("%064x", i+1), Size: 1 << 20, Version: version}
	}
	return x
}

// connected is after the first VerbFacts.
func connected(v *view) {
	v.snap.Connected, v.snap.HostKey = true, aKey("one")
	v.snap.FactsAt = at().Add(-time.Second)
	v.snap.Facts = &plan.HostFacts{
		APIVersion: plan.FactsVersion, Hostname: "WIN-A", Build: 20348, UBR: 2340, Elevated: true, BootID: "b1", Time: at().Add(-time.Second),
		FreeDisk: 80 << 30, Features: []string{"Containers"}, Capabilities: []string{plan.CapabilityBase, plan.CapabilityNetwork},
		Addresses: []plan.AdapterAddress{{Adapter: "Ethernet", Prefix: "192.0.2.10/24", Default: true, Usable: true}},
		API:       &plan.ProbeResult{Code: plan.ProbeOK},
		Report:    plan.Report{APIVersion: plan.ReportVersion, Phase: plan.PhaseIdle, BootID: "b1"},
	}
}

func named(v *view) {
	v.host.Status.Node = &v1alpha1.NodeStatus{Name: "win-a", ManagementIP: "192.0.2.10"}
}

// loaded holds every blob.
func loaded(v *view) { v.snap.Facts.HaveBlobs = v.payload.digests() }

// recorded puts the plan that a pass computes on record, with a report of the agent about it.
func recorded(r plan.Report) func(*view) {
	return func(v *view) {
		p := walk(*v)
		s := p.status()
		v.host.Status.Plan = s.Plan
		r.APIVersion, r.Host, r.Digest, r.Generation, r.BootID = plan.ReportVersion, string(v.host.UID), s.Plan.Digest, s.Plan.Generation, "b1"
		v.snap.Report = &r
	}
}

func registered(v *view) {
	v.host.Status.Node.UID = "node-uid"
	v.node = &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "win-a", UID: "node-uid", Annotations: map[string]string{v1alpha1.HostUIDAnnotation: "uid-a"}},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
}

// ticketed has a ticket that was issued a moment ago.
func ticketed(v *view) {
	v.host.Status.Ticket = &v1alpha1.TicketStatus{ServiceAccount: "a", ID: "1", Expires: metav1.NewTime(at().Add(29 * time.Minute))}
}

func failed(verb host.Verb, err error, failures int) func(*view) {
	return func(v *view) {
		v.snap.Last[verb] = host.Outcome{Verb: verb, Err: err, At: at().Add(-time.Hour), Failures: failures}
	}
}

func firstUse(v *view) {
	v.host.Spec.HostKeys = nil
	v.profile.Spec.Trust.HostKeyPolicy = v1alpha1.HostKeyTrustOnFirstUse
}

func ofMachine(age time.Duration) func(*view) {
	return func(v *view) {
		v.host.Spec.MachineRef = &v1alpha1.MachineReference{Namespace: "openshift-machine-api", Name: "win-a", UID: "m"}
		t := metav1.NewTime(at().Add(-age))
		v.host.Status.MachineProvisioned = &t
	}
}

func walk(v view) *pass {
	p := &pass{view: v}
	p.run()
	return p
}

func readyOf(p *pass) metav1.Condition {
	s := p.status()
	return *meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionReady)
}

func running(step string, index, total int) plan.Report {
	return plan.Report{Phase: plan.PhaseRunning, Step: step, Index: index, Total: total, Seq: 7}
}

// TestLine walks the line phase by phase: what is said and what is started.
func TestLine(t *testing.T) {
	refused := fmt.Errorf("%w: %w", transport.ErrHostKey, &keyError{key: aKey("two")})
	for name, c := range map[string]struct {
		view   view
		reason string
		verb   host.Verb
		// message is a part of Ready's message.
		message string
	}{
		"another namespace":        {aView(func(v *view) { v.host.Namespace = "default" }), v1alpha1.ReasonNotAllowed, "", "namespace wmo"},
		"loopback":                 {aView(func(v *view) { v.host.Spec.Address = "127.0.0.1" }), v1alpha1.ReasonNotAllowed, "", "loopback"},
		"loopback in IPv6 clothes": {aView(func(v *view) { v.host.Spec.Address = "::ffff:127.0.0.1" }), v1alpha1.ReasonNotAllowed, "", "loopback"},
		"loopback allowed":         {aView(func(v *view) { v.host.Spec.Address, v.allowLoopback = "127.0.1.1", true }), v1alpha1.ReasonConnecting, host.VerbFacts, ""},
		"paused":                   {aView(func(v *view) { v.host.Spec.Paused = true }), v1alpha1.ReasonPaused, "", "spec.paused"},
		"paused by annotation":     {aView(func(v *view) { v.host.Annotations = map[string]string{v1alpha1.PausedAnnotation: "true"} }), v1alpha1.ReasonPaused, "", ""},
		"no profile":               {aView(func(v *view) { v.profile = nil }), v1alpha1.ReasonProfileMissing, "", `"default"`},
		"facts not there yet":      {aView(func(v *view) { v.cluster = nil }), v1alpha1.ReasonNotChecked, "", ""},
		"a fact is missing": {aView(func(v *view) {
			v.cluster.Problems = []facts.Problem{{Reason: v1alpha1.ReasonIgnitionMissing, Message: "Secret x has no key worker.ign", Fatal: true}}
		}), v1alpha1.ReasonIgnitionMissing, "", "worker.ign"},
		"a fact is doubtful": {aView(func(v *view) {
			v.cluster.Problems = []facts.Problem{{Reason: v1alpha1.ReasonFactsDisagree, Message: "two sources"}}
		}), v1alpha1.ReasonConnecting, host.VerbFacts, ""},
		"no Secret":           {aView(func(v *view) { v.creds.problem = no(v1alpha1.ReasonCredentialsMissing, "Secret wmo/key") }), v1alpha1.ReasonCredentialsMissing, "", "Secret wmo/key"},
		"strict without keys": {aView(func(v *view) { v.host.Spec.HostKeys = nil }), v1alpha1.ReasonHostKeyUnknown, "", "spec.hostKeys"},
		"key is no key":       {aView(func(v *view) { v.host.Spec.HostKeys = []string{"ssh-ed25519 ???"} }), v1alpha1.ReasonHostKeyInvalid, "", "spec.hostKeys[0]"},
		"key changed":         {aView(failed(host.VerbFacts, refused, 1)), v1alpha1.ReasonHostKeyChanged, "", "SHA256:two"},
		"changed key accepted": {aView(failed(host.VerbFacts, refused, 1), func(v *view) {
			v.host.Spec.HostKeys = []string{formatPin(aKey("two"))}
		}), v1alpha1.ReasonAgentFailed, host.VerbFacts, ""},
		"first use":                    {aView(firstUse), v1alpha1.ReasonConnecting, host.VerbConnect, ""},
		"first use of a Machine":       {aView(firstUse, ofMachine(29*time.Minute)), v1alpha1.ReasonConnecting, host.VerbConnect, ""},
		"first use too late":           {aView(firstUse, ofMachine(31*time.Minute)), v1alpha1.ReasonTrustWindowClosed, "", "spec.hostKeys"},
		"before the first connection":  {aView(), v1alpha1.ReasonConnecting, host.VerbFacts, "192.0.2.10"},
		"key pinned just now":          {aView(firstUse, func(v *view) { v.snap.Connected, v.snap.HostKey = true, aKey("one") }), v1alpha1.ReasonConnecting, "", "asked what it is"},
		"connecting":                   {aView(func(v *view) { v.snap.Busy = host.VerbFacts }), v1alpha1.ReasonConnecting, "", ""},
		"unreachable":                  {aView(failed(host.VerbFacts, transport.ErrUnreachable, 2)), v1alpha1.ReasonUnreachable, host.VerbFacts, "firewall"},
		"wrong key":                    {aView(failed(host.VerbFacts, transport.ErrAuth, 2)), v1alpha1.ReasonAuthenticationFailed, host.VerbFacts, "administrators_authorized_keys"},
		"cut":                          {aView(failed(host.VerbFacts, transport.ErrDisconnected, 1)), v1alpha1.ReasonConnectionLost, host.VerbFacts, ""},
		"agent does not run":           {aView(failed(host.VerbFacts, &host.Refusal{Code: "AgentDidNotRun", Detail: "exit code 193"}, 1)), v1alpha1.ReasonAgentFailed, host.VerbFacts, "193"},
		"too old":                      {aView(connected, func(v *view) { v.snap.Facts.Build = 14393 }), v1alpha1.ReasonPreflightFailed, "", "14393"},
		"disk full before anything":    {aView(connected, func(v *view) { v.snap.Facts.FreeDisk = 1 << 20 }), v1alpha1.ReasonPreflightFailed, "", "free"},
		"name of somebody else's node": {aView(connected, named, func(v *view) { v.node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "win-a", UID: "x"}} }), v1alpha1.ReasonNodeConflict, "", "win-a"},
		"another host's machine":       {aView(connected, named, func(v *view) { v.rival = "win-b" }), v1alpha1.ReasonPlanRefused, "", "WindowsHost win-b"},
		"blobs to send":                {aView(connected, named), v1alpha1.ReasonStaging, host.VerbStage, "0%"},
		"blobs refused":                {aView(connected, named, failed(host.VerbStage, &host.Refusal{Code: agent.CodeDiskFull, Detail: "C:"}, 1)), v1alpha1.ReasonStagingFailed, host.VerbStage, "free space"},
		"plan to hand over":            {aView(connected, named, loaded), v1alpha1.ReasonApplying, host.VerbApply, "handing over"},
		"plan refused":                 {aView(connected, named, loaded, failed(host.VerbApply, &host.Refusal{Code: agent.CodeGenerationOld}, 1)), v1alpha1.ReasonPlanRefused, host.VerbApply, "another operator"},
		"step under way":               {aView(connected, named, loaded, recorded(running(plan.StepFiles, 4, 7))), v1alpha1.ReasonApplying, host.VerbFollow, "4/7 install-files"},
		"nobody carries the plan out": {
			aView(connected, named, loaded, ticketed, recorded(plan.Report{Phase: plan.PhaseFailed, Step: plan.StepFiles, Index: 4, Total: 7, Code: agent.CodeAgentStopped, Seq: 3})),
			v1alpha1.ReasonStepFailed, host.VerbApply, "starts the agent",
		},
		"a service of the plan ended": {
			aView(connected, named, loaded, ticketed, recorded(plan.Report{Phase: plan.PhaseFailed, Step: plan.ServiceStep("kubelet"), Index: 7, Total: 7, Code: agent.CodeServiceExited, Seq: 3})),
			v1alpha1.ReasonStepFailed, host.VerbFollow, "ServiceExited",
		},
		"step failed": {
			aView(connected, named, loaded, ticketed, recorded(plan.Report{Phase: plan.PhaseFailed, Step: plan.StepFiles, Index: 4, Total: 7, Code: agent.CodeDiskFull, Detail: "d", Seq: 3})),
			v1alpha1.ReasonStepFailed, host.VerbFollow, "step 4/7 install-files failed: DiskFull",
		},
		"ticket is missing": {
			aView(connected, named, loaded, recorded(plan.Report{Phase: plan.PhaseFailed, Step: plan.StepCredentials, Index: 1, Total: 7, Code: agent.CodeSecretMissing, Seq: 3})),
			v1alpha1.ReasonStepFailed, host.VerbApply, "SecretMissing",
		},
		"reboot": {
			aView(connected, named, loaded, recorded(plan.Report{Phase: plan.PhaseRebootNeeded, Step: plan.StepFeatures, Index: 2, Total: 7, Seq: 3})),
			v1alpha1.ReasonRebooting, host.VerbReboot, "2/7 enable-features",
		},
		"in sync, no node yet": {aView(connected, named, loaded, ticketed, recorded(plan.Report{Phase: plan.PhaseInSync, Total: 7, Seq: 3})), v1alpha1.ReasonWaitingForCertificate, "", "system:node:win-a"},
		"node not ready": {aView(connected, named, registered, func(v *view) {
			v.node.Status.Conditions[0] = corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Message: "cni plugin not initialized"}
		}, loaded, recorded(plan.Report{Phase: plan.PhaseInSync, Total: 7, Seq: 3})), v1alpha1.ReasonNodeNotReady, "", "cni plugin"},
		"ready": {aView(connected, named, registered, loaded, recorded(plan.Report{Phase: plan.PhaseInSync, Total: 7, Seq: 3})), v1alpha1.ReasonNodeReady, "", "win-a"},
		"a node's reboot waits": {
			aView(connected, named, registered, loaded, recorded(plan.Report{Phase: plan.PhaseRebootNeeded, Step: plan.StepFeatures, Index: 1, Total: 7, Seq: 3})),
			v1alpha1.ReasonRebootNeeded, "", "kubectl drain win-a",
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := walk(c.view)
			got := readyOf(p)
			if got.Reason != c.reason || !strings.Contains(got.Message, c.message) {
				t.Errorf("Ready is %s %q, want %s with %q", got.Reason, got.Message, c.reason, c.message)
			}
			if p.verb != c.verb {
				t.Errorf("started %q, want %q", p.verb, c.verb)
			}
			if (got.Status == metav1.ConditionTrue) != (c.reason == v1alpha1.ReasonNodeReady) {
				t.Errorf("Ready is %s for reason %s", got.Status, got.Reason)
			}
		})
	}
}

func TestReadyNodeStaysReadyWhileItCannotBeSeen(t *testing.T) {
	inSync := func(v *view) {
		recorded(plan.Report{Phase: plan.PhaseInSync, Total: 7, Seq: 3})(v)
		v.host.Status.Plan.Applied = v.host.Status.Plan.Digest
	}
	for name, c := range map[string]struct {
		edit func(*view)
		want metav1.ConditionStatus
	}{
		"unreachable": {func(v *view) {
			v.snap.Facts = nil
			failed(host.VerbFacts, transport.ErrUnreachable, 3)(v)
		}, metav1.ConditionTrue},
		"paused":      {func(v *view) { v.host.Spec.Paused = true }, metav1.ConditionTrue},
		"profile":     {func(v *view) { v.profile = nil }, metav1.ConditionTrue},
		"another key": {failed(host.VerbFacts, fmt.Errorf("%w: %w", transport.ErrHostKey, &keyError{key: aKey("two")}), 1), metav1.ConditionFalse},
		"node is not ready": {func(v *view) {
			v.snap.Facts = nil
			v.node.Status.Conditions[0].Status = corev1.ConditionUnknown
			failed(host.VerbFacts, transport.ErrUnreachable, 3)(v)
		}, metav1.ConditionFalse},
	} {
		t.Run(name, func(t *testing.T) {
			v := aView(connected, named, registered, loaded, inSync)
			c.edit(&v)
			if got := readyOf(walk(v)); got.Status != c.want {
				t.Errorf("Ready is %s (%s: %s), want %s", got.Status, got.Reason, got.Message, c.want)
			}
		})
	}
}

func TestGenerationGrowsPastWhatTheMachineHasSeen(t *testing.T) {
	for name, c := range map[string]struct {
		edits []func(*view)
		want  int64
	}{
		"first plan":                 {nil, 1},
		"machine had another's plan": {[]func(*view){func(v *view) { v.snap.Facts.Report.Generation = 7 }}, 8},
		"changed plan": {[]func(*view){func(v *view) {
			v.host.Status.Plan = &v1alpha1.PlanStatus{Digest: strings.Repeat("0", 64), Generation: 3}
		}}, 4},
		"changed plan, machine ahead": {[]func(*view){func(v *view) {
			v.host.Status.Plan = &v1alpha1.PlanStatus{Digest: strings.Repeat("0", 64), Generation: 3}
			v.snap.Facts.Report.Generation = 9
		}}, 10},
		"same plan": {[]func(*view){func(v *view) {
			v.host.Status.Plan = walk(*v).status().Plan
			v.host.Status.Plan.Generation = 5
		}}, 5},
	} {
		t.Run(name, func(t *testing.T) {
			p := walk(aView(append([]func(*view){connected, named, loaded}, c.edits...)...))
			if p.desired == nil || p.desired.generation != c.want {
				t.Fatalf("desired = %+v, want generation %d", p.desired, c.want)
			}
		})
	}
}

func TestEveryStepIsShown(t *testing.T) {
	v := aView(connected, named, loaded, recorded(plan.Report{Phase: plan.PhaseInSync, Total: 3, Seq: 9}))
	r := *v.snap.Report
	for i, step := range []string{plan.StepCredentials, plan.StepFiles, plan.ServiceStep("kubelet")} {
		s := r
		s.Phase, s.Step, s.Index, s.Seq = plan.PhaseRunning, step, i+1, int64(2*i+1)
		v.snap.Trail = append(v.snap.Trail, s)
	}
	v.snap.Trail = append(v.snap.Trail, r)
	var steps []string
	for range 10 {
		p := walk(v)
		s := p.status()
		steps = append(steps, s.Step)
		v.host.Status.Plan = s.Plan
		if !p.more || s.Plan.KubeletStarted == nil {
			if s.Plan.KubeletStarted == nil {
				t.Fatal("the kubelet was started and the status does not say so")
			}
			break
		}
	}
	want := "1/3 write-credentials, 2/3 install-files, 3/3 start-kubelet, 3/3 done"
	if got := strings.Join(steps, ", "); got != want {
		t.Errorf("steps shown: %s\nwant:        %s", got, want)
	}
}

func TestTicketComesWithThePlanThatNeedsIt(t *testing.T) {
	p := walk(aView(connected, named, loaded))
	if !p.ticket || p.revoke || p.args.Envelope.Generation != 1 || len(p.args.Envelope.Secrets) != 0 {
		t.Errorf("ticket=%t revoke=%t envelope=%+v, want a ticket asked for and no secret in the decision", p.ticket, p.revoke, p.args.Envelope.Secrets)
	}
	done := walk(aView(connected, named, registered, loaded, recorded(plan.Report{Phase: plan.PhaseInSync, Total: 7, Seq: 3}), func(v *view) {
		v.host.Status.Ticket = &v1alpha1.TicketStatus{ServiceAccount: "a", ID: "1"}
	}))
	if done.ticket || !done.revoke {
		t.Errorf("ticket=%t revoke=%t for a registered node, want the ticket revoked", done.ticket, done.revoke)
	}
	if s := done.status(); s.Ticket != nil {
		t.Error("the status still speaks of the ticket")
	}
}

func TestFirstUsePinsBeforeAnythingIsSent(t *testing.T) {
	p := walk(aView(firstUse, func(v *view) { v.snap.Connected, v.snap.HostKey = true, aKey("one") }))
	if p.pin == nil || p.pin.Fingerprint != "SHA256:one" || p.verb != "" {
		t.Fatalf("pin = %+v, verb = %q, want the key pinned and nothing started", p.pin, p.verb)
	}
	p.host.Status = p.status()
	next := walk(p.view)
	if next.verb != host.VerbFacts {
		t.Errorf("next verb = %q, want facts", next.verb)
	}
	if err := next.verify()(aKey("two")); err == nil {
		t.Error("another key is accepted after the first was pinned")
	}
	if err := next.verify()(aKey("one")); err != nil {
		t.Errorf("the pinned key is refused: %v", err)
	}
}

func TestNodeOfAnotherIsNeverAdopted(t *testing.T) {
	ticketed := func(v *view) {
		v.host.Status.Ticket = &v1alpha1.TicketStatus{ID: "1", ApprovedCSR: "csr-1"}
	}
	newNode := func(v *view) {
		v.node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "win-a", UID: "n", CreationTimestamp: metav1.NewTime(at())}}
	}
	for name, c := range map[string]struct {
		edits []func(*view)
		adopt bool
	}{
		"our ticket's": {[]func(*view){ticketed, newNode}, true},
		"an earlier ticket's": {[]func(*view){newNode, func(v *view) {
			v.host.Status.Ticket = &v1alpha1.TicketStatus{ID: "2", EarlierCSR: "csr-1"}
		}}, true},
		"no certificate of us": {[]func(*view){newNode}, false},
		"older than the host": {[]func(*view){ticketed, newNode, func(v *view) {
			v.node.CreationTimestamp = metav1.NewTime(at().Add(-time.Hour))
		}}, false},
		"another host's": {[]func(*view){ticketed, newNode, func(v *view) {
			v.node.Annotations = map[string]string{v1alpha1.HostUIDAnnotation: "uid-b"}
		}}, false},
		"ours was deleted and its kubelet came back": {[]func(*view){newNode, func(v *view) { v.host.Status.Node.UID = "gone" }}, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := walk(aView(append([]func(*view){connected, named, loaded}, c.edits...)...))
			if p.adoptNode != c.adopt {
				t.Errorf("adopted = %t, want %t (%s)", p.adoptNode, c.adopt, readyOf(p).Message)
			}
		})
	}
}

func TestBackoff(t *testing.T) {
	last := time.Duration(0)
	for n := 1; n < 100; n++ {
		d := backoff(n, "host")
		if d < last || d > backoffMax*5/4 || d < backoffFirst {
			t.Fatalf("backoff(%d) = %s after %s", n, d, last)
		}
		last = d
	}
	if backoff(1, "a") == backoff(1, "b") {
		t.Error("all hosts come back at once")
	}
	v := aView(func(v *view) {
		v.snap.Last[host.VerbFacts] = host.Outcome{Verb: host.VerbFacts, Err: transport.ErrUnreachable, At: at(), Failures: 3}
	})
	if p := walk(v); p.verb != "" || p.again < backoffFirst || p.again > time.Minute {
		t.Errorf("verb %q, again in %s right after a failure", p.verb, p.again)
	}
	for _, c := range []struct {
		err      error
		failures int
		least    time.Duration
		most     time.Duration
	}{
		{transport.ErrDisconnected, 1, relink, relink},
		{transport.ErrUnreachable, 1, relink, relink},
		{transport.ErrUnreachable, 2, 2 * relink, 2 * relink},
		{transport.ErrUnreachable, 3, 4 * backoffFirst, 5 * backoffFirst},
		{transport.ErrAuth, 1, backoffFirst, 2 * backoffFirst},
	} {
		if d := pause(host.Outcome{Err: c.err, Failures: c.failures}, "host"); d < c.least || d > c.most {
			t.Errorf("after %d times %q it is tried again in %s", c.failures, c.err, d)
		}
	}
}

func TestLeaving(t *testing.T) {
	leave := func(edits ...func(*view)) *pass {
		p := &pass{view: aView(edits...)}
		p.leave()
		return p
	}
	touched := func(v *view) {
		connected(v)
		v.host.Status.OS = &v1alpha1.OSStatus{Build: 20348}
	}
	for name, c := range map[string]struct {
		pass   *pass
		finish bool
		verb   host.Verb
		reason string
	}{
		"never touched":     {leave(), true, "", v1alpha1.ReasonCleaning},
		"touched":           {leave(touched), false, host.VerbRemove, v1alpha1.ReasonCleaning},
		"being cleaned":     {leave(touched, func(v *view) { v.snap.Busy = host.VerbRemove }), false, "", v1alpha1.ReasonCleaning},
		"cleaned":           {leave(touched, func(v *view) { v.snap.Last[host.VerbRemove] = host.Outcome{At: at()} }), true, "", v1alpha1.ReasonCleaning},
		"cannot be reached": {leave(touched, failed(host.VerbRemove, transport.ErrUnreachable, 2)), false, host.VerbRemove, v1alpha1.ReasonCleaningFailed},
		"link dropped":      {leave(touched, failed(host.VerbRemove, transport.ErrDisconnected, 1)), false, host.VerbRemove, v1alpha1.ReasonCleaning},
		"link stays down":   {leave(touched, failed(host.VerbRemove, transport.ErrDisconnected, 2)), false, host.VerbRemove, v1alpha1.ReasonCleaningFailed},
		"no key":            {leave(touched, func(v *view) { v.creds.problem = no(v1alpha1.ReasonCredentialsMissing, "Secret") }), false, "", v1alpha1.ReasonCleaningFailed},
		"told not to":       {leave(touched, func(v *view) { v.host.Annotations = map[string]string{v1alpha1.SkipCleaningAnnotation: "true"} }), true, "", v1alpha1.ReasonCleaning},
		"a Machine's":       {leave(touched, ofMachine(time.Hour)), true, "", v1alpha1.ReasonCleaning},
	} {
		t.Run(name, func(t *testing.T) {
			if c.pass.finish != c.finish || c.pass.verb != c.verb || c.pass.deleting.reason != c.reason {
				t.Errorf("finish=%t verb=%q reason=%s, want %t %q %s", c.pass.finish, c.pass.verb, c.pass.deleting.reason, c.finish, c.verb, c.reason)
			}
			if c.reason == v1alpha1.ReasonCleaningFailed && !strings.Contains(c.pass.deleting.message, v1alpha1.SkipCleaningAnnotation) {
				t.Errorf("message %q does not say how to go on", c.pass.deleting.message)
			}
		})
	}
}

func TestReadCredentialsSaysWhatIsWrongAndNothingSecret(t *testing.T) {
	const canary = "canary-1234"
	for name, c := range map[string]struct {
		data   map[string][]byte
		reason string
	}{
		"key of another name": {map[string][]byte{"id_rsa": []byte(canary)}, v1alpha1.ReasonCredentialsMissing},
		"not a key":           {map[string][]byte{privateKey: []byte(canary)}, v1alpha1.ReasonCredentialsInvalid},
		"empty":               {map[string][]byte{privateKey: {}}, v1alpha1.ReasonCredentialsInvalid},
		"broken PEM": {map[string][]byte{privateKey: []byte("-----BEGIN OPENSSH PRIVATE KEY-----\n" +
			base64.StdEncoding.EncodeToString([]byte(canary)) + "\n-----END OPENSSH PRIVATE KEY-----\n")}, v1alpha1.ReasonCredentialsInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			got := readCredentials("wmo", "key", c.data)
			if got.problem.reason != c.reason || len(got.keys) != 0 || !strings.Contains(got.problem.message, "wmo/key") {
				t.Errorf("problem = %+v, want %s about Secret wmo/key", got.problem, c.reason)
			}
			if strings.Contains(got.problem.message, canary) {
				t.Errorf("message %q holds the secret", got.problem.message)
			}
		})
	}
}

func TestOwnerOfANodeName(t *testing.T) {
	a, b := v1alpha1.WindowsHost{}, v1alpha1.WindowsHost{}
	a.Name, a.UID, a.CreationTimestamp = "a", "1", metav1.NewTime(at().Add(-time.Hour))
	b.Name, b.UID, b.CreationTimestamp = "b", "2", metav1.NewTime(at())
	all := []v1alpha1.WindowsHost{a, b}
	if got := owner(&b, all); got != "a" {
		t.Errorf("owner as the younger sees it = %q, want a", got)
	}
	if got := owner(&a, all); got != "" {
		t.Errorf("owner as the older sees it = %q, want none", got)
	}
}

func TestErrorsKeepTheirSentinel(t *testing.T) {
	err := fmt.Errorf("dialing: %w: %w", transport.ErrHostKey, &keyError{key: aKey("x")})
	var ke *keyError
	if !errors.Is(err, transport.ErrHostKey) || !errors.As(err, &ke) || ke.key.Fingerprint != "SHA256:x" {
		t.Errorf("%v lost its key", err)
	}
}
