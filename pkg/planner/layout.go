package planner

import "github.com/windowsmachine/operator/pkg/plan"

// Places on the machine.
const (
	kubeletExe     = plan.InstallDir + `\` + BlobKubelet
	logRunnerExe   = plan.InstallDir + `\` + BlobLogRunner
	crictlExe      = plan.InstallDir + `\` + BlobCrictl
	kubeletConfig  = plan.InstallDir + `\kubelet.conf`
	kubeletCA      = plan.InstallDir + `\kubelet-ca.crt`
	bootstrapFile  = plan.InstallDir + `\bootstrap-kubeconfig`
	containerdDir  = plan.InstallDir + `\containerd`
	containerdExe  = containerdDir + `\` + BlobContainerd
	containerdConf = containerdDir + `\config.toml`
	shimExe        = containerdDir + `\` + BlobShim
	registriesDir  = containerdDir + `\registries`
	cniDir         = plan.InstallDir + `\cni`
	cniConfDir     = cniDir + `\config`
	// The low number makes the file the first by name, which is the one that containerd takes.
	cniConflist = cniConfDir + `\10-windowsmachine.conflist`
	cniConf     = cniConfDir + `\10-windowsmachine.conf`

	// kubeletRoot holds all that the kubelet itself writes, so that removing the folder removes it.
	kubeletRoot = `C:\var\lib\kubelet`
	kubeconfig  = kubeletRoot + `\kubeconfig`
	certDir     = kubeletRoot + `\pki`

	cniState        = `C:\var\lib\cni\networks`
	containerdData  = `C:\ProgramData\containerd`
	containerdRoot  = containerdData + `\root`
	containerdState = containerdData + `\state`

	kubeletLogs    = plan.LogDir + `\kubelet`
	containerdLogs = plan.LogDir + `\containerd`
	podLogs        = plan.LogDir + `\pods`
	containerLogs  = plan.LogDir + `\containers`
)

// places returns where each payload blob goes, in the order of Needs and then the optional ones.
func places() map[string]string {
	return map[string]string{
		BlobKubelet:    kubeletExe,
		BlobLogRunner:  logRunnerExe,
		BlobContainerd: containerdExe,
		BlobShim:       shimExe,
		BlobCrictl:     crictlExe,
		BlobWinBridge:  cniDir + `\` + BlobWinBridge,
		BlobWinOverlay: cniDir + `\` + BlobWinOverlay,
		BlobHostLocal:  cniDir + `\` + BlobHostLocal,
		BlobSDNBridge:  cniDir + `\` + BlobSDNBridge,
		BlobKubeProxy:  proxyExe,
	}
}

// directories lists folders, parents first. Those with Purge hold what programs write while they run: they are emptied when
// the machine joins, since leases and certificates of an earlier cluster would be taken for this one's, and go with the plan.
func directories(n Network) []plan.Directory {
	public := func(path string) plan.Directory { return plan.Directory{Path: path, Access: plan.AccessPublic} }
	purge := func(path string, a plan.Access) plan.Directory {
		return plan.Directory{Path: path, Access: a, Purge: true}
	}
	out := []plan.Directory{
		public(plan.InstallDir),
		public(containerdDir),
		public(registriesDir),
		public(cniDir),
		public(cniConfDir),
		public(plan.LogDir),
		purge(kubeletLogs, plan.AccessPublic),
		purge(containerdLogs, plan.AccessPublic),
		purge(podLogs, plan.AccessPublic),
		purge(containerLogs, plan.AccessPublic),
		// Not secret: volumes lie below it, and programs in containers reach them with the rights of a plain user.
		purge(kubeletRoot, plan.AccessPublic),
		purge(certDir, plan.AccessSecret),
		// containerd gives its folders the same access when it makes them.
		purge(containerdRoot, plan.AccessSecret),
		purge(containerdState, plan.AccessSecret),
	}
	if hasCNI(n) {
		out = append(out, purge(cniState, plan.AccessPublic))
	}
	return out
}

// cniBin and cniConfig are where containerd looks for CNI plugins and configuration. Calico for Windows brings both itself, to the places that
// containerd's own packages for Windows have (projectcalico/calico manifests/calico-windows*.yaml: CNI_BIN_DIR, CNI_CONF_DIR).
func cniBin(n Network) string {
	if n.Mode == ModeCalico {
		return `C:\opt\cni\bin`
	}
	return cniDir
}

func cniConfig(n Network) string {
	if n.Mode == ModeCalico {
		return `C:\etc\cni\net.d`
	}
	return cniConfDir
}
