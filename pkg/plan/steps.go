package plan

import "strings"

// Steps of a run in the order in which they are applied. Each is what `kubectl get winhost` shows and what the journal
// names; a step that has nothing to do in a plan does not appear in it.
const (
	// StepCredentials puts secret files in place.
	StepCredentials = "write-credentials"
	// StepEnvironment sets machine-wide environment variables.
	StepEnvironment = "set-environment"
	// StepFeatures enables Windows features; it may need a reboot.
	StepFeatures = "enable-features"
	// StepDirectories makes folders.
	StepDirectories = "make-directories"
	// StepDefender excludes processes and folders from Microsoft Defender.
	StepDefender = "exclude-from-defender"
	// StepFiles installs binaries and configuration.
	StepFiles = "install-files"
	// StepCertificates imports certificates.
	StepCertificates = "import-certificates"
	// StepFirewall opens ports.
	StepFirewall = "open-firewall"
	// StepNetwork makes HNS networks; the machine's link drops while it runs.
	StepNetwork = "join-network"
	// StepRoutes sets routes.
	StepRoutes = "set-routes"
	// StepServicePrefix followed by a service's name installs and starts that service.
	StepServicePrefix = "start-"
)

// ServiceStep returns the step that installs and starts the named service.
func ServiceStep(name string) string { return StepServicePrefix + name }

// ServiceOf returns the service of a step made by ServiceStep.
func ServiceOf(step string) (string, bool) { return strings.CutPrefix(step, StepServicePrefix) }

// Steps returns the names of the steps of p in order.
func (p Plan) Steps() []string {
	var out []string
	for _, s := range []struct {
		name string
		n    int
	}{
		{StepCredentials, len(p.Secrets)},
		{StepEnvironment, len(p.Env)},
		{StepFeatures, len(p.Features)},
		{StepDirectories, len(p.Directories)},
		{StepDefender, len(p.Defender)},
		{StepFiles, len(p.Files)},
		{StepCertificates, len(p.Certificates)},
		{StepFirewall, len(p.Firewall)},
		{StepNetwork, len(p.Networks)},
		{StepRoutes, len(p.Routes)},
	} {
		if s.n > 0 {
			out = append(out, s.name)
		}
	}
	for _, s := range p.Services {
		out = append(out, ServiceStep(s.Name))
	}
	return out
}
