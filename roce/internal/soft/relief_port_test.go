package soft

// What the tests of the relief need: a port that two goroutines can wait for, which is also the
// peer; a device on it with a background and a time of its own; and queue pairs that talk to the
// peer. The test decides what arrives, when the alarm goes off and how time passes, so it decides
// when a Watch returns; and it sees who was woken, by what, and what has left together.

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/roce/internal/soft/drive"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/wire"
)

// reliefPort keeps what transport.Watched promises.
type reliefPort struct {
	w    *reliefWorld
	gid  GID
	peer GID
	path wire.Path

	mu        sync.Mutex
	changed   sync.Cond
	in        []*wire.Batch       // what has arrived; a Recv takes the first
	sends     [][]packet          // what has left, by calls of Send
	newest    map[uint32]wire.PSN // request that has left, by the peer's queue pair
	alarm     qp.Time             // when it is to go off; qp.Never: not at all
	gone      bool                // it has gone off
	relieved  bool                // the relief has the port
	leaves    int                 // calls of Leave
	meanwhile func()              // happens during the next Send
	sits      [2]watcherState     // by Watcher
}

// watcherState is what one of the two does.
type watcherState struct {
	inside  bool // a Watch
	rung    bool // a Rouse that no Watch has seen
	rouses  int
	returns int // of Watch
}

// packet is one that has left.
type packet struct {
	op  wire.Opcode
	psn wire.PSN
	to  uint32 // queue pair of the peer
	ask bool   // for an ACK
}

func newReliefPort(w *reliefWorld) *reliefPort {
	p := &reliefPort{w: w, newest: map[uint32]wire.PSN{}, alarm: qp.Never}
	p.changed.L = &p.mu
	p.gid, _ = wire.ParseGID("10.0.0.1")
	p.peer, _ = wire.ParseGID("10.0.0.2")
	var err error
	p.path, err = wire.NewPath(p.peer, p.gid, 0xc000, 2, 64, 0)
	must(w.t, err)
	return p
}

// due tells whether a Watch has a reason to return. The caller has the lock.
func (p *reliefPort) due(who transport.Watcher) bool {
	watches := p.relieved == (who == transport.Relief)
	return p.sits[who].rung || watches && (len(p.in) > 0 || p.gone)
}

// Watch returns when the test has given it a reason. The relief's lasts so long that its goroutine
// does not think that polling would have been better.
func (p *reliefPort) Watch(who transport.Watcher) error {
	start := now()
	p.mu.Lock()
	s := &p.sits[who]
	if who == transport.Relief && !p.relieved {
		p.w.t.Error("the relief watches a port that it has not taken: until now the background heard what it does not handle")
	}
	s.inside = true
	for p.changed.Broadcast(); !p.due(who); {
		p.changed.Wait()
	}
	s.inside, s.rung = false, false
	s.returns++
	p.mu.Unlock()
	for who == transport.Relief && now()-start <= qp.Time(trySpin) {
		runtime.Gosched()
	}
	return nil
}

func (p *reliefPort) Rouse(who transport.Watcher) {
	p.mu.Lock()
	p.sits[who].rung = true
	p.sits[who].rouses++
	p.changed.Broadcast()
	p.mu.Unlock()
}

func (p *reliefPort) Take() {
	p.mu.Lock()
	p.relieved = true
	p.changed.Broadcast()
	p.mu.Unlock()
}

func (p *reliefPort) Leave() {
	p.mu.Lock()
	p.relieved = false
	p.leaves++
	p.changed.Broadcast()
	p.mu.Unlock()
}

// SetAlarm is called under the turn lock, and so may look at the lane's clock.
func (p *reliefPort) SetAlarm(d time.Duration) {
	p.mu.Lock()
	p.alarm, p.gone = qp.Never, false
	if d >= 0 {
		p.alarm = p.w.l.clock.at + qp.Time(d)
	}
	p.mu.Unlock()
}

func (p *reliefPort) Wake() { p.Rouse(transport.Background) }

func (p *reliefPort) Wait(d time.Duration) error {
	p.SetAlarm(d)
	return p.Watch(transport.Background)
}

func (p *reliefPort) Recv(frames []wire.Frame) (n int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.in) > 0 {
		n = copy(frames, p.in[0].Frames())
		p.in = p.in[1:]
	}
	return n, nil
}

func (p *reliefPort) Send(b *wire.Batch) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var call []packet
	for i := range b.Frames() {
		h := (*wire.BTH)(b.Frames()[i].Body)
		k := packet{wire.Opcode(b.Frames()[i].Body[0]), h.PSN(), h.DestQP(), h.AckReq()}
		if k.op != wire.RCAcknowledge {
			p.newest[k.to] = k.psn
		}
		call = append(call, k)
	}
	p.sends = append(p.sends, call)
	p.changed.Broadcast()
	if meanwhile := p.meanwhile; meanwhile != nil {
		p.meanwhile = nil
		meanwhile()
	}
	return b.Len(), nil
}

func (p *reliefPort) Stats() transport.Stats { return transport.Stats{} }
func (p *reliefPort) Close() error           { return nil }
func (p *reliefPort) Info() transport.Info {
	return transport.Info{Name: "relief", Kind: "pipe", GIDs: []wire.GID{p.gid}, Up: true, NetMTU: 65536, MaxRun: 1}
}

// until waits for what the port's users do.
func (p *reliefPort) until(holds func() bool) {
	p.mu.Lock()
	for !holds() {
		p.changed.Wait()
	}
	p.mu.Unlock()
}

// asleep waits until a watcher sleeps, and has no reason to wake up.
func (p *reliefPort) asleep(who transport.Watcher) {
	p.until(func() bool { return p.sits[who].inside && !p.due(who) })
}

// seen returns what has happened to a watcher so far.
func (p *reliefPort) seen(who transport.Watcher) watcherState {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sits[who]
}

// left returns what has left since the last call.
func (p *reliefPort) left() [][]packet {
	p.mu.Lock()
	defer p.mu.Unlock()
	sends := p.sends
	p.sends = nil
	return sends
}

// arrives has packets arrive. If nobody is told, who takes the next turn finds them.
func (p *reliefPort) arrives(b *wire.Batch, told bool) {
	p.mu.Lock()
	p.in = append(p.in, b)
	if told {
		p.changed.Broadcast()
	}
	p.mu.Unlock()
}

// alarmAt is when the alarm goes off.
func (p *reliefPort) alarmAt() qp.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.alarm
}

// reliefWorld is a device on the port, with a background.
type reliefWorld struct {
	t    *testing.T
	port *reliefPort
	d    *Device
	l    *lane
	pd   *PD
	now  atomic.Int64
}

func newReliefWorld(t *testing.T) *reliefWorld { return newReliefWorldOf(t, nil, nil) }

// newReliefWorldOf makes one of a lane with this mailbox, and the port with something around it.
func newReliefWorldOf(t *testing.T, mail *mailbox, wrap func(transport.Port) transport.Port) *reliefWorld {
	w := &reliefWorld{t: t}
	w.now.Store(int64(time.Second))
	w.port = newReliefPort(w)
	var err error
	w.d, err = Open("relief", Config{Ports: []transport.Port{w.port}, Wrap: wrap, NoBackground: true})
	must(t, err)
	t.Cleanup(func() { must(t, w.d.Close()) })
	w.l = w.d.lanes[0]
	w.l.clock = clock{now: func() qp.Time { return qp.Time(w.now.Load()) }}
	w.l.mail = mail
	w.pd, err = w.d.AllocPD()
	must(t, err)
	t.Cleanup(func() { must(t, w.pd.Close()) })
	must(t, w.l.start()) // with the clock of the test
	w.settle()
	return w
}

// pass lets time pass.
func (w *reliefWorld) pass(d time.Duration) {
	w.l.turns.lock()
	w.l.clock.at = qp.Time(w.now.Add(int64(d)))
	w.l.turns.unlock()
}

// settle lets time pass until the background sleeps.
func (w *reliefWorld) settle() {
	for s := w.port.seen(transport.Background); !s.inside; s = w.port.seen(transport.Background) {
		w.pass(time.Duration(drive.MaxStayUp))
		runtime.Gosched()
	}
}

// standbyAlarm is what the background stands by on where the test decides when it looks again.
type standbyAlarm struct {
	alarm
	asleep chan struct{} // holds a token once it sleeps
	look   chan struct{}
	ends   atomic.Int32 // times that somebody else has ended its sleep
}

func (a *standbyAlarm) sleep(time.Duration) {
	a.asleep <- struct{}{}
	<-a.look
}

func (a *standbyAlarm) end() {
	a.ends.Add(1)
	select {
	case a.look <- struct{}{}:
	default:
	}
}

// standsBy has the background, which sleeps on the port, stand by for a goroutine that polls c.
func (w *reliefWorld) standsBy(c *talk) *standbyAlarm {
	a := &standbyAlarm{alarm: w.l.standby, asleep: make(chan struct{}, 1), look: make(chan struct{}, 1)}
	w.l.turns.lock()
	w.l.standby = a
	w.l.turns.unlock()
	if n, err := c.cq.Poll(make([]WC, 1)); n != 0 || err != nil {
		w.t.Fatalf("Poll: %d, %v", n, err)
	}
	w.port.Rouse(transport.Background)
	<-a.asleep
	return a
}

// alarmComes lets time pass until the alarm goes off.
func (w *reliefWorld) alarmComes() {
	w.pass(time.Duration(w.port.alarmAt() - qp.Time(w.now.Load())))
	w.port.mu.Lock()
	w.port.gone = true
	w.port.changed.Broadcast()
	w.port.mu.Unlock()
}

// deadline is the engine's next one.
func (w *reliefWorld) deadline() qp.Time {
	w.l.turns.lock()
	defer w.l.turns.unlock()
	return w.l.engine.NextTimeout()
}

// undisturbed fails the test if the background was woken since before, or if anybody tried.
func (w *reliefWorld) undisturbed(before watcherState) {
	w.t.Helper()
	if s := w.port.seen(transport.Background); s != before {
		w.t.Errorf("the background was woken: %+v, and before %+v", s, before)
	}
}

// talk is a queue pair with its completion queue, and what the peer knows of it.
type talk struct {
	w    *reliefWorld
	cq   *CQ
	qp   *QP
	peer uint32   // queue pair of the peer
	next wire.PSN // the peer's next message
}

func (w *reliefWorld) talk(typ QPType, peer uint32) *talk {
	return w.talkBy(CQInit{CQE: 256}, typ, peer)
}

func (w *reliefWorld) talkBy(init CQInit, typ QPType, peer uint32) *talk {
	c := &talk{w: w, peer: peer, next: 7}
	var err error
	c.cq, err = w.d.CreateCQ(init)
	must(w.t, err)
	c.qp, err = createQP(w.pd, QPInit{Type: typ, SendCQ: c.cq})
	must(w.t, err)
	must(w.t, c.qp.Connect(Endpoint{GID: w.port.peer, QPN: peer, PSN: c.next}, nil))
	w.t.Cleanup(func() {
		must(w.t, c.qp.Close())
		must(w.t, c.cq.Close())
	})
	return c
}

// from is a batch of packets of the peer: an acknowledgement of all that has left, and, if message
// is true, a SEND that asks for an ACK.
func (c *talk) from(message bool) *wire.Batch {
	p, b := c.w.port, wire.NewBatch(2, 64)
	reserve := func(op wire.Opcode, flags wire.BTHFlags, psn wire.PSN) *wire.Frame {
		f := b.Reserve(&p.path, int(op.Info().HdrLen)+wire.ICRCLen)
		clear(f.Body)
		(*wire.BTH)(f.Body).Put(op, flags, 0, wire.DefaultPKey, c.qp.QPN(), psn)
		return f
	}
	p.mu.Lock()
	newest, sent := p.newest[c.peer]
	p.mu.Unlock()
	if sent {
		f := reserve(wire.RCAcknowledge, 0, newest)
		(*wire.AETH)(f.Body[wire.BTHLen:]).Put(wire.SynACK, 0)
		wire.Seal(f)
	}
	if message {
		wire.Seal(reserve(wire.RCSendOnly, wire.BTHAckReq, c.next))
		c.next = c.next.Next()
	}
	return b
}

// says has a message of the peer arrive, with the acknowledgement of ours.
func (c *talk) says() { c.w.port.arrives(c.from(true), true) }

func (c *talk) recv() {
	c.w.t.Helper()
	must(c.w.t, postRecv(c.qp, RecvWR{}))
}

func (c *talk) send(flags SendFlags) {
	c.w.t.Helper()
	must(c.w.t, postSend(c.qp, SendWR{Opcode: WRSend, Flags: flags}))
}

// waited is what a Wait has returned.
type waited struct {
	n   int
	wc  WC
	err error
}

// wait calls Wait, which does not poll first, on a goroutine of its own.
func (c *talk) wait(ctx context.Context) <-chan waited {
	c.cq.spin.Store(0)
	result := make(chan waited, 1)
	go func() {
		var wcs [1]WC
		n, err := c.cq.Wait(ctx, wcs[:])
		result <- waited{n, wcs[0], err}
	}()
	return result
}

// gets fails the test unless the Wait returns a completion of this queue pair.
func (c *talk) gets(result <-chan waited, status WCStatus, op WCOpcode) {
	c.w.t.Helper()
	if r := <-result; r.err != nil || r.n != 1 || r.wc.Status != status || r.wc.Opcode != op || r.wc.QPN != c.qp.QPN() {
		c.w.t.Errorf("Wait: %d, %v, %+v; want %v of %v", r.n, r.err, r.wc, status, op)
	}
}

// relieves calls Wait, and returns when its goroutine sleeps as relief.
func (c *talk) relieves(ctx context.Context) <-chan waited {
	result := c.wait(ctx)
	c.w.port.asleep(transport.Relief)
	return result
}
