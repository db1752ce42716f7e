package host

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/facts"
	"github.com/windowsmachine/operator/pkg/host"
	"github.com/windowsmachine/operator/pkg/plan"
	"github.com/windowsmachine/operator/pkg/podcidr"
)

// bridged is mode L2Bridge, with what was found out about the ranges of all Nodes.
func bridged(edits ...func(*podcidr.Result)) func(*view) {
	return func(v *view) {
		v.profile.Spec.Network.Mode, v.cluster.Cluster.Mode = v1alpha1.NetworkL2Bridge, string(v1alpha1.NetworkL2Bridge)
		v.ranges = &podcidr.Result{
			Needed: true, Hosts: []string{"uid-a"}, Missing: podcidr.Finding{Reason: v1alpha1.ReasonNodeCIDRsNotAllocated, Message: "none of 4 has one"},
			Nodes: map[string]podcidr.Judgement{"win-a": {UID: "node-uid", Range: "10.244.3.0/24"}},
		}
		for _, e := range edits {
			e(v.ranges)
		}
	}
}

// nodeRange gives the Node, which is not Ready, its range.
func nodeRange(cidr string, age time.Duration) func(*view) {
	return func(v *view) {
		registered(v)
		v.snap.Facts.Capabilities = plan.Capabilities()
		v.node.Status.Conditions[0] = corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Message: "cni plugin not initialized"}
		v.node.CreationTimestamp = metav1.NewTime(v.now.Add(-age))
		if v.node.Spec.PodCIDR = cidr; cidr != "" {
			v.node.Spec.PodCIDRs = []string{cidr}
		}
	}
}

func cniIsReady(v *view) { v.node.Status.Conditions[0].Status = corev1.ConditionTrue }

// begun has a plan on record, so that the machine has been touched.
func hasBegun(v *view) { v.host.Status.Plan = &v1alpha1.PlanStatus{Digest: strings.Repeat("d", 64)} }

// TestNoMachineIsTouchedBeforeRangesAreKnown: the first phases of the line.
func TestNoMachineIsTouchedBeforeRangesAreKnown(t *testing.T) {
	waits := func(r *podcidr.Result) {
		r.Wait = podcidr.Finding{Reason: v1alpha1.ReasonNodeCIDRsNotAllocated, Message: "none of 3 has one; --allocate-node-cidrs=true"}
	}
	for name, c := range map[string]struct {
		view   view
		reason string
		verb   host.Verb
	}{
		"all is well":            {aView(bridged()), v1alpha1.ReasonConnecting, host.VerbFacts},
		"something is":           {aView(bridged(waits)), v1alpha1.ReasonNodeCIDRsNotAllocated, ""},
		"nobody has looked":      {aView(bridged(), func(v *view) { v.ranges = &podcidr.Result{} }), v1alpha1.ReasonPodCIDRUnchecked, ""},
		"not for this host":      {aView(bridged(func(r *podcidr.Result) { r.Hosts = []string{"uid-b"} })), v1alpha1.ReasonPodCIDRUnchecked, ""},
		"it has been touched":    {aView(bridged(waits), hasBegun), v1alpha1.ReasonConnecting, host.VerbFacts},
		"the mode needs none":    {aView(bridged(waits), func(v *view) { v.cluster.Cluster.Mode = string(v1alpha1.NetworkCalico) }), v1alpha1.ReasonConnecting, host.VerbFacts},
		"nobody is to look":      {aView(bridged(waits), func(v *view) { v.ranges = nil }), v1alpha1.ReasonConnecting, host.VerbFacts},
		"the profile is missing": {aView(bridged(waits), func(v *view) { v.profile = nil }), v1alpha1.ReasonProfileMissing, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := walk(c.view)
			if got := readyOf(p); got.Reason != c.reason || p.verb != c.verb {
				t.Errorf("Ready is %s %q, started %q; want %s, %q", got.Reason, got.Message, p.verb, c.reason, c.verb)
			}
			if waiting := c.verb == "" && c.reason != v1alpha1.ReasonProfileMissing; waiting != (p.again == factsRecheck) {
				t.Errorf("looks again after %s", p.again)
			}
		})
	}
}

// TestWhatTheClusterLackedIsNotSaidForEver: a machine that cannot be asked does not go on saying what the cluster lacked before; what was found out about
// a machine itself stays.
func TestWhatTheClusterLackedIsNotSaidForEver(t *testing.T) {
	said := func(reason string) func(*view) {
		return func(v *view) {
			v.creds = credentials{problem: no(v1alpha1.ReasonCredentialsMissing, "no Secret")}
			v.host.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionPreflightPassed, Status: metav1.ConditionFalse, Reason: reason}}
		}
	}
	for reason, want := range map[string]string{
		v1alpha1.ReasonNodeCIDRsNotAllocated: v1alpha1.ReasonNotChecked,
		v1alpha1.ReasonPodCIDRUnchecked:      v1alpha1.ReasonNotChecked,
		v1alpha1.ReasonFactsMissing:          v1alpha1.ReasonNotChecked,
		v1alpha1.ReasonPreflightFailed:       "",
	} {
		p := walk(aView(bridged(), said(reason)))
		if p.preflight.reason != want || p.reachable.reason != v1alpha1.ReasonCredentialsMissing {
			t.Errorf("after %s: PreflightPassed %+v, Reachable %+v; want %q", reason, p.preflight, p.reachable, want)
		}
	}
}

// TestRangeOfARegisteredNode: what is said of it, and whether a network is made of it.
func TestRangeOfARegisteredNode(t *testing.T) {
	refused := func(r *podcidr.Result) {
		r.Nodes["win-a"] = podcidr.Judgement{UID: "node-uid", Range: "10.244.3.0/24", Refused: podcidr.Finding{
			Reason: v1alpha1.ReasonPodCIDROverlap, Message: "holds the address 10.244.3.4 of a running pod of Node worker-1",
		}}
	}
	judged := func(j podcidr.Judgement) func(*podcidr.Result) {
		return func(r *podcidr.Result) { r.Nodes["win-a"] = j }
	}
	address := func(a plan.AdapterAddress) func(*view) {
		return func(v *view) { v.snap.Facts.Addresses = append(v.snap.Facts.Addresses, a) }
	}
	const range3 = "10.244.3.0/24"
	for name, c := range map[string]struct {
		edits []func(*view)
		// reason is that of PreflightPassed, says a part of its message.
		reason, says string
		network      bool
	}{
		"it is good":       {[]func(*view){bridged(), nodeRange(range3, time.Minute)}, v1alpha1.ReasonPreflightPassed, "", true},
		"none, for long":   {[]func(*view){bridged(), nodeRange("", podcidr.Patience)}, v1alpha1.ReasonNodeCIDRsNotAllocated, "none of 4", false},
		"none, not yet":    {[]func(*view){bridged(), nodeRange("", podcidr.Patience-time.Second)}, v1alpha1.ReasonPreflightPassed, "", false},
		"not judged":       {[]func(*view){bridged(judged(podcidr.Judgement{})), nodeRange(range3, time.Minute)}, v1alpha1.ReasonPodCIDRUnchecked, range3, false},
		"another judged":   {[]func(*view){bridged(judged(podcidr.Judgement{UID: "node-uid", Range: "10.244.9.0/24"})), nodeRange(range3, time.Minute)}, v1alpha1.ReasonPodCIDRUnchecked, range3, false},
		"of another Node":  {[]func(*view){bridged(judged(podcidr.Judgement{UID: "other", Range: range3})), nodeRange(range3, time.Minute)}, v1alpha1.ReasonPodCIDRUnchecked, range3, false},
		"refused":          {[]func(*view){bridged(refused), nodeRange(range3, time.Minute)}, v1alpha1.ReasonPodCIDROverlap, "Node worker-1", false},
		"refused too late": {[]func(*view){bridged(refused), nodeRange(range3, time.Minute), cniIsReady}, v1alpha1.ReasonPreflightPassed, "Node worker-1", true},
		"in the machine's subnet": {
			[]func(*view){bridged(), nodeRange(range3, time.Minute), address(plan.AdapterAddress{Adapter: "Storage", Prefix: "10.244.0.7/16", Usable: true})},
			v1alpha1.ReasonPodCIDROverlap, "overlaps 10.244.0.7/16 of adapter Storage", false,
		},
		"beside its own endpoint": {
			[]func(*view){bridged(), nodeRange(range3, time.Minute), address(plan.AdapterAddress{Adapter: "vEthernet (cbr0)", Prefix: "10.244.3.2/24", Usable: true})},
			v1alpha1.ReasonPreflightPassed, "", true,
		},
		"others are elsewhere": {
			[]func(*view){bridged(func(r *podcidr.Result) { r.Mismatches = []string{"Node worker-1 has", "command"} }), nodeRange(range3, time.Minute)},
			v1alpha1.ReasonPreflightPassed, "status.network.mismatches of WindowsNodeProfile default): Node worker-1 has", true,
		},
		"nobody looks": {[]func(*view){bridged(), nodeRange(range3, time.Minute), func(v *view) { v.ranges = nil }}, v1alpha1.ReasonPreflightPassed, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			p := walk(aView(append([]func(*view){connected, named, hasBegun}, c.edits...)...))
			if p.preflight.reason != c.reason || !strings.Contains(p.preflight.message, c.says) {
				t.Errorf("%s: %s; want %s: %s", p.preflight.reason, p.preflight.message, c.reason, c.says)
			}
			if p.desired == nil {
				t.Fatalf("no plan: %+v", p.found)
			}
			if got := len(p.desired.plan.Networks) > 0; got != c.network {
				t.Errorf("a network is planned: %t", got)
			}
			if c.reason != v1alpha1.ReasonPreflightPassed && (p.again == 0 || p.again > factsRecheck) {
				t.Errorf("looks again after %s", p.again)
			}
		})
	}
}

// TestANetworkInPlaceStays: a machine that is being restarted, whose range is contested meanwhile, keeps the plan that it has.
func TestANetworkInPlaceStays(t *testing.T) {
	inPlace := aView(connected, named, bridged(), nodeRange("10.244.3.0/24", time.Hour), loaded, recorded(plan.Report{Phase: plan.PhaseInSync, Total: 7, Seq: 3}))
	inPlace.ranges.Nodes["win-a"] = podcidr.Judgement{UID: "node-uid", Range: "10.244.3.0/24", Refused: podcidr.Finding{Reason: v1alpha1.ReasonPodCIDROverlap, Message: "m"}}
	p := walk(inPlace)
	if p.desired.digest != inPlace.host.Status.Plan.Digest || p.preflight.reason != v1alpha1.ReasonPodCIDROverlap {
		t.Errorf("plan %s on record %s, %+v", p.desired.digest[:8], inPlace.host.Status.Plan.Short, p.preflight)
	}
}

func TestRangeChangesBringPassesToThoseConcerned(t *testing.T) {
	at := func(uid, node, profile string) *v1alpha1.WindowsHost {
		return object(func(h *v1alpha1.WindowsHost) {
			h.UID, h.Spec.ProfileRef.Name = types.UID("uid-"+uid), profile
			if node != "" {
				h.Status.Node = &v1alpha1.NodeStatus{Name: node}
			}
		})
	}
	for name, c := range map[string]struct {
		change podcidr.Change
		want   []bool
	}{
		"all":            {podcidr.Change{Profile: "default", All: true}, []bool{true, true, false}},
		"a host":         {podcidr.Change{Profile: "default", Hosts: []string{"uid-a"}}, []bool{true, false, false}},
		"a Node":         {podcidr.Change{Profile: "default", Nodes: []string{"win-b"}}, []bool{false, true, false}},
		"the mismatches": {podcidr.Change{Profile: "default", Mismatches: true}, []bool{false, false, false}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []bool
			for _, h := range []*v1alpha1.WindowsHost{at("a", "", "default"), at("b", "win-b", "default"), at("a", "win-b", "other")} {
				got = append(got, concerns(c.change, h))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("brought (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRangesReachThePass: from the store of the other controller to the host's condition.
func TestRangesReachThePass(t *testing.T) {
	w := newWorld(t, interceptor.Funcs{}, object())
	w.r.PodCIDRs = &podcidr.Store{}
	d, _ := w.r.Facts.Get("default")
	d.Cluster.Mode = string(v1alpha1.NetworkL2Bridge)
	w.r.Facts.Set("default", facts.Discovered{Cluster: d.Cluster})
	reason := func() string {
		w.pass()
		for _, c := range w.host().Status.Conditions {
			if c.Type == v1alpha1.ConditionPreflightPassed {
				return c.Reason
			}
		}
		return ""
	}
	if got := reason(); got != v1alpha1.ReasonPodCIDRUnchecked || w.machine.verbs() != "" {
		t.Errorf("before anybody looked: %s, ran %q", got, w.machine.verbs())
	}
	r := podcidr.Result{Needed: true, Hosts: []string{string(object().UID)}, Wait: podcidr.Finding{Reason: v1alpha1.ReasonPodCIDRMismatch, Message: "m"}}
	w.r.PodCIDRs.Set("default", r)
	if got := reason(); got != v1alpha1.ReasonPodCIDRMismatch || w.machine.verbs() != "" {
		t.Errorf("something in the way: %s, ran %q", got, w.machine.verbs())
	}
	if told := w.told(); !strings.Contains(told, "Warning PodCIDRMismatch m") {
		t.Errorf("told %q", told)
	}
	r.Wait = podcidr.Finding{}
	w.r.PodCIDRs.Set("default", r)
	if reason(); w.machine.verbs() == "" {
		t.Error("the machine was not asked")
	}
}
