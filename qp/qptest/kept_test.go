package qptest

// Packets behind a gap that give way to those of other peers (section 14), or of which no report
// comes: how long it takes until all have arrived.

import (
	"testing"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/wire"
)

// rounds lets packets go to and fro until nothing is under way, and counts the round trips.
func (s *Script) rounds(a, b *End, lost func(p *wire.Packet) bool) (n int) {
	s.T.Helper()
	for ; len(s.held) > 0; n++ {
		for _, from := range []*Node{a.Node, b.Node} {
			batch := s.held
			s.held = nil
			for _, f := range batch {
				if _, p, _ := f.packet(); f.from != from {
					s.held = append(s.held, f)
				} else if !lost(&p) {
					s.Arrive(f)
				}
			}
		}
		s.Advance(selectiveRTT)
	}
	return n
}

// TestLostReportOfMany: a gap of many packets whose NAK was lost takes a few round trips, not one
// for each of them, and little is sent in vain.
func TestLostReportOfMany(t *testing.T) {
	s, a, b := selectivePair(t)
	s.writes(a, b, 48)
	naks, seen := 0, map[wire.PSN]bool{}
	n := s.rounds(a, b, func(p *wire.Packet) bool {
		if p.Op.Has(wire.OpResponse) {
			if p.AETH().Syndrome() == wire.SynNAKSeq {
				naks++
			}
			return p.AETH().Syndrome() == wire.SynNAKSeq && naks == 1
		}
		psn := p.BTH.PSN()
		again := seen[psn]
		seen[psn] = true
		return !again && psn >= 3 && psn < 35
	})
	if again := a.Node.Engine.Stats().Retransmitted; len(a.SendWCs) != 1 || naks != 1 || n > 8 || again > 2*32 {
		t.Errorf("%d completions after %d round trips, %d NAKs and %d packets sent again", len(a.SendWCs), n, naks, again)
	}
}

// TestGivenWayRounds: what gave way lies before a gap that the requester has already heard of, as
// the first gap is still open; and yet it comes again within a few round trips.
func TestGivenWayRounds(t *testing.T) {
	s := NewScript(t)
	s.Unchecked = true
	host := NodeConfig{}
	host.Engine.Kept = 2*storePlaces + 10
	cfg := QPConfig{Selective: true, MTU: wire.MTU256}
	a, b := s.newEnd(NodeConfig{}, cfg), s.newEnd(host, cfg)
	s.Connect(a.QP, b.QP)
	c := &crowd{Script: s, host: b.Node, mem: b.Remote}
	s.writes(a, b, 60)
	for psn := range wire.PSN(60) {
		if f := s.Keep(a, Pkt(wire.RCWriteOnly, psn)); psn != 0 && psn != 48 {
			s.Arrive(f)
		}
	}
	s.Expect(b, missing(0, 0, 1))
	for len(s.held) > 0 { // the second gap is asked for, and filled; what fills the first is lost
		f := s.held[0]
		s.held = s.held[1:]
		if _, p, _ := f.packet(); p.Op.Has(wire.OpResponse) || p.BTH.PSN() != 0 {
			s.Arrive(f)
		}
	}
	for i := range 6 {
		c.join(1, cfg)
		c.gap(c.peers[i][0], 9)
	}
	if n := b.Node.Engine.Stats().GivenUp; n < 40 {
		t.Fatalf("%d packets gave way", n)
	}
	for _, of := range c.peers {
		if err := of[0].to.Destroy(); err != nil {
			t.Fatal(err)
		}
	}
	s.Clear()
	s.writes(a, b, 2)
	n := s.rounds(a, b, func(*wire.Packet) bool { return false })
	if again := a.Node.Engine.Stats().Retransmitted; len(a.SendWCs) != 2 || n > 10 || again > 2*60 {
		t.Errorf("%d completions after %d round trips and %d packets sent again", len(a.SendWCs), n, again)
	}
}

// TestRoomBehindRNR: a SEND finds no receive request, and what is behind it finds no place. When
// the SEND has come again the rest is asked for: it waits for no probe, and no ack timeout.
func TestRoomBehindRNR(t *testing.T) {
	for _, known := range []bool{false, true} {
		s := NewScript(t)
		host := NodeConfig{}
		host.Engine.Kept = storePlaces // as when other queue pairs of the host have all
		cfg := QPConfig{Selective: true, MinRNRTimer: 8}
		a, b := s.newEnd(NodeConfig{}, cfg), s.newEnd(host, cfg)
		s.Connect(a.QP, b.QP)
		if known { // the round trip
			for range 4 {
				s.writes(a, b, 1)
				s.rounds(a, b, func(*wire.Packet) bool { return false })
			}
		}
		a.SendWCs = nil
		s.Post(a, a.Send(0, 8))
		s.writes(a, b, 8)
		s.Settle()
		s.Receive(b, 8)
		for start := s.Now; s.Now-start < 400*Millisecond && len(a.SendWCs) < 2; {
			s.Advance(10 * Microsecond)
			s.Settle()
		}
		if st := a.Node.Engine.Stats(); len(a.SendWCs) != 2 || a.SendWCs[0].Status != qp.WCSuccess || a.SendWCs[1].Status != qp.WCSuccess ||
			st.AckTimeouts > 0 || st.Probes > 0 {
			t.Errorf("round trip known: %v: completions %v, %d probes, %d ack timeouts", known, a.SendWCs, st.Probes, st.AckTimeouts)
		}
	}
}
