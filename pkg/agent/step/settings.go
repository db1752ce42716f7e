package step

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"

	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/plan"
)

// envItem is a machine-wide environment variable.
type envItem struct {
	b *bench
	v plan.EnvVar
}

func (i envItem) id() ID { return newID(KindEnv, i.v.Name) }

func (i envItem) name() string { return i.v.Name }

func (i envItem) check(context.Context) (string, error) {
	value, ok, err := i.b.sys.Env.Get(i.v.Name)
	switch {
	case err != nil:
		return "", err
	case !ok:
		return "not set", nil
	case value != i.v.Value:
		return "has another value", nil
	}
	return "", nil
}

func (i envItem) claim(context.Context) (Owned, error) {
	value, ok, err := i.b.sys.Env.Get(i.v.Name)
	return Owned{ID: i.id(), Name: i.v.Name, Existed: ok, Value: value}, err
}

func (i envItem) apply(context.Context) (bool, error) {
	return false, i.b.sys.Env.Set(i.v.Name, i.v.Value)
}

func (b *bench) undoEnv(_ context.Context, o Owned) error {
	if o.Existed {
		return b.sys.Env.Set(o.Name, o.Value)
	}
	return absentIsFine(b.sys.Env.Unset(o.Name))
}

// absentIsFine drops the error of a deletion that found nothing to delete.
func absentIsFine(err error) error {
	if errors.Is(err, system.ErrNotExist) {
		return nil
	}
	return err
}

// featureItem is a Windows optional feature. It is recorded so that support can see who turned it on.
type featureItem struct {
	b *bench
	f plan.Feature
}

func (i featureItem) id() ID { return newID(KindFeature, i.f.Name) }

func (i featureItem) name() string { return i.f.Name }

func (i featureItem) check(context.Context) (string, error) {
	enabled, pending, err := i.b.sys.Features.Enabled(i.f.Name)
	switch {
	case err != nil:
		return "", err
	case pending:
		return "enabled after the next reboot", nil
	case !enabled:
		return "not enabled", nil
	}
	return "", nil
}

func (i featureItem) claim(context.Context) (Owned, error) {
	return Owned{ID: i.id(), Name: i.f.Name}, nil
}

func (i featureItem) apply(ctx context.Context) (bool, error) {
	_, pending, err := i.b.sys.Features.Enabled(i.f.Name)
	if err != nil || pending {
		return pending, err
	}
	return i.b.sys.Features.Enable(ctx, i.f.Name)
}

// certificateItem is a certificate in a LocalMachine store.
type certificateItem struct {
	b     *bench
	store string
	der   []byte
}

func newCertificate(b *bench, c plan.Certificate) certificateItem {
	i := certificateItem{b: b, store: c.Store}
	// plan.Validate has made sure that there is one block; without one check fails.
	if block, _ := pem.Decode([]byte(c.PEM)); block != nil {
		i.der = block.Bytes
	}
	return i
}

func (i certificateItem) id() ID {
	sum := sha256.Sum256(i.der)
	return newID(KindCertificate, i.store+" "+hex.EncodeToString(sum[:]))
}

func (i certificateItem) name() string { return i.id().Key }

func (i certificateItem) check(context.Context) (string, error) {
	if len(i.der) == 0 {
		return "", errors.New("not a PEM block")
	}
	ok, err := i.b.sys.Certificates.Has(i.store, i.der)
	if err != nil || ok {
		return "", err
	}
	return "not in the store", nil
}

// claim: only a certificate that is not there is ever claimed, since one that is there is in sync.
func (i certificateItem) claim(context.Context) (Owned, error) {
	return Owned{ID: i.id(), Name: i.id().Key, Store: i.store, DER: i.der}, nil
}

func (i certificateItem) apply(context.Context) (bool, error) {
	return false, i.b.sys.Certificates.Add(i.store, i.der)
}

func (b *bench) undoCertificate(_ context.Context, o Owned) error {
	ok, err := b.sys.Certificates.Has(o.Store, o.DER)
	if err != nil || !ok {
		return err
	}
	return b.sys.Certificates.Delete(o.Store, o.DER)
}

// firewallItem is an inbound allow rule.
type firewallItem struct {
	b *bench
	r plan.FirewallRule
}

func (i firewallItem) id() ID { return newID(KindFirewall, i.r.Name) }

func (i firewallItem) name() string { return i.r.Name }

func (i firewallItem) check(context.Context) (string, error) {
	have, ok, err := i.b.sys.Firewall.Get(i.r.Name)
	switch {
	case err != nil:
		return "", err
	case !ok:
		return "missing", nil
	case have != i.r:
		return fmt.Sprintf("is for %s %d", have.Protocol, have.Port), nil
	}
	return "", nil
}

func (i firewallItem) claim(context.Context) (Owned, error) {
	o := Owned{ID: i.id(), Name: i.r.Name}
	have, ok, err := i.b.sys.Firewall.Get(i.r.Name)
	if ok {
		o.Existed, o.Rule = true, &have
	}
	return o, err
}

func (i firewallItem) apply(context.Context) (bool, error) {
	return false, i.b.sys.Firewall.Set(i.r)
}

func (b *bench) undoFirewall(_ context.Context, o Owned) error {
	if o.Existed && o.Rule != nil {
		return b.sys.Firewall.Set(*o.Rule)
	}
	_, ok, err := b.sys.Firewall.Get(o.Name)
	if err != nil || !ok {
		return err
	}
	return b.sys.Firewall.Delete(o.Name)
}

// defenderItem is an exclusion from Microsoft Defender; where Defender does not run there is nothing to exclude.
type defenderItem struct {
	b *bench
	e plan.DefenderExclusion
}

func (i defenderItem) id() ID {
	if i.e.Process != "" {
		return newID(KindDefender, "process "+i.e.Process)
	}
	return newID(KindDefender, "path "+i.e.Path)
}

func (i defenderItem) name() string { return i.id().Key }

func (i defenderItem) check(context.Context) (string, error) {
	if on, err := i.b.sys.Defender.Running(); err != nil || !on {
		return "", err
	}
	ok, err := i.b.sys.Defender.Has(i.e)
	if err != nil || ok {
		return "", err
	}
	return "not excluded", nil
}

func (i defenderItem) claim(context.Context) (Owned, error) {
	return Owned{ID: i.id(), Name: i.id().Key, Exclusion: &i.e}, nil
}

func (i defenderItem) apply(context.Context) (bool, error) { return false, i.b.sys.Defender.Add(i.e) }

func (b *bench) undoDefender(_ context.Context, o Owned) error {
	on, err := b.sys.Defender.Running()
	if err != nil || !on || o.Exclusion == nil {
		return err
	}
	ok, err := b.sys.Defender.Has(*o.Exclusion)
	if err != nil || !ok {
		return err
	}
	return b.sys.Defender.Delete(*o.Exclusion)
}

// routeItem is a route on the management interface.
type routeItem struct {
	b *bench
	r plan.Route
}

func (i routeItem) id() ID { return newID(KindRoute, i.r.Destination+" via "+i.r.NextHop) }

func (i routeItem) name() string { return i.id().Key }

func (i routeItem) check(context.Context) (string, error) {
	list, err := i.b.sys.Routes.List()
	if err != nil || slices.Contains(list, i.r) {
		return "", err
	}
	return "missing", nil
}

func (i routeItem) claim(context.Context) (Owned, error) {
	return Owned{ID: i.id(), Name: i.id().Key, Route: &i.r}, nil
}

func (i routeItem) apply(context.Context) (bool, error) { return false, i.b.sys.Routes.Add(i.r) }

func (b *bench) undoRoute(_ context.Context, o Owned) error {
	list, err := b.sys.Routes.List()
	if err != nil || o.Route == nil || !slices.Contains(list, *o.Route) {
		return err
	}
	return b.sys.Routes.Delete(*o.Route)
}
