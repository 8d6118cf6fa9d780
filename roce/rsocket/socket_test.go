package rsocket

import (
	"io"
	"net"
	"net/netip"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/roce"
)

// sockets are two sockets on devices of their own, and the addresses of these.
func sockets(t *testing.T, wire string) (a, b *Socket, ofA, ofB netip.AddrPort) {
	nameA, nameB := wires[wire]()
	at := func(name string) (*Socket, netip.AddrPort) {
		dev := open(t, name)
		return &Socket{Options: Options{Devices: []*roce.Device{dev}}}, netip.AddrPortFrom(dev.GIDs()[0].Addr(), 0)
	}
	a, ofA = at(nameA)
	b, ofB = at(nameB)
	t.Cleanup(func() { require.NoError(t, a.Close()); require.NoError(t, b.Close()) })
	return
}

func port(a net.Addr) int { return a.(*Addr).Port }

// listens has a socket listen, and says where.
func listens(t *testing.T, s *Socket, at netip.AddrPort) (*Listener, netip.AddrPort) {
	require.NoError(t, s.Bind(at))
	l, err := s.Listen()
	require.NoError(t, err)
	require.Equal(t, port(s.LocalAddr()), port(l.Addr()))
	t.Cleanup(func() { l.Close() })
	return l, netip.AddrPortFrom(at.Addr(), uint16(port(l.Addr())))
}

// TestSocket: bound, configured, connected and accepted in steps of which none waits.
func TestSocket(t *testing.T) {
	overWires(t, func(t *testing.T, wire string) {
		a, b, ofA, ofB := sockets(t, wire)
		l, to := listens(t, b, ofB)
		require.NoError(t, a.Bind(ofA))
		local := port(a.LocalAddr())
		require.NotZero(t, local)
		a.SendBuffer = 5000 // after Bind, and counts
		require.NoError(t, a.Connect(to))
		<-a.Done()
		c, err := a.Conn()
		require.NoError(t, err)
		defer c.Close()
		require.Len(t, c.send, 5000)
		require.Equal(t, local, port(c.LocalAddr()))
		s, err := l.Accept()
		require.NoError(t, err)
		defer s.Close()
		require.Equal(t, local, port(s.RemoteAddr()))
		_, err = c.Write([]byte("words"))
		require.NoError(t, err)
		_, err = io.ReadFull(s, make([]byte, 5))
		require.NoError(t, err)
	})
}

// TestStages walks the table: which call is right when, and what others are told.
func TestStages(t *testing.T) {
	for at := range stages {
		for call := range requests {
			s := &Socket{stage: at}
			want := denied[at][call]
			if want == nil {
				continue // that it works is in the other tests
			}
			var err error
			switch call {
			case askBind:
				err = s.Bind(netip.AddrPort{})
			case askConnect:
				err = s.Connect(netip.AddrPort{})
			case askListen:
				_, err = s.Listen()
			case askConn:
				_, err = s.Conn()
			}
			require.ErrorIs(t, err, want, "stage %d, call %d", at, call)
			require.Equal(t, at, s.stage, "stage %d, call %d", at, call)
		}
	}
}

// TestSocketRefused: nobody listens there; who asks for the connection is told each time.
func TestSocketRefused(t *testing.T) {
	a, b, ofA, ofB := sockets(t, "pipe")
	listens(t, b, ofB) // elsewhere
	require.NoError(t, a.Bind(ofA))
	require.NoError(t, a.Connect(netip.AddrPortFrom(ofB.Addr(), 1)))
	<-a.Done()
	for range 2 {
		_, err := a.Conn()
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
	}
	require.ErrorIs(t, a.Connect(ofB), syscall.EISCONN)
	require.NoError(t, a.Close())
	_, err := a.Conn()
	require.ErrorIs(t, err, net.ErrClosed)
}

// TestSocketCloses: at any stage, and the device can be closed then, as the sockets' test does.
func TestSocketCloses(t *testing.T) {
	for name, steps := range map[string]func(a *Socket, ofA, to netip.AddrPort) error{
		"unbound":    func(*Socket, netip.AddrPort, netip.AddrPort) error { return nil },
		"bound":      func(a *Socket, ofA, to netip.AddrPort) error { return a.Bind(ofA) },
		"connecting": func(a *Socket, ofA, to netip.AddrPort) error { return a.Connect(to) },
		"connected": func(a *Socket, ofA, to netip.AddrPort) error {
			err := a.Connect(to)
			<-a.Done()
			return err
		},
		"nobody there": func(a *Socket, ofA, to netip.AddrPort) error {
			return a.Connect(netip.AddrPortFrom(netip.MustParseAddr("192.0.2.77"), 1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, b, ofA, ofB := sockets(t, "pipe")
			l, to := listens(t, b, ofB)
			require.NoError(t, steps(a, ofA, to))
			require.NoError(t, a.Close())
			require.NoError(t, a.Close())
			require.ErrorIs(t, a.Bind(ofA), net.ErrClosed)
			require.NoError(t, l.Close())
		})
	}
}

// TestSocketTaken: a port has one owner, unless all who share it say so and none listens.
func TestSocketTaken(t *testing.T) {
	a, b, ofA, _ := sockets(t, "pipe")
	require.NoError(t, a.Bind(ofA))
	taken := netip.AddrPortFrom(ofA.Addr(), uint16(port(a.LocalAddr())))
	b.Devices = a.Devices
	require.ErrorIs(t, b.Bind(taken), syscall.EADDRINUSE)
	require.NoError(t, a.Close())
	require.NoError(t, b.Bind(taken), "the socket can be bound again after a failure")
	shared := [2]*Socket{{Options: a.Options, ReuseAddr: true}, {Options: a.Options, ReuseAddr: true}}
	for _, s := range shared {
		require.NoError(t, s.Bind(netip.AddrPortFrom(ofA.Addr(), 7000)))
		defer s.Close()
	}
	_, err := shared[0].Listen()
	require.ErrorIs(t, err, syscall.EADDRINUSE)
	require.ErrorIs(t, new(Socket).Bind(netip.MustParseAddrPort("192.0.2.77:0")), syscall.EADDRNOTAVAIL)
}

// TestTryAccept: without a connection, with one, and of a listener that is closed.
func TestTryAccept(t *testing.T) {
	a, b, _, ofB := sockets(t, "pipe")
	l, to := listens(t, b, ofB)
	_, err := l.TryAccept()
	require.Equal(t, syscall.EAGAIN, err)
	require.NoError(t, a.Connect(to))
	<-a.Done()
	var s *Conn
	for s == nil { // the peer's last word may be on its way
		if s, err = l.TryAccept(); err != nil {
			require.Equal(t, syscall.EAGAIN, err)
		}
	}
	require.NoError(t, a.Close())
	s.Close()
	require.NoError(t, l.Close())
	_, err = l.TryAccept()
	require.ErrorIs(t, err, net.ErrClosed)
}

// TestSocketOpens: a device that the application finds when an address needs one.
func TestSocketOpens(t *testing.T) {
	a, b, ofA, ofB := sockets(t, "udp")
	devs := map[netip.Addr]*roce.Device{ofA.Addr(): a.Devices[0], ofB.Addr(): b.Devices[0]}
	for _, s := range []*Socket{a, b} {
		s.Devices = nil
		s.Open = func(addr netip.Addr) (*roce.Device, error) { return devs[addr], nil }
	}
	l, to := listens(t, b, ofB)
	require.NoError(t, a.Bind(ofA))
	require.NoError(t, a.Connect(to))
	<-a.Done()
	c, err := a.Conn()
	require.NoError(t, err)
	defer c.Close()
	require.Same(t, devs[ofA.Addr()], c.pd.Device())
	s, err := l.Accept()
	require.NoError(t, err)
	defer s.Close()
}
