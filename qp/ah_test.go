package qp

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/wire"
)

// TestAdoptedSource: a handle has one source address on all lanes, also if the row of the GID table
// that it names has become empty, or another's, between them.
func TestAdoptedSource(t *testing.T) {
	other := wire.GIDFrom(netip.MustParseAddr("192.0.2.9"))
	for name, gids := range map[string][]wire.GID{"empty": {{}}, "another's": {other}} {
		a, b := newEnd(t, "192.0.2.1", 1, 64), newEnd(t, "192.0.2.1", 2, 64)
		ah, err := a.e.CreateAH(a.pd, AHAttr{DGID: other})
		require.NoError(t, err)
		b.e.SetGIDs(gids)
		require.NoError(t, b.e.AdoptAH(ah), name)
		require.Equal(t, a.gid, b.e.ah(ah.row).path.Src, name)
	}
}

// TestHandleGone: a datagram whose address handle was destroyed before it could be sent fails. It
// does not go to where a later handle leads, however many there have been.
func TestHandleGone(t *testing.T) {
	d := newEnd(t, "192.0.2.1", 1, 64)
	ud, err := d.e.CreateQP(QPInit{Type: UD, PD: d.pd, SendCQ: d.cq, RecvCQ: d.cq, Cap: Cap{MaxSendWR: 1}})
	require.NoError(t, err)
	require.NoError(t, d.e.ModifyQP(0, ud, &QPAttr{State: StateInit, Port: 1}, AttrState|AttrPKeyIndex|AttrPort|AttrQKey))
	require.NoError(t, d.e.ModifyQP(0, ud, &QPAttr{State: StateRTR}, AttrState))
	require.NoError(t, d.e.ModifyQP(0, ud, &QPAttr{State: StateRTS}, AttrState|AttrSQPSN))
	ah, err := d.e.CreateAH(d.pd, AHAttr{DGID: wire.GIDFrom(netip.MustParseAddr("192.0.2.2"))})
	require.NoError(t, err)
	n, err := ud.PostSend([]SendWR{{Opcode: WRSend, AH: ah, RemoteQPN: 77}})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.NoError(t, d.e.DestroyAH(ah))
	for range 5000 {
		other, err := d.e.CreateAH(d.pd, AHAttr{DGID: wire.GIDFrom(netip.MustParseAddr("192.0.2.9"))})
		require.NoError(t, err)
		require.Nil(t, d.e.ah(ah.row), "the row of the handle that is gone finds another")
		require.NoError(t, d.e.DestroyAH(other))
	}
	d.e.Posted(ud)
	require.Zero(t, d.e.PollTransmit(0, d.out))
	d.e.Publish()
	require.Equal(t, WCLocQPOpErr, d.poll(t).Status)
}

// TestGroupLimits: there are as many groups, and as many queue pairs of a group, as the limits say,
// and those that are attached already may be attached again.
func TestGroupLimits(t *testing.T) {
	d := newEnd(t, "192.0.2.1", 1, 64)
	pair := func() *QP {
		q, err := d.e.CreateQP(QPInit{Type: UD, PD: d.pd, SendCQ: d.cq, RecvCQ: d.cq})
		require.NoError(t, err)
		return q
	}
	group := func(i int) wire.GID {
		return wire.GIDFrom(netip.AddrFrom4([4]byte{239, 1, byte(i >> 8), byte(i)}))
	}
	first := pair()
	for i := range MaxMcastGrp {
		require.NoError(t, d.e.AttachMulticast(first, group(i)))
	}
	require.ErrorIs(t, d.e.AttachMulticast(first, group(MaxMcastGrp)), ErrLimit)
	for range MaxMcastQPAttach - 1 {
		require.NoError(t, d.e.AttachMulticast(pair(), group(0)))
	}
	require.ErrorIs(t, d.e.AttachMulticast(pair(), group(0)), ErrLimit)
	require.NoError(t, d.e.AttachMulticast(first, group(0)))
	require.NoError(t, d.e.DetachMulticast(first, group(1)))
	require.NoError(t, d.e.AttachMulticast(first, group(MaxMcastGrp)))
}
