package chaos

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/test/bed"
)

// roster are the operators of the storm, as a Deployment of two replicas keeps them: one leads, one stands by, and one that ends, whyever, is followed
// by another.
type roster struct {
	st *storm

	mu   sync.Mutex
	made int
	// living are those that have not ended and are not suspended, the youngest last.
	living   []*bed.Operator
	done     map[trial]int
	requests map[string]bool
}

// replicas is how many operators there are.
const replicas = 2

// tend keeps the number of operators until ctx ends. While the API server is away none can be started.
func (r *roster) tend(ctx context.Context) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			_ = r.fill() // the next time
		}
	}
}

// fill replaces the operators that have ended.
func (r *roster) fill() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.living = slices.DeleteFunc(r.living, func(o *bed.Operator) bool { return ended(o) })
	for len(r.living) < replicas {
		o, err := r.st.another(fmt.Sprintf("storm-%d", r.made+1))
		if err != nil {
			return err
		}
		r.made++
		r.living = append(r.living, o)
	}
	return nil
}

func ended(o *bed.Operator) bool {
	select {
	case <-o.Done():
		return true
	default:
		return false
	}
}

// leader waits until one of them leads. One that has lost the lead ends by itself, so that the youngest that ever led is the one.
func (r *roster) leader() (*bed.Operator, error) {
	var found *bed.Operator
	err := poll(r.st.ctx, func() (bool, string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, o := range r.living {
			if leading(o) && !ended(o) {
				found = o
			}
		}
		return found != nil, "no lease yet"
	})
	if err != nil {
		return nil, fmt.Errorf("an operator leads: %w", err)
	}
	return found, nil
}

// handOver has the leader go, and waits until another one leads.
func (r *roster) handOver(leave func(*bed.Operator) error) (old *bed.Operator, err error) {
	if old, err = r.leader(); err != nil {
		return nil, err
	}
	r.mu.Lock()
	r.living = slices.DeleteFunc(r.living, func(o *bed.Operator) bool { return o == old })
	r.mu.Unlock()
	if err := leave(old); err != nil {
		return nil, err
	}
	_, err = r.leader()
	return old, err
}

// live does the events that happen to everybody.
func (r *roster) live(events []storming) {
	for _, e := range events {
		if !r.st.until(e.At) {
			return
		}
		if err := r.befall(e); err != nil {
			r.st.t.Errorf("%s, at %s: %v", e.Trial, e.At, err)
			return
		}
		r.done[e.Trial]++
	}
}

func (r *roster) befall(e storming) error {
	switch e.Trial {
	case operatorKilled:
		_, err := r.handOver((*bed.Operator).Kill)
		return err
	case operatorStopped:
		_, err := r.handOver(stop)
		return err
	case operatorSuspended:
		return r.suspended(e)
	case apiRestarted:
		return r.st.bed.RestartAPIServer(r.st.ctx)
	case profileChanged:
		return r.profile(e)
	case strangerAsks:
		return r.stranger(e)
	default:
		return fmt.Errorf("nobody knows how to do %q", e.Trial)
	}
}

// stop asks an operator to stop, and waits until it has.
func stop(o *bed.Operator) error {
	if err := o.Stop(); err != nil {
		return err
	}
	<-o.Done()
	return nil
}

// suspended stops the leader where it stands, wakes it when another one has led for a while, and waits until it has ended by itself.
func (r *roster) suspended(e storming) error {
	old, err := r.handOver((*bed.Operator).Pause)
	if err != nil {
		return err
	}
	r.st.hold(e.Last)
	if err := old.Resume(); err != nil {
		return err
	}
	return poll(r.st.ctx, func() (bool, string) {
		return ended(old), "the old leader runs on"
	})
}

// profile changes what all nodes shall be: each gets a new plan.
func (r *roster) profile(e storming) error {
	return r.st.api("changing the profile", func() error {
		p := &v1alpha1.WindowsNodeProfile{}
		if err := r.st.bed.Client.Get(r.st.ctx, client.ObjectKey{Name: bridge}, p); err != nil {
			return err
		}
		was := p.DeepCopy()
		n := int32(50 + e.N%150)
		p.Spec.Kubelet.MaxPods = &n
		return r.st.bed.Client.Patch(r.st.ctx, p, client.MergeFrom(was))
	})
}

// stranger asks for the certificate of a node that nobody expects, as that node, or of one of ours, as somebody else. Neither may get it.
func (r *roster) stranger(e storming) error {
	node, user := fmt.Sprintf("stranger-%d", e.N%1000), ""
	if e.N&(1<<40) != 0 {
		node, user = r.st.subjects[int(e.N%uint64(len(r.st.subjects)))].name, "stranger"
	}
	name := fmt.Sprintf("storm-%d-%d", e.At/time.Millisecond, e.N%1000)
	if err := r.st.api("asking for a certificate", func() error { return r.st.request(name, node, user) }); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests[name] = true
	return nil
}

// strangers are the requests that must not be approved.
func (r *roster) strangers() map[string]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.requests)
}
