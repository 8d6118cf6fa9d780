package qptest

// What NICs do and this stack does not, as habits of a node: they change what its engine sends on
// its way to the link, as far as the protocol allows. So the engine at the other end has a NIC for
// a peer, as far as that shows on the wire. (The fields that rxe and hardware fill in different
// ways: sections 1.2, 1.4, 1.6, 1.7, 4.3, 4.4, 4.8.)
//
// Stages of disguise: which queue pair sends (of one that is not known, only headers change) →
// headers (dress) → credits → ACKs that wait for more to acknowledge (coalesce) → what goes beside
// the packet: an ACK before a READ's first response, a NAK once more. A READ is asked for once more
// from its middle when a response arrives (askAgain).

import (
	"math/rand/v2"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/wire"
)

// Hardware are the habits of a node. The zero value is this stack's own.
type Hardware struct {
	MigReq bool   // M is 1 in everything but CNPs
	Port   uint16 // the source port of everything but CNPs; 0 is the engine's own
	CNP    bool   // CNPs come from source port 0
	// Identification is that of IPv4; IDOwn leaves what the engine has written.
	Identification Identification
	// Marks sets FECN, BECN and the reserved bits of BTH at random.
	Marks bool
	// DSCP, if not 0, is that of all packets, which keep their ECN bits.
	DSCP uint8
	// Credits are what positive acknowledgements say of receive requests.
	Credits Credits

	AskAlways bool    // AckReq is set in every request
	AckEvery  int     // so many ACKs become one; 0 and 1: none waits
	AckDelay  qp.Time // but none waits longer than this
	AckFirst  bool    // an ACK of what is before it goes before a READ's first response
	RepeatNAK int     // a NAK "PSN sequence error" comes so often once more
	// Continues answers the rest of a READ with MIDDLE and LAST, as if nothing had been lost.
	Continues bool
	// Rereads is the probability that a READ is asked for again from where it stands when a
	// response arrives.
	Rereads float64
}

// Identification is a way to fill that field.
type Identification uint8

// Ways.
const (
	IDOwn Identification = iota
	IDZero
	IDCounting
	IDRandom
)

// Credits is a way to fill the credit code.
type Credits uint8

// Ways.
const (
	CreditsNone   Credits = iota // code 31, "invalid"
	CreditsHonest                // as many as there are receives, rounded down
	CreditsZero                  // always 0
	CreditsRandom                // any number: receives come and go
)

// habits is what a node with habits remembers.
type habits struct {
	rnd  *rand.Rand
	id   uint16
	held map[*QP]*heldAck
}

// heldAck is an ACK that waits.
type heldAck struct {
	flight *Flight // nil: none waits
	merged int     // how many it stands for
	turn   int     // counts those that have left
}

// disguise sends a packet on as a NIC would have made it.
func (w *World) disguise(n *Node, f *Flight) {
	fr, p, ok := f.packet()
	if !ok {
		w.dispatch(f)
		return
	}
	p.Frame = &fr
	h, q := &n.cfg.Hardware, n.remotes[remote{fr.Dst(), p.BTH.DestQP()}]
	known := q != nil && q.in != nil && w.judges() && q.Type() == qp.RC
	if known && h.Continues && p.Op.Has(wire.OpRead|wire.OpStart) && p.Op.Has(wire.OpResponse) {
		f = q.in.continued(f, &p)
		fr, p, _ = f.packet()
		p.Frame = &fr
	}
	n.dress(&fr, &p)
	if a := p.AETH(); a != nil && a.Syndrome() == wire.SynACK {
		a.Put(wire.AckSyndrome(n.creditCode(q, known)), a.MSN())
	}
	wire.Seal(&fr)
	if !known || p.Op.Has(wire.OpRequest) || p.Opcode == wire.CNP {
		w.dispatch(f)
		return
	}
	if h.AckFirst {
		w.ackBefore(q, f, &p)
	}
	if p.Opcode == wire.RCAcknowledge && p.AETH().Syndrome() == wire.SynNAKSeq {
		for range h.RepeatNAK {
			again := f.clone(w)
			w.After(1+qp.Time(n.habits.rnd.Int64N(int64(20*Microsecond))), func() { w.dispatch(again) })
		}
	}
	w.coalesce(q, f, &p)
}

// dress changes headers.
func (n *Node) dress(fr *wire.Frame, p *wire.Packet) {
	h, rnd := &n.cfg.Hardware, n.habits.rnd
	cnp := p.Opcode == wire.CNP
	switch {
	case cnp && h.CNP:
		fr.UDP().SetSrcPort(0)
	case !cnp && h.Port != 0:
		fr.UDP().SetSrcPort(h.Port)
	}
	if !cnp {
		p.BTH.SetMigReq(h.MigReq)
		if h.Marks {
			fr.Body[4] = byte(rnd.Uint32())
			fr.Body[8] |= byte(rnd.Uint32()) & 0x7f
		}
		if h.AskAlways && p.Op.Has(wire.OpRequest) {
			p.BTH.SetAckReq(true)
		}
	}
	ip := fr.IPv4()
	if ip == nil {
		if h.DSCP != 0 {
			v6 := (*wire.IPv6)(fr.Head)
			v6.SetTrafficClass(h.DSCP<<2 | v6.TrafficClass()&3)
		}
		return
	}
	if h.DSCP != 0 {
		ip.SetTOS(h.DSCP<<2 | ip.TOS()&3)
	}
	switch n.habits.id++; h.Identification {
	case IDZero:
		ip.SetIdentification(0)
	case IDCounting:
		ip.SetIdentification(n.habits.id)
	case IDRandom:
		ip.SetIdentification(uint16(rnd.Uint32()))
	}
	ip.UpdateChecksum()
}

// creditCode is what an ACK of queue pair q says.
func (n *Node) creditCode(q *QP, known bool) uint8 {
	switch n.cfg.Hardware.Credits {
	case CreditsZero:
		return 0
	case CreditsRandom:
		return uint8(n.habits.rnd.IntN(31))
	case CreditsHonest:
		if known && q.Cfg.SRQ == nil { // a shared queue promises nothing (section 8.1)
			return creditsFor(len(q.recvs) - q.taken)
		}
	}
	return 31
}

// creditsFor is the code of the most credits that are not more than n.
func creditsFor(n int) uint8 {
	for code := uint8(30); ; code-- {
		if c, _ := wire.Credits(code); int(c) <= n {
			return code
		}
	}
}

// beside builds a packet that goes the way of f.
func (w *World) beside(f *Flight, c Craft) *Flight {
	fr, p, _ := f.packet()
	path, err := wire.NewPath(fr.Src(), fr.Dst(), fr.SrcPort(), fr.TOS(), 64, 0)
	if err != nil {
		panic(err)
	}
	frame := c.Frame(&path, p.BTH.DestQP())
	made := w.flight(f.from, f.to, &frame)
	fr, p, _ = made.packet()
	f.from.dress(&fr, &p)
	wire.Seal(&fr)
	return made
}

// continued is a READ's response that begins in its middle, with the opcode that it would have had
// without a loss.
func (s *stream) continued(f *Flight, p *wire.Packet) *Flight {
	o, k := s.locate(uint64(max(0, s.number(p.BTH.PSN(), s.epsn))))
	if o == nil || !o.read() || k%s.piece(o) == 0 {
		return f
	}
	c := Craft{Op: wire.RCReadResponseMiddle, PSN: p.BTH.PSN(), Payload: p.Payload}
	if p.Op.Has(wire.OpEnd) {
		c.Op, c.Syn, c.MSN = wire.RCReadResponseLast, p.AETH().Syndrome(), p.AETH().MSN()
	}
	return s.to.Node.W.beside(f, c)
}

// ackBefore acknowledges what is before a READ, unless that is one too: its responses must come
// themselves.
func (w *World) ackBefore(q *QP, f *Flight, p *wire.Packet) {
	s := q.in
	n := s.number(p.BTH.PSN(), s.epsn)
	if !p.Op.Has(wire.OpRead|wire.OpStart) || n < 1 {
		return
	}
	if o, _ := s.locate(uint64(n - 1)); o == nil || o.fetches() {
		return
	}
	w.dispatch(w.beside(f, Craft{
		Op:  wire.RCAcknowledge,
		PSN: p.BTH.PSN().Prev(),
		Syn: p.AETH().Syndrome(),
		MSN: p.AETH().MSN(),
	}))
}

// coalesce lets an ACK wait for the next ones. Whatever else acknowledges more takes its place too;
// what acknowledges less leaves behind it.
func (w *World) coalesce(q *QP, f *Flight, p *wire.Packet) {
	h, n := &q.Node.cfg.Hardware, q.Node
	held := n.habits.held[q]
	if held == nil {
		held = &heldAck{}
		n.habits.held[q] = held
	}
	plain := p.Opcode == wire.RCAcknowledge && p.AETH().Syndrome().Kind() == wire.KindACK
	if held.flight != nil {
		_, old, _ := held.flight.packet()
		if p.BTH.PSN().Sub(old.BTH.PSN()) < 0 {
			held.leave(w)
		} else {
			w.release(held.flight)
			held.flight = nil
			held.merged++
		}
	}
	if !plain || held.merged+1 >= h.AckEvery {
		held.merged = 0
		held.turn++
		w.dispatch(f)
		return
	}
	held.flight = f
	turn := held.turn
	w.After(h.AckDelay, func() {
		if held.turn == turn {
			held.leave(w)
		}
	})
}

// leave sends the ACK that waits.
func (a *heldAck) leave(w *World) {
	if a.flight != nil {
		w.dispatch(a.flight)
	}
	a.flight, a.merged = nil, 0
	a.turn++
}

// askAgain is a NIC's own short timer: the READ that a response belongs to is asked for once more
// from where it stands, although nothing is lost. It is asked for once from each place: each
// response to such a request would make another, and a long READ without an end of them.
func (w *World) askAgain(q *QP, p *wire.Packet) {
	h, n := &q.Node.cfg.Hardware, q.Node
	if h.Rereads == 0 || q.Type() != qp.RC || !p.Op.Has(wire.OpRead) || q.down != "" ||
		n.habits.rnd.Float64() >= h.Rereads {
		return
	}
	s := q.out
	at := s.number(p.BTH.PSN(), s.nxt)
	if at < 0 || uint64(at) >= s.nxt {
		return
	}
	o, _ := s.locate(uint64(at))
	if o == nil || !o.read() || o.progress <= o.reread || o.progress == o.packets || o.first+o.progress >= s.nxt {
		return
	}
	o.reread = o.progress
	from := int(o.progress) * s.mtu
	to := min(int(s.pieceEnd(o, o.progress))*s.mtu, o.length)
	path, err := wire.NewPath(q.GID(), q.dest.gid, 0xc000, 0, 64, 0)
	if err != nil {
		panic(err)
	}
	c := Craft{Op: wire.RCReadRequest, PSN: s.psn(o.first + o.progress), AckReq: true,
		VA: o.wr.RemoteAddr + uint64(from), RKey: o.wr.RKey, Len: uint32(to - from)}
	frame := c.Frame(&path, q.dest.qpn)
	f := w.flight(n, q.Peer.Node, &frame)
	fr, again, _ := f.packet()
	n.dress(&fr, &again)
	wire.Seal(&fr)
	w.dispatch(f)
}
