package wmcbe2e

import (
	"context"
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
	if err := o.check(); err != nil {
		t.Fatal(err)
	}
	keep, err := newArtifacts(o.Artifacts)
	if err != nil {
		t.Fatal(err)
	}
	c, err := newClient(o.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	b := &bootstrap{o: o, c: c, keep: keep, logf: t.Logf}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), cleaning)
		defer cancel()
		if err := b.cleanUp(ctx); err != nil {
			t.Error(err)
		}
		if o.ToLog {
			if err := keep.print(os.Stdout); err != nil {
				t.Error(err)
			}
		}
	})
	began := time.Now()
	for _, p := range b.phases() {
		if !t.Run(p.name, func(t *testing.T) {
			if err := p.run(t.Context()); err != nil {
				t.Fatal(err)
			}
		}) {
			return
		}
		t.Logf("%6.1f s  %s", time.Since(began).Seconds(), p.name)
	}
}
