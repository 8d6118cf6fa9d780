package rsocket

// Readiness, for programs with an event loop: what a call would do without waiting (the calls are
// in try.go), and a file descriptor that says so as that of a TCP socket does.
// Stages: FD makes the descriptor and a goroutine that takes what comes, as nobody else does while
// the program is in its loop → whatever changes what there is shows it, with the lock that it is
// changed under → Watch, for who sleeps on the descriptor now and then → Close. Who sleeps there
// may wait a while before, which is cheaper if something comes soon (Await).

import (
	"runtime"
	"time"

	"github.com/goroce/goroce/roce/rsocket/internal/stream"
)

// Readiness says which calls would return at once.
type Readiness uint8

// What something is ready for, and in which event of poll(2) its descriptor says so. As with TCP an
// end or an error makes both Readable and Writable, for that is what the next call returns.
const (
	Readable Readiness = 1 << iota // POLLIN: one that reads, or Accept
	Writable                       // POLLOUT: one that writes; of a Socket, Conn
	Ended                          // POLLRDHUP: nothing will come any more
	HungUp                         // POLLHUP: nothing can go either, or it was closed
)

// Readiness takes what has come, and says what the connection is ready for.
func (c *Conn) Readiness() Readiness {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.enter() != nil {
		return c.readiness()
	}
	c.glance()
	r := c.readiness()
	c.leave()
	return r
}

// FD is a file descriptor for poll, select and epoll, which shows Readiness as that of a TCP socket
// does: each event for as long as it lasts, with an edge when it begins and, of POLLIN, with
// everything that comes. Only ask for its events, and neither read, write nor close it: it is
// closed by Close. It is made by the first call, and from then on a goroutine takes what comes, so
// that nothing waits for the next call. ErrNotSupported where the system is not Linux.
func (c *Conn) FD() (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.enter(); err != nil {
		return -1, c.opError("poll", err)
	}
	defer c.leave()
	if c.signs == nil {
		signs, err := newSigns()
		if err != nil {
			return -1, c.opError("poll", err)
		}
		c.watch(signs)
	}
	return c.signs.fd(), nil
}

// Watch says whether anybody sleeps on the descriptor of FD, as is thought from the first FD on.
// While nobody does it shows nothing new, nothing is done for it, and calls that wait are faster.
// Watch(true) has it show what there is before it returns. net.ErrClosed.
func (c *Conn) Watch(on bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.enter(); err != nil {
		return c.opError("poll", err)
	}
	defer c.leave()
	switch {
	case c.signs == nil || c.watched == on:
	case on:
		c.watch(c.signs)
	default:
		c.watched = false
		c.wakeAll() // the goroutine goes
	}
	return nil
}

// watch shows from now on what the connection is ready for. The caller has mu, and is inside.
func (c *Conn) watch(signs *signs) {
	c.signs, c.watched = signs, true
	if c.wait.watches {
		return // the goroutine has not gone yet
	}
	c.wait.watches = true
	c.attend(watching, func(c *Conn) bool {
		c.wait.watches = c.watched && !c.over() && !c.life.closed()
		return !c.wait.watches
	})
}

// show has the descriptor say what the connection is ready for now. The caller has mu.
func (c *Conn) show() {
	if c.signs != nil && c.watched {
		c.signs.show(c.readiness(), c.more)
		c.more = false
	}
}

// Await waits until the connection is ready for one of the things in what, for some time at most,
// and says what it is ready for then. It returns at once if that cannot be waited for, as another
// call waits for the same: the descriptor of FD can be slept on instead.
func (c *Conn) Await(what Readiness, most time.Duration) Readiness {
	s, turn := asking, &c.asks
	switch what {
	case Readable:
		s, turn = reading, &c.reads
	case Writable:
		s, turn = writing, &c.writes
	}
	if !turn.TryLock() {
		return c.Readiness()
	}
	defer turn.Unlock()
	return c.awaitFor(s, what, most)
}

// awaitFor is Await of a side, whose turn it is. Only if it takes long is there a timer.
func (c *Conn) awaitFor(s side, what Readiness, most time.Duration) Readiness {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.enter() != nil {
		return c.readiness()
	}
	for i := 0; i < looks && most > 0 && !c.wait.leading && c.readiness()&what == 0; i++ {
		c.lead(s, true)
		c.mu.Unlock()
		runtime.Gosched()
		c.mu.Lock()
	}
	until := &c.patience[s]
	until.set(c, time.Now().Add(most))
	c.await(s, func(c *Conn) bool { return c.readiness()&what != 0 || until.passed })
	until.stop()
	r := c.readiness()
	c.leave()
	return r
}

// readiness is Readiness, of what is known. The caller has mu.
func (c *Conn) readiness() (r Readiness) {
	if c.readable() || c.stopped(reading) != nil {
		r = Readable
	}
	mayWrite := c.end.State().MayWrite()
	if !c.wait.writer && (!mayWrite || c.end.CanSend(stream.MaxTransfer)) || c.stopped(writing) != nil {
		r |= Writable
	}
	if !c.end.State().MayRead() {
		r |= Ended
	}
	if c.over() || c.life.closed() {
		r |= Ended | HungUp
	}
	return r
}
