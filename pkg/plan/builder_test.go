package plan

import (
	"encoding/pem"
	"strings"
)

// testDigest is the digest of no blob in particular.
const testDigest = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// testPEM returns a block of type CERTIFICATE with an ASN.1 sequence that holds one integer; plans look no deeper.
func testPEM(n byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte{0x30, 3, 2, 1, n}}))
}

// validPlan returns a plan that uses every list and is valid; edits change it.
func validPlan(edits ...func(*Plan)) Plan {
	p := Plan{
		APIVersion: APIVersion,
		Requires:   []string{CapabilityBase, CapabilityNetwork},
		Secrets:    []Secret{{Name: "bootstrap-kubeconfig", Path: `C:\k\bootstrap-kubeconfig`}},
		Env:        []EnvVar{{Name: "HTTP_PROXY", Value: "http://u:p%23@proxy.example.test:3128"}},
		Features:   []Feature{{Name: "Containers"}},
		Directories: []Directory{
			{Path: `C:\k`, Access: AccessPublic},
			{Path: `C:\var\lib\kubelet`, Access: AccessSecret, Purge: true},
		},
		Files: []File{
			{Path: `C:\k\kubelet.exe`, Access: AccessPublic, Blob: testDigest},
			{Path: `C:\k\kubelet.conf`, Access: AccessPublic, Inline: []byte("{\"a<b\":1}\n")},
			{Path: `C:\k\empty`, Access: AccessSecret, Inline: []byte{}},
			{Path: `C:\k\host.txt`, Access: AccessPublic, Inline: []byte("${hostname} ${managementIP} $x"), Generated: true},
		},
		Certificates: []Certificate{{Store: "ROOT", PEM: testPEM(1)}, {Store: "CA", PEM: testPEM(1)}},
		Firewall:     []FirewallRule{{Name: "windowsmachine-kubelet", Protocol: "TCP", Port: 10250}},
		Defender:     []DefenderExclusion{{Process: `C:\k\kubelet.exe`}, {Path: `C:\ProgramData\containerd`}},
		Networks: []Network{{
			Name: "wm", Type: NetworkOverlay, ManagementIP: "192.0.2.10", Prefix: "10.244.1.0/24", Gateway: "10.244.1.1", VSID: 4096,
		}},
		Routes: []Route{{Destination: "10.244.2.0/24", NextHop: "192.0.2.11"}},
		Services: []Service{
			{Name: "containerd", Exe: `C:\k\containerd\containerd.exe`, DependsOn: []string{"Tcpip"}},
			{
				Name: "kubelet", DisplayName: "kubelet", Exe: `C:\k\kubelet.exe`,
				Args:      []string{"--node-ip=${managementIP}", "--eviction-hard=memory.available<500Mi,nodefs.available<10%"},
				DependsOn: []string{"containerd"}, Env: []EnvVar{{Name: "A", Value: "b"}},
				LogFile: `C:\var\log\kubelet\kubelet.log`, Watch: []string{`C:\k\kubelet.conf`},
				Recovery: &Recovery{RestartDelaySeconds: []int{5, 10}, ResetSeconds: 600},
			},
		},
	}
	for _, e := range edits {
		e(&p)
	}
	return p
}

func onFile(f File) func(*Plan) { return func(p *Plan) { p.Files = append(p.Files, f) } }

func onPath(path string) func(*Plan) {
	return onFile(File{Path: path, Access: AccessPublic, Inline: []byte("x")})
}

func onService(edit func(*Service)) func(*Plan) { return func(p *Plan) { edit(&p.Services[1]) } }

func long(n int) string { return strings.Repeat("x", n) }

// onBridge edits a plan whose network is bridged, with a host endpoint.
func onBridge(edit func(*Plan)) func(*Plan) {
	return func(p *Plan) {
		p.Requires = append(p.Requires, CapabilityHostEndpoint)
		p.Networks[0].Type, p.Networks[0].VSID = NetworkL2Bridge, 0
		p.Networks[0].HostEndpoint = &HostEndpoint{Name: "wm_ep", Address: "10.244.1.2"}
		edit(p)
	}
}

// onRemote edits a plan whose overlay has one remote subnet.
func onRemote(edit func(*Plan, *RemoteSubnet)) func(*Plan) {
	return func(p *Plan) {
		p.Requires = append(p.Requires, CapabilityPeers)
		p.Networks[0].Remotes = []RemoteSubnet{{Prefix: "10.244.2.0/24", ProviderAddress: "192.0.2.11", MAC: "0a:00:00:00:00:01", VSID: 4096}}
		edit(p, &p.Networks[0].Remotes[0])
	}
}
