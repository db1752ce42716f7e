package windows

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/plan"
)

// testService returns a service of the test's own, changed by the functions. Its program does not exist.
func testService(change ...func(*system.ServiceConfig)) system.ServiceConfig {
	c := system.ServiceConfig{
		Name: "wmcb-test", DisplayName: "wmcb test", Description: "made by a test",
		Exe:       `C:\Program Files\k8s node\no such program.exe`,
		Args:      []string{`--config=C:\Program Files\k8s node\kubelet.conf`, `C:\k node\`, ``, `say "hi"`},
		DependsOn: []string{"EventLog"},
		Env:       []plan.EnvVar{{Name: "HTTPS_PROXY", Value: "http://u:p%23@proxy.example.test:3128"}},
		Recovery:  &plan.Recovery{RestartDelaySeconds: []int{5, 30}, ResetSeconds: 600},
	}
	for _, f := range change {
		f(&c)
	}
	return c
}

func TestServiceNotFound(t *testing.T) {
	s := here(t).Services
	const name = "wmcb-no-such-service"
	_, err := s.Config(name)
	want(t, "config", err, system.ErrServiceNotFound)
	_, err = s.Status(name)
	want(t, "status", err, system.ErrServiceNotFound)
	_, err = s.Dependents(name)
	want(t, "dependents", err, system.ErrServiceNotFound)
	want(t, "start", s.Start(name), system.ErrServiceNotFound)
	want(t, "stop", s.Stop(name), system.ErrServiceNotFound)
	want(t, "control", s.Control(name, 128), system.ErrServiceNotFound)
	want(t, "delete", s.Delete(name), system.ErrServiceNotFound)
	want(t, "update", s.Update(testService(func(c *system.ServiceConfig) { c.Name = name })), system.ErrServiceNotFound)
}

// TestW53ServiceReadsBackAsWritten: create, read, change every part, read, delete.
func TestW53ServiceReadsBackAsWritten(t *testing.T) {
	s := here(t).Services
	first := testService()
	if err := s.Create(first); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Delete(first.Name) })
	for _, c := range []system.ServiceConfig{
		first,
		testService(func(c *system.ServiceConfig) {
			c.Exe, c.Args, c.DependsOn, c.Env, c.Recovery = `C:\k\x.exe`, nil, []string{}, nil, nil
			c.DisplayName, c.Description = "another", ""
		}),
		first,
	} {
		want(t, "update", s.Update(c), nil)
		got, err := s.Config(c.Name)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c, got, nilIsEmpty()); diff != "" {
			t.Error(diff)
		}
	}
	want(t, "create again", s.Create(first), system.ErrExist)
}

func TestServiceWithoutProgram(t *testing.T) {
	s, c := here(t).Services, testService(func(c *system.ServiceConfig) { c.Name, c.DependsOn, c.Recovery = "wmcb-test-2", nil, nil })
	if err := s.Create(c); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Delete(c.Name) })
	status, err := s.Status(c.Name)
	if err != nil || status != (system.ServiceStatus{State: system.ServiceStopped}) {
		t.Errorf("status %+v %v", status, err)
	}
	want(t, "start", s.Start(c.Name), system.ErrNotExist)
	want(t, "stop", s.Stop(c.Name), system.ErrServiceNotActive)
	want(t, "control", s.Control(c.Name, 200), system.ErrServiceNotActive)
	if err := s.Control(c.Name, 1); err == nil || errors.Is(err, system.ErrServiceNotActive) {
		t.Errorf("a code that is not the user's went out: %v", err)
	}
	if list, err := s.Dependents(c.Name); err != nil || len(list) != 0 {
		t.Errorf("dependents %q %v", list, err)
	}
	want(t, "delete", s.Delete(c.Name), nil)
	_, err = s.Status(c.Name)
	want(t, "status after delete", err, system.ErrServiceNotFound)
}

// nilIsEmpty compares as the agent does: no list and an empty list are the same.
func nilIsEmpty() cmp.Option {
	return cmp.FilterPath(func(p cmp.Path) bool {
		return p.Last().Type().Kind().String() == "slice"
	}, cmp.FilterValues(func(a, b any) bool { return length(a) == 0 && length(b) == 0 }, cmp.Ignore()))
}

func length(v any) int {
	switch v := v.(type) {
	case []string:
		return len(v)
	case []plan.EnvVar:
		return len(v)
	}
	return 1
}
