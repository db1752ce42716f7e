package host

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/windowsmachine/operator/pkg/payload"
	"github.com/windowsmachine/operator/pkg/plan"
	"github.com/windowsmachine/operator/pkg/transport"
)

// progressEvery is how often the progress of a transfer is told, at most.
const progressEvery = time.Second

// stage sends the blobs that the machine lacks. A transfer that was cut is resumed by the next: the agent keeps each blob that
// was whole.
func (s *Session) stage(ctx context.Context, c transport.Conn, claim plan.Claim, digests []string) error {
	offer, err := s.offer(claim, digests)
	if err != nil || len(offer.Blobs) == 0 {
		return err
	}
	if err := s.withAgent(ctx, c, func() error { return s.receive(ctx, c, offer) }); err != nil {
		return err
	}
	s.have(digests)
	return nil
}

// have adds to what the machine is known to hold.
func (s *Session) have(digests []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.snap.Facts == nil {
		return
	}
	// A Snapshot that was handed out points to the old facts.
	f := *s.snap.Facts
	f.HaveBlobs = slices.Concat(f.HaveBlobs, digests)
	s.snap.Facts = &f
}

func (s *Session) offer(claim plan.Claim, digests []string) (payload.Offer, error) {
	o := payload.Offer{Host: claim.Host, Order: claim.Order}
	for _, d := range digests {
		b, ok := s.pool.cfg.Store.Blob(d)
		if !ok {
			return o, fmt.Errorf("blob %.64q: %w", d, payload.ErrUnknownBlob)
		}
		o.Blobs = append(o.Blobs, payload.OfferedBlob{SHA256: b.SHA256, Size: b.Size})
	}
	return o, o.Validate()
}

// exchange is one conversation with `wmcb receive`.
type exchange struct {
	s     *Session
	offer payload.Offer
	// needs gets the agent's first Need.
	needs chan payload.Need

	// need and result are written by the reader of the agent's output; they are read when it has ended.
	need   *payload.Need
	result *payload.Result
}

func (s *Session) receive(ctx context.Context, c transport.Conn, offer payload.Offer) error {
	e := &exchange{s: s, offer: offer, needs: make(chan payload.Need, 1)}
	in, feed := io.Pipe()
	sendCtx, stop := context.WithCancel(ctx)
	var sender sync.WaitGroup
	sender.Go(func() { _ = feed.CloseWithError(e.send(sendCtx, feed)) })
	k := call{args: []string{"receive"}, stdin: in, total: 2*payload.MaxMessage + noise}
	done, err := s.console(c).run(ctx, k, payload.MaxMessage, e.take)
	stop()
	// This unblocks a sender whose reader is gone.
	_ = in.Close()
	sender.Wait()
	if err != nil {
		return err
	}
	return e.verdict(done.Exit, done.Stderr)
}

// take reads one line of the agent.
func (e *exchange) take(line []byte) {
	need, result, ok := payload.ParseAnswer(line)
	switch {
	case !ok:
	case result != nil:
		e.result = result
	case e.need == nil:
		e.need = need
		e.needs <- *need
	}
}

// send writes the offer and, once the agent has said what it needs, the frames. Its nil is the end of the agent's input.
func (e *exchange) send(ctx context.Context, w io.Writer) error {
	if err := payload.WriteMessage(w, e.offer); err != nil {
		return err
	}
	var need payload.Need
	select {
	case need = <-e.needs:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := need.Validate(e.offer); err != nil {
		return fmt.Errorf("reading what the machine needs: %w", err)
	}
	e.plan(need)
	return payload.WriteFrames(w, e.s.pool.cfg.Store, need, e.progress)
}

// plan shows how much there is to send.
func (e *exchange) plan(need payload.Need) {
	var total int64
	for _, d := range need.Need {
		b, _ := e.s.pool.cfg.Store.Blob(d)
		// Of a rest nobody knows what it will be compressed.
		total += b.CompressedSize * (b.Size - need.Have[d]) / max(b.Size, 1)
	}
	e.s.left(total)
}

// left shows how much there is to send. A transfer that was cut and has come further is not one that fails again and again.
func (s *Session) left(total int64) {
	s.update(func(p *Snapshot) {
		if last := p.Last[VerbStage]; last.Err != nil && total < s.toSend {
			last.Failures = 0
			p.Last[VerbStage] = last
		}
		s.toSend = total
		p.Sent, p.ToSend = 0, total
	})
}

// progress shows how much was sent, and tells about it now and then.
func (e *exchange) progress(sent int64) {
	s := e.s
	now := s.pool.cfg.Now()
	s.mu.Lock()
	s.snap.Sent = sent
	tell := now.Sub(s.progressAt) >= progressEvery
	if tell {
		s.progressAt = now
	}
	s.mu.Unlock()
	if tell {
		s.notify()
	}
}

// verdict decides what the end of the conversation means.
func (e *exchange) verdict(exit int, stderr string) error {
	detail := clean(fmt.Sprintf("exit code %d: %s", exit, stderr))
	switch {
	case e.result != nil && e.result.Code != "":
		return &Refusal{Code: cleanCode(e.result.Code), Detail: clean(e.result.Detail)}
	case e.result != nil && exit == exitDone:
		return nil
	case e.result == nil && e.need == nil:
		return &Refusal{Code: CodeAgentSilent, Detail: detail}
	}
	return &Refusal{Code: codeOf(exit), Detail: detail}
}
