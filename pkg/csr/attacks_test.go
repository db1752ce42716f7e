package csr

import (
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"net"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
)

// TestAttacks has a row for each way in which a request can try to become what it may not. The comment of a group names
// where the weakness was seen.
func TestAttacks(t *testing.T) {
	groups := map[string][]attack{
		"names":      nameAttacks(),
		"requesters": requesterAttacks(),
		"subjects":   subjectAttacks(),
		"usages":     usageAttacks(),
		"envelopes":  envelopeAttacks(),
		"keys":       keyAttacks(),
		"tickets":    ticketAttacks(),
		"addresses":  sanAttacks(),
	}
	for group, rows := range groups {
		for _, row := range rows {
			t.Run(group+"/"+row.name, func(t *testing.T) {
				s := row.base(t)
				row.bend(s)
				d := s.want(row.verdict, row.reason)
				if d.Verdict == Deny && (d.Message == "" || len(d.Message) > 800) {
					t.Errorf("the denial's message has %d bytes: %q", len(d.Message), d.Message)
				}
			})
		}
	}
}

type attack struct {
	name    string
	base    func(*testing.T) *scene
	bend    func(*scene)
	verdict Verdict
	reason  Reason
}

func subject(cn string) func(*scene) { return func(s *scene) { s.tmpl.Subject.CommonName = cn } }

// The incumbent compared names with strings.Contains, so that "w" matched every Windows host (its pkg/csr); KubeUser#114.
func nameAttacks() []attack {
	expectName := func(n string) func(*scene) { return func(s *scene) { s.expected[0].NodeName = n } }
	return []attack{
		{"part of a name", firstClient, subject(NodePrefix + "w"), Deny, NotItself},
		{"a longer name", firstClient, subject(NodePrefix + "win-a0"), Deny, NotItself},
		{"a prefix of the name", firstClient, subject(NodePrefix + "win-"), Deny, NotItself},
		{"another case", firstClient, subject(NodePrefix + "WIN-A"), Deny, NotItself},
		{"a name with a domain", firstClient, subject(NodePrefix + "win-a.example.test"), Deny, NotItself},
		{"a trailing dot", firstClient, subject(NodePrefix + "win-a."), Deny, NotItself},
		{"a trailing blank", firstClient, subject(NodePrefix + "win-a "), Deny, NotItself},
		{"a NUL behind the name", firstClient, subject(NodePrefix + "win-a\x00"), Deny, NotItself},
		{"a Kelvin sign for k", firstClient, func(s *scene) {
			expectName("kube")(s)
			s.tmpl.Subject.CommonName = NodePrefix + "\u212aube"
		}, Deny, NotItself},
		{"no name behind the prefix, no name expected", firstClient, func(s *scene) {
			expectName("")(s)
			s.tmpl.Subject.CommonName = NodePrefix
		}, Deny, NotItself},
		{"no prefix", firstClient, subject("win-a"), Deny, NotItself},
		{"the prefix twice", firstClient, subject(NodePrefix + NodePrefix + "win-a"), Deny, NotItself},
		{"a control plane node", firstClient, subject(NodePrefix + "master-0"), Deny, NotItself},
		{"an administrator", firstClient, func(s *scene) {
			s.tmpl.Subject = pkix.Name{CommonName: "kubernetes-admin", Organization: []string{"system:masters"}}
		}, Deny, NotItself},
		{"a stranger asks for part of our name", renewal, func(s *scene) {
			s.req.Username = "system:node:w"
			s.tmpl.Subject.CommonName = "system:node:w"
		}, Ignore, NotOurs},
	}
}

// The incumbent never compared the user name with the common name and did not ask who sends a client request, so any node
// could get a serving certificate of another; OCPBUGS-27139, talos-ccm GHSA-87pw-5j2g-6376, ekco GHSA-x7j5-fww5-mqmv.
func requesterAttacks() []attack {
	as := func(user string, groups ...string) func(*scene) {
		return func(s *scene) { s.req.Username, s.req.UserUID, s.req.Groups = user, "", groups }
	}
	asB := as(NodePrefix+"win-b", NodesGroup, authenticatedGroup)
	both := func(fs ...func(*scene)) func(*scene) {
		return func(s *scene) {
			for _, f := range fs {
				f(s)
			}
		}
	}
	return []attack{
		{"node b asks for a serving certificate as a", servingScene, asB, Deny, NotItself},
		{"node b renews as a", renewal, asB, Deny, NotItself},
		{"node b asks for a client certificate as a, which has no Node", firstClient, asB, Deny, NotItself},
		{"node a asks as an expected name with another case", servingScene, subject(NodePrefix + "Win-a"), Deny, NotItself},
		{"node a asks as a control plane node", renewal, subject(NodePrefix + "master-0"), Deny, NotItself},
		{"a Linux node asks as a", servingScene, as(NodePrefix+"linux-1", NodesGroup, authenticatedGroup), Deny, WrongRequester},
		{"the user name of the node with a suffix", servingScene, as(NodePrefix+"win-a:x", NodesGroup, authenticatedGroup), Deny, WrongRequester},
		{"the ticket of b asks as a", firstClient, func(s *scene) {
			s.req.Username, s.req.UserUID = TicketUser("host-win-b"), "sa-win-b"
		}, Deny, NotItself},
		{"the ticket of a asks as b", firstClient, subject(NodePrefix + "win-b"), Deny, NotItself},
		{"a bootstrap token of the cluster", firstClient, as("system:bootstrap:abcdef", "system:bootstrappers", authenticatedGroup), Deny, WrongRequester},
		{
			"OpenShift's shared bootstrapper", firstClient,
			as("system:serviceaccount:openshift-machine-config-operator:node-bootstrapper", "system:serviceaccounts", authenticatedGroup), Deny, WrongRequester,
		},
		{
			"an account of our name in another namespace", firstClient,
			as("system:serviceaccount:windows-machine-bootstrap2:host-win-a", ticketsGroup, authenticatedGroup), Deny, WrongRequester,
		},
		{"an anonymous user", firstClient, as("system:anonymous", "system:unauthenticated"), Deny, WrongRequester},
		{"another account of the bootstrap namespace, young", firstClient, as(TicketUser("default"), ticketsGroup, authenticatedGroup), Wait, TicketUnknown},
		{"another account of the bootstrap namespace", firstClient, both(as(TicketUser("default"), ticketsGroup, authenticatedGroup), func(s *scene) {
			s.req.Created = s.now.Add(-Settle - time.Second)
		}), Deny, TicketUnknown},
		{"an account whose name begins like the ticket", firstClient, both(as(TicketUser("host-win-a2"), ticketsGroup, authenticatedGroup), func(s *scene) {
			s.req.Created = s.now.Add(-Settle - time.Second)
		}), Deny, TicketUnknown},
		{"a ticket asks for a serving certificate", servingScene, func(s *scene) {
			s.req.Username, s.req.UserUID = TicketUser("host-win-a"), "sa-win-a"
			s.req.Groups = []string{ticketsGroup, authenticatedGroup}
		}, Deny, WrongRequester},
		{"a node without group system:nodes", servingScene, func(s *scene) { s.req.Groups = []string{authenticatedGroup} }, Deny, WrongGroups},
		{"a node that is not authenticated", renewal, func(s *scene) { s.req.Groups = []string{NodesGroup} }, Deny, WrongGroups},
		{"a ticket without its group", firstClient, func(s *scene) { s.req.Groups = []string{authenticatedGroup} }, Deny, WrongGroups},
		{"a ticket in a group that begins like its own", firstClient, func(s *scene) {
			s.req.Groups = []string{ticketsGroup + "x", authenticatedGroup}
		}, Deny, WrongGroups},
		{"another signer for API clients", firstClient, func(s *scene) { s.req.SignerName = certificatesv1.KubeAPIServerClientSignerName }, Ignore, NotKubelet},
		{"another signer that begins alike", servingScene, func(s *scene) { s.req.SignerName = serving + "-x" }, Ignore, NotKubelet},
		{"the older signer of everything", servingScene, func(s *scene) { s.req.SignerName = "kubernetes.io/legacy-unknown" }, Ignore, NotKubelet},
		{"a Linux node under its own name", servingScene, both(as(NodePrefix+"linux-1", NodesGroup, authenticatedGroup), subject(NodePrefix+"linux-1")), Ignore, NotOurs},
	}
}

// The incumbent took whatever else a subject holds; the signer copies all of it into the certificate.
func subjectAttacks() []attack {
	orgs := func(o ...string) func(*scene) { return func(s *scene) { s.tmpl.Subject.Organization = o } }
	return []attack{
		{"no organization", firstClient, orgs(), Deny, WrongSubject},
		{"system:masters instead", firstClient, orgs("system:masters"), Deny, WrongSubject},
		{"system:masters too", firstClient, orgs(NodesGroup, "system:masters"), Deny, WrongSubject},
		{"system:nodes twice", firstClient, orgs(NodesGroup, NodesGroup), Deny, WrongSubject},
		{"an organization in another case", renewal, orgs("System:Nodes"), Deny, WrongSubject},
		{"system:masters too, for serving", servingScene, orgs(NodesGroup, "system:masters"), Deny, WrongSubject},
		{"an organizational unit", firstClient, func(s *scene) { s.tmpl.Subject.OrganizationalUnit = []string{"x"} }, Deny, WrongSubject},
		{"a country", servingScene, func(s *scene) { s.tmpl.Subject.Country = []string{"XX"} }, Deny, WrongSubject},
		{"a serial number", renewal, func(s *scene) { s.tmpl.Subject.SerialNumber = "1" }, Deny, WrongSubject},
		{"a second common name", firstClient, func(s *scene) {
			s.tmpl.Subject = pkix.Name{ExtraNames: []pkix.AttributeTypeAndValue{
				{Type: asn1.ObjectIdentifier{2, 5, 4, 10}, Value: NodesGroup},
				{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: NodePrefix + "master-0"},
				{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: NodePrefix + "win-a"},
			}}
		}, Deny, WrongSubject},
		// rbac reads system:authenticated and the like from the organization only; a uid is UID to other verifiers.
		{"a user id", firstClient, func(s *scene) {
			s.tmpl.Subject.ExtraNames = []pkix.AttributeTypeAndValue{{Type: asn1.ObjectIdentifier{0, 9, 2342, 19200300, 100, 1, 1}, Value: "root"}}
		}, Deny, WrongSubject},
	}
}

// The incumbent wanted a subset of at least two usages, so that "client auth" could be absent or doubled.
func usageAttacks() []attack {
	use := func(us ...certificatesv1.KeyUsage) func(*scene) { return func(s *scene) { s.req.Usages = us } }
	const (
		ds = certificatesv1.UsageDigitalSignature
		ke = certificatesv1.UsageKeyEncipherment
		ca = certificatesv1.UsageClientAuth
		sa = certificatesv1.UsageServerAuth
	)
	expires := func(n int32) func(*scene) { return func(s *scene) { s.req.ExpirationSeconds = &n } }
	return []attack{
		{"none", firstClient, use(), Deny, WrongUsages},
		{"client auth absent", firstClient, use(ds, ke), Deny, WrongUsages},
		{"client auth alone", firstClient, use(ca), Deny, WrongUsages},
		{"digital signature absent", firstClient, use(ke, ca), Deny, WrongUsages},
		{"client auth twice", firstClient, use(ds, ca, ca), Deny, WrongUsages},
		{"digital signature twice", firstClient, use(ds, ds, ca), Deny, WrongUsages},
		{"server auth instead", firstClient, use(ds, ke, sa), Deny, WrongUsages},
		{"server auth too", firstClient, use(ds, ca, sa), Deny, WrongUsages},
		{"client auth on a serving certificate", servingScene, use(ds, ke, ca), Deny, WrongUsages},
		{"client auth too on a serving certificate", servingScene, use(ds, sa, ca), Deny, WrongUsages},
		{"cert sign", renewal, use(ds, ca, certificatesv1.UsageCertSign), Deny, WrongUsages},
		{"any", servingScene, use(certificatesv1.UsageAny), Deny, WrongUsages},
		{"a thousand usages", firstClient, use(slices.Repeat([]certificatesv1.KeyUsage{ds}, 1000)...), Deny, WrongUsages},
		{"a certificate for ten years", firstClient, expires(10 * 365 * 86400), Deny, TooLong},
		{"a certificate for a year and a second", servingScene, expires(365*86400 + 1), Deny, TooLong},
		{"the longest there can be", renewal, expires(1<<31 - 1), Deny, TooLong},
	}
}

// Parsers were fed more than they expect: CVE-2024-12401 (cert-manager), and what stands beside a PEM block is not looked at.
func envelopeAttacks() []attack {
	edit := func(f func([]byte) []byte) func(*scene) { return func(s *scene) { s.edit = f } }
	raw := func(text string) func(*scene) { return func(s *scene) { s.raw = []byte(text) } }
	return []attack{
		{"two blocks", firstClient, edit(func(b []byte) []byte { return append(slices.Clone(b), b...) }), Deny, Malformed},
		{"text behind the block", firstClient, edit(func(b []byte) []byte { return append(b, "x"...) }), Deny, Malformed},
		{"text before the block", firstClient, edit(func(b []byte) []byte { return append([]byte("x\n"), b...) }), Deny, Malformed},
		{"a header in the block", renewal, edit(func(b []byte) []byte {
			return []byte(strings.Replace(string(b), "REQUEST-----\n", "REQUEST-----\nProc-Type: 4,ENCRYPTED\n\n", 1))
		}), Deny, Malformed},
		{"another type of block", servingScene, edit(func(b []byte) []byte {
			return []byte(strings.ReplaceAll(string(b), "CERTIFICATE REQUEST", "NEW CERTIFICATE REQUEST"))
		}), Deny, Malformed},
		{"bytes behind the structure", firstClient, edit(func(b []byte) []byte {
			block, _ := pem.Decode(b)
			return pem.EncodeToMemory(&pem.Block{Type: pemType, Bytes: append(block.Bytes, 0)})
		}), Deny, Malformed},
		{"more than the limit", firstClient, edit(func(b []byte) []byte {
			return append(b, strings.Repeat("\n", MaxRequest)...)
		}), Deny, Malformed},
		{"empty", servingScene, raw(" "), Deny, Malformed},
		{"no PEM, from a node", renewal, raw("not a request"), Deny, Malformed},
		{"no request in it", firstClient, raw(string(pem.EncodeToMemory(&pem.Block{Type: pemType, Bytes: []byte{0x30, 0}}))), Deny, Malformed},
		{"no PEM, from a stranger", servingScene, func(s *scene) {
			s.req.Username = "somebody"
			s.raw = []byte("not a request")
		}, Ignore, NotOurs},
		{"an extension that makes a CA", firstClient, extension(asn1.ObjectIdentifier{2, 5, 29, 19}, []byte{0x30, 3, 1, 1, 0xff}, true), Deny, ExtraExtension},
		{"an extended key usage in the request", servingScene, extension(asn1.ObjectIdentifier{2, 5, 29, 37}, []byte{0x30, 0}, false), Deny, ExtraExtension},
		{"an unknown extension", renewal, extension(asn1.ObjectIdentifier{1, 2, 3, 4}, []byte{5, 0}, false), Deny, ExtraExtension},
		{"an otherName", servingScene, sanExtension(false, asn1.RawValue{Class: 2, Tag: 0, IsCompound: true, Bytes: []byte{6, 2, 42, 3, 0xa0, 2, 5, 0}}), Deny, ExtraExtension},
		{"a directoryName", servingScene, sanExtension(false, asn1.RawValue{Class: 2, Tag: 4, IsCompound: true, Bytes: []byte{0x30, 0}}), Deny, ExtraExtension},
		{"a registeredID", servingScene, sanExtension(false, asn1.RawValue{Class: 2, Tag: 8, Bytes: []byte{42, 3}}), Deny, ExtraExtension},
		{"an e-mail address", servingScene, sanExtension(false, asn1.RawValue{Class: 2, Tag: 1, Bytes: []byte("a@example.test")}), Deny, ExtraExtension},
		{"a critical subjectAltName", servingScene, sanExtension(true, asn1.RawValue{Class: 2, Tag: 2, Bytes: []byte("win-a")}), Deny, ExtraExtension},
		{"an address of five bytes", servingScene, sanExtension(false, asn1.RawValue{Class: 2, Tag: 7, Bytes: []byte{192, 0, 2, 10, 0}}), Deny, Malformed},
		{"two subjectAltNames", servingScene, func(s *scene) {
			sanExtension(false, asn1.RawValue{Class: 2, Tag: 2, Bytes: []byte("master-0")})(s)
			sanExtension(false, asn1.RawValue{Class: 2, Tag: 2, Bytes: []byte("win-a")})(s)
		}, Deny, Malformed},
		{"a thousand names", servingScene, func(s *scene) { s.tmpl.DNSNames = slices.Repeat([]string{"win-a"}, 1000) }, Deny, ExtraExtension},
		{"a URI", servingScene, func(s *scene) { s.tmpl.URIs = []*url.URL{{Scheme: "spiffe", Host: "example.test"}} }, Deny, ExtraExtension},
	}
}

func extension(id asn1.ObjectIdentifier, value []byte, critical bool) func(*scene) {
	return func(s *scene) {
		s.tmpl.ExtraExtensions = append(s.tmpl.ExtraExtensions, pkix.Extension{Id: id, Value: value, Critical: critical})
	}
}

// sanExtension replaces the subjectAltName by one with the node's name and the given name.
func sanExtension(critical bool, name asn1.RawValue) func(*scene) {
	return func(s *scene) {
		der, err := asn1.Marshal([]asn1.RawValue{{Class: 2, Tag: 2, Bytes: []byte("win-a")}, name})
		if err != nil {
			s.t.Fatal(err)
		}
		extension(asn1.ObjectIdentifier{2, 5, 29, 17}, der, critical)(s)
	}
}

// The incumbent did not check the signature of the request.
func keyAttacks() []attack {
	return []attack{
		{"signed by another key", firstClient, func(s *scene) {
			// The public key of one request with the signature of another: nobody proved to hold the key.
			mine := s.pem()
			s.key = newKey(s.t, elliptic.P256())
			s.raw = withSignatureOf(s.t, mine, s.pem())
		}, Deny, BadSignature},
		{"one bit of the request changed", servingScene, func(s *scene) {
			s.edit = func(b []byte) []byte {
				block, _ := pem.Decode(b)
				i := strings.Index(string(block.Bytes), "win-a")
				last := strings.LastIndex(string(block.Bytes), "win-a")
				if i == last {
					s.t.Fatal("the name stands once only")
				}
				block.Bytes[last+4] = 'b'
				return pem.EncodeToMemory(block)
			}
		}, Deny, BadSignature},
		{"RSA of 1024 bits", firstClient, func(s *scene) {
			k, err := rsa.GenerateKey(rand.Reader, 1024)
			if err != nil {
				s.t.Fatal(err)
			}
			s.key = k
		}, Deny, WeakKey},
		{"ECDSA on P-224", firstClient, func(s *scene) { s.key = newKey(s.t, elliptic.P224()) }, Deny, WeakKey},
		{"Ed25519, which no kubelet makes", firstClient, func(s *scene) { s.key = newEd25519(s.t) }, Deny, WeakKey},
	}
}

// A token can be stolen from a machine's disk or memory; the incumbent had no ticket and could not tell.
func ticketAttacks() []attack {
	node := func(f func(*Expected)) func(*scene) {
		return func(s *scene) {
			s.expected[0] = registered(s.expected[0])
			f(&s.expected[0])
		}
	}
	host := func(f func(*Expected)) func(*scene) { return func(s *scene) { f(&s.expected[0]) } }
	old := func(s *scene) { s.req.Created = s.now.Add(-Settle - time.Second) }
	return []attack{
		{"the ticket was used", firstClient, host(func(e *Expected) { e.TicketApprovedCSR = "csr-0" }), Deny, TicketUsed},
		{"the ticket was used by a request whose name begins alike", firstClient, host(func(e *Expected) { e.TicketApprovedCSR = "csr-10" }), Deny, TicketUsed},
		{"the account was made anew, young", firstClient, host(func(e *Expected) { e.TicketID = "sa-new" }), Wait, TicketNotCurrent},
		{"the account was made anew", firstClient, func(s *scene) { s.expected[0].TicketID = "sa-new"; old(s) }, Deny, TicketNotCurrent},
		{"no account is known and none is named", firstClient, func(s *scene) { s.expected[0].TicketID, s.req.UserUID = "", ""; old(s) }, Deny, TicketNotCurrent},
		{"the ticket has ended", firstClient, host(func(e *Expected) { e.TicketExpires = clockNow() }), Wait, TicketExpired},
		{"the kubelet was not started", firstClient, host(func(e *Expected) { e.KubeletReached = false }), Wait, KubeletNotReached},
		{"the node is alive", firstClient, node(func(*Expected) {}), Wait, NodeAlive},
		{"the node's clock is ahead", firstClient, node(func(e *Expected) { e.Node.LastSeen = clockNow().Add(time.Hour) }), Wait, NodeAlive},
		{"the node was alive five minutes ago", firstClient, node(func(e *Expected) { e.Node.LastSeen = clockNow().Add(-LeaseStale) }), Wait, NodeAlive},
		{"the Node of another host, silent", firstClient, node(func(e *Expected) {
			e.Node.HostUID, e.Node.LastSeen = "host-other", clockNow().Add(-time.Hour)
		}), Deny, NodeOfOther},
		{"a silent Node that nobody claimed: a machine takes the name of a Linux node", firstClient, node(func(e *Expected) {
			e.NodeUID, e.Node.HostUID, e.Node.LastSeen = "", "", clockNow().Add(-time.Hour)
		}), Wait, NodeUnclaimed},
		{"a Node that annotated itself, when another one was recorded", firstClient, node(func(e *Expected) {
			e.Node.UID, e.Node.LastSeen = "node-new", clockNow().Add(-time.Hour)
		}), Wait, NodeUnclaimed},
		{"names in a client certificate", firstClient, func(s *scene) { s.tmpl.DNSNames = []string{"win-a"} }, Deny, ClientSAN},
		{"an address in a client certificate", renewal, func(s *scene) { s.tmpl.IPAddresses = []net.IP{net.ParseIP("192.0.2.10")} }, Deny, ClientSAN},
		{"the host is being deleted", firstClient, host(func(e *Expected) { e.Deleting = true }), Wait, HostDeleting},
		{"a request planted long ago", firstClient, func(s *scene) { s.req.Created = s.now.Add(-MaxAge - time.Second) }, Ignore, TooOld},
		{"an older request of the ticket than another", firstClient, func(s *scene) { s.req.Superseded = true }, Wait, Superseded},
		{"two hosts expect the name", firstClient, func(s *scene) { s.expected[1].NodeName = "win-a"; s.expected[1].Node = Node{} }, Wait, NameAmbiguous},
	}
}

// The incumbent compared the names of a serving certificate with nothing; others with Node.status, which the node writes
// itself (CVE-2025-5187, k0s#8333, alex1989hu/kubelet-serving-cert-approver#337, TCCM#360).
func sanAttacks() []attack {
	dns := func(n ...string) func(*scene) { return func(s *scene) { s.tmpl.DNSNames = n } }
	ip := func(n ...string) func(*scene) {
		return func(s *scene) {
			s.tmpl.IPAddresses = nil
			for _, x := range n {
				s.tmpl.IPAddresses = append(s.tmpl.IPAddresses, net.ParseIP(x))
			}
		}
	}
	return []attack{
		{"none", servingScene, func(s *scene) { dns()(s); ip()(s) }, Deny, NoSAN},
		{"another node of ours by name", servingScene, dns("win-a", "win-b"), Deny, SANNotAllowed},
		{"another node of ours by address", servingScene, ip("192.0.2.10", "192.0.2.20"), Deny, SANNotAllowed},
		{"part of the name", servingScene, dns("win"), Deny, SANNotAllowed},
		{"a longer name", servingScene, dns("win-a.example.test"), Deny, SANNotAllowed},
		{"a wildcard", servingScene, dns("*"), Deny, SANNotAllowed},
		{"a wildcard over the name", servingScene, dns("*.win-a"), Deny, SANNotAllowed},
		{"an address written as a name", servingScene, dns("192.0.2.20"), Deny, SANNotAllowed},
		{"the own address written as a name", servingScene, dns("192.0.2.10"), Deny, SANNotAllowed},
		{"an empty name", servingScene, dns(""), Deny, SANNotAllowed},
		{"a name with a trailing dot", servingScene, dns("win-a."), Deny, SANNotAllowed},
		{"the API server in the cluster", servingScene, dns("win-a", "kubernetes.default.svc"), Deny, SANForbidden},
		{"the API server by its short name", servingScene, dns("kubernetes"), Deny, SANForbidden},
		{"the API server by its long name", servingScene, dns("KUBERNETES.default.svc.cluster.local"), Deny, SANForbidden},
		{"the API server by the name that nodes use", servingScene, dns("API.example.test"), Deny, SANForbidden},
		{"the API server's address", servingScene, ip("192.0.2.2"), Deny, SANForbidden},
		{"a service's address", servingScene, ip("10.96.0.1"), Deny, SANForbidden},
		{"the API server's address, which the machine reported as its own", servingScene, func(s *scene) {
			s.expected[0].Addresses = append(s.expected[0].Addresses, ips(s.t, "192.0.2.2")...)
			ip("192.0.2.2")(s)
		}, Deny, SANForbidden},
		{"a service's address, which the machine reported as its own", servingScene, func(s *scene) {
			s.expected[0].Addresses = append(s.expected[0].Addresses, ips(s.t, "10.111.0.7")...)
			ip("10.111.0.7")(s)
		}, Deny, SANForbidden},
		{"another node's address, which the machine reported as its own", servingScene, func(s *scene) {
			s.expected[0].Addresses = append(s.expected[0].Addresses, ips(s.t, "192.0.2.30")...)
			ip("192.0.2.30")(s)
		}, Wait, Contested},
		{"another node's name, which is the Machine's too", servingScene, func(s *scene) {
			s.expected[0].Names = []string{"linux-1"}
			dns("Linux-1")(s)
		}, Wait, Contested},
		{"a wrong name behind a contested one", servingScene, func(s *scene) {
			s.expected[0].Names = []string{"linux-1"}
			dns("linux-1", "win-b")(s)
		}, Deny, SANNotAllowed},
		{"localhost", servingScene, dns("localhost"), Deny, SANForbidden},
		{"loopback", servingScene, ip("127.0.0.1"), Deny, SANForbidden},
		{"loopback of IPv6", servingScene, ip("::1"), Deny, SANForbidden},
		{"unspecified", servingScene, ip("192.0.2.10", "0.0.0.0"), Deny, SANForbidden},
		{"link-local", servingScene, ip("169.254.169.254"), Deny, SANForbidden},
		{"link-local of IPv6", servingScene, ip("fe80::1"), Deny, SANForbidden},
		{"multicast", servingScene, ip("224.0.0.1"), Deny, SANForbidden},
		{"broadcast", servingScene, ip("255.255.255.255"), Deny, SANForbidden},
		{"another node's address as IPv4 within IPv6", servingScene, sanExtension(false,
			asn1.RawValue{Class: 2, Tag: 7, Bytes: net.ParseIP("192.0.2.20").To16()}), Deny, SANNotAllowed},
		{"others' claims are not known", servingScene, func(s *scene) { s.expected[0].Claims = nil }, Wait, Incomplete},
		{"the Machine's addresses are not known", servingScene, func(s *scene) {
			s.expected[0].AddressesComplete = false
			ip("192.0.2.55")(s)
		}, Wait, Incomplete},
		{"an old Node of another host", servingScene, func(s *scene) { s.expected[0].Node.HostUID = "host-other" }, Ignore, NodeNotOurs},
		{"a Node that nobody claimed", servingScene, func(s *scene) { s.expected[0].NodeUID, s.expected[0].Node.HostUID = "", "" }, Wait, NodeUnclaimed},
		{"no Node", servingScene, func(s *scene) { s.expected[0].Node, s.expected[0].NodeUID = Node{}, "" }, Wait, NodeMissing},
		{"no Node, renewal", renewal, func(s *scene) { s.expected[0].Node = Node{} }, Wait, NodeMissing},
	}
}
