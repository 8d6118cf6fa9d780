package qp

// What selective repeat keeps, and that it gives it back. Its rules on the wire are in qptest.

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/wire"
)

// gapped is two connected ends of which b, the responder, has n packets behind a gap; and the
// packet that fills it.
func gapped(t *testing.T, n int) (a, b *end, missing wire.Frame) {
	a, b = newEnd(t, "10.0.0.1", 1, 1<<16), newEnd(t, "10.0.0.2", 2, 1<<16)
	a.selective, b.selective = true, true
	a.connect(t, b, wire.MTU256)
	b.connect(t, a, wire.MTU256)
	a.post(t, SendWR{Opcode: WRWrite, SGL: []SGE{a.sge(0, 256*(n+1))}, RemoteAddr: b.reg.IOVA(), RKey: b.reg.RKey()})
	a.e.HandlePosted(0)
	a.out.Reset()
	require.Equal(t, n+1, a.e.PollTransmit(0, a.out))
	frames := a.out.Frames()
	b.receive(frames[1:]...)
	require.Equal(t, n+storePlaces, b.e.keptPlaces)
	return a, b, frames[0]
}

func (d *end) receive(frames ...wire.Frame) { d.e.HandleFrames(0, frames) }

// TestKeptIsGivenBack: a queue pair has a store only while it has a gap, whatever ends that.
func TestKeptIsGivenBack(t *testing.T) {
	for name, end := range map[string]func(b *end, missing wire.Frame){
		"filled": func(b *end, missing wire.Frame) { b.receive(missing) },
		"ERR": func(b *end, _ wire.Frame) {
			require.NoError(t, b.e.ModifyQP(0, b.q, &QPAttr{State: StateErr}, AttrState))
		},
		"RESET": func(b *end, _ wire.Frame) {
			require.NoError(t, b.e.ModifyQP(0, b.q, &QPAttr{State: StateReset}, AttrState))
		},
		"destroy": func(b *end, _ wire.Frame) { require.NoError(t, b.e.DestroyQP(b.q)) },
		"refused": func(b *end, missing wire.Frame) {
			require.NoError(t, b.mem.Deregister(b.reg))
			b.receive(missing)
			require.Equal(t, StateErr, b.q.State())
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, b, missing := gapped(t, 20)
			end(b, missing)
			require.Nil(t, b.q.resp.kept)
			require.Zero(t, b.e.keptPlaces)
			require.Empty(t, b.e.holders)
			require.Len(t, b.e.spareBodies, 20)
			for i := range b.e.spareStores[0].short {
				require.Nil(t, b.e.spareStores[0].short[i].body)
			}
		})
	}
}

// TestKeptIsBounded: an engine that keeps as many packets as it may drops what comes after gaps,
// and asks for it as go-back-N does.
func TestKeptIsBounded(t *testing.T) {
	_, b, missing := gapped(t, 5)
	b.e.keptPlaces = maxKept
	before := b.q.resp.kept.n
	f := missing
	// A MIDDLE has no RETH.
	f.Body = slices.Delete(slices.Clone(missing.Body), wire.BTHLen, wire.BTHLen+len(wire.RETH{}))
	bth := (*wire.BTH)(f.Body)
	bth.Put(wire.RCWriteMiddle, 0, 0, wire.DefaultPKey, b.q.QPN(), bth.PSN().Add(9))
	wire.Seal(&f)
	b.receive(f)
	require.Equal(t, before, b.q.resp.kept.n)
	require.Equal(t, bth.PSN().Next(), b.q.resp.dropped)
	require.EqualValues(t, 1, b.e.stats.Drops[wire.DropOutOfSequence])
	b.receive(missing)
	require.Equal(t, wire.SynNAKSeq, b.q.resp.nak)
	require.Equal(t, b.q.resp.epsn, b.q.resp.nakPSN)
	require.Zero(t, b.q.nakMSN(), "it names no gap")
}

// TestKeptPlacesAdd: whatever is kept, dropped and given up, in whatever order, the places of the
// sources and of the engine are those of what is kept, and none has less than it must for another.
func TestKeptPlacesAdd(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	e, qps := NewEngine(Config{}), make([]*QP, 40)
	for i := range qps {
		qps[i] = &QP{source: &e.own}
		e.belong(qps[i], wire.GID{15: byte(1 + i%5)})
	}
	for range 3000 {
		q := qps[rnd.IntN(len(qps))]
		switch s := q.resp.kept; {
		case s == nil:
			e.takeStore(q)
			fallthrough
		case rnd.IntN(3) > 0:
			s = q.resp.kept
			psn := s.from.Add(uint32(rnd.IntN(50)))
			if s.at(psn).body == nil {
				*s.at(psn) = kept{e.takeBody([]byte{1}, s.of), 1}
				s.n++
			}
			if end := psn.Next(); end.Sub(s.high) > 0 {
				s.high = end
			}
		case rnd.IntN(20) == 0:
			e.dropKept(q)
		case rnd.IntN(20) == 0:
			e.belong(q, wire.GID{15: byte(1 + rnd.IntN(5))})
		default:
			e.giveWay(rnd.IntN(100))
		}
		places, all := map[*source]int{}, 0
		for _, q := range qps {
			if s := q.resp.kept; s != nil {
				require.Same(t, q.source, s.of)
				require.Same(t, q, s.of.stores[s.index])
				require.NotZero(t, s.n)
				places[s.of] += s.n + storePlaces
				all += s.n + storePlaces
			}
		}
		require.Equal(t, all, e.keptPlaces)
		require.Len(t, e.holders, len(places))
		for i, s := range e.holders {
			require.Equal(t, i, s.holder)
			require.Equal(t, places[s], s.places)
		}
	}
}

// TestStoresTakePlaces: what many queue pairs keep is bounded with the stores that they keep it in.
func TestStoresTakePlaces(t *testing.T) {
	e, stores := NewEngine(Config{}), 0
	for {
		q := &QP{source: &e.own}
		if !e.makeRoom(q, 1, false) {
			break
		}
		e.takeStore(q)
		e.takeBody([]byte{1}, q.source)
		stores++
	}
	require.Equal(t, maxKept/(1+storePlaces), stores)
}

// TestGivenUpComesAgain: whatever gives way while packets get lost, the requester hears of it, and
// everything arrives.
func TestGivenUpComesAgain(t *testing.T) {
	gaveUp := 0
	for seed := range uint64(50) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		a, b := newEnd(t, "10.0.0.1", 1, 1<<16), newEnd(t, "10.0.0.2", 2, 1<<16)
		a.selective, b.selective = true, true
		a.connect(t, b, wire.MTU256)
		b.connect(t, a, wire.MTU256)
		for i := range a.buf {
			a.buf[i] = byte(rnd.Uint32())
		}
		a.post(t, SendWR{Opcode: WRWrite, Flags: SendSignaled, SGL: []SGE{a.sge(0, 1<<16)}, RemoteAddr: b.reg.IOVA(), RKey: b.reg.RKey()})
		now := Time(0)
		var wc [1]WC
		for n := 0; a.cq.Poll(wc[:]) == 0; n++ {
			require.Less(t, n, 10_000, "seed %d: it never completes", seed)
			if !exchange(a, b, now, func() bool { return rnd.IntN(10) == 0 }) {
				now += 100_000
			}
			for b.q.resp.kept != nil && rnd.IntN(3) == 0 {
				b.e.dropNewest(b.q)
				gaveUp++
			}
		}
		require.Equal(t, WCSuccess, wc[0].Status, "seed %d", seed)
		require.Equal(t, a.buf, b.buf)
	}
	require.Greater(t, gaveUp, 50)
}

// exchange lets both ends send what they have and hear what is not lost; false: they had nothing.
func exchange(a, b *end, now Time, lost func() bool) (any bool) {
	for _, d := range [2][2]*end{{a, b}, {b, a}} {
		d[0].e.HandlePosted(now)
		d[0].e.HandleTimeout(now)
		any = d[0].e.PollTransmit(now, d[0].out) > 0 || any
		for _, f := range d[0].out.Frames() {
			if !lost() {
				d[1].e.HandleFrames(now, []wire.Frame{f})
			}
		}
		d[0].out.Reset()
		d[0].e.Publish()
		d[1].e.Publish()
	}
	return any
}

// TestGapCodes: what a NAK names is understood, and never more than is missing.
func TestGapCodes(t *testing.T) {
	for _, long := range []bool{false, true} {
		a := &QPAttr{SelectiveRepeat: true, LongWindow: long}
		for _, offset := range []int32{0, 1, a.span() - 1} {
			for length := int32(1); length < a.span(); length += 1 + length/64 {
				code, named := a.gapCode(offset, length)
				require.Positive(t, named)
				require.LessOrEqual(t, named, length)
				require.LessOrEqual(t, code, wire.PSN(wire.PSNMask))
				at, n := a.gapNamed(code)
				require.Equal(t, [2]int32{offset, named}, [2]int32{int32(at), int32(n)})
			}
		}
		_, n := a.gapNamed(0)
		require.Zero(t, n)
	}
}
