package host

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windowsmachine/operator/pkg/transport"
)

// opens is an Opener as a function.
type opens func(context.Context, transport.Opening) (transport.HostKey, error)

func (f opens) Open(ctx context.Context, o transport.Opening) (transport.HostKey, error) {
	return f(ctx, o)
}

func openArgs() Args {
	a := args()
	a.Opening = transport.Opening{Address: a.Target.Address, Port: 5986, User: "Administrator", Password: "p"}
	return a
}

func TestOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key := transport.HostKey{Algorithm: "ssh-ed25519", Key: []byte("k"), Fingerprint: "SHA256:k"}
		m := &machine{}
		var got transport.Opening
		h := newHarness(t, m, func(c *Config) {
			c.Opener = opens(func(_ context.Context, o transport.Opening) (transport.HostKey, error) {
				got = o
				return key, nil
			})
		})
		s := h.do(t, VerbOpen, openArgs())
		if s.Last[VerbOpen].Err != nil || s.Opened.Fingerprint != key.Fingerprint || got.Password != "p" {
			t.Errorf("snapshot %+v of %+v", s, got)
		}
		if _, dialed := m.open(); dialed != 0 || s.Connected {
			t.Error("it connected by SSH")
		}
	})
}

func TestOpenFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, &machine{}, func(c *Config) {
			c.Opener = opens(func(context.Context, transport.Opening) (transport.HostKey, error) {
				return transport.HostKey{}, transport.ErrAuth
			})
		})
		h.do(t, VerbOpen, openArgs())
		s := h.do(t, VerbOpen, openArgs())
		if o := s.Last[VerbOpen]; !errors.Is(o.Err, transport.ErrAuth) || o.Failures != 2 || s.Opened.Fingerprint != "" {
			t.Errorf("outcome %+v", o)
		}
		// Another password is another try.
		a := openArgs()
		a.Opening.Password = "q"
		if o := h.do(t, VerbOpen, a).Last[VerbOpen]; o.Failures != 1 {
			t.Errorf("%d failures after a changed password", o.Failures)
		}
	})
}

func TestOpenEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, &machine{}, func(c *Config) {
			c.Opener = opens(func(ctx context.Context, _ transport.Opening) (transport.HostKey, error) {
				<-ctx.Done()
				return transport.HostKey{}, context.Cause(ctx)
			})
		})
		start := time.Now()
		o := h.do(t, VerbOpen, openArgs()).Last[VerbOpen]
		if !errors.Is(o.Err, transport.ErrUnreachable) || time.Since(start) != 45*time.Minute {
			t.Errorf("%v after %s", o.Err, time.Since(start))
		}
		// And with its session.
		h.session.Start(VerbOpen, openArgs())
		h.session.Disconnect()
		if o := h.wait().Last[VerbOpen]; !errors.Is(o.Err, transport.ErrDisconnected) {
			t.Errorf("error %v", o.Err)
		}
	})
}

func TestOpenWithoutOpener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newHarness(t, &machine{}, nil).do(t, VerbOpen, openArgs()).Last[VerbOpen]
		if !errors.Is(o.Err, ErrNoOpener) || !errors.Is(o.Err, transport.ErrOpening) {
			t.Errorf("error %v", o.Err)
		}
	})
}
