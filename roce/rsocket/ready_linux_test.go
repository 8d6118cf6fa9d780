package rsocket

// Readiness as an event loop meets it: by poll, by epoll with edges, and by trying.

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/internal/step"
	"github.com/goroce/goroce/roce/rsocket/internal/stream"
)

const allEvents = unix.POLLIN | unix.POLLOUT | unix.POLLRDHUP

// polls waits for one of some events of a descriptor, and returns all that it has.
func polls(t testing.TB, fd int, events int16) int16 {
	t.Helper()
	for {
		fds := []unix.PollFd{{Fd: int32(fd), Events: events}}
		if n, err := unix.Poll(fds, -1); err != unix.EINTR {
			require.NoError(t, err)
			require.Equal(t, 1, n)
			break
		}
	}
	return shows(t, fd)
}

// shows is what a descriptor says now.
func shows(t testing.TB, fd int) int16 {
	t.Helper()
	fds := []unix.PollFd{{Fd: int32(fd), Events: allEvents}}
	_, err := unix.Poll(fds, 0)
	require.NoError(t, err)
	return fds[0].Revents
}

// TestFD: what a descriptor says, through all that can come: as poll would of a TCP connection.
func TestFD(t *testing.T) {
	overWires(t, func(t *testing.T, wire string) {
		a, b := connected(t, wire)
		fd, err := a.FD()
		require.NoError(t, err)
		again, err := a.FD()
		require.NoError(t, err)
		require.Equal(t, fd, again)
		require.EqualValues(t, unix.POLLOUT, polls(t, fd, unix.POLLOUT))

		for range 3 { // bytes come and are read
			_, err = b.Write([]byte("words"))
			require.NoError(t, err)
			require.EqualValues(t, unix.POLLIN|unix.POLLOUT, polls(t, fd, unix.POLLIN))
			p := make([]byte, 3)
			n, err := a.Read(p)
			require.NoError(t, err)
			require.Equal(t, 3, n)
			require.EqualValues(t, unix.POLLIN|unix.POLLOUT, shows(t, fd), "there is more")
			_, err = io.ReadFull(a, p[:2])
			require.NoError(t, err)
			require.EqualValues(t, unix.POLLOUT, shows(t, fd))
		}

		sent := 0 // until there is no room, and there is
		for err = nil; err == nil; {
			var n int
			n, err = a.TryWrite(make([]byte, 10000))
			sent += n
		}
		require.Equal(t, syscall.EAGAIN, err)
		require.Zero(t, shows(t, fd)&unix.POLLOUT)
		require.Greater(t, sent, 100000)
		_, err = io.ReadFull(b, make([]byte, sent))
		require.NoError(t, err)
		require.EqualValues(t, unix.POLLOUT, polls(t, fd, unix.POLLOUT))

		require.NoError(t, a.SetReadDeadline(time.Unix(1, 0)))
		require.EqualValues(t, unix.POLLIN|unix.POLLOUT, shows(t, fd), "a Read would fail at once")
		_, err = a.TryRead(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.NoError(t, a.SetReadDeadline(time.Time{}))
		require.EqualValues(t, unix.POLLOUT, shows(t, fd))

		require.NoError(t, b.CloseWrite())
		require.EqualValues(t, unix.POLLIN|unix.POLLOUT|unix.POLLRDHUP, polls(t, fd, unix.POLLRDHUP))
		_, err = a.TryRead(make([]byte, 1))
		require.Equal(t, io.EOF, err)
		require.NoError(t, a.CloseWrite())
		require.EqualValues(t, allEvents|unix.POLLHUP, polls(t, fd, 0), "both have ended writing")
		_, err = a.TryWrite([]byte("x"))
		require.Error(t, err)
	})
}

// TestFDFails: a connection that fails hangs up, and is readable and writable, so that calls tell.
func TestFDFails(t *testing.T) {
	a, b := connected(t, "pipe", &Config{KeepAlive: 10 * time.Millisecond})
	fd, err := a.FD()
	require.NoError(t, err)
	require.NoError(t, b.qp.Close())
	require.EqualValues(t, allEvents|unix.POLLHUP, polls(t, fd, 0))
	require.Equal(t, Readable|Writable|Ended|HungUp, a.Readiness())
	_, err = a.TryRead(make([]byte, 1))
	require.ErrorIs(t, err, syscall.ETIMEDOUT)
	for _, writes := range []bool{true, false} { // a call is still leaving
		a.mu.Lock()
		a.wait.writer = writes
		a.show()
		a.mu.Unlock()
		require.EqualValues(t, allEvents|unix.POLLHUP, shows(t, fd))
	}
}

// TestFDCloses: who sleeps in poll while another closes hears of it.
func TestFDCloses(t *testing.T) {
	a, b := mute(t, nil) // so that Close waits
	fd, err := a.FD()
	require.NoError(t, err)
	closed := make(chan error)
	go func() { closed <- a.Close() }()
	require.NotZero(t, polls(t, fd, 0)&unix.POLLHUP)
	require.NoError(t, b.take(b.qp))
	require.NoError(t, <-closed)
	require.Equal(t, Readable|Writable|Ended|HungUp, a.Readiness())
	_, err = a.FD()
	require.ErrorIs(t, err, net.ErrClosed)
}

// TestFDEdges: who is told of edges alone hears of everything that comes, also while it has not
// read what came before.
func TestFDEdges(t *testing.T) {
	a, b := connected(t, "pipe")
	fd, err := a.FD()
	require.NoError(t, err)
	ep, err := unix.EpollCreate1(0)
	require.NoError(t, err)
	defer unix.Close(ep)
	require.NoError(t, unix.EpollCtl(ep, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET}))
	for range 3 * maxEdges {
		_, err = b.Write([]byte("x"))
		require.NoError(t, err)
		waitsFor(t, ep)
	}
	n, err := a.TryRead(make([]byte, 4*maxEdges))
	require.NoError(t, err)
	require.Equal(t, 3*maxEdges, n)
	require.Zero(t, shows(t, fd)&unix.POLLIN)
}

func waitsFor(t testing.TB, ep int) uint32 {
	t.Helper()
	var events [1]unix.EpollEvent
	for {
		if n, err := unix.EpollWait(ep, events[:], -1); err != unix.EINTR {
			require.NoError(t, err)
			require.Equal(t, 1, n)
			return events[0].Events
		}
	}
}

// TestFDWriterInside: while a call waits for room nobody else may write, and the descriptor says
// when one may.
func TestFDWriterInside(t *testing.T) {
	a, b := connected(t, "pipe")
	fd, err := a.FD()
	require.NoError(t, err)
	const size = 2 << 20
	wrote := make(chan error)
	go func() { _, err := a.Write(make([]byte, size)); wrote <- err }()
	_, err = io.ReadFull(b, make([]byte, 1))
	require.NoError(t, err)
	n, err := a.TryWrite([]byte("x"))
	require.Equal(t, syscall.EAGAIN, err)
	require.Zero(t, n)
	require.Zero(t, shows(t, fd)&unix.POLLOUT)
	_, err = io.ReadFull(b, make([]byte, size-1))
	require.NoError(t, err)
	require.NoError(t, <-wrote)
	polls(t, fd, unix.POLLOUT)
	_, err = a.TryWrite([]byte("x"))
	require.NoError(t, err)
}

// TestTry: calls that do not wait, without a descriptor: they take what has come themselves.
func TestTry(t *testing.T) {
	overWires(t, func(t *testing.T, wire string) {
		a, b := connected(t, wire, &Config{SendBuffer: 4096, ReceiveBuffer: 4096, KeepAlive: -1})
		p := make([]byte, 4096)
		_, err := a.TryRead(p)
		require.Equal(t, syscall.EAGAIN, err)
		n, err := a.TryRead(nil)
		require.NoError(t, err)
		require.Zero(t, n)
		for i := range 20 { // round the end of the ring
			want := bytes.Repeat([]byte{byte('a' + i)}, 700)
			for n, err = 0, syscall.EAGAIN; err == syscall.EAGAIN; { // until word of room has come
				n, err = a.TryWrite(want[:300], nil, want[300:])
			}
			require.NoError(t, err)
			want = want[:n]
			for n = 0; n < len(want); {
				if n, err = b.TryPeek(p); err != nil {
					require.Equal(t, syscall.EAGAIN, err)
				}
			}
			require.Equal(t, want, p[:n])
			n, err = b.TryRead(p)
			require.NoError(t, err)
			require.Equal(t, want, p[:n], "it was only looked at")
		}
		for err = nil; err == nil; {
			_, err = a.TryWrite(p[:1])
		}
		require.Equal(t, syscall.EAGAIN, err)
		require.Zero(t, a.Readiness()&Writable)
		for a.Readiness()&Writable == 0 {
			b.TryRead(p)
		}
		n, err = a.TryWrite(p)
		require.NoError(t, err)
		require.NotZero(t, n)
		require.NoError(t, a.CloseWrite())
		_, err = a.TryWrite(p)
		require.ErrorIs(t, err, syscall.EPIPE)
		for err = nil; err == nil || err == syscall.EAGAIN; {
			_, err = b.TryRead(p)
		}
		require.Equal(t, io.EOF, err)
		require.Equal(t, Readable|Writable|Ended, b.Readiness())
	})
}

// TestTryBesideReader: a call that waits for bytes is in nobody's way.
func TestTryBesideReader(t *testing.T) {
	a, b := connected(t, "pipe")
	read := make(chan error)
	go func() {
		_, err := io.ReadFull(a, make([]byte, 100))
		read <- err
	}()
	got := 0
	for range 100 {
		_, err := b.Write([]byte("xy"))
		require.NoError(t, err)
		n, err := a.TryRead(make([]byte, 1))
		if got += n; err != nil {
			require.Equal(t, syscall.EAGAIN, err)
		}
	}
	require.NoError(t, <-read)
	for ; got < 100; got++ {
		_, err := a.Read(make([]byte, 1))
		require.NoError(t, err)
	}
}

// allocations is how many a call of f makes, the least of a few tries: the runtime counts those of
// the whole process, in which devices open, watch and close beside f.
func allocations(f func()) float64 {
	least := testing.AllocsPerRun(100, f)
	for range 4 {
		least = min(least, testing.AllocsPerRun(100, f))
	}
	return least
}

// TestTryAllocatesNothing: neither a call that finds nothing or no room nor one that moves bytes.
func TestTryAllocatesNothing(t *testing.T) {
	if step.Raced {
		return // the race detector allocates
	}
	a, b := connected(t, "udp")
	p := make([]byte, 100)
	require.Zero(t, allocations(func() {
		for _, err := a.TryRead(p); err != syscall.EAGAIN; _, err = a.TryRead(p) {
		}
		if _, err := b.TryWrite(p[:10]); err != nil && err != syscall.EAGAIN {
			panic(err)
		}
	}))
}

// TestEventLoop: one thread has both ends of some connections in an epoll loop with edges, sends
// each way what it likes, and never waits in a call. Every byte arrives.
func TestEventLoop(t *testing.T) {
	overWires(t, func(t *testing.T, wire string) {
		ep, err := unix.EpollCreate1(0)
		require.NoError(t, err)
		defer unix.Close(ep)
		ends := map[int32]*looper{}
		rng := rand.New(rand.NewPCG(1, 2))
		for range 3 {
			a, b := connected(t, wire, &Config{SendBuffer: 8192, ReceiveBuffer: 8192, Depth: 16})
			x, y := &looper{Conn: a, left: 1 << 20}, &looper{Conn: b, left: 1 << 20}
			x.other, y.other = y, x
			for _, e := range []*looper{x, y} {
				fd, err := e.FD()
				require.NoError(t, err)
				ends[int32(fd)] = e
				require.NoError(t, unix.EpollCtl(ep, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{
					Events: unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET, Fd: int32(fd)}))
			}
		}
		for len(ends) > 0 {
			var events [16]unix.EpollEvent
			n, err := unix.EpollWait(ep, events[:], -1)
			if err != unix.EINTR {
				require.NoError(t, err)
			}
			for _, ev := range events[:max(n, 0)] {
				if e := ends[ev.Fd]; e != nil && e.turn(t, rng) {
					delete(ends, ev.Fd)
				}
			}
		}
	})
}

// looper is an end in TestEventLoop.
type looper struct {
	*Conn
	other     *looper
	left, got int
}

// turn does what can be done, and says whether all is over.
func (e *looper) turn(t *testing.T, rng *rand.Rand) bool {
	p := make([]byte, 1+rng.IntN(20000))
	for e.left > 0 {
		q := p[:min(len(p), e.left)]
		for i := range q {
			q[i] = byte(e.left - i)
		}
		n, err := e.TryWrite(q[:len(q)/2], q[len(q)/2:])
		if err == syscall.EAGAIN {
			break
		}
		require.NoError(t, err)
		if e.left -= n; e.left == 0 {
			require.NoError(t, e.CloseWrite())
		}
	}
	for {
		n, err := e.TryRead(p)
		if err == syscall.EAGAIN {
			return false
		}
		if err == io.EOF {
			require.Equal(t, 1<<20, e.got)
			return e.left == 0
		}
		require.NoError(t, err)
		for i := range n {
			require.Equal(t, byte(1<<20-e.got-i), p[i])
		}
		e.got += n
	}
}

// TestNobodyAsks: a connection whose descriptor nobody has asked for has none, and no goroutine.
func TestNobodyAsks(t *testing.T) {
	a, _ := connected(t, "pipe")
	a.Readiness()
	a.mu.Lock()
	defer a.mu.Unlock()
	require.Nil(t, a.signs)
	require.Zero(t, a.users)
	require.Equal(t, stream.Open, a.end.State())
}

// TestSocketFD: an event loop connects and accepts. The descriptor of who connects is the
// connection's afterwards.
func TestSocketFD(t *testing.T) {
	overWires(t, func(t *testing.T, wire string) {
		a, b, _, ofB := sockets(t, wire)
		l, to := listens(t, b, ofB)
		accepts, err := l.FD()
		require.NoError(t, err)
		fd, err := a.FD()
		require.NoError(t, err)
		require.Zero(t, shows(t, fd))
		require.Zero(t, shows(t, accepts)&unix.POLLIN)
		require.NoError(t, a.Connect(to))
		require.EqualValues(t, unix.POLLOUT, polls(t, fd, unix.POLLOUT))
		c, err := a.Conn()
		require.NoError(t, err)
		defer c.Close()
		same, err := c.FD()
		require.NoError(t, err)
		require.Equal(t, fd, same)
		require.EqualValues(t, unix.POLLIN, polls(t, accepts, unix.POLLIN)&unix.POLLIN)
		s, err := l.TryAccept()
		require.NoError(t, err)
		defer s.Close()
		require.Zero(t, shows(t, accepts)&unix.POLLIN)
		_, err = s.Write([]byte("words"))
		require.NoError(t, err)
		polls(t, fd, unix.POLLIN)
		n, err := c.TryRead(make([]byte, 10))
		require.NoError(t, err)
		require.Equal(t, 5, n)
	})
}

// TestSocketFDEnds: who sleeps in poll hears that there is no connection.
func TestSocketFDEnds(t *testing.T) {
	a, b, _, ofB := sockets(t, "pipe")
	l, _ := listens(t, b, ofB)
	fd, err := a.FD()
	require.NoError(t, err)
	require.NoError(t, a.Connect(netip.AddrPortFrom(ofB.Addr(), 1)))
	require.EqualValues(t, allEvents|unix.POLLHUP, polls(t, fd, 0))
	_, err = a.Conn()
	require.ErrorIs(t, err, syscall.ECONNREFUSED)

	require.NoError(t, l.Close())
	_, err = l.FD()
	require.ErrorIs(t, err, net.ErrClosed)
}

// TestFDIsClosedByClose: also where Close does not wait, and the connection lingers.
func TestFDIsClosedByClose(t *testing.T) {
	a, b := mute(t, &Config{Linger: -1})
	released := make(chan error)
	a.hangUp = func(time.Time) error {
		released <- errors.Join(a.qp.Close(), a.free())
		return nil
	}
	fd, err := a.FD()
	require.NoError(t, err)
	require.NoError(t, a.Close())
	_, err = unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	require.Equal(t, unix.EBADF, err)
	require.NoError(t, b.take(b.qp))
	require.NoError(t, <-released)
}
