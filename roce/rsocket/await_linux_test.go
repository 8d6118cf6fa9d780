package rsocket

// Waiting for a while, and sleeping on a descriptor now and then, as blocking calls of C do.

import (
	"context"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/internal/step"
	"github.com/goroce/goroce/roce"
)

const long = time.Minute // for what comes before

// TestAwait: until there is something, the end, or the time is up; and what is waited for does not
// matter to who waits for something else.
func TestAwait(t *testing.T) {
	overWires(t, func(t *testing.T, wire string) {
		a, b := connected(t, wire, room)
		require.Equal(t, Writable, a.Await(Readable, 0))
		require.Equal(t, Writable, a.Await(Readable, time.Millisecond))
		require.Equal(t, Writable, a.Await(Readable|Writable, long))
		for _, what := range []Readiness{Readable, Readable | Ended} {
			got := make(chan Readiness)
			go func() { got <- a.Await(what, long) }()
			_, err := b.Write([]byte("x"))
			require.NoError(t, err)
			require.Equal(t, Readable|Writable, <-got)
			_, err = a.Read(make([]byte, 1))
			require.NoError(t, err)
		}

		sent := fill(t, a, 8<<10)
		require.Zero(t, a.Await(Writable, time.Millisecond)&Writable)
		wrote := make(chan Readiness)
		go func() { wrote <- a.Await(Writable, long) }()
		_, err := b.Write([]byte("x")) // who reads has it meanwhile
		require.NoError(t, err)
		require.NotZero(t, a.Await(Readable, long)&Readable)
		_, err = io.ReadFull(b, make([]byte, sent))
		require.NoError(t, err)
		require.NotZero(t, <-wrote&Writable)

		require.NoError(t, b.CloseWrite())
		require.NotZero(t, a.Await(Ended, long)&Ended)
	})
}

// room is what an end of these sizes takes before its application reads.
var room = &Config{ReceiveBuffer: 64 << 10, Depth: 16}

// fill writes to an end of room, in pieces of so many bytes, until it takes no more, and returns
// how many there were.
func fill(t *testing.T, c *Conn, piece int) (sent int) {
	for most := min(room.ReceiveBuffer, room.Depth*piece); sent < most; {
		n, err := c.TryWrite(make([]byte, min(piece, most-sent)))
		if sent += n; err == syscall.EAGAIN {
			c.Await(Writable, long)
		} else {
			require.NoError(t, err)
		}
	}
	return sent
}

// TestAwaitTurns: who cannot wait beside another, for the same, is told at once; Close ends it.
func TestAwaitTurns(t *testing.T) {
	for _, what := range []Readiness{Readable, Writable, Readable | Writable} {
		a, _ := connected(t, "pipe", room)
		fill(t, a, 8<<10)
		got := make(chan Readiness)
		go func() { got <- a.Await(what, long) }()
		for { // until the other waits
			a.mu.Lock()
			waits := a.wait.leading
			a.mu.Unlock()
			if waits {
				break
			}
		}
		require.Zero(t, a.Await(what, long)&what)
		require.NoError(t, a.Close())
		require.NotZero(t, <-got&HungUp)
		require.NotZero(t, a.Await(what, long)&HungUp)
	}
}

// TestWatch: a descriptor that nobody sleeps on shows nothing, costs nothing, and shows what there
// is when somebody does. Blocking calls of C sleep on it by recv and send.
func TestWatch(t *testing.T) {
	a, b := connected(t, "udp", room)
	require.NoError(t, a.Watch(true), "there is no descriptor")
	require.Nil(t, a.signs)
	fd, err := a.FD()
	require.NoError(t, err)
	require.NoError(t, unix.SetNonblock(fd, false))
	for range 3 {
		require.NoError(t, a.Watch(false))
		for running := true; running; { // until the goroutine has gone
			a.mu.Lock()
			running = a.wait.watches
			a.mu.Unlock()
		}
		_, err = b.Write([]byte("x"))
		require.NoError(t, err)
		require.NotZero(t, a.Await(Readable, long)&Readable)
		require.Zero(t, shows(t, fd)&unix.POLLIN)
		require.NoError(t, a.Watch(true))
		require.NoError(t, a.Watch(true))
		require.NotZero(t, shows(t, fd)&unix.POLLIN)
		_, err = a.Read(make([]byte, 1))
		require.NoError(t, err)
		require.Zero(t, shows(t, fd)&unix.POLLIN)

		slept := make(chan error)
		go func() {
			_, _, err := unix.Recvfrom(fd, make([]byte, 1), unix.MSG_PEEK)
			slept <- err
		}()
		_, err = b.Write([]byte("x"))
		require.NoError(t, err)
		require.NoError(t, <-slept)
		_, err = a.Read(make([]byte, 1))
		require.NoError(t, err)

		sent := fill(t, a, 8<<10)
		go func() { slept <- unix.Send(fd, []byte{0}, unix.MSG_NOSIGNAL) }()
		_, err = io.ReadFull(b, make([]byte, sent))
		require.NoError(t, err)
		require.NoError(t, <-slept)
	}
	require.NoError(t, a.Close())
	require.ErrorIs(t, a.Watch(false), net.ErrClosed)
}

// TestAwaitAllocatesNothing: to and fro, each waiting for the other, also on connections that were
// slept on.
func TestAwaitAllocatesNothing(t *testing.T) {
	if step.Raced {
		return // the race detector allocates
	}
	a, b := connected(t, "udp")
	_, err := a.FD()
	require.NoError(t, err)
	require.NoError(t, a.Watch(false))
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		for p := make([]byte, 1); b.Await(Readable, long)&Ended == 0; {
			if _, err := b.TryRead(p); err == nil {
				b.TryWrite(p)
			}
		}
	}()
	p := make([]byte, 1)
	require.Zero(t, allocations(func() {
		if _, err := a.TryWrite(p); err != nil {
			panic(err)
		}
		for _, err := a.TryRead(p); err != nil; _, err = a.TryRead(p) {
			a.Await(Readable, long)
		}
	}))
	require.NoError(t, a.CloseWrite())
	<-answered
}

// TestTryExpose: without waiting; and a place at the other end is free again when the memory is
// given up.
func TestTryExpose(t *testing.T) {
	a, b := connected(t, "pipe", &Config{Maps: 1, Depth: room.Depth})
	first, err := a.Alloc(10)
	require.NoError(t, err)
	sent := fill(t, a, 1)
	require.Equal(t, syscall.EAGAIN, a.TryExpose(first, 3))
	_, err = io.ReadFull(b, make([]byte, sent))
	require.NoError(t, err)
	for i := range byte(5) {
		piece, err := a.Alloc(10)
		require.NoError(t, err)
		require.NotZero(t, a.Await(Writable, long)&Writable)
		require.NoError(t, a.TryExpose(piece, 3))
		require.ErrorIs(t, a.TryExpose(piece, 3), roce.ErrLimit)
		_, err = a.Write([]byte("it is exposed"))
		require.NoError(t, err)
		_, err = io.ReadFull(b, make([]byte, 13))
		require.NoError(t, err)
		_, err = b.WriteAt([]byte{i, i}, 4)
		require.NoError(t, err)
		_, err = b.Write([]byte("it is written"))
		require.NoError(t, err)
		_, err = io.ReadFull(a, make([]byte, 13))
		require.NoError(t, err)
		require.Equal(t, []byte{0, i, i, 0}, piece.Bytes()[:4])
		require.NoError(t, piece.Close())
	}
}

// TestAccepting: connections are as it says then, and are not made before.
func TestAccepting(t *testing.T) {
	a, b, _, ofB := sockets(t, "pipe")
	may := make(chan struct{})
	b.Accepting = func() Config { <-may; return Config{ReceiveBuffer: 5000} }
	l, to := listens(t, b, ofB)
	require.NoError(t, a.Connect(to))
	_, err := l.TryAccept()
	require.Equal(t, syscall.EAGAIN, err)
	close(may)
	ctx, end := context.WithTimeout(t.Context(), long)
	defer end()
	s, err := l.AcceptContext(ctx)
	require.NoError(t, err)
	defer s.Close()
	require.Equal(t, 5000, s.Config().ReceiveBuffer)
	require.Same(t, b.Devices[0], s.Device())
	<-a.Done()
	c, err := a.Conn()
	require.NoError(t, err)
	require.NoError(t, c.Close())

	d, e, _, ofE := sockets(t, "pipe") // what it says may be wrong
	e.Accepting = func() Config { return Config{ReceiveBuffer: 1} }
	l, to = listens(t, e, ofE)
	require.NoError(t, d.Connect(to))
	<-d.Done()
	_, err = d.Conn()
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	require.NoError(t, l.Close())
}
