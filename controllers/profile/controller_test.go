package profile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/facts"
	"github.com/windowsmachine/operator/pkg/facts/discover"
)

const namespace = "wmo"

// world is the reconciler over a fake API server.
type world struct {
	t        *testing.T
	api      client.WithWatch
	recorder *events.FakeRecorder
	r        *Reconciler
}

func newWorld(t *testing.T, hooks interceptor.Funcs, objects ...client.Object) *world {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme, discover.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	w := &world{t: t, recorder: events.NewFakeRecorder(1000)}
	w.api = fake.NewClientBuilder().WithScheme(s).WithObjects(objects...).WithStatusSubresource(&v1alpha1.WindowsNodeProfile{}).Build()
	c := interceptor.NewClient(w.api, hooks)
	w.r = &Reconciler{
		Client: c, Reader: c, Recorder: w.recorder, Facts: &facts.Store{}, Namespace: namespace,
		Config: &rest.Config{Host: "https://10.0.0.1:6443", TLSClientConfig: rest.TLSClientConfig{CAData: []byte("no certificate")}},
	}
	return w
}

func (w *world) pass() reconcile.Result {
	w.t.Helper()
	res, err := w.r.Reconcile(w.t.Context(), request("default"))
	if err != nil {
		w.t.Fatal(err)
	}
	return res
}

func request(name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Name: name}}
}

func (w *world) profile() *v1alpha1.WindowsNodeProfile {
	w.t.Helper()
	p := &v1alpha1.WindowsNodeProfile{}
	if err := w.api.Get(w.t.Context(), types.NamespacedName{Name: "default"}, p); err != nil {
		w.t.Fatal(err)
	}
	return p
}

func (w *world) told() []string {
	var out []string
	for len(w.recorder.Events) > 0 {
		out = append(out, <-w.recorder.Events)
	}
	return out
}

func aProfile(edits ...func(*v1alpha1.WindowsNodeProfile)) *v1alpha1.WindowsNodeProfile {
	p := &v1alpha1.WindowsNodeProfile{ObjectMeta: metav1.ObjectMeta{Name: "default", UID: "u", Generation: 4}}
	for _, e := range edits {
		e(p)
	}
	return p
}

func binding(name, group string) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:certificates.k8s.io:certificatesigningrequests:nodeclient"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: group}},
	}
}

func TestStatus(t *testing.T) {
	missing := facts.Problem{Fact: facts.APIServer, Reason: v1alpha1.ReasonFactsMissing, Message: "apiServer not found", Fatal: true}
	doubt := facts.Problem{Fact: facts.ClusterDNS, Reason: v1alpha1.ReasonFactsDisagree, Message: "two sources"}
	for name, c := range map[string]struct {
		problems []facts.Problem
		risky    []string
		want     []metav1.Condition
	}{
		"all is well": {nil, nil, []metav1.Condition{
			{Type: "FactsComplete", Status: "True", Reason: "FactsComplete", Message: "all facts about the cluster were found"},
			{Type: "BindingsSafe", Status: "True", Reason: "NoRiskyBindings", Message: "no ClusterRoleBinding lets bootstrap identities join under any name"},
		}},
		"a doubt leaves it complete": {[]facts.Problem{doubt}, nil, []metav1.Condition{
			{Type: "FactsComplete", Status: "True", Reason: "FactsDisagree", Message: "two sources"},
			{Type: "BindingsSafe", Status: "True", Reason: "NoRiskyBindings", Message: "no ClusterRoleBinding lets bootstrap identities join under any name"},
		}},
		"all that is missing is told": {[]facts.Problem{missing, doubt}, []string{"a binding", "another"}, []metav1.Condition{
			{Type: "FactsComplete", Status: "False", Reason: "FactsMissing", Message: "apiServer not found; two sources"},
			{Type: "BindingsSafe", Status: "False", Reason: "RiskyBinding", Message: "a binding; another"},
		}},
		"more than anybody reads": {[]facts.Problem{{Reason: "FactsMissing", Message: strings.Repeat("ä", 40_000), Fatal: true}}, nil, []metav1.Condition{
			{Type: "FactsComplete", Status: "False", Reason: "FactsMissing", Message: strings.Repeat("ä", 1022) + "..."},
			{Type: "BindingsSafe", Status: "True", Reason: "NoRiskyBindings", Message: "no ClusterRoleBinding lets bootstrap identities join under any name"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			d := facts.Discovered{Problems: c.problems, Cluster: facts.Cluster{
				APIServer: "https://api.example.test:6443", APIServerCA: []byte("ca"), Platform: "AWS", ClusterDNS: []string{"10.96.0.10"},
				ClusterDomain: "cluster.local", PodCIDRs: []string{"10.244.0.0/16"}, ServiceCIDRs: []string{"10.96.0.0/16"},
				KubeletConfig: []byte("x"), Mode: "L2Bridge", Why: "nothing else shows", Sources: map[string]string{"apiServer": "somewhere"},
			}}
			got := Status(aProfile(), d, c.risky)
			for i := range c.want {
				c.want[i].ObservedGeneration = 4
			}
			want := v1alpha1.WindowsNodeProfileStatus{ObservedGeneration: 4, Conditions: c.want, Discovered: &v1alpha1.DiscoveredStatus{
				APIServer: "https://api.example.test:6443", Platform: "AWS", DNS: []string{"10.96.0.10"}, Domain: "cluster.local",
				PodCIDRs: []string{"10.244.0.0/16"}, ServiceCIDRs: []string{"10.96.0.0/16"}, Sources: map[string]string{"apiServer": "somewhere"},
			}, Network: &v1alpha1.NetworkStatus{Mode: "L2Bridge", Why: "nothing else shows", Name: "windowsmachine"}}
			if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(metav1.Condition{}, "LastTransitionTime")); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDefaultProfileIsMadeOnceAndNeverOverwritten(t *testing.T) {
	w := newWorld(t, interceptor.Funcs{})
	for range 2 {
		if err := w.r.ensureDefault(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	p := w.profile()
	p.Spec.Connection.Port, p.Labels = 2222, map[string]string{"admins": "own"}
	if err := w.api.Update(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if err := w.r.ensureDefault(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := w.profile(); got.Spec.Connection.Port != 2222 || got.Labels["admins"] != "own" || got.ResourceVersion != p.ResourceVersion {
		t.Errorf("an admin's profile was written over: %+v", got)
	}
	broken := newWorld(t, interceptor.Funcs{Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
		return apierrors.NewForbidden(v1alpha1.GroupVersion().WithResource("windowsnodeprofiles").GroupResource(), "default", nil)
	}})
	if err := broken.r.ensureDefault(t.Context()); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "default") {
		t.Errorf("error %v, want one that names the profile", err)
	}
}

func TestProblemsBecomeConditionsAndFacts(t *testing.T) {
	w := newWorld(t, interceptor.Funcs{}, aProfile(func(p *v1alpha1.WindowsNodeProfile) {
		p.Spec.Ignition = &v1alpha1.IgnitionSpec{SecretName: "windows-ignition"}
	}))
	var set int
	w.r.Facts.Subscribe(func(string) { set++ })
	if res := w.pass(); res.RequeueAfter != everyMissing {
		t.Errorf("looks again after %s", res.RequeueAfter)
	}
	c := meta.FindStatusCondition(w.profile().Status.Conditions, v1alpha1.ConditionFactsComplete)
	if c == nil || c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.ReasonIgnitionMissing || !strings.Contains(c.Message, "windows-ignition") {
		t.Errorf("condition %+v, want the missing Secret named", c)
	}
	d, ok := w.r.Facts.Get("default")
	if !ok || len(d.Fatal()) == 0 || set != 1 {
		t.Errorf("facts %t with %d fatal problems, told %d times", ok, len(d.Fatal()), set)
	}
	before := w.profile().ResourceVersion
	w.pass()
	if set != 1 || w.profile().ResourceVersion != before {
		t.Errorf("a second look that found the same told %d times and wrote version %s after %s", set, w.profile().ResourceVersion, before)
	}
	if err := w.api.Delete(t.Context(), w.profile()); err != nil {
		t.Fatal(err)
	}
	if _, err := w.r.Reconcile(t.Context(), request("default")); err != nil {
		t.Fatal(err)
	}
	if _, ok := w.r.Facts.Get("default"); ok {
		t.Error("the facts of a deleted profile are still handed out")
	}
}

func TestRiskyBindingsAreToldOnceAChange(t *testing.T) {
	w := newWorld(t, interceptor.Funcs{}, aProfile())
	step := func(what string, want int, words ...string) {
		t.Helper()
		w.pass()
		told := w.told()
		if len(told) != want {
			t.Errorf("%s: told %q, want %d events", what, told, want)
		}
		for _, word := range words {
			if want > 0 && (!strings.Contains(told[0], word) || !strings.Contains(told[0], v1alpha1.ReasonRiskyBinding)) {
				t.Errorf("%s: told %q, want %s in it", what, told, word)
			}
		}
	}
	create := func(name string) {
		t.Helper()
		if err := w.api.Create(t.Context(), binding(name, "system:bootstrappers")); err != nil {
			t.Fatal(err)
		}
	}
	step("none", 0)
	create("kubeadm:node-autoapprove-bootstrap")
	step("the first", 1, "kubeadm:node-autoapprove-bootstrap")
	step("the same", 0)
	create("another")
	step("one more", 1, "another", "kubeadm:node-autoapprove-bootstrap")
	step("the same two", 0)
	for _, name := range []string{"another", "kubeadm:node-autoapprove-bootstrap"} {
		if err := w.api.Delete(t.Context(), binding(name, "")); err != nil {
			t.Fatal(err)
		}
	}
	step("all gone", 0)
	if c := meta.FindStatusCondition(w.profile().Status.Conditions, v1alpha1.ConditionBindingsSafe); c == nil || c.Status != metav1.ConditionTrue {
		t.Errorf("condition %+v", c)
	}
	create("back")
	step("back", 1, "back")
	for i := range 40 {
		create(fmt.Sprintf("a-binding-with-a-long-name-%d", i))
	}
	w.pass()
	for _, e := range w.told() {
		if _, note, _ := strings.Cut(e, v1alpha1.ReasonRiskyBinding+" "); len(note) > v1alpha1.MaxNote || len(note) < v1alpha1.MaxNote-10 {
			t.Errorf("a note of %d bytes", len(note))
		}
	}
}

func TestSecretsAndConfigMapsLeadToTheirProfiles(t *testing.T) {
	named := func(name string, ign *v1alpha1.IgnitionSpec) *v1alpha1.WindowsNodeProfile {
		return aProfile(func(p *v1alpha1.WindowsNodeProfile) { p.Name, p.Spec.Ignition = name, ign })
	}
	w := newWorld(t, interceptor.Funcs{}, named("none", nil), named("secret", &v1alpha1.IgnitionSpec{SecretName: "ign"}),
		named("config", &v1alpha1.IgnitionSpec{ConfigMapName: "ign"}), named("other", &v1alpha1.IgnitionSpec{SecretName: "x"}))
	for name, c := range map[string]struct {
		object client.Object
		want   []string
	}{
		"Secret":            {&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "ign"}}, []string{"secret"}},
		"ConfigMap":         {&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "ign"}}, []string{"config"}},
		"of no profile":     {&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "y"}}, nil},
		"another namespace": {&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "ign"}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, r := range w.r.profilesNaming(t.Context(), c.object) {
				got = append(got, r.Name)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("profiles (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadsThatFailAreTriedAgain(t *testing.T) {
	away := errors.New("the API server is away")
	for name, hooks := range map[string]interceptor.Funcs{
		"bindings": {List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
			if _, ok := l.(*rbacv1.ClusterRoleBindingList); ok {
				return away
			}
			return c.List(ctx, l, opts...)
		}},
		"facts": {Get: func(ctx context.Context, c client.WithWatch, k client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if _, ok := o.(*corev1.ConfigMap); ok {
				return away
			}
			return c.Get(ctx, k, o, opts...)
		}},
		"status": {SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
			return away
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, hooks, aProfile(), binding("risky", "system:bootstrappers"))
			if _, err := w.r.Reconcile(t.Context(), request("default")); !errors.Is(err, away) {
				t.Errorf("error %v", err)
			}
			if told := w.told(); len(told) != 0 {
				t.Errorf("told %q before it is on record", told)
			}
		})
	}
}

func TestOwnCA(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, []byte("of the file"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		config rest.TLSClientConfig
		want   string
		fails  bool
	}{
		"data":         {rest.TLSClientConfig{CAData: []byte("data"), CAFile: file}, "data", false},
		"file":         {rest.TLSClientConfig{CAFile: file}, "of the file", false},
		"none":         {rest.TLSClientConfig{}, "", false},
		"missing file": {rest.TLSClientConfig{CAFile: file + "x"}, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ownCA(&rest.Config{TLSClientConfig: c.config})
			if string(got) != c.want || (err != nil) != c.fails {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}
