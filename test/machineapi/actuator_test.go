package machineapi

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	machinev1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

var errTest = errors.New("no capacity")

// scripted is a provider that fails as told and counts.
type scripted struct {
	createErr, deleteErr error
	created, deleted     int
}

func (s *scripted) Create(context.Context, string, string) (Instance, error) {
	if s.createErr != nil {
		return Instance{}, s.createErr
	}
	s.created++
	return Instance{ID: "sim:///one", Addresses: addresses("127.0.1.9")}, nil
}

func (s *scripted) Delete(context.Context, string, string) error {
	if s.deleteErr != nil {
		return s.deleteErr
	}
	s.deleted++
	return nil
}

func addresses(ip string) []corev1.NodeAddress {
	return []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: ip}}
}

// newFixture is a Machine behind a fake API server whose first patches fail.
func newFixture(t *testing.T, p Provider, failingPatches int) (*actuator, *machinev1.Machine, client.Client) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := machinev1.Install(scheme); err != nil {
		t.Fatal(err)
	}
	m := &machinev1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m"}}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(m).WithStatusSubresource(m).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
			if failingPatches > 0 {
				failingPatches--
				return errTest
			}
			return c.Patch(ctx, o, patch, opts...)
		},
	}).Build()
	return newActuator(c, p), get(t, c), c
}

func get(t *testing.T, c client.Client) *machinev1.Machine {
	t.Helper()
	m := &machinev1.Machine{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "m"}, m); err != nil {
		t.Fatal(err)
	}
	return m
}

func exists(t *testing.T, a *actuator, m *machinev1.Machine) bool {
	t.Helper()
	ok, err := a.Exists(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	return ok
}

func TestActuatorCreate(t *testing.T) {
	p := &scripted{createErr: errTest}
	a, m, c := newFixture(t, p, 1)
	if err := a.Create(t.Context(), m); !errors.Is(err, errTest) || exists(t, a, m) {
		t.Errorf("the provider fails: %v", err)
	}
	p.createErr = nil
	if err := a.Create(t.Context(), m); !errors.Is(err, errTest) || !exists(t, a, m) {
		t.Errorf("the API server fails: %v", err)
	}
	for range 2 {
		if err := a.Create(t.Context(), get(t, c)); err != nil {
			t.Fatal(err)
		}
	}
	if p.created != 1 {
		t.Errorf("%d instances were made", p.created)
	}
	m = get(t, c)
	if ptr.Deref(m.Spec.ProviderID, "") != "sim:///one" {
		t.Errorf("provider id %v", m.Spec.ProviderID)
	}
	if diff := cmp.Diff(addresses("127.0.1.9"), m.Status.Addresses); diff != "" {
		t.Error(diff)
	}
}

func TestActuatorUpdateWithoutInstance(t *testing.T) {
	a, m, _ := newFixture(t, &scripted{}, 0)
	if err := a.Update(t.Context(), m); err == nil {
		t.Error("no error")
	}
}

func TestActuatorDelete(t *testing.T) {
	p := &scripted{deleteErr: errTest}
	a, m, _ := newFixture(t, p, 0)
	if err := a.Delete(t.Context(), m); err != nil {
		t.Errorf("nothing to delete: %v", err)
	}
	if err := a.Create(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if err := a.Delete(t.Context(), m); !errors.Is(err, errTest) || !exists(t, a, m) {
		t.Errorf("an instance that cannot be deleted: %v", err)
	}
	p.deleteErr = nil
	for range 2 {
		if err := a.Delete(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	if exists(t, a, m) || p.deleted != 1 {
		t.Errorf("deleted %d times", p.deleted)
	}
}
