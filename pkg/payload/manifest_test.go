package payload

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseManifest(t *testing.T) {
	one := Manifest{APIVersion: ManifestVersion, Blobs: []Blob{blob(nil)}}
	with := func(changes ...func(*Blob)) string {
		m := Manifest{APIVersion: ManifestVersion}
		for _, c := range changes {
			m.Blobs = append(m.Blobs, blob(c))
		}
		text, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	many := make([]func(*Blob), MaxBlobs+1)
	for i := range many {
		many[i] = func(b *Blob) { b.Name = fmt.Sprintf("a%d.exe", i) }
	}
	good := with(func(*Blob) {})
	for _, tc := range []struct {
		name, text string
		ok         bool
	}{
		{"one blob", good, true},
		{"two names of one digest", with(nil, func(b *Blob) { b.Name = "b.exe" }), true},
		{"unknown field", strings.Replace(good, `"name"`, `"mode":1,"name"`, 1), false},
		{"data behind", good + "{}", false},
		{"not JSON", "kubelet.exe", false},
		{"empty", "", false},
		{"too long", good + strings.Repeat(" ", MaxManifest), false},
		{"other version", strings.Replace(good, "/v1", "/v2", 1), false},
		{"no blob", with(), false},
		{"too many blobs", with(many...), false},
		{"same name in another case", with(nil, func(b *Blob) { b.Name = "A.EXE" }), false},
		{"one digest of two sizes", with(nil, func(b *Blob) { b.Name, b.Size = "b.exe", 2 }), false},
		{"folder in the name", with(func(b *Blob) { b.Name = `..\a.exe` }), false},
		{"stream in the name", with(func(b *Blob) { b.Name = "a.exe:b" }), false},
		{"trailing dot", with(func(b *Blob) { b.Name = "a." }), false},
		{"device name", with(func(b *Blob) { b.Name = "Nul.exe" }), false},
		{"long name", with(func(b *Blob) { b.Name = strings.Repeat("a", 129) }), false},
		{"upper-case digest", with(func(b *Blob) { b.SHA256 = strings.ToUpper(b.SHA256) }), false},
		{"short digest", with(func(b *Blob) { b.SHA256 = b.SHA256[1:] }), false},
		{"no size", with(func(b *Blob) { b.Size = 0 }), false},
		{"huge", with(func(b *Blob) { b.Size = MaxBlobSize + 1 }), false},
		{"no compressed size", with(func(b *Blob) { b.CompressedSize = 0 }), false},
		{"compressed to more", with(func(b *Blob) { b.CompressedSize = 5000 }), false},
		{"no licence", with(func(b *Blob) { b.Licence = "" }), false},
		{"no version", with(func(b *Blob) { b.Version = "" }), false},
		{"long source", with(func(b *Blob) { b.Source = strings.Repeat("a", maxText+1) }), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m, err := ParseManifest([]byte(tc.text))
			if tc.ok != (err == nil) || (err != nil && !errors.Is(err, ErrManifest)) {
				t.Fatalf("got error %v", err)
			}
			if tc.text == good {
				if d := cmp.Diff(one, m); d != "" {
					t.Error(d)
				}
			}
		})
	}
}

func FuzzParseManifest(f *testing.F) {
	text, err := Manifest{APIVersion: ManifestVersion, Blobs: []Blob{blob(nil)}}.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := ParseManifest(data)
		if err != nil {
			return
		}
		again, err := m.encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ParseManifest(again); err != nil {
			t.Fatalf("what was written is not read: %v", err)
		}
	})
}
