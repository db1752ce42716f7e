package machineapi

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// apiModule publishes the CRDs beside the types.
const apiModule = "github.com/openshift/api"

// errNoModule: the module is not in the module cache.
var errNoModule = errors.New("module " + apiModule + " is not in the module cache; run \"go mod download\"")

// CRDs returns the paths of the Machine and MachineSet CRDs of the openshift/api version that this module is built with. It
// asks the go command, so the working directory must be inside the repository.
func CRDs() ([]string, error) {
	return modulePaths(
		"machine/v1beta1/zz_generated.crd-manifests/0000_10_machine-api_01_machines-Default.crd.yaml",
		"machine/v1beta1/zz_generated.crd-manifests/0000_10_machine-api_01_machinesets-Default.crd.yaml",
	)
}

// OpenShiftCRDs returns the paths of the CRDs from which an OpenShift cluster's facts are read: Infrastructure, Network, Proxy,
// ControllerConfig, MachineConfig and MachineConfigPool. The working directory must be inside the repository.
func OpenShiftCRDs() ([]string, error) {
	return modulePaths(
		"config/v1/zz_generated.crd-manifests/0000_10_config-operator_01_infrastructures-Default.crd.yaml",
		"config/v1/zz_generated.crd-manifests/0000_10_config-operator_01_networks.crd.yaml",
		"config/v1/zz_generated.crd-manifests/0000_03_config-operator_01_proxies.crd.yaml",
		"machineconfiguration/v1/zz_generated.crd-manifests/0000_80_machine-config_01_controllerconfigs-Default.crd.yaml",
		"machineconfiguration/v1/zz_generated.crd-manifests/0000_80_machine-config_01_machineconfigs.crd.yaml",
		"machineconfiguration/v1/zz_generated.crd-manifests/0000_80_machine-config_01_machineconfigpools-Default.crd.yaml",
	)
}

func modulePaths(names ...string) ([]string, error) {
	dir, err := moduleDir()
	if err != nil {
		return nil, fmt.Errorf("finding OpenShift's CRDs: %w", err)
	}
	out := make([]string, 0, len(names))
	for _, name := range names {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("finding OpenShift's CRDs: %w", err)
		}
		out = append(out, path)
	}
	return out, nil
}

// moduleDir asks where the module's files are.
func moduleDir() (string, error) {
	cmd := exec.Command("go", "list", "-mod=readonly", "-m", "-f", "{{.Dir}}", apiModule)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go list: %w: %s", err, strings.TrimSpace(stderr.String()))
	}
	dir := strings.TrimSpace(string(out))
	if dir == "" {
		return "", errNoModule
	}
	return dir, nil
}
