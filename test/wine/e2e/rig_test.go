//go:build linux && wine

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/test/bed"
	"github.com/windowsmachine/operator/test/machineapi"
	"github.com/windowsmachine/operator/test/wine"
)

const root = "../../.."

var (
	operatorPath = flag.String("operator", root+"/out/windows-machine-operator", "the operator's program")
	agentPath    = flag.String("agent", root+"/out/wmcb.exe", "the agent for machines")
	payloadPath  = flag.String("payload", root+"/out/payload", "the packed payload, of real programs")
	keep         = flag.Duration("keep", 0, "after a failure leave everything up for so long")
)

// rig is the product on a table with machines of Wine.
type rig struct {
	*bed.Bed
	t    *testing.T
	yard *yard
}

func newRig(t *testing.T, edits ...func(*bed.Options)) *rig {
	t.Helper()
	machineapi.SetLogger(logr.Discard())
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	dir := t.TempDir()
	loopbackUp(t)
	y, err := newYard(ctx, dir, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	o := bed.Options{
		Root: root, Agent: *agentPath, Operator: *operatorPath, Payload: *payloadPath, PodCIDR: "10.244.0.0/16", MachineAPI: true,
		Provider: y, Address: y.network.Gateway().String(), Dir: dir, Logf: t.Logf,
	}
	for _, edit := range edits {
		edit(&o)
	}
	b, err := bed.Start(ctx, o)
	if err != nil {
		t.Fatal(errors.Join(err, y.close()))
	}
	y.authorize(b.PublicKey())
	r := &rig{Bed: b, t: t, yard: y}
	t.Cleanup(func() {
		if t.Failed() {
			r.lastWords()
		}
		if err := errors.Join(b.Close(), y.close()); err != nil {
			t.Error(err)
		}
	})
	return r
}

// loopbackUp fails where the loopback interface is down, as in a fresh network namespace.
func loopbackUp(t *testing.T) {
	t.Helper()
	i, err := net.InterfaceByName("lo")
	if err != nil || i.Flags&net.FlagUp == 0 {
		t.Fatal("the loopback interface is down; run this by `make e2e`")
	}
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// until waits for a condition; what it returns besides says how things stand.
func (r *rig) until(what string, limit time.Duration, done func() (bool, string)) time.Duration {
	r.t.Helper()
	began := time.Now()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, state := done()
		took := time.Since(began)
		if ok {
			return took
		}
		select {
		case <-tick.C:
		case <-r.OperatorDone():
			r.t.Fatalf("%s: the operator ended by itself", what)
		case <-r.t.Context().Done():
			r.t.Fatal(what, r.t.Context().Err())
		}
		if took > limit {
			r.t.Fatalf("%s: not after %s: %s", what, limit, state)
		}
	}
}

func (r *rig) hosts() []v1alpha1.WindowsHost {
	r.t.Helper()
	var list v1alpha1.WindowsHostList
	r.must(r.Client.List(r.t.Context(), &list, client.InNamespace(bed.Namespace)))
	return list.Items
}

func (r *rig) host(name string) *v1alpha1.WindowsHost {
	r.t.Helper()
	h := &v1alpha1.WindowsHost{}
	r.must(r.Client.Get(r.t.Context(), client.ObjectKey{Namespace: bed.Namespace, Name: name}, h))
	return h
}

func (r *rig) node(name string) *corev1.Node {
	r.t.Helper()
	n := &corev1.Node{}
	r.must(r.Client.Get(r.t.Context(), client.ObjectKey{Name: name}, n))
	return n
}

// standing is a host's Ready condition in words.
func standing(h *v1alpha1.WindowsHost) (ready bool, words string) {
	c := meta.FindStatusCondition(h.Status.Conditions, v1alpha1.ConditionReady)
	if c == nil {
		return false, h.Name + " was not looked at"
	}
	return c.Status == "True", fmt.Sprintf("%s %s %s: %s", h.Name, h.Status.Step, c.Reason, c.Message)
}

// untilReady waits until every host is Ready.
func (r *rig) untilReady(hosts int, limit time.Duration) time.Duration {
	r.t.Helper()
	return r.until(fmt.Sprintf("%d hosts Ready", hosts), limit, func() (bool, string) {
		ready, words := 0, []string{}
		for _, h := range r.hosts() {
			ok, w := standing(&h)
			if ok {
				ready++
			}
			words = append(words, w)
		}
		return ready == hosts, strings.Join(words, "; ")
	})
}

// healthz asks a kubelet through the API server, which verifies the kubelet's certificate.
func (r *rig) healthz(node string) (string, error) {
	out, err := r.Kubectl(r.t.Context(), "get", "--raw", "/api/v1/nodes/"+node+"/proxy/healthz")
	return strings.TrimSpace(string(out)), err
}

func (r *rig) untilHealthy(node string, limit time.Duration) time.Duration {
	r.t.Helper()
	return r.until(node+"'s healthz is ok", limit, func() (bool, string) {
		out, err := r.healthz(node)
		return err == nil && out == "ok", fmt.Sprint(out, err)
	})
}

// entry is a line of an agent's journal (docs/formats.md).
type entry struct {
	Time         time.Time
	Step, Code   string
	BootID       string
	Index, Total int
	Detail       string
}

func journal(m *wine.Machine) []entry {
	b, err := m.File(`C:\k\wmcb\journal.jsonl`)
	if err != nil {
		return nil
	}
	var out []entry
	for line := range bytes.Lines(b) {
		var e entry
		if json.Unmarshal(line, &e) == nil {
			out = append(out, e)
		}
	}
	return out
}

// lastWords shows what there is to see after a failure.
func (r *rig) lastWords() {
	r.t.Log("operator:", tail(os.ReadFile(r.OperatorLog())))
	for _, m := range r.yard.all() {
		r.t.Logf("%s at %s: HNS %d calls, started %q", m.Name(), m.Address(), len(m.HNS().Journal()), m.Started())
		for _, f := range []string{
			`C:\k\wmcb\journal.jsonl`, `C:\var\log\kubelet\kubelet.log`, `C:\var\log\containerd\containerd.log`, `C:\ProgramData\ssh\logs\sshd.log`,
		} {
			r.t.Logf("%s %s: %s", m.Name(), f, tail(m.File(f)))
		}
	}
	if *keep > 0 {
		r.t.Logf("export KUBECONFIG=%s; %s", r.KubeconfigPath(), r.KubectlPath())
		<-time.After(*keep)
	}
}

func tail(b []byte, err error) string {
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimSpace(b), []byte("\n"))
	lines = lines[max(0, len(lines)-25):]
	for i, l := range lines {
		lines[i] = l[:min(len(l), 500)]
	}
	return "\n" + string(bytes.Join(lines, []byte("\n")))
}
