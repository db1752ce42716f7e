package csr

import (
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
)

func subjectRule(c candidate) (Decision, bool) {
	if c.p.err != nil {
		return deny(Malformed, "the request is not one plain PEM block: %v", c.p.err)
	}
	if err := checkSubject(c.p.cr); err != nil {
		return deny(WrongSubject, "%v; it must be CN=%s%s, O=%s", err, NodePrefix, c.e.NodeName, NodesGroup)
	}
	return next()
}

func extensionRule(c candidate) (Decision, bool) {
	if err := checkExtensions(c.p.cr); err != nil {
		return deny(ExtraExtension, "%v; kubelets ask for DNS names and IP addresses only", err)
	}
	return next()
}

func keyRule(c candidate) (Decision, bool) {
	if err := checkKey(c.p.cr); err != nil {
		return deny(WeakKey, "%v; it must be RSA of %d to %d bits or ECDSA on P-256, P-384 or P-521", err, minRSA, maxRSA)
	}
	return next()
}

func signatureRule(c candidate) (Decision, bool) {
	if err := checkSignature(c.p.cr); err != nil {
		return deny(BadSignature, "the request is not signed by its own key: %v", err)
	}
	return next()
}

// usagesRule wants exactly the signer's set, with or without key encipherment: kubelets leave it out for ECDSA keys.
func usagesRule(c candidate) (Decision, bool) {
	want := certificatesv1.UsageServerAuth
	if c.client() {
		want = certificatesv1.UsageClientAuth
	}
	got := slices.Clone(c.r.Usages)
	slices.Sort(got)
	short := []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, want}
	long := append(slices.Clone(short), certificatesv1.UsageKeyEncipherment)
	slices.Sort(short)
	slices.Sort(long)
	if slices.Equal(got, short) || slices.Equal(got, long) {
		return next()
	}
	if len(got) > maxNames {
		got = got[:maxNames]
	}
	return deny(WrongUsages, "the usages are %s; they must be digital signature and %s, with or without key encipherment", quote(joinUsages(got)), want)
}

func joinUsages(us []certificatesv1.KeyUsage) string {
	s := ""
	for i, u := range us {
		if i > 0 {
			s += ","
		}
		s += string(u)
	}
	return s
}

func lifetimeRule(c candidate) (Decision, bool) {
	s := c.r.ExpirationSeconds
	if s != nil && time.Duration(*s)*time.Second > MaxLifetime {
		return deny(TooLong, "expirationSeconds is %d; at most %d may be asked for", *s, int(MaxLifetime.Seconds()))
	}
	return next()
}

func groupsRule(c candidate) (Decision, bool) {
	want := NodesGroup
	if c.fromTicket() {
		want = ticketsGroup
	}
	if !slices.Contains(c.r.Groups, want) || !slices.Contains(c.r.Groups, authenticatedGroup) {
		return deny(WrongGroups, "the requester is not in groups %s and %s", want, authenticatedGroup)
	}
	return next()
}

func noSANRule(c candidate) (Decision, bool) {
	if len(c.p.cr.Extensions) > 0 {
		return deny(ClientSAN, "a client certificate must have no subject alternative names")
	}
	return next()
}

// deletingRule gives a host that is going nothing more; a request that is wrong was denied before.
func deletingRule(c candidate) (Decision, bool) {
	if c.e.Deleting {
		return wait(HostDeleting, waitLong, "%s is being deleted", c.e.Host)
	}
	return next()
}

// nodeThereRule holds a node's own request until its Node exists. nodeHost has turned away Nodes that are not ours.
func nodeThereRule(c candidate) (Decision, bool) {
	if c.e.owner() == absent {
		return wait(NodeMissing, waitShort, "Node %s does not exist yet", c.e.NodeName)
	}
	return next()
}

// ticketCurrentRule ties the request to the account that is the ticket, not to its name: the API server writes the account's
// UID into spec.uid, and a new ticket is a new account.
func ticketCurrentRule(c candidate) (Decision, bool) {
	if c.e.TicketID == "" || c.r.UserUID != c.e.TicketID {
		return settle(c.r, c.now, TicketNotCurrent, "the requester is not the current ticket of %s", c.e.Host)
	}
	return next()
}

func ticketUnusedRule(c candidate) (Decision, bool) {
	if used := c.e.TicketApprovedCSR; used != "" && used != c.r.Name {
		return deny(TicketUsed, "the ticket of %s was used for request %s; one certificate is given for a ticket", c.e.Host, quote(used))
	}
	return next()
}

// firstNodeRule: the Node is absent, or ours and never alive, or ours and silent for LeaseStale (reimaged, or its
// certificate expired while the machine was off).
func firstNodeRule(c candidate) (Decision, bool) {
	switch c.e.owner() {
	case foreign:
		return deny(NodeOfOther, "Node %s is marked as the node of another host; delete that Node, or rename %s", c.e.NodeName, c.e.Host)
	case unclaimed:
		return notOurNode(c.e)
	case absent:
		return next()
	}
	silent := c.now.Sub(c.e.Node.LastSeen)
	if c.e.Node.LastSeen.IsZero() || silent > LeaseStale {
		return next()
	}
	return wait(NodeAlive, LeaseStale-silent, "Node %s was alive %s ago; a machine that was installed anew gets its certificate when the Node has been silent for %s, or is deleted",
		c.e.NodeName, silent.Round(time.Second), LeaseStale)
}

func ticketOpenRule(c candidate) (Decision, bool) {
	if !c.now.Before(c.e.TicketExpires) {
		return wait(TicketExpired, waitShort, "the ticket of %s ended at %s; a new one is made", c.e.Host, c.e.TicketExpires.UTC().Format(time.RFC3339))
	}
	return next()
}

// newestRule gives the ticket to the newest request: a machine that asked twice has lost the key of the older one. A
// request that the ticket was recorded for already is not overtaken.
func newestRule(c candidate) (Decision, bool) {
	if c.r.Superseded && c.e.TicketApprovedCSR != c.r.Name {
		return wait(Superseded, waitShort, "the ticket of %s sent a newer request", c.e.Host)
	}
	return next()
}

func kubeletRule(c candidate) (Decision, bool) {
	if !c.e.KubeletReached {
		return wait(KubeletNotReached, waitShort, "the plan of %s has not reached the kubelet", c.e.Host)
	}
	return next()
}
