package planner

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/windowsmachine/operator/pkg/facts"
	"github.com/windowsmachine/operator/pkg/plan"
	"github.com/windowsmachine/operator/test/golden"
)

func TestMain(m *testing.M) {
	flag.Bool("update", false, "write the expected files in test/cases")
	os.Exit(m.Run())
}

const casesDir = "../../test/cases"

// clusterCase is cluster.yaml.
type clusterCase struct {
	APIServer       string   `json:"apiServer"`
	APIServerCA     string   `json:"apiServerCA"`
	KubeletClientCA string   `json:"kubeletClientCA"`
	DNS             []string `json:"dns"`
	Domain          string   `json:"domain"`
	PodCIDRs        []string `json:"podCIDRs"`
	ServiceCIDRs    []string `json:"serviceCIDRs"`
	KubeletConfig   string   `json:"kubeletConfig"`
	CloudProvider   string   `json:"cloudProvider"`
	CloudConfig     *struct {
		Name string `json:"name"`
		Data string `json:"data"`
	} `json:"cloudConfig"`
	Verbosity *int   `json:"verbosity"`
	Platform  string `json:"platform"`
	Mode      string `json:"mode"`
	Plane     struct {
		Kind    string `json:"kind"`
		Backend string `json:"backend"`
		VNI     int    `json:"vni"`
		Port    int    `json:"port"`
		Name    string `json:"name"`
	} `json:"plane"`
	// Why and Sources are in facts.yaml, which pkg/facts/discover writes, and change no plan.
	Why     string            `json:"why"`
	Sources map[string]string `json:"sources"`
}

func (c clusterCase) facts() facts.Cluster {
	out := facts.Cluster{
		APIServer: c.APIServer, APIServerCA: []byte(c.APIServerCA), KubeletClientCA: []byte(c.KubeletClientCA),
		ClusterDNS: c.DNS, ClusterDomain: c.Domain, PodCIDRs: c.PodCIDRs, ServiceCIDRs: c.ServiceCIDRs,
		KubeletConfig: []byte(c.KubeletConfig), CloudProvider: c.CloudProvider, Verbosity: c.Verbosity, Platform: c.Platform,
		Mode: c.Mode, Plane: facts.Plane{Kind: c.Plane.Kind, Backend: c.Plane.Backend, VNI: c.Plane.VNI, Port: c.Plane.Port, Name: c.Plane.Name},
	}
	if c.CloudConfig != nil {
		out.CloudConfig = &facts.ConfigFile{Name: c.CloudConfig.Name, Data: []byte(c.CloudConfig.Data)}
	}
	return out
}

// nodeCase is node.yaml.
type nodeCase struct {
	Registered bool     `json:"registered"`
	PodCIDR    string   `json:"podCIDR"`
	PodCIDRs   []string `json:"podCIDRs"`
	Peers      []struct {
		Name            string   `json:"name"`
		OS              string   `json:"os"`
		InternalIP      string   `json:"internalIP"`
		PodCIDRs        []string `json:"podCIDRs"`
		ProviderAddress string   `json:"providerAddress"`
		VTEPMAC         string   `json:"vtepMAC"`
		VNI             int      `json:"vni"`
	} `json:"peers"`
}

func (n nodeCase) facts() facts.Node {
	out := facts.Node{Registered: n.Registered, PodCIDR: n.PodCIDR, PodCIDRs: n.PodCIDRs}
	for _, p := range n.Peers {
		out.Peers = append(out.Peers, facts.Peer(p))
	}
	return out
}

// optionsCase is options.yaml.
type optionsCase struct {
	NodeName          string `json:"nodeName"`
	NodeIP            string `json:"nodeIP"`
	KubeletVersion    string `json:"kubeletVersion"`
	ContainerdVersion string `json:"containerdVersion"`
	// Without names payload files that are missing.
	Without []string `json:"without"`
	Network struct {
		Mode      string `json:"mode"`
		Name      string `json:"name"`
		VSID      int    `json:"vsid"`
		CNIConfig string `json:"cniConfig"`
	} `json:"network"`
	KubeProxy struct {
		Mode      string `json:"mode"`
		Verbosity *int32 `json:"verbosity"`
		EnableDSR *bool  `json:"enableDSR"`
	} `json:"kubeProxy"`
	Labels     map[string]string `json:"labels"`
	MaxPods    *int32            `json:"maxPods"`
	Verbosity  *int32            `json:"verbosity"`
	PauseImage string            `json:"pauseImage"`
}

func (o optionsCase) options() Options {
	out := Options{
		NodeName: o.NodeName, NodeIP: o.NodeIP, Labels: o.Labels, MaxPods: o.MaxPods, Verbosity: o.Verbosity,
		PauseImage: o.PauseImage, Payload: testPayload(o.KubeletVersion, o.ContainerdVersion),
		Network: Network{
			Mode: o.Network.Mode, Name: o.Network.Name, VSID: o.Network.VSID, CNIConfig: []byte(o.Network.CNIConfig),
		},
	}
	out.KubeProxy = KubeProxy{Mode: o.KubeProxy.Mode, Verbosity: o.KubeProxy.Verbosity, EnableDSR: o.KubeProxy.EnableDSR}
	for _, name := range o.Without {
		delete(out.Payload, name)
	}
	return out
}

// testPayload has every file; its digests are those of the names.
func testPayload(kubelet, containerd string) map[string]Blob {
	out := map[string]Blob{}
	for name := range places() {
		sum := sha256.Sum256([]byte(name))
		out[name] = Blob{SHA256: hex.EncodeToString(sum[:]), Size: 10 << 20, Version: "v1.0.0"}
	}
	for name, version := range map[string]string{BlobKubelet: kubelet, BlobLogRunner: kubelet, BlobKubeProxy: kubelet, BlobContainerd: containerd} {
		b := out[name]
		b.Version = version
		out[name] = b
	}
	return out
}

func readYAML(t *testing.T, dir, file string, into any) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		t.Fatal(err)
	}
	// A certificate in facts.yaml is a mark.
	b = bytes.ReplaceAll(b, []byte("'@CA@'"), []byte(`"-----BEGIN CERTIFICATE-----\nMAMCAQE=\n-----END CERTIFICATE-----\n"`))
	if err := yaml.UnmarshalStrict(b, into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

func caseDirs(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(casesDir, "*", "options.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 8 {
		t.Fatalf("only %d cases found in %s", len(files), casesDir)
	}
	for i, f := range files {
		files[i] = filepath.Dir(f)
	}
	return files
}

// build runs a case.
func build(t *testing.T, dir string) (plan.Plan, error) {
	t.Helper()
	var c clusterCase
	var h plan.HostFacts
	var n nodeCase
	var o optionsCase
	readYAML(t, dir, clusterFile(dir), &c)
	readYAML(t, dir, "host.yaml", &h)
	readYAML(t, dir, "node.yaml", &n)
	readYAML(t, dir, "options.yaml", &o)
	options := o.options()
	if options.Network.Mode == "" {
		options.Network.Mode = c.Mode
	}
	return Build(c.facts(), h, n.facts(), options)
}

// clusterFile is the file that says what is known of the cluster: cluster.yaml, or where the case begins with the objects of a cluster
// facts.yaml, which pkg/facts/discover makes of them.
func clusterFile(dir string) string {
	if _, err := os.Stat(filepath.Join(dir, "objects.yaml")); err == nil {
		return "facts.yaml"
	}
	return "cluster.yaml"
}

// readable is the plan as JSON with the text of inline files as a list of lines.
func readable(t *testing.T, p plan.Plan) string {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(p.Encode(), &m); err != nil {
		t.Fatal(err)
	}
	for i, f := range p.Files {
		if f.Inline == nil {
			continue
		}
		file := m["files"].([]any)[i].(map[string]any)
		delete(file, "inline")
		file["text"] = strings.Split(string(f.Inline), "\n")
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(m); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestCases builds every folder of test/cases and compares the plan with plan.json, or the error with error.txt.
func TestCases(t *testing.T) {
	for _, dir := range caseDirs(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			p, err := build(t, dir)
			if err != nil {
				golden.Equal(t, filepath.Join(dir, "error.txt"), []byte(err.Error()+"\n"))
				return
			}
			golden.Equal(t, filepath.Join(dir, "plan.json"), []byte(readable(t, p)))
		})
	}
}

// Every plan of the cases keeps the promises that hold for all plans.
func TestCasesKeepThePromises(t *testing.T) {
	for _, dir := range caseDirs(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			p, err := build(t, dir)
			if err != nil {
				return
			}
			if err := p.Validate(); err != nil {
				t.Error(err)
			}
			// W46: Windows paths have backslashes only.
			for _, s := range p.Services {
				for _, a := range s.Args {
					if strings.Contains(a, `:\`) && strings.Contains(a, "/") {
						t.Errorf("service %s: argument %q mixes separators", s.Name, a)
					}
				}
				if s.Recovery == nil {
					t.Errorf("service %s has no recovery", s.Name)
				}
				if slices.Contains(s.Watch, bootstrapFile) {
					t.Errorf("service %s restarts when the bootstrap kubeconfig changes", s.Name)
				}
			}
			// W66: files are UTF-8 without a mark, with LF.
			for _, f := range p.Files {
				if f.Path != cniConf && f.Path != cniConflist && strings.ContainsAny(string(f.Inline), "\r\ufeff") {
					t.Errorf("%s holds CR or a byte order mark", f.Path)
				}
			}
			parsed, err := plan.Parse(p.Encode())
			if err != nil || parsed.Digest() != p.Digest() {
				t.Errorf("plan does not survive its encoding: %v", err)
			}
		})
	}
}
