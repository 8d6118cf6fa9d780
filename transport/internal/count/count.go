// Package count counts what ports do.
//
// Stages: the counters of a port, what one Recv and one Send add to them, and what one Send has
// handed over so far.
package count

import (
	"sync/atomic"

	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/wire"
)

// Counters is transport.Stats as the port counts. What is counted with every packet is the turn's
// own, without the 5 ns of a locked instruction each; the rest may be added to from anywhere. Ports
// embed it.
type Counters struct {
	RecvFrames, RecvBytes, RecvBatches, RecvRuns, RecvCopied   uint64
	SendFrames, SendBytes, SendBatches, SendRuns, SendResealed uint64
	RecvOverflow, RecvBad, RecvForged                          atomic.Uint64
	SendBlocked, SendTooLong, SendUnreachable, SendRefused     atomic.Uint64
	LastSendError                                              atomic.Pointer[error]
}

// Stats returns the counters.
func (c *Counters) Stats() transport.Stats {
	s := transport.Stats{
		RecvFrames: c.RecvFrames, RecvBytes: c.RecvBytes, RecvBatches: c.RecvBatches, RecvRuns: c.RecvRuns,
		RecvCopied: c.RecvCopied, RecvOverflow: c.RecvOverflow.Load(), RecvBad: c.RecvBad.Load(),
		RecvForged: c.RecvForged.Load(), SendFrames: c.SendFrames, SendBytes: c.SendBytes, SendBatches: c.SendBatches,
		SendRuns: c.SendRuns, SendResealed: c.SendResealed, SendBlocked: c.SendBlocked.Load(),
		SendTooLong: c.SendTooLong.Load(), SendUnreachable: c.SendUnreachable.Load(), SendRefused: c.SendRefused.Load(),
	}
	if err := c.LastSendError.Load(); err != nil {
		s.LastSendError = (*err).Error()
	}
	return s
}

// Received counts what one Recv returns.
func (c *Counters) Received(frames []wire.Frame) {
	if len(frames) == 0 {
		return
	}
	bytes := 0
	for i := range frames {
		bytes += len(frames[i].Body)
	}
	c.RecvBatches++
	c.RecvFrames += uint64(len(frames))
	c.RecvBytes += uint64(bytes)
}

// Sent counts what one Send handed over.
func (c *Counters) Sent(frames, bytes int) {
	if frames == 0 {
		return
	}
	c.SendBatches++
	c.SendFrames += uint64(frames)
	c.SendBytes += uint64(bytes)
}

// LastError keeps why something was not sent. It allocates only when the reason is another one than
// before.
func (c *Counters) LastError(err error) {
	if last := c.LastSendError.Load(); last == nil || *last != err {
		reason := err // a copy that may go to the heap
		c.LastSendError.Store(&reason)
	}
}

// Tally is what one Send has handed over.
type Tally struct{ Frames, Bytes, Runs int }

// Add adds a run of frames, or one.
func (t *Tally) Add(frames, bytes int) {
	t.Frames += frames
	t.Bytes += bytes
	if frames > 1 {
		t.Runs++
	}
}
