package agent

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/big"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/windowsmachine/operator/pkg/agent/step"
	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/agent/system/fake"
	"github.com/windowsmachine/operator/pkg/plan"
)

func selfSigned(t *testing.T) (*ecdsa.PrivateKey, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return key, der
}

func TestCodeOf(t *testing.T) {
	for _, tc := range []struct {
		err  error
		code string
	}{
		{nil, ""},
		{errors.New("anything"), CodeStepFailed},
		{system.ErrDiskFull, CodeDiskFull},
		{system.ErrBusy, CodeFileBusy},
		{system.ErrDenied, CodeAccessDenied},
		{system.ErrServiceTimeout, CodeServiceStartTimeout},
		{system.ErrServiceMarked, CodeServiceMarkedForDelete},
		{system.ErrServiceDependency, CodeServiceDependency},
		{step.ErrServiceExited, CodeServiceExited},
		{system.ErrAdapterNotFound, CodeNetworkAdapterMissing},
		{errors.Join(step.ErrNetworkLost, system.ErrAdapterNotFound), CodeNetworkLost},
		{step.ErrForeign, CodeForeignObject},
		{ErrBusy, CodeBusy},
		{plan.ErrTooNew, CodePlanTooNew},
		{errors.Join(ErrPlanInvalid, plan.ErrTooNew), CodePlanTooNew},
		{ErrRebootRepeated, CodeRebootRepeated},
		{context.Canceled, CodeStopped},
		{&fake.Error{Err: system.ErrDiskFull}, CodeDiskFull},
	} {
		if got := CodeOf(tc.err); got != tc.code {
			t.Errorf("%v: %s, want %s", tc.err, got, tc.code)
		}
		if tc.err != nil {
			if got := CodeOf(fmt.Errorf("wrapped: %w", tc.err)); got != tc.code {
				t.Errorf("wrapped %v: %s, want %s", tc.err, got, tc.code)
			}
		}
	}
}

// TestCodesAreComplete: every code of the table is declared, no two codes are equal, and every failure code surfaces somewhere.
func TestCodesAreComplete(t *testing.T) {
	declared := declaredCodes(t)
	surfaces := map[string]bool{CodeStepFailed: true}
	for _, m := range codeTable() {
		surfaces[m.code] = true
	}
	for name, code := range declared {
		if name != "Code"+code {
			t.Errorf("constant %s has the code %q", name, code)
		}
		if progress(code) == surfaces[code] && code != CodeSuperseded {
			t.Errorf("code %s: progress %v, in the table %v", code, progress(code), surfaces[code])
		}
		delete(surfaces, code)
	}
	if len(surfaces) > 0 {
		t.Errorf("not declared: %v", surfaces)
	}
}

func declaredCodes(t *testing.T) map[string]string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "codes.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 || !strings.HasPrefix(spec.Names[0].Name, "Code") {
			return true
		}
		if lit, ok := spec.Values[0].(*ast.BasicLit); ok {
			value, err := strconv.Unquote(lit.Value)
			if err != nil {
				t.Fatal(err)
			}
			out[spec.Names[0].Name] = value
		}
		return true
	})
	return out
}

func TestRetryPauses(t *testing.T) {
	var got []time.Duration
	for n := 1; n <= 8; n++ {
		got = append(got, retry(n))
	}
	want := "[5s 10s 20s 40s 1m20s 2m40s 5m0s 5m0s]"
	if fmt.Sprint(got) != want {
		t.Errorf("pauses %v, want %s", got, want)
	}
}

func TestPause(t *testing.T) {
	for _, tc := range []struct {
		name     string
		res      result
		failures int
		spoke    bool
		random   float64
		want     time.Duration
	}{
		{"in sync, nothing done", result{phase: plan.PhaseInSync}, 0, false, 0.5, 10 * time.Minute},
		{"spread down", result{phase: plan.PhaseInSync}, 0, false, 0, 9 * time.Minute},
		{"spread up", result{phase: plan.PhaseInSync}, 0, false, 1, 11 * time.Minute},
		{"in sync after a change", result{phase: plan.PhaseInSync}, 0, true, 0.5, 30 * time.Second},
		{"no plan", result{phase: plan.PhaseIdle}, 0, false, 0.5, 10 * time.Minute},
		{"failed", result{phase: plan.PhaseFailed}, 3, true, 0.5, 20 * time.Second},
		{"reboot", result{phase: plan.PhaseRebootNeeded}, 0, true, 0.5, -1},
		{"superseded", result{phase: plan.PhaseRunning}, 0, true, 0.5, 0},
	} {
		if got := pause(tc.res, tc.failures, tc.spoke, tc.random); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
}

func TestDecideService(t *testing.T) {
	want := serviceConfig(agentExe)
	for _, tc := range []struct {
		name   string
		exists bool
		have   system.ServiceConfig
		state  system.ServiceState
		move   serviceMove
	}{
		{"absent", false, system.ServiceConfig{}, 0, moveCreate},
		{"runs", true, want, system.ServiceRunning, moveWake},
		{"stopped", true, want, system.ServiceStopped, moveStart},
		{"starts", true, want, system.ServiceStartPending, moveStart},
		{"older agent", true, serviceConfig(`C:\Windows\wmcb\old\wmcb.exe`), system.ServiceRunning, moveReplace},
		{"changed by hand", true, system.ServiceConfig{Name: want.Name, Exe: want.Exe}, system.ServiceStopped, moveReplace},
	} {
		if got := decideService(tc.exists, tc.have, want, tc.state); got != tc.move {
			t.Errorf("%s: %d, want %d", tc.name, got, tc.move)
		}
	}
}

func TestDerive(t *testing.T) {
	rec := accepted{Accept: 3, Host: "h", Generation: 4, Digest: "d", Steps: 9}
	entry := func(code string, f func(*plan.Entry)) []plan.Entry {
		e := plan.Entry{Seq: 7, Generation: 4, Digest: "d", Total: 10, Code: code}
		if f != nil {
			f(&e)
		}
		return []plan.Entry{{Seq: 1, Code: CodeAccepted}, e}
	}
	at := func(e *plan.Entry) { e.Step, e.Index, e.Detail = "join-network", 5, "why" }
	boot := func(id string) func(*plan.Entry) {
		return func(e *plan.Entry) {
			at(e)
			e.BootID = id
		}
	}
	for _, tc := range []struct {
		name    string
		s       sight
		entries []plan.Entry
		want    string
	}{
		{"no agent", sight{}, nil, "Idle  0/0 "},
		{"stored, not taken up", sight{had: true, rec: rec, begun: 2}, entry(CodeRunDone, nil), "Running  0/9 "},
		{"taken up, journal lost", sight{had: true, rec: rec, begun: 3}, nil, "Running  0/9 "},
		{"started", sight{had: true, rec: rec, begun: 3}, entry(CodeRunStarted, nil), "Running  0/10 "},
		{"at a step", sight{had: true, rec: rec, begun: 3}, entry(CodeStepStarted, at), "Running join-network 5/10 "},
		{"failed", sight{had: true, rec: rec, begun: 3}, entry(CodeNetworkLost, at), "Failed join-network 5/10 NetworkLost"},
		{"failed for a reason of a newer agent", sight{had: true, rec: rec, begun: 3}, entry("Unheard", at), "Failed join-network 5/10 Unheard"},
		{"reboot", sight{had: true, rec: rec, begun: 3}, entry(CodeRebootNeeded, at), "RebootNeeded join-network 5/10 RebootNeeded"},
		{"reboot asked for in this boot", sight{had: true, rec: rec, begun: 3, bootID: "b"}, entry(CodeRebootNeeded, boot("b")), "RebootNeeded join-network 5/10 RebootNeeded"},
		{"reboot asked for in another boot", sight{had: true, rec: rec, begun: 3, bootID: "b"}, entry(CodeRebootNeeded, boot("a")), "Running join-network 5/10 "},
		{"failed in another boot", sight{had: true, rec: rec, begun: 3, bootID: "b"}, entry(CodeNetworkLost, boot("a")), "Failed join-network 5/10 NetworkLost"},
		{"done in another boot", sight{had: true, rec: rec, begun: 3, bootID: "b"}, entry(CodeRunDone, boot("a")), "InSync  10/10 "},
		{"done", sight{had: true, rec: rec, begun: 3}, entry(CodeRunDone, nil), "InSync  10/10 "},
		{"entry of another plan", sight{had: true, rec: rec, begun: 3}, entry(CodeRunDone, func(e *plan.Entry) { e.Digest = "x" }), "Running  0/9 "},
		{"entry of another generation", sight{had: true, rec: rec, begun: 3}, entry(CodeRunDone, func(e *plan.Entry) { e.Generation = 3 }), "Running  0/9 "},
	} {
		r := derive(tc.s, tc.entries)
		if got := fmt.Sprintf("%s %s %d/%d %s", r.Phase, r.Step, r.Index, r.Total, r.Code); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

// TestKilledAtEveryWrite: the service is killed at every change that it makes to the disk, and `wmcb apply` before that; the service
// manager starts it again, the machine gets into sync and the empty plan leaves it as it was.
func TestKilledAtEveryWrite(t *testing.T) {
	total := 0
	for n := 0; n <= total; n++ {
		withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
			r.write(`C:\k\kubelet.conf`, "theirs")
			before := r.m.Dump()
			p := r.node()
			receipt, err := r.a.Accept(t.Context(), envelope(1, p, ticket()))
			r.must(err)
			seen := 0
			r.m.Intercept(func(op fake.Op) fake.Verdict {
				// Before a sync or a close is after the write.
				if op.PID == 0 || op.Kind == fake.OpSync || op.Kind == fake.OpClose {
					return fake.Verdict{}
				}
				seen++
				return fake.Verdict{KillBefore: seen == n, Keep: 5}
			})
			r.must(r.a.EnsureService(t.Context()))
			last, err := r.a.Follow(t.Context(), receipt, func(plan.Report) error { return nil })
			r.must(err)
			if last.Phase != plan.PhaseInSync {
				t.Errorf("killed at write %d: %+v", n, last)
			}
			if n == 0 {
				total = seen
			}
			r.m.Intercept(nil)
			_, err = r.a.Remove(t.Context(), plan.Claim{}, func(plan.Report) error { return nil })
			r.must(err)
			after := r.m.Dump()
			// The rig's own blobs made C:\k, which holds a file of others.
			delete(before.Files, `C:\k`)
			delete(after.Files, `C:\k`)
			r.same(before, after)
		})
	}
	if total < 50 {
		t.Errorf("only %d writes seen", total)
	}
}
