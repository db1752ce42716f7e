package agent

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/windowsmachine/operator/pkg/agent/disk"
	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/payload"
	"github.com/windowsmachine/operator/pkg/plan"
)

// errCut: the stream ended, or fell silent, before it was complete.
var errCut = io.ErrUnexpectedEOF

// Receive speaks the receive protocol of package payload: it reads an Offer, answers which blobs it Needs, stores the frames that
// follow, each under a temporary name until its SHA-256 is right, and answers with the Result. Blobs that arrived whole stay when
// the stream is cut or nothing comes for idleLimit, so that the next offer continues there. The error says what the Result's code says;
// ErrBusy while another command writes. A read of in that nobody answers may go on after Receive has returned.
func (a *Agent) Receive(ctx context.Context, in io.Reader, out io.Writer) error {
	stored, err := a.receive(ctx, in, out)
	res := payload.Result{Stored: stored}
	if err != nil {
		res.Code, res.Detail = CodeOf(err), Detail(err.Error())
	}
	return errors.Join(err, payload.WriteMessage(out, res))
}

func (a *Agent) receive(ctx context.Context, in io.Reader, out io.Writer) ([]string, error) {
	stored := []string{}
	if err := a.secureRoot(ctx); err != nil {
		return stored, err
	}
	release, err := a.lock(lockFile)
	if err != nil {
		return stored, err
	}
	defer func() { _ = release() }()
	if err := a.dropParts(); err != nil {
		return stored, err
	}
	reading, stop := context.WithCancel(ctx)
	defer stop()
	r := bufio.NewReader(newIdleReader(reading, a.sys.Clock, in))
	offer, err := payload.ReadOffer(r)
	if errors.Is(err, io.EOF) {
		return stored, fmt.Errorf("no offer came: %w", errCut)
	}
	if err != nil {
		return stored, err
	}
	need, err := a.need(ctx, offer)
	if err != nil {
		return stored, err
	}
	if err := payload.WriteMessage(out, payload.Need{Need: need}); err != nil {
		return stored, err
	}
	if len(need) == 0 {
		return stored, nil
	}
	err = payload.ReadFrames(r, payload.DefaultLimits(), func(digest string, _ int64, r io.Reader) error {
		if err := a.putBlob(ctx, digest, r); err != nil {
			return err
		}
		stored = append(stored, digest)
		return nil
	})
	return stored, err
}

// need remembers the offer and answers it: what the machine does not hold whole. It refuses an offer that the disk has no
// room for before a byte of it is sent.
func (a *Agent) need(ctx context.Context, offer payload.Offer) ([]string, error) {
	var all []string
	for _, b := range offer.Blobs {
		all = append(all, b.SHA256)
	}
	have, err := a.verified(ctx, all)
	if err != nil {
		return nil, err
	}
	if err := a.saveJSON(ctx, stagedFile, staged{APIVersion: stagedVersion, Blobs: all}); err != nil {
		return nil, err
	}
	need, size := missing(offer, have)
	free, err := a.sys.Machine.FreeDisk(plan.AgentRoot)
	if err != nil {
		return nil, fmt.Errorf("asking for the free disk space: %w", err)
	}
	if size > free {
		return nil, fmt.Errorf("%d bytes are needed, %d are free: %w", size, free, system.ErrDiskFull)
	}
	return need, nil
}

// missing returns the offered blobs that are not in have, and their size together.
func missing(offer payload.Offer, have []string) (need []string, size int64) {
	held := map[string]bool{}
	for _, d := range have {
		held[d] = true
	}
	need = []string{}
	for _, b := range offer.Blobs {
		if !held[b.SHA256] {
			need = append(need, b.SHA256)
			size += b.Size
		}
	}
	return need, size
}

func (a *Agent) putBlob(ctx context.Context, digest string, r io.Reader) error {
	final := disk.Join(blobDir(), digest)
	if err := disk.Write(ctx, a.sys.Files, final+partSuffix, plan.AccessSecret, r, digest); err != nil {
		return err
	}
	if err := a.sys.Files.Rename(final+partSuffix, final); err != nil {
		return fmt.Errorf("storing blob %s: %w", digest, err)
	}
	return nil
}

// dropParts deletes what an earlier receive left half written. The caller holds the lock.
func (a *Agent) dropParts() error {
	names, err := a.blobNames()
	if err != nil {
		return err
	}
	for _, n := range names {
		if !strings.HasSuffix(n, partSuffix) {
			continue
		}
		if err := a.sys.Files.Remove(disk.Join(blobDir(), n)); err != nil && !errors.Is(err, system.ErrNotExist) {
			return fmt.Errorf("deleting a half-received blob: %w", err)
		}
	}
	return nil
}
