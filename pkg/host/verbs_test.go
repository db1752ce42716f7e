package host

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/windowsmachine/operator/pkg/plan"
	"github.com/windowsmachine/operator/pkg/transport"
)

func TestFacts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var request plan.FactsRequest
		m := &machine{}
		m.run = func(_ context.Context, c transport.Command) (int, error) {
			body, err := io.ReadAll(c.Stdin)
			if err != nil {
				return 0, err
			}
			if err := json.Unmarshal(body, &request); err != nil {
				return 0, err
			}
			return says(0, line(t, facts(nil)))(nil, c)
		}
		h := newHarness(t, m, nil)
		a := args()
		a.FactsRequest = plan.FactsRequest{APIServer: "https://api.example.test:6443", CA: []byte("PEM"), Blobs: []string{digestOf("x")}}
		got := h.do(t, VerbFacts, a)
		if err := got.Last[VerbFacts].Err; err != nil {
			t.Fatal(err)
		}
		want := facts(nil)
		if d := cmp.Diff(&want, got.Facts) + cmp.Diff(&want.Report, got.Report) + cmp.Diff(a.FactsRequest, request); d != "" {
			t.Error(d)
		}
		if !got.FactsAt.Equal(time.Now()) || !got.ReportAt.Equal(time.Now()) || got.Stats.Channels != 2 {
			t.Errorf("got %+v", got)
		}
		// The second time the agent is known to be there, and its console is open.
		if got := h.do(t, VerbFacts, a); got.Stats.Channels != 2 || m.puts != 1 {
			t.Errorf("%d channels, %d uploads", got.Stats.Channels, m.puts)
		}
		// A new connection to the same machine keeps the facts, and looks for the agent once.
		m.cut()
		synctest.Wait()
		if got := h.do(t, VerbConnect, a); got.Facts == nil || got.Report == nil {
			t.Errorf("got %+v", got)
		}
		if got := h.do(t, VerbFacts, a); got.Stats.Channels != 2 || m.puts != 1 {
			t.Errorf("%d channels, %d uploads", got.Stats.Channels, m.puts)
		}
		// Another host key is another machine.
		a.Target.Address = "192.0.2.99"
		if got := h.do(t, VerbConnect, a); got.Facts != nil || got.Report != nil {
			t.Errorf("got %+v", got)
		}
		wantLine := agentPath() + " facts --json"
		for _, l := range m.lines {
			if l != wantLine {
				t.Errorf("ran %q", l)
			}
		}
	})
}

// A file that was torn on the machine is replaced once, and no more.
func TestFactsReplaceTornAgent(t *testing.T) {
	for _, tc := range []struct {
		name string
		heal bool
		want string
	}{{"replaced", true, ""}, {"still torn", false, CodeAgentDigest}} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &machine{}
				m.put(agentPath(), strings.Repeat("?", len(agentText)))
				m.run = func(_ context.Context, c transport.Command) (int, error) {
					data, _ := m.file(c.Path)
					return says(0, line(t, facts(func(f *plan.HostFacts) {
						if !tc.heal {
							data = "torn again"
						}
						f.AgentDigest = digestOf(data)
					})))(nil, c)
				}
				h := newHarness(t, m, nil)
				got := h.do(t, VerbFacts, args())
				checkRefusal(t, got.Last[VerbFacts].Err, tc.want)
				if (got.Facts != nil) != tc.heal || m.puts != 1 || len(m.lines) != 2 {
					t.Errorf("%d uploads, %d runs, facts %v", m.puts, len(m.lines), got.Facts)
				}
			})
		})
	}
}

func checkRefusal(t *testing.T, err error, code string) {
	t.Helper()
	var r *Refusal
	switch {
	case code == "" && err == nil:
	case code == "" || !errors.As(err, &r) || r.Code != code:
		t.Errorf("got %v instead of %q", err, code)
	case !strings.HasPrefix(err.Error(), code+": "):
		t.Errorf("the message is %q", err)
	}
}

func TestApplyPublishesReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got plan.Envelope
		steps := []plan.Report{
			report(nil),
			report(func(r *plan.Report) { r.Time = r.Time.Add(time.Second) }),
			report(func(r *plan.Report) { r.Seq, r.Step, r.Index = 5, plan.StepNetwork, 3 }),
			report(func(r *plan.Report) { r.Seq, r.Step, r.Index, r.Phase = 6, "", 5, plan.PhaseInSync }),
		}
		var h *harness
		var notes []int
		var told atomic.Int64
		m := &machine{run: func(_ context.Context, c transport.Command) (int, error) {
			body, err := io.ReadAll(c.Stdin)
			if err != nil {
				return 0, err
			}
			if err := json.Unmarshal(body, &got); err != nil {
				return 0, err
			}
			for _, r := range steps {
				before := told.Load()
				text := line(t, r)
				// A line comes in pieces.
				for _, part := range []string{text[:10], text[10:], "\n"} {
					if _, err := io.WriteString(c.Stdout, part); err != nil {
						return 0, err
					}
				}
				notes = append(notes, int(told.Load()-before))
				if s := h.session.Snapshot(); s.Report == nil || !cmp.Equal(*s.Report, r) || s.Busy != VerbApply {
					t.Errorf("shown is %+v", s.Report)
				}
			}
			return 0, nil
		}}
		m.put(agentPath(), agentText)
		h = newHarness(t, m, func(c *Config) {
			notify := c.Notify
			c.Notify = func(key string) {
				told.Add(1)
				notify(key)
			}
		})
		a := args()
		a.Envelope = plan.Envelope{APIVersion: plan.EnvelopeVersion, Host: "uid", Generation: 3, Plan: plan.Empty(), Secrets: map[string][]byte{"a": []byte("b")}}
		if s := h.do(t, VerbApply, a); s.Last[VerbApply].Err != nil || s.Stats.Channels != 1 {
			t.Errorf("got %+v", s)
		}
		if d := cmp.Diff(a.Envelope, got); d != "" {
			t.Error(d)
		}
		// The second report differs in its time only.
		if d := cmp.Diff([]int{1, 0, 1, 1}, notes); d != "" {
			t.Error(d)
		}
		if d := cmp.Diff([]string{agentPath() + " apply --json"}, m.lines); d != "" {
			t.Error(d)
		}
	})
}

// A reader that looks seldom sees each step go by.
func TestTrail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var texts, want []string
		for i := range MaxTrail + 10 {
			r := report(func(r *plan.Report) { r.Seq, r.Step = int64(2*i), plan.ServiceStep(strconv.Itoa(i)) })
			texts = append(texts, line(t, r))
			want = append(want, r.Step)
			// The same step goes on.
			r.Seq++
			texts = append(texts, line(t, r))
		}
		m := &machine{run: says(0, texts...)}
		m.put(agentPath(), agentText)
		h := newHarness(t, m, nil)
		for _, v := range []Verb{VerbApply, VerbFollow} {
			var got []string
			for _, r := range h.do(t, v, args()).Trail {
				got = append(got, r.Step)
			}
			if d := cmp.Diff(want[len(want)-MaxTrail:], got); d != "" {
				t.Errorf("%s: %s", v, d)
			}
		}
		h.session.Snapshot().Trail[0].Step = "changed"
		if h.session.Snapshot().Trail[0].Step == "changed" {
			t.Error("a snapshot changes the session")
		}
		m.run = says(0, line(t, report(nil)))
		if got := h.do(t, VerbApply, args()).Trail; len(got) != 1 {
			t.Errorf("a new run begins with %d reports", len(got))
		}
		// Two steps of one name, the old credential taken away and the new one put in place, are two.
		m.run = says(0, line(t, report(func(r *plan.Report) { r.Seq, r.Index = 1, 1 })), line(t, report(func(r *plan.Report) { r.Seq, r.Index = 2, 2 })))
		if got := h.do(t, VerbApply, args()).Trail; len(got) != 2 {
			t.Errorf("two steps of one name are %d", len(got))
		}
	})
}

// What the agent repeats for one that comes late shows the steps that were missed, and takes nothing back.
func TestRepeatedReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := func(seq int64, step string) string {
			return line(t, report(func(r *plan.Report) { r.Seq, r.Step = seq, step }))
		}
		m := &machine{run: says(0, at(5, "a"))}
		m.put(agentPath(), agentText)
		h := newHarness(t, m, nil)
		h.do(t, VerbApply, args())
		m.run = says(0, at(5, "a"), at(6, "b"), at(8, "c"))
		h.do(t, VerbFollow, args())
		m.run = says(0, at(5, "a"), at(6, "b"))
		got := h.do(t, VerbFollow, args())
		var steps []string
		for _, r := range got.Trail {
			steps = append(steps, r.Step)
		}
		if d := cmp.Diff([]string{"a", "b", "c", "a", "b"}, steps); d != "" {
			t.Error(d)
		}
		if got.Report.Seq != 8 {
			t.Errorf("the newest report is %d", got.Report.Seq)
		}
	})
}

func TestFailuresAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{run: says(1, `{"code":"DiskFull"}`)}
		m.put(agentPath(), agentText)
		h := newHarness(t, m, nil)
		failures := func(a Args) int { return h.do(t, VerbApply, a).Last[VerbApply].Failures }
		for want := 1; want <= 3; want++ {
			if got := failures(args()); got != want {
				t.Errorf("failure %d is counted as %d", want, got)
			}
		}
		if got := h.do(t, VerbConnect, args()).Last; got[VerbConnect].Failures != 0 || got[VerbApply].Failures != 3 {
			t.Errorf("verbs are not counted apart: %+v", got)
		}
		changed := args()
		changed.Target.User = "admin"
		if got := failures(changed); got != 1 {
			t.Errorf("with another target the first failure is counted as %d", got)
		}
		m.run = says(0)
		if got := failures(changed); got != 0 {
			t.Errorf("a success is counted as %d", got)
		}
	})
}

func TestVerdicts(t *testing.T) {
	failed := report(func(r *plan.Report) { r.Phase, r.Code, r.Detail = plan.PhaseFailed, "DiskFull", "C: is full" })
	reboot := report(func(r *plan.Report) { r.Phase, r.Code = plan.PhaseRebootNeeded, "FeatureReboot" })
	running := report(nil)
	for _, tc := range []struct {
		name  string
		exit  int
		lines []string
		want  string
	}{
		{"done", 0, []string{line(t, running)}, ""},
		{"done without a word", 0, nil, ""},
		{"failed with a report", 1, []string{line(t, running), line(t, failed)}, "DiskFull"},
		{"failed with a code", 1, []string{line(t, running), `{"code":"BadEnvelope","detail":"no plan"}`}, "BadEnvelope"},
		{"failed without a code", 1, []string{line(t, running)}, CodeAgentFailed},
		{"usage", 2, []string{line(t, running)}, CodeAgentUsage},
		{"reboot needed", 3, []string{line(t, reboot)}, ""},
		{"reboot needed without a report", 3, []string{line(t, running)}, CodeAgentRebootNeeded},
		{"plan too new", 4, []string{`{"code":"PlanTooNew","detail":"needs network/v9"}`}, "PlanTooNew"},
		{"plan too new without a code", 4, []string{line(t, running)}, CodeAgentTooOld},
		{"busy", 5, []string{`{"code":"Locked","detail":"pid 12"}`}, "Locked"},
		{"busy without a code", 5, []string{line(t, running)}, CodeAgentBusy},
		{"crashed", 0xC0000005, []string{line(t, running)}, CodeAgentFailed},
		{"never ran", 1, []string{"Access is denied."}, CodeAgentSilent},
		{"code that is none", 1, []string{`{"code":"rm -rf /","detail":"x"}`}, CodeAgentFailed},
	} {
		for _, v := range []Verb{VerbApply, VerbFollow, VerbRemove} {
			t.Run(tc.name+" "+string(v), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					m := &machine{run: says(tc.exit, tc.lines...)}
					m.put(agentPath(), agentText)
					got := newHarness(t, m, nil).do(t, v, args())
					checkRefusal(t, got.Last[v].Err, tc.want)
				})
			})
		}
	}
}

// What stands around the agent's lines does not matter, nor its encoding.
func TestW47NoiseAroundOutput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{run: says(0,
			"#< CLIXML",
			"",
			`{"Name":"OVNKubernetesHybridOverlayNetwork","ID":"0000"}`,
			"\ufeff"+line(t, facts(nil)),
			`<Objs Version="1.1.0.1" xmlns="http://schemas.microsoft.com/powershell/2004/04"><Obj S="progress" RefId="0"/></Objs>`,
			`{"apiVersion":"facts.windowsmachine.dev/v1","hostname":`,
			"{"+strings.Repeat("x", 60_000),
		)}
		got := newHarness(t, m, nil).do(t, VerbFacts, args())
		want := facts(nil)
		if d := cmp.Diff(&want, got.Facts); d != "" || got.Last[VerbFacts].Err != nil {
			t.Error(d, got.Last[VerbFacts].Err)
		}
	})
}

// A German machine prints in its code page; the exit code and the JSON decide, and texts for people are made printable.
func TestW38LocalizedOutput(t *testing.T) {
	// "Zugriff verweigert für das Gerät." in code page 850.
	const stderr = "Zugriff verweigert f\x81r das Ger\x84t.\r\n"
	for _, tc := range []struct {
		name  string
		lines []string
		want  Refusal
	}{
		{"no JSON", []string{"[SC] OpenService FEHLER 1060:"}, Refusal{CodeAgentSilent, "exit code 1: Zugriff verweigert f?r das Ger?t."}},
		{"JSON with other bytes", []string{"FEHLER 1060:", "{\"code\":\"ServiceNotFound\",\"detail\":\"Ger\x84t \\u001b[31m\"}"}, Refusal{"ServiceNotFound", "Ger?t ?[31m"}},
		{"JSON with a control character", []string{"{\"code\":\"ServiceNotFound\",\"detail\":\"\x1b[31m\"}"}, Refusal{CodeAgentSilent, "exit code 1: Zugriff verweigert f?r das Ger?t."}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &machine{run: func(_ context.Context, c transport.Command) (int, error) {
					_, _ = io.WriteString(c.Stderr, stderr)
					return says(1, tc.lines...)(nil, c)
				}}
				m.put(agentPath(), agentText)
				got := newHarness(t, m, nil).do(t, VerbApply, args())
				var r *Refusal
				if !errors.As(got.Last[VerbApply].Err, &r) {
					t.Fatalf("got %v", got.Last[VerbApply].Err)
				}
				if d := cmp.Diff(tc.want, *r); d != "" {
					t.Error(d)
				}
			})
		})
	}
}

func TestFlood(t *testing.T) {
	for _, tc := range []struct {
		name  string
		verb  Verb
		chunk string
	}{
		{"lines", VerbFacts, strings.Repeat("{}\n", 10_000)},
		{"one line", VerbFacts, strings.Repeat("x", 30_000)},
		{"receive", VerbStage, strings.Repeat("{}\n", 10_000)},
		{"reports", VerbApply, strings.Repeat("x", 1<<20)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				written := 0
				m := &machine{run: func(_ context.Context, c transport.Command) (int, error) {
					for {
						n, err := io.WriteString(c.Stdout, tc.chunk)
						if written += n; err != nil {
							return 0, err
						}
					}
				}}
				s := store(t, "blob")
				m.put(agentPath(), agentText)
				h := newHarness(t, m, func(c *Config) { c.Store = s })
				a := args()
				a.Blobs = []string{digestOf("blob")}
				got := h.do(t, tc.verb, a)
				if err := got.Last[tc.verb].Err; !errors.Is(err, errFlood) || written > maxReports+1<<20 {
					t.Errorf("%v after %d bytes", err, written)
				}
			})
		})
	}
}

// A host that sends a byte now and then is cut off by the deadline.
func TestDrip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{run: func(ctx context.Context, c transport.Command) (int, error) {
			for {
				if _, err := io.WriteString(c.Stdout, "{"); err != nil {
					return 0, err
				}
				select {
				case <-time.After(time.Second):
				case <-ctx.Done():
					return 0, ctx.Err()
				}
			}
		}}
		begin := time.Now()
		got := newHarness(t, m, nil).do(t, VerbFacts, args())
		if err := got.Last[VerbFacts].Err; !errors.Is(err, transport.ErrUnreachable) || time.Since(begin) != 5*time.Minute {
			t.Errorf("%v after %s", err, time.Since(begin))
		}
	})
}

// A verb that finds the agent gone puts it there and tries again.
func TestAgentIsPutBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{run: says(0, line(t, report(nil)))}
		got := newHarness(t, m, nil).do(t, VerbFollow, args())
		if err := got.Last[VerbFollow].Err; err != nil || m.puts != 1 || got.Stats.Channels != 3 {
			t.Errorf("%v, %d uploads, %d channels", err, m.puts, got.Stats.Channels)
		}
		if d := cmp.Diff(agentPath()+" status --follow --json", m.lines[1]); d != "" {
			t.Error(d)
		}
	})
}

func TestRemove(t *testing.T) {
	busy := errors.New("sharing violation")
	for _, tc := range []struct {
		name  string
		busy  int
		err   error
		want  error
		after time.Duration
	}{
		{"at once", 0, nil, nil, 0},
		{"after the agent has ended", 2, busy, nil, 2 * time.Second},
		{"never", 99, busy, busy, 4 * time.Second},
		{"connection lost", 99, transport.ErrDisconnected, transport.ErrDisconnected, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &machine{run: says(0, line(t, report(func(r *plan.Report) { r.Phase = plan.PhaseIdle })))}
				m.put(`C:\Windows\wmcb\0000000000000000\wmcb.exe`, "older agent")
				tries := 0
				m.removeErr = func() error {
					if tries++; tries <= tc.busy {
						return tc.err
					}
					return nil
				}
				h := newHarness(t, m, nil)
				begin := time.Now()
				a := args()
				a.Claim = plan.Claim{Host: "uid", Order: 7}
				got := h.do(t, VerbRemove, a)
				if d := cmp.Diff([]string{agentPath() + " remove --json --host uid --order 7"}, m.lines); d != "" {
					t.Error(d)
				}
				if err := got.Last[VerbRemove].Err; !errors.Is(err, tc.want) || time.Since(begin) != tc.after {
					t.Errorf("%v after %s", err, time.Since(begin))
				}
				if tc.want == nil && len(m.files) != 0 {
					t.Errorf("left: %v", m.files)
				}
				// What the machine said before it was cleaned no longer holds.
				if (got.Report == nil) != (tc.want == nil) {
					t.Errorf("the report is %+v", got.Report)
				}
			})
		})
	}
}

func TestReboot(t *testing.T) {
	for _, tc := range []struct {
		name string
		run  func(context.Context, transport.Command) (int, error)
		code string
		err  error
	}{
		{"accepted", says(0), "", nil},
		{"connection lost", func(context.Context, transport.Command) (int, error) { return 0, transport.ErrDisconnected }, "", nil},
		{"under way already", says(1115), "", nil},
		{"refused", says(5), CodeRebootRefused, nil},
		{"no session", func(context.Context, transport.Command) (int, error) { return 0, transport.ErrBusy }, "", transport.ErrBusy},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &machine{run: tc.run}
				got := newHarness(t, m, nil).do(t, VerbReboot, args())
				err := got.Last[VerbReboot].Err
				if tc.err != nil {
					if !errors.Is(err, tc.err) {
						t.Errorf("got %v", err)
					}
					return
				}
				checkRefusal(t, err, tc.code)
				if got.Connected != (tc.code != "") {
					t.Errorf("connected: %v", got.Connected)
				}
				if d := cmp.Diff([]string{`C:\Windows\System32\shutdown.exe /r /t 0 /f /d p:4:1`}, m.lines); d != "" {
					t.Error(d)
				}
			})
		})
	}
}

func TestPutFails(t *testing.T) {
	own := errors.New("no such file in the image")
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, &machine{}, func(c *Config) { c.Agent.Open = func() (io.ReadCloser, error) { return nil, own } })
		for _, v := range []Verb{VerbFacts, VerbFollow, VerbRemove} {
			if got := h.do(t, v, args()); !errors.Is(got.Last[v].Err, own) {
				t.Errorf("%s: %v", v, got.Last[v].Err)
			}
		}
	})
}

func TestLines(t *testing.T) {
	for _, tc := range []struct {
		name string
		in   string
		want []string
	}{
		{"lines", "{a}\n{b}\r\n{c}", []string{"{a}", "{b}", "{c}"}},
		{"others", "a\n {b} \n\n[c]\n", []string{"{b}"}},
		{"too long", "{" + strings.Repeat("x", 20) + "}\n{b}\n", []string{"{b}"}},
		{"as long as allowed", "{" + strings.Repeat("x", 8) + "}\n", []string{"{xxxxxxxx}"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for size := 1; size < 8; size++ {
				var got []string
				l := &lines{max: 10, total: 1000, take: func(b []byte) { got = append(got, string(b)) }}
				for rest := []byte(tc.in); len(rest) > 0; {
					n := min(size, len(rest))
					if _, err := l.Write(rest[:n]); err != nil {
						t.Fatal(err)
					}
					rest = rest[n:]
				}
				l.flush()
				if d := cmp.Diff(tc.want, got); d != "" {
					t.Errorf("in pieces of %d: %s", size, d)
				}
			}
		})
	}
	l := &lines{max: 10, total: 5, take: func([]byte) {}}
	if _, err := l.Write(make([]byte, 5)); err != nil {
		t.Error(err)
	}
	if _, err := l.Write([]byte("x")); !errors.Is(err, errFlood) {
		t.Errorf("one byte too many gave %v", err)
	}
}

// fit reports what a machine's text must not have.
func fit(s string) bool {
	return len(s) <= plan.MaxDetail && strings.IndexFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) < 0
}

func checkReport(t *testing.T, r *plan.Report) {
	t.Helper()
	for _, s := range []string{r.APIVersion, r.AgentVersion, r.Host, r.Digest, string(r.Phase), r.Step, r.Code, r.Detail, r.BootID, r.DRMAC} {
		if !fit(s) {
			t.Errorf("%.600q is not fit for people", s)
		}
	}
	for _, n := range []int64{r.Generation, r.Seq, int64(r.Index), int64(r.Total)} {
		if n < 0 || n > maxNumber {
			t.Errorf("number %d", n)
		}
	}
}

func checkFacts(t *testing.T, f *plan.HostFacts) {
	t.Helper()
	texts := []string{f.AgentVersion, f.AgentDigest, f.ServiceAgent, f.Hostname, f.BootID}
	for _, list := range [][]string{f.Capabilities, f.Features, f.ForeignServices, f.HaveBlobs} {
		if len(list) > plan.MaxItems {
			t.Errorf("%d items", len(list))
		}
		texts = append(texts, list...)
	}
	if len(f.Addresses) > plan.MaxItems {
		t.Errorf("%d addresses", len(f.Addresses))
	}
	for _, a := range f.Addresses {
		texts = append(texts, a.Prefix)
		if len(a.Adapter) > plan.MaxDetail || !utf8.ValidString(a.Adapter) {
			t.Errorf("adapter %.600q", a.Adapter)
		}
	}
	if f.API != nil {
		texts = append(texts, f.API.Code, f.API.Detail)
	}
	texts = append(texts, checkSurvey(t, f.Survey)...)
	for _, s := range texts {
		if !fit(s) {
			t.Errorf("%.600q is not fit for people", s)
		}
	}
	if f.Build < 0 || f.Build > math.MaxInt32 || f.UBR < 0 || f.UBR > math.MaxInt32 {
		t.Errorf("build %d.%d", f.Build, f.UBR)
	}
	checkReport(t, &f.Report)
}

// checkSurvey returns the texts that must be fit for people.
func checkSurvey(t *testing.T, s plan.Survey) []string {
	t.Helper()
	texts := append([]string{s.InstallationType, s.NextHostname}, s.RestartPending...)
	for _, n := range []int{len(s.Teams), len(s.RestartPending), len(s.DynamicPorts), len(s.BusyPorts), len(s.Services)} {
		if n > plan.MaxItems {
			t.Errorf("%d items", n)
		}
	}
	numbers := s.BusyPorts
	for _, r := range s.DynamicPorts {
		texts, numbers = append(texts, r.Protocol), append(numbers, r.First, r.Count)
	}
	for _, x := range s.Services {
		texts = append(texts, x.Name, x.Exe)
	}
	for _, n := range numbers {
		if n < 0 || n > 1<<16 {
			t.Errorf("port %d", n)
		}
	}
	for _, a := range s.Teams {
		if len(a) > plan.MaxDetail || !utf8.ValidString(a) {
			t.Errorf("team %.600q", a)
		}
	}
	return texts
}

// checkAnswer holds every bound of what a machine says, whatever it says.
func checkAnswer(t *testing.T, a answer) {
	t.Helper()
	set := 0
	if a.report != nil {
		set++
		checkReport(t, a.report)
	}
	if a.facts != nil {
		set++
		checkFacts(t, a.facts)
	}
	if a.refusal != nil {
		set++
		if !fit(a.refusal.Code) || !fit(a.refusal.Detail) || cleanCode(a.refusal.Code) != a.refusal.Code {
			t.Errorf("refusal %+v", a.refusal)
		}
	}
	if set != 1 {
		t.Errorf("%d answers in one", set)
	}
}

// TestFactsAreBounded: every text, list and number of a machine's own description has a limit, whichever fields there are.
func TestFactsAreBounded(t *testing.T) {
	long, many := strings.Repeat("\u00e4x", plan.MaxDetail), make([]string, plan.MaxItems+1)
	for i := range many {
		many[i] = long
	}
	in := plan.HostFacts{
		APIVersion: plan.FactsVersion, AgentVersion: long, AgentDigest: long, ServiceAgent: long, Hostname: long, BootID: long,
		Build: math.MaxInt, UBR: math.MinInt, Capabilities: many, Features: many, ForeignServices: many, HaveBlobs: many,
		API: &plan.ProbeResult{Code: long, Detail: long}, Time: time.Unix(0, 0).UTC(), FreeDisk: math.MaxInt64, Elevated: true, Defender: true,
		Report: plan.Report{
			APIVersion: plan.ReportVersion, AgentVersion: long, Host: long, Digest: long, Phase: plan.Phase(long), Step: long, Code: long,
			Detail: long, BootID: long, DRMAC: long, Generation: math.MaxInt64, Seq: math.MinInt64, Index: math.MaxInt, Total: math.MinInt, Time: time.Unix(0, 0).UTC(),
		},
	}
	in.Survey = plan.Survey{
		InstallationType: long, NoVFP: true, Teams: many, RestartPending: many, NextHostname: long, BusyPorts: make([]int, plan.MaxItems+1),
		DynamicPorts: make([]plan.PortRange, plan.MaxItems+1), Services: make([]plan.ServiceProgram, plan.MaxItems+1),
	}
	in.Survey.DynamicPorts[0] = plan.PortRange{Protocol: long, First: math.MinInt, Count: math.MaxInt}
	in.Survey.Services[0] = plan.ServiceProgram{Name: long, Exe: long}
	in.Survey.BusyPorts[0] = math.MaxInt
	for range plan.MaxItems + 1 {
		in.Addresses = append(in.Addresses, plan.AdapterAddress{Adapter: long, Prefix: long, Default: true, Usable: true})
	}
	// A field that is added to a format must be bounded too: this fails until it is given a value here.
	for _, v := range []reflect.Value{
		reflect.ValueOf(in), reflect.ValueOf(in.Report), reflect.ValueOf(*in.API), reflect.ValueOf(in.Addresses[0]), reflect.ValueOf(in.Survey),
		reflect.ValueOf(in.Survey.DynamicPorts[0]), reflect.ValueOf(in.Survey.Services[0]),
	} {
		for i := range v.NumField() {
			if v.Field(i).IsZero() {
				t.Errorf("%s.%s is not tried", v.Type(), v.Type().Field(i).Name)
			}
		}
	}
	facts := cleanFacts(in)
	checkFacts(t, facts)
	if len(facts.HaveBlobs) != plan.MaxItems || len(facts.Addresses) != plan.MaxItems || facts.Report.Generation != maxNumber {
		t.Errorf("%d blobs, %d addresses, generation %d", len(facts.HaveBlobs), len(facts.Addresses), facts.Report.Generation)
	}
	plain := plan.HostFacts{
		APIVersion: plan.FactsVersion, Hostname: "WIN-A", Build: 20348, BootID: "1", HaveBlobs: []string{"x"},
		Addresses: []plan.AdapterAddress{{Adapter: "\u4ee5\u592a\u7f51", Prefix: "192.0.2.10/24"}}, API: &plan.ProbeResult{Code: plan.ProbeOK},
	}
	if d := cmp.Diff(&plain, cleanFacts(plain)); d != "" {
		t.Errorf("a plain machine's facts changed: %s", d)
	}
}

// TestStderrIsBounded: what a machine writes to standard error is kept up to maxStderr and never fails it.
func TestStderrIsBounded(t *testing.T) {
	var got tail
	for range 100 {
		if n, err := got.Write(bytes.Repeat([]byte("\x1b[31m "), 100)); n != 600 || err != nil {
			t.Fatal(n, err)
		}
	}
	if len(got.kept) != maxStderr || !fit(got.text()) {
		t.Errorf("kept %d bytes, %q", len(got.kept), got.text())
	}
}

func FuzzParseAnswer(f *testing.F) {
	for _, seed := range []string{
		`{"code":"x","detail":"y"}`,
		`{"apiVersion":"report.windowsmachine.dev/v1","phase":"Failed","code":"a b","detail":"\u0000"}`,
		`{"apiVersion":"report.windowsmachine.dev/v1","phase":"Running","host":"h","generation":9223372036854775807,"seq":-1,"index":-9,"step":"\u001b[31m"}`,
		`{"apiVersion":"facts.windowsmachine.dev/v1","report":{"detail":"\u00e9"}}`,
		`{"apiVersion":"facts.windowsmachine.dev/v1","hostname":"\u00e4","build":1e9,"haveBlobs":["\n"],"addresses":[{"adapter":"\u4ee5\ud800","prefix":"\u0007"}],"api":{"code":"a b"}}`,
		"noise\n\xef\xbb\xbf{\"code\":\"x\"}\r\n{\"code\":\"gr\xfc\"}\n",
	} {
		f.Add([]byte(seed), uint8(7))
	}
	f.Fuzz(func(t *testing.T, in []byte, size uint8) {
		if a, ok := parseAnswer(in); ok {
			checkAnswer(t, a)
		}
		// The same bytes as a program's output: however they are cut, the lines are the same and each holds its limit.
		whole, pieces := cutIntoLines(t, in, len(in)), cutIntoLines(t, in, int(size)+1)
		if d := cmp.Diff(whole, pieces); d != "" {
			t.Errorf("in pieces of %d: %s", int(size)+1, d)
		}
		for _, l := range whole {
			if len(l) > 256 || l == "" || l[0] != '{' || strings.Contains(l, "\n") {
				t.Errorf("line %q", l)
			}
		}
	})
}

// cutIntoLines gives in to lines in pieces of n bytes.
func cutIntoLines(t *testing.T, in []byte, n int) []string {
	var out []string
	l := &lines{max: 256, total: int64(len(in)), take: func(b []byte) { out = append(out, string(b)) }}
	for piece := range slices.Chunk(in, max(n, 1)) {
		if _, err := l.Write(piece); err != nil {
			t.Fatal(err)
		}
		if len(l.part) > l.max+1 {
			t.Fatalf("%d bytes are kept", len(l.part))
		}
	}
	l.flush()
	return out
}
