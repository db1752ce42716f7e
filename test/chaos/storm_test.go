package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/test/bed"
)

const (
	stormHosts  = 50
	stormLength = 2 * time.Minute
	// endPatience bounds how long what ended may take to be gone.
	endPatience = 15 * time.Second
)

// storm is a run of it.
type storm struct {
	*line
	key      ssh.PublicKey
	tmp      string
	began    time.Time
	subjects []*subject
	roster   *roster
	// over ends with the storm.
	over context.Context
}

// setting is a number from the environment, or otherwise.
func setting(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	text, ok := os.LookupEnv(name)
	if !ok || text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// TestStorm is everything at once, for two minutes and on fifty hosts, and then quiet. STORM_SEED repeats one, STORM_SECONDS and STORM_HOSTS make it
// longer, shorter or smaller. It runs alone: what it leaves behind in this process is counted.
func TestStorm(t *testing.T) {
	seed := setting(t, "STORM_SEED", rand.Uint64N(1_000_000))
	length := time.Duration(setting(t, "STORM_SECONDS", uint64(stormLength/time.Second))) * time.Second
	hosts := int(setting(t, "STORM_HOSTS", stormHosts))
	fmt.Printf("storm: seed %d, %d hosts, %s\n", seed, hosts, length)
	before := stacks()
	t.Run("storm", func(t *testing.T) { runStorm(t, planStorm(seed, hosts, length), hosts, length) })
	for _, x := range settling(context.WithoutCancel(t.Context()), endPatience, func() []string { return leaked(before, stacks()) }) {
		t.Errorf("left when all is over: %s", x)
	}
	if t.Failed() {
		t.Logf("again: STORM_SEED=%d", seed)
	}
}

func runStorm(t *testing.T, events []storming, hosts int, length time.Duration) {
	tmp := t.TempDir()
	st := &storm{line: startLine(t, "TMPDIR="+tmp), tmp: tmp}
	key, err := ssh.ParsePrivateKey(st.bed.PrivateKey())
	st.must(err)
	st.key = key.PublicKey()
	st.roster = &roster{st: st, done: map[trial]int{}, requests: map[string]bool{}}
	st.must(st.roster.fill())
	for n := range hosts {
		s := &subject{st: st, name: fmt.Sprintf("storm-%02d", n), done: map[trial]int{}}
		for _, e := range of(events, n) {
			for _, k := range lastingTrials() {
				if e.Trial == k {
					s.stays = k
				}
			}
		}
		st.must(s.start())
		st.subjects = append(st.subjects, s)
	}
	_, err = st.roster.leader()
	st.must(err)

	var stop context.CancelFunc
	st.began = time.Now()
	st.over, stop = context.WithTimeout(st.ctx, length)
	defer stop()
	watching, look := context.WithCancel(st.ctx)
	w := &sentinel{st: st, told: map[string]bool{}}
	var watch sync.WaitGroup
	watch.Go(func() { w.watch(watching) })
	watch.Go(func() { st.roster.tend(watching) })
	st.blow(events)
	st.quiet()
	look()
	watch.Wait()
	w.look(st.ctx)
	if w.readies == 0 {
		t.Errorf("in %d looks no Ready host was seen", w.looks)
	}
	st.leavesNothing()
}

// blow has everything happen, side by side.
func (st *storm) blow(events []storming) {
	var all sync.WaitGroup
	for n, s := range st.subjects {
		all.Go(func() { s.live(of(events, n)) })
	}
	all.Go(func() { st.roster.live(of(events, nobody)) })
	all.Wait()
	st.t.Logf("the storm is over after %.1f s", time.Since(st.began).Seconds())
}

// until waits for a time of the storm; false when it is over before.
func (st *storm) until(at time.Duration) bool {
	t := time.NewTimer(time.Until(st.began.Add(at)))
	defer t.Stop()
	select {
	case <-t.C:
		return st.over.Err() == nil
	case <-st.over.Done():
		return false
	}
}

// hold waits as long as something lasts, at most until the storm is over.
func (st *storm) hold(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-st.over.Done():
	}
}

// api tries until the API server has done it: it may be away, or somebody else was faster.
func (st *storm) api(what string, do func() error) error {
	var err error
	if late := poll(st.ctx, func() (bool, string) {
		err = do()
		return err == nil, ""
	}); late != nil {
		return fmt.Errorf("%s: %w", what, errors.Join(late, err))
	}
	return nil
}

// quiet ends all troubles, has a new operator look at everything, and waits until each host is what it can be.
func (st *storm) quiet() {
	for _, s := range st.subjects {
		s.calm()
	}
	_, err := st.roster.handOver((*bed.Operator).Kill)
	st.must(err)
	began := time.Now()
	// Those with something that stays come last: by then the new operator has looked at all, so that it is not the old one's word that counts.
	for _, stays := range []bool{false, true} {
		var all sync.WaitGroup
		for _, s := range st.subjects {
			if stays == (s.stays != "") {
				all.Go(s.verdict)
			}
		}
		all.Wait()
	}
	st.t.Logf("quiet after another %.1f s", time.Since(began).Seconds())
	whole := true
	for _, s := range st.subjects {
		whole = whole && s.settled
	}
	for _, k := range sortedKeys(st.roster.done) {
		for range st.roster.done[k] {
			matrix.row("storm: "+string(k), whole, 0)
		}
	}
}

// verdict waits until the host is Ready, or says what keeps it from being.
func (s *subject) verdict() {
	m := s.machine()
	if m == nil {
		return
	}
	err := poll(s.st.ctx, func() (bool, string) {
		if s.stays == "" {
			return m.isReady()
		}
		h, err := m.host()
		if err != nil {
			return false, err.Error()
		}
		c := meta.FindStatusCondition(h.Status.Conditions, v1alpha1.ConditionReady)
		reason, word := cause(s.stays)
		return c != nil && c.Status == metav1.ConditionFalse && c.Reason == reason && strings.Contains(c.Message, word), m.state()
	})
	if err != nil {
		s.st.t.Errorf("%s (%s): %v", s.name, s.stays, err)
		m.explain()
	} else if s.stays != "" {
		s.st.t.Logf("%s has %q: %s", s.name, s.stays, m.state())
	}
	s.settled = err == nil
	twice := 0
	done := s.done
	for _, y := range s.eyes {
		seen := y.seen()
		twice += seen.twice
		for k, n := range seen.done {
			if k != accessDenied {
				done[k] += n
			}
		}
	}
	if twice > 0 {
		s.st.t.Errorf("%s: %d blobs were sent although they were there", s.name, twice)
	}
	for _, k := range sortedKeys(done) {
		for range done[k] {
			if s.stays == "" && k != joins {
				matrix.row("storm: "+string(k), err == nil, twice)
				twice = 0
			}
		}
	}
	// What was cut when the key was swapped for good is cleaned by nobody: the machine may not be talked to.
	if half := m.halfWritten(); len(half) > 0 && s.stays != keyForeign {
		s.st.t.Errorf("%s: half-written files are left: %s", s.name, half)
	}
}

// leavesNothing: the machines hold the connections that the operator holds, and none when it has ended; it leaves no file.
func (st *storm) leavesNothing() {
	port, err := st.bed.Port()
	st.must(err)
	leader, err := st.roster.leader()
	st.must(err)
	for _, o := range st.roster.living {
		if o != leader {
			st.must(stop(o))
		}
	}
	for _, x := range settling(st.ctx, endPatience, func() []string {
		operator, err := held(leader.PID(), port)
		if err != nil {
			return []string{err.Error()}
		}
		return notHeld(st.open(), operator)
	}) {
		st.t.Error(x)
	}
	st.must(stop(leader))
	for _, x := range settling(st.ctx, endPatience, func() []string { return notHeld(st.open(), nil) }) {
		st.t.Errorf("after the operator has ended: %s", x)
	}
	left, err := files(st.tmp)
	st.must(err)
	if len(left) > 0 {
		st.t.Errorf("operators left files: %s", left)
	}
}

// open are the connections that the machines see.
func (st *storm) open() map[netip.Addr]int {
	out := map[netip.Addr]int{}
	for _, s := range st.subjects {
		if m := s.machine(); m != nil {
			ip, _ := m.Addr()
			out[netip.MustParseAddr(ip)] = m.Stats().Open
		}
	}
	return out
}
