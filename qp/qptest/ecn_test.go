package qptest

// Congestion (sections 1.7, 10): marks become CNPs, CNPs make the sender slower, silence makes it
// faster again.

import (
	"testing"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/wire"
)

// marked is a packet that a congested switch has marked.
func marked(c Craft) Craft {
	c.Tamper = func(f *wire.Frame) { f.IPv4().SetTOS(3); f.IPv4().UpdateChecksum() }
	return c
}

// cnp matches a congestion notification for the raw peer.
func cnp(p *wire.Packet) string {
	if p.Opcode != wire.CNP {
		return "want a CNP"
	}
	for i, b := range p.Body[wire.BTHLen : len(p.Body)-wire.ICRCLen] {
		if b != 0 {
			return field("reserved byte", [2]int{i, int(b)}, [2]int{i, 0})
		}
	}
	h := p.BTH
	return field("CNP", [7]uint32{h.DestQP(), uint32(h.PSN()), uint32(h.Flags()), uint32(h.PKey()), uint32(h.PadCount()),
		uint32(len(p.Body)), uint32(p.Frame.ECN() & 1)},
		[7]uint32{0x777, 0, uint32(wire.BTHBECN), 0xffff, 0, 32, 0})
}

// TestCNP: a marked packet is answered with a CNP to the peer's queue pair, at most one in 50 us,
// whatever kind of packet it was; a marked CNP is not.
func TestCNP(t *testing.T) {
	s := NewScript(t)
	a, p := s.Against(QPConfig{}, 0)
	p.Inject(marked(a.write(0, 0, []byte{1})))
	s.Drop(a, cnp)
	s.Drop(a, Ack(0))
	p.Inject(marked(a.write(1, 0, []byte{1})))
	s.Drop(a, Ack(1))
	s.Quiet()
	s.Advance(50 * Microsecond)
	s.Post(a, a.Read(0, 10, a.Remote, 0))
	s.Clear()
	p.Inject(marked(Craft{Op: wire.RCReadResponseOnly, Syn: wire.SynACK, Payload: make([]byte, 10)}))
	s.Drop(a, cnp)
	s.Advance(50 * Microsecond)
	p.Inject(marked(Craft{Op: wire.CNP}))
	s.Quiet()
	if st := a.Node.Engine.Stats(); st.RcvdECN != 3 || st.RcvdCNP != 1 {
		t.Errorf("%d marks and %d CNPs counted", st.RcvdECN, st.RcvdCNP)
	}
	u, q := s.Against(QPConfig{Type: qp.UC}, 0)
	q.Inject(marked(Craft{Op: wire.UCSendOnly, PSN: 0}))
	s.Drop(u, cnp)
	// A datagram says nothing about where its sender's rate is kept.
	g := s.gram(NodeConfig{}, QPConfig{})
	s.Receive(g, 100)
	r := s.rawPeer(g, NodeConfig{Raw: true}, 0)
	r.Inject(marked(Craft{Op: wire.UDSendOnly, QKey: g.Cfg.QKey}))
	s.Quiet()
}

// TestRate: before the first CNP nothing is limited; one halves the rate, each further one after 50
// us cuts again; without CNPs it comes back.
func TestRate(t *testing.T) {
	s := NewScript(t)
	nc := NodeConfig{}
	nc.Engine.Window = 1000
	nc.Engine.Congestion = qp.DefaultCongestion
	nc.Engine.Congestion.LineRate = 10e9
	nc.Engine.Congestion.RaiseTimer = 1500 * Microsecond // not between these cuts
	a := s.newEnd(nc, QPConfig{MTU: wire.MTU4096, NoTimeout: true})
	p := s.rawPeer(a, NodeConfig{Raw: true}, 0)
	psn := wire.PSN(0)
	gap := func() qp.Time { // between packets of a WRITE of ten
		t.Helper()
		s.Clear()
		s.Post(a, a.Write(0, 10*4096, a.Remote, 0))
		first := s.Now
		for n := 0; n < 10; n++ {
			s.Await(Second)
			s.held = s.held[1:]
		}
		psn += 10
		p.ack(wire.SynACK, psn-1)
		a.SendWCs = nil
		return (s.Now - first) / 9
	}
	if g := gap(); g != 0 {
		t.Errorf("unlimited, but %d ns between packets", g)
	}
	line := nc.Engine.Congestion.LineRate
	wire4K := func(rate uint64) qp.Time { return qp.Time(uint64(4096+60+8) * 8 * uint64(Second) / rate) }
	near := func(got, want qp.Time) bool { return got > want*8/10 && got < want*12/10 }
	for cut := range 3 {
		at := s.Now
		p.Inject(Craft{Op: wire.CNP})
		p.Inject(Craft{Op: wire.CNP}) // too early to count
		if got, want := gap(), wire4K(line>>(cut+1)); !near(got, want) {
			t.Errorf("after %d CNPs %d ns between packets, want about %d", cut+1, got, want)
		}
		s.RunUntil(at + 50*Microsecond)
	}
	s.Advance(3 * Second)
	if g := gap(); g > wire4K(line) {
		t.Errorf("three seconds after the last CNP still %d ns between packets", g)
	}
}

// TestPartialCongestion: a program that sets one constant has the default of the others, and a CNP
// does not hang it.
func TestPartialCongestion(t *testing.T) {
	s := NewScript(t)
	nc := NodeConfig{}
	nc.Engine.Congestion.LineRate = 7e9
	a := s.newEnd(nc, QPConfig{MTU: wire.MTU4096})
	p := s.rawPeer(a, NodeConfig{Raw: true}, 0)
	p.Inject(Craft{Op: wire.CNP})
	id := s.Post(a, a.Write(0, 10*4096, a.Remote, 0))
	for len(s.held) < 10 {
		at, _ := s.World.next()
		s.RunUntil(at)
	}
	if s.Now < 9*8*4096*Second/7e9 {
		t.Errorf("ten packets left within %d ns: nothing slowed them down", s.Now)
	}
	p.ack(wire.SynACK, 9)
	s.Sent(a, id, qp.WCSuccess)
}

// TestRateOfReplies: READ replies are paced too, and never stop for good.
func TestRateOfReplies(t *testing.T) {
	s := NewScript(t)
	a, p := s.Against(QPConfig{MTU: wire.MTU4096}, 0)
	for range 6 {
		p.Inject(Craft{Op: wire.CNP})
		s.Advance(51 * Microsecond)
	}
	p.Inject(a.read(0, 0, 5*4096))
	for n := range wire.PSN(5) {
		s.Await(Millisecond)
		s.Drop(a, func(pk *wire.Packet) string { return field("PSN", pk.BTH.PSN(), n) })
	}
	s.Quiet()
}

// TestMarks: the simulated switch marks what is capable of it, and the streams of two senders
// through it both get there.
func TestMarks(t *testing.T) {
	w := NewWorld(3)
	w.Faults = Faults{Rate: 10e9, Delay: 5 * Microsecond, MarkAt: 20 << 10}
	a, b := w.AddNode(NodeConfig{}), w.AddNode(NodeConfig{})
	cfg := QPConfig{MTU: wire.MTU4096, TrafficClass: 2, Timeout: 14}
	local, remote := a.NewRegion("local", 1<<20, 0x1000, 1), b.NewRegion("remote", 1<<20, 0x1000, 0xf)
	for i := range 2 {
		x, y := a.CreateQP(cfg), b.CreateQP(cfg)
		w.Connect(x, y)
		if _, err := x.PostSend(qp.SendWR{
			Opcode:     qp.WRWrite,
			Flags:      qp.SendSignaled,
			SGL:        []qp.SGE{local.SGE(0, 1<<19)},
			RKey:       remote.RKey(),
			RemoteAddr: remote.Addr(i << 19),
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Run(); err != nil {
		t.Fatal(err)
	}
	if err := w.AtRest(); err != nil {
		t.Fatal(err)
	}
	if l := w.Link(a, b); l.Stats.Marked == 0 || a.Engine.Stats().RcvdCNP == 0 {
		t.Errorf("%d marked, %d CNPs", l.Stats.Marked, a.Engine.Stats().RcvdCNP)
	}
}

// TestRateIsNoSilence: on a path that loses nothing a rate limit repeats nothing, at any rate, and
// uses up no retry, of which there is none; READs that the peer answers at its rate are asked for
// again a few times at most, until that rate has shown.
func TestRateIsNoSilence(t *testing.T) {
	for _, kbps := range []uint32{1_000, 4_000, 100_000, 400_000, 1_000_000, 5_000_000} {
		for _, timeout := range []uint8{14, 10} {
			if kbps < 100_000 && timeout < 14 {
				continue // one packet takes longer
			}
			w := NewWorld(1)
			w.Faults = Faults{Delay: 5 * Microsecond}
			cfg := QPConfig{MTU: wire.MTU4096, Timeout: timeout, NoRetry: true, RateLimit: kbps, RdAtomic: 1, DestRdAtomic: 1}
			a, b := w.AddNode(NodeConfig{}), w.AddNode(NodeConfig{})
			x, y := a.CreateQP(cfg), b.CreateQP(cfg)
			w.Connect(x, y)
			local, remote := a.NewRegion("local", 128<<10, 0x1000, 1), b.NewRegion("remote", 128<<10, 0x1000, 0xf)
			for _, op := range []qp.WROpcode{qp.WRWrite, qp.WRRead} {
				if op == qp.WRRead && timeout < 14 {
					continue
				}
				before := a.Engine.Stats()
				if _, err := x.PostSend(qp.SendWR{Opcode: op, Flags: qp.SendSignaled, SGL: []qp.SGE{local.SGE(0, 128<<10)},
					RKey: remote.RKey(), RemoteAddr: remote.Addr(0)}); err != nil {
					t.Fatal(err)
				}
				if err := w.Run(); err != nil {
					t.Fatal(err)
				}
				if err := w.AtRest(); err != nil {
					t.Fatal(err)
				}
				st, most := a.Engine.Stats(), uint64(0)
				if op == qp.WRRead {
					most = 20
				}
				if n := st.Retransmitted - before.Retransmitted; n > most || st.AckTimeouts > 0 || len(x.SendWCs) == 0 ||
					x.SendWCs[len(x.SendWCs)-1].Status != qp.WCSuccess {
					t.Errorf("%d kbit/s, timeout %d, %v: %d packets sent again, %d ack timeouts, %v",
						kbps, timeout, op, n, st.AckTimeouts, x.SendWCs)
				}
			}
		}
	}
}

// TestECT: a connected queue pair's packets, answers included, may be marked if the engine is told
// so, and say what the user wants said otherwise. Datagrams and the attributes are as the user gave
// them; CNPs are of a class of their own.
func TestECT(t *testing.T) {
	nc := NodeConfig{}
	nc.Engine.ECN = true
	for class, want := range map[uint8]uint8{0: 2, 0x68: 0x6a, 0x6a: 0x6a, 0x69: 0x69, 0x6b: 0x6b} {
		tos := func(want uint8) func(*wire.Packet) string {
			return func(p *wire.Packet) string { return field("TOS", p.Frame.TOS(), want) }
		}
		for _, typ := range []qp.QPType{qp.RC, qp.UC} {
			s := NewScript(t)
			a := s.newEnd(nc, QPConfig{Type: typ, TrafficClass: class})
			p := s.rawPeer(a, NodeConfig{Raw: true}, 0)
			s.Post(a, a.Write(0, 10, a.Remote, 0))
			s.Drop(a, tos(want))
			p.Inject(marked(Craft{Op: map[qp.QPType]wire.Opcode{qp.RC: wire.RCSendOnly, qp.UC: wire.UCSendOnly}[typ]}))
			s.Drop(a, tos(0xc2)) // the CNP
			if typ == qp.RC {
				s.Drop(a, tos(want)) // an RNR NAK
			}
			if got := a.Node.Engine.QueryQP(a.QP.QP); got.AV.TrafficClass != class {
				t.Errorf("traffic class %#x is %#x when queried", class, got.AV.TrafficClass)
			}
		}
		s := NewScript(t)
		g := s.gram(nc, QPConfig{})
		r := s.rawPeer(g, NodeConfig{Raw: true}, 0)
		s.Post(g, g.datagramTo(g, g.handle(r.GID, qp.AHAttr{TrafficClass: class}), 10))
		s.Drop(g, tos(class))
	}
}
