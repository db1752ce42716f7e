package openshift

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/facts"
	"github.com/windowsmachine/operator/pkg/facts/discover"
	"github.com/windowsmachine/operator/test/bed"
)

// reader is the API as the operator sees it: with its own service account, and nothing cached.
func (r *rig) reader() client.Reader {
	r.t.Helper()
	kubeconfig, err := r.bed.ServiceAccountKubeconfig(r.ctx, bed.Namespace, bed.Namespace)
	r.must(err)
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	r.must(err)
	config.QPS, config.Burst = 200, 400
	scheme := runtime.NewScheme()
	r.must(discover.AddToScheme(scheme))
	c, err := client.New(config, client.Options{Scheme: scheme})
	r.must(err)
	return c
}

// inside is the URL that an operator in a pod is given: the Service of the API server.
const inside = "https://172.30.0.1:443"

func (r *rig) discover(from client.Reader, spec v1alpha1.WindowsNodeProfileSpec) (facts.Cluster, []facts.Problem) {
	r.t.Helper()
	c, problems, err := discover.Cluster(r.ctx, from, discover.Input{
		Profile: spec, Namespace: bed.Namespace, OwnAPIServer: inside, OwnCA: r.bed.CA(),
	})
	r.must(err)
	return c, problems
}

// wantFacts is what the bed's objects say.
func wantFacts(b *bed.Bed) facts.Cluster {
	return facts.Cluster{
		APIServer: b.URL(), APIServerCA: b.CA(), KubeletClientCA: b.CA(), ClusterDNS: []string{"172.30.0.10"}, ClusterDomain: "cluster.local",
		PodCIDRs: []string{"10.128.0.0/14"}, ServiceCIDRs: []string{"172.30.0.0/16"}, KubeletConfig: bed.KubeletConf(),
		CloudProvider: "external", Verbosity: ptr.To(4), Platform: facts.PlatformAWS,
	}
}

// TestDiscovery runs on one cluster from which things are taken away and to which they are given back, so in order.
func TestDiscovery(t *testing.T) {
	t.Parallel()
	r := newRig(t, run.aws)
	from := r.reader()
	whole, problems := r.discover(from, v1alpha1.WindowsNodeProfileSpec{})
	if len(problems) > 0 {
		t.Errorf("problems %+v", problems)
	}
	r.goldenYAML("sources.yaml", whole.Sources)
	if names := []string{"172.30.0.1", "api.c1.example.com", "127.0.0.1", "kubernetes.default.svc.cluster.local"}; !holds(whole.ServerNames, names) {
		t.Errorf("server names %q lack some of %q", whole.ServerNames, names)
	}
	want := wantFacts(r.bed)
	want.CloudConfig, want.Sources, want.ServerNames = whole.CloudConfig, whole.Sources, whole.ServerNames
	want.Plane, want.Mode, want.Why = facts.Plane{Kind: facts.PlaneOVNKubernetes, From: "Network cluster .status.networkType"}, "None", whole.Why
	if diff := cmp.Diff(want, whole); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if c := whole.CloudConfig; c == nil || c.Name != "cloud.conf" || !strings.Contains(string(c.Data), "c1-vnet") {
		t.Errorf("cloud config %+v", c)
	}
	t.Run("Renderings", func(t *testing.T) { r.with(t).renderings(from, whole) })
	t.Run("Absences", func(t *testing.T) { r.with(t).absences(from) })
	t.Run("Rights", func(t *testing.T) { r.with(t).rights(from) })
	again, problems := r.discover(from, v1alpha1.WindowsNodeProfileSpec{})
	if diff := cmp.Diff(whole, again); diff != "" || len(problems) > 0 {
		t.Errorf("after everything is back: %+v\n%s", problems, diff)
	}
}

func holds(all, some []string) bool {
	return !slices.ContainsFunc(some, func(s string) bool { return !slices.Contains(all, s) })
}

// renderings are different ways to write the same worker; only the name of the source may differ.
func (r *rig) renderings(from client.Reader, whole facts.Cluster) {
	for name, edit := range map[string]func(*bed.Ignition){
		"spec 3.2": func(i *bed.Ignition) { i.Ignition.Version = "3.2.0" },
		"gzipped files": func(i *bed.Ignition) {
			i.PutGzip(bed.IgnitionKubeletConfig, bed.KubeletConf())
			i.PutGzip("/etc/crio/crio.conf.d/00-default", []byte("# Linux\n"))
		},
		"verbosity in the unit": func(i *bed.Ignition) {
			u := i.Kubelet()
			u.Dropins, u.Contents = nil, ptr.To(strings.ReplaceAll(*u.Contents, "${KUBELET_LOG_LEVEL}", "4"))
		},
	} {
		i := bed.WorkerIgnition()
		edit(i)
		config := "rendered-worker-" + strings.ReplaceAll(strings.ToLower(name), " ", "-")
		r.must(r.bed.Render(r.ctx, config, i.JSON()))
		got, problems := r.discover(from, v1alpha1.WindowsNodeProfileSpec{})
		want := whole
		want.Sources = maps.Clone(whole.Sources)
		for fact, source := range want.Sources {
			want.Sources[fact] = strings.ReplaceAll(source, bed.FirstConfig, config)
		}
		if diff := cmp.Diff(want, got); diff != "" || len(problems) > 0 {
			r.t.Errorf("%s: problems %+v, -want +got\n%s", name, problems, diff)
		}
	}
	r.must(r.bed.NameInPool(r.ctx, bed.FirstConfig))
}

// absences takes one object away at a time, looks at what is said, and gives it back. The golden file holds the sentences.
func (r *rig) absences(from client.Reader) {
	pool := &mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: "worker"}}
	controller := &mcfgv1.ControllerConfig{ObjectMeta: metav1.ObjectMeta{Name: "machine-config-controller"}}
	network := &configv1.Network{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	said := map[string][]string{}
	note := func(what string) {
		_, problems := r.discover(from, v1alpha1.WindowsNodeProfileSpec{Network: v1alpha1.NetworkSpec{Mode: v1alpha1.NetworkL2Bridge}})
		for _, p := range problems {
			weight := "warning"
			if p.Fatal {
				weight = "fatal"
			}
			said[what] = append(said[what], weight+" "+p.Reason+": "+p.Message)
		}
	}
	r.must(r.bed.NameInPool(r.ctx, ""))
	note("the pool names no configuration yet")
	r.must(r.bed.NameInPool(r.ctx, "rendered-worker-gone"))
	note("the pool's MachineConfig is gone")
	r.must(r.bed.NameInPool(r.ctx, bed.FirstConfig))

	giveBackController := r.takeAway(controller)
	note("no ControllerConfig")
	giveBackPool := r.takeAway(pool)
	note("a hosted control plane, with neither pool nor ControllerConfig")
	giveBackPool()
	r.must(r.bed.NameInPool(r.ctx, bed.FirstConfig))
	giveBackController()

	giveBackNetwork := r.takeAway(network)
	note("no Network")
	giveBackNetwork()
	note("all is back")
	r.goldenYAML("absences.yaml", said)
}

// takeAway deletes an object and returns what makes it anew, its status aside where that is a subresource.
func (r *rig) takeAway(o client.Object) (giveBack func()) {
	r.t.Helper()
	r.must(r.bed.Client.Get(r.ctx, client.ObjectKeyFromObject(o), o))
	r.must(r.bed.Client.Delete(r.ctx, o))
	return func() {
		r.t.Helper()
		o.SetResourceVersion("")
		o.SetUID("")
		r.must(r.bed.Client.Create(r.ctx, o))
	}
}

// rights takes the operator's ClusterRole away: the facts that it reads with it are missing for that, and it says so.
func (r *rig) rights(from client.Reader) {
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: bed.Namespace}}
	giveBack := r.takeAway(binding)
	var problems []facts.Problem
	r.until("the rights are gone", func() (bool, string) {
		_, problems = r.discover(from, v1alpha1.WindowsNodeProfileSpec{})
		return slices.ContainsFunc(problems, func(p facts.Problem) bool { return strings.Contains(p.Message, "infrastructures") }), "still there"
	})
	var said []string
	for _, p := range problems {
		said = append(said, p.Reason+": "+p.Message)
	}
	r.goldenYAML("rights.yaml", said)
	giveBack()
	r.until("the rights are back", func() (bool, string) {
		_, problems = r.discover(from, v1alpha1.WindowsNodeProfileSpec{})
		return len(problems) == 0, "not yet"
	})
}
