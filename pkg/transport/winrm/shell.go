package winrm

import (
	"context"
	"fmt"
	"time"

	wsman "github.com/masterzen/winrm"

	"github.com/windowsmachine/operator/pkg/transport"
)

const (
	// maxOutput bounds what one command may print on a stream, in bytes. None of ours prints a tenth of it.
	maxOutput = 64 << 10
	// closing bounds what is done for a command or shell that is given up, whatever became of the caller.
	closing = 10 * time.Second
)

// shell is one shell of the service. Each user may have 30 of them (MaxShellsPerUser), so it is always deleted; one whose deletion never arrives
// is ended by the service after its idle timeout.
type shell struct {
	c  *client
	id string
}

// newShell makes a shell; a command in it is one line for cmd.exe.
func (c *client) newShell(ctx context.Context) (*shell, error) {
	e, err := c.post(ctx, wsman.NewOpenShellRequest(c.url, c.params))
	if err != nil {
		return nil, fmt.Errorf("making a shell: %w", err)
	}
	id, err := e.shellID()
	if err != nil {
		return nil, err
	}
	return &shell{c: c, id: id}, nil
}

// delete ends the shell and all that runs in it, also after ctx has ended.
func (s *shell) delete(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closing)
	defer cancel()
	_, _ = s.c.post(ctx, wsman.NewDeleteShellRequest(s.c.url, s.id, s.c.params))
}

// result is how a command ended.
type result struct {
	exit   uint32
	stdout []byte
	stderr []byte
}

// run runs one line of cmd.exe to its end, with input if it is not nil. A command that is cut off is ended.
func (s *shell) run(ctx context.Context, line string, input []byte) (result, error) {
	e, err := s.c.post(ctx, wsman.NewExecuteCommandRequest(s.c.url, s.id, line, nil, s.c.params))
	if err != nil {
		return result{}, err
	}
	id, err := identifier(e.Body.CommandID)
	if err != nil {
		return result{}, err
	}
	// Also for a command that has ended: until then it counts in the shell's quota.
	defer s.terminate(ctx, id)
	if input != nil {
		if _, err := s.c.post(ctx, wsman.NewSendInputRequest(s.c.url, s.id, id, input, true, s.c.params)); err != nil {
			return result{}, fmt.Errorf("sending input: %w", err)
		}
	}
	return s.receive(ctx, id)
}

// receive collects a command's output until it ends.
func (s *shell) receive(ctx context.Context, id string) (result, error) {
	var r result
	for {
		if ctx.Err() != nil {
			return result{}, fmt.Errorf("%w: %w", transport.ErrUnreachable, context.Cause(ctx))
		}
		e, err := s.c.post(ctx, wsman.NewGetOutputRequest(s.c.url, s.id, id, "stdout stderr", s.c.params))
		if timedOut(err) {
			continue
		}
		if err != nil {
			return result{}, fmt.Errorf("receiving: %w", err)
		}
		o, err := e.received(id)
		if err != nil {
			return result{}, err
		}
		if len(r.stdout)+len(o.stdout) > maxOutput || len(r.stderr)+len(o.stderr) > maxOutput {
			return result{}, fmt.Errorf("%w: %w: a command prints more than %d bytes", transport.ErrDisconnected, errAnswer, maxOutput)
		}
		r.stdout, r.stderr = append(r.stdout, o.stdout...), append(r.stderr, o.stderr...)
		if o.done {
			r.exit = o.exit
			return r, nil
		}
	}
}

// terminate ends a command, or takes one that has ended off the books.
func (s *shell) terminate(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closing)
	defer cancel()
	_, _ = s.c.post(ctx, wsman.NewSignalRequest(s.c.url, s.id, id, s.c.params))
}
