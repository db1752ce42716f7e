package planner

import (
	"maps"
	"slices"

	"github.com/windowsmachine/operator/pkg/facts"
	"github.com/windowsmachine/operator/pkg/kubelet"
	"github.com/windowsmachine/operator/pkg/plan"
)

// defaultVerbosity of the kubelet's log.
const defaultVerbosity = 2

// rotationFrom is the first minor version whose kube-log-runner rotates: the flags are in component-base v0.34.2 and not
// in v0.33.5.
const rotationFrom = 34

// osIDLabel is what OpenShift's own workloads select Windows nodes by.
const osIDLabel = "node.openshift.io/os_id"

func (b *builder) kubeletInput() (kubelet.Input, error) {
	labels := maps.Clone(b.o.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	if _, given := labels[osIDLabel]; b.c.Platform != "" && !given {
		labels[osIDLabel] = "Windows"
	}
	own, _, err := kubelet.SplitLabels(labels)
	if err != nil {
		return kubelet.Input{}, err
	}
	return kubelet.Input{
		Version: b.kubelet,
		Cluster: b.c.KubeletConfig,
		Paths: kubelet.Paths{
			Config: kubeletConfig, ClientCA: kubeletCA, Bootstrap: bootstrapFile, Kubeconfig: kubeconfig,
			CertDir: certDir, RootDir: kubeletRoot,
		},
		NodeName: b.o.NodeName, NodeIP: b.o.NodeIP,
		ClusterDNS: b.c.ClusterDNS, ClusterDomain: b.c.ClusterDomain,
		MaxPods: b.o.MaxPods, Verbosity: verbosity(b.c, b.o), Labels: own, Taints: b.o.Taints,
		CloudProvider: b.c.CloudProvider, CloudConfig: cloudConfigPath(b.c.CloudConfig), PauseImage: b.pause,
	}, nil
}

func verbosity(c facts.Cluster, o Options) int {
	switch {
	case o.Verbosity != nil:
		return int(*o.Verbosity)
	case c.Verbosity != nil:
		return *c.Verbosity
	}
	return defaultVerbosity
}

func cloudConfigPath(f *facts.ConfigFile) string {
	if f == nil {
		return ""
	}
	return plan.InstallDir + `\` + f.Name
}

// hasCloudConfig: the file is placed for kubelets that read it.
func (b *builder) hasCloudConfig() bool {
	return b.c.CloudConfig != nil && kubelet.KnowsCloudProvider(b.kubelet, b.c.CloudProvider) && kubelet.TakesCloudConfig(b.kubelet)
}

func (b *builder) kubeletFiles(in kubelet.Input) ([]plan.File, error) {
	config, err := kubelet.Config(in)
	if err != nil {
		return nil, err
	}
	out := []plan.File{inline(kubeletConfig, config), inline(kubeletCA, slices.Clone(b.c.KubeletClientCA))}
	if b.hasCloudConfig() {
		// It may hold credentials of the cloud.
		out = append(out, plan.File{
			Path: cloudConfigPath(b.c.CloudConfig), Access: plan.AccessSecret, Inline: append([]byte{}, b.c.CloudConfig.Data...),
		})
	}
	return out, nil
}

func (b *builder) services(in kubelet.Input) ([]plan.Service, error) {
	args, err := kubelet.Args(in)
	if err != nil {
		return nil, err
	}
	watch := []string{kubeletExe, kubeletConfig, kubeletCA}
	if b.hasCloudConfig() {
		watch = append(watch, in.CloudConfig)
	}
	log := kubeletLogs + `\kubelet.log`
	containerdLog := containerdLogs + `\containerd.log`
	return []plan.Service{
		ContainerdService(containerdExe, containerdConf, containerdLog),
		{
			// The kubelet insists on this name.
			Name: "kubelet", DisplayName: "kubelet", Description: "Kubernetes node agent",
			Exe:       logRunnerExe,
			Args:      slices.Concat(LogRunnerArgs(log, b.kubelet), []string{kubeletExe}, args),
			DependsOn: []string{"containerd"}, LogFile: log, Watch: watch, Recovery: Recovery(),
		},
	}, nil
}

// ContainerdService is the service of a containerd with its configuration and its log.
func ContainerdService(exe, config, log string) plan.Service {
	return plan.Service{
		Name: "containerd", DisplayName: "containerd", Description: "Runs containers for the kubelet",
		Exe: exe,
		// Without a log file a containerd service writes to nowhere.
		Args:    []string{"--config", config, "--log-file", log, "--service-name", "containerd", "--run-service"},
		LogFile: log, Watch: []string{config}, Recovery: Recovery(),
	}
}

// LogRunnerArgs are those of kube-log-runner before the program that it runs: kubelets from 1.26 write to standard error only, which a service does not have.
func LogRunnerArgs(log string, v kubelet.Version) []string {
	out := []string{"-log-file=" + log}
	// kube-log-runner comes with the kubelet's release and can rotate from this version on.
	if !v.Before(1, rotationFrom) {
		out = append(out, "-log-file-size=100Mi", "-log-file-age=168h", "-flush-interval=5s")
	}
	return out
}

// Recovery restarts a service that has died after 5, 10 and then every 30 seconds.
func Recovery() *plan.Recovery {
	return &plan.Recovery{RestartDelaySeconds: []int{5, 10, 30}, ResetSeconds: 600}
}
