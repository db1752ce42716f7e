package discover

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/windowsmachine/operator/pkg/facts"
)

func TestMain(m *testing.M) {
	flag.Bool("update", false, "write the expected files in test/cases")
	flag.Parse()
	os.Exit(m.Run())
}

const (
	casesDir = "../../../test/cases"
	// caMark stands for a CA certificate in the files of a case.
	caMark = "@CA@"
)

// factsCase is facts.yaml: what is known of a cluster, in the words of the planner's cluster.yaml, and where it was found.
type factsCase struct {
	APIServer       string            `json:"apiServer,omitempty"`
	APIServerCA     string            `json:"apiServerCA,omitempty"`
	KubeletClientCA string            `json:"kubeletClientCA,omitempty"`
	DNS             []string          `json:"dns,omitempty"`
	Domain          string            `json:"domain,omitempty"`
	PodCIDRs        []string          `json:"podCIDRs,omitempty"`
	ServiceCIDRs    []string          `json:"serviceCIDRs,omitempty"`
	Mode            string            `json:"mode"`
	Why             string            `json:"why"`
	Plane           *planeCase        `json:"plane,omitempty"`
	Sources         map[string]string `json:"sources"`
}

type planeCase struct {
	Kind    string `json:"kind"`
	Backend string `json:"backend,omitempty"`
	VNI     int    `json:"vni,omitempty"`
	Port    int    `json:"port,omitempty"`
	Name    string `json:"name,omitempty"`
}

func asCase(c facts.Cluster, ca string) factsCase {
	out := factsCase{
		APIServer: c.APIServer, APIServerCA: strings.ReplaceAll(string(c.APIServerCA), ca, caMark), KubeletClientCA: strings.ReplaceAll(string(c.KubeletClientCA), ca, caMark),
		DNS: c.ClusterDNS, Domain: c.ClusterDomain, PodCIDRs: c.PodCIDRs, ServiceCIDRs: c.ServiceCIDRs, Mode: c.Mode, Why: c.Why, Sources: c.Sources,
	}
	if c.Plane != (facts.Plane{}) {
		out.Plane = &planeCase{Kind: c.Plane.Kind, Backend: c.Plane.Backend, VNI: c.Plane.VNI, Port: c.Plane.Port, Name: c.Plane.Name}
	}
	return out
}

// TestCases: a folder with objects.yaml is a cluster; facts.yaml and problems.txt are what must come of it.
func TestCases(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(casesDir, "*", "objects.yaml"))
	if err != nil || len(files) < 10 {
		t.Fatalf("%d clusters in %s, %v", len(files), casesDir, err)
	}
	for _, file := range files {
		dir := filepath.Dir(file)
		t.Run(filepath.Base(dir), func(t *testing.T) { runCase(t, dir) })
	}
}

func runCase(t *testing.T, dir string) {
	ca := authority(t, "kubernetes")
	w := &world{t: t, fail: map[string]error{}, in: Input{Namespace: namespace, OwnAPIServer: "https://kubernetes.default.svc", OwnCA: []byte(ca)}}
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for doc := range strings.SplitSeq(read(t, dir, "objects.yaml"), "\n---\n") {
		w.add(object(t, scheme, strings.ReplaceAll(doc, caMark, strings.Trim(strconv.Quote(ca), `"`))))
	}
	if err := yaml.UnmarshalStrict([]byte(read(t, dir, "profile.yaml")), &w.in.Profile); err != nil {
		t.Fatalf("profile.yaml: %v", err)
	}
	cluster, problems := w.discover()
	got, err := yaml.Marshal(asCase(cluster, ca))
	if err != nil {
		t.Fatal(err)
	}
	compare(t, dir, "facts.yaml", string(got))
	var said strings.Builder
	for _, p := range problems {
		weight := "warning"
		if p.Fatal {
			weight = "fatal"
		}
		fmt.Fprintf(&said, "%s %s: %s\n", weight, p.Reason, p.Message)
	}
	compare(t, dir, "problems.txt", said.String())
	if !strings.Contains(read(t, dir, "README.md"), "Objects: ") {
		t.Error("README.md does not say where the objects come from, after the word Objects:")
	}
}

// object is a document of objects.yaml, typed where discovery reads it so.
func object(t *testing.T, scheme *runtime.Scheme, doc string) client.Object {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.UnmarshalStrict([]byte(doc), &u.Object); err != nil {
		t.Fatalf("%v in\n%s", err, doc)
	}
	typed, err := scheme.New(u.GroupVersionKind())
	if err != nil {
		return u
	}
	if err := yaml.UnmarshalStrict([]byte(doc), typed); err != nil {
		t.Fatalf("%s %s: %v", u.GetKind(), u.GetName(), err)
	}
	return typed.(client.Object)
}

// read is a file of the case, "" when there is none.
func read(t *testing.T, dir, file string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return string(b)
}

// compare holds a file against what came out; no file stands for nothing.
func compare(t *testing.T, dir, file, got string) {
	t.Helper()
	if flag.Lookup("update").Value.String() == "true" {
		path := filepath.Join(dir, file)
		err := os.Remove(path)
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		if err == nil && got != "" {
			err = os.WriteFile(path, []byte(got), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(read(t, dir, file), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}
