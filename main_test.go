package main

import (
	"errors"
	"testing"

	hostctl "github.com/windowsmachine/operator/controllers/host"
	"github.com/windowsmachine/operator/pkg/host"
)

// TestBounds: a flag that would leave nobody to work is refused before anything starts.
func TestBounds(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want error
	}{
		{[]string{"--max-workers", "0"}, errAtLeastOne},
		{[]string{"--max-uploads", "-1"}, errAtLeastOne},
	} {
		c := command()
		c.SetArgs(append(tc.args, "--payload", t.TempDir()))
		if err := c.ExecuteContext(t.Context()); !errors.Is(err, tc.want) {
			t.Errorf("%q: %v", tc.args, err)
		}
	}
	o := options{maxWorkers: hostctl.DefaultWorkers, maxUploads: host.DefaultStagings}
	if err := o.check(); err != nil || o.maxWorkers != 32 {
		t.Errorf("the defaults %+v: %v", o, err)
	}
}
