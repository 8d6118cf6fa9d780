package soft

// A goroutine that sleeps in Wait watches the port itself. The rules, each named by its tests:
//
//	one      a packet wakes one thread: the background sleeps on through exchanges
//	ACK      what is received is acknowledged with the post of an application that always posts at
//	         once; if that does not come, by the alarm, within drive.PostponedTime; for others,
//	         at once
//	alarm    while the relief sleeps the alarm is set to the engine's next deadline, and to none
//	         if nothing is unacknowledged; what is due then is done
//	wake     what ends a Wait does so whoever brings it: the context, Close, another goroutine's
//	         turn
//	others   who waits on another queue of the lane misses nothing; who polls one takes the lane
//	         over
//	end      a device is closed after its queues, and so after every relief has gone
//
// No test has a time limit: what is forgotten hangs.

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/roce/internal/soft/drive"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/capture"
	"github.com/goroce/goroce/transport/fault"
	"github.com/goroce/goroce/wire"
)

// TestReliefExchange goes to and fro with the peer a hundred times: nobody wakes the background,
// nor does it return from its Watch (one); from the third time on the ACK leaves with the answer
// (ACK); the alarm is right each time (alarm). It is the same with a port around the port.
func TestReliefExchange(t *testing.T) {
	w := newReliefWorld(t)
	t.Run("bare", func(t *testing.T) { playReliefExchange(t, w) })
	w = newReliefWorldOf(t, nil, func(p transport.Port) transport.Port {
		return capture.Wrap(p, capture.Func(func(capture.Direction, time.Time, *wire.Frame) {}))
	})
	t.Run("captured", func(t *testing.T) { playReliefExchange(t, w) })
	w = newReliefWorldOf(t, nil, func(p transport.Port) transport.Port {
		now := func() time.Time { return time.Unix(0, p.(*reliefPort).w.now.Load()) }
		return capture.Wrap(fault.Wrap(p, fault.Config{On: fault.Send | fault.Recv, Now: now}),
			capture.Func(func(capture.Direction, time.Time, *wire.Frame) {}))
	})
	t.Run("faulty", func(t *testing.T) { playReliefExchange(t, w) })
}

func playReliefExchange(t *testing.T, w *reliefWorld) {
	c := w.talk(RC, 5)
	c.recv()
	w.settle()
	before := w.port.seen(transport.Background)
	for i := range 100 {
		result := c.relieves(context.Background())
		if at, want := w.port.alarmAt(), w.deadline(); at != want || (at == qp.Never) != (i == 0) {
			t.Fatalf("exchange %d: the alarm is set to %d, the deadline is %d", i, at, want)
		}
		w.port.left()
		c.says()
		c.gets(result, WCSuccess, WCRecv)
		c.recv()
		c.send(0)
		sends := w.port.left()
		if i < drive.PromptAsleep {
			continue // not trusted yet
		}
		if len(sends) != 1 || len(sends[0]) != 2 || sends[0][0].op != wire.RCSendOnly || sends[0][1].op != wire.RCAcknowledge {
			t.Fatalf("exchange %d: not the answer and the ACK in one Send, but %+v", i, sends)
		}
	}
	w.undisturbed(before)
	if n := w.d.Stats().Lane.Wakes; n != 0 {
		t.Errorf("%d wakes", n)
	}
}

// TestReliefExchangeByChannel is the same of an edge-triggered loop: it arms, polls until nothing
// is left, and waits for the channel (one, ACK).
func TestReliefExchangeByChannel(t *testing.T) {
	w := newReliefWorld(t)
	var event atomic.Bool
	token := make(chan struct{}) // nobody is to need it
	channel := w.d.NewChannel(event.Load, token)
	channel.spin.Store(0)
	c := w.talkBy(CQInit{CQE: 256, Channel: channel, Notify: func() { event.Store(true) }}, RC, 5)
	c.recv()
	w.settle()
	before := w.port.seen(transport.Background)
	var wcs [2]WC
	for i := range 100 {
		must(t, c.cq.ReqNotify(false))
		if n, err := c.cq.Poll(wcs[:]); n != 0 || err != nil {
			t.Fatalf("exchange %d: %d completions, %v", i, n, err)
		}
		channel.spin.Store(0)
		result := make(chan bool)
		go func() { result <- channel.Wait(context.Background()) }()
		w.port.asleep(transport.Relief)
		w.port.left()
		c.says()
		if !<-result || !event.Swap(false) {
			t.Fatalf("exchange %d: no event", i)
		}
		if n, err := c.cq.Poll(wcs[:]); n != 1 || err != nil || wcs[0].Opcode != qp.WCRecv {
			t.Fatalf("exchange %d: %d completions, %v, %+v", i, n, err, wcs[0])
		}
		c.recv()
		c.send(0)
		sends := w.port.left()
		if i >= drive.PromptAsleep && (len(sends) != 1 || len(sends[0]) != 2 || sends[0][1].op != wire.RCAcknowledge) {
			t.Fatalf("exchange %d: not the answer and the ACK in one Send, but %+v", i, sends)
		}
	}
	w.undisturbed(before)
	if n := w.d.Stats().Lane.Wakes; n != 0 {
		t.Errorf("%d wakes", n)
	}
}

// TestReliefLeavesACK: the ACK for an application that is trusted and does not come back leaves by
// the alarm, within drive.PostponedTime, which the background gets; for one that has broken its
// word it leaves before Wait returns (ACK).
func TestReliefLeavesACK(t *testing.T) {
	w := newReliefWorld(t)
	c := w.talk(RC, 5)
	for range 3 {
		for range drive.PromptAsleep {
			c.recv()
			result := c.relieves(context.Background())
			c.says()
			c.gets(result, WCSuccess, WCRecv)
			c.send(0)
		}
		c.recv()
		result := c.relieves(context.Background())
		w.port.left()
		c.says()
		c.gets(result, WCSuccess, WCRecv)
		if sends := w.port.left(); len(sends) != 0 {
			t.Fatalf("%+v has left before the application could post", sends)
		}
		if at, latest := w.port.alarmAt(), qp.Time(w.now.Load())+drive.PostponedTime; at > latest {
			t.Fatalf("the alarm is set to %d, the ACK must leave by %d", at, latest)
		}
		w.port.asleep(transport.Background)
		w.alarmComes()
		w.port.until(func() bool { return len(w.port.sends) > 0 })
		if sends := w.port.left(); len(sends) != 1 || len(sends[0]) != 1 || sends[0][0].op != wire.RCAcknowledge {
			t.Fatalf("not the ACK alone, but %+v", sends)
		}
		w.settle()

		c.recv()
		result = c.relieves(context.Background())
		c.says()
		c.gets(result, WCSuccess, WCRecv)
		if sends := w.port.left(); len(sends) != 1 || len(sends[0]) != 1 || sends[0][0].op != wire.RCAcknowledge {
			t.Fatalf("not trusted any more, and not the ACK alone, but %+v", sends)
		}
	}
}

// TestReliefKeepsTrust: a background that stood by, finds that nobody polls and gives way to the
// relief leaves it the trust that it has earned: the ACK waits for the application's post (ACK).
func TestReliefKeepsTrust(t *testing.T) {
	w := newReliefWorld(t)
	c := w.talk(RC, 5)
	for range drive.PromptAsleep {
		c.recv()
		result := c.relieves(context.Background())
		c.says()
		c.gets(result, WCSuccess, WCRecv)
		c.send(0)
	}
	w.settle()
	background := w.standsBy(c)
	c.recv()
	result := c.relieves(context.Background())
	background.look <- struct{}{}
	w.port.asleep(transport.Background)
	w.port.left()
	c.says()
	c.gets(result, WCSuccess, WCRecv)
	if sends := w.port.left(); len(sends) != 0 {
		t.Errorf("%+v has left before the application could post", sends)
	}
}

// TestReliefRepeats: when the alarm comes the relief sends again what is unacknowledged, by the ack
// timeout while the path is not known and by a probe later, and sleeps on to the next deadline
// (alarm). The background does not wake up for it (one).
func TestReliefRepeats(t *testing.T) {
	w := newReliefWorld(t)
	c := w.talk(RC, 5)
	w.settle()
	before := w.port.seen(transport.Background)
	for i := range 5 {
		c.send(SendSignaled)
		first := w.port.left()
		result := c.relieves(context.Background())
		for range 3 {
			at := w.port.alarmAt()
			if want := w.deadline(); at != want || at == qp.Never {
				t.Fatalf("round %d: the alarm is set to %d, the deadline is %d", i, at, want)
			}
			w.alarmComes()
			w.port.until(func() bool { return len(w.port.sends) > 0 })
			if again := w.port.left(); len(again) != 1 || len(again[0]) != 1 || again[0][0].psn != first[0][0].psn {
				t.Fatalf("round %d: not %+v again, but %+v", i, first, again)
			}
			w.port.asleep(transport.Relief)
			if w.port.alarmAt() <= at {
				t.Fatalf("round %d: the alarm is still set to %d", i, at)
			}
		}
		w.port.arrives(c.from(false), true)
		c.gets(result, WCSuccess, WCSend)
	}
	w.undisturbed(before)
}

// TestReliefIsTold: a post of another goroutine while the relief sleeps sets its alarm, and wakes
// nobody (alarm, one).
func TestReliefIsTold(t *testing.T) {
	w := newReliefWorld(t)
	c, other := w.talk(RC, 5), w.talk(RC, 6)
	w.settle()
	for range 5 {
		before, relief := w.port.seen(transport.Background), w.port.seen(transport.Relief).rouses
		c.recv()
		result := c.relieves(context.Background())
		if at := w.port.alarmAt(); at != qp.Never {
			t.Fatalf("the alarm is set to %d, and nothing is unacknowledged", at)
		}
		other.send(0)
		if at, want := w.port.alarmAt(), w.deadline(); at != want || at == qp.Never {
			t.Fatalf("the alarm is set to %d, the deadline is %d", at, want)
		}
		if n := w.port.seen(transport.Relief).rouses; n != relief {
			t.Errorf("the relief was roused %d times", n-relief)
		}
		w.port.arrives(other.from(false), true)
		c.says()
		c.gets(result, WCSuccess, WCRecv)
		w.undisturbed(before)
	}
}

// TestReliefWakes: each thing that ends a Wait ends that of a relief, whoever brings it (wake).
func TestReliefWakes(t *testing.T) {
	for _, row := range []struct {
		name string
		by   func(w *reliefWorld, c *talk, cancel func())
		ends func(w *reliefWorld, c *talk, r <-chan waited)
	}{
		{"the context ends", func(_ *reliefWorld, _ *talk, cancel func()) { cancel() },
			func(w *reliefWorld, _ *talk, r <-chan waited) {
				if got := <-r; got.n != 0 || !errors.Is(got.err, context.Canceled) {
					w.t.Errorf("Wait: %d, %v", got.n, got.err)
				}
			}},
		{"Modify to the error state", func(w *reliefWorld, c *talk, _ func()) {
			must(w.t, c.qp.Modify(bg, &QPAttr{State: StateErr}, AttrState))
		}, func(_ *reliefWorld, c *talk, r <-chan waited) { c.gets(r, WCWRFlushErr, WCRecv) }},
		{"a post that completes", func(_ *reliefWorld, c *talk, _ func()) { c.send(SendSignaled) },
			func(_ *reliefWorld, c *talk, r <-chan waited) { c.gets(r, WCSuccess, WCSend) }},
		{"a receive request posted in the error state", func(w *reliefWorld, c *talk, _ func()) {
			must(w.t, c.qp.Modify(bg, &QPAttr{State: StateErr}, AttrState))
			c.recv()
		}, func(_ *reliefWorld, c *talk, r <-chan waited) { c.gets(r, WCWRFlushErr, WCRecv) }},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newReliefWorld(t)
			c := w.talk(UC, 5) // its sends complete when they have left
			c.recv()
			for range 2 {
				ctx, cancel := context.WithCancel(context.Background())
				before := w.port.seen(transport.Relief).rouses
				result := c.relieves(ctx)
				row.by(w, c, cancel)
				row.ends(w, c, result)
				if w.port.seen(transport.Relief).rouses == before {
					t.Error("it has ended, but nobody has roused it")
				}
				cancel()
				if c.qp.State() == StateErr {
					break
				}
			}
		})
	}
}

// TestReliefTurnOfAnother: a poll of another goroutine on the same lane receives what the relief
// waits for, before the relief has woken up: it is told (wake).
func TestReliefTurnOfAnother(t *testing.T) {
	w := newReliefWorld(t)
	c, other := w.talk(RC, 5), w.talk(RC, 6)
	for range 20 {
		c.recv()
		result := c.relieves(context.Background())
		w.port.arrives(c.from(true), false)
		if n, err := other.cq.Poll(make([]WC, 1)); n != 0 || err != nil {
			t.Fatalf("Poll: %d, %v", n, err)
		}
		c.gets(result, WCSuccess, WCRecv)
	}
}

// TestReliefClosed: Close of the queue ends the Wait, and after it the device can be closed at once
// (wake, end).
func TestReliefClosed(t *testing.T) {
	w := newReliefWorld(t)
	cq, err := w.d.CreateCQ(CQInit{CQE: 1})
	must(t, err)
	result := (&talk{w: w, cq: cq}).relieves(context.Background())
	must(t, cq.Close())
	must(t, w.d.Close())
	if r := <-result; r.n != 0 || !errors.Is(r.err, ErrClosed) {
		t.Errorf("Wait: %d, %v", r.n, r.err)
	}
}

// TestReliefServesOthers: who waits on another queue of the lane gets what arrives, from a relief
// that sleeps on, and from the background when that has gone (others).
func TestReliefServesOthers(t *testing.T) {
	w := newReliefWorld(t)
	c, other := w.talk(RC, 5), w.talk(RC, 6)
	for range 20 {
		c.recv()
		for range 3 {
			other.recv()
		}
		first := c.relieves(context.Background())
		for range 2 {
			second := other.wait(context.Background())
			other.says()
			other.gets(second, WCSuccess, WCRecv)
		}
		w.port.asleep(transport.Relief)
		second := other.wait(context.Background())
		c.says()
		c.gets(first, WCSuccess, WCRecv)
		other.says()
		other.gets(second, WCSuccess, WCRecv)
		w.settle()
	}
}

// TestReliefYieldsToPoller: a relief that wakes up while another goroutine polls leaves the lane to
// that, which brings it its completion (others).
func TestReliefYieldsToPoller(t *testing.T) {
	w := newReliefWorld(t)
	c, other := w.talk(RC, 5), w.talk(RC, 6)
	poll := func() (found bool) {
		n, err := other.cq.Poll(make([]WC, 1))
		must(t, err)
		return n == 1
	}
	for range 20 {
		c.recv()
		other.recv()
		result := c.relieves(context.Background())
		left := w.port.leaves
		poll() // from here on it is believed to poll on: no time passes
		other.says()
		w.port.until(func() bool { return w.port.leaves > left })
		for !poll() {
		}
		w.port.arrives(c.from(true), false)
		for len(result) == 0 {
			poll()
		}
		c.gets(result, WCSuccess, WCRecv)
		w.pass(time.Duration(drive.LeaseLife))
		w.settle()
	}
}

// TestReliefLeavesLease: a relief that leaves the lane to a goroutine that polls does not end the
// lease of that one, and calls no background (others).
func TestReliefLeavesLease(t *testing.T) {
	w := newReliefWorld(t)
	c, other := w.talk(RC, 5), w.talk(RC, 6)
	c.recv()
	w.settle()
	background := w.standsBy(other)
	result := c.relieves(context.Background())
	poll := func() {
		n, err := other.cq.Poll(make([]WC, 1))
		if must(t, err); n != 0 {
			t.Fatal("nothing has come for it")
		}
	}
	poll() // from here on it is believed to poll on: no time passes
	w.port.Rouse(transport.Relief)
	w.port.until(func() bool { return w.port.leaves > 0 })
	if !w.l.drive.Leased(qp.Time(w.now.Load())) {
		t.Error("the lease has ended")
	}
	w.port.arrives(c.from(true), false)
	for len(result) == 0 {
		poll()
	}
	c.gets(result, WCSuccess, WCRecv)
	if n := background.ends.Load(); n != 0 {
		t.Errorf("the background was called %d times", n)
	}
}

// TestReliefLeavesMail: what another lane hands over while a relief takes its last turn, after it
// has looked into the mailbox, is not left lying there: the background wakes up for it (others).
func TestReliefLeavesMail(t *testing.T) {
	w := newReliefWorldOf(t, new(mailbox), nil)
	c, other := w.talk(RC, 5), w.talk(RC, 6)
	for range 5 {
		c.recv()
		other.recv()
		result := c.relieves(context.Background())
		w.port.left()
		stray := other.from(true)
		w.port.mu.Lock()
		w.port.meanwhile = func() { // as the other lane's turn does
			w.l.mail.put(&stray.Frames()[stray.Len()-1])
			w.l.carryOut(w.l.drive.Mail())
		}
		w.port.mu.Unlock()
		w.port.arrives(c.from(true), true)
		c.gets(result, WCSuccess, WCRecv)
		w.port.until(func() bool { return len(w.port.sends) == 2 }) // an ACK for each
		w.settle()
		if n, err := other.cq.Poll(make([]WC, 1)); n != 1 || err != nil {
			t.Fatalf("Poll: %d, %v", n, err)
		}
	}
}

// TestReliefAcrossLanes: a goroutine waits on one lane while queue pairs of another lane come to
// its completion queue, and go: it misses nothing of either (others).
func TestReliefAcrossLanes(t *testing.T) {
	names := udpNames()
	open := func(name string, lanes int) *Device {
		d, err := Open(name, Config{Lanes: lanes})
		must(t, err)
		t.Cleanup(func() { must(t, d.Close()) })
		return d
	}
	a, b := newEnd(t, open(names(0), 1), RC, 64), newEnd(t, open(names(1), 2), RC, 64)
	connect(t, a, b)
	got := make(chan uint64)
	ctx, stop := context.WithCancel(context.Background())
	var waiter sync.WaitGroup
	waiter.Go(func() {
		for {
			b.cq.spin.Store(0) // it sleeps at once
			var wcs [1]WC
			n, err := b.cq.Wait(ctx, wcs[:])
			if errors.Is(err, context.Canceled) {
				return
			}
			if n != 1 || err != nil || wcs[0].Status != WCSuccess {
				t.Errorf("Wait: %d, %v, %+v", n, err, wcs[0])
			}
			got <- wcs[0].WRID
		}
	})
	say := func(from, to *QP, id uint64) {
		must(t, postRecv(to, RecvWR{WRID: id}))
		must(t, postSend(from, SendWR{Opcode: WRSend}))
		if n := <-got; n != id {
			t.Errorf("message %d instead of %d", n, id)
		}
	}
	lanes := map[*lane]bool{b.qp.lane: true}
	for i := range uint64(100) {
		say(a.qp, b.qp, 3*i)
		qa, err := createQP(a.pd, QPInit{SendCQ: a.cq})
		must(t, err)
		qb, err := createQP(b.pd, QPInit{SendCQ: b.cq})
		must(t, err)
		must(t, qa.Connect(qb.Endpoint(), nil))
		must(t, qb.Connect(qa.Endpoint(), nil))
		lanes[qb.lane] = true
		say(qa, qb, 3*i+1)
		say(a.qp, b.qp, 3*i+2)
		must(t, qa.Close())
		must(t, qb.Close())
	}
	stop()
	waiter.Wait()
	if len(lanes) != 2 {
		t.Error("all queue pairs were on one lane")
	}
}
