package windows

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/windowsmachine/operator/pkg/agent/system/fake"
)

var (
	real     = flag.Bool("change-this-machine", false, "exercise the machine that this program runs on, which must be a Windows Server that may be changed")
	features = flag.Bool("enable-features", false, "with -change-this-machine: enable the feature Containers if it is off; takes a reboot and is not taken back")
	only     = flag.String("only", "", "with -change-this-machine: the steps to exercise, separated by commas; empty is all")
	results  = flag.String("results", "", "file for the report, JSON")
)

func TestMain(m *testing.M) {
	if RunService() {
		return
	}
	os.Exit(m.Run())
}

// TestSteps exercises all steps: on the modelled Windows, or with -change-this-machine on the real one.
//
//evidence:fake facts write-credentials access-control set-environment make-directories exclude-from-defender install-files
//evidence:fake import-certificates open-firewall join-network set-routes start-service service-order service-recovery
func TestSteps(t *testing.T) {
	if !*real {
		synctest.Test(t, func(t *testing.T) { stepsOnFake(t) })
		return
	}
	m, err := Here(t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	m.EnableFeatures = *features
	if *only != "" {
		m.Only = strings.Split(*only, ",")
	}
	judge(t, run(t, m))
}

// run exercises a machine and writes the report if one is asked for.
func run(t *testing.T, m Machine) Report {
	t.Helper()
	r, err := Run(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	b, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if *results != "" {
		if err := os.WriteFile(*results, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// judge fails the test for each exercise that failed.
func judge(t *testing.T, r Report) {
	t.Helper()
	for _, res := range r.Results {
		if res.Outcome == Failed {
			t.Errorf("%s: %s", res.Step, res.Why)
		}
	}
}

// newFake is a machine with everything that exercises can use.
func newFake(t *testing.T, change func(*fake.Options)) (Machine, *fake.Machine) {
	t.Helper()
	o := fake.Options{
		Defender: true, Features: map[string]fake.Feature{containersFeature: {Enabled: true}},
		Programs: map[string]fake.Program{"service.exe": program},
	}
	if change != nil {
		change(&o)
	}
	f := fake.New(o)
	t.Cleanup(f.Close)
	return Machine{System: f.System(), Platform: PlatformFake, Program: []byte("MZ service"), Logf: t.Logf}, f
}

// program is what the test program does as a service, for the modelled Windows.
func program(ctx context.Context, p *fake.Process) int {
	s, ok := p.Service()
	if !ok || len(p.Args()) < 2 || p.Args()[0] != asService {
		return 1
	}
	s.Running()
	for {
		select {
		case <-s.Stopping():
			return 0
		case code := <-s.Controls():
			if code == dieCode {
				return dieExit
			}
		case <-ctx.Done():
			return 0
		}
	}
}

func stepsOnFake(t *testing.T) {
	m, f := newFake(t, nil)
	before := f.Dump()
	r := run(t, m)
	judge(t, r)
	if d := cmp.Diff(before, f.Dump(), cmpopts.EquateEmpty()); d != "" {
		t.Errorf("the machine is not as it was: %s", d)
	}
	if err := r.validate(); err != nil {
		t.Error(err)
	}
	for _, res := range r.Results {
		changes := !strings.HasPrefix(res.Step, "service-") && res.Step != SubjectFacts && res.Step != SubjectAccess && res.Outcome == Passed
		if changes != (len(res.Changed) > 0 && res.Undone) {
			t.Errorf("%+v", res)
		}
	}
	if res, _ := r.Find("enable-features"); res.Outcome != NotRun || !strings.Contains(res.Why, "already") {
		t.Errorf("%+v", res)
	}
}

// TestBareMachine: what a machine has not is not run, and said; nothing fails.
//
//evidence:fake enable-features
func TestBareMachine(t *testing.T) {
	for name, tt := range map[string]struct {
		enable bool
		notRun []string
	}{
		"left alone":     {false, []string{"enable-features", "exclude-from-defender", "join-network"}},
		"may be enabled": {true, []string{"exclude-from-defender", "join-network"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, f := newFake(t, func(o *fake.Options) {
					o.Defender, o.Features = false, map[string]fake.Feature{containersFeature: {}}
				})
				m.EnableFeatures = tt.enable
				r := run(t, m)
				judge(t, r)
				var notRun []string
				for _, res := range r.Results {
					if res.Outcome == NotRun {
						notRun = append(notRun, res.Step)
					}
				}
				if !slices.Equal(notRun, tt.notRun) {
					t.Errorf("not run: %v, want %v", notRun, tt.notRun)
				}
				if _, pending, err := f.System().Features.Enabled(containersFeature); pending != tt.enable || err != nil {
					t.Errorf("the feature waits for a reboot: %v, %v", pending, err)
				}
			})
		})
	}
}

// TestTroubleIsReported: what fails is in the report under its name, the rest is done, and everything is taken back.
func TestTroubleIsReported(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*fake.Options)
		edit   func(*fake.Machine)
		failed []string
		says   string
	}{
		"service stays dead": {
			change: func(o *fake.Options) {
				var starts int
				o.Programs["service.exe"] = func(ctx context.Context, p *fake.Process) int {
					// The first two are the plan's, the next two those of the check of the order.
					if starts++; starts > 4 {
						return 1
					}
					return program(ctx, p)
				}
			},
			failed: []string{SubjectRecovery}, says: "runs again: still not so after 15s",
		},
		"service does not start": {
			change: func(o *fake.Options) {
				o.Programs["service.exe"] = func(context.Context, *fake.Process) int { return 1 }
			},
			failed: []string{SubjectService, SubjectOrder, SubjectRecovery}, says: "did not respond",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, f := newFake(t, tt.change)
				before := f.Dump()
				r := run(t, m)
				if !slices.Equal(r.Failed(), tt.failed) {
					t.Errorf("failed: %v, want %v", r.Failed(), tt.failed)
				}
				if res, _ := r.Find(tt.failed[0]); !strings.Contains(res.Why, tt.says) {
					t.Errorf("%+v", res)
				}
				if d := cmp.Diff(before, f.Dump(), cmpopts.EquateEmpty()); d != "" {
					t.Errorf("the machine is not as it was: %s", d)
				}
			})
		})
	}
}

// TestNotAnAdministrator: nothing can be prepared, so that nothing is done.
func TestNotAnAdministrator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, f := newFake(t, func(o *fake.Options) { o.NotElevated = true })
		before := f.Dump()
		if _, err := Run(t.Context(), m); err == nil {
			t.Error("no error")
		}
		if d := cmp.Diff(before, f.Dump(), cmpopts.EquateEmpty()); d != "" {
			t.Error(d)
		}
	})
}

// TestRunAfterAKilledOne: the scratch folder of a run that was killed does not stand in the way.
func TestRunAfterAKilledOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, f := newFake(t, nil)
		before := f.Dump()
		if err := m.prepare(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := f.WriteFile(scratch+`\left`, []byte("x")); err != nil {
			t.Fatal(err)
		}
		judge(t, run(t, m))
		if d := cmp.Diff(before, f.Dump(), cmpopts.EquateEmpty()); d != "" {
			t.Error(d)
		}
	})
}

// TestOnly: what is left out is not done, and said.
func TestOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := newFake(t, nil)
		m.Only = []string{"open-firewall"}
		r := run(t, m)
		judge(t, r)
		for _, res := range r.Results {
			if passed := res.Step == "open-firewall" || res.Step == SubjectFacts; passed != (res.Outcome == Passed) {
				t.Errorf("%+v", res)
			}
		}
	})
}

func TestReportIsReadStrictly(t *testing.T) {
	var r Report
	synctest.Test(t, func(t *testing.T) {
		m, _ := newFake(t, nil)
		r = run(t, m)
	})
	path := filepath.Join(t.TempDir(), "r.json")
	encoded := func(change func(*Report)) []byte {
		c := r
		c.Results = slices.Clone(r.Results)
		if change != nil {
			change(&c)
		}
		b, err := c.Encode()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for name, tt := range map[string]struct {
		content []byte
		says    string
	}{
		"good":            {encoded(nil), ""},
		"unknown field":   {[]byte(strings.Replace(string(encoded(nil)), "platform", "plattform", 1)), "unknown field"},
		"more behind":     {append(encoded(nil), '{'), "after the end"},
		"version":         {encoded(func(r *Report) { r.APIVersion = "v2" }), "apiVersion"},
		"platform":        {encoded(func(r *Report) { r.Platform = "mac" }), "platform"},
		"no build":        {encoded(func(r *Report) { r.Build = "" }), "build"},
		"outcome":         {encoded(func(r *Report) { r.Results[0].Outcome = "well" }), "outcome"},
		"failed, no why":  {encoded(func(r *Report) { r.Results[0].Outcome = Failed }), "why"},
		"one is missing":  {encoded(func(r *Report) { r.Results = r.Results[1:] }), "it is about"},
		"longer than may": {append(encoded(nil), []byte(strings.Repeat(" ", maxReport))...), ""},
		"cut":             {encoded(nil)[:100], "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(path, tt.content, 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := ReadReport(path)
			if tt.says == "" {
				if d := cmp.Diff(r, got); d != "" || err != nil {
					t.Errorf("%v %s", err, d)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("error %v", err)
			}
		})
	}
}
