package soft

// How an application is told of completions. Stages: notification (arm, tell), waiting (poll, arm,
// look again, sleep).

import (
	"context"
	"fmt"
	"time"

	"github.com/goroce/goroce/qp"
)

// maxSpin is how long Wait polls at most before it arms and sleeps: about what going to sleep and
// waking up costs.
const maxSpin = 50 * time.Microsecond

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
	c.stopPolling()
	c.handOver()
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

// stopPolling ends the lease on the lanes: the application is going to sleep.
func (c *CQ) stopPolling() {
	for _, l := range *c.drives.Load() {
		l.drive.StopsPolling()
	}
}

// handOver leaves the lanes to their background, unless another goroutine polls them.
func (c *CQ) handOver() {
	for _, l := range *c.drives.Load() {
		l.carryOut(l.drive.HandsOver(l.clock.now()))
	}
}

// tell tells the application that has armed the queue; the lane calls it when an armed queue got a
// completion.
func (c *CQ) tell() {
	if c.wanted.Load() && c.wanted.Swap(false) {
		c.Notify()
	}
	c.wake()
}

// wake has a goroutine in Wait look again.
func (c *CQ) wake() {
	select {
	case c.woken <- struct{}{}:
	default:
	}
	c.rouse()
}

// rouse has a goroutine in Wait that sleeps on the port look again.
func (c *CQ) rouse() {
	for _, l := range c.dev.lanes {
		if l.relief.awaits.Load() == c {
			l.rouseRelief()
		}
	}
}

// Wait takes up to len(wcs) completions, at least one, and waits for it if need be: it polls for
// some microseconds, as Poll does, then arms the queue and sleeps.
//
// Where sleeps have been long lately it sleeps at once. If all that completes here comes from one
// lane and nobody else watches its port, the goroutine that waits does, so that a packet wakes one
// thread (Linux sockets, without Config.Wrap); otherwise the background is woken and wakes the
// goroutine.
func (c *CQ) Wait(ctx context.Context, wcs []qp.WC) (int, error) {
	if len(wcs) == 0 {
		return 0, nil
	}
	c.waiters.Add(1)
	defer c.leave()
	for {
		if spin := time.Duration(c.spin.Load()); spin > 0 || c.dev.cfg.NoBackground {
			if n, err := c.pollFor(spin, wcs); n > 0 || err != nil {
				return n, err
			}
		} else if !c.idle() {
			if n, err := c.take(wcs); n > 0 || err != nil {
				return n, err
			}
		}
		if c.dev.cfg.NoBackground { // nobody would wake a sleeper
			if err := ctx.Err(); err != nil {
				return 0, err
			}
			continue
		}
		c.armWait()
		c.stopPolling()
		asleep := c.dev.now()
		if lanes := *c.drives.Load(); len(lanes) > 1 || !lanes[0].watchFor(ctx, c) {
			c.handOver()
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

// leave passes the token on: it was for one waiter, and there may be completions for more.
func (c *CQ) leave() {
	if c.waiters.Add(-1) > 0 {
		c.wake()
	}
}

// pollFor polls for a while.
func (c *CQ) pollFor(d time.Duration, wcs []qp.WC) (int, error) {
	for end := c.dev.now() + qp.Time(d); ; {
		n, err := c.Poll(wcs)
		if n > 0 || err != nil || c.dev.now() >= end {
			return n, err
		}
	}
}

// adapt learns from how long a sleep took whether polling for longer would have saved it.
func (c *CQ) adapt(slept time.Duration) {
	if slept < maxSpin {
		c.spin.Store(int64(maxSpin))
		return
	}
	c.spin.Store(c.spin.Load() / 2)
}
