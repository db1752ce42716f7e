package join_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/windowsmachine/operator/pkg/payload"
	"github.com/windowsmachine/operator/pkg/plan"
)

const networkName = "l2bridge"

// kubeletArgs are the words behind kube-log-runner, kubelet.exe among them.
func kubeletArgs(ip string) []string {
	return []string{
		`--log-file=C:\var\log\kubelet\kubelet.log`, "--also-stdout=false", `C:\k\kubelet.exe`, "--windows-service", `--config=C:\k\kubelet.conf`,
		`--bootstrap-kubeconfig=C:\k\bootstrap-kubeconfig`, `--kubeconfig=C:\var\lib\kubelet\kubeconfig`, `--cert-dir=C:\var\lib\kubelet\pki`,
		"--node-ip=" + ip, "--node-labels=node.openshift.io/os_id=Windows", "--v=2",
	}
}

func kubeletConfig(t testing.TB) []byte {
	t.Helper()
	b, err := json.Marshal(map[string]any{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"authentication":           map[string]any{"anonymous": map[string]any{"enabled": false}, "x509": map[string]any{"clientCAFile": `C:\k\kubelet-ca.crt`}},
		"containerRuntimeEndpoint": "npipe:////./pipe/containerd-containerd",
		"rotateCertificates":       true, "serverTLSBootstrap": true, "cgroupsPerQOS": false, "enforceNodeAllocatable": []string{},
		"registerWithTaints": []map[string]string{{"key": "os", "value": "Windows", "effect": "NoSchedule"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

const containerdConfig = `version = 3
[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = ['C:\k\cni']
conf_dir = 'C:\k\cni\config'
`

const cniConfig = `{"cniVersion":"1.0.0","name":"` + networkName + `","plugins":[{"type":"win-bridge","ipam":{"type":"host-local"}}]}`

// wholePlan is everything that a node needs. blob is the digest of a payload file by name.
func wholePlan(t testing.TB, store *payload.Store, ip string, clientCA []byte) plan.Plan {
	t.Helper()
	p := plan.Empty()
	p.Secrets = []plan.Secret{{Name: "bootstrap-kubeconfig", Path: `C:\k\bootstrap-kubeconfig`}}
	for _, d := range []string{
		`C:\k`, `C:\k\containerd`, `C:\k\cni`, `C:\k\cni\config`, `C:\var\log`, `C:\var\log\kubelet`, `C:\var\log\containerd`, `C:\var\lib`,
	} {
		if d != plan.LogDir {
			p.Directories = append(p.Directories, plan.Directory{Path: d, Access: plan.AccessPublic, Purge: strings.Contains(d, "log")})
		}
	}
	p.Directories = append(p.Directories, plan.Directory{Path: `C:\var\lib\kubelet`, Access: plan.AccessPublic, Purge: true})
	for path, name := range map[string]string{`C:\k\`: "kubelet.exe kube-log-runner.exe", `C:\k\containerd\`: "containerd.exe containerd-shim-runhcs-v1.exe", `C:\k\cni\`: "win-bridge.exe host-local.exe"} {
		for n := range strings.FieldsSeq(name) {
			b, ok := store.Lookup(n)
			if !ok {
				t.Fatalf("no blob %s", n)
			}
			p.Files = append(p.Files, plan.File{Path: path + n, Access: plan.AccessPublic, Blob: b.SHA256})
		}
	}
	for path, data := range map[string][]byte{
		`C:\k\kubelet.conf`: kubeletConfig(t), `C:\k\kubelet-ca.crt`: clientCA, `C:\k\containerd\config.toml`: []byte(containerdConfig),
		`C:\k\cni\config\10-cni.conflist`: []byte(cniConfig),
	} {
		p.Files = append(p.Files, plan.File{Path: path, Access: plan.AccessPublic, Inline: data})
	}
	p.Firewall = []plan.FirewallRule{{Name: "kubelet", Protocol: "TCP", Port: 10250}}
	p.Networks = []plan.Network{{Name: networkName, Type: plan.NetworkL2Bridge, ManagementIP: ip, Prefix: "10.244.7.0/24", Gateway: "10.244.7.1"}}
	p.Services = []plan.Service{
		{
			Name: "containerd", Exe: `C:\k\containerd\containerd.exe`,
			Args: []string{"--config", `C:\k\containerd\config.toml`, "--service-name", "containerd", "--run-service", "--log-file", `C:\var\log\containerd\containerd.log`},
		},
		{
			Name: "kubelet", Exe: `C:\k\kube-log-runner.exe`, Args: kubeletArgs(ip), DependsOn: []string{"containerd"},
			Watch: []string{`C:\k\kubelet.conf`}, Recovery: &plan.Recovery{RestartDelaySeconds: []int{1}, ResetSeconds: 600},
		},
	}
	return p
}
