package ignition

import (
	"errors"
	"fmt"
	"slices"

	"github.com/windowsmachine/operator/pkg/facts"
)

// Places of what a worker's ignition holds.
const (
	PathKubeletConfig       = "/etc/kubernetes/kubelet.conf"
	PathBootstrapKubeconfig = "/etc/kubernetes/kubeconfig"
	PathKubeletCA           = "/etc/kubernetes/kubelet-ca.crt"
	UnitKubelet             = "kubelet.service"
)

// Piece is a part of a worker's ignition that a caller may require.
type Piece string

// The pieces.
const (
	KubeletConfig       Piece = "KubeletConfig"
	BootstrapKubeconfig Piece = "BootstrapKubeconfig"
	KubeletCA           Piece = "KubeletCA"
	KubeletUnit         Piece = "KubeletUnit"
)

// Served are the pieces of the ignition that a machine config server hands to a worker (worker.ign): all of them.
func Served() []Piece { return []Piece{KubeletConfig, BootstrapKubeconfig, KubeletCA, KubeletUnit} }

// Rendered are the pieces of a rendered MachineConfig, to which the server adds bootstrap kubeconfig and kubelet CA only while it
// serves it.
func Rendered() []Piece { return []Piece{KubeletConfig, KubeletUnit} }

// Worker is what a Windows node takes from a worker's ignition. Texts are UTF-8 without a byte order mark; a piece that is not
// there is nil or empty.
type Worker struct {
	// KubeletConfig is a KubeletConfiguration in YAML or JSON.
	KubeletConfig []byte
	// BootstrapKubeconfig holds a credential. Never log it.
	BootstrapKubeconfig []byte
	// KubeletCA is the PEM bundle that the kubelet verifies its clients with.
	KubeletCA []byte
	// CloudProvider is the kubelet's --cloud-provider.
	CloudProvider string
	// CloudConfig is the file that --cloud-config names, under its base name.
	CloudConfig *facts.ConfigFile
	// Verbosity is the kubelet's --v, nil where the unit does not set it.
	Verbosity *int
}

// Worker gathers the pieces. Everything that is required and not there is listed in one *MissingError; everything that is
// there and broken is an error of its own, joined to it. A piece without contents counts as not there.
func (c *Config) Worker(required ...Piece) (Worker, error) {
	g := gathering{config: c, required: required}
	var w Worker
	w.KubeletConfig = g.text(KubeletConfig, PathKubeletConfig)
	w.BootstrapKubeconfig = g.text(BootstrapKubeconfig, PathBootstrapKubeconfig)
	w.KubeletCA = g.text(KubeletCA, PathKubeletCA)
	flags := g.flags()
	w.CloudProvider, w.Verbosity = flags.provider, flags.verbosity
	w.CloudConfig = g.cloudConfig(flags.configPath)
	if err := g.err(); err != nil {
		return Worker{}, fmt.Errorf("reading the worker's ignition: %w", err)
	}
	return w, nil
}

// gathering collects what is wrong while Worker looks at one piece after the other.
type gathering struct {
	config   *Config
	required []Piece
	missing  []string
	broken   []error
}

func (g *gathering) err() error {
	errs := g.broken
	if len(g.missing) > 0 {
		errs = append(errs, &MissingError{Missing: g.missing})
	}
	return errors.Join(errs...)
}

func (g *gathering) lacks(p Piece, what string) {
	if slices.Contains(g.required, p) {
		g.missing = append(g.missing, what)
	}
}

func (g *gathering) text(p Piece, path string) []byte {
	data, why := g.read(path)
	if why != "" {
		g.lacks(p, "file "+path+why)
	}
	return data
}

// read returns the text of a file, or in a few words why there is none.
func (g *gathering) read(path string) (data []byte, why string) {
	data, ok, err := g.config.File(path)
	if err == nil && ok {
		if data, err = utf8Text(data); err != nil {
			err = fmt.Errorf("file %s: %w", path, err)
		}
	}
	switch {
	case err != nil:
		g.broken = append(g.broken, err)
		return nil, ""
	case !ok:
		return nil, " (no entry)"
	case len(data) == 0:
		return nil, " (no contents)"
	}
	return data, ""
}

func (g *gathering) flags() kubeletFlags {
	u, ok := g.config.units[UnitKubelet]
	switch {
	case !ok:
		g.lacks(KubeletUnit, "unit "+UnitKubelet+" (no entry)")
	case u.masked:
		g.lacks(KubeletUnit, "unit "+UnitKubelet+" (masked)")
	case u.ambiguous:
		g.broken = append(g.broken, fmt.Errorf("unit %s: %w: two different entries in one config", UnitKubelet, ErrUnit))
	case u.contents == "":
		g.lacks(KubeletUnit, "unit "+UnitKubelet+" (no contents)")
	default:
		return g.unit(u)
	}
	return kubeletFlags{}
}

func (g *gathering) unit(u unit) kubeletFlags {
	s, err := parseService(u)
	if err == nil && len(s.argv) == 0 {
		g.lacks(KubeletUnit, "unit "+UnitKubelet+" (no ExecStart)")
		return kubeletFlags{}
	}
	var flags kubeletFlags
	if err == nil {
		flags, err = s.flags()
	}
	if err != nil {
		g.broken = append(g.broken, fmt.Errorf("unit %s: %w", UnitKubelet, err))
		return kubeletFlags{}
	}
	return flags
}

// cloudConfig reads the file of --cloud-config. A kubelet that is told of a file and does not find it exits, so the file is
// required once the flag is there.
func (g *gathering) cloudConfig(path string) *facts.ConfigFile {
	if path == "" {
		return nil
	}
	name, err := windowsName(path)
	if err != nil {
		g.broken = append(g.broken, fmt.Errorf("unit %s: %w", UnitKubelet, err))
		return nil
	}
	data, why := g.read(path)
	if why != "" {
		g.missing = append(g.missing, "file "+path+why)
	}
	return &facts.ConfigFile{Name: name, Data: data}
}
