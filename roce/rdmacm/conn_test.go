package rdmacm

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/roce"
)

// TestDial: a connection each way of closing, with private data and a message.
func TestDial(t *testing.T) {
	overWires(t, func(t *testing.T, a, b *host) {
		cfg := func(h *host) ConnConfig { return ConnConfig{Config: Config{Devices: []*roce.Device{h.dev}}} }
		l, err := Listen(bg, b.at(0).String(), &ListenConfig{ConnConfig: cfg(b),
			Decide: func(from netip.AddrPort, says []byte) ([]byte, error) {
				if says[0] == 'x' {
					return []byte("go away"), errors.New("no")
				}
				return append([]byte("re: "), says[:5]...), nil
			}})
		require.NoError(t, err)
		dial := func(says string) (*Conn, error) {
			c := cfg(a)
			c.Param = &ConnParam{PrivateData: []byte(says), RetryCount: 7, RNRRetryCount: 7}
			return Dial(bg, l.Addr().String(), &c)
		}
		_, err = dial("x")
		var no *RejectedError
		require.ErrorAs(t, err, &no)
		require.ErrorIs(t, err, ErrUnreachable)
		require.Equal(t, 28, no.Reason)
		require.Equal(t, "go away", string(no.PrivateData[:7]))

		for _, first := range []string{"dialer", "listener"} {
			c, err := dial("hello")
			require.NoError(t, err)
			s, err := l.Accept(bg)
			require.NoError(t, err)
			require.Equal(t, "re: hello", string(c.PrivateData()[:9]))
			require.Equal(t, "hello", string(s.PrivateData()[:5]))
			require.Equal(t, c.LocalAddr(), s.RemoteAddr())
			if first == "listener" {
				c, s = s, c
			}
			require.NoError(t, c.Close(bg))
			<-s.Done()
			require.NoError(t, s.Err())
			s.Close(bg)
			require.NoError(t, c.Close(bg))
		}
		require.NoError(t, l.Close())
		require.NoError(t, l.Close())
		_, err = l.Accept(bg)
		require.ErrorIs(t, err, ErrClosed)
		_, err = dial("again")
		require.ErrorAs(t, err, &no)
		require.Equal(t, 8, no.Reason)
	})
}

// TestTurn: an address that is silent leaves time for the next one.
func TestTurn(t *testing.T) {
	for _, c := range []struct {
		remains time.Duration
		left    int
		want    time.Duration
	}{
		{30 * time.Second, 3, 10 * time.Second},
		{20 * time.Second, 2, 10 * time.Second},
		{3 * time.Second, 2, 2 * time.Second},
		{time.Second, 2, time.Second},
		{-time.Second, 2, -time.Second},
	} {
		require.Equal(t, c.want, turn(c.remains, c.left))
	}
}

// TestCloseTwice: a Close that waits for the peer lets others wait for as long as they want: a
// second one until its context ends, and AtClose not at all.
func TestCloseTwice(t *testing.T) {
	na, nb := wires["pipe"]()
	a, b := newHost(t, na, nil), newHost(t, nb, nil)
	cfg := func(h *host) ConnConfig { return ConnConfig{Config: Config{Devices: []*roce.Device{h.dev}}} }
	l, err := Listen(bg, b.at(0).String(), &ListenConfig{ConnConfig: cfg(b)})
	require.NoError(t, err)
	dial := cfg(a)
	c, err := Dial(bg, l.Addr().String(), &dial)
	require.NoError(t, err)
	s, err := l.Accept(bg)
	require.NoError(t, err)
	// Nobody has a receive for it.
	require.NoError(t, c.QP().PostSend(roce.SendWR{Opcode: roce.WRSend}))
	first := make(chan error)
	go func() { first <- c.Close(bg) }()
	until(func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.over != nil
	})
	gone, end := context.WithCancel(bg)
	end()
	require.ErrorIs(t, c.Close(gone), context.Canceled)
	calls := 0
	c.AtClose(func() error { calls++; return nil })
	require.Zero(t, calls)
	second := make(chan error)
	go func() { second <- c.Close(bg) }()
	require.NoError(t, s.Close(bg))
	require.ErrorIs(t, <-first, ErrIncomplete)
	require.NoError(t, <-second)
	require.Equal(t, 1, calls)
	c.AtClose(func() error { calls++; return nil })
	require.Equal(t, 2, calls)
	require.NoError(t, c.Close(gone))
	require.NoError(t, l.Close())
}

// TestListenerCloseTwice: who closes a listener that another goroutine is closing can close the
// device then: nothing of the listener is left.
func TestListenerCloseTwice(t *testing.T) {
	na, nb := wires["pipe"]()
	a, b := newHost(t, na, nil), newHost(t, nb, nil)
	cfg := func(h *host) ConnConfig { return ConnConfig{Config: Config{Devices: []*roce.Device{h.dev}}} }
	asked, answer := make(chan struct{}), make(chan struct{})
	l, err := Listen(bg, b.at(0).String(), &ListenConfig{ConnConfig: cfg(b), Decide: func(netip.AddrPort, []byte) ([]byte, error) {
		close(asked)
		<-answer
		return nil, nil
	}})
	require.NoError(t, err)
	dialed, first := make(chan error), make(chan error)
	go func() {
		dial := cfg(a)
		conn, err := Dial(bg, l.Addr().String(), &dial)
		if err == nil { // the listener's end was made, and has ended
			err = conn.Close(bg)
		} else if errors.Is(err, ErrUnreachable) {
			err = nil
		}
		dialed <- err
	}()
	<-asked
	go func() { first <- l.Close() }()
	<-l.ctx.Done()
	var over, answered atomic.Bool
	go func() {
		stack := make([]byte, 1<<20)
		until(func() bool { // both wait, or the second does not
			return over.Load() || bytes.Count(stack[:runtime.Stack(stack, true)], []byte("(*Listener).Close(")) == 2
		})
		answered.Store(true)
		close(answer)
	}()
	require.NoError(t, l.Close())
	early := !answered.Load()
	over.Store(true)
	require.NoError(t, <-first)
	require.NoError(t, <-dialed)
	require.False(t, early, "a connection was still being made")
}
