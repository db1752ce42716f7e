package host

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/host"
	"github.com/windowsmachine/operator/pkg/transport"
)

// The Secret's keys for transport WinRM.
const (
	winrmCA       = "winrm-ca.crt"
	winrmPassword = "winrm-password"
	winrmCert     = "winrm-tls.crt"
	winrmKey      = "winrm-tls.key"
)

// winrmPort is WinRM's over HTTPS.
const winrmPort = 5986

// winrmSecrets are what logs in over WinRM, or why there is nothing.
type winrmSecrets struct {
	ca, cert, key []byte
	password      string
	// problem counts for hosts with transport WinRM only.
	problem cond
}

// readWinRM checks what a Secret holds for WinRM; its messages hold nothing of it.
func readWinRM(namespace, name string, data map[string][]byte) winrmSecrets {
	w := winrmSecrets{ca: data[winrmCA], cert: data[winrmCert], key: data[winrmKey]}
	// kubectl --from-file keeps the line end that editors and echo put behind a password.
	w.password = string(bytes.TrimRight(data[winrmPassword], "\r\n"))
	say := func(reason, format string, args ...any) winrmSecrets {
		w.problem = no(reason, fmt.Sprintf("Secret %s/%s, for transport WinRM: ", namespace, name)+fmt.Sprintf(format, args...))
		return w
	}
	missing, invalid := v1alpha1.ReasonCredentialsMissing, v1alpha1.ReasonCredentialsInvalid
	switch {
	case len(w.ca) == 0:
		return say(missing, "there is no key %s; put the certificate of the CA that has signed the machine's WinRM certificate there (PEM), or that certificate itself if it is self-signed", winrmCA)
	case !x509.NewCertPool().AppendCertsFromPEM(w.ca):
		return say(invalid, "key %s holds no certificate in PEM form", winrmCA)
	case w.password == "" && len(w.cert) == 0:
		return say(missing, "there is neither a key %s nor the keys %s and %s", winrmPassword, winrmCert, winrmKey)
	case w.password != "" && len(w.cert) > 0:
		return say(invalid, "there are keys %s and %s; remove one of them, so that it is clear who logs in", winrmPassword, winrmCert)
	case !utf8.ValidString(w.password):
		return say(invalid, "key %s is not UTF-8", winrmPassword)
	case len(w.cert) == 0:
		return w
	}
	if _, err := tls.X509KeyPair(w.cert, w.key); err != nil {
		return say(invalid, "keys %s and %s: %v", winrmCert, winrmKey, err)
	}
	return w
}

// opened makes first contact where the host asks for it: until a host key is pinned, over WinRM. A key read there comes before trust on first use,
// and one in the spec before both.
func (p *pass) opened() bool {
	if p.host.Spec.Transport != v1alpha1.TransportWinRM {
		return true
	}
	if ps, err := pins(p.host); err != nil || len(ps) > 0 {
		return true
	}
	if p.creds.winrm.problem != (cond{}) {
		p.reachable = p.creds.winrm.problem
		return false
	}
	if last := p.snap.Last[host.VerbOpen]; last.Err == nil && len(p.snap.Opened.Key) > 0 {
		k := p.snap.Opened
		p.pin = &v1alpha1.PinnedHostKey{Source: v1alpha1.HostKeyFromWinRM, Key: formatPin(k), Fingerprint: k.Fingerprint, PinnedAt: metav1.NewTime(p.now)}
		p.trusted = yes(v1alpha1.ReasonHostKeyReadOverWinRM, "the host key "+k.Fingerprint+" was read over WinRM")
		p.reachable = wait(v1alpha1.ReasonConnecting, "OpenSSH runs; connecting to "+p.host.Spec.Address)
		p.lookAgain(afterStatus)
		return false
	}
	p.openFailure()
	p.start(host.VerbOpen)
	if p.verb == host.VerbOpen {
		p.args.Opening = p.opening()
	}
	return false
}

// openFailure says how first contact stands.
func (p *pass) openFailure() {
	o := p.opening()
	p.reachable = wait(v1alpha1.ReasonOpeningSSH, fmt.Sprintf("having OpenSSH installed and started over WinRM at %s, which may take many minutes", o))
	last, ok := p.snap.Last[host.VerbOpen]
	if !ok || last.Err == nil {
		return
	}
	p.failures = last.Failures
	c := openCond(o, p.namespace+"/"+p.creds.secret, last.Err)
	if c.reason == v1alpha1.ReasonCertificateUntrusted {
		p.trusted = c
		return
	}
	p.reachable = c
}

// openCond translates how first contact failed.
func openCond(o transport.Opening, secret string, err error) cond {
	switch {
	case errors.Is(err, transport.ErrCertificate):
		return no(v1alpha1.ReasonCertificateUntrusted, fmt.Sprintf(
			"the WinRM certificate at %s is not trusted: put the CA that has signed it into %s of Secret %s, and the name that it has into spec.winRM.serverName; nothing was sent (%v)", o, winrmCA, secret, err))
	case errors.Is(err, transport.ErrAuth):
		return no(v1alpha1.ReasonAuthenticationFailed, fmt.Sprintf(
			"WinRM at %s refuses the user with the credentials of Secret %s: correct username or Secret; passwords are proven by NTLM (Negotiate), never by Basic (%v)", o, secret, err))
	case errors.Is(err, transport.ErrNoServer):
		return no(v1alpha1.ReasonOpenSSHMissing, fmt.Sprintf("%v; it is tried again", err))
	case errors.Is(err, transport.ErrOpening):
		return no(v1alpha1.ReasonCredentialsInvalid, fmt.Sprintf("Secret %s or spec.connection.openSSH of the profile: %v", secret, err))
	case errors.Is(err, transport.ErrUnreachable):
		return no(v1alpha1.ReasonUnreachable, fmt.Sprintf(
			"WinRM over HTTPS at %s does not answer: check that the machine runs, that it has an HTTPS listener (winrm enumerate winrm/config/listener) and that its firewall lets the port in (%v)", o, err))
	}
	return no(v1alpha1.ReasonConnectionLost, fmt.Sprintf("first contact over WinRM at %s ended early; it is made again (%v)", o, err))
}

// opening is where and how first contact is made.
func (p *pass) opening() transport.Opening {
	w := p.creds.winrm
	o := transport.Opening{
		Address: p.host.Spec.Address, Port: winrmPort, User: p.host.Spec.Username, Password: w.password, ClientCert: w.cert, ClientKey: w.key, CA: w.ca,
		AuthorizedKey: p.creds.authorized, SSHPort: p.target().Port,
	}
	if r := p.host.Spec.WinRM; r != nil {
		o.Port, o.ServerName = cmp.Or(int(r.Port), winrmPort), r.ServerName
	}
	if i := p.profile.Spec.Connection.OpenSSH; i != nil {
		o.InstallerURL, o.InstallerSHA256 = i.MSIURL, i.SHA256
	}
	return o
}
