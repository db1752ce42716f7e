package command

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/agent/system/fake"
	"github.com/windowsmachine/operator/pkg/plan"
)

// Files that the tests put on the machine.
const (
	ignitionFile = `C:\in\worker.ign`
	kubeletFile  = `C:\in\kubelet.exe`
	containerdIn = `C:\in\containerd`
	cniIn        = `C:\in\cni`
	cniConfFile  = `C:\in\cni.conf`
)

const testUnit = "[Service]\nExecStart=/usr/bin/kubelet --config=/etc/kubernetes/kubelet.conf --cloud-provider= --v=4\n"

const testToken = "bootstrap-token-that-nobody-may-see"

func testKubeconfig(server string) string {
	return `apiVersion: v1
kind: Config
clusters:
- name: local
  cluster: {server: "` + server + `", certificate-authority-data: Q0E=}
contexts:
- name: kubelet
  context: {cluster: local, user: kubelet}
current-context: kubelet
users:
- name: kubelet
  user: {token: ` + testToken + `}
`
}

// workerIgnition is an ignition file of a spec version. An entry of files replaces or, when it is "-", removes the standard one.
func workerIgnition(spec string, files map[string]string) []byte {
	all := map[string]string{
		"/etc/kubernetes/kubeconfig":     testKubeconfig("https://api-int.example.test:6443"),
		"/etc/kubernetes/kubelet-ca.crt": "-----BEGIN CERTIFICATE-----\nTEST\n-----END CERTIFICATE-----\n",
		"/etc/kubernetes/kubelet.conf": "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\n" +
			"cgroupDriver: systemd\nclusterDNS: [172.30.0.10]\nclusterDomain: cluster.local\nmaxPods: 123\n",
	}
	for path, content := range files {
		all[path] = content
	}
	var list []any
	for path, content := range all {
		if content == "-" {
			continue
		}
		f := map[string]any{
			"path": path, "mode": 420,
			"contents": map[string]any{"source": "data:;base64," + base64.StdEncoding.EncodeToString([]byte(content))},
		}
		if strings.HasPrefix(spec, "2.") {
			f["filesystem"] = "root"
		}
		list = append(list, f)
	}
	b, err := json.Marshal(map[string]any{
		"ignition": map[string]any{"version": spec}, "storage": map[string]any{"files": list},
		"systemd": map[string]any{"units": []any{map[string]any{"name": "kubelet.service", "enabled": true, "contents": testUnit}}},
	})
	if err != nil {
		panic(err)
	}
	return b
}

// program of a file that begins with "MZ", its name and its version: "MZ kubelet v1.31.0".
func versioned(i fake.Image) (fake.Program, bool) {
	words := strings.Fields(string(i.Head))
	if len(words) < 3 || words[0] != "MZ" {
		return nil, false
	}
	if words[1] == "wmcb" {
		return nil, false
	}
	return func(ctx context.Context, p *fake.Process) int {
		if words[1] == "hang" {
			<-ctx.Done()
			return 1
		}
		if slices.Contains(p.Args(), "--version") {
			text := map[string]string{"kubelet": "Kubernetes %s\n", "containerd": "containerd github.com/containerd/containerd/v2 %s 75cb2b7\n"}[words[1]]
			_, _ = io.WriteString(p.Stdout(), fmt.Sprintf(text, words[2]))
			return 0
		}
		s, ok := p.Service()
		if !ok {
			return 2
		}
		if slices.Contains(words, "mute") {
			<-ctx.Done()
			return 1
		}
		s.Running()
		select {
		case <-s.Stopping():
		case <-ctx.Done():
		}
		return 0
	}, true
}

// bench is a machine with what the commands are given.
type bench struct {
	*rig
	kubelet, containerd string
}

// withBench runs f on a machine with a kubelet, a containerd to install, plugins and an ignition file.
func withBench(t *testing.T, kubelet, containerd string, o fake.Options, f func(*testing.T, *bench)) {
	t.Helper()
	o.Resolve = versioned
	if o.Features == nil {
		o.Features = map[string]fake.Feature{"Containers": {Enabled: true}}
	}
	withRig(t, o, func(t *testing.T, r *rig) {
		b := &bench{rig: r, kubelet: kubelet, containerd: containerd}
		b.put(kubeletFile, "MZ kubelet "+kubelet)
		b.put(containerdIn+`\containerd.exe`, "MZ containerd "+containerd)
		b.put(containerdIn+`\containerd-shim-runhcs-v1.exe`, "MZ shim "+containerd)
		b.put(cniIn+`\win-overlay.exe`, "MZ win-overlay 1.0")
		b.put(cniIn+`\host-local.exe`, "MZ host-local 1.0")
		b.put(cniConfFile, "\xef\xbb\xbf{\r\n\"cniVersion\":\"0.2.0\",\"name\":\"OVNKubernetesHybridOverlayNetwork\",\"type\":\"win-overlay\",\"apiVersion\":2,"+
			"\"ipam\":{\"type\":\"host-local\",\"subnet\":\"10.132.0.0/24\"}}\r\n")
		b.put(ignitionFile, string(workerIgnition("3.4.0", nil)))
		if !o.NotElevated {
			b.network("OVNKubernetesHybridOverlayNetwork", plan.NetworkOverlay)
		}
		f(t, b)
	})
}

func (b *bench) put(path, content string) {
	b.t.Helper()
	if err := b.m.WriteFile(path, []byte(content)); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) network(name, kind string) {
	b.t.Helper()
	err := b.m.System().Networks.Create(b.t.Context(), plan.Network{
		Name: name, Type: kind, ManagementIP: "192.0.2.10", Prefix: "10.132.0.0/24", Gateway: "10.132.0.1", VSID: 4097,
	})
	if err == nil {
		// The link comes back.
		err = b.m.System().Clock.Sleep(b.t.Context(), time.Minute)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) initArgs(more ...string) []string {
	return append([]string{
		"initialize-kubelet", "--ignition-file", ignitionFile, "--kubelet-path", kubeletFile, "--containerd-path", containerdIn,
	}, more...)
}

func (b *bench) cniArgs(more ...string) []string {
	return append([]string{"configure-cni", "--cni-dir", cniIn, "--cni-config", cniConfFile}, more...)
}

// ok runs a command that must succeed with that last line.
func (b *bench) ok(said string, args ...string) (stdout, stderr string) {
	b.t.Helper()
	exit, out, errs := b.run("", args...)
	if exit != ExitOK || out != said+"\n" {
		b.t.Fatalf("%q: exit %d\n%s\n%s", args, exit, out, errs)
	}
	return out, errs
}

// refused runs a command that must change nothing, and returns what it says.
func (b *bench) refused(args ...string) string {
	b.t.Helper()
	before := b.m.Dump()
	exit, out, errs := b.run("", args...)
	if exit != ExitFailed || out != "" {
		b.t.Errorf("%q: exit %d\n%s\n%s", args, exit, out, errs)
	}
	b.same(before)
	return errs
}

func (b *bench) service(name string) system.ServiceConfig {
	b.t.Helper()
	c, err := b.m.System().Services.Config(name)
	if err != nil {
		b.t.Fatal(err)
	}
	return c
}

func (b *bench) running(name string) bool {
	st, err := b.m.System().Services.Status(name)
	return err == nil && st.State == system.ServiceRunning
}

func (b *bench) read(path string) string {
	b.t.Helper()
	c, err := b.m.ReadFile(path)
	if err != nil {
		b.t.Fatal(err)
	}
	return string(c)
}

func (b *bench) exists(path string) bool {
	_, err := b.m.System().Files.Stat(path)
	return err == nil
}
