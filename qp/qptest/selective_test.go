package qptest

// Selective repeat, rule by rule (qp.QPAttr.SelectiveRepeat). Both ends are engines, watched by the
// oracle, unless a test needs a peer that misbehaves.

import (
	"testing"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/wire"
)

const selectiveRTT = 20 * Microsecond

// gapMSN is the MSN field of a NAK of packet at that names the gap from ... to-1; of an empty gap
// it is the standard's.
func gapMSN(at, from, to wire.PSN) wire.PSN { return (from-at)<<12 | (to - from) }

// missing matches the NAK of a responder that expects packet at and misses packets from ... to-1.
func missing(at, from, to wire.PSN) Match {
	return Nak(wire.SynNAKSeq, at, MSN(uint32(gapMSN(at, from, to))))
}

// ackAnd matches an ACK that also says what the newest packet is.
func ackAnd(psn, newest wire.PSN) Match { return Ack(psn&wire.PSNMask, MSN(uint32(newest))) }

// selectivePair is two ends that know the round trip, so that not each packet asks for an ACK. One
// packet, PSN 0, has been sent.
func selectivePair(t *testing.T) (s *Script, a, b *End) {
	s = NewScript(t)
	a, b = s.Pair(QPConfig{Selective: true}, QPConfig{Selective: true})
	s.Post(a, a.Write(0, 10, b.Remote, 0))
	f := s.Keep(a, Pkt(wire.RCWriteOnly, 0))
	s.Advance(selectiveRTT)
	s.Arrive(f)
	s.Expect(b, ackAnd(0, 0))
	a.SendWCs = nil
	return s, a, b
}

// writes posts n messages of one packet each, of which only the last is signaled, and so asks for
// an ACK.
func (s *Script) writes(a, b *End, n int) {
	s.T.Helper()
	for i := range n {
		wr := a.Write(8*i, 8, b.Remote, 8*i)
		if i < n-1 {
			wr.Flags = 0
		}
		s.Post(a, wr)
	}
}

// TestSelectiveOne: the loss of one packet of many costs that packet.
func TestSelectiveOne(t *testing.T) {
	s, a, b := selectivePair(t)
	id := s.Post(a, a.Write(0, 6*1024, b.Remote, 0))
	s.Expect(a, Pkt(wire.RCWriteFirst, 1))
	s.Drop(a, Pkt(wire.RCWriteMiddle, 2))
	s.Expect(a, Pkt(wire.RCWriteMiddle, 3))
	s.Expect(b, missing(2, 2, 3))
	s.Expect(a, Pkt(wire.RCWriteMiddle, 4))
	s.Expect(a, Pkt(wire.RCWriteMiddle, 5))
	s.Expect(a, Pkt(wire.RCWriteLast, 6, AckReq(true)))
	s.Expect(b, ackAnd(1, 6))
	s.NoCompletions(a)
	s.Expect(a, Pkt(wire.RCWriteMiddle, 2, AckReq(true)))
	s.Expect(b, ackAnd(6, 6))
	s.Sent(a, id, qp.WCSuccess)
	s.Quiet()
	if n := a.Node.Engine.Stats().Retransmitted; n != 1 {
		t.Errorf("%d packets were sent again, want 1", n)
	}
	if n := b.Node.Engine.Stats().Kept; n != 4 {
		t.Errorf("%d packets were kept, want 4", n)
	}
}

// TestSelectiveAck: the packet that fills a gap has all that is executed with it acknowledged,
// though nothing else asks.
func TestSelectiveAck(t *testing.T) {
	s, a, b := selectivePair(t)
	s.Post(a, a.Write(0, 20*1024, b.Remote, 0))
	s.Expect(a, Pkt(wire.RCWriteFirst, 1))
	s.Drop(a, Pkt(wire.RCWriteMiddle, 2))
	for psn := wire.PSN(3); psn <= 9; psn++ {
		s.Expect(a, Pkt(wire.RCWriteMiddle, psn, AckReq(false)))
	}
	s.Expect(b, missing(2, 2, 3))
	for psn := wire.PSN(10); psn <= 19; psn++ {
		s.Keep(a, Pkt(wire.RCWriteMiddle, psn))
	}
	s.Keep(a, Pkt(wire.RCWriteLast, 20))
	s.Expect(a, Pkt(wire.RCWriteMiddle, 2))
	s.Expect(b, ackAnd(9, 9))
	s.Quiet()
}

// TestSelectiveTwoHoles: gaps are asked for one by one, and a NAK acknowledges nothing, since an
// older gap may be open.
func TestSelectiveTwoHoles(t *testing.T) {
	s, a, b := selectivePair(t)
	for i := range 8 {
		s.Post(a, a.Write(8*i, 8, b.Remote, 8*i))
	}
	for psn := wire.PSN(1); psn <= 8; psn++ {
		if psn == 2 || psn == 4 || psn == 5 {
			s.Drop(a, Pkt(wire.RCWriteOnly, psn))
		} else {
			s.Expect(a, Pkt(wire.RCWriteOnly, psn))
		}
	}
	s.Expect(b, ackAnd(1, 1))
	a.SendWCs = nil
	first := s.Keep(b, missing(2, 2, 3)) // lost, say, or late
	s.Expect(b, ackAnd(1, 3))            // which tells as much of the oldest
	s.Expect(b, missing(2, 4, 6))
	s.NoCompletions(a)
	s.Expect(a, Pkt(wire.RCWriteOnly, 2))
	s.Arrive(first)
	for range 2 {
		s.Expect(b, Nak(wire.SynACK, 1)) // of packets 6 and 7, which left before 2 was repeated
	}
	s.Expect(a, Pkt(wire.RCWriteOnly, 4))
	s.Settle()
	if len(a.SendWCs) != 7 {
		t.Errorf("%d completions, want 7", len(a.SendWCs))
	}
	if n := a.Node.Engine.Stats().Retransmitted; n != 3 {
		t.Errorf("%d packets were sent again, want 3", n)
	}
	s.Quiet()
}

// TestSelectiveLostAgain: a repeated packet that is lost is repeated once more as soon as something
// that left after it has arrived, not because of what left before.
func TestSelectiveLostAgain(t *testing.T) {
	s, a, b := selectivePair(t)
	s.writes(a, b, 4)
	s.Drop(a, Pkt(wire.RCWriteOnly, 1))
	s.Expect(a, Pkt(wire.RCWriteOnly, 2))
	s.Expect(b, missing(1, 1, 2))
	s.Expect(a, Pkt(wire.RCWriteOnly, 3))
	before := s.Keep(a, Pkt(wire.RCWriteOnly, 4, AckReq(true)))
	s.Drop(a, Pkt(wire.RCWriteOnly, 1))
	s.Arrive(before)
	s.Expect(b, ackAnd(0, 4))
	s.Quiet()
	s.writes(a, b, 2)
	s.Expect(a, Pkt(wire.RCWriteOnly, 5, AckReq(true))) // the first new one asks
	s.Expect(b, ackAnd(0, 5))
	s.Expect(a, Pkt(wire.RCWriteOnly, 6))
	s.Expect(a, Pkt(wire.RCWriteOnly, 1, AckReq(true)))
	s.Settle()
	if n := a.Node.Engine.Stats().Retransmitted; n != 2 || len(a.SendWCs) != 2 {
		t.Errorf("%d packets were sent again, want 2; %d completions, want 2", n, len(a.SendWCs))
	}
}

// TestSelectiveLostNAK: the next packet that asks for an ACK has the loss reported again.
func TestSelectiveLostNAK(t *testing.T) {
	s, a, b := selectivePair(t)
	s.writes(a, b, 3)
	s.Drop(a, Pkt(wire.RCWriteOnly, 1))
	s.Expect(a, Pkt(wire.RCWriteOnly, 2))
	s.Drop(b, missing(1, 1, 2))
	s.Expect(a, Pkt(wire.RCWriteOnly, 3))
	s.Expect(b, ackAnd(0, 3))
	s.Expect(a, Pkt(wire.RCWriteOnly, 1))
	s.Expect(b, ackAnd(3, 3))
	s.Quiet()
}

// TestSelectiveWindow: what is known to have arrived behind a gap is not in flight, so that the gap
// does not hold up new packets; but never more is sent than the peer can keep.
func TestSelectiveWindow(t *testing.T) {
	s := NewScript(t)
	nc := NodeConfig{}
	nc.Engine.Window = 4
	cfg := QPConfig{Selective: true, MTU: wire.MTU256, Timeout: 20}
	a, b := s.newEnd(nc, cfg), s.newEnd(NodeConfig{}, cfg)
	s.Connect(a.QP, b.QP)
	for range 18 {
		s.Post(a, a.Write(0, 60_000, b.Remote, 0))
	}
	s.Drop(a, Pkt(wire.RCWriteFirst, 0))
	s.Expect(a, Pkt(wire.RCWriteMiddle, 1))
	s.Expect(b, missing(0, 0, 1))
	s.Expect(b, ackAnd(wire.PSNMask, 1))
	s.Drop(a, Pkt(wire.RCWriteMiddle, 2))
	s.Drop(a, Pkt(wire.RCWriteMiddle, 3))
	s.Drop(a, Pkt(wire.RCWriteFirst, 0))
	s.Expect(a, Pkt(wire.RCWriteMiddle, 4, AckReq(true))) // 0, 2, 3 and it
	s.Expect(b, missing(0, 2, 4))
	s.Expect(b, ackAnd(wire.PSNMask, 4))
	newest := wire.PSN(4)
	for { // packet 0 is lost for good
		var p wire.Packet
		for i := 0; i < len(s.held); { // all that is sent again is lost
			if _, p, _ = s.held[i].packet(); s.held[i].from == a.Node && p.BTH.PSN() <= newest {
				s.held = append(s.held[:i], s.held[i+1:]...)
			} else {
				i++
			}
		}
		if len(s.held) == 0 {
			break
		}
		f := s.held[0]
		s.held = s.held[1:]
		if _, p, _ = f.packet(); f.from == a.Node {
			newest = p.BTH.PSN()
		}
		s.Arrive(f)
	}
	if newest != qp.MaxWindow-1 {
		t.Errorf("%d packets were sent, want as many as the peer keeps: %d", newest+1, qp.MaxWindow)
	}
}

// TestSelectiveTail: the end of a burst is found out about by a probe, and then only what is
// missing in front of what has arrived.
func TestSelectiveTail(t *testing.T) {
	s, a, b := selectivePair(t)
	s.writes(a, b, 3)
	s.Expect(a, Pkt(wire.RCWriteOnly, 1))
	s.Drop(a, Pkt(wire.RCWriteOnly, 2))
	s.Drop(a, Pkt(wire.RCWriteOnly, 3))
	s.Quiet()
	s.Await(Millisecond)
	s.Expect(a, Pkt(wire.RCWriteOnly, 1, AckReq(true)))
	s.Expect(b, ackAnd(1, 1))
	s.Await(Millisecond)
	s.Expect(a, Pkt(wire.RCWriteOnly, 2))
	s.Expect(a, Pkt(wire.RCWriteOnly, 3))
	s.Settle()
	if len(a.SendWCs) != 1 {
		t.Errorf("%d completions, want 1", len(a.SendWCs))
	}
}

// TestSelectiveDuplicates: what is there twice is dropped, before and after its turn.
func TestSelectiveDuplicates(t *testing.T) {
	s, a, b := selectivePair(t)
	for range 3 {
		s.Receive(b, 100)
		s.Post(a, a.Send(0, 100))
	}
	one := s.Keep(a, Pkt(wire.RCSendOnly, 1))
	two := s.Keep(a, Pkt(wire.RCSendOnly, 2))
	three := s.Keep(a, Pkt(wire.RCSendOnly, 3))
	s.Arrive(three)
	s.Arrive(three)
	if n := b.Node.Engine.Stats().Drops[wire.DropDuplicate]; n != 1 {
		t.Errorf("%d duplicates dropped, want 1", n)
	}
	s.Arrive(two)
	s.Arrive(one)
	s.Arrive(one)
	s.Arrive(two)
	s.Settle()
	if len(b.RecvWCs) != 3 || len(a.SendWCs) != 3 {
		t.Errorf("%d receives and %d sends completed, want 3 and 3", len(b.RecvWCs), len(a.SendWCs))
	}
}

// TestSelectiveRNR: a message without a receive request is sent again alone; what is behind it
// waits at the responder.
func TestSelectiveRNR(t *testing.T) {
	s, a, b := selectivePair(t)
	for range 3 {
		s.Post(a, a.Send(0, 10))
	}
	s.Expect(a, Pkt(wire.RCSendOnly, 1))
	s.Expect(b, Nak(wire.RNRSyndrome(1), 1))
	s.Expect(a, Pkt(wire.RCSendOnly, 2))
	s.Expect(a, Pkt(wire.RCSendOnly, 3))
	s.Expect(b, ackAnd(0, 2)) // no NAK: it has been said
	s.Expect(b, ackAnd(0, 3))
	s.Quiet()
	s.Receive(b, 10)
	s.Receive(b, 10)
	s.Advance(10 * Microsecond)
	s.Expect(a, Pkt(wire.RCSendOnly, 1))
	s.Expect(b, Nak(wire.RNRSyndrome(1), 3)) // found when its turn came
	s.Quiet()
	s.Receive(b, 10)
	s.Advance(10 * Microsecond)
	s.Expect(a, Pkt(wire.RCSendOnly, 3))
	s.Settle()
	if len(b.RecvWCs) != 3 || len(a.SendWCs) != 3 {
		t.Errorf("%d receives and %d sends completed, want 3 and 3", len(b.RecvWCs), len(a.SendWCs))
	}
	if n := a.Node.Engine.Stats().Retransmitted; n != 2 {
		t.Errorf("%d packets were sent again, want 2", n)
	}
}

// TestSelectiveReads: a READ takes the numbers of its replies, so what follows it is no gap; and
// replies keep their order.
func TestSelectiveReads(t *testing.T) {
	s, a, b := selectivePair(t)
	s.Post(a, a.Write(0, 8, b.Remote, 0))
	read := s.Post(a, a.Read(1024, 5*1024, b.Remote, 0))
	add := s.Post(a, a.FetchAdd(16, b.Remote, 8192, 7))
	last := s.Post(a, a.Write(0, 8, b.Remote, 64))
	s.Drop(a, Pkt(wire.RCWriteOnly, 1))
	s.Expect(a, Pkt(wire.RCReadRequest, 2))
	s.Expect(b, missing(1, 1, 2))
	s.Drop(a, Pkt(wire.RCFetchAdd, 7))
	s.Expect(a, Pkt(wire.RCWriteOnly, 8))
	s.Expect(b, ackAnd(0, 6))
	s.Expect(b, missing(1, 7, 8))
	s.Expect(a, Pkt(wire.RCWriteOnly, 1))
	s.Expect(b, ackAnd(0, 8))
	for psn := wire.PSN(2); psn <= 6; psn++ {
		s.next(b.Node, func(p *wire.Packet) string { return field("PSN", p.BTH.PSN(), psn) })
	}
	s.Clear()
	_, _, _ = read, add, last
	s.Await(10 * Millisecond)
	s.Settle()
	for range 20 {
		s.Advance(Millisecond)
		s.Settle()
	}
	if len(a.SendWCs) != 4 {
		t.Errorf("%d completions, want 4", len(a.SendWCs))
	}
}

// TestSelectiveReadOnce: the request that repeats a READ stands for all of it, though the report
// that has led to it has named the READ's first packet only.
func TestSelectiveReadOnce(t *testing.T) {
	s, a, b := selectivePair(t)
	read := s.Post(a, a.Read(0, 4*1024, b.Remote, 0))
	write := s.Post(a, a.Write(0, 8, b.Remote, 0))
	s.Drop(a, Pkt(wire.RCReadRequest, 1))
	s.Expect(a, Pkt(wire.RCWriteOnly, 5, AckReq(true)))
	late := s.Keep(b, missing(1, 1, 5))
	s.Expect(b, ackAnd(0, 5))
	s.Expect(a, Pkt(wire.RCReadRequest, 1))
	s.Arrive(late)
	s.Expect(b, Pkt(wire.RCReadResponseFirst, 1))
	s.Settle()
	s.Sent(a, read, qp.WCSuccess)
	s.Sent(a, write, qp.WCSuccess)
	if n := a.Node.Engine.Stats().Retransmitted; n != 1 {
		t.Errorf("%d packets were sent again, want 1", n)
	}
}

// TestSelectiveTooFar: what is too far ahead to be kept is dropped, and asked for as the standard
// has it: all from there on, once.
func TestSelectiveTooFar(t *testing.T) {
	s := NewScript(t)
	s.Unchecked = true
	a, p := s.Against(QPConfig{Selective: true}, 0)
	write := func(psn wire.PSN) {
		p.Inject(Craft{Op: wire.RCWriteOnly, PSN: psn, VA: a.Remote.Addr(0), RKey: a.Remote.RKey()})
	}
	write(qp.MaxWindow) // beyond the store, and nothing in it
	s.Expect(a, missing(0, 0, 0))
	write(qp.MaxWindow + 1)
	s.Quiet()
	for psn := range wire.PSN(3) {
		write(psn)
	}
	write(4)
	s.Expect(a, missing(3, 3, 4))
	write(3 + qp.MaxWindow) // beyond, while the gap is open
	s.Quiet()
	write(3)
	s.Expect(a, missing(5, 5, 5)) // which acknowledges 4
	write(4 + qp.MaxWindow)       // the last that can be kept
	s.Expect(a, missing(5, 5, 4+qp.MaxWindow))
	s.Quiet()
}

// TestSelectiveGoBack: a NAK that names no packet after the gap is the standard's.
func TestSelectiveGoBack(t *testing.T) {
	s := NewScript(t)
	a, p := s.Against(QPConfig{Selective: true}, 0)
	for range 3 {
		s.Post(a, a.Send(0, 10))
	}
	s.Clear()
	p.Inject(Craft{Op: wire.RCAcknowledge, Syn: wire.SynNAKSeq, PSN: 1, MSN: gapMSN(1, 1, 1)})
	if len(a.SendWCs) != 1 {
		t.Errorf("%d completions, want 1: it acknowledges what is before", len(a.SendWCs))
	}
	s.Drop(a, Pkt(wire.RCSendOnly, 1))
	s.Drop(a, Pkt(wire.RCSendOnly, 2))
	s.Quiet()
}

// TestSelectiveBadReports: reports of what was never sent, or is over, change nothing.
func TestSelectiveBadReports(t *testing.T) {
	s := NewScript(t)
	a, p := s.Against(QPConfig{Selective: true}, 0)
	for range 4 {
		s.Post(a, a.Send(0, 10))
	}
	s.Clear()
	p.Inject(Craft{Op: wire.RCAcknowledge, PSN: 1, MSN: 1})
	for _, bad := range [][3]wire.PSN{{2, 2, 4}, {2, 3, 4}, {2, 2, 4097}, {2, 4097, 4098}, {0, 0, 1}, {0, 0, 2}, {1, 1, 2}, {4, 4, 5},
		{0, 4, 5}} {
		p.Inject(Craft{Op: wire.RCAcknowledge, Syn: wire.SynNAKSeq, PSN: bad[0], MSN: gapMSN(bad[0], bad[1], bad[2])})
		s.Quiet()
	}
	for _, bad := range [][2]wire.PSN{{1, 4}, {1, 2}, {1, 0}, {1, 1 << 23}, {0, 3}, {wire.PSNMask, 3}} {
		p.Inject(Craft{Op: wire.RCAcknowledge, PSN: bad[0], MSN: bad[1]})
		s.Quiet()
	}
	p.Inject(Craft{Op: wire.RCAcknowledge, PSN: 1, MSN: 3}) // a good one
	s.Drop(a, Pkt(wire.RCSendOnly, 2))
	s.Quiet()
	// This NAK is late, and of what has been repeated already.
	p.Inject(Craft{Op: wire.RCAcknowledge, Syn: wire.SynNAKSeq, PSN: 0, MSN: gapMSN(0, 2, 3)})
	s.Quiet()
}

// TestSelectiveMemoryGone: a packet that cannot be made again, because its memory is gone, fails
// when its turn comes; what is missing before it is repeated, once.
func TestSelectiveMemoryGone(t *testing.T) {
	s := NewScript(t)
	s.Unchecked = true
	a, p := s.Against(QPConfig{Selective: true}, 0)
	gone := a.Node.NewRegion("gone", 100, 0x5000000, 0)
	one := s.Post(a, a.Send(0, 10))
	two := s.Post(a, qp.SendWR{Opcode: qp.WRSend, Flags: qp.SendSignaled, SGL: []qp.SGE{gone.SGE(0, 10)}})
	three := s.Post(a, a.Send(0, 10))
	s.Clear()
	if err := a.Node.Memory.Deregister(gone.Region); err != nil {
		t.Fatal(err)
	}
	p.Inject(Craft{Op: wire.RCAcknowledge, Syn: wire.SynNAKSeq, PSN: 0, MSN: gapMSN(0, 1, 2)})
	s.Quiet()
	p.Inject(Craft{Op: wire.RCAcknowledge, PSN: wire.PSNMask, MSN: 2})
	s.Drop(a, Pkt(wire.RCSendOnly, 0))
	s.Quiet()
	p.Inject(Craft{Op: wire.RCAcknowledge, PSN: 0, MSN: 2})
	s.Sent(a, one, qp.WCSuccess)
	s.Sent(a, two, qp.WCLocProtErr)
	s.Sent(a, three, qp.WCWRFlushErr)
}

// TestSelectiveRetries: losses of the same packet use up the retries, if they are as far apart as a
// peer's silence may be.
func TestSelectiveRetries(t *testing.T) {
	s := NewScript(t)
	a, p := s.Against(QPConfig{Selective: true, RetryCnt: 2, Timeout: 20}, 0)
	id := s.Post(a, a.Send(0, 10))
	for psn := wire.PSN(1); ; psn++ {
		s.Advance(20 * Millisecond) // many round trips
		s.Post(a, a.Send(0, 10))
		s.Clear()
		if len(a.SendWCs) > 0 {
			break
		}
		s.Advance(200 * Microsecond)
		s.Clear()
		p.Inject(Craft{Op: wire.RCAcknowledge, PSN: wire.PSNMask, MSN: psn})
		if psn <= 2 {
			s.Drop(a, Pkt(wire.RCSendOnly, 0))
		}
		if psn > 3 {
			t.Fatal("it goes on for ever")
		}
	}
	s.Sent(a, id, qp.WCRetryExcErr)
}

// TestSelectiveOff: without the agreement a gap costs what is behind it, and MSNs are MSNs.
func TestSelectiveOff(t *testing.T) {
	s := NewScript(t)
	a, b := s.Pair(QPConfig{}, QPConfig{})
	for range 3 {
		s.Post(a, a.Write(0, 8, b.Remote, 0))
	}
	s.Drop(a, Pkt(wire.RCWriteOnly, 0))
	s.Expect(a, Pkt(wire.RCWriteOnly, 1))
	s.Expect(b, Nak(wire.SynNAKSeq, 0, MSN(0)))
	s.Expect(a, Pkt(wire.RCWriteOnly, 2))
	for psn := range wire.PSN(3) {
		s.Expect(a, Pkt(wire.RCWriteOnly, psn))
		s.Expect(b, Ack(psn, MSN(uint32(psn)+1)))
	}
	s.Quiet()
	if n := b.Node.Engine.Stats().Kept; n != 0 {
		t.Errorf("%d packets were kept", n)
	}
}
