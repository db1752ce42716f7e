package host

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/host"
	"github.com/windowsmachine/operator/pkg/transport"
	"github.com/windowsmachine/operator/pkg/transport/winrm"
	"github.com/windowsmachine/operator/pkg/transport/winrm/winrmtest"
)

// overWinRM is a host that is to be reached over WinRM first, with all that it takes.
func overWinRM(v *view) {
	v.host.Spec.HostKeys = nil
	v.host.Spec.Transport = v1alpha1.TransportWinRM
	v.creds.authorized = winrmtest.AuthorizedKey
	v.creds.winrm = winrmSecrets{ca: []byte("ca"), password: "canary"}
}

func pinned(source v1alpha1.HostKeySource) func(*view) {
	return func(v *view) {
		v.host.Status.HostKey = &v1alpha1.PinnedHostKey{Source: source, Key: formatPin(aKey("one")), Fingerprint: "SHA256:one", PinnedAt: metav1.NewTime(at())}
	}
}

// TestFirstContact walks the phase: what is said and what is started.
func TestFirstContact(t *testing.T) {
	of := func(err error) func(*view) {
		return failed(host.VerbOpen, fmt.Errorf("first contact with x: %w", err), 2)
	}
	for name, c := range map[string]struct {
		view    view
		reason  string
		verb    host.Verb
		message string
	}{
		"not asked for":    {aView(overWinRM, firstUse, func(v *view) { v.host.Spec.Transport = v1alpha1.TransportSSH }), v1alpha1.ReasonConnecting, host.VerbConnect, ""},
		"key in the spec":  {aView(overWinRM, func(v *view) { v.host.Spec.HostKeys = []string{formatPin(aKey("one"))} }), v1alpha1.ReasonConnecting, host.VerbFacts, ""},
		"key in vain":      {aView(overWinRM, func(v *view) { v.host.Spec.HostKeys = []string{"x ???"} }), v1alpha1.ReasonHostKeyInvalid, "", "spec.hostKeys[0]"},
		"pinned":           {aView(overWinRM, pinned(v1alpha1.HostKeyFromWinRM)), v1alpha1.ReasonConnecting, host.VerbFacts, ""},
		"at first":         {aView(overWinRM), v1alpha1.ReasonOpeningSSH, host.VerbOpen, "Administrator@192.0.2.10:5986"},
		"never first use":  {aView(overWinRM, firstUse, func(v *view) { v.snap.Connected, v.snap.HostKey = true, aKey("two") }), v1alpha1.ReasonOpeningSSH, host.VerbOpen, ""},
		"under way":        {aView(overWinRM, func(v *view) { v.snap.Busy = host.VerbOpen }), v1alpha1.ReasonOpeningSSH, "", "many minutes"},
		"no CA":            {aView(overWinRM, func(v *view) { v.creds.winrm = readWinRM("wmo", "key", nil) }), v1alpha1.ReasonCredentialsMissing, "", "winrm-ca.crt"},
		"untrusted":        {aView(overWinRM, of(transport.ErrCertificate)), v1alpha1.ReasonCertificateUntrusted, host.VerbOpen, "spec.winRM.serverName"},
		"refused":          {aView(overWinRM, of(transport.ErrAuth)), v1alpha1.ReasonAuthenticationFailed, host.VerbOpen, "never by Basic"},
		"silent":           {aView(overWinRM, of(transport.ErrUnreachable)), v1alpha1.ReasonUnreachable, host.VerbOpen, "winrm enumerate winrm/config/listener"},
		"no OpenSSH":       {aView(overWinRM, of(fmt.Errorf("%w: give an installer", transport.ErrNoServer))), v1alpha1.ReasonOpenSSHMissing, host.VerbOpen, "give an installer"},
		"bad installer":    {aView(overWinRM, of(transport.ErrOpening)), v1alpha1.ReasonCredentialsInvalid, host.VerbOpen, "spec.connection.openSSH"},
		"quota":            {aView(overWinRM, of(transport.ErrBusy)), v1alpha1.ReasonConnectionLost, host.VerbOpen, "made again"},
		"cut":              {aView(overWinRM, of(transport.ErrDisconnected)), v1alpha1.ReasonConnectionLost, host.VerbOpen, "made again"},
		"its turn to come": {aView(overWinRM, of(transport.ErrAuth), func(v *view) { o := v.snap.Last[host.VerbOpen]; o.At = at(); v.snap.Last[host.VerbOpen] = o }), v1alpha1.ReasonAuthenticationFailed, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := walk(c.view)
			got := readyOf(p)
			if got.Reason != c.reason || !strings.Contains(got.Message, c.message) {
				t.Errorf("Ready is %s %q, want %s with %q", got.Reason, got.Message, c.reason, c.message)
			}
			if p.verb != c.verb {
				t.Errorf("started %q, want %q", p.verb, c.verb)
			}
			if (p.verb == host.VerbOpen) != (p.args.Opening.Address != "") {
				t.Errorf("verb %q with %s", p.verb, p.args.Opening)
			}
			if strings.Contains(fmt.Sprintf("%+v %v", p.status(), p.args), "canary") {
				t.Error("the password is shown")
			}
		})
	}
}

// The key that was read is on record before the first connection, and says where it is from.
func TestKeyOverWinRMIsPinned(t *testing.T) {
	v := aView(overWinRM, func(v *view) {
		v.snap.Opened = aKey("one")
		v.snap.Last[host.VerbOpen] = host.Outcome{Verb: host.VerbOpen, At: at()}
	})
	p := walk(v)
	if p.pin == nil || p.pin.Key != formatPin(aKey("one")) || p.pin.Source != v1alpha1.HostKeyFromWinRM || p.verb != "" {
		t.Fatalf("pin %+v, verb %q", p.pin, p.verb)
	}
	s := p.status()
	if got := notices(p, s, v.before); !strings.Contains(fmt.Sprint(got), "as read over WinRM") {
		t.Errorf("events %v", got)
	}
	v.host.Status = s
	p = walk(v)
	if p.trusted.reason != v1alpha1.ReasonHostKeyReadOverWinRM || p.verb != host.VerbFacts {
		t.Errorf("trusted %+v, verb %q", p.trusted, p.verb)
	}
	// From then on it is a pin like any other.
	if err := p.verify()(aKey("two")); err == nil {
		t.Error("another key is taken")
	}
	// A key of an attempt that was followed by a failed one is not taken.
	v = aView(overWinRM, func(v *view) { v.snap.Opened = aKey("one") }, failed(host.VerbOpen, transport.ErrAuth, 1))
	if p := walk(v); p.pin != nil {
		t.Errorf("pin %+v", p.pin)
	}
}

func TestOpening(t *testing.T) {
	p := &pass{view: aView(overWinRM, func(v *view) {
		v.host.Spec.Port = 2222
		v.host.Spec.WinRM = &v1alpha1.WinRMSpec{Port: 443, ServerName: "win-a.example"}
		v.profile.Spec.Connection.OpenSSH = &v1alpha1.OpenSSHSpec{MSIURL: winrmtest.InstallerURL, SHA256: winrmtest.InstallerSHA256()}
	})}
	o := p.opening()
	want := fmt.Sprint("192.0.2.10", 443, "win-a.example", "Administrator", "canary", "ca", winrmtest.AuthorizedKey, 2222, winrmtest.InstallerURL, winrmtest.InstallerSHA256())
	got := fmt.Sprint(o.Address, o.Port, o.ServerName, o.User, o.Password, string(o.CA), o.AuthorizedKey, o.SSHPort, o.InstallerURL, o.InstallerSHA256)
	if got != want {
		t.Errorf("opening %s, want %s", got, want)
	}
	if o := (&pass{view: aView(overWinRM)}).opening(); o.Port != 5986 || o.SSHPort != 22 || o.InstallerURL != "" {
		t.Errorf("defaults %+v", o)
	}
}

// A machine with keys of several kinds is asked for the one that is pinned.
func TestPinnedAlgorithmIsAskedFor(t *testing.T) {
	k := aKey("one")
	k.Algorithm = "ecdsa-sha2-nistp256"
	p := &pass{view: aView(func(v *view) { v.host.Spec.HostKeys = []string{formatPin(k)} })}
	if got := p.target().HostKeyAlgorithms; len(got) != 1 || got[0] != k.Algorithm {
		t.Errorf("asks for %v", got)
	}
}

func TestReadWinRMSaysWhatIsWrongAndNothingSecret(t *testing.T) {
	const canary = "canary-1234"
	right := winrmtest.New(t, winrmtest.Options{Certificates: true}).Opening()
	good, missing, invalid := "", v1alpha1.ReasonCredentialsMissing, v1alpha1.ReasonCredentialsInvalid
	data := func(kv ...string) map[string][]byte {
		m := map[string][]byte{winrmCA: right.CA}
		for i := 0; i < len(kv); i += 2 {
			m[kv[i]] = []byte(kv[i+1])
		}
		return m
	}
	for name, c := range map[string]struct {
		data         map[string][]byte
		reason, says string
	}{
		"password":                  {data(winrmPassword, canary), good, ""},
		"password with a line end":  {data(winrmPassword, canary+"\r\n"), good, ""},
		"certificate":               {data(winrmCert, string(right.ClientCert), winrmKey, string(right.ClientKey)), good, ""},
		"nothing":                   {nil, missing, winrmCA},
		"CA only":                   {data(), missing, winrmPassword},
		"a line end only":           {data(winrmPassword, "\n"), missing, winrmPassword},
		"CA is something else":      {map[string][]byte{winrmCA: []byte(canary), winrmPassword: []byte(canary)}, invalid, winrmCA},
		"both":                      {data(winrmPassword, canary, winrmCert, string(right.ClientCert)), invalid, "remove one"},
		"certificate without a key": {data(winrmCert, string(right.ClientCert)), invalid, winrmKey},
		"key of another one":        {data(winrmCert, string(right.CA), winrmKey, string(right.ClientKey)), invalid, winrmKey},
		"UTF-16":                    {data(winrmPassword, "\xff\xfec\x00"), invalid, "UTF-8"},
	} {
		t.Run(name, func(t *testing.T) {
			got := readWinRM("wmo", "key", c.data)
			if got.problem.reason != c.reason || !strings.Contains(got.problem.message, c.says) || strings.Contains(got.problem.message, canary) {
				t.Errorf("problem %+v", got.problem)
			}
			if c.reason == good && got.password != "" && got.password != canary {
				t.Errorf("password %q", got.password)
			}
		})
	}
}

// keyed is the machine of the tests with another host key.
type keyed struct {
	*machine
	key transport.HostKey
}

// Dial implements transport.Dialer.
func (k keyed) Dial(ctx context.Context, t transport.Target) (transport.Conn, error) {
	verify := t.Verify
	t.Verify = func(transport.HostKey) error { return verify(k.key) }
	return k.machine.Dial(ctx, t)
}

// From a machine that has WinRM only to a plan that was handed over: HTTPS with NTLM to the modelled Windows, then SSH with the key that was read there
// and no other.
func TestHostWithWinRMOnly(t *testing.T) {
	windows := &winrmtest.Windows{Polls: 1}
	server := winrmtest.New(t, winrmtest.Options{Run: windows.Run, Hosts: []string{winrmtest.Name}})
	right := server.Opening()
	w := newWorld(t, interceptor.Funcs{}, object(func(h *v1alpha1.WindowsHost) {
		h.Spec.HostKeys, h.Spec.Transport = nil, v1alpha1.TransportWinRM
		h.Spec.CredentialsRef = &v1alpha1.SecretReference{Name: "windows-key"}
		h.Spec.WinRM = &v1alpha1.WinRMSpec{ServerName: winrmtest.Name}
	}), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "wmo", Name: "windows-key"},
		Data:       map[string][]byte{privateKey: aPrivateKey(t), winrmCA: right.CA, winrmPassword: []byte(right.Password + "\n")},
	})
	line := strings.Fields(winrmtest.Ed25519Line)
	wire, err := base64.StdEncoding.DecodeString(line[1])
	if err != nil {
		t.Fatal(err)
	}
	w.pool = host.NewPool(host.Config{
		Dialer: keyed{w.machine, transport.HostKey{Algorithm: line[0], Key: wire, Fingerprint: "SHA256:x"}},
		Opener: &winrm.Opener{Poll: time.Millisecond, Net: func(ctx context.Context, network, address string) (net.Conn, error) {
			if address != "192.0.2.10:5986" {
				return nil, errors.New("nothing is there")
			}
			return (&net.Dialer{}).DialContext(ctx, network, net.JoinHostPort("127.0.0.1", strconv.Itoa(right.Port)))
		}},
		Now: w.clock.Now, Notify: func(k string) { w.notes <- k }, Agent: agentBinary(),
	})
	t.Cleanup(w.pool.Close)
	w.r.Pool = w.pool
	h := w.until("handed over", handedOver)
	if h.Status.HostKey == nil || h.Status.HostKey.Source != v1alpha1.HostKeyFromWinRM || !strings.HasPrefix(winrmtest.Ed25519Line, h.Status.HostKey.Key) {
		t.Errorf("host key %+v", h.Status.HostKey)
	}
	if reason(h, v1alpha1.ConditionTrusted) != v1alpha1.ReasonHostKeyReadOverWinRM {
		t.Errorf("trusted for %s", reason(h, v1alpha1.ConditionTrusted))
	}
	if len(windows.Authorized) != 1 || !windows.Protected || len(windows.Rules) != 1 {
		t.Errorf("machine %+v", windows)
	}
	if _, made, _ := server.Shells(); made != 1 {
		t.Errorf("%d first contacts", made)
	}
	if told := w.told(); !strings.Contains(told, "OpeningSSH") || strings.Contains(told, right.Password) {
		t.Errorf("told %s", told)
	}
}
