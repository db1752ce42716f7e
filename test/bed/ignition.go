package bed

import (
	"bytes"
	"compress/gzip"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	ign "github.com/coreos/ignition/v2/config/v3_5/types"
	"k8s.io/utils/ptr"
)

// rendered are the pieces of a worker that a Windows node takes something from. They have the shape that the machine config operator
// gives them and values that no default has, so that it shows where a value came from.
//
//go:embed openshift
var rendered embed.FS

// Paths in a worker's ignition.
const (
	IgnitionKubeletConfig = "/etc/kubernetes/kubelet.conf"
	IgnitionKubeletCA     = "/etc/kubernetes/kubelet-ca.crt"
	IgnitionKubeconfig    = "/etc/kubernetes/kubeconfig"
	IgnitionCloudConfig   = "/etc/kubernetes/cloud.conf"
	kubeletUnit           = "kubelet.service"
)

// linuxFiles are files of a worker that mean nothing on Windows; linuxFiller is how many more there are, and how large each is.
const (
	linuxFiller     = 60
	linuxFillerSize = 2 << 10
)

func linuxFiles() []string {
	return []string{
		"/etc/containers/registries.conf", "/etc/containers/storage.conf", "/etc/crio/crio.conf.d/00-default",
		"/etc/kubernetes/kubelet-plugins/volume/exec/.dummy", "/etc/kubernetes/static-pod-resources/configmaps/cloud-config/ca-bundle.pem",
		"/etc/NetworkManager/conf.d/sdn.conf", "/etc/modules-load.d/iptables.conf", "/etc/node-sizing-enabled.env",
		"/etc/nmstate/openshift/applied", "/etc/sysctl.d/inotify.conf", "/etc/systemd/system.conf.d/10-default-env-godebug.conf",
		"/etc/tmpfiles.d/cleanup-cni.conf", "/usr/local/bin/configure-ovs.sh", "/usr/local/sbin/dynamic-system-reserved-calc.sh",
		"/var/lib/kubelet/config.json",
	}
}

// Ignition is a worker's ignition under construction. Its Version may be set to any of 3.0.0 to 3.5.0: nothing newer than 3.0 is used
// unless an edit puts it there.
type Ignition struct{ ign.Config }

// WorkerIgnition is the ignition in a rendered MachineConfig of OpenShift's worker pool: without bootstrap kubeconfig and kubelet CA,
// which the machine config server adds only while it serves it.
func WorkerIgnition() *Ignition {
	i := &Ignition{}
	i.Ignition.Version = "3.5.0"
	for _, path := range linuxFiles() {
		i.Put(path, []byte("# "+path+" of a Linux worker: 100 % Linux\n"))
	}
	for n := range linuxFiller {
		i.Put(fmt.Sprintf("/etc/linux-only.d/%02d.conf", n), bytes.Repeat([]byte("key = value\n"), linuxFillerSize/12))
	}
	i.Put(IgnitionKubeletConfig, piece("kubelet.conf"))
	i.Put(IgnitionCloudConfig, piece("cloud.conf"))
	i.Systemd.Units = []ign.Unit{
		{Name: "crio.service", Enabled: ptr.To(true), Dropins: []ign.Dropin{{Name: "10-mco-default-env.conf", Contents: ptr.To("")}}},
		{
			Name: kubeletUnit, Enabled: ptr.To(true), Contents: ptr.To(string(piece(kubeletUnit))),
			Dropins: []ign.Dropin{
				{Name: "10-mco-default-env.conf"},
				{Name: "20-logging.conf", Contents: ptr.To("[Service]\nEnvironment=\"KUBELET_LOG_LEVEL=4\"\n")},
			},
		},
		{Name: "rpcbind.socket", Enabled: ptr.To(false), Mask: ptr.To(true)},
	}
	return i
}

// piece is a file of the folder openshift, which is part of this program.
func piece(name string) []byte {
	b, err := rendered.ReadFile("openshift/" + name)
	if err != nil {
		panic(err)
	}
	return b
}

// Serve adds what the machine config server adds while it serves the ignition as worker.ign.
func (i *Ignition) Serve(kubeletCA []byte) *Ignition {
	i.Put(IgnitionKubeletCA, kubeletCA)
	i.Put(IgnitionKubeconfig, []byte("apiVersion: v1\nkind: Config\nusers:\n- name: kubelet\n  user: {token: not-used-on-windows}\n"))
	return i
}

// File is the file of that path, nil when there is none.
func (i *Ignition) File(path string) *ign.File {
	for n := range i.Storage.Files {
		if i.Storage.Files[n].Path == path {
			return &i.Storage.Files[n]
		}
	}
	return nil
}

// Put gives a file contents. They are percent-encoded, as the machine config operator's templates are, or base64 where they have
// several lines, as what it generates.
func (i *Ignition) Put(path string, contents []byte) *ign.File {
	f := i.File(path)
	if f == nil {
		i.Storage.Files = append(i.Storage.Files, ign.File{Node: ign.Node{Path: path, Overwrite: ptr.To(true)}})
		f = i.File(path)
		f.Mode = ptr.To(0o644)
	}
	f.Contents = ign.Resource{Source: ptr.To(dataURL(contents))}
	return f
}

func dataURL(contents []byte) string {
	if bytes.Count(contents, []byte("\n")) > 1 {
		return "data:text/plain;charset=utf-8;base64," + base64.StdEncoding.EncodeToString(contents)
	}
	return "data:," + url.PathEscape(string(contents))
}

// PutGzip gives a file contents that are compressed.
func (i *Ignition) PutGzip(path string, contents []byte) {
	f := i.Put(path, nil)
	f.Contents.Source = ptr.To("data:;base64," + base64.StdEncoding.EncodeToString(Gzip(contents)))
	f.Contents.Compression = ptr.To("gzip")
}

// Drop removes a file.
func (i *Ignition) Drop(path string) {
	for n := range i.Storage.Files {
		if i.Storage.Files[n].Path == path {
			i.Storage.Files = append(i.Storage.Files[:n], i.Storage.Files[n+1:]...)
			return
		}
	}
}

// Kubelet is the kubelet's unit.
func (i *Ignition) Kubelet() *ign.Unit {
	for n := range i.Systemd.Units {
		if i.Systemd.Units[n].Name == kubeletUnit {
			return &i.Systemd.Units[n]
		}
	}
	return nil
}

// KubeletConf is the kubelet.conf of a worker, with texts replaced: old, new, old, new. Each old one must be there.
func KubeletConf(oldnew ...string) []byte {
	text := string(piece("kubelet.conf"))
	for n := 0; n < len(oldnew); n += 2 {
		if !strings.Contains(text, oldnew[n]) {
			panic("kubelet.conf does not hold " + oldnew[n])
		}
	}
	return []byte(strings.NewReplacer(oldnew...).Replace(text))
}

// JSON is the document.
func (i *Ignition) JSON() []byte {
	b, err := json.Marshal(i.Config)
	if err != nil {
		panic(err) // It holds text and numbers only.
	}
	return b
}

// Gzip compresses.
func Gzip(b []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(b); err != nil {
		panic(err) // A buffer takes everything.
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return out.Bytes()
}
