package wmcbe2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	machinev1 "github.com/openshift/api/machine/v1beta1"

	"github.com/windowsmachine/operator/test/bed"
)

// manifests are what the Job needs, below the repository's root.
const manifests = "hack/wmcb-ci-e2e"

// OnBed prepares a bed that looks like OpenShift for a run with -skipVMSetup: it applies the Job's rights, has the API server judge the Job,
// makes a MachineSet of one, and returns the flags with files in dir, and the Machine that is Provisioned.
func OnBed(ctx context.Context, b *bed.Bed, root, dir string, o Options) (Options, machinev1.Machine, error) {
	fail := func(err error) (Options, machinev1.Machine, error) {
		return Options{}, machinev1.Machine{}, fmt.Errorf("preparing the bed: %w", err)
	}
	root, err := filepath.Abs(root)
	if err != nil {
		return fail(err)
	}
	access, err := os.ReadFile(filepath.Join(root, manifests, "access.yaml"))
	if err != nil {
		return fail(err)
	}
	if err := b.Apply(ctx, access); err != nil {
		return fail(err)
	}
	// Nobody runs the Job here, but the API server has to take it.
	if _, err := b.Kubectl(ctx, "apply", "--dry-run=server", "--validate=strict", "-f", filepath.Join(root, manifests, "job.yaml")); err != nil {
		return fail(err)
	}
	kubeconfig, err := b.ServiceAccountKubeconfig(ctx, namespace, account)
	if err != nil {
		return fail(err)
	}
	o.Kubeconfig, o.SSHKey, o.SkipVMSetup = filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "private-key"), true
	if err := errors.Join(os.WriteFile(o.Kubeconfig, kubeconfig, 0o600), os.WriteFile(o.SSHKey, b.PrivateKey(), 0o600)); err != nil {
		return fail(err)
	}
	if o.Artifacts == "" {
		o.Artifacts = filepath.Join(dir, "artifacts")
	}
	if err := b.ApplyMachineSet(ctx, 1); err != nil {
		return fail(err)
	}
	var m machinev1.Machine
	err = until(ctx, nodePatience, func(ctx context.Context) (bool, string, error) {
		list, err := machines(ctx, b.Client)
		if err != nil {
			return false, "", err
		}
		m, err = pick(list)
		return err == nil, fmt.Sprint(err), nil
	})
	if err != nil {
		return fail(err)
	}
	return o, m, nil
}
