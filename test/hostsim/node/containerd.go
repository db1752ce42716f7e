package node

import (
	"context"
	"fmt"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/agent/system/fake"
)

// containerdVersion is what the runtime says it is.
const containerdVersion = "v2.4.2"

// cri is a running containerd as the kubelet sees it.
type cri struct {
	confDir string
	binDirs []string
	system  system.System
}

// containerdFlags are containerd's on Windows. The service is only connected with --run-service, which
// --register-service puts on the command line.
func containerdFlags() (known, bools map[string]bool) {
	return set("config address root state log-level log-file service-name"), set("run-service register-service unregister-service")
}

// containerd listens on its pipe as long as it runs. It ends with 1 when a flag is unknown, when its configuration is missing or is not
// one, when its log file cannot be opened, and, more strictly than the real one, when its shim is not beside it.
func (n *Node) containerd(ctx context.Context, p *fake.Process) int {
	if askedForVersion(p) {
		return say(p, "containerd github.com/containerd/containerd/v2 "+containerdVersion+" 0000000")
	}
	known, bools := containerdFlags()
	args, err := flags(expandShort(p.Args()), known, bools)
	if err != nil {
		return fail(p, err)
	}
	if path := args["log-file"]; path != "" {
		if _, err := openLog(p, path); err != nil {
			return fail(p, err)
		}
	}
	service, ok := p.Service()
	if ok = ok && args["run-service"] == "true"; ok {
		service.Connect()
	}
	pipe, err := n.startRuntime(p, args["config"])
	if err != nil {
		return fail(p, err)
	}
	defer n.unlisten(pipe)
	if !ok {
		<-ctx.Done()
		return 0
	}
	service.Running()
	select {
	case <-service.Stopping():
	case <-ctx.Done():
	}
	return 0
}

// startRuntime reads the configuration and opens the pipe.
func (n *Node) startRuntime(p *fake.Process, path string) (pipe string, err error) {
	s := p.System()
	if path == "" {
		path = `C:\Program Files\containerd\config.toml`
	}
	data, err := readFile(s, path)
	if err != nil {
		return "", fmt.Errorf("reading the configuration: %w", err)
	}
	cfg, err := parseContainerd(data)
	if err != nil {
		return "", err
	}
	if shim := dirOf(p.Exe()) + `\containerd-shim-runhcs-v1.exe`; !exists(s, shim) {
		return "", fmt.Errorf("runtime shim %s is missing", shim)
	}
	pipe = pipeName(cfg.address)
	if !n.listen(pipe, &cri{confDir: cfg.confDir, binDirs: cfg.binDirs, system: s}) {
		return "", fmt.Errorf("pipe %s is in use", pipe)
	}
	return pipe, nil
}

// expandShort spells out the short names of containerd's flags, and a single dash, as its flag package takes both.
func expandShort(args []string) []string {
	short := map[string]string{"-c": "--config", "-a": "--address", "-l": "--log-level"}
	out := make([]string, 0, len(args))
	for _, a := range args {
		if long, ok := short[a]; ok {
			a = long
		} else if strings.HasPrefix(a, "-") && !strings.HasPrefix(a, "--") {
			a = "-" + a
		}
		out = append(out, a)
	}
	return out
}

type containerdConfig struct {
	address, confDir string
	binDirs          []string
}

// parseContainerd reads the CNI folders of a configuration of version 2 (containerd 1.x) or 3 (2.x), with containerd's defaults for
// what is not there. A table under a name of the other version is not seen, as the real one does not see it.
func parseContainerd(data []byte) (containerdConfig, error) {
	cfg := containerdConfig{
		address: `\\.\pipe\containerd-containerd`,
		confDir: `C:\Program Files\containerd\cni\conf`,
		binDirs: []string{`C:\Program Files\containerd\cni\bin`},
	}
	var doc struct {
		Version int
		GRPC    struct{ Address string } `toml:"grpc"`
		Plugins map[string]struct {
			CNI struct {
				BinDir  string   `toml:"bin_dir"`
				BinDirs []string `toml:"bin_dirs"`
				ConfDir string   `toml:"conf_dir"`
			} `toml:"cni"`
		}
	}
	if err := toml.Unmarshal(data, &doc); err != nil {
		return cfg, fmt.Errorf("containerd configuration: %w", err)
	}
	plugin := map[int]string{2: "io.containerd.grpc.v1.cri", 3: "io.containerd.cri.v1.runtime"}[doc.Version]
	if plugin == "" {
		return cfg, fmt.Errorf("containerd configuration: version %d is not 2 or 3", doc.Version)
	}
	if doc.GRPC.Address != "" {
		cfg.address = doc.GRPC.Address
	}
	cni := doc.Plugins[plugin].CNI
	if cni.ConfDir != "" {
		cfg.confDir = cni.ConfDir
	}
	switch {
	case len(cni.BinDirs) > 0 && cni.BinDir != "":
		return cfg, fmt.Errorf("containerd configuration: both bin_dir and bin_dirs are set")
	case len(cni.BinDirs) > 0:
		cfg.binDirs = cni.BinDirs
	case cni.BinDir != "":
		cfg.binDirs = []string{cni.BinDir}
	}
	return cfg, nil
}
