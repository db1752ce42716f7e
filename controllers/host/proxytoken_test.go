package host

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/windowsmachine/operator/pkg/agent"
	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/facts"
	"github.com/windowsmachine/operator/pkg/host"
	"github.com/windowsmachine/operator/pkg/plan"
	"github.com/windowsmachine/operator/pkg/planner"
	"github.com/windowsmachine/operator/pkg/proxytoken"
)

// proxied has the operator run kube-proxy, on a network that Calico brings.
func proxied(v *view) {
	v.payload[planner.BlobKubeProxy] = planner.Blob{SHA256: fmt.Sprintf("%064x", 999), Size: 1 << 20, Version: "v1.37.2"}
	v.cluster.Cluster.Mode, v.cluster.Cluster.Plane = planner.ModeCalico, facts.Plane{Kind: facts.PlaneCalico, Backend: "None"}
	v.profile.Spec.KubeProxy.Mode = v1alpha1.KubeProxyAuto
}

// proxyToken is on record, issued some time ago and arrived.
func proxyToken(ago time.Duration, edits ...func(*v1alpha1.KubeProxyTokenStatus)) func(*view) {
	return func(v *view) {
		issued := at().Add(-ago)
		over := metav1.NewTime(issued.Add(time.Second))
		s := &v1alpha1.KubeProxyTokenStatus{
			Issued: metav1.NewMicroTime(issued), Expires: metav1.NewTime(issued.Add(proxytoken.Lifetime)),
			LifetimeSeconds: int64(proxytoken.Lifetime / time.Second), NodeUID: "node-uid", HandedOver: &over,
		}
		for _, e := range edits {
			e(s)
		}
		v.host.Status.KubeProxyToken = s
	}
}

func notArrived(s *v1alpha1.KubeProxyTokenStatus) { s.HandedOver = nil }

// A machine gets a token when it has none, when it may not have got the last one, and after a third of its life; it keeps the one that it has
// through all plans in between.
func TestKubeProxyTokenIsHandedOver(t *testing.T) {
	const day = 24 * time.Hour
	inSync := plan.Report{Phase: plan.PhaseInSync, Total: 7, Seq: 3}
	lacks := plan.Report{Phase: plan.PhaseFailed, Step: plan.StepCredentials, Index: 1, Total: 7, Code: agent.CodeSecretMissing, Seq: 3}
	applied := func(ago time.Duration, err error) func(*view) {
		return func(v *view) {
			v.snap.Last[host.VerbApply] = host.Outcome{Verb: host.VerbApply, Err: err, At: at().Add(-ago), Failures: 1}
		}
	}
	later := func(v *view) {
		v.profile.Spec.Kubelet.Labels = map[string]string{"team": "b"}
		// The last run has been seen to its end.
		v.host.Status.Plan.Seq = inSync.Seq
	}
	for name, c := range map[string]struct {
		edits []func(*view)
		// report is nil for a machine that does not have the plan.
		report *plan.Report
		// after are edits behind the report.
		after        []func(*view)
		apply, token bool
		again        time.Duration
		// arrived is whether the status says so.
		arrived bool
	}{
		"plan is new":                   {apply: true, token: true},
		"record was lost":               {report: &inSync, apply: true, token: true},
		"fresh":                         {edits: []func(*view){proxyToken(day)}, report: &inSync, arrived: true},
		"five minutes before a third":   {edits: []func(*view){proxyToken(30*day - 5*time.Minute)}, report: &inSync, again: 5 * time.Minute, arrived: true},
		"a third of its life":           {edits: []func(*view){proxyToken(30 * day)}, report: &inSync, apply: true, token: true, arrived: true},
		"a third of a shorter life":     {edits: []func(*view){proxyToken(20*time.Minute, func(s *v1alpha1.KubeProxyTokenStatus) { s.LifetimeSeconds = 3600 })}, report: &inSync, apply: true, token: true, arrived: true},
		"bound to another Node":         {edits: []func(*view){proxyToken(day, func(s *v1alpha1.KubeProxyTokenStatus) { s.NodeUID = "old" })}, report: &inSync, apply: true, token: true, arrived: true},
		"bound to none":                 {edits: []func(*view){proxyToken(day, func(s *v1alpha1.KubeProxyTokenStatus) { s.NodeUID = "" })}, report: &inSync, arrived: true},
		"came with the plan":            {edits: []func(*view){proxyToken(time.Minute, notArrived, func(s *v1alpha1.KubeProxyTokenStatus) { s.PlanGeneration = 1 })}, report: &inSync, arrived: true},
		"goes with a plan to come":      {edits: []func(*view){proxyToken(time.Minute, notArrived, func(s *v1alpha1.KubeProxyTokenStatus) { s.PlanGeneration = 2 })}, report: &inSync, apply: true, token: true},
		"hand-over ended well":          {edits: []func(*view){proxyToken(time.Minute, notArrived), applied(30*time.Second, nil)}, report: &inSync, arrived: true},
		"an earlier one ended well":     {edits: []func(*view){proxyToken(time.Minute, notArrived), applied(2*time.Minute, nil)}, report: &inSync, apply: true, token: true},
		"hand-over was cut":             {edits: []func(*view){proxyToken(time.Hour, notArrived), applied(30*time.Minute, errOf("cut"))}, report: &inSync, apply: true, token: true},
		"hand-over was cut just now":    {edits: []func(*view){proxyToken(time.Minute, notArrived), applied(0, errOf("cut"))}, report: &inSync, again: 3 * time.Second},
		"file is gone":                  {edits: []func(*view){proxyToken(day)}, report: &lacks, apply: true, token: true, arrived: true},
		"plan refused without it":       {edits: []func(*view){proxyToken(day), applied(time.Hour, &host.Refusal{Code: agent.CodeSecretMissing})}, apply: true, token: true, arrived: true},
		"another plan, fresh token":     {edits: []func(*view){proxyToken(day)}, report: &inSync, after: []func(*view){later}, apply: true, arrived: true},
		"another plan, token is due":    {edits: []func(*view){proxyToken(31 * day)}, report: &inSync, after: []func(*view){later}, apply: true, token: true, arrived: true},
		"agent is at work":              {edits: []func(*view){proxyToken(31 * day)}, report: ptrTo(running(plan.StepFiles, 4, 7)), arrived: true},
		"verb under way":                {edits: []func(*view){proxyToken(31 * day), func(v *view) { v.snap.Busy = host.VerbFacts }}, report: &inSync, arrived: true},
		"paused":                        {edits: []func(*view){proxyToken(31 * day)}, report: &inSync, after: []func(*view){func(v *view) { v.host.Spec.Paused = true }}, arrived: true},
		"reinstalled, fresh token":      {edits: []func(*view){proxyToken(day), func(v *view) { v.host.Status.Plan = &v1alpha1.PlanStatus{Applied: "x", Digest: "x", Generation: 4} }}, apply: true, token: true, arrived: true},
		"kube-proxy is not ours":        {edits: []func(*view){func(v *view) { v.profile.Spec.KubeProxy.Mode = v1alpha1.KubeProxyNone }}, report: &inSync},
		"kube-proxy is no longer ours":  {edits: []func(*view){proxyToken(day), func(v *view) { v.profile.Spec.KubeProxy.Mode = v1alpha1.KubeProxyNone }}, report: &inSync},
		"kube-proxy is not ours, fresh": {edits: []func(*view){func(v *view) { v.profile.Spec.KubeProxy.Mode = v1alpha1.KubeProxyNone }}, apply: true},
	} {
		t.Run(name, func(t *testing.T) {
			edits := append([]func(*view){proxied, connected, named, loaded, registered}, c.edits...)
			if c.report != nil {
				edits = append(edits, recorded(*c.report))
			}
			p := walk(aView(append(edits, c.after...)...))
			if got := p.verb == host.VerbApply; got != c.apply || p.proxyToken != c.token {
				t.Fatalf("verb %q with a token: %t, want %t and %t (%s)", p.verb, p.proxyToken, c.apply, c.token, readyOf(p).Message)
			}
			if c.again != 0 && (p.again == 0 || p.again > c.again) {
				t.Errorf("looks again in %s, want at most %s", p.again, c.again)
			}
			s := p.status().KubeProxyToken
			if got := s != nil && s.HandedOver != nil; got != c.arrived {
				t.Errorf("arrived: %t, want %t", got, c.arrived)
			}
		})
	}
}

func ptrTo[T any](v T) *T { return &v }

// proxyWorld is a world whose operator runs kube-proxy; granted is what the API server gives at most.
func proxyWorld(t *testing.T, granted time.Duration, fail *error) (*world, *[]authenticationv1.TokenRequestSpec) {
	t.Helper()
	var asked []authenticationv1.TokenRequestSpec
	var w *world
	w = newWorld(t, interceptor.Funcs{SubResourceCreate: func(ctx context.Context, c client.Client, sub string, o, r client.Object, opts ...client.SubResourceCreateOption) error {
		req, ok := r.(*authenticationv1.TokenRequest)
		if !ok || o.GetName() != proxytoken.Account {
			return c.SubResource(sub).Create(ctx, o, r, opts...)
		}
		if *fail != nil {
			return *fail
		}
		asked = append(asked, *req.Spec.DeepCopy())
		life := min(granted, time.Duration(*req.Spec.ExpirationSeconds)*time.Second)
		req.Spec.ExpirationSeconds = ptrTo(int64(life / time.Second))
		req.Status = authenticationv1.TokenRequestStatus{Token: fmt.Sprintf("canary-%d", len(asked)), ExpirationTimestamp: metav1.NewTime(w.clock.Now().Add(life))}
		return nil
	}}, object())
	v := aView(proxied)
	d, _ := w.r.Facts.Get("default")
	d.Cluster.Mode, d.Cluster.Plane, d.Cluster.Version = v.cluster.Cluster.Mode, v.cluster.Cluster.Plane, "v1.37.2"
	w.r.Facts.Set("default", d)
	w.machine.now = w.clock.Now
	w.r.Payload, w.machine.digests = manifest(v.payload), v.payload.digests()
	p := &v1alpha1.WindowsNodeProfile{}
	w.get(client.ObjectKey{Name: "default"}, p)
	p.Spec.KubeProxy.Mode = v1alpha1.KubeProxyAuto
	if err := w.api.Update(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	return w, &asked
}

func nodeIsReady(h *v1alpha1.WindowsHost) bool {
	return reason(h, v1alpha1.ConditionReady) == v1alpha1.ReasonNodeReady && h.Status.Ticket == nil
}

// sent are kube-proxy's tokens as they reached the machine, one an envelope.
func (w *world) sent() []string {
	var out []string
	for _, e := range w.machine.envelopes {
		out = append(out, string(e.Secrets[planner.ProxySecret]))
	}
	return out
}

// The token reaches the machine with the plan that has a place for it, is bound to the Node, stands nowhere else, and is replaced after a third of
// the life that was granted.
func TestKubeProxyTokenReachesTheMachine(t *testing.T) {
	var none error
	w, asked := proxyWorld(t, 240*time.Hour, &none)
	w.until("handed over", handedOver)
	if got := w.sent(); len(got) != 1 || got[0] != "" {
		t.Fatalf("before the node is registered: %q", got)
	}
	n := w.registers()
	h := w.until("ready", nodeIsReady)
	if got := w.sent(); len(got) != 2 || got[1] != "canary-1" {
		t.Fatalf("sent %q", got)
	}
	ref := (*asked)[0].BoundObjectRef
	if ref == nil || ref.Kind != "Node" || ref.Name != n.Name || ref.UID != n.UID || *(*asked)[0].ExpirationSeconds != 7776000 {
		t.Errorf("asked for %+v", (*asked)[0])
	}
	s := h.Status.KubeProxyToken
	if s == nil || s.LifetimeSeconds != 864000 || s.NodeUID != string(n.UID) || s.HandedOver == nil || !s.Expires.Time.Equal(at().Add(240*time.Hour)) {
		t.Errorf("status %+v", s)
	}
	told := w.told()
	if !strings.Contains(told, v1alpha1.EventKubeProxyTokenIssued) || !strings.Contains(told, v1alpha1.EventKubeProxyTokenShort) ||
		!strings.Contains(told, "240h0m0s of the 2160h0m0s") {
		t.Errorf("told %s", told)
	}
	if strings.Contains(fmt.Sprintf("%+v", h)+told+string(w.machine.envelopes[1].Plan.Encode()), "canary-") {
		t.Error("the token is shown")
	}
	w.clock.SetTime(at().Add(80*time.Hour - time.Minute))
	w.pass()
	if got := w.sent(); len(got) != 2 {
		t.Fatalf("a minute early: %q", got)
	}
	w.clock.SetTime(at().Add(80 * time.Hour))
	w.until("renewed", func(h *v1alpha1.WindowsHost) bool {
		s := h.Status.KubeProxyToken
		return s.HandedOver != nil && s.Issued.Time.Equal(at().Add(80*time.Hour)) && nodeIsReady(h)
	})
	for range 3 {
		w.pass()
	}
	got := w.sent()
	if len(got) != 3 || got[2] != "canary-2" || w.machine.envelopes[2].Generation != w.machine.envelopes[1].Generation {
		t.Errorf("sent %q", got)
	}
}

// A node whose kube-proxy has a token stays Ready when the next one cannot be issued, and says so; one that has none does not become Ready.
func TestKubeProxyTokenCannotBeIssued(t *testing.T) {
	refused := errors.New("tokens are refused")
	fail := refused
	w, _ := proxyWorld(t, proxytoken.Lifetime, &fail)
	w.until("handed over", handedOver)
	w.registers()
	var err error
	for range 10 {
		if _, err = w.once(); err != nil {
			break
		}
	}
	if !errors.Is(err, refused) || reason(w.host(), v1alpha1.ConditionReady) != v1alpha1.ReasonKubeProxyTokenFailed || len(w.sent()) != 1 {
		t.Fatalf("error %v, Ready %s, %d envelopes", err, reason(w.host(), v1alpha1.ConditionReady), len(w.sent()))
	}
	fail = nil
	w.until("ready", nodeIsReady)
	if told := w.told(); strings.Contains(told, v1alpha1.EventKubeProxyTokenShort) {
		t.Errorf("told %s", told)
	}
	fail = refused
	w.clock.SetTime(at().Add(30 * 24 * time.Hour))
	for range 10 {
		if _, err = w.once(); err != nil {
			break
		}
	}
	h := w.host()
	c := meta.FindStatusCondition(h.Status.Conditions, v1alpha1.ConditionInSync)
	if !errors.Is(err, refused) || !nodeIsReady(h) || !strings.Contains(c.Message, "tokens are refused") || !strings.Contains(c.Message, "2027-02-28") {
		t.Errorf("error %v, Ready %s, InSync %+v", err, reason(h, v1alpha1.ConditionReady), c)
	}
	// Once it has ended there is nothing left to go on with.
	w.clock.SetTime(at().Add(proxytoken.Lifetime))
	for range 10 {
		if _, err = w.once(); err != nil {
			break
		}
	}
	if got := reason(w.host(), v1alpha1.ConditionReady); got != v1alpha1.ReasonKubeProxyTokenFailed {
		t.Errorf("Ready %s", got)
	}
}
