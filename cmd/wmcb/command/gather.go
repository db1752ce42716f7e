package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/windowsmachine/operator/pkg/agent/disk"
	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/bootstrapper"
	"github.com/windowsmachine/operator/pkg/plan"
)

// versionTimeout bounds `kubelet.exe --version`.
const versionTimeout = 10 * time.Second

const (
	// maxProgram bounds a program that is taken into the payload, in bytes; maxPlugins the number of network plugins.
	maxProgram = 1 << 30
	maxPlugins = 64
	// maxConfig bounds a configuration of containerd or of a network, in bytes.
	maxConfig = 1 << 20
)

// errRelative: the process may have been started in any folder.
var errRelative = errors.New(`is not an absolute path, such as C:\k\kubelet.exe`)

// windowsPath takes a path as people and scripts type it: forward slashes do as well.
func windowsPath(path string) string { return strings.ReplaceAll(path, "/", `\`) }

func absolute(path string) error {
	if len(path) < 4 || path[1] != ':' || path[2] != '\\' {
		return fmt.Errorf("%q %w", path, errRelative)
	}
	return nil
}

// read returns the content of a file that a flag names.
func (p *program) read(path string, limit int64) ([]byte, error) {
	if err := absolute(path); err != nil {
		return nil, err
	}
	return disk.Read(p.env.System.Files, path, limit)
}

// look finds out what a file is: its size and digest.
func (p *program) look(ctx context.Context, path string) bootstrapper.Program {
	out := bootstrapper.Program{Path: path}
	if out.Err = absolute(path); out.Err != nil {
		return out
	}
	info, err := p.env.System.Files.Stat(path)
	if err != nil {
		out.Err = fmt.Errorf("looking at %s: %w", path, err)
		return out
	}
	if out.Err = isProgram(path, info); out.Err != nil {
		return out
	}
	out.Size = info.Size
	out.SHA256, out.Err = disk.Digest(ctx, p.env.System.Files, path)
	return out
}

// isProgram refuses what can be no program.
func isProgram(path string, info system.Info) error {
	switch {
	case info.Dir:
		return fmt.Errorf("%s is a folder", path)
	case info.Size > maxProgram:
		return fmt.Errorf("%s has %d bytes: %w (%d)", path, info.Size, disk.ErrTooLarge, maxProgram)
	}
	return nil
}

// ask is look for a program that says its version.
func (p *program) ask(ctx context.Context, path string) bootstrapper.Program {
	out := p.look(ctx, path)
	if out.Err != nil {
		return out
	}
	ctx, cancel := p.timeout(ctx, versionTimeout)
	defer cancel()
	b, err := p.env.System.Programs.Output(ctx, path, "--version")
	if err != nil {
		out.Err = fmt.Errorf("asking %s for its version: %w", path, err)
	}
	out.Output = string(b)
	return out
}

// timeout is a deadline by the machine's clock.
func (p *program) timeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		if p.env.System.Clock.Sleep(ctx, d) == nil {
			cancel(context.DeadlineExceeded)
		}
	}()
	return ctx, func() { cancel(nil) }
}

// beside looks for a program in the folder of another; one that is not there has no path.
func (p *program) beside(ctx context.Context, path, name string) bootstrapper.Program {
	other := disk.Join(disk.Parent(path), name)
	if there, err := disk.Exists(p.env.System.Files, other); err != nil || !there {
		return bootstrapper.Program{}
	}
	return p.look(ctx, other)
}

// runtime asks the service manager what runs containers. path is --containerd-path, a folder or the program in it.
func (p *program) runtime(ctx context.Context, facts plan.HostFacts, path string) (bootstrapper.Runtime, error) {
	var out bootstrapper.Runtime
	containerd, err := p.serviceExe("containerd")
	if err != nil {
		return out, err
	}
	if containerd != "" {
		out.Own = !slices.Contains(facts.ForeignServices, "containerd")
		out.Containerd = p.ask(ctx, containerd)
	}
	if path == "" && out.Own {
		// A former run installed it; it stays.
		path = disk.Parent(containerd)
	}
	if path != "" {
		if !strings.HasSuffix(disk.Key(path), ".exe") {
			path = disk.Join(path, "containerd.exe")
		}
		out.Given = p.ask(ctx, path)
		out.Shim = p.look(ctx, disk.Join(disk.Parent(path), "containerd-shim-runhcs-v1.exe"))
	}
	docker, err := p.serviceExe("docker")
	out.Docker = docker != ""
	return out, err
}

// serviceExe is the program of a service, "" when there is no such service.
func (p *program) serviceExe(name string) (string, error) {
	c, err := p.env.System.Services.Config(name)
	if errors.Is(err, system.ErrServiceNotFound) || errors.Is(err, system.ErrServiceMarked) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("asking for service %s: %w", name, err)
	}
	return c.Exe, nil
}

// before returns the parts that earlier commands left, nil where one is absent, and whether the machine has a plan that is none of theirs.
func (p *program) before() (kubelet, network *plan.Plan, operator bool, err error) {
	parts, operator, err := p.agent.Parts()
	if err != nil {
		return nil, nil, false, err
	}
	if k, ok := parts[bootstrapper.PartKubelet]; ok {
		kubelet = &k
	}
	if n, ok := parts[bootstrapper.PartNetwork]; ok {
		network = &n
	}
	return kubelet, network, operator, nil
}

// temporary reports whether the volume of a folder is one that a cloud wipes; it says so with a file (Azure's temporary disk).
func (p *program) temporary(folder string) bool {
	if len(folder) < 3 {
		return false
	}
	there, err := disk.Exists(p.env.System.Files, folder[:3]+"DATALOSS_WARNING_README.txt")
	return err == nil && there
}

func (p *program) gatherKubelet(ctx context.Context, f kubeletFlags) (bootstrapper.Inputs, error) {
	in := bootstrapper.Inputs{Flags: f.Flags, Temporary: p.temporary(f.InstallDir)}
	var err error
	if in.Host, err = p.agent.Facts(ctx, plan.FactsRequest{}); err != nil {
		return in, err
	}
	if in.Before, _, in.Operator, err = p.before(); err != nil {
		return in, err
	}
	in.Ignition, in.IgnitionErr = p.read(f.ignition, bootstrapper.MaxIgnition)
	in.Kubelet = p.ask(ctx, f.kubelet)
	in.LogRunner = p.beside(ctx, f.kubelet, "kube-log-runner.exe")
	if in.Runtime, err = p.runtime(ctx, in.Host, f.containerd); err != nil {
		return in, err
	}
	if bootstrapper.IsAWS(f.Platform) && f.HostnameOverride == "" {
		in.Hostname, in.HostnameErr = p.awsHostname(ctx)
	}
	return in, nil
}

func (p *program) gatherNetwork(ctx context.Context, f cniFlags) (bootstrapper.NetworkInputs, error) {
	in := bootstrapper.NetworkInputs{InstallDir: f.install}
	var err error
	if in.Host, err = p.agent.Facts(ctx, plan.FactsRequest{}); err != nil {
		return in, err
	}
	if in.Kubelet, in.Before, in.Operator, err = p.before(); err != nil {
		return in, err
	}
	in.Config, in.ConfigErr = p.read(f.config, maxConfig)
	in.Plugins, in.PluginsErr = p.plugins(ctx, f.dir)
	if in.Runtime, err = p.runtime(ctx, in.Host, ""); err != nil {
		return in, err
	}
	p.gatherTOML(&in)
	if in.Folder, err = p.folder(bootstrapper.ConfigFolder(bootstrapper.InstallDirOf(in.Kubelet))); err != nil {
		return in, err
	}
	in.Networks = p.networks(in.Config)
	return in, nil
}

// plugins are the files of a folder; folders in it are passed over.
func (p *program) plugins(ctx context.Context, folder string) ([]bootstrapper.Program, error) {
	if err := absolute(folder); err != nil {
		return nil, err
	}
	info, err := p.env.System.Files.Stat(folder)
	if err == nil && !info.Dir {
		err = errors.New("it is a file, not a folder")
	}
	if err != nil {
		return nil, fmt.Errorf("looking at %s: %w", folder, err)
	}
	list, err := p.env.System.Files.ReadDir(folder)
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", folder, err)
	}
	list = slices.DeleteFunc(list, func(i system.Info) bool { return i.Dir })
	if len(list) > maxPlugins {
		return nil, fmt.Errorf("%s holds %d files: %w (%d)", folder, len(list), disk.ErrTooLarge, maxPlugins)
	}
	var out []bootstrapper.Program
	for _, e := range list {
		out = append(out, p.look(ctx, e.Path))
	}
	return out, nil
}

// defaultTOML is where containerd looks when its command line does not say.
const defaultTOML = `C:\Program Files\containerd\config.toml`

// gatherTOML reads the configuration of a containerd that is not this product's.
func (p *program) gatherTOML(in *bootstrapper.NetworkInputs) {
	if in.Runtime.Containerd.Path == "" || in.Runtime.Own {
		return
	}
	in.TOMLPath = defaultTOML
	c, err := p.env.System.Services.Config("containerd")
	if err != nil {
		in.TOMLErr = err
		return
	}
	if path := configOf(c.Args); path != "" {
		in.TOMLPath = windowsPath(path)
	}
	in.TOML, in.TOMLErr = p.read(in.TOMLPath, maxConfig)
	if errors.Is(in.TOMLErr, system.ErrNotExist) {
		in.TOML, in.TOMLErr = nil, nil
	}
}

// configOf finds --config=X, --config X, -c X.
func configOf(args []string) string {
	out := ""
	for i, a := range args {
		name, value, joined := strings.Cut(a, "=")
		switch name {
		case "--config", "-config", "-c":
		default:
			continue
		}
		if !joined && i+1 < len(args) {
			value = args[i+1]
		}
		out = value
	}
	return out
}

// folder reads the network configurations that are there; what cannot be read counts as empty.
func (p *program) folder(path string) (map[string][]byte, error) {
	list, err := p.env.System.Files.ReadDir(path)
	if errors.Is(err, system.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", path, err)
	}
	out := map[string][]byte{}
	for _, e := range list {
		if e.Dir {
			continue
		}
		b, err := disk.Read(p.env.System.Files, e.Path, maxConfig)
		if err != nil {
			b = nil
		}
		out[e.Path[strings.LastIndexByte(e.Path, '\\')+1:]] = b
	}
	return out, nil
}

// networks asks HNS for the network that a configuration names.
func (p *program) networks(config []byte) map[string]string {
	name := bootstrapper.NetworkName(config)
	if name == "" {
		return nil
	}
	n, err := p.env.System.Networks.Get(name)
	if err != nil {
		return nil
	}
	return map[string]string{name: n.Type}
}
