package command

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/windowsmachine/operator/pkg/agent"
	"github.com/windowsmachine/operator/pkg/agent/step"
	"github.com/windowsmachine/operator/pkg/bootstrapper"
	"github.com/windowsmachine/operator/pkg/plan"
	"github.com/windowsmachine/operator/pkg/planner"
)

// The last line of standard output of a command that has succeeded, for scripts that look for it.
const (
	saidInitialized = "Bootstrapping completed successfully"
	saidConfigured  = "CNI configuration completed successfully"
	saidUninstalled = "kubelet uninstalled successfully"
)

// kubeletFlags are those of initialize-kubelet.
type kubeletFlags struct {
	bootstrapper.Flags
	ignition, kubelet, containerd string
	dry                           bool
}

func (f *kubeletFlags) register(c *cobra.Command) {
	c.Flags().StringVar(&f.ignition, "ignition-file", "", "worker ignition file (required)")
	c.Flags().StringVar(&f.kubelet, "kubelet-path", "", "kubelet.exe to install (required)")
	c.Flags().StringVar(&f.containerd, "containerd-path", "", "folder with containerd.exe and containerd-shim-runhcs-v1.exe, installed when there is no containerd")
	c.Flags().StringVar(&f.InstallDir, "install-dir", plan.InstallDir, "where programs and configuration go")
	c.Flags().StringVar(&f.LogDir, "log-dir", bootstrapper.DefaultLogDir, "where the logs go")
	c.Flags().StringVar(&f.NodeIP, "node-ip", "", "address that the node registers with")
	c.Flags().StringVar(&f.ClusterDNS, "cluster-dns", "", "addresses of the cluster's DNS server, separated by commas")
	c.Flags().StringVar(&f.Platform, "platform-type", "", "cloud that the machine lives in; aws takes the node's name from the instance's metadata")
	c.Flags().StringVar(&f.Verbosity, "kubelet-verbosity", "", "level of the kubelet's log; the ignition's level, or 3, when not given")
	c.Flags().StringVar(&f.HostnameOverride, "hostname-override", "", "name of the node; the machine's host name when not given")
	c.Flags().StringVar(&f.Labels, "node-labels", "", "labels of the node, key=value separated by commas")
	c.Flags().StringVar(&f.Taints, "register-with-taints", "", "taints beside os=Windows:NoSchedule, key=value:effect separated by commas")
}

// normalize makes Windows paths of what was typed.
func (f *kubeletFlags) normalize() {
	for _, path := range []*string{&f.ignition, &f.kubelet, &f.containerd, &f.InstallDir, &f.LogDir} {
		*path = windowsPath(*path)
	}
}

func (p *program) initializeKubelet() *cobra.Command {
	var f kubeletFlags
	c := &cobra.Command{
		Use:   "initialize-kubelet",
		Short: "Make this machine a node with a worker's ignition file and a kubelet",
		Long: `Make this machine a node: take the bootstrap kubeconfig and the kubelet's configuration from the cluster's worker ignition file, correct what
Windows needs otherwise, and run the kubelet as a Windows service. The node has the taint os=Windows:NoSchedule; its certificate requests have to
be approved. The command may be repeated and interrupted; run again it removes the network of 'wmcb configure-cni', so that another one can be chosen.

It needs
  - Windows Server 2019 or newer, and an administrator
  - a worker ignition file of the cluster (spec 2.0 to 3.5, also compressed) on disk
  - the kubelet.exe to use on disk, v1.16 or newer; kube-log-runner.exe beside it gives a log file to v1.26 and newer
  - a container runtime: a service containerd, or --containerd-path, or a service docker for kubelets up to v1.23
  - on AWS, an instance with the same tags as the other workers
Everything that is missing is named before anything is changed.`,
		Example: `  wmcb initialize-kubelet --ignition-file C:\worker.ign --kubelet-path C:\download\kubelet.exe --containerd-path C:\download --dry-run`,
		Args:    cobra.NoArgs,
		RunE: p.run(func(ctx context.Context) error {
			f.normalize()
			in, err := p.gatherKubelet(ctx, f)
			if err != nil {
				return p.failed(err)
			}
			part, findings := bootstrapper.Initialize(in)
			return p.carryOut(ctx, task{
				part: part, findings: findings, dry: f.dry, name: bootstrapper.PartKubelet, drop: []string{bootstrapper.PartNetwork}, said: saidInitialized,
			})
		}),
	}
	f.register(c)
	c.Flags().BoolVar(&f.dry, "dry-run", false, "print what would change and change nothing")
	_, _ = c.MarkFlagRequired("ignition-file"), c.MarkFlagRequired("kubelet-path")
	return c
}

// cniFlags are those of configure-cni.
type cniFlags struct {
	dir, config, install string
	dry                  bool
}

func (p *program) configureCNI() *cobra.Command {
	var f cniFlags
	c := &cobra.Command{
		Use:   "configure-cni",
		Short: "Give the node's pods a network with CNI plugins and their configuration",
		Long: `Give the node's pods a network: install CNI plugins and their configuration, and have the container runtime use them. With containerd that stands
in its configuration; a containerd that somebody else installed keeps all of its own but the two folders. With Docker it goes by flags of the kubelet.

It needs
  - a machine on which 'wmcb initialize-kubelet' has run; run again, that command removes the network
  - a folder with the plugins, win-overlay.exe or the like
  - a configuration of CNI spec 0.2 to 1.1, one plugin (.conf) or a list (.conflist)
  - the HNS network that the configuration names, for win-bridge and win-overlay
Everything that is missing is named before anything is changed.`,
		Example: `  wmcb configure-cni --cni-dir C:\download\cni --cni-config C:\download\cni.conf`,
		Args:    cobra.NoArgs,
		RunE: p.run(func(ctx context.Context) error {
			f.dir, f.config, f.install = windowsPath(f.dir), windowsPath(f.config), windowsPath(f.install)
			in, err := p.gatherNetwork(ctx, f)
			if err != nil {
				return p.failed(err)
			}
			part, findings := bootstrapper.ConfigureCNI(in)
			return p.carryOut(ctx, task{part: part, findings: findings, dry: f.dry, name: bootstrapper.PartNetwork, said: saidConfigured})
		}),
	}
	c.Flags().StringVar(&f.dir, "cni-dir", "", "folder with the CNI plugins (required)")
	c.Flags().StringVar(&f.config, "cni-config", "", "CNI configuration (required)")
	c.Flags().StringVar(&f.install, "install-dir", "", "where initialize-kubelet has put programs and configuration (default: there)")
	c.Flags().BoolVar(&f.dry, "dry-run", false, "print what would change and change nothing")
	_, _ = c.MarkFlagRequired("cni-dir"), c.MarkFlagRequired("cni-config")
	return c
}

func (p *program) uninstallKubelet() *cobra.Command {
	return &cobra.Command{
		Use:   "uninstall-kubelet",
		Short: "Take back what initialize-kubelet and configure-cni made",
		Long: `Take back what 'wmcb initialize-kubelet' and 'wmcb configure-cni' made: the services, the files, the network's configuration; what was there before
is put back. The Node object stays in the cluster; delete it there. The command may be repeated. It needs an administrator.`,
		Example: `  wmcb uninstall-kubelet`,
		Args:    cobra.NoArgs,
		RunE:    p.run(p.uninstall),
	}
}

// task is what one of the commands has decided to do.
type task struct {
	part     bootstrapper.Part
	findings []planner.Finding
	dry      bool
	// name of the part, and the parts that go with it.
	name string
	drop []string
	// said is the last line when it is done.
	said string
}

// carryOut names what stands in the way, or puts the part into the plan and watches the run.
func (p *program) carryOut(ctx context.Context, t task) error {
	if err := p.tell(t.findings); err != nil {
		return err
	}
	if planner.Fatal(t.findings) {
		return exit(ExitFailed)
	}
	part := agent.Part{Name: t.name, Plan: t.part.Plan, Drop: t.drop, Secrets: t.part.Secrets, Cluster: t.part.Cluster}
	if t.dry {
		differences, err := p.agent.PreviewPart(ctx, part)
		if err != nil {
			return p.failed(err)
		}
		return p.differences(differences)
	}
	return p.watched(func(ctx context.Context) error { return p.accepted(ctx, t, part) })(ctx)
}

func (p *program) accepted(ctx context.Context, t task, part agent.Part) error {
	blobs := map[string]string{}
	for _, b := range t.part.Blobs {
		blobs[b.SHA256] = b.Path
	}
	if err := p.agent.Take(ctx, blobs); err != nil {
		return p.failed(err)
	}
	receipt, err := p.agent.AcceptPart(ctx, part)
	if err != nil {
		return p.failed(err)
	}
	if err := p.agent.EnsureService(ctx); err != nil {
		return p.failed(err)
	}
	r, err := p.agent.Follow(ctx, receipt, p.progress)
	if err != nil {
		return p.failed(err)
	}
	return p.finished(r, t.said)
}

// finished prints the last line of a run that has succeeded.
func (p *program) finished(r plan.Report, said string) error {
	if err := ended(r); err != nil {
		if r.Phase == plan.PhaseRebootNeeded {
			p.note("Windows must be restarted; the rest happens by itself afterwards, and 'wmcb status' says how far it is.")
		}
		return err
	}
	return p.lastLine(said)
}

// message is the last line of a command with --json.
type message struct {
	Message string `json:"message"`
}

func (p *program) lastLine(text string) error {
	if p.json {
		return p.line(message{text})
	}
	if _, err := fmt.Fprintln(p.env.Stdout, text); err != nil {
		return fmt.Errorf("writing the output: %w", err)
	}
	return nil
}

// note prints a line for people beside the output.
func (p *program) note(text string) {
	if !p.json {
		fmt.Fprintln(p.env.Stderr, agent.Detail(text))
	}
}

// progress prints a report where a script does not look: on standard error, unless lines of JSON are asked for.
func (p *program) progress(r plan.Report) error {
	if p.json {
		return p.report(r)
	}
	if text := sentence(r); text != p.noted {
		p.noted = text
		p.note(text)
	}
	return nil
}

// failed is fail for the commands that print their progress on standard error.
func (p *program) failed(err error) error {
	if p.json {
		return p.fail(err, nil)
	}
	fmt.Fprintf(p.env.Stderr, "Failed: %s: %s\n", agent.CodeOf(err), agent.Detail(err.Error()))
	return exit(exitOf(err))
}

// tell prints findings: lines of JSON on standard output, sentences on standard error.
func (p *program) tell(list []planner.Finding) error {
	for _, f := range list {
		if p.json {
			if err := p.finding(f); err != nil {
				return err
			}
			continue
		}
		kind := "Warning"
		if f.Fatal {
			kind = "Stops"
		}
		// Whole, unlike what goes into reports: a finding says everything at once.
		fmt.Fprintf(p.env.Stderr, "%s: %s: %s\n", kind, f.Code, f.Message)
	}
	return nil
}

// differences prints what a run would do.
func (p *program) differences(list []step.Difference) error {
	if len(list) == 0 && !p.json {
		return p.lastLine("Nothing would change.")
	}
	for _, d := range list {
		if p.json {
			if err := p.line(d); err != nil {
				return err
			}
			continue
		}
		if err := p.difference(d); err != nil {
			return fmt.Errorf("writing the output: %w", err)
		}
	}
	return nil
}

func (p *program) difference(d step.Difference) error {
	why := ""
	if d.Why != "" {
		why = " (" + d.Why + ")"
	}
	_, err := fmt.Fprintf(p.env.Stdout, "%-6s %s %s%s\n", d.Kind, d.Object, d.Name, why)
	for _, side := range []struct {
		sign string
		args []string
	}{{"-", d.Minus}, {"+", d.Plus}} {
		for _, a := range side.args {
			if err == nil {
				_, err = fmt.Fprintf(p.env.Stdout, "         %s %s\n", side.sign, agent.Detail(a))
			}
		}
	}
	return err
}

// uninstall takes the two parts away, and the agent with them when nothing else is left.
func (p *program) uninstall(ctx context.Context) error {
	facts, err := p.agent.Facts(ctx, plan.FactsRequest{})
	if err != nil {
		return p.failed(err)
	}
	findings, parts, err := p.mayUninstall(facts)
	if err != nil {
		return p.failed(err)
	}
	if err := p.tell(findings); err != nil {
		return err
	}
	if len(findings) > 0 {
		return exit(ExitFailed)
	}
	if parts == 0 {
		p.note("There is no kubelet of wmcb's on this machine.")
	}
	return p.watched(func(ctx context.Context) error { return p.takeBack(ctx, parts) })(ctx)
}

// mayUninstall says what stands in the way, and how many parts there are.
func (p *program) mayUninstall(facts plan.HostFacts) (findings []planner.Finding, parts int, err error) {
	all, whole, err := p.agent.Parts()
	if err != nil {
		return nil, 0, err
	}
	if !facts.Elevated {
		findings = append(findings, planner.Finding{Code: planner.CodeNotElevated, Fatal: true, Message: "the session is not elevated; run it as an administrator"})
	}
	switch {
	case whole:
		findings = append(findings, planner.Finding{
			Code: bootstrapper.CodeOwner, Fatal: true,
			Message: "the operator keeps this machine; delete its WindowsHost object, or run 'wmcb remove'",
		})
	case slices.Contains(facts.ForeignServices, "kubelet") && len(all) == 0:
		findings = append(findings, planner.Finding{
			Code: planner.CodeForeignService, Fatal: true,
			Message: "service kubelet was not made by wmcb; 'sc.exe stop kubelet' and 'sc.exe delete kubelet' remove it",
		})
	}
	return findings, len(all), nil
}

func (p *program) takeBack(ctx context.Context, parts int) error {
	all, _, err := p.agent.Parts()
	if err != nil {
		return p.failed(err)
	}
	delete(all, bootstrapper.PartKubelet)
	delete(all, bootstrapper.PartNetwork)
	if parts > 0 && len(all) > 0 {
		return p.accepted(ctx, task{said: saidUninstalled}, agent.Part{
			Name: bootstrapper.PartKubelet, Plan: plan.Empty(), Drop: []string{bootstrapper.PartNetwork},
		})
	}
	r, err := p.agent.Remove(ctx, plan.Claim{}, p.progress)
	if err != nil {
		return p.failed(err)
	}
	return p.finished(r, saidUninstalled)
}
