package windows

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"time"

	"github.com/windowsmachine/operator/pkg/agent/system"
)

// outputGrace is how long a program's pipe may stay open after its end, held by a child of its own.
const outputGrace = time.Second

// programs runs programs by CreateProcess. No shell and no search path are involved: the name must be absolute.
type programs struct{}

func (programs) Output(ctx context.Context, exe string, args ...string) ([]byte, error) {
	if _, _, err := splitPath("run", exe); err != nil {
		return nil, err
	}
	var out capped
	c := exec.CommandContext(ctx, exe, args...)
	c.Stdout, c.WaitDelay = &out, outputGrace
	err := c.Run()
	if cerr := ctx.Err(); err != nil && cerr != nil {
		return nil, failed("run", exe, errors.Join(cerr, err))
	}
	return out.b.Bytes(), failed("run", exe, err)
}

// capped keeps the first system.MaxOutput bytes.
type capped struct{ b bytes.Buffer }

func (c *capped) Write(p []byte) (int, error) {
	c.b.Write(p[:min(len(p), system.MaxOutput-c.b.Len())])
	return len(p), nil
}
