package qptest

// Memory that goes away under requests (MR.Close with work outstanding): what can still be done is
// done, what cannot fails in its turn, each request has one completion.

import (
	"testing"

	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/wire"
)

// close deregisters a region of the end's node.
func (s *Script) close(r *Region) {
	s.T.Helper()
	if err := r.Node.Memory.Deregister(r.Region); err != nil {
		s.T.Fatalf("%v", err)
	}
}

// TestGoneButArrived: a request that cannot be sent again, and whose first copy arrives after all,
// succeeds; what is behind it goes on.
func TestGoneButArrived(t *testing.T) {
	s := NewScript(t)
	s.Unchecked = true
	a, b := s.Pair(QPConfig{Selective: true}, QPConfig{Selective: true})
	gone := a.Node.NewRegion("gone", 100, 0x5000000, 0)
	one := s.Post(a, a.Write(0, 8, b.Remote, 0))
	wr := a.Write(0, 8, b.Remote, 8)
	wr.SGL = []qp.SGE{gone.SGE(0, 8)}
	two := s.Post(a, wr)
	three := s.Post(a, a.Write(0, 8, b.Remote, 16))
	s.Expect(a, Pkt(wire.RCWriteOnly, 0))
	s.Drop(b, Ack(0))
	late := s.Keep(a, Pkt(wire.RCWriteOnly, 1)) // overtaken
	s.Expect(a, Pkt(wire.RCWriteOnly, 2))
	s.close(gone)
	s.Expect(b, missing(1, 1, 2)) // packet 1 cannot be made again
	s.Clear()
	s.NoCompletions(a)
	s.Arrive(late)
	s.Settle()
	for _, id := range []uint64{one, two, three} {
		s.Sent(a, id, qp.WCSuccess)
	}
	four := s.Post(a, a.Write(0, 8, b.Remote, 24))
	s.Settle()
	s.Sent(a, four, qp.WCSuccess)
}

// TestGoneAndAnswered: the response that makes a request that cannot be sent the oldest one has its
// own effect first, and then it fails: once.
func TestGoneAndAnswered(t *testing.T) {
	for name, row := range map[string]struct {
		syn  wire.Syndrome
		want qp.WCStatus
	}{
		"RNR":             {wire.RNRSyndrome(1), qp.WCLocProtErr},
		"sequence error":  {wire.SynNAKSeq, qp.WCLocProtErr},
		"access error":    {wire.SynNAKAccess, qp.WCRemAccessErr},
		"invalid request": {wire.SynNAKInvReq, qp.WCRemInvReqErr},
	} {
		t.Run(name, func(t *testing.T) {
			s := NewScript(t)
			s.Unchecked = true
			a := s.newEnd(NodeConfig{Batch: 1, Budget: 1, Pace: Microsecond}, QPConfig{Timeout: 20})
			p := s.rawPeer(a, NodeConfig{Raw: true}, 0)
			gone := a.Node.NewRegion("gone", 8192, 0x5000000, 0)
			one := s.Post(a, a.Write(0, 8, a.Remote, 0))
			two := s.Post(a, qp.SendWR{Opcode: qp.WRSend, Flags: qp.SendSignaled, SGL: []qp.SGE{gone.SGE(0, 5000)}})
			s.Await(10 * Microsecond)
			s.Drop(a, Pkt(wire.RCWriteOnly, 0))
			s.Await(10 * Microsecond)
			s.Drop(a, Pkt(wire.RCSendFirst, 1))
			s.close(gone)
			s.Advance(10 * Microsecond)
			s.Clear()
			p.Inject(Craft{Op: wire.RCAcknowledge, Syn: row.syn, PSN: 1, MSN: 1})
			s.Sent(a, one, qp.WCSuccess)
			s.Sent(a, two, row.want)
			s.NoCompletions(a)
			three := s.Post(a, a.Send(0, 8))
			s.Sent(a, three, qp.WCWRFlushErr)
		})
	}
}

// TestGoneBehind: a request that can be sent is, however often it gets lost, also when the one
// behind it has lost its memory.
func TestGoneBehind(t *testing.T) {
	for _, never := range []bool{false, true} {
		s := NewScript(t)
		s.Unchecked = true
		a, b := s.Pair(QPConfig{NoTimeout: never}, QPConfig{})
		gone := a.Node.NewRegion("gone", 100, 0x5000000, 0)
		one := s.Post(a, a.Write(0, 8, b.Remote, 0))
		wr := a.Write(0, 8, b.Remote, 8)
		wr.SGL = []qp.SGE{gone.SGE(0, 8)}
		two := s.Post(a, wr)
		s.Drop(a, Pkt(wire.RCWriteOnly, 0))
		s.Expect(a, Pkt(wire.RCWriteOnly, 1))
		s.close(gone)
		s.Expect(b, Nak(wire.SynNAKSeq, 0))
		s.Drop(a, Pkt(wire.RCWriteOnly, 0)) // the retry, lost once; packet 1 cannot be made again
		s.Await(Second)
		s.Settle()
		s.Sent(a, one, qp.WCSuccess)
		s.Sent(a, two, qp.WCLocProtErr)
	}
}

// TestRefusedWriteHasNotWritten: with QPInit.WholeMessages a WRITE whose end is out of bounds
// writes nothing, also where long messages are cut into packets of one size. Otherwise what lies
// inside has been written when it is refused.
func TestRefusedWriteHasNotWritten(t *testing.T) {
	for _, whole := range []bool{true, false} {
		s := NewScript(t)
		s.Unchecked = true
		nc := NodeConfig{}
		nc.Engine.EvenPackets = true
		a, b := s.newEnd(nc, QPConfig{WholeMessages: whole}), s.newEnd(nc, QPConfig{})
		s.Connect(a.QP, b.QP)
		small := b.Node.NewRegion("small", 4096, 0x7f0000900000, mr.LocalWrite|mr.RemoteWrite)
		clear(small.Bytes)
		a.Local.Set(0, bytesOf(0x55, 5000))
		id := s.Post(a, a.Write(0, 5000, small, 0)) // 904 bytes too many
		s.Settle()
		s.Sent(a, id, qp.WCRemAccessErr)
		if written := small.Bytes[0] != 0; written == whole {
			t.Errorf("WholeMessages %v: written %v", whole, written)
		}
	}
}

func bytesOf(b byte, n int) []byte {
	s := make([]byte, n)
	for i := range s {
		s[i] = b
	}
	return s
}
