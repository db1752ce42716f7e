package bootstrapper

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/windowsmachine/operator/pkg/plan"
)

const unit = `[Unit]
Description=Kubernetes Kubelet
[Service]
ExecStart=/usr/local/bin/kubenswrapper \
    /usr/bin/kubelet \
      --config=/etc/kubernetes/kubelet.conf \
      --node-labels=node-role.kubernetes.io/worker,node.openshift.io/os_id=${ID} \
      --cloud-provider=aws --cloud-config=/etc/kubernetes/cloud.conf \
      --v=4
`

const linuxConfig = `kind: KubeletConfiguration
apiVersion: kubelet.config.k8s.io/v1beta1
authentication:
  x509: {clientCAFile: /etc/kubernetes/kubelet-ca.crt}
  anonymous: {enabled: false}
cgroupDriver: systemd
cgroupRoot: /
clusterDNS: [172.30.0.10]
clusterDomain: cluster.local
containerLogMaxSize: 50Mi
crashLoopBackOff: {maxContainerRestartPeriod: 5m0s}
featureGates: {LegacyNodeRoleBehavior: false, NodeDisruptionExclusion: true, RotateKubeletServerCertificate: true}
maxPods: 250
nodeStatusUpdateFrequency: 10s
podPidsLimit: 4096
rotateCertificates: true
runtimeRequestTimeout: 10m0s
serializeImagePulls: false
staticPodPath: /etc/kubernetes/manifests
systemReserved: {cpu: 500m, ephemeral-storage: 1Gi, memory: 1Gi}
tlsMinVersion: VersionTLS12
`

func kubeconfigOf(cluster string) string {
	return "apiVersion: v1\nkind: Config\nclusters:\n- name: local\n  cluster: {" + cluster + "}\n" +
		"contexts:\n- name: kubelet\n  context: {cluster: local, user: kubelet}\ncurrent-context: kubelet\n" +
		"users:\n- name: kubelet\n  user: {token: not-for-anybody}\n"
}

const goodCluster = `server: "https://api-int.example.test:6443", certificate-authority-data: Q0E=`

// entry is a file of an ignition config.
type entry struct {
	path     string
	contents any
}

func data(text string) any {
	return map[string]any{"source": "data:;base64," + base64.StdEncoding.EncodeToString([]byte(text))}
}

// worker is an ignition file of a spec version. An entry of files replaces the standard one of that path; "-" removes it.
func worker(spec string, files map[string]any) []byte {
	all := map[string]any{
		"/etc/kubernetes/kubeconfig":     data(kubeconfigOf(goodCluster)),
		"/etc/kubernetes/kubelet-ca.crt": data("-----BEGIN CERTIFICATE-----\nVEVTVA==\n-----END CERTIFICATE-----\n"),
		"/etc/kubernetes/kubelet.conf":   data(linuxConfig),
		"/etc/kubernetes/cloud.conf":     data("[Global]\n"),
	}
	maps.Copy(all, files)
	var list []entry
	for _, path := range slices.Sorted(maps.Keys(all)) {
		if all[path] != "-" {
			list = append(list, entry{path, all[path]})
		}
	}
	return document(spec, list, map[string]any{"name": "kubelet.service", "enabled": true, "contents": unit})
}

func document(spec string, files []entry, units ...any) []byte {
	var list []any
	for _, f := range files {
		e := map[string]any{"path": f.path, "mode": 420, "contents": f.contents}
		if strings.HasPrefix(spec, "2.") {
			e["filesystem"] = "root"
		}
		list = append(list, e)
	}
	b, err := json.Marshal(map[string]any{
		"ignition": map[string]any{"version": spec}, "storage": map[string]any{"files": list}, "systemd": map[string]any{"units": units},
	})
	if err != nil {
		panic(err)
	}
	return b
}

const digest = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func containerdAt(version string) (containerd, shim Program) {
	containerd = Program{
		Path: `C:\in\containerd.exe`, SHA256: strings.Repeat("c", 64), Size: 1, Output: "containerd github.com/containerd/containerd/v2 " + version + " 75cb2b7",
	}
	return containerd, Program{Path: `C:\in\containerd-shim-runhcs-v1.exe`, SHA256: strings.Repeat("d", 64), Size: 1}
}

// host is a Windows Server 2022 as it should be.
func host() plan.HostFacts {
	return plan.HostFacts{
		Hostname: "WIN-A", Build: 20348, Elevated: true, FreeDisk: 64 << 30, Features: []string{"Containers"},
		Addresses: []plan.AdapterAddress{{Adapter: "Ethernet", Prefix: "192.0.2.10/24", Default: true, Usable: true}},
	}
}

// inputs are those of a machine on which nothing stands in the way.
func inputs(edits ...func(*Inputs)) Inputs {
	in := Inputs{
		Host: host(), Ignition: worker("3.4.0", nil),
		Kubelet: Program{Path: `C:\in\kubelet.exe`, SHA256: digest, Size: 1, Output: "Kubernetes v1.31.14\n"},
		Flags:   Flags{InstallDir: plan.InstallDir, LogDir: DefaultLogDir},
	}
	in.LogRunner = Program{Path: `C:\in\kube-log-runner.exe`, SHA256: strings.Repeat("b", 64), Size: 1}
	in.Runtime.Given, in.Runtime.Shim = containerdAt("v2.1.4")
	for _, e := range edits {
		e(&in)
	}
	return in
}
