package soft

// How an application is told of completions. Stages: who sleeps for which lanes; notification (arm,
// tell); waiting for a completion (poll, arm, look again, sleep), and for an event of a channel.

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/goroce/goroce/qp"
)

const (
	// maxSpin is how long Wait polls before it arms and sleeps: about what going to sleep and
	// waking up costs.
	maxSpin = 50 * time.Microsecond
	// trySpin is how long it polls to find out whether it sleeps only because its peer does: the
	// two wake-ups and all that lies between them.
	trySpin = 4 * maxSpin
	// A try is tryWaits waits. There is one after tryEvery sleeps that were shorter than trySpin,
	// and after twice as many each time it was of no use, up to tryMost. It was of use if tryQuick
	// waits in a row were shorter than maxSpin.
	tryWaits, tryEvery, tryMost, tryQuick = 16, 16, 1024, 4
)

// awaited is what an application polls and waits for: a CQ or a Channel.
type awaited interface {
	// found tells whether the turn of l has brought something.
	found(l *lane) bool
	// calls tells whether a goroutine in Wait has to look.
	calls() bool
	// by are those in Wait.
	by() *sleepers
}

// sleepers are the goroutines that sleep for the same: a completion in a queue, or an event of a
// channel.
type sleepers struct {
	dev *Device
	// [i]: how many queue pairs of dev.lanes[i] bring it; under dev.mu
	pairs []int
	// the lanes that are run for it: where these queue pairs are
	lanes atomic.Pointer[[]*lane]
	spin  atomic.Int64 // ns to poll before a sleep; adapts
	tries tries
}

// tries is what two who wait for each other need to get out of sleep: each finds sleeps longer than
// maxSpin, as the other sleeps, and would sleep at once for ever. If both poll for a while, they
// find that the other is prompt.
type tries struct {
	waits atomic.Int32 // left of this try; 0: none is on
	short atomic.Int32 // sleeps shorter than trySpin until the next
	every atomic.Int32 // what short began at
	quick atomic.Int32 // waits in a row of this try that were shorter than maxSpin
}

func (s *sleepers) by() *sleepers { return s }

func (s *sleepers) init(d *Device) {
	s.dev, s.pairs = d, make([]int, len(d.lanes))
	s.lanes.Store(&d.lanes) // until there are queue pairs, whoever polls helps all
	s.spin.Store(int64(maxSpin))
	s.tries.short.Store(tryEvery)
	s.tries.every.Store(tryEvery)
}

// count notes that a queue pair of lane l more (+1) or less (-1) brings it, and with it which lanes
// are run. The caller has the device's control lock.
func (s *sleepers) count(l *lane, n int) {
	before := s.pairs[l.index]
	s.pairs[l.index] += n
	if before != 0 && s.pairs[l.index] != 0 {
		return
	}
	var lanes []*lane
	for i, l := range s.dev.lanes {
		if s.pairs[i] > 0 {
			lanes = append(lanes, l)
		}
	}
	// then nobody else would look for strays on the other lanes
	if len(lanes) == 0 || !s.dev.attended() {
		lanes = s.dev.lanes
	}
	s.lanes.Store(&lanes)
	s.rouse()
}

// only tells whether all of it comes from lane l.
func (s *sleepers) only(l *lane) bool {
	lanes := *s.lanes.Load()
	return len(lanes) == 1 && lanes[0] == l
}

// stopPolling ends the lease on the lanes: the application is going to sleep.
func (s *sleepers) stopPolling() {
	for _, l := range *s.lanes.Load() {
		l.drive.StopsPolling()
	}
}

// watch has a goroutine in Wait watch the port until it is to look, or ctx has ended; false: it is
// left to the background, which will wake it.
func (s *sleepers) watch(ctx context.Context, w awaited) bool {
	s.stopPolling()
	if lanes := *s.lanes.Load(); len(lanes) == 1 && lanes[0].watchFor(ctx, w) {
		return true
	}
	s.handOver()
	return false
}

// handOver leaves the lanes to their background, unless another goroutine polls them.
func (s *sleepers) handOver() {
	for _, l := range *s.lanes.Load() {
		l.carryOut(l.drive.HandsOver(l.clock.now()))
	}
}

// yield lets other goroutines run, and other lanes: what a poller waits for may have strayed there,
// and their background may be waiting for a processor.
func (s *sleepers) yield() {
	s.dev.helpLanes()
	s.dev.hear()
	s.dev.yield()
}

// rouse has a goroutine that sleeps on the port look again.
func (s *sleepers) rouse() {
	for _, l := range s.dev.lanes {
		if l.relief.awaits.Load() == s {
			l.rouseRelief()
		}
	}
}

// adapt learns from how long a sleep took whether polling for longer would have saved it.
func (s *sleepers) adapt(d time.Duration) {
	switch {
	case s.tries.waits.Load() > 0:
		s.tried(trySpin + d)
	case d < maxSpin:
		s.spin.Store(int64(maxSpin))
	case d < trySpin && s.tries.short.Add(-1) == 0:
		s.tries.waits.Store(tryWaits)
		s.spin.Store(int64(trySpin))
	default:
		s.spin.Store(s.spin.Load() / 2)
	}
}

// tried is a wait of a try, which took so long.
func (s *sleepers) tried(d time.Duration) {
	t := &s.tries
	switch {
	case d < maxSpin && t.quick.Add(1) == tryQuick: // the peer is awake
		t.every.Store(tryEvery)
		s.spin.Store(int64(maxSpin))
	case t.waits.Add(-1) > 0:
		if d >= maxSpin {
			t.quick.Store(0)
		}
		return
	default:
		t.every.Store(min(2*t.every.Load(), tryMost))
		s.spin.Store(0)
	}
	t.waits.Store(0)
	t.quick.Store(0)
	t.short.Store(t.every.Load())
}

// ReqNotify arms the queue: the next completion, or with solicitedOnly the next one that its sender
// marked SendSolicited or that is an error, is told to notify, once. Completions that are in the
// queue already do not count.
func (c *CQ) ReqNotify(solicitedOnly bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return ErrClosed
	case c.Notify == nil:
		return fmt.Errorf("%w: the completion queue has no channel: use Wait, or create it with one", qp.ErrInvalid)
	}
	c.wanted.Store(true)
	c.arm(solicitedOnly)
	if c.Channel == nil || !c.dev.loop.arms() {
		c.stopPolling()
		c.handOver()
	}
	return nil
}

// arm makes the next completion ring. A Poll that follows does not mean that the application goes
// on polling.
func (c *CQ) arm(solicitedOnly bool) {
	for _, q := range c.rings {
		q.Arm(solicitedOnly)
	}
}

// armWait is arm for a goroutine in Wait, which moderation does not hold up.
func (c *CQ) armWait() {
	c.mu.Lock()
	for _, q := range c.rings {
		q.ArmNow()
	}
	c.mu.Unlock()
}

// armed tells whether the application is asleep or about to be: whichever lane completes first is
// to ring. The rings alone know that: what is said a second time can be said too late.
func (c *CQ) armed() bool {
	for _, q := range c.rings {
		if !q.Armed() {
			return false
		}
	}
	return true
}

// armedNow tells whether armWait still holds, for a goroutine that is about to sleep. What another
// goroutine has asked for since by ReqNotify may be less.
func (c *CQ) armedNow() bool {
	for _, q := range c.rings {
		if !q.ArmedNow() {
			return false
		}
	}
	return true
}

// tell tells the application that has armed the queue; the lane calls it when an armed queue got a
// completion.
func (c *CQ) tell() {
	if c.wanted.Load() && c.wanted.Swap(false) {
		c.Notify()
		if c.Channel != nil {
			c.Channel.rouse()
		}
	}
	c.rouse()
}

// rouse has a goroutine in Wait look again, also one that sleeps on the token.
func (c *CQ) rouse() {
	select {
	case c.woken <- struct{}{}:
	default:
	}
	c.sleepers.rouse()
}

// Wait takes up to len(wcs) completions, at least one, and waits for it if need be: it polls for
// some microseconds, as Poll does, then arms the queue and sleeps.
//
// Where sleeps have been long lately it sleeps at once. If all that completes here comes from one
// lane and nobody else watches its port, the goroutine that waits does, so that a packet wakes one
// thread (a port of Linux sockets; one that Config.Wrap puts around it must have transport.Seats,
// too); otherwise the background is woken and wakes the goroutine.
func (c *CQ) Wait(ctx context.Context, wcs []qp.WC) (int, error) {
	if len(wcs) == 0 {
		return 0, nil
	}
	c.waiters.Add(1)
	defer c.leave()
	for attended := c.dev.attended(); ; {
		if spin := time.Duration(c.spin.Load()); spin > 0 || !attended {
			if n, err := c.pollFor(spin, wcs); n > 0 || err != nil {
				return n, err
			}
		} else if !c.idle() {
			if n, err := c.take(wcs); n > 0 || err != nil {
				return n, err
			}
		}
		if !attended { // nobody would wake a sleeper
			if err := ctx.Err(); err != nil {
				return 0, err
			}
			continue
		}
		c.armWait()
		asleep := c.dev.now()
		if !c.watch(ctx, c) {
			if n, err := c.Poll(wcs); n > 0 || err != nil {
				return n, err
			}
			select {
			case <-c.woken:
			case <-ctx.Done():
			}
		}
		c.adapt(time.Duration(c.dev.now() - asleep))
		// the token of what the relief has found; leave passes on what was for another goroutine
		select {
		case <-c.woken:
		default:
		}
		if c.idle() && ctx.Err() != nil {
			return 0, ctx.Err()
		}
	}
}

// calls tells whether a goroutine in Wait has to look. Who is woken has to arm the queue again,
// also if another goroutine was faster.
func (c *CQ) calls() bool { return !c.idle() || !c.armedNow() }

// found tells whether the turn of l has brought a completion.
func (c *CQ) found(l *lane) bool { return c.rings[l.index].Len() > 0 }

// leave passes the token on: it was for one waiter, and there may be completions for more.
func (c *CQ) leave() {
	if c.waiters.Add(-1) > 0 {
		c.rouse()
	}
}

// pollFor polls for a while.
func (c *CQ) pollFor(d time.Duration, wcs []qp.WC) (int, error) {
	for begun := c.dev.now(); ; {
		n, err := c.Poll(wcs)
		if n > 0 && d > maxSpin {
			c.tried(time.Duration(c.dev.now() - begun))
		}
		if n > 0 || err != nil || c.dev.now() >= begun+qp.Time(d) {
			return n, err
		}
	}
}

// Channel is where completion queues tell of the completions that ReqNotify asks for. Its owner has
// the events.
type Channel struct {
	sleepers
	there  func() bool     // whether there is an event: any goroutine, in a turn too
	ready  <-chan struct{} // a token can be received when there may be one
	closed atomic.Bool
}

// loop is what is known of an application that waits for events: it had to wait for the last one
// (loopWaited), and has found a queue empty since (loopDrained). Until it arms a queue it is
// believed to be in a loop, and to come back to Wait: its polls do not mean that it polls on, and
// the background is not woken for what it leaves. One that polls on instead has a lease from its
// next poll on. Sends and receives may complete together: of the second event, for which it did not
// wait, it arms another queue (loopArmed).
type loop struct{ atomic.Int32 }

const (
	loopNone int32 = iota
	loopArmed
	loopDrained
	loopWaited
)

// arms takes notice of a ReqNotify, and tells whether the application is believed to come back.
func (l *loop) arms() bool {
	switch l.Load() {
	case loopWaited, loopDrained:
		l.Store(loopArmed)
	case loopArmed:
		l.Store(loopNone)
	default:
		return false
	}
	return true
}

// pollsOn tells whether a poll that finds its queue empty means that the application polls on.
func (c *CQ) pollsOn() bool {
	return !c.armed() && !(c.Channel != nil && c.dev.loop.CompareAndSwap(loopWaited, loopDrained))
}

// NewChannel makes a channel, for completion queues of this device.
func (d *Device) NewChannel(there func() bool, ready <-chan struct{}) *Channel {
	ch := &Channel{there: there, ready: ready}
	ch.sleepers.init(d)
	return ch
}

// Wait returns true when there is an event, and false when ctx has ended or the channel is closed.
// It runs the stack for some microseconds, and then sleeps as CQ.Wait does. Who takes the turn that
// makes an event need not be woken to hear of it.
func (ch *Channel) Wait(ctx context.Context) bool {
	if ch.there() {
		return true
	}
	ch.dev.loop.Store(loopWaited)
	for attended := ch.dev.attended(); !ch.polls(attended); {
		switch {
		case ctx.Err() != nil || ch.closed.Load():
			return false
		case !attended: // nobody would wake a sleeper
			continue
		}
		asleep := ch.dev.now()
		if !ch.watch(ctx, ch) {
			select {
			case <-ch.ready:
			case <-ctx.Done():
			}
		}
		ch.adapt(time.Duration(ch.dev.now() - asleep))
	}
	return true
}

// polls runs the lanes for a while, and tells whether there is an event.
func (ch *Channel) polls(attended bool) bool {
	spin, begun := qp.Time(ch.spin.Load()), ch.dev.now()
	for !ch.there() {
		if spin == 0 && attended {
			return false
		}
		yield := false
		for _, l := range *ch.lanes.Load() {
			yield = l.poll(ch, true) || yield
		}
		switch {
		case ch.there():
		case ch.dev.now() >= begun+spin:
			return false
		case yield:
			ch.yield()
		}
	}
	if spin > qp.Time(maxSpin) {
		ch.tried(time.Duration(ch.dev.now() - begun))
	}
	return true
}

// calls tells whether a goroutine in Wait has to look.
func (ch *Channel) calls() bool { return ch.there() || ch.closed.Load() }

// found tells whether the turn of l has brought a completion that the channel is to tell of.
func (ch *Channel) found(l *lane) bool { return l.engine.Notifies() }

// Close ends Wait, for all who are in it.
func (ch *Channel) Close() {
	ch.closed.Store(true)
	ch.rouse()
}
