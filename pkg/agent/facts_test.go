package agent

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/agent/system/fake"
	"github.com/windowsmachine/operator/pkg/plan"
)

// TestFactsChangeNothing, on a machine that the agent has never touched.
func TestFactsChangeNothing(t *testing.T) {
	withRig(t, fake.Options{Defender: true, Services: []system.ServiceConfig{{Name: "Containerd", Exe: `C:\theirs.exe`}}}, func(t *testing.T, r *rig) {
		before := r.m.Dump()
		f, err := r.a.Facts(t.Context(), plan.FactsRequest{Blobs: []string{strings.Repeat("a", 64)}})
		r.must(err)
		r.same(before, r.m.Dump())
		if d := cmp.Diff([]string{"containerd"}, f.ForeignServices); d != "" {
			t.Error(d)
		}
		if !f.Defender || f.HaveBlobs != nil || f.Features != nil || f.API != nil || f.Report.Phase != plan.PhaseIdle || f.AgentDigest == "" {
			t.Errorf("facts %+v", f)
		}
	})
}

func TestFactsOwnServicesAreNotForeign(t *testing.T) {
	withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
		r.applied(envelope(1, r.node(), ticket()), plan.PhaseInSync)
		f, err := r.a.Facts(t.Context(), plan.FactsRequest{})
		r.must(err)
		if f.ForeignServices != nil {
			t.Errorf("foreign services %v", f.ForeignServices)
		}
	})
}

// TestProbe connects over loopback, so it runs in real time.
func TestProbe(t *testing.T) {
	srv := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(srv.Close)
	srv.Config.ErrorLog = nil
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
	other := httptest.NewUnstartedServer(nil)
	t.Cleanup(other.Close)
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		switch {
		case strings.HasPrefix(address, "absent.example.test"):
			return nil, &net.DNSError{Err: "no such host", Name: "absent.example.test", IsNotFound: true}
		case strings.HasPrefix(address, "refused.example.test"):
			return nil, errors.New("connection refused")
		case strings.HasPrefix(address, "mute.example.test"):
			here, there := net.Pipe()
			_ = there.Close()
			return here, nil
		}
		var d net.Dialer
		return d.DialContext(ctx, network, srv.Listener.Addr().String())
	}
	for _, tc := range []struct {
		name, url, code string
		ca              []byte
		skew            time.Duration
	}{
		{"trusted", "https://example.com:6443", plan.ProbeOK, ca, 0},
		{"trusted on the default port", "https://example.com", plan.ProbeOK, ca, 0},
		{"another name", "https://api.example.test:6443", plan.ProbeCertificate, ca, 0},
		{"no CA", "https://example.com:6443", plan.ProbeCertificate, nil, 0},
		{"CA that is none", "https://example.com:6443", plan.ProbeCertificate, []byte("x"), 0},
		{"another CA", "https://example.com:6443", plan.ProbeCertificate, otherCA(t), 0},
		{"clock a hundred years ahead", "https://example.com:6443", plan.ProbeCertificate, ca, 100 * 365 * 24 * time.Hour},
		{"unknown name", "https://absent.example.test:6443", plan.ProbeDNS, ca, 0},
		{"refused", "https://refused.example.test:6443", plan.ProbeConnect, ca, 0},
		{"closed at once", "https://mute.example.test:6443", plan.ProbeConnect, ca, 0},
		{"no URL", "example.com:6443", plan.ProbeConnect, ca, 0},
		{"not https", "http://example.com:6443", plan.ProbeConnect, ca, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := fake.New(fake.Options{Dial: dial, Skew: tc.skew})
			t.Cleanup(m.Close)
			got := newAgent(m.System()).probe(t.Context(), plan.FactsRequest{APIServer: tc.url, CA: tc.ca})
			if got.Code != tc.code || (got.Detail == "") != (tc.code == plan.ProbeOK) {
				t.Errorf("%+v, want %s", got, tc.code)
			}
		})
	}
}

// otherCA is a CA that signed nothing here.
func otherCA(t *testing.T) []byte {
	t.Helper()
	key, cert := selfSigned(t)
	_ = key
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})
}

// TestProbeIsBounded: a server that accepts and never answers costs five seconds.
func TestProbeIsBounded(t *testing.T) {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		here, there := net.Pipe()
		context.AfterFunc(ctx, func() { _ = there.Close() })
		go func() {
			b := make([]byte, 1024)
			for {
				if _, err := there.Read(b); err != nil {
					return
				}
			}
		}()
		return here, nil
	}
	_, der := selfSigned(t)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	withRig(t, fake.Options{Dial: dial}, func(t *testing.T, r *rig) {
		started := time.Now()
		got := r.a.probe(t.Context(), plan.FactsRequest{APIServer: "https://api.example.test", CA: ca})
		if took := time.Since(started); got.Code != plan.ProbeConnect || took != probeTimeout {
			t.Errorf("%+v after %s", got, took)
		}
	})
}

func TestProbeCode(t *testing.T) {
	for want, err := range map[string]error{
		plan.ProbeOK:          nil,
		plan.ProbeDNS:         &net.OpError{Op: "dial", Err: &net.DNSError{Err: "x"}},
		plan.ProbeCertificate: &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}},
		plan.ProbeConnect:     context.DeadlineExceeded,
	} {
		if got := probeCode(err); got != want {
			t.Errorf("%v: %s, want %s", err, got, want)
		}
	}
}
