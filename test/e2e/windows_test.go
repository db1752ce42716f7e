package e2e

import (
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/agent/system/fake"
	"github.com/windowsmachine/operator/test/hostsim"
)

// TestW37DefaultShells: whichever shell sshd starts, the end is the same, and the operator sends the same commands.
func TestW37DefaultShells(t *testing.T) {
	t.Parallel()
	r := newRig(t, run.calm)
	type end struct {
		Commands, Files []string
		Services        map[string]system.ServiceState
	}
	ends := map[hostsim.Shell]end{}
	machines := map[hostsim.Shell]*machine{}
	for _, shell := range []hostsim.Shell{hostsim.ShellCmd, hostsim.ShellPowerShell} {
		machines[shell] = r.machine("shell", func(o *hostsim.Options) { o.Shell = shell })
		r.join(hostOf(machines[shell]))
	}
	for shell, m := range machines {
		r.untilReady(m.name)
		e := end{Services: map[string]system.ServiceState{}}
		for name, s := range m.Machine().Dump().Services {
			e.Services[name] = s.State
		}
		for path, f := range m.Machine().Dump().Files {
			// The kubelet names its certificates after the second in which it got them.
			if !f.Dir && !strings.HasPrefix(path, `C:\var\lib\kubelet\pki`) {
				e.Files = append(e.Files, path)
			}
		}
		slices.Sort(e.Files)
		e.Commands = slices.Sorted(maps.Keys(set(m.Stats().Commands)))
		ends[shell] = e
	}
	if diff := cmp.Diff(ends[hostsim.ShellCmd], ends[hostsim.ShellPowerShell]); diff != "" {
		t.Errorf("-cmd +powershell\n%s", diff)
	}
}

func set(words []string) map[string]bool {
	out := map[string]bool{}
	for _, w := range words {
		out[w] = true
	}
	return out
}

// TestHostnameInCapitals: Windows names are in capitals by habit, Node names may not be.
func TestHostnameInCapitals(t *testing.T) {
	t.Parallel()
	r := newRig(t, run.calm)
	m := r.machine("caps", func(o *hostsim.Options) { o.Hostname = strings.ToUpper(o.Hostname) })
	r.join(hostOf(m))
	h := r.untilReady(m.name)
	if h.Status.Node.Name != m.name {
		t.Errorf("machine %s has Node %s", strings.ToUpper(m.name), h.Status.Node.Name)
	}
	if !nodeReady(r.node(h)) {
		t.Error("the Node is not Ready")
	}
}

// TestMissingFeatureTakesOneReboot: a machine that is no node yet may be restarted, once.
//
//evidence:fake enable-features reboot
func TestMissingFeatureTakesOneReboot(t *testing.T) {
	t.Parallel()
	r := newRig(t, run.calm)
	m := r.machine("reboot", func(o *hostsim.Options) { o.ContainersMissing = true })
	var downs atomic.Int64
	defer m.Machine().Watch(func(e fake.Event) {
		if e == fake.EventDown {
			downs.Add(1)
		}
	})()
	first, err := m.Machine().System().Machine.BootID()
	if err != nil {
		t.Fatal(err)
	}
	recorded := r.record(m.name)
	r.join(hostOf(m))
	h := r.untilReady(m.name)
	now, err := m.Machine().System().Machine.BootID()
	if err != nil {
		t.Fatal(err)
	}
	if now == first || h.Status.BootID != now {
		t.Errorf("the machine's boot id was %s and is %s, the status has %s", first, now, h.Status.BootID)
	}
	asked := 0
	for _, c := range m.Stats().Commands {
		if strings.Contains(c, "shutdown.exe") {
			asked++
		}
	}
	if downs.Load() != 1 || asked != 1 {
		t.Errorf("it went down %d times and was asked to %d times: %q", downs.Load(), asked, m.Stats().Commands)
	}
	if !m.Machine().Dump().Features["Containers"].Enabled {
		t.Error("the feature is not enabled")
	}
	steps, _ := recorded()
	shown := slices.ContainsFunc(steps, func(s sighting) bool { return strings.HasSuffix(s.step, " enable-features") })
	if events := r.events(h, "Rebooting"); len(events) == 0 || !shown {
		t.Errorf("%d events tell of the reboot, the step was shown: %t", len(events), shown)
	}
}
