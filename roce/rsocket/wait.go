package rsocket

// Waiting. A call that has to wait leads if nobody does: it alone takes completions, handles them
// for all, and tells the calls that wait beside it. A leader whose own wish is fulfilled, or whose
// time is up, goes, and one of these leads on.
// Stages: await (look, lead or follow) → lead (gather completions) → handle → flush (what is owed
// to the other end).

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/goroce/goroce/roce"
)

// A side is why a call waits. At most one call waits for each reason.
type side uint8

const (
	reading    side = iota
	writing         // for room
	asking          // Await, for either
	ending          // Close, for the other end to have everything
	owning          // for the completion of what was sent from the application's memory
	settling        // for the completion that lets what is owed be sent
	forgetting      // for all that comes after CloseRead
	watching        // for all that comes, for FD
	sides

	calls = owning + 1 // the sides before are those of calls, the others of goroutines of ours
)

// waiting is which calls wait.
type waiting struct {
	leading bool
	turns   int                  // of leaders, that have ended
	asleep  bool                 // the leader does not poll, whatever Config.Polling says
	beside  [sides]bool          // who waits for the leader,
	told    [sides]chan struct{} // and hears of it here

	wcs [64]roce.WC // the leader's

	// ended to have the leader look up, and then replaced. up says the same to a leader that polls.
	ctx context.Context
	end context.CancelFunc
	up  atomic.Bool

	want    int  // bytes that the writer has to write
	writer  bool // a call that waits for room, between two pieces of what it writes
	settles bool // settle has a goroutine,
	forgets bool // and so has CloseRead,
	watches bool // and watch
}

func (w *waiting) init() {
	for s := range w.told {
		w.told[s] = make(chan struct{}, 1)
	}
	w.ctx, w.end = context.WithCancel(context.Background())
}

// await waits until ready, and returns the error that comes first: net.ErrClosed, a deadline. The
// caller has mu, which is given away meanwhile.
func (c *Conn) await(s side, ready func(*Conn) bool) error {
	defer c.wait.up.Store(true) // whether a leader polls depends on who waits beside it
	for {
		if err := c.stopped(s); err != nil {
			return err
		}
		if ready(c) {
			return nil
		}
		if !c.wait.leading {
			c.lead(s, false)
			continue
		}
		c.follow(s)
	}
}

// follow waits beside the leader until it has something to tell.
func (c *Conn) follow(s side) {
	c.wait.beside[s] = true
	if c.wait.asleep && c.polls(s) {
		c.wait.asleep = false // once is enough
		c.wakeAll()
	}
	c.mu.Unlock()
	<-c.wait.told[s]
	c.mu.Lock()
	c.wait.beside[s] = false
}

// stopped says why a call of a side may not go on.
func (c *Conn) stopped(s side) error {
	switch {
	case c.life.closed() && s <= asking:
		return net.ErrClosed
	case c.until[s].passed, s == owning && c.until[writing].passed:
		return os.ErrDeadlineExceeded
	}
	return nil
}

// polls says whether a leader of a side polls until something comes: if it is a call or a call
// waits beside it.
func (c *Conn) polls(s side) bool {
	return c.cfg.Polling && (s < calls || slices.Contains(c.wait.beside[:calls], true))
}

// lead takes completions once, waiting for the first; of a connection that is gone below, or if it
// is to glance, as many as have come.
func (c *Conn) lead(s side, glance bool) {
	gone := c.life.gone()
	if n := c.reap(gone || glance, glance || c.polls(s)); gone && n == 0 { // all is handled
		c.end.Gone(syscall.ECONNRESET)
	}
	c.tellBeside()
}

// look takes what has completed, and waits for no more. The leader may have taken it and wait for
// the lock, or have looked too early: of two turns the second looks after this call began.
func (c *Conn) look(s side) {
	for upTo := c.wait.turns + 2; c.wait.turns < upTo; {
		if !c.wait.leading {
			c.reap(true, true)
			c.tellBeside()
			return
		}
		c.wakeAll()
		c.follow(s)
	}
}

// reap takes completions and handles them; once: it looks only once for them.
func (c *Conn) reap(once, polls bool) (n int) {
	c.wait.leading = true
	c.wait.up.Store(false)
	c.wait.asleep = !polls
	ctx := c.wait.ctx
	c.mu.Unlock()
	n, err := c.gather(ctx, once, polls)
	c.mu.Lock()
	c.wait.leading = false
	c.wait.turns++
	if err != nil && ctx.Err() == nil {
		c.end.Fail(err)
	}
	c.handle(c.wait.wcs[:n])
	return n
}

// lookForEnd takes what came before the end of the connection below, and then the end, so that
// nothing more is sent in vain. Whoever leads does it already. A peer that goes on sending does not
// hold up the caller for longer than that wants to wait.
func (c *Conn) lookForEnd() {
	for c.life.gone() && !c.wait.leading && !c.over() && c.stopped(writing) == nil {
		c.lead(writing, true)
	}
}

// looks is how often a leader looks for completions before it sleeps: some tens of microseconds.
const looks = 64

// gather is the leader's wait. Between two looks other goroutines may run: on a machine with few
// processors it is one of them that the other end waits for, such as the handler of a request. (A
// CQ.Wait that has to wait also polls first, but hardly lets others run. HTTP over two processors
// took 84 us for a request, and 23 so.)
func (c *Conn) gather(ctx context.Context, once, polls bool) (n int, err error) {
	for i := 0; ; i++ {
		if i == looks && !polls {
			return c.cq.Wait(ctx, c.wait.wcs[:])
		}
		if n, err = c.cq.Poll(c.wait.wcs[:]); n > 0 || err != nil || once || c.wait.up.Load() {
			return n, err
		}
		runtime.Gosched()
	}
}

// tellBeside has those who wait beside the leader look again.
func (c *Conn) tellBeside() {
	for s, waits := range c.wait.beside {
		if waits {
			select {
			case c.wait.told[s] <- struct{}{}:
			default:
			}
		}
	}
}

// wakeAll has everybody who waits look again.
func (c *Conn) wakeAll() {
	c.tellBeside()
	if c.wait.leading {
		c.wait.up.Store(true)
		c.wait.end()
		c.wait.ctx, c.wait.end = context.WithCancel(context.Background())
	}
}

// handle tells the end of completions, and sends what is owed then.
func (c *Conn) handle(wcs []roce.WC) {
	there := c.end.Readable()
	for i := range wcs {
		switch wc := &wcs[i]; {
		case wc.Status != roce.WCSuccess:
			c.end.Fail(failure(wc))
		case wc.WRID&receiveID == 0:
			c.end.Sent(wc.WRID)
		case wc.Flags&roce.WCWithImm == 0:
			c.end.Fail(fmt.Errorf("%w: a message without immediate", ErrProtocol))
		default:
			c.end.Received(wc.Imm, wc.ByteLen)
		}
	}
	c.more = c.more || c.end.Readable() > there
	c.flush()
}

// failure is what the failure of a work request means for a stream.
func failure(wc *roce.WC) error {
	switch {
	case wc.Status != roce.WCRetryExcErr:
		return fmt.Errorf("%w (%v)", syscall.ECONNRESET, wc.Status)
	case wc.VendorErr == roce.VendorErrTooLong:
		return fmt.Errorf("%w (%v): %w", syscall.ETIMEDOUT, wc.Status, roce.ErrTooLong)
	}
	return fmt.Errorf("%w (%v)", syscall.ETIMEDOUT, wc.Status)
}

// flush posts what the other end is owed, and receives.
func (c *Conn) flush() {
	for c.end.Control(&c.req) {
		c.post(nil, 0)
	}
	if n := c.end.Reposts(); n > 0 {
		if err := c.postReceives(n); err != nil {
			c.end.Fail(err)
		}
	}
	c.show()
}

// post posts c.req, whose bytes are of a region from an offset on, round its end; nil: it has none,
// or inline ones.
func (c *Conn) post(of *roce.MR, from int) {
	r := &c.req
	var wrs [2]roce.SendWR
	wr := &wrs[1]
	*wr = roce.SendWR{WRID: r.ID, Opcode: roce.WRWrite, Inline: r.Inline, RemoteAddr: r.To, RKey: r.RKey}
	if r.HasImm {
		wr.Opcode, wr.Imm = roce.WRWriteWithImm, r.Imm
	}
	if r.Signaled {
		wr.Flags = roce.SendSignaled
	}
	if r.Inline != nil {
		wr.Flags |= roce.SendInline
	}
	if of != nil {
		wr.SGL = ring(&c.sges[1], of, from+r.Lead, r.Length-r.Lead)
	}
	post := wrs[1:]
	if r.Lead > 0 {
		wrs[0] = roce.SendWR{
			Opcode:     roce.WRWrite,
			SGL:        ring(&c.sges[0], of, from, r.Lead),
			RemoteAddr: r.To,
			RKey:       r.RKey,
		}
		wr.RemoteAddr += uint64(r.Lead)
		post = wrs[:]
	}
	if err := c.qp.PostSend(post...); err != nil {
		c.end.Fail(err)
	}
}

// ring names n bytes of a region from an offset on, round its end.
func ring(sges *[2]roce.SGE, of *roce.MR, from, n int) []roce.SGE {
	if from %= of.Len(); from+n > of.Len() {
		first := of.Len() - from
		*sges = [2]roce.SGE{of.SGE(from, first), of.SGE(0, n-first)}
		return sges[:]
	}
	sges[0] = of.SGE(from, n)
	return sges[:1]
}

// postReceives posts n receives, which have no memory: all that comes is immediates (section 1).
func (c *Conn) postReceives(n int) error {
	for n > 0 {
		k := min(n, len(c.receives))
		if err := c.qp.PostRecv(c.receives[:k]...); err != nil {
			return err
		}
		n -= k
	}
	return nil
}

// settle sends what is owed when that becomes possible, although no call waits: what the other end
// waits for must not wait for the next call of this one. It is rare: four updates must be under
// way.
func (c *Conn) settle() {
	if c.wait.leading || c.life.closed() || c.wait.settles {
		return // somebody is there
	}
	c.wait.settles = true
	c.attend(settling, func(c *Conn) bool {
		done := !c.end.Owes()
		c.wait.settles = !done
		return done
	})
}

// attend waits on a goroutine of its own, for as long as the connection is open. The caller has mu.
func (c *Conn) attend(s side, ready func(*Conn) bool) {
	c.users++
	go func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.await(s, func(c *Conn) bool { return ready(c) || c.life.closed() })
		c.left()
	}()
}

// deadline is when the calls of a side have to return. Its timer is made once.
type deadline struct {
	timer  *time.Timer
	passed bool
	at     time.Time // zero: never
}

// set sets it; the zero time is never.
func (d *deadline) set(c *Conn, t time.Time) {
	d.stop()
	d.passed = false
	if t.IsZero() {
		return
	}
	left := time.Until(t)
	switch d.at = t; {
	case left <= 0:
		d.passed = true
		c.wakeAll()
	case d.timer == nil:
		d.timer = time.AfterFunc(left, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			d.pass(c)
		})
	default:
		d.timer.Reset(left)
	}
}

// pass is what the timer does. It may be early, or late for what was set before.
func (d *deadline) pass(c *Conn) {
	if d.at.IsZero() || d.passed {
		return
	}
	if left := time.Until(d.at); left > 0 {
		d.timer.Reset(left)
		return
	}
	d.passed = true
	c.wakeAll()
}

func (d *deadline) stop() {
	d.at = time.Time{}
	if d.timer != nil {
		d.timer.Stop()
	}
}
