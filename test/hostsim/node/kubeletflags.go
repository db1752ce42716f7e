package node

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/windowsmachine/operator/pkg/agent/system"
)

// kubeletFlags are the names that the kubelet of Kubernetes 1.37 knows on Windows (cmd/kubelet/app/options).
func kubeletFlags() (known, bools map[string]bool) {
	known = set(`config config-dir kubeconfig bootstrap-kubeconfig hostname-override node-ip cert-dir cloud-provider root-dir node-labels
		lock-file minimum-container-ttl-duration maximum-dead-containers-per-container maximum-dead-containers experimental-mounter-path
		runtime-cgroups image-credential-provider-config image-credential-provider-bin-dir pod-manifest-path sync-frequency
		file-check-frequency http-check-frequency manifest-url manifest-url-header address port read-only-port
		container-runtime-endpoint image-service-endpoint authentication-token-webhook-cache-ttl client-ca-file authorization-mode
		authorization-webhook-cache-authorized-ttl authorization-webhook-cache-unauthorized-ttl tls-cert-file tls-private-key-file
		tls-cipher-suites tls-min-version registry-qps registry-burst event-qps event-burst healthz-port healthz-bind-address
		oom-score-adj cluster-domain volume-plugin-dir cluster-dns streaming-connection-idle-timeout node-status-update-frequency
		minimum-image-ttl-duration image-gc-high-threshold image-gc-low-threshold volume-stats-agg-period feature-gates
		kubelet-cgroups system-cgroups provider-id cgroup-driver cgroup-root cpu-manager-policy cpu-manager-policy-options
		cpu-manager-reconcile-period memory-manager-policy reserved-memory qos-reserved topology-manager-policy
		topology-manager-policy-options topology-manager-scope runtime-request-timeout hairpin-mode max-pods pods-per-core pod-cidr
		pod-max-pids resolv-conf cpu-cfs-quota-period container-log-max-size container-log-max-files eviction-hard eviction-soft
		eviction-soft-grace-period eviction-minimum-reclaim eviction-pressure-transition-period eviction-max-pod-grace-period
		allowed-unsafe-sysctls node-status-max-images system-reserved kube-reserved system-reserved-cgroup kube-reserved-cgroup
		enforce-node-allocatable reserved-cpus max-open-files kube-api-content-type kube-api-qps kube-api-burst register-with-taints
		windows-priorityclass v vmodule log-flush-frequency logging-format`)
	bools = set(`anonymous-auth authentication-token-webhook cgroups-per-qos contention-profiling cpu-cfs-quota enable-controller-attach-detach
		enable-debugging-handlers enable-server exit-on-lock-contention experimental-allocatable-ignore-eviction fail-cgroupv1
		fail-swap-on kernel-memcg-notification local-storage-capacity-isolation make-iptables-util-chains protect-kernel-defaults
		register-node rotate-certificates rotate-server-certificates runonce seccomp-default serialize-image-pulls
		windows-service version help`)
	return known, bools
}

// kubeletSettings are what a kubelet works by: flags win over the configuration file.
type kubeletSettings struct {
	nodeName, nodeIP           string
	kubeconfig, bootstrap      string
	certDir, rootDir, clientCA string
	endpoint, cloudProvider    string
	labels                     map[string]string
	taints                     []corev1.Taint
	port, maxPods              int32
	leaseSeconds               int32
	serverTLSBootstrap, rotate bool
	registerNode               bool
	build, ubr                 int
}

func parseKubeletArgs(args []string) (map[string]string, error) {
	known, bools := kubeletFlags()
	return flags(args, known, bools)
}

// parseKubeletConfig reads a KubeletConfiguration strictly, as the kubelet does: unknown and repeated fields are errors. It refuses what
// the kubelet's validation refuses on Windows.
func parseKubeletConfig(data []byte) (v1beta1.KubeletConfiguration, error) {
	var cfg v1beta1.KubeletConfiguration
	if err := yaml.UnmarshalStrict(data, &cfg); err != nil {
		return cfg, fmt.Errorf("kubelet configuration: %w", err)
	}
	if cfg.APIVersion != v1beta1.SchemeGroupVersion.String() || cfg.Kind != "KubeletConfiguration" {
		return cfg, fmt.Errorf("kubelet configuration: no kind KubeletConfiguration of %s", v1beta1.SchemeGroupVersion)
	}
	switch {
	case cfg.SingleProcessOOMKill != nil:
		return cfg, errors.New("kubelet configuration: singleProcessOOMKill is not supported on windows")
	case cfg.UserNamespaces != nil:
		return cfg, errors.New("kubelet configuration: userNamespaces is not supported on windows")
	}
	return cfg, nil
}

// settings merges flags and configuration, and validates as the kubelet does before it talks to anybody.
func settings(args map[string]string, cfg v1beta1.KubeletConfiguration, m system.Machine) (kubeletSettings, error) {
	s := kubeletSettings{
		kubeconfig: args["kubeconfig"], bootstrap: args["bootstrap-kubeconfig"], certDir: args["cert-dir"], rootDir: args["root-dir"],
		nodeIP: args["node-ip"], endpoint: cfg.ContainerRuntimeEndpoint, cloudProvider: args["cloud-provider"],
		clientCA: cfg.Authentication.X509.ClientCAFile, taints: cfg.RegisterWithTaints, port: 10250, maxPods: 110,
		serverTLSBootstrap: cfg.ServerTLSBootstrap, rotate: cfg.RotateCertificates,
		registerNode: cfg.RegisterNode == nil || *cfg.RegisterNode, leaseSeconds: 40,
	}
	override(&s.endpoint, args["container-runtime-endpoint"])
	override(&s.clientCA, args["client-ca-file"])
	fallback(&s.rootDir, `C:\var\lib\kubelet`)
	fallback(&s.certDir, s.rootDir+`\pki`)
	if cfg.Port != 0 {
		s.port = cfg.Port
	}
	if cfg.MaxPods != 0 {
		s.maxPods = cfg.MaxPods
	}
	if cfg.NodeLeaseDurationSeconds > 0 {
		s.leaseSeconds = cfg.NodeLeaseDurationSeconds
	}
	var err error
	if s.nodeName, err = nodeName(args["hostname-override"], m); err != nil {
		return s, err
	}
	if s.build, s.ubr, err = m.Version(); err != nil {
		return s, err
	}
	if s.labels, err = parseLabels(args["node-labels"]); err != nil {
		return s, err
	}
	if flag, ok := args["register-with-taints"]; ok {
		if s.taints, err = parseTaints(flag); err != nil {
			return s, err
		}
	}
	if s.endpoint == "" {
		return s, errors.New("the container runtime endpoint address was not specified or empty")
	}
	return s, nil
}

func override(at *string, value string) {
	if value != "" {
		*at = value
	}
}

func fallback(at *string, value string) {
	if *at == "" {
		*at = value
	}
}

func nodeName(override string, m system.Machine) (string, error) {
	name := override
	if name == "" {
		host, err := m.Hostname()
		if err != nil {
			return "", err
		}
		name = host
	}
	name = strings.ToLower(strings.TrimSpace(name))
	if msgs := validation.IsDNS1123Subdomain(name); len(msgs) > 0 {
		return "", fmt.Errorf("node name %q: %s", name, strings.Join(msgs, "; "))
	}
	return name, nil
}

// parseLabels refuses labels of kubernetes.io and k8s.io that a kubelet may not set on itself (kubernetes/kubernetes#84912).
func parseLabels(flag string) (map[string]string, error) {
	labels := map[string]string{}
	var unknown []string
	for pair := range strings.SplitSeq(flag, ",") {
		if pair == "" {
			continue
		}
		key, value, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, fmt.Errorf("node label %q is not key=value", pair)
		}
		if msgs := slices.Concat(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)); len(msgs) > 0 {
			return nil, fmt.Errorf("node label %q: %s", pair, strings.Join(msgs, "; "))
		}
		if forbidden(key) {
			unknown = append(unknown, key)
		}
		labels[key] = value
	}
	if len(unknown) > 0 {
		return nil, fmt.Errorf("unknown 'kubernetes.io' or 'k8s.io' labels specified with --node-labels: %v", unknown)
	}
	return labels, nil
}

func forbidden(key string) bool {
	prefix, _, ok := strings.Cut(key, "/")
	if !ok {
		return false
	}
	of := func(domain string) bool { return prefix == domain || strings.HasSuffix(prefix, "."+domain) }
	if !of("kubernetes.io") && !of("k8s.io") {
		return false
	}
	allowed := set(`kubernetes.io/hostname kubernetes.io/os kubernetes.io/arch beta.kubernetes.io/os beta.kubernetes.io/arch
		beta.kubernetes.io/instance-type node.kubernetes.io/instance-type topology.kubernetes.io/zone topology.kubernetes.io/region
		failure-domain.beta.kubernetes.io/zone failure-domain.beta.kubernetes.io/region`)
	return !allowed[key] && !of("kubelet.kubernetes.io") && !of("node.kubernetes.io")
}

// parseTaints reads key[=value]:effect, separated by commas.
func parseTaints(flag string) ([]corev1.Taint, error) {
	var out []corev1.Taint
	for t := range strings.SplitSeq(flag, ",") {
		if t == "" {
			continue
		}
		kv, effect, ok := strings.Cut(t, ":")
		key, value, _ := strings.Cut(kv, "=")
		if !ok || key == "" || effect == "" {
			return nil, fmt.Errorf("taint %q is not key=value:effect", t)
		}
		out = append(out, corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)})
	}
	return out, nil
}
