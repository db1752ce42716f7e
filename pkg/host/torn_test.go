package host

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/windowsmachine/operator/pkg/plan"
	"github.com/windowsmachine/operator/pkg/transport"
)

// A file of the right size that is no program, as a power cut leaves it, is replaced by whatever verb meets it; once in a row, since a machine
// that forbids the program would be sent it without end.
func TestTornAgentIsReplacedOnce(t *testing.T) {
	const badImage = 193
	for _, heal := range []bool{true, false} {
		for _, verb := range []Verb{VerbFacts, VerbFollow, VerbApply, VerbRemove} {
			synctest.Test(t, func(t *testing.T) {
				m := &machine{}
				m.put(agentPath(), strings.Repeat("\x00", len(agentText)))
				m.run = func(ctx context.Context, c transport.Command) (int, error) {
					switch data, _ := m.file(c.Path); {
					case data != agentText || !heal:
						return says(badImage, "Zugriff verweigert")(ctx, c)
					case c.Args[0] == "facts":
						return says(0, line(t, facts(nil)))(ctx, c)
					}
					return says(0, line(t, report(func(r *plan.Report) { r.Phase = plan.PhaseInSync })))(ctx, c)
				}
				h := newHarness(t, m, nil)
				err := h.do(t, verb, args()).Last[verb].Err
				if heal {
					checkRefusal(t, err, "")
				} else {
					checkRefusal(t, err, CodeAgentSilent)
					checkRefusal(t, h.do(t, verb, args()).Last[verb].Err, CodeAgentSilent)
				}
				if m.puts != 1 {
					t.Errorf("%s, heal %v: the agent was sent %d times", verb, heal, m.puts)
				}
			})
		}
	}
}

// A power cut takes the last entries of the journal, which were reported before they were on the disk. What the machine says after it has lower
// numbers and counts all the same; within one boot a lower number is a repeated report.
func TestReportAfterLostEntries(t *testing.T) {
	for boot, want := range map[string]int64{"boot-2": 4, "boot-1": 5} {
		synctest.Test(t, func(t *testing.T) {
			said := []plan.Report{{Seq: 5, BootID: "boot-1", Phase: plan.PhaseRunning}, {Seq: 4, BootID: boot, Phase: plan.PhaseFailed, Code: "AgentStopped"}}
			m := &machine{}
			m.run = func(ctx context.Context, c transport.Command) (int, error) {
				next := said[0]
				said = said[1:]
				return says(0, line(t, report(func(r *plan.Report) {
					r.Seq, r.BootID, r.Phase, r.Code = next.Seq, next.BootID, next.Phase, next.Code
				})))(ctx, c)
			}
			m.put(agentPath(), agentText)
			h := newHarness(t, m, nil)
			h.do(t, VerbFollow, args())
			if got := h.do(t, VerbFollow, args()).Report; got.Seq != want {
				t.Errorf("%s: the newest report is %+v, want number %d", boot, got, want)
			}
		})
	}
}
