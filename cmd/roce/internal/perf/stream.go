package perf

// The bandwidth tests: every queue pair has as many messages under way as its depth allows, in one
// loop for all of them.
//
// Stages of one turn of the loop: post what there is room for, take completions, note the time.
// Times are taken once for each list of requests and each batch of completions, so the clock costs
// nothing even with small messages.

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/goroce/goroce/cmd/roce/internal/session"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/wire"
)

// stream is the traffic of one message size at this end.
type stream struct {
	*rig
	size  int
	sends bool // this end posts messages
	takes bool // this end receives messages (SEND)
	yield bool // the peer starts: send only when the first message is here
	pacer *pacer
	held  bool // the pacer holds messages back that there is room for
	turn  int  // the queue pair that posts first

	start  time.Time
	now    time.Duration // when the last batch came, since start
	posts  []time.Duration
	dones  []time.Duration // when message i was done, 0 if it had no completion of its own
	sample sample

	counted int // messages that progress knows of
}

// quiet is for how long a message of an unreliable transport may be missing after the peer has sent
// them all.
const quiet = 500 * time.Millisecond

// errTimeUp ends a run that has a duration.
var errTimeUp = errors.New("the time is up")

// run moves the messages and returns what was measured.
func (s *stream) run(ctx context.Context) (figures, error) {
	if s.sends && s.o.WarmUp && !s.t.sends() {
		if err := s.warmUp(ctx); err != nil {
			return figures{}, err
		}
	}
	if rate := s.o.Rate.messages(s.size); s.sends && rate > 0 {
		s.pacer = newPacer(rate, s.o.Burst)
	}
	if s.o.Duration > 0 {
		s.sample.from, s.sample.to = s.o.window()
	} else if n := s.o.Iters * len(s.queues); s.sends && n <= peakLimit && !s.o.NoPeak {
		s.posts, s.dones = make([]time.Duration, 0, n), make([]time.Duration, 0, n)
	}
	spent := startClock()
	if err := s.loop(ctx); err != nil && !errors.Is(err, errTimeUp) {
		return figures{}, err
	}
	sent, got := s.counts()
	if s.o.Bidi && !s.t.sends() {
		got = sent // the peer's go past this loop, but as many
	}
	f := s.figures()
	f.spent = spent.stop(sent+got, s.size)
	s.spent.add(f.spent)
	return f, nil
}

func (s *stream) loop(ctx context.Context) error {
	s.start = time.Now()
	wait := s.wait
	if s.takes && (s.o.Type != roce.RC || s.o.Duration > 0) {
		wait.Stall = quiet // a lost message is nobody's fault; see silence
	}
	for i := 1; !s.finished(); i++ {
		if i%lookUp == 0 && ctx.Err() != nil { // while messages flow nobody else looks
			return context.Cause(ctx)
		}
		if s.sends && !s.yield {
			if err := s.post(); err != nil {
				return err
			}
		}
		n, err := s.some(ctx, &wait)
		if session.Stalled(err) {
			if s.silence() {
				return nil
			}
			continue
		}
		if err != nil {
			return err
		}
		if err := s.take(s.wcs[:n]); err != nil {
			return err
		}
		if s.o.Duration > 0 && s.now >= s.o.Duration && s.t.sends() {
			// the peer may have stopped receiving: what is under way will not complete
			return errTimeUp
		}
	}
	return nil
}

// lookUp is how many turns pass between looks at the context.
const lookUp = 256

// some waits for completions, if the pacer holds messages back for no longer than until the next is
// due.
func (s *stream) some(ctx context.Context, wait *session.Waiter) (n int, err error) {
	if !s.held {
		return wait.Wait(ctx, s.wcs)
	}
	due := s.pacer.next()
	wait.Nap = max(due-time.Since(s.start), 1)
	err = wait.Until(ctx, s.wcs, func() bool { return n > 0 || time.Since(s.start) >= due },
		func(got []roce.WC) error { n = len(got); return nil })
	wait.Nap = 0
	return n, err
}

// finished says whether all messages have gone and come.
func (s *stream) finished() bool {
	for _, q := range s.queues {
		if s.sends && (s.more(q) > 0 || q.done < q.signed) {
			return false
		}
		if s.takes && (s.o.Duration > 0 && s.now < s.o.Duration || q.got < s.o.Iters) {
			return false
		}
	}
	return true
}

// more is how many messages a queue pair has yet to post.
func (s *stream) more(q *queue) int {
	if s.o.Duration == 0 {
		return s.o.Iters - q.posted
	}
	if s.now < s.o.Duration {
		return atOnce
	}
	return 0
}

// post fills the send queues.
func (s *stream) post() error {
	if s.pacer != nil {
		return s.postPaced()
	}
	for _, q := range s.queues {
		for n := s.room(q); n > 0; n = s.room(q) {
			if err := s.send(q, n); err != nil {
				return err
			}
		}
	}
	return nil
}

// postPaced posts what is due, the queue pairs taking turns.
func (s *stream) postPaced() error {
	s.held = false
	for full := 0; full < len(s.queues); {
		q := s.queues[s.turn]
		if n := s.room(q); n > 0 {
			n = min(n, s.pacer.due(time.Since(s.start)))
			if n == 0 {
				s.held = true
				return nil
			}
			if err := s.send(q, n); err != nil {
				return err
			}
			s.pacer.sent += n
			full = 0
		} else {
			full++
		}
		s.turn = (s.turn + 1) % len(s.queues)
	}
	return nil
}

// room is how many messages a queue pair takes in one list.
func (s *stream) room(q *queue) int {
	return min(len(q.wrs), s.o.PostList, s.o.TxDepth-(q.posted-q.done), s.more(q))
}

// send posts a list of n messages.
func (s *stream) send(q *queue, n int) error {
	s.address(q, n)
	if s.posts != nil {
		t := time.Since(s.start)
		for range n {
			s.posts = append(s.posts, t)
		}
	}
	return q.PostSend(q.wrs[:n]...)
}

// address completes the next n requests: which are signaled, and where in the peer's memory they
// go. Small ones wander over one cycle, each on a cache line of its own, as perftest's do.
func (s *stream) address(q *queue, n int) {
	step := s.cacheLine
	if s.size > step {
		step = (s.size + s.cacheLine - 1) / s.cacheLine * s.cacheLine
	}
	slots := s.cycle / step
	if s.size > s.cycle/2 {
		slots = 1
	}
	for i := range q.wrs[:n] {
		w := &q.wrs[i]
		w.RemoteAddr = q.peer.VAddr + uint64(q.posted%slots*step)
		q.posted++
		w.Flags = 0
		if w.Inline != nil {
			w.Flags = roce.SendInline
		}
		if q.posted%s.o.CQMod == 0 || q.posted == s.o.Iters || q.posted-q.signed == s.o.TxDepth {
			w.Flags |= roce.SendSignaled
			q.signed = q.posted
		}
		w.WRID = uint64(q.posted)<<countShift | uint64(q.index)
	}
}

// take accounts for completions.
func (s *stream) take(wcs []roce.WC) error {
	if s.now == 0 && (s.yield || !s.sends) {
		s.start = time.Now() // who waits for the peer starts the clock with its first message
	}
	s.now = time.Since(s.start)
	for i := range wcs {
		wc := &wcs[i]
		if err := s.check(wc); err != nil {
			return err
		}
		q := s.queues[wc.WRID&indexMask]
		if wc.WRID&receive != 0 {
			q.got++
			s.yield = false
			continue
		}
		was := q.done
		q.done = int(wc.WRID >> countShift)
		if s.dones != nil {
			for range q.done - was - 1 {
				s.dones = append(s.dones, 0)
			}
			s.dones = append(s.dones, s.now)
		}
	}
	if s.takes {
		for _, q := range s.queues {
			if q.asked-q.got <= s.o.RxDepth-min(len(q.rwrs), s.o.RxDepth/4+1) || q.asked == q.got {
				if err := s.refill(q); err != nil {
					return err
				}
			}
		}
	}
	s.mark()
	return nil
}

// silence says whether nothing will come any more: the time is up, or the peer has gone on to its
// next round and what is missing is lost.
func (s *stream) silence() bool {
	if s.o.Duration > 0 && s.now > 0 {
		s.now = time.Since(s.start)
		if s.now >= s.o.Duration {
			return true
		}
	}
	if s.link.Pending() == 0 {
		return false
	}
	if s.o.Duration == 0 {
		got, want := 0, s.o.Iters*len(s.queues)
		for _, q := range s.queues {
			got += q.got
		}
		s.warn = append(s.warn,
			fmt.Sprintf("%d of %d messages of %d bytes did not arrive, and %v does not repeat them: %s",
				want-got, want, s.size, s.o.Type, s.whereLost()))
	}
	return true
}

// whereLost says where this end knows that messages were lost.
func (s *stream) whereLost() string {
	stats, port := s.s.Stats(), s.s.PortInfo()
	var where []string
	if n := stats.Port.RecvOverflow; n > 0 {
		where = append(where,
			fmt.Sprintf("the receive buffer of %d bytes was full %d times (net.core.rmem_max limits it; "+
				"else --rate-limit at the sender, or a smaller --tx-depth)", port.RecvBuffer, n))
	}
	if n := stats.Engine.Drops[wire.DropNoRecv]; n > 0 {
		where = append(where, fmt.Sprintf("%d packets found no receive (a larger --rx-depth)", n))
	}
	if len(where) == 0 {
		return "this end has not seen them"
	}
	return strings.Join(where, "; ")
}
