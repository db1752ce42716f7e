package ignition

import (
	"encoding/base64"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FuzzParse: whatever the input, Parse, File and Worker return, the limits hold and the same input gives the same result.
func FuzzParse(f *testing.F) {
	text := served("3.2.0").json(f)
	for _, seed := range [][]byte{
		nil, []byte("{}"), []byte("[]"), text, served("2.2.0").json(f), gz(f, text), []byte(base64.StdEncoding.EncodeToString(text)),
		append([]byte{0xFF, 0xFE}, utf16Bytes(text, false)...), append([]byte{0xEF, 0xBB, 0xBF}, text...),
		served("3.4.0").merge(base64URL(text), "https://example.com/x").json(f),
		served("2.4.0").merge(base64URL(gz(f, served("2.0.0").json(f)))).json(f),
		newDoc("").entry(obj{"path": PathKubeletCA, "contents": obj{"compression": "gzip", "source": "data:,CA-B%0A"}}).json(f),
		newDoc("").entry(obj{"path": PathKubeletCA, "append": []any{obj{"source": "data:,CA-B%0A"}}}).json(f),
		[]byte(`{"ignition":{"version":"2.2.0"},"storage":{"files":[{"filesystem":"root","path":"/etc/kubernetes/kubelet-ca.crt","append":true,"contents":{"source":"data:,CA-B%0A"}}]}}`),
		[]byte(`{"ignition":{"version":"3.1.0"},"storage":{"files":[{"path":"/etc/kubernetes/kubelet-ca.crt","mode":420}]}}`),
		[]byte(`{"ignition":{"version":"3.5.0"},"systemd":{"units":[{"name":"kubelet.service","mask":true,"dropins":[{"name":"x"}]}]}}`),
		[]byte(`{"ignition":{"version":"3.5.0"},"systemd":{"units":[{"name":"kubelet.service","contents":"[Service]\nEnvironment=\"A=$$\"\nExecStart=-/k \\\n --v=${A} 'x"}]}}`),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse(data)
		if err != nil {
			if c != nil {
				t.Fatal("a config beside an error")
			}
			return
		}
		again, err := Parse(data)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range c.Paths() {
			content, _, _ := c.File(path)
			if len(content) > MaxFile {
				t.Fatalf("%s: %d bytes", path, len(content))
			}
		}
		for _, required := range [][]Piece{nil, Rendered(), Served()} {
			one, err1 := c.Worker(required...)
			two, err2 := again.Worker(required...)
			if diff := cmp.Diff(one, two); diff != "" || (err1 == nil) != (err2 == nil) {
				t.Fatalf("%v, %v: %s", err1, err2, diff)
			}
		}
	})
}
