package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/windowsmachine/operator/hack/gobuild"
	"github.com/windowsmachine/operator/hack/payload/programs"
)

// agent is the program that this repository itself puts on machines; make builds it.
const agent = "wmcb.exe"

// rebuild builds programs twice.
type rebuild func(ctx context.Context, progress io.Writer) ([]programs.Comparison, error)

// chosen are the rebuilds that make those names; no names: all.
func chosen(names []string) ([]rebuild, error) {
	root, err := gobuild.Root()
	if err != nil {
		return nil, err
	}
	parts, err := programs.Parts(root)
	if err != nil {
		return nil, err
	}
	known := []string{agent}
	var out []rebuild
	if wanted(names, agent) {
		out = append(out, func(ctx context.Context, progress io.Writer) ([]programs.Comparison, error) {
			return rebuildAgent(ctx, progress, root)
		})
	}
	for _, p := range parts {
		var mine []string
		for _, program := range p.Programs {
			known = append(known, program.Name)
			if wanted(names, program.Name) {
				mine = append(mine, program.Name)
			}
		}
		if len(mine) > 0 {
			out = append(out, func(ctx context.Context, progress io.Writer) ([]programs.Comparison, error) {
				return p.Rebuild(ctx, progress, mine...)
			})
		}
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("%s: %w; there are %v", name, errUnknownProgram, known)
		}
	}
	return out, nil
}

func wanted(names []string, name string) bool { return len(names) == 0 || slices.Contains(names, name) }

// rebuildAgent builds the agent by make in two copies of the source, the second time with an empty build cache.
func rebuildAgent(ctx context.Context, progress io.Writer, root string) ([]programs.Comparison, error) {
	tmp, err := os.MkdirTemp("", "payload-agent-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	first, second := filepath.Join(tmp, "one"), filepath.Join(tmp, "in", "another", "place")
	// Both copies come first: somebody may be at work on the source.
	for _, dir := range []string{first, second} {
		if err := copySource(dir, root); err != nil {
			return nil, err
		}
	}
	for _, b := range []struct {
		dir string
		env []string
	}{{first, nil}, {second, []string{"GOCACHE=" + filepath.Join(tmp, "cache")}}} {
		label := "payload: " + agent + " in " + b.dir
		fmt.Fprintln(progress, label)
		if err := gobuild.WithHeartbeat(progress, label, func() error { return makeAgent(ctx, b.dir, b.env) }); err != nil {
			return nil, err
		}
	}
	c, err := programs.Compare(agent, filepath.Join(first, "out", agent), filepath.Join(second, "out", agent))
	return []programs.Comparison{c}, err
}

// copySource copies what the agent is built from.
func copySource(dir, root string) error {
	for _, folder := range []string{"cmd", "pkg"} {
		if err := os.CopyFS(filepath.Join(dir, folder), os.DirFS(filepath.Join(root, folder))); err != nil {
			return fmt.Errorf("copying the source: %w", err)
		}
	}
	for _, file := range []string{"Makefile", "go.mod", "go.sum"} {
		b, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			return fmt.Errorf("copying the source: %w", err)
		}
		if err := os.WriteFile(filepath.Join(dir, file), b, 0o644); err != nil {
			return fmt.Errorf("copying the source: %w", err)
		}
	}
	return nil
}

func makeAgent(ctx context.Context, dir string, env []string) error {
	cmd := exec.CommandContext(ctx, "make", "-s", "-C", dir, "out/"+agent)
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("make out/%s: %w: %s", agent, err, out)
	}
	return nil
}
