package ignition

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windowsmachine/operator/pkg/facts"
)

const pemText = "-----BEGIN CERTIFICATE-----\nVEVTVA==\n-----END CERTIFICATE-----\n"

func TestW03GzipInsideDataURL(t *testing.T) {
	asReported := `{"ignition":{"version":"3.2.0"},"storage":{"files":[{"path":"/etc/kubernetes/kubelet-ca.crt","mode":420,"contents":{
		"compression":"gzip",
		"source":"data:;base64,H4sIAAAAAAAC/9PVBQInV3dPPwVn16AQTzdPZ8cQV5CgLleYa1hImKOtLReY6+rngqkEANhHXwA/AAAA"}}]}}`
	inGzip := func(version string) []byte {
		return newDoc(version).entry(obj{"path": PathKubeletCA, "contents": obj{
			"compression": "gzip", "source": base64URL(gz(t, []byte(pemText))),
		}}).json(t)
	}
	for name, input := range map[string][]byte{
		"as reported":            []byte(asReported),
		"spec 3.0":               inGzip("3.0.0"),
		"spec 2.0":               inGzip("2.0.0"),
		"base64 only":            newDoc("").entry(obj{"path": PathKubeletCA, "contents": obj{"source": base64URL([]byte(pemText))}}).json(t),
		"percent only":           newDoc("").file(PathKubeletCA, pemText).json(t),
		"with a media type":      newDoc("").entry(obj{"path": PathKubeletCA, "contents": obj{"source": "data:text/plain;charset=utf-8;base64," + base64.StdEncoding.EncodeToString([]byte(pemText))}}).json(t),
		"empty compression word": newDoc("").entry(obj{"path": PathKubeletCA, "contents": obj{"compression": "", "source": percent(pemText)}}).json(t),
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(pemText, content(t, parse(t, input), PathKubeletCA)); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("unknown compression", func(t *testing.T) {
		c := parse(t, newDoc("").entry(obj{"path": PathKubeletCA, "contents": obj{"compression": "xz", "source": percent(pemText)}}).json(t))
		_, err := c.Worker()
		if !errors.Is(err, ErrContents) || !strings.Contains(err.Error(), PathKubeletCA) || !strings.Contains(err.Error(), `"xz"`) {
			t.Errorf("got %v", err)
		}
	})
}

func TestW04CompressionLeftOver(t *testing.T) {
	parent := newDoc("3.4.0").entry(obj{"path": PathKubeletCA, "contents": obj{"compression": "gzip", "source": base64URL(gz(t, []byte("CA-A\n")))}})
	child := newDoc("3.4.0").entry(obj{"path": PathKubeletCA, "overwrite": true, "contents": obj{"source": "data:,CA-B%0A"}})

	t.Run("merged here", func(t *testing.T) {
		c := parse(t, parent.merge(base64URL(child.json(t))).json(t))
		if got := content(t, c, PathKubeletCA); got != "CA-B\n" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("spec 2 writes anew", func(t *testing.T) {
		c := parse(t, newDoc("2.2.0").
			entry(obj{"path": PathKubeletCA, "contents": obj{"compression": "gzip", "source": base64URL(gz(t, []byte("CA-A\n")))}}).
			entry(obj{"path": PathKubeletCA, "contents": obj{"source": "data:,CA-B%0A"}}).json(t))
		if got := content(t, c, PathKubeletCA); got != "CA-B\n" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("rendered wrong", func(t *testing.T) {
		c := parse(t, served("3.4.0").merge(base64URL(newDoc("3.4.0").
			entry(obj{"path": PathKubeletCA, "overwrite": true, "contents": obj{"compression": "gzip", "source": "data:,CA-B%0A"}}).json(t))).json(t))
		data, ok, err := c.File(PathKubeletCA)
		want := "file /etc/kubernetes/kubelet-ca.crt: broken contents: declared gzip, is not gzip"
		if data != nil || !ok || err == nil || err.Error() != want {
			t.Errorf("got %q, %v, %v", data, ok, err)
		}
		w, err := c.Worker()
		if !errors.Is(err, ErrContents) {
			t.Errorf("got %v", err)
		}
		if diff := cmp.Diff(Worker{}, w); diff != "" {
			t.Errorf("a broken file must not leave a partial result: %s", diff)
		}
	})
	t.Run("cut off gzip", func(t *testing.T) {
		whole := gz(t, bytes.Repeat([]byte("CA-A\n"), 100))
		c := parse(t, newDoc("").entry(obj{"path": PathKubeletCA, "contents": obj{"compression": "gzip", "source": base64URL(whole[:len(whole)-4])}}).json(t))
		if data, _, err := c.File(PathKubeletCA); !errors.Is(err, ErrContents) || data != nil {
			t.Errorf("got %q, %v", data, err)
		}
	})
}

func TestW05AppendAndNoContents(t *testing.T) {
	const spec2, spec3 = "2.2.0", "3.1.0"
	for _, tt := range []struct {
		name, input, want string
	}{
		{"a: spec 2 append", `{"ignition":{"version":"2.2.0"},"storage":{"files":[{"filesystem":"root","path":"/etc/kubernetes/kubelet-ca.crt","append":true,"contents":{"source":"data:,CA-B%0A"}}]}}`, "CA-B\n"},
		{"b: spec 3 append", `{"ignition":{"version":"3.1.0"},"storage":{"files":[{"path":"/etc/kubernetes/kubelet-ca.crt","append":[{"source":"data:,CA-B%0A"}]}]}}`, "CA-B\n"},
		{"c: no contents", `{"ignition":{"version":"3.1.0"},"storage":{"files":[{"path":"/etc/kubernetes/kubelet-ca.crt","mode":420}]}}`, ""},
		{"spec 2 in order", string(newDoc(spec2).file(PathKubeletCA, "A").
			entry(obj{"path": PathKubeletCA, "append": true, "contents": obj{"source": "data:,B"}}).
			entry(obj{"path": PathKubeletCA, "append": true, "contents": obj{"source": "data:,C"}}).json(t)), "ABC"},
		{"spec 2 written anew", string(newDoc(spec2).file(PathKubeletCA, "A").
			entry(obj{"path": PathKubeletCA, "append": true, "contents": obj{"source": "data:,B"}}).
			file(PathKubeletCA, "C").json(t)), "C"},
		{"spec 3 in order, one of them gzip", string(newDoc(spec3).entry(obj{
			"path": PathKubeletCA, "contents": obj{"source": "data:,A"},
			"append": []any{obj{"compression": "gzip", "source": base64URL(gz(t, []byte("B")))}, obj{}, obj{"source": "data:,C"}},
		}).json(t)), "ABC"},
		{"spec 3 appends across configs", string(newDoc(spec3).
			entry(obj{"path": PathKubeletCA, "contents": obj{"source": "data:,A"}, "append": []any{obj{"source": "data:,B"}}}).
			merge(base64URL(newDoc(spec3).entry(obj{"path": PathKubeletCA, "append": []any{obj{"source": "data:,C"}}}).json(t))).json(t)), "ABC"},
		{"an entry without contents keeps those of the parent", string(newDoc(spec3).file(PathKubeletCA, "A").
			merge(base64URL(newDoc(spec3).entry(obj{"path": PathKubeletCA, "mode": 384}).json(t))).json(t)), "A"},
		{"an empty source takes them away", string(newDoc(spec3).file(PathKubeletCA, "A").
			merge(base64URL(newDoc(spec3).entry(obj{"path": PathKubeletCA, "contents": obj{"source": ""}}).json(t))).json(t)), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := content(t, parse(t, []byte(tt.input)), PathKubeletCA); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	t.Run("c is missing where it is required", func(t *testing.T) {
		c := parse(t, newDoc(spec3).entry(obj{"path": PathKubeletCA, "mode": 420}).json(t))
		var missing *MissingError
		if _, err := c.Worker(KubeletCA); !errors.As(err, &missing) {
			t.Fatalf("got %v", err)
		}
		if diff := cmp.Diff([]string{"file /etc/kubernetes/kubelet-ca.crt (no contents)"}, missing.Missing); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("d: an entry for Linux only is never fatal", func(t *testing.T) {
		c := parse(t, served("3.1.0").
			entry(obj{"path": "/etc/some-linux-only-marker", "mode": 420}).
			entry(obj{"path": "/etc/remote", "contents": obj{"source": "https://example.com/x"}}).
			entry(obj{"path": "/etc/broken", "mode": 99999, "contents": obj{"compression": "xz", "source": "data:;base64,%%"}}).
			entry(obj{"path": "/etc/twice", "mode": 1}).entry(obj{"path": "/etc/twice", "mode": 2, "contents": obj{"source": "data:,x"}}).
			entry(obj{"path": "not/absolute"}).
			unit("linux.service", "[[[ not a unit", nil).json(t))
		if _, err := c.Worker(Served()...); err != nil {
			t.Error(err)
		}
	})
}

func TestW08MissingPieces(t *testing.T) {
	noUnit := "unit kubelet.service (no entry)"
	all := []string{
		"file /etc/kubernetes/kubelet.conf (no entry)", "file /etc/kubernetes/kubeconfig (no entry)",
		"file /etc/kubernetes/kubelet-ca.crt (no entry)", noUnit,
	}
	unit := func(u obj) []byte {
		d := served("3.2.0")
		u["name"] = UnitKubelet
		d.units = []any{u}
		return d.json(t)
	}
	for _, tt := range []struct {
		name     string
		input    []byte
		required []Piece
		want     []string
	}{
		{
			"a", []byte(`{"ignition":{"version":"3.2.0"},"storage":{"files":[{"path":"/etc/kubernetes/kubelet-ca.crt","contents":{"source":"data:,CA-A%0A"}}]}}`), Served(),
			[]string{all[0], all[1], noUnit},
		},
		{
			"a, rendered", []byte(`{"ignition":{"version":"3.2.0"},"storage":{"files":[{"path":"/etc/kubernetes/kubelet-ca.crt","contents":{"source":"data:,CA-A%0A"}}]}}`), Rendered(),
			[]string{all[0], noUnit},
		},
		{"b", newDoc("").unit(UnitKubelet, "[Service]\nExecStart=/usr/bin/kubelet --v=2\n", nil).json(t), Served(), all[:3]},
		{"c: contents missing", unit(obj{"enabled": true}), Served(), []string{"unit kubelet.service (no contents)"}},
		{"c: contents empty", unit(obj{"contents": ""}), Served(), []string{"unit kubelet.service (no contents)"}},
		{"c: only comments", unit(obj{"contents": "# nothing\n[Service]\n;ExecStart=/x\n"}), Served(), []string{"unit kubelet.service (no ExecStart)"}},
		{"d: nothing but a version", []byte(`{"ignition":{"version":"3.2.0"}}`), Served(), all},
		{"e", unit(obj{"mask": true, "contents": kubeletUnit}), Served(), []string{"unit kubelet.service (masked)"}},
		{"e, spec 2", newDoc("2.3.0").unit(UnitKubelet, kubeletUnit, obj{"mask": true}).json(t), []Piece{KubeletUnit}, []string{"unit kubelet.service (masked)"}},
		{
			"cloud config that the unit names", newDoc("").unit(UnitKubelet, kubeletUnit, nil).json(t),
			[]Piece{KubeletUnit},
			[]string{"file /etc/kubernetes/cloud.conf (no entry)"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w, err := parse(t, tt.input).Worker(tt.required...)
			var missing *MissingError
			if !errors.As(err, &missing) {
				t.Fatalf("got %v", err)
			}
			if diff := cmp.Diff(tt.want, missing.Missing); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(Worker{}, w); diff != "" {
				t.Errorf("an incomplete ignition must not leave a partial result: %s", diff)
			}
			if !strings.Contains(err.Error(), strings.Join(tt.want, ", ")) {
				t.Errorf("%q does not list everything", err)
			}
		})
	}
	for name, want := range map[string]error{"": ErrEmpty, " \r\n": ErrEmpty, "{}": ErrVersion, `{"ignition":{}}`: ErrVersion} {
		t.Run(fmt.Sprintf("d: %q", name), func(t *testing.T) {
			if _, err := Parse([]byte(name)); !errors.Is(err, want) {
				t.Errorf("got %v", err)
			}
		})
	}
	t.Run("broken and missing together", func(t *testing.T) {
		c := parse(t, newDoc("").entry(obj{"path": PathKubeletCA, "contents": obj{"source": "https://user:secret@example.com:22623/ca?token=secret"}}).json(t))
		_, err := c.Worker(Served()...)
		var missing *MissingError
		if !errors.Is(err, ErrRemote) || !errors.As(err, &missing) || len(missing.Missing) != 3 {
			t.Fatalf("got %v", err)
		}
		if !strings.Contains(err.Error(), "https://example.com:22623") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q must name the host and nothing secret", err)
		}
	})
	t.Run("nothing required, nothing there", func(t *testing.T) {
		w, err := parse(t, newDoc("").json(t)).Worker()
		if diff := cmp.Diff(Worker{}, w); diff != "" || err != nil {
			t.Errorf("%v %s", err, diff)
		}
	})
}

func TestW66ByteOrderMarks(t *testing.T) {
	text := served("3.2.0").json(t)
	crlf := bytes.ReplaceAll(text, []byte(`,"`), []byte(",\r\n\""))
	bom := []byte{0xEF, 0xBB, 0xBF}
	want, err := parse(t, text).Worker(Served()...)
	if err != nil {
		t.Fatal(err)
	}
	for name, input := range map[string][]byte{
		"UTF-8":                   text,
		"UTF-8 with mark":         append(bom, text...),
		"UTF-16LE with mark":      append([]byte{0xFF, 0xFE}, utf16Bytes(text, false)...),
		"UTF-16BE with mark":      append([]byte{0xFE, 0xFF}, utf16Bytes(text, true)...),
		"UTF-16LE without":        utf16Bytes(text, false),
		"UTF-16BE without":        utf16Bytes(text, true),
		"CRLF":                    crlf,
		"UTF-16LE, CRLF":          append([]byte{0xFF, 0xFE}, utf16Bytes(crlf, false)...),
		"UTF-16LE of base64":      append([]byte{0xFF, 0xFE}, utf16Bytes([]byte(base64.StdEncoding.EncodeToString(gz(t, text))+"\r\n"), false)...),
		"mark before base64":      append(bom, base64.StdEncoding.EncodeToString(gz(t, text))...),
		"gzip of UTF-16":          gz(t, append([]byte{0xFF, 0xFE}, utf16Bytes(text, false)...)),
		"unit and files the same": marked(t),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parse(t, input).Worker(Served()...)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("half a character", func(t *testing.T) {
		_, err := Parse(append([]byte{0xFF, 0xFE}, utf16Bytes(text, false)[1:]...))
		if !errors.Is(err, ErrNotIgnition) || !strings.Contains(err.Error(), "UTF-16") {
			t.Errorf("got %v", err)
		}
	})
}

// marked is the served config with marks, UTF-16 and CRLF inside of it.
func marked(t *testing.T) []byte {
	d := newDoc("3.2.0").
		file(PathKubeletConfig, "\ufeffkind: KubeletConfiguration\n").
		entry(obj{"path": PathBootstrapKubeconfig, "contents": obj{"source": base64URL(append([]byte{0xFF, 0xFE}, utf16Bytes([]byte("kind: Config\n"), false)...))}}).
		file(PathKubeletCA, "\ufeffCA-A\n").
		file("/etc/kubernetes/cloud.conf", "\ufeff[Global]\n")
	crlf := strings.ReplaceAll("\ufeff"+kubeletUnit, "\n", "\r\n")
	return d.unit(UnitKubelet, crlf, obj{"dropins": []any{obj{"name": "20-logging.conf", "contents": "[Service]\r\nEnvironment=KUBELET_LOG_LEVEL=4\r\n"}}}).json(t)
}

func TestWorker(t *testing.T) {
	four := 4
	want := Worker{
		KubeletConfig:       []byte("kind: KubeletConfiguration\n"),
		BootstrapKubeconfig: []byte("kind: Config\n"),
		KubeletCA:           []byte("CA-A\n"),
		CloudProvider:       "azure",
		CloudConfig:         &facts.ConfigFile{Name: "cloud.conf", Data: []byte("[Global]\n")},
		Verbosity:           &four,
	}
	for _, version := range versions() {
		t.Run(version, func(t *testing.T) {
			c := parse(t, served(version).json(t))
			got, err := c.Worker(Served()...)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			if c.Version() != version {
				t.Errorf("version %q", c.Version())
			}
		})
	}
}
