package qptest

// Answers that come early, rule by rule (qp/answers.go, section 4.4): what is missing is asked for
// again alone, and what has come stays.

import (
	"testing"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/wire"
)

// responses lets replies from..to of the peer's READs arrive, but for some, which are lost.
func (s *Script) responses(b *End, from, to wire.PSN, lost ...wire.PSN) {
	s.T.Helper()
	for psn := from; psn <= to; psn++ {
		is := func(p *wire.Packet) string { return field("PSN", p.BTH.PSN(), psn) }
		if len(lost) > 0 && lost[0] == psn {
			s.Drop(b, is)
			lost = lost[1:]
		} else {
			s.Expect(b, is)
		}
	}
}

// asks matches a request for so many replies of one packet each, of a READ whose first is of PSN 1.
func (s *Script) asks(b *End, psn wire.PSN, packets int) Match {
	return Pkt(wire.RCReadRequest, psn, RETH(b.Remote.Addr(1024*int(psn-1)), b.Remote.RKey(), uint32(1024*packets)))
}

// TestMissingReplies: between two ends with selective repeat replies that are missing are asked for
// again by themselves, and nothing else is.
func TestMissingReplies(t *testing.T) {
	s, a, b := selectivePair(t)
	id := s.Post(a, a.Read(0, 32*1024, b.Remote, 0))
	s.Expect(a, s.asks(b, 1, 16))
	s.Expect(a, s.asks(b, 17, 16))
	s.responses(b, 1, 4, 3, 4)
	s.responses(b, 5, 17, 9, 16, 17)
	s.Expect(b, Pkt(wire.RCReadResponseMiddle, 18))
	s.NoCompletions(a)
	s.Expect(a, s.asks(b, 3, 2))
	s.Expect(a, s.asks(b, 9, 1))
	s.Expect(a, s.asks(b, 16, 1))
	s.Expect(a, s.asks(b, 17, 1))
	s.responses(b, 19, 32)
	s.Expect(b, Pkt(wire.RCReadResponseFirst, 3))
	s.Expect(b, Pkt(wire.RCReadResponseLast, 4))
	s.Expect(b, Pkt(wire.RCReadResponseOnly, 9))
	s.NoCompletions(a)
	s.responses(b, 16, 17)
	s.Sent(a, id, qp.WCSuccess)
	s.Quiet()
	if st := a.Node.Engine.Stats(); st.Retransmitted != 4 || st.ImpliedNAK != 3 {
		t.Errorf("%d requests were sent again, want 4; %d implied NAKs, want 3", st.Retransmitted, st.ImpliedNAK)
	}
}

// TestMissingRepliesLostAgain: a reply that was asked for again and is missing while something that
// left later has been answered is asked for once more, without waiting.
func TestMissingRepliesLostAgain(t *testing.T) {
	s, a, b := selectivePair(t)
	id := s.Post(a, a.Read(0, 4*1024, b.Remote, 0))
	s.Expect(a, s.asks(b, 1, 4))
	s.responses(b, 1, 4, 2)
	s.Expect(a, s.asks(b, 2, 1))
	s.responses(b, 2, 2, 2)
	s.Quiet()
	write := s.Post(a, a.Write(0, 8, b.Remote, 8192))
	s.Expect(a, Pkt(wire.RCWriteOnly, 5, AckReq(true)))
	s.Expect(b, ackAnd(5, 5))
	s.Expect(a, s.asks(b, 2, 1))
	s.NoCompletions(a)
	s.responses(b, 2, 2)
	s.Sent(a, id, qp.WCSuccess)
	s.Sent(a, write, qp.WCSuccess) // its ACK was not forgotten
	s.Quiet()
}

// TestMissingRepliesGoBack: against others a missing reply has the rest of its request sent again,
// and nothing behind that; what is behind is complete with it. A NAK of a later request has the
// requests from there on sent again.
func TestMissingRepliesGoBack(t *testing.T) {
	s := NewScript(t)
	a, b := s.Pair(QPConfig{}, QPConfig{})
	read := s.Post(a, a.Read(0, 4*1024, b.Remote, 1024))
	add := s.Post(a, a.FetchAdd(8192, b.Remote, 8192, 7))
	s.Expect(a, Pkt(wire.RCReadRequest, 0))
	s.Expect(a, Pkt(wire.RCFetchAdd, 4))
	s.responses(b, 0, 3, 1)
	s.Expect(b, Pkt(wire.RCAtomicAcknowledge, 4))
	s.NoCompletions(a)
	one, two := s.Post(a, a.Write(0, 8, b.Remote, 0)), s.Post(a, a.Write(0, 8, b.Remote, 0))
	s.Expect(a, Pkt(wire.RCReadRequest, 1, RETH(b.Remote.Addr(2048), b.Remote.RKey(), 3*1024)))
	s.Drop(a, Pkt(wire.RCWriteOnly, 5))
	s.Expect(a, Pkt(wire.RCWriteOnly, 6))
	s.Drop(b, Pkt(wire.RCReadResponseFirst, 1))
	s.responses(b, 2, 3)
	nak := s.Keep(b, Nak(wire.SynNAKSeq, 5))
	s.Arrive(nak)
	s.Expect(a, Pkt(wire.RCWriteOnly, 5))
	s.Arrive(nak) // which is no news
	s.Expect(a, Pkt(wire.RCWriteOnly, 6))
	s.Expect(b, Ack(5))
	s.Expect(a, Pkt(wire.RCReadRequest, 1)) // lost again: packet 5 left later
	s.Expect(b, Ack(6))
	s.NoCompletions(a)
	s.responses(b, 1, 3)
	for _, id := range []uint64{read, add, one, two} {
		s.Sent(a, id, qp.WCSuccess)
	}
	s.Quiet()
}
