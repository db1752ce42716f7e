package machine

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	machinev1 "github.com/openshift/api/machine/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestServed(t *testing.T) {
	mapper := meta.NewDefaultRESTMapper(nil)
	if ok, err := served(mapper); ok || err != nil {
		t.Errorf("a cluster without the Machine API: %t, %v", ok, err)
	}
	mapper.Add(schema.GroupVersionKind{Group: machinev1.GroupName, Version: machinev1.GroupVersion.Version, Kind: "Machine"}, meta.RESTScopeNamespace)
	if ok, err := served(mapper); !ok || err != nil {
		t.Errorf("a cluster with the Machine API: %t, %v", ok, err)
	}
}

func TestAwaitMachineAPI(t *testing.T) {
	errAway := errors.New("the API server is away")
	for name, c := range map[string]struct {
		answers []any // false, true or an error, one a look
		want    time.Duration
	}{
		"there at once":          {[]any{true}, 0},
		"appears later":          {[]any{false, false, true}, 2 * lookEvery},
		"the API server is away": {[]any{errAway, false, true}, 2 * lookEvery},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, looks, started := time.Now(), 0, 0
				err := await(t.Context(), lookEvery, func() (bool, error) {
					a := c.answers[looks]
					looks++
					if err, ok := a.(error); ok {
						return false, err
					}
					return a == true, nil
				}, func() error { started++; return nil })
				if err != nil || started != 1 || time.Since(began) != c.want {
					t.Errorf("started %d times after %s, %v; want once after %s", started, time.Since(began), err, c.want)
				}
			})
		})
	}
	t.Run("stopped", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithTimeout(t.Context(), 10*lookEvery)
			defer stop()
			err := await(ctx, lookEvery, func() (bool, error) { return false, nil }, func() error {
				t.Error("started without the Machine API")
				return nil
			})
			if err != nil {
				t.Errorf("stopping is no failure: %v", err)
			}
		})
	})
}
