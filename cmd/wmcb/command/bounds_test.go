package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/windowsmachine/operator/pkg/agent/disk"
	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/agent/system/fake"
)

// TestGatherIsBounded: a file that cannot be what a flag says is refused by its size, before it is read.
func TestGatherIsBounded(t *testing.T) {
	if err := isProgram("a.exe", system.Info{Size: maxProgram}); err != nil {
		t.Error(err)
	}
	if err := isProgram("a.exe", system.Info{Size: maxProgram + 1}); !errors.Is(err, disk.ErrTooLarge) {
		t.Errorf("too large a program: %v", err)
	}
	withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
		p := &program{env: Env{System: r.m.System()}}
		put := func(path, content string) {
			if err := r.m.WriteFile(path, []byte(content)); err != nil {
				t.Fatal(err)
			}
		}
		put(`C:\in\cni.conf`, strings.Repeat("x", maxConfig))
		if _, err := p.read(`C:\in\cni.conf`, maxConfig); err != nil {
			t.Error(err)
		}
		put(`C:\in\cni.conf`, strings.Repeat("x", maxConfig+1))
		if _, err := p.read(`C:\in\cni.conf`, maxConfig); !errors.Is(err, disk.ErrTooLarge) {
			t.Errorf("too large a configuration: %v", err)
		}
		for i := range maxPlugins + 1 {
			if list, err := p.plugins(t.Context(), `C:\in\cni`); i > 0 && (err != nil || len(list) != i) {
				t.Errorf("%d plugins: %d, %v", i, len(list), err)
			}
			put(fmt.Sprintf(`C:\in\cni\%d.exe`, i), "MZ")
		}
		if _, err := p.plugins(t.Context(), `C:\in\cni`); !errors.Is(err, disk.ErrTooLarge) {
			t.Errorf("too many plugins: %v", err)
		}
	})
}

// TestMetadataIsBounded: of a metadata service that talks without end only the beginning is read.
func TestMetadataIsBounded(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for {
			if _, err := io.WriteString(w, strings.Repeat("x", 1<<10)); err != nil {
				return
			}
		}
	}))
	defer s.Close()
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, s.Listener.Addr().String())
	}}}
	got, err := fetch(t.Context(), client, http.MethodGet, "meta-data/local-hostname", "X-Aws-Ec2-Metadata-Token", "t")
	if err != nil || len(got) != maxMetadata {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}
