package profile

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/podcidr"
)

// TestMismatchesAreShown: what another controller found out about pods stands in the status, and goes when it does.
func TestMismatchesAreShown(t *testing.T) {
	w := newWorld(t, interceptor.Funcs{}, aProfile(func(p *v1alpha1.WindowsNodeProfile) { p.Spec.Network.Mode = v1alpha1.NetworkL2Bridge }))
	w.r.PodCIDRs = &podcidr.Store{}
	for _, want := range [][]string{nil, {"Node worker-0 has", "kubectl patch"}, nil} {
		if want != nil || w.profile().Status.Network != nil {
			w.r.PodCIDRs.Set("default", podcidr.Result{Needed: true, Mismatches: want})
		}
		w.pass()
		n := w.profile().Status.Network
		if n == nil {
			t.Fatal("no network in the status")
		}
		if diff := cmp.Diff(want, n.Mismatches); diff != "" {
			t.Errorf("mismatches (-want +got):\n%s", diff)
		}
	}
}
