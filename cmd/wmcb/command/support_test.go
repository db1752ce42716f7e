package command

import (
	"archive/zip"
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/windowsmachine/operator/pkg/agent/system/fake"
	"github.com/windowsmachine/operator/pkg/plan"
)

// TestSupport: after a bootstrap by hand the archive has what is needed, and nothing of the credential.
func TestSupport(t *testing.T) {
	withBench(t, "v1.31.14", "v2.1.4", fake.Options{}, func(t *testing.T, b *bench) {
		b.ok(saidInitialized, b.initArgs()...)
		b.put(`C:\var\log\kubelet\containerd.log`, "using token: "+testToken+"\nthe end\n")
		exit, out, errs := b.run("", "support")
		path := strings.TrimSuffix(out, "\n")
		if exit != ExitOK || !strings.HasPrefix(path, `C:\Windows\Temp\wmcb-support-`) || !strings.HasSuffix(path, "Z.zip") {
			t.Fatalf("exit %d, %s, %s", exit, out, errs)
		}
		if f := b.m.Dump().Files[path]; f.Access != plan.AccessSecret {
			t.Errorf("%+v", f)
		}
		content := b.read(path)
		z, err := zip.NewReader(strings.NewReader(content), int64(len(content)))
		if err != nil {
			t.Fatal(err)
		}
		var all bytes.Buffer
		for _, f := range z.File {
			r, err := f.Open()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(&all, r); err != nil {
				t.Fatal(err)
			}
		}
		for _, want := range []string{"RunDone", "clusterDomain", "io.containerd", "the end", `bootstrap-kubeconfig=C:\\k\\bootstrap-kubeconfig`} {
			if !strings.Contains(all.String(), want) {
				t.Errorf("no %q in the archive", want)
			}
		}
		if strings.Contains(all.String(), testToken) {
			t.Error("the credential is in the archive")
		}
		if exit, out, _ := b.run("", "support", "--out", "-"); exit != ExitOK || !strings.HasPrefix(out, "PK") {
			t.Errorf("exit %d, %.20q", exit, out)
		}
		if exit, out, errs := b.run("", "support", "--out", `C:\absent\x.zip`); exit != ExitFailed || out != "" || !strings.Contains(errs, `C:\absent`) {
			t.Errorf("exit %d, %s, %s", exit, out, errs)
		}
		if exit, _, errs := b.run("", "support", "--out", "x.zip"); exit != ExitFailed || !strings.Contains(errs, "absolute path") {
			t.Errorf("exit %d, %s", exit, errs)
		}
	})
}
