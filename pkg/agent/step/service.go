package step

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/windowsmachine/operator/pkg/agent/disk"
	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/plan"
)

// serviceItem is a service: made, kept as the plan says, running, and running with its present files.
type serviceItem struct {
	b *bench
	s plan.Service
}

func (i serviceItem) id() ID { return newID(KindService, i.s.Name) }

func (i serviceItem) name() string { return i.s.Name }

// view is what there is to know about a service before anything is decided.
type view struct {
	exists, running bool
	have, want      system.ServiceConfig
	// started is the fingerprint of the last start, present the one of a start now.
	started, present string
}

// action is what has to happen to a service.
type action int

const (
	actNone action = iota
	actCreate
	actUpdate
	actRestart
	actStart
)

// decide says what a service needs and why.
func decide(v view) (action, string) {
	switch {
	case !v.exists:
		return actCreate, "missing"
	case ConfigDrift(v.have, v.want) != "":
		return actUpdate, ConfigDrift(v.have, v.want)
	case !v.running:
		return actStart, "not running"
	case v.started != v.present:
		return actRestart, "runs with older files"
	}
	return actNone, ""
}

func (i serviceItem) view(ctx context.Context) (view, error) {
	var v view
	var err error
	if v.want, err = i.config(); err != nil {
		return view{}, err
	}
	if v.present, err = i.fingerprint(ctx, v.want); err != nil {
		return view{}, err
	}
	o, _ := i.b.ledger.Find(i.id())
	v.started = o.Fingerprint
	err = i.look(&v)
	if absent(err) {
		return v, nil
	}
	if i.used() {
		v.want = v.have
	}
	return v, err
}

// look asks the service manager.
func (i serviceItem) look(v *view) error {
	var err error
	if v.have, err = i.b.sys.Services.Config(i.s.Name); err != nil {
		return err
	}
	st, err := i.b.sys.Services.Status(i.s.Name)
	v.exists, v.running = err == nil, st.State == system.ServiceRunning
	return err
}

// used: the service is somebody else's and stays as it is.
func (i serviceItem) used() bool { return i.s.Existing == plan.ExistingUse }

// absent: a service that is marked for deletion is as good as gone; making it anew waits until it is.
func absent(err error) bool {
	return errors.Is(err, system.ErrServiceNotFound) || errors.Is(err, system.ErrServiceMarked)
}

func (i serviceItem) check(ctx context.Context) (string, error) {
	v, err := i.view(ctx)
	if err != nil {
		return "", err
	}
	_, why := decide(v)
	return why, nil
}

// claim refuses a service that somebody else made, since its configuration cannot be given back in full, unless the plan says what to do.
func (i serviceItem) claim(context.Context) (Owned, error) {
	_, err := i.b.sys.Services.Config(i.s.Name)
	switch {
	case err == nil && i.s.Existing == plan.ExistingRefuse:
		return Owned{}, ErrForeign
	case err != nil && !absent(err):
		return Owned{}, err
	}
	return Owned{ID: i.id(), Name: i.s.Name, Existed: err == nil, Use: i.used()}, nil
}

// config is the service as the service manager shall keep it. Arguments stay a list: only the edge to Windows makes a command
// line of them.
func (i serviceItem) config() (system.ServiceConfig, error) {
	c := system.ServiceConfig{
		Name: i.s.Name, DisplayName: i.s.DisplayName, Description: i.s.Description, Exe: i.s.Exe,
		DependsOn: i.s.DependsOn, Env: i.s.Env, Recovery: i.s.Recovery,
	}
	for _, a := range i.s.Args {
		v, err := i.b.resolve(a)
		if err != nil {
			return system.ServiceConfig{}, err
		}
		c.Args = append(c.Args, v)
	}
	return c, nil
}

// fingerprint is a digest over the configuration, the executables on the command line and the watched files.
func (i serviceItem) fingerprint(ctx context.Context, c system.ServiceConfig) (string, error) {
	type watched struct{ Path, Digest string }
	all := struct {
		Config system.ServiceConfig
		Files  []watched
	}{Config: normal(c)}
	for _, path := range i.files() {
		d, err := i.b.present(ctx, path)
		if err != nil {
			return "", err
		}
		all.Files = append(all.Files, watched{disk.Key(path), d})
	}
	b, err := json.Marshal(all)
	return disk.Sum(b), err
}

// files are those whose change restarts the service: the executable, others of the plan that the arguments start (a log runner's
// child), and the watched ones.
func (i serviceItem) files() []string {
	out := slices.Clone(i.s.Watch)
	if !i.used() {
		out = append(out, i.s.Exe)
	}
	for _, f := range i.b.plan.Files {
		if strings.HasSuffix(disk.Key(f.Path), ".exe") && mentions(i.s.Args, f.Path) {
			out = append(out, f.Path)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// present returns the digest of a file: the plan's for a file of the plan, which an earlier step has brought into sync, and
// otherwise the one on the disk.
func (b *bench) present(ctx context.Context, path string) (string, error) {
	for _, f := range b.plan.Files {
		if disk.Same(f.Path, path) {
			c, err := b.contentOf(f)
			return c.digest, err
		}
	}
	d, err := disk.Digest(ctx, b.sys.Files, path)
	if errors.Is(err, system.ErrNotExist) {
		return "absent", nil
	}
	return d, err
}

func (i serviceItem) apply(ctx context.Context) (bool, error) {
	v, err := i.view(ctx)
	if err != nil {
		return false, err
	}
	err = i.bringUp(ctx, v)
	if errors.Is(err, system.ErrServiceMarked) {
		// An earlier removal has not ended: Windows lists the service until its last handle is closed, and refuses every
		// change of it meanwhile.
		if err := i.b.waitGone(ctx, i.s.Name); err != nil {
			return false, err
		}
		v.exists = false
		err = i.bringUp(ctx, v)
	}
	if err != nil {
		return false, err
	}
	return false, i.restartOthers(ctx)
}

// bringUp configures and starts the service.
func (i serviceItem) bringUp(ctx context.Context, v view) error {
	if err := i.prepare(ctx, v); err != nil {
		return err
	}
	if err := i.remember(v); err != nil {
		return err
	}
	err := i.b.Start(ctx, i.s.Name)
	if err != nil && i.s.LogFile != "" {
		return fmt.Errorf("%w; its log is %s", err, i.s.LogFile)
	}
	return err
}

// prepare leaves the service configured and stopped, if it must be started anew.
func (i serviceItem) prepare(ctx context.Context, v view) error {
	act, _ := decide(v)
	switch act {
	case actCreate:
		if i.used() {
			return fmt.Errorf("it is not this product's to make: %w", system.ErrServiceNotFound)
		}
		return i.b.Create(ctx, v.want)
	case actUpdate:
		if err := i.b.stopTree(ctx, i.s.Name); err != nil {
			return err
		}
		return i.b.sys.Services.Update(v.want)
	case actRestart:
		return i.b.stopTree(ctx, i.s.Name)
	case actNone, actStart:
	}
	return nil
}

// remember records what the service is started with, before it is started: killed in between, the service is found stopped and
// started once more, never restarted for nothing.
func (i serviceItem) remember(v view) error {
	o, ok := i.b.ledger.Find(i.id())
	if !ok {
		o = Owned{ID: i.id(), Name: i.s.Name}
	}
	if o.Fingerprint == v.present {
		return nil
	}
	o.Fingerprint = v.present
	if !i.used() {
		o.Exe, o.Args = v.want.Exe, v.want.Args
	}
	return i.b.ledger.Record(o)
}

// restartOthers starts what was stopped for this service and is nobody's step.
func (i serviceItem) restartOthers(ctx context.Context) error {
	o, ok := i.b.ledger.Find(i.id())
	if !ok || len(o.Restart) == 0 {
		return nil
	}
	for _, name := range slices.Backward(o.Restart) {
		err := i.b.Start(ctx, name)
		if err != nil && !absent(err) {
			return fmt.Errorf("starting %s again: %w", name, err)
		}
	}
	o.Restart = nil
	return i.b.ledger.Record(o)
}

func (b *bench) undoService(ctx context.Context, o Owned) error {
	if o.Use {
		return b.letGo(ctx, o)
	}
	if err := b.stopTree(ctx, o.Name); err != nil && !absent(err) {
		return err
	}
	return b.Delete(ctx, o.Name)
}

// letGo starts a service that is somebody else's once more, now that its files are as they were.
func (b *bench) letGo(ctx context.Context, o Owned) error {
	if _, err := b.sys.Services.Config(o.Name); absent(err) {
		return nil
	}
	if err := b.stopTree(ctx, o.Name); err != nil {
		return err
	}
	if err := b.Start(ctx, o.Name); err != nil {
		return err
	}
	return serviceItem{b, plan.Service{Name: o.Name, Existing: plan.ExistingUse}}.restartOthers(ctx)
}
