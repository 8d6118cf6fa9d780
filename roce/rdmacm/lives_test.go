package rdmacm

// IDs that are closed at every moment of a connection's life, twice and from other goroutines.

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/fault"
)

// life is a connection's life in steps, each of which may find that the other side has gone.
type life struct {
	a, b            *host
	port            uint16 // of the listener: its own, which no request of an earlier life is for
	listener        *ID
	active, passive *ID
}

// wait takes events at a host until one is of a type, or says that it is over with the ID.
func (l *life) wait(t *testing.T, h *host, want EventType) *Event {
	for {
		e, err := h.ch.Get(bg)
		require.NoError(t, err)
		switch e.Type {
		case want, EventRejected, EventUnreachable, EventDisconnected, EventConnectError:
			return e
		}
	}
}

var steps = []struct {
	name string
	do   func(t *testing.T, l *life)
}{
	{"bind", func(t *testing.T, l *life) { require.NoError(t, l.listener.BindAddr(l.b.at(l.port))) }},
	{"listen", func(t *testing.T, l *life) { require.NoError(t, l.listener.Listen(3)) }},
	{"resolve address", func(t *testing.T, l *life) {
		require.NoError(t, l.active.ResolveAddr(l.a.at(0), l.b.at(l.port), 0))
		l.a.next(EventAddrResolved)
	}},
	{"resolve route", func(t *testing.T, l *life) {
		require.NoError(t, l.active.ResolveRoute(0))
		l.a.next(EventRouteResolved)
	}},
	{"create", func(t *testing.T, l *life) { l.a.pair(l.active) }},
	{"connect", func(t *testing.T, l *life) { require.NoError(t, l.active.Connect(nil)) }},
	{"request", func(t *testing.T, l *life) { l.passive = l.b.next(EventConnectRequest).ID }},
	{"create there", func(t *testing.T, l *life) { l.b.pair(l.passive) }},
	{"accept", func(t *testing.T, l *life) { require.NoError(t, l.passive.Accept(nil)) }},
	{"established", func(t *testing.T, l *life) { l.a.next(EventEstablished) }},
	{"established there", func(t *testing.T, l *life) { l.b.next(EventEstablished) }},
	{"disconnect", func(t *testing.T, l *life) { require.NoError(t, l.active.Disconnect()) }},
	{"disconnected there", func(t *testing.T, l *life) { l.b.next(EventDisconnected) }},
	{"disconnect there", func(t *testing.T, l *life) { require.NoError(t, l.passive.Disconnect()) }},
	{"disconnected", func(t *testing.T, l *life) { l.a.next(EventDisconnected) }},
}

// TestCloseAtEachStep closes one ID after each step, by several goroutines at a time. Whoever is
// left hears of it, and everything can be closed.
func TestCloseAtEachStep(t *testing.T) {
	overWires(t, func(t *testing.T, a, b *host) {
		for n := range steps {
			for _, who := range []string{"active", "passive", "listener"} {
				l := &life{a: a, b: b, port: uint16(7000 + serial.Add(1)%20000)}
				var err error
				l.listener, err = b.ch.CreateID(PSTCP)
				require.NoError(t, err)
				l.active, err = a.ch.CreateID(PSTCP)
				require.NoError(t, err)
				for _, s := range steps[:n+1] {
					s.do(t, l)
				}
				victim := map[string]*ID{"active": l.active, "passive": l.passive, "listener": l.listener}[who]
				if victim != nil {
					var all sync.WaitGroup
					for range 3 {
						all.Go(func() { require.NoError(t, victim.Close()) })
					}
					all.Wait()
				}
				l.leave(t, who, n)
			}
		}
	})
}

// leave checks what the survivor hears, and closes all.
func (l *life) leave(t *testing.T, who string, n int) {
	t.Helper()
	step := steps[n].name
	switch {
	case *onDevice != "" && who == "passive" && step == "accept":
		// The kernel does not listen to a refusal that comes after its RTU, and hears no other.
	case who == "passive" && l.passive != nil && n <= 8: // the answer was not taken
		e := l.wait(t, l.a, EventRejected)
		require.Contains(t, []EventType{EventRejected, EventEstablished, EventDisconnected}, e.Type, "%s closed after %s", who, step)
	case who == "active" && step == "established there":
		require.Equal(t, EventDisconnected, l.wait(t, l.b, EventDisconnected).Type)
	case who == "passive" && step == "established there":
		require.Equal(t, EventDisconnected, l.wait(t, l.a, EventDisconnected).Type)
	}
	for _, id := range []*ID{l.passive, l.active, l.listener} {
		if id != nil {
			require.NoError(t, id.Close())
		}
	}
	for _, h := range []*host{l.a, l.b} {
		h.quiet()
	}
}

// TestCloseAnyTime: lives of both sides at once, with IDs closed by others while calls are made.
func TestCloseAnyTime(t *testing.T) {
	overWires(t, func(t *testing.T, a, b *host) {
		server := b.id(PSTCP)
		require.NoError(t, server.BindAddr(b.at(7471)))
		require.NoError(t, server.Listen(0))
		ctx, stop := context.WithCancel(bg)
		var all sync.WaitGroup
		all.Go(func() { // who accepts everything
			for {
				e, err := b.ch.Get(ctx)
				if err != nil {
					return
				}
				if e.Type == EventConnectRequest {
					e.ID.CreateQP(b.pd, roce.QPInitAttr{SendCQ: b.cq})
					if e.ID.Accept(nil) != nil { // it was withdrawn
						e.ID.Close()
					}
				}
				if e.Type != EventEstablished && e.Type != EventConnectRequest {
					e.ID.Close()
				}
			}
		})
		cfg := &ConnConfig{Config: Config{Devices: []*roce.Device{a.dev}}}
		var clients sync.WaitGroup
		for i := range 4 {
			clients.Go(func() {
				for j := range 25 {
					ctx, cancel := context.WithTimeout(bg, time.Duration(i*j*20)*time.Microsecond)
					if i == 0 {
						ctx = bg
					}
					c, err := Dial(ctx, b.at(7471).String(), cfg)
					cancel()
					if err == nil {
						closed, cancel := context.WithTimeout(bg, time.Duration(j)*100*time.Microsecond)
						c.Close(closed)
						cancel()
					}
				}
			})
		}
		clients.Wait()
		stop()
		all.Wait()
		b.closeRest(t)
	})
}

// closeRest closes the IDs but one, as they are told of.
func (h *host) closeRest(t *testing.T) {
	for {
		h.ch.mu.Lock()
		n := h.ch.ids
		h.ch.mu.Unlock()
		if n == 1 {
			return
		}
		ctx, cancel := context.WithTimeout(bg, 5*time.Minute) // only ends what would hang
		e, err := h.ch.Get(ctx)
		cancel()
		require.NoError(t, err, "%d IDs", n)
		require.NoError(t, e.ID.Close())
	}
}

// TestDisorder: copies of messages, and messages that overtake each other, change nothing.
func TestDisorder(t *testing.T) {
	na, nb := wires["pipe"]()
	rules, err := fault.Parse("tx:30%:delay=300us")
	require.NoError(t, err)
	wrap := func(p transport.Port) transport.Port {
		return fault.Wrap(p, fault.Config{Seed: uint64(serial.Add(1)), On: fault.Send, Duplicate: 0.5, Rules: rules})
	}
	a, b := newHost(t, na, wrap), newHost(t, nb, wrap)
	for range 30 {
		active, passive := connected(t, a, b)
		require.NoError(t, active.Disconnect())
		b.next(EventDisconnected)
		require.NoError(t, passive.Close())
		a.next(EventDisconnected)
		require.NoError(t, active.Close())
	}
}

// TestOpened: without devices of its own a channel opens those of the addresses that are used, once
// for the process, and closes them.
func TestOpened(t *testing.T) {
	pid := os.Getpid()
	addr := fmt.Sprintf("127.%d.%d.251", 130+pid>>8%120, pid%256)
	l, err := Listen(bg, addr+":0", nil)
	require.NoError(t, err)
	_, err = Listen(bg, l.Addr().String(), nil)
	require.ErrorIs(t, err, ErrBusy)
	cfg := &ConnConfig{Local: netip.MustParseAddr(addr)}
	c, err := Dial(bg, l.Addr().String(), cfg) // to itself
	require.NoError(t, err)
	s, err := l.Accept(bg)
	require.NoError(t, err)
	require.Same(t, c.Device(), s.Device())
	dev := c.Device()
	require.ErrorIs(t, dev.Close(), ErrBusy)
	require.NoError(t, s.Close(bg))
	<-c.Done()
	require.NoError(t, c.Close(bg)) // it had nothing to do any more
	require.NoError(t, l.Close())
	for err = nil; err == nil; { // until the device is closed
		_, err = dev.Events().Get(bg)
	}
	require.ErrorIs(t, err, ErrClosed)
	_, err = Dial(bg, l.Addr().String(), &ConnConfig{Local: netip.MustParseAddr("192.0.2.99")})
	require.ErrorIs(t, err, ErrInvalid)
}
