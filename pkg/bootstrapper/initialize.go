package bootstrapper

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/windowsmachine/operator/pkg/ignition"
	"github.com/windowsmachine/operator/pkg/kubelet"
	"github.com/windowsmachine/operator/pkg/plan"
	"github.com/windowsmachine/operator/pkg/planner"
)

// Flags of `wmcb initialize-kubelet`, as they were typed.
type Flags struct {
	InstallDir, LogDir         string
	NodeIP, ClusterDNS         string
	Platform, HostnameOverride string
	Verbosity                  string
	Labels, Taints             string
}

// Inputs are what initialize-kubelet rests on.
type Inputs struct {
	Flags Flags
	Host  plan.HostFacts
	// Ignition is the content of the ignition file, IgnitionErr why it could not be read.
	Ignition    []byte
	IgnitionErr error
	Kubelet     Program
	// LogRunner is a kube-log-runner.exe beside the kubelet.
	LogRunner Program
	Runtime   Runtime
	// Hostname is the name that the platform gives the machine, HostnameErr why it could not be asked.
	Hostname    string
	HostnameErr error
	// Before is the part that a former run has left, nil when there is none.
	Before *plan.Plan
	// Operator is whether the machine has a plan of the operator's.
	Operator bool
	// Temporary is whether the volume of the installation says that it is wiped when the machine moves.
	Temporary bool
}

// defaultVerbosity of a kubelet's log where neither flag nor unit says it.
const defaultVerbosity = 3

// maxVerbosity is more than any log line asks for.
const maxVerbosity = 127

// initialization is a run of Initialize.
type initialization struct {
	in       Inputs
	findings []planner.Finding
	worker   ignition.Worker
	layout   layout
	kubelet  kubelet.Version
	runtime  runtime
	labels   map[string]string
	taints   []kubelet.Taint
	dns      []string
	level    int
	cluster  string
}

// Initialize returns the part of the plan that makes the machine a node, and everything that speaks against it. The part is empty when one
// of the findings is fatal.
func Initialize(in Inputs) (Part, []planner.Finding) {
	i := &initialization{in: in}
	i.checkMachine()
	i.checkFolders()
	i.checkFlags()
	i.readIgnition()
	i.checkKubelet()
	i.checkRuntime()
	i.checkDisk()
	if planner.Fatal(i.findings) {
		return Part{}, i.findings
	}
	part, err := i.part()
	if err != nil {
		i.fatal(CodeFlag, "%s", bounded(err.Error()))
		return Part{}, i.findings
	}
	i.checkConfig()
	return part, i.findings
}

func (i *initialization) fatal(c planner.Code, format string, args ...any) {
	i.findings = append(i.findings, fatal(c, fmt.Sprintf(format, args...)))
}

func (i *initialization) warn(c planner.Code, format string, args ...any) {
	i.findings = append(i.findings, warn(c, fmt.Sprintf(format, args...)))
}

// checkMachine asks what the operator asks too. Of the services that others made, containerd and docker are used and kubelet is replaced.
func (i *initialization) checkMachine() {
	host := i.in.Host
	foreign := host.ForeignServices
	host.ForeignServices = nil
	name := i.nodeName()
	for _, f := range planner.Preflight(planner.PreflightInput{
		Host: host, NodeName: name, NodeIP: i.in.Flags.NodeIP, CheckNodeIP: validIP(i.in.Flags.NodeIP),
	}) {
		// The way out has another name on the machine than in the cluster.
		f.Message = strings.NewReplacer("spec.nodeIP", "--node-ip", "spec.nodeName", "--hostname-override").Replace(f.Message)
		i.findings = append(i.findings, f)
	}
	if i.in.Operator {
		i.fatal(CodeOwner, "the operator keeps this machine; delete its WindowsHost object, or run 'wmcb remove' first")
	}
	if slices.Contains(foreign, kubeletService) {
		i.warn(CodeReplaced, "service kubelet was not made by wmcb; it gets a new configuration, and uninstall-kubelet will delete it")
	}
}

func validIP(s string) bool {
	_, err := netip.ParseAddr(s)
	return err == nil
}

// nodeName is what goes by --hostname-override, "" to let the kubelet take the machine's host name.
func (i *initialization) nodeName() string {
	if i.in.Flags.HostnameOverride != "" {
		return i.in.Flags.HostnameOverride
	}
	return i.in.Hostname
}

func (i *initialization) checkFolders() {
	i.layout = newLayout(i.in.Flags.InstallDir, i.in.Flags.LogDir)
	p := plan.Empty()
	rooted(&p, i.layout.install, i.layout.logs)
	p.Directories = []plan.Directory{
		{Path: i.layout.install, Access: plan.AccessPublic}, {Path: i.layout.logs, Access: plan.AccessPublic},
	}
	for _, problem := range problems(p.Validate()) {
		i.fatal(CodeInstallDir, "--install-dir or --log-dir: %s", problem)
	}
	if i.in.Temporary {
		i.fatal(CodeInstallDir, "--install-dir %s lies on a temporary volume, which is wiped when the machine moves to another host; name a folder on C:",
			bounded(i.layout.install))
	}
}

// problems splits a joined error into its sentences.
func problems(err error) []string {
	var joined interface{ Unwrap() []error }
	switch {
	case err == nil:
		return nil
	case errors.As(err, &joined):
		var out []string
		for _, e := range joined.Unwrap() {
			out = append(out, problems(e)...)
		}
		return out
	}
	return []string{bounded(err.Error())}
}

func (i *initialization) checkFlags() {
	f := i.in.Flags
	if f.NodeIP != "" && !validIP(f.NodeIP) {
		i.fatal(CodeFlag, "--node-ip %q is not an IP address", bounded(f.NodeIP))
	}
	i.checkDNS()
	i.checkName()
	i.checkPlatform()
	if n, err := strconv.Atoi(f.Verbosity); f.Verbosity != "" && (err != nil || n < 0 || n > maxVerbosity) {
		i.fatal(CodeFlag, "--kubelet-verbosity %q is not a number from 0 to %d", bounded(f.Verbosity), maxVerbosity)
	} else if f.Verbosity != "" {
		i.level = n
	}
	i.checkLabels()
	var err error
	if i.taints, err = kubelet.ParseTaints(f.Taints); err != nil {
		for _, problem := range problems(err) {
			i.fatal(CodeFlag, "--register-with-taints: %s", problem)
		}
	}
}

func (i *initialization) checkDNS() {
	for text := range strings.SplitSeq(i.in.Flags.ClusterDNS, ",") {
		text = strings.TrimSpace(text)
		switch {
		case text == "":
		case !validIP(text):
			i.fatal(CodeFlag, "--cluster-dns %q is not an IP address", bounded(text))
		default:
			i.dns = append(i.dns, text)
		}
	}
}

// checkName: the kubelet gives the name to the node as it is.
func (i *initialization) checkName() {
	name := i.nodeName()
	if name != "" && !nodeNameRule(name) {
		i.fatal(CodeFlag, "--hostname-override %q cannot be a node's name: lower-case letters, digits, hyphens and dots, at most 253 characters",
			bounded(name))
	}
}

// nodeNameRule is that of a DNS subdomain (RFC 1123).
func nodeNameRule(name string) bool {
	if len(name) > 253 {
		return false
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" ||
			strings.HasPrefix(label, "-") || strings.HasSuffix(label, "-") {
			return false
		}
	}
	return true
}

func (i *initialization) checkPlatform() {
	if !IsAWS(i.in.Flags.Platform) {
		return
	}
	if i.in.HostnameErr != nil && i.in.Flags.HostnameOverride == "" {
		i.fatal(CodePlatform, "the instance's metadata service did not give the host name (%s); let the machine reach 169.254.169.254, or give --hostname-override",
			bounded(i.in.HostnameErr.Error()))
	}
	i.warn(CodePlatform, "the instance must have the cluster's tags (kubernetes.io/cluster/<infrastructure id>=owned), or the cloud's controller removes "+
		"the node; that cannot be seen from here")
}

// IsAWS: other platforms need nothing from the bootstrapper.
func IsAWS(platform string) bool { return strings.EqualFold(strings.TrimSpace(platform), "aws") }

// osIDLabel is what OpenShift's own workloads select Windows nodes by.
const osIDLabel = "node.openshift.io/os_id"

func (i *initialization) checkLabels() {
	i.labels = map[string]string{osIDLabel: "Windows"}
	for text := range strings.SplitSeq(i.in.Flags.Labels, ",") {
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		key, value, ok := strings.Cut(text, "=")
		if !ok {
			i.fatal(CodeFlag, "--node-labels: %q is not key=value", bounded(text))
			continue
		}
		i.labels[key] = value
	}
	_, forbidden, err := kubelet.SplitLabels(i.labels)
	for _, problem := range problems(err) {
		i.fatal(CodeFlag, "--node-labels: %s", problem)
	}
	for _, key := range slices.Sorted(maps.Keys(forbidden)) {
		i.fatal(CodeFlag, "--node-labels: a kubelet may not set %q itself and would not start; leave it out and run 'kubectl label node' afterwards",
			bounded(key))
	}
}

// readIgnition: kubelet.conf may be absent, everything else is needed.
func (i *initialization) readIgnition() {
	if i.in.IgnitionErr != nil {
		i.fatal(CodeIgnition, "--ignition-file: %s", bounded(i.in.IgnitionErr.Error()))
		return
	}
	c, err := ignition.Parse(i.in.Ignition)
	if err == nil {
		i.worker, err = c.Worker(ignition.BootstrapKubeconfig, ignition.KubeletCA, ignition.KubeletUnit)
	}
	if err != nil {
		for _, problem := range problems(err) {
			i.fatal(CodeIgnition, "--ignition-file: %s", problem)
		}
		return
	}
	if i.cluster, err = clusterOf(i.worker.BootstrapKubeconfig); err != nil {
		i.fatal(CodeIgnition, "--ignition-file: file %s: %s", ignition.PathBootstrapKubeconfig, bounded(err.Error()))
	}
	if i.in.Flags.Verbosity == "" {
		i.level = defaultVerbosity
		if i.worker.Verbosity != nil {
			i.level = *i.worker.Verbosity
		}
	}
}

func (i *initialization) checkKubelet() {
	p := i.in.Kubelet
	if p.Err != nil {
		i.fatal(CodeKubelet, "--kubelet-path: %s", bounded(p.Err.Error()))
		return
	}
	v, ok := p.version()
	if !ok {
		i.fatal(CodeKubelet, "--kubelet-path: '%s --version' printed %q, which is no version; is it a kubelet for Windows?", bounded(p.Path), bounded(p.Output))
		return
	}
	i.kubelet = v
	if _, err := kubelet.Args(kubelet.Input{Version: v}); err != nil {
		i.fatal(CodeKubelet, "--kubelet-path: %s; the oldest that is known is v1.16", bounded(err.Error()))
	}
	if i.wrapped() || kubelet.WritesLog(v) {
		return
	}
	i.warn(CodeNoLog, "kubelet %s writes no log file itself; put kube-log-runner.exe of the same release beside %s to have one", v, bounded(p.Path))
}

// wrapped: the log runner starts the kubelet.
func (i *initialization) wrapped() bool {
	return i.in.LogRunner.Path != "" && i.in.LogRunner.Err == nil && !kubelet.WritesLog(i.kubelet)
}

func (i *initialization) checkRuntime() {
	if i.kubelet == (kubelet.Version{}) {
		return
	}
	var findings []planner.Finding
	i.runtime, findings = decideRuntime(i.kubelet, i.in.Runtime)
	i.findings = append(i.findings, findings...)
}

// diskMargin is kept free for the journal, logs and the first images, in bytes.
const diskMargin = 1 << 30

// checkDisk counts every file twice, since it is kept under its digest as well.
func (i *initialization) checkDisk() {
	var need int64 = diskMargin
	for _, p := range []Program{i.in.Kubelet, i.in.LogRunner, i.in.Runtime.Given, i.in.Runtime.Shim} {
		need += 2 * p.Size
	}
	already := slices.ContainsFunc(i.findings, func(f planner.Finding) bool { return f.Code == planner.CodeDiskSpace })
	if i.in.Before == nil && i.in.Host.FreeDisk < need && !already {
		i.fatal(CodeDisk, "the system volume has %d MiB free, %d MiB are needed; free some space or extend the volume", i.in.Host.FreeDisk>>20, need>>20)
	}
}

// sayLeftOut names the fields in groups of one reason.
func (i *initialization) sayLeftOut(in kubelet.Input) {
	left, _ := kubelet.LeftOut(in)
	fields := map[string][]string{}
	for _, l := range left {
		fields[l.Why] = append(fields[l.Why], bounded(l.Field))
	}
	var groups []string
	for why, names := range fields {
		slices.Sort(names)
		groups = append(groups, strings.Join(names, ", ")+" ("+why+")")
	}
	slices.Sort(groups)
	if len(groups) > 0 {
		i.warn(CodeFieldsLeftOut, "of kubelet.conf is left out: %s", strings.Join(groups, "; "))
	}
}

// checkConfig says what of the user's kubelet.conf is not carried over.
func (i *initialization) checkConfig() {
	in := i.kubeletInput()
	if i.worker.KubeletConfig != nil {
		i.sayLeftOut(in)
	}
	if name := in.CloudProvider; name != "" && !kubelet.KnowsCloudProvider(i.kubelet, name) {
		i.warn(CodePlatform, "kubelet %s knows no --cloud-provider=%s, which the ignition's unit has; it is left out", i.kubelet, bounded(name))
	}
	if dns, _ := kubelet.Says(in.Cluster); !dns && len(i.dns) == 0 {
		i.warn(CodeClusterDNS, "neither kubelet.conf nor --cluster-dns names the cluster's DNS server; pods will use the machine's")
	}
}
