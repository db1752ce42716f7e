package host

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/host"
	"github.com/windowsmachine/operator/pkg/transport"
)

// trustWindow is how long after a Machine was first seen Provisioned its host key may be taken on first use.
const trustWindow = 30 * time.Minute

// keyError says which key a machine showed that is not trusted.
type keyError struct{ key transport.HostKey }

func (e *keyError) Error() string {
	return fmt.Sprintf("the machine shows %s %s", e.key.Algorithm, e.key.Fingerprint)
}

// pin is one trusted key.
type pin struct {
	algorithm string
	key       []byte
	// first is whether it was pinned by the operator, on first use or over WinRM.
	first bool
}

// parsePin reads a line of authorized_keys (sshd(8), AUTHORIZED_KEYS FILE FORMAT, without options): algorithm, base64, comment.
func parsePin(line string) (pin, error) {
	f := strings.Fields(line)
	if len(f) < 2 {
		return pin{}, errors.New("want an algorithm and a key")
	}
	b, err := base64.StdEncoding.DecodeString(f[1])
	if err != nil {
		return pin{}, fmt.Errorf("key is not base64: %w", err)
	}
	return pin{algorithm: f[0], key: b}, nil
}

// formatPin is the line of authorized_keys for k.
func formatPin(k transport.HostKey) string {
	return k.Algorithm + " " + base64.StdEncoding.EncodeToString(k.Key)
}

// pins returns the trusted keys of the host: those of the spec, or else the one that was pinned in the status.
func pins(h *v1alpha1.WindowsHost) ([]pin, error) {
	var out []pin
	for i, line := range h.Spec.HostKeys {
		p, err := parsePin(line)
		if err != nil {
			return nil, fmt.Errorf("spec.hostKeys[%d]: %w; take the line from C:\\ProgramData\\ssh\\ssh_host_ed25519_key.pub on the machine", i, err)
		}
		out = append(out, p)
	}
	if len(out) == 0 && h.Status.HostKey != nil {
		p, err := parsePin(h.Status.HostKey.Key)
		if err != nil {
			return nil, fmt.Errorf("status.hostKey: %w", err)
		}
		p.first = true
		out = append(out, p)
	}
	return out, nil
}

func match(ps []pin, k transport.HostKey) *pin {
	for i := range ps {
		if bytes.Equal(ps[i].key, k.Key) {
			return &ps[i]
		}
	}
	return nil
}

// verify decides about the key that the machine shows, before any credential is sent. Without pins it accepts the first key, since trust
// has allowed that.
func (p *pass) verify() func(transport.HostKey) error {
	ps, err := pins(p.host)
	return func(k transport.HostKey) error {
		if err != nil {
			return err
		}
		if len(ps) > 0 && match(ps, k) == nil {
			return &keyError{key: k}
		}
		return nil
	}
}

// trust finds out whether the machine may be talked to at all.
func (p *pass) trust() bool {
	ps, err := pins(p.host)
	if err != nil {
		p.trusted = no(v1alpha1.ReasonHostKeyInvalid, err.Error())
		return false
	}
	if k, refused := p.refusedKey(); refused {
		if match(ps, k) == nil {
			p.trusted = no(v1alpha1.ReasonHostKeyChanged, fmt.Sprintf(
				"the machine at %s shows the host key %s, not the pinned one: if it was reinstalled, put the new key into spec.hostKeys or delete the WindowsHost and make it anew; if not, somebody may be in between",
				p.host.Spec.Address, k.Fingerprint))
			return false
		}
		p.disconnect = p.snap.Busy == ""
	}
	if len(ps) > 0 {
		p.trusted = p.pinnedCond(ps)
		return true
	}
	return p.mayTrustFirst()
}

// refusedKey returns the key that the last attempt refused.
func (p *pass) refusedKey() (transport.HostKey, bool) {
	var newest host.Outcome
	for _, o := range p.snap.Last {
		if o.At.After(newest.At) {
			newest = o
		}
	}
	var ke *keyError
	if errors.Is(newest.Err, transport.ErrHostKey) && errors.As(newest.Err, &ke) {
		return ke.key, true
	}
	return transport.HostKey{}, false
}

func (p *pass) pinnedCond(ps []pin) cond {
	if !ps[0].first {
		return yes(v1alpha1.ReasonHostKeyPinned, "the host key is one of spec.hostKeys")
	}
	if k := p.host.Status.HostKey; k.Source == v1alpha1.HostKeyFromWinRM {
		return yes(v1alpha1.ReasonHostKeyReadOverWinRM, fmt.Sprintf("the host key %s was read over WinRM at %s", k.Fingerprint, k.PinnedAt.UTC().Format(time.RFC3339)))
	}
	return yes(v1alpha1.ReasonHostKeyTrustedOnFirstUse, fmt.Sprintf("the host key %s was pinned on first use at %s",
		p.host.Status.HostKey.Fingerprint, p.host.Status.HostKey.PinnedAt.UTC().Format(time.RFC3339)))
}

// mayTrustFirst allows the first key where the profile says so, for a Machine within the window only.
func (p *pass) mayTrustFirst() bool {
	if p.profile.Spec.Trust.HostKeyPolicy != v1alpha1.HostKeyTrustOnFirstUse {
		p.trusted = no(v1alpha1.ReasonHostKeyUnknown, fmt.Sprintf(
			"no host key is pinned and WindowsNodeProfile %s has spec.trust.hostKeyPolicy Strict: put the machine's public host key (C:\\ProgramData\\ssh\\ssh_host_ed25519_key.pub there) into spec.hostKeys, or set TrustOnFirstUse in the profile", p.profile.Name))
		return false
	}
	if p.host.Spec.MachineRef == nil {
		return true
	}
	since := p.host.Status.MachineProvisioned
	if since == nil {
		p.trusted = wait(v1alpha1.ReasonNotChecked, "waiting for the Machine controller to say when the Machine was Provisioned")
		return false
	}
	if p.now.Sub(since.Time) > trustWindow {
		p.trusted = no(v1alpha1.ReasonTrustWindowClosed, fmt.Sprintf(
			"the Machine was Provisioned at %s and its host key was not seen within %s: put the key into spec.hostKeys, or delete the Machine", since.UTC().Format(time.RFC3339), trustWindow))
		return false
	}
	return true
}

// connect makes the first connection where the key is to be trusted on first use, and has it pinned before anything is sent.
func (p *pass) connect() bool {
	ps, _ := pins(p.host)
	if len(ps) > 0 {
		if p.snap.Connected && match(ps, p.snap.HostKey) == nil {
			p.disconnect = true
		}
		return true
	}
	if p.snap.Connected && len(p.snap.HostKey.Key) > 0 {
		p.pin = &v1alpha1.PinnedHostKey{
			Source: v1alpha1.HostKeyFromFirstUse,
			Key:    formatPin(p.snap.HostKey), Fingerprint: p.snap.HostKey.Fingerprint, PinnedAt: metav1.NewTime(p.now),
		}
		p.trusted = yes(v1alpha1.ReasonHostKeyTrustedOnFirstUse, "the host key "+p.snap.HostKey.Fingerprint+" was pinned on first use")
		p.reachable = yes(v1alpha1.ReasonConnected, "logged in as "+p.host.Spec.Username)
		p.lookAgain(afterStatus)
		return false
	}
	p.reachable = p.failure(host.VerbConnect, wait(v1alpha1.ReasonConnecting, "connecting to "+p.host.Spec.Address))
	p.start(host.VerbConnect)
	return false
}
