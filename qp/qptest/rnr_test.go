package qptest

// Receiver not ready (sections 1.6, 4.7).

import (
	"testing"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/wire"
)

// TestRNRTimers: after an RNR NAK the request waits exactly as long as its code says, for all 32
// codes.
func TestRNRTimers(t *testing.T) {
	hundredths := [32]int64{65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096,
		6144, 8192, 12288, 16384, 24576, 32768, 49152}
	for code, wait := range hundredths {
		s := NewScript(t)
		a, p := s.Against(QPConfig{}, 0)
		id := s.Post(a, a.Send(0, 2000))
		s.Clear()
		p.ack(wire.RNRSyndrome(uint8(code)), 0)
		s.NotBefore(qp.Time(wait) * 10_000)
		s.Drop(a, Pkt(wire.RCSendFirst, 0))
		s.Drop(a, Pkt(wire.RCSendLast, 1))
		p.ack(wire.SynACK, 1)
		s.Sent(a, id, qp.WCSuccess)
	}
}

// TestRNRRetries: rnr_retry waits and then RNR_RETRY_EXC_ERR; 7 is for ever; progress gives them
// back.
func TestRNRRetries(t *testing.T) {
	for retries := range uint8(8) {
		s := NewScript(t)
		a, p := s.Against(QPConfig{RNRRetry: retries, NoRNRRetry: true}, 0)
		first := s.Post(a, a.Send(0, 10))
		second := s.Post(a, a.Send(0, 10))
		for _, psn := range []wire.PSN{0, 1} {
			for n := range 30 {
				s.Clear()
				if n == int(retries) && retries < 7 {
					break
				}
				p.ack(wire.RNRSyndrome(1), psn)
				s.NotBefore(10 * Microsecond)
			}
			s.Clear()
			if psn == 0 {
				p.ack(wire.SynACK, 0)
				s.Sent(a, first, qp.WCSuccess)
			}
		}
		s.NoCompletions(a)
		p.ack(wire.RNRSyndrome(1), 1)
		if retries < 7 {
			s.Sent(a, second, qp.WCRNRRetryExcErr)
			s.InState(a, qp.StateErr)
			continue
		}
		s.NoCompletions(a)
	}
}

// TestRNRReloads: an RNR NAK is an answer, so the losses before it do not add up with those after
// it. Without it retry_cnt of them are too many.
func TestRNRReloads(t *testing.T) {
	s := NewScript(t)
	a, p := s.Against(QPConfig{Timeout: 1, RetryCnt: 2}, 0)
	id := s.Post(a, a.Send(0, 10))
	for range 10 {
		for range 2 {
			s.Drop(a, Pkt(wire.RCSendOnly, 0))
			s.NotBefore(qp.Time(wire.AckTimeout(1)))
		}
		s.Clear()
		p.ack(wire.RNRSyndrome(1), 0)
		s.NotBefore(10 * Microsecond)
	}
	s.NoCompletions(a)
	s.Advance(3 * qp.Time(wire.AckTimeout(1)))
	s.Sent(a, id, qp.WCRetryExcErr)
}

// TestRNRWaits: while it waits the requester sends nothing, new requests neither, and the ack timer
// does not run; duplicates of the RNR NAK neither prolong the wait nor cost a retry; what is
// acknowledged meanwhile completes.
func TestRNRWaits(t *testing.T) {
	s := NewScript(t)
	a, p := s.Against(QPConfig{Timeout: 1, RNRRetry: 1}, 0) // 8 us
	first := s.Post(a, a.Send(0, 10))
	s.Post(a, a.Send(0, 10))
	s.Clear()
	p.ack(wire.RNRSyndrome(5), 1) // 60 us, and an ACK of PSN 0
	s.Sent(a, first, qp.WCSuccess)
	s.Advance(30 * Microsecond)
	s.Post(a, a.Write(0, 10, a.Remote, 0))
	p.ack(wire.RNRSyndrome(5), 1)
	s.NoCompletions(a)
	s.NotBefore(30 * Microsecond)
	s.Drop(a, Pkt(wire.RCSendOnly, 1))
	s.Drop(a, Pkt(wire.RCWriteOnly, 2))
	s.NotBefore(qp.Time(wire.AckTimeout(1)))
}

// TestRNRResponder: a message without a receive is answered with RNR, its min_rnr_timer and the
// expected PSN, as often as it comes; what follows it is not answered; with a receive it goes on,
// in the middle of a WRITE with immediate too.
func TestRNRResponder(t *testing.T) {
	for code := range uint8(32) {
		s := NewScript(t)
		a, p := s.Against(QPConfig{MinRNRTimer: max(code, 1)}, 0)
		p.Inject(Craft{Op: wire.RCSendFirst, PSN: 0, Payload: make([]byte, 1024)})
		s.Drop(a, Nak(wire.RNRSyndrome(max(code, 1)), 0, MSN(0)))
		p.Inject(Craft{Op: wire.RCSendLast, PSN: 1, AckReq: true, Payload: make([]byte, 4)})
		s.Quiet()
		p.Inject(Craft{Op: wire.RCSendFirst, PSN: 0, Payload: make([]byte, 1024)})
		s.Drop(a, Nak(wire.RNRSyndrome(max(code, 1)), 0))
		id := s.Receive(a, 2000)
		p.Inject(Craft{Op: wire.RCSendFirst, PSN: 0, Payload: make([]byte, 1024)})
		p.Inject(Craft{Op: wire.RCSendLast, PSN: 1, AckReq: true, Payload: make([]byte, 4)})
		s.Drop(a, Ack(1, MSN(1)))
		s.Received(a, id, qp.WCSuccess)

		write := Craft{Op: wire.RCWriteFirst, PSN: 2, VA: a.Remote.Addr(0), RKey: a.Remote.RKey(), Len: 1028, Payload: make([]byte, 1024)}
		last := Craft{Op: wire.RCWriteLastImm, PSN: 3, AckReq: true, Imm: 5, Payload: []byte{1, 2, 3, 4}}
		p.Inject(write)
		p.Inject(last)
		s.Drop(a, Nak(wire.RNRSyndrome(max(code, 1)), 3, MSN(1)))
		if a.Remote.Bytes[1024] == 1 {
			t.Error("a refused packet was written")
		}
		id = s.Receive(a, 0)
		p.Inject(last)
		s.Drop(a, Ack(3, MSN(2)))
		if wc := s.Received(a, id, qp.WCSuccess); wc.ByteLen != 1028 || wc.Imm != 5 || wc.Opcode != qp.WCRecvRDMAWithImm {
			t.Errorf("WRITE with immediate: %+v", wc)
		}
	}
}

// TestRNRTimerZero: code 0 is the longest time, and a legal attribute.
func TestRNRTimerZero(t *testing.T) {
	s := NewScript(t)
	a, b := s.Pair(QPConfig{}, QPConfig{MinRNRTimer: 31})
	b.Modify(qp.QPAttr{State: qp.StateRTS, MinRNRTimer: 0}, qp.AttrState|qp.AttrMinRNRTimer)
	b.Cfg.MinRNRTimer = 0
	id := s.Post(a, a.Send(0, 10))
	s.Expect(a, Pkt(wire.RCSendOnly, 0))
	s.Expect(b, Nak(wire.SynRNR, 0))
	s.NotBefore(655_360 * Microsecond)
	s.Receive(b, 10)
	s.Settle()
	s.Sent(a, id, qp.WCSuccess)
}
