package sniff

import (
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/internal/netns"
	"github.com/goroce/goroce/trace"
	"github.com/goroce/goroce/wire"
)

// open begins to capture on the lo of a namespace, which nobody else uses: of that of the machine,
// with all the tests beside this one, something may be lost.
func open(t *testing.T, ns *netns.Namespace) (s *Sniffer) {
	var err error
	ns.Do(func() { s, err = Open("lo", nil) })
	require.NoError(t, err)
	return s
}

// sender is a socket in a namespace.
func sender(t *testing.T, ns *netns.Namespace) (conn net.PacketConn) {
	var err error
	ns.Do(func() { conn, err = net.ListenPacket("udp4", "127.91.3.1:0") })
	require.NoError(t, err)
	return conn
}

// TestLoopback: a packet to port 4791 is seen once, with a right ICRC; a packet to another port is
// not seen. Nobody need listen.
func TestLoopback(t *testing.T) {
	ns := netns.New(t)
	s := open(t, ns)
	defer s.Close()
	from := sender(t, ns)
	defer from.Close()
	for i, port := range []int{4790, wire.UDPPort, wire.UDPPort} {
		_, err := from.WriteTo(body(t, wire.PSN(i)), &net.UDPAddr{IP: net.IPv4(127, 91, 3, 2), Port: port})
		require.NoError(t, err)
	}
	var p trace.Packet
	for psn := wire.PSN(1); psn <= 2; {
		require.NoError(t, s.Next(&p.Record))
		p.Decode()
		require.Equal(t, trace.RoCEv2, p.Kind)
		require.True(t, p.Parsed, p.Problem)
		require.Equal(t, psn, p.Wire.BTH.PSN())
		require.Greater(t, p.Time, int64(1_700_000_000_000_000_000))
		psn++
	}
	lost, err := s.Lost()
	require.NoError(t, err)
	require.Zero(t, lost)
}

// body is a datagram.
func body(t *testing.T, psn wire.PSN) []byte {
	f := wire.Frame{Body: make([]byte, wire.BodyLen(wire.UCSendOnly, 5))}
	var p wire.Packet
	require.True(t, p.Lay(&f, wire.UCSendOnly, 5))
	p.BTH.Put(wire.UCSendOnly, 0, 3, wire.DefaultPKey, 0x4711, psn)
	return f.Body
}

// TestCloseEndsNext: who waits is told.
func TestCloseEndsNext(t *testing.T) {
	ns := netns.New(t)
	s := open(t, ns)
	ended := make(chan error)
	go func() {
		var rec trace.Record
		for {
			if err := s.Next(&rec); err != nil {
				ended <- err
				return
			}
		}
	}()
	require.NoError(t, s.Close())
	require.ErrorIs(t, <-ended, os.ErrClosed)
}

// until reads the packets of an address, whose PSNs count from 0, up to a number of them or to the
// end, and returns how many there were.
func until(s *Sniffer, from string, n wire.PSN) (psn wire.PSN) {
	var p trace.Packet
	for psn < n && s.Next(&p.Record) == nil {
		if p.Decode(); p.Kind == trace.RoCEv2 && p.Frame.Src().Addr().Unmap().String() == from && p.Wire.BTH.PSN() == psn {
			psn++
		}
	}
	return psn
}

// TestEnd: what has arrived is still read, and what comes later is not.
func TestEnd(t *testing.T) {
	ns := netns.New(t)
	other := open(t, ns) // gets each packet after s
	defer other.Close()
	s := open(t, ns)
	defer s.Close()
	idle := 0
	s.Idle = func() { idle++ }
	from := sender(t, ns)
	defer from.Close()
	to := &net.UDPAddr{IP: net.IPv4(127, 91, 3, 2), Port: wire.UDPPort}
	for i := range 3 {
		_, err := from.WriteTo(body(t, wire.PSN(i)), to)
		require.NoError(t, err)
	}
	require.Equal(t, wire.PSN(3), until(other, "127.91.3.1", 3))
	require.NoError(t, s.End())
	_, err := from.WriteTo(body(t, 99), to)
	require.NoError(t, err)
	require.Equal(t, wire.PSN(3), until(s, "127.91.3.1", 99))
	require.LessOrEqual(t, idle, 1)
}

func TestNoInterface(t *testing.T) {
	_, err := Open("no such interface", nil)
	require.ErrorContains(t, err, "no such interface")
	_, err = Open("lo", &Options{Snap: -1})
	require.ErrorContains(t, err, "Snap -1")
}

// TestSaneTime: times by either clock, and by none.
func TestSaneTime(t *testing.T) {
	now := clocks{day: 1_700_000_000_000_000_000, mono: 5_000_000_000_000}
	require.Equal(t, now.day-5e6, now.sane(now.day-5e6))
	require.Equal(t, now.day-5e6, now.sane(now.mono-5e6))
	require.Equal(t, now.day, now.sane(1<<62))
	var c clocks
	c.read()
	require.InDelta(t, time.Now().UnixNano(), c.day, 60e9)
	require.Positive(t, c.mono)
}
