//go:build linux && wine

package e2e

import (
	"context"
	"errors"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"

	"github.com/windowsmachine/operator/test/bed"
	"github.com/windowsmachine/operator/test/machineapi"
	"github.com/windowsmachine/operator/test/wine/hns"
	"github.com/windowsmachine/operator/test/wmcbe2e"
)

// overlay is the network that hybrid overlay would have made before configure-cni.
const overlay = "OVNKubernetesHybridOverlayNetwork"

// uploads is where the run puts what it gives to wmcb; it is removed at its end.
const uploads = `C:\windows\wmcb-e2e`

// TestBootstrapper is the bootstrapper's end-to-end run of test/wmcbe2e, with -skipVMSetup, on a machine of Wine behind a Machine: the real
// wmcb.exe, kubelet.exe and containerd.exe, each command twice.
//
//evidence:wine upload node start-service
func TestBootstrapper(t *testing.T) {
	machineapi.SetLogger(logr.Discard())
	loopbackUp(t)
	dir := t.TempDir()
	y, err := newYard(t.Context(), dir, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := y.close(); err != nil {
			t.Error(err)
		}
	})
	b, err := bed.Start(t.Context(), bed.Options{
		Root: root, Agent: *agentPath, Payload: *payloadPath, PodCIDR: "10.132.0.0/14", MachineAPI: true, OpenShift: "AWS",
		Provider: y, Address: y.network.Gateway().String(), Logf: t.Logf,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	y.authorize(b.PublicKey())
	o, machine, err := wmcbe2e.OnBed(t.Context(), b, root, dir, wmcbe2e.Options{
		User: "Administrator", Port: 22, Subnet: "10.132.0.0/24", Artifacts: os.Getenv("ARTIFACT_DIR"),
	})
	if err != nil {
		t.Fatal(err)
	}
	m, ok := y.machine(machine.Name)
	if !ok {
		t.Fatalf("there is no machine %s", machine.Name)
	}
	document, err := os.ReadFile(root + "/pkg/agent/system/windows/testdata/overlay.json")
	if err != nil {
		t.Fatal(err)
	}
	if status, _, answer := m.HNS().Do("CreateNetwork", "", "", "", strings.Replace(string(document), `"vxlan0"`, `"`+overlay+`"`, 1)); status != hns.OK {
		t.Fatalf("making network %s: %08x %s", overlay, uint32(status), answer)
	}
	o.WMCB, o.Payload, o.Network = *agentPath, *payloadPath, overlay
	r := &rig{Bed: b, t: t, yard: y}
	files, services := r.inventory(m)
	run, err := wmcbe2e.New(o, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		if err := errors.Join(run.CleanUp(ctx), run.Print(os.Stdout)); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			lastCommands(t, o.Artifacts)
		}
	})
	began := time.Now()
	for _, p := range run.Phases() {
		if !t.Run(p.Name, func(t *testing.T) {
			if err := p.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
		}) {
			return
		}
		t.Logf("%6.1f s  %s", time.Since(began).Seconds(), p.Name)
	}
	filesAfter, servicesAfter := r.inventory(m)
	maps.DeleteFunc(filesAfter, func(path, _ string) bool { return strings.HasPrefix(path, uploads) })
	if diff := cmp.Diff(files, filesAfter); diff != "" {
		t.Errorf("files of the machine (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(services, servicesAfter); diff != "" {
		t.Errorf("services of the machine (-before +after):\n%s", diff)
	}
	if started := m.Started(); len(started) > 0 {
		t.Errorf("programs were started that may not be: %v", started)
	}
}

// lastCommands prints what was kept of a run that failed.
func lastCommands(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Log(err)
	}
	for _, e := range entries {
		b, err := os.ReadFile(dir + "/" + e.Name())
		t.Logf("=== %s %v\n%s", e.Name(), err, b[max(0, len(b)-4000):])
	}
}
