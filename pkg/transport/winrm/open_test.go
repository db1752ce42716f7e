package winrm

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windowsmachine/operator/pkg/transport"
	"github.com/windowsmachine/operator/pkg/transport/winrm/winrmtest"
)

func opener() *Opener {
	return &Opener{Poll: time.Millisecond, Install: 5 * time.Minute, Keys: 5 * time.Minute}
}

// serve is a service in front of a Windows.
func serve(t *testing.T, w *winrmtest.Windows, o winrmtest.Options) *winrmtest.Server {
	t.Helper()
	o.Run = w.Run
	return winrmtest.New(t, o)
}

// leavesNothing checks what every first contact leaves behind: nothing.
func leavesNothing(t *testing.T, s *winrmtest.Server) {
	t.Helper()
	if open, _, commands := s.Shells(); open != 0 || commands != 0 {
		t.Errorf("%d shells and %d commands are left", open, commands)
	}
	if strings.Contains(s.Requests(), "of&quot;") || strings.Contains(s.Requests(), "$$w0rd") || strings.Contains(s.Requests(), "Basic ") {
		t.Error("the password was sent")
	}
	for _, l := range s.Lines() {
		if len(l) > 8191 {
			t.Errorf("cmd.exe does not take %d characters", len(l))
		}
	}
	if s.Largest() > maxRequest {
		t.Errorf("a request of %d bytes", s.Largest())
	}
}

func TestOpenInstallsOpenSSH(t *testing.T) {
	w := &winrmtest.Windows{Polls: 3, KeyReads: 2}
	s := serve(t, w, winrmtest.Options{})
	key, err := opener().Open(t.Context(), s.Opening())
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(winrmtest.Ed25519Line, key.Algorithm+" ") || !strings.HasPrefix(key.Fingerprint, "SHA256:") {
		t.Errorf("key %+v", key)
	}
	if !w.Running || !w.Auto || !w.Owned || !w.Protected || w.Task || !slices.Equal(w.Authorized, []string{winrmtest.AuthorizedKey}) {
		t.Errorf("the machine is %+v", w)
	}
	if want := []string{"name=windowsmachine-ssh-22 dir=in action=allow protocol=TCP localport=22"}; !slices.Equal(w.Rules, want) {
		t.Errorf("rules %q", w.Rules)
	}
	if _, made, _ := s.Shells(); made != 1 || s.Connections() != 1 {
		t.Errorf("%d shells over %d connections", made, s.Connections())
	}
	leavesNothing(t, s)
}

// Every command can be repeated: a second contact changes nothing and installs nothing.
func TestOpenAgain(t *testing.T) {
	w := &winrmtest.Windows{}
	s := serve(t, w, winrmtest.Options{})
	var keys []transport.HostKey
	for range 2 {
		key, err := opener().Open(t.Context(), s.Opening())
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key)
	}
	if keys[0].Fingerprint != keys[1].Fingerprint || len(w.Authorized) != 1 || len(w.Rules) != 1 {
		t.Errorf("keys %v, machine %+v", keys, w)
	}
	created := 0
	for _, l := range s.Lines() {
		if l == createTask {
			created++
		}
	}
	if created != 1 {
		t.Errorf("the capability was installed %d times", created)
	}
	leavesNothing(t, s)
}

// An operator that went away in the middle of an installation has left its task running: it is waited for and not started anew.
func TestOpenWaitsForAnEarlierTask(t *testing.T) {
	w := &winrmtest.Windows{Polls: 2}
	w.StartTask()
	s := serve(t, w, winrmtest.Options{})
	if _, err := opener().Open(t.Context(), s.Opening()); err != nil {
		t.Fatal(err)
	}
	if slices.Contains(s.Lines(), createTask) || w.Task {
		t.Errorf("lines %q", s.Lines())
	}
}

func TestOpenTakesAnotherKeyThanEd25519(t *testing.T) {
	w := &winrmtest.Windows{Service: true, KeyReads: -1}
	o := opener()
	o.Keys = 10 * time.Millisecond
	key, err := o.Open(t.Context(), serve(t, w, winrmtest.Options{}).Opening())
	if err != nil || key.Algorithm != "ecdsa-sha2-nistp256" {
		t.Errorf("key %+v, %v", key, err)
	}
}

// noOpenSSH is CBS_E_INVALID_WINDOWS_UPDATE_COUNT_WSUS: an update server that has no optional features.
const noOpenSSH = 0x800f0954

func TestOpenByInstaller(t *testing.T) {
	for _, tc := range []struct {
		name   string
		w      *winrmtest.Windows
		change func(*transport.Opening)
		err    error
		says   string
	}{
		{"right", &winrmtest.Windows{}, nil, nil, ""},
		{"wants a restart and runs", &winrmtest.Windows{InstallerExit: 3010}, nil, nil, ""},
		{"none", &winrmtest.Windows{}, func(o *transport.Opening) { o.InstallerURL, o.InstallerSHA256 = "", "" }, transport.ErrNoServer, "0x800f0954"},
		{"other bytes", &winrmtest.Windows{Served: "something else"}, nil, transport.ErrNoServer, "correct spec.connection.openSSH"},
		{"other address", &winrmtest.Windows{}, func(o *transport.Opening) { o.InstallerURL += "x" }, transport.ErrNoServer, "curl.exe ended with 22"},
		{"another is under way", &winrmtest.Windows{InstallerExit: 1618}, nil, transport.ErrBusy, "1618"},
		{"fails", &winrmtest.Windows{InstallerExit: 1603}, nil, transport.ErrNoServer, "msiexec.exe ended with 1603"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := tc.w
			w.Capability = noOpenSSH
			s := serve(t, w, winrmtest.Options{})
			o := s.Opening()
			o.InstallerURL, o.InstallerSHA256 = winrmtest.InstallerURL, winrmtest.InstallerSHA256()
			if tc.change != nil {
				tc.change(&o)
			}
			_, err := opener().Open(t.Context(), o)
			if !errors.Is(err, tc.err) || tc.err != nil && !strings.Contains(err.Error(), tc.says) {
				t.Errorf("error %v", err)
			}
			if w.Service != (tc.err == nil) {
				t.Errorf("the service is there: %v", w.Service)
			}
			if tc.name == "other bytes" && (w.Downloaded != "" || slices.Contains(s.Lines(), install)) {
				t.Error("what is not the installer was kept or started")
			}
			leavesNothing(t, s)
		})
	}
}

func TestOpenWantsARestart(t *testing.T) {
	_, err := opener().Open(t.Context(), serve(t, &winrmtest.Windows{Capability: exitRestartRequired}, winrmtest.Options{}).Opening())
	if !errors.Is(err, transport.ErrNoServer) || !strings.Contains(err.Error(), "restart the machine") {
		t.Errorf("error %v", err)
	}
}

func TestOpenWithoutRights(t *testing.T) {
	s := serve(t, &winrmtest.Windows{Denied: true}, winrmtest.Options{})
	_, err := opener().Open(t.Context(), s.Opening())
	if !errors.Is(err, transport.ErrNoServer) || !strings.Contains(err.Error(), "must be an administrator") {
		t.Errorf("error %v", err)
	}
	leavesNothing(t, s)
}

// Progress as XML around an answer, texts in another language, output in pieces and long silences: exit codes and numbers decide alone.
func TestW47NoiseAroundOutput(t *testing.T) {
	w := &winrmtest.Windows{Noise: true, Capability: noOpenSSH}
	s := winrmtest.New(t, winrmtest.Options{Run: func(c winrmtest.Call) winrmtest.Result {
		r := w.Run(c)
		r.Parts, r.Silent = 7, 2
		return r
	}})
	o := s.Opening()
	o.InstallerURL, o.InstallerSHA256 = winrmtest.InstallerURL, winrmtest.InstallerSHA256()
	key, err := opener().Open(t.Context(), o)
	if err != nil || key.Algorithm != "ssh-ed25519" {
		t.Errorf("key %+v, %v", key, err)
	}
	leavesNothing(t, s)
}

// Text on standard error is no failure, text on standard output no success.
func TestW47ExitCodeDecides(t *testing.T) {
	for _, tc := range []struct {
		r  result
		ok []uint32
		no bool
	}{
		{result{exit: 0, stderr: []byte("ERROR: everything failed")}, nil, false},
		{result{exit: 1, stdout: []byte("SUCCESS")}, nil, true},
		{result{exit: 3010}, []uint32{1641, 3010}, false},
		{result{exit: 1056}, nil, true},
		{result{exit: 0x800f0954}, []uint32{0}, true},
	} {
		if err := verdict(startService, tc.r, tc.ok...); (err != nil) != tc.no {
			t.Errorf("%+v gave %v", tc.r, err)
		}
	}
}

func TestW47Certificate(t *testing.T) {
	w := &winrmtest.Windows{}
	s := serve(t, w, winrmtest.Options{Certificates: true})
	if _, err := opener().Open(t.Context(), s.Opening()); err != nil {
		t.Fatal(err)
	}
	o := s.Opening()
	other := winrmtest.New(t, winrmtest.Options{Certificates: true}).Opening()
	o.ClientCert, o.ClientKey = other.ClientCert, other.ClientKey
	if _, err := opener().Open(t.Context(), o); !errors.Is(err, transport.ErrAuth) {
		t.Errorf("a certificate of another CA gave %v", err)
	}
	leavesNothing(t, s)
}

func TestW47NTLM(t *testing.T) {
	for _, tc := range []struct {
		name   string
		o      winrmtest.Options
		change func(*transport.Opening)
		err    error
		says   string
	}{
		{"local account", winrmtest.Options{}, nil, nil, ""},
		{"account of a domain", winrmtest.Options{Domain: "CORP"}, nil, nil, ""},
		{"scheme NTLM", winrmtest.Options{Offer: []string{`Basic realm="WSMAN"`, "NTLM"}}, nil, nil, ""},
		{"wrong password", winrmtest.Options{}, func(o *transport.Opening) { o.Password += "x" }, transport.ErrAuth, "offers Negotiate"},
		{"wrong domain", winrmtest.Options{Domain: "CORP"}, func(o *transport.Opening) { o.User = winrmtest.User }, transport.ErrAuth, ""},
		{"Basic only", winrmtest.Options{Offer: []string{`Basic realm="WSMAN"`}}, nil, transport.ErrAuth, "offers Basic"},
		{"Kerberos only", winrmtest.Options{Offer: []string{"Kerberos"}}, nil, transport.ErrAuth, "offers Kerberos"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := serve(t, &winrmtest.Windows{Service: true}, tc.o)
			o := s.Opening()
			if tc.change != nil {
				tc.change(&o)
			}
			_, err := opener().Open(t.Context(), o)
			if !errors.Is(err, tc.err) || tc.err != nil && !strings.Contains(err.Error(), tc.says) {
				t.Errorf("error %v", err)
			}
			if tc.err != nil && strings.Contains(err.Error(), winrmtest.Password) {
				t.Error("the error shows the password")
			}
			leavesNothing(t, s)
		})
	}
}

// A host that cannot prove who it is gets nothing, not even the user's name.
func TestUntrustedCertificate(t *testing.T) {
	for name, change := range map[string]func(*transport.Opening){
		"another CA":   func(o *transport.Opening) { o.CA = winrmtest.New(t, winrmtest.Options{}).Opening().CA },
		"another name": func(o *transport.Opening) { o.ServerName = "win-2.example" },
	} {
		s := serve(t, &winrmtest.Windows{}, winrmtest.Options{})
		o := s.Opening()
		change(&o)
		if _, err := opener().Open(t.Context(), o); !errors.Is(err, transport.ErrCertificate) {
			t.Errorf("%s gave %v", name, err)
		}
		if s.Requests() != "" {
			t.Errorf("%s: it was sent %q", name, s.Requests())
		}
	}
}

func TestServerName(t *testing.T) {
	s := serve(t, &winrmtest.Windows{Service: true}, winrmtest.Options{Hosts: []string{winrmtest.Name}})
	o := s.Opening()
	if _, err := opener().Open(t.Context(), o); !errors.Is(err, transport.ErrCertificate) {
		t.Errorf("an address that the certificate does not have gave %v", err)
	}
	o.ServerName = winrmtest.Name
	if _, err := opener().Open(t.Context(), o); err != nil {
		t.Error(err)
	}
}

func TestQuotas(t *testing.T) {
	s := serve(t, &winrmtest.Windows{}, winrmtest.Options{MaxShells: -1})
	if _, err := opener().Open(t.Context(), s.Opening()); !errors.Is(err, transport.ErrBusy) {
		t.Errorf("no shell left gave %v", err)
	}
	// A command that has ended counts until it is taken off the books: one at a time is enough.
	s = serve(t, &winrmtest.Windows{Polls: 40}, winrmtest.Options{MaxShells: 1, MaxProcesses: 1, MaxEnvelope: 32 << 10})
	if _, err := opener().Open(t.Context(), s.Opening()); err != nil {
		t.Error(err)
	}
	s = serve(t, &winrmtest.Windows{}, winrmtest.Options{MaxEnvelope: 100})
	if _, err := opener().Open(t.Context(), s.Opening()); !errors.Is(err, transport.ErrDisconnected) {
		t.Errorf("a request that is too large gave %v", err)
	}
}

// At every message the connection may be cut or the service may refuse. The machine is as it was or further on, nothing is left there once it can be
// told, and the next contact goes through.
func TestOpenSurvivesEveryCut(t *testing.T) {
	// A command takes three messages or four; a step of two comes by each of them.
	for cut := 1; ; cut += 2 {
		w := &winrmtest.Windows{}
		n := 0
		s := serve(t, w, winrmtest.Options{Before: func(rw http.ResponseWriter, action string) bool {
			n++
			if n != cut {
				return false
			}
			if c, _, err := rw.(http.Hijacker).Hijack(); err == nil {
				_ = c.Close()
			}
			return true
		}})
		_, err := opener().Open(t.Context(), s.Opening())
		if n < cut {
			if cut < 20 {
				t.Errorf("there were only %d messages", n)
			}
			return
		}
		if err != nil && !errors.Is(err, transport.ErrUnreachable) && !errors.Is(err, transport.ErrDisconnected) {
			t.Errorf("cut %d: %v", cut, err)
		}
		n = -1 << 20
		if _, err := opener().Open(t.Context(), s.Opening()); err != nil {
			t.Errorf("after cut %d: %v", cut, err)
		}
		if len(w.Authorized) != 1 || len(w.Rules) != 1 || !w.Running {
			t.Errorf("after cut %d the machine is %+v", cut, w)
		}
	}
}

func TestStrangeAnswers(t *testing.T) {
	for name, write := range map[string]func(http.ResponseWriter){
		"a page":   func(w http.ResponseWriter) { fmt.Fprint(w, "<html>") },
		"no XML":   func(w http.ResponseWriter) { soapHeader(w); fmt.Fprint(w, "<a><b></a>") },
		"no shell": func(w http.ResponseWriter) { soapHeader(w); fmt.Fprint(w, "<Envelope/>") },
		"flood":    func(w http.ResponseWriter) { soapHeader(w); fmt.Fprint(w, strings.Repeat("x", maxAnswer+1)) },
		"a redirect": func(w http.ResponseWriter) {
			w.Header().Set("Location", "http://127.0.0.1/")
			w.WriteHeader(http.StatusTemporaryRedirect)
		},
		"unavailable":  func(w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) },
		"a bad id":     func(w http.ResponseWriter) { soapHeader(w); fmt.Fprint(w, shellAnswer("x]]><evil/>")) },
		"an empty one": func(w http.ResponseWriter) { soapHeader(w) },
	} {
		s := winrmtest.New(t, winrmtest.Options{Before: func(w http.ResponseWriter, action string) bool {
			write(w)
			return true
		}})
		_, err := opener().Open(t.Context(), s.Opening())
		if !errors.Is(err, transport.ErrUnreachable) && !errors.Is(err, transport.ErrDisconnected) {
			t.Errorf("%s gave %v", name, err)
		}
		if len(s.Lines()) > 0 {
			t.Errorf("%s: %q was run", name, s.Lines())
		}
	}
}

func soapHeader(w http.ResponseWriter) { w.Header().Set("Content-Type", "application/soap+xml") }

func shellAnswer(id string) string {
	return `<Envelope><Body><ResourceCreated><ReferenceParameters><SelectorSet><Selector Name="ShellId">` + winrmtest.Escape(id) +
		`</Selector></SelectorSet></ReferenceParameters></ResourceCreated></Body></Envelope>`
}

// What prints without end is ended.
func TestFloodOfOutput(t *testing.T) {
	s := winrmtest.New(t, winrmtest.Options{Run: func(winrmtest.Call) winrmtest.Result {
		return winrmtest.Result{Stdout: strings.Repeat("x", maxOutput+1), Parts: 4}
	}})
	if _, err := opener().Open(t.Context(), s.Opening()); !errors.Is(err, transport.ErrDisconnected) || !errors.Is(err, errAnswer) {
		t.Errorf("error %v", err)
	}
	leavesNothing(t, s)
}

// A caller that gives up is not kept waiting by a command that says nothing, and the shell is deleted all the same.
func TestOpenEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("the operator ends")
	s := winrmtest.New(t, winrmtest.Options{Run: func(winrmtest.Call) winrmtest.Result {
		cancel(gone)
		return winrmtest.Result{Silent: 1 << 30}
	}})
	if _, err := opener().Open(ctx, s.Opening()); !errors.Is(err, gone) || !errors.Is(err, transport.ErrUnreachable) {
		t.Errorf("error %v", err)
	}
	leavesNothing(t, s)
}

func TestNothingListens(t *testing.T) {
	s := winrmtest.New(t, winrmtest.Options{})
	o := s.Opening()
	o.Port = 1
	if _, err := opener().Open(t.Context(), o); !errors.Is(err, transport.ErrUnreachable) {
		t.Errorf("error %v", err)
	}
}

// Hosts share nothing: many at the same time, each with its own account and answer.
func TestManyHosts(t *testing.T) {
	o := opener()
	errs := make(chan error)
	const hosts = 8
	for i := range hosts {
		s := serve(t, &winrmtest.Windows{Polls: i}, winrmtest.Options{Domain: fmt.Sprintf("D%d", i)})
		go func() {
			_, err := o.Open(t.Context(), s.Opening())
			errs <- err
		}()
	}
	for range hosts {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

func TestOpeningIsChecked(t *testing.T) {
	s := winrmtest.New(t, winrmtest.Options{})
	for name, change := range map[string]func(*transport.Opening){
		"Address is empty":                  func(o *transport.Opening) { o.Address = "" },
		"Port is not":                       func(o *transport.Opening) { o.Port = 70000 },
		"plain HTTP":                        func(o *transport.Opening) { o.Port = 5985 },
		"SSHPort":                           func(o *transport.Opening) { o.SSHPort = 0 },
		"User is empty":                     func(o *transport.Opening) { o.User = "" },
		"neither a Password":                func(o *transport.Opening) { o.Password = "" },
		"give one of them":                  func(o *transport.Opening) { o.ClientCert = []byte("x") },
		"AuthorizedKey is not a public key": func(o *transport.Opening) { o.AuthorizedKey = "ssh-ed25519 AAAA" },
		"several lines":                     func(o *transport.Opening) { o.AuthorizedKey += "\nssh-rsa AAAA" },
		"belong together":                   func(o *transport.Opening) { o.InstallerURL = winrmtest.InstallerURL },
		"InstallerURL must be https": func(o *transport.Opening) {
			o.InstallerURL, o.InstallerSHA256 = "http://mirror.example/x.msi", winrmtest.InstallerSHA256()
		},
		"hold letters, digits": func(o *transport.Opening) {
			o.InstallerURL, o.InstallerSHA256 = "https://mirror.example/\"\noutput = \"x", winrmtest.InstallerSHA256()
		},
		"64 hexadecimal digits": func(o *transport.Opening) { o.InstallerURL, o.InstallerSHA256 = winrmtest.InstallerURL, "AB" },
		"CA holds no":           func(o *transport.Opening) { o.CA = []byte("x") },
		"client certificate":    func(o *transport.Opening) { o.Password, o.ClientCert = "", []byte("x") },
	} {
		o := s.Opening()
		change(&o)
		_, err := opener().Open(t.Context(), o)
		if !errors.Is(err, transport.ErrOpening) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if s.Connections() != 0 {
		t.Error("something was sent")
	}
}

func TestOpeningShowsNoSecret(t *testing.T) {
	o := transport.Opening{Address: "10.0.0.1", Port: 5986, User: "u", Password: "canary", ClientKey: []byte("canary")}
	for _, f := range []string{"%v", "%+v", "%#v", "%s"} {
		if got := fmt.Sprintf(f, o); strings.Contains(got, "canary") || strings.Contains(got, "99, 97, 110") {
			t.Errorf("%s prints %s", f, got)
		}
	}
}

// An installation that does not end is not waited for any longer than allowed; its task stays, and the next contact waits for it again.
func TestInstallationThatDoesNotEnd(t *testing.T) {
	w := &winrmtest.Windows{Polls: 1 << 30}
	s := serve(t, w, winrmtest.Options{})
	o := opener()
	o.Install = 10 * time.Millisecond
	for range 2 {
		if _, err := o.Open(t.Context(), s.Opening()); !errors.Is(err, transport.ErrNoServer) || !strings.Contains(err.Error(), "not done after 10ms") {
			t.Errorf("error %v", err)
		}
	}
	created := 0
	for _, l := range s.Lines() {
		if l == createTask {
			created++
		}
	}
	if created != 1 || !w.Task {
		t.Errorf("the task was made %d times, and is there: %v", created, w.Task)
	}
	leavesNothing(t, s)
}
