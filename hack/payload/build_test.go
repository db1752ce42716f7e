package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/windowsmachine/operator/hack/payload/programs"
	"github.com/windowsmachine/operator/pkg/payload"
)

const (
	helloSum = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824" // of "hello"
	about    = "version: v1, licence: MIT, source: here, sha256: " + helloSum
)

func TestDeclared(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	var asked int
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		if r.URL.Path != "/v1/blob.exe" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte("hello"))
	}))
	defer server.Close()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "bin", "file.exe"), "hello")
	for _, tc := range []struct {
		name, list string
		want       error
		says       string
		files      []string
	}{
		{name: "file and url", list: "- {file: bin/file.exe, " + about + "}\n- {url: " + server.URL + "/v1/blob.exe, " + about + "}\n", files: []string{"file.exe", "blob.exe"}},
		{name: "JSON", list: `[{"url":"` + server.URL + `/v1/blob.exe","name":"x.exe","version":"v1","licence":"MIT","source":"s","sha256":"` + helloSum + `"}]`, files: []string{"x.exe"}},
		{name: "other digest of a file", list: "- {file: bin/file.exe, " + strings.Replace(about, "2cf", "3cf", 1) + "}\n", want: errSHA256, says: "it has " + helloSum},
		{name: "other digest of a url", list: "- {url: " + server.URL + "/v1/blob.exe, " + strings.Replace(about, "2cf", "4cf", 1) + "}\n", want: errSHA256, says: server.URL + "/v1/blob.exe"},
		{name: "no digest", list: "- {file: bin/file.exe, version: v1, licence: MIT, source: here}\n", want: errDeclaration, says: "file.exe"},
		{name: "upper case", list: "- {file: bin/file.exe, " + strings.ToUpper(about) + "}\n", want: errDeclaration},
		{name: "no licence", list: "- {file: bin/file.exe, version: v1, source: here, sha256: " + helloSum + "}\n", want: errDeclaration},
		{name: "both", list: "- {file: bin/file.exe, url: " + server.URL + ", " + about + "}\n", want: errList, says: "exactly one"},
		{name: "not the web", list: "- {url: 'ftp://example.com/a.exe', " + about + "}\n", want: errList, says: "http"},
		{name: "not there", list: "- {url: " + server.URL + "/none.exe, " + strings.Replace(about, "2cf", "5cf", 1) + "}\n", want: errFetch, says: "404"},
		{name: "file missing", list: "- {file: bin/none.exe, " + about + "}\n", want: os.ErrNotExist},
	} {
		t.Run(tc.name, func(t *testing.T) {
			list := filepath.Join(dir, "declare.yaml")
			write(t, list, tc.list)
			got, err := declared(t.Context(), list, t.Output())
			if !errors.Is(err, tc.want) || tc.want != nil && !strings.Contains(err.Error(), tc.says) {
				t.Fatalf("got %v", err)
			}
			if tc.want != nil {
				return
			}
			for i, d := range got {
				if b, err := os.ReadFile(d.Path); d.Name != tc.files[i] || err != nil || string(b) != "hello" {
					t.Errorf("%+v: %q, %v", d, b, err)
				}
			}
		})
	}
	if asked != 3 {
		t.Errorf("the server was asked %d times: a fetched file is kept under its digest, one that is wrong is not", asked)
	}
	if got, err := declared(t.Context(), "", t.Output()); got != nil || err != nil {
		t.Errorf("no list: %v, %v", got, err)
	}
}

func TestDeliver(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "in", "a.exe"), "aaa")
	s, err := pack(filepath.Join(dir, "cached"), []entry{{File: filepath.Join(dir, "in", "a.exe"), Name: "a.exe", Version: "v1", Licence: "MIT", Source: "here"}})
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "out")
	says := func() string {
		var text strings.Builder
		c := &cobra.Command{}
		c.SetOut(&text)
		c.SetErr(&text)
		if err := deliver(c, s, out); err != nil {
			t.Fatal(err)
		}
		return text.String()
	}
	if text := says(); strings.Contains(text, "is current") || !strings.Contains(text, "a.exe") {
		t.Errorf("the first time: %q", text)
	}
	if text := says(); !strings.Contains(text, out+" is current") {
		t.Errorf("the second time: %q", text)
	}
	// Another payload in its place, and one that lost a blob, are replaced.
	if _, err := run("stand-in", "--out", out, "--scale", "0.0001"); err != nil {
		t.Fatal(err)
	}
	if text := says(); strings.Contains(text, "is current") {
		t.Errorf("over another payload: %q", text)
	}
	if err := os.Remove(filepath.Join(out, s.Manifest().Blobs[0].SHA256+".zst")); err != nil {
		t.Fatal(err)
	}
	if text := says(); strings.Contains(text, "is current") {
		t.Errorf("over a broken one: %q", text)
	}
	if got, err := payload.OpenStore(out); err != nil || got.Verify() != nil {
		t.Errorf("%v", err)
	}
}

func TestVerdict(t *testing.T) {
	var text strings.Builder
	err := verdict(&text, []programs.Comparison{{Name: "a.exe", First: "1", Second: "1"}, {Name: "b.exe", First: "1", Second: "2"}})
	if !errors.Is(err, errNotTheSame) || !strings.Contains(err.Error(), "b.exe") || strings.Contains(err.Error(), "a.exe") {
		t.Errorf("error %v", err)
	}
	if !strings.Contains(text.String(), " 1 same\n") || !strings.Contains(text.String(), "DIFFERENT from 2") {
		t.Errorf("%q", text.String())
	}
	if err := verdict(&text, []programs.Comparison{{Name: "a.exe", First: "1", Second: "1"}}); err != nil {
		t.Error(err)
	}
}

func TestChosen(t *testing.T) {
	for _, tc := range []struct {
		names []string
		want  int
	}{
		{nil, 6},
		{[]string{"wmcb.exe", "host-local.exe", "win-bridge.exe"}, 2},
		{[]string{"kubelet.exe"}, 1},
	} {
		got, err := chosen(tc.names)
		if err != nil || len(got) != tc.want {
			t.Errorf("%v: %d modules, %v", tc.names, len(got), err)
		}
	}
	if _, err := run("repro", "wmcb.exe", "none.exe"); !errors.Is(err, errUnknownProgram) || !strings.Contains(err.Error(), "none.exe") {
		t.Errorf("an unknown name: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	all, err := chosen([]string{"wmcb.exe"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := all[0](ctx, t.Output()); !errors.Is(err, context.Canceled) {
		t.Errorf("an ended context: %v", err)
	}
}
