package soft

// A lane: one port, one engine, the queue pairs pinned to it, and the turns that move work between
// them.
//
// Stages: the object → what a turn does → control calls → giving the turn back so that nothing is
// forgotten → destinations → the end. calls.go has the turns that an application takes,
// background.go and relief.go the others, and package drive who takes which.
//
// A turn runs on whatever goroutine is there: a polling application runs the stack itself, without
// a hand-over to another thread and back, which is most of the difference between 5 and 70 us of
// round trip.

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/roce/internal/race"
	"github.com/goroce/goroce/roce/internal/soft/drive"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/wire"
)

const (
	rxBatch  = 128 // frames a turn takes from the port
	txBatch  = 128 // frames of one send: the longest run of small packets
	txBudget = 256 // frames a turn sends before it looks at the port again
	// txSpace is how many bytes of packets a send has: 60 packets of path MTU 4096, which are four
	// runs of the 15 that the kernel takes as one. With room for 64 a fifth run would carry four,
	// and cost nearly as much as the others.
	txSpace = 60 * (4096 + 36)

	// retryFull is when to try again to send what the port had no room for, unless the port says so
	// earlier.
	retryFull = 50 * time.Microsecond
	// resolveTime is how long to look for a neighbour. The kernel repeats its question after a
	// second, so one lost answer is forgiven.
	resolveTime = 2 * time.Second
	// retryFailed is when to look again at a port that reports an error.
	retryFailed = 10 * time.Millisecond
)

type lane struct {
	dev    *Device
	index  int
	port   transport.Port
	engine *qp.Engine
	mail   *mailbox      // what arrived elsewhere for this lane; nil: there is no elsewhere
	owner  wire.QPNSpace // whose numbers are the device's, on any lane

	pairs int // queue pairs; under dev.mu

	turns turnLock // a turn has it, and with it the memory
	// under the turn lock
	clock    clock // what all its turns go by, so that time never runs backwards between them
	rx       [rxBatch]wire.Frame
	tx       *wire.Batch // sealed frames that the port has not taken yet
	deadline qp.Time     // when the next turn is due if nothing happens before
	woke     bool        // the turn woke somebody
	burst    int         // frames of the first send of the last turn that had any
	failing  [ways]bool  // the port's last call that way returned an error
	failed   bool        // one of them
	closed   bool
	count    LaneStats
	recorder *qp.Recorder // of the engine; nil: none
	recorded uint64       // records that were handed out

	drive drive.Machine // who runs the lane
	hands               // what that one sleeps on, and is woken with
}

func newLane(d *Device, index, lanes int, port transport.Port) *lane {
	l := &lane{dev: d, index: index, port: port, deadline: qp.Never, clock: clock{now: d.now, exact: d.exact}}
	l.seats = transport.SeatsOf(port)
	l.relief.gone = make(chan struct{})
	l.drive.Begin(l.seats != nil)
	info := port.Info()
	if d.cfg.Records > 0 {
		l.recorder = qp.NewRecorder(d.cfg.Records)
	}
	l.engine = qp.NewEngine(qp.Config{Recorder: l.recorder, Memory: d.mem, Rand: random.Uint64, GIDs: d.info.GIDs,
		SrcPort: info.SrcPort, MaxMTU: d.mtu, QPNs: info.QPNs.Lane(index, lanes), Dealt: d.dealt(index),
		EvenPackets: info.MaxRun > 1, Window: d.cfg.Window, Congestion: d.congestion(), ECN: !d.cfg.NoECN,
		Purpose: d.cfg.Purpose, Storage: d.storage})
	l.owner = info.QPNs.AnyLane()
	l.turns.reader, l.turns.yield = d.mem.NewReader(), d.yield
	if d.cfg.Transport.OwnThread { // which the runtime could stop and start only by another thread
		l.turns.yield = yieldThread
	}
	l.tx = wire.NewBatch(txBatch, d.space/txBatch)
	l.tx.MaxRun(info.MaxRun)
	if lanes > 1 || l.owner.Mask != 0 {
		l.mail = new(mailbox)
	}
	return l
}

// turn does what there is to do now, within bounds, and reports whether there may be more. The
// caller has the turn lock.
func (l *lane) turn(t qp.Time) (busy bool) {
	n := l.input(t, l.receive())
	more := l.output(t) || n >= rxBatch
	l.finish(t, more)
	return n > 0 || more
}

// input handles the frames received and what time has brought, and publishes the completions that
// come of it. It returns how many frames there were, those from other lanes among them.
func (l *lane) input(t qp.Time, received int) (frames int) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // memory may be gone: mr.Span
	frames = received
	own := l.rx[:received]
	if l.mail != nil || l.owner.Mask != 0 {
		own = l.keepOwn(own)
	}
	if l.mail != nil {
		frames += l.openMail(t)
	}
	l.engine.HandleFrames(t, own)
	l.sync(t)
	l.engine.HandleTimeout(t)
	l.engine.Publish()
	return frames
}

// output handles what was posted, sends what is due, and publishes the completions that come of it.
func (l *lane) output(t qp.Time) (more bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // the same
	l.engine.HandlePosted(t)
	more = l.transmit(t)
	l.engine.Publish()
	if more || l.tx.Len() > 0 {
		l.drive.Owe(t)
	} else {
		l.drive.Paid()
	}
	return more
}

// finish tells those who sleep, and notes when the next turn is due.
func (l *lane) finish(t qp.Time, more bool) {
	l.notify()
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
		race.Received()
	}
	l.portState(inward, err)
	return n
}

// transmit makes packets and sends them until there are no more, the port is full, or the turn has
// sent its share. What the port does not take stays in the batch, and no new packets are made
// before it has gone.
func (l *lane) transmit(t qp.Time) (more bool) {
	for budget := txBudget; budget > 0; {
		if l.tx.Len() == 0 && l.engine.PollTransmit(t, l.tx) == 0 {
			if l.failing[outward] { // it took what it could not send: a Send of nothing asks again
				_, err := l.port.Send(l.tx)
				l.portState(outward, err)
			}
			return false
		}
		if budget == txBudget {
			l.burst = l.tx.Len()
		}
		race.Sends()
		sent, err := l.port.Send(l.tx)
		l.portState(outward, err)
		l.tx.Drop(sent)
		if l.tx.Len() > 0 {
			l.count.PortFull++
			return false
		}
		budget -= sent
	}
	return true
}

// way is a direction of a port's packets.
type way int

const (
	inward way = iota // Recv
	outward
	ways
)

// portState turns a change between working and failing ports into an event. A port whose interface
// is gone may fail one way only, and works again when both do: what a Send has not taken is tried
// again (finish), and one that has taken all is asked again (transmit), so the port says so.
func (l *lane) portState(w way, err error) {
	l.failing[w] = err != nil
	failed := l.failing[inward] || l.failing[outward]
	if failed == l.failed {
		return
	}
	l.failed = failed
	switch { // the lanes' ports are one to the application
	case failed && l.dev.failing.Add(1) == 1:
		l.dev.tell(Event{Type: qp.EventPortErr, Err: err})
	case !failed && l.dev.failing.Add(-1) == 0:
		l.dev.tell(Event{Type: qp.EventPortActive})
	}
}

// notify tells the application what the turn did beside filling completion queues: armed queues
// and asynchronous events.
func (l *lane) notify() {
	for q, ok := l.engine.PollNotify(); ok; q, ok = l.engine.PollNotify() {
		q.Context().(*CQ).tell()
		l.woke = true
	}
	for e, ok := l.engine.PollEvent(); ok; e, ok = l.engine.PollEvent() {
		l.dev.tell(eventOf(e))
	}
}

// eventOf is the engine's event with the owner's names of the objects.
func eventOf(e qp.Event) Event {
	ours := Event{Type: e.Type}
	if e.QP != nil {
		ours.QP = e.QP.Context()
	}
	if e.CQ != nil {
		ours.CQ = e.CQ.Context().(*CQ).Context
	}
	if e.SRQ != nil {
		ours.SRQ = e.SRQ.Context()
	}
	return ours
}

// send is the second half of a turn.
func (l *lane) send(t qp.Time) {
	l.finish(t, l.output(t))
}

// do runs a control operation on the engine, between two turns: what is due goes first, so that an
// acknowledgement which waits for its application leaves before the queue pair is destroyed; then
// what the operation made due.
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

// flush sends what was left to later turns. If the port has no room for it in flushTries turns it
// is left to those all the same.
func (l *lane) flush() {
	for left, tries := true, 0; left && tries < flushTries; tries++ {
		l.do(func(e *qp.Engine, _ qp.Time) error {
			left = !l.closed && (tries == 0 || l.tx.Len() > 0 || !e.Idle())
			return nil
		})
	}
}

// flushTries is how many turns flush takes at most.
const flushTries = 100

// tryTurn takes the turn lock if nobody has it and the lane is not closed: a caller may have found
// its queue open, and comes late.
func (l *lane) tryTurn() bool {
	if !l.turns.tryLock() {
		return false
	}
	if l.closed {
		l.turns.unlock()
		return false
	}
	return true
}

// release gives the turn lock back, and it is here that nothing may be forgotten:
//   - A turn can leave a deadline that is earlier than the one which somebody went to sleep on the
//     port with: it is woken, or its alarm is set.
//   - A goroutine that rang the doorbell and failed to get the lock relies on us. Its ring came
//     before its attempt, and its attempt came before our unlock, so looking at the doorbells after
//     the unlock finds it. If we then fail to get the lock ourselves, the same holds for whoever
//     has it now.
func (l *lane) release() {
	for {
		l.carryOut(l.drive.Due(l.deadline, l.clock.at))
		l.turns.unlock()
		if !l.engine.DoorbellPending() || !l.tryTurn() {
			return
		}
		l.send(l.clock.read())
	}
}

// close ends the background and closes the port. No queue pair is left by now.
func (l *lane) close() error {
	l.drive.End()
	l.dismissRelief()
	if l.done != nil {
		l.standby.end()
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

// reach waits until the port can send to a destination, for resolveTime at most or until ctx ends.
// It takes no lock: the lane goes on meanwhile. That a destination is none, or of the other IP
// version, is for the engine to say.
func (l *lane) reach(ctx context.Context, dst wire.GID) error {
	if dst.IsZero() || !slices.ContainsFunc(l.dev.GIDs(), func(g wire.GID) bool {
		return !g.IsZero() && g.Is4() == dst.Is4()
	}) {
		return nil
	}
	err := transport.Resolve(ctx, l.port, dst, resolveTime)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, transport.ErrClosed):
		return ErrClosed
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return fmt.Errorf("%w: %w", ErrUnreachable, err)
}
