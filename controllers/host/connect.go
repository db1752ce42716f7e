package host

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/host"
	"github.com/windowsmachine/operator/pkg/plan"
	"github.com/windowsmachine/operator/pkg/transport"
)

// credentials are what logs in, or why there is nothing.
type credentials struct {
	secret string
	keys   [][]byte
	// authorized is the public key of keys, as a line of authorized_keys.
	authorized string
	winrm      winrmSecrets
	// problem is the cond that keeps the host from being reached, zero when there are keys.
	problem cond
}

// allowed refuses hosts that are in the wrong place: who may make a WindowsHost in the operator's namespace may add a node, and
// nobody else.
func (p *pass) allowed() bool {
	if p.host.Namespace != p.namespace {
		p.reachable = no(v1alpha1.ReasonNotAllowed, fmt.Sprintf("WindowsHosts count in namespace %s only; delete this one and make it there", p.namespace))
		return false
	}
	if ip, err := netip.ParseAddr(p.host.Spec.Address); err == nil && ip.Unmap().IsLoopback() && !p.allowLoopback {
		p.reachable = no(v1alpha1.ReasonNotAllowed, fmt.Sprintf("spec.address %s is a loopback address: it is the operator's own machine; give the address of the Windows machine", p.host.Spec.Address))
		return false
	}
	return true
}

func (p *pass) notPaused() bool {
	if p.host.Spec.Paused || p.host.Annotations[v1alpha1.PausedAnnotation] == "true" {
		p.paused = yes(v1alpha1.ReasonPaused, "nothing is done until spec.paused and the annotation "+v1alpha1.PausedAnnotation+" are removed")
		return false
	}
	return true
}

// profileExists finds the profile, which says how machines are reached.
func (p *pass) profileExists() bool {
	if p.profile == nil {
		p.preflight = no(v1alpha1.ReasonProfileMissing, fmt.Sprintf(
			"spec.profileRef names WindowsNodeProfile %q, which does not exist: make it, or name another (kubectl get winprofile)", p.host.Spec.ProfileRef.Name))
		return false
	}
	return true
}

// haveProfile checks what every host of the profile needs, before the machine is touched.
func (p *pass) haveProfile() bool {
	if !p.profileExists() {
		return false
	}
	if p.cluster == nil {
		p.preflight = wait(v1alpha1.ReasonNotChecked, "the facts about the cluster are being gathered")
		return false
	}
	fatal := p.cluster.Fatal()
	if len(fatal) == 0 {
		return true
	}
	p.preflight = no(fatal[0].Reason, problemsText(fatal))
	return false
}

func (p *pass) haveCredentials() bool {
	if p.creds.problem != (cond{}) {
		p.reachable = p.creds.problem
		return false
	}
	return true
}

// failure translates how the verb last failed; where it did not, it returns otherwise.
func (p *pass) failure(v host.Verb, otherwise cond) cond {
	last, ok := p.snap.Last[v]
	if !ok || last.Err == nil {
		return otherwise
	}
	p.failures = last.Failures
	t := p.target()
	where := fmt.Sprintf("%s port %d", t.Address, t.Port)
	var refusal *host.Refusal
	switch {
	case errors.Is(last.Err, transport.ErrAuth):
		return no(v1alpha1.ReasonAuthenticationFailed, fmt.Sprintf(
			"%s refuses user %s with the key of Secret %s/%s: put its public key into C:\\ProgramData\\ssh\\administrators_authorized_keys on the machine, or correct username or Secret (%v)",
			where, t.User, p.namespace, p.creds.secret, last.Err))
	case errors.Is(last.Err, transport.ErrUnreachable):
		return no(v1alpha1.ReasonUnreachable, fmt.Sprintf(
			"%s does not answer: check that the machine runs, that its firewall lets the port in and that spec.address is right (%v)", where, last.Err))
	case errors.As(last.Err, &refusal):
		return no(v1alpha1.ReasonAgentFailed, fmt.Sprintf("the agent on the machine answered %s; it is asked again", refusal.Error()))
	case errors.Is(last.Err, transport.ErrDisconnected), errors.Is(last.Err, transport.ErrBusy):
		return no(v1alpha1.ReasonConnectionLost, fmt.Sprintf("the connection to %s ended early; it is made again (%v)", where, last.Err))
	}
	return no(v1alpha1.ReasonAgentFailed, fmt.Sprintf("%s on %s failed; it is tried again (%v)", v, where, last.Err))
}

// How old facts may be before they are asked for anew.
const (
	factsFresh     = 10 * time.Minute
	factsRecheck   = 30 * time.Second
	factsAfterBoot = 3 * time.Second
)

// facts asks the machine what it is.
func (p *pass) facts() bool {
	if p.snap.Facts == nil {
		p.reachable = p.failure(host.VerbFacts, wait(v1alpha1.ReasonConnecting, "connecting to "+p.host.Spec.Address))
		if p.snap.Connected && p.reachable.reason == v1alpha1.ReasonConnecting {
			p.reachable = yes(v1alpha1.ReasonConnected, "logged in as "+p.host.Spec.Username)
			if p.host.Status.OS == nil {
				p.preflight = wait(v1alpha1.ReasonNotChecked, "asking the machine what it is like")
			}
		}
		p.startFacts()
		return false
	}
	p.reachable = p.failure(host.VerbFacts, yes(v1alpha1.ReasonConnected, "logged in as "+p.host.Spec.Username))
	f := p.snap.Facts
	p.os = &v1alpha1.OSStatus{Build: int32(f.Build), UBR: int32(f.UBR), Name: osName(f.Build)}
	p.bootID = f.BootID
	p.refresh(factsFresh)
	return true
}

// refresh has the facts gathered anew when they are older than d, and a look taken when they will be.
func (p *pass) refresh(d time.Duration) {
	age := p.now.Sub(p.snap.FactsAt)
	if age >= d {
		p.startFacts()
		return
	}
	p.lookAgain(d - age)
}

func (p *pass) startFacts() {
	p.start(host.VerbFacts)
	if p.verb == host.VerbFacts {
		p.args.FactsRequest = plan.FactsRequest{
			APIServer: p.cluster.Cluster.APIServer, CA: p.cluster.Cluster.APIServerCA, Blobs: p.payload.digests(),
		}
	}
}

// osName is the product name of a build of Windows Server
// (https://learn.microsoft.com/windows-server/get-started/windows-server-release-info).
func osName(build int) string {
	switch {
	case build >= 26100:
		return "Windows Server 2025"
	case build >= 20348:
		return "Windows Server 2022"
	case build >= 17763:
		return "Windows Server 2019"
	}
	return fmt.Sprintf("Windows build %d", build)
}
