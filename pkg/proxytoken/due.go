package proxytoken

import (
	"time"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
)

// Due is when a machine whose Node has the UID needs another token: at once where none is on record, where the one on record never arrived, and
// where it is bound to another Node, with which it has ended; else after a third of its life, so that two more attempts fit in.
func Due(t *v1alpha1.KubeProxyTokenStatus, nodeUID string) time.Time {
	switch {
	case t == nil || t.HandedOver == nil:
		return time.Time{}
	case t.NodeUID != "" && t.NodeUID != nodeUID:
		return time.Time{}
	}
	return t.Issued.Add(granted(t) / 3)
}

// Ended reports whether the token on record, and so the machine's, is good for nothing any more: kube-proxy no longer hears of changes then.
func Ended(t *v1alpha1.KubeProxyTokenStatus, now time.Time) bool {
	return t != nil && !now.Before(t.Expires.Time)
}

// Short reports whether less than what is asked for was granted.
func Short(t *v1alpha1.KubeProxyTokenStatus) bool { return t != nil && granted(t) < Lifetime }

func granted(t *v1alpha1.KubeProxyTokenStatus) time.Duration {
	return time.Duration(t.LifetimeSeconds) * time.Second
}
