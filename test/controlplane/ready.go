package controlplane

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
)

// pollInterval is how often a condition that is waited for is looked at.
const pollInterval = 100 * time.Millisecond

// probe is nil once what it looks at is there.
type probe func(ctx context.Context, c kubernetes.Interface) error

// apiServerReady asks /readyz, which covers etcd and the start hooks. A foreign server on the port fails the TLS handshake.
func apiServerReady(ctx context.Context, c kubernetes.Interface) error {
	_, err := c.CoreV1().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
	return err
}

// defaultServiceAccount is there once the controller manager works; pods are refused before.
func defaultServiceAccount(ctx context.Context, c kubernetes.Interface) error {
	_, err := c.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
	return err
}

// waitFor polls until the probe answers, a component ends, or ctx does. The last component started is the one waited for.
func (cp *ControlPlane) waitFor(ctx context.Context, what string, p probe) error {
	client, err := kubernetes.NewForConfig(cp.RESTConfig())
	if err != nil {
		return err
	}
	var last error
	err = wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		if err := cp.ended(); err != nil {
			return false, err
		}
		last = p(ctx, client)
		return last == nil, nil
	})
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		err = errors.Join(err, last, errors.New(cp.lastLog()))
	}
	return fmt.Errorf("waiting for %s: %w", what, err)
}

// ended says whether a component that should run has ended.
func (cp *ControlPlane) ended() error {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	if cp.stopped {
		return errStopped
	}
	for _, p := range cp.running {
		if err := p.ended(); err != nil {
			return err
		}
	}
	return nil
}

// lastLog is the end of the log of the component started last.
func (cp *ControlPlane) lastLog() string {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	if len(cp.running) == 0 {
		return "no component runs"
	}
	p := cp.running[len(cp.running)-1]
	return fmt.Sprintf("the log of %s ends:\n%s", p.name, fileTail(p.log))
}
