package bed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// Operator is an operator beside the one of StartOperator, as a deployment with several replicas has them; leader election lets one of them
// work. Whoever started it ends it, before Close.
type Operator struct {
	p   *process
	log string
}

// StartAnother starts an operator with a log of that name in Folder.
func (b *Bed) StartAnother(ctx context.Context, name string, flags ...string) (*Operator, error) {
	o := &Operator{log: filepath.Join(b.dir, name+".log")}
	var err error
	o.p, err = b.launch(ctx, o.log, flags)
	return o, err
}

// Log is the file that holds what it says.
func (o *Operator) Log() string { return o.log }

// PID is its process.
func (o *Operator) PID() int { return o.p.cmd.Process.Pid }

// Done is closed when it has ended.
func (o *Operator) Done() <-chan struct{} { return o.p.done }

// Pause stops it where it stands, as a machine does that is suspended; Resume lets it go on.
func (o *Operator) Pause() error { return o.signal(syscall.SIGSTOP) }

// Resume lets it go on.
func (o *Operator) Resume() error { return o.signal(syscall.SIGCONT) }

// Stop asks it to stop. It hands the lead over.
func (o *Operator) Stop() error { return o.signal(syscall.SIGTERM) }

// Kill ends it without a warning and waits until it is gone; one that has ended already is no error.
func (o *Operator) Kill() error {
	if err := o.signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-o.p.done
	if err := o.p.log.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

func (o *Operator) signal(s syscall.Signal) error {
	if err := o.p.cmd.Process.Signal(s); err != nil {
		return fmt.Errorf("sending %s to the operator: %w", s, err)
	}
	return nil
}
