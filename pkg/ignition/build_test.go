package ignition

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"testing"
	"unicode/utf16"
)

// obj is a JSON object.
type obj = map[string]any

// kubeletUnit is a unit as OpenShift's templates make it.
const kubeletUnit = `[Unit]
Description=Kubernetes Kubelet

[Service]
Type=notify
EnvironmentFile=/etc/os-release
ExecStartPre=/bin/mkdir --parents /etc/kubernetes/manifests

ExecStart=/usr/local/bin/kubenswrapper \
    /usr/bin/kubelet \
      --config=/etc/kubernetes/kubelet.conf \
      --node-ip=${KUBELET_NODE_IP} \
      --cloud-provider=azure \
      --cloud-config=/etc/kubernetes/cloud.conf \
      --v=${KUBELET_LOG_LEVEL}

Restart=always

[Install]
WantedBy=multi-user.target
`

// doc is a config under construction.
type doc struct {
	version string
	files   []any
	units   []any
	config  obj
}

// newDoc is an empty config of a spec version; the newest of spec 3 when the version is "".
func newDoc(version string) *doc {
	if version == "" {
		version = "3.5.0"
	}
	return &doc{version: version, config: obj{}}
}

// served is a config with everything that a machine config server hands out.
func served(version string) *doc {
	return newDoc(version).
		file(PathKubeletConfig, "kind: KubeletConfiguration\n").
		file(PathBootstrapKubeconfig, "kind: Config\n").
		file(PathKubeletCA, "CA-A\n").
		file("/etc/kubernetes/cloud.conf", "[Global]\n").
		file("/etc/some-linux-only-file", "x").
		unit(UnitKubelet, kubeletUnit, obj{"dropins": []any{obj{"name": "20-logging.conf", "contents": "[Service]\nEnvironment=\"KUBELET_LOG_LEVEL=4\"\n"}}})
}

func (d *doc) file(path, content string) *doc {
	return d.entry(obj{"path": path, "contents": obj{"source": percent(content)}})
}

func (d *doc) entry(e obj) *doc {
	if d.version[0] == '2' && e["filesystem"] == nil {
		e["filesystem"] = "root"
	}
	d.files = append(d.files, e)
	return d
}

func (d *doc) unit(name, contents string, more obj) *doc {
	u := obj{"name": name, "contents": contents, "enabled": true}
	for k, v := range more {
		u[k] = v
	}
	d.units = append(d.units, u)
	return d
}

// merge names configs that are merged over this one: "merge" in spec 3, "append" in spec 2.
func (d *doc) merge(sources ...string) *doc {
	key := "merge"
	if d.version[0] == '2' {
		key = "append"
	}
	var list []any
	for _, s := range sources {
		list = append(list, obj{"source": s})
	}
	d.config[key] = list
	return d
}

func (d *doc) json(t testing.TB) []byte {
	t.Helper()
	out, err := json.Marshal(obj{
		"ignition": obj{"version": d.version, "config": d.config},
		"storage":  obj{"files": d.files},
		"systemd":  obj{"units": d.units},
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func percent(s string) string { return "data:," + url.PathEscape(s) }

func base64URL(b []byte) string { return "data:;base64," + base64.StdEncoding.EncodeToString(b) }

func gz(t testing.TB, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// bomb is gzip of n MiB of one byte.
func bomb(t testing.TB, mib int) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	block := bytes.Repeat([]byte{' '}, 1<<20)
	for range mib {
		if _, err := w.Write(block); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// utf16Bytes encodes text in UTF-16 without a mark.
func utf16Bytes(text []byte, bigEndian bool) []byte {
	var out []byte
	for _, u := range utf16.Encode([]rune(string(text))) {
		if bigEndian {
			out = append(out, byte(u>>8), byte(u))
		} else {
			out = append(out, byte(u), byte(u>>8))
		}
	}
	return out
}

func parse(t testing.TB, data []byte) *Config {
	t.Helper()
	c, err := Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func content(t testing.TB, c *Config, path string) string {
	t.Helper()
	data, ok, err := c.File(path)
	if err != nil || !ok {
		t.Fatalf("file %s: found %v, error %v", path, ok, err)
	}
	return string(data)
}
