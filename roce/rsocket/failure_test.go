package rsocket

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/roce"
)

// stacks are the goroutines that are in this package's connections, without those of the test.
func stacks() (all []string) {
	buf := make([]byte, 1<<20)
	for _, g := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if strings.Contains(g, "rsocket.(*Conn)") {
			all = append(all, g)
		}
	}
	return all
}

var asleep = regexp.MustCompile(`^goroutine \d+ \[(select|IO wait|chan receive)`)

// TestIdle: a connection that nobody uses has no goroutine, and one that a call waits for has that
// one, which sleeps.
func TestIdle(t *testing.T) {
	overWires(t, func(t *testing.T, wire string) {
		a, b := connected(t, wire)
		// a timer of another test's connection, which is closed, may just have gone off
		quiet := func() {
			for len(stacks()) > 0 {
				runtime.Gosched()
			}
		}
		quiet()
		done := make(chan error)
		go func() {
			_, err := a.Read(make([]byte, 1))
			done <- err
		}()
		for { // it polls for a while
			if g := stacks(); len(g) == 1 && asleep.MatchString(g[0]) {
				break
			}
			runtime.Gosched()
		}
		_, err := b.Write([]byte("x"))
		require.NoError(t, err)
		require.NoError(t, <-done)
		quiet()
	})
}

// TestPeerGone: who waits, and who closes, is told that the other end is not there any more.
func TestPeerGone(t *testing.T) {
	a, b := connected(t, "pipe", &Config{KeepAlive: time.Millisecond})
	require.NoError(t, b.qp.Close())
	_, err := a.Read(make([]byte, 1))
	require.ErrorIs(t, err, syscall.ETIMEDOUT, "by the keepalive")
	_, err = a.Write([]byte("x"))
	require.ErrorIs(t, err, syscall.ETIMEDOUT)
	require.NoError(t, a.Close(), "that was told before")

	a, b = connected(t, "pipe")
	_, err = a.Write([]byte("x"))
	require.NoError(t, err)
	require.NoError(t, b.qp.Close())
	_, err = a.Write([]byte("y"))
	require.NoError(t, err)
	require.ErrorContains(t, a.Close(), "it is not known whether all that was written has arrived")

	a, b = connected(t, "pipe", &Config{Linger: time.Nanosecond})
	require.NoError(t, b.qp.Close())
	require.ErrorIs(t, a.Close(), os.ErrDeadlineExceeded)
}

// TestKeepAlive: signs of life cost the connection nothing that is not given back.
func TestKeepAlive(t *testing.T) {
	a, b := connected(t, "pipe", &Config{Depth: 16})
	require.NoError(t, a.SetKeepAlive(time.Microsecond))
	for asked := a.pd.Device().Stats().Engine.SentPkts; a.pd.Device().Stats().Engine.SentPkts < asked+100; {
		runtime.Gosched()
	}
	require.NoError(t, a.SetKeepAlive(0))
	_, err := a.Write([]byte("x"))
	require.NoError(t, err)
	_, err = b.Read(make([]byte, 10))
	require.NoError(t, err)
}

// TestKeepAliveByDefault: who has said nothing hears of a peer that was killed; who wants no such
// traffic has none.
func TestKeepAliveByDefault(t *testing.T) {
	for said, is := range map[time.Duration]time.Duration{0: 15 * time.Second, -1: 0, time.Minute: time.Minute} {
		a, _ := connected(t, "pipe", &Config{KeepAlive: said})
		a.mu.Lock()
		require.Equal(t, is, max(a.cfg.KeepAlive, 0))
		require.Equal(t, is > 0, a.alive.timer != nil)
		a.mu.Unlock()
	}
}

// TestRudePeer: a peer that breaks the rules of the stream loses the connection, and only that.
func TestRudePeer(t *testing.T) {
	a, b := connected(t, "pipe")
	require.NoError(t, b.qp.PostSend(roce.SendWR{Opcode: roce.WRWriteWithImm, Imm: 3 << 29}))
	_, err := a.Read(make([]byte, 1))
	require.ErrorIs(t, err, ErrProtocol)

	a, b = connected(t, "pipe")
	require.NoError(t, b.qp.PostSend(roce.SendWR{Opcode: roce.WRSend}))
	_, err = a.Read(make([]byte, 1))
	require.ErrorIs(t, err, ErrProtocol)
}

// TestClosed: a connection that is closed says so, whatever is called, and gives everything back.
func TestClosed(t *testing.T) {
	a, b := connected(t, "pipe")
	buffer, err := a.Alloc(10)
	require.NoError(t, err)
	require.NoError(t, a.Close())
	for name, call := range map[string]func() error{
		"Close":       a.Close,
		"CloseRead":   a.CloseRead,
		"CloseWrite":  a.CloseWrite,
		"Read":        func() error { _, err := a.Read(nil); return err },
		"PeekShared":  func() error { _, err := a.PeekShared(); return err },
		"Discard":     func() error { _, err := a.Discard(1); return err },
		"WriteTo":     func() error { _, err := a.WriteTo(io.Discard); return err },
		"Write":       func() error { _, err := a.Write(nil); return err },
		"WriteBuffer": func() error { _, err := a.WriteBuffer(buffer, 0, 1); return err },
		"Expose":      func() error { return a.Expose(buffer, 0) },
		"Alloc":       func() error { _, err := a.Alloc(1); return err },
		"SetDeadline": func() error { return a.SetDeadline(time.Time{}) },
		"KeepAlive":   func() error { return a.SetKeepAlive(time.Second) },
	} {
		require.ErrorIs(t, call(), net.ErrClosed, name)
	}
	_, err = b.Read(make([]byte, 1))
	require.Equal(t, io.EOF, err)
	_, err = b.Write([]byte("x"))
	require.ErrorIs(t, err, syscall.ECONNRESET)
	require.NoError(t, b.Close())
}

// TestSlowEnd: while the connection below waits for its peer, other calls are answered.
func TestSlowEnd(t *testing.T) {
	a, _ := connected(t, "pipe")
	begun, goOn := make(chan struct{}), make(chan struct{})
	a.hangUp = func(time.Time) error {
		close(begun)
		<-goOn
		return errors.Join(a.qp.Close(), a.free())
	}
	done := make(chan error)
	go func() { done <- a.Close() }()
	<-begun
	require.ErrorIs(t, a.SetDeadline(time.Time{}), net.ErrClosed)
	close(goOn)
	require.NoError(t, <-done)
}

// TestBufferAfterDeadline: a WriteBuffer whose deadline has passed, and whose stream fails before
// the other end has answered, returns when the memory is not read any more.
func TestBufferAfterDeadline(t *testing.T) {
	name, _ := wires["pipe"]()
	mute, err := roce.Open(name, &roce.Config{Faults: "tx:100%:drop"})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, mute.Close()) })
	a, b := pair(t, open(t, name), mute, &Config{ReceiveBuffer: 4096, Linger: time.Millisecond})
	t.Cleanup(func() { a.Close(); b.Close() })
	buf, err := a.Alloc(100_000)
	require.NoError(t, err)
	done := make(chan error)
	go func() {
		_, err := a.WriteBuffer(buf, 0, 100_000)
		done <- err
	}()
	for begun := false; !begun; runtime.Gosched() {
		a.mu.Lock()
		begun = a.end.Begun() > 0
		a.mu.Unlock()
	}
	require.NoError(t, a.SetWriteDeadline(time.Unix(1, 0)))
	a.mu.Lock()
	a.end.Fail(ErrProtocol)
	a.wakeAll()
	a.mu.Unlock()
	require.ErrorIs(t, <-done, os.ErrDeadlineExceeded)
	require.Equal(t, roce.StateErr, a.qp.State())
}

// TestWrongConfig: an error names the value and what would be right.
func TestWrongConfig(t *testing.T) {
	for _, cfg := range []Config{{SendBuffer: 1}, {SendBuffer: 1<<30 + 1}, {Depth: 15}, {Depth: 65535}, {Maps: 129}, {Maps: -1}} {
		_, err := cfg.filled()
		require.ErrorIs(t, err, roce.ErrInvalid)
		require.ErrorContains(t, err, "want ")
	}
}

// TestLosses: packets that are lost, late and doubled cost time, and no byte.
func TestLosses(t *testing.T) {
	name := "pipe:rsocket-losses"
	var devices [2]*roce.Device
	for i := range devices {
		d, err := roce.Open(name, &roce.Config{Faults: "tx:2%:drop, rx:2%:delay=1ms, tx:2%:duplicate"})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, d.Close()) })
		devices[i] = d
	}
	l, err := Listen(bg, netip.AddrPortFrom(devices[1].GIDs()[0].Addr(), 0).String(), &Options{Devices: devices[1:]})
	require.NoError(t, err)
	defer l.Close()
	for range 5 {
		c1, err := (&Dialer{Options{Devices: devices[:1]}}).Dial(bg, l.Addr().String())
		require.NoError(t, err)
		c2, err := l.Accept()
		require.NoError(t, err)
		sent := make([]byte, 300_000)
		for i := range sent {
			sent[i] = byte(i * i >> 8)
		}
		go func() {
			c1.Write(sent)
			c1.CloseWrite()
		}()
		got, err := io.ReadAll(c2)
		require.NoError(t, err)
		require.True(t, bytes.Equal(sent, got))
		require.NoError(t, c2.Close())
		require.NoError(t, c1.Close())
	}
}

// TestLastACK: the acknowledgements of the end are lost, from whichever on. The other application
// has read all, and has closed without error: so Close is nil, as that end has answered, or if both
// have ended writing before, has said that it disconnects.
func TestLastACK(t *testing.T) {
	name, _ := wires["pipe"]()
	a := open(t, name)
	for i := range 18 {
		first, half := i/2, i%2 == 1
		b, err := roce.Open(name, &roce.Config{Faults: fmt.Sprintf("tx.ACK:%d-:drop", first+1)})
		require.NoError(t, err)
		l, err := Listen(bg, netip.AddrPortFrom(b.GIDs()[0].Addr(), 0).String(), &Options{Devices: []*roce.Device{b}})
		require.NoError(t, err)
		x, err := (&Dialer{Options{Devices: []*roce.Device{a}}}).Dial(bg, l.Addr().String())
		require.NoError(t, err)
		conn, err := l.Accept()
		require.NoError(t, err)
		_, err = x.Write([]byte("last words"))
		require.NoError(t, err)
		if half {
			require.NoError(t, x.CloseWrite())
			require.NoError(t, conn.(*Conn).CloseWrite())
		}
		done := make(chan error)
		go func() {
			all, err := io.ReadAll(conn)
			if string(all) != "last words" {
				err = fmt.Errorf("%q: %w", all, err)
			}
			done <- errors.Join(err, conn.Close())
		}()
		if half {
			_, err = io.ReadAll(x)
			require.NoError(t, err)
		}
		require.NoError(t, x.Close())
		require.NoError(t, <-done)
		require.NoError(t, l.Close())
		require.NoError(t, b.Close())
	}
}
