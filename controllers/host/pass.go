package host

import (
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/facts"
	"github.com/windowsmachine/operator/pkg/host"
	"github.com/windowsmachine/operator/pkg/plan"
	"github.com/windowsmachine/operator/pkg/podcidr"
	"github.com/windowsmachine/operator/pkg/transport"
)

// settings are the same for all hosts.
type settings struct {
	namespace     string
	allowLoopback bool
	payload       payloadIndex
}

// view is all that a pass rests on; nothing is read after it was gathered.
type view struct {
	settings
	now  time.Time
	host *v1alpha1.WindowsHost
	// before is the status that the pass found.
	before v1alpha1.WindowsHostStatus
	// profile is nil when there is none of that name.
	profile *v1alpha1.WindowsNodeProfile
	// cluster is nil until the profile controller has looked.
	cluster *facts.Discovered
	// ranges is what was found out about the pod ranges of all Nodes, nil when nobody looks.
	ranges *podcidr.Result
	// peers are the other Nodes, where the plan depends on them; peersIn is when they will be read anew, 0 when nothing has changed.
	peers   []facts.Peer
	peersIn time.Duration
	creds   credentials
	// node is the Node called status.node.name, nil when there is none.
	node *corev1.Node
	// taken is another host that has status.node.name already, "" when there is none.
	taken string
	// rival is another host whose plan the machine says it has, "" when there is none.
	rival string
	snap  host.Snapshot
}

// cond is what a pass found out about one condition; the zero value means that it did not look.
type cond struct {
	status          metav1.ConditionStatus
	reason, message string
}

func yes(reason, message string) cond { return cond{metav1.ConditionTrue, reason, message} }
func no(reason, message string) cond  { return cond{metav1.ConditionFalse, reason, message} }
func wait(reason, message string) cond {
	return cond{metav1.ConditionUnknown, reason, message}
}

// pass is one walk down the line: the view, what it found and what it wants done.
type pass struct {
	view
	found
	todo
}

// found is what is true, as far as the pass came.
type found struct {
	trusted, reachable, preflight, inSync, registered, paused, deleting cond
	step                                                                string
	os                                                                  *v1alpha1.OSStatus
	bootID                                                              string
	failures                                                            int
	// nodeName and managementIP are fixed once the machine has been asked.
	nodeName, managementIP string
	// desired is the plan that the machine shall have, nil where the pass did not come that far.
	desired *desired
	// applied is the digest that the machine reports to be in sync with, "" when it does not.
	applied string
	// seq is the journal entry that the status speaks of; more says that there are newer ones to show.
	seq            int64
	more           bool
	kubeletStarted bool
	// nodeUID is the UID of the Node that is ours.
	nodeUID string
	// nodeWhy is what its kubelet says.
	nodeWhy string
}

// desired is a plan with its fence.
type desired struct {
	plan       plan.Plan
	digest     string
	generation int64
	// labels are those that the operator puts on the Node itself.
	labels map[string]string
	// held says that this is the plan on record, whose run is still being watched; plan is empty then.
	held bool
}

// todo is what the pass wants done, in the order of act.
type todo struct {
	pin        *v1alpha1.PinnedHostKey
	disconnect bool
	verb       host.Verb
	args       host.Args
	// ticket asks for a token that goes with the envelope, revoke for the end of the ticket.
	ticket, revoke bool
	// proxyToken asks for a token of kube-proxy that goes with the envelope.
	proxyToken bool
	adoptNode  bool
	// taint and untaint put the operator's own taint on the Node, and take it off.
	taint, untaint bool
	// finish ends a deletion: the Node goes if it came from our machine, and the finalizer.
	finish, dropNode bool
	// again is when to look again, 0 when something else brings the next pass.
	again time.Duration
}

// run walks the line.
func (p *pass) run() {
	for _, phase := range []func(*pass) bool{
		(*pass).allowed, (*pass).notPaused, (*pass).haveProfile, (*pass).ranged, (*pass).haveCredentials, (*pass).opened, (*pass).trust, (*pass).connect,
		(*pass).facts, (*pass).preflighted, (*pass).planned, (*pass).staged, (*pass).insync, (*pass).isRegistered,
	} {
		if !phase(p) {
			return
		}
	}
}

// start asks for a verb unless one is under way or the last one failed so short ago that its turn has not come.
func (p *pass) start(v host.Verb) {
	if p.snap.Busy != "" {
		return
	}
	if last, ok := p.snap.Last[v]; ok && last.Err != nil {
		if due := last.At.Add(pause(last, string(p.host.UID))); due.After(p.now) {
			p.lookAgain(due.Sub(p.now))
			return
		}
	}
	p.verb = v
}

// relink is how long after a connection was lost, or first refused, it is tried again: a machine whose network is being made is mostly back
// within moments. The second time it is twice that, then the backoff.
const relink = 500 * time.Millisecond

// pause is how long to wait after a failure.
func pause(last host.Outcome, seed string) time.Duration {
	away := errors.Is(last.Err, transport.ErrDisconnected) || errors.Is(last.Err, transport.ErrUnreachable)
	if away && last.Failures <= 2 {
		return relink << max(0, last.Failures-1)
	}
	return backoff(last.Failures, seed)
}

// afterStatus is when to look again after a status that wants another pass at once. Its own watch event brings that pass as soon as the
// cache has it; this is for the case that nothing was written.
const afterStatus = time.Second

// lookAgain asks for another pass after d at the latest.
func (p *pass) lookAgain(d time.Duration) {
	d = max(d, time.Millisecond)
	if p.again == 0 || d < p.again {
		p.again = d
	}
}

// Backoff after failures in a row: 2 s, 4 s, … 5 min, plus up to a quarter that differs from host to host, so that many
// hosts behind one broken link do not all come at once.
const (
	backoffFirst = 2 * time.Second
	backoffMax   = 5 * time.Minute
)

func backoff(failures int, seed string) time.Duration {
	d := backoffMax
	if failures < 9 {
		d = min(backoffMax, backoffFirst<<max(0, failures-1))
	}
	var h uint32 = 2166136261 // FNV-1a
	for i := range len(seed) {
		h = (h ^ uint32(seed[i])) * 16777619
	}
	return d + time.Duration(h%256)*d/1024
}

// target is where the host is reached.
func (p *pass) target() transport.Target {
	port := p.host.Spec.Port
	if port == 0 {
		port = p.profile.Spec.Connection.Port
	}
	if port == 0 {
		port = 22
	}
	t := transport.Target{
		Address:     p.host.Spec.Address,
		Port:        int(port),
		User:        p.host.Spec.Username,
		PrivateKeys: p.creds.keys,
		Verify:      p.verify(),
	}
	// A machine has keys of several kinds; it is asked for the one that is pinned.
	ps, _ := pins(p.host)
	for _, k := range ps {
		t.HostKeyAlgorithms = append(t.HostKeyAlgorithms, k.algorithm)
	}
	return t
}
