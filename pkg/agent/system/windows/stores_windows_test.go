package windows

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net/netip"
	"testing"
	"time"

	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/plan"
)

// newCertificate returns a certificate that nobody has.
func newCertificate(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "wmcb test"},
		NotBefore: time.Now(), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func TestCertificates(t *testing.T) {
	c := here(t).Certificates
	one, other := newCertificate(t), newCertificate(t)
	t.Cleanup(func() { _ = c.Delete("CA", one) })
	has := func(der []byte) bool {
		ok, err := c.Has("CA", der)
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	want(t, "add", c.Add("CA", one), nil)
	want(t, "add again", c.Add("CA", one), nil)
	if !has(one) || has(other) {
		t.Errorf("has %v, has another %v", has(one), has(other))
	}
	want(t, "delete of another", c.Delete("CA", other), nil)
	want(t, "delete", c.Delete("CA", one), nil)
	if has(one) {
		t.Error("still there")
	}
	if c.Add("MY", one) == nil || c.Add("CA", nil) == nil || c.Add("CA", make([]byte, maxCertificate+1)) == nil || c.Add("CA", []byte("no certificate")) == nil {
		t.Error("another store, or what is no certificate, was taken")
	}
}

func TestRoutesList(t *testing.T) {
	list, err := here(t).Routes.List()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range list {
		if _, err := netip.ParsePrefix(r.Destination); err != nil {
			t.Error(err)
		}
		if _, err := netip.ParseAddr(r.NextHop); err != nil {
			t.Error(err)
		}
	}
}

// TestRouteAddDelete needs an adapter with a default gateway.
func TestRouteAddDelete(t *testing.T) {
	r, route := here(t).Routes, plan.Route{Destination: "198.18.77.0/24", NextHop: "0.0.0.0"}
	t.Cleanup(func() { _ = r.Delete(route) })
	want(t, "add", r.Add(route), nil)
	want(t, "add again", r.Add(route), system.ErrExist)
	want(t, "delete", r.Delete(route), nil)
	want(t, "delete again", r.Delete(route), system.ErrNotExist)
}

func TestFirewallRuleLife(t *testing.T) {
	f, rule := here(t).Firewall, plan.FirewallRule{Name: "wmcb test", Protocol: "TCP", Port: 10250}
	t.Cleanup(func() { _ = f.Delete(rule.Name) })
	if _, ok, err := f.Get(rule.Name); ok || err != nil {
		t.Fatalf("before: %v %v", ok, err)
	}
	for _, port := range []int{10250, 10251} {
		rule.Port = port
		want(t, "set", f.Set(rule), nil)
		if got, ok, err := f.Get(rule.Name); err != nil || !ok || got != rule {
			t.Errorf("%+v %v %v", got, ok, err)
		}
	}
	want(t, "delete", f.Delete(rule.Name), nil)
	want(t, "delete again", f.Delete(rule.Name), nil)
	if _, ok, err := f.Get(rule.Name); ok || err != nil {
		t.Errorf("after: %v %v", ok, err)
	}
}

func TestUnknownFeature(t *testing.T) {
	_, _, err := here(t).Features.Enabled("No-Such-Feature")
	want(t, "unknown feature", err, system.ErrUnsupported)
}

// Without the Containers feature there is no HNS, and hcsshim would panic.
func TestNetworkThatIsNotThere(t *testing.T) {
	n := here(t).Networks
	_, err := n.Get("wmcb-no-such-network")
	if !errors.Is(err, system.ErrNetworkNotFound) && !errors.Is(err, system.ErrUnsupported) {
		t.Errorf("get: %v", err)
	}
	if err := n.Delete(t.Context(), "wmcb-no-such-network"); !errors.Is(err, system.ErrNetworkNotFound) && !errors.Is(err, system.ErrUnsupported) {
		t.Errorf("delete: %v", err)
	}
}

// TestDefenderExclusionLife: where Defender does not run, nothing else may be asked of it.
func TestDefenderExclusionLife(t *testing.T) {
	d, e := here(t).Defender, plan.DefenderExclusion{Path: `C:\wmcb-test-exclusion`}
	on, err := d.Running()
	if err != nil {
		t.Fatal(err)
	}
	if !on {
		return
	}
	t.Cleanup(func() { _ = d.Delete(e) })
	want(t, "add", d.Add(e), nil)
	if ok, err := d.Has(e); err != nil || !ok {
		t.Errorf("has %v %v", ok, err)
	}
	want(t, "delete", d.Delete(e), nil)
	if ok, err := d.Has(e); err != nil || ok {
		t.Errorf("still has %v %v", ok, err)
	}
}
