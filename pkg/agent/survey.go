package agent

import (
	"errors"
	"fmt"
	"slices"

	"github.com/windowsmachine/operator/pkg/agent/step"
	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/plan"
)

// Bounds on what of a survey is passed on.
const (
	maxSurveyItems = 64
	maxSurveyText  = 120
)

// neighbors are services of other products that run containers on Windows, or make networks for them.
func neighbors() []string {
	return []string{"docker", "com.docker.service", "rke2", "rancher-wins", "k0sworker", "flanneld", "CalicoNode", "CalicoFelix"}
}

// survey is what the machine says of the rest, in bounds. inventory is what the agent has installed, foreign are the services that stand in
// the way of a plan.
func (a *Agent) survey(inventory step.Inventory, foreign []string) (plan.Survey, error) {
	s := a.sys.Machine.Survey()
	s.InstallationType, s.NextHostname = shorten(s.InstallationType), shorten(s.NextHostname)
	s.Teams, s.RestartPending = shortList(s.Teams), shortList(s.RestartPending)
	s.DynamicPorts = s.DynamicPorts[:min(len(s.DynamicPorts), maxSurveyItems)]
	s.BusyPorts = busyPorts(s.BusyPorts, inventory)
	var err error
	s.Services, err = a.otherServices(foreign)
	return s, err
}

// busyPorts are those of a node on which somebody else listens: where the agent has installed the program that listens there, it is that one.
func busyPorts(listening []int, inventory step.Inventory) []int {
	var out []int
	for _, p := range []struct {
		port    int
		service string
	}{
		{plan.PortKubeletHealth, "kubelet"},
		{plan.PortProxyMetrics, "kube-proxy"},
		{plan.PortKubelet, "kubelet"},
		{plan.PortProxyHealth, "kube-proxy"},
	} {
		if slices.Contains(listening, p.port) && !step.OwnsService(inventory, p.service) {
			out = append(out, p.port)
		}
	}
	return out
}

// otherServices names the programs behind the services that stand in the way, and those of neighbors.
func (a *Agent) otherServices(foreign []string) ([]plan.ServiceProgram, error) {
	var out []plan.ServiceProgram
	for _, name := range slices.Concat(foreign, neighbors()) {
		c, err := a.sys.Services.Config(name)
		switch {
		case err == nil:
			out = append(out, plan.ServiceProgram{Name: shorten(name), Exe: shorten(c.Exe)})
		case !errors.Is(err, system.ErrServiceNotFound) && !errors.Is(err, system.ErrServiceMarked):
			return nil, fmt.Errorf("service %s: %w", name, err)
		}
	}
	return out, nil
}

func shortList(list []string) []string {
	var out []string
	for _, s := range list[:min(len(list), maxSurveyItems)] {
		out = append(out, shorten(s))
	}
	return out
}

// shorten bounds a text that the machine's owner or another program has chosen.
func shorten(s string) string {
	s = Detail(s)
	if len(s) > maxSurveyText {
		return s[:maxSurveyText]
	}
	return s
}
