package qptest

// Unreliable connections (section 6.4): a gap drops the rest of the message, the next FIRST or ONLY
// begins anew, the receive of a message that was cut off serves the next one. Nothing is answered
// and nothing ends the connection.

import (
	"testing"

	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/wire"
)

// TestUCMessages: every operation, at every length around packet boundaries; complete when the last
// packet has left.
func TestUCMessages(t *testing.T) {
	for mtu := wire.MTU256; mtu <= wire.MTU4096; mtu++ {
		s := NewScript(t)
		a, b := s.Pair(QPConfig{Type: qp.UC, MTU: mtu, PSN: 0xfffffd}, QPConfig{Type: qp.UC, MTU: mtu})
		m := mtu.Bytes()
		for _, n := range []int{0, 1, m - 1, m, m + 1, 3*m + 2} {
			for _, wr := range []qp.SendWR{a.Send(0, n), With(a.Send(0, n), Immediate(3)), a.Write(0, n, b.Remote, 1),
				With(a.Write(0, n, b.Remote, 1), Immediate(4))} {
				b.posted = 0
				if wr.Opcode != qp.WRWrite {
					s.Receive(b, n)
				}
				id := s.Post(a, wr)
				s.Sent(a, id, qp.WCSuccess) // nothing has arrived yet
				s.Settle()
			}
		}
	}
}

// TestUCGap: losing any one packet of a message loses the message and no more; its receive is used
// again.
func TestUCGap(t *testing.T) {
	for lost := range 4 {
		s := NewScript(t)
		a, b := s.Pair(QPConfig{Type: qp.UC}, QPConfig{Type: qp.UC})
		first, second := s.Receive(b, 4096), s.Receive(b, 4096)
		s.Post(a, a.Send(0, 4*1024))
		ops := []wire.Opcode{wire.UCSendFirst, wire.UCSendMiddle, wire.UCSendMiddle, wire.UCSendLast}
		for i, op := range ops {
			if i == lost {
				s.Drop(a, Pkt(op, wire.PSN(i), AckReq(false)))
			} else {
				s.Expect(a, Pkt(op, wire.PSN(i), AckReq(false)))
			}
		}
		s.NoCompletions(b)
		s.Post(a, a.Send(100, 10))
		s.Post(a, a.Send(200, 2000))
		s.Settle()
		if wc := s.Received(b, first, qp.WCSuccess); wc.ByteLen != 10 {
			t.Errorf("lost %d: %d bytes", lost, wc.ByteLen)
		}
		s.Received(b, second, qp.WCSuccess)
		s.InState(b, qp.StateRTS)
		if st := b.Node.Engine.Stats(); st.Drops[wire.DropOutOfSequence] != uint64(3-lost) || st.Drops[wire.DropMalformed] != 0 {
			t.Errorf("lost %d: the rest of the message is counted as %v", lost, drops(&st))
		}
	}
}

// TestUCGapInWrite: what a dropped WRITE wrote before the gap stays, nothing is written after it.
func TestUCGapInWrite(t *testing.T) {
	s := NewScript(t)
	a, b := s.Pair(QPConfig{Type: qp.UC}, QPConfig{Type: qp.UC})
	imm := s.Receive(b, 0)
	s.Post(a, With(a.Write(0, 3*1024, b.Remote, 0), Immediate(1)))
	s.Expect(a, Pkt(wire.UCWriteFirst, 0))
	s.Drop(a, Pkt(wire.UCWriteMiddle, 1))
	s.Expect(a, Pkt(wire.UCWriteLastImm, 2))
	s.NoCompletions(b)
	s.Post(a, With(a.Write(0, 3*1024, b.Remote, 7), Immediate(2)))
	s.Settle()
	if wc := s.Received(b, imm, qp.WCSuccess); wc.Imm != 2 || wc.ByteLen != 3*1024 {
		t.Errorf("%+v", wc)
	}
}

// TestUCCutOff: a new message may begin although the last one has not ended, if packets are missing
// between them or not.
func TestUCCutOff(t *testing.T) {
	s := NewScript(t)
	a, p := s.Against(QPConfig{Type: qp.UC}, 10)
	id := s.Receive(a, 4096)
	p.Inject(Craft{Op: wire.UCSendFirst, PSN: 10, Payload: make([]byte, 1024)})
	p.Inject(Craft{Op: wire.UCSendOnly, PSN: 14, Payload: []byte("after a gap")})
	s.Received(a, id, qp.WCSuccess)
	if string(a.Recv.Bytes[:11]) != "after a gap" {
		t.Error("wrong data")
	}
	id = s.Receive(a, 4096)
	p.Inject(Craft{Op: wire.UCSendFirst, PSN: 15, Payload: make([]byte, 1024)})
	p.Inject(Craft{Op: wire.UCSendMiddle, PSN: 16, Payload: make([]byte, 1024)})
	p.Inject(Craft{Op: wire.UCSendOnly, PSN: 17, Payload: []byte("without")})
	p.Inject(Craft{Op: wire.UCSendLast, PSN: 18, Payload: []byte("nothing")})
	p.Inject(Craft{Op: wire.UCWriteLast, PSN: 19, Payload: []byte("nothing")})
	s.Received(a, id, qp.WCSuccess)
	s.NoCompletions(a)
	s.InState(a, qp.StateRTS)
	s.Quiet()
}

// TestUCDrops: what RC answers with a NAK, UC drops, and goes on with the next message.
func TestUCDrops(t *testing.T) {
	s := NewScript(t)
	a, p := s.Against(QPConfig{Type: qp.UC, Access: mr.RemoteRead}, 0)
	before := string(a.Remote.Bytes)
	psn := wire.PSN(0)
	next := func(c Craft) {
		c.PSN = psn
		psn++
		p.Inject(c)
		s.Quiet()
		s.NoCompletions(a)
		s.InState(a, qp.StateRTS)
	}
	next(Craft{Op: wire.UCSendOnly, Payload: []byte("no receive")})
	next(Craft{Op: wire.UCWriteOnlyImm, VA: a.Remote.Addr(0), RKey: a.Remote.RKey(), Len: 4, Payload: []byte("nope")})
	id := s.Receive(a, 1030)
	next(Craft{Op: wire.UCSendFirst, Payload: make([]byte, 1024)})
	next(Craft{Op: wire.UCSendLast, Payload: []byte("too long")})
	next(Craft{Op: wire.UCSendOnly, Payload: make([]byte, 1031)})
	next(Craft{Op: wire.UCWriteOnly, VA: a.Remote.Addr(0), RKey: a.Remote.RKey(), Len: 4, Payload: []byte("qpno")})
	next(Craft{Op: wire.UCSendMiddle, Payload: make([]byte, 1024)})
	next(Craft{Op: wire.UCSendFirst, Payload: make([]byte, 1000)})
	p.Inject(Craft{Op: wire.UCSendOnly, PSN: psn, Payload: []byte("good")})
	s.Received(a, id, qp.WCSuccess)
	if before != string(a.Remote.Bytes) {
		t.Error("memory has changed")
	}
	a, p = s.Against(QPConfig{Type: qp.UC}, 0)
	psn = 0
	before = string(a.Remote.Bytes)
	next(Craft{Op: wire.UCWriteOnly, VA: a.Remote.Addr(0), RKey: 5, Len: 4, Payload: []byte("rkey")})
	next(Craft{Op: wire.UCWriteOnly, VA: a.Remote.Addr(endMemory - 3), RKey: a.Remote.RKey(), Len: 4, Payload: []byte("over")})
	next(Craft{Op: wire.UCWriteOnly, VA: a.Remote.Addr(0), RKey: a.Remote.RKey(), Len: 5, Payload: []byte("size")})
	if before != string(a.Remote.Bytes) {
		t.Error("memory has changed")
	}
	next(Craft{Op: wire.UCWriteOnly, VA: a.Remote.Addr(0), RKey: a.Remote.RKey(), Len: 4, Payload: []byte("good")})
	if string(a.Remote.Bytes[:4]) != "good" {
		t.Error("a good WRITE was dropped")
	}
}

// TestUCLocalError: SQE: the send queue is flushed, receiving goes on, RTS opens it again
// (sections 5.1, 5.2).
func TestUCLocalError(t *testing.T) {
	s := NewScript(t)
	a, b := s.Pair(QPConfig{Type: qp.UC}, QPConfig{Type: qp.UC})
	wr := a.Send(0, 10)
	wr.SGL[0].LKey++
	bad := s.Post(a, wr)
	s.Sent(a, bad, qp.WCLocProtErr)
	s.InState(a, qp.StateSQE)
	s.Sent(a, s.Post(a, a.Send(0, 1)), qp.WCWRFlushErr)
	id := s.Receive(a, 10)
	s.Post(b, b.Send(0, 10))
	s.Settle()
	s.Received(a, id, qp.WCSuccess)
	if err := a.Modify(qp.QPAttr{State: qp.StateRTS}, qp.AttrState); err != nil {
		t.Fatal(err)
	}
	id = s.Receive(b, 10)
	s.Sent(a, s.Post(a, a.Send(0, 10)), qp.WCSuccess)
	s.Settle()
	s.Received(b, id, qp.WCSuccess)
}
