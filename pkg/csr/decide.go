package csr

import (
	"fmt"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
)

// Limits in time.
const (
	// MaxAge is the age at which a request is no longer looked at. The controller manager removes pending ones after 24
	// hours; a kubelet gives one up after 15 minutes and sends another.
	MaxAge = time.Hour
	// MaxLifetime is the longest certificate that may be asked for. It is the controller manager's own default cap
	// (--cluster-signing-duration); kubelets ask for no time at all.
	MaxLifetime = 365 * 24 * time.Hour
	// LeaseStale is how old the last sign of life must be before a new client certificate may replace a Node's machine.
	LeaseStale = 5 * time.Minute
	// Settle is how long a ticket that does not fit may be due to data that is under way.
	Settle = 2 * time.Minute

	// waitShort and waitLong bound Decision.After.
	waitShort = 5 * time.Second
	waitLong  = time.Minute
)

// Decision is what Decide answers.
type Decision struct {
	Verdict Verdict
	Reason  Reason
	// Message is one sentence for people, of at most about 400 bytes of printable ASCII. It holds quoted text from the
	// request.
	Message string
	// HostUID is the host that the decision is about, "" when there is none.
	HostUID string
	// After is when to look again, on Wait.
	After time.Duration
}

// Decide judges one request. expected may hold all hosts or only those that Keys names. It never approves a request
// whose subject is not an expected node, whatever else it holds.
func Decide(r Request, expected []Expected, now time.Time) Decision {
	if d, done := preliminary(r, now); done {
		return d
	}
	p := parse(r.PEM)
	e, d, done := identify(r, p, expected, now)
	if done {
		return d
	}
	c := candidate{r: r, p: p, e: e, now: now}
	for _, rule := range rulesFor(c) {
		if d, done := rule(c); done {
			d.HostUID = e.HostUID
			return d
		}
	}
	d = c.approval()
	d.HostUID = e.HostUID
	return d
}

// candidate is a request that was sent by the host's ticket or node in its own name.
type candidate struct {
	r   Request
	p   parsed
	e   Expected
	now time.Time
}

// rule is one link of the chain: it answers a decision and true, or leaves the request to the next one.
type rule func(candidate) (Decision, bool)

func (c candidate) client() bool {
	return c.r.SignerName == certificatesv1.KubeAPIServerClientKubeletSignerName
}

func (c candidate) fromTicket() bool { return strings.HasPrefix(c.r.Username, ticketPrefix) }

// rulesFor returns the chain for the kind of request. Shapes come first: they need no data and cannot be unsure.
func rulesFor(c candidate) []rule {
	rules := []rule{subjectRule, extensionRule, keyRule, signatureRule, usagesRule, lifetimeRule, groupsRule}
	switch {
	case !c.client():
		return append(rules, nodeThereRule, deletingRule, sanPresentRule, sanRule)
	case c.fromTicket():
		return append(rules, noSANRule, ticketCurrentRule, ticketUnusedRule, firstNodeRule, deletingRule,
			ticketOpenRule, newestRule, kubeletRule)
	default:
		return append(rules, noSANRule, nodeThereRule, deletingRule)
	}
}

func (c candidate) approval() Decision {
	switch {
	case !c.client():
		return Decision{Verdict: Approve, Reason: Serving, Message: "serving certificate of node " + c.e.NodeName}
	case c.fromTicket():
		return Decision{Verdict: Approve, Reason: FirstClient, Message: "first client certificate of node " + c.e.NodeName +
			" for the ticket of " + c.e.Host}
	default:
		return Decision{Verdict: Approve, Reason: Renewal, Message: "renewed client certificate of node " + c.e.NodeName}
	}
}

func preliminary(r Request, now time.Time) (Decision, bool) {
	switch {
	case r.Decided:
		return Decision{Verdict: Ignore, Reason: Decided}, true
	case !r.Kubelet():
		return Decision{Verdict: Ignore, Reason: NotKubelet}, true
	case now.Sub(r.Created) > MaxAge:
		return Decision{Verdict: Ignore, Reason: TooOld}, true
	}
	return Decision{}, false
}

func deny(reason Reason, format string, args ...any) (Decision, bool) {
	return Decision{Verdict: Deny, Reason: reason, Message: fmt.Sprintf(format, args...)}, true
}

func wait(reason Reason, after time.Duration, format string, args ...any) (Decision, bool) {
	after = min(max(after, waitShort), waitLong)
	return Decision{Verdict: Wait, Reason: reason, Message: fmt.Sprintf(format, args...), After: after}, true
}

// settle waits while the request is young and denies it later.
func settle(r Request, now time.Time, reason Reason, format string, args ...any) (Decision, bool) {
	if now.Sub(r.Created) <= Settle {
		return wait(reason, waitShort, format, args...)
	}
	return deny(reason, format, args...)
}

func next() (Decision, bool) { return Decision{}, false }
