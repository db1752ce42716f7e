package chaos

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/agent/system/fake"
	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/plan"
	"github.com/windowsmachine/operator/test/bed"
	"github.com/windowsmachine/operator/test/hostsim"
)

// subject is one host of the storm. Its events happen one after the other, in a goroutine of its own.
type subject struct {
	st   *storm
	name string
	// stays is what it has for good, "" for nothing.
	stays trial

	mu sync.Mutex
	// m is its machine, nil while it is being replaced; eyes are those of all its machines.
	m    *machine
	eyes []*eye
	// lives are those of its WindowsHosts.
	lives []life
	done  map[trial]int
	// settled is whether it came to its end.
	settled bool
}

func (s *subject) machine() *machine {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.m
}

func (s *subject) eye() *eye {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.eyes[len(s.eyes)-1]
}

// start starts a machine for it, at a free address.
func (s *subject) start() error {
	host, err := s.st.bed.NewHost(s.name, func(o *hostsim.Options) { nature(s.stays, o) })
	if err != nil {
		return err
	}
	y := newEye()
	host.Machine().Intercept(y.judge)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.m = &machine{Host: host, l: s.st.line, name: s.name}
	s.eyes = append(s.eyes, y)
	return nil
}

// nature is what a machine is like that cannot be a node.
func nature(k trial, o *hostsim.Options) {
	switch k {
	case windowsTooOld:
		o.Machine.Build = 14393
	case clockWrong:
		o.Machine.Skew = time.Hour
	case diskSmall:
		o.Machine.DiskSize = 1 << 30
	case serviceForeign:
		o.Machine.Services = []system.ServiceConfig{{Name: "kubelet", Exe: `C:\theirs\kubelet.exe`}}
	default:
	}
}

// cause is the reason that Ready has at the end where something stays, and a word of its message.
func cause(k trial) (reason, word string) {
	switch k {
	case keyForeign:
		return v1alpha1.ReasonHostKeyChanged, "spec.hostKeys"
	case windowsTooOld:
		return v1alpha1.ReasonPreflightFailed, "build 14393"
	case clockWrong:
		return v1alpha1.ReasonPreflightFailed, "ahead of the API server's"
	case diskSmall:
		return v1alpha1.ReasonPreflightFailed, "MiB free"
	case serviceForeign:
		return v1alpha1.ReasonPreflightFailed, `service "kubelet"`
	default:
		return v1alpha1.ReasonNodeReady, ""
	}
}

// live does the host's events when their time comes, until the storm is over.
func (s *subject) live(events []storming) {
	for _, e := range events {
		if !s.st.until(e.At) {
			return
		}
		if err := s.befall(e); err != nil {
			s.st.t.Errorf("%s, %s, at %s: %v", s.name, e.Trial, e.At, err)
			return
		}
	}
}

// befall does one event and counts it. Harm that waits for its moment is counted when it was done.
func (s *subject) befall(e storming) error {
	m := s.machine()
	if h := waits(e); h != nil {
		s.eye().arm(e.Trial, h)
		return nil
	}
	do := map[trial]func() error{
		joins:          s.create,
		windowsTooOld:  nothing,
		clockWrong:     nothing,
		diskSmall:      nothing,
		serviceForeign: nothing,
		connectionCut:  func() error { return s.knobbed(e, hostsim.Knobs{CutAfter: 1 + int64(e.N%(4<<20))}) },
		slowLine:       func() error { return s.knobbed(e, hostsim.Knobs{Latency: 20 * time.Millisecond, Bandwidth: 512 << 10}) },
		dripping:       func() error { return s.knobbed(e, hostsim.Knobs{Drip: 20 * time.Microsecond}) },
		hanging:        func() error { return s.hang(e) },
		linkLost:       func() error { return s.lasts(e, m.Unplug, m.Plug) },
		rebooted:       func() error { return reboot(s.st.ctx, m) },
		pulled:         func() error { return s.pulled(e) },
		diskFull: func() error {
			return s.lasts(e, func() { m.Machine().FillDisk(0) }, func() { m.Machine().FillDisk(-1) })
		},
		accessDenied: func() error {
			return s.lasts(e, func() { s.eye().arm(e.Trial, denied) }, func() { s.eye().arm("", nil) })
		},
		loginRefused: func() error {
			return s.lasts(e, func() { m.SetAuthorizedKeys(); m.Disconnect() }, func() { m.SetAuthorizedKeys(s.st.key) })
		},
		clockMoved: func() error {
			return s.lasts(e, func() { m.Machine().SetSkew(skew(e.N)) }, func() { m.Machine().SetSkew(0) })
		},
		keySwapped:     func() error { return s.swapped(e) },
		keyAccepted:    func() error { return s.accepted(e) },
		keyForeign:     s.swap,
		hostMadeAnew:   func() error { return s.anew(false) },
		machineRebuilt: func() error { return s.anew(true) },
	}[e.Trial]
	if do == nil {
		return fmt.Errorf("nobody knows how to do %q", e.Trial)
	}
	s.count(e.Trial)
	return do()
}

func nothing() error { return nil }

func (s *subject) count(k trial) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done[k]++
}

// waits is the harm of an event that is done at one of the next changes that the agent makes, nil for other events.
func waits(e storming) harm {
	nth := int(e.N % 12)
	kill := after
	if e.Trial == tornEntry || e.Trial == tornWrite {
		kill = halfway
	}
	var is func(fake.Op, *plan.Entry) bool
	switch e.Trial {
	case crashAtEntry, tornEntry:
		is = func(_ fake.Op, e *plan.Entry) bool { return e != nil }
	case crashAtWrite, tornWrite:
		is = func(op fake.Op, e *plan.Entry) bool { return op.Kind == fake.OpWrite }
	default:
		return nil
	}
	seen := 0
	return func(_ int, op fake.Op, e *plan.Entry) (fake.Verdict, bool) {
		if !is(op, e) {
			return fake.Verdict{}, false
		}
		seen++
		return kill(op), seen > nth
	}
}

// denied refuses whatever makes files.
func denied(_ int, op fake.Op, _ *plan.Entry) (fake.Verdict, bool) {
	if op.Kind != fake.OpCreate && op.Kind != fake.OpRename {
		return fake.Verdict{}, false
	}
	return fake.Verdict{Err: system.ErrDenied}, true
}

// skew is a quarter of an hour to an hour and a quarter, to either side.
func skew(n uint64) time.Duration {
	d := 15*time.Minute + time.Duration(n%3600)*time.Second
	if n&(1<<40) != 0 {
		return -d
	}
	return d
}

// lasts begins a trouble, and ends it when it has lasted long enough or the storm is over.
func (s *subject) lasts(e storming, begin, end func()) error {
	begin()
	s.st.hold(e.Last)
	end()
	return nil
}

// knobbed has new connections be like that for a while; the present one is cut, so that there is a new one.
func (s *subject) knobbed(e storming, k hostsim.Knobs) error {
	m := s.machine()
	return s.lasts(e, func() { m.SetKnobs(k); m.Disconnect() }, func() { m.SetKnobs(hostsim.Knobs{}) })
}

func (s *subject) hang(e storming) error {
	m := s.machine()
	return s.lasts(e, func() { m.SetKnobs(hostsim.Knobs{Hang: true}) }, func() { m.SetKnobs(hostsim.Knobs{}) })
}

// reboot is an orderly one; where one is under way it is none.
func reboot(ctx context.Context, m *machine) error {
	if err := m.Machine().Reboot(ctx); err != nil && !errors.Is(err, fake.ErrPoweredOff) {
		return err
	}
	return nil
}

func (s *subject) pulled(e storming) error {
	m := s.machine()
	return s.lasts(e, func() { m.Machine().PowerCut(fake.Tear(e.N % 2)) }, func() {
		// A reboot that was under way when the power went may have switched it on.
		_ = m.Machine().PowerOn(s.st.ctx)
	})
}

// swap gives the machine another host key; who is connected is thrown out.
func (s *subject) swap() error {
	key, err := hostsim.NewHostKey()
	if err != nil {
		return err
	}
	s.show(key)
	return nil
}

func (s *subject) show(key ssh.Signer) {
	m := s.machine()
	m.SetHostKey(key)
	m.Disconnect()
}

func (s *subject) swapped(e storming) error {
	was := s.machine().Signer()
	if err := s.swap(); err != nil {
		return err
	}
	s.st.hold(e.Last)
	s.show(was)
	return nil
}

func (s *subject) accepted(e storming) error {
	if err := s.swap(); err != nil {
		return err
	}
	s.st.hold(e.Last)
	return s.st.api("accepting the key", func() error {
		h, err := s.machine().host()
		if err != nil {
			return err
		}
		was := h.DeepCopy()
		h.Spec.HostKeys = []string{s.machine().HostKey()}
		return s.st.bed.Client.Patch(s.st.ctx, h, client.MergeFrom(was))
	})
}

// create makes the WindowsHost.
func (s *subject) create() error {
	m := s.machine()
	ip, _ := m.Addr()
	s.mu.Lock()
	s.lives = append(s.lives, life{Node: s.name, Born: time.Now()})
	s.mu.Unlock()
	return s.st.api("making the host", func() error {
		err := s.st.bed.Client.Create(s.st.ctx, &v1alpha1.WindowsHost{
			ObjectMeta: metav1.ObjectMeta{Namespace: bed.Namespace, Name: s.name},
			Spec: v1alpha1.WindowsHostSpec{
				Address: ip, HostKeys: []string{m.HostKey()}, ProfileRef: v1alpha1.ProfileReference{Name: bridge},
			},
		})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
}

// anew deletes the host and makes it again, on the same machine, or on another one after the first is gone and can be cleaned by nobody.
func (s *subject) anew(rebuild bool) error {
	if rebuild {
		s.mu.Lock()
		m := s.m
		s.m = nil
		s.mu.Unlock()
		m.Close()
		if err := s.forget(m, true); err != nil {
			return err
		}
		if err := s.start(); err != nil {
			return err
		}
		return s.create()
	}
	if err := s.forget(s.machine(), false); err != nil {
		return err
	}
	return s.create()
}

// forget deletes the WindowsHost and waits until it is gone.
func (s *subject) forget(m *machine, dirty bool) error {
	if err := s.st.api("deleting the host", func() error {
		h, err := m.host()
		if err != nil {
			return client.IgnoreNotFound(err)
		}
		was := h.DeepCopy()
		if dirty {
			h.Annotations = map[string]string{v1alpha1.SkipCleaningAnnotation: "true"}
			if err := s.st.bed.Client.Patch(s.st.ctx, h, client.MergeFrom(was)); err != nil {
				return client.IgnoreNotFound(err)
			}
		}
		return client.IgnoreNotFound(s.st.bed.Client.Delete(s.st.ctx, h))
	}); err != nil {
		return err
	}
	if err := poll(s.st.ctx, func() (bool, string) {
		_, err := m.host()
		return apierrors.IsNotFound(err), m.state()
	}); err != nil {
		return fmt.Errorf("the host was deleted and is still there: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lives[len(s.lives)-1].Gone = time.Now()
	return nil
}

// calm ends what the storm may have left of troubles that do not stay.
func (s *subject) calm() {
	m := s.machine()
	if m == nil {
		return // it was not made again, which has been told
	}
	s.eye().arm("", nil)
	m.SetKnobs(hostsim.Knobs{})
	_ = m.Machine().PowerOn(s.st.ctx) // it is on already, as a rule
	m.Plug()
}
