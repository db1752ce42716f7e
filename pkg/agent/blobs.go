package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/windowsmachine/operator/pkg/agent/disk"
	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/plan"
)

// partSuffix marks a blob that is being received.
const partSuffix = ".part"

func blobDir() string { return rooted(blobsDir + `\sha256`) }

// staged is staged.json: the digests of the last offer, and whose it was.
type staged struct {
	APIVersion string   `json:"apiVersion"`
	Host       string   `json:"host,omitempty"`
	Order      int64    `json:"order,omitempty"`
	Blobs      []string `json:"blobs"`
}

const stagedVersion = "staged.windowsmachine.dev/v1"

// spare notes which blobs are to be kept until a plan names them. A request without an order leaves the fence where it is. The caller holds the lock.
func (a *Agent) spare(ctx context.Context, c plan.Claim, digests []string) error {
	s := staged{APIVersion: stagedVersion, Host: c.Host, Order: c.Order, Blobs: digests}
	if c.Order == 0 {
		was, err := a.loadStaged()
		if err != nil {
			return err
		}
		s.Host, s.Order = was.Host, was.Order
	}
	return a.saveJSON(ctx, stagedFile, s)
}

// blobNames lists the file names in the blob folder.
func (a *Agent) blobNames() ([]string, error) {
	list, err := a.sys.Files.ReadDir(blobDir())
	if errors.Is(err, system.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing blobs: %w", err)
	}
	var out []string
	for _, e := range list {
		out = append(out, e.Path[strings.LastIndexByte(e.Path, '\\')+1:])
	}
	return out, nil
}

// collect deletes the blobs that neither the plan in sync, nor the one before, nor the accepted one, nor the last offer
// names. While a command writes it leaves them for the next run.
func (a *Agent) collect(ctx context.Context, st state) error {
	names, err := a.blobNames()
	if err != nil || len(names) == 0 {
		return err
	}
	release, err := a.lock(lockFile)
	if errors.Is(err, ErrBusy) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = release() }()
	keep, err := a.keepBlobs(st)
	if err != nil {
		return err
	}
	for _, n := range garbage(names, keep) {
		if err := disk.RemoveAll(ctx, a.sys.Files, disk.Join(blobDir(), n)); err != nil {
			return err
		}
	}
	return nil
}

func (a *Agent) keepBlobs(st state) ([]string, error) {
	keep := slices.Concat(st.Blobs, st.Previous)
	rec, had, err := a.loadAccepted()
	if err != nil {
		return nil, err
	}
	if had {
		p, err := rec.plan()
		if err != nil {
			return nil, err
		}
		keep = append(keep, p.Blobs()...)
	}
	var s staged
	if _, err := a.loadJSON(stagedFile, stagedVersion, &s); err != nil {
		return nil, err
	}
	return append(keep, s.Blobs...), nil
}

// garbage returns the names that are not to be kept. What has arrived of a blob is kept like the blob.
func garbage(names, keep []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return slices.Contains(keep, strings.TrimSuffix(n, partSuffix)) })
}

// verified returns those of digests that the machine holds, each checked by hashing all of it.
func (a *Agent) verified(ctx context.Context, digests []string) ([]string, error) {
	names, err := a.blobNames()
	if err != nil {
		return nil, err
	}
	var out []string
	for _, d := range digests {
		if !slices.Contains(names, d) {
			continue
		}
		have, err := disk.Digest(ctx, a.sys.Files, disk.Join(blobDir(), d))
		if errors.Is(err, system.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if have == d {
			out = append(out, d)
		}
	}
	return out, nil
}
