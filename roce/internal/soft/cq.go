package soft

// The completion queue. Below it is one ring per lane, since the order of completions is promised
// within a queue pair only and a queue pair lives on one lane. Stages: the object, polling (which
// runs the stack), size and moderation, closing. Being told of completions is in wait.go.

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goroce/goroce/qp"
)

// CQInit says what completion queue to make.
type CQInit struct {
	CQE     int // completions that it holds at least
	Context any // the owner's: events name the queue by it
	// told of the completions that ReqNotify asks for, on a goroutine that has a lane's turn: it
	// must not wait, nor call the device; nil: nobody can ask
	Notify  func()
	Channel *Channel // where Notify makes an event; nil: nobody waits there
	// one goroutine at a time polls, resizes and waits, and closes or resets queue pairs that
	// complete here
	Single    bool
	KeepTimes bool // PollEx tells when each completion was published
	Wallclock bool // and also as a time of day
}

// CQ is a completion queue. All methods may be called from any goroutine, but see CQInit.Single.
type CQ struct {
	sleepers
	rings []*qp.CQ // [i] is filled by dev.lanes[i]
	CQInit

	// holds a token, for a goroutine in Wait, when an armed queue got a completion
	woken chan struct{}

	waiters atomic.Int32 // goroutines in Wait
	wanted  atomic.Bool  // by ReqNotify: the token is also for notify
	linger  linger

	// a poller has to look beyond the rings: purged is not empty, a purge is going on, or the queue
	// is closed
	other atomic.Bool

	mu    sync.Mutex // the consumer side: one poller at a time; polls of a Single queue do without
	first int        // the ring that the next poll looks at first
	// what a purge took out of the rings and put back: older than what is in them
	purged []qp.WCEx
	closed bool
}

// CreateCQ makes a completion queue.
func (d *Device) CreateCQ(init CQInit) (*CQ, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := &CQ{CQInit: init, woken: make(chan struct{}, 1)}
	c.sleepers.init(d)
	err := d.eachLane(func(e *qp.Engine) error {
		q, err := e.CreateCQ(init.CQE, c)
		if err == nil {
			if init.KeepTimes || init.Wallclock {
				q.KeepTimes()
			}
			c.rings = append(c.rings, q)
		}
		return err
	})
	if err != nil {
		c.destroy()
		return nil, err
	}
	return c, nil
}

// on is the queue's ring of a lane; nil if there is no queue.
func (c *CQ) on(l *lane) *qp.CQ {
	if c == nil {
		return nil
	}
	return c.rings[l.index]
}

// count notes that a queue pair of lane l more (+1) or less (-1) completes here. The caller has the
// device's control lock.
func (c *CQ) count(l *lane, n int) {
	c.sleepers.count(l, n)
	if c.Channel != nil {
		c.Channel.count(l, n)
	}
}

// Cap returns how many completions the queue holds.
func (c *CQ) Cap() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rings[0].Cap()
}

// Len returns how many completions wait to be polled.
func (c *CQ) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.there()
}

// there is Len; the caller has the lock.
func (c *CQ) there() int {
	n := len(c.purged)
	for _, q := range c.rings {
		n += q.Len()
	}
	return n
}

// Poll takes up to len(wcs) completions and returns how many; it never sleeps. When there are none
// it takes a turn of the lanes first. The error is ErrOverrun once completions were lost, ErrClosed
// after Close; then the number is 0.
func (c *CQ) Poll(wcs []qp.WC) (n int, err error) {
	if n, err = c.poll(wcs); n > 0 && c.linger.most.Load() != 0 {
		c.stay()
	}
	return n, err
}

func (c *CQ) poll(wcs []qp.WC) (int, error) {
	if !c.idle() || len(wcs) == 0 {
		n, err := c.take(wcs)
		if n > 0 || err != nil || len(wcs) == 0 {
			c.visit(n)
			return n, err
		}
	}
	c.look()
	if c.run() {
		return c.take(wcs)
	}
	return 0, nil
}

// PollEx is Poll with what the queue was asked to keep beside.
func (c *CQ) PollEx(wcs []qp.WCEx) (n int, err error) {
	if n, err = c.pollEx(wcs); n > 0 && c.linger.most.Load() != 0 {
		c.stay()
	}
	return n, err
}

func (c *CQ) pollEx(wcs []qp.WCEx) (int, error) {
	if !c.idle() || len(wcs) == 0 {
		n, err := c.takeEx(wcs)
		if n > 0 || err != nil || len(wcs) == 0 {
			c.visit(n)
			return n, err
		}
	}
	c.look()
	if c.run() {
		return c.takeEx(wcs)
	}
	return 0, nil
}

// run takes a turn of the lanes and tells whether there is something to take then.
func (c *CQ) run() bool {
	pollsOn, yield := c.pollsOn(), false
	for _, l := range *c.lanes.Load() {
		yield = l.poll(c, pollsOn) || yield
	}
	if !c.idle() {
		return true
	}
	if yield {
		c.yield()
	}
	return false
}

// idle says, without the lock, that there is nothing to take and nothing to report.
func (c *CQ) idle() bool {
	for _, q := range c.rings {
		if q.Len() > 0 || q.Err() != nil {
			return false
		}
	}
	return !c.other.Load()
}

// visit tells the lanes of a poll that found n completions there already and did not run them.
func (c *CQ) visit(n int) {
	if n == 0 || c.armed() || c.Channel != nil && c.dev.loop.Load() == loopWaited {
		return
	}
	for _, l := range *c.lanes.Load() {
		l.visit()
	}
}

// take moves published completions to the application.
func (c *CQ) take(wcs []qp.WC) (n int, err error) {
	if !c.Single {
		c.mu.Lock()
	}
	if len(c.purged) > 0 {
		for n < min(len(wcs), len(c.purged)) {
			wcs[n] = c.purged[n].WC
			n++
		}
		c.takePurged(n)
	}
	for i := range c.rings {
		n += c.ringAt(c.first + i).Poll(wcs[n:])
	}
	err = c.taken(n, len(wcs))
	if !c.Single {
		c.mu.Unlock()
	}
	return n, err
}

// takeEx is take for PollEx.
func (c *CQ) takeEx(wcs []qp.WCEx) (n int, err error) {
	if !c.Single {
		c.mu.Lock()
	}
	if len(c.purged) > 0 {
		n = copy(wcs, c.purged)
		c.takePurged(n)
	}
	for i := range c.rings {
		n += c.ringAt(c.first + i).PollEx(wcs[n:])
	}
	err = c.taken(n, len(wcs))
	if !c.Single {
		c.mu.Unlock()
	}
	if c.Wallclock && n > 0 {
		wall := uint64(time.Now().UnixNano()) - uint64(c.dev.now())
		for i := range wcs[:n] {
			wcs[i].Wallclock = wcs[i].Timestamp + wall
			if !c.KeepTimes {
				wcs[i].Timestamp = 0
			}
		}
	}
	return n, err
}

// takePurged notes that n of what a purge had put back are taken.
func (c *CQ) takePurged(n int) {
	c.purged = c.purged[n:]
	c.other.Store(len(c.purged) > 0 || c.closed)
}

// taken is what a poll does that found n completions of at most so many: the error if there are
// none.
func (c *CQ) taken(n, most int) error {
	if n == most && len(c.rings) > 1 { // so that no lane starves
		c.first = (c.first + 1) % len(c.rings)
	}
	switch {
	case n > 0:
		return nil
	case c.closed:
		return fmt.Errorf("CQ: %w", ErrClosed)
	}
	err := c.overrun()
	if err == nil {
		return nil
	}
	for i, q := range c.rings { // the lanes' rings are one to the application
		if q.Err() == nil {
			c.dev.lanes[i].do(func(e *qp.Engine, _ qp.Time) error { return e.FailCQ(q) })
		}
	}
	return err
}

// ringAt is the ring of lane i modulo the number of lanes.
func (c *CQ) ringAt(i int) *qp.CQ {
	if i >= len(c.rings) {
		i -= len(c.rings)
	}
	return c.rings[i]
}

func (c *CQ) overrun() error {
	for _, q := range c.rings {
		if err := q.Err(); err != nil {
			return fmt.Errorf("%w: it holds %d", err, q.Cap())
		}
	}
	return nil
}

// Resize makes the queue hold at least cqe completions, and keeps those that are in it. With
// several lanes each has a ring of that size.
func (c *CQ) Resize(cqe int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch n := c.there(); {
	case c.closed:
		return ErrClosed
	case cqe > 0 && cqe < n:
		return fmt.Errorf("%w: %d entries, %d completions are in the queue", qp.ErrInvalid, cqe, n)
	}
	before := c.rings[0].Cap()
	for i := range c.rings {
		if err := c.resizeRing(i, cqe); err != nil {
			for j := range i { // to what it was, which it can hold
				c.resizeRing(j, before)
			}
			return err
		}
	}
	return nil
}

func (c *CQ) resizeRing(i, cqe int) error {
	return c.dev.lanes[i].do(func(e *qp.Engine, _ qp.Time) error { return e.ResizeCQ(c.rings[i], cqe) })
}

// Moderate has notifications wait for count completions, or until the first of them is period old.
// Each lane counts for itself. Wait is not affected.
func (c *CQ) Moderate(count int, period time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	for i, q := range c.rings {
		err := c.dev.lanes[i].do(func(e *qp.Engine, t qp.Time) error {
			return e.ModerateCQ(t, q, count, qp.Time(period))
		})
		if err != nil {
			return err
		}
	}
	return nil
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
	for i, q := range c.rings {
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
	// what is out of the rings and not back yet counts for a goroutine that looks without the lock
	c.other.Store(true)
	goes := func(wc qp.WCEx) bool { return wc.QPN == qpn && !(keep && wc.Opcode >= qp.WCRecv) }
	c.purged = slices.DeleteFunc(c.purged, goes)
	var wcs [64]qp.WCEx
	for _, q := range c.rings {
		for n := q.PollEx(wcs[:]); n > 0; n = q.PollEx(wcs[:]) {
			c.purged = append(c.purged, slices.DeleteFunc(wcs[:n], goes)...)
		}
	}
	c.other.Store(len(c.purged) > 0 || c.closed)
}
