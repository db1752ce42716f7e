package bootstrapper

import "github.com/windowsmachine/operator/pkg/plan"

// DefaultLogDir is where the logs of kubelet and containerd lie; `kubectl get --raw .../proxy/logs` reads below C:\var\log.
const DefaultLogDir = plan.LogDir + `\kubelet`

// Places that do not depend on --install-dir: what the kubelet itself writes, and what the programs agree on.
const (
	kubeletRoot = `C:\var\lib\kubelet`
	kubeconfig  = kubeletRoot + `\kubeconfig`
	certDir     = kubeletRoot + `\pki`

	// cniState is host-local's default.
	cniState = `C:\var\lib\cni\networks`

	containerdRoot  = `C:\ProgramData\containerd\root`
	containerdState = `C:\ProgramData\containerd\state`

	podLogs       = plan.LogDir + `\pods`
	containerLogs = plan.LogDir + `\containers`

	bootstrapSecret = "bootstrap-kubeconfig"
)

// layout is where an installation has its files.
type layout struct{ install, logs string }

func newLayout(install, logs string) layout {
	l := layout{folderOf(install), folderOf(logs)}
	if l.install == "" {
		l.install = plan.InstallDir
	}
	if l.logs == "" {
		l.logs = DefaultLogDir
	}
	return l
}

func (l layout) in(name string) string { return l.install + `\` + name }

func (l layout) kubelet() string       { return l.in("kubelet.exe") }
func (l layout) logRunner() string     { return l.in("kube-log-runner.exe") }
func (l layout) config() string        { return l.in("kubelet.conf") }
func (l layout) clientCA() string      { return l.in("kubelet-ca.crt") }
func (l layout) bootstrap() string     { return l.in("bootstrap-kubeconfig") }
func (l layout) containerdDir() string { return l.in("containerd") }
func (l layout) containerd() string    { return l.containerdDir() + `\containerd.exe` }
func (l layout) shim() string          { return l.containerdDir() + `\containerd-shim-runhcs-v1.exe` }

func (l layout) containerdTOML() string { return l.containerdDir() + `\config.toml` }
func (l layout) cniBin() string         { return l.in("cni") }
func (l layout) cniConf() string        { return l.cniBin() + `\config` }

// The low number makes the file the first by name, which is the one that a runtime takes. Its ending says whether it is a list.
func (l layout) cniFile(list bool) string {
	if list {
		return l.cniConf() + `\10-windowsmachine.conflist`
	}
	return l.cniConf() + `\10-windowsmachine.conf`
}
