package cm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/wire"
)

// TestInherit: the peer of a connection whose owner has ended is told by who has taken it over, as
// often as it takes; its answer, and what it still sends, meets somebody who knows the connection.
func TestInherit(t *testing.T) {
	m := New(Config{Rand: func() uint64 { return 7 }})
	e := Estate{Path: Path{Local: wire.GID{15: 1}, Remote: wire.GID{15: 2}}, LocalID: 0x1234, RemoteID: 0x5678, LocalQPN: 11,
		RemoteQPN: 12}
	require.NoError(t, m.Inherit(0, &e))
	require.NoError(t, m.Inherit(0, &e), "a second time it is there")
	var out Message
	asked := func(why string) {
		t.Helper()
		require.True(t, m.PollTransmit(&out), why)
		var dreq wire.CMDreq
		require.NoError(t, wire.GetCM(&out.MAD, &dreq))
		require.Equal(t, wire.CMDreq{LocalCommID: 0x1234, RemoteCommID: 0x5678, RemoteQPN: 12}, dreq)
		require.Equal(t, e.Path.Remote, out.Path.Remote)
		require.False(t, m.PollTransmit(&out))
	}
	asked("at once")
	now := m.PollTimeout()
	m.HandleTimeout(now)
	asked("again")

	back := Path{Local: e.Path.Local, Remote: e.Path.Remote}
	m.HandleMAD(now, back, mad(1, &wire.CMDreq{LocalCommID: 0x5678, RemoteCommID: 0x1234, RemoteQPN: 11})[:])
	require.True(t, m.PollTransmit(&out), "a peer that asks the same is answered")
	require.Equal(t, wire.CMAttrDREP, out.MAD.Attribute())
	m.HandleMAD(now, back, mad(2, &wire.CMDrep{LocalCommID: 0x5678, RemoteCommID: 0x1234})[:])
	inUse, remembered := m.Len()
	require.Equal(t, [2]int{0, 1}, [2]int{inUse, remembered})
	_, told := m.PollEvent()
	require.False(t, told, "nobody is there to be told")
	m.HandleTimeout(m.PollTimeout())
	_, remembered = m.Len()
	require.Zero(t, remembered)

	full := New(Config{Rand: func() uint64 { return 7 }, MaxConns: 1})
	require.NoError(t, full.Inherit(0, &e))
	e.LocalID++
	require.ErrorIs(t, full.Inherit(0, &e), ErrLimit)
	e.LocalID = 0
	require.NoError(t, full.Inherit(0, &e), "none")
}
