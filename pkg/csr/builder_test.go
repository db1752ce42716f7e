package csr

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net"
	"net/netip"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
)

const (
	client  = certificatesv1.KubeAPIServerClientKubeletSignerName
	serving = certificatesv1.KubeletServingSignerName
)

func clockNow() time.Time { return time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC) }

// scene is one request and what is expected, good by default; tests bend it.
type scene struct {
	t    *testing.T
	req  Request
	tmpl x509.CertificateRequest
	key  crypto.Signer
	// raw replaces the PEM made of tmpl and key.
	raw []byte
	// edit changes the PEM made of tmpl and key.
	edit     func([]byte) []byte
	expected []Expected
	now      time.Time
}

func newKey(t *testing.T, c elliptic.Curve) crypto.Signer {
	t.Helper()
	k, err := ecdsa.GenerateKey(c, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func ips(t *testing.T, texts ...string) []netip.Addr {
	t.Helper()
	var out []netip.Addr
	for _, s := range texts {
		out = append(out, netip.MustParseAddr(s))
	}
	return out
}

// expect is a host made by hand named after its node, at 192.0.2.x, whose kubelet was started and whose ticket is open.
func expect(t *testing.T, node, address string) Expected {
	t.Helper()
	return Expected{
		Host: "WindowsHost " + node, HostUID: "host-" + node, NodeName: node,
		TicketUser: TicketUser("host-" + node), TicketID: "sa-" + node, TicketExpires: clockNow().Add(20 * time.Minute),
		KubeletReached: true, Addresses: ips(t, address), AddressesComplete: true,
		Claims: &Claims{
			ServerNames:     map[string]string{"api.example.test": "the API server"},
			ServerAddresses: map[netip.Addr]string{netip.MustParseAddr("192.0.2.2"): "the API server"},
			ServerPrefixes:  []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12")},
			OtherNames:      map[string]string{"linux-1": "Node linux-1"},
			OtherAddresses:  map[netip.Addr]string{netip.MustParseAddr("192.0.2.30"): "Node linux-1"},
		},
	}
}

// registered gives the host its Node.
func registered(e Expected) Expected {
	e.NodeUID = "node-" + e.NodeName
	e.Node = Node{Exists: true, UID: e.NodeUID, HostUID: e.HostUID, LastSeen: clockNow().Add(-10 * time.Second)}
	return e
}

func newScene(t *testing.T) *scene {
	t.Helper()
	return &scene{
		t: t, now: clockNow(), key: newKey(t, elliptic.P256()),
		tmpl: x509.CertificateRequest{Subject: pkix.Name{CommonName: NodePrefix + "win-a", Organization: []string{NodesGroup}}},
		expected: []Expected{
			expect(t, "win-a", "192.0.2.10"), registered(expect(t, "win-b", "192.0.2.20")),
		},
		req: Request{Name: "csr-1", Created: clockNow().Add(-10 * time.Second)},
	}
}

// firstClient is what the kubelet of win-a sends with its ticket.
func firstClient(t *testing.T) *scene {
	t.Helper()
	s := newScene(t)
	s.req.SignerName = client
	s.req.Username, s.req.UserUID = TicketUser("host-win-a"), "sa-win-a"
	s.req.Groups = []string{"system:serviceaccounts", ticketsGroup, authenticatedGroup}
	s.req.Usages = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth}
	return s
}

// asNode makes the request come from the node, registered, for the signer.
func asNode(t *testing.T, signer string) *scene {
	t.Helper()
	s := newScene(t)
	s.expected[0] = registered(s.expected[0])
	s.req.SignerName = signer
	s.req.Username = NodePrefix + "win-a"
	s.req.Groups = []string{NodesGroup, authenticatedGroup}
	s.req.Usages = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth}
	if signer == serving {
		s.req.Usages[1] = certificatesv1.UsageServerAuth
		s.tmpl.DNSNames = []string{"win-a"}
		s.tmpl.IPAddresses = []net.IP{net.ParseIP("192.0.2.10")}
	}
	return s
}

func renewal(t *testing.T) *scene      { t.Helper(); return asNode(t, client) }
func servingScene(t *testing.T) *scene { t.Helper(); return asNode(t, serving) }

func (s *scene) pem() []byte {
	s.t.Helper()
	if s.raw != nil {
		return s.raw
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &s.tmpl, s.key)
	if err != nil {
		s.t.Fatal(err)
	}
	b := pem.EncodeToMemory(&pem.Block{Type: pemType, Bytes: der})
	if s.edit != nil {
		b = s.edit(b)
	}
	return b
}

func (s *scene) decide() Decision {
	s.t.Helper()
	s.req.PEM = s.pem()
	return Decide(s.req, s.expected, s.now)
}

func (s *scene) want(v Verdict, r Reason) Decision {
	s.t.Helper()
	d := s.decide()
	if d.Verdict != v || d.Reason != r {
		s.t.Errorf("got %s %s (%s), want %s %s", d.Verdict, d.Reason, d.Message, v, r)
	}
	return d
}
