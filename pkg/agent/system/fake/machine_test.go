package fake_test

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/agent/system/fake"
	"github.com/windowsmachine/operator/pkg/plan"
)

// newMachine returns a machine that ends with the test.
func newMachine(t testing.TB, change ...func(*fake.Options)) *fake.Machine {
	t.Helper()
	o := fake.Options{}
	for _, c := range change {
		c(&o)
	}
	m := fake.New(o)
	t.Cleanup(m.Close)
	return m
}

func put(t testing.TB, files system.Files, path, data string) {
	t.Helper()
	f, err := files.Create(path, plan.AccessPublic)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(f, data); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func read(t testing.TB, files system.Files, path string) string {
	t.Helper()
	f, err := files.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// untilKilled is a program that runs until it is ended.
func untilKilled(ctx context.Context, _ *fake.Process) int {
	<-ctx.Done()
	return 0
}

// goodService reports that it runs and ends when it is asked to.
func goodService(ctx context.Context, p *fake.Process) int {
	s, ok := p.Service()
	if !ok {
		return 2
	}
	s.Running()
	select {
	case <-s.Stopping():
	case <-ctx.Done():
	}
	return 0
}

// pass lets d go by in a bubble and waits until everything that happens then has happened.
func pass(t *testing.T, d time.Duration) {
	t.Helper()
	if err := (fake.RealClock{}).Sleep(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
}
