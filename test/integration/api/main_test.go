package api

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	machinev1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/facts/discover"
	"github.com/windowsmachine/operator/test/controlplane"
	"github.com/windowsmachine/operator/test/machineapi"
)

const (
	root             = "../../../"
	namespace        = "windows-machine-operator"
	account          = "windows-machine-operator"
	machineNamespace = "openshift-machine-api"
)

var _ = flag.Bool("update", false, "write the golden files")

// cp is the control plane of all tests of the package, with config/default and OpenShift's CRDs; admin is its administrator.
var (
	cp    *controlplane.ControlPlane
	admin client.Client
)

func TestMain(m *testing.M) {
	flag.Parse()
	log.SetLogger(logr.Discard())
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	ctx := context.Background()
	if cp, err = controlplane.Start(ctx, controlplane.Options{Progress: os.Stderr}); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, cp.Stop()) }()
	if err := install(ctx); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// install does what an admin of OpenShift does.
func install(ctx context.Context) error {
	machines, err := machineapi.CRDs()
	if err != nil {
		return err
	}
	openshift, err := machineapi.OpenShiftCRDs()
	if err != nil {
		return err
	}
	if err := cp.InstallCRDs(ctx, append(machines, openshift...)...); err != nil {
		return err
	}
	if out, err := cp.Kubectl(ctx, "apply", "--server-side", "-k", abs("config/default")); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	// A second time waits until the new kinds are served.
	if err := cp.InstallCRDs(ctx, root+"config/crd/bases"); err != nil {
		return err
	}
	if admin, err = clientOf(cp.RESTConfig()); err != nil {
		return err
	}
	return admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: machineNamespace}})
}

// abs makes a path of the repository absolute: kubectl runs elsewhere.
func abs(path string) string {
	wd, err := os.Getwd()
	if err != nil {
		panic(err)
	}
	return wd + "/" + root + path
}

func scheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme, machinev1.Install, discover.AddToScheme} {
		if err := add(s); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func clientOf(cfg *rest.Config) (client.Client, error) {
	s, err := scheme()
	if err != nil {
		return nil, err
	}
	return client.New(cfg, client.Options{Scheme: s})
}

// as returns the client of a service account, and its configuration.
func as(t *testing.T, namespace, name string) (client.Client, *rest.Config) {
	t.Helper()
	b, err := cp.ServiceAccountKubeconfig(t.Context(), namespace, name)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := clientcmd.RESTConfigFromKubeConfig(b)
	if err != nil {
		t.Fatal(err)
	}
	cfg.QPS, cfg.Burst = 500, 1000
	c, err := clientOf(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c, cfg
}

func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := cp.Kubectl(t.Context(), args...)
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// create makes an object that goes with the test.
func create(t *testing.T, o client.Object) {
	t.Helper()
	if err := admin.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := admin.Delete(context.Background(), o); client.IgnoreNotFound(err) != nil {
			t.Error(err)
		}
	})
}

// rule is one row about what the API server takes.
type rule struct {
	name string
	// field and words must stand in the refusal; without a field the object is accepted.
	field string
	words string
}

// check compares what the API server said with the row.
func (r rule) check(t *testing.T, err error) {
	t.Helper()
	switch {
	case r.field == "" && err != nil:
		t.Errorf("refused: %v", err)
	case r.field != "" && err == nil:
		t.Errorf("accepted, want %s refused with %q", r.field, r.words)
	case r.field != "" && (!strings.Contains(err.Error(), r.field) || !strings.Contains(err.Error(), r.words)):
		t.Errorf("refused with %q, want %s and %q in it", err, r.field, r.words)
	}
}
