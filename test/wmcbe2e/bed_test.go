package wmcbe2e

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/windowsmachine/operator/pkg/plan"
	"github.com/windowsmachine/operator/test/bed"
	"github.com/windowsmachine/operator/test/payload"
)

const (
	root = "../.."
	// bedScale is the payload's size.
	bedScale = 0.01
	// bedNetwork is an HNS network that the simulated machine has before the run, as hybrid overlay makes it on a real one.
	bedNetwork = "OVNKubernetesHybridOverlayNetwork"
)

// onBed starts a control plane like OpenShift's and one simulated machine behind a Machine, and returns the flags of a run with -skipVMSetup
// that has the rights of the Job's account.
func onBed(t *testing.T, o Options) Options {
	t.Helper()
	dir := t.TempDir()
	agent := filepath.Join(dir, "wmcb.exe")
	if err := os.WriteFile(agent, []byte("stands for the agent"), 0o600); err != nil {
		t.Fatal(err)
	}
	b, err := bed.Start(t.Context(), bed.Options{
		Root: root, Agent: agent, Scale: bedScale, MachineAPI: true, OpenShift: "AWS", PodCIDR: "10.132.0.0/14", Logf: t.Logf,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	o, m, err := OnBed(t.Context(), b, root, dir, o)
	must(err)
	h, ok := b.Host(m.Name)
	if !ok {
		t.Fatal(errNoMachine)
	}
	ip, _ := h.Addr()
	must(h.Machine().System().Networks.Create(t.Context(), plan.Network{
		Name: bedNetwork, Type: plan.NetworkOverlay, ManagementIP: ip, Prefix: "10.132.0.0/24", Gateway: "10.132.0.1", VSID: 4097,
	}))
	o.Port, err = b.Port()
	must(err)
	store, err := payload.Cached(bedScale)
	must(err)
	o.WMCB, o.Payload, o.Network = agent, store.Dir(), bedNetwork
	t.Cleanup(func() { artifactsAreThere(t, o.Artifacts) })
	return o
}

// artifactsAreThere: what a person would look at after a run that failed, and nothing secret.
func artifactsAreThere(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	for _, want := range []string{"machine.yaml", "node.yaml", "host-key.txt", "01-initialize-kubelet.txt", "journal.jsonl", "kubelet.log"} {
		if !slices.Contains(names, want) && !t.Failed() {
			t.Errorf("%s is missing among the artifacts %v", want, names)
		}
	}
}
