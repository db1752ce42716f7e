package bootstrapper

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pelletier/go-toml/v2"

	"github.com/windowsmachine/operator/pkg/kubelet"
	"github.com/windowsmachine/operator/pkg/plan"
	"github.com/windowsmachine/operator/pkg/planner"
)

const overlayConf = `{"cniVersion":"0.2.0","name":"vxlan0","type":"win-overlay","apiVersion":2,"ipam":{"type":"host-local"}}`

// networkInputs are those of a machine after initialize-kubelet with the given inputs.
func networkInputs(t *testing.T, first Inputs, edits ...func(*NetworkInputs)) NetworkInputs {
	t.Helper()
	p := good(t, first)
	in := NetworkInputs{
		Host: host(), Kubelet: &p, Config: []byte(overlayConf), Networks: map[string]string{"vxlan0": "Overlay"}, Runtime: first.Runtime,
		Plugins: []Program{
			{Path: `C:\in\win-overlay.exe`, SHA256: strings.Repeat("1", 64)}, {Path: `C:\in\host-local.exe`, SHA256: strings.Repeat("2", 64)},
		},
		TOMLPath: `C:\Program Files\containerd\config.toml`,
	}
	for _, e := range edits {
		e(&in)
	}
	return in
}

func goodNetwork(t *testing.T, in NetworkInputs) plan.Plan {
	t.Helper()
	p, findings := ConfigureCNI(in)
	if planner.Fatal(findings) {
		t.Fatal(said(findings))
	}
	return p.Plan
}

func badNetwork(t *testing.T, in NetworkInputs, want ...string) {
	t.Helper()
	p, findings := ConfigureCNI(in)
	if d := cmp.Diff(Part{}, p); d != "" {
		t.Errorf("something was decided in spite of %s", said(findings))
	}
	for _, w := range want {
		if !strings.Contains(said(findings), w) {
			t.Errorf("nothing about %q in\n%s", w, said(findings))
		}
	}
}

// TestNetworkWithOwnContainerd: plugins and configuration, and nothing of the kubelet or containerd changes.
func TestNetworkWithOwnContainerd(t *testing.T) {
	in := networkInputs(t, inputs())
	p := goodNetwork(t, in)
	if len(p.Services) != 0 {
		t.Errorf("%+v", p.Services)
	}
	if got, _ := file(p, `C:\k\cni\config\10-windowsmachine.conf`); got != overlayConf {
		t.Errorf("%q", got)
	}
	if err := plan.Merge(*in.Kubelet, p).Validate(); err != nil {
		t.Error(err)
	}
	list := networkInputs(t, inputs(), func(in *NetworkInputs) {
		in.Config = []byte(`{"cniVersion":"1.0.0","name":"vxlan0","plugins":[` + overlayConf + `]}`)
	})
	if _, ok := file(goodNetwork(t, list), `C:\k\cni\config\10-windowsmachine.conflist`); !ok {
		t.Error("a list must be called .conflist, or the runtime reads it as one plugin")
	}
}

// TestNetworkWithDocker: the network goes by the kubelet's flags.
func TestNetworkWithDocker(t *testing.T) {
	in := networkInputs(t, inputs(func(in *Inputs) {
		in.Kubelet.Output, in.Runtime = "Kubernetes v1.16.2", Runtime{Docker: true}
	}), func(in *NetworkInputs) {
		// With Docker the older HNS is right.
		in.Config = []byte(strings.Replace(overlayConf, `"apiVersion":2,`, "", 1))
	})
	merged := plan.Merge(*in.Kubelet, goodNetwork(t, in))
	for _, want := range []string{"--network-plugin=cni", `--cni-bin-dir=C:\k\cni`, `--cni-conf-dir=C:\k\cni\config`} {
		if !slices.Contains(args(merged), want) {
			t.Errorf("no %s in %q", want, args(merged))
		}
	}
	if got := len(args(merged)) - len(args(*in.Kubelet)); got != 3 {
		t.Errorf("%d more arguments", got)
	}
	for _, a := range args(*in.Kubelet) {
		if strings.Contains(a, "cni") {
			t.Errorf("before: %s", a)
		}
	}
}

// TestNetworkWithTheirContainerd: of their configuration only the folders change, and the service is restarted, not configured.
func TestNetworkWithTheirContainerd(t *testing.T) {
	theirs := inputs(func(in *Inputs) {
		in.Runtime = Runtime{}
		in.Runtime.Containerd, _ = containerdAt("v1.7.24")
	})
	const before = "version = 2\n# theirs\n[plugins.\"io.containerd.grpc.v1.cri\"]\nsandbox_image = 'their/pause:1'\n"
	in := networkInputs(t, theirs, func(in *NetworkInputs) { in.TOML = []byte(before) })
	p := goodNetwork(t, in)
	want := []plan.Service{{Name: "containerd", Existing: plan.ExistingUse, Watch: []string{in.TOMLPath}}}
	if d := cmp.Diff(want, p.Services); d != "" {
		t.Error(d)
	}
	after, _ := file(p, in.TOMLPath)
	if !strings.Contains(after, "their/pause:1") || !strings.Contains(after, `C:\k\cni\config`) {
		t.Error(after)
	}
	// Today's file is yesterday's outcome: the part stays the same.
	again := goodNetwork(t, networkInputs(t, theirs, func(in *NetworkInputs) { in.TOML, in.Before = []byte(after), &p }))
	if d := cmp.Diff(p, again); d != "" {
		t.Error(d)
	}
	// Somebody has set the folders himself: nothing to do.
	if by := goodNetwork(t, networkInputs(t, theirs, func(in *NetworkInputs) { in.TOML = []byte(after) })); len(by.Services) != 0 {
		t.Errorf("%+v", by.Services)
	}
	badNetwork(t, networkInputs(t, theirs, func(in *NetworkInputs) { in.TOML = []byte("=") }), "!ContainerRuntime", "config.toml")
	badNetwork(t, networkInputs(t, theirs, func(in *NetworkInputs) { in.TOMLErr = errors.New("denied") }), "denied")
	elsewhere := goodNetwork(t, networkInputs(t, theirs, func(in *NetworkInputs) { in.TOMLPath = `D:\containerd\config.toml` }))
	if !slices.Equal(elsewhere.Roots, []string{`D:\containerd`}) {
		t.Errorf("%q", elsewhere.Roots)
	}
}

func TestPointContainerd(t *testing.T) {
	const bin, conf = `C:\k\cni`, `C:\k\cni\config`
	for _, tc := range []struct{ name, in, version, plugin, key, refused string }{
		{name: "absent, 1.7", version: "v1.7.1", plugin: criV2, key: "bin_dir"},
		{name: "absent, 2.0", version: "v2.0.1", plugin: criV3, key: "bin_dir"},
		{name: "absent, 2.1", version: "v2.1.1", plugin: criV3, key: "bin_dirs"},
		{name: "version 1", in: "[plugins.cri]\nx = 1\n", version: "v1.6.1", plugin: criV1, key: "bin_dir"},
		{name: "version 2 with 2.x", in: "version = 2\n", version: "v2.1.1", plugin: criV2, key: "bin_dir"},
		{name: "both", in: "version = 3\n[plugins.'io.containerd.cri.v1.runtime'.cni]\nbin_dir = 'x'\n", version: "v2.2.0", plugin: criV3, key: "bin_dirs"},
		{name: "bom", in: "\xef\xbb\xbfversion = 2\r\n", version: "v1.7.1", plugin: criV2, key: "bin_dir"},
		{name: "version 1 with 2.x", in: "[plugins.cri]\n", version: "v2.0.0", refused: "does not go with"},
		{name: "version 3 with 1.x", in: "version = 3\n", version: "v1.7.0", refused: "does not go with"},
		{name: "no table", in: "version = 2\nplugins = 3\n", version: "v1.7.0", refused: "no table"},
	} {
		v, err := kubelet.ParseVersion(tc.version)
		if err != nil {
			t.Fatal(err)
		}
		out, err := PointContainerd([]byte(tc.in), v, bin, conf)
		if tc.refused != "" {
			if !errors.Is(err, errTOML) || !strings.Contains(err.Error(), tc.refused) {
				t.Errorf("%s: %v", tc.name, err)
			}
			continue
		}
		var m map[string]any
		if err := errors.Join(err, toml.Unmarshal(out, &m)); err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		section, err := table(m, "plugins", tc.plugin, "cni")
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]any{"conf_dir": conf, tc.key: bin}
		if tc.key == "bin_dirs" {
			want[tc.key] = []any{bin}
		}
		if d := cmp.Diff(want, section); d != "" {
			t.Errorf("%s: %s", tc.name, d)
		}
		same, err := PointContainerd(out, v, bin, conf)
		if err != nil || string(same) != string(out) {
			t.Errorf("%s: not the same the second time: %v", tc.name, err)
		}
	}
}

// TestW15OwnFileIsNormal: a byte order mark and CRLF go once.
func TestW15OwnFileIsNormal(t *testing.T) {
	in := networkInputs(t, inputs(), func(in *NetworkInputs) { in.Config = []byte("\xef\xbb\xbf" + overlayConf + "\r\n") })
	if got, _ := file(goodNetwork(t, in), `C:\k\cni\config\10-windowsmachine.conf`); got != overlayConf+"\n" {
		t.Errorf("%q", got)
	}
}

// TestW16StaleConfiguration: one that would win stops, one that would not is named.
func TestW16StaleConfiguration(t *testing.T) {
	folder := func(name, content string) func(*NetworkInputs) {
		return func(in *NetworkInputs) { in.Folder = map[string][]byte{name: []byte(content)} }
	}
	old := `{"cniVersion":"0.3.0","name":"cbr0","plugins":[{"type":"flannel"}]}`
	badNetwork(t, networkInputs(t, inputs(), folder("00-old.conflist", old)), "!StaleCNI", `C:\k\cni\config\00-old.conflist`, "delete it")
	for name, content := range map[string]string{"cni.conf": old, "00-torn.conf": "{"} {
		p, findings := ConfigureCNI(networkInputs(t, inputs(), folder(name, content)))
		if len(p.Plan.Files) == 0 || !strings.Contains(said(findings), "StaleCNI: "+`C:\k\cni\config\`+name) {
			t.Errorf("%s: %s", name, said(findings))
		}
	}
	for _, name := range []string{"10-windowsmachine.conf", "readme.txt"} {
		if _, findings := ConfigureCNI(networkInputs(t, inputs(), folder(name, old))); strings.Contains(said(findings), "StaleCNI") {
			t.Errorf("%s: %s", name, said(findings))
		}
	}
}

func TestNetworkRefusals(t *testing.T) {
	for name, tc := range map[string]struct {
		edit func(*NetworkInputs)
		want []string
	}{
		"first":      {func(in *NetworkInputs) { in.Kubelet = nil }, []string{"!Order", "initialize-kubelet"}},
		"operator":   {func(in *NetworkInputs) { in.Kubelet, in.Operator = nil, true }, []string{"!Owner"}},
		"elsewhere":  {func(in *NetworkInputs) { in.InstallDir = `D:\k` }, []string{"!InstallDir", `C:\k`}},
		"no plugins": {func(in *NetworkInputs) { in.Plugins = nil }, []string{"there is no file in it", "win-overlay.exe", "host-local.exe"}},
		"a file":     {func(in *NetworkInputs) { in.PluginsErr = errors.New("it is a file") }, []string{"it is a file"}},
		"a folder":   {func(in *NetworkInputs) { in.ConfigErr = errors.New("is a folder") }, []string{"is a folder"}},
		"no JSON":    {func(in *NetworkInputs) { in.Config = []byte("x") }, []string{"--cni-config", "JSON"}},
		"wrong case": {func(in *NetworkInputs) { in.Config = []byte(`{"CNIVersion":"0.2.0"}`) }, []string{`must be written "cniVersion"`}},
		"no network": {func(in *NetworkInputs) { in.Networks = nil }, []string{`no HNS network "vxlan0"`}},
		"odd name": {func(in *NetworkInputs) {
			in.Plugins = append(in.Plugins, Program{Path: `C:\in\con.exe`, SHA256: digest})
		}, []string{"reserved"}},
		"unreadable": {func(in *NetworkInputs) { in.Plugins[0].Err = errors.New("sharing violation") }, []string{"sharing violation"}},
	} {
		t.Run(name, func(t *testing.T) { badNetwork(t, networkInputs(t, inputs(), tc.edit), tc.want...) })
	}
}
