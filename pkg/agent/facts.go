package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/windowsmachine/operator/pkg/agent/disk"
	"github.com/windowsmachine/operator/pkg/agent/step"
	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/plan"
)

// productServices are the names of the services that plans make.
func productServices() []string {
	return []string{"containerd", "kubelet", "kube-proxy", "csi-proxy", "windows_exporter", "hybrid-overlay-node"}
}

// productFeatures are the Windows features that plans ask for.
func productFeatures() []string { return []string{"Containers"} }

// Facts says what the machine is like. It changes nothing, not even the agent's own folder.
func (a *Agent) Facts(ctx context.Context, req plan.FactsRequest) (plan.HostFacts, error) {
	f := plan.HostFacts{APIVersion: plan.FactsVersion, AgentVersion: a.version, Capabilities: capabilities(), Time: a.sys.Clock.Now().UTC()}
	for _, gather := range []func(context.Context, *plan.HostFacts) error{
		a.machineFacts, a.agentFacts, a.featureFacts, a.serviceFacts,
	} {
		if err := gather(ctx, &f); err != nil {
			return plan.HostFacts{}, fmt.Errorf("gathering facts: %w", err)
		}
	}
	if req.APIServer != "" {
		f.API = a.probe(ctx, req)
	}
	if ok, err := a.trusted(); err != nil || !ok {
		return f, err
	}
	var err error
	f.HaveBlobs, err = a.verified(ctx, req.Blobs)
	return f, err
}

func (a *Agent) machineFacts(_ context.Context, f *plan.HostFacts) error {
	m := a.sys.Machine
	var errs [6]error
	f.Hostname, errs[0] = m.Hostname()
	f.Build, f.UBR, errs[1] = m.Version()
	f.Elevated, errs[2] = m.Elevated()
	f.BootID, errs[3] = m.BootID()
	f.FreeDisk, errs[4] = m.FreeDisk(`C:\`)
	f.Addresses, errs[5] = m.Addresses()
	return errors.Join(errs[:]...)
}

func (a *Agent) agentFacts(ctx context.Context, f *plan.HostFacts) error {
	exe, err := a.sys.Machine.Executable()
	if err != nil {
		return err
	}
	f.AgentDigest, err = disk.Digest(ctx, a.sys.Files, exe)
	if err != nil && !errors.Is(err, system.ErrNotExist) {
		return err
	}
	if f.ServiceAgent, err = a.serviceAgent(ctx); err != nil {
		return err
	}
	f.Report, err = a.Report()
	return err
}

// serviceAgent is the digest of what the agent's service is configured to run, "" when there is no service. A file that cannot be read is
// as good as none: in both cases the next apply points the service to a file that can.
func (a *Agent) serviceAgent(ctx context.Context) (string, error) {
	have, exists, _, err := a.agentService()
	if err != nil || !exists {
		return "", err
	}
	digest, err := disk.Digest(ctx, a.sys.Files, have.Exe)
	if err != nil {
		return "", ctx.Err()
	}
	return digest, nil
}

func (a *Agent) featureFacts(_ context.Context, f *plan.HostFacts) error {
	for _, name := range productFeatures() {
		on, _, err := a.sys.Features.Enabled(name)
		switch {
		case errors.Is(err, system.ErrUnsupported):
		case err != nil:
			return fmt.Errorf("feature %s: %w", name, err)
		case on:
			f.Features = append(f.Features, name)
		}
	}
	var err error
	f.Defender, err = a.sys.Defender.Running()
	return err
}

// inventory is what the agent has installed, nothing where its folder is not its own.
func (a *Agent) inventory() (step.Inventory, error) {
	if ok, err := a.trusted(); err != nil || !ok {
		return nil, err
	}
	st, err := a.loadState()
	return st.Inventory, err
}

// serviceFacts names the services that stand in the way of a plan, and what else does.
func (a *Agent) serviceFacts(_ context.Context, f *plan.HostFacts) error {
	inventory, err := a.inventory()
	if err != nil {
		return err
	}
	for _, name := range productServices() {
		if step.OwnsService(inventory, name) {
			continue
		}
		_, err := a.sys.Services.Config(name)
		switch {
		case err == nil:
			f.ForeignServices = append(f.ForeignServices, name)
		case !errors.Is(err, system.ErrServiceNotFound) && !errors.Is(err, system.ErrServiceMarked):
			return fmt.Errorf("service %s: %w", name, err)
		}
	}
	f.Survey, err = a.survey(inventory, f.ForeignServices)
	return err
}
