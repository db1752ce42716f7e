package host

import (
	"sync"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// queueRef is the controller's work queue, once there is one.
type queueRef struct {
	mu sync.RWMutex
	q  workqueue.TypedRateLimitingInterface[reconcile.Request]
}

func (r *queueRef) set(q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.q = q
}

func (r *queueRef) add(req reconcile.Request) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.q != nil {
		r.q.Add(req)
	}
}
