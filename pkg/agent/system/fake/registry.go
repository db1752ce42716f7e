package fake

import (
	"context"
	"crypto/x509"
	"encoding/hex"
	"strings"

	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/plan"
)

type environment struct{ view }

// Get compares names without regard to case, as the registry and the environment do.
func (v environment) Get(name string) (string, bool, error) {
	if err := v.lock(); err != nil {
		return "", false, err
	}
	defer v.unlock()
	e, ok := v.m.env[fold(name)]
	return e.Value, ok, nil
}

// Set refuses names with '=' and values with NUL, which an environment block cannot hold ("Environment Variables"), and
// values over 32,767 characters.
func (v environment) Set(name, value string) error {
	if err := v.lockAdmin("set variable", name); err != nil {
		return err
	}
	defer v.unlock()
	if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0) || len(value) > 32767 {
		return refuse("set variable", name, codeInvalidParameter, nil)
	}
	if old, ok := v.m.env[fold(name)]; ok {
		name = old.Name // a registry value keeps the case it was made with
	}
	v.m.env[fold(name)] = plan.EnvVar{Name: name, Value: value}
	return nil
}

func (v environment) Unset(name string) error {
	if err := v.lockAdmin("unset variable", name); err != nil {
		return err
	}
	defer v.unlock()
	delete(v.m.env, fold(name))
	return nil
}

// Feature is the state of an optional feature.
type Feature struct {
	// Enabled now; Pending will be enabled by the next boot.
	Enabled, Pending bool
	// NoReboot is for features that can be enabled without a reboot.
	NoReboot bool
}

type features struct{ view }

// Enabled answers ErrUnsupported for a feature that this edition does not have (DISM's 0x800f080c).
func (v features) Enabled(name string) (enabled, pending bool, err error) {
	if err := v.lock(); err != nil {
		return false, false, err
	}
	defer v.unlock()
	key, ok := v.m.feature(name)
	if !ok {
		return false, false, refuse("query feature", name, codeDISMUnknownFeature, system.ErrUnsupported)
	}
	f := v.m.features[key]
	return f.Enabled, f.Pending, nil
}

func (m *Machine) feature(name string) (string, bool) {
	for key := range m.features {
		if fold(key) == fold(name) {
			return key, true
		}
	}
	return "", false
}

// Enable answers that a reboot is needed (3010 ERROR_SUCCESS_REBOOT_REQUIRED of DismEnableFeature) until it has happened.
func (v features) Enable(ctx context.Context, name string) (reboot bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if err := v.lockAdmin("enable feature", name); err != nil {
		return false, err
	}
	defer v.unlock()
	key, ok := v.m.feature(name)
	if !ok {
		return false, refuse("enable feature", name, codeDISMUnknownFeature, system.ErrUnsupported)
	}
	f := v.m.features[key]
	switch {
	case f.Enabled:
		return false, nil
	case f.NoReboot:
		f.Enabled = true
	default:
		f.Pending = true
	}
	v.m.features[key] = f
	return f.Pending, nil
}

type firewall struct{ view }

func (v firewall) Get(name string) (plan.FirewallRule, bool, error) {
	if err := v.lock(); err != nil {
		return plan.FirewallRule{}, false, err
	}
	defer v.unlock()
	r, ok := v.m.firewall[fold(name)]
	return r, ok, nil
}

// Set refuses what INetFwRule refuses: other protocols than asked for here, and ports out of range.
func (v firewall) Set(r plan.FirewallRule) error {
	if err := v.lockAdmin("set firewall rule", r.Name); err != nil {
		return err
	}
	defer v.unlock()
	if r.Name == "" || r.Port < 1 || r.Port > 65535 || r.Protocol != "TCP" && r.Protocol != "UDP" {
		return refuse("set firewall rule", r.Name, codeInvalidParameter, nil)
	}
	v.m.firewall[fold(r.Name)] = r
	return nil
}

// Delete of an absent rule is no error, as INetFwRules.Remove has none for it.
func (v firewall) Delete(name string) error {
	if err := v.lockAdmin("delete firewall rule", name); err != nil {
		return err
	}
	defer v.unlock()
	delete(v.m.firewall, fold(name))
	return nil
}

type certificates struct{ view }

func (v certificates) Has(store string, der []byte) (bool, error) {
	if err := v.lock(); err != nil {
		return false, err
	}
	defer v.unlock()
	certs, err := v.m.store(store)
	if err != nil {
		return false, err
	}
	return certs[hex.EncodeToString(der)], nil
}

// Add refuses bytes that are no certificate, as CertAddEncodedCertificateToStore does.
func (v certificates) Add(store string, der []byte) error {
	if err := v.lockAdmin("add certificate", store); err != nil {
		return err
	}
	defer v.unlock()
	certs, err := v.m.store(store)
	if err != nil {
		return err
	}
	if _, err := x509.ParseCertificate(der); err != nil {
		return refuse("add certificate", store, codeInvalidParameter, nil)
	}
	certs[hex.EncodeToString(der)] = true
	return nil
}

func (v certificates) Delete(store string, der []byte) error {
	if err := v.lockAdmin("delete certificate", store); err != nil {
		return err
	}
	defer v.unlock()
	certs, err := v.m.store(store)
	if err != nil {
		return err
	}
	delete(certs, hex.EncodeToString(der))
	return nil
}

func (m *Machine) store(name string) (map[string]bool, error) {
	if s := m.certs[strings.ToUpper(name)]; s != nil {
		return s, nil
	}
	return nil, refuse("open store", name, codeFileNotFound, system.ErrNotExist)
}

type defender struct{ view }

func (v defender) Running() (bool, error) {
	if err := v.lock(); err != nil {
		return false, err
	}
	defer v.unlock()
	return v.m.opts.Defender, nil
}

func (v defender) Has(e plan.DefenderExclusion) (bool, error) {
	if err := v.lock(); err != nil {
		return false, err
	}
	defer v.unlock()
	if !v.m.opts.Defender {
		return false, refuse("query exclusion", exclusionName(e), codeNotSupported, system.ErrUnsupported)
	}
	return v.m.defender[foldExclusion(e)], nil
}

func (v defender) Add(e plan.DefenderExclusion) error    { return v.set(e, true) }
func (v defender) Delete(e plan.DefenderExclusion) error { return v.set(e, false) }

func (v defender) set(e plan.DefenderExclusion, on bool) error {
	if err := v.lockAdmin("change exclusion", exclusionName(e)); err != nil {
		return err
	}
	defer v.unlock()
	switch {
	case !v.m.opts.Defender:
		return refuse("change exclusion", exclusionName(e), codeNotSupported, system.ErrUnsupported)
	case (e.Path == "") == (e.Process == ""):
		return refuse("change exclusion", exclusionName(e), codeInvalidParameter, nil)
	case on:
		v.m.defender[foldExclusion(e)] = true
	default:
		delete(v.m.defender, foldExclusion(e))
	}
	return nil
}

func exclusionName(e plan.DefenderExclusion) string { return e.Process + e.Path }

func foldExclusion(e plan.DefenderExclusion) plan.DefenderExclusion {
	return plan.DefenderExclusion{Process: fold(e.Process), Path: fold(e.Path)}
}

// PortOpen reports whether a firewall rule lets connections to the port in.
func (m *Machine) PortOpen(protocol string, port int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.firewall {
		if r.Protocol == protocol && r.Port == port {
			return true
		}
	}
	return false
}
