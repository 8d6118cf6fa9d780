package perf

// The latency tests: one message under way. READ and atomics are asked and answered; SENDs and
// WRITEs fly back and forth, and what is recorded is half of a round trip.
//
// Stages of one exchange: wait for the peer's message (at the end that answers), let the gap go by,
// post, record the exchange before, wait for the answer (at the end that moves first).
//
// Without a gap an answer is followed by the next post at once, and both ends see the same
// exchanges. With one, the end that has it records from its post to the answer. Its peer, which
// knows nothing of it, sees exchanges with the gap in them.

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/goroce/goroce/cmd/roce/internal/session"
	"github.com/goroce/goroce/cmd/roce/internal/system"
	"github.com/goroce/goroce/roce"
)

// volley is the exchange of one message size at this end.
type volley struct {
	*rig
	*queue
	size  int
	serve bool // this end makes the first move

	each    int // messages of an exchange: one, or one there and one back
	times   *hdrhistogram.Histogram
	start   time.Time
	last    time.Duration    // of the last post, since start
	arrived func(i int) bool // whether message i of the peer is here

	pause *system.Pause // for gaps
	round int           // the exchange that goes on, for ready
	ready func() bool
	// settled says that all that was posted is done
	settled func() bool
	eat     func([]roce.WC) error
}

// tally is the result of a latency test: the histogram holds nanoseconds.
type tally struct {
	size, iters int
	times       *hdrhistogram.Histogram
	each        int  // messages that a time is of: 2 for a round trip
	gaps        bool // between the exchanges
	spent       cost
}

// In an exchange of messages each answer proves that the question arrived, so only every
// signalEvery-th has a completion, and unacked may be without at a time. perftest waits for the
// completion of each, which adds the way of an acknowledgement wherever that is slower than the
// answer.
const (
	signalEvery = 256
	unacked     = 2 * signalEvery
)

// longest is the longest time that is told apart; above it counts as equal. Three digits are kept
// of each.
const longest = int64(time.Minute)

func (r *rig) newVolley(size int) *volley {
	v := &volley{rig: r, queue: r.queues[0], size: size, each: 2, times: hdrhistogram.New(1, longest, 3)}
	if r.t.respOp {
		v.each = 1
	}
	// In perftest the server makes the first WRITE, but the client the first SEND.
	v.serve = r.link.client != (r.t.Op == roce.WRWrite)
	switch r.t.Op {
	case roce.WRSend:
		v.arrived = func(i int) bool { return v.got > i }
	case roce.WRWrite:
		last := byteWatch(r.mem[v.recv-r.mr.Addr():], size-1)
		v.arrived = func(i int) bool { return last() == byte(i+1) }
	default:
		v.arrived = func(i int) bool { return v.done > i }
	}
	// The answer is here: nobody waits for the acknowledgement of what it answers, but now and then
	// for all of them.
	v.ready = func() bool { return v.arrived(v.round) && v.posted-v.done < unacked }
	v.settled = func() bool { return v.done >= v.posted }
	v.eat = v.take
	return v
}

// byteWatch returns a function that loads byte i of memory that a peer writes: as part of an
// aligned word, so that the load is atomic and the compiler does not keep it.
func byteWatch(mem []byte, i int) func() byte {
	word := (*uint64)(unsafe.Pointer(&mem[i&^7]))
	return func() byte {
		w := atomic.LoadUint64(word)
		return (*[8]byte)(unsafe.Pointer(&w))[i&7]
	}
}

// run plays all exchanges.
func (v *volley) run(ctx context.Context) (tally, error) {
	if v.o.Duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, v.o.Duration, errTimeUp)
		defer cancel()
	}
	if v.o.Gap > 0 {
		var err error
		if v.pause, err = system.NewPause(); err != nil {
			return tally{}, err
		}
		defer v.pause.Close()
		defer context.AfterFunc(ctx, v.pause.End)()
	}
	spent := startClock()
	v.start = time.Now()
	n, err := v.play(ctx)
	if errors.Is(err, errTimeUp) {
		err = nil
	}
	t := tally{size: v.size, iters: n, times: v.times, each: v.each, gaps: v.o.Gap > 0,
		spent: spent.stop(n*v.each, v.size)}
	v.rig.spent.add(t.spent)
	return t, err
}

func (v *volley) play(ctx context.Context) (n int, err error) {
	for i := 0; v.o.Duration > 0 || i < v.o.Iters; i++ {
		v.round = i
		if !v.serve {
			if err := v.await(ctx); err != nil {
				return i, err
			}
		}
		answered := time.Since(v.start)
		posted := answered
		if v.o.Gap > 0 {
			if err := v.pause.Sleep(v.o.Gap); err != nil || ctx.Err() != nil {
				return i, cmp.Or(err, context.Cause(ctx))
			}
			posted = time.Since(v.start)
		}
		if err := v.post(); err != nil {
			return i, err
		}
		v.record(i, answered-v.last)
		v.last = posted
		if v.serve {
			if err := v.await(ctx); err != nil {
				return i, v.excuse(err)
			}
		}
	}
	// The answering end's last message may still be under way.
	if err := v.wait.Until(ctx, v.wcs, v.settled, v.eat); err != nil {
		return v.o.Iters, v.excuse(err)
	}
	return v.o.Iters, nil
}

// await waits for the peer's message.
func (v *volley) await(ctx context.Context) error {
	if !v.o.Alone {
		return v.wait.Until(ctx, v.wcs, v.ready, v.eat)
	}
	if err := v.wait.Until(ctx, v.wcs, v.settled, v.eat); err != nil {
		return err
	}
	began := time.Duration(0)
	for n := 1; !v.arrived(v.round); n++ {
		if n%lonelyLooks != 0 {
			continue
		}
		now := time.Since(v.start)
		if began == 0 {
			began = now
		}
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case v.wait.Stall > 0 && now-began > v.wait.Stall:
			return &session.StallError{After: v.wait.Stall}
		}
	}
	return nil
}

// lonelyLooks is how often memory is looked at between two looks at the clock, so that these cost
// nothing.
const lonelyLooks = 1 << 15

// excuse forgives a last message whose acknowledgement did not come: the peer has all it waits for
// and may be gone.
func (v *volley) excuse(err error) error {
	if v.o.Duration == 0 && v.posted == v.o.Iters && v.arrived(v.o.Iters-1) && !errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// record takes note of what the exchange before message i took, while that message is under way.
func (v *volley) record(i int, took time.Duration) {
	if i > 0 {
		v.times.RecordValue(min(int64(took), longest))
	}
	v.progress.add(v.each, v.size)
}

// post sends the next message. A WRITE's last byte is its number, by which the peer knows it.
func (v *volley) post() error {
	w := &v.wrs[0]
	w.Flags = 0
	if w.Inline != nil {
		w.Flags |= roce.SendInline
	}
	v.posted++
	if v.posted%signalEvery == 0 || v.t.respOp || v.o.Alone || v.posted == v.o.Iters {
		w.Flags |= roce.SendSignaled
	}
	w.WRID = uint64(v.posted) << countShift
	if v.t.Op == roce.WRWrite {
		v.mem[v.send-v.mr.Addr()+uint64(v.size-1)] = byte(v.posted)
	}
	return v.PostSend(v.wrs[:1]...)
}

// take accounts for completions and keeps the receive queue full.
func (v *volley) take(wcs []roce.WC) error {
	for i := range wcs {
		wc := &wcs[i]
		if err := v.check(wc); err != nil {
			return err
		}
		if wc.WRID&receive != 0 {
			v.got++
		} else {
			v.done = int(wc.WRID >> countShift)
		}
	}
	if v.t.sends() && v.asked-v.got <= v.o.RxDepth/2 {
		return v.refill(v.queue)
	}
	return nil
}
