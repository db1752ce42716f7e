package kubelet

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// Errors of Config and Args.
var (
	// ErrUnsupported: a kubelet that is older than any that is known.
	ErrUnsupported = errors.New("kubelet version is not supported")
	// ErrClusterConfig: the cluster's KubeletConfiguration cannot be read.
	ErrClusterConfig = errors.New("cluster's kubelet configuration cannot be used")
)

const (
	apiVersion = "kubelet.config.k8s.io/v1beta1"
	kind       = "KubeletConfiguration"
	// maxClusterConfig bounds Input.Cluster in bytes; real ones have a few kilobytes.
	maxClusterConfig = 1 << 20
	// Endpoint is the named pipe of containerd as the kubelet wants it written.
	Endpoint = "npipe:////./pipe/containerd-containerd"
)

// Paths on the machine, with backslashes.
type Paths struct {
	// Config is the KubeletConfiguration, ClientCA the PEM bundle for the kubelet's clients.
	Config, ClientCA string
	// Bootstrap and Kubeconfig are kubeconfigs; the kubelet writes the second one itself.
	Bootstrap, Kubeconfig string
	// CertDir is where the kubelet keeps its certificates, RootDir its state.
	CertDir, RootDir string
}

// Input is what a kubelet's configuration and command line depend on.
type Input struct {
	Version Version
	// Cluster is the Linux workers' KubeletConfiguration in YAML or JSON, nil when the cluster has none.
	Cluster []byte
	Paths   Paths
	// NodeName and NodeIP that the kubelet registers.
	NodeName, NodeIP string
	// ClusterDNS and ClusterDomain overrule Cluster when they are not empty.
	ClusterDNS    []string
	ClusterDomain string
	// MaxPods overrules Cluster, nil does not.
	MaxPods *int32
	// Verbosity is --v.
	Verbosity int
	// Labels that the kubelet may set itself (the first result of SplitLabels).
	Labels map[string]string
	// CloudProvider is --cloud-provider, "" for none; CloudConfig the path for --cloud-config.
	CloudProvider, CloudConfig string
	// PauseImage is the sandbox image, for kubelets that must be told it so as not to delete it.
	PauseImage string
	// Taints stand beside the one that every node of the product carries.
	Taints []Taint
	// Own is whether Cluster is meant for this very machine: what it does not say is left to the kubelet, but for what a Windows kubelet does
	// not start without. Otherwise it is filled up with what is good on Windows.
	Own bool
	// Docker is whether the kubelet's own dockershim runs the containers, which kubelets up to 1.23 have. Only then the network plugins go by
	// flag: CNIBinDir and CNIConfDir are set or both empty.
	Docker                bool
	CNIBinDir, CNIConfDir string
	// LogFile is where kubelets up to 1.25 write their log themselves, "" for standard error.
	LogFile string
}

// Left is a field of the cluster's configuration that a kubelet is not given.
type Left struct {
	// Field is its JSON path, Why says in a few words why.
	Field, Why string
}

// Config returns the KubeletConfiguration as JSON with sorted keys and a final line feed. It takes the cluster's
// configuration field by field where there is one, leaves out what has no place on Windows or is not known to this version,
// adds defaults for what is not said, and sets what Windows needs.
func Config(in Input) ([]byte, error) {
	m, _, err := build(in)
	if err != nil {
		return nil, err
	}
	return encode(m)
}

// LeftOut returns the fields that Config leaves out of the cluster's configuration, sorted; what it gives another value is not among them.
func LeftOut(in Input) ([]Left, error) {
	_, left, err := build(in)
	return left, err
}

func build(in Input) (map[string]any, []Left, error) {
	if !supported(in.Version) {
		return nil, nil, fmt.Errorf("%w: %s", ErrUnsupported, in.Version)
	}
	m, err := clusterFields(in.Cluster)
	if err != nil {
		return nil, nil, err
	}
	given, _ := clusterFields(in.Cluster)
	clusterGates, _ := m["featureGates"].(map[string]any)
	dropPaths(m, notOnWindows())
	keepSignals(m)
	addDefaults(m, in)
	setOwn(m, in)
	kept := keepGates(clusterGates, in.Version)
	dropGated(m, kept, in.Version)
	mergeGates(m, kept)
	prune(m, "", knownFields(in.Version))
	m["apiVersion"], m["kind"] = apiVersion, kind
	return m, leftOut(given, m, "", in.Version), nil
}

// leftOut compares what was given with what came of it.
func leftOut(given, result map[string]any, prefix string, v Version) []Left {
	var out []Left
	for _, name := range slices.Sorted(maps.Keys(given)) {
		path := prefix + name
		value, kept := result[name]
		if !kept {
			out = append(out, Left{path, whyLeft(path, v)})
			continue
		}
		before, isObject := given[name].(map[string]any)
		if after, ok := value.(map[string]any); ok && isObject {
			out = append(out, leftOut(before, after, path+".", v)...)
		}
	}
	return out
}

func whyLeft(path string, v Version) string {
	if path == "featureGates" {
		return "none of its gates is carried over to Windows"
	}
	if why, ok := notOnWindows()[path]; ok {
		return why
	}
	if gate, ok := gatedFields()[path]; ok {
		return "needs feature gate " + gate
	}
	if top, _, below := strings.Cut(path, "."); below {
		switch top {
		case "featureGates":
			return "gates that are not carried over to Windows"
		case "evictionHard", "evictionSoft", "evictionSoftGracePeriod", "evictionMinimumReclaim", "systemReserved", "kubeReserved":
			return "is no signal or resource of Windows"
		}
	}
	if known := knownFields(v); known.fields[path] {
		return "has nothing left that Windows knows"
	}
	return "is not surely known to kubelet " + v.String()
}

// Says reports whether a KubeletConfiguration names the cluster's DNS addresses and its domain, so that these facts need not
// come from elsewhere. One that cannot be read says neither.
func Says(cluster []byte) (dns, domain bool) {
	m, err := clusterFields(cluster)
	if err != nil {
		return false, false
	}
	list, _ := m["clusterDNS"].([]any)
	s, _ := m["clusterDomain"].(string)
	return len(list) > 0, s != ""
}

// clusterFields reads a KubeletConfiguration; an empty one gives no fields. A byte order mark and CRLF are tolerated, since
// such files pass through editors on Windows.
func clusterFields(b []byte) (map[string]any, error) {
	if len(b) > maxClusterConfig {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrClusterConfig, len(b), maxClusterConfig)
	}
	if bytes.HasPrefix(b, []byte{0xff, 0xfe}) || bytes.HasPrefix(b, []byte{0xfe, 0xff}) {
		return nil, fmt.Errorf("%w: it is UTF-16, save it as UTF-8", ErrClusterConfig)
	}
	b = bytes.TrimSpace(bytes.TrimPrefix(b, []byte("\xef\xbb\xbf")))
	if len(b) == 0 {
		return map[string]any{}, nil
	}
	j, err := yaml.YAMLToJSON(b)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrClusterConfig, err)
	}
	d := json.NewDecoder(bytes.NewReader(j))
	// Numbers keep their digits: a float64 would write 5e+06.
	d.UseNumber()
	m := map[string]any{}
	if err := d.Decode(&m); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrClusterConfig, err)
	}
	if m["kind"] != kind || m["apiVersion"] != apiVersion {
		return nil, fmt.Errorf("%w: it must be of kind %s, apiVersion %s", ErrClusterConfig, kind, apiVersion)
	}
	// An explicit null is the same as an absent field.
	for name, value := range m {
		if value == nil {
			delete(m, name)
		}
	}
	return m, nil
}

// signals are the eviction signals that a Windows kubelet has; others end it at start.
func signals() []string { return []string{"memory.available", "nodefs.available", "imagefs.available"} }

// resources that can be reserved on Windows; process IDs cannot.
func resources() []string { return []string{"cpu", "memory", "ephemeral-storage"} }

func keepSignals(m map[string]any) {
	for _, field := range []string{"evictionHard", "evictionSoft", "evictionSoftGracePeriod", "evictionMinimumReclaim"} {
		keepKeys(m, field, signals())
	}
	for _, field := range []string{"systemReserved", "kubeReserved"} {
		keepKeys(m, field, resources())
	}
}

// keepKeys keeps only some keys of a map field and drops the field when none is left.
func keepKeys(m map[string]any, field string, keys []string) {
	from, ok := m[field].(map[string]any)
	if !ok {
		delete(m, field)
		return
	}
	for k := range from {
		if !slices.Contains(keys, k) {
			delete(from, k)
		}
	}
	if len(from) == 0 {
		delete(m, field)
	}
}

// addDefaults sets what is good on Windows where the cluster does not say otherwise.
func addDefaults(m map[string]any, in Input) {
	// From 1.31 the kubelet has defaults for Windows; before, its Linux defaults name signals that Windows lacks.
	if in.Version.Before(1, 31) {
		fill(m, map[string]any{"evictionHard": map[string]any{
			"memory.available": "500Mi", "nodefs.available": "10%", "imagefs.available": "15%",
		}})
	}
	if in.Own {
		return
	}
	defaults := map[string]any{
		"authorization":               map[string]any{"mode": "Webhook"},
		"containerLogMaxSize":         "50Mi",
		"imageGCHighThresholdPercent": 85,
		"imageGCLowThresholdPercent":  80,
		"kubeAPIBurst":                100,
		"kubeAPIQPS":                  50,
		"maxPods":                     250,
		"runtimeRequestTimeout":       "10m0s",
		"serializeImagePulls":         false,
	}
	fill(m, defaults)
	// Windows itself needs this much; there is no memory cgroup that would protect it. By resource, since a Linux worker may
	// leave cpu and memory to a script that computes them.
	fill(object(m, "systemReserved"), map[string]any{"cpu": "500m", "ephemeral-storage": "1Gi", "memory": "2Gi"})
}

// fill sets the fields that m does not have.
func fill(m, defaults map[string]any) {
	for name, value := range defaults {
		if _, ok := m[name]; !ok {
			m[name] = value
		}
	}
}

// setOwn sets what Windows, or the way in which the node joins, requires.
func setOwn(m map[string]any, in Input) {
	auth := object(m, "authentication")
	auth["x509"] = map[string]any{"clientCAFile": in.Paths.ClientCA}
	// Anonymous requests stay shut out whatever the cluster's file says.
	auth["anonymous"] = map[string]any{"enabled": false}
	object(auth, "webhook")["enabled"] = true
	// AlwaysAllow would let every identity of the cluster run commands in the node's pods.
	object(m, "authorization")["mode"] = "Webhook"
	m["cgroupsPerQOS"] = false
	m["containerRuntimeEndpoint"] = Endpoint
	m["enableSystemLogHandler"] = true
	m["enableSystemLogQuery"] = true
	// Explicitly empty: left out it would default to ["pods"], with which kubelets up to 1.30 do not start on Windows.
	m["enforceNodeAllocatable"] = []any{}
	m["registerNode"] = true
	m["registerWithTaints"] = taintFields(in.Taints)
	m["resolvConf"] = ""
	m["rotateCertificates"] = true
	m["serverTLSBootstrap"] = true
	if len(in.ClusterDNS) > 0 {
		m["clusterDNS"] = in.ClusterDNS
	}
	if in.ClusterDomain != "" {
		m["clusterDomain"] = in.ClusterDomain
	}
	if in.MaxPods != nil {
		m["maxPods"] = *in.MaxPods
	}
}

// object returns the object at a field, made when it is absent.
func object(m map[string]any, field string) map[string]any {
	o, ok := m[field].(map[string]any)
	if !ok {
		o = map[string]any{}
		m[field] = o
	}
	return o
}

func encode(m map[string]any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(m); err != nil {
		return nil, fmt.Errorf("encoding kubelet configuration: %w", err)
	}
	return b.Bytes(), nil
}
