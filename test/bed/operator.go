package bed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// process is a program that was started here and is ended by its own pid.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error
	log  *os.File
}

// StartOperator starts the operator as its own process, with a kubeconfig of its own service account. flags follow ours.
func (b *Bed) StartOperator(ctx context.Context, flags ...string) error {
	p, err := b.launch(ctx, b.OperatorLog(), flags)
	if err != nil {
		return err
	}
	b.mu.Lock()
	b.operator = p
	b.mu.Unlock()
	return nil
}

// launch starts an operator that appends to that log.
func (b *Bed) launch(ctx context.Context, logPath string, flags []string) (*process, error) {
	kubeconfig, err := b.ServiceAccountKubeconfig(ctx, Namespace, account)
	if err != nil {
		return nil, fmt.Errorf("making the operator's kubeconfig: %w", err)
	}
	path := strings.TrimSuffix(logPath, ".log") + ".kubeconfig"
	if err := os.WriteFile(path, kubeconfig, 0o600); err != nil {
		return nil, err
	}
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	args := []string{"--payload", b.payload, "--agent", b.opts.Agent, "--health-probe-bind-address", "0", "--namespace", Namespace}
	if b.opts.Provider == nil {
		args = append(args, "--allow-loopback-hosts")
	}
	args = append(args, flags...)
	// The process outlives ctx, which bounds the start only; StopOperator and Close end it.
	cmd := exec.CommandContext(context.Background(), b.opts.Operator, args...)
	cmd.Env = append(append(os.Environ(), b.opts.Env...), "KUBECONFIG="+path)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("starting the operator: %w", err), log.Close())
	}
	p := &process{cmd: cmd, done: make(chan struct{}), log: log}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// OperatorLog is the file that holds what the operator says.
func (b *Bed) OperatorLog() string { return filepath.Join(b.dir, "operator.log") }

// OperatorDone is closed when the operator has ended.
func (b *Bed) OperatorDone() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.operator == nil {
		c := make(chan struct{})
		close(c)
		return c
	}
	return b.operator.done
}

// stopGrace is how long the operator may take to stop.
const stopGrace = 20 * time.Second

// StopOperator asks the operator to stop and waits for it; one that does not is killed, which is an error.
func (b *Bed) StopOperator() error {
	p, err := b.takeOperator()
	if p == nil || err != nil {
		return err
	}
	defer p.log.Close()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stopping the operator: %w", err)
	}
	timer := time.NewTimer(stopGrace)
	defer timer.Stop()
	select {
	case <-p.done:
		if p.err != nil {
			return fmt.Errorf("the operator stopped with an error: %w", p.err)
		}
		return nil
	case <-timer.C:
		err := p.cmd.Process.Kill()
		<-p.done
		return errors.Join(fmt.Errorf("the operator did not stop within %s", stopGrace), err)
	}
}

// KillOperator ends the operator without a warning, as a node that dies under it does. Its leader election lease stays until it expires.
func (b *Bed) KillOperator() error {
	p, err := b.takeOperator()
	if p == nil || err != nil {
		return err
	}
	defer p.log.Close()
	if err := p.cmd.Process.Kill(); err != nil {
		return fmt.Errorf("killing the operator: %w", err)
	}
	<-p.done
	return nil
}

// takeOperator returns the running operator for its end, nil when there is none. One that has ended by itself is an error.
func (b *Bed) takeOperator() (*process, error) {
	b.mu.Lock()
	p := b.operator
	b.operator = nil
	b.mu.Unlock()
	if p == nil {
		return nil, nil
	}
	select {
	case <-p.done:
		return nil, errors.Join(fmt.Errorf("the operator had ended by itself: %w", errors.Join(p.err, errEnded)), p.log.Close())
	default:
		return p, nil
	}
}

var errEnded = errors.New("see its log")
