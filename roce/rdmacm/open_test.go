package rdmacm

// Devices that the application finds when an address needs one (Config.Open), and what it knows an
// ID by from the beginning (Config.Born).

import (
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/roce"
)

func TestConfigOpen(t *testing.T) {
	na, nb := wires["udp"]()
	a, b := newHost(t, na, nil), newHost(t, nb, nil)
	broken := errors.New("nobody has it")
	cfg := Config{Open: func(addr netip.Addr) (*roce.Device, error) {
		switch addr {
		case a.addr:
			return a.dev, nil
		case b.addr:
			return b.dev, nil
		case netip.MustParseAddr("127.0.0.1"):
			return b.dev, nil
		case netip.MustParseAddr("127.0.0.2"):
			return nil, nil
		}
		return nil, broken
	}}
	l, err := Listen(bg, b.at(0).String(), &ListenConfig{ConnConfig: ConnConfig{Config: cfg, Cap: small}})
	require.NoError(t, err)
	c, err := Dial(bg, l.Addr().String(), &ConnConfig{Config: cfg, Cap: small, Local: a.addr})
	require.NoError(t, err)
	s, err := l.Accept(bg)
	require.NoError(t, err)
	require.Same(t, a.dev, c.Device())
	require.Same(t, b.dev, s.Device())
	require.ErrorIs(t, a.dev.Close(), roce.ErrBusy)
	require.NoError(t, c.Close(bg))
	require.NoError(t, s.Close(bg))
	require.NoError(t, l.Close())
	for addr, want := range map[string]error{"127.0.0.1": ErrInvalid, "127.0.0.2": ErrInvalid, "127.0.0.3": broken} {
		_, err := Dial(bg, l.Addr().String(), &ConnConfig{Config: cfg, Local: netip.MustParseAddr(addr)})
		require.ErrorIs(t, err, want, addr)
	}
	cfg.Devices = []*roce.Device{a.dev}
	_, err = NewEventChannel(&cfg)
	require.ErrorIs(t, err, ErrInvalid)
}

// TestOpenAll: who listens on all addresses listens on those that have a device.
func TestOpenAll(t *testing.T) {
	na, _ := wires["udp"]()
	a := newHost(t, na, nil)
	ch, err := NewEventChannel(&Config{Open: func(addr netip.Addr) (*roce.Device, error) {
		if addr == a.addr {
			return a.dev, nil
		}
		return nil, fmt.Errorf("%w: %w", ErrInvalid, syscall.EADDRNOTAVAIL)
	}})
	require.NoError(t, err)
	for addr, want := range map[string]bool{"0.0.0.0:0": a.addr == netip.MustParseAddr("127.0.0.1"), a.addr.String() + ":0": true} {
		id, err := ch.CreateID(PSTCP)
		require.NoError(t, err)
		require.NoError(t, id.BindAddr(netip.MustParseAddrPort(addr)))
		require.NoError(t, id.Listen(0))
		require.Equal(t, want, id.Device() == a.dev)
		require.NoError(t, id.Close())
	}
	require.NoError(t, ch.Close())
}

// TestBorn: the ID of a request has its Context before anybody can take the event.
func TestBorn(t *testing.T) {
	na, nb := wires["pipe"]()
	a, b := newHost(t, na, nil), newHost(t, nb, nil)
	ch, err := NewEventChannel(&Config{Devices: []*roce.Device{b.dev}, Born: func(_, listener *ID) any {
		return fmt.Sprintf("child of %v", listener.Context)
	}})
	require.NoError(t, err)
	passive, err := ch.CreateID(PSTCP)
	require.NoError(t, err)
	passive.Context = "the listener"
	require.NoError(t, passive.BindAddr(b.at(0)))
	require.NoError(t, passive.Listen(0))
	done := make(chan error)
	go func() {
		_, err := Dial(bg, passive.LocalAddr().String(), &ConnConfig{Config: Config{Devices: []*roce.Device{a.dev}}, Cap: small})
		done <- err
	}()
	e, err := ch.Get(bg)
	require.NoError(t, err)
	require.Equal(t, EventConnectRequest, e.Type)
	require.Equal(t, "child of the listener", e.ID.Context)
	require.NoError(t, e.ID.Reject(nil))
	require.ErrorIs(t, <-done, ErrUnreachable)
	require.NoError(t, e.ID.Close())
	require.NoError(t, passive.Close())
	require.NoError(t, ch.Close())
}

// TestUnborn: of each ID that Born was asked about the application takes the event, or is told that
// it never will: because the peer has withdrawn its request, or because the listener was closed.
func TestUnborn(t *testing.T) {
	na, nb := wires["pipe"]()
	a, b := newHost(t, na, nil), newHost(t, nb, nil)
	var born, unborn atomic.Int32
	ch, err := NewEventChannel(&Config{Devices: []*roce.Device{b.dev},
		Born: func(*ID, *ID) any { return born.Add(1) },
		Unborn: func(child *ID) {
			require.NotNil(t, child.Context)
			unborn.Add(1)
		}})
	require.NoError(t, err)
	passive, err := ch.CreateID(PSTCP)
	require.NoError(t, err)
	require.NoError(t, passive.BindAddr(b.at(99)))
	require.NoError(t, passive.Listen(0))
	s := newStranger(t, a)
	s.request(b, 99, 1)
	s.withdraw(b, 1)
	until(func() bool { return unborn.Load() == 1 })
	s.request(b, 99, 2)
	until(func() bool { return born.Load() == 2 })
	require.NoError(t, passive.Close())
	require.EqualValues(t, 2, unborn.Load())
	until(func() bool { return ch.count() == 0 })
	require.NoError(t, ch.Close())
}

// TestUnbornHearsNothing: a peer that withdraws its request while the listener is being closed
// makes no event of an ID that nobody knows.
func TestUnbornHearsNothing(t *testing.T) {
	na, nb := wires["pipe"]()
	a, b := newHost(t, na, nil), newHost(t, nb, nil)
	s := newStranger(t, a)
	var ch *EventChannel
	var born atomic.Int32
	ch, err := NewEventChannel(&Config{Devices: []*roce.Device{b.dev},
		Born: func(*ID, *ID) any { return born.Add(1) },
		Unborn: func(child *ID) {
			s.withdraw(b, 1)
			until(func() bool {
				child.mu.Lock()
				defer child.mu.Unlock()
				return child.state == over
			})
			e, ok := ch.Events().TryGet()
			require.False(t, ok, "%v", e)
		}})
	require.NoError(t, err)
	passive, err := ch.CreateID(PSTCP)
	require.NoError(t, err)
	require.NoError(t, passive.BindAddr(b.at(99)))
	require.NoError(t, passive.Listen(0))
	s.request(b, 99, 1)
	until(func() bool { return born.Load() == 1 })
	require.NoError(t, passive.Close())
	require.NoError(t, ch.Close())
}

// TestBound: Dial and Listen take over an ID that the application has bound, also when they fail.
func TestBound(t *testing.T) {
	overWires(t, func(t *testing.T, a, b *host) {
		at, from := b.id(PSTCP), a.id(PSTCP)
		require.NoError(t, at.BindAddr(b.at(0)))
		require.NoError(t, from.BindAddr(a.at(0)))
		local := from.LocalAddr()
		l, err := Listen(bg, "", &ListenConfig{ConnConfig: ConnConfig{Config: Config{Devices: []*roce.Device{b.dev}}, Bound: at}})
		require.NoError(t, err)
		require.Equal(t, at.LocalAddr(), l.Addr())
		fd, err := l.FD()
		if err != nil {
			require.ErrorIs(t, err, ErrNotSupported)
		}
		_, err = l.TryAccept()
		require.Equal(t, syscall.EAGAIN, err)
		cfg := &ConnConfig{Config: Config{Devices: []*roce.Device{a.dev}}, Bound: from}
		c, err := Dial(bg, l.Addr().String(), cfg)
		require.NoError(t, err)
		require.Equal(t, local, c.LocalAddr())
		s, err := l.Accept(bg)
		require.NoError(t, err)
		require.Equal(t, local, s.RemoteAddr())
		for _, taken := range []*ID{from, at} { // nothing changes for those who have it
			cfg.Bound = taken
			_, err = Dial(bg, l.Addr().String(), cfg)
			require.ErrorIs(t, err, ErrBusy)
			_, err = Dial(bg, "no port", cfg)
			require.ErrorIs(t, err, ErrInvalid)
		}
		require.NoError(t, c.Close(bg))
		require.NoError(t, s.Close(bg))
		require.NoError(t, l.Close())
		_, err = l.TryAccept()
		require.ErrorIs(t, err, ErrClosed)
		_, err = l.FD()
		require.ErrorIs(t, err, ErrClosed, "%d", fd)

		// of another space, closed, not bound
		for _, id := range []*ID{a.id(PSUDP), from, a.id(PSTCP)} {
			cfg.Bound = id
			_, err = Listen(bg, "", &ListenConfig{ConnConfig: *cfg})
			require.Error(t, err)
			require.ErrorIs(t, id.BindAddr(a.at(0)), ErrClosed)
		}
		cfg.Bound = a.id(PSTCP)
		_, err = Dial(bg, "no port", cfg)
		require.ErrorIs(t, err, ErrInvalid)
		require.ErrorIs(t, cfg.Bound.BindAddr(a.at(0)), ErrClosed)
	})
}
