package csr

import (
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
)

// identify finds the host that the request is about and settles who may ask in whose name. It returns the host, or a final
// decision and true.
func identify(r Request, p parsed, expected []Expected, now time.Time) (Expected, Decision, bool) {
	var e Expected
	var d Decision
	var done bool
	switch name, fromNode := strings.CutPrefix(r.Username, NodePrefix); {
	case strings.HasPrefix(r.Username, ticketPrefix):
		e, d, done = ticketHost(r, p, expected, now)
	case fromNode && len(named(name, expected)) > 0:
		e, d, done = nodeHost(r, p, name, expected)
	default:
		e, d, done = strangerHost(r, p, expected)
	}
	if done {
		d.HostUID = e.HostUID
	}
	return e, d, done
}

// named returns the hosts that expect the node name, compared whole.
func named(nodeName string, expected []Expected) []Expected {
	if nodeName == "" {
		return nil
	}
	var out []Expected
	for _, e := range expected {
		if e.NodeName == nodeName {
			out = append(out, e)
		}
	}
	return out
}

// one returns the host of a name that several hosts may expect: the only one, or the one that has the Node.
func one(hosts []Expected) (Expected, bool) {
	if len(hosts) == 1 {
		return hosts[0], true
	}
	found := Expected{}
	n := 0
	for _, h := range hosts {
		if h.owner() == ours {
			found = h
			n++
		}
	}
	return found, n == 1
}

// ticketHost: an account of the bootstrap namespace asks. It may ask for a client certificate of its own host only.
func ticketHost(r Request, p parsed, expected []Expected, now time.Time) (Expected, Decision, bool) {
	var holders []Expected
	for _, e := range expected {
		if e.TicketUser == r.Username {
			holders = append(holders, e)
		}
	}
	if len(holders) != 1 {
		d, _ := settle(r, now, TicketUnknown, "%s is the ticket of %d hosts", quote(r.Username), len(holders))
		return Expected{}, d, true
	}
	e := holders[0]
	var d Decision
	done := true
	switch {
	case r.SignerName != certificatesv1.KubeAPIServerClientKubeletSignerName:
		d, _ = deny(WrongRequester, "the ticket of %s asks signer %s; a ticket may ask for a client certificate only", e.Host, r.SignerName)
	case p.cr == nil:
		d, _ = deny(Malformed, "the request of %s's ticket cannot be read: %v", e.Host, p.err)
	case p.nodeName != e.NodeName || e.NodeName == "":
		d, _ = deny(NotItself, "the ticket of %s asks for %s; only node %s may be asked for with it", e.Host, quote(p.cr.Subject.CommonName), quote(e.NodeName))
	case len(named(e.NodeName, expected)) > 1 && e.owner() != ours:
		d, _ = wait(NameAmbiguous, waitLong, "several hosts expect node %s; remove or rename all but one", e.NodeName)
	default:
		done = false
	}
	return e, d, done
}

// nodeHost: the node of an expected name asks. It may ask for certificates of its own name only.
func nodeHost(r Request, p parsed, name string, expected []Expected) (Expected, Decision, bool) {
	e, ok := one(named(name, expected))
	if !ok {
		d, _ := wait(NameAmbiguous, waitLong, "several hosts expect node %s; remove or rename all but one", name)
		return Expected{}, d, true
	}
	if d, done := notOurNode(e); done {
		return e, d, true
	}
	var d Decision
	done := true
	switch {
	case p.cr == nil:
		d, _ = deny(Malformed, "the request of node %s cannot be read: %v", name, p.err)
	case p.cr.Subject.CommonName != r.Username:
		d, _ = deny(NotItself, "node %s asks for %s; a node may ask for itself only", name, quote(p.cr.Subject.CommonName))
	default:
		done = false
	}
	return e, d, done
}

// strangerHost: anybody else asks. That is never right when the subject is ours, and not our business otherwise.
func strangerHost(r Request, p parsed, expected []Expected) (Expected, Decision, bool) {
	hosts := named(p.nodeName, expected)
	if len(hosts) == 0 {
		return Expected{}, Decision{Verdict: Ignore, Reason: NotOurs}, true
	}
	e, ok := one(hosts)
	if !ok {
		e = hosts[0]
	}
	if d, done := notOurNode(e); done {
		return e, d, true
	}
	d, _ := deny(WrongRequester, "%s asks in the name of node %s; only the node itself and the ticket of %s may", quote(r.Username), e.NodeName, e.Host)
	return e, d, true
}

// notOurNode keeps hands off a Node that merely has the name that one of our hosts expects: another node's certificates
// must not be denied because a Windows machine calls itself the same.
func notOurNode(e Expected) (Decision, bool) {
	switch e.owner() {
	case foreign:
		return Decision{Verdict: Ignore, Reason: NodeNotOurs, Message: "node " + e.NodeName + " belongs to another host"}, true
	case unclaimed:
		return wait(NodeUnclaimed, waitLong, "a node %s exists that is not known to be the node of %s; if it is not, rename the host or delete that Node", e.NodeName, e.Host)
	default:
		return next()
	}
}
