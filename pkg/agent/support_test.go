package agent

import (
	"archive/zip"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"

	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/agent/system/fake"
	"github.com/windowsmachine/operator/pkg/plan"
)

// archive unpacks what Support writes.
func archive(t *testing.T, a *Agent) map[string]string {
	t.Helper()
	var b bytes.Buffer
	if err := a.Support(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	z, err := zip.NewReader(bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, twice := out[f.Name]; twice {
			t.Errorf("%s is there twice", f.Name)
		}
		out[f.Name] = string(content)
	}
	return out
}

// The secrets that are planted. None of them may be in the archive in any form.
const (
	plantedToken  = "planted-bootstrap-token-0123456789"
	plantedPass   = `planted"pass\word`
	plantedCloud  = "PlantedCloudSecret42"
	plantedProxy  = "planted-proxy-pass"
	plantedAuth   = "cGxhbnRlZDpwYXNz"
	plantedKey    = "PLANTEDKEYMATERIALxyz"
	plantedJWT    = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJwbGFudGVkIn0.c2lnbmF0dXJlcGxhbnRlZA"
	plantedEnv    = "planted-env-value"
	plantedBearer = "planted.bearer~value"
	plantedBoot   = "abcdef.0123456789abcdef"
	plantedAWS    = "AKIAPLANTEDPLANTED00"
	// plantedLog is in logs only, so that nothing but its form gives it away.
	plantedLog = "KEYOFALOGxPLANTED"
)

func planted() []string {
	out := []string{
		plantedToken, plantedPass, plantedCloud, plantedProxy, plantedAuth, plantedKey, plantedJWT, plantedEnv, plantedBearer, plantedBoot, plantedAWS, plantedLog,
	}
	for _, s := range slices.Clone(out) {
		quoted, err := json.Marshal(s)
		if err != nil {
			panic(err)
		}
		out = append(out, base64.StdEncoding.EncodeToString([]byte(s)), strings.Trim(string(quoted), `"`))
	}
	return out
}

func pemOf(key string) string {
	return "-----BEGIN EC PRIVATE KEY-----\n" + strings.Repeat(key+"\n", 3) + "-----END EC PRIVATE KEY-----\n"
}

func toUTF16(s string) []byte {
	out := []byte{0xff, 0xfe}
	for _, u := range utf16.Encode([]rune(s)) {
		out = append(out, byte(u), byte(u>>8))
	}
	return out
}

// plant puts secrets wherever one may come to lie on a node.
func (r *rig) plant() {
	r.t.Helper()
	quoted, err := json.Marshal(plantedPass)
	r.must(err)
	kubeconfig := "users:\n- user:\n    token: " + plantedToken + "\n    client-key-data: " + plantedKey + "\n    password: " + string(quoted) + "\n"
	p := plan.Plan{
		APIVersion: plan.APIVersion,
		Secrets:    []plan.Secret{{Name: "bootstrap-kubeconfig", Path: `C:\k\bootstrap-kubeconfig`}},
		Env: []plan.EnvVar{
			{Name: "HTTP_PROXY", Value: "http://u:" + plantedProxy + "@proxy.example.test:3128"}, {Name: "MY_SECRET_THING", Value: plantedEnv},
		},
		Files: []plan.File{
			{Path: `C:\k\kubelet.exe`, Access: plan.AccessPublic, Inline: []byte("MZ")},
			{Path: `C:\k\cloud.conf`, Access: plan.AccessSecret, Inline: []byte("[Global]\naadClientThing = " + plantedCloud + "\n")},
			{Path: `C:\k\kubelet.conf`, Access: plan.AccessPublic, Inline: []byte(`{"maxPods":250,"authorization":{"mode":"Webhook"}}`)},
			{Path: `C:\k\containerd.toml`, Access: plan.AccessPublic, Inline: []byte("version = 3\n[x.auth]\npassword = '" + plantedProxy + "'\nauth = \"" + plantedAuth + "\"\n")},
		},
		Services: []plan.Service{{
			Name: "kubelet", Exe: `C:\k\kubelet.exe`, LogFile: `C:\var\log\kubelet\kubelet.log`,
			Args: []string{"--config=C:\\k\\kubelet.conf", "--token", plantedEnv, "--password=" + plantedEnv},
			Env:  []plan.EnvVar{{Name: "API_TOKEN", Value: plantedEnv}},
		}},
	}
	r.must(r.a.sys.Env.Set("MY_SECRET_THING", plantedEnv))
	_, err = r.a.Accept(r.t.Context(), plan.Envelope{Host: "h", Generation: 1, Plan: p, Secrets: map[string][]byte{"bootstrap-kubeconfig": []byte(kubeconfig)}})
	r.must(err)
	_, err = r.a.Run(r.t.Context())
	r.must(err)
	r.write(`C:\var\lib\kubelet\kubeconfig`, kubeconfig)
	r.write(`C:\var\lib\kubelet\pki\kubelet-client-current.pem`, pemOf(plantedKey))
	r.write(`C:\k\wmcb\secrets-99.json`, `{"x":"`+base64.StdEncoding.EncodeToString([]byte(kubeconfig))+`"}`)
	r.write(`C:\k\cni\config\10-x.conf`, `{"kubeconfig":{"token":"`+plantedToken+`","mode":"x"},"name":"cbr0"}`)
	log := "I1130 line one\nAuthorization: Bearer " + plantedBearer + "\nurl https://user:" + plantedProxy + "@x/y\njwt=" + plantedJWT + "\n" +
		"join --token " + plantedBoot + "\n" + pemOf(plantedLog) + "key " + plantedAWS + " cloud said " + plantedCloud + " and " + string(quoted) + "\n" +
		`{"auths":{"r.example.test":{"auth":"` + plantedAuth + `"}}}` + "\nlast line\n"
	r.write(`C:\var\log\kubelet\kubelet.log`, log)
	r.write(`C:\var\log\kubelet\utf16.log`, string(toUTF16(log)))
	// Only the end is taken, and it begins in the middle of a key.
	r.write(`C:\var\log\containerd\long.log`, pemOf(plantedLog)+strings.Repeat("x", 10)+strings.Repeat(plantedLog+"\n", 2*maxTail/len(plantedLog))+
		"-----END RSA PRIVATE KEY-----\nthe end\n")
}

// TestSupportHoldsNoSecret: whatever was planted anywhere is in no file of the archive, and what is needed is.
func TestSupportHoldsNoSecret(t *testing.T) {
	withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
		r.plant()
		before := r.m.Dump()
		files := archive(t, r.a)
		if d := cmp.Diff(before, r.m.Dump()); d != "" {
			t.Errorf("something was changed: %s", d)
		}
		for name, content := range files {
			for _, s := range planted() {
				if strings.Contains(content, s) {
					at := strings.Index(content, s)
					t.Errorf("%s holds %s: %.200q", name, s, content[max(0, at-80):])
				}
			}
		}
		for name, want := range map[string]string{
			"facts.json":                         `"hostname": "WIN-SIM"`,
			"agent/journal.jsonl":                "RunDone",
			"agent/plan.json":                    `C:\\k\\kubelet.conf`,
			"agent/state.json":                   `"inventory"`,
			"services.json":                      `"kubelet"`,
			"files/C/k/kubelet.conf":             `{"maxPods":250,"authorization":{"mode":"Webhook"}}`,
			"files/C/k/containerd.toml":          "version = 3",
			"files/C/k/cni/config/10-x.conf":     `"name":"cbr0"`,
			"logs/C/var/log/kubelet/kubelet.log": "last line",
			"logs/C/var/log/kubelet/utf16.log":   "last line",
			"logs/C/var/log/containerd/long.log": "the end",
			"listing.txt":                        `C:\k\kubelet.exe`,
			"errors.txt":                         "",
		} {
			if content, ok := files[name]; !ok || !strings.Contains(content, want) {
				t.Errorf("%s: %v, no %q", name, ok, want)
			}
		}
		if got := files["logs/C/var/log/kubelet/kubelet.log"]; !strings.HasPrefix(got, "I1130 line one\n") || strings.Count(got, "\n") < 8 {
			t.Errorf("too much is gone:\n%s", got)
		}
		for name := range files {
			if strings.Contains(name, "bootstrap-kubeconfig") || strings.Contains(name, "pki") || strings.Contains(name, "cloud.conf") || strings.Contains(name, "secrets-") {
				t.Errorf("%s is in the archive", name)
			}
		}
	})
}

// TestSupportOnAnyMachine: also one without the agent, and one whose session may not read much, gives an archive.
func TestSupportOnAnyMachine(t *testing.T) {
	for _, o := range []fake.Options{{}, {NotElevated: true}} {
		withRig(t, o, func(t *testing.T, r *rig) {
			if files := archive(t, r.a); !strings.Contains(files["facts.json"], "WIN-SIM") || files["errors.txt"] != "" {
				t.Errorf("%v", files["errors.txt"])
			}
		})
	}
}

// deafWriter fails at once.
type deafWriter struct{}

func (deafWriter) Write([]byte) (int, error) { return 0, system.ErrDiskFull }

func TestSupportSaysWhenItCannotBeWritten(t *testing.T) {
	withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
		r.wants(r.a.Support(t.Context(), deafWriter{}), system.ErrDiskFull)
	})
}

func TestRedactText(t *testing.T) {
	for in, want := range map[string]string{
		"maxPods: 250\nauthorization:\n  mode: Webhook\n": "maxPods: 250\nauthorization:\n  mode: Webhook\n",
		`--v=4 --kubeconfig=C:\k\kubeconfig`:              `--v=4 --kubeconfig=C:\k\kubeconfig`,
		"password=abc&x=1":                                `password="REDACTED"&x=1`,
		`{"clientSecret":"a\"b","x":1}`:                   `{"clientSecret":"REDACTED","x":1}`,
		"https://a:b@c/d https://e/f":                     "https://REDACTED@c/d https://e/f",
		"digest 0123456789abcdef0123456789abcdef":         "digest 0123456789abcdef0123456789abcdef",
	} {
		var r redactor
		if got := string(r.text([]byte(in))); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
	var r redactor
	r.learn([]byte("server: https://api.example.test:6443\nname: some-context-name\nlicense: Abcdef1234567\n"))
	got := string(r.text([]byte("https://api.example.test:6443 some-context-name Abcdef1234567")))
	if got != "https://api.example.test:6443 some-context-name "+redacted {
		t.Error(got)
	}
}

func TestLastBytes(t *testing.T) {
	for _, n := range []int{0, 1, 99, 100, 101, 250, 70_000} {
		text := strings.Repeat("0123456789", n/10+1)[:n]
		end, cut, err := lastBytes(strings.NewReader(text), 100)
		if err != nil || !strings.HasSuffix(text, end) || len(end) != min(n, 100) || cut != (n > 100) {
			t.Errorf("%d: %d bytes, %v, %v", n, len(end), cut, err)
		}
	}
	if _, _, err := lastBytes(io.MultiReader(strings.NewReader("x"), failing{}), 10); err == nil {
		t.Error("no error")
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, fmt.Errorf("torn") }
