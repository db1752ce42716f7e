package planner

import (
	"bytes"
	"fmt"

	"github.com/pelletier/go-toml/v2"

	"github.com/windowsmachine/operator/pkg/kubelet"
)

// containerdPipe is where containerd listens; kubelet.Endpoint is the same in the kubelet's spelling.
const containerdPipe = `\\.\pipe\containerd-containerd`

// containerdFile is containerd's configuration. Field names: docs/cri/config.md of containerd. Version 2 is for containerd
// 1.x, version 3 for 2.x.
type containerdFile struct {
	Version int            `toml:"version"`
	Root    string         `toml:"root"`
	State   string         `toml:"state"`
	GRPC    map[string]any `toml:"grpc"`
	Plugins map[string]any `toml:"plugins"`
}

// Containerd is what containerd's configuration depends on.
type Containerd struct {
	// Version of containerd.
	Version kubelet.Version
	// Pause is the sandbox image.
	Pause string
	// Folders with the network plugins, with their configuration, and with what is said about registries.
	CNIBin, CNIConf, Registries string
}

// RenderContainerd returns config.toml.
func RenderContainerd(c Containerd) ([]byte, error) {
	f := containerdFile{
		Version: 3,
		Root:    containerdRoot,
		State:   containerdState,
		GRPC:    map[string]any{"address": containerdPipe},
		Plugins: pluginsV3(c),
	}
	if c.Version.Major < 2 {
		f.Version, f.Plugins = 2, pluginsV2(c)
	}
	var b bytes.Buffer
	if err := toml.NewEncoder(&b).Encode(f); err != nil {
		return nil, fmt.Errorf("encoding containerd configuration: %w", err)
	}
	return b.Bytes(), nil
}

func pluginsV3(c Containerd) map[string]any {
	cni := map[string]any{"conf_dir": c.CNIConf}
	// A list from 2.1; setting both is an error.
	if c.Version.Before(2, 1) {
		cni["bin_dir"] = c.CNIBin
	} else {
		cni["bin_dirs"] = []string{c.CNIBin}
	}
	return map[string]any{
		"io.containerd.cri.v1.images": map[string]any{
			"snapshotter":                 "windows",
			"discard_unpacked_layers":     true,
			"image_pull_progress_timeout": "30m0s",
			"pinned_images":               map[string]any{"sandbox": c.Pause},
			"registry":                    map[string]any{"config_path": c.Registries},
		},
		"io.containerd.cri.v1.runtime": map[string]any{
			"cni":        cni,
			"containerd": map[string]any{"default_runtime_name": runtimeName, "runtimes": runtimes()},
		},
		"io.containerd.grpc.v1.cri": map[string]any{"stream_server_address": "127.0.0.1"},
	}
}

func pluginsV2(c Containerd) map[string]any {
	return map[string]any{
		"io.containerd.grpc.v1.cri": map[string]any{
			"sandbox_image":               c.Pause,
			"stream_server_address":       "127.0.0.1",
			"image_pull_progress_timeout": "30m0s",
			"cni":                         map[string]any{"bin_dir": c.CNIBin, "conf_dir": c.CNIConf},
			"registry":                    map[string]any{"config_path": c.Registries},
			"containerd": map[string]any{
				"snapshotter":             "windows",
				"discard_unpacked_layers": true,
				"default_runtime_name":    runtimeName,
				"runtimes":                runtimes(),
			},
		},
	}
}

const runtimeName = "runhcs-wcow-process"

// runtimes passes the annotations that ask for host-process containers on to the shim.
func runtimes() map[string]any {
	return map[string]any{
		runtimeName: map[string]any{
			"runtime_type":          "io.containerd.runhcs.v1",
			"container_annotations": []string{"io.microsoft.container.*"},
			"pod_annotations":       []string{"io.microsoft.container.*"},
		},
	}
}

// PauseImage returns the sandbox image that goes with a kubelet. The index has images for Windows Server 2019, 2022 and 2025.
func PauseImage(v kubelet.Version) string {
	tag := "3.10.2"
	switch {
	case v.Before(1, 31):
		tag = "3.9"
	case v.Before(1, 34):
		tag = "3.10"
	case v.Before(1, 37):
		tag = "3.10.1"
	}
	return "registry.k8s.io/pause:" + tag
}
