package windows

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/windowsmachine/operator/pkg/agent/disk"
	"github.com/windowsmachine/operator/pkg/agent/step"
	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/plan"
)

const (
	// scratch is the folder of all files that are made; it is removed at the end.
	scratch = `C:\wmo-test`
	// agentRoot stands for the agent's own folder.
	agentRoot = scratch + `\agent`
	// asService tells the test program that the service manager has started it.
	asService = "-wmo-test-service"
	// dieCode is a control code at which the service ends without a word, dieExit its exit code then.
	dieCode, dieExit = 200, 3
)

// Machine is what is exercised.
type Machine struct {
	System   system.System
	Platform Platform
	// PlatformVersion is that of Wine.
	PlatformVersion string
	// Program is the content of a program that runs as a service: started with asService it reports that it runs, stops when
	// it is asked to, and exits with 3 at control code 200.
	Program []byte
	// EnableFeatures lets the Containers feature be enabled where it is not, which takes a reboot and is not taken back.
	EnableFeatures bool
	// Only are the subjects that are exercised, the others are reported as not run; empty are all.
	Only []string
	// Logf says what is done; it must not be nil.
	Logf func(format string, args ...any)
}

// bench is a machine with the folders that steps use, and what belongs to one exercise.
type bench struct {
	Machine
	ledger *step.Ledger
	opts   step.Options
}

// prepare makes the scratch folder. One that an earlier run left is removed first.
func (m Machine) prepare(ctx context.Context) error {
	if err := m.clean(ctx); err != nil {
		return err
	}
	for _, dir := range []string{
		scratch, agentRoot, disk.Join(agentRoot, step.TempDir), disk.Join(agentRoot, step.OldDir), disk.Join(agentRoot, step.BackupDir),
		disk.Join(agentRoot, "blobs"), disk.Join(agentRoot, "blobs", "sha256"),
	} {
		if err := m.System.Files.Mkdir(dir, plan.AccessSecret); err != nil {
			return fmt.Errorf("preparing %s: %w", dir, err)
		}
	}
	return nil
}

// clean removes the scratch folder. A program that was just stopped may still be held for a moment.
func (m Machine) clean(ctx context.Context) error {
	return m.eventually(ctx, "removing "+scratch, func() error {
		if err := disk.RemoveAll(ctx, m.System.Files, scratch); err != nil && !errors.Is(err, system.ErrNotExist) {
			return err
		}
		return nil
	})
}

// Waiting: what the machine does by itself is looked for that often, that long.
const (
	pollEvery = 200 * time.Millisecond
	pollLimit = 15 * time.Second
)

// eventually calls f until it answers nil; when the time is up its last error is the answer.
func (m Machine) eventually(ctx context.Context, what string, f func() error) error {
	end := m.System.Clock.Now().Add(pollLimit)
	for {
		err := f()
		if err == nil {
			return nil
		}
		if m.System.Clock.Now().After(end) {
			return fmt.Errorf("%s: still not so after %s: %w", what, pollLimit, err)
		}
		if serr := m.System.Clock.Sleep(ctx, pollEvery); serr != nil {
			return errors.Join(serr, err)
		}
	}
}

// management is the address of the adapter with the default route.
func (m Machine) management() (netip.Prefix, error) {
	list, err := m.System.Machine.Addresses()
	if err != nil {
		return netip.Prefix{}, err
	}
	for _, a := range list {
		prefix, err := netip.ParsePrefix(a.Prefix)
		if err == nil && a.Default && a.Usable && prefix.Addr().Is4() {
			return prefix, nil
		}
	}
	return netip.Prefix{}, errNoAddress
}

var errNoAddress = errors.New("no adapter has a usable IPv4 address and the default route")

// containers reports whether the Containers feature is enabled; without it there is no Host Networking Service.
func (m Machine) containers() (bool, error) {
	enabled, _, err := m.System.Features.Enabled(containersFeature)
	return enabled, err
}

const containersFeature = "Containers"
