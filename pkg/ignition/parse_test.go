package ignition

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseRefuses(t *testing.T) {
	secret := "s3cr3t"
	for _, tt := range []struct {
		name, input string
		want        error
		says        string
	}{
		{"too new", `{"ignition":{"version":"3.6.0"}}`, ErrVersion, `"3.6.0"`},
		{"experimental", `{"ignition":{"version":"3.6.0-experimental"}}`, ErrVersion, "3.6.0-experimental"},
		{"old experimental", `{"ignition":{"version":"2.5.0-experimental"}}`, ErrVersion, "2.5.0"},
		{"spec 4", `{"ignition":{"version":"4.0.0"}}`, ErrVersion, "4.0.0"},
		{"spec 1", `{"ignitionVersion":1}`, ErrVersion, "version 1"},
		{"no patch number", `{"ignition":{"version":"3.2"}}`, ErrVersion, "3.2"},
		{"endless version", `{"ignition":{"version":"` + strings.Repeat("9", 10_000) + `"}}`, ErrVersion, "999"},
		{"version as number", `{"ignition":{"version":3}}`, ErrNotIgnition, "ignition.version"},
		{"ConfigMap around it", `{"apiVersion":"v1","kind":"ConfigMap","data":{"config":"H4sIA..."}}`, ErrNotIgnition, "ConfigMap"},
		{"cloud-config", "#cloud-config\nusers: []\n", ErrNotIgnition, "cloud-config"},
		{"script", "#!/bin/sh\n", ErrNotIgnition, "script"},
		{"butane", "variant: fcos\nversion: 1.5.0\n", ErrNotIgnition, "neither"},
		{"list", "[]", ErrNotIgnition, "neither"},
		{"cut off", `{"ignition":{"version":"3.2.0"},"storage":{"files":[{"path":"/x` + secret, ErrNotIgnition, "byte"},
		{"two documents", `{"ignition":{"version":"3.2.0"}}{"ignition":{"version":"3.2.0"}}`, ErrNotIgnition, "byte"},
		{"wrong type", `{"ignition":{"version":"3.2.0"},"storage":{"files":"` + secret + `"}}`, ErrNotIgnition, "storage.files"},
		{"gzip that is none", "\x1f\x8b" + secret, ErrContents, "gzip"},
		{"base64 of noise", "AAAA", ErrNotIgnition, ""},
		{"layers without end", layers(t), ErrNotIgnition, "layers"},
		{"pointer of a machine config server", `{"ignition":{"version":"3.2.0","config":{"merge":[{"source":"https://api-int.example.com:22623/config/worker?t=` + secret + `"}]}}}`, ErrRemote, "https://api-int.example.com:22623"},
		{"pointer, spec 2", `{"ignition":{"version":"2.2.0","config":{"append":[{"source":"https://api-int.example.com:22623/config/worker"}]}}}`, ErrRemote, "merged config 1"},
		{"replaced from afar", `{"ignition":{"version":"3.2.0","config":{"replace":{"source":"s3://bucket/` + secret + `"}}}}`, ErrRemote, "s3://bucket"},
		{"broken merged config", `{"ignition":{"version":"3.2.0","config":{"merge":[{"source":"data:,nothing%20here"}]}}}`, ErrNotIgnition, "merged config 1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := Parse([]byte(tt.input))
			if !errors.Is(err, tt.want) || c != nil {
				t.Fatalf("got %v, want %v", err, tt.want)
			}
			if !strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), secret) || len(err.Error()) > 500 {
				t.Errorf("message %q", err)
			}
		})
	}
}

// layers is a config in more gzips than are taken off.
func layers(t *testing.T) string {
	out := newDoc("").json(t)
	for range maxLayers {
		out = gz(t, out)
	}
	return string(out)
}

func TestMergeOrder(t *testing.T) {
	one := func(version, content string) *doc { return newDoc(version).file("/x", content) }
	for _, tt := range []struct {
		name  string
		input *doc
		want  string
	}{
		{"the named config wins", one("3.5.0", "parent").merge(base64URL(one("3.5.0", "child").json(t))), "child"},
		{"the last one wins", one("3.5.0", "parent").merge(base64URL(one("3.5.0", "first").json(t)), base64URL(one("3.5.0", "last").json(t))), "last"},
		{"older versions below", one("3.5.0", "parent").merge(base64URL(one("3.0.0", "child").json(t))), "child"},
		{"a grandchild wins over its parent", one("3.5.0", "p").merge(base64URL(one("3.5.0", "c").merge(base64URL(one("3.5.0", "g").json(t))).json(t))), "g"},
		{"spec 2 appended config wins", one("2.4.0", "parent").merge(base64URL(one("2.1.0", "child").json(t))), "child"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := content(t, parse(t, tt.input.json(t)), "/x"); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	t.Run("replaced whole", func(t *testing.T) {
		for _, version := range []string{"2.4.0", "3.5.0"} {
			d := newDoc(version).file("/gone", "x")
			d.config["replace"] = obj{"source": base64URL(newDoc(version).file("/new", "y").json(t))}
			if diff := cmp.Diff([]string{"/new"}, parse(t, d.json(t)).Paths()); diff != "" {
				t.Error(diff)
			}
		}
	})
	t.Run("units merge by name", func(t *testing.T) {
		child := newDoc("")
		child.units = []any{obj{"name": UnitKubelet, "dropins": []any{obj{"name": "50-x.conf", "contents": "[Service]\nExecStart=\nExecStart=/usr/bin/kubelet --cloud-provider=external --v=7\n"}}}}
		w, err := parse(t, served("").merge(base64URL(child.json(t))).json(t)).Worker(Served()...)
		if err != nil {
			t.Fatal(err)
		}
		if w.CloudProvider != "external" || *w.Verbosity != 7 || w.CloudConfig != nil {
			t.Errorf("got %+v", w)
		}
	})
}

func TestDuplicates(t *testing.T) {
	equal := newDoc("").file(PathKubeletCA, "A").file(PathKubeletCA, "A").json(t)
	if got := content(t, parse(t, equal), PathKubeletCA); got != "A" {
		t.Errorf("got %q", got)
	}
	differ := parse(t, newDoc("").file(PathKubeletCA, "A").file(PathKubeletCA, "B").file(PathKubeletConfig, "C").json(t))
	if _, _, err := differ.File(PathKubeletCA); !errors.Is(err, ErrContents) || !strings.Contains(err.Error(), PathKubeletCA) {
		t.Errorf("got %v", err)
	}
	if got := content(t, differ, PathKubeletConfig); got != "C" {
		t.Errorf("got %q", got)
	}
	units := parse(t, newDoc("").unit(UnitKubelet, kubeletUnit, nil).unit(UnitKubelet, "[Service]\nExecStart=/x\n", nil).json(t))
	if _, err := units.Worker(KubeletUnit); !errors.Is(err, ErrUnit) {
		t.Errorf("got %v", err)
	}
}

func TestSpec2Filesystems(t *testing.T) {
	d := newDoc("2.4.0").
		entry(obj{"filesystem": "data", "path": "/ca.crt", "contents": obj{"source": "data:,mounted"}}).
		entry(obj{"filesystem": "kube", "path": "/kubelet-ca.crt", "contents": obj{"source": "data:,A"}}).
		entry(obj{"filesystem": "unknown", "path": PathKubeletConfig, "contents": obj{"source": "data:,lost"}})
	whole := obj{
		"ignition": obj{"version": "2.4.0"},
		"storage": obj{
			"files": d.files,
			"filesystems": []any{
				obj{"name": "data", "mount": obj{"device": "/dev/sdb", "format": "ext4"}},
				obj{"name": "kube", "path": "/etc/kubernetes"},
			},
		},
	}
	c := parse(t, mustJSON(t, whole))
	if diff := cmp.Diff([]string{PathKubeletCA}, c.Paths()); diff != "" {
		t.Error(diff)
	}
	if got := content(t, c, PathKubeletCA); got != "A" {
		t.Errorf("got %q", got)
	}
}

func TestDataURLs(t *testing.T) {
	sha256A := "sha256-559aead08264d5795d3909718cdd05abd49572e84fe55590eef31a88a08fdffd"
	for _, tt := range []struct {
		contents obj
		want     string
		err      error
	}{
		{obj{"source": "data:,a%2Cb"}, "a,b", nil},
		{obj{"source": "data:,a+b"}, "a+b", nil},
		{obj{"source": "DATA:text/plain;BASE64,QQ=="}, "A", nil},
		{obj{"source": "data:;base64,QQ"}, "A", nil},
		{obj{"source": "data:;base64,QQ%3D%3D"}, "A", nil},
		{obj{"source": "data:;base64,QQ=\n="}, "A", nil},
		{obj{"source": "data:,"}, "", nil},
		{obj{"source": ""}, "", nil},
		{obj{"source": nil}, "", nil},
		{obj{"source": "", "compression": "gzip"}, "", nil},
		{obj{"source": "data:,A", "verification": obj{"hash": sha256A}}, "A", nil},
		{obj{"source": "data:,A", "verification": obj{"hash": strings.ToUpper(sha256A[7:])}}, "", ErrContents},
		{obj{"source": "data:,B", "verification": obj{"hash": sha256A}}, "", ErrContents},
		{obj{"source": "data:,B", "verification": obj{"hash": "sha512-00"}}, "", ErrContents},
		{obj{"source": "data:,B", "verification": obj{"hash": "md5-00"}}, "", ErrContents},
		{obj{"source": base64URL(gz(t, []byte("A"))), "compression": "gzip", "verification": obj{"hash": sha256A}}, "A", nil},
		{obj{"source": "data:;base64,Q"}, "", ErrContents},
		{obj{"source": "data:;base64,@@@@"}, "", ErrContents},
		{obj{"source": "data:,%zz"}, "", ErrContents},
		{obj{"source": "data:text/plain"}, "", ErrContents},
		{obj{"source": "data:,", "compression": "gzip"}, "", ErrContents},
		{obj{"source": "data:,x", "compression": "GZIP"}, "", ErrContents},
		{obj{"source": "http://example.com/x"}, "", ErrRemote},
		{obj{"source": "tftp://example.com/x"}, "", ErrRemote},
		{obj{"source": "oem:///x"}, "", ErrRemote},
		{obj{"source": "/etc/passwd"}, "", ErrRemote},
		{obj{"source": "%zz"}, "", ErrRemote},
	} {
		t.Run(fmt.Sprint(tt.contents), func(t *testing.T) {
			data, ok, err := parse(t, newDoc("").entry(obj{"path": "/x", "contents": tt.contents}).json(t)).File("/x")
			if !ok || !errors.Is(err, tt.err) || string(data) != tt.want {
				t.Errorf("got %q, %v, %v", data, ok, err)
			}
		})
	}
	if _, ok, err := parse(t, newDoc("").json(t)).File("/x"); ok || err != nil {
		t.Errorf("a file that is not there: %v, %v", ok, err)
	}
}
