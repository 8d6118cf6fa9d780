package rdmacm

import (
	"errors"
	"net"
	"net/netip"
	"runtime"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/internal/netns"
	"github.com/goroce/goroce/roce"
)

// TestWire: devices that are interfaces, between two hosts, of ports that know their neighbours and
// of ports that must find them out; IPv4, IPv6 and link-local addresses; and a neighbour that does
// not answer.
func TestWire(t *testing.T) {
	for _, kind := range []string{"udp", "packet"} {
		t.Run(kind, func(t *testing.T) {
			w := netns.NewWire(t, 1500)
			w.Left.IP(t, "-6 addr add fe80::77/64 dev wire nodad")
			w.Right.IP(t, "-6 addr add fe80::78/64 dev wire nodad")
			a, b := newHostIn(t, w.Left, kind+":wire"), newHostIn(t, w.Right, kind+":wire")
			l := b.id(PSTCP)
			require.NoError(t, l.BindAddr(netip.AddrPortFrom(netip.IPv6Unspecified(), 7471)))
			require.NoError(t, l.Listen(0))
			for _, dst := range []string{"10.77.0.2", "10.77.0.3", "fd78::2", "fe80::78%wire"} {
				id := a.id(PSTCP)
				var err error
				to := netip.AddrPortFrom(netip.MustParseAddr(dst), 7471)
				w.Left.Do(func() { err = id.ResolveAddr(netip.AddrPort{}, to, 0) })
				require.NoError(t, err)
				a.next(EventAddrResolved)
				require.NoError(t, id.ResolveRoute(0))
				a.next(EventRouteResolved)
				_, mtu, err := id.AddressVector()
				require.NoError(t, err)
				require.Equal(t, roce.MTU1024, mtu)
				qa := a.pair(id)
				require.NoError(t, id.Connect(nil))
				passive := b.next(EventConnectRequest).ID
				require.Equal(t, dst, passive.LocalAddr().Addr().String())
				require.Equal(t, id.LocalAddr(), passive.PeerAddr())
				qb := b.pair(passive)
				require.NoError(t, passive.Accept(nil))
				a.next(EventEstablished)
				b.next(EventEstablished)
				message(t, a, b, qa, qb, "over "+kind)
				require.NoError(t, passive.Close())
				a.next(EventDisconnected)
				require.NoError(t, id.Close())
			}
			if kind == "packet" {
				id := a.id(PSTCP)
				var err error
				nobody := netip.MustParseAddrPort("10.77.0.99:7471")
				w.Left.Do(func() { err = id.ResolveAddr(netip.AddrPort{}, nobody, 1) })
				require.NoError(t, err)
				require.Error(t, a.next(EventAddrError).Err)
			}
		})
	}
}

// newHostIn is newHost in a namespace.
func newHostIn(t *testing.T, ns *netns.Namespace, name string) *host {
	t.Helper()
	var dev *roce.Device
	var err error
	ns.Do(func() { dev, err = roce.Open(name, nil) })
	require.NoError(t, err)
	return hostOn(t, dev)
}

// TestGone: IDs hear that their address is gone, once, and that the device is; what was made on it
// can be closed.
func TestGone(t *testing.T) {
	for _, kind := range []string{"udp", "packet"} {
		t.Run(kind, func(t *testing.T) {
			w := netns.NewWire(t, 1500)
			a, b := newHostIn(t, w.Left, kind+":wire"), newHostIn(t, w.Right, kind+":wire")
			l := b.id(PSTCP)
			require.NoError(t, l.BindAddr(netip.MustParseAddrPort("10.77.0.2:7471")))
			require.NoError(t, l.Listen(0))
			other := b.id(PSTCP)
			require.NoError(t, other.BindAddr(netip.MustParseAddrPort("[fd78::2]:7471")))
			id := a.id(PSTCP)
			w.Left.Do(func() { require.NoError(t, id.ResolveAddr(netip.AddrPort{}, l.LocalAddr(), 0)) })
			a.next(EventAddrResolved)
			require.NoError(t, id.ResolveRoute(0))
			a.next(EventRouteResolved)
			a.pair(id)
			require.NoError(t, id.Connect(nil))
			passive := b.next(EventConnectRequest).ID
			q := b.pair(passive)
			require.NoError(t, passive.Accept(nil))
			a.next(EventEstablished)
			b.next(EventEstablished)

			w.Right.IP(t, "addr del 10.77.0.2/24 dev wire")
			told := map[*ID]bool{}
			for range 2 {
				e := b.next(EventAddrChange)
				require.ErrorIs(t, e.Err, ErrUnreachable)
				require.ErrorContains(t, e.Err, "10.77.0.2")
				told[e.ID] = true
			}
			require.Equal(t, map[*ID]bool{l: true, passive: true}, told)
			require.Equal(t, roce.StateRTS, q.State())

			cfg := &ListenConfig{ConnConfig: ConnConfig{Config: Config{Devices: []*roce.Device{b.dev}}}}
			listener, err := Listen(bg, "[fd78::2]:7472", cfg)
			require.NoError(t, err)
			w.Right.IP(t, "link del wire")
			gone := map[*ID]bool{}
			for len(gone) < 3 {
				e, err := b.ch.Get(bg)
				require.NoError(t, err)
				if e.Type == EventDeviceRemoval {
					gone[e.ID] = true
					continue
				}
				require.Equal(t, EventAddrChange, e.Type) // the address goes first
			}
			require.Equal(t, map[*ID]bool{l: true, other: true, passive: true}, gone)
			_, err = listener.Accept(bg)
			require.ErrorIs(t, err, ErrUnreachable)
			require.ErrorContains(t, err, "is gone")
			require.NoError(t, listener.Close())
			require.Equal(t, roce.StateErr, q.State())
			require.ErrorIs(t, passive.Disconnect(), ErrState)
			require.NoError(t, passive.Close())
		})
	}
}

// TestGoneOneByOne: a listener on several devices goes on with those that are left, and a device
// that is gone can be closed. When all are gone Accept says so.
func TestGoneOneByOne(t *testing.T) {
	w := netns.NewWire(t, 1500)
	w.Right.IP(t, "link add second type veth peer name unused", "addr add 10.79.0.1/24 dev second", "link set second up",
		"link set unused up")
	a := newHostIn(t, w.Left, "udp:10.77.0.1")
	var first, second *roce.Device
	var err, err2 error
	w.Right.Do(func() {
		first, err = roce.Open("udp:10.77.0.2", nil)
		second, err2 = roce.Open("udp:second", nil)
	})
	require.NoError(t, errors.Join(err, err2))
	l, err := Listen(bg, ":7473", &ListenConfig{ConnConfig: ConnConfig{Config: Config{Devices: []*roce.Device{first, second}}}})
	require.NoError(t, err)
	require.ErrorIs(t, second.Close(), ErrBusy)
	w.Right.IP(t, "link del second")
	for errors.Is(second.Close(), ErrBusy) { // until the listener has heard
		runtime.Gosched()
	}
	dialed := make(chan *Conn)
	go func() {
		w.Left.Do(func() {
			c, err := Dial(bg, "10.77.0.2:7473", &ConnConfig{Config: Config{Devices: []*roce.Device{a.dev}}})
			if err != nil {
				t.Error(err)
				l.Close() // nobody will come
			}
			dialed <- c
		})
	}()
	c, err := l.Accept(bg)
	require.NoError(t, err)
	require.NoError(t, (<-dialed).Close(bg))
	require.NoError(t, c.Close(bg))
	w.Right.IP(t, "link del wire")
	_, err = l.Accept(bg)
	require.ErrorIs(t, err, ErrUnreachable)
	require.ErrorContains(t, err, "device udp:10.77.0.2 is gone")
	require.NoError(t, l.Close())
	require.NoError(t, first.Close())
}

// TestOpenOfZone: a link-local address is one interface's, whoever else has the same.
func TestOpenOfZone(t *testing.T) {
	netns.Need(t)
	w := netns.NewWire(t, 1500)
	w.Left.IP(t, "-6 addr add fe80::77/64 dev wire nodad")
	var d *roce.Device
	w.Left.Do(func() {
		var err error
		d, err = roce.Open("udp:fe80::77%wire", nil)
		require.NoError(t, err)
		ch, err := NewEventChannel(&Config{Open: func(netip.Addr) (*roce.Device, error) { return d, nil }})
		require.NoError(t, err)
		for zone, want := range map[string]error{"wire": nil, "lo": ErrInvalid} {
			id, err := ch.CreateID(PSTCP)
			require.NoError(t, err)
			err = id.BindAddr(netip.MustParseAddrPort("[fe80::77%" + zone + "]:7"))
			require.ErrorIs(t, err, want)
			require.NoError(t, id.Close())
		}
		require.NoError(t, ch.Close())
	})
	require.NoError(t, d.Close())
}

// TestZoneByNumber: an interface is the same by its number, for local addresses and for peers, and
// for devices that are opened for them.
func TestZoneByNumber(t *testing.T) {
	netns.Need(t)
	w := netns.NewWire(t, 1500)
	w.Left.IP(t, "-6 addr add fe80::77/64 dev wire nodad")
	w.Left.Do(func() {
		wire, err := net.InterfaceByName("wire")
		require.NoError(t, err)
		ch, err := NewEventChannel(nil)
		require.NoError(t, err)
		for _, zone := range []string{strconv.Itoa(wire.Index), "wire"} {
			id, err := ch.CreateID(PSTCP)
			require.NoError(t, err)
			require.NoError(t, id.BindAddr(netip.MustParseAddrPort("[fe80::77%"+zone+"]:0")))
			require.Equal(t, "wire", id.LocalAddr().Addr().Zone())
			require.NoError(t, id.ResolveAddr(netip.AddrPort{}, netip.MustParseAddrPort("[fe80::78%"+zone+"]:7"), 0))
			e, err := ch.Get(bg)
			require.NoError(t, err)
			require.Equal(t, EventAddrResolved, e.Type, "%v", e)
			require.Equal(t, "wire", id.PeerAddr().Addr().Zone())
			defer id.Close()
		}
	})
}
