package bootstrapper

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/pelletier/go-toml/v2"

	"github.com/windowsmachine/operator/pkg/kubelet"
)

// errTOML: a configuration of containerd cannot be read.
var errTOML = errors.New("it is no configuration of containerd")

// Plugins of containerd that hold the folders for network plugins, by the version of the configuration file (docs/cri/config.md).
const (
	criV1 = "cri"
	criV2 = "io.containerd.grpc.v1.cri"
	criV3 = "io.containerd.cri.v1.runtime"
)

// PointContainerd returns a configuration of containerd with the folders for network plugins set; everything else means what it meant before,
// but comments are lost. An absent configuration is one with defaults only. The same bytes come back when nothing has to change.
func PointContainerd(config []byte, v kubelet.Version, binDir, confDir string) ([]byte, error) {
	m := map[string]any{}
	if err := toml.Unmarshal(bytes.TrimPrefix(config, []byte("\xef\xbb\xbf")), &m); err != nil {
		return nil, fmt.Errorf("%w: %w", errTOML, err)
	}
	plugin, err := criPlugin(m, v)
	if err != nil {
		return nil, err
	}
	section, err := table(m, "plugins", plugin, "cni")
	if err != nil {
		return nil, err
	}
	if !point(section, v, binDir, confDir, plugin) {
		return config, nil
	}
	var b bytes.Buffer
	if err := toml.NewEncoder(&b).Encode(m); err != nil {
		return nil, fmt.Errorf("encoding containerd configuration: %w", err)
	}
	return b.Bytes(), nil
}

// criPlugin returns the plugin's name for the version of the file. A file without one is of version 1; an empty one gets the version that goes
// with containerd.
func criPlugin(m map[string]any, v kubelet.Version) (string, error) {
	if len(m) == 0 {
		m["version"] = int64(min(v.Major, 2) + 1)
	}
	version, said := m["version"].(int64)
	if !said {
		version = 1
	}
	switch old := v.Major < 2; {
	case version == 1 && old:
		return criV1, nil
	case version == 2:
		return criV2, nil
	case version == 3 && !old:
		return criV3, nil
	}
	return "", fmt.Errorf("%w: its version %d does not go with containerd %s", errTOML, version, v)
}

// table returns the table at a path, made where it is absent.
func table(m map[string]any, path ...string) (map[string]any, error) {
	for _, name := range path {
		value, there := m[name]
		next, ok := value.(map[string]any)
		if there && !ok {
			return nil, fmt.Errorf("%w: %q is no table", errTOML, name)
		}
		if !there {
			next = map[string]any{}
			m[name] = next
		}
		m = next
	}
	return m, nil
}

// point sets the folders and reports whether that changed anything. From 2.1 there is a list of folders, and setting both is an error.
func point(cni map[string]any, v kubelet.Version, binDir, confDir, plugin string) bool {
	was := fmt.Sprint(cni)
	cni["conf_dir"] = confDir
	if plugin == criV3 && !v.Before(2, 1) {
		delete(cni, "bin_dir")
		if list, ok := cni["bin_dirs"].([]any); !ok || !slices.Equal(list, []any{binDir}) {
			cni["bin_dirs"] = []any{binDir}
		}
	} else {
		cni["bin_dir"] = binDir
	}
	return fmt.Sprint(cni) != was
}
