package plan

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestValidateAcceptsPlans(t *testing.T) {
	for name, p := range map[string]Plan{
		"empty":         Empty(),
		"every list":    validPlan(),
		"system32":      validPlan(onService(func(s *Service) { s.Exe = `c:\windows\System32\cmd.exe` })),
		"other spelled": validPlan(onPath(`c:\K\folder\FILE.txt`)),
		"240 long":      validPlan(onPath(`C:\k\` + long(235))),
		"reserved-like": validPlan(onPath(`C:\k\console.txt`), onPath(`C:\k\COM10`), onPath(`C:\k\nul-1`), onPath(`C:\k\a~b`)),
		"l2bridge": validPlan(func(p *Plan) {
			p.Networks[0].Type, p.Networks[0].VSID = NetworkL2Bridge, 0
		}),
		"host endpoint": validPlan(onBridge(func(*Plan) {})),
		"remotes":       validPlan(onRemote(func(*Plan, *RemoteSubnet) {})),
	} {
		if err := p.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestValidateNamesWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(*Plan)
		// want are pieces of the message, the item among them.
		want []string
	}{
		{"version", func(p *Plan) { p.APIVersion = "x" }, []string{`apiVersion: "x", must be`}},
		{"capability twice", func(p *Plan) { p.Requires = append(p.Requires, CapabilityBase) }, []string{`capability "base/v1": same capability as`}},
		{"too many items", func(p *Plan) { p.Features = make([]Feature, MaxItems+1) }, []string{"features: 1025 items, at most 1024"}},
		{"secret's name", func(p *Plan) { p.Secrets[0].Name = `a\b` }, []string{`secret "a\\b": name must match`}},
		{"secret twice", func(p *Plan) { p.Secrets = append(p.Secrets, p.Secrets[0]) }, []string{"same name of a secret", "same path as"}},
		{"env name", func(p *Plan) { p.Env[0].Name = "A=B" }, []string{`environment variable "A=B": name must match`}},
		{"env value", func(p *Plan) { p.Env[0].Value = "a\nb" }, []string{`"HTTP_PROXY": value holds a NUL or a line break`}},
		{"env NUL", func(p *Plan) { p.Env[0].Value = "a\x00b" }, []string{"value holds a NUL or a line break"}},
		{"env too long", func(p *Plan) { p.Env[0].Value = long(maxText + 1) }, []string{"has 32769 bytes, at most 32768"}},
		{"env twice, other case", func(p *Plan) { p.Env = append(p.Env, EnvVar{Name: "http_proxy"}) }, []string{`"http_proxy": given twice`}},
		{"feature", func(p *Plan) { p.Features[0].Name = "a b" }, []string{`feature "a b": name must match`}},
		{"feature twice", func(p *Plan) { p.Features = append(p.Features, Feature{"containers"}) }, []string{`same feature as feature "Containers"`}},
		{"purge of a root", func(p *Plan) { p.Directories[0].Purge = true }, []string{`directory "C:\\k": purge is not allowed`}},
		{"access", func(p *Plan) { p.Directories[0].Access = "all" }, []string{`access "all", must be "public" or "secret"`}},
		{"blob and inline", onFile(File{Path: `C:\k\x`, Access: AccessPublic, Blob: testDigest, Inline: []byte("x")}), []string{`file "C:\\k\\x": has both`}},
		{"neither", onFile(File{Path: `C:\k\x`, Access: AccessPublic}), []string{"has neither blob nor inline"}},
		{"digest", onFile(File{Path: `C:\k\x`, Access: AccessPublic, Blob: strings.ToUpper(testDigest)}), []string{"64 hexadecimal digits"}},
		{"generated blob", onFile(File{Path: `C:\k\x`, Access: AccessPublic, Blob: testDigest, Generated: true}), []string{"generated goes with inline"}},
		{"inline too big", onFile(File{Path: `C:\k\x`, Access: AccessPublic, Inline: make([]byte, MaxInline+1)}), []string{"inline has 262145 bytes, at most 262144"}},
		{"resolver", onFile(File{Path: `C:\k\x`, Access: AccessPublic, Inline: []byte("${home}"), Generated: true}), []string{"unknown value ${home}"}},
		{"open resolver", onFile(File{Path: `C:\k\x`, Access: AccessPublic, Inline: []byte("${"), Generated: true}), []string{"${ without an end"}},
		{"case clash", onPath(`C:\K\KUBELET.EXE`), []string{`file "C:\\K\\KUBELET.EXE": same path as file "C:\\k\\kubelet.exe"`}},
		{"clash with secret", onPath(`C:\k\Bootstrap-kubeconfig`), []string{`same path as secret "bootstrap-kubeconfig"`}},
		{"clash with directory", onPath(`C:\var\lib\KUBELET`), []string{`same path as directory`}},
		{"file as folder", onPath(`C:\k\kubelet.exe\x`), []string{`file "C:\\k\\kubelet.exe": is a file, and a folder of`}},
		{"store", func(p *Plan) { p.Certificates[0].Store = "MY" }, []string{`store "MY", must be ROOT or CA`}},
		{"no PEM", func(p *Plan) { p.Certificates[0].PEM = "x" }, []string{`certificate "ROOT #1": is not PEM`}},
		{"two PEM blocks", func(p *Plan) { p.Certificates[0].PEM += testPEM(2) }, []string{"something follows the first block"}},
		{"text before", func(p *Plan) { p.Certificates[0].PEM = "#\n" + testPEM(2) }, []string{"something stands before"}},
		{"key", func(p *Plan) {
			p.Certificates[0].PEM = strings.ReplaceAll(testPEM(2), "CERTIFICATE", "PRIVATE KEY")
		}, []string{"is not a CERTIFICATE block"}},
		{"no DER", func(p *Plan) {
			p.Certificates[0].PEM = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
		}, []string{"does not hold one DER sequence"}},
		{"certificate twice", func(p *Plan) { p.Certificates[1].Store = "ROOT" }, []string{`certificate "ROOT #2": same certificate`}},
		{"port 0", func(p *Plan) { p.Firewall[0].Port = 0 }, []string{"port 0, must be 1 to 65535"}},
		{"port 65536", func(p *Plan) { p.Firewall[0].Port = 65536 }, []string{"port 65536"}},
		{"protocol", func(p *Plan) { p.Firewall[0].Protocol = "tcp" }, []string{`protocol "tcp", must be TCP or UDP`}},
		{"rule twice", func(p *Plan) { p.Firewall = append(p.Firewall, p.Firewall[0]) }, []string{"same firewall rule"}},
		{"defender both", func(p *Plan) { p.Defender[0].Path = `C:\k` }, []string{"exactly one of process and path"}},
		{"defender drive", func(p *Plan) { p.Defender[1].Path = `C:\` }, []string{"must be absolute"}},
		{"defender elsewhere", func(p *Plan) { p.Defender[1].Path = `C:\Windows` }, []string{"is not below"}},
		{"defender no exe", func(p *Plan) { p.Defender[0].Process = `C:\k\kubelet.bat` }, []string{"does not end in .exe"}},
		{"network type", func(p *Plan) { p.Networks[0].Type = "NAT" }, []string{`network "wm": type "NAT"`}},
		{"vsid low", func(p *Plan) { p.Networks[0].VSID = 4095 }, []string{"vsid 4095, must be 4096 to 16777214"}},
		{"vsid on bridge", func(p *Plan) { p.Networks[0].Type = NetworkL2Bridge }, []string{"vsid 4096, an L2Bridge network has none"}},
		{"management IP", func(p *Plan) { p.Networks[0].ManagementIP = "fe80::1%eth0" }, []string{"is not an IP address"}},
		{"reach", func(p *Plan) { p.Networks[0].Reach = "api.example.test" }, []string{`reach "api.example.test" is not host:port`}},
		{"reach port", func(p *Plan) { p.Networks[0].Reach = "api.example.test:0" }, []string{"is not host:port"}},
		{"host bits", func(p *Plan) { p.Networks[0].Prefix = "10.244.1.5/24" }, []string{`prefix "10.244.1.5/24" is not a network`}},
		{"gateway outside", func(p *Plan) { p.Networks[0].Gateway = "10.244.2.1" }, []string{"is not an address within 10.244.1.0/24"}},
		{"network twice", func(p *Plan) { p.Networks = append(p.Networks, p.Networks[0]) }, []string{"same network as"}},
		{"host endpoint of an old agent", onBridge(func(p *Plan) { p.Requires = p.Requires[:2] }), []string{`hostEndpoint needs the capability "host-endpoint/v1"`}},
		{"host endpoint on an overlay", onBridge(func(p *Plan) { p.Networks[0].Type, p.Networks[0].VSID = NetworkOverlay, 4096 }), []string{"hostEndpoint goes with type L2Bridge only"}},
		{"host endpoint elsewhere", onBridge(func(p *Plan) { p.Networks[0].HostEndpoint.Address = "10.244.2.2" }), []string{`"10.244.2.2" is not a free one within 10.244.1.0/24`}},
		{"host endpoint is the gateway", onBridge(func(p *Plan) { p.Networks[0].HostEndpoint.Address = "10.244.1.1" }), []string{"is not a free one"}},
		{"host endpoint's name", onBridge(func(p *Plan) { p.Networks[0].HostEndpoint.Name = "a b" }), []string{"host endpoint's name must match"}},
		{"remotes of an old agent", onRemote(func(p *Plan, _ *RemoteSubnet) { p.Requires = p.Requires[:2] }), []string{`remotes needs the capability "peers/v1"`}},
		{"remotes on a bridge", onRemote(func(p *Plan, r *RemoteSubnet) { p.Networks[0].Type, p.Networks[0].VSID, r.VSID = NetworkL2Bridge, 0, 0 }), []string{"remotes go with type Overlay only"}},
		{"too many remotes", onRemote(func(p *Plan, _ *RemoteSubnet) { p.Networks[0].Remotes = make([]RemoteSubnet, MaxPeers+1) }), []string{"5001 items, at most 5000"}},
		{"remote's prefix", onRemote(func(_ *Plan, r *RemoteSubnet) { r.Prefix = "10.244.2.1/24" }), []string{`remote "10.244.2.1/24": is not a network`}},
		{"remote here", onRemote(func(_ *Plan, r *RemoteSubnet) { r.Prefix = "10.244.0.0/16" }), []string{"overlaps the network's own 10.244.1.0/24"}},
		{"remote's address", onRemote(func(_ *Plan, r *RemoteSubnet) { r.ProviderAddress = "x" }), []string{`provider address "x"`}},
		{"remote is ourselves", onRemote(func(_ *Plan, r *RemoteSubnet) { r.ProviderAddress = "192.0.2.10" }), []string{"is not the address of another node"}},
		{"remote's mac", onRemote(func(_ *Plan, r *RemoteSubnet) { r.MAC = "0A-00-00-00-00-01" }), []string{`mac "0A-00-00-00-00-01" must match`}},
		{"remote's vsid", onRemote(func(_ *Plan, r *RemoteSubnet) { r.VSID = 4097 }), []string{"vsid 4097 is not the network's 4096"}},
		{"remote twice", onRemote(func(p *Plan, r *RemoteSubnet) { p.Networks[0].Remotes = append(p.Networks[0].Remotes, *r) }), []string{"same remote of wm"}},
		{"many routes of an old agent", func(p *Plan) { p.Routes = make([]Route, MaxItems+1) }, []string{`routes: more than 1024 needs the capability "peers/v1"`}},
		{"too many routes", func(p *Plan) { p.Routes = make([]Route, MaxPeers+1) }, []string{"routes: 5001 items, at most 5000"}},
		{"route", func(p *Plan) { p.Routes[0].Destination = "10.244.2.0" }, []string{"destination is not a network"}},
		{"hop", func(p *Plan) { p.Routes[0].NextHop = "x" }, []string{`next hop "x" is not an IP address`}},
		{"families", func(p *Plan) { p.Routes[0].NextHop = "fd00::1" }, []string{"of another family"}},
		{"route twice", func(p *Plan) { p.Routes = append(p.Routes, p.Routes[0]) }, []string{"same route"}},
		{"service name", onService(func(s *Service) { s.Name = "a b" }), []string{`service "a b": name must match`}},
		{"agent's service", onService(func(s *Service) { s.Name = "WMCB" }), []string{"is the agent's own service"}},
		{"service twice", onService(func(s *Service) { s.Name = "Containerd"; s.DependsOn = nil }), []string{`same service as service "containerd"`}},
		{"description", onService(func(s *Service) { s.Description = "größe" }), []string{"description must be at most 256 printable ASCII"}},
		{"exe elsewhere", onService(func(s *Service) { s.Exe = `C:\Users\x.exe` }), []string{"is not below"}},
		{"exe above system32", onService(func(s *Service) { s.Exe = `C:\Windows\System32\..\x.exe` }), []string{"holds . or .."}},
		{"exe no exe", onService(func(s *Service) { s.Exe = `C:\k\x.cmd` }), []string{"does not end in .exe"}},
		{"argument", onService(func(s *Service) { s.Args[0] = "a\r\nb" }), []string{"argument 1: text holds a NUL"}},
		{"argument's resolver", onService(func(s *Service) { s.Args[0] = "${secret}" }), []string{"argument 1: asks for unknown value ${secret}"}},
		{"command line", onService(func(s *Service) { s.Args = []string{long(20 << 10)} }), []string{"command line has 20497 bytes, at most 16384"}},
		{"watch", onService(func(s *Service) { s.Watch = []string{`C:\k\missing`} }), []string{"which is no file of the plan"}},
		{"log file", onService(func(s *Service) { s.LogFile = `D:\x.log` }), []string{"is not below"}},
		{"recovery empty", onService(func(s *Service) { s.Recovery = &Recovery{} }), []string{"recovery has 0 restarts"}},
		{"recovery negative", onService(func(s *Service) { s.Recovery.ResetSeconds = -1 }), []string{"recovery of -1 seconds"}},
		{"service env", onService(func(s *Service) { s.Env[0].Name = "" }), []string{`service "kubelet" variable "": name must match`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := validPlan(c.edit).Validate()
			if !errors.Is(err, ErrInvalid) {
				t.Fatalf("got %v, want ErrInvalid", err)
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("message %q lacks %q", err, w)
				}
			}
		})
	}
}

func TestValidateReportsAllAtOnce(t *testing.T) {
	p := validPlan(onPath(`D:\x`), func(p *Plan) {
		p.Firewall[0].Port = 0
		p.Networks[0].VSID = 1
		p.Services[1].Exe = "x"
	})
	err := p.Validate()
	for _, w := range []string{`D:\\x`, "port 0", "vsid 1", `service "kubelet"`} {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("%v lacks %q", err, w)
		}
	}
}

func TestValidateKeepsValuesOutOfMessages(t *testing.T) {
	const canary = "canary-password"
	err := validPlan(func(p *Plan) {
		p.Env[0].Value = canary + "\n"
		p.Services[1].Args[0] = canary + "\x00"
		p.Services[1].Env[0].Value = canary + "\n"
	}).Validate()
	if err == nil || strings.Contains(err.Error(), canary) {
		t.Errorf("got %v", err)
	}
}

func TestValidateUnknownCapabilityIsTooNew(t *testing.T) {
	err := validPlan(func(p *Plan) { p.Requires = []string{"teleport/v9"} }).Validate()
	if !errors.Is(err, ErrTooNew) {
		t.Errorf("got %v", err)
	}
}

func TestW46PathsThatWindowsWouldRead(t *testing.T) {
	for _, c := range []struct{ path, want string }{
		{`C:\k\cni\config\cni.conf`, ""},
		{`C:\Program Files\containerd\containerd.exe`, ""},
		{`D:\k`, "is not below"},
		{`\\server\share\x`, "must be absolute with a drive letter"},
		{`\\?\C:\k\x`, "must be absolute with a drive letter"},
		{`C:\k\..\Windows\x`, "holds . or .."},
		{`C:\k\.\x`, "holds . or .."},
		{`C:\k/cni`, "holds a forward slash"},
		{`/C:/k/x`, "must be absolute"},
		{`k\x`, "must be absolute"},
		{`C:k\x`, "must be absolute"},
		{`C:\kx\y`, "is not below"},
		{`C:\k`, "shared with others"},
		{`C:\k\wmcb\plan.json`, "is the agent's own"},
		{`C:\k\WMCB`, "is the agent's own"},
		{`C:\Windows\wmcb\x`, "is not below"},
		{`C:\k\` + long(295), "longer than 240"},
		{`C:\k\x:stream`, "alternate data stream"},
		{`C:\k\x::$DATA`, "alternate data stream"},
		{`C:\k\x.`, "ends in a dot or a space"},
		{`C:\k\x \y`, "ends in a dot or a space"},
		{`C:\k\\x`, "empty component"},
		{`C:\k\x\`, "empty component"},
		{`C:\k\a|b`, "printable ASCII"},
		{`C:\k\a*`, "printable ASCII"},
		{"C:\\k\\a\tb", "printable ASCII"},
		{`C:\k\größe`, "printable ASCII"},
		{`C:\k\con`, "reserved device name"},
		{`C:\k\NUL.txt`, "reserved device name"},
		{`C:\k\Aux .tar.gz`, "reserved device name"},
		{`C:\k\prn\x`, "reserved device name"},
		{`C:\k\COM1`, "reserved device name"},
		{`C:\k\lpt9.log`, "reserved device name"},
		{`C:\k\CONIN$`, "reserved device name"},
		{`C:\k\conout$.x`, "reserved device name"},
		{`C:\k\PROGRA~1\x`, "short name"},
	} {
		t.Run(c.path, func(t *testing.T) {
			err := validPlan(onPath(c.path)).Validate()
			switch {
			case c.want == "" && err != nil:
				t.Errorf("got %v", err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestReservedDeviceNamesWithSuperscripts(t *testing.T) {
	for name, want := range map[string]bool{
		"COM\u00b9": true, "com\u00b2.txt": true, "LPT\u00b3": true, "COM0": false, "COM10": false, "CO": false, "LPTx": false,
	} {
		if got := reserved(name); got != want {
			t.Errorf("%q: got %v", name, got)
		}
	}
}

func TestW54Dependencies(t *testing.T) {
	service := func(name string, deps ...string) Service {
		return Service{Name: name, Exe: `C:\k\` + name + ".exe", DependsOn: deps}
	}
	for _, c := range []struct {
		name     string
		services []Service
		want     string
	}{
		{"the usual chain", []Service{
			service("containerd"), service("kubelet", "containerd", "Tcpip"), service("hybrid-overlay", "kubelet"),
			service("kube-proxy", "hybrid-overlay"),
		}, ""},
		{"cycle of two", []Service{service("a", "b"), service("b", "a")}, `service "a": depends on itself: a -> b -> a`},
		{"cycle of one", []Service{service("a", "A")}, `service "a": depends on itself: a -> a`},
		{"cycle behind an entry", []Service{
			service("start", "a"), service("a", "b"), service("b", "c"), service("c", "a"),
		}, `depends on itself: a -> b -> c -> a`},
		{"wrong order", []Service{service("kubelet", "containerd"), service("containerd")}, `service "kubelet": stands before "containerd"`},
		{"twice", []Service{service("a", "Tcpip", "tcpip")}, `dependency "tcpip" is given twice`},
		{"a group", []Service{service("a", "+NetworkProvider")}, `dependency "+NetworkProvider" must match`},
		{"unmanaged only", []Service{service("a", "nsi", "afd")}, ""},
		{"diamond", []Service{service("a"), service("b", "a"), service("c", "a"), service("d", "b", "c")}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := Plan{APIVersion: APIVersion, Services: c.services}.Validate()
			switch {
			case c.want == "" && err != nil:
				t.Errorf("got %v", err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestW54NilAndEmptyDependenciesAreEqual(t *testing.T) {
	a, b := validPlan(), validPlan()
	a.Services[0].DependsOn, b.Services[0].DependsOn = nil, []string{}
	if a.Digest() != b.Digest() {
		t.Error("digests differ")
	}
}

func FuzzValidate(f *testing.F) {
	f.Add(`C:\k\x`, "name", "a", "10.244.1.0/24", testPEM(1))
	f.Add(`C:\k\..\x`, "wmcb", "${", "::/0", "-----BEGIN")
	f.Fuzz(func(t *testing.T, path, name, text, prefix, pem string) {
		p := Plan{
			APIVersion:   APIVersion,
			Secrets:      []Secret{{Name: name, Path: path}},
			Env:          []EnvVar{{Name: name, Value: text}},
			Directories:  []Directory{{Path: path + `\d`, Access: AccessPublic}},
			Files:        []File{{Path: path + "f", Access: AccessPublic, Inline: []byte(text), Generated: true}},
			Certificates: []Certificate{{Store: "ROOT", PEM: pem}},
			Networks:     []Network{{Name: name, Type: NetworkL2Bridge, ManagementIP: text, Prefix: prefix, Gateway: text}},
			Services:     []Service{{Name: name, Exe: path + ".exe", Args: []string{text}, DependsOn: []string{text, name}}},
		}
		if err := p.Validate(); err != nil {
			return
		}
		for _, s := range []string{p.Secrets[0].Path, p.Files[0].Path, p.Directories[0].Path} {
			if !belowAny(s, Roots()) || below(s, AgentRoot) || strings.Contains(s, "..\\") || strings.Contains(s[2:], ":") {
				t.Errorf("accepted path %q", s)
			}
		}
	})
}

func ExampleProblem() {
	fmt.Println(&Problem{Item: `service "kubelet"`, Text: "is the agent's own service"})
	// Output: service "kubelet": is the agent's own service
}
