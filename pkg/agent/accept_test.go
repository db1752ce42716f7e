package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/windowsmachine/operator/pkg/agent/step"
	"github.com/windowsmachine/operator/pkg/agent/system/fake"
	"github.com/windowsmachine/operator/pkg/plan"
)

func TestFence(t *testing.T) {
	other := plan.Plan{APIVersion: plan.APIVersion, Env: []plan.EnvVar{{Name: "A", Value: "b"}}}
	held := func(f func(*accepted)) accepted {
		e := envelope(5, plan.Plan{Env: []plan.EnvVar{{Name: "A", Value: "a"}}}, nil)
		r := next(accepted{}, false, e, false)
		f(&r)
		return r
	}
	same := func(*accepted) {}
	for _, tc := range []struct {
		name string
		prev accepted
		e    func(*plan.Envelope)
		want error
	}{
		{"next generation", held(same), func(e *plan.Envelope) { e.Generation = 6 }, nil},
		{"same again", held(same), func(*plan.Envelope) {}, nil},
		{"older", held(same), func(e *plan.Envelope) { e.Generation = 4 }, ErrGenerationOld},
		{"older and the same plan", held(func(r *accepted) { r.Generation = 6 }), func(*plan.Envelope) {}, ErrGenerationOld},
		{"same generation, other plan", held(same), func(e *plan.Envelope) { e.Plan = other }, ErrGenerationConflict},
		{"same generation after a removal on the machine", held(func(r *accepted) { r.Removed, r.Digest = true, plan.Empty().Digest() }), func(e *plan.Envelope) { e.Plan = other }, nil},
		{"older after a removal on the machine", held(func(r *accepted) { r.Removed = true }), func(e *plan.Envelope) { e.Generation = 4 }, ErrGenerationOld},
		{"other host", held(same), func(e *plan.Envelope) { e.Host, e.Generation = "host-2", 9 }, ErrHostMismatch},
		{"other host, same plan", held(same), func(e *plan.Envelope) { e.Host = "host-2" }, ErrHostMismatch},
		{"other host adopts", held(same), func(e *plan.Envelope) { e.Host, e.Adopt, e.Generation = "host-2", true, 1 }, nil},
		{"other host on a machine that was given up", held(func(r *accepted) { r.Digest = plan.Empty().Digest() }), func(e *plan.Envelope) { e.Host, e.Generation = "host-2", 1 }, nil},
		{"adopting is no way around the fence", held(same), func(e *plan.Envelope) { e.Adopt, e.Generation = true, 4 }, ErrGenerationOld},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := envelope(5, plan.Plan{Env: []plan.EnvVar{{Name: "A", Value: "a"}}}, nil)
			tc.e(&e)
			if err := fence(tc.prev, true, e); !errors.Is(err, tc.want) {
				t.Errorf("error %v, want %v", err, tc.want)
			}
		})
	}
	if err := fence(accepted{}, false, envelope(1, other, nil)); err != nil {
		t.Errorf("first plan: %v", err)
	}
}

// TestRefusals change nothing: what was accepted before stays.
func TestRefusals(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*plan.Envelope)
		want   error
		code   string
	}{
		{"older generation", func(e *plan.Envelope) { e.Generation = 1 }, ErrGenerationOld, CodeGenerationOld},
		{"no host", func(e *plan.Envelope) { e.Host = "" }, ErrPlanInvalid, CodePlanInvalid},
		{"no generation", func(e *plan.Envelope) { e.Generation = 0 }, ErrPlanInvalid, CodePlanInvalid},
		{"unknown capability", func(e *plan.Envelope) { e.Plan.Requires = []string{"levitation/v9"} }, plan.ErrTooNew, CodePlanTooNew},
		{"path outside", func(e *plan.Envelope) { e.Plan.Files[2].Path = `C:\Windows\System32\drivers\etc\hosts` }, ErrPlanInvalid, CodePlanInvalid},
		{"path that climbs", func(e *plan.Envelope) { e.Plan.Files[2].Path = `C:\k\..\Windows\x` }, ErrPlanInvalid, CodePlanInvalid},
		{"the agent's own folder", func(e *plan.Envelope) { e.Plan.Files[2].Path = `C:\k\wmcb\plan.json` }, ErrPlanInvalid, CodePlanInvalid},
		{"blob that is not here", func(e *plan.Envelope) { e.Plan.Files[0].Blob = strings.Repeat("ab", 32) }, step.ErrBlobMissing, CodeBlobMissing},
		{"secret that never came", func(e *plan.Envelope) {
			e.Plan.Secrets = append(e.Plan.Secrets, plan.Secret{Name: "other", Path: `C:\k\second`})
		}, step.ErrSecretMissing, CodeSecretMissing},
		{"another host", func(e *plan.Envelope) { e.Host = "host-2" }, ErrHostMismatch, CodeHostMismatch},
	} {
		t.Run(tc.name, func(t *testing.T) {
			withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
				p := r.node()
				_, err := r.a.Accept(t.Context(), envelope(2, p, ticket()))
				r.must(err)
				before := r.m.Dump()
				e := envelope(3, r.node(), ticket())
				tc.change(&e)
				_, err = r.a.Accept(t.Context(), e)
				r.wants(err, tc.want)
				if got := CodeOf(err); got != tc.code {
					t.Errorf("code %s, want %s", got, tc.code)
				}
				r.same(before, r.m.Dump())
			})
		})
	}
}

func TestAcceptBusy(t *testing.T) {
	withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
		r.must(r.a.secureRoot(t.Context()))
		release, err := r.a.lock(lockFile)
		r.must(err)
		_, err = r.a.Accept(t.Context(), envelope(1, plan.Empty(), nil))
		r.wants(err, ErrBusy)
		err = r.a.Receive(t.Context(), strings.NewReader(""), &bytes.Buffer{})
		r.wants(err, ErrBusy)
		r.must(release())
		_, err = r.a.Accept(t.Context(), envelope(1, plan.Empty(), nil))
		r.must(err)
	})
}

// TestPendingSecretsSurvive: a secret that was handed over and not put in place yet is not lost to an envelope without it.
func TestPendingSecretsSurvive(t *testing.T) {
	withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
		_, err := r.a.Accept(t.Context(), envelope(1, r.node(), ticket()))
		r.must(err)
		r.applied(envelope(2, r.node(), nil), plan.PhaseInSync)
		b, err := r.m.ReadFile(`C:\k\bootstrap-kubeconfig`)
		if err != nil || string(b) != "canary-token" {
			t.Errorf("secret %q, %v", b, err)
		}
	})
}

// TestOpenFolderIsNotTrusted: what others could put into the agent's folder before it was closed is deleted, and what they put there is
// not believed meanwhile.
func TestOpenFolderIsNotTrusted(t *testing.T) {
	withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
		planted, err := json.Marshal(next(accepted{}, false, envelope(99, plan.Empty(), nil), false))
		r.must(err)
		r.write(rooted(planFile), strings.Replace(string(planted), `"apiVersion":""`, `"apiVersion":"`+acceptedVersion+`"`, 1))
		r.write(rooted(`blobs\sha256\planted`), "x")
		r.write(rooted(journalFile), "{}\n")
		if rep := r.report(); rep.Phase != plan.PhaseIdle || rep.Generation != 0 {
			t.Errorf("report %+v", rep)
		}
		r.applied(envelope(1, r.node(), ticket()), plan.PhaseInSync)
		if _, err := r.m.ReadFile(rooted(`blobs\sha256\planted`)); err == nil {
			t.Error("the planted blob is still there")
		}
		for _, folder := range []string{plan.AgentRoot, rooted(blobsDir)} {
			info, err := r.a.sys.Files.Stat(folder)
			if err != nil || info.Access != plan.AccessSecret {
				t.Errorf("%s: access %q, %v", folder, info.Access, err)
			}
		}
		info, err := r.a.sys.Files.Stat(plan.InstallDir)
		if err != nil || info.Access != plan.AccessPublic {
			t.Errorf("%s: access %q, %v", plan.InstallDir, info.Access, err)
		}
	})
}

func TestStateInvalid(t *testing.T) {
	withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
		r.must(r.a.secureRoot(t.Context()))
		for _, content := range []string{"", "{", `{"apiVersion":"accepted.windowsmachine.dev/v9"}`, `{"apiVersion":"accepted.windowsmachine.dev/v1","accept":"x"}`, strings.Repeat(" ", maxOwnFile+1)} {
			r.write(rooted(planFile), content)
			_, _, err := r.a.loadAccepted()
			r.wants(err, ErrStateInvalid)
		}
	})
}

func FuzzEnvelope(f *testing.F) {
	seed, err := json.Marshal(envelope(1, plan.Plan{Env: []plan.EnvVar{{Name: "A", Value: "b"}}}, nil))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add([]byte(`{"apiVersion":"envelope.windowsmachine.dev/v1","host":"h","generation":1,"plan":{"apiVersion":"plan.windowsmachine.dev/v1"}}`))
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := plan.ParseEnvelope(bytes.NewReader(b))
		if err != nil || admit(e) != nil {
			return
		}
		// What is admitted can be stored and read back as the same plan.
		p, err := next(accepted{}, false, e, false).plan()
		if err != nil || p.Digest() != e.Plan.Digest() {
			t.Errorf("read back as another plan: %v", err)
		}
	})
}

// TestCurrentAccept reads the beginning of plan.json only, and reads what loadAccepted reads.
func TestCurrentAccept(t *testing.T) {
	withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
		if n, err := r.a.currentAccept(); n != 0 || err != nil {
			t.Errorf("no plan: %d, %v", n, err)
		}
		p := plan.Plan{Env: []plan.EnvVar{{Name: "A", Value: strings.Repeat("x", 10<<10)}}}
		for want := int64(1); want <= 3; want++ {
			e := envelope(want, p, nil)
			e.Host = strings.Repeat("h", 256)
			_, err := r.a.Accept(t.Context(), e)
			r.must(err)
			rec, _, err := r.a.loadAccepted()
			r.must(err)
			if n, err := r.a.currentAccept(); err != nil || n != want || n != rec.Accept {
				t.Errorf("%d, %v, want %d", n, err, want)
			}
		}
		r.write(rooted(planFile), `{"apiVersion":"accept","host":"accept`+strings.Repeat("x", maxHead))
		_, err := r.a.currentAccept()
		r.wants(err, ErrStateInvalid)
	})
}
