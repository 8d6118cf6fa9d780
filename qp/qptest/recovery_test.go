package qptest

// What a requester concludes from answers that are missing, late, or old (section 4.7 and the head
// of qp/recovery.go). The peer is raw: the script plays it.

import (
	"testing"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/wire"
)

const trip = 100 * Microsecond

// measured is a requester that has seen ten round trips of trip; its next PSN is 10.
func measured(t *testing.T, cfg QPConfig) (*Script, *End, *Raw) {
	t.Helper()
	s := NewScript(t)
	if cfg.Timeout == 0 {
		cfg.Timeout = 14 // 67 ms
	}
	a, p := s.Against(cfg, 0)
	for psn := range wire.PSN(10) {
		s.Post(a, a.Send(0, 10))
		s.Drop(a, Pkt(wire.RCSendOnly, psn))
		s.Advance(trip)
		p.ack(wire.SynACK, psn)
	}
	a.SendWCs = nil
	return s, a, p
}

// TestFirstAsks: the round trip is measured with the first packet of a connection, even inside a
// long message.
func TestFirstAsks(t *testing.T) {
	s := NewScript(t)
	a, p := s.Against(QPConfig{Timeout: 14}, 0)
	s.Post(a, a.Send(0, 3*1024))
	s.Drop(a, Pkt(wire.RCSendFirst, 0, AckReq(true)))
	s.Drop(a, Pkt(wire.RCSendMiddle, 1, AckReq(false)))
	s.Drop(a, Pkt(wire.RCSendLast, 2, AckReq(true)))
	s.Advance(trip)
	p.ack(wire.SynACK, 0)
	if took := s.Await(10 * trip); took > 5*trip {
		t.Errorf("a probe only %d ns after the only answer", took)
	}
}

// TestFirstLost: so early that nothing is known, a NAK is what is known about the round trip.
func TestFirstLost(t *testing.T) {
	s := NewScript(t)
	a, p := s.Against(QPConfig{Timeout: 14}, 0)
	s.Post(a, a.Send(0, 3*1024))
	s.Clear()
	s.Advance(trip)
	p.ack(wire.SynNAKSeq, 0)
	s.Clear() // all lost again
	if took := s.Await(10 * trip); took > 5*trip {
		t.Errorf("a probe only %d ns after the NAK", took)
	}
}

// TestSlowPeer: a peer that was asleep costs one probe. When it works off what had come, nothing is
// repeated, however many steps it takes.
func TestSlowPeer(t *testing.T) {
	s, a, p := measured(t, QPConfig{})
	id := s.Post(a, a.Send(0, 8*1024))
	s.Clear()
	s.Await(10 * trip)
	s.Drop(a, Pkt(wire.RCSendFirst, 10, AckReq(true)))
	for psn := wire.PSN(11); psn < 18; psn += 2 {
		p.ack(wire.SynACK, psn)
		s.Quiet()
		s.Advance(trip / 2)
		s.Quiet()
	}
	s.Sent(a, id, qp.WCSuccess)
	p.ack(wire.SynACK, 17) // the answer to the probe
	s.Advance(Second)
	s.Quiet()
	if st := a.Node.Engine.Stats(); st.Probes != 1 || st.Retransmitted != 1 {
		t.Errorf("%d probes, %d packets sent again", st.Probes, st.Retransmitted)
	}
}

// TestPeerSleepsAgain: one that falls asleep once more, while it works off what had come, costs one
// more probe and not the window; but when it has acknowledged nothing behind the probe, what was
// sent before that is lost and sent again.
func TestPeerSleepsAgain(t *testing.T) {
	s, a, p := measured(t, QPConfig{})
	id := s.Post(a, a.Send(0, 8*1024))
	s.Clear()
	s.Await(10 * trip)
	s.Drop(a, Pkt(wire.RCSendFirst, 10, AckReq(true)))
	p.ack(wire.SynACK, 13)
	s.Await(10 * trip)
	s.Drop(a, Pkt(wire.RCSendMiddle, 14, AckReq(true)))
	s.Quiet()
	p.ack(wire.SynACK, 14) // the answer to the second probe, as far as can be known
	s.Quiet()
	s.Await(10 * trip)
	s.Drop(a, Pkt(wire.RCSendMiddle, 15))
	s.Drop(a, Pkt(wire.RCSendMiddle, 16))
	s.Drop(a, Pkt(wire.RCSendLast, 17))
	p.ack(wire.SynACK, 17)
	s.Sent(a, id, qp.WCSuccess)
	if st := a.Node.Engine.Stats(); st.Probes != 2 || st.Retransmitted != 5 {
		t.Errorf("%d probes, %d packets sent again", st.Probes, st.Retransmitted)
	}
}

// TestProbeAnswered: an ACK without news answers the probe, which the peer had got before: all that
// was sent before it and is not acknowledged is lost, and needs no waiting. What was sent behind
// the probe may still come.
func TestProbeAnswered(t *testing.T) {
	s, a, p := measured(t, QPConfig{})
	s.Post(a, a.Send(0, 3*1024))
	s.Clear()
	s.Await(10 * trip)
	s.Drop(a, Pkt(wire.RCSendFirst, 10))
	p.ack(wire.SynACK, 10)
	s.Quiet()
	p.ack(wire.SynACK, 10)
	s.Drop(a, Pkt(wire.RCSendMiddle, 11))
	s.Drop(a, Pkt(wire.RCSendLast, 12))
	s.Quiet()

	s, a, p = measured(t, QPConfig{})
	s.Post(a, a.Send(0, 10))
	s.Clear()
	s.Await(10 * trip)
	s.Drop(a, Pkt(wire.RCSendOnly, 10))
	s.Post(a, a.Send(0, 10))
	s.Drop(a, Pkt(wire.RCSendOnly, 11))
	p.ack(wire.SynACK, 10)
	p.ack(wire.SynACK, 10)
	s.Advance(trip / 2)
	s.Quiet()
}

// TestLostTwice: a NAK again for what was sent again is a new loss as soon as it can be, and then
// the packet goes alone: what follows it may be what drowns it.
func TestLostTwice(t *testing.T) {
	s, a, p := measured(t, QPConfig{})
	id := s.Post(a, a.Send(0, 3*1024))
	s.Clear()
	s.Advance(trip)
	p.ack(wire.SynNAKSeq, 10)
	s.Drop(a, Pkt(wire.RCSendFirst, 10))
	s.Drop(a, Pkt(wire.RCSendMiddle, 11))
	s.Drop(a, Pkt(wire.RCSendLast, 12))
	s.Advance(trip - 1)
	p.ack(wire.SynNAKSeq, 10) // left before the packets got there
	s.Quiet()
	s.Advance(1)
	p.ack(wire.SynNAKSeq, 10)
	s.Drop(a, Pkt(wire.RCSendFirst, 10, AckReq(true)))
	s.Quiet()
	s.Advance(trip)
	p.ack(wire.SynACK, 10)
	s.Drop(a, Pkt(wire.RCSendMiddle, 11))
	s.Drop(a, Pkt(wire.RCSendLast, 12))
	p.ack(wire.SynACK, 12)
	s.Sent(a, id, qp.WCSuccess)
}

// TestReportsAreOneRetry: a peer that reports a loss lives. Its reports use up a retry only once in
// the time after which a silent peer would be asked, but they do use them up.
func TestReportsAreOneRetry(t *testing.T) {
	s, a, p := measured(t, QPConfig{RetryCnt: 2})
	id := s.Post(a, a.Send(0, 10))
	s.Clear()
	start := s.Now
	for n := 0; len(a.SendWCs) == 0; n++ {
		if n > 100 {
			t.Fatal("a peer that never gets anything is asked for ever")
		}
		s.Advance(trip)
		p.ack(wire.SynNAKSeq, 10)
		s.Clear()
	}
	s.Sent(a, id, qp.WCRetryExcErr)
	if took := s.Now - start; took < 5*trip {
		t.Errorf("given up after %d ns", took)
	}
}

// TestEarlyReplies: replies of a READ behind those that are missing report each of them once, and
// count when they have come, whatever their order. A peer without selective repeat is asked for the
// rest of the request.
func TestEarlyReplies(t *testing.T) {
	s, a, p := measured(t, QPConfig{MTU: wire.MTU256, RetryCnt: 2})
	const n, piece = 40, 20
	id := s.Post(a, a.Read(0, n*256, a.Remote, 0))
	s.Clear()
	reply := func(k int) {
		c := Craft{Op: wire.RCReadResponseMiddle, PSN: wire.PSN(10 + k), Syn: wire.SynACK, Payload: make([]byte, 256)}
		switch { // each piece has a FIRST and a LAST
		case k%piece == 0:
			c.Op = wire.RCReadResponseFirst
		case k%piece == piece-1:
			c.Op = wire.RCReadResponseLast
		}
		p.Inject(c)
	}
	again := func(k, packets int) {
		t.Helper()
		s.Drop(a, Pkt(wire.RCReadRequest, wire.PSN(10+k), RETH(a.Remote.Addr(256*k), a.Remote.RKey(), uint32(256*packets))))
	}
	reply(2) // 0 and 1 are lost
	again(0, piece)
	s.Quiet()
	reply(3)
	reply(30)
	again(4, piece-4) // the rest of its piece, and the next
	again(piece, piece)
	for _, k := range []int{4, 5, 29, 6, 20, 7} {
		reply(k)
	}
	s.Quiet()
	reply(1) // begun again
	reply(2)
	s.NoCompletions(a)
	s.Quiet()
	for _, k := range []int{39, 38, 37, 36, 35} {
		reply(k)
	}
	again(31, n-31)
	s.Quiet()
	for k := range 35 {
		s.NoCompletions(a)
		reply(k)
	}
	s.Sent(a, id, qp.WCSuccess)
}

// TestProbeBehind: when a window has become smaller than what is in flight, a requester that went
// back must not wait for what it may not send.
func TestProbeBehind(t *testing.T) {
	s, a, p := measured(t, QPConfig{MTU: wire.MTU256})
	s.Post(a, a.Write(0, 100*256, a.Remote, 0))
	s.Clear()
	s.Advance(trip)
	p.ack(wire.SynNAKSeq, 10)
	if len(s.held) == 0 || len(s.held) >= 100 {
		t.Fatalf("%d packets sent again after a loss that early, want a window of a few", len(s.held))
	}
	s.Clear() // and all of them are lost
	s.Await(10 * trip)
	s.Drop(a, Pkt(wire.RCWriteFirst, 10, AckReq(true)))
	s.Quiet()
}

// TestLongPath: a path that holds more than the window it begins with is filled; a receiver whose
// buffer holds less than the path is not overrun all the time.
func TestLongPath(t *testing.T) {
	const size, count = 1 << 20, 64
	stream := func(window int, f Faults) (*World, *Node, float64) {
		w := NewWorld(1)
		w.Unchecked = true
		w.MaxEvents = 10_000_000
		w.Faults = f
		nc := NodeConfig{}
		nc.Engine.Window = window
		a, b := w.AddNode(nc), w.AddNode(nc)
		cfg := QPConfig{MTU: wire.MTU4096, Timeout: 14, Cap: qp.Cap{MaxSendWR: count, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1}}
		x, y := a.CreateQP(cfg), b.CreateQP(cfg)
		local, remote := a.NewRegion("local", size, 0x1000, 1), b.NewRegion("remote", size, 0x1000, 0xf)
		w.Connect(x, y)
		start := w.Now
		for range count {
			if err := x.Stage(&qp.SendWR{Opcode: qp.WRWrite, Flags: qp.SendSignaled, SGL: []qp.SGE{local.SGE(0, size)},
				RKey: remote.RKey(), RemoteAddr: remote.Addr(0)}); err != nil {
				t.Fatal(err)
			}
		}
		x.Ring()
		if err := w.Run(); err != nil {
			t.Fatal(err)
		}
		for _, wc := range x.SendWCs {
			if wc.Status != qp.WCSuccess {
				t.Fatal(wc.Status)
			}
		}
		return w, a, float64(size*count) * 8 / float64(w.lastSend-start)
	}
	long := Faults{Rate: 25e9, Delay: 250 * Microsecond}
	_, _, fixed := stream(128, long)
	w, a, got := stream(0, long)
	if got < 22 || got < 2*fixed {
		t.Errorf("%.1f Gbit/s over a long path of 25, %.1f with a window of 128", got, fixed)
	}
	if l := w.Link(a, w.Nodes[1]); l.Stats.Peak > 1<<20 {
		t.Errorf("%d bytes queued to fill it", l.Stats.Peak)
	}
	small := Faults{Rate: 25e9, Delay: 25 * Microsecond, Queue: 128 << 10}
	_, _, fixed = stream(128, small)
	_, _, got = stream(0, small)
	if got < 9 || got < 2*fixed {
		t.Errorf("%.1f Gbit/s into a small buffer behind 25, %.1f with a window of 128", got, fixed)
	}
}
