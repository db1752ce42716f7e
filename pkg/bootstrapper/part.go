package bootstrapper

import (
	"encoding/json"
	"slices"

	"github.com/windowsmachine/operator/pkg/kubelet"
	"github.com/windowsmachine/operator/pkg/plan"
	"github.com/windowsmachine/operator/pkg/planner"
)

// dockerPause is the sandbox image for the dockershim, whose own default has no Windows variant.
const dockerPause = "mcr.microsoft.com/oss/kubernetes/pause:3.6"

func (i *initialization) part() (Part, error) {
	in := i.kubeletInput()
	config, err := kubelet.Config(in)
	if err != nil {
		return Part{}, err
	}
	service, err := i.kubeletService(in)
	if err != nil {
		return Part{}, err
	}
	p := plan.Empty()
	require(&p, plan.CapabilityBase)
	rooted(&p, i.layout.install, i.layout.logs)
	p.Secrets = []plan.Secret{{Name: bootstrapSecret, Path: i.layout.bootstrap()}}
	p.Directories = i.directories()
	p.Files = append(i.programs(), inline(i.layout.config(), config), inline(i.layout.clientCA(), i.worker.KubeletCA))
	if c := in.CloudConfig; c != "" {
		// It may hold credentials of the cloud.
		p.Files = append(p.Files, plan.File{Path: c, Access: plan.AccessSecret, Inline: append([]byte{}, i.worker.CloudConfig.Data...)})
	}
	p.Firewall = []plan.FirewallRule{{Name: "windowsmachine-kubelet", Protocol: "TCP", Port: 10250}}
	if i.runtime.install {
		if err := i.installContainerd(&p); err != nil {
			return Part{}, err
		}
	}
	for _, f := range p.Files {
		if f.Blob != "" {
			p.Defender = append(p.Defender, plan.DefenderExclusion{Process: f.Path})
		}
	}
	if service.Existing != "" {
		require(&p, plan.CapabilityExisting)
	}
	p.Services = append(p.Services, service)
	if err := p.Validate(); err != nil {
		return Part{}, err
	}
	return Part{
		Plan: p, Secrets: map[string][]byte{bootstrapSecret: i.worker.BootstrapKubeconfig}, Cluster: i.cluster, Blobs: i.blobs(),
	}, nil
}

func inline(path string, content []byte) plan.File {
	return plan.File{Path: path, Access: plan.AccessPublic, Inline: slices.Clone(content)}
}

// kubeletInput keeps the user's own kubelet.conf as far as Windows can take it; without one there are the product's defaults.
func (i *initialization) kubeletInput() kubelet.Input {
	in := kubelet.Input{
		Version: i.kubelet, Own: true, Cluster: i.worker.KubeletConfig,
		Paths: kubelet.Paths{
			Config: i.layout.config(), ClientCA: i.layout.clientCA(), Bootstrap: i.layout.bootstrap(), Kubeconfig: kubeconfig,
			CertDir: certDir, RootDir: kubeletRoot,
		},
		NodeName: i.nodeName(), NodeIP: i.in.Flags.NodeIP, ClusterDNS: i.dns, Verbosity: i.level, Labels: i.labels, Taints: i.taints,
		CloudProvider: i.worker.CloudProvider, LogFile: i.log(), Docker: i.runtime.service == dockerService, PauseImage: dockerPause,
	}
	if in.Cluster == nil {
		in.Cluster = defaultConfig()
	}
	if !in.Docker {
		in.PauseImage = planner.PauseImage(i.kubelet)
	}
	if f := i.worker.CloudConfig; f != nil && kubelet.TakesCloudConfig(i.kubelet) && kubelet.KnowsCloudProvider(i.kubelet, in.CloudProvider) {
		in.CloudConfig = i.layout.in(f.Name)
	}
	return in
}

func (i *initialization) log() string { return i.layout.logs + `\kubelet.log` }

// defaultConfig is what a node gets whose ignition has no kubelet.conf.
func defaultConfig() []byte {
	b, err := json.Marshal(map[string]any{
		"kind": "KubeletConfiguration", "apiVersion": "kubelet.config.k8s.io/v1beta1",
		"clusterDomain": "cluster.local", "containerLogMaxSize": "50Mi", "kubeAPIBurst": 100, "kubeAPIQPS": 50, "maxPods": 250,
		"runtimeRequestTimeout": "10m0s", "serializeImagePulls": false,
		"systemReserved": map[string]string{"cpu": "500m", "ephemeral-storage": "1Gi", "memory": "1Gi"},
	})
	if err != nil {
		// Texts, numbers and booleans only; json.Marshal cannot refuse them.
		panic("bootstrapper: encoding the default configuration: " + err.Error())
	}
	return b
}

func (i *initialization) kubeletService(in kubelet.Input) (plan.Service, error) {
	args, err := kubelet.Args(in)
	if err != nil {
		return plan.Service{}, err
	}
	s := plan.Service{
		// The kubelet insists on this name.
		Name: kubeletService, DisplayName: "kubelet", Description: "Kubernetes node agent, kept by wmcb",
		Exe: i.layout.kubelet(), Args: args, DependsOn: []string{i.runtime.service}, LogFile: i.log(),
		Watch: []string{i.layout.kubelet(), i.layout.config(), i.layout.clientCA()}, Recovery: planner.Recovery(),
	}
	if i.wrapped() {
		s.Exe = i.layout.logRunner()
		s.Args = slices.Concat(planner.LogRunnerArgs(i.log(), i.kubelet), []string{i.layout.kubelet()}, args)
	} else if !kubelet.WritesLog(i.kubelet) {
		s.LogFile = ""
	}
	if in.CloudConfig != "" {
		s.Watch = append(s.Watch, in.CloudConfig)
	}
	if i.replaces() {
		s.Existing = plan.ExistingReplace
	}
	return s, nil
}

// replaces: the kubelet that is there was somebody else's, now or before a former run took it over. Then what it has kept stays.
func (i *initialization) replaces() bool {
	if slices.Contains(i.in.Host.ForeignServices, kubeletService) {
		return true
	}
	return i.in.Before != nil && slices.ContainsFunc(i.in.Before.Services, func(s plan.Service) bool {
		return s.Name == kubeletService && s.Existing == plan.ExistingReplace
	})
}

// directories lists folders, parents first. Those with Purge hold what programs write while they run: they are emptied when the machine
// joins, since leases and certificates of an earlier cluster would be taken for this one's, and go with the plan.
func (i *initialization) directories() []plan.Directory {
	public := func(path string) plan.Directory { return plan.Directory{Path: path, Access: plan.AccessPublic} }
	purge := func(path string, a plan.Access) plan.Directory {
		return plan.Directory{Path: path, Access: a, Purge: !i.replaces()}
	}
	out := []plan.Directory{public(i.layout.install), public(plan.LogDir)}
	if i.layout.logs == DefaultLogDir {
		out = append(out, purge(DefaultLogDir, plan.AccessPublic))
	} else if i.layout.logs != plan.LogDir {
		out = append(out, public(i.layout.logs))
	}
	return append(out,
		purge(podLogs, plan.AccessPublic),
		purge(containerLogs, plan.AccessPublic),
		// Not secret: volumes lie below it, and programs in containers reach them with the rights of a plain user.
		purge(kubeletRoot, plan.AccessPublic),
		purge(certDir, plan.AccessSecret),
		purge(cniState, plan.AccessPublic),
	)
}

func (i *initialization) programs() []plan.File {
	out := []plan.File{blob(i.layout.kubelet(), i.in.Kubelet)}
	if i.wrapped() {
		out = append(out, blob(i.layout.logRunner(), i.in.LogRunner))
	}
	return out
}

func blob(path string, p Program) plan.File {
	return plan.File{Path: path, Access: plan.AccessPublic, Blob: p.SHA256}
}

func (i *initialization) installContainerd(p *plan.Plan) error {
	conf, err := planner.RenderContainerd(planner.Containerd{
		Version: i.runtime.version, Pause: planner.PauseImage(i.kubelet), CNIBin: i.layout.cniBin(), CNIConf: i.layout.cniConf(),
		Registries: i.layout.containerdDir() + `\registries`,
	})
	if err != nil {
		return err
	}
	p.Features = []plan.Feature{{Name: "Containers"}}
	for _, d := range []string{i.layout.containerdDir(), i.layout.containerdDir() + `\registries`, i.layout.cniBin(), i.layout.cniConf()} {
		p.Directories = append(p.Directories, plan.Directory{Path: d, Access: plan.AccessPublic})
	}
	for _, d := range []string{containerdRoot, containerdState} {
		p.Directories = append(p.Directories, plan.Directory{Path: d, Access: plan.AccessSecret, Purge: true})
	}
	p.Files = append(p.Files, blob(i.layout.containerd(), i.runtime.containerd), blob(i.layout.shim(), i.runtime.shim),
		inline(i.layout.containerdTOML(), conf))
	p.Defender = []plan.DefenderExclusion{{Path: containerdRoot}}
	p.Services = []plan.Service{planner.ContainerdService(i.layout.containerd(), i.layout.containerdTOML(), i.layout.logs+`\containerd.log`)}
	return nil
}

func (i *initialization) blobs() []Blob {
	all := []Program{i.in.Kubelet}
	if i.wrapped() {
		all = append(all, i.in.LogRunner)
	}
	if i.runtime.install {
		all = append(all, i.runtime.containerd, i.runtime.shim)
	}
	var out []Blob
	for _, p := range all {
		out = append(out, Blob{p.SHA256, p.Path})
	}
	return out
}
