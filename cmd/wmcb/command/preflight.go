package command

import (
	"context"
	"fmt"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/windowsmachine/operator/pkg/agent"
	"github.com/windowsmachine/operator/pkg/agent/disk"
	"github.com/windowsmachine/operator/pkg/bootstrapper"
	"github.com/windowsmachine/operator/pkg/plan"
	"github.com/windowsmachine/operator/pkg/planner"
)

// preflightFlags are what the command line tells of the cluster and of what is to be installed.
type preflightFlags struct {
	in      planner.PreflightInput
	ca      string
	kubelet kubeletFlags
}

func (p *program) preflight() *cobra.Command {
	var f preflightFlags
	c := &cobra.Command{
		Use:   "preflight",
		Short: "Say what stands in the way of making this machine a node; changes nothing",
		Long: `Print every check of this machine with its result and the way out, everything at once. What the cluster knows, and what 'wmcb initialize-kubelet'
shall be given, can be told by flags; what is not told is not looked at. Exit code 1 when there is something that stops it. On AWS the instance
must also have the cluster's tags, which cannot be seen from the machine.`,
		Example: `  wmcb preflight
  wmcb preflight --node-ip 192.0.2.10 --api-server https://api.example.test:6443 --ca C:\ca.crt
  wmcb preflight --ignition-file C:\worker.ign --kubelet-path C:\download\kubelet.exe`,
		Args: cobra.NoArgs,
		RunE: p.run(func(ctx context.Context) error {
			checks, err := p.checks(ctx, f)
			if err != nil {
				return p.fail(err, nil)
			}
			return p.checked(checks)
		}),
	}
	c.Flags().StringVar(&f.in.NodeIP, "node-ip", "", "address that the node shall have")
	c.Flags().StringVar(&f.in.NodeName, "node-name", "", "name that the node shall have")
	c.Flags().StringVar(&f.in.APIServer, "api-server", "", "https URL of the API server")
	c.Flags().StringVar(&f.ca, "ca", "", "file with the CA of the API server, PEM")
	c.Flags().StringVar(&f.kubelet.ignition, "ignition-file", "", "worker ignition file for initialize-kubelet")
	c.Flags().StringVar(&f.kubelet.kubelet, "kubelet-path", "", "kubelet.exe for initialize-kubelet")
	c.Flags().StringVar(&f.kubelet.containerd, "containerd-path", "", "folder with containerd for initialize-kubelet")
	c.Flags().StringVar(&f.kubelet.Platform, "platform-type", "", "cloud that the machine lives in")
	return c
}

func (p *program) checks(ctx context.Context, f preflightFlags) ([]planner.Check, error) {
	req := plan.FactsRequest{APIServer: f.in.APIServer}
	if f.ca != "" {
		b, err := disk.Read(p.env.System.Files, windowsPath(f.ca), maxRequest)
		if err != nil {
			return nil, fmt.Errorf("reading the CA: %w", err)
		}
		req.CA = b
	}
	in := f.in
	var err error
	if in.Host, err = p.agent.Facts(ctx, req); err != nil {
		return nil, err
	}
	in.CheckNodeIP = in.NodeIP != ""
	byHand := f.kubelet.ignition != "" || f.kubelet.kubelet != ""
	if byHand {
		// initialize-kubelet uses and replaces services of others.
		in.Host.ForeignServices = slices.DeleteFunc(in.Host.ForeignServices, func(s string) bool { return s == "containerd" || s == "kubelet" })
	}
	out := planner.Checks(in)
	if !byHand {
		return out, nil
	}
	more, err := p.bootstrapChecks(ctx, f)
	return append(out, more...), err
}

// bootstrapChecks are those of initialize-kubelet that preflight does not make anyway.
func (p *program) bootstrapChecks(ctx context.Context, f preflightFlags) ([]planner.Check, error) {
	k := f.kubelet
	k.InstallDir, k.LogDir = plan.InstallDir, bootstrapper.DefaultLogDir
	k.normalize()
	in, err := p.gatherKubelet(ctx, k)
	if err != nil {
		return nil, err
	}
	_, findings := bootstrapper.Initialize(in)
	var out []planner.Check
	for _, c := range []struct {
		name  string
		codes []planner.Code
		skip  bool
	}{
		{"ignition file", []planner.Code{bootstrapper.CodeIgnition, bootstrapper.CodeFieldsLeftOut, bootstrapper.CodeClusterDNS}, k.ignition == ""},
		{"kubelet", []planner.Code{bootstrapper.CodeKubelet, bootstrapper.CodeNoLog, bootstrapper.CodeReplaced}, k.kubelet == ""},
		{"container runtime", []planner.Code{bootstrapper.CodeRuntime, planner.CodeVersions}, k.kubelet == ""},
		{"platform", []planner.Code{bootstrapper.CodePlatform}, k.Platform == ""},
		{"owner", []planner.Code{bootstrapper.CodeOwner}, false},
	} {
		check := planner.NewCheck(c.name, slices.DeleteFunc(slices.Clone(findings), func(f planner.Finding) bool { return !slices.Contains(c.codes, f.Code) }))
		if c.skip {
			check = planner.Check{Name: c.name, Result: planner.ResultSkipped}
		}
		out = append(out, check)
	}
	return out, nil
}

// finding is a line of --json: a check that is in order, or one thing that a check found.
type finding struct {
	Check   string         `json:"check,omitempty"`
	Result  planner.Result `json:"result,omitempty"`
	Code    string         `json:"code,omitempty"`
	Message string         `json:"message,omitempty"`
	Fatal   bool           `json:"fatal"`
}

// finding prints what a command found before it did anything.
func (p *program) finding(f planner.Finding) error {
	return p.line(finding{Code: string(f.Code), Message: f.Message, Fatal: f.Fatal})
}

// lines are the rows of a check.
func lines(c planner.Check) []finding {
	if len(c.Findings) == 0 {
		return []finding{{Check: c.Name, Result: c.Result}}
	}
	var out []finding
	for _, f := range c.Findings {
		result := planner.ResultWarning
		if f.Fatal {
			result = planner.ResultStops
		}
		out = append(out, finding{c.Name, result, string(f.Code), f.Message, f.Fatal})
	}
	return out
}

// checked prints all checks and says whether one of them stops.
func (p *program) checked(checks []planner.Check) error {
	w := tabwriter.NewWriter(p.env.Stdout, 0, 0, 2, ' ', 0)
	stops := false
	for _, c := range checks {
		for _, l := range lines(c) {
			stops = stops || l.Fatal
			if p.json {
				if err := p.line(l); err != nil {
					return err
				}
				continue
			}
			text := l.Code
			if text != "" {
				text += ": " + agent.Detail(l.Message)
			}
			fmt.Fprintf(w, "%s\t%s\t%s\n", l.Check, l.Result, text)
		}
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("writing the output: %w", err)
	}
	if stops {
		return exit(ExitFailed)
	}
	return nil
}
