package api

import (
	"context"
	"encoding/json"
	"go/ast"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/yaml"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
)

// table cuts kubectl's output into lines of columns; a column is divided from the next by two blanks at least.
func table(out string) [][]string {
	var rows [][]string
	for line := range strings.Lines(out) {
		var cells []string
		for _, c := range strings.Split(strings.TrimRight(line, "\n"), "  ") {
			if c = strings.TrimSpace(c); c != "" {
				cells = append(cells, c)
			}
		}
		rows = append(rows, cells)
	}
	return rows
}

func TestKubectlShowsAHost(t *testing.T) {
	h := aHost(func(h *v1alpha1.WindowsHost) {
		h.GenerateName, h.Name, h.Spec.MachineRef = "", "columns", aMachineRef()
	})
	create(t, h)
	h.Status = v1alpha1.WindowsHostStatus{
		Step: "5/9 join-network", Node: &v1alpha1.NodeStatus{Name: "win-node"}, Plan: &v1alpha1.PlanStatus{Short: "0123abcd"},
		Conditions: []metav1.Condition{{
			Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonApplying,
			Message: "step 5/9 join-network", LastTransitionTime: metav1.Now(),
		}},
	}
	if err := admin.Status().Update(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	want := [][]string{
		{"NAME", "ADDRESS", "NODE", "STEP", "READY", "REASON", "PLAN", "AGE"},
		{"columns", "192.0.2.10", "win-node", "5/9 join-network", "False", "Applying", "0123abcd"},
	}
	for _, name := range []string{"windowshosts", "windowshost", "winhost", "wh"} {
		got := table(kubectl(t, "get", name, "-n", namespace, "columns"))
		if len(got) != 2 || len(got[1]) != 8 {
			t.Fatalf("kubectl get %s: %q", name, got)
		}
		got[1] = got[1][:7]
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("kubectl get %s (-want +got):\n%s", name, diff)
		}
	}
	wide := table(kubectl(t, "get", "winhost", "-n", namespace, "columns", "-o", "wide"))
	if !slices.Equal(wide[0][8:], []string{"MACHINE", "MESSAGE"}) || !slices.Equal(wide[1][8:], []string{"win-a", "step 5/9 join-network"}) {
		t.Errorf("wide: %q", wide)
	}
}

func TestKubectlShowsAProfile(t *testing.T) {
	p := aProfile(func(s *v1alpha1.WindowsNodeProfileSpec) { s.Network.Mode = v1alpha1.NetworkOverlay })
	p.GenerateName, p.Name = "", "columns"
	create(t, p)
	p.Status = v1alpha1.WindowsNodeProfileStatus{
		Discovered: &v1alpha1.DiscoveredStatus{
			APIServer: "https://api.example.test:6443", PodCIDRs: []string{"10.244.0.0/16", "fd00::/56"}, ServiceCIDRs: []string{"10.96.0.0/12"}, DNS: []string{"10.96.0.10"},
		},
		Network:    &v1alpha1.NetworkStatus{Mode: v1alpha1.NetworkOverlay},
		Conditions: []metav1.Condition{{Type: v1alpha1.ConditionFactsComplete, Status: metav1.ConditionTrue, Reason: "FactsComplete", LastTransitionTime: metav1.Now()}},
	}
	if err := admin.Status().Update(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	got := table(kubectl(t, "get", "winprofile", "columns"))
	if len(got) != 2 || len(got[1]) != 8 {
		t.Fatalf("%q", got)
	}
	got[1] = got[1][:7]
	want := [][]string{
		{"NAME", "MODE", "POD CIDR", "SERVICE CIDR", "DNS", "API", "COMPLETE", "AGE"},
		{"columns", "Overlay", "10.244.0.0/16", "10.96.0.0/12", "10.96.0.10", "https://api.example.test:6443", "True"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("kubectl get winprofile (-want +got):\n%s", diff)
	}
}

func TestKubectlKnowsTheCategory(t *testing.T) {
	h, p := aHost(), aProfile()
	create(t, h)
	create(t, p)
	out := kubectl(t, "get", "windows", "-n", namespace, "-o", "name")
	for _, want := range []string{"windowshost.windowsmachine.dev/" + h.Name, "windowsnodeprofile.windowsmachine.dev/" + p.Name} {
		if !slices.Contains(strings.Fields(out), want) {
			t.Errorf("kubectl get windows: %q lacks %s", out, want)
		}
	}
}

// kubectl explain is where people look first: every field has a sentence.
func TestEveryFieldIsExplained(t *testing.T) {
	// The API server publishes the schema of a new kind in its own time.
	var out []byte
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		var err error
		out, err = cp.Kubectl(ctx, "explain", "windowshost.spec.hostKeys")
		return err == nil, nil
	})
	if err != nil || !strings.Contains(string(out), "public keys that the machine may show") {
		t.Errorf("kubectl explain: %v: %s", err, out)
	}
	files, err := filepath.Glob(root + "config/crd/bases/*.yaml")
	if err != nil || len(files) != 2 {
		t.Fatalf("%d CRDs, %v", len(files), err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		var crd struct {
			Spec struct {
				Names    struct{ Kind string }
				Versions []struct {
					Schema struct{ OpenAPIV3Schema schema }
				}
			}
		}
		if err := yaml.Unmarshal(b, &crd); err != nil {
			t.Fatal(err)
		}
		if n := unexplained(t, crd.Spec.Names.Kind, crd.Spec.Versions[0].Schema.OpenAPIV3Schema); n < 20 {
			t.Errorf("%s: %d fields only", f, n)
		}
	}
}

// Each rule in the CRDs has a row that breaks it: its message stands, in part at least, in one of the tables.
func TestEveryRuleIsBrokenOnce(t *testing.T) {
	var told []string
	for _, f := range []string{"windowshost_test.go", "profile_test.go"} {
		inspect(t, "test/integration/api/"+f, func(x ast.Node) {
			if e, ok := x.(ast.Expr); ok {
				if s, ok := text(e); ok && len(s) > 10 {
					told = append(told, s)
				}
			}
		})
	}
	rules := 0
	for _, f := range []string{"windowshosts", "windowsnodeprofiles"} {
		b, err := os.ReadFile(root + "config/crd/bases/windowsmachine.dev_" + f + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		var crd any
		if err := yaml.Unmarshal(b, &crd); err != nil {
			t.Fatal(err)
		}
		messages(crd, func(m string) {
			rules++
			if !slices.ContainsFunc(told, func(s string) bool { return strings.Contains(m, s) }) {
				t.Errorf("no row breaks the rule %q", m)
			}
		})
	}
	if rules < 15 {
		t.Errorf("%d rules only", rules)
	}
}

// messages calls f with the message of each rule in a CRD.
func messages(x any, f func(string)) {
	switch v := x.(type) {
	case map[string]any:
		if m, ok := v["message"].(string); ok && v["rule"] != nil {
			f(m)
			return
		}
		for _, y := range v {
			messages(y, f)
		}
	case []any:
		for _, y := range v {
			messages(y, f)
		}
	}
}

// schema is the part of an OpenAPI schema that unexplained looks at.
type schema struct {
	Description string
	Properties  map[string]schema
	Items       *schema
}

// unexplained reports fields without a description, and returns how many it has seen.
func unexplained(t *testing.T, path string, s schema) int {
	t.Helper()
	n := len(s.Properties)
	for name, p := range s.Properties {
		if p.Description == "" && name != "metadata" {
			t.Errorf("%s.%s has no description", path, name)
		}
		n += unexplained(t, path+"."+name, p)
	}
	if s.Items != nil {
		n += unexplained(t, path+"[]", *s.Items)
	}
	return n
}

func TestSamplesApply(t *testing.T) {
	files, err := filepath.Glob(root + "config/samples/*.yaml")
	if err != nil || len(files) < 3 {
		t.Fatalf("%d samples, %v", len(files), err)
	}
	t.Cleanup(func() {
		for _, f := range files {
			if _, err := cp.Kubectl(context.Background(), "delete", "--ignore-not-found", "--wait=false", "-f", abs(strings.TrimPrefix(f, root))); err != nil {
				t.Error(err)
			}
		}
	})
	for _, f := range files {
		out := kubectl(t, "apply", "--server-side", "--validate=strict", "-f", abs(strings.TrimPrefix(f, root)))
		if !strings.Contains(out, "serverside-applied") {
			t.Errorf("%s: %s", f, out)
		}
	}
}

// install has applied config/default once; a second time finds nothing to change.
func TestDefaultAppliesTwiceWithoutChange(t *testing.T) {
	dir := abs("config/default")
	before := generations(t, dir)
	if out, err := cp.Kubectl(t.Context(), "diff", "--server-side", "-k", dir); err != nil {
		t.Errorf("kubectl diff: %v\n%s", err, out)
	}
	kubectl(t, "apply", "--server-side", "-k", dir)
	if diff := cmp.Diff(before, generations(t, dir)); diff != "" {
		t.Errorf("the second apply changed (-before +after):\n%s", diff)
	}
	if len(before) < 15 {
		t.Errorf("config/default has %d objects only", len(before))
	}
}

func generations(t *testing.T, dir string) []string {
	t.Helper()
	var list struct {
		Items []struct {
			Kind     string            `json:"kind"`
			Metadata metav1.ObjectMeta `json:"metadata"`
		} `json:"items"`
	}
	if err := json.Unmarshal([]byte(kubectl(t, "get", "-k", dir, "-o", "json")), &list); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, i := range list.Items {
		version := i.Metadata.ResourceVersion
		if i.Metadata.Generation > 0 {
			// What has a generation may have a status that others write.
			version = "-"
		}
		if i.Kind == "ResourceQuota" {
			version = "-"
		}
		b, err := json.Marshal([]any{i.Kind, i.Metadata.Namespace, i.Metadata.Name, i.Metadata.Generation, version})
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(b))
	}
	slices.Sort(out)
	return out
}

// Every namespaced object names its namespace, so that nobody's current context decides where it goes.
func TestDefaultNamesItsNamespaces(t *testing.T) {
	out := kubectl(t, "kustomize", abs("config/default"))
	mapped := map[string]bool{}
	for doc := range strings.SplitSeq(out, "\n---\n") {
		var o struct {
			Kind     string            `json:"kind"`
			Metadata metav1.ObjectMeta `json:"metadata"`
		}
		if err := yaml.Unmarshal([]byte(doc), &o); err != nil {
			t.Fatal(err)
		}
		mapped[o.Kind] = true
		switch o.Kind {
		case "Namespace", "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition":
			continue
		}
		if o.Metadata.Namespace == "" {
			t.Errorf("%s %s has no namespace", o.Kind, o.Metadata.Name)
		}
	}
	for _, kind := range []string{"CustomResourceDefinition", "ServiceAccount", "Deployment", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "NetworkPolicy", "ResourceQuota", "Namespace"} {
		if !mapped[kind] {
			t.Errorf("config/default has no %s", kind)
		}
	}
}

// Every file of config is part of what is installed, or a sample.
func TestNoManifestIsForgotten(t *testing.T) {
	for _, dir := range []string{"crd", "manager", "rbac"} {
		b, err := os.ReadFile(root + "config/" + dir + "/kustomization.yaml")
		if err != nil {
			t.Fatal(err)
		}
		var k struct {
			Resources []string `json:"resources"`
		}
		if err := yaml.Unmarshal(b, &k); err != nil {
			t.Fatal(err)
		}
		err = filepath.WalkDir(root+"config/"+dir, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() || d.Name() == "kustomization.yaml" {
				return err
			}
			rel, err := filepath.Rel(root+"config/"+dir, path)
			if err == nil && !slices.Contains(k.Resources, rel) {
				t.Errorf("config/%s/kustomization.yaml does not name %s", dir, rel)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
