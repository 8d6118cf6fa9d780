package soft

// How a lane treats its port and its application.

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/roce/internal/soft/drive"
)

// TestAckWaitsForTheAnswer: what an application that comes back at once owes for a WRITE leaves
// with its next post, or with its next poll if it posts nothing; and if there is more with each
// poll, after some of them.
func TestAckWaitsForTheAnswer(t *testing.T) {
	segment := fmt.Sprintf("pipe:test-%d", serial.Add(1))
	open := func() *end {
		d, err := Open(segment, Config{NoBackground: true})
		must(t, err)
		t.Cleanup(func() { must(t, d.Close()) })
		return newEnd(t, d, RC, 64)
	}
	a, b := open(), open()
	connect(t, a, b)
	b.dev.lanes[0].clock.now = func() qp.Time { return 1 << 40 } // the polls below take no time
	// there could be a background; none comes in between
	b.dev.lanes[0].drive.Attend(0)
	write := func(from, to *end) {
		from.post(SendWR{Opcode: WRWrite, SGL: []SGE{from.mr.SGE(0, 8)}, RemoteAddr: to.mr.Addr() + 8, RKey: to.mr.RKey()})
	}
	poll := func() (batches, frames uint64) {
		before := b.dev.Stats().Port
		b.dev.lanes[0].drive.TakesOver(1 << 40)
		b.dev.lanes[0].drive.Earn() // by time, which a test must not depend on
		_, err := b.cq.Poll(make([]WC, 1))
		must(t, err)
		after := b.dev.Stats().Port
		return after.SendBatches - before.SendBatches, after.SendFrames - before.SendFrames
	}

	a.buf[0] = 1
	write(a, b)
	if batches, _ := poll(); batches != 0 || b.buf[8] != 1 {
		t.Fatalf("%d sends by the poll that received a WRITE; it brought %d", batches, b.buf[8])
	}
	before := b.dev.Stats().Port
	write(b, a)
	if after := b.dev.Stats().Port; after.SendBatches != before.SendBatches+1 || after.SendFrames != before.SendFrames+2 {
		t.Errorf("WRITE and ACK left in %d sends of %d packets", after.SendBatches-before.SendBatches, after.SendFrames-before.SendFrames)
	}

	a.wait()
	poll() // the ACK of b's own
	write(a, b)
	poll()
	if _, frames := poll(); frames != 1 {
		t.Errorf("%d packets by a poll after a WRITE, instead of its ACK", frames)
	}
	a.wait()

	polls := 0
	for frames := uint64(0); frames == 0 && polls <= 2*drive.MaxPostponed; polls++ {
		write(a, b)
		_, frames = poll()
	}
	if polls != drive.MaxPostponed+1 {
		t.Errorf("a stream of WRITEs was answered after %d polls", polls)
	}
}

// TestHeldDatagramsAreSent: the same for datagrams, which nobody acknowledges.
func TestHeldDatagramsAreSent(t *testing.T) {
	overWires(t, func(t *testing.T, w wire2) {
		da, db := w.open(t)
		a, b := newEnd(t, da, UD, 64), newEnd(t, db, UD, 64)
		must(t, a.qp.Activate(7))
		must(t, b.qp.Activate(7))
		ah, err := a.pd.CreateAH(bg, AHAttr{DGID: b.qp.Endpoint().GID})
		must(t, err)
		defer func() { must(t, a.pd.DestroyAH(ah)) }()
		send := SendWR{Opcode: WRSend, Flags: SendInline, Inline: []byte("datagram"), AH: ah, RemoteQPN: b.qp.QPN(), RemoteQKey: 7}
		posted := uint64(0)
		for range 20 {
			for range 100 {
				must(t, postSend(a.qp, send, send, send, send, send))
				for n := 0; n < 5; {
					var wcs [4]WC // fewer than there are: most polls need no turn
					k, err := a.cq.Poll(wcs[:])
					must(t, err)
					n += k
				}
				posted += 5
			}
			must(t, postSend(a.qp, send, send, send))
			posted += 3
			l := a.dev.lanes[0]
			// without a poll, and without Device.Stats, which would send
			for sent := uint64(0); sent != posted; runtime.Gosched() {
				l.turns.lock()
				sent = l.port.Stats().SendFrames
				l.turns.unlock()
			}
			for range 3 {
				a.wait()
			}
		}
	})
}

// TestFlush: what is left to later calls leaves, requests and acknowledgements, before Flush
// returns.
func TestFlush(t *testing.T) {
	overWires(t, func(t *testing.T, w wire2) {
		da, db := w.open(t)
		a, b := newEnd(t, da, RC, 64), newEnd(t, db, RC, 64)
		connect(t, a, b)
		for range 1000 {
			for _, e := range []*end{a, b} {
				e.recv(0)
			}
			a.post(SendWR{Opcode: WRSend})
			b.wait() // whose acknowledgement waits for its next call
			db.Flush()
			l := db.lanes[0]
			l.turns.lock()
			owes := l.drive.Owes() || l.tx.Len() > 0 || !l.engine.Idle()
			l.turns.unlock()
			if owes {
				t.Fatal("it still owes something")
			}
			b.post(SendWR{Opcode: WRSend})
			db.Flush()
			if l.engine.DoorbellPending() {
				t.Fatal("a post is left")
			}
			for _, e := range []*end{a, b} {
				e.wait()
			}
			a.wait()
		}
	})
}

// TestTurnLock: the lock excludes, and who waits for it gets it although others try all the time.
func TestTurnLock(t *testing.T) {
	l := turnLock{reader: mr.NewTable(random.Uint64).NewReader(), yield: runtime.Gosched}
	var all sync.WaitGroup
	var stop atomic.Bool
	inside := 0
	for range 2 {
		all.Go(func() {
			for !stop.Load() {
				if l.tryLock() {
					inside++
					l.unlock()
				}
			}
		})
	}
	for range 1000 {
		l.lock()
		inside++
		l.unlock()
	}
	stop.Store(true)
	all.Wait()
	if !l.tryLock() || l.tryLock() || inside < 1000 {
		t.Error("the lock is broken")
	}
}
