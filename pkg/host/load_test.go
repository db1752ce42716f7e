package host

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestLoadAgent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "wmcb.exe")
	if _, err := LoadAgent(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file gave %v", err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadAgent(path); err == nil {
		t.Error("an empty file was taken")
	}
	if err := os.WriteFile(path, []byte(agentText), 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := LoadAgent(path)
	if err != nil || a.Digest != digestOf(agentText) || a.Size != int64(len(agentText)) {
		t.Fatalf("got %+v, %v", a, err)
	}
	for range 2 {
		r, err := a.Open()
		if err != nil {
			t.Fatal(err)
		}
		if data, err := io.ReadAll(r); string(data) != agentText || err != nil {
			t.Errorf("got %q, %v", data, err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}
