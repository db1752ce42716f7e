package winrmtest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/xml"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/windowsmachine/operator/pkg/transport"
)

// What the service accepts by default.
const (
	User     = `Administrator`
	Password = `pä$$w0rd "of" the 'host'`
	// Name is in the certificate, beside 127.0.0.1.
	Name = "win-1.example"
)

// Options of a Server. The zero value takes User and Password by NTLM and runs every command with exit code 0.
type Options struct {
	// Offer are the schemes of a 401; nil is Negotiate.
	Offer []string
	// Hosts are the names and addresses in the certificate; nil is Name and 127.0.0.1.
	Hosts []string
	// Certificates has clients log in by certificate instead of by password.
	Certificates bool
	// Domain of User, "" for a local account.
	Domain string
	// MaxShells, MaxProcesses and MaxEnvelope are the quotas MaxShellsPerUser, MaxProcessesPerShell and MaxEnvelopeSizekb (in bytes); 0 is Windows'
	// default (30, 25, 500 KiB).
	MaxShells, MaxProcesses, MaxEnvelope int
	// Run is what a command does; nil is a program that does nothing.
	Run func(Call) Result
	// Before is called before an authenticated message is answered; when it returns true it has answered itself. nil is never.
	Before func(w http.ResponseWriter, action string) bool
}

// Call is a command that was started.
type Call struct {
	Line  string
	Stdin []byte
}

// Result is what it does.
type Result struct {
	Exit           uint32
	Stdout, Stderr string
	// Silent is how many operations end without output before it prints.
	Silent int
	// Parts is in how many answers the output comes; 0 is 1.
	Parts int
}

// Server is a running service. It ends with its test.
type Server struct {
	opts  Options
	certs *certificates
	http  *http.Server
	port  int

	mu       sync.Mutex
	shells   map[string]*shell
	made     int
	lines    []string
	requests []string
	conns    int
	largest  int
}

type shell struct {
	commands map[string]*command
	made     int
}

type command struct {
	Call
	ended   bool
	started bool
	result  Result
	out     []part
}

// New starts a service.
func New(t testing.TB, o Options) *Server {
	t.Helper()
	if o.Hosts == nil {
		o.Hosts = []string{Name, "127.0.0.1"}
	}
	certs, err := newCertificates(o.Hosts)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{opts: o, certs: certs, port: l.Addr().(*net.TCPAddr).Port, shells: map[string]*shell{}}
	cfg := &tls.Config{Certificates: []tls.Certificate{certs.server}}
	if o.Certificates {
		cfg.ClientAuth, cfg.ClientCAs = tls.RequestClientCert, certs.pool()
	}
	s.http = &http.Server{
		Handler: s, TLSConfig: cfg, ErrorLog: quiet(),
		ConnContext: func(ctx context.Context, _ net.Conn) context.Context {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.conns++
			return context.WithValue(ctx, connKey{}, &login{})
		},
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.http.ServeTLS(l, "", "")
	}()
	t.Cleanup(func() {
		_ = s.http.Close()
		<-done
	})
	return s
}

type connKey struct{}

// Opening leads to s with what it accepts. Its key is not a real one.
func (s *Server) Opening() transport.Opening {
	o := transport.Opening{
		Address: "127.0.0.1", Port: s.port, User: User, Password: Password, CA: s.certs.ca, AuthorizedKey: AuthorizedKey, SSHPort: 22,
	}
	if s.opts.Domain != "" {
		o.User = s.opts.Domain + `\` + User
	}
	if s.opts.Certificates {
		o.Password, o.ClientCert, o.ClientKey = "", s.certs.client, s.certs.clientKey
	}
	return o
}

// AuthorizedKey is an Ed25519 public key; nobody has its private one.
const AuthorizedKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8g"

// Lines are the command lines that were started, in order.
func (s *Server) Lines() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string{}, s.lines...)
}

// Shells is how many shells are open, Made how many there were, Commands how many commands of open shells are on the books.
func (s *Server) Shells() (open, made, commands int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sh := range s.shells {
		commands += len(sh.commands)
	}
	return len(s.shells), s.made, commands
}

// Connections is how many TCP connections came.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conns
}

// Requests is everything that clients have sent, headers of authentication included.
func (s *Server) Requests() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.requests, "\n")
}

// request is what is read of a message.
type request struct {
	Header struct {
		Action      string `xml:"Action"`
		MaxEnvelope string `xml:"MaxEnvelopeSize"`
		Selectors   []struct {
			Name  string `xml:"Name,attr"`
			Value string `xml:",chardata"`
		} `xml:"SelectorSet>Selector"`
	} `xml:"Header"`
	Body struct {
		Command string `xml:"CommandLine>Command"`
		Send    struct {
			CommandID string `xml:"CommandId,attr"`
			End       string `xml:"End,attr"`
			Data      string `xml:",chardata"`
		} `xml:"Send>Stream"`
		Receive struct {
			CommandID string `xml:"CommandId,attr"`
		} `xml:"Receive>DesiredStream"`
		Signal struct {
			CommandID string `xml:"CommandId,attr"`
		} `xml:"Signal"`
	} `xml:"Body"`
}

func (r *request) shellID() string {
	for _, s := range r.Header.Selectors {
		if s.Name == "ShellId" {
			return s.Value
		}
	}
	return ""
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	s.note(r.Header.Get("Authorization"), body)
	if err != nil || r.Method != http.MethodPost || r.URL.Path != "/wsman" {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	if !s.authenticated(w, r) {
		return
	}
	var m request
	if err := xml.Unmarshal(body, &m); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if s.opts.Before != nil && s.opts.Before(w, m.Header.Action) {
		return
	}
	answer, f := s.answer(&m, len(body))
	w.Header().Set("Content-Type", "application/soap+xml;charset=UTF-8")
	if f != nil {
		w.WriteHeader(http.StatusInternalServerError)
		answer = f.String()
	}
	_, _ = io.WriteString(w, answer)
}

func (s *Server) note(authorization string, body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, authorization+"\n"+string(body))
	s.largest = max(s.largest, len(body))
}

// Largest is the size of the largest request.
func (s *Server) Largest() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.largest
}

// authenticated answers 401 unless the connection has proven who it is.
func (s *Server) authenticated(w http.ResponseWriter, r *http.Request) bool {
	if s.opts.Certificates {
		return s.byCertificate(w, r)
	}
	l := r.Context().Value(connKey{}).(*login)
	l.mu.Lock()
	defer l.mu.Unlock()
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if l.ok && token == "" {
		return true
	}
	if s.offers(scheme) && token != "" && (scheme == "Negotiate" || scheme == "NTLM") {
		challenge, ok := l.step(token, s.account(), s.certs.server.Certificate[0])
		if ok {
			return true
		}
		if challenge != "" {
			w.Header().Set("WWW-Authenticate", scheme+" "+challenge)
			w.WriteHeader(http.StatusUnauthorized)
			return false
		}
	}
	for _, o := range s.offer() {
		w.Header().Add("WWW-Authenticate", o)
	}
	w.WriteHeader(http.StatusUnauthorized)
	return false
}

func (s *Server) account() account {
	return account{user: User, password: Password, domain: s.opts.Domain}
}

func (s *Server) offer() []string {
	if s.opts.Offer == nil {
		return []string{"Negotiate"}
	}
	return s.opts.Offer
}

func (s *Server) offers(scheme string) bool {
	for _, o := range s.offer() {
		if word, _, _ := strings.Cut(o, " "); word == scheme {
			return true
		}
	}
	return false
}

// byCertificate takes the one certificate that is mapped to an account; others are answered with 403.
func (s *Server) byCertificate(w http.ResponseWriter, r *http.Request) bool {
	const mutual = "http://schemas.dmtf.org/wbem/wsman/1/wsman/secprofile/https/mutual"
	if r.Header.Get("Authorization") != mutual {
		w.WriteHeader(http.StatusUnauthorized)
		return false
	}
	peers := r.TLS.PeerCertificates
	if len(peers) == 0 {
		w.WriteHeader(http.StatusForbidden)
		return false
	}
	_, err := peers[0].Verify(x509.VerifyOptions{Roots: s.certs.pool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	if err != nil {
		w.WriteHeader(http.StatusForbidden)
		return false
	}
	return true
}

func orDefault(n, def int) int {
	if n == 0 {
		return def
	}
	return n
}

// Actions of the messages.
const (
	ActionCreate  = "http://schemas.xmlsoap.org/ws/2004/09/transfer/Create"
	ActionDelete  = "http://schemas.xmlsoap.org/ws/2004/09/transfer/Delete"
	ActionCommand = "http://schemas.microsoft.com/wbem/wsman/1/windows/shell/Command"
	ActionReceive = "http://schemas.microsoft.com/wbem/wsman/1/windows/shell/Receive"
	ActionSend    = "http://schemas.microsoft.com/wbem/wsman/1/windows/shell/Send"
	ActionSignal  = "http://schemas.microsoft.com/wbem/wsman/1/windows/shell/Signal"
)

// answer does what a message asks for.
func (s *Server) answer(m *request, size int) (string, *Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if size > orDefault(s.opts.MaxEnvelope, 500<<10) {
		return "", &Fault{Code: 2150858805, Subcode: "w:EncodingLimit"}
	}
	if m.Header.Action == ActionCreate {
		return s.create()
	}
	sh := s.shells[m.shellID()]
	if sh == nil {
		// The shell was not found on the server.
		return "", &Fault{Code: 2150858843, Subcode: "w:InvalidSelectors"}
	}
	switch m.Header.Action {
	case ActionDelete:
		delete(s.shells, m.shellID())
		return message(m.Header.Action+"Response", ""), nil
	case ActionCommand:
		return s.command(sh, m)
	case ActionSend, ActionReceive, ActionSignal:
		return s.ofCommand(sh, m)
	}
	return "", &Fault{Code: 2150858753, Subcode: "wsa:ActionNotSupported"}
}

func (s *Server) create() (string, *Fault) {
	if len(s.shells) >= orDefault(s.opts.MaxShells, 30) {
		return "", &Fault{Code: 2150859173, Subcode: "w:QuotaLimit"}
	}
	s.made++
	id := fmt.Sprintf("67A74734-DD32-4F10-89DE-%012d", s.made)
	s.shells[id] = &shell{commands: map[string]*command{}}
	return message(ActionCreate+"Response", created(id)), nil
}

func (s *Server) command(sh *shell, m *request) (string, *Fault) {
	if len(sh.commands) >= orDefault(s.opts.MaxProcesses, 25) {
		return "", &Fault{Code: 2150859241, Subcode: "w:QuotaLimit"}
	}
	sh.made++
	id := "7D7F6C1A-0000-0000-0000-" + fmt.Sprintf("%012s", strconv.Itoa(sh.made))
	sh.commands[id] = &command{Call: Call{Line: m.Body.Command}}
	s.lines = append(s.lines, m.Body.Command)
	return message(ActionCommand+"Response", `<rsp:CommandResponse><rsp:CommandId>`+id+`</rsp:CommandId></rsp:CommandResponse>`), nil
}

// ofCommand answers what is about a command.
func (s *Server) ofCommand(sh *shell, m *request) (string, *Fault) {
	id := m.Body.Send.CommandID + m.Body.Receive.CommandID + m.Body.Signal.CommandID
	c := sh.commands[id]
	if c == nil {
		return "", &Fault{Code: 2150858843, Subcode: "w:InvalidSelectors"}
	}
	switch m.Header.Action {
	case ActionSend:
		return c.send(m)
	case ActionSignal:
		delete(sh.commands, id)
		return message(ActionSignal+"Response", `<rsp:SignalResponse/>`), nil
	}
	return c.receive(id, s.opts.Run)
}

// quietLog throws away what net/http logs about refused handshakes.
type quietLog struct{}

// Write implements io.Writer.
func (quietLog) Write(p []byte) (int, error) { return len(p), nil }
