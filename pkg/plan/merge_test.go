package plan

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMerge(t *testing.T) {
	kubelet := Plan{
		APIVersion: APIVersion, Requires: []string{CapabilityBase},
		Files:    []File{{Path: `C:\k\kubelet.exe`, Access: AccessPublic, Inline: []byte("old")}, {Path: `C:\k\b`, Access: AccessPublic, Inline: []byte{}}},
		Services: []Service{{Name: "kubelet", Exe: `C:\k\kubelet.exe`, DependsOn: []string{"containerd"}}},
	}
	network := Plan{
		APIVersion: APIVersion, Requires: []string{CapabilityBase, CapabilityExisting},
		Files:    []File{{Path: `C:\K\KUBELET.exe`, Access: AccessPublic, Inline: []byte("new")}, {Path: `C:\k\c`, Access: AccessPublic, Inline: []byte{}}},
		Services: []Service{{Name: "containerd", Existing: ExistingUse}},
	}
	want := Plan{
		APIVersion: APIVersion, Requires: []string{CapabilityBase, CapabilityExisting},
		Files: []File{network.Files[0], kubelet.Files[1], network.Files[1]},
		// What is depended on comes first, although its part came second.
		Services: []Service{network.Services[0], kubelet.Services[0]},
	}
	got := Merge(kubelet, network)
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if err := got.Validate(); err != nil {
		t.Error(err)
	}
	if Merge().Digest() != Empty().Digest() {
		t.Error("nothing merged is not the empty plan")
	}
	if string(kubelet.Files[0].Inline) != "old" {
		t.Error("Merge changed its argument")
	}
}

// TestW46RootsElsewhere: an installation may be wanted elsewhere, but never where Windows itself or everybody lives.
func TestW46RootsElsewhere(t *testing.T) {
	with := func(root, file string) Plan {
		return Plan{
			APIVersion: APIVersion, Requires: []string{CapabilityBase, CapabilityRoots}, Roots: []string{root},
			Files: []File{{Path: file, Access: AccessPublic, Inline: []byte{}}},
		}
	}
	for _, tc := range []struct{ root, file, want string }{
		{`D:\k`, `D:\k\kubelet.exe`, ""},
		{`C:\Program Files\k8s node`, `C:\Program Files\k8s node\cni\x.exe`, ""},
		{`D:\k`, `D:\l\x`, "is not below"},
		{`D:\k`, `D:\k\..\Windows\x`, "holds . or .."},
		{`D:\k`, `D:\k`, "shared with others"},
		{`\\server\share`, `C:\k\x`, "must be absolute"},
		{`C:\`, `C:\k\x`, "must be absolute"},
		{`C:\Windows\Temp`, `C:\k\x`, "not a plan's"},
		{`C:\k\wmcb\x`, `C:\k\x`, "not a plan's"},
		{`C:\Program Files`, `C:\k\x`, "shared by all programs"},
		{`C:\k/x`, `C:\k\x`, "forward slash"},
	} {
		err := with(tc.root, tc.file).Validate()
		switch {
		case tc.want == "" && err != nil:
			t.Errorf("%s, %s: %v", tc.root, tc.file, err)
		case tc.want != "" && (!errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), tc.want)):
			t.Errorf("%s, %s: %v, want %q", tc.root, tc.file, err, tc.want)
		}
	}
	p := with(`D:\k`, `D:\k\x`)
	p.Requires = nil
	if err := p.Validate(); !errors.Is(err, ErrInvalid) {
		t.Errorf("roots without the capability: %v", err)
	}
}

func TestExistingService(t *testing.T) {
	for _, tc := range []struct {
		name string
		s    Service
		want string
	}{
		{"use", Service{Name: "containerd", Existing: ExistingUse}, ""},
		{"replace", Service{Name: "kubelet", Exe: `C:\k\kubelet.exe`, Existing: ExistingReplace}, ""},
		{"use and change", Service{Name: "containerd", Existing: ExistingUse, Exe: `C:\k\c.exe`}, "only name and watch"},
		{"unknown", Service{Name: "containerd", Exe: `C:\k\c.exe`, Existing: "perhaps"}, `existing "perhaps"`},
	} {
		p := Plan{APIVersion: APIVersion, Requires: []string{CapabilityExisting}, Services: []Service{tc.s}}
		err := p.Validate()
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: %v", tc.name, err)
		}
		p.Requires = nil
		if err := p.Validate(); err == nil {
			t.Errorf("%s without the capability: no error", tc.name)
		}
	}
}

func TestFileOfOthers(t *testing.T) {
	p := Plan{APIVersion: APIVersion, Requires: []string{CapabilityExisting}, Files: []File{{Path: `C:\k\x`, Access: AccessPublic, Inline: []byte{}, Once: true}}}
	if err := p.Validate(); err != nil {
		t.Error(err)
	}
	p.Requires = nil
	if err := p.Validate(); !errors.Is(err, ErrInvalid) {
		t.Errorf("once without the capability: %v", err)
	}
}
