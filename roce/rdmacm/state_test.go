package rdmacm

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMoves walks every row of the table: each is there once, every state can be reached and has a
// name, what connects ends, and a call that a state does not have says which it needs.
func TestMoves(t *testing.T) {
	seen := make(map[[2]uint8]bool)
	reached := map[state]bool{idle: true, requested: true, closed: true}
	used := make(map[input]bool)
	for _, m := range moves {
		key := [2]uint8{uint8(m.from), uint8(m.on)}
		require.False(t, seen[key], "%v twice in %v", m.on, m.from)
		seen[key] = true
		reached[m.to], used[m.on] = true, true
		got, ok := m.from.next(m.on)
		require.True(t, ok)
		require.Equal(t, m, got)
		// What happens by itself is told, but for the ends of one's own calls.
		if m.on > callClose && m.event == none {
			require.Contains(t, []input{replied, failed, repSent, served}, m.on)
		}
	}
	for s := range states {
		require.True(t, reached[s], "%v", s)
		require.NotEmpty(t, stateNames[s])
		m, ok := s.next(callClose)
		require.Equal(t, s != closed, ok)
		require.Equal(t, closed, m.to)
		m, ok = s.next(removed)
		require.Equal(t, s != closed, ok)
		require.Equal(t, [2]any{over, EventDeviceRemoval}, [2]any{m.to, m.event})
	}
	for i := range inputs {
		require.NotEmpty(t, inputNames[i])
		require.True(t, used[i] || i == callClose || i == removed, "%v", i)
	}
	// Whatever a connection waits for, the peer can disappear.
	for _, s := range []state{connecting, responded, requested, accepting, accepted, disconnecting} {
		for _, on := range []input{rejected, unreachable} {
			m, ok := s.next(on)
			require.True(t, ok && m.to == over && m.event != none, "%v in %v", on, s)
		}
	}
	for i := callBind; i < callClose; i++ {
		id := &ID{state: closed}
		require.ErrorIs(t, id.step(i), ErrClosed)
		id.state = disconnecting
		err := id.step(i)
		require.ErrorIs(t, err, ErrState)
		require.True(t, strings.Contains(err.Error(), "DISCONNECTING, it must be "), err)
	}
}

// TestNumbers holds the numbers of rdma_cma.h (section 9.11), as other programs have them compiled
// in.
func TestNumbers(t *testing.T) {
	for i, name := range []string{"ADDR_RESOLVED", "ADDR_ERROR", "ROUTE_RESOLVED", "ROUTE_ERROR", "CONNECT_REQUEST", "CONNECT_RESPONSE",
		"CONNECT_ERROR", "UNREACHABLE", "REJECTED", "ESTABLISHED", "DISCONNECTED", "DEVICE_REMOVAL", "MULTICAST_JOIN",
		"MULTICAST_ERROR", "ADDR_CHANGE", "TIMEWAIT_EXIT"} {
		require.Equal(t, "RDMA_CM_EVENT_"+name, EventType(i).String())
	}
	require.Equal(t, "EventType(16)", EventType(16).String())
	require.Equal(t, EventType(15), EventTimewaitExit)
	require.Equal(t, EventType(9), EventEstablished)
	require.Equal(t, [4]PortSpace{0x106, 0x111, 0x13f, 2}, [4]PortSpace{PSTCP, PSUDP, PSIB, PSIPoIB})
	require.Equal(t, "RDMA_PS_TCP PortSpace(0x0001)", PSTCP.String()+" "+PortSpace(1).String())
}
