package disk_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/windowsmachine/operator/pkg/agent/disk"
	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/agent/system/fake"
	"github.com/windowsmachine/operator/pkg/plan"
)

func machine(t *testing.T) (*fake.Machine, system.Files) {
	t.Helper()
	m := fake.New(fake.Options{})
	t.Cleanup(m.Close)
	return m, m.System().Files
}

func TestW46Paths(t *testing.T) {
	for _, tc := range []struct {
		path, parent string
		ancestors    []string
	}{
		{`C:\k\cni\config\cni.conf`, `C:\k\cni\config`, []string{`C:\k`, `C:\k\cni`, `C:\k\cni\config`}},
		{`C:\k`, `C:`, nil},
		{`C:\k\`, `C:`, nil},
		{`C:\`, ``, nil},
		{`C:`, ``, nil},
	} {
		if got := disk.Parent(tc.path); got != tc.parent {
			t.Errorf("Parent(%q) = %q, want %q", tc.path, got, tc.parent)
		}
		if got := disk.Ancestors(tc.path); !slices.Equal(got, tc.ancestors) {
			t.Errorf("Ancestors(%q) = %q, want %q", tc.path, got, tc.ancestors)
		}
	}
	if got := disk.Join(`C:\`, "k", "x"); got != `C:\k\x` {
		t.Errorf("Join = %q", got)
	}
	if !disk.Same(`C:\K\Kubelet.exe`, `c:\k\kubelet.exe`) || disk.Same(`C:\k`, `C:\k2`) {
		t.Error("Same is wrong")
	}
	if !disk.Below(`C:\k`, `c:\K\x\y`) || disk.Below(`C:\k`, `C:\k`) || disk.Below(`C:\k`, `C:\k2\x`) {
		t.Error("Below is wrong")
	}
}

func TestReadLimit(t *testing.T) {
	m, files := machine(t)
	if err := m.WriteFile(`C:\x`, []byte("12345")); err != nil {
		t.Fatal(err)
	}
	if b, err := disk.Read(files, `C:\x`, 5); err != nil || string(b) != "12345" {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := disk.Read(files, `C:\x`, 4); !errors.Is(err, disk.ErrTooLarge) {
		t.Errorf("error %v", err)
	}
}

func TestWrite(t *testing.T) {
	_, files := machine(t)
	sum := disk.Sum([]byte("hello"))
	if err := disk.Write(t.Context(), files, `C:\x`, plan.AccessPublic, strings.NewReader("hello"), sum); err != nil {
		t.Fatal(err)
	}
	if got, err := disk.Digest(t.Context(), files, `C:\x`); err != nil || got != sum {
		t.Errorf("digest %s, %v", got, err)
	}
	for name, tc := range map[string]struct {
		r    *bytes.Reader
		want error
	}{
		"wrong digest": {bytes.NewReader([]byte("hellO")), disk.ErrDigest},
	} {
		if err := disk.Write(t.Context(), files, `C:\y`, plan.AccessPublic, tc.r, sum); !errors.Is(err, tc.want) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	cut := errors.New("cut")
	if err := disk.Write(t.Context(), files, `C:\y`, plan.AccessPublic, iotest.ErrReader(cut), ""); !errors.Is(err, cut) {
		t.Errorf("error %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := disk.Write(ctx, files, `C:\y`, plan.AccessPublic, strings.NewReader("x"), ""); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if there, err := disk.Exists(files, `C:\y`); err != nil || there {
		t.Errorf("a failed write left a file: %v, %v", there, err)
	}
}

func TestRemoveAll(t *testing.T) {
	m, files := machine(t)
	for _, p := range []string{`C:\a\b\c`, `C:\a\d`, `C:\keep`} {
		if err := m.WriteFile(p, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := disk.RemoveAll(t.Context(), files, `C:\a`); err != nil {
			t.Fatal(err)
		}
	}
	if there, _ := disk.Exists(files, `C:\a`); there {
		t.Error("still there")
	}
	if there, _ := disk.Exists(files, `C:\keep`); !there {
		t.Error("too much is gone")
	}
}

// linked is a file system with a link to a folder: it refuses to list what is behind the link, and removing takes the link alone.
type linked struct {
	system.Files
	link    string
	removed bool
}

func (l *linked) ReadDir(path string) ([]system.Info, error) {
	if path == l.link {
		return nil, system.ErrDenied
	}
	return l.Files.ReadDir(path)
}

func (l *linked) Remove(path string) error {
	if path == l.link {
		l.removed = true
		return nil
	}
	return l.Files.Remove(path)
}

func TestClearDoesNotFollowLinks(t *testing.T) {
	m, files := machine(t)
	if err := m.WriteFile(`C:\a\link\target`, []byte("somebody else's")); err != nil {
		t.Fatal(err)
	}
	l := &linked{Files: files, link: `C:\a\link`}
	if err := disk.Clear(t.Context(), l, `C:\a`); err != nil {
		t.Fatal(err)
	}
	if b, err := m.ReadFile(`C:\a\link\target`); err != nil || len(b) == 0 || !l.removed {
		t.Errorf("target %q, %v, link removed %v", b, err, l.removed)
	}
}
