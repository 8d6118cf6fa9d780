package qptest

// Scripted tests. In a Script no packet moves by itself: what a node sends waits until the script
// expects it, and then arrives at once, is dropped, or is kept for later. Time moves only by
// Advance. A script reads like the story it tells:
//
//	s.Post(a, s.Write(0, 3000))
//	s.Expect(a, Pkt(wire.RCWriteFirst, 0))
//	s.Drop(a, Pkt(wire.RCWriteMiddle, 1))
//	s.Expect(a, Pkt(wire.RCWriteLast, 2))
//	s.Expect(b, Nak(wire.SynNAKSeq, 1))
//	s.Expect(a, Pkt(wire.RCWriteMiddle, 1))
//
// The peer of a queue pair is another engine's, watched by the oracle, or a raw one whose packets
// the script writes itself. Stages: script and ends, what moves packets and time, what must have
// completed, the raw peer, work requests in short.

import (
	"strings"

	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/wire"
)

// TB is the part of testing.TB that scripts use.
type TB interface {
	Helper()
	Fatalf(format string, args ...any)
}

// Script is a world that a test leads step by step.
type Script struct {
	*World
	T TB
	// Memory is the size of each region of an end.
	Memory int
}

// NewScript returns an empty script.
func NewScript(t TB) *Script {
	s := &Script{World: NewWorld(1), T: t, Memory: endMemory}
	s.Hold = true
	return s
}

// End is a node with a connected queue pair and memory to use: the actor of most scripts.
type End struct {
	*QP
	Local  *Region // for gathering and scattering
	Remote *Region // for the peer to read and write
	Recv   *Region // for receives
	Raw    *Raw    // the peer, if it is a raw one
	posted int     // bytes of Recv in use
}

// endMemory is large enough for what scripts do.
const endMemory = 64 << 10

// newEnd adds a node with one queue pair in RESET.
func (s *Script) newEnd(nc NodeConfig, cfg QPConfig) *End {
	n := s.AddNode(nc)
	e := &End{}
	e.Local = n.NewRegion("local", s.Memory, 0x10000, mr.LocalWrite)
	e.Remote = n.NewRegion("remote", s.Memory, 0x7f0000100000, mr.LocalWrite|mr.RemoteAny|mr.MWBind)
	e.Recv = n.NewRegion("recv", s.Memory, 0x900000, mr.LocalWrite)
	e.QP = n.CreateQP(cfg)
	return e
}

// Pair returns two connected ends that start at PSN 0 unless the configurations say otherwise.
func (s *Script) Pair(a, b QPConfig) (*End, *End) {
	x, y := s.newEnd(NodeConfig{}, a), s.newEnd(NodeConfig{}, b)
	s.Connect(x.QP, y.QP)
	return x, y
}

// Raw is a peer whose packets the script writes: a node without an engine and a queue pair number.
type Raw struct {
	*Node
	QPN  uint32
	path wire.Path
	to   *QP
}

// Against returns an end that is connected to a raw peer, which sends from PSN peerPSN.
func (s *Script) Against(cfg QPConfig, peerPSN wire.PSN) (*End, *Raw) {
	e := s.newEnd(NodeConfig{}, cfg)
	return e, s.rawPeer(e, NodeConfig{Raw: true}, peerPSN)
}

func (s *Script) rawPeer(e *End, nc NodeConfig, psn wire.PSN) *Raw {
	n := s.AddNode(nc)
	r := &Raw{Node: n, QPN: 0x777, to: e.QP}
	var err error
	if r.path, err = wire.NewPath(n.GID, e.Node.GID, 0xc123, 0, 64, 0); err != nil {
		s.T.Fatalf("%v", err)
	}
	if !e.Cfg.DontConnect && (e.Type() == qp.RC || e.Type() == qp.UC) {
		e.ConnectRaw(n, r.QPN, psn)
	}
	e.Raw = r
	for _, m := range e.Node.regions {
		m.loose = true // the oracle does not know what the script will write; the canaries stay
	}
	return r
}

// check ends the test at the first violation.
func (s *Script) check() {
	s.T.Helper()
	if err := s.Err(); err != nil {
		s.T.Fatalf("%v", err)
	}
}

// Post posts a send work request and returns its WRID.
func (s *Script) Post(e *End, wr qp.SendWR) uint64 {
	s.T.Helper()
	id, err := e.PostSend(wr)
	if err != nil {
		s.T.Fatalf("PostSend(%v): %v", wr.Opcode, err)
	}
	s.check()
	return id
}

// Receive posts a receive of n bytes and returns its WRID.
func (s *Script) Receive(e *End, n int) uint64 {
	s.T.Helper()
	var sgl []qp.SGE
	if n > 0 {
		sgl = []qp.SGE{e.Recv.SGE(e.posted, n)}
	}
	e.posted += n
	id, err := e.PostRecv(sgl...)
	if err != nil {
		s.T.Fatalf("PostRecv: %v", err)
	}
	s.check()
	return id
}

// next takes the oldest packet from a node out of the air and holds it against a template.
func (s *Script) next(from *Node, m Match) *Flight {
	s.T.Helper()
	for i, f := range s.held {
		if f.from != from {
			continue
		}
		s.held = append(s.held[:i], s.held[i+1:]...)
		fr, p, ok := f.packet()
		if !ok {
			s.T.Fatalf("%s sent something that does not parse", from)
		}
		p.Frame = &fr
		if why := m(&p); why != "" {
			s.T.Fatalf("%s, but %s sent\n  %s%s", why, from, wire.AppendPacket(nil, &fr), s.air())
		}
		return f
	}
	s.T.Fatalf("%s sent nothing", from)
	return nil
}

// air lists the packets that are waiting.
func (s *Script) air() string {
	var b strings.Builder
	for _, f := range s.held {
		fr, _, _ := f.packet()
		b.WriteString("\n  waiting: " + string(wire.AppendPacket(nil, &fr)))
	}
	return b.String()
}

// Expect takes the next packet of an end, which must match, and lets it arrive.
func (s *Script) Expect(from *End, m Match) {
	s.T.Helper()
	s.Arrive(s.next(from.Node, m))
}

// Drop takes the next packet of an end, which must match, and loses it.
func (s *Script) Drop(from *End, m Match) {
	s.T.Helper()
	s.next(from.Node, m)
	s.check()
}

// Keep takes the next packet of an end, which must match, and returns it, to Arrive when the script
// likes, or twice.
func (s *Script) Keep(from *End, m Match) *Flight {
	s.T.Helper()
	f := s.next(from.Node, m)
	s.check()
	return f
}

// Arrive delivers a copy of a packet.
func (s *Script) Arrive(f *Flight) {
	s.T.Helper()
	f.to.deliver([]*Flight{f.clone(s.World)})
	s.check()
}

// Quiet says that no packet is waiting.
func (s *Script) Quiet() {
	s.T.Helper()
	s.check()
	if len(s.held) > 0 {
		s.T.Fatalf("nothing more should be sent%s", s.air())
	}
}

// Settle lets all waiting packets arrive, and those they cause, until the air is empty. Time does
// not move.
func (s *Script) Settle() {
	s.T.Helper()
	for n := 0; len(s.held) > 0; n++ {
		if n > 100_000 {
			s.T.Fatalf("the world does not come to rest%s", s.air())
		}
		f := s.held[0]
		s.held = s.held[1:]
		s.Arrive(f)
	}
}

// Advance lets time pass; deadlines that come are handled at their time.
func (s *Script) Advance(d qp.Time) {
	s.T.Helper()
	s.RunFor(d)
	s.check()
}

// NotBefore checks that nothing is sent for d, and that something is at that very moment.
func (s *Script) NotBefore(d qp.Time) {
	s.T.Helper()
	s.Quiet()
	s.Advance(d - 1)
	s.Quiet()
	s.Advance(1)
	if len(s.held) == 0 {
		s.T.Fatalf("nothing was sent after %d ns; next deadline %d ns later", d, s.Nodes[0].deadline-s.Now)
	}
}

// Await lets time pass until something is sent, which must happen within d, and returns how long it
// took.
func (s *Script) Await(d qp.Time) qp.Time {
	s.T.Helper()
	start := s.Now
	for len(s.held) == 0 {
		at, _ := s.World.next()
		if at > start+d {
			s.T.Fatalf("nothing was sent within %d ns", d)
		}
		s.RunUntil(at)
		s.check()
	}
	return s.Now - start
}

// Clear loses all packets that are waiting.
func (s *Script) Clear() { s.held = nil }

// Sent takes the next send completion, which must be this one.
func (s *Script) Sent(e *End, wrid uint64, status qp.WCStatus) qp.WC {
	s.T.Helper()
	return s.take(e, &e.SendWCs, wrid, status)
}

// Received takes the next receive completion, which must be this one.
func (s *Script) Received(e *End, wrid uint64, status qp.WCStatus) qp.WC {
	s.T.Helper()
	return s.take(e, &e.RecvWCs, wrid, status)
}

func (s *Script) take(e *End, from *[]qp.WC, wrid uint64, status qp.WCStatus) qp.WC {
	s.T.Helper()
	s.check()
	if len(*from) == 0 {
		s.T.Fatalf("%s has no completion; want WRID %#x with %q", e.QP, wrid, status)
	}
	wc := (*from)[0]
	*from = (*from)[1:]
	if wc.WRID != wrid || wc.Status != status {
		s.T.Fatalf("%s completed WRID %#x with %q; want %#x with %q", e.QP, wc.WRID, wc.Status, wrid, status)
	}
	return wc
}

// NoCompletions says that no completion is waiting at these ends.
func (s *Script) NoCompletions(ends ...*End) {
	s.T.Helper()
	s.check()
	for _, e := range ends {
		if len(e.SendWCs)+len(e.RecvWCs) > 0 {
			s.T.Fatalf("%s has completions: sends %+v, receives %+v", e.QP, e.SendWCs, e.RecvWCs)
		}
	}
}

// InState checks the state of an end.
func (s *Script) InState(e *End, state qp.QPState) {
	s.T.Helper()
	s.check()
	if e.State() != state {
		s.T.Fatalf("%s is in %v, should be in %v", e.QP, e.State(), state)
	}
}

// Event takes the next asynchronous event of an end's node, which must be this one.
func (s *Script) Event(e *End, want qp.EventType) {
	s.T.Helper()
	s.check()
	for len(e.Node.Events) > 0 {
		ev := e.Node.Events[0]
		e.Node.Events = e.Node.Events[1:]
		if ev.Type == qp.EventCommEst && want != ev.Type {
			continue
		}
		if ev.Type != want {
			s.T.Fatalf("%s: event %q, want %q", e.QP, ev.Type, want)
		}
		return
	}
	s.T.Fatalf("%s: no event, want %q", e.QP, want)
}

// Inject lets a hand-made packet arrive from the raw peer.
func (r *Raw) Inject(c Craft) {
	f := c.Frame(&r.path, r.to.QPN())
	r.InjectFrame(&f)
}

// InjectFrame lets any frame arrive from the raw peer.
func (r *Raw) InjectFrame(f *wire.Frame) {
	w := r.W
	if w.Capture != nil {
		w.Capture.add(w.Now, r.Node, f)
	}
	r.to.Node.deliver([]*Flight{w.flight(r.Node, r.to.Node, f)})
}

// Work requests, in short.

// Send is a signaled SEND of n bytes from offset off of the end's local memory.
func (e *End) Send(off, n int) qp.SendWR {
	wr := qp.SendWR{Opcode: qp.WRSend, Flags: qp.SendSignaled}
	if n > 0 {
		wr.SGL = []qp.SGE{e.Local.SGE(off, n)}
	}
	return wr
}

// Write is a signaled WRITE of n bytes from offset off of the end's local memory to offset at of
// the peer's remote memory.
func (e *End) Write(off, n int, to *Region, at int) qp.SendWR {
	wr := e.Send(off, n)
	wr.Opcode, wr.RKey, wr.RemoteAddr = qp.WRWrite, to.RKey(), to.Addr(at)
	return wr
}

// Read is a signaled READ of n bytes at offset at of the peer's remote memory to offset off of the
// end's local memory.
func (e *End) Read(off, n int, from *Region, at int) qp.SendWR {
	wr := e.Write(off, n, from, at)
	wr.Opcode = qp.WRRead
	return wr
}

// FetchAdd adds to the 8 bytes at offset at of the peer's remote memory.
func (e *End) FetchAdd(off int, to *Region, at int, add uint64) qp.SendWR {
	wr := e.Write(off, 8, to, at)
	wr.Opcode, wr.CompareAdd = qp.WRAtomicFetchAndAdd, add
	return wr
}

// With changes a work request's opcode, immediate data or flags.
func With(wr qp.SendWR, change ...func(*qp.SendWR)) qp.SendWR {
	for _, c := range change {
		c(&wr)
	}
	return wr
}

// Immediate turns a SEND or WRITE into one with immediate data.
func Immediate(v uint32) func(*qp.SendWR) {
	return func(wr *qp.SendWR) {
		wr.Imm = v
		switch wr.Opcode {
		case qp.WRSend:
			wr.Opcode = qp.WRSendWithImm
		case qp.WRWrite:
			wr.Opcode = qp.WRWriteWithImm
		}
	}
}

// Unsignaled takes the signal away.
func Unsignaled(wr *qp.SendWR) { wr.Flags &^= qp.SendSignaled }

// Fenced adds the fence.
func Fenced(wr *qp.SendWR) { wr.Flags |= qp.SendFence }

// SolicitedEvent adds the solicited event.
func SolicitedEvent(wr *qp.SendWR) { wr.Flags |= qp.SendSolicited }

// Invalidating turns a SEND into one that invalidates a key.
func Invalidating(key uint32) func(*qp.SendWR) {
	return func(wr *qp.SendWR) { wr.Opcode, wr.InvalidateKey = qp.WRSendWithInv, key }
}

// InlineData replaces the elements by data that is copied when posting.
func InlineData(b []byte) func(*qp.SendWR) {
	return func(wr *qp.SendWR) { wr.SGL, wr.Inline, wr.Flags = nil, b, wr.Flags|qp.SendInline }
}
