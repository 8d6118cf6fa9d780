package soft

// The world of the stories that are played step by step (steps_test.go): one device on a port that
// two goroutines can watch, and queue pairs that talk to nobody. A SEND of UC completes when the
// port has taken it, with whoever has the turn, so no packet is needed to complete anything, and
// none comes that would hide a wake-up which was lost.

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/goroce/goroce/internal/step"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/wire"
)

// stepPort keeps what transport.Watched promises. Each of its methods is one step.
type stepPort struct {
	gid      GID
	sent     int
	relieved bool          // the relief has the port
	rung     [2]bool       // a Rouse that no Watch has seen, by Watcher
	alarm    *step.Timer   // that is set
	gone     bool          // it has gone off
	in       []*wire.Batch // what has arrived; a Recv takes the first
}

func (p *stepPort) step() { step.At(step.Object(p), true) }

func (p *stepPort) change() { step.Touch(step.Object(p)) }

func (p *stepPort) Watch(who transport.Watcher) error {
	for p.step(); !p.rung[who] && !(p.relieved == (who == transport.Relief) && (p.gone || len(p.in) > 0)); {
		step.Block(step.Object(p))
	}
	p.rung[who] = false
	return nil
}

func (p *stepPort) Rouse(who transport.Watcher) {
	p.step()
	p.rung[who] = true
	p.change()
}

func (p *stepPort) SetAlarm(d time.Duration) {
	p.step()
	if p.alarm != nil {
		p.alarm.Stop()
	}
	p.alarm, p.gone = nil, false
	if d >= 0 {
		p.alarm = step.After(d, func() {
			p.gone = true
			p.change()
		})
	}
}

func (p *stepPort) hands(relieved bool) {
	p.step()
	p.relieved = relieved
	p.change()
}

func (p *stepPort) Send(b *wire.Batch) (int, error) {
	p.step()
	p.sent += b.Len()
	return b.Len(), nil
}

func (p *stepPort) Recv(frames []wire.Frame) (n int, err error) {
	p.step()
	if len(p.in) > 0 {
		n = copy(frames, p.in[0].Frames())
		p.in = p.in[1:]
	}
	return n, nil
}

func (p *stepPort) Take()  { p.hands(true) }
func (p *stepPort) Leave() { p.hands(false) }
func (p *stepPort) Wake()  { p.Rouse(transport.Background) }
func (p *stepPort) Wait(d time.Duration) error {
	p.SetAlarm(d)
	return p.Watch(transport.Background)
}
func (p *stepPort) Stats() transport.Stats { return transport.Stats{} }
func (p *stepPort) Close() error           { return nil }
func (p *stepPort) Info() transport.Info {
	return transport.Info{Name: "step", Kind: "pipe", GIDs: []wire.GID{p.gid}, Up: true, NetMTU: 65536, MaxRun: 1}
}

// stepWorld is the device, with one completion queue.
type stepWorld struct {
	*testing.T
	*step.Play
	port *stepPort
	d    *Device
	l    *lane
	pd   *PD
	cq   *CQ
	told chan struct{} // holds a token after a completion that ReqNotify asked for
	got  int           // completions that were taken

	// in worlds with a channel: it, its events that are not taken, and a token while there are some
	channel *Channel
	events  int
	ready   chan struct{}
}

// drawn is what is drawn in each play.
var drawn = func() (b [4096]byte) {
	rand.NewChaCha8([32]byte{}).Read(b[:])
	return b
}()

// stepOptions say what the world has beside.
type stepOptions struct {
	background bool // a goroutine of the play; without it none is there that would take turns
	unwatched  bool // the port knows no relief
	channel    bool // completion queues have a channel
}

func newStepWorld(t *testing.T, p *step.Play, has stepOptions) *stepWorld {
	w := &stepWorld{T: t, Play: p, port: new(stepPort), told: make(chan struct{}, 1)}
	w.port.gid, _ = wire.ParseGID("10.0.0.1")
	random.left = bytes.Clone(drawn[:]) // so that a play can be repeated
	var port transport.Port = w.port
	if has.unwatched {
		port = struct{ transport.Port }{port}
	}
	var err error
	small := machine
	small.space = txBatch * 64 // each play makes a world anew
	w.d, err = Open("steps", Config{Ports: []transport.Port{port}, NoBackground: true, world: &small})
	must(t, err)
	w.l = w.d.lanes[0]
	w.l.drive.Attend(0)
	w.pd, err = w.d.AllocPD()
	must(t, err)
	if has.channel {
		w.ready = make(chan struct{}, 1)
		w.channel = w.d.NewChannel(func() bool { step.At(step.Object(&w.events), false); return w.events > 0 }, w.ready)
		w.channel.spin.Store(0) // Wait sleeps at once
	}
	w.cq = w.queue()
	if has.background {
		must(t, w.l.start())
	}
	return w
}

// queue makes a completion queue.
func (w *stepWorld) queue() *CQ {
	c, err := w.d.CreateCQ(CQInit{CQE: 16, Channel: w.channel, Notify: func() {
		if w.channel != nil {
			w.event(+1)
		} else {
			step.Select(true, step.S(w.told, struct{}{}))
		}
	}})
	must(w, err)
	c.spin.Store(0) // Wait sleeps at once
	return c
}

// event makes an event (+1), or takes one (-1); it tells whether there was one before. It is one
// step, as the queue of events has a lock.
func (w *stepWorld) event(n int) (was bool) {
	step.At(step.Object(&w.events), true)
	was = w.events > 0
	if w.events = max(w.events+n, 0); w.events > 0 {
		select {
		case w.ready <- struct{}{}:
		default:
		}
	} else {
		select {
		case <-w.ready:
		default:
		}
	}
	step.TouchChan(w.ready)
	return was
}

// pair makes a queue pair. One of RC fails after a while, when nobody has answered.
func (w *stepWorld) pair(typ QPType) *QP { return w.pairOn(typ, w.cq) }

func (w *stepWorld) pairOn(typ QPType, cq *CQ) *QP {
	q, err := createQP(w.pd, QPInit{Type: typ, SendCQ: cq, SQSigAll: true, Cap: QPCap{MaxSendWR: 4, MaxRecvWR: 4}})
	must(w, err)
	must(w, q.Connect(Endpoint{GID: w.port.gid, QPN: 77, PSN: 1}, &QPAttr{Timeout: 1}))
	return q
}

// message is a SEND for a queue pair of UC, which has posted a receive.
func (w *stepWorld) message(q *QP) *wire.Batch {
	must(w, postRecv(q, RecvWR{}))
	path, err := wire.NewPath(w.port.gid, w.port.gid, 0xc000, 2, 64, 0)
	must(w, err)
	b := wire.NewBatch(1, 64)
	f := b.Reserve(&path, int(wire.UCSendOnly.Info().HdrLen)+wire.ICRCLen)
	clear(f.Body)
	(*wire.BTH)(f.Body).Put(wire.UCSendOnly, 0, 0, wire.DefaultPKey, q.QPN(), 1)
	wire.Seal(f)
	return b
}

// arrives has it arrive.
func (w *stepWorld) arrives(b *wire.Batch) {
	w.port.step()
	w.port.in = append(w.port.in, b)
	w.port.change()
}

// isOneOfSeveral has the lane take strays. Its mailbox is small: each play makes one anew.
func (w *stepWorld) isOneOfSeveral() {
	w.l.mail = &mailbox{filling: wire.NewBatch(2, 64), lent: wire.NewBatch(2, 64)}
}

// strays has it arrive on another lane, which hands it over.
func (w *stepWorld) strays(b *wire.Batch) {
	w.l.mail.put(&b.Frames()[0])
	w.l.carryOut(w.l.drive.Mail())
}

// completes has a request complete.
func (w *stepWorld) completes(q *QP) { must(w, postSend(q, SendWR{Opcode: WRSend})) }

// polls takes what is there, with a turn, and counts it.
func (w *stepWorld) polls() {
	var wcs [1]WC
	n, err := w.cq.Poll(wcs[:])
	must(w, err)
	w.got += n
}

// waits takes completions until so many were taken, by all.
func (w *stepWorld) waits(all int) {
	for w.got < all {
		var wcs [1]WC
		n, err := w.cq.Wait(bg, wcs[:])
		must(w, err)
		w.got += n
	}
}

// waitsOf takes completions until one is of a queue pair.
func (w *stepWorld) waitsOf(q *QP) {
	for {
		var wcs [1]WC
		if n, err := w.cq.Wait(bg, wcs[:]); err != nil || n == 1 && wcs[0].QPN == q.QPN() {
			must(w, err)
			return
		}
	}
}

// hears is waits by ReqNotify.
func (w *stepWorld) hears(all int) { w.hearsBy(all, func() { step.Recv(w.told) }) }

// attends is hears by one who waits for the channel.
func (w *stepWorld) attends(all int) { w.hearsBy(all, w.attendsOnce) }

// attendsOnce takes one event, and waits again if another has taken it.
func (w *stepWorld) attendsOnce() {
	for taken := false; !taken; taken = w.event(-1) {
		if !w.channel.Wait(bg) {
			step.Fail("it is over")
		}
	}
}

func (w *stepWorld) hearsBy(all int, event func()) {
	for {
		w.polls()
		if w.got >= all {
			return
		}
		must(w, w.cq.ReqNotify(false))
		if w.polls(); w.got >= all {
			return
		}
		event()
	}
}

// waitsFor waits until there is this error.
func (w *stepWorld) waitsFor(ctx context.Context, want error) {
	for {
		switch n, err := w.cq.Wait(ctx, make([]WC, 1)); {
		case errors.Is(err, want):
			return
		case err != nil || n == 0:
			step.Fail("Wait: %d, %v", n, err)
		}
	}
}
