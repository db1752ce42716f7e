package podcidr

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
)

func TestDiagnose(t *testing.T) {
	all := spec("10.200.0.0/24", "10.200.1.0/24", "10.200.2.0/24")
	some := spec("10.200.0.0/24", "", "10.200.2.0/24")
	for name, c := range map[string]struct {
		e      Evidence
		reason string
		// says and silent are words that must and must not be in the message.
		says, silent []string
	}{
		"every Node has one": {e: hardWay(all)},
		"none has one, the arguments cannot be read": {
			hardWay(), v1alpha1.ReasonNodeCIDRsNotAllocated,
			[]string{
				"none of 3 has one", "is being renewed by controller-0_4711", "no Events CIDRNotAvailable or CIDRAssignmentFailed", "cannot be read",
				"--allocate-node-cidrs=true and --cluster-cidr=10.200.0.0/16", "ps -ww -o args -C kube-controller-manager", "-nodeipam", "cloud",
				`kubectl patch winprofile default --type=merge -p '{"spec":{"network":{"podCIDRs":{"allocation":"Operator"}}}}'`,
			},
			[]string{"runs without --allocate-node-cidrs=true:"},
		},
		"none has one, the flag is missing": {
			hardWay(args("--cluster-cidr=10.200.0.0/16")), v1alpha1.ReasonNodeCIDRsNotAllocated,
			[]string{
				"Pod kube-system/kube-controller-manager-cp1 has --allocate-node-cidrs=false --cluster-cidr=10.200.0.0/16",
				"kube-controller-manager-cp1 runs without --allocate-node-cidrs=true: give it", "/etc/kubernetes/manifests/kube-controller-manager.yaml",
			},
			[]string{"cannot be read", "cloud"},
		},
		"none has one, the range is missing": {
			hardWay(args("--allocate-node-cidrs")), v1alpha1.ReasonNodeCIDRsNotAllocated,
			[]string{"runs without --cluster-cidr: give it"},
			[]string{"cannot be read"},
		},
		"none has one, the controller is off": {
			hardWay(args("--allocate-node-cidrs=true", "--cluster-cidr", "10.200.0.0/16", "--controllers=*,-nodeipam")), v1alpha1.ReasonNodeCIDRsNotAllocated,
			[]string{"turned its controller nodeipam off: take -nodeipam out of --controllers"},
			nil,
		},
		"none has one though all is set": {
			hardWay(args("--allocate-node-cidrs=true", "--cluster-cidr=10.200.0.0/16")), v1alpha1.ReasonNodeCIDRsNotAllocated,
			[]string{"is to give ranges and has given none", "kubectl -n kube-system logs"},
			[]string{"runs without"},
		},
		"no range of the cluster is known": {
			hardWay(func(e *Evidence) { e.Cluster = nil }), v1alpha1.ReasonNodeCIDRsNotAllocated, []string{"--cluster-cidr=<range>"}, nil,
		},
		"no lease": {
			hardWay(func(e *Evidence) { e.Controller.Lease = nil }), v1alpha1.ReasonNodeCIDRsNotAllocated,
			[]string{"there is no lease kube-system/kube-controller-manager"},
			nil,
		},
		"the lease is old": {
			hardWay(func(e *Evidence) { e.Controller.Lease.Renewed = at().Add(-10 * time.Minute) }), v1alpha1.ReasonControllerManagerSilent,
			[]string{"controller-0_4711 was last renewed at 2026-11-30T11:50:00Z", "systemctl status kube-controller-manager"},
			[]string{"--allocate-node-cidrs"},
		},
		"the lease is as old as one that is still held may be": {
			hardWay(func(e *Evidence) { e.Controller.Lease.Renewed = at().Add(-leaseStale) }), v1alpha1.ReasonNodeCIDRsNotAllocated, []string{"being renewed"}, nil,
		},
		"what may not be read is said": {
			hardWay(func(e *Evidence) { e.Controller.Forbidden = []string{"list events in default"} }), v1alpha1.ReasonNodeCIDRsNotAllocated,
			[]string{"not permitted: list events in default"},
			nil,
		},
		"overrides alone give our Node no range": {
			hardWay(override("worker-0", "10.200.0.0/24"), override("worker-1", "10.200.1.0/24"), override("worker-2", "10.200.2.0/24")),
			v1alpha1.ReasonNodeCIDRsNotAllocated,
			[]string{"none of 3"},
			nil,
		},
		"one waits for its own": {
			hardWay(some), v1alpha1.ReasonNodeCIDRsIncomplete, []string{"Node worker-1 has none while 2 others have", "may be what their pods use", "takes seconds"}, nil,
		},
		"one waits, and has an override": {e: hardWay(some, override("worker-1", "10.200.1.0/24"))},
		"one could not be given its own": {
			hardWay(some, event(EventAssignmentFailed, "worker-1", "timed out")), v1alpha1.ReasonNodeCIDRsIncomplete,
			[]string{"Event CIDRAssignmentFailed on Node worker-1: timed out"},
			[]string{"no Events"},
		},
		"the range is used up": {
			hardWay(some, event(EventNotAvailable, "worker-1", "no free"), func(e *Evidence) { e.Cluster = prefixes("10.200.0.0/22") }),
			v1alpha1.ReasonPodCIDRRangeExhausted,
			[]string{"Event CIDRNotAvailable on Node worker-1: no free", "(2 of the 4 ranges of /24 in 10.200.0.0/22)", "--node-cidr-mask-size"},
			nil,
		},
		"the range of the arguments is the one that is used up": {
			hardWay(some, event(EventNotAvailable, "worker-1", "no free"), args("--allocate-node-cidrs", "--cluster-cidr=10.200.0.0/23")),
			v1alpha1.ReasonPodCIDRRangeExhausted,
			[]string{"(1 of the 2 ranges of /24 in 10.200.0.0/23)"},
			nil,
		},
		"an event about a Node that has one since": {
			hardWay(some, event(EventNotAvailable, "worker-0", "no free")), v1alpha1.ReasonNodeCIDRsIncomplete, nil, []string{"Event CIDRNotAvailable"},
		},
		"no Node but a new one of ours": {
			e: hardWay(func(e *Evidence) { e.Nodes = nil }, windows("win-1"), func(e *Evidence) { e.Nodes[0].Created = at().Add(-Patience + time.Second) }),
		},
		"no Node but ours, for long": {
			hardWay(func(e *Evidence) { e.Nodes = nil }, windows("win-1"), func(e *Evidence) { e.Nodes[0].Created = at().Add(-Patience) }),
			v1alpha1.ReasonNodeCIDRsNotAllocated,
			[]string{"none of 1"},
			nil,
		},
		"no Node at all": {e: hardWay(func(e *Evidence) { e.Nodes = nil })},
	} {
		t.Run(name, func(t *testing.T) {
			got := Diagnose(c.e)
			if got.Reason != c.reason {
				t.Fatalf("reason %q, want %q: %s", got.Reason, c.reason, got.Message)
			}
			for _, word := range c.says {
				if !strings.Contains(got.Message, word) {
					t.Errorf("%q is not said in: %s", word, got.Message)
				}
			}
			for _, word := range c.silent {
				if strings.Contains(got.Message, word) {
					t.Errorf("%q is said in: %s", word, got.Message)
				}
			}
			if len(got.Message) > v1alpha1.MaxMessage {
				t.Errorf("a message of %d bytes, which a condition cuts", len(got.Message))
			}
		})
	}
}

// A message that changed by itself would be written into every host's status over and over.
func TestWordsStayTheSameWhileNothingChanges(t *testing.T) {
	silent := func(e *Evidence) { e.Controller.Lease.Renewed = at().Add(-time.Hour) }
	for name, edit := range map[string]func(*Evidence){
		"renewed": func(*Evidence) {}, "silent": silent,
	} {
		later := hardWay(edit)
		later.Now = later.Now.Add(7 * time.Second)
		if diff := cmp.Diff(Decide(hardWay(edit)), Decide(later)); diff != "" {
			t.Errorf("%s, seven seconds later (-was +is):\n%s", name, diff)
		}
	}
}

func TestParseArgs(t *testing.T) {
	type result struct {
		allocate, off bool
		cluster       string
	}
	for name, c := range map[string]struct {
		args []string
		want result
	}{
		"none":                     {nil, result{}},
		"with equals signs":        {[]string{"--allocate-node-cidrs=true", "--cluster-cidr=10.200.0.0/16"}, result{true, false, "10.200.0.0/16"}},
		"a range of its own":       {[]string{"--allocate-node-cidrs", "--cluster-cidr", "10.200.0.0/16"}, result{true, false, "10.200.0.0/16"}},
		"one dash":                 {[]string{"-allocate-node-cidrs=1"}, result{true, false, ""}},
		"off":                      {[]string{"--allocate-node-cidrs=false"}, result{}},
		"nonsense is off":          {[]string{"--allocate-node-cidrs=maybe"}, result{}},
		"the last one wins":        {[]string{"--allocate-node-cidrs", "--allocate-node-cidrs=false"}, result{}},
		"another flag's value":     {[]string{"--allocate-node-cidrs", "false"}, result{allocate: true}},
		"two families":             {[]string{"--cluster-cidr=10.200.0.0/16,fd00::/56"}, result{false, false, "10.200.0.0/16, fd00::/56"}},
		"the controller is off":    {[]string{"--controllers=*,-nodeipam"}, result{off: true}},
		"by its other name":        {[]string{"--controllers", "*,-node-ipam-controller"}, result{off: true}},
		"all controllers":          {[]string{"--controllers=*"}, result{}},
		"no value at the very end": {[]string{"--cluster-cidr"}, result{}},
	} {
		t.Run(name, func(t *testing.T) {
			a := ParseArgs("somewhere", c.args)
			if got := (result{a.Allocate, a.NoNodeIPAM, list(a.Cluster)}); got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}
