package qptest

// FLUSH and ATOMIC WRITE: what is on the wire, what is executed when, what is refused (sections
// 4.5, 6.2, 6.6, 7.2, 7.4). Storage is the script's.

import (
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/wire"
)

// Flush is a signaled FLUSH of n bytes at offset at of the peer's remote memory, or of all of it.
func (e *End) Flush(to *Region, at, n int, p qp.Placement, s qp.Selectivity) qp.SendWR {
	return qp.SendWR{Opcode: qp.WRFlush, Flags: qp.SendSignaled, RKey: to.RKey(), RemoteAddr: to.Addr(at),
		Flush: qp.FlushInfo{Length: uint32(n), Placement: p, Selectivity: s}}
}

// AtomicWrite is a signaled ATOMIC WRITE to offset at of the peer's remote memory.
func (e *End) AtomicWrite(to *Region, at int, v uint64) qp.SendWR {
	return qp.SendWR{Opcode: qp.WRAtomicWrite, Flags: qp.SendSignaled, RKey: to.RKey(), RemoteAddr: to.Addr(at), Swap: v}
}

// flush and store are the same by hand.
func (e *End) flush(psn wire.PSN, at, n int, placement, selectivity uint8) Craft {
	return Craft{Op: wire.RCFlush, PSN: psn, AckReq: true, VA: e.Remote.Addr(at), RKey: e.Remote.RKey(), Len: uint32(n),
		Placement: placement, Selectivity: selectivity}
}

func (e *End) store(psn wire.PSN, at int, v uint64) Craft {
	return Craft{Op: wire.RCAtomicWrite, PSN: psn, AckReq: true, VA: e.Remote.Addr(at), RKey: e.Remote.RKey(), Len: 8,
		Payload: binary.NativeEndian.AppendUint64(nil, v)}
}

// answered is the answer to either.
func answered(psn wire.PSN, more ...Match) Match {
	return Pkt(wire.RCReadResponseOnly, psn, append([]Match{Syn(wire.SynACK), Size(0)}, more...)...)
}

// storage lets the script say when memory is synced.
func storage(e *End) *[]qp.Sync {
	e.Node.Syncs = new([]qp.Sync)
	return e.Node.Syncs
}

// synced is the end of the oldest sync.
func (s *Script) synced(e *End, ok bool) {
	s.T.Helper()
	syncs := e.Node.Syncs
	if len(*syncs) == 0 {
		s.T.Fatalf("nothing is to be synced")
	}
	first := (*syncs)[0]
	*syncs = (*syncs)[1:]
	e.Node.turn(func() { e.Node.Engine.Synced(s.Now, first, ok) })
	s.check()
}

// TestFlushOnWire: the headers, and the completions that the answers bring.
func TestFlushOnWire(t *testing.T) {
	s := NewScript(t)
	a, p := s.Against(QPConfig{}, 0)
	ids := []uint64{s.Post(a, a.Flush(a.Remote, 16, 100, qp.PlacementGlobal|qp.PlacementPersistent, qp.SelectivityRange)),
		s.Post(a, a.Flush(a.Remote, 0, 0, qp.PlacementPersistent, qp.SelectivityMR)),
		s.Post(a, a.AtomicWrite(a.Remote, 8, 0x1122334455667788))}
	feth := func(placement, selectivity uint8) Match {
		return func(p *wire.Packet) string {
			return field("FETH", [2]uint8{p.FETH().Placement(), p.FETH().Selectivity()}, [2]uint8{placement, selectivity})
		}
	}
	s.Drop(a, Pkt(wire.RCFlush, 0, AckReq(true), feth(3, 0), RETH(a.Remote.Addr(16), a.Remote.RKey(), 100), Size(0)))
	s.Drop(a, Pkt(wire.RCFlush, 1, AckReq(true), feth(2, 1)))
	s.Drop(a, Pkt(wire.RCAtomicWrite, 2, AckReq(true), RETH(a.Remote.Addr(8), a.Remote.RKey(), 8),
		Payload(binary.NativeEndian.AppendUint64(nil, 0x1122334455667788))))
	for i, want := range []qp.WCOpcode{qp.WCFlush, qp.WCFlush, qp.WCAtomicWrite} {
		s.NoCompletions(a)
		p.Inject(Craft{Op: wire.RCReadResponseOnly, PSN: wire.PSN(i), Syn: wire.SynACK})
		if wc := s.Sent(a, ids[i], qp.WCSuccess); wc.Opcode != want {
			t.Errorf("completion %+v", wc)
		}
	}
}

// TestFlushAnsweredWrongly: an ACK is no answer, data is a wrong one.
func TestFlushAnsweredWrongly(t *testing.T) {
	s := NewScript(t)
	a, p := s.Against(QPConfig{}, 0)
	id := s.Post(a, a.Flush(a.Remote, 0, 8, qp.PlacementGlobal, qp.SelectivityRange))
	s.Drop(a, Pkt(wire.RCFlush, 0))
	p.ack(wire.SynACK, 0)
	s.NoCompletions(a)
	s.Clear()
	p.Inject(Craft{Op: wire.RCReadResponseOnly, PSN: 0, Syn: wire.SynACK, Payload: make([]byte, 4)})
	s.Sent(a, id, qp.WCLocLenErr)
	s.InState(a, qp.StateErr)
	s = NewScript(t)
	a, p = s.Against(QPConfig{}, 0)
	id = s.Post(a, a.AtomicWrite(a.Remote, 0, 1))
	s.Drop(a, Pkt(wire.RCAtomicWrite, 0))
	p.Inject(Craft{Op: wire.RCAtomicAcknowledge, PSN: 0, Syn: wire.SynACK})
	s.Sent(a, id, qp.WCBadRespErr)
}

// TestFlushPosted walks the rules of PostSend.
func TestFlushPosted(t *testing.T) {
	s := NewScript(t)
	a, _ := s.Against(QPConfig{}, 0)
	flush := a.Flush(a.Remote, 0, 8, qp.PlacementGlobal, qp.SelectivityRange)
	for name, change := range map[string]func(wr *qp.SendWR){
		"no placement":        func(wr *qp.SendWR) { wr.Flush.Placement = 0 },
		"unknown placement":   func(wr *qp.SendWR) { wr.Flush.Placement = 4 },
		"unknown selectivity": func(wr *qp.SendWR) { wr.Flush.Selectivity = 2 },
		"elements":            func(wr *qp.SendWR) { wr.SGL = []qp.SGE{a.Local.SGE(0, 8)} },
		"inline":              func(wr *qp.SendWR) { wr.Flags |= qp.SendInline },
		"word not aligned":    func(wr *qp.SendWR) { *wr = a.AtomicWrite(a.Remote, 4, 1) },
		"word with elements":  func(wr *qp.SendWR) { *wr = a.AtomicWrite(a.Remote, 8, 1); wr.SGL = []qp.SGE{a.Local.SGE(0, 8)} },
	} {
		wr := flush
		change(&wr)
		if _, err := a.PostSend(wr); !errors.Is(err, qp.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s.Quiet()
	uc := s.newEnd(NodeConfig{}, QPConfig{Type: qp.UC})
	s.rawPeer(uc, NodeConfig{Raw: true}, 0)
	if _, err := uc.PostSend(flush); !errors.Is(err, qp.ErrInvalid) {
		t.Errorf("FLUSH of UC: %v", err)
	}
}

// TestFlushWaits: the answer comes when storage has the memory, and a duplicate is not synced
// again, neither before nor after. What follows is executed and answered behind it.
func TestFlushWaits(t *testing.T) {
	s := NewScript(t)
	a, p := s.Against(QPConfig{}, 0)
	syncs := storage(a)
	p.Inject(a.write(0, 0, []byte("data")))
	s.Drop(a, Ack(0, MSN(1)))
	p.Inject(a.flush(1, 0, 100, wire.PlacementPersistent, wire.SelectivityRange))
	s.Quiet()
	if len(*syncs) != 1 || &(*syncs)[0].Mem[0] != &a.Remote.Bytes[0] || len((*syncs)[0].Mem) != 100 || (*syncs)[0].QP() != a.QP.QP {
		t.Fatalf("%d syncs", len(*syncs))
	}
	// the peer is impatient
	p.Inject(a.flush(1, 0, 100, wire.PlacementPersistent, wire.SelectivityRange))
	p.Inject(a.flush(2, 0, 100, wire.PlacementGlobal, wire.SelectivityRange))
	p.Inject(a.write(3, 0, []byte("next")))
	p.Inject(a.read(4, 0, 4))
	s.Drop(a, Nak(wire.RNRSyndrome(1), 1))
	s.Quiet()
	if string(a.Remote.Bytes[:4]) != "next" || len(*syncs) != 1 {
		t.Errorf("memory is %q, %d syncs", a.Remote.Bytes[:4], len(*syncs))
	}
	s.synced(a, true)
	s.Drop(a, answered(1, MSN(5)))
	s.Drop(a, answered(2))
	s.Drop(a, Pkt(wire.RCReadResponseOnly, 4, Payload([]byte("next"))))
	s.Quiet()
	p.Inject(a.flush(1, 0, 100, wire.PlacementPersistent, wire.SelectivityRange))
	s.Drop(a, answered(1))
	if len(*syncs) != 0 {
		t.Error("a duplicate was synced again")
	}
}

// TestFlushAll: a FLUSH of the whole region looks neither at the address nor at the length.
func TestFlushAll(t *testing.T) {
	s := NewScript(t)
	a, p := s.Against(QPConfig{}, 0)
	syncs := storage(a)
	c := a.flush(0, 0, math.MaxInt32, wire.PlacementPersistent, wire.SelectivityMR)
	c.VA = 1
	p.Inject(c)
	if len(*syncs) != 1 || len((*syncs)[0].Mem) != endMemory {
		t.Fatal("the region is not synced")
	}
	s.synced(a, true)
	s.Drop(a, answered(0))
	p.Inject(a.flush(1, 0, 0, wire.PlacementPersistent, wire.SelectivityRange)) // nothing to do
	s.Drop(a, answered(1))
}

// TestAtomicWriteBehindFlush waits for storage: it is turned away, without a word, and then asked
// for; so are atomics. What was behind it comes again, too.
func TestAtomicWriteBehindFlush(t *testing.T) {
	for name, last := range map[string]func(a *End) Craft{
		"ATOMIC WRITE": func(a *End) Craft { return a.store(1, 8, 7) },
		"FETCH_ADD":    func(a *End) Craft { return a.add(1, 8, 7) },
	} {
		for _, selective := range []bool{false, true} {
			s := NewScript(t)
			a, p := s.Against(QPConfig{Selective: selective}, 0)
			storage(a)
			a.Remote.Set(8, make([]byte, 8))
			p.Inject(a.flush(0, 0, 100, wire.PlacementPersistent, wire.SelectivityRange))
			for range 3 { // without the FLUSH, of which the peer has no doubt
				p.Inject(last(a))
				for psn := range wire.PSN(3) {
					c := a.write(2+psn, 32, []byte("behind"))
					c.AckReq = false
					p.Inject(c)
				}
				s.Quiet()
			}
			if a.word(8) != 0 {
				t.Errorf("%s: executed before the FLUSH was", name)
			}
			s.synced(a, true)
			s.Drop(a, answered(0))
			s.Drop(a, Nak(wire.SynNAKSeq, 1))
			s.Quiet()
			p.Inject(last(a))
			op := wire.RCReadResponseOnly
			if name != "ATOMIC WRITE" {
				op = wire.RCAtomicAcknowledge
			}
			s.Drop(a, Pkt(op, 1))
			if a.word(8) != 7 {
				t.Errorf("%s: the word is %d", name, a.word(8))
			}
			if got := string(a.Remote.Bytes[32:38]) == "behind"; got != selective {
				t.Errorf("%s: what was behind it is executed: %v", name, got)
			}
		}
	}
}

// TestFlushTakesLong: a peer that asks again is asked to wait as long again as it has taken so far,
// also if it repeats only what comes before, and what it has lost from before is replayed.
func TestFlushTakesLong(t *testing.T) {
	for _, selective := range []bool{false, true} {
		s := NewScript(t)
		a, p := s.Against(QPConfig{Selective: selective, MinRNRTimer: 3}, 0)
		storage(a)
		a.Remote.Set(0, []byte("data"))
		p.Inject(a.read(0, 0, 4))
		s.Drop(a, Pkt(wire.RCReadResponseOnly, 0))
		p.Inject(a.write(1, 0, []byte("data")))
		s.Drop(a, Pkt(wire.RCAcknowledge, 1))
		p.Inject(a.flush(2, 0, 100, wire.PlacementPersistent, wire.SelectivityRange))
		p.Inject(a.flush(3, 0, 100, wire.PlacementPersistent, wire.SelectivityRange))
		s.Quiet()
		for _, wait := range []qp.Time{0, 50 * Millisecond, 400 * Millisecond, 20 * 1000 * Millisecond} {
			s.Advance(wait)
			p.Inject(a.flush(2, 0, 100, wire.PlacementPersistent, wire.SelectivityRange))
			code := map[qp.Time]uint8{0: 3, 50 * Millisecond: 25, 400 * Millisecond: 31}[wait]
			s.Drop(a, Nak(wire.RNRSyndrome(code), 2))
		}
		p.Inject(a.write(1, 0, []byte("data")))
		s.Drop(a, Nak(wire.RNRSyndrome(0), 2))
		p.Inject(a.read(0, 0, 4))
		s.Drop(a, Pkt(wire.RCReadResponseOnly, 0))
		s.Drop(a, Nak(wire.RNRSyndrome(0), 2))
		// not its turn
		p.Inject(a.flush(3, 0, 100, wire.PlacementPersistent, wire.SelectivityRange))
		s.Quiet()
		s.synced(a, true)
		s.Drop(a, answered(2))
		s.synced(a, true)
		s.Drop(a, answered(3))
		s.Quiet()
		if st := a.Node.Engine.Stats(); st.FlushWaits != 6 || st.SentRNR != 0 {
			t.Errorf("told to wait for storage %d times, for a receive %d times", st.FlushWaits, st.SentRNR)
		}
	}
}

// TestFlushShare: storage is asked for no more of a peer than half of what it does at a time.
func TestFlushShare(t *testing.T) {
	s := NewScript(t)
	a, p := s.Against(QPConfig{}, 0)
	syncs := storage(a)
	const n = 5
	for psn := range wire.PSN(n) {
		p.Inject(a.flush(psn, 8*int(psn), 8, wire.PlacementPersistent, wire.SelectivityRange))
	}
	for psn := range wire.PSN(n) {
		if want := min(2, n-int(psn)); len(*syncs) != want || &(*syncs)[0].Mem[0] != &a.Remote.Bytes[8*psn] {
			t.Fatalf("%d syncs under way before PSN %d, want %d", len(*syncs), psn, want)
		}
		s.synced(a, true)
		s.Drop(a, answered(psn))
	}
	s.Quiet()
}

// TestFlushFails: storage cannot do it. What comes before is answered, the peer is told, and the
// connection is over.
func TestFlushFails(t *testing.T) {
	s := NewScript(t)
	a, p := s.Against(QPConfig{}, 0)
	storage(a)
	p.Inject(a.flush(0, 0, 8, wire.PlacementPersistent, wire.SelectivityRange))
	p.Inject(a.read(1, 0, 4))
	p.Inject(a.flush(2, 8, 8, wire.PlacementPersistent, wire.SelectivityRange))
	p.Inject(a.read(3, 0, 4))
	second := (*a.Node.Syncs)[1]
	a.Node.turn(func() { a.Node.Engine.Synced(s.Now, second, false) })
	s.Quiet() // the first one is still under way
	s.InState(a, qp.StateErr)
	s.Event(a, qp.EventQPReqErr)
	s.synced(a, true)
	s.Drop(a, answered(0))
	s.Drop(a, Pkt(wire.RCReadResponseOnly, 1))
	s.Drop(a, Nak(wire.SynNAKOp, 2))
	s.Quiet()
}

// TestFlushOfOthers: memory that was deregistered, or that the region has no more, when its sync
// ends: others may be at its addresses. Rights do not matter any more.
func TestFlushOfOthers(t *testing.T) {
	for name, c := range map[string]struct {
		change func(m *mr.Table, r *mr.Region) error
		want   wire.Syndrome // 0: it succeeds
	}{
		"deregistered": {(*mr.Table).Deregister, wire.SynNAKOp},
		"other memory": {func(m *mr.Table, r *mr.Region) error {
			return m.Reregister(r, mr.ChangeTranslation, mr.Registration{Mem: make([]byte, 64)})
		}, wire.SynNAKOp},
		"fewer rights": {func(m *mr.Table, r *mr.Region) error {
			return m.Reregister(r, mr.ChangeAccess, mr.Registration{Access: mr.RemoteRead})
		}, 0},
	} {
		s := NewScript(t)
		a, p := s.Against(QPConfig{}, 0)
		storage(a)
		p.Inject(a.flush(0, 0, 8, wire.PlacementPersistent, wire.SelectivityRange))
		s.Quiet()
		if err := c.change(a.Node.Memory, a.Remote.Region); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		s.synced(a, true)
		if c.want == 0 {
			s.Drop(a, answered(0))
		} else {
			s.Drop(a, Nak(c.want, 0))
			s.InState(a, qp.StateErr)
			s.Event(a, qp.EventQPReqErr)
		}
		s.Quiet()
	}
}

// TestFlushOutlived: a sync that ends after RESET, or for a queue pair that is gone, means nothing.
func TestFlushOutlived(t *testing.T) {
	for _, end := range []func(a *End) error{
		func(a *End) error { return a.Modify(qp.QPAttr{State: qp.StateReset}, qp.AttrState) },
		func(a *End) error { return a.Modify(qp.QPAttr{State: qp.StateErr}, qp.AttrState) },
		func(a *End) error { return a.Destroy() },
	} {
		for _, ok := range []bool{true, false} {
			s := NewScript(t)
			a, p := s.Against(QPConfig{}, 0)
			storage(a)
			p.Inject(a.flush(0, 0, 8, wire.PlacementPersistent, wire.SelectivityRange))
			if err := end(a); err != nil {
				t.Fatal(err)
			}
			s.synced(a, ok)
			s.Quiet()
		}
	}
}

// TestFlushRefused walks what is wrong with a FLUSH or an ATOMIC WRITE.
func TestFlushRefused(t *testing.T) {
	const global, persistent = wire.PlacementGlobal, wire.PlacementPersistent
	changed := func(c Craft, change func(c *Craft)) Craft { change(&c); return c }
	for _, c := range []struct {
		name string
		qp   mr.Access // what the queue pair grants
		make func(a *End) Craft
		nak  wire.Syndrome
	}{
		{"FLUSH, no placement", mr.RemoteAny, func(a *End) Craft { return a.flush(0, 0, 8, 0, 0) }, wire.SynNAKInvReq},
		{"FLUSH, unknown placement", mr.RemoteAny, func(a *End) Craft { return a.flush(0, 0, 8, 4, 0) }, wire.SynNAKInvReq},
		{"FLUSH, unknown selectivity", mr.RemoteAny, func(a *End) Craft { return a.flush(0, 0, 8, 1, 2) }, wire.SynNAKInvReq},
		{"FLUSH, not granted", mr.RemoteAny &^ mr.FlushGlobal, func(a *End) Craft {
			return a.flush(0, 0, 8, global, 0)
		}, wire.SynNAKInvReq},
		{"persistent FLUSH, not granted", mr.RemoteAny &^ mr.FlushPersistent, func(a *End) Craft {
			return a.flush(0, 0, 8, persistent, 0)
		}, wire.SynNAKInvReq},
		{"FLUSH of both, one granted", mr.RemoteAny &^ mr.FlushPersistent, func(a *End) Craft {
			return a.flush(0, 0, 8, 3, 0)
		}, wire.SynNAKInvReq},
		{"FLUSH, region does not grant it", mr.RemoteAny, func(a *End) Craft {
			return changed(a.flush(0, 0, 8, global, 0), func(c *Craft) { c.RKey, c.VA = a.Local.RKey(), a.Local.Addr(0) })
		}, wire.SynNAKAccess},
		{"FLUSH of all, region does not grant it", mr.RemoteAny, func(a *End) Craft {
			return changed(a.flush(0, 0, 8, global, 1), func(c *Craft) { c.RKey = a.Local.RKey() })
		}, wire.SynNAKAccess},
		{"FLUSH beyond the end", mr.RemoteAny, func(a *End) Craft { return a.flush(0, endMemory-7, 8, global, 0) }, wire.SynNAKAccess},
		{"FLUSH, no such key", mr.RemoteAny, func(a *End) Craft {
			return changed(a.flush(0, 0, 8, global, 0), func(c *Craft) { c.RKey ^= 0xff00 })
		}, wire.SynNAKAccess},
		{"FLUSH of all, no such key", mr.RemoteAny, func(a *End) Craft {
			return changed(a.flush(0, 0, 8, persistent, 1), func(c *Craft) { c.RKey ^= 0xff00 })
		}, wire.SynNAKAccess},
		{"ATOMIC WRITE, not granted", mr.RemoteAny &^ mr.RemoteWrite, func(a *End) Craft { return a.store(0, 0, 1) }, wire.SynNAKInvReq},
		{"ATOMIC WRITE, not aligned", mr.RemoteAny, func(a *End) Craft { return a.store(0, 4, 1) }, wire.SynNAKInvReq},
		{"ATOMIC WRITE, length of 7", mr.RemoteAny, func(a *End) Craft {
			return changed(a.store(0, 0, 1), func(c *Craft) { c.Len = 7 })
		}, wire.SynNAKInvReq},
		{"ATOMIC WRITE of 4 bytes", mr.RemoteAny, func(a *End) Craft {
			return changed(a.store(0, 0, 1), func(c *Craft) { c.Len, c.Payload = 4, c.Payload[:4] })
		}, wire.SynNAKInvReq},
		{"ATOMIC WRITE beyond the end", mr.RemoteAny, func(a *End) Craft { return a.store(0, endMemory, 1) }, wire.SynNAKAccess},
	} {
		s := NewScript(t)
		a, p := s.Against(QPConfig{Access: c.qp}, 0)
		before := a.word(0)
		storage(a)
		p.Inject(c.make(a))
		if len(s.held) == 0 {
			t.Errorf("%s: no answer", c.name)
			continue
		}
		s.Drop(a, Nak(c.nak, 0))
		s.InState(a, qp.StateErr)
		if a.word(0) != before || len(*a.Node.Syncs) > 0 {
			t.Errorf("%s: executed", c.name)
		}
	}
}

// TestFlushBeyondDepth: peers do not count FLUSHes. One more than can be remembered comes again.
func TestFlushBeyondDepth(t *testing.T) {
	s := NewScript(t)
	a, p := s.Against(QPConfig{DestRdAtomic: 2}, 0)
	storage(a)
	for psn := range wire.PSN(4) {
		p.Inject(a.flush(psn, 0, 8, wire.PlacementPersistent, wire.SelectivityRange))
	}
	s.Quiet()
	if n := len(*a.Node.Syncs); n != 2 {
		t.Fatalf("%d syncs", n)
	}
	s.synced(a, true)
	s.Drop(a, answered(0))
	s.Quiet() // an atomic would have to wait for the other one, and so does what is asked for
	s.synced(a, true)
	s.Drop(a, answered(1))
	s.Drop(a, Nak(wire.SynNAKSeq, 2))
	p.Inject(a.flush(2, 0, 8, wire.PlacementGlobal, wire.SelectivityRange))
	s.Drop(a, answered(2))

	s = NewScript(t)
	a, p = s.Against(QPConfig{DestRdAtomic: -1}, 0)
	p.Inject(a.flush(0, 0, 8, wire.PlacementGlobal, wire.SelectivityRange))
	s.Drop(a, Nak(wire.SynNAKInvReq, 0))
}

// TestAtomicWriteTwice: a duplicate is answered, not executed.
func TestAtomicWriteTwice(t *testing.T) {
	s := NewScript(t)
	a, p := s.Against(QPConfig{}, 0)
	p.Inject(a.store(0, 8, 7))
	s.Drop(a, answered(0, MSN(1)))
	a.Remote.Set(8, make([]byte, 8))
	p.Inject(a.store(0, 8, 7))
	s.Drop(a, answered(0, MSN(1)))
	if a.word(8) != 0 {
		t.Error("executed twice")
	}
}

// TestFlushToRxe: a FLUSH that is repeated has the other ICRC, as rxe answers only to its own; once
// there is an answer the next FLUSH is sealed like the one that got it. Both are taken.
func TestFlushToRxe(t *testing.T) {
	s := NewScript(t)
	a, p := s.Against(QPConfig{}, 0)
	sealing := func(rxe bool) Match {
		return func(p *wire.Packet) string { return field("rxe's ICRC", wire.VerifyFlush(p.Frame), rxe) }
	}
	id := s.Post(a, a.Flush(a.Remote, 0, 8, qp.PlacementGlobal, qp.SelectivityRange))
	for _, rxe := range []bool{false, true, false, true} {
		s.Await(Second)
		s.Drop(a, Pkt(wire.RCFlush, 0, sealing(rxe)))
		s.Clear()
	}
	p.Inject(Craft{Op: wire.RCReadResponseOnly, PSN: 0, Syn: wire.SynACK})
	s.Sent(a, id, qp.WCSuccess)
	s.Post(a, a.Flush(a.Remote, 0, 8, qp.PlacementGlobal, qp.SelectivityRange))
	s.Drop(a, Pkt(wire.RCFlush, 1, sealing(true)))

	c := a.flush(0, 0, 8, wire.PlacementGlobal, wire.SelectivityRange)
	c.Break = wire.SealFlush
	p.Inject(c)
	s.Drop(a, answered(0))
	w := a.write(1, 0, []byte("no"))
	w.Break = wire.SealFlush // of no other request
	p.Inject(w)
	s.Quiet()
}
