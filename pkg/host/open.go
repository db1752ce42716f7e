package host

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strconv"

	"github.com/windowsmachine/operator/pkg/transport"
)

// ErrNoOpener: the pool has no Opener.
var ErrNoOpener = fmt.Errorf("%w: this operator has only SSH", transport.ErrOpening)

// open makes first contact and notes the key that it has read.
func (s *Session) open(ctx context.Context, o transport.Opening) error {
	if s.pool.cfg.Opener == nil {
		return ErrNoOpener
	}
	key, err := s.pool.cfg.Opener.Open(ctx, o)
	if err != nil {
		return err
	}
	s.update(func(p *Snapshot) { p.Opened = key })
	return nil
}

// id identifies what a verb leads to and as whom, without keeping keys or passwords: once that changes, earlier failures do not count.
func (a Args) id() targetID {
	id := identify(a.Target)
	if a.Opening.Address == "" {
		return id
	}
	h := sha256.New()
	h.Write(id[:])
	o := a.Opening
	for _, f := range []string{
		o.Address, strconv.Itoa(o.Port), o.ServerName, o.User, o.Password, string(o.ClientCert), string(o.ClientKey), string(o.CA), o.AuthorizedKey,
		strconv.Itoa(o.SSHPort), o.InstallerURL, o.InstallerSHA256,
	} {
		// %q keeps two fields from being read as others.
		fmt.Fprintf(h, "%q,", f)
	}
	return targetID(h.Sum(nil))
}
