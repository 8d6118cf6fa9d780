package qptest

// The requester hears answers, or none (sections 4.4, 4.7). The peer is raw unless said otherwise:
// the script plays it.

import (
	"fmt"
	"testing"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/wire"
)

// ack injects an ACKNOWLEDGE packet.
func (r *Raw) ack(s wire.Syndrome, psn wire.PSN) {
	r.Inject(Craft{Op: wire.RCAcknowledge, Syn: s, PSN: psn})
}

// TestTimeoutRetries: after 4.096 us * 2^n without an answer the oldest unacknowledged packet is
// sent again, retry_cnt times, and then its request fails. The times are exact. (No round trip has
// been measured, so nothing is sent before.)
func TestTimeoutRetries(t *testing.T) {
	for _, timeout := range []uint8{1, 4, 8, 14, 20, 31} {
		for retries := range uint8(8) {
			s := NewScript(t)
			a, _ := s.Against(QPConfig{Timeout: timeout, RetryCnt: retries, NoRetry: true}, 0)
			id := s.Post(a, a.Send(0, 2000))
			behind := s.Post(a, a.Send(0, 1))
			for n := uint8(0); ; n++ {
				s.Drop(a, Pkt(wire.RCSendFirst, 0))
				s.Clear()
				if n == retries {
					break
				}
				s.NotBefore(qp.Time(wire.AckTimeout(timeout)))
			}
			s.Advance(qp.Time(wire.AckTimeout(timeout)) - 1)
			s.NoCompletions(a)
			s.Advance(1)
			s.Sent(a, id, qp.WCRetryExcErr)
			s.Sent(a, behind, qp.WCWRFlushErr)
			s.InState(a, qp.StateErr)
			s.Quiet()
			s.Advance(Second)
			s.Quiet()
		}
	}
}

// TestTimeoutZero: timeout 0 waits for ever.
func TestTimeoutZero(t *testing.T) {
	s := NewScript(t)
	a, _ := s.Against(QPConfig{NoTimeout: true}, 0)
	s.Post(a, a.Send(0, 10))
	s.Drop(a, Pkt(wire.RCSendOnly, 0))
	s.Advance(100_000 * Second)
	s.Quiet()
	s.NoCompletions(a)
}

// TestProbe: when round trips are known, the loss of the last packets is noticed within a few of
// them, not only after the ack timeout; and however many probes go unanswered, they cost no retry
// and do not move the end.
func TestProbe(t *testing.T) {
	const rtt = 50 * Microsecond
	s := NewScript(t)
	a, p := s.Against(QPConfig{Timeout: 14, RetryCnt: 1}, 0) // 67 ms
	T := qp.Time(wire.AckTimeout(14))
	for psn := range wire.PSN(10) {
		s.Post(a, a.Send(0, 10))
		s.Drop(a, Pkt(wire.RCSendOnly, psn))
		s.Advance(rtt)
		p.ack(wire.SynACK, psn)
	}
	a.SendWCs = nil
	id := s.Post(a, a.Send(0, 3*1024))
	s.Clear()
	if took := s.Await(10 * rtt); took < rtt {
		t.Errorf("a probe after %d ns, before an answer could be there", took)
	}
	s.Drop(a, Pkt(wire.RCSendFirst, 10, AckReq(true)))
	s.Quiet()              // one packet
	p.ack(wire.SynACK, 10) // the peer has got that one, and nothing behind it
	s.Quiet()              // or it is slow: more may come
	if took := s.Await(10 * rtt); took > 5*rtt {
		t.Errorf("%d ns until what the probe found missing is sent again", took)
	}
	s.Drop(a, Pkt(wire.RCSendMiddle, 11))
	s.Drop(a, Pkt(wire.RCSendLast, 12))
	p.ack(wire.SynACK, 12)
	s.Sent(a, id, qp.WCSuccess)

	id = s.Post(a, a.Send(0, 10))
	start := s.Now
	probes := 0
	for len(a.SendWCs) == 0 && s.Now < start+3*T {
		if len(s.held) > 0 {
			probes++
		}
		s.Clear()
		at, _ := s.World.next()
		s.RunUntil(at)
		s.check()
	}
	s.Sent(a, id, qp.WCRetryExcErr)
	if s.Now != start+2*T {
		t.Errorf("failed after %d ns, want two timeouts of %d ns", s.Now-start, T)
	}
	if probes > 30 {
		t.Errorf("%d packets sent into silence", probes)
	}
}

// TestManyTimers: queue pairs with different timeouts each retry at their own time.
func TestManyTimers(t *testing.T) {
	s := NewScript(t)
	n, peer := s.AddNode(NodeConfig{}), s.AddNode(NodeConfig{Raw: true})
	local := n.NewRegion("local", 64, 0x1000, 0)
	codes := []uint8{9, 3, 12, 7, 1, 10, 5, 11, 2, 8, 6, 4}
	for i, code := range codes {
		q := n.CreateQP(QPConfig{Timeout: code, RetryCnt: 1})
		q.ConnectRaw(peer, uint32(100+code), 0)
		if _, err := q.PostSend(qp.SendWR{Opcode: qp.WRSend, SGL: []qp.SGE{local.SGE(i, 1)}}); err != nil {
			t.Fatal(err)
		}
	}
	s.Clear()
	start := s.Now
	for code := uint8(1); code <= 12; code++ {
		T := qp.Time(wire.AckTimeout(code))
		s.RunUntil(start + T - 1) // others fail at twice their time, which is the next one's first
		s.check()
		s.Quiet()
		s.RunUntil(start + T)
		s.next(n, func(p *wire.Packet) string { return field("queue pair", p.BTH.DestQP(), uint32(100+code)) })
		s.Quiet()
	}
}

// TestTimerRestarts: whatever makes progress starts the timer anew, and nothing outstanding stops
// it. A path that is seen to be slower than the ack timeout has more time.
func TestTimerRestarts(t *testing.T) {
	s := NewScript(t)
	a, p := s.Against(QPConfig{Timeout: 8}, 0)
	T := qp.Time(wire.AckTimeout(8))
	s.Post(a, a.Send(0, 10))
	s.Drop(a, Pkt(wire.RCSendOnly, 0))
	s.Advance(T - 1)
	s.Post(a, a.Send(0, 10)) // a new request does not start it
	s.Drop(a, Pkt(wire.RCSendOnly, 1))
	p.ack(wire.SynACK, 0) // progress does
	s.NotBefore((T - 1) + 4*((T-1)/2))
	s.Drop(a, Pkt(wire.RCSendOnly, 1))
	p.ack(wire.SynACK, 1)
	s.Advance(100 * T)
	s.Quiet()
	s.Post(a, a.Send(0, 10))
	s.Drop(a, Pkt(wire.RCSendOnly, 2))
	s.NotBefore((T - 1) + 4*((T-1)/2))
}

// TestRetryCounterReloads: progress gives all retries back; without it timeouts and sequence NAKs
// share one counter.
func TestRetryCounterReloads(t *testing.T) {
	s := NewScript(t)
	a, p := s.Against(QPConfig{Timeout: 8, RetryCnt: 2}, 0)
	T := qp.Time(wire.AckTimeout(8))
	id := s.Post(a, a.Send(0, 5*1024))
	for psn := wire.PSN(0); psn < 4; psn++ {
		s.Clear()
		s.Advance(T)
		s.Drop(a, Pkt([]wire.Opcode{wire.RCSendFirst, wire.RCSendMiddle, wire.RCSendMiddle, wire.RCSendMiddle}[psn], psn))
		s.Clear()
		s.Advance(T)
		s.Clear()
		p.ack(wire.SynACK, psn)
	}
	s.Advance(T)
	s.Clear()
	s.Advance(T)
	s.Clear()
	s.NoCompletions(a)
	s.Advance(T)
	s.Sent(a, id, qp.WCRetryExcErr)
}

// TestSequenceNAK: NAK 60H with PSN p acknowledges everything before p and p is sent again at once,
// in the middle of a message too: with the same opcode and the same bytes (section 4.4).
func TestSequenceNAK(t *testing.T) {
	for from := range wire.PSN(5) {
		s := NewScript(t)
		a, p := s.Against(QPConfig{}, 0)
		first := s.Post(a, a.Write(0, 3*1024+5, a.Remote, 0))
		second := s.Post(a, With(a.Send(0, 1), Immediate(9)))
		ops := []wire.Opcode{wire.RCWriteFirst, wire.RCWriteMiddle, wire.RCWriteMiddle, wire.RCWriteLast, wire.RCSendOnlyImm}
		var bodies []string
		for psn, op := range ops {
			f := s.Keep(a, Pkt(op, wire.PSN(psn)))
			bodies = append(bodies, withoutAckReq(f))
		}
		p.ack(wire.SynNAKSeq, from)
		if from == 4 {
			s.Sent(a, first, qp.WCSuccess)
		}
		s.NoCompletions(a)
		for psn := from; psn < 5; psn++ {
			f := s.Keep(a, Pkt(ops[psn], psn))
			if withoutAckReq(f) != bodies[psn] {
				t.Errorf("PSN %d was not the same the second time", psn)
			}
		}
		s.Quiet()
		p.ack(wire.SynACK, 4)
		if from < 4 {
			s.Sent(a, first, qp.WCSuccess)
		}
		s.Sent(a, second, qp.WCSuccess)
	}
}

// withoutAckReq is a packet's body without the A bit, which a retry may set differently, and the
// ICRC over it.
func withoutAckReq(f *Flight) string {
	b := append([]byte(nil), f.pkt[f.head:len(f.pkt)-wire.ICRCLen]...)
	(*wire.BTH)(b).SetAckReq(false)
	return string(b)
}

// TestNAKStorm: many reports of one loss are one retry.
func TestNAKStorm(t *testing.T) {
	s := NewScript(t)
	a, p := s.Against(QPConfig{RetryCnt: 3}, 0)
	id := s.Post(a, a.Send(0, 2048))
	s.Drop(a, Pkt(wire.RCSendFirst, 0))
	s.Drop(a, Pkt(wire.RCSendLast, 1))
	for range 20 {
		p.ack(wire.SynNAKSeq, 0)
	}
	s.NoCompletions(a)
	s.Drop(a, Pkt(wire.RCSendFirst, 0))
	s.Drop(a, Pkt(wire.RCSendLast, 1))
	s.Quiet()
	p.ack(wire.SynACK, 1)
	s.Sent(a, id, qp.WCSuccess)
}

// TestGhosts: what answers something complete, or something never sent, is ignored.
func TestGhosts(t *testing.T) {
	s := NewScript(t)
	a, p := s.Against(QPConfig{PSN: 100}, 0)
	id := s.Post(a, a.Send(0, 10))
	s.Drop(a, Pkt(wire.RCSendOnly, 100))
	p.ack(wire.SynACK, 100)
	s.Sent(a, id, qp.WCSuccess)
	id = s.Post(a, a.Send(0, 10))
	s.Drop(a, Pkt(wire.RCSendOnly, 101))
	for _, psn := range []wire.PSN{0, 50, 99, 100, 102, 103, 5000, 100 + 1<<23 - 1, 101 + 1<<23, 0xffffff} {
		for _, syn := range []wire.Syndrome{wire.SynACK, wire.SynNAKSeq, wire.SynRNR | 1, wire.SynNAKInvReq, wire.SynNAKAccess,
			wire.SynNAKOp} {
			p.ack(syn, psn)
		}
		p.Inject(Craft{Op: wire.RCReadResponseOnly, PSN: psn, Syn: wire.SynACK, Payload: []byte{1, 2, 3}})
		p.Inject(Craft{Op: wire.RCReadResponseMiddle, PSN: psn, Payload: make([]byte, 1024)})
		p.Inject(Craft{Op: wire.RCAtomicAcknowledge, PSN: psn, Syn: wire.SynACK})
	}
	s.Quiet()
	s.NoCompletions(a)
	s.InState(a, qp.StateRTS)
	p.ack(wire.SynACK, 101)
	s.Sent(a, id, qp.WCSuccess)
}

// TestReservedSyndromes: what no standard gives a meaning to is ignored, as hfi1 does and rxe does
// not (table 13, row 39).
func TestReservedSyndromes(t *testing.T) {
	s := NewScript(t)
	a, p := s.Against(QPConfig{}, 0)
	id := s.Post(a, a.Send(0, 10))
	s.Drop(a, Pkt(wire.RCSendOnly, 0))
	for syn := 0x40; syn < 0x100; syn++ {
		if syn < 0x60 || syn > 0x63 {
			p.ack(wire.Syndrome(syn), 0)
		}
	}
	s.NoCompletions(a)
	s.InState(a, qp.StateRTS)
	p.ack(wire.AckSyndrome(0), 0) // an ACK with credits is an ACK
	s.Sent(a, id, qp.WCSuccess)
}

// TestFatalNAKs: 61H, 62H, 63H fail the request that holds their PSN; before it all is done, behind
// it all is flushed.
func TestFatalNAKs(t *testing.T) {
	for syn, status := range map[wire.Syndrome]qp.WCStatus{
		wire.SynNAKInvReq: qp.WCRemInvReqErr,
		wire.SynNAKAccess: qp.WCRemAccessErr,
		wire.SynNAKOp:     qp.WCRemOpErr,
	} {
		for psn := wire.PSN(1); psn < 4; psn++ {
			s := NewScript(t)
			a, p := s.Against(QPConfig{}, 0)
			first := s.Post(a, a.Send(0, 10))
			second := s.Post(a, a.Send(0, 2*1024+1))
			// Flushed with a completion all the same.
			third := s.Post(a, With(a.Send(0, 10), Unsignaled))
			recv := s.Receive(a, 10)
			s.Clear()
			p.ack(syn, psn)
			s.Sent(a, first, qp.WCSuccess)
			s.Sent(a, second, status)
			s.Sent(a, third, qp.WCWRFlushErr)
			s.Received(a, recv, qp.WCWRFlushErr)
			s.InState(a, qp.StateErr)
			s.Quiet()
		}
	}
}

// TestAckCoalesced: one ACK completes all requests up to its PSN, in order, and may end inside a
// message.
func TestAckCoalesced(t *testing.T) {
	s := NewScript(t)
	a, p := s.Against(QPConfig{}, 0)
	var ids []uint64
	for range 4 {
		ids = append(ids, s.Post(a, a.Send(0, 1500)))
	}
	s.Clear()
	p.ack(wire.SynACK, 4)
	s.Sent(a, ids[0], qp.WCSuccess)
	s.Sent(a, ids[1], qp.WCSuccess)
	s.NoCompletions(a)
	p.ack(wire.SynACK, 2) // an old one changes nothing
	s.NoCompletions(a)
	p.ack(wire.SynACK, 7)
	s.Sent(a, ids[2], qp.WCSuccess)
	s.Sent(a, ids[3], qp.WCSuccess)
}

// TestReadImpliesAck: a READ reply acknowledges what is before the READ; a SEND's ACK beyond a READ
// without replies is an implied NAK: the READ is asked for again, alone, and the SEND is not
// complete before it (section 4.4).
func TestReadImpliesAck(t *testing.T) {
	s := NewScript(t)
	a, p := s.Against(QPConfig{}, 0)
	send := s.Post(a, a.Send(0, 10))
	read := s.Post(a, a.Read(100, 10, a.Remote, 0))
	behind := s.Post(a, a.Send(0, 10))
	s.Clear()
	p.ack(wire.SynACK, 2)
	s.Sent(a, send, qp.WCSuccess)
	s.NoCompletions(a)
	s.Drop(a, Pkt(wire.RCReadRequest, 1))
	s.Quiet()
	p.Inject(Craft{Op: wire.RCReadResponseOnly, PSN: 1, Syn: wire.SynACK, Payload: []byte("0123456789")})
	s.Sent(a, read, qp.WCSuccess)
	s.Sent(a, behind, qp.WCSuccess)
	if string(a.Local.Bytes[100:110]) != "0123456789" {
		t.Error("READ data is not in memory")
	}
	p.ack(wire.SynACK, 2) // of the same, once more
	s.Quiet()

	send = s.Post(a, a.Send(0, 10))
	read = s.Post(a, a.FetchAdd(200, a.Remote, 0, 5))
	s.Clear()
	p.Inject(Craft{Op: wire.RCAtomicAcknowledge, PSN: 4, Syn: wire.SynACK, Orig: 0x0102030405060708})
	s.Sent(a, send, qp.WCSuccess) // implied by the reply
	if wc := s.Sent(a, read, qp.WCSuccess); wc.ByteLen != 8 || wc.Opcode != qp.WCFetchAdd {
		t.Errorf("atomic completion %+v", wc)
	}
}

// TestReadRestart: a READ whose replies stop coming is asked for from the first missing one: VA +
// k*MTU, the rest of the length, that PSN, the same key. The answer may start over with FIRST or
// ONLY, or go on with MIDDLE or LAST (section 4.4).
func TestReadRestart(t *testing.T) {
	const n = 4*1024 + 100
	reply := func(k int, fresh bool) Craft {
		c := Craft{PSN: wire.PSN(k), Syn: wire.SynACK, Payload: make([]byte, min(1024, n-1024*k))}
		for i := range c.Payload {
			c.Payload[i] = byte(k*31 + i)
		}
		switch last := k == 4; {
		case fresh && last:
			c.Op = wire.RCReadResponseOnly
		case fresh:
			c.Op = wire.RCReadResponseFirst
		case last:
			c.Op = wire.RCReadResponseLast
		default:
			c.Op = wire.RCReadResponseMiddle
		}
		return c
	}
	for missing := range 5 {
		for _, fresh := range []bool{true, false} {
			for _, how := range []string{"timeout", "gap"} {
				if how == "gap" && missing == 4 {
					continue
				}
				t.Run(fmt.Sprint(missing, fresh, how), func(t *testing.T) {
					s := NewScript(t)
					a, p := s.Against(QPConfig{}, 0)
					id := s.Post(a, a.Read(0, n, a.Remote, 16))
					s.Drop(a, Pkt(wire.RCReadRequest, 0, RETH(a.Remote.Addr(16), a.Remote.RKey(), n)))
					for k := range missing {
						p.Inject(reply(k, k == 0))
					}
					if how == "gap" {
						p.Inject(reply(missing+1, false))
					}
					s.Await(qp.Time(wire.AckTimeout(8))) // after a gap it may ask at once
					s.Drop(a, Pkt(wire.RCReadRequest, wire.PSN(missing), RETH(a.Remote.Addr(16+1024*missing), a.Remote.RKey(),
						uint32(n-1024*missing))))
					s.Quiet()
					for k := missing; k < 5; k++ {
						if how == "gap" && k == missing+1 && k == 4 {
							break // it had come
						}
						s.NoCompletions(a)
						p.Inject(reply(k, k == missing && fresh))
					}
					s.Sent(a, id, qp.WCSuccess)
					for i := range n {
						if a.Local.Bytes[i] != byte(i/1024*31+i%1024) {
							t.Fatalf("byte %d is wrong", i)
						}
					}
				})
			}
		}
	}
}

// TestReadReplyErrors: replies of the wrong length end the connection; those that fit no READ too
// (sections 4.4, 6.1).
func TestReadReplyErrors(t *testing.T) {
	for name, c := range map[string]struct {
		reply  Craft
		status qp.WCStatus
	}{
		"too short":     {Craft{Op: wire.RCReadResponseOnly, Payload: make([]byte, 9)}, qp.WCLocLenErr},
		"too long":      {Craft{Op: wire.RCReadResponseOnly, Payload: make([]byte, 11)}, qp.WCLocLenErr},
		"more to come":  {Craft{Op: wire.RCReadResponseFirst, Payload: make([]byte, 1024)}, qp.WCLocLenErr},
		"atomic's":      {Craft{Op: wire.RCAtomicAcknowledge}, qp.WCBadRespErr},
		"more than MTU": {Craft{Op: wire.RCReadResponseOnly, Payload: make([]byte, 2000)}, qp.WCLocLenErr},
	} {
		t.Run(name, func(t *testing.T) {
			s := NewScript(t)
			a, p := s.Against(QPConfig{}, 0)
			id := s.Post(a, a.Read(0, 10, a.Remote, 0))
			s.Clear()
			before := append([]byte(nil), a.Local.Bytes...)
			c.reply.Syn = wire.SynACK
			p.Inject(c.reply)
			s.Sent(a, id, c.status)
			s.InState(a, qp.StateErr)
			if string(before) != string(a.Local.Bytes) {
				t.Error("memory has changed")
			}
		})
	}
	s := NewScript(t)
	a, p := s.Against(QPConfig{}, 0)
	s.Post(a, a.Send(0, 10))
	s.Clear()
	p.Inject(Craft{Op: wire.RCReadResponseOnly, Syn: wire.SynACK, Payload: make([]byte, 10)})
	if len(a.SendWCs) != 1 || a.SendWCs[0].Status == qp.WCSuccess {
		t.Errorf("a READ reply to a SEND: %+v", a.SendWCs)
	}
	s.InState(a, qp.StateErr)
}
