package bootstrapper

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windowsmachine/operator/pkg/plan"
	"github.com/windowsmachine/operator/pkg/planner"
)

func file(p plan.Plan, path string) (string, bool) {
	i := slices.IndexFunc(p.Files, func(f plan.File) bool { return f.Path == path })
	if i < 0 {
		return "", false
	}
	return string(p.Files[i].Inline), true
}

func args(p plan.Plan) []string {
	i := slices.IndexFunc(p.Services, func(s plan.Service) bool { return s.Name == kubeletService })
	if i < 0 {
		return nil
	}
	return p.Services[i].Args
}

// said joins the messages of findings; codes of fatal ones have a mark.
func said(list []planner.Finding) string {
	var out []string
	for _, f := range list {
		mark := ""
		if f.Fatal {
			mark = "!"
		}
		out = append(out, mark+string(f.Code)+": "+f.Message)
	}
	return strings.Join(out, "\n")
}

func good(t *testing.T, in Inputs) plan.Plan {
	t.Helper()
	p, findings := Initialize(in)
	if planner.Fatal(findings) {
		t.Fatal(said(findings))
	}
	return p.Plan
}

func bad(t *testing.T, in Inputs, want ...string) {
	t.Helper()
	p, findings := Initialize(in)
	if d := cmp.Diff(Part{}, p); d != "" {
		t.Errorf("something was decided in spite of %s", said(findings))
	}
	for _, w := range want {
		if !strings.Contains(said(findings), w) {
			t.Errorf("nothing about %q in\n%s", w, said(findings))
		}
	}
}

func ign(b []byte) func(*Inputs) { return func(in *Inputs) { in.Ignition = b } }

func zipped(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(text)); err != nil {
		panic(err)
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return b.String()
}

const caFile, caText = "/etc/kubernetes/kubelet-ca.crt", "-----BEGIN CERTIFICATE-----\nVEVTVA==\n-----END CERTIFICATE-----\n"

func TestW03CompressedFile(t *testing.T) {
	for name, contents := range map[string]any{
		"percent": map[string]any{"source": "data:,-----BEGIN%20CERTIFICATE-----%0AVEVTVA%3D%3D%0A-----END%20CERTIFICATE-----%0A"},
		"base64":  data(caText),
		"gzip":    map[string]any{"compression": "gzip", "source": "data:;base64," + base64.StdEncoding.EncodeToString([]byte(zipped(caText)))},
	} {
		p := good(t, inputs(ign(worker("3.2.0", map[string]any{caFile: contents}))))
		if got, _ := file(p, `C:\k\kubelet-ca.crt`); got != caText {
			t.Errorf("%s: %q", name, got)
		}
	}
	bad(t, inputs(ign(worker("3.2.0", map[string]any{caFile: map[string]any{"compression": "xz", "source": "data:,x"}}))), "!Ignition", caFile)
}

func TestW04CompressionLeftOver(t *testing.T) {
	bad(t, inputs(ign(worker("3.2.0", map[string]any{caFile: map[string]any{"compression": "gzip", "source": "data:,CA-B%0A"}}))), "!Ignition", caFile)
}

func TestW05AppendAndNoContents(t *testing.T) {
	for spec, add := range map[string]map[string]any{
		"2.2.0": {"path": caFile, "filesystem": "root", "append": true, "contents": data("CA-B\n")},
		"3.1.0": {"path": caFile, "append": []any{data("CA-B\n")}},
	} {
		var m map[string]any
		if err := json.Unmarshal(worker(spec, map[string]any{caFile: "-"}), &m); err != nil {
			t.Fatal(err)
		}
		storage, _ := m["storage"].(map[string]any)
		list, _ := storage["files"].([]any)
		storage["files"] = append(list, add)
		b, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := file(good(t, inputs(ign(b))), `C:\k\kubelet-ca.crt`); got != "CA-B\n" {
			t.Errorf("%s: %q", spec, got)
		}
	}
	two := document("3.1.0", []entry{
		{"/etc/kubernetes/kubeconfig", data(kubeconfigOf(goodCluster))},
		{caFile, data("CA-A\n")},
		{"/etc/kubernetes/cloud.conf", data("x")},
		{"/etc/some-linux-only-marker", nil},
	}, map[string]any{"name": "kubelet.service", "contents": unit})
	p := good(t, inputs(ign(two)))
	if got, _ := file(p, `C:\k\kubelet-ca.crt`); got != "CA-A\n" {
		t.Errorf("%q", got)
	}
	bad(t, inputs(ign(worker("3.1.0", map[string]any{caFile: nil}))), caFile)
}

func TestW06WholeFileCompressed(t *testing.T) {
	plain := worker("3.4.0", nil)
	want := good(t, inputs(ign(plain)))
	for name, b := range map[string][]byte{
		"gzip": []byte(zipped(string(plain))), "base64 of gzip": []byte(base64.StdEncoding.EncodeToString([]byte(zipped(string(plain))))),
	} {
		if d := cmp.Diff(want, good(t, inputs(ign(b)))); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

// TestW08WhatIsMissing: every missing piece is listed at once; kubelet.conf may be absent.
func TestW08WhatIsMissing(t *testing.T) {
	bad(t, inputs(ign(document("3.2.0", []entry{{caFile, data("CA\n")}}))), "kubeconfig", "kubelet.service")
	bad(t, inputs(ign([]byte(`{"ignition":{"version":"3.2.0"}}`))), "kubeconfig", "kubelet-ca.crt", "kubelet.service")
	bad(t, inputs(ign(nil)), "!Ignition")
	bad(t, inputs(ign([]byte("{}"))), "!Ignition")
	for _, u := range []any{
		map[string]any{"name": "kubelet.service"},
		map[string]any{"name": "kubelet.service", "contents": ""},
		map[string]any{"name": "kubelet.service", "contents": unit, "mask": true},
	} {
		bad(t, inputs(ign(document("3.2.0", []entry{{caFile, data("CA\n")}, {"/etc/kubernetes/kubeconfig", data(kubeconfigOf(goodCluster))}}, u))), "kubelet.service")
	}
	p, findings := Initialize(inputs(ign(worker("3.2.0", map[string]any{"/etc/kubernetes/kubelet.conf": "-"}))))
	conf, _ := file(p.Plan, `C:\k\kubelet.conf`)
	for _, want := range []string{`"maxPods": 250`, `"memory": "1Gi"`, `"clusterDomain": "cluster.local"`, `"enforceNodeAllocatable": []`} {
		if !strings.Contains(conf, want) {
			t.Errorf("no %s in the default configuration\n%s", want, conf)
		}
	}
	if !strings.Contains(said(findings), "ClusterDNS") {
		t.Errorf("nobody says that pods will have no DNS: %s", said(findings))
	}
	bad(t, inputs(func(in *Inputs) { in.IgnitionErr = errors.New("no such file") }), "no such file")
}

// TestKubeconfigThatLeadsNowhere: nothing of the file is quoted.
func TestKubeconfigThatLeadsNowhere(t *testing.T) {
	for text, want := range map[string]string{
		"not-for-anybody: [":               errNoKubeconfig.Error(),
		"kind: Config\n":                   errNoKubeconfig.Error(),
		kubeconfigOf(`server: "http://x"`): errServer.Error(),
		kubeconfigOf(`server: "https://x", certificate-authority: /etc/kubernetes/ca.crt`): errCAFile.Error(),
	} {
		in := inputs(ign(worker("3.2.0", map[string]any{"/etc/kubernetes/kubeconfig": data(text)})))
		bad(t, in, want)
		if _, findings := Initialize(in); strings.Contains(said(findings), "not-for-anybody") {
			t.Errorf("a secret is shown: %s", said(findings))
		}
	}
}

// TestRuntimes: which runtime is taken, and which is refused.
func TestRuntimes(t *testing.T) {
	theirs := func(version string) func(*Inputs) {
		return func(in *Inputs) { in.Runtime.Containerd, _ = containerdAt(version) }
	}
	none := func(in *Inputs) { in.Runtime.Given, in.Runtime.Shim = Program{}, Program{} }
	docker := func(in *Inputs) { in.Runtime.Docker = true }
	kube := func(v string) func(*Inputs) { return func(in *Inputs) { in.Kubelet.Output = "Kubernetes " + v } }
	for _, tc := range []struct {
		name  string
		edits []func(*Inputs)
		// depends is the service that is used, refused the reason why not.
		depends, refused string
		installs         bool
	}{
		{"given", nil, "containerd", "", true},
		{"theirs", []func(*Inputs){none, theirs("v1.7.24")}, "containerd", "", false},
		{"theirs and given", []func(*Inputs){theirs("v1.7.24")}, "containerd", "", false},
		{"docker of old", []func(*Inputs){none, docker, kube("v1.16.2")}, "docker", "", false},
		{"docker beside containerd of old", []func(*Inputs){docker, theirs("v1.7.24"), kube("v1.17.1")}, "docker", "", false},
		{"docker to the last", []func(*Inputs){none, docker, kube("v1.23.17")}, "docker", "", false},
		{"docker too late", []func(*Inputs){none, docker, kube("v1.24.0")}, "", "no longer runs containers with Docker", false},
		{"nothing", []func(*Inputs){none}, "", "no container runtime", false},
		{"1.17 with containerd", []func(*Inputs){kube("v1.17.1")}, "", "1.18 is the first", false},
		{"1.22 with containerd 2", []func(*Inputs){kube("v1.22.1")}, "", "containerd 2 needs kubelet 1.23", false},
		{"1.22 with containerd 1", []func(*Inputs){kube("v1.22.1"), none, theirs("v1.6.8")}, "containerd", "", false},
		{"1.26 with containerd 1.5", []func(*Inputs){kube("v1.26.1"), none, theirs("v1.5.8")}, "", "needs containerd 1.6", false},
		{"not a containerd", []func(*Inputs){func(in *Inputs) { in.Runtime.Given.Output = "hello" }}, "", "no version", false},
		{"no shim", []func(*Inputs){func(in *Inputs) { in.Runtime.Shim.Err = errors.New("shim is gone") }}, "", "shim is gone", false},
	} {
		in := inputs(tc.edits...)
		if tc.refused != "" {
			bad(t, in, "!", tc.refused)
			continue
		}
		p, findings := Initialize(in)
		if planner.Fatal(findings) {
			t.Errorf("%s: %s", tc.name, said(findings))
			continue
		}
		last := p.Plan.Services[len(p.Plan.Services)-1]
		if !slices.Equal(last.DependsOn, []string{tc.depends}) || (len(p.Plan.Services) == 2) != tc.installs {
			t.Errorf("%s: %+v", tc.name, p.Plan.Services)
		}
	}
}

func TestKubeletThatIsNone(t *testing.T) {
	for output, want := range map[string]string{
		"":                   "no version",
		"Kubernetes v1.15.9": "not supported",
		"#!/bin/sh":          "no version",
	} {
		bad(t, inputs(func(in *Inputs) { in.Kubelet.Output = output }), "!Kubelet", want)
	}
	bad(t, inputs(func(in *Inputs) { in.Kubelet.Err = errors.New("deadline exceeded") }), "deadline exceeded")
	_, findings := Initialize(inputs(func(in *Inputs) { in.LogRunner = Program{} }))
	if !strings.Contains(said(findings), "NoKubeletLog") || planner.Fatal(findings) {
		t.Error(said(findings))
	}
}

func TestW46PathsOfTheInstallation(t *testing.T) {
	for dir, want := range map[string]string{
		`D:\k`: "", `C:\k\`: "", `C:\Program Files\k8s node`: "", `\\server\share`: "!InstallDir", `C:\k\..\Windows\x`: "!InstallDir",
		`C:\Windows\System32\k`: "!InstallDir", `k`: "!InstallDir", `C:\` + strings.Repeat("x", 300): "!InstallDir", `C:\k\wmcb`: "!InstallDir",
	} {
		in := inputs(func(in *Inputs) { in.Flags.InstallDir = dir })
		if want != "" {
			bad(t, in, want)
			continue
		}
		for _, a := range args(good(t, in)) {
			if strings.Contains(strings.ReplaceAll(a, "npipe:////./pipe/", ""), "/") && !strings.HasPrefix(a, "--node-labels") {
				t.Errorf("%s: forward slash in %s", dir, a)
			}
		}
	}
}

func TestW62TemporaryVolume(t *testing.T) {
	bad(t, inputs(func(in *Inputs) { in.Temporary = true }), "temporary volume")
}

func TestW66FilesFromAnyEditor(t *testing.T) {
	utf16 := func(s string) []byte {
		out := []byte{0xff, 0xfe}
		for _, r := range []byte(s) {
			out = append(out, r, 0)
		}
		return out
	}
	plain := worker("3.4.0", nil)
	want := good(t, inputs(ign(plain)))
	for name, b := range map[string][]byte{"bom": append([]byte("\xef\xbb\xbf"), plain...), "utf16": utf16(string(plain)), "crlf": append(plain, "\r\n"...)} {
		if d := cmp.Diff(want, good(t, inputs(ign(b)))); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	marked := good(t, inputs(ign(worker("3.4.0", map[string]any{
		"/etc/kubernetes/kubelet.conf": data("\xef\xbb\xbf" + strings.ReplaceAll(linuxConfig, "\n", "\r\n")),
	}))))
	if d := cmp.Diff(want, marked); d != "" {
		t.Error(d)
	}
}

func TestW70LabelsByHand(t *testing.T) {
	labels := func(s string) func(*Inputs) { return func(in *Inputs) { in.Flags.Labels = s } }
	bad(t, inputs(labels("node-role.kubernetes.io/worker=,kubernetes.io/custom=x")), `"node-role.kubernetes.io/worker"`, `"kubernetes.io/custom"`, "kubectl label node")
	bad(t, inputs(labels("team=-bad")), `"team"`)
	p := good(t, inputs(labels("node.kubernetes.io/x=10.0.20348,team=a_b")))
	if !slices.Contains(args(p), "--node-labels=node.kubernetes.io/x=10.0.20348,node.openshift.io/os_id=Windows,team=a_b") {
		t.Errorf("%q", args(p))
	}
}

func TestVerbosity(t *testing.T) {
	level := func(s string) func(*Inputs) { return func(in *Inputs) { in.Flags.Verbosity = s } }
	quiet := ign(document("3.2.0", []entry{{caFile, data("CA\n")}, {"/etc/kubernetes/kubeconfig", data(kubeconfigOf(goodCluster))}},
		map[string]any{"name": "kubelet.service", "contents": "[Service]\nExecStart=/usr/bin/kubelet\n"}))
	for want, edits := range map[string][]func(*Inputs){"--v=4": nil, "--v=9": {level("9")}, "--v=3": {quiet}, "--v=0": {quiet, level("0")}} {
		if got := args(good(t, inputs(edits...))); !slices.Contains(got, want) {
			t.Errorf("%q, want %s", got, want)
		}
	}
	bad(t, inputs(level("-1")), "--kubelet-verbosity")
}

func TestPlatform(t *testing.T) {
	aws := func(in *Inputs) { in.Flags.Platform, in.Hostname = "AWS", "ip-192-0-2-10.example.internal" }
	p, findings := Initialize(inputs(aws))
	if !slices.Contains(args(p.Plan), "--hostname-override=ip-192-0-2-10.example.internal") || !strings.Contains(said(findings), "tags") {
		t.Errorf("%q, %s", args(p.Plan), said(findings))
	}
	given := good(t, inputs(aws, func(in *Inputs) { in.Flags.HostnameOverride = "win-b" }))
	if !slices.Contains(args(given), "--hostname-override=win-b") {
		t.Errorf("%q", args(given))
	}
	bad(t, inputs(aws, func(in *Inputs) { in.Hostname, in.HostnameErr = "", errors.New("timeout") }), "timeout", "--hostname-override")
	bad(t, inputs(func(in *Inputs) { in.Flags.HostnameOverride = "Win_B" }), "--hostname-override")
}

// TestReplacedKubelet: a kubelet that somebody else installed is updated in place, today and in every later run, and what it has kept stays.
func TestReplacedKubelet(t *testing.T) {
	foreign := func(in *Inputs) { in.Host.ForeignServices = []string{"kubelet", "containerd"} }
	p, findings := Initialize(inputs(foreign))
	if planner.Fatal(findings) || !strings.Contains(said(findings), "ServiceReplaced") {
		t.Fatal(said(findings))
	}
	again := good(t, inputs(func(in *Inputs) { in.Before = &p.Plan }))
	if d := cmp.Diff(p.Plan, again); d != "" {
		t.Error(d)
	}
	for _, d := range again.Directories {
		if d.Purge && strings.HasPrefix(d.Path, kubeletRoot) {
			t.Errorf("%s would be emptied", d.Path)
		}
	}
}

func TestOwnerAndDisk(t *testing.T) {
	bad(t, inputs(func(in *Inputs) { in.Operator = true }), "!Owner", "WindowsHost")
	bad(t, inputs(func(in *Inputs) { in.Host.FreeDisk, in.Kubelet.Size = 2<<30, 1<<30 }), "!DiskSpace")
}
