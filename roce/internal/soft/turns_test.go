package soft

// The turns of a lane step by step, without goroutines and with a time of their own: the
// application polls, posts and pauses, the peer's packets arrive, the port is full now and then,
// and the background takes a turn or leaves it to the application, in any order that a seed makes.
// Whatever the order, these rules hold:
//
//	ACK    what a peer asks to be acknowledged is: by the poll after MaxPostponed others, by the
//	       first poll after PostponedTime (package drive), and by any turn of the background
//	NAK    of a lost packet, or of a missing receive request, leaves with the call that has
//	       received the reason
//	CNP    the same
//	post   a request leaves before PostSend returns, and an ACK with it, unless a background
//	       stands by and the lane holds requests
//	end    when the application has stopped, a turn of the background sends everything that is due
//	       or was posted; without one, so do as many polls as an ACK may wait for; and so does
//	       closing
//
// While the port has no room nothing can leave; afterwards the lane tries again within retryFull,
// and the rules count from there.

import (
	"fmt"
	"hash"
	"hash/fnv"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/roce/internal/soft/drive"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/wire"
)

func TestTurns(t *testing.T) {
	worlds := 2000
	if testing.Short() {
		worlds /= 8
	}
	var seen turnCounts
	digest := fnv.New64a()
	for seed := range worlds {
		w := newTurnWorld(t, uint64(seed))
		for range 300 {
			w.step()
		}
		w.end()
		seen.add(w)
		fmt.Fprint(digest, w.decisions.Sum64(), w.l.count)
		w.close()
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	t.Logf("what left when, and who was woken, in %d worlds: digest %016x", worlds, digest.Sum64())
	if least := min(seen.postponed/3, seen.naks/8, seen.cnps/2, seen.held, seen.full); least < worlds {
		t.Errorf("in %d worlds too little happens for the rules to mean anything: %+v", worlds, seen)
	}
}

// turnCounts is how often there was occasion to break a rule.
type turnCounts struct{ postponed, held, naks, cnps, full int }

func (c *turnCounts) add(w *turnWorld) {
	c.postponed += int(w.l.count.Postponed)
	c.held += w.held
	c.naks += w.port.naks
	c.cnps += w.port.cnps
	c.full += int(w.l.count.PortFull)
}

// turnWorld is one device, its application, its time, and what the rules say is due.
type turnWorld struct {
	*rand.Rand
	t    *testing.T
	e    *end
	l    *lane
	port *scriptPort
	now  qp.Time

	posted   int // requests
	held     int // of them, how many had not left when PostSend returned
	receives int // receive requests that no message has taken

	waits bool     // a packet that was received asks for an ACK
	asked wire.PSN // the newest of them
	since qp.Time  // from when the rules count
	polls int      // since then
	nak   bool     // is due
	cnp   bool     // is due

	attended bool // there is a background
	onDuty   bool // it is

	decisions hash.Hash64 // over what leaves, and when: a change of the house leaves it as it was
}

func newTurnWorld(t *testing.T, seed uint64) *turnWorld {
	w := &turnWorld{Rand: rand.New(rand.NewPCG(seed, 4)), t: t, now: qp.Time(time.Second), decisions: fnv.New64a()}
	w.port = newScriptPort(w)
	d, err := Open("turns", Config{Ports: []transport.Port{w.port}, NoBackground: true})
	must(t, err)
	w.l = d.lanes[0]
	w.l.clock = clock{now: func() qp.Time { return w.now }}
	if seed%2 == 0 {
		w.attended = true
		w.l.drive.Attend(0)
	}
	w.e = &end{t: t, dev: d, buf: make([]byte, 64)}
	w.e.pd, err = d.AllocPD()
	must(t, err)
	w.e.cq, err = d.CreateCQ(CQInit{CQE: 256})
	must(t, err)
	w.e.mr, err = regMR(w.e.pd, w.e.buf, LocalWrite|RemoteWrite)
	must(t, err)
	w.e.qp, err = createQP(w.e.pd, QPInit{SendCQ: w.e.cq, Cap: QPCap{MaxSendWR: 64, MaxRecvWR: 64, MaxRecvSGE: 1, MaxInlineData: 8}})
	must(t, err)
	must(t, w.e.qp.Connect(Endpoint{GID: w.port.peer, QPN: 5, PSN: w.port.next}, nil))
	w.port.acked = w.e.qp.Endpoint().PSN.Prev()
	w.port.newest, w.port.before = w.port.acked, w.port.acked
	return w
}

func (w *turnWorld) close() {
	must(w.t, w.e.qp.Close())
	must(w.t, w.e.mr.Close())
	must(w.t, w.e.cq.Close())
	must(w.t, w.e.pd.Close())
	must(w.t, w.e.dev.Close())
}

// pass lets time pass.
func (w *turnWorld) pass(d time.Duration) {
	w.now += qp.Time(d)
	w.l.clock.at = w.now
}

func (w *turnWorld) step() {
	w.pass(time.Duration(w.IntN(1000)))
	switch n := w.IntN(100); {
	case n < 38:
		w.poll()
	case n < 50:
		w.post()
	case n < 54 && w.receives < 32:
		w.e.recv(0)
		w.receives++
	case n < 76:
		for range 1 + w.IntN(3) {
			w.port.arrive()
		}
	case n < 84:
		w.port.acknowledge()
	case n < 85:
		w.port.full = true
	case n < 89:
		w.room()
	case n < 91:
		w.background()
	case n < 94: // it has seen that the application is back, and stands by
		if w.attended {
			w.l.drive.StandsBy(w.now)
			w.onDuty = false
		}
	case n < 97:
		w.pass(time.Duration(w.IntN(40_000)))
	default:
		w.l.drive.Earn() // by time, in which the steps above are too careless
	}
}

// poll is one of the application, for few or many completions.
func (w *turnWorld) poll() {
	_, err := w.e.cq.Poll(make([]WC, 1+w.IntN(4)))
	must(w.t, err)
	w.called("Poll")
	if !w.waits || w.port.full || w.now < w.since {
		return
	}
	if w.polls++; w.polls > drive.MaxPostponed || w.now-w.since >= drive.PostponedTime {
		w.t.Errorf("no ACK after %d polls in %v", w.polls, time.Duration(w.now-w.since))
	}
}

func (w *turnWorld) post() {
	if w.port.outstanding()+w.unsent() == 64 {
		return
	}
	held := w.l.drive.MayHold()
	w.e.post(SendWR{Opcode: WRWrite, Flags: SendInline | SendSignaled, Inline: w.e.buf[:8]})
	w.posted++
	w.called("PostSend")
	switch {
	// on duty it may sleep, and no post would wake it
	case held && w.attended && !w.onDuty:
		w.held += min(w.unsent(), 1)
	case !w.port.full && (w.unsent() > 0 || w.waits):
		w.t.Errorf("PostSend has left %d requests and an ACK (%v); the lane holds posts: %v, and has a background: %v",
			w.unsent(), w.waits, held, w.attended)
	}
}

// background takes a turn, as watch does, and stays on duty.
func (w *turnWorld) background() {
	if !w.attended {
		return
	}
	w.l.drive.Comes()
	w.onDuty = true
	w.l.turn(w.l.takeOver())
	w.l.release()
	w.called("background")
	if !w.port.full && (w.waits || w.unsent() > 0) {
		w.t.Errorf("the background has left %d requests and an ACK (%v)", w.unsent(), w.waits)
	}
}

// called holds what has become due during a call against the rules that leave no time.
func (w *turnWorld) called(by string) {
	switch {
	case w.port.full: // a NAK acknowledges too, and is then as good as an ACK
		if w.nak {
			w.ask(w.port.expected.Prev())
		}
	case w.waits && w.since == w.now && !w.attended && by == "Poll":
		w.t.Error("a poll has left an ACK, and there is no background to send it")
	case w.nak || w.cnp:
		w.t.Errorf("%s has left a NAK (%v) or a CNP (%v)", by, w.nak, w.cnp)
	}
	w.nak, w.cnp = false, false
}

// ask notes that an ACK is due.
func (w *turnWorld) ask(psn wire.PSN) {
	if !w.waits {
		w.waits, w.since, w.polls = true, w.now, 0
	}
	w.asked = psn
}

// room is there again.
func (w *turnWorld) room() {
	if w.port.full {
		w.port.full = false
		w.since, w.polls = w.now+qp.Time(retryFull), 0
	}
}

// unsent is how many requests have not left.
func (w *turnWorld) unsent() int { return w.posted - int(w.port.newest.Sub(w.port.before)) }

// end stops the application, and everything leaves.
func (w *turnWorld) end() {
	w.room()
	if w.IntN(3) == 0 {
		w.port.in.Reset() // what nobody has received is not answered
		w.port.lent = 0
		must(w.t, w.e.qp.Close())
	} else if w.pass(retryFull); w.attended {
		w.background()
	} else {
		for range drive.MaxPostponed + 1 {
			w.poll()
		}
	}
	if w.unsent() > 0 || w.waits {
		w.t.Errorf("the application has stopped, and %d requests and an ACK (%v) have not left", w.unsent(), w.waits)
	}
}

// scriptPort is the device's port, and the peer. It notes what the device owes for the peer's
// packets.
type scriptPort struct {
	w          *turnWorld
	gid, peer  GID
	paths      [4]wire.Path // from the peer, by the ECN bits
	in         *wire.Batch  // what has arrived
	lent       int          // of it, what the last Recv gave out
	full       bool
	next       wire.PSN // of the peer's next request
	expected   wire.PSN // of it, what the device has not received
	silent     bool     // the device has answered with a NAK, and does so once
	marked     qp.Time  // when it last owed a CNP
	before     wire.PSN // the device's first request
	newest     wire.PSN // request of the device that has left
	acked      wire.PSN // by the peer
	naks, cnps int
}

func newScriptPort(w *turnWorld) *scriptPort {
	p := &scriptPort{w: w, in: wire.NewBatch(64, 64), next: 7, expected: 7}
	p.gid, _ = wire.ParseGID("10.0.0.1")
	p.peer, _ = wire.ParseGID("10.0.0.2")
	for ecn := range p.paths {
		var err error
		p.paths[ecn], err = wire.NewPath(p.peer, p.gid, 0xc000, uint8(ecn), 64, 0)
		must(w.t, err)
	}
	return p
}

// arrive is a WRITE or a SEND, which may ask for an ACK, may be marked, and may come after a loss.
func (p *scriptPort) arrive() {
	if p.in.Len() == p.lent { // the peer hears of everything at once, and starts over
		p.next = p.expected
	}
	psn, op, flags, ecn := p.next, wire.RCWriteOnly, wire.BTHFlags(0), 2
	if p.w.IntN(4) == 0 {
		op = wire.RCSendOnly
	}
	if p.w.IntN(2) == 0 {
		flags = wire.BTHAckReq
	}
	if p.w.IntN(10) == 0 {
		ecn = int(wire.ECNCongestion)
	}
	if p.w.IntN(20) == 0 {
		psn = psn.Add(2)
	} else {
		p.next = p.next.Next()
	}
	p.put(ecn, op, flags, psn)
}

func (p *scriptPort) put(ecn int, op wire.Opcode, flags wire.BTHFlags, psn wire.PSN) *wire.Frame {
	f := p.in.Reserve(&p.paths[ecn], int(op.Info().HdrLen)+wire.ICRCLen)
	if f == nil {
		return nil
	}
	clear(f.Body)
	(*wire.BTH)(f.Body).Put(op, flags, 0, wire.DefaultPKey, p.w.e.qp.QPN(), psn)
	wire.Seal(f)
	return f
}

// acknowledge has the peer acknowledge what has left.
func (p *scriptPort) acknowledge() {
	if p.newest == p.acked {
		return
	}
	if f := p.put(2, wire.RCAcknowledge, 0, p.newest); f != nil {
		(*wire.AETH)(f.Body[wire.BTHLen:]).Put(wire.SynACK, 0)
		wire.Seal(f)
		p.acked = p.newest
	}
}

// outstanding is how many requests have left and are not acknowledged.
func (p *scriptPort) outstanding() int { return int(p.newest.Sub(p.acked)) }

func (p *scriptPort) Recv(frames []wire.Frame) (int, error) {
	p.in.Drop(p.lent)
	p.lent = copy(frames, p.in.Frames())
	for i := range frames[:p.lent] {
		p.received(&frames[i])
	}
	return p.lent, nil
}

// received says what a packet makes due.
func (p *scriptPort) received(f *wire.Frame) {
	w, h, op := p.w, (*wire.BTH)(f.Body), wire.Opcode(f.Body[0])
	if f.ECN() == wire.ECNCongestion && (p.marked == 0 || w.now-p.marked >= qp.DefaultCongestion.CNPInterval) {
		p.marked, w.cnp = w.now, true
	}
	switch {
	case op == wire.RCAcknowledge || h.PSN().Sub(p.expected) < 0:
	case h.PSN() != p.expected:
		w.nak = w.nak || !p.silent
		p.silent = true
	case op == wire.RCSendOnly && w.receives == 0:
		w.nak, p.silent = true, true
	default:
		if op == wire.RCSendOnly {
			w.receives--
		}
		if w.nak = false; h.AckReq() { // what was missing is there: no need to say that it was
			w.ask(p.expected)
		}
		p.expected, p.silent = p.expected.Next(), false
	}
}

func (p *scriptPort) Send(b *wire.Batch) (int, error) {
	if p.full {
		return 0, nil
	}
	for i := range b.Frames() {
		f := &b.Frames()[i]
		fmt.Fprint(p.w.decisions, p.w.now, f.Body[0])
		switch h, op := (*wire.BTH)(f.Body), wire.Opcode(f.Body[0]); op {
		case wire.CNP:
			p.cnps++
			p.w.cnp = false
		case wire.RCAcknowledge:
			p.answered((*wire.AETH)(f.Body[wire.BTHLen:]).Syndrome(), h.PSN())
		default:
			if h.PSN().Sub(p.newest) > 0 {
				p.newest = h.PSN()
			}
		}
	}
	return b.Len(), nil
}

// answered notes an ACK or NAK.
func (p *scriptPort) answered(syn wire.Syndrome, psn wire.PSN) {
	if syn.Kind() != wire.KindACK {
		p.naks++
		p.w.nak, psn = false, psn.Prev()
	}
	if psn.Sub(p.w.asked) >= 0 {
		p.w.waits = false
	}
}

func (p *scriptPort) Wait(time.Duration) error { return nil }
func (p *scriptPort) Wake()                    {}
func (p *scriptPort) Stats() transport.Stats   { return transport.Stats{} }
func (p *scriptPort) Close() error             { return nil }
func (p *scriptPort) Info() transport.Info {
	return transport.Info{Name: "script", Kind: "pipe", GIDs: []wire.GID{p.gid}, Up: true, NetMTU: 65536, MaxRun: 1}
}
