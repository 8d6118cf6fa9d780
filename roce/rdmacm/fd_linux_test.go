package rdmacm

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestFD: a channel's descriptor is readable while there are events.
func TestFD(t *testing.T) {
	na, nb := wires["pipe"]()
	a, b := newHost(t, na, nil), newHost(t, nb, nil)
	fd, err := a.ch.Events().FD()
	require.NoError(t, err)
	readable := func() bool {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		require.NoError(t, err)
		return n == 1
	}
	require.False(t, readable())
	id := a.id(PSTCP)
	require.NoError(t, id.ResolveAddr(a.at(0), b.at(1), 0))
	require.True(t, readable())
	a.next(EventAddrResolved)
	require.False(t, readable())
}
