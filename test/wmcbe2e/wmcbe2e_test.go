package wmcbe2e

import (
	"context"
	"errors"
	"flag"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/windowsmachine/operator/test/machineapi"
)

// cleaning bounds what is done after the run, also after one that was interrupted.
const cleaning = 5 * time.Minute

var options Options

func TestMain(m *testing.M) {
	options.Register(flag.CommandLine)
	flag.Parse()
	machineapi.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// TestBootstrapper is the run, in the cluster that the flags name, or on a bed of its own.
//
//evidence:fake upload node start-service
func TestBootstrapper(t *testing.T) {
	o := options
	if !o.Cluster && o.Kubeconfig == "" {
		o = onBed(t, o)
	}
	b, err := New(o, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), cleaning)
		defer cancel()
		if err := errors.Join(b.CleanUp(ctx), b.Print(os.Stdout)); err != nil {
			t.Error(err)
		}
	})
	began := time.Now()
	for _, p := range b.Phases() {
		if !t.Run(p.Name, func(t *testing.T) {
			if err := p.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
		}) {
			return
		}
		t.Logf("%6.1f s  %s", time.Since(began).Seconds(), p.Name)
	}
}
