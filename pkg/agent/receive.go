package agent

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
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
// ErrBusy while another command writes, ErrOrderOld when a later request of the same host came before. A read of in that nobody answers may go on after Receive has returned.
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
	reading, stop := context.WithCancel(ctx)
	defer stop()
	r := bufio.NewReader(newIdleReader(reading, a.sys.Clock, in))
	offer, err := a.readOffer(r)
	if err != nil {
		return stored, err
	}
	parts, err := a.parts(offer)
	if err != nil {
		return stored, err
	}
	need, err := a.need(ctx, offer, parts)
	if err != nil {
		return stored, err
	}
	if err := payload.WriteMessage(out, need); err != nil {
		return stored, err
	}
	if len(need.Need) == 0 {
		return stored, nil
	}
	err = payload.ReadFrames(r, payload.DefaultLimits(), func(b payload.Incoming, r io.Reader) error {
		if !asked(b, need) {
			return fmt.Errorf("blob %s from byte %d: %w", b.Digest, b.From, errNotAsked)
		}
		if err := a.putBlob(ctx, b, r); err != nil {
			return err
		}
		stored = append(stored, b.Digest)
		return nil
	})
	return stored, err
}

// readOffer reads the offer, and refuses one that comes too late.
func (a *Agent) readOffer(r *bufio.Reader) (payload.Offer, error) {
	offer, err := payload.ReadOffer(r)
	if errors.Is(err, io.EOF) {
		return offer, fmt.Errorf("no offer came: %w", errCut)
	}
	if err != nil {
		return offer, err
	}
	prev, _, err := a.loadAccepted()
	if err != nil {
		return offer, err
	}
	return offer, a.inOrder(prev, plan.Claim{Host: offer.Host, Order: offer.Order})
}

// need remembers the offer and answers it: what the machine does not hold whole. It refuses an offer that the disk has no
// room for before a byte of it is sent.
func (a *Agent) need(ctx context.Context, offer payload.Offer, parts map[string]int64) (payload.Need, error) {
	var all []string
	for _, b := range offer.Blobs {
		all = append(all, b.SHA256)
	}
	have, err := a.verified(ctx, all)
	if err != nil {
		return payload.Need{}, err
	}
	if err := a.spare(ctx, plan.Claim{Host: offer.Host, Order: offer.Order}, all); err != nil {
		return payload.Need{}, err
	}
	need, size := missing(offer, have, parts)
	free, err := a.sys.Machine.FreeDisk(plan.AgentRoot)
	if err != nil {
		return payload.Need{}, fmt.Errorf("asking for the free disk space: %w", err)
	}
	if size > free {
		return payload.Need{}, fmt.Errorf("%d bytes are needed, %d are free: %w", size, free, system.ErrDiskFull)
	}
	return need, nil
}

// missing returns the offered blobs that are not in have, with what is there of them, and how many bytes that leaves.
func missing(offer payload.Offer, have []string, parts map[string]int64) (need payload.Need, size int64) {
	held := map[string]bool{}
	for _, d := range have {
		held[d] = true
	}
	need.Need = []string{}
	for _, b := range offer.Blobs {
		if held[b.SHA256] {
			continue
		}
		need.Need = append(need.Need, b.SHA256)
		size += b.Size - parts[b.SHA256]
		if n := parts[b.SHA256]; n > 0 {
			if need.Have == nil {
				need.Have = map[string]int64{}
			}
			need.Have[b.SHA256] = n
		}
	}
	return need, size
}

// errNotAsked: a blob arrives that was not needed, or its rest from another place than where it ended.
var errNotAsked = fmt.Errorf("what comes was not asked for: %w", payload.ErrFormat)

func asked(b payload.Incoming, need payload.Need) bool {
	return slices.Contains(need.Need, b.Digest) && (b.From == 0 || b.From == need.Have[b.Digest])
}

func (a *Agent) putBlob(ctx context.Context, b payload.Incoming, r io.Reader) error {
	final := disk.Join(blobDir(), b.Digest)
	if err := disk.Resume(ctx, a.sys.Files, final+partSuffix, plan.AccessSecret, b.From, r, b.Digest, wasCut); err != nil {
		return err
	}
	if err := a.sys.Files.Rename(final+partSuffix, final); err != nil {
		return fmt.Errorf("storing blob %s: %w", b.Digest, err)
	}
	return nil
}

// wasCut reports whether what arrived until then is good, as far as anybody knows: the stream ended, or this program was told to.
func wasCut(err error) bool {
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, context.Canceled)
}

// parts returns how much is there of the offered blobs that an earlier receive has left half written, and deletes what is of no use. The caller
// holds the lock.
func (a *Agent) parts(offer payload.Offer) (map[string]int64, error) {
	files, err := a.sys.Files.ReadDir(blobDir())
	if errors.Is(err, system.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing half-received blobs: %w", err)
	}
	size := map[string]int64{}
	for _, b := range offer.Blobs {
		size[b.SHA256] = b.Size
	}
	parts := map[string]int64{}
	for _, f := range files {
		digest, part := strings.CutSuffix(f.Path[strings.LastIndexByte(f.Path, '\\')+1:], partSuffix)
		if !part {
			continue
		}
		if f.Size > 0 && f.Size < size[digest] {
			parts[digest] = f.Size
			continue
		}
		if err := a.sys.Files.Remove(f.Path); err != nil && !errors.Is(err, system.ErrNotExist) {
			return nil, fmt.Errorf("deleting a half-received blob: %w", err)
		}
	}
	return parts, nil
}
