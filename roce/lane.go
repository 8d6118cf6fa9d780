package roce

// A lane: one port, one engine, the queue pairs pinned to it, and the turns that move work between them. This file is the
// only place of the package that starts goroutines.
//
// Stages: the object → what a turn does → who takes one (an application that polls or posts, a control call) → giving the
// turn back so that nothing is forgotten → the background goroutine that stands in when no application polls → the end.
//
// A turn runs on whatever goroutine is there: a polling application runs the stack itself, without a hand-over to another
// thread and back, which is most of the difference between 5 and 70 us of round trip. The background serves timers and
// one-sided requests of peers while the application does something else.

import (
	"sync/atomic"
	"time"

	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/wire"
)

const (
	rxBatch  = 64  // frames a turn takes from the port
	txBatch  = 64  // frames of one send
	txBudget = 256 // frames a turn sends before it looks at the port again
	maxBody  = 4096 + 64

	// claimLife is how long after its last poll an application is believed to poll on. Then the background takes over.
	claimLife = 50 * time.Microsecond
	// standby is how often the background looks whether the application is still polling.
	standby = 50 * time.Microsecond
	// linger is how long the background goes on polling after it last had something to do, before it sleeps.
	linger = 20 * time.Microsecond
	// retryFull is when to try again to send what the port had no room for, unless the port says so earlier.
	retryFull = 50 * time.Microsecond
	// retryFailed is when to look again at a port that reports an error.
	retryFailed = 10 * time.Millisecond
)

// start0 is when the clock of all engines in this process started.
var start0 = time.Now()

// now reads the monotone clock.
func now() qp.Time { return qp.Time(time.Since(start0)) }

type lane struct {
	dev    *Device
	index  int
	port   transport.Port
	engine *qp.Engine
	reader *mr.Reader

	turns turnLock
	// under the turn lock
	rx       [rxBatch]wire.Frame
	tx       *wire.Batch // sealed frames that the port has not taken yet
	deadline qp.Time     // when the next turn is due if nothing happens before
	failed   bool        // the port's last call returned an error
	closed   bool
	count    LaneStats

	claimed atomic.Int64 // when an application last polled; 0 says that none does
	onDuty  atomic.Bool  // the background watches the port
	asleep  atomic.Int64 // the background sleeps in port.Wait until then at the latest; 0 when it is awake
	closing atomic.Bool
	done    chan struct{} // closed when the background has ended; nil without background
}

func newLane(d *Device, index int, port transport.Port) *lane {
	l := &lane{dev: d, index: index, port: port, deadline: qp.Never}
	l.engine = qp.NewEngine(qp.Config{Memory: d.mem, Rand: random.Uint64, GIDs: d.info.GIDs, SrcPort: d.info.SrcPort,
		MaxMTU: MTU4096, Lane: uint8(index), LaneBits: laneBits(1), Window: d.cfg.Window})
	l.reader = d.mem.NewReader()
	l.tx = wire.NewBatch(txBatch, maxBody)
	l.tx.MaxRun(d.info.MaxRun)
	return l
}

// turn does what there is to do now, within bounds, and reports whether there may be more. The caller has the turn lock.
func (l *lane) turn(t qp.Time) (busy bool) {
	l.reader.Enter()
	n := l.receive()
	l.engine.HandleFrames(t, l.rx[:n])
	l.engine.HandlePosted(t)
	l.engine.HandleTimeout(t)
	more := l.transmit(t)
	l.engine.Flush()
	l.reader.Exit()
	l.publish()
	l.schedule(t, more)
	return n > 0 || more
}

// turnPosted is the half of a turn that a post needs: what arrived meanwhile is left to whoever polls.
func (l *lane) turnPosted(t qp.Time) {
	l.reader.Enter()
	l.engine.HandlePosted(t)
	more := l.transmit(t)
	l.engine.Flush()
	l.reader.Exit()
	l.publish()
	l.schedule(t, more)
}

// receive borrows frames from the port, until the next receive.
func (l *lane) receive() int {
	n, err := l.port.Recv(l.rx[:])
	if n > 0 {
		raceReceived()
	}
	l.portState(err)
	return n
}

// transmit makes packets and sends them until there are no more, the port is full, or the turn has sent its share.
// What the port does not take stays in the batch, and no new packets are made before it has gone.
func (l *lane) transmit(t qp.Time) (more bool) {
	for budget := txBudget; budget > 0; {
		if l.tx.Len() == 0 && l.engine.PollTransmit(t, l.tx) == 0 {
			return false
		}
		raceSend()
		sent, err := l.port.Send(l.tx)
		l.portState(err)
		l.tx.Drop(sent)
		if l.tx.Len() > 0 {
			l.count.PortFull++
			return false
		}
		budget -= sent
	}
	return true
}

// portState turns a change between working and failing ports into an event.
func (l *lane) portState(err error) {
	if failed := err != nil; failed != l.failed {
		l.failed = failed
		event := EventPortActive
		if failed {
			event = EventPortErr
		}
		l.dev.queue.put(AsyncEvent{Type: event, Device: l.dev, Err: err})
	}
}

// publish tells the application what the turn did beside filling completion queues: armed queues and asynchronous events.
func (l *lane) publish() {
	for q, ok := l.engine.PollNotify(); ok; q, ok = l.engine.PollNotify() {
		q.Context.(*CQ).ring()
	}
	for e, ok := l.engine.PollEvent(); ok; e, ok = l.engine.PollEvent() {
		l.dev.queue.put(asyncEvent(l.dev, e))
	}
}

// schedule notes when the next turn is due.
func (l *lane) schedule(t qp.Time, more bool) {
	l.count.Turns++
	l.deadline = l.engine.PollTimeout()
	switch {
	case more:
		l.deadline = t
	case l.tx.Len() > 0:
		l.deadline = min(l.deadline, t+qp.Time(retryFull))
	}
	if l.failed {
		l.deadline = t + qp.Time(retryFailed)
	}
}

// poll is a turn of an application that found its completion queue empty. If somebody else is taking one, that will do.
// claim says that the application is going to poll again soon.
func (l *lane) poll(claim bool) {
	if !l.turns.tryLock() {
		return
	}
	t := now()
	if claim {
		l.claimed.Store(int64(t))
	}
	l.turn(t)
	l.release()
}

// posted sees to it that what was posted to q is sent. If somebody else has the turn, release makes them look.
func (l *lane) posted(q *qp.QP) {
	l.engine.Ring(q)
	if l.turns.tryLock() {
		l.turnPosted(now())
		l.release()
	}
}

// do runs a control operation on the engine, and then a turn for what it made due.
func (l *lane) do(f func(e *qp.Engine, now qp.Time) error) error {
	l.turns.lock()
	t := now()
	err := f(l.engine, t)
	if !l.closed {
		l.turn(t)
	}
	l.release()
	return err
}

// release gives the turn lock back, and it is here that nothing may be forgotten:
//   - A turn can leave a deadline that is earlier than the one the background went to sleep with: wake it.
//   - Who rang the doorbell and failed to get the lock relies on us. Its ring came before its attempt, and its attempt came
//     before our unlock, so looking at the doorbells after the unlock finds it. If we then fail to get the lock ourselves,
//     the same holds for whoever has it now.
func (l *lane) release() {
	for {
		if until := l.asleep.Load(); int64(l.deadline) < until && l.asleep.CompareAndSwap(until, 0) {
			l.count.Wakes++
			l.port.Wake()
		}
		l.turns.unlock()
		if !l.engine.DoorbellPending() || !l.turns.tryLock() {
			return
		}
		l.turnPosted(now())
	}
}

// unclaim says that the application stops polling, so that the background need not find out by itself.
func (l *lane) unclaim() { l.claimed.Store(0) }

// inUse tells whether an application is polling the lane.
func (l *lane) inUse() bool {
	at := l.claimed.Load()
	return at != 0 && now()-qp.Time(at) < qp.Time(claimLife)
}

// guarded tells whether the lane goes on if the caller goes to sleep.
func (l *lane) guarded() bool { return l.onDuty.Load() || l.done != nil && l.inUse() }

// start starts the background.
func (l *lane) start() {
	l.done = make(chan struct{})
	go l.background()
}

// background takes the turns that no application takes. While one polls it stands by, without touching the port: waking up
// for each packet would cost the poller more than the stack itself.
func (l *lane) background() {
	defer close(l.done)
	for !l.closing.Load() {
		if l.inUse() {
			l.onDuty.Store(false)
			nap(standby)
			continue
		}
		l.onDuty.Store(true)
		l.watch()
	}
}

// watch takes turns until there has been nothing to do for a while, and then sleeps until the port has something, a deadline
// comes, or somebody wakes it.
func (l *lane) watch() {
	l.turns.lock()
	t := now()
	for idle := t; t-idle < qp.Time(linger) && !l.closing.Load(); t = now() {
		if l.turn(t) {
			idle = t
		}
		l.release()
		if l.inUse() {
			return
		}
		l.turns.lock()
	}
	// Announce the sleep under the turn lock: whoever has the next turn sees it and what it must be woken for.
	until := max(l.deadline, 1)
	l.asleep.Store(int64(until))
	l.release()
	if !l.closing.Load() && until > t {
		l.port.Wait(waitFor(until, t))
	}
	l.asleep.Store(0)
}

// waitFor is the argument of port.Wait to sleep until a deadline.
func waitFor(until, t qp.Time) time.Duration {
	if until == qp.Never {
		return -1
	}
	return time.Duration(until - t)
}

// close ends the background and closes the port. No queue pair is left by now.
func (l *lane) close() error {
	l.closing.Store(true)
	if l.done != nil {
		l.port.Wake()
		<-l.done
	}
	l.turns.lock()
	l.closed = true
	l.deadline = qp.Never
	err := l.port.Close()
	l.turns.unlock()
	l.reader.Close()
	return err
}

// laneBits is how many low bits of a queue pair's number name its lane.
func laneBits(lanes int) (bits uint8) {
	for 1<<bits < lanes {
		bits++
	}
	return bits
}
