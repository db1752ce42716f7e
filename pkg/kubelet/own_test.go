package kubelet

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestDockerGolden: the whole command line of a kubelet 1.16 with Docker, before and after the network is configured.
func TestDockerGolden(t *testing.T) {
	docker := func(in *Input) {
		in.Version, in.Docker, in.LogFile = Version{1, 16, 2}, true, `C:\var\log\kubelet\kubelet.log`
		in.NodeName, in.NodeIP = "", ""
	}
	plain := []string{
		`--config=C:\k\kubelet.conf`,
		`--bootstrap-kubeconfig=C:\k\bootstrap-kubeconfig`,
		`--kubeconfig=C:\var\lib\kubelet\kubeconfig`,
		`--cert-dir=C:\var\lib\kubelet\pki`,
		`--root-dir=C:\var\lib\kubelet`,
		`--windows-service=true`,
		`--register-with-taints=os=Windows:NoSchedule`,
		`--image-pull-progress-deadline=30m`,
		`--resolv-conf=`,
		`--logtostderr=false`,
		`--log-file=C:\var\log\kubelet\kubelet.log`,
		`--v=2`,
	}
	if d := cmp.Diff(plain, args(t, input(docker))); d != "" {
		t.Error(d)
	}
	network := func(in *Input) { in.CNIBinDir, in.CNIConfDir = `C:\k\cni`, `C:\k\cni\config` }
	withNetwork := slices.Insert(slices.Clone(plain), 8, `--network-plugin=cni`, `--cni-bin-dir=C:\k\cni`, `--cni-conf-dir=C:\k\cni\config`)
	if d := cmp.Diff(withNetwork, args(t, input(docker, network))); d != "" {
		t.Error(d)
	}
	// With containerd the network never goes by flag.
	for _, a := range args(t, input(network, version(Version{1, 23, 0}))) {
		if strings.Contains(a, "cni") {
			t.Errorf("%s", a)
		}
	}
	if _, err := Args(input(docker, version(Version{1, 24, 0}))); !errors.Is(err, ErrUnsupported) {
		t.Errorf("dockershim in 1.24: %v", err)
	}
}

func TestLogFlagsByVersion(t *testing.T) {
	log := func(in *Input) { in.LogFile = `C:\l` }
	for minor, want := range map[int]bool{16: true, 25: true, 26: false, 37: false} {
		got := strings.Contains(strings.Join(args(t, input(log, version(Version{1, minor, 0}))), " "), "log-file")
		if got != want || WritesLog(Version{1, minor, 0}) != want {
			t.Errorf("1.%d: %v", minor, got)
		}
	}
}

func TestTaints(t *testing.T) {
	got, err := ParseTaints("a=b:NoExecute, c:PreferNoSchedule,os=Windows:NoSchedule,")
	want := []Taint{{"a", "b", "NoExecute"}, {"c", "", "PreferNoSchedule"}, {"os", "Windows", "NoSchedule"}}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Error(d, err)
	}
	in := func(in *Input) { in.Taints, in.Version = got, Version{1, 16, 0} }
	if a := args(t, input(in)); !slices.Contains(a, "--register-with-taints=os=Windows:NoSchedule,a=b:NoExecute,c:PreferNoSchedule") {
		t.Errorf("%q", a)
	}
	fields, _ := config(t, input(in, version(Version{1, 37, 0})))["registerWithTaints"].([]any)
	if len(fields) != 3 {
		t.Errorf("%v", fields)
	}
	for _, bad := range []string{"a", "a=b", "a=b:Never", "-a=b:NoExecute", "a=b c:NoExecute", "a:NoExecute,a=x:NoExecute", manyTaints(maxTaints + 1)} {
		if _, err := ParseTaints(bad); !errors.Is(err, ErrTaint) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if most, err := ParseTaints(manyTaints(maxTaints)); len(most) != maxTaints || err != nil {
		t.Errorf("%d, %v", len(most), err)
	}
	if none, err := ParseTaints(""); len(none) != 0 || err != nil {
		t.Errorf("%v, %v", none, err)
	}
}

func manyTaints(n int) string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("k%d=v:NoExecute", i))
	}
	return strings.Join(out, ",")
}

// TestOwnConfigurationIsKept: what the user wrote stays, what he did not write is the kubelet's business.
func TestOwnConfigurationIsKept(t *testing.T) {
	own := func(in *Input) {
		in.Own, in.ClusterDNS, in.ClusterDomain = true, nil, ""
	}
	m := config(t, input(own, cluster("kubeAPIQPS: 7\nclusterDNS: [172.30.0.10]\nnodeStatusUpdateFrequency: 10s\n")))
	for field, want := range map[string]any{"kubeAPIQPS": float64(7), "nodeStatusUpdateFrequency": "10s", "resolvConf": "", "cgroupsPerQOS": false} {
		if m[field] != want {
			t.Errorf("%s = %v, want %v", field, m[field], want)
		}
	}
	if list, ok := m["enforceNodeAllocatable"].([]any); !ok || len(list) != 0 {
		t.Errorf("enforceNodeAllocatable = %v, want an explicit empty list", m["enforceNodeAllocatable"])
	}
	for _, field := range []string{"maxPods", "kubeAPIBurst", "systemReserved", "serializeImagePulls", "evictionHard"} {
		if _, there := m[field]; there {
			t.Errorf("%s = %v, which nobody asked for", field, m[field])
		}
	}
	// Without it a kubelet of 1.30 would not start on Windows.
	old := config(t, input(own, version(at(30)), cluster("")))
	if _, there := old["evictionHard"]; !there {
		t.Error("no evictionHard for 1.30")
	}
}

func TestLeftOut(t *testing.T) {
	got, err := LeftOut(input(version(at(27)), cluster(`
maxPods: 9
cgroupDriver: systemd
evictionHard: {memory.available: 1Gi, pid.available: 10%}
crashLoopBackOff: {maxContainerRestartPeriod: 5m0s}
authentication: {x509: {clientCAFile: /etc/ca}, webhook: {cacheTTL: 0s}}
featureGates: {Levitation: true}
`)))
	if err != nil {
		t.Fatal(err)
	}
	var fields []string
	for _, l := range got {
		if l.Why == "" {
			t.Errorf("%s: no reason", l.Field)
		}
		fields = append(fields, l.Field)
	}
	want := []string{"cgroupDriver", "crashLoopBackOff", "evictionHard.pid.available", "featureGates"}
	if d := cmp.Diff(want, fields); d != "" {
		t.Error(d)
	}
	if _, err := LeftOut(Input{}); !errors.Is(err, ErrUnsupported) {
		t.Errorf("error %v", err)
	}
}
