package world

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/wire"
)

// exchange is two hosts and a connected pair: A writes 3000 bytes to B, then sends it a word.
func exchange(w *World) {
	a, b := w.AddHost("A"), w.AddHost("B")
	from := a.RegMR("from", 4096, 0)
	to := b.RegMR("to", 4096, mr.LocalWrite|mr.RemoteWrite)
	acq, bcq := a.CreateCQ(16), b.CreateCQ(16)
	qa, qb := a.CreateQP(acq, QPInit{}), b.CreateQP(bcq, QPInit{})
	w.Connect(qa, qb)
	for i := range from.Bytes {
		from.Bytes[i] = byte(i)
	}
	_ = qb.PostRecv(qp.RecvWR{WRID: 7, SGL: []qp.SGE{to.SGE(3000, 8)}})
	_ = qa.PostSend(
		qp.SendWR{WRID: 1, Opcode: qp.WRWrite, SGL: []qp.SGE{from.SGE(0, 3000)}, RemoteAddr: to.Addr(0), RKey: to.RKey()},
		qp.SendWR{WRID: 2, Opcode: qp.WRSend, Flags: qp.SendSignaled, SGL: []qp.SGE{from.SGE(100, 8)}})
	w.Run()
	acq.Poll()
	bcq.Poll()
}

func text(t *testing.T, p *Play) string {
	t.Helper()
	b, err := json.Marshal(p)
	require.NoError(t, err)
	return string(b)
}

// TestPlay: what the play says of an exchange without changes.
func TestPlay(t *testing.T) {
	p := Run(exchange, nil)
	var ops, kinds []string
	for _, x := range p.Packets {
		ops, kinds = append(ops, x.Op), append(kinds, x.Kind)
		require.Equal(t, Delivered, x.Fate)
		require.Greater(t, x.Arrived, x.Sent)
		require.NotEmpty(t, x.Fields)
		require.Contains(t, x.Line, "10.0.0.")
	}
	require.Equal(t, []string{"RC RDMA_WRITE_FIRST", "RC RDMA_WRITE_MIDDLE", "RC RDMA_WRITE_LAST", "RC SEND_ONLY"}, ops[:4])
	require.Contains(t, kinds, "ack")
	require.Equal(t, []qp.WC{{WRID: 2, Opcode: qp.WCSend, QPN: p.Hosts[0].QPs[0].QPN, ByteLen: p.CompletionsOf("A")[0].ByteLen}},
		p.CompletionsOf("A"))
	require.EqualValues(t, 8, p.CompletionsOf("B")[0].ByteLen)
	require.Equal(t, p.Memory("A", "from")[:3000], p.Memory("B", "to")[:3000])
	require.Equal(t, p.Memory("A", "from")[100:108], p.Memory("B", "to")[3000:3008])
	last := p.Moments[len(p.Moments)-1].Hosts
	require.Empty(t, last[0].QPs[0].SQ)
	require.Empty(t, last[1].QPs[0].RQ)
	require.Empty(t, last[0].CQs[0])
	require.False(t, p.Unfinished)
	seen := map[string]bool{} // a request is seen waiting, and sent, its completion in the queue
	for _, m := range p.Moments {
		if len(m.Hosts) == 2 && len(m.Hosts[0].QPs) == 1 {
			for _, x := range m.Hosts[0].QPs[0].SQ {
				seen[x.State] = true
			}
			seen["completion"] = seen["completion"] || len(m.Hosts[0].CQs[0]) > 0
		}
	}
	require.Equal(t, map[string]bool{"waiting": true, "sent": true, "completion": true}, seen)
}

// TestDeterministic: the same scenario with the same changes is the same play, to the byte, and the
// JSON reads back.
func TestDeterministic(t *testing.T) {
	for _, changes := range [][]Change{nil, {{Packet: 2, Action: Drop}}, {{Packet: 1, Action: Delay}, {Packet: 3, Action: Duplicate}}} {
		first := text(t, Run(exchange, changes))
		require.Equal(t, first, text(t, Run(exchange, changes)))
		var back Play
		require.NoError(t, json.Unmarshal([]byte(first), &back))
		require.Equal(t, first, text(t, &back))
	}
}

// TestChanges: whatever is done to one packet, a reliable connection gets everything through.
func TestChanges(t *testing.T) {
	fates := map[Action]Fate{Drop: Lost, Delay: Delivered, Duplicate: Duplicated, Mark: Marked, Corrupt: Corrupted, Deliver: Delivered}
	for n := range len(Run(exchange, nil).Packets) {
		for action, fate := range fates {
			c := Change{Packet: n + 1, Action: action}
			require.NoError(t, c.Check())
			p := Run(exchange, []Change{c})
			require.Equal(t, fate, p.Packets[n].Fate, "%v", c)
			require.Equal(t, action, p.Packets[n].Change)
			require.Equal(t, fate == Duplicated, p.Packets[n].Again > 0, "%v", c)
			require.Equal(t, p.Memory("A", "from")[:3000], p.Memory("B", "to")[:3000], "%v", c)
			require.Equal(t, qp.WCSuccess, p.CompletionsOf("A")[0].Status)
			if fate == Lost || fate == Corrupted {
				require.NotEmpty(t, p.Packets[n].Wrong, "%v", c)
			}
		}
	}
	for _, bad := range []Change{{Packet: 0, Action: Drop}, {Packet: 1, Action: "burn"}, {Packet: 1, Action: Delay, For: -1}} {
		require.Error(t, bad.Check())
	}
}

// TestScenarioDecides: what a scenario does to a packet holds unless the student wants something
// else.
func TestScenarioDecides(t *testing.T) {
	lossy := func(w *World) {
		w.Change(1, Drop)
		exchange(w)
	}
	require.Equal(t, Lost, Run(lossy, nil).Packets[0].Fate)
	require.Equal(t, Delivered, Run(lossy, []Change{{Packet: 1, Action: Deliver}}).Packets[0].Fate)
}

// TestRefused: errors of calls are there, with what they are.
func TestRefused(t *testing.T) {
	p := Run(func(w *World) {
		a := w.AddHost("A")
		require.Nil(t, a.RegMR("bad", 64, mr.RemoteWrite).Region)
		q := a.CreateQP(a.CreateCQ(1), QPInit{})
		require.Error(t, q.PostSend(qp.SendWR{Opcode: qp.WRSend}))
	}, nil)
	errs := p.Refusals("A")
	require.Len(t, errs, 2)
	require.ErrorIs(t, errs[0], mr.ErrInvalid)
	require.ErrorIs(t, errs[1], qp.ErrState)
}

// TestNeverAtRest: a peer that is never ready is asked for ever, and the world ends it.
func TestNeverAtRest(t *testing.T) {
	p := Run(func(w *World) {
		a, b := w.AddHost("A"), w.AddHost("B")
		qa, qb := a.CreateQP(a.CreateCQ(16), QPInit{}), b.CreateQP(b.CreateCQ(16), QPInit{})
		qa.Attr.RNRRetry = 7
		w.Connect(qa, qb)
		_ = qa.PostSend(qp.SendWR{Opcode: qp.WRSend})
		w.RunFor(5 * Millisecond)
	}, nil)
	require.False(t, p.Unfinished)
	require.Greater(t, len(p.Packets), 3)
	require.Equal(t, "nak", p.Packets[1].Kind)
}

// TestDatagrams: a datagram to one, and to a group of which each member gets a copy.
func TestDatagrams(t *testing.T) {
	p := Run(func(w *World) {
		a := w.AddHost("A")
		from := a.RegMR("from", 64, 0)
		qa := a.CreateQP(a.CreateCQ(16), QPInit{Type: qp.UD})
		qa.Activate()
		group := groupOf(t)
		for _, name := range []string{"B", "C"} {
			h := w.AddHost(name)
			in := h.RegMR("in", 256, mr.LocalWrite)
			q := h.CreateQP(h.CreateCQ(16), QPInit{Type: qp.UD})
			q.Activate()
			require.NoError(t, q.AttachMcast(group))
			require.NoError(t, q.PostRecv(qp.RecvWR{WRID: 1, SGL: []qp.SGE{in.SGE(0, 128)}},
				qp.RecvWR{WRID: 2, SGL: []qp.SGE{in.SGE(128, 128)}}))
			if name == "B" {
				require.NoError(t, qa.PostSend(qp.SendWR{
					Opcode:     qp.WRSend,
					SGL:        []qp.SGE{from.SGE(0, 20)},
					AH:         a.AH(h.GID),
					RemoteQPN:  q.QPN(),
					RemoteQKey: 0x11223344,
				}))
			}
		}
		require.NoError(t, qa.PostSend(qp.SendWR{
			Opcode:     qp.WRSend,
			SGL:        []qp.SGE{from.SGE(0, 10)},
			AH:         a.AH(group),
			RemoteQPN:  0xffffff,
			RemoteQKey: 0x11223344,
		}))
		w.Run()
	}, nil)
	require.Len(t, p.Packets, 3)
	require.Len(t, p.CompletionsOf("B"), 2)
	require.Len(t, p.CompletionsOf("C"), 1)
	require.EqualValues(t, 50, p.CompletionsOf("C")[0].ByteLen)
}

// TestCongestion: two hosts send to one at their ports' full rate; the switch marks, and CNPs slow
// both down.
func TestCongestion(t *testing.T) {
	p := Run(func(w *World) {
		w.MarkAt = 20_000
		b := w.AddHost("B")
		to := b.RegMR("to", 1<<16, mr.LocalWrite|mr.RemoteWrite)
		for _, name := range []string{"A", "C"} {
			h := w.AddHost(name)
			from := h.RegMR("from", 1<<16, 0)
			q, peer := h.CreateQP(h.CreateCQ(16), QPInit{}), b.CreateQP(b.CreateCQ(16), QPInit{})
			w.Connect(q, peer)
			require.NoError(t, q.PostSend(qp.SendWR{
				Opcode:     qp.WRWrite,
				SGL:        []qp.SGE{from.SGE(0, 1<<16)},
				RemoteAddr: to.Addr(0),
				RKey:       to.RKey(),
			}))
		}
		w.Run()
	}, nil)
	require.NotEmpty(t, p.EntriesOf("B", "marked"))
	require.NotEmpty(t, append(p.EntriesOf("A", "slowed"), p.EntriesOf("C", "slowed")...))
}

func groupOf(t *testing.T) wire.GID {
	t.Helper()
	g, err := wire.ParseGID("::ffff:239.1.2.3")
	require.NoError(t, err)
	return g
}

// TestInjected: a packet that no device has made arrives as any other. A copy of an old one is a
// duplicate, which is not executed again.
func TestInjected(t *testing.T) {
	p := Run(func(w *World) {
		exchange(w)
		a := w.hosts[0]
		a.Inject(w.flights[3].bytes)
		a.Inject([]byte("no packet"))
		w.Run()
	}, nil)
	again := p.Packets[len(p.Packets)-2]
	require.Equal(t, p.Packets[3].Bytes, again.Bytes)
	require.Equal(t, "ack", p.Packets[len(p.Packets)-1].Kind)
	require.Len(t, p.CompletionsOf("B"), 1)
}

// TestEvents: an armed queue wakes its program once; polling takes no more than it is asked for.
func TestEvents(t *testing.T) {
	p := Run(func(w *World) {
		a, b := w.AddHost("A"), w.AddHost("B")
		cq := a.CreateCQ(16)
		qa, qb := a.CreateQP(cq, QPInit{SQSigAll: true}), b.CreateQP(b.CreateCQ(16), QPInit{})
		w.Connect(qa, qb)
		cq.Arm(false)
		for i := range 3 {
			require.NoError(t, qa.PostSend(qp.SendWR{WRID: uint64(i), Opcode: qp.WRWrite}))
			w.Run()
		}
		require.Len(t, cq.PollN(2), 2)
		require.Len(t, cq.Poll(), 1)
		require.Empty(t, cq.Poll())
	}, nil)
	require.Len(t, p.EntriesOf("A", "event"), 1)
	require.Len(t, p.EntriesOf("A", "poll"), 3)
}

// TestSmallDevice: a table that is full, and room again; a region that was refused harms nothing.
func TestSmallDevice(t *testing.T) {
	Run(func(w *World) {
		a := w.AddHost("A")
		a.MaxRegions, a.MaxPages = 2, 4
		first := a.RegMR("first", 3*4096, 0)
		refused := a.RegMR("too much", 2*4096, 0)
		require.Nil(t, refused.Region)
		require.Zero(t, refused.LKey())
		require.ErrorIs(t, refused.DeregMR(), mr.ErrInvalid)
		require.NotNil(t, a.RegMR("second", 4096, 0).Region)
		require.Nil(t, a.RegMR("third", 0, 0).Region)
		require.NoError(t, first.DeregMR())
		require.NotNil(t, a.RegMR("third", 2*4096, 0).Region)
	}, nil)
}

// TestAddresses: packets to any row of a host's table reach it; to an address that nobody has they
// are lost.
func TestAddresses(t *testing.T) {
	second := wire.GID{10: 0xff, 11: 0xff, 12: 192, 13: 168, 15: 1}
	p := Run(func(w *World) {
		a, b := w.AddHost("A"), w.AddHost("B")
		b.AddGID(second)
		qa, qb := a.CreateQP(a.CreateCQ(16), QPInit{Type: qp.UD}), b.CreateQP(b.CreateCQ(16), QPInit{Type: qp.UD})
		qa.Activate()
		qb.Activate()
		for _, to := range []wire.GID{b.GID, second, {10: 0xff, 11: 0xff, 12: 9}} {
			require.NoError(t, qa.PostSend(qp.SendWR{Opcode: qp.WRSend, AH: a.AH(to), RemoteQPN: qb.QPN(), RemoteQKey: 0x11223344}))
		}
		w.Run()
	}, nil)
	require.Equal(t, []int{1, 1, -1}, []int{p.Packets[0].To, p.Packets[1].To, p.Packets[2].To})
	require.Equal(t, Lost, p.Packets[2].Fate)
	require.NotEmpty(t, p.Packets[2].Wrong)
}
