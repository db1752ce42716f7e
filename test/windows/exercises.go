package windows

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"time"

	"github.com/windowsmachine/operator/pkg/agent/disk"
	"github.com/windowsmachine/operator/pkg/plan"
)

// Names of what is made. 198.18.0.0/15 is kept for tests of devices (RFC 2544), 10.244.0.0/16 is a pod network's.
const (
	testName        = "wmo-test"
	testDestination = "198.18.77.0/24"
	testPods        = "10.244.77.0/24"
	testGateway     = "10.244.77.1"
	testEndpoint    = "10.244.77.2"
	testPort        = 47_777
)

func exercises() []exercise {
	return []exercise{
		{
			subject: plan.StepCredentials, plan: secretPlan,
			also: []check{{SubjectAccess, accessClasses}},
		},
		{subject: plan.StepEnvironment, plan: fixed(plan.Plan{Env: []plan.EnvVar{{Name: "WMO_TEST", Value: `http://u:p%23a%25ss@proxy;C:\a b`}}})},
		{
			subject: plan.StepFeatures, possible: featurePossible, lasting: true,
			plan: fixed(plan.Plan{Features: []plan.Feature{{Name: containersFeature}}}),
		},
		{subject: plan.StepDirectories, plan: fixed(plan.Plan{Directories: []plan.Directory{
			{Path: scratch + `\folders\public`, Access: plan.AccessPublic},
			{Path: scratch + `\folders\public\secret`, Access: plan.AccessSecret},
		}})},
		{
			subject: plan.StepDefender, possible: defenderPossible,
			plan: fixed(plan.Plan{Defender: []plan.DefenderExclusion{{Path: scratch}, {Process: scratch + `\none.exe`}}}),
		},
		{subject: plan.StepFiles, plan: filesPlan, after: oldFileIsBack},
		{subject: plan.StepCertificates, plan: certificatePlan},
		{subject: plan.StepFirewall, plan: fixed(plan.Plan{Firewall: []plan.FirewallRule{{Name: testName, Protocol: "TCP", Port: testPort}}})},
		{subject: plan.StepNetwork, possible: networkPossible, plan: networkPlan},
		{subject: plan.StepRoutes, possible: addressPossible, plan: routePlan},
		{
			subject: SubjectService, plan: servicePlan,
			also: []check{{SubjectOrder, serviceOrder}, {SubjectRecovery, serviceRecovery}},
		},
	}
}

func fixed(p plan.Plan) func(context.Context, *bench) (plan.Plan, error) {
	return func(context.Context, *bench) (plan.Plan, error) { return p, nil }
}

// facts asks everything that the machine says of itself.
func (m Machine) facts() Result {
	began := m.System.Clock.Now()
	m.Logf("=== %s", SubjectFacts)
	var errs []error
	name, err := m.System.Machine.Hostname()
	errs = append(errs, err)
	elevated, err := m.System.Machine.Elevated()
	errs = append(errs, err)
	if err == nil && !elevated {
		errs = append(errs, errNotElevated)
	}
	boot, err := m.System.Machine.BootID()
	errs = append(errs, err)
	free, err := m.System.Machine.FreeDisk(scratch)
	errs = append(errs, err)
	address, err := m.management()
	errs = append(errs, err)
	m.Logf("host name %q, boot %s, %d MB free, management address %s", name, boot, free>>20, address)
	if name == "" || boot == "" || free <= 0 {
		errs = append(errs, errEmptyFacts)
	}
	return m.told([]Result{Result{Step: SubjectFacts}.ended("", errors.Join(errs...))}, began)[0]
}

var (
	errNotElevated = errors.New("the test program runs without an administrator's rights: start it from an elevated prompt")
	errEmptyFacts  = errors.New("host name, boot identifier or free space is empty")
)

const secretPath = scratch + `\credential`

func secretPlan(_ context.Context, b *bench) (plan.Plan, error) {
	b.opts.Secrets = map[string][]byte{testName: []byte("not a real one")}
	return plan.Plan{Secrets: []plan.Secret{{Name: testName, Path: secretPath}}}, nil
}

// accessClasses: the secret can be read by the system and administrators only, and a file's class can be changed and read back.
func accessClasses(ctx context.Context, b *bench) error {
	if err := b.hasClass(secretPath, plan.AccessSecret); err != nil {
		return err
	}
	path := scratch + `\class`
	if err := b.write(ctx, path, plan.AccessPublic, []byte("x")); err != nil {
		return err
	}
	for _, access := range []plan.Access{plan.AccessSecret, plan.AccessPublic} {
		if err := b.System.Files.SetAccess(path, access); err != nil {
			return err
		}
		if err := b.hasClass(path, access); err != nil {
			return err
		}
	}
	return b.System.Files.Remove(path)
}

func (b *bench) hasClass(path string, want plan.Access) error {
	info, err := b.System.Files.Stat(path)
	if err != nil {
		return err
	}
	if info.Access != want {
		return fmt.Errorf("%s: %w: %q, not %q", path, errAccess, info.Access, want)
	}
	return nil
}

var errAccess = errors.New("the access control list is of another class")

func featurePossible(b *bench) (string, error) {
	enabled, pending, err := b.System.Features.Enabled(containersFeature)
	switch {
	case err != nil:
		return "", err
	case enabled:
		return "the feature Containers is enabled already", nil
	case pending:
		return "the feature Containers waits for a reboot already", nil
	case !b.EnableFeatures:
		return "the feature Containers is off; -enable-features turns it on, takes a reboot, and is not taken back", nil
	}
	return "", nil
}

func defenderPossible(b *bench) (string, error) {
	on, err := b.System.Defender.Running()
	if err != nil || on {
		return "", err
	}
	return "Microsoft Defender does not run here", nil
}

// oldFile is there before its path is in a plan.
const (
	oldFile    = scratch + `\was there.conf`
	oldContent = "of somebody else"
)

// filesPlan has a file of each origin; one was there before.
func filesPlan(ctx context.Context, b *bench) (plan.Plan, error) {
	if err := b.write(ctx, oldFile, plan.AccessPublic, []byte(oldContent)); err != nil {
		return plan.Plan{}, err
	}
	digest, err := b.blob(ctx, b.Program)
	return plan.Plan{Files: []plan.File{
		{Path: scratch + `\files\new folder\program.exe`, Access: plan.AccessPublic, Blob: digest},
		{Path: oldFile, Access: plan.AccessPublic, Inline: []byte("{}\n")},
	}}, err
}

func oldFileIsBack(_ context.Context, b *bench) error {
	got, err := disk.Read(b.System.Files, oldFile, int64(len(oldContent)))
	if err != nil {
		return err
	}
	if string(got) != oldContent {
		return fmt.Errorf("%s: %w: %q", oldFile, errNotBack, got)
	}
	return b.System.Files.Remove(oldFile)
}

var errNotBack = errors.New("the file that was there before has not come back")

func (b *bench) write(ctx context.Context, path string, access plan.Access, content []byte) error {
	return disk.Write(ctx, b.System.Files, path, access, bytes.NewReader(content), disk.Sum(content))
}

// blob puts content where steps look for the payload.
func (b *bench) blob(ctx context.Context, content []byte) (string, error) {
	digest := disk.Sum(content)
	path := disk.Join(agentRoot, "blobs", "sha256", digest)
	return digest, b.write(ctx, path, plan.AccessSecret, content)
}

// certificatePlan has a certificate that nobody has the key of.
func certificatePlan(context.Context, *bench) (plan.Plan, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return plan.Plan{}, err
	}
	now := time.Now()
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: testName}, NotBefore: now, NotAfter: now.Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		return plan.Plan{}, err
	}
	return plan.Plan{Certificates: []plan.Certificate{{Store: "ROOT", PEM: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))}}}, nil
}

func addressPossible(b *bench) (string, error) {
	_, err := b.management()
	if errors.Is(err, errNoAddress) {
		return err.Error(), nil
	}
	return "", err
}

func networkPossible(b *bench) (string, error) {
	on, err := b.containers()
	if err != nil {
		return "", err
	}
	if !on {
		return "the feature Containers is off, so there is no Host Networking Service", nil
	}
	return addressPossible(b)
}

func networkPlan(_ context.Context, b *bench) (plan.Plan, error) {
	address, err := b.management()
	b.Logf("the link drops for some seconds now")
	return plan.Plan{Networks: []plan.Network{{
		Name: testName, Type: plan.NetworkL2Bridge, ManagementIP: address.Addr().String(), Prefix: testPods, Gateway: testGateway,
		HostEndpoint: &plan.HostEndpoint{Name: testName + "-ep", Address: testEndpoint},
	}}}, err
}

// routePlan goes by a neighbour, whether there is one or not: a route by the machine's own address is none.
func routePlan(_ context.Context, b *bench) (plan.Plan, error) {
	address, err := b.management()
	if err != nil {
		return plan.Plan{}, err
	}
	hop := address.Addr().Next()
	if !address.Contains(hop) {
		hop = address.Addr().Prev()
	}
	return plan.Plan{Routes: []plan.Route{{Destination: testDestination, NextHop: hop.String()}}}, nil
}
