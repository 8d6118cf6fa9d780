package rsocket

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/nettest"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/rdmacm"
)

var bg = context.Background()

// listening is a listener on one device, and a dialer on another.
func listening(t testing.TB, wire string) (*Listener, *Dialer) {
	t.Helper()
	nameA, nameB := wires[wire]()
	a, b := open(t, nameA), open(t, nameB)
	l, err := Listen(bg, netip.AddrPortFrom(b.GIDs()[0].Addr(), 0).String(), &Options{Devices: []*roce.Device{b}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l, &Dialer{Options{Devices: []*roce.Device{a}}}
}

// TestDial: two ends that find each other by address, and the contract of net.Conn over that.
func TestDial(t *testing.T) {
	overWires(t, func(t *testing.T, wire string) {
		l, d := listening(t, wire)
		nettest.TestConn(t, func() (net.Conn, net.Conn, func(), error) {
			c1, err := d.Dial(bg, l.Addr().String())
			if err != nil {
				return nil, nil, nil, err
			}
			c2, err := l.Accept()
			require.Equal(t, c1.LocalAddr().String(), c2.RemoteAddr().String())
			require.Equal(t, c1.RemoteAddr().String(), l.Addr().String())
			return c1, c2, func() { c1.Close(); c2.Close() }, err
		})
	})
}

// TestSelective: between two ends of this stack a lost packet costs a packet, and long paths are
// filled.
func TestSelective(t *testing.T) {
	l, d := listening(t, "pipe")
	c1, err := d.Dial(bg, l.Addr().String())
	require.NoError(t, err)
	c2, err := l.Accept()
	require.NoError(t, err)
	for _, c := range []*Conn{c1, c2.(*Conn)} {
		attr, err := c.qp.Query()
		require.NoError(t, err)
		require.True(t, attr.SelectiveRepeat && attr.LongWindow)
	}
	require.NoError(t, c1.Close())
	require.NoError(t, c2.Close())
}

// TestCloseOrder: whoever closes first, and both at once: what was written arrives, and nobody
// fails.
func TestCloseOrder(t *testing.T) {
	overWires(t, func(t *testing.T, wire string) {
		l, d := listening(t, wire)
		for i := range 30 {
			c1, err := d.Dial(bg, l.Addr().String())
			require.NoError(t, err)
			conn, err := l.Accept()
			require.NoError(t, err)
			c2 := conn.(*Conn)
			if i%2 == 1 {
				c1, c2 = c2, c1
			}
			_, err = c1.Write([]byte("last words"))
			require.NoError(t, err)
			if i%3 == 0 { // at once
				var both sync.WaitGroup
				both.Go(func() { require.NoError(t, c1.Close()) })
				both.Go(func() { require.NoError(t, c2.Close()) })
				both.Wait()
				continue
			}
			require.NoError(t, c1.Close())
			words, err := io.ReadAll(c2)
			require.NoError(t, err)
			require.Equal(t, "last words", string(words))
			require.NoError(t, c2.Close())
		}
	})
}

// TestStrangers: who is no rsocket is refused, and hears so; who does not listen is no one.
func TestStrangers(t *testing.T) {
	l, d := listening(t, "pipe")
	cfg := &rdmacm.ConnConfig{Config: rdmacm.Config{Devices: d.Devices}, Param: &rdmacm.ConnParam{PrivateData: []byte("hello")}}
	_, err := rdmacm.Dial(bg, l.Addr().String(), cfg)
	var refused *rdmacm.RejectedError
	require.ErrorAs(t, err, &refused)

	there := l.Addr().(*Addr)
	_, err = d.Dial(bg, fmt.Sprintf("%s:%d", there.IP, there.Port+1))
	require.ErrorAs(t, err, &refused)
	var op *net.OpError
	require.ErrorAs(t, err, &op)
	require.Equal(t, "dial", op.Op)

	ctx, cancel := context.WithCancel(bg)
	cancel()
	_, err = d.Dial(ctx, l.Addr().String())
	require.ErrorIs(t, err, context.Canceled)
}

// TestDialEnds: a Dial that is given up returns, also from a listener that is no rsocket and does
// not answer any more.
func TestDialEnds(t *testing.T) {
	name, _ := wires["pipe"]()
	// after REQ and RTU nothing of the connection manager arrives there
	d, err := roce.Open(name, &roce.Config{Faults: "tx.MAD:3-:drop"})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	dev := open(t, name)
	decide := func(netip.AddrPort, []byte) ([]byte, error) { return []byte("no rsocket"), nil }
	l, err := rdmacm.Listen(bg, netip.AddrPortFrom(dev.GIDs()[0].Addr(), 0).String(), &rdmacm.ListenConfig{
		ConnConfig: rdmacm.ConnConfig{Config: rdmacm.Config{Devices: []*roce.Device{dev}}}, Decide: decide})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	ctx, giveUp := context.WithCancel(bg)
	go func() {
		for d.Stats().Engine.SentPkts < 3 { // it hangs up
			runtime.Gosched()
		}
		giveUp()
	}()
	_, err = (&Dialer{Options{Devices: []*roce.Device{d}, Config: Config{Linger: time.Hour}}}).Dial(ctx, l.Addr().String())
	require.ErrorIs(t, err, ErrProtocol)
	c, err := l.Accept(bg)
	require.NoError(t, err)
	ended, end := context.WithCancel(bg)
	end()
	c.Close(ended)
}

// TestHangUp: who goes without a word, but takes the connection down, is noticed.
func TestHangUp(t *testing.T) {
	l, d := listening(t, "pipe")
	c1, err := d.Dial(bg, l.Addr().String())
	require.NoError(t, err)
	c2, err := l.Accept()
	require.NoError(t, err)
	_, err = c1.Write([]byte("but "))
	require.NoError(t, err)
	var hangsUp sync.WaitGroup
	hangsUp.Go(func() { c1.hangUp(time.Now().Add(time.Minute)) })
	all, err := io.ReadAll(c2)
	require.ErrorIs(t, err, syscall.ECONNRESET)
	require.True(t, strings.HasPrefix("but ", string(all)))
	hangsUp.Wait()
	c1.Close()
	require.NoError(t, c2.Close())
}

// TestListenerClosed: Accept returns, and who dials is refused.
func TestListenerClosed(t *testing.T) {
	l, d := listening(t, "pipe")
	done := make(chan error)
	go func() {
		_, err := l.Accept()
		done <- err
	}()
	require.NoError(t, l.Close())
	require.ErrorIs(t, <-done, net.ErrClosed)
	_, err := d.Dial(bg, l.Addr().String())
	require.Error(t, err)
}

// TestDialBeside: on one machine the client takes an address of its own, as the server's is taken.
func TestDialBeside(t *testing.T) {
	taken := open(t, "udp:127.0.0.1") // as another process's
	l, err := Listen(bg, "127.0.0.1:0", &Options{Devices: []*roce.Device{taken}})
	require.NoError(t, err)
	defer l.Close()
	c, err := Dial(bg, l.Addr().String())
	require.NoError(t, err)
	require.Equal(t, "127.0.0.2", c.LocalAddr().(*Addr).IP.String())
	s, err := l.Accept()
	require.NoError(t, err)
	require.NoError(t, c.Close())
	require.NoError(t, s.Close())

	tried := 0
	none := &Dialer{Options{Open: func(netip.Addr) (*roce.Device, error) {
		tried++
		return nil, syscall.EADDRINUSE
	}}}
	_, err = none.Dial(bg, l.Addr().String())
	require.ErrorIs(t, err, syscall.EADDRINUSE)
	require.ErrorContains(t, err, "Dialer.Local")
	require.Equal(t, 1+loopbacks, tried)
}
