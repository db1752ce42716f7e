package hostsim_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/windowsmachine/operator/pkg/agent/system/fake"
	"github.com/windowsmachine/operator/pkg/plan"
	"github.com/windowsmachine/operator/test/hostsim"
)

// smallPlan has a folder, a file, a variable and a rule.
func smallPlan() plan.Plan {
	p := plan.Empty()
	p.Env = []plan.EnvVar{{Name: "KUBE_NETWORK", Value: "l2bridge"}}
	p.Directories = []plan.Directory{{Path: `C:\k`, Access: plan.AccessPublic}}
	p.Files = []plan.File{{Path: `C:\k\a.txt`, Access: plan.AccessPublic, Inline: []byte("content")}}
	p.Firewall = []plan.FirewallRule{{Name: "kubelet", Protocol: "TCP", Port: 10250}}
	return p
}

func envelope(t testing.TB, p plan.Plan) []byte {
	t.Helper()
	b, err := json.Marshal(plan.Envelope{APIVersion: plan.EnvelopeVersion, Host: "uid", Generation: 1, Plan: p})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func lastReport(t testing.TB, out string) plan.Report {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(out), "\n")
	var r plan.Report
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &r); err != nil {
		t.Fatalf("%v in %q", err, out)
	}
	return r
}

// The agent behind the server is the real one: facts, a plan, its status and its removal, in either shell.
func TestRealAgent(t *testing.T) {
	for _, shell := range []hostsim.Shell{hostsim.ShellCmd, hostsim.ShellPowerShell} {
		t.Run(string(shell), func(t *testing.T) {
			key := newKey(t)
			h := newHost(t, key, func(o *hostsim.Options) {
				o.Shell, o.Hostname, o.Machine.Skew = shell, "WIN-Worker-1", time.Hour
			})
			c := dial(t, h, key)
			agent := installAgent(t, c)
			before := h.Machine().Dump()
			var facts plan.HostFacts
			if out := run(t, c, agent+" facts --json", strings.NewReader("")); json.Unmarshal([]byte(out.stdout), &facts) != nil {
				t.Fatalf("facts: %+v", out)
			}
			ip, _ := h.Addr()
			if facts.Hostname != "WIN-Worker-1" || facts.AgentVersion != "v0.1.0" || facts.AgentDigest != hostsim.Agent(agentFile()) || !facts.Elevated {
				t.Errorf("facts %+v", facts)
			}
			if !slices.ContainsFunc(facts.Addresses, func(a plan.AdapterAddress) bool { return strings.HasPrefix(a.Prefix, ip+"/") && a.Default }) {
				t.Errorf("addresses %v have no %s", facts.Addresses, ip)
			}
			if d := time.Until(facts.Time); d < 59*time.Minute {
				t.Errorf("the machine's clock is ahead by %s", d)
			}
			out := run(t, c, agent+" apply --json", bytes.NewReader(envelope(t, smallPlan())))
			if r := lastReport(t, out.stdout); out.exit != 0 || r.Phase != plan.PhaseInSync || r.Digest != smallPlan().Digest() {
				t.Fatalf("apply: exit %d, %+v, %s", out.exit, r, out.stderr)
			}
			if b, err := h.Machine().ReadFile(`C:\k\a.txt`); string(b) != "content" || err != nil {
				t.Errorf("the file holds %q, %v", b, err)
			}
			if out := run(t, c, agent+" remove --json", nil); out.exit != 0 {
				t.Errorf("remove: %+v", out)
			}
			eventually(t, "the machine is as it was", 5*time.Second, func() bool { return sameMachine(before, h.Machine().Dump()) })
		})
	}
}

func sameMachine(a, b fake.Tree) bool { return fmt.Sprintf("%+v", a) == fmt.Sprintf("%+v", b) }

// Killed at any entry of its journal, with the entry whole or torn, the agent comes back and finishes.
func TestCrashAtEntry(t *testing.T) {
	for _, torn := range []bool{false, true} {
		for seq := int64(2); seq <= 8; seq += 2 {
			t.Run(fmt.Sprintf("%d torn=%v", seq, torn), func(t *testing.T) {
				t.Parallel()
				key := newKey(t)
				h := newHost(t, key)
				c := dial(t, h, key)
				agent := installAgent(t, c)
				crashed := h.CrashAtEntry(seq, torn)
				if out := run(t, c, agent+" apply --json --follow=false", bytes.NewReader(envelope(t, smallPlan()))); out.exit > 1 {
					t.Errorf("apply: %+v", out)
				}
				select {
				case <-crashed:
				case <-time.After(10 * time.Second):
					t.Fatal("the agent did not get that far")
				}
				status := func() plan.Report { return lastReport(t, run(t, c, agent+" status --json", nil).stdout) }
				eventually(t, "in sync after the crash", 30*time.Second, func() bool { return status().Phase == plan.PhaseInSync })
			})
		}
	}
}

// The agent survives a power cut at any time: what it needs is on the disk, or is made again.
func TestPowerCutDuringApply(t *testing.T) {
	key := newKey(t)
	h := newHost(t, key)
	c := dial(t, h, key)
	agent := installAgent(t, c)
	if out := run(t, c, agent+" apply --json", bytes.NewReader(envelope(t, smallPlan()))); out.exit != 0 {
		t.Fatalf("apply: %+v", out)
	}
	h.Machine().PowerCut(fake.TearZeros)
	if err := h.Machine().PowerOn(t.Context()); err != nil {
		t.Fatal(err)
	}
	var again *ssh.Client
	eventually(t, "the machine is back", 5*time.Second, func() bool {
		c, err := tryDial(h, key)
		again = c
		return err == nil
	})
	defer func() { _ = again.Close() }()
	eventually(t, "the file is whole again", 10*time.Second, func() bool {
		b, err := h.Machine().ReadFile(`C:\k\a.txt`)
		return err == nil && string(b) == "content"
	})
}
