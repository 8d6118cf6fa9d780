package qptest

// Peers with the habits of NICs, and their credits (sections 1.2, 1.4, 1.6, 4.8).

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/wire"
)

// habitRows have a habit each, and what of the packets of its node is counted: with the habit it is
// another number than without.
var habitRows = []struct {
	field string
	habit Hardware
	shows func(p *wire.Packet) bool
}{
	{"MigReq", Hardware{MigReq: true}, func(p *wire.Packet) bool { return p.BTH.MigReq() }},
	{"Port", Hardware{Port: 69}, func(p *wire.Packet) bool { return p.Frame.SrcPort() == 69 }},
	{"CNP", Hardware{CNP: true}, func(p *wire.Packet) bool { return p.Opcode == wire.CNP && p.Frame.SrcPort() == 0 }},
	{"Identification", Hardware{Identification: IDZero}, identified},
	{"Identification", Hardware{Identification: IDCounting}, identified},
	{"Identification", Hardware{Identification: IDRandom}, identified},
	{"Marks", Hardware{Marks: true}, func(p *wire.Packet) bool { return p.Body[8]&0x7f != 0 }},
	{"DSCP", Hardware{DSCP: 26}, func(p *wire.Packet) bool { return p.Frame.TOS()>>2 == 26 }},
	{"Credits", Hardware{Credits: CreditsHonest}, credited},
	{"Credits", Hardware{Credits: CreditsZero}, credited},
	{"Credits", Hardware{Credits: CreditsRandom}, credited},
	{"AskAlways", Hardware{AskAlways: true}, func(p *wire.Packet) bool { return p.Op.Has(wire.OpRequest) && p.BTH.AckReq() }},
	{"AckEvery", Hardware{AckEvery: 4, AckDelay: 20 * Microsecond}, acked},
	{"AckFirst", Hardware{AckFirst: true}, acked},
	{"RepeatNAK", Hardware{RepeatNAK: 9}, func(p *wire.Packet) bool { a := p.AETH(); return a != nil && a.Syndrome() == wire.SynNAKSeq }},
	{"Continues", Hardware{Continues: true}, func(p *wire.Packet) bool { return p.Op.Has(wire.OpRead | wire.OpResponse | wire.OpStart) }},
	{"Rereads", Hardware{Rereads: 0.5}, func(p *wire.Packet) bool { return p.Opcode == wire.RCReadRequest }},
}

func identified(p *wire.Packet) bool { return p.Frame.IPv4().Identification() != 0 }

func credited(p *wire.Packet) bool {
	a := p.AETH()
	return a != nil && a.Syndrome().Kind() == wire.KindACK && a.Syndrome() != wire.SynACK
}

func acked(p *wire.Packet) bool {
	return p.Opcode == wire.RCAcknowledge && p.AETH().Syndrome().Kind() == wire.KindACK
}

// TestHabits: each habit shows, and with each the same work is done, under losses and the oracle.
func TestHabits(t *testing.T) {
	tested := map[string]bool{"AckDelay": true} // with AckEvery
	for _, row := range habitRows {
		without, _ := meetHabit(t, Hardware{}, row.shows)
		with, a := meetHabit(t, row.habit, row.shows)
		require.NotZero(t, a.Node.Engine.Stats().RcvdCNP)
		require.NotEqual(t, without, with, "%+v", row.habit)
		tested[row.field] = true
	}
	for f := range reflect.TypeFor[Hardware]().Fields() {
		require.True(t, tested[f.Name], "no row has %s", f.Name)
	}
}

// meetHabit plays work in both directions with a node that has a habit, and counts its packets that
// show it. Every eleventh packet is lost.
func meetHabit(t *testing.T, habit Hardware, shows func(p *wire.Packet) bool) (n int, a *End) {
	t.Helper()
	s := NewScript(t)
	s.Hold = false
	s.Faults = Faults{Delay: 5 * Microsecond, Rate: 10e9, MarkAt: 1}
	cfg := QPConfig{TrafficClass: 2, FlowControl: true, PSN: 0xfffff0}
	a = s.newEnd(NodeConfig{}, cfg)
	b := s.newEnd(NodeConfig{MaxRun: 16, Hardware: habit}, cfg)
	s.Connect(a.QP, b.QP)
	for i, l := range []*Link{s.Link(b.Node, a.Node), s.Link(a.Node, b.Node)} {
		k := 0
		l.Drop = func(p *wire.Packet) bool {
			if i == 0 && shows(p) {
				n++
			}
			k++
			return k%11 == 0
		}
	}
	ids := map[*End][]uint64{}
	for round := range 12 {
		for _, ends := range [][2]*End{{a, b}, {b, a}} {
			from, to := ends[0], ends[1]
			s.Receive(to, 3000)
			for _, wr := range []qp.SendWR{from.Send(52000, 3000), from.Read(4000*round, 4000, to.Remote, 48000),
				from.Write(56000, 10, to.Remote, 0)} {
				id, err := from.PostSend(wr)
				require.NoError(t, err)
				ids[from] = append(ids[from], id)
			}
		}
	}
	require.NoError(t, s.Run(), "%+v", habit)
	require.NoError(t, s.AtRest())
	for e, list := range ids {
		for _, id := range list {
			s.Sent(e, id, qp.WCSuccess)
		}
	}
	return n, a
}

// TestCredits tells what a requester makes of them: it obeys if it was told to, and counts in any
// case.
func TestCredits(t *testing.T) {
	for _, obeys := range []bool{false, true} {
		s := NewScript(t)
		a, p := s.Against(QPConfig{FlowControl: obeys}, 0)
		ack := func(code uint8, psn, msn wire.PSN) {
			p.Inject(Craft{Op: wire.RCAcknowledge, Syn: wire.AckSyndrome(code), PSN: psn, MSN: msn})
		}
		s.Post(a, a.Send(0, 10))
		s.Post(a, a.Send(0, 10))
		s.Post(a, a.Send(0, 10))
		for psn := range wire.PSN(3) { // nothing is known of credits yet
			s.Drop(a, Pkt(wire.RCSendOnly, psn))
		}
		ack(1, 0, 1) // one of three is there, and a receive for the second
		for range 3 {
			s.Post(a, a.Send(0, 10))
		}
		s.Post(a, a.Write(0, 10, a.Remote, 0))
		if !obeys {
			for psn := range wire.PSN(3) {
				s.Drop(a, Pkt(wire.RCSendOnly, 3+psn))
			}
			s.Drop(a, Pkt(wire.RCWriteOnly, 6))
			require.EqualValues(t, 1, a.Node.Engine.Stats().RcvdCredits)
			require.Zero(t, a.Node.Engine.Stats().CreditWaits)
			continue
		}
		s.Quiet()
		ack(2, 1, 2) // up to the fourth, and one to ask
		s.Drop(a, Pkt(wire.RCSendOnly, 3))
		s.Drop(a, Pkt(wire.RCSendOnly, 4))
		s.Quiet()
		ack(9, 1, 9) // counts what was never sent
		s.Quiet()
		ack(3, 1, 2) // again, with a new receive
		s.Drop(a, Pkt(wire.RCSendOnly, 5))
		s.Drop(a, Pkt(wire.RCWriteOnly, 6)) // takes no receive
		ack(6, 1, 2)                        // code 6 is 8: up to the tenth
		ack(0, 1, 2)                        // came late: nothing is taken back
		for range 4 {
			s.Post(a, a.Send(0, 10))
		}
		s.Post(a, With(a.Write(0, 10, a.Remote, 0), Immediate(1)))
		s.Post(a, a.Send(0, 10))
		for psn := range wire.PSN(4) {
			s.Drop(a, Pkt(wire.RCSendOnly, 7+psn))
		}
		s.Quiet()
		ack(0, 10, 3) // a peer that counts otherwise stops nobody: all is there, so one goes
		s.Drop(a, Pkt(wire.RCWriteOnlyImm, 11))
		s.Quiet()
		ack(31, 11, 8) // and it does not count at all
		s.Drop(a, Pkt(wire.RCSendOnly, 12))
		require.EqualValues(t, 7, a.Node.Engine.Stats().RcvdCredits)
		require.NotZero(t, a.Node.Engine.Stats().CreditWaits)
	}
}

// TestCreditsCountMessages: a WRITE in even packets is as many messages as packets, such a READ as
// many as pieces.
func TestCreditsCountMessages(t *testing.T) {
	s := NewScript(t)
	a := s.newEnd(NodeConfig{Engine: qp.Config{EvenPackets: true}}, QPConfig{FlowControl: true, RdAtomic: 64})
	p := s.rawPeer(a, NodeConfig{Raw: true}, 0)
	s.Post(a, a.Write(0, 2500, a.Remote, 0))
	s.Post(a, a.Read(0, 2500, a.Remote, 0))
	for psn := range wire.PSN(3) {
		s.Drop(a, Pkt(wire.RCWriteOnly, psn))
	}
	s.Drop(a, Pkt(wire.RCReadRequest, 3))
	s.Drop(a, Pkt(wire.RCReadRequest, 5))
	p.Inject(Craft{Op: wire.RCAcknowledge, Syn: wire.AckSyndrome(1), PSN: 2, MSN: 5})
	for range 3 {
		s.Post(a, a.Send(0, 10))
	}
	s.Drop(a, Pkt(wire.RCSendOnly, 6)) // there is a receive for it
	s.Drop(a, Pkt(wire.RCSendOnly, 7)) // and this asks
	s.Quiet()
}

// TestCreditsSpareRepeats: who obeys a NIC's credits has only one message refused at a time for
// want of a receive, and not all behind it that go with it.
func TestCreditsSpareRepeats(t *testing.T) {
	repeated := func(obeys bool) uint64 {
		s := NewScript(t)
		s.Hold = false
		s.Faults.Delay = 2 * Microsecond
		a := s.newEnd(NodeConfig{}, QPConfig{FlowControl: obeys})
		b := s.newEnd(NodeConfig{Hardware: Hardware{Credits: CreditsHonest}}, QPConfig{})
		s.Connect(a.QP, b.QP)
		s.Receive(b, 10)
		b.OnReceive = func() { s.After(7*Microsecond, func() { s.Receive(b, 10) }) }
		_, err := a.PostSend(a.Send(0, 10))
		require.NoError(t, err)
		require.NoError(t, s.RunFor(5*Microsecond)) // it was acknowledged
		for range 50 {
			_, err := a.PostSend(a.Send(0, 10))
			require.NoError(t, err)
		}
		require.NoError(t, s.Run())
		require.NoError(t, s.AtRest())
		return a.Node.Engine.Stats().Retransmitted
	}
	obeying, not := repeated(true), repeated(false)
	t.Logf("packets sent again for 50 SENDs: %d, without flow control %d", obeying, not)
	require.Less(t, 5*obeying, not)
}
