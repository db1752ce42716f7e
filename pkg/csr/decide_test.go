package csr

import (
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/asn1"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestApprovals(t *testing.T) {
	for _, tc := range []struct {
		name   string
		base   func(*testing.T) *scene
		bend   func(*scene)
		reason Reason
	}{
		{"first client certificate", firstClient, func(*scene) {}, FirstClient},
		{"renewal", renewal, func(*scene) {}, Renewal},
		{"serving", servingScene, func(*scene) {}, Serving},
		{"RSA with key encipherment", firstClient, func(s *scene) {
			k, err := rsa.GenerateKey(rand.Reader, 2048)
			if err != nil {
				s.t.Fatal(err)
			}
			s.key = k
			s.req.Usages = append(s.req.Usages, certificatesv1.UsageKeyEncipherment)
		}, FirstClient},
		{"usages in another order", servingScene, func(s *scene) {
			s.req.Usages = []certificatesv1.KeyUsage{certificatesv1.UsageServerAuth, certificatesv1.UsageKeyEncipherment, certificatesv1.UsageDigitalSignature}
		}, Serving},
		{"P-384", renewal, func(s *scene) { s.key = newKey(s.t, elliptic.P384()) }, Renewal},
		{"the longest lifetime", firstClient, func(s *scene) {
			n := int32(MaxLifetime / time.Second)
			s.req.ExpirationSeconds = &n
		}, FirstClient},
		{"recorded before a crash", firstClient, func(s *scene) { s.expected[0].TicketApprovedCSR = "csr-1" }, FirstClient},
		{"recorded before a crash, and a newer one came", firstClient, func(s *scene) {
			s.expected[0].TicketApprovedCSR, s.req.Superseded = "csr-1", true
		}, FirstClient},
		{"the Node is ours and never lived", firstClient, func(s *scene) {
			s.expected[0] = registered(s.expected[0])
			s.expected[0].Node.LastSeen = time.Time{}
		}, FirstClient},
		{"the machine was installed anew", firstClient, func(s *scene) {
			s.expected[0] = registered(s.expected[0])
			s.expected[0].Node.LastSeen = s.now.Add(-LeaseStale - time.Second)
		}, FirstClient},
		{"the Node carries the annotation, no UID was recorded", servingScene, func(s *scene) { s.expected[0].NodeUID = "" }, Serving},
		{"the Node lost the annotation, its UID was recorded", servingScene, func(s *scene) { s.expected[0].Node.HostUID = "" }, Serving},
		{"a name in another case", servingScene, func(s *scene) { s.tmpl.DNSNames = []string{"WIN-A"} }, Serving},
		// Go writes such an address in four bytes, so it is written by hand.
		{"IPv4 within IPv6", servingScene, sanExtension(false, asn1.RawValue{Class: 2, Tag: 7, Bytes: net.ParseIP("192.0.2.10").To16()}), Serving},
		{"IPv6", servingScene, func(s *scene) {
			s.expected[0].Addresses = ips(s.t, "2001:db8::10")
			s.tmpl.IPAddresses = []net.IP{net.ParseIP("2001:db8:0::10")}
		}, Serving},
		{"loopback where it is allowed", servingScene, func(s *scene) {
			s.expected[0].Addresses, s.expected[0].AllowLoopback = ips(s.t, "127.0.1.1"), true
			s.tmpl.IPAddresses = []net.IP{net.ParseIP("127.0.1.1")}
		}, Serving},
		{"two hosts expect the name and one has the Node", servingScene, func(s *scene) { s.expected[1].NodeName, s.expected[1].Node = "win-a", s.expected[0].Node }, Serving},
		{"a new line behind the block", firstClient, func(s *scene) { s.edit = func(b []byte) []byte { return append(b, '\n') } }, FirstClient},
		{"while the plan of a registered node is not at the kubelet", servingScene, func(s *scene) { s.expected[0].KubeletReached = false }, Serving},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := tc.base(t)
			tc.bend(s)
			d := s.want(Approve, tc.reason)
			if d.HostUID != "host-win-a" {
				t.Errorf("the decision is about host %q", d.HostUID)
			}
		})
	}
}

// Names are folded in ASCII only: strings.EqualFold alone takes U+212A KELVIN SIGN for k and U+017F LONG S for s.
func TestAllowsName(t *testing.T) {
	e := Expected{NodeName: "desk", Names: []string{"kiosk.example.test"}}
	for name, want := range map[string]bool{
		"desk": true, "DESK": true, "kiosk.example.test": true, "Kiosk.Example.Test": true,
		"des\u212a": false, "de\u017fk": false, "\u212aiosk.example.test": false, "kiosk": false, "": false,
	} {
		if got := e.allowsName(name); got != want {
			t.Errorf("%+q: %v", name, got)
		}
	}
}

// A Windows machine that calls itself as a running Linux node must not keep that node from its certificates.
func TestNodeOfSameNameIsLeftAlone(t *testing.T) {
	for _, base := range []func(*testing.T) *scene{servingScene, renewal} {
		s := base(t)
		s.expected[0].NodeUID, s.expected[0].Node.HostUID = "", ""
		s.tmpl.DNSNames = []string{"anything"}
		s.want(Wait, NodeUnclaimed)
	}
	s := firstClient(t)
	s.expected[0] = registered(s.expected[0])
	s.expected[0].NodeUID, s.expected[0].Node.HostUID = "", ""
	s.req.Username = "system:bootstrap:abcdef"
	s.want(Wait, NodeUnclaimed)
}

func TestWaitIsBounded(t *testing.T) {
	s := firstClient(t)
	s.expected[0] = registered(s.expected[0])
	if d := s.want(Wait, NodeAlive); d.After != time.Minute {
		t.Errorf("waits %s for a lease that ends in minutes", d.After)
	}
	s.expected[0].Node.LastSeen = s.now.Add(-LeaseStale + time.Second)
	if d := s.want(Wait, NodeAlive); d.After != 5*time.Second {
		t.Errorf("waits %s for a lease that ends in a second", d.After)
	}
}

func TestMessagesAreShortASCII(t *testing.T) {
	for _, cn := range []string{strings.Repeat("é", 400), "system:node:\x1b[31mred\n", strings.Repeat("x", 2000)} {
		s := firstClient(t)
		s.tmpl.Subject.CommonName = cn
		d := s.want(Deny, NotItself)
		if len(d.Message) > 800 {
			t.Errorf("%d bytes", len(d.Message))
		}
		for i := range len(d.Message) {
			if b := d.Message[i]; b < 0x20 || b > 0x7e {
				t.Fatalf("byte %#x in message %q", b, d.Message)
			}
		}
	}
}

func TestFromObject(t *testing.T) {
	seconds := int32(3600)
	made := metav1.NewTime(clockNow())
	o := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "csr-1", CreationTimestamp: made},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: []byte("pem"), SignerName: client, ExpirationSeconds: &seconds, Usages: []certificatesv1.KeyUsage{"any"},
			Username: "u", UID: "id", Groups: []string{"g"},
		},
	}
	want := Request{
		Name: "csr-1", SignerName: client, Username: "u", UserUID: "id", Groups: []string{"g"},
		Usages: []certificatesv1.KeyUsage{"any"}, ExpirationSeconds: &seconds, PEM: []byte("pem"), Created: clockNow(),
	}
	if diff := cmp.Diff(want, FromObject(o)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	for _, c := range []certificatesv1.RequestConditionType{certificatesv1.CertificateApproved, certificatesv1.CertificateDenied, certificatesv1.CertificateFailed} {
		o.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: c, Status: corev1.ConditionTrue}}
		if r := FromObject(o); !r.Decided || r.Kubelet() {
			t.Errorf("%s counts as pending", c)
		}
	}
	o.Status = certificatesv1.CertificateSigningRequestStatus{Certificate: []byte("x")}
	if !FromObject(o).Decided {
		t.Error("an issued request counts as pending")
	}
}

func TestKeys(t *testing.T) {
	keys := func(s *scene) []string { s.req.PEM = s.pem(); return Keys(s.req) }
	first := firstClient(t)
	decided := firstClient(t)
	decided.req.Decided = true
	other := firstClient(t)
	other.req.SignerName = "example.com/x"
	cross := servingScene(t)
	cross.req.Username = NodePrefix + "win-b"
	junk := servingScene(t)
	junk.raw = []byte("junk")
	for _, tc := range []struct {
		name string
		s    *scene
		want []string
	}{
		{"ticket", first, []string{UserKey(TicketUser("host-win-a")), NodeKey("win-a")}},
		{"node for itself", servingScene(t), []string{NodeKey("win-a")}},
		{"node for another", cross, []string{NodeKey("win-b"), NodeKey("win-a")}},
		{"unreadable", junk, []string{NodeKey("win-a")}},
		{"decided", decided, nil},
		{"another signer", other, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, keys(tc.s)); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// Keys must find every host that Decide would judge the request by: a verdict over all hosts is the one over those with a key.
func TestKeysFindWhatDecideNeeds(t *testing.T) {
	for _, row := range append(append(nameAttacks(), requesterAttacks()...), ticketAttacks()...) {
		s := row.base(t)
		row.bend(s)
		all := s.decide()
		keys := map[string]bool{}
		for _, k := range Keys(s.req) {
			keys[k] = true
		}
		var found []Expected
		for _, e := range s.expected {
			if keys[NodeKey(e.NodeName)] || keys[UserKey(e.TicketUser)] {
				found = append(found, e)
			}
		}
		some := Decide(s.req, found, s.now)
		if diff := cmp.Diff(all, some); diff != "" {
			t.Errorf("%s: all hosts and those with a key differ: %s", row.name, diff)
		}
	}
}
