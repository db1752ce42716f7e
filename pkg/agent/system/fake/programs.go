package fake

import (
	"bytes"
	"context"
	"fmt"

	"github.com/windowsmachine/operator/pkg/agent/system"
)

type programs struct{ view }

// Output starts the program as a child of the caller's process. It refuses what StartProcess refuses.
func (v programs) Output(ctx context.Context, exe string, args ...string) ([]byte, error) {
	var out capped
	p, err := v.launch(exe, args, &out)
	if err != nil {
		return nil, err
	}
	select {
	case <-p.Done():
	case <-ctx.Done():
		p.Kill()
		return nil, fmt.Errorf("running %s: %w", exe, ctx.Err())
	}
	if exit := p.Wait(); exit != 0 {
		return nil, fmt.Errorf("running %s: exit code %d", exe, exit)
	}
	return out.b.Bytes(), nil
}

func (v programs) launch(exe string, args []string, out *capped) (*Process, error) {
	s := Streams{Stdout: out}
	if v.p != nil {
		return v.p.StartProcess(exe, args, s)
	}
	return v.m.StartProcess(exe, args, s)
}

// capped keeps the first system.MaxOutput bytes. It is read only once the process that writes it has ended by itself.
type capped struct{ b bytes.Buffer }

func (c *capped) Write(p []byte) (int, error) {
	c.b.Write(p[:min(len(p), system.MaxOutput-c.b.Len())])
	return len(p), nil
}
