package soft

// The completion queue. Below it is one ring per lane, since the order of completions is promised
// within a queue pair only and a queue pair lives on one lane. Stages: the object, polling (which
// runs the stack), notification, waiting (poll, arm, look again, sleep), closing.

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goroce/goroce/qp"
)

// CQ is a completion queue. All methods may be called from any goroutine.
type CQ struct {
	dev     *Device
	lanes   []*qp.CQ // [i] is filled by dev.lanes[i]
	context any      // the owner's, for events
	notify  func()   // called when a completion comes that ReqNotify asked for; nil: nobody can ask

	woken chan struct{} // holds a token when an armed queue got a completion: it wakes who waits

	// the lanes that a poller of this queue runs: where its queue pairs are
	drives  atomic.Pointer[[]*lane]
	waiters atomic.Int32 // goroutines in Wait
	// between arm and token: the application is asleep or about to be
	armed  atomic.Bool
	wanted atomic.Bool  // by ReqNotify: the token is also for notify
	spin   atomic.Int64 // ns that Wait polls before it sleeps; adapts
	// the lane that a goroutine in Wait watches itself, while it sleeps
	relief atomic.Pointer[lane]
	// [i]: how many queue pairs of dev.lanes[i] complete here; under dev.mu
	pairs []int

	// a poller has to look beyond the rings: purged is not empty, or the queue is closed
	other atomic.Bool

	mu    sync.Mutex // the consumer side: one poller at a time
	first int        // the ring that the next poll looks at first
	// what a purge took out of the rings and put back: older than what is in them
	purged []qp.WC
	closed bool
}

// maxSpin is how long Wait polls at most before it arms and sleeps: about what going to sleep and
// waking up costs.
const maxSpin = 50 * time.Microsecond

// CreateCQ makes a completion queue for at least cqe completions. Events name it by context; notify
// is told of the completions that ReqNotify asks for, on a goroutine that has a lane's turn: it
// must not wait, nor call the device.
func (d *Device) CreateCQ(cqe int, context any, notify func()) (*CQ, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := &CQ{dev: d, context: context, notify: notify, woken: make(chan struct{}, 1), pairs: make([]int, len(d.lanes))}
	c.spin.Store(int64(maxSpin))
	c.drives.Store(&d.lanes) // until it has queue pairs, whoever polls it helps all
	err := d.eachLane(func(e *qp.Engine) error {
		q, err := e.CreateCQ(cqe)
		if err == nil {
			q.Context = c
			c.lanes = append(c.lanes, q)
		}
		return err
	})
	if err != nil {
		c.destroy()
		return nil, err
	}
	return c, nil
}

// count notes that a queue pair of lane l more (+1) or less (-1) completes here, and with it which
// lanes a poller runs. The caller has the device's control lock.
func (c *CQ) count(l *lane, n int) {
	before := c.pairs[l.index]
	c.pairs[l.index] += n
	if before != 0 && c.pairs[l.index] != 0 {
		return
	}
	var lanes []*lane
	for i, l := range c.dev.lanes {
		if c.pairs[i] > 0 {
			lanes = append(lanes, l)
		}
	}
	// then nobody else would look for strays on the other lanes
	if len(lanes) == 0 || c.dev.cfg.NoBackground {
		lanes = c.dev.lanes
	}
	c.drives.Store(&lanes)
	c.rouse()
}

// drivesOnly tells whether all that completes here comes from lane l.
func (c *CQ) drivesOnly(l *lane) bool {
	lanes := *c.drives.Load()
	return len(lanes) == 1 && lanes[0] == l
}

// Cap returns how many completions the queue holds.
func (c *CQ) Cap() int { return c.lanes[0].Cap() }

// Len returns how many completions wait to be polled.
func (c *CQ) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.purged)
	for _, q := range c.lanes {
		n += q.Len()
	}
	return n
}

// Poll takes up to len(wcs) completions and returns how many; it never sleeps. When there are none
// it takes a turn of the lanes first. The error is ErrOverrun once completions were lost, ErrClosed
// after Close; then the number is 0.
func (c *CQ) Poll(wcs []qp.WC) (int, error) {
	if !c.idle() || len(wcs) == 0 {
		n, err := c.take(wcs)
		if n > 0 || err != nil || len(wcs) == 0 {
			c.visit(n)
			return n, err
		}
	}
	rest := false
	for _, l := range *c.drives.Load() {
		rest = l.poll(c, !c.armed.Load()) || rest
	}
	if !c.idle() {
		return c.take(wcs)
	}
	if rest {
		c.rest()
	}
	return 0, nil
}

// idle says, without the lock, that there is nothing to take and nothing to report.
func (c *CQ) idle() bool {
	for _, q := range c.lanes {
		if q.Len() > 0 || q.Err() != nil {
			return false
		}
	}
	return !c.other.Load()
}

// visit tells the lanes of a poll that found n completions there already and did not run them.
func (c *CQ) visit(n int) {
	if n == 0 || c.armed.Load() {
		return
	}
	for _, l := range *c.drives.Load() {
		l.visit()
	}
}

// take moves published completions to the application.
func (c *CQ) take(wcs []qp.WC) (n int, err error) {
	c.mu.Lock()
	if len(c.purged) > 0 {
		n = copy(wcs, c.purged)
		c.purged = c.purged[n:]
		c.other.Store(len(c.purged) > 0 || c.closed)
	}
	for i := range c.lanes {
		n += c.ringAt(c.first + i).Poll(wcs[n:])
	}
	if n == len(wcs) && len(c.lanes) > 1 { // so that no lane starves
		c.first = (c.first + 1) % len(c.lanes)
	}
	switch {
	case n > 0:
	case c.closed:
		err = fmt.Errorf("CQ: %w", ErrClosed)
	default:
		err = c.overrun()
	}
	c.mu.Unlock()
	return n, err
}

// ringAt is the ring of lane i modulo the number of lanes.
func (c *CQ) ringAt(i int) *qp.CQ {
	if i >= len(c.lanes) {
		i -= len(c.lanes)
	}
	return c.lanes[i]
}

func (c *CQ) overrun() error {
	for _, q := range c.lanes {
		if err := q.Err(); err != nil {
			return fmt.Errorf("%w: it holds %d", err, q.Cap())
		}
	}
	return nil
}

// rest lets other goroutines run, and other lanes: what this poller waits for may have strayed
// there, and their background may be waiting for a processor.
func (c *CQ) rest() {
	c.dev.helpLanes()
	c.dev.hear()
	yield()
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
	case c.notify == nil:
		return fmt.Errorf("%w: the completion queue has no channel: use Wait, or create it with one", qp.ErrInvalid)
	}
	c.wanted.Store(true)
	c.arm(solicitedOnly)
	c.unclaim()
	return nil
}

// arm makes the next completion ring. A Poll that follows does not mean that the application goes
// on polling.
func (c *CQ) arm(solicitedOnly bool) {
	for _, q := range c.lanes {
		q.Arm(solicitedOnly)
	}
	c.armed.Store(true)
}

// unclaim leaves the lanes to their background: the application is going to sleep.
func (c *CQ) unclaim() {
	for _, l := range *c.drives.Load() {
		l.unclaim()
	}
}

// tell tells who has armed the queue; the lane calls it when an armed queue got a completion.
func (c *CQ) tell() {
	c.armed.Store(false)
	if c.wanted.Load() && c.wanted.Swap(false) {
		c.notify()
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
	if l := c.relief.Load(); l != nil {
		l.rouseRelief()
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
		if c.dev.cfg.NoBackground { // who sleeps would not be woken
			if err := ctx.Err(); err != nil {
				return 0, err
			}
			continue
		}
		c.mu.Lock()
		c.arm(false)
		c.mu.Unlock()
		asleep := now()
		if lanes := *c.drives.Load(); len(lanes) > 1 || !lanes[0].watchFor(ctx, c) {
			c.unclaim()
			if n, err := c.Poll(wcs); n > 0 || err != nil {
				return n, err
			}
			select {
			case <-c.woken:
			case <-ctx.Done():
			}
		}
		c.adapt(time.Duration(now() - asleep))
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

// leave passes the token on: it was for one waiter, there may be completions for more, and the
// queue is not armed any more.
func (c *CQ) leave() {
	if c.waiters.Add(-1) > 0 {
		c.armed.Store(false)
		c.wake()
	}
}

// pollFor polls for a while.
func (c *CQ) pollFor(d time.Duration, wcs []qp.WC) (int, error) {
	for end := now() + qp.Time(d); ; {
		n, err := c.Poll(wcs)
		if n > 0 || err != nil || now() >= end {
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

// Close destroys the queue, where no queue pair completes any more. Waiters return with ErrClosed.
// A second Close does nothing.
func (c *CQ) Close() error {
	d := c.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	if err := c.destroy(); err != nil {
		return err
	}
	c.closed, c.purged = true, nil
	c.other.Store(true)
	c.wanted.Store(false)
	c.tell()
	return nil
}

// destroy takes the rings away from the lanes. It leaves them to c, empty: a poller finds nothing
// and then sees closed.
func (c *CQ) destroy() error {
	for i, q := range c.lanes {
		if err := c.dev.lanes[i].do(func(e *qp.Engine, _ qp.Time) error { return e.DestroyCQ(q) }); err != nil {
			return err
		}
		var lost [16]qp.WC
		for q.Poll(lost[:]) > 0 {
		}
	}
	return nil
}

// purge takes out the completions of a queue pair that is gone: after QP.Close none of it are seen
// any more. With keep those of its receives stay: they are of requests that it did not own.
func (c *CQ) purge(qpn uint32, keep bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.purged
	var wcs [64]qp.WC
	for _, q := range c.lanes {
		for n := q.Poll(wcs[:]); n > 0; n = q.Poll(wcs[:]) {
			all = append(all, wcs[:n]...)
		}
	}
	c.purged = nil
	for _, wc := range all {
		if wc.QPN != qpn || keep && wc.Opcode >= qp.WCRecv {
			c.purged = append(c.purged, wc)
		}
	}
	c.other.Store(len(c.purged) > 0 || c.closed)
}
