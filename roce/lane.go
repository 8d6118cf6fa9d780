package roce

// A lane: one port, one engine, the queue pairs pinned to it, and the turns that move work between
// them.
//
// Stages: the object → what a turn does → who takes one (an application that polls or posts, a
// control call) → giving the turn back so that nothing is forgotten → the end. background.go stands
// in when no application polls, relief.go has an application that sleeps in Wait watch the port.
//
// A turn runs on whatever goroutine is there: a polling application runs the stack itself, without a hand-over to another
// thread and back, which is most of the difference between 5 and 70 us of round trip. The background serves timers and
// one-sided requests of peers while the application does something else.

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/wire"
)

const (
	rxBatch  = 128 // frames a turn takes from the port
	txBatch  = 128 // frames of one send: the longest run of small packets
	txBudget = 256 // frames a turn sends before it looks at the port again
	maxBody  = 4096 + 64
	// txSpace is how many bytes of packets a send has: 60 packets of path MTU 4096, which are four runs of the 15 that the kernel
	// takes as one. With room for 64 a fifth run would carry four, and cost nearly as much as the others.
	txSpace = 60 * (4096 + 36)

	// maxPostponed is how many polls in a row may leave an acknowledgement to the application's
	// next call: a message of 64 KiB comes in two or three pieces, and the answer should go with
	// its acknowledgement. postponedTime is for how long they may: a quarter of the 100 us after
	// which a requester of this stack asks again (minProbe in package qp).
	maxPostponed  = 3
	postponedTime = qp.Time(25 * time.Microsecond)

	// severalPackets in one send are part of a stream: then posts may be held from the first one on.
	severalPackets = 4

	// retryFull is when to try again to send what the port had no room for, unless the port says so earlier.
	retryFull = 50 * time.Microsecond
	// resolveTime is how long to look for a neighbour. The kernel repeats its question after a second, so one lost answer is
	// forgiven.
	resolveTime = 2 * time.Second
	// retryFailed is when to look again at a port that reports an error.
	retryFailed = 10 * time.Millisecond
)

type lane struct {
	dev    *Device
	index  int
	port   transport.Port
	engine *qp.Engine
	mail   *mailbox // what arrived on other lanes for this one; nil if there are none

	pairs   int          // queue pairs; under dev.mu
	members atomic.Int32 // attachments of its queue pairs to multicast groups

	turns turnLock // a turn has it, and with it the memory
	// under the turn lock
	clock    clock // what all its turns go by, so that time never runs backwards between them
	rx       [rxBatch]wire.Frame
	tx       *wire.Batch // sealed frames that the port has not taken yet
	deadline qp.Time     // when the next turn is due if nothing happens before
	horizon  qp.Time     // the latest deadline there was
	rang     bool        // the turn woke somebody
	burst    int         // frames of the first send of the last turn that had any
	vain     uint32      // polls since one that found completions
	failed   bool        // the port's last call returned an error
	closed   bool
	alarm    qp.Time // of the port, if it is watched
	parked   bool    // the background sleeps on the port, whoever watches it
	count    LaneStats

	trust trust
	// under the turn lock too, but read by polls that need no turn
	owingSince atomic.Int64 // when sending was first left to the application's next calls; 0: nothing is owed
	owingPolls atomic.Int32 // polls that have left it unsent since

	crowd   atomic.Uint32 // polls that met somebody else's turn
	visited atomic.Bool   // an application polled since the last turn, and found what it wanted without one
	claimed atomic.Int64  // when an application last polled; 0 says that none does
	onDuty  atomic.Bool   // the background watches the port, or will at once
	standby *alarm        // what the background sleeps on while an application polls
	asleep  atomic.Int64  // who watches the port sleeps until then at the latest; 0 when it is awake, or there is nobody
	closing atomic.Bool
	done    chan struct{} // closed when the background has ended; nil without background

	watched  transport.Watched // the port, if an application's goroutine can watch it instead of the background
	relief   sync.Mutex        // the goroutine in Wait that does has it
	relieved atomic.Bool       // there is one; changes under the turn lock
	heeds    <-chan struct{}   // under relief: the end of the context that rouses it, and how to undo that
	forget   func() bool

	attended bool // there is a background, which sends what the application leaves behind: start says so, or a test that plays it
}

func newLane(d *Device, index, lanes int, port transport.Port) *lane {
	l := &lane{dev: d, index: index, port: port, deadline: qp.Never, alarm: qp.Never, clock: clock{now: now}}
	l.watched, _ = port.(transport.Watched)
	info := port.Info()
	l.engine = qp.NewEngine(qp.Config{Memory: d.mem, Rand: random.Uint64, GIDs: d.info.GIDs, SrcPort: info.SrcPort,
		MaxMTU: max(wire.MTUForNet(info.NetMTU), MTU256), QPNs: info.QPNs.Lane(index, lanes), EvenPackets: info.MaxRun > 1, Window: d.cfg.Window,
		Congestion: d.congestion(), ECN: !d.cfg.NoECN})
	l.turns.reader = d.mem.NewReader()
	l.tx = wire.NewBatch(txBatch, txSpace/txBatch)
	l.tx.MaxRun(info.MaxRun)
	if lanes > 1 {
		l.mail = new(mailbox)
	}
	return l
}

// turn does what there is to do now, within bounds, and reports whether there may be more. The caller has the turn lock.
func (l *lane) turn(t qp.Time) (busy bool) {
	n := l.input(t, l.receive())
	more := l.output(t) || n >= rxBatch
	l.finish(t, more)
	return n > 0 || more
}

// input handles the frames received and what time has brought, and publishes the completions that come of it. It returns how many
// frames there were, those from other lanes among them.
func (l *lane) input(t qp.Time, received int) (frames int) {
	frames = received
	own := l.rx[:received]
	if l.mail != nil {
		own = l.keepOwn(own)
		frames += l.openMail(t)
	}
	l.engine.HandleFrames(t, own)
	l.engine.HandleTimeout(t)
	l.engine.Flush()
	return frames
}

// output handles what was posted, sends what is due, and publishes the completions that come of it.
func (l *lane) output(t qp.Time) (more bool) {
	l.engine.HandlePosted(t)
	more = l.transmit(t)
	l.engine.Flush()
	if more || l.tx.Len() > 0 {
		l.owe(t)
	} else if l.owingSince.Load() != 0 {
		l.owingSince.Store(0)
	}
	return more
}

// finish tells who sleeps, and notes when the next turn is due.
func (l *lane) finish(t qp.Time, more bool) {
	l.publish()
	l.count.Turns++
	l.deadline = l.engine.PollTimeout()
	switch {
	case more:
		l.deadline = t
	case l.failed:
		l.deadline = t + qp.Time(retryFailed)
	case l.tx.Len() > 0:
		l.deadline = min(l.deadline, t+qp.Time(retryFull))
	}
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
		if budget == txBudget {
			l.burst = l.tx.Len()
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
	failed := err != nil
	if failed == l.failed {
		return
	}
	l.failed = failed
	switch { // the lanes' ports are one to the application
	case failed && l.dev.failing.Add(1) == 1:
		l.dev.queue.put(AsyncEvent{Type: EventPortErr, Device: l.dev, Err: err})
	case !failed && l.dev.failing.Add(-1) == 0:
		l.dev.queue.put(AsyncEvent{Type: EventPortActive, Device: l.dev})
	}
}

// publish tells the application what the turn did beside filling completion queues: armed queues and asynchronous events.
func (l *lane) publish() {
	for q, ok := l.engine.PollNotify(); ok; q, ok = l.engine.PollNotify() {
		q.Context.(*CQ).ring()
		l.rang = true
	}
	for e, ok := l.engine.PollEvent(); ok; e, ok = l.engine.PollEvent() {
		l.dev.queue.put(asyncEvent(l.dev, e))
	}
}

// poll is a turn of an application that found its completion queue c empty. If somebody else is taking one, that will do.
// claim says that the application is going to poll again soon. rest says that it has come in vain so often that others should
// have the processor for a moment.
func (l *lane) poll(c *CQ, claim bool) (rest bool) {
	if !l.turns.tryLock() {
		l.claim(l.clock.now(), claim) // if the background has the turn, it is to go
		return l.crowd.Add(1)%yieldEvery == 0
	}
	t := l.clock.within(fresh)
	l.claim(t, claim)
	posts, frames := l.engine.DoorbellPending(), 0 // posts that were held: they go before we look at what has arrived
	if !posts {
		if frames = l.receive(); frames == 0 && l.quiet(t) {
			return l.inVain()
		}
	}
	l.trust.returns(t)
	if l.visited.Load() {
		l.visited.Store(false)
	}
	if posts {
		l.output(t)
		frames = l.receive()
	}
	frames = l.input(t, frames)
	found := c.lanes[l.index].Len() > 0
	if found {
		l.vain = 0
	}
	// Completions are handed over before anything is sent, and so is what a WRITE may have brought.
	postpone := claim && (found || frames > 0) && l.attended && l.trusting() && l.postpone(t)
	l.finish(t, postpone || l.output(t) || frames >= rxBatch)
	end := t
	if !postpone || frames >= severalPackets { // the application is not late for what took us long, nor gone
		end = l.clock.read()
	}
	if found {
		l.trust.leaves(end)
	}
	l.claim(end, claim)
	l.holds(claim && l.burst >= severalPackets)
	return l.inVain()
}

// postpone leaves what is due to the application's next call, unless a peer must hear of it at
// once, or it was left often or long enough.
func (l *lane) postpone(t qp.Time) bool {
	at := qp.Time(l.owingSince.Load())
	switch {
	case l.engine.Idle() || l.engine.Urgent() || at != 0 && l.overdue(at, t):
		return false
	case at == 0:
		l.owe(t)
	}
	l.owingPolls.Add(1)
	l.count.Postponed++
	return true
}

// owe notes that something due is left to the application's next calls.
func (l *lane) owe(t qp.Time) {
	l.owingSince.Store(int64(max(t, 1)))
	l.owingPolls.Store(0)
}

// overdue tells whether what was left at a time has to be sent now.
func (l *lane) overdue(at, t qp.Time) bool {
	return l.owingPolls.Load() >= maxPostponed || t-at >= postponedTime
}

// inVain ends a poll, which may have been one in vain.
func (l *lane) inVain() (rest bool) {
	l.vain++
	rest = l.vain%yieldEvery == 0
	l.release()
	return rest
}

// claim says, with every few polls, that an application is at it.
func (l *lane) claim(t qp.Time, claim bool) {
	if claim && t-qp.Time(l.claimed.Load()) > qp.Time(claimLife)/8 {
		l.claimed.Store(int64(t))
	}
}

// quiet tells whether a poll that found no frames can leave it at that.
func (l *lane) quiet(t qp.Time) bool {
	return t < l.deadline && l.trust.left == 0 && l.engine.Idle() && !l.mail.waiting()
}

// trusting tells whether the application can be relied on to call again at once. While the background is on duty it would
// only be in the way.
func (l *lane) trusting() bool { return l.trust.earned() && !l.onDuty.Load() }

// posted sees to it that the n requests posted to q are sent: all that takes is the second half of a turn. If somebody else
// has the turn, release makes them look.
func (l *lane) posted(q *qp.QP, n int) {
	if l.trust.hold.Load() || !l.turns.tryLock() {
		l.engine.Ring(q)
		if l.trust.postHeld(n, l.clock.now) || !l.turns.tryLock() {
			return
		}
	} else { // nobody else is at it: no bell is needed
		l.engine.Posted(q)
	}
	t := l.clock.read()
	l.trust.returns(t)
	if l.visited.Load() { // it polls, but it never lacks completions: then its turns are here, or nothing would be received
		l.visited.Store(false)
		l.claimed.Store(int64(t))
		l.turn(t)
	} else {
		l.send(t)
	}
	l.trust.leaves(l.clock.read())
	l.relieve(t)
	l.holds(l.engine.PollTimeout() != qp.Never || l.burst >= severalPackets)
	l.release()
}

// holds says whether posts may be held from now on. Somebody must be there to send them if the
// application does not come back.
func (l *lane) holds(yes bool) {
	l.trust.holds(yes && l.attended && !l.relieved.Load() && l.trusting())
}

// visit notes a poll that did not need a turn. If what earlier polls have left must go now, it
// sends that.
func (l *lane) visit() {
	if !l.visited.Load() {
		l.visited.Store(true)
	}
	at := l.owingSince.Load()
	if at == 0 {
		return
	}
	if l.overdue(qp.Time(at), l.clock.now()) && l.turns.tryLock() {
		t := l.clock.read()
		l.trust.returns(t)
		l.send(t)
		l.trust.leaves(l.clock.read())
		l.release()
		return
	}
	l.owingPolls.Add(1)
}

// relieve wakes a background that sleeps on duty while an application polls that has earned trust: it is to stand by, for the
// posts that are held from now on.
func (l *lane) relieve(t qp.Time) {
	if l.trust.earned() && l.onDuty.Load() && t-qp.Time(l.claimed.Load()) < qp.Time(claimLife) {
		l.wakeBefore(0)
	}
}

// send is the second half of a turn.
func (l *lane) send(t qp.Time) {
	l.finish(t, l.output(t))
}

// do runs a control operation on the engine, between two turns: what is due goes first, so that an acknowledgement which
// waits for its application leaves before the queue pair is destroyed; then what the operation made due.
func (l *lane) do(f func(e *qp.Engine, now qp.Time) error) error {
	l.turns.lock()
	t := l.clock.read()
	if l.closed {
		err := f(l.engine, t)
		l.turns.unlock()
		return err
	}
	if l.deadline <= t || !l.engine.Idle() {
		l.turn(t)
	}
	err := f(l.engine, t)
	l.turn(t)
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
		l.wakeBefore(l.deadline)
		l.turns.unlock()
		if !l.engine.DoorbellPending() || !l.turns.tryLock() {
			return
		}
		l.send(l.clock.read())
	}
}

// close ends the background and closes the port. No queue pair is left by now.
func (l *lane) close() error {
	l.closing.Store(true)
	l.rouseRelief()
	l.relief.Lock() // for good
	l.unheed()
	if l.done != nil {
		l.unclaim()
		l.port.Wake()
		<-l.done
		l.standby.close()
	}
	l.turns.lock()
	l.closed = true
	l.deadline = qp.Never
	err := l.port.Close()
	l.turns.unlock()
	l.turns.reader.Close()
	return err
}

// reach waits until the port can send to a destination. It takes no lock: the lane goes on meanwhile. That a destination is
// none, or of the other IP version, is for the engine to say.
func (l *lane) reach(dst GID) error {
	if dst.IsZero() || dst.Is4() != l.dev.info.GIDs[0].Is4() {
		return nil
	}
	err := transport.Resolve(context.Background(), l.port, dst, resolveTime)
	switch {
	case errors.Is(err, transport.ErrClosed):
		return ErrClosed
	case err != nil:
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return nil
}

// joinGroup makes the port receive what is sent to a multicast group; joins are counted.
func (l *lane) joinGroup(g GID) error {
	if m, ok := l.port.(transport.Multicaster); ok {
		return m.JoinGroup(g)
	}
	return transport.ErrNoMulticast
}

// leaveGroup undoes one joinGroup.
func (l *lane) leaveGroup(g GID) error {
	if m, ok := l.port.(transport.Multicaster); ok {
		return m.LeaveGroup(g)
	}
	return transport.ErrNoMulticast
}
