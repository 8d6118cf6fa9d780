package qptest

// The responder in sequence: what arrives is executed once, duplicates get their old answers, gaps
// get one NAK (sections 4.2, 4.5, 4.6). The peer is raw.

import (
	"encoding/binary"
	"testing"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/wire"
)

// write is a WRITE_ONLY of some bytes to offset at of the end's remote memory.
func (e *End) write(psn wire.PSN, at int, b []byte) Craft {
	return Craft{
		Op:      wire.RCWriteOnly,
		PSN:     psn,
		AckReq:  true,
		VA:      e.Remote.Addr(at),
		RKey:    e.Remote.RKey(),
		Len:     uint32(len(b)),
		Payload: b,
	}
}

// read is a READ of n bytes at offset at.
func (e *End) read(psn wire.PSN, at, n int) Craft {
	return Craft{Op: wire.RCReadRequest, PSN: psn, AckReq: true, VA: e.Remote.Addr(at), RKey: e.Remote.RKey(), Len: uint32(n)}
}

// add is a FETCH_ADD to the 8 bytes at offset at.
func (e *End) add(psn wire.PSN, at int, v uint64) Craft {
	return Craft{Op: wire.RCFetchAdd, PSN: psn, AckReq: true, VA: e.Remote.Addr(at), RKey: e.Remote.RKey(), SwapAdd: v}
}

// word is the 8 bytes at offset at of the end's remote memory as atomics see them.
func (e *End) word(at int) uint64 { return binary.NativeEndian.Uint64(e.Remote.Bytes[at:]) }

// TestNAKOnce: a gap is answered with one NAK 60H that names the expected PSN; more packets of the
// same run are silent; the expected packet ends that, and the next gap is answered again.
func TestNAKOnce(t *testing.T) {
	s := NewScript(t)
	a, p := s.Against(QPConfig{}, 0xfffffe)
	p.Inject(a.write(0xfffffe, 0, []byte("first")))
	s.Drop(a, Ack(0xfffffe, MSN(1)))
	for psn := wire.PSN(0); psn < 20; psn++ { // ffffff is missing
		p.Inject(a.write(psn, 0, []byte("later")))
		if psn == 0 {
			s.Drop(a, Nak(wire.SynNAKSeq, 0xffffff, MSN(1)))
		}
		s.Quiet()
	}
	p.Inject(a.write(0xffffff, 8, []byte("second")))
	s.Drop(a, Ack(0xffffff, MSN(2)))
	p.Inject(a.write(7, 0, []byte("later")))
	s.Drop(a, Nak(wire.SynNAKSeq, 0, MSN(2)))
	if string(a.Remote.Bytes[:5]) != "first" || string(a.Remote.Bytes[8:14]) != "second" {
		t.Error("memory is not what the executed packets wrote")
	}
}

// TestNAKAgain: when the packet behind the gap comes round a second time, the requester has gone
// back and what it sent again was lost again: then, and only then, there is another NAK for the
// same gap.
func TestNAKAgain(t *testing.T) {
	s := NewScript(t)
	a, p := s.Against(QPConfig{}, 0)
	for range 3 {
		for psn := wire.PSN(1); psn < 6; psn++ {
			p.Inject(a.write(psn, 0, []byte{1}))
			if psn == 1 {
				s.Drop(a, Nak(wire.SynNAKSeq, 0))
			}
			s.Quiet()
		}
		p.Inject(a.write(4, 0, []byte{1})) // a duplicate or a late one says nothing
		s.Quiet()
	}
}

// TestPSNRegions: half the circle is the future, half the past.
func TestPSNRegions(t *testing.T) {
	for _, c := range []struct {
		psn wire.PSN
		nak bool
	}{{101, true}, {100 + 1<<23 - 1, true}, {99, false}, {0, false}, {100 + 1<<23, false}} {
		s := NewScript(t)
		a, p := s.Against(QPConfig{}, 99)
		p.Inject(a.write(99, 0, []byte{1}))
		s.Drop(a, Ack(99))
		p.Inject(a.write(c.psn, 0, []byte{2}))
		if c.nak {
			s.Drop(a, Nak(wire.SynNAKSeq, 100, MSN(1)))
		} else {
			s.Drop(a, Ack(99, MSN(1)))
		}
		if a.Remote.Bytes[0] != 1 {
			t.Errorf("PSN %d was executed, expected was 100", c.psn)
		}
	}
}

// TestDuplicateSend: executed once, acknowledged again with the newest PSN and MSN, also while a
// NAK is out.
func TestDuplicateSend(t *testing.T) {
	s := NewScript(t)
	a, p := s.Against(QPConfig{}, 0)
	one, two := s.Receive(a, 10), s.Receive(a, 10)
	send := func(psn wire.PSN, b string) Craft {
		return Craft{Op: wire.RCSendOnly, PSN: psn, AckReq: true, Payload: []byte(b)}
	}
	p.Inject(send(0, "one!"))
	p.Inject(send(1, "two!"))
	s.Drop(a, Ack(0, MSN(1)))
	s.Drop(a, Ack(1, MSN(2)))
	for range 3 {
		p.Inject(send(0, "not!"))
		s.Drop(a, Ack(1, MSN(2)))
	}
	p.Inject(send(3, "new!"))
	s.Drop(a, Nak(wire.SynNAKSeq, 2, MSN(2)))
	p.Inject(send(1, "not!"))
	s.Drop(a, Ack(1, MSN(2)))
	s.Received(a, one, qp.WCSuccess)
	s.Received(a, two, qp.WCSuccess)
	s.NoCompletions(a)
	if string(a.Recv.Bytes[:4]) != "one!" || string(a.Recv.Bytes[10:14]) != "two!" {
		t.Error("a duplicate was executed")
	}
}

// TestDuplicateWrite: the old bytes do not come back.
func TestDuplicateWrite(t *testing.T) {
	s := NewScript(t)
	a, p := s.Against(QPConfig{}, 0)
	p.Inject(a.write(0, 0, []byte("old")))
	p.Inject(a.write(1, 0, []byte("new")))
	p.Inject(a.write(0, 0, []byte("old")))
	if string(a.Remote.Bytes[:3]) != "new" {
		t.Error("a duplicate WRITE was executed")
	}
	s.Drop(a, Ack(0, MSN(1)))
	s.Drop(a, Ack(1, MSN(2)))
	s.Drop(a, Ack(1, MSN(2)))
	s.Quiet()
}

// TestDuplicateRead: a remembered READ is executed again, from memory as it is now: whole, from a
// later packet on, or a range inside it. What does not fit what was asked the first time is
// dropped.
func TestDuplicateRead(t *testing.T) {
	s := NewScript(t)
	a, p := s.Against(QPConfig{}, 0)
	p.Inject(a.read(0, 64, 3*1024+10))
	s.Drop(a, Pkt(wire.RCReadResponseFirst, 0, MSN(1), Payload(a.Remote.Bytes[64:64+1024])))
	s.Drop(a, Pkt(wire.RCReadResponseMiddle, 1, Payload(a.Remote.Bytes[64+1024:64+2048])))
	s.Drop(a, Pkt(wire.RCReadResponseMiddle, 2))
	s.Drop(a, Pkt(wire.RCReadResponseLast, 3, MSN(1), Size(10)))
	copy(a.Remote.Bytes[64:], "changed meanwhile")
	p.Inject(a.read(0, 64, 3*1024+10))
	s.Drop(a, Pkt(wire.RCReadResponseFirst, 0, MSN(1), Payload(a.Remote.Bytes[64:64+1024])))
	s.Clear()
	for k := 1; k < 4; k++ {
		p.Inject(a.read(wire.PSN(k), 64+1024*k, 3*1024+10-1024*k))
		if len(s.held) != 4-k {
			t.Fatalf("restart at %d: %d packets, want %d%s", k, len(s.held), 4-k, s.air())
		}
		m := Payload(a.Remote.Bytes[64+1024*k : 64+min(1024*k+1024, 3*1024+10)])
		f := s.Keep(a, func(pk *wire.Packet) string { return m(pk) + field("PSN", pk.BTH.PSN(), wire.PSN(k)) })
		_ = f
		s.Clear()
	}
	p.Inject(a.read(1, 64+1024, 1024)) // a range inside
	s.Drop(a, func(pk *wire.Packet) string {
		return field("PSN", pk.BTH.PSN(), 1) + field("length", len(pk.Payload), 1024)
	})
	s.Quiet()
	for name, c := range map[string]Craft{
		"another key":     func() Craft { c := a.read(0, 64, 10); c.RKey ^= 1; return c }(),
		"another address": a.read(0, 65, 10),
		"beyond the end":  a.read(0, 64, 3*1024+11),
		"wrong offset":    a.read(2, 64+1024, 1024),
	} {
		p.Inject(c)
		if len(s.held) > 0 {
			t.Errorf("%s was answered:%s", name, s.air())
		}
	}
	s.InState(a, qp.StateRTS)
}

// TestDuplicateAtomic: never executed twice; the first result is repeated. One that is not
// remembered is dropped.
func TestDuplicateAtomic(t *testing.T) {
	s := NewScript(t)
	a, p := s.Against(QPConfig{DestRdAtomic: 2}, 0)
	before := a.word(8)
	p.Inject(a.add(0, 8, 5))
	s.Drop(a, Pkt(wire.RCAtomicAcknowledge, 0, Orig(before), MSN(1), Syn(wire.SynACK)))
	p.Inject(a.add(0, 8, 5))
	s.Drop(a, Pkt(wire.RCAtomicAcknowledge, 0, Orig(before)))
	if a.word(8) != before+5 {
		t.Errorf("memory is %d, want %d", a.word(8), before+5)
	}
	cas := Craft{
		Op:      wire.RCCompareSwap,
		PSN:     1,
		AckReq:  true,
		VA:      a.Remote.Addr(8),
		RKey:    a.Remote.RKey(),
		Compare: before + 5,
		SwapAdd: 77,
	}
	p.Inject(cas)
	s.Drop(a, Pkt(wire.RCAtomicAcknowledge, 1, Orig(before+5), MSN(2)))
	cas.PSN = 2
	p.Inject(cas) // does not match any more
	s.Drop(a, Pkt(wire.RCAtomicAcknowledge, 2, Orig(77), MSN(3)))
	if a.word(8) != 77 {
		t.Errorf("memory is %d, want 77", a.word(8))
	}
	p.Inject(a.add(0, 8, 5)) // two more were remembered since
	s.Quiet()
	cas.PSN = 1
	p.Inject(cas)
	s.Drop(a, Pkt(wire.RCAtomicAcknowledge, 1, Orig(before+5)))
	if a.word(8) != 77 {
		t.Error("a duplicate atomic was executed")
	}
	p.Inject(a.read(1, 8, 8)) // a READ with the PSN of an atomic is no duplicate of it
	s.Quiet()
}

// TestFetchAddWraps: modulo 2^64; the wire is big-endian, memory native.
func TestFetchAddWraps(t *testing.T) {
	s := NewScript(t)
	a, p := s.Against(QPConfig{}, 0)
	binary.NativeEndian.PutUint64(a.Remote.Bytes, ^uint64(0))
	p.Inject(a.add(0, 0, 3))
	s.Drop(a, Pkt(wire.RCAtomicAcknowledge, 0, Orig(^uint64(0))))
	if a.word(0) != 2 {
		t.Errorf("memory is %d, want 2", a.word(0))
	}
}

// TestMSN counts messages, not packets, and stands in every answer.
func TestMSN(t *testing.T) {
	s := NewScript(t)
	a, p := s.Against(QPConfig{}, 0)
	s.Receive(a, 5000)
	p.Inject(Craft{Op: wire.RCSendFirst, PSN: 0, AckReq: true, Payload: make([]byte, 1024)})
	s.Drop(a, Ack(0, MSN(0)))
	p.Inject(Craft{Op: wire.RCSendMiddle, PSN: 1, Payload: make([]byte, 1024)})
	s.Quiet() // A is not set
	p.Inject(Craft{Op: wire.RCSendLast, PSN: 2, AckReq: true, Payload: make([]byte, 1)})
	s.Drop(a, Ack(2, MSN(1)))
	p.Inject(a.read(3, 0, 3000))
	s.Drop(a, Pkt(wire.RCReadResponseFirst, 3, MSN(2)))
	s.Drop(a, Pkt(wire.RCReadResponseMiddle, 4))
	s.Drop(a, Pkt(wire.RCReadResponseLast, 5, MSN(2)))
	p.Inject(a.add(6, 0, 1))
	s.Drop(a, Pkt(wire.RCAtomicAcknowledge, 6, MSN(3)))
	p.Inject(a.write(9, 0, []byte{1}))
	s.Drop(a, Nak(wire.SynNAKSeq, 7, MSN(3)))
}

// TestReadThenSend: answers go in the order of the requests; an ACK does not overtake a READ's
// replies (section 4.6).
func TestReadThenSend(t *testing.T) {
	s := NewScript(t)
	a := s.newEnd(NodeConfig{Batch: 1, Budget: 1, Pace: Microsecond}, QPConfig{})
	p := s.rawPeer(a, NodeConfig{Raw: true}, 0)
	p.Inject(a.read(0, 0, 3000))
	p.Inject(a.write(3, 4000, []byte{1}))
	p.Inject(a.add(4, 5000&^7, 1))
	p.Inject(a.read(5, 0, 0))
	s.Advance(Millisecond)
	s.Drop(a, Pkt(wire.RCReadResponseFirst, 0))
	s.Drop(a, Pkt(wire.RCReadResponseMiddle, 1))
	s.Drop(a, Pkt(wire.RCReadResponseLast, 2))
	if len(s.held) == 3 { // the atomic's answer may stand for the WRITE's
		s.Drop(a, Ack(3))
	}
	s.Drop(a, Pkt(wire.RCAtomicAcknowledge, 4))
	s.Drop(a, Pkt(wire.RCReadResponseOnly, 5, Size(0)))
	s.Quiet()
}

// TestDepth: as many READs and atomics as max_dest_rd_atomic may wait for their answers; one more
// is refused with 61H, whoever sends it does not keep to what was agreed.
func TestDepth(t *testing.T) {
	s := NewScript(t)
	a, p := s.Against(QPConfig{DestRdAtomic: 3}, 0)
	p.injectAll(a.read(0, 0, 10), a.read(1, 0, 10), a.add(2, 0, 1), a.read(3, 0, 10), a.read(4, 0, 10))
	s.Drop(a, Pkt(wire.RCReadResponseOnly, 0))
	s.Drop(a, Pkt(wire.RCReadResponseOnly, 1))
	s.Drop(a, Pkt(wire.RCAtomicAcknowledge, 2))
	s.Drop(a, Nak(wire.SynNAKInvReq, 3, MSN(3)))
	s.Quiet()
	s.InState(a, qp.StateErr)
	s.Event(a, qp.EventQPReqErr)
}

// TestReplayKeepsDepth: replaying an old READ takes no place from new ones.
func TestReplayKeepsDepth(t *testing.T) {
	s := NewScript(t)
	a, p := s.Against(QPConfig{DestRdAtomic: 1}, 0)
	p.Inject(a.read(0, 0, 10))
	s.Drop(a, Pkt(wire.RCReadResponseOnly, 0))
	p.injectAll(a.read(0, 0, 10), a.add(1, 0, 1))
	s.InState(a, qp.StateRTS)
	s.Settle()
}

// injectAll lets several packets arrive in one batch.
func (r *Raw) injectAll(cs ...Craft) {
	var batch []*Flight
	for i := range cs {
		f := cs[i].Frame(&r.path, r.to.QPN())
		batch = append(batch, r.W.flight(r.Node, r.to.Node, &f))
	}
	r.to.Node.deliver(batch)
}

// TestBatchedGap: a gap that is filled within one batch needs no NAK, or at least none that names
// an executed PSN.
func TestBatchedGap(t *testing.T) {
	s := NewScript(t)
	a, p := s.Against(QPConfig{}, 0)
	p.injectAll(a.write(1, 0, []byte{1}), a.write(0, 0, []byte{2}))
	s.Drop(a, Ack(0, MSN(1)))
	s.Quiet()
	unasked := a.write(1, 0, []byte{3})
	unasked.AckReq = false
	p.injectAll(a.write(2, 0, []byte{1}), unasked)
	if len(s.held) > 0 { // it need not say anything; if it does, no more than what was executed
		s.Drop(a, func(pk *wire.Packet) string {
			return Syn(wire.SynACK)(pk) + field("executed", pk.BTH.PSN() <= 1, true)
		})
	}
	s.Quiet()
}

// TestAckOnlyWhenAsked: without the A bit there is no answer to a SEND or WRITE.
func TestAckOnlyWhenAsked(t *testing.T) {
	s := NewScript(t)
	a, p := s.Against(QPConfig{}, 0)
	c := a.write(0, 0, []byte{1})
	c.AckReq = false
	p.Inject(c)
	s.Quiet()
	c = a.write(1, 0, []byte{1})
	p.Inject(c)
	s.Drop(a, Ack(1, MSN(2)))
}

// TestPassive: a queue pair in RTR answers, but does not send.
func TestPassive(t *testing.T) {
	s := NewScript(t)
	a, p := s.Against(QPConfig{WithoutSender: true}, 0)
	s.InState(a, qp.StateRTR)
	p.Inject(a.write(0, 0, []byte{1}))
	s.Drop(a, Ack(0, MSN(1)))
	p.Inject(a.read(1, 0, 1))
	s.Drop(a, Pkt(wire.RCReadResponseOnly, 1))
	if _, err := a.PostSend(a.Send(0, 1)); err == nil {
		t.Error("PostSend in RTR was accepted")
	}
}
