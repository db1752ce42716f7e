package bootstrapper

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/windowsmachine/operator/pkg/cni"
	"github.com/windowsmachine/operator/pkg/plan"
	"github.com/windowsmachine/operator/pkg/planner"
)

// NetworkInputs are what configure-cni rests on.
type NetworkInputs struct {
	// InstallDir is the flag, "" where it was not given.
	InstallDir string
	Host       plan.HostFacts
	// Config is the content of --cni-config, ConfigErr why it could not be read.
	Config    []byte
	ConfigErr error
	// Plugins are the files in --cni-dir, PluginsErr why they could not be listed.
	Plugins    []Program
	PluginsErr error
	// Kubelet is the part of initialize-kubelet, nil when it has not run; Before is this command's own part of a former run.
	Kubelet, Before *plan.Plan
	// Operator is whether the machine has a plan of the operator's.
	Operator bool
	// Runtime is what runs the containers; Config of a containerd that somebody else installed is at TOMLPath and holds TOML, nil when the
	// file does not exist; TOMLErr is why it could not be read.
	Runtime  Runtime
	TOMLPath string
	TOML     []byte
	TOMLErr  error
	// Folder are the files that the runtime's configuration folder holds, by name.
	Folder map[string][]byte
	// Networks are the HNS networks that the configuration may speak of, their types by name.
	Networks map[string]string
}

// Where a plan from initialize-kubelet says that the installation is, for gathering; "" when there is none.
func InstallDirOf(kubelet *plan.Plan) string {
	if kubelet == nil {
		return ""
	}
	for _, f := range kubelet.Files {
		if strings.HasSuffix(f.Path, `\kubelet.conf`) {
			return parent(f.Path)
		}
	}
	return ""
}

// ConfigFolder is the folder of network configurations below an installation.
func ConfigFolder(install string) string { return newLayout(install, "").cniConf() }

// networking is a run of ConfigureCNI.
type networking struct {
	in       NetworkInputs
	findings []planner.Finding
	layout   layout
	conf     cni.Config
}

// ConfigureCNI returns the part of the plan that gives pods a network, and everything that speaks against it. The part is empty when one of the
// findings is fatal.
func ConfigureCNI(in NetworkInputs) (Part, []planner.Finding) {
	n := &networking{in: in}
	n.checkMachine()
	n.checkOrder()
	n.checkPlugins()
	n.checkConfig()
	n.checkStale()
	part := n.part()
	if planner.Fatal(n.findings) {
		return Part{}, n.findings
	}
	return part, n.findings
}

func (n *networking) fatal(c planner.Code, format string, args ...any) {
	n.findings = append(n.findings, fatal(c, fmt.Sprintf(format, args...)))
}

func (n *networking) checkMachine() {
	host := n.in.Host
	host.ForeignServices = nil
	for _, f := range planner.Preflight(planner.PreflightInput{Host: host}) {
		// The name and the features were initialize-kubelet's business.
		if f.Fatal {
			n.findings = append(n.findings, f)
		}
	}
	if n.in.Operator {
		n.fatal(CodeOwner, "the operator keeps this machine and its network; set spec.network of its WindowsNodeProfile")
	}
}

func (n *networking) checkOrder() {
	installed := InstallDirOf(n.in.Kubelet)
	n.layout = newLayout(installed, "")
	switch {
	case n.in.Operator:
	case n.in.Kubelet == nil:
		n.fatal(CodeOrder, "there is no kubelet of wmcb's on this machine; run 'wmcb initialize-kubelet' first")
	case n.in.InstallDir != "" && !strings.EqualFold(folderOf(n.in.InstallDir), installed):
		n.fatal(CodeInstallDir, "--install-dir %s: initialize-kubelet was run with %s; give the same folder", bounded(n.in.InstallDir), installed)
	}
}

func (n *networking) checkPlugins() {
	if n.in.PluginsErr != nil {
		n.fatal(CodeCNI, "--cni-dir: %s", bounded(n.in.PluginsErr.Error()))
		return
	}
	if len(n.in.Plugins) == 0 {
		n.fatal(CodeCNI, "--cni-dir: there is no file in it; name the folder with the plugins, such as win-overlay.exe")
	}
	for _, p := range n.in.Plugins {
		if p.Err != nil {
			n.fatal(CodeCNI, "--cni-dir: %s", bounded(p.Err.Error()))
		}
	}
}

func (n *networking) checkConfig() {
	if n.in.ConfigErr != nil {
		n.fatal(CodeCNI, "--cni-config: %s", bounded(n.in.ConfigErr.Error()))
		return
	}
	var err error
	if n.conf, err = cni.Parse(n.in.Config); err != nil {
		n.fatal(CodeCNI, "--cni-config: %s", bounded(err.Error()))
		return
	}
	v, _ := n.in.Runtime.Containerd.version()
	s := cni.Surroundings{HCN: !n.docker(), Containerd: v.Major, Networks: n.in.Networks}
	for _, p := range n.in.Plugins {
		s.Programs = append(s.Programs, fileName(p.Path))
	}
	if n.in.PluginsErr != nil {
		// Said already, once for all plugins.
		for _, p := range n.conf.Plugins {
			s.Programs = append(s.Programs, p.Type+".exe", p.IPAM+".exe", p.Delegate+".exe")
		}
	}
	for _, p := range cni.Check(n.conf, s) {
		n.findings = append(n.findings, planner.Finding{Code: CodeCNI, Message: "--cni-config: " + p.Text, Fatal: p.Fatal})
	}
}

func fileName(path string) string { return path[strings.LastIndexByte(path, '\\')+1:] }

// checkStale looks at what else the runtime would find. It takes the first by name that it can read, so one before ours would win in silence.
func (n *networking) checkStale() {
	own := fileName(n.layout.cniFile(n.conf.List))
	before := map[string]bool{}
	if n.in.Before != nil {
		for _, f := range n.in.Before.Files {
			before[strings.ToLower(fileName(f.Path))] = true
		}
	}
	files := map[string][]byte{own: []byte(`{"cniVersion":"1.0.0","name":"n","type":"t"}`)}
	for name, content := range n.in.Folder {
		if !before[strings.ToLower(name)] && !strings.EqualFold(name, own) {
			files[name] = content
		}
	}
	winner, others, _ := cni.Usable(files)
	if winner != own {
		n.fatal(CodeStaleCNI, "%s\\%s is there and would be taken in the place of %s; delete it", n.layout.cniConf(), bounded(winner), own)
	}
	for _, name := range others {
		if name != own && name != winner {
			n.findings = append(n.findings, warn(CodeStaleCNI, fmt.Sprintf("%s\\%s is there and is not used; delete it if nobody needs it",
				n.layout.cniConf(), bounded(name))))
		}
	}
}

// docker: the kubelet runs containers with its dockershim.
func (n *networking) docker() bool {
	s, ok := n.kubeletService()
	return ok && slices.Contains(s.DependsOn, dockerService)
}

func (n *networking) kubeletService() (plan.Service, bool) {
	if n.in.Kubelet == nil {
		return plan.Service{}, false
	}
	i := slices.IndexFunc(n.in.Kubelet.Services, func(s plan.Service) bool { return s.Name == kubeletService })
	if i < 0 {
		return plan.Service{}, false
	}
	return n.in.Kubelet.Services[i], true
}

// ours: containerd is part of initialize-kubelet's plan, with the folders already in its configuration.
func (n *networking) ours() bool {
	return slices.ContainsFunc(n.in.Kubelet.Services, func(s plan.Service) bool { return s.Name == containerdService })
}

func (n *networking) part() Part {
	if planner.Fatal(n.findings) {
		return Part{}
	}
	p := plan.Empty()
	require(&p, plan.CapabilityBase)
	rooted(&p, n.layout.install)
	for _, d := range []string{n.layout.cniBin(), n.layout.cniConf()} {
		p.Directories = append(p.Directories, plan.Directory{Path: d, Access: plan.AccessPublic})
	}
	var blobs []Blob
	for _, program := range n.in.Plugins {
		path := n.layout.cniBin() + `\` + fileName(program.Path)
		p.Files = append(p.Files, blob(path, program))
		p.Defender = append(p.Defender, plan.DefenderExclusion{Process: path})
		blobs = append(blobs, Blob{program.SHA256, program.Path})
	}
	p.Files = append(p.Files, inline(n.layout.cniFile(n.conf.List), cni.Normal(n.in.Config)))
	switch {
	case n.docker():
		p.Services = []plan.Service{n.withFlags()}
		if p.Services[0].Existing != "" {
			require(&p, plan.CapabilityExisting)
		}
	case !n.ours():
		n.pointContainerd(&p)
	}
	for _, problem := range problems(plan.Merge(*n.in.Kubelet, p).Validate()) {
		n.fatal(CodeCNI, "%s", problem)
	}
	return Part{Plan: p, Blobs: blobs}
}

// withFlags is the kubelet's service with the flags of the dockershim for network plugins.
func (n *networking) withFlags() plan.Service {
	s, _ := n.kubeletService()
	at := slices.IndexFunc(s.Args, func(a string) bool { return strings.HasPrefix(a, "--image-pull-progress-deadline=") })
	s.Args = slices.Insert(slices.Clone(s.Args), at+1,
		"--network-plugin=cni", "--cni-bin-dir="+n.layout.cniBin(), "--cni-conf-dir="+n.layout.cniConf())
	return s
}

// pointContainerd changes the folders in the configuration of a containerd that somebody else installed, and nothing else in it.
func (n *networking) pointContainerd(p *plan.Plan) {
	if n.in.TOMLErr != nil {
		n.fatal(CodeRuntime, "containerd's configuration %s: %s", bounded(n.in.TOMLPath), bounded(n.in.TOMLErr.Error()))
		return
	}
	v, ok := n.in.Runtime.Containerd.version()
	if !ok {
		n.fatal(CodeRuntime, "'%s --version' does not say a version of containerd", bounded(n.in.Runtime.Containerd.Path))
		return
	}
	toml, err := PointContainerd(n.in.TOML, v, n.layout.cniBin(), n.layout.cniConf())
	if err != nil {
		n.fatal(CodeRuntime, "containerd's configuration %s: %s", bounded(n.in.TOMLPath), bounded(err.Error()))
		return
	}
	if bytes.Equal(toml, n.in.TOML) && !n.changedBefore() {
		return
	}
	rooted(p, parent(n.in.TOMLPath))
	f := inline(n.in.TOMLPath, toml)
	f.Once = true
	p.Files = append(p.Files, f)
	require(p, plan.CapabilityExisting)
	p.Services = append(p.Services, plan.Service{Name: containerdService, Existing: plan.ExistingUse, Watch: []string{n.in.TOMLPath}})
}

// changedBefore: a former run has changed the configuration, which is why there is nothing to change now.
func (n *networking) changedBefore() bool {
	return n.in.Before != nil && slices.ContainsFunc(n.in.Before.Files, func(f plan.File) bool { return strings.EqualFold(f.Path, n.in.TOMLPath) })
}

// NetworkName is the name in a configuration, "" when it is none.
func NetworkName(config []byte) string {
	c, err := cni.Parse(config)
	if err != nil {
		return ""
	}
	return c.Name
}
