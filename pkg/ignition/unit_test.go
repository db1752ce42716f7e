package ignition

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func mustJSON(t testing.TB, v any) []byte {
	t.Helper()
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestSplit(t *testing.T) {
	for in, want := range map[string][]string{
		"":                           nil,
		" a  b\tc ":                  {"a", "b", "c"},
		`"a b" c`:                    {"a b", "c"},
		`'a "b"' c`:                  {`a "b"`, "c"},
		`--x="a b"c`:                 {"--x=a bc"},
		`""`:                         {""},
		`a\ b`:                       {`a\ b`},
		`a\sb`:                       {"a b"},
		`"a\"b"`:                     {`a"b`},
		`a\\b`:                       {`a\b`},
		`a\`:                         {`a\`},
		`--node-labels=a=b,c=${ID}`:  {"--node-labels=a=b,c=${ID}"},
		`--register-with-taints=x:y`: {"--register-with-taints=x:y"},
	} {
		got, err := split(in)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%q: %v %s", in, err, diff)
		}
	}
	if _, err := split(`a "b`); err == nil {
		t.Error("an open quote must be refused")
	}
}

func TestFlags(t *testing.T) {
	num := func(n int) *int { return &n }
	for _, tt := range []struct {
		name, unit string
		want       kubeletFlags
	}{
		{"continued lines", kubeletUnit, kubeletFlags{provider: "azure", configPath: "/etc/kubernetes/cloud.conf"}},
		{"one line, two spellings", "[Service]\nExecStart=/usr/bin/kubelet --cloud-provider aws -v 3", kubeletFlags{provider: "aws", verbosity: num(3)}},
		{"quoted", `[Service]` + "\n" + `ExecStart="/usr/bin/kubelet" "--cloud-provider=external" '--v=5'`, kubeletFlags{provider: "external", verbosity: num(5)}},
		{"last one wins", "[Service]\nExecStart=/k --v=1 --v=2 --cloud-provider=aws --cloud-provider=", kubeletFlags{verbosity: num(2)}},
		{"prefix characters", "[Service]\nExecStart=-@/k kubelet --v=2", kubeletFlags{verbosity: num(2)}},
		{"comment between continued lines", "[Service]\nExecStart=/k \\\n# --v=9 \\\n; --v=8\n  --v=2", kubeletFlags{verbosity: num(2)}},
		{"blank line ends it", "[Service]\nExecStart=/k \\\n\n--v=2", kubeletFlags{}},
		{"other sections and keys do not count", "[Unit]\nExecStart=/k --v=1\n[Service]\nExecStop=/k --v=3\nExecStart=/k\n[X-Service]\nExecStart=/k --v=4", kubeletFlags{}},
		{"assigned anew", "[Service]\nExecStart=/k --v=1 --cloud-provider=aws\nExecStart=\nExecStart=/k --v=2", kubeletFlags{verbosity: num(2)}},
		{"variables", "[Service]\nEnvironment=\"LEVEL=4\" P=gce\nEnvironment=LEVEL=6\nExecStart=/k --v=${LEVEL} --cloud-provider=${P}", kubeletFlags{provider: "gce", verbosity: num(6)}},
		{"forgotten variables", "[Service]\nEnvironment=LEVEL=4\nEnvironment=\nExecStart=/k --v=${LEVEL}", kubeletFlags{}},
		{"words in a variable", "[Service]\nEnvironment=\"ARGS=--v=4 --cloud-provider=aws\"\nExecStart=/k $ARGS $UNSET", kubeletFlags{provider: "aws", verbosity: num(4)}},
		{"level from a file outside", "[Service]\nEnvironmentFile=/etc/x\nExecStart=/k --v=${LEVEL}", kubeletFlags{}},
		{"similar flags", "[Service]\nExecStart=/k --vmodule=x=9 --cloud-provider-x=y --v8", kubeletFlags{}},
		{"flag without value", "[Service]\nExecStart=/k --cloud-provider --v", kubeletFlags{}},
		{"no newline at the end, continued", "[Service]\nExecStart=/k \\\n --v=2 \\", kubeletFlags{verbosity: num(2)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, err := parseService(unit{contents: tt.unit})
			if err != nil {
				t.Fatal(err)
			}
			got, err := s.flags()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(kubeletFlags{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestDropins(t *testing.T) {
	u := unit{contents: "[Service]\nExecStart=/k --v=${L}\nEnvironment=L=1\n", dropins: map[string]string{
		"90-last.conf": "[Service]\nEnvironment=L=9\n", "10-first.conf": "[Service]\nEnvironment=L=2\n",
	}}
	s, err := parseService(u)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := s.flags(); err != nil || *got.verbosity != 9 {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestBrokenUnits(t *testing.T) {
	exec := func(flag string) string { return "[Service]\nExecStart=/usr/bin/kubelet " + flag + "\n" }
	for name, unitText := range map[string]string{
		"open quote":                 exec(`"--v=2`),
		"provider from outside":      exec("--cloud-provider=${X}"),
		"provider that is no name":   exec(`"--cloud-provider=aws --x"`),
		"provider with shell":        exec("--cloud-provider=a;b"),
		"cloud config from outside":  exec("--cloud-config=${X}"),
		"relative cloud config":      exec("--cloud-config=cloud.conf"),
		"level that is no number":    exec("--v=abc"),
		"negative level":             exec("--v=-1"),
		"endless level":              exec("--v=99999999999999999999"),
		"cloud config is the root":   exec("--cloud-config=/"),
		"cloud config ends in dot":   exec("--cloud-config=/etc/.."),
		"cloud config is a device":   exec("--cloud-config=/etc/CON"),
		"cloud config is NUL.conf":   exec("--cloud-config=/etc/nul.conf"),
		"cloud config has a stream":  exec("--cloud-config=/etc/a:b"),
		"cloud config has backslash": exec(`--cloud-config=/etc/..\\..\\x`),
		"cloud config is long":       exec("--cloud-config=/" + strings.Repeat("x", 200)),
	} {
		t.Run(name, func(t *testing.T) {
			d := served("3.2.0")
			d.units = []any{obj{"name": UnitKubelet, "contents": unitText}}
			w, err := parse(t, d.json(t)).Worker(Served()...)
			if !errors.Is(err, ErrUnit) || !strings.Contains(err.Error(), UnitKubelet) {
				t.Errorf("got %+v, %v", w, err)
			}
		})
	}
	t.Run("endless unit", func(t *testing.T) {
		d := served("3.2.0")
		d.units = []any{obj{"name": UnitKubelet, "contents": exec("--v=2") + strings.Repeat("#", maxUnit)}}
		if _, err := parse(t, d.json(t)).Worker(); !errors.Is(err, ErrTooLarge) {
			t.Errorf("got %v", err)
		}
	})
}

func TestWindowsName(t *testing.T) {
	for path, want := range map[string]string{
		"/etc/kubernetes/cloud.conf": "cloud.conf", "/x/azure.json": "azure.json", "/x/my-cloud_1.yaml": "my-cloud_1.yaml",
		"/console.conf": "console.conf", "/com10": "com10", "/.conf": "", "/com1": "", "/LPT9.x": "", "/a b": "", "/x/": "", "/a.": "",
	} {
		got, err := windowsName(path)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s: got %q, %v", path, got, err)
		}
	}
}

func ExampleConfig_Worker() {
	config, err := Parse([]byte(`{"ignition":{"version":"3.2.0"},"systemd":{"units":[{"name":"kubelet.service",
		"contents":"[Service]\nExecStart=/usr/bin/kubelet --cloud-provider=external --v=2\n"}]}}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	worker, err := config.Worker(KubeletUnit)
	fmt.Println(worker.CloudProvider, *worker.Verbosity, err)
	_, err = config.Worker(Rendered()...)
	fmt.Println(err)
	// Output:
	// external 2 <nil>
	// reading the worker's ignition: the ignition lacks: file /etc/kubernetes/kubelet.conf (no entry)
}
