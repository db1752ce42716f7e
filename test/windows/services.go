package windows

import (
	"context"
	"errors"
	"fmt"

	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/plan"
)

// Services that are made. The second depends on the first.
const (
	firstService  = testName + "-first"
	secondService = testName + "-second"
	serviceExe    = scratch + `\bin folder\service.exe`
)

// servicePlan has two services of the test program; their path has a space.
func servicePlan(ctx context.Context, b *bench) (plan.Plan, error) {
	digest, err := b.blob(ctx, b.Program)
	recovery := &plan.Recovery{RestartDelaySeconds: []int{1}, ResetSeconds: 600}
	return plan.Plan{
		Files: []plan.File{{Path: serviceExe, Access: plan.AccessPublic, Blob: digest}},
		Services: []plan.Service{
			{
				Name: firstService, DisplayName: "test of the Windows machine operator", Description: "may be deleted", Exe: serviceExe,
				Args: []string{asService, firstService, `C:\ends with\`, `say "hi"`}, Recovery: recovery, Watch: []string{serviceExe},
			},
			{
				Name: secondService, Exe: serviceExe, Args: []string{asService, secondService}, DependsOn: []string{firstService}, Recovery: recovery,
				Env: []plan.EnvVar{{Name: "WMO_TEST", Value: "of the service"}},
			},
		},
	}, err
}

var errNotSo = errors.New("the service is in another state")

// serviceOrder: both are stopped; starting the second brings up the first.
func serviceOrder(ctx context.Context, b *bench) error {
	for _, name := range []string{secondService, firstService} {
		if err := b.System.Services.Stop(name); err != nil {
			return err
		}
		if err := b.inState(ctx, name, system.ServiceStopped); err != nil {
			return err
		}
	}
	if err := b.System.Services.Start(secondService); err != nil {
		return err
	}
	if err := b.inState(ctx, secondService, system.ServiceRunning); err != nil {
		return err
	}
	return b.inState(ctx, firstService, system.ServiceRunning)
}

// serviceRecovery: the second dies; the service manager starts it again.
func serviceRecovery(ctx context.Context, b *bench) error {
	before, err := b.System.Services.Status(secondService)
	if err != nil {
		return err
	}
	if err := b.System.Services.Control(secondService, dieCode); err != nil {
		return err
	}
	return b.eventually(ctx, secondService+" runs again", func() error {
		now, err := b.System.Services.Status(secondService)
		if err == nil && (now.State != system.ServiceRunning || now.PID == before.PID) {
			err = fmt.Errorf("%w: %d, process %d", errNotSo, now.State, now.PID)
		}
		return err
	})
}

func (b *bench) inState(ctx context.Context, name string, want system.ServiceState) error {
	return b.eventually(ctx, fmt.Sprintf("%s is in state %d", name, want), func() error {
		now, err := b.System.Services.Status(name)
		if err == nil && now.State != want {
			err = fmt.Errorf("%w: %d", errNotSo, now.State)
		}
		return err
	})
}
