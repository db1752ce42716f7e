package csr

import (
	"net"
	"net/url"
	"testing"
	"time"
)

// A host named by DNS: what counts is the address that the machine reported over the trusted connection, which is in
// Addresses; no resolver is asked, so none can be wrong or down.
func TestW25HostNamedByDNS(t *testing.T) {
	byName := func(t *testing.T) *scene {
		t.Helper()
		s := servingScene(t)
		s.expected[0].Names = []string{"winhost.example.test"}
		s.tmpl.DNSNames = []string{"win-a"}
		return s
	}
	byName(t).want(Approve, Serving)

	s := byName(t)
	s.tmpl.DNSNames = append(s.tmpl.DNSNames, "winhost.example.test")
	s.want(Approve, Serving)

	s = byName(t)
	s.tmpl.IPAddresses = append(s.tmpl.IPAddresses, net.ParseIP("203.0.113.44"))
	s.want(Deny, SANNotAllowed)

	// Two entries for one machine expect one name: neither joins until one is removed, or one of them has the Node.
	s = firstClient(t)
	twin := expect(t, "win-a", "192.0.2.10")
	twin.HostUID, twin.TicketUser = "host-twin", TicketUser("host-twin")
	s.expected = append(s.expected, twin)
	s.want(Wait, NameAmbiguous)
}

// What somebody else decided is left as it is.
func TestW30DecidedBySomebodyElse(t *testing.T) {
	for _, base := range []func(*testing.T) *scene{firstClient, renewal, servingScene} {
		s := base(t)
		s.req.Decided = true
		s.want(Ignore, Decided)
	}
}

func TestW31ServingRequestNamesAnotherNode(t *testing.T) {
	for _, tc := range []struct {
		name   string
		bend   func(*scene)
		reason Reason
	}{
		{"win-b", func(s *scene) {
			s.tmpl.DNSNames = []string{"win-b"}
			s.tmpl.IPAddresses = []net.IP{net.ParseIP("192.0.2.20")}
		}, SANNotAllowed},
		{"the API server", func(s *scene) { s.tmpl.DNSNames = []string{"kubernetes.default.svc"} }, SANForbidden},
		{"a URI", func(s *scene) { s.tmpl.URIs = []*url.URL{{Scheme: "https", Host: "win-a"}} }, ExtraExtension},
		{"an e-mail address", func(s *scene) { s.tmpl.EmailAddresses = []string{"a@win-a"} }, ExtraExtension},
		{"0.0.0.0 too", func(s *scene) { s.tmpl.IPAddresses = append(s.tmpl.IPAddresses, net.IPv4zero) }, SANForbidden},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := servingScene(t)
			tc.bend(s)
			s.want(Deny, tc.reason)
		})
	}
}

func TestW32ShapesOfServingRequests(t *testing.T) {
	a := func(texts ...string) []net.IP {
		var out []net.IP
		for _, x := range texts {
			out = append(out, net.ParseIP(x))
		}
		return out
	}
	for _, tc := range []struct {
		name    string
		dns     []string
		ips     []net.IP
		verdict Verdict
		reason  Reason
	}{
		{"address only", nil, a("192.0.2.10"), Approve, Serving},
		{"several of both", []string{"win-a", "win-a.example.internal"}, a("192.0.2.10", "198.51.100.9"), Approve, Serving},
		{"short name only", []string{"win-a"}, nil, Approve, Serving},
		{"nothing", nil, nil, Deny, NoSAN},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := servingScene(t)
			s.expected[0].Names = []string{"win-a.example.internal", "win-a"}
			s.expected[0].Addresses = ips(t, "192.0.2.10", "198.51.100.9")
			s.tmpl.DNSNames, s.tmpl.IPAddresses = tc.dns, tc.ips
			s.want(tc.verdict, tc.reason)
		})
	}
}

// Order and age: an address that changed, a Node that comes later, an old request.
func TestW33OrderAndAge(t *testing.T) {
	s := servingScene(t)
	s.expected[0].Addresses = ips(t, "192.0.2.55")
	s.tmpl.IPAddresses = []net.IP{net.ParseIP("192.0.2.55")}
	s.want(Approve, Serving)

	s = servingScene(t)
	there := s.expected[0]
	s.expected[0].Node, s.expected[0].NodeUID = Node{}, ""
	if d := s.want(Wait, NodeMissing); d.After <= 0 || d.After > time.Minute {
		t.Errorf("looks again after %s", d.After)
	}
	s.expected[0] = there
	s.want(Approve, Serving)

	s = servingScene(t)
	s.req.Created = s.now.Add(-25 * time.Hour)
	s.want(Ignore, TooOld)
}

// Strangers in any number are ignored and change nothing for hosts that are known.
func TestW34Strangers(t *testing.T) {
	s := firstClient(t)
	s.req.Username, s.req.Groups = "system:bootstrap:abcdef", []string{"system:bootstrappers", authenticatedGroup}
	s.tmpl.Subject.CommonName = NodePrefix + "ghost-001"
	s.want(Ignore, NotOurs)
	firstClient(t).want(Approve, FirstClient)
}
