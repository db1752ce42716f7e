package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/plan"
)

var errNoCNI = errors.New("cni plugin not initialized")

// networkReady answers as containerd's runtime status does: nil when the first configuration file by name can be used. Others
// are not looked at, even when the first is broken (containerd/cri#889).
func (c *cri) networkReady() error {
	infos, err := c.system.Files.ReadDir(windowsPath(c.confDir))
	if err != nil {
		return errNoCNI
	}
	for _, i := range infos {
		name := strings.ToLower(i.Path[strings.LastIndexByte(i.Path, '\\')+1:])
		if i.Dir || !strings.HasSuffix(name, ".conf") && !strings.HasSuffix(name, ".conflist") && !strings.HasSuffix(name, ".json") {
			continue
		}
		data, err := readFile(c.system, i.Path)
		if err != nil {
			return err
		}
		if err := c.usable(data, strings.HasSuffix(name, ".conflist")); err != nil {
			return fmt.Errorf("%s: %w", i.Path, err)
		}
		return nil
	}
	return errNoCNI
}

type cniPlugin struct {
	Type string
	IPAM struct{ Type string }
}

func (c *cri) usable(data []byte, list bool) error {
	var conf struct {
		Name    string
		Plugins []cniPlugin
		cniPlugin
	}
	if err := json.Unmarshal(data, &conf); err != nil {
		return err
	}
	plugins := conf.Plugins
	if !list {
		plugins = []cniPlugin{conf.cniPlugin}
	}
	if conf.Name == "" || len(plugins) == 0 {
		return errors.New("no name or no plugins")
	}
	for _, p := range plugins {
		if err := c.plugin(conf.Name, p); err != nil {
			return err
		}
	}
	return nil
}

// plugin checks that a plugin's files are there and, for those of containernetworking/plugins, the HNS network: they answer an
// error for a network that does not exist or has another type.
func (c *cri) plugin(network string, p cniPlugin) error {
	for _, name := range []string{p.Type, p.IPAM.Type} {
		if name == "" && name == p.IPAM.Type && p.Type != "" {
			continue
		}
		if !c.installed(name) {
			return fmt.Errorf("failed to find plugin %q in path %v", name, c.binDirs)
		}
	}
	want, ok := map[string]string{"win-bridge": plan.NetworkL2Bridge, "win-overlay": plan.NetworkOverlay}[p.Type]
	if !ok {
		return nil
	}
	n, err := c.system.Networks.Get(network)
	switch {
	case errors.Is(err, system.ErrNetworkNotFound):
		return fmt.Errorf("HNS network %q does not exist", network)
	case err != nil:
		return err
	case n.Type != want:
		return fmt.Errorf("HNS network %q is of type %s", network, n.Type)
	}
	return nil
}

func (c *cri) installed(name string) bool {
	if name == "" {
		return false
	}
	for _, dir := range c.binDirs {
		if exists(c.system, dir+`\`+strings.TrimSuffix(name, ".exe")+".exe") {
			return true
		}
	}
	return false
}
