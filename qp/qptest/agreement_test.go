package qptest

// Ends that do not agree, or that change while something is owed: slower, perhaps, but nothing is
// lost and nothing is said that is not so.

import (
	"encoding/binary"
	"testing"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/wire"
)

// TestSelectiveResponderAlone: a requester of the standard takes a NAK for an acknowledgement of
// everything before its PSN. So no NAK of a responder that repeats selectively may name a later one
// than the expected one.
func TestSelectiveResponderAlone(t *testing.T) {
	s := NewScript(t)
	s.Unchecked = true
	a, b := s.Pair(QPConfig{}, QPConfig{Selective: true})
	var ids []uint64
	for i := range 5 {
		ids = append(ids, s.Post(a, a.Write(8*i, 8, b.Remote, 8*i)))
	}
	for psn := wire.PSN(0); psn < 5; psn++ {
		if psn == 1 || psn == 3 {
			s.Drop(a, Pkt(wire.RCWriteOnly, psn))
		} else {
			s.Expect(a, Pkt(wire.RCWriteOnly, psn))
		}
	}
	for n := 0; n < 100 && len(s.held) > 0; n++ { // replies arrive; what is sent again is lost
		f := s.held[0]
		s.held = s.held[1:]
		if f.from != a.Node {
			s.Arrive(f)
		}
	}
	s.Sent(a, ids[0], qp.WCSuccess)
	s.NoCompletions(a)
	for n := 0; n < 100 && len(a.SendWCs) < 4; n++ { // the network works again
		s.Advance(Millisecond)
		s.Settle()
	}
	for _, id := range ids[1:] {
		s.Sent(a, id, qp.WCSuccess)
	}
}

// TestSelectiveRequesterAlone: it reads MSNs as something that they are not. That costs time, no
// data.
func TestSelectiveRequesterAlone(t *testing.T) {
	s := NewScript(t)
	s.Unchecked = true
	a, b := s.Pair(QPConfig{Selective: true}, QPConfig{})
	var ids []uint64
	for i := range 5 {
		ids = append(ids, s.Post(a, a.Write(8*i, 8, b.Remote, 8*i)))
	}
	s.Drop(a, Pkt(wire.RCWriteOnly, 0))
	s.Drop(a, Pkt(wire.RCWriteOnly, 1))
	for n := 0; n < 100 && len(a.SendWCs) < len(ids); n++ {
		s.Advance(Millisecond)
		s.Settle()
	}
	for i, id := range ids {
		s.Sent(a, id, qp.WCSuccess)
		if b.Remote.Bytes[8*i] != a.Local.Bytes[8*i] {
			t.Errorf("WRITE %d succeeded and is not there", i)
		}
	}
}

// TestLongWindowAlone: where one end names gaps in the long form, and the other in the short one,
// nothing is lost.
func TestLongWindowAlone(t *testing.T) {
	for _, long := range []bool{true, false} {
		s := NewScript(t)
		a, b := s.Pair(QPConfig{Selective: true, LongWindow: long}, QPConfig{Selective: true, LongWindow: !long})
		s.Unchecked = true // it expects them to agree
		var ids []uint64
		for i := range 9 {
			ids = append(ids, s.Post(a, a.Write(8*i, 8, b.Remote, 8*i)))
		}
		for psn := range wire.PSN(9) {
			if f := s.Keep(a, Pkt(wire.RCWriteOnly, psn)); psn != 1 && psn != 4 && psn != 5 {
				s.Arrive(f)
			}
		}
		for n := 0; n < 100 && len(a.SendWCs) < len(ids); n++ {
			s.Advance(Millisecond)
			s.Settle()
		}
		for i, id := range ids {
			s.Sent(a, id, qp.WCSuccess)
			if b.Remote.Bytes[8*i] != a.Local.Bytes[8*i] {
				t.Errorf("WRITE %d succeeded and is not there", i)
			}
		}
	}
}

// TestLongWindow: what lies further ahead than a short window is kept where that is agreed, and a
// gap of as many packets is named; what is further away than a long one is not kept.
func TestLongWindow(t *testing.T) {
	s := NewScript(t)
	s.Unchecked = true
	a, p := s.Against(QPConfig{Selective: true, LongWindow: true}, 0)
	write := func(psn wire.PSN) {
		p.Inject(Craft{Op: wire.RCWriteOnly, PSN: psn, VA: a.Remote.Addr(0), RKey: a.Remote.RKey()})
	}
	named := func(at, code wire.PSN) Match { return Nak(wire.SynNAKSeq, at, MSN(uint32(code))) }
	write(2)
	s.Expect(a, named(0, 0<<8|2))
	write(3 + qp.MaxWindow + 5)
	s.Expect(a, named(0, 3<<8|(127+qp.MaxWindow/128)))
	s.Expect(a, named(0, (3+qp.MaxWindow)<<8|5))
	write(qp.MaxLongWindow)
	s.Quiet()
	for psn := range wire.PSN(3 + qp.MaxWindow + 5) {
		if psn != 2 {
			write(psn)
		}
	}
	s.Expect(a, Ack(2, MSN(uint32(3+qp.MaxWindow+5)))) // what filled the first gap
	s.Expect(a, named(3+qp.MaxWindow+6, 0))            // all from there on; what is before is there
	s.Quiet()
}

// TestLongDepth: where long windows are agreed, twice max_rd_atomic requests are out while the
// window is long, and the peer remembers them all: none is executed twice, and none is forgotten.
func TestLongDepth(t *testing.T) {
	for _, c := range []struct {
		window, out int
		long        bool
		mtu         wire.MTU
	}{{qp.MaxWindow, 2, true, wire.MTU1024}, {qp.MaxWindow + 1, 4, true, wire.MTU1024},
		{qp.MaxWindow + 1, 2, false, wire.MTU1024}, {qp.MaxWindow / 4, 2, true, wire.MTU4096},
		{qp.MaxWindow/4 + 1, 4, true, wire.MTU4096}} {
		s := NewScript(t)
		cfg := QPConfig{Selective: true, LongWindow: c.long, RdAtomic: 2, DestRdAtomic: 2, MTU: c.mtu}
		a, b := s.newEnd(NodeConfig{Engine: qp.Config{Window: c.window}}, cfg), s.newEnd(NodeConfig{}, cfg)
		s.Connect(a.QP, b.QP)
		var ids []uint64
		for i := range 6 {
			ids = append(ids, s.Post(a, a.FetchAdd(16*i, b.Remote, 8*i, 1)))
		}
		for psn := range wire.PSN(c.out) {
			s.Expect(a, Pkt(wire.RCFetchAdd, psn))
		}
		for psn := range wire.PSN(c.out) {
			s.Drop(b, Pkt(wire.RCAtomicAcknowledge, psn))
		}
		s.Quiet()
		for n := 0; n < 1000 && len(a.SendWCs) < len(ids); n++ {
			s.Advance(Millisecond)
			s.Settle()
		}
		for _, id := range ids {
			s.Sent(a, id, qp.WCSuccess)
		}
	}
}

// TestKeepsNoJumbo: what a responder keeps is bounded by the path MTU, whatever a peer sends.
func TestKeepsNoJumbo(t *testing.T) {
	s := NewScript(t)
	s.Unchecked = true
	a, p := s.Against(QPConfig{Selective: true, MTU: wire.MTU1024}, 0)
	for psn := wire.PSN(1); psn < 100; psn++ {
		p.Inject(Craft{Op: wire.RCSendOnly, PSN: psn, Payload: make([]byte, 60000)})
		p.Inject(Craft{Op: wire.RCSendOnly, PSN: psn, Payload: make([]byte, 1025)})
	}
	s.Quiet()
	if n := a.Node.Engine.Stats().Kept; n != 0 {
		t.Errorf("%d packets that are too long were kept", n)
	}
	p.Inject(Craft{Op: wire.RCSendOnly, PSN: 100, Payload: make([]byte, 1024)})
	if n := a.Node.Engine.Stats().Kept; n != 1 {
		t.Errorf("%d packets were kept, want the good one", n)
	}
}

// TestDepthChangesWhileOwed: max_dest_rd_atomic may change in SQD while replies are owed and
// remembered, up or down: all that was executed is answered, again and again if need be.
func TestDepthChangesWhileOwed(t *testing.T) {
	for _, depth := range []uint8{0, 1, 2, 3, 4, 8, 128} {
		s := NewScript(t)
		s.Unchecked = true
		a := s.newEnd(NodeConfig{Batch: 1, Budget: 1, Pace: Millisecond}, QPConfig{DestRdAtomic: 4})
		p := s.rawPeer(a, NodeConfig{Raw: true}, 0)
		add := func(psn wire.PSN) Craft {
			return Craft{Op: wire.RCFetchAdd, PSN: psn, VA: a.Remote.Addr(8 * int(psn%8)), RKey: a.Remote.RKey(), SwapAdd: 1}
		}
		orig := func(psn wire.PSN) Match { return Orig(binary.NativeEndian.Uint64(a.Remote.Bytes[8*int(psn%8):]) - 1) }
		for psn := range wire.PSN(6) { // two are answered, four are owed
			p.Inject(add(psn))
			if psn < 2 {
				s.Await(Second)
				s.Drop(a, Pkt(wire.RCAtomicAcknowledge, psn))
			}
		}
		for _, mask := range []qp.AttrMask{qp.AttrState, qp.AttrMaxDestRdAtomic} {
			if err := a.Modify(qp.QPAttr{State: qp.StateSQD, MaxDestRdAtomic: depth}, mask); err != nil {
				t.Fatal(err)
			}
		}
		for psn := wire.PSN(2); psn < 6; psn++ {
			if len(s.held) == 0 {
				s.Await(Second)
			}
			s.Drop(a, Pkt(wire.RCAtomicAcknowledge, psn, orig(psn)))
		}
		for psn := wire.PSN(2); psn < 6; psn++ { // lost: the peer asks again
			p.Inject(add(psn))
			s.Await(Second)
			s.Drop(a, Pkt(wire.RCAtomicAcknowledge, psn, orig(psn)))
		}
		s.Quiet()
	}
}
