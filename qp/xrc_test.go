package qp

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/wire"
)

// xrcPair is two ends whose queue pairs are an XRC connection, from a to b.
func xrcPair(t *testing.T) (a, b *end) {
	a, b = newEnd(t, "192.0.2.1", 1, 64), newEnd(t, "192.0.2.2", 2, 64)
	var err error
	a.q, err = a.e.CreateQP(QPInit{Type: XRCSend, PD: a.pd, SendCQ: a.cq, Cap: Cap{MaxSendWR: 16, MaxInlineData: 64}})
	require.NoError(t, err)
	b.q, err = b.e.CreateQP(QPInit{Type: XRCRecv, PD: b.pd, XRCD: 1})
	require.NoError(t, err)
	const inUse = AttrState | AttrPKeyIndex | AttrPort | AttrAccessFlags
	const rtr = AttrState | AttrAV | AttrPathMTU | AttrDestQPN | AttrRQPSN
	require.NoError(t, a.e.ModifyQP(0, a.q, &QPAttr{State: StateInit, Port: 1}, inUse))
	require.NoError(t, b.e.ModifyQP(0, b.q, &QPAttr{State: StateInit, Port: 1, AccessFlags: mr.RemoteAny}, inUse))
	require.NoError(t, a.e.ModifyQP(0, a.q, &QPAttr{
		State:   StateRTR,
		PathMTU: wire.MTU256,
		DestQPN: b.q.QPN(),
		AV:      AHAttr{DGID: b.gid},
	}, rtr))
	require.NoError(t, b.e.ModifyQP(0, b.q, &QPAttr{
		State:           StateRTR,
		PathMTU:         wire.MTU256,
		DestQPN:         a.q.QPN(),
		AV:              AHAttr{DGID: a.gid},
		MaxDestRdAtomic: 4,
	},
		rtr|AttrMaxDestRdAtomic|AttrMinRNRTimer))
	require.NoError(t, a.e.ModifyQP(0, a.q, &QPAttr{State: StateRTS, Timeout: 14, RetryCnt: 7, RNRRetry: 7, MaxRdAtomic: 4},
		AttrState|AttrSQPSN|AttrTimeout|AttrRetryCnt|AttrRNRRetry|AttrMaxRdAtomic))
	return a, b
}

// xrcQueue is a shared receive queue of b that requests can name, with receives of no bytes, and a
// completion queue of its own.
func (d *end) xrcQueue(t *testing.T, number uint32, recvs, cqe int) *CQ {
	s, err := NewSRQ(SRQInit{Memory: d.mem, PD: d.pd, MaxWR: 16, MaxSGE: 1, XRCD: 1, Number: number})
	require.NoError(t, err)
	c, err := d.e.CreateCQ(cqe, nil)
	require.NoError(t, err)
	require.NoError(t, d.e.AddXRC(s, c))
	_, err = s.PostRecv(make([]RecvWR, recvs))
	require.NoError(t, err)
	return c
}

// TestOverrunOfOne: a queue pair of XRC fails when one of its completions is lost, although what
// came next completed in another queue, in the same turn. Otherwise the lost message would be
// acknowledged.
func TestOverrunOfOne(t *testing.T) {
	a, b := xrcPair(t)
	full, other := b.xrcQueue(t, 7, 2, 1), b.xrcQueue(t, 8, 1, 4)
	for _, number := range []uint32{7, 7, 8} {
		a.post(t, SendWR{Opcode: WRSend, Flags: SendSignaled | SendInline, RemoteSRQN: number})
	}
	pump(a, b)
	require.ErrorIs(t, full.Err(), ErrOverrun)
	require.NoError(t, other.Err())
	require.Equal(t, StateErr, b.q.State())
	require.Zero(t, a.cq.Len(), "the sender takes what was lost for received")
}

// TestXRCSharers: a shared receive queue of XRC knows the peers of all queue pairs of its domain,
// whichever came first, for as long as they are connected.
func TestXRCSharers(t *testing.T) {
	_, b := xrcPair(t)
	queue := func(number uint32) *SRQ {
		b.xrcQueue(t, number, 1, 1)
		return b.e.xrc[number].srq
	}
	first := queue(7)
	require.Len(t, first.sharers, 1)
	require.NoError(t, b.e.ModifyQP(0, b.q, &QPAttr{State: StateReset}, AttrState))
	second := queue(8)
	require.Empty(t, first.sharers)
	require.Empty(t, second.sharers)
	b.e.belong(b.q, wire.GID{1})
	require.Len(t, first.sharers, 1)
	require.Len(t, second.sharers, 1)
	b.e.RemoveXRC(first)
	require.Empty(t, first.sharers)
	require.NoError(t, b.e.DestroyQP(b.q))
	require.Empty(t, second.sharers)
}
