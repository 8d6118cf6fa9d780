package qp

// Two engines back to back: the shortest path from PostSend to a completion at each end. The rules
// have their tests in qptest.

import (
	"bytes"
	"math/rand/v2"
	"net/netip"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/wire"
)

// end is one side of a pair.
type end struct {
	e   *Engine
	mem *mr.Table
	pd  mr.PD
	q   *QP
	cq  *CQ
	gid wire.GID
	out *wire.Batch
	buf []byte
	reg *mr.Region

	selective bool
}

func newEnd(t testing.TB, addr string, seed uint64, size int) *end {
	rnd := rand.New(rand.NewPCG(seed, 1))
	d := &end{
		mem: mr.NewTable(rnd.Uint64),
		gid: wire.GIDFrom(netip.MustParseAddr(addr)),
		out: wire.NewBatch(64, 64*4224),
		buf: make([]byte, size),
	}
	d.e = NewEngine(Config{Memory: d.mem, Rand: rnd.Uint64, GIDs: []wire.GID{d.gid}})
	var err error
	d.pd, err = d.mem.AllocPD()
	require.NoError(t, err)
	d.cq, err = d.e.CreateCQ(1024, nil)
	require.NoError(t, err)
	d.q, err = d.e.CreateQP(QPInit{
		Type:   RC,
		PD:     d.pd,
		SendCQ: d.cq,
		RecvCQ: d.cq,
		Cap:    Cap{MaxSendWR: 256, MaxRecvWR: 256, MaxSendSGE: 4, MaxRecvSGE: 4, MaxInlineData: 64},
	})
	require.NoError(t, err)
	d.reg, err = d.mem.Register(d.pd, d.buf, mr.AddrOf(d.buf), mr.LocalWrite|mr.RemoteRead|mr.RemoteWrite|mr.RemoteAtomic)
	require.NoError(t, err)
	return d
}

func (d *end) connect(t testing.TB, peer *end, mtu wire.MTU) {
	access := mr.RemoteRead | mr.RemoteWrite | mr.RemoteAtomic
	require.NoError(t, d.e.ModifyQP(0, d.q, &QPAttr{State: StateInit, Port: 1, AccessFlags: access},
		AttrState|AttrPKeyIndex|AttrPort|AttrAccessFlags))
	require.NoError(t, d.e.ModifyQP(0, d.q, &QPAttr{State: StateRTR, PathMTU: mtu, DestQPN: peer.q.QPN(), RQPSN: wire.PSNMask,
		MaxDestRdAtomic: 4, MinRNRTimer: 12, AV: AHAttr{DGID: peer.gid}, SelectiveRepeat: d.selective},
		AttrState|AttrAV|AttrPathMTU|AttrDestQPN|AttrRQPSN|AttrMaxDestRdAtomic|AttrMinRNRTimer|AttrSelectiveRepeat))
	require.NoError(t, d.e.ModifyQP(0, d.q, &QPAttr{
		State:       StateRTS,
		SQPSN:       wire.PSNMask,
		Timeout:     14,
		RetryCnt:    7,
		RNRRetry:    7,
		MaxRdAtomic: 4,
	},
		AttrState|AttrSQPSN|AttrTimeout|AttrRetryCnt|AttrRNRRetry|AttrMaxRdAtomic))
}

// pump carries packets both ways until nobody has any.
func pump(a, b *end) {
	for n := 1; n > 0; {
		n = 0
		for _, d := range [2][2]*end{{a, b}, {b, a}} {
			d[0].e.HandlePosted(0)
			n += d[0].e.PollTransmit(0, d[0].out)
			d[1].e.HandleFrames(0, d[0].out.Frames())
			d[0].out.Reset()
			d[0].e.Publish()
			d[1].e.Publish()
		}
	}
}

func pair(t testing.TB, size int, mtu wire.MTU) (a, b *end) {
	a, b = newEnd(t, "192.0.2.1", 1, size), newEnd(t, "192.0.2.2", 2, size)
	a.connect(t, b, mtu)
	b.connect(t, a, mtu)
	return a, b
}

func (d *end) post(t testing.TB, wr SendWR) {
	n, err := d.q.PostSend([]SendWR{wr})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	d.e.Ring(d.q)
}

func (d *end) sge(off, n int) SGE {
	return SGE{Addr: mr.AddrOf(d.buf) + uint64(off), Length: uint32(n), LKey: d.reg.LKey()}
}

func (d *end) poll(t testing.TB) WC {
	var wc [1]WC
	require.Equal(t, 1, d.cq.Poll(wc[:]))
	return wc[0]
}

func TestEveryOperation(t *testing.T) {
	const size = 100_001
	for mtu := wire.MTU(1); mtu <= 5; mtu++ {
		a, b := pair(t, 2*size, mtu)
		for i := range a.buf {
			a.buf[i] = byte(i * 7)
		}
		remote := mr.AddrOf(b.buf)
		n, err := b.q.PostRecv([]RecvWR{{WRID: 1, SGL: []SGE{b.sge(0, 10), b.sge(10, size-10)}}, {WRID: 2}})
		require.NoError(t, err)
		require.Equal(t, 2, n)

		a.post(t, SendWR{WRID: 10, Opcode: WRSend, Flags: SendSignaled, SGL: []SGE{a.sge(0, 5), a.sge(5, size-5)}})
		pump(a, b)
		require.Equal(t, WC{WRID: 10, Opcode: WCSend, ByteLen: size, QPN: a.q.QPN()}, a.poll(t))
		require.Equal(t, WC{WRID: 1, Opcode: WCRecv, ByteLen: size, QPN: b.q.QPN()}, b.poll(t))
		require.True(t, bytes.Equal(a.buf[:size], b.buf[:size]))

		a.post(t, SendWR{
			WRID:       11,
			Opcode:     WRWriteWithImm,
			Imm:        77,
			Flags:      SendSignaled,
			SGL:        []SGE{a.sge(0, size)},
			RemoteAddr: remote + size,
			RKey:       b.reg.RKey(),
		})
		pump(a, b)
		require.Equal(t, WCSuccess, a.poll(t).Status)
		require.Equal(t, WC{WRID: 2, Opcode: WCRecvRDMAWithImm, ByteLen: size, Imm: 77, Flags: WCWithImm, QPN: b.q.QPN()}, b.poll(t))
		require.True(t, bytes.Equal(a.buf[:size], b.buf[size:]))

		clear(a.buf)
		a.post(t, SendWR{WRID: 12, Opcode: WRRead, Flags: SendSignaled, SGL: []SGE{a.sge(1, size)}, RemoteAddr: remote, RKey: b.reg.RKey()})
		a.post(t, SendWR{
			WRID:       13,
			Opcode:     WRAtomicFetchAndAdd,
			Flags:      SendSignaled,
			CompareAdd: 5,
			SGL:        []SGE{a.sge(size+7, 8)},
			RemoteAddr: remote + 8,
			RKey:       b.reg.RKey(),
		})
		pump(a, b)
		require.Equal(t, WCSuccess, a.poll(t).Status)
		require.Equal(t, WC{WRID: 13, Opcode: WCFetchAdd, ByteLen: 8, QPN: a.q.QPN()}, a.poll(t))
		require.True(t, bytes.Equal(a.buf[17:1+size], b.buf[16:size]))
	}
}

func TestHotPathAllocatesNothing(t *testing.T) {
	a, b := pair(t, 1<<16, 5)
	wr := []SendWR{{Opcode: WRWrite, Flags: SendSignaled, SGL: []SGE{a.sge(0, 1<<16)}, RemoteAddr: mr.AddrOf(b.buf), RKey: b.reg.RKey()}}
	var wc [4]WC
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		if _, err := a.q.PostSend(wr); err != nil {
			panic(err)
		}
		a.e.Ring(a.q)
		pump(a, b)
		if a.cq.Poll(wc[:]) != 1 {
			panic("no completion")
		}
	}))
}

func BenchmarkWrite(b *testing.B) {
	for _, size := range []int{64, 4096, 65536} {
		b.Run(wire.MTU(5).String()+"/"+strconv.Itoa(size), func(b *testing.B) {
			x, y := pair(b, 1<<16, 5)
			wr := []SendWR{{Opcode: WRWrite, Flags: SendSignaled, SGL: []SGE{x.sge(0, size)}, RemoteAddr: mr.AddrOf(y.buf),
				RKey: y.reg.RKey()}}
			var wc [4]WC
			b.SetBytes(int64(size))
			for b.Loop() {
				x.q.PostSend(wr)
				x.e.Ring(x.q)
				pump(x, y)
				if x.cq.Poll(wc[:]) != 1 {
					b.Fatal("no completion")
				}
			}
		})
	}
}

// TestQPNDeck: every number of a space is dealt once before one comes again, in an order that the
// keys decide.
func TestQPNDeck(t *testing.T) {
	rnd := rand.New(rand.NewPCG(9, 9))
	for _, space := range []wire.QPNSpace{{Mask: 0xff0000, Value: 0x120000}, {Mask: 0xfff801, Value: 1}, {Mask: 0xfffffe}} {
		a, b := newQPNDeck(space, nil, rnd.Uint64), newQPNDeck(space, new(Deck), rnd.Uint64)
		seen, same := map[uint32]bool{}, 0
		for range 1 << space.Bits() {
			n := a.deal()
			if seen[n] || !space.Owns(n) {
				t.Fatalf("%+v: 0x%06x, dealt before: %v", space, n, seen[n])
			}
			seen[n] = true
			if b.deal() == n {
				same++
			}
		}
		if space.Bits() > 8 && same > 20 {
			t.Errorf("%+v: two decks are alike in %d numbers", space, same)
		}
		if !seen[a.deal()] {
			t.Errorf("%+v: it does not begin again", space)
		}
	}
}

// TestQPNDeckGoesOn: who goes on with a deck deals what was not dealt.
func TestQPNDeckGoesOn(t *testing.T) {
	rnd := rand.New(rand.NewPCG(10, 9))
	space := wire.QPNSpace{Mask: 0xfff801, Value: 1}
	var dealt Deck
	seen := map[uint32]bool{}
	for len(seen) < 1<<space.Bits() {
		d := newQPNDeck(space, &dealt, rnd.Uint64)
		for range min(100, 1<<space.Bits()-len(seen)) {
			n := d.deal()
			if seen[n] || !space.Owns(n) {
				t.Fatalf("0x%06x, dealt before: %v", n, seen[n])
			}
			seen[n] = true
		}
	}
}

// TestQPNsTaken: a space that has no number left is an error, and one that is given back is dealt
// again.
func TestQPNsTaken(t *testing.T) {
	rnd := rand.New(rand.NewPCG(9, 9))
	mem := mr.NewTable(rnd.Uint64)
	e := NewEngine(Config{Memory: mem, Rand: rnd.Uint64, QPNs: wire.QPNSpace{Mask: 0xfffffe, Value: 0x100}})
	pd, err := mem.AllocPD()
	require.NoError(t, err)
	cq, err := e.CreateCQ(1, nil)
	require.NoError(t, err)
	create := func() (*QP, error) { return e.CreateQP(QPInit{Type: UD, PD: pd, SendCQ: cq, RecvCQ: cq}) }
	a, err := create()
	require.NoError(t, err)
	b, err := create()
	require.NoError(t, err)
	require.Equal(t, uint32(0x100+0x101), a.QPN()+b.QPN())
	_, err = create()
	require.ErrorIs(t, err, ErrLimit)
	require.NoError(t, e.DestroyQP(a))
	again, err := create()
	require.NoError(t, err)
	require.Equal(t, a.QPN(), again.QPN())
}
