package csr

import (
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
)

// FuzzDecide feeds everything that a requester controls, and the name that it has. Whatever comes, an approval goes to a
// plain request whose subject is the expected node itself, from the one who may ask.
func FuzzDecide(f *testing.F) {
	t := &testing.T{}
	for _, s := range []*scene{firstClient(t), renewal(t), servingScene(t)} {
		f.Add(s.pem(), s.req.SignerName, s.req.Username, s.req.UserUID, strings.Join(s.req.Groups, ","), usageText(s.req), int32(0), "win-a", false)
	}
	for _, row := range append(append(nameAttacks(), envelopeAttacks()...), subjectAttacks()...) {
		s := row.base(t)
		row.bend(s)
		f.Add(s.pem(), s.req.SignerName, s.req.Username, s.req.UserUID, strings.Join(s.req.Groups, ","), usageText(s.req), int32(86400), s.expected[0].NodeName, true)
	}
	f.Fuzz(func(t *testing.T, pem []byte, signer, user, uid, groups, usages string, seconds int32, expectedName string, there bool) {
		r := Request{
			Name: "csr-1", SignerName: signer, Username: user, UserUID: uid, Groups: strings.Split(groups, ","), PEM: pem,
			Created: clockNow().Add(-time.Second),
		}
		for _, u := range strings.Split(usages, ",") {
			r.Usages = append(r.Usages, certificatesv1.KeyUsage(u))
		}
		if seconds != 0 {
			r.ExpirationSeconds = &seconds
		}
		e := expect(t, expectedName, "192.0.2.10")
		if there {
			e = registered(e)
		}
		d := Decide(r, []Expected{e, registered(expect(t, "win-b", "192.0.2.20"))}, clockNow())
		checkDecision(t, r, d)
		if d.Verdict == Approve {
			checkApproval(t, r, e, d)
		}
		if Decide(r, nil, clockNow()).Verdict == Approve {
			t.Fatal("approved though no host is expected")
		}
	})
}

func usageText(r Request) string {
	var out []string
	for _, u := range r.Usages {
		out = append(out, string(u))
	}
	return strings.Join(out, ",")
}

func checkDecision(t *testing.T, r Request, d Decision) {
	t.Helper()
	if d.Reason == "" || len(d.Message) > 2048 {
		t.Fatalf("decision without a reason, or with a long message: %+v", d)
	}
	if (d.Verdict == Wait) != (d.After > 0) || d.After > time.Minute {
		t.Fatalf("%s looks again after %s", d.Verdict, d.After)
	}
	if !r.Kubelet() && d.Verdict != Ignore {
		t.Fatalf("signer %q got %s", r.SignerName, d.Verdict)
	}
}

func checkApproval(t *testing.T, r Request, e Expected, d Decision) {
	t.Helper()
	p := parse(r.PEM)
	if p.err != nil {
		t.Fatalf("approved what is not a plain request: %v", p.err)
	}
	name := p.nodeName
	if name == "" || (name != e.NodeName && name != "win-b") {
		t.Fatalf("approved subject %q", p.cr.Subject.CommonName)
	}
	if o := p.cr.Subject.Organization; len(o) != 1 || o[0] != NodesGroup || len(p.cr.Subject.Names) != 2 {
		t.Fatalf("approved subject %v", p.cr.Subject)
	}
	if p.cr.CheckSignature() != nil {
		t.Fatal("approved a request that is not signed by its key")
	}
	if r.Username != NodePrefix+name && r.Username != TicketUser("host-"+name) {
		t.Fatalf("%q got a certificate of %q", r.Username, name)
	}
	if (d.Reason == Serving) != (len(p.cr.DNSNames)+len(p.cr.IPAddresses) > 0) || len(p.cr.URIs)+len(p.cr.EmailAddresses) > 0 {
		t.Fatalf("%s with names %v %v", d.Reason, p.cr.DNSNames, p.cr.IPAddresses)
	}
	for _, ip := range p.cr.IPAddresses {
		if s := ip.String(); s != "192.0.2.10" && s != "192.0.2.20" {
			t.Fatalf("approved address %s", s)
		}
	}
}

func BenchmarkDecide(b *testing.B) {
	t := &testing.T{}
	for _, bc := range []struct {
		name string
		s    *scene
		cn   string
	}{
		{"serving", servingScene(t), "win-a"}, {"first", firstClient(t), "win-a"}, {"ghost", firstClient(t), "ghost-001"},
	} {
		if bc.cn != "win-a" {
			bc.s.tmpl.Subject.CommonName = NodePrefix + bc.cn
			bc.s.req.Username = "system:bootstrap:abcdef"
		}
		bc.s.req.PEM = bc.s.pem()
		b.Run(bc.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Decide(bc.s.req, bc.s.expected, bc.s.now)
			}
		})
	}
}
