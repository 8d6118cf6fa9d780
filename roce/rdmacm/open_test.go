package rdmacm

// Devices that the application finds when an address needs one (Config.Open), and what it knows an
// ID by from the beginning (Config.Born).

import (
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
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
