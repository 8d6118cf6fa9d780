package ends

// TCP: a connection for the stream and one for the small messages, which do not wait for more to
// send. Both are read and written without blocking and by system calls alone; the runtime's poller
// is not in the way.

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// sockets are the two connections of an end.
type sockets struct{ bulk, small int }

func (s *sockets) close() {
	unix.Close(s.bulk)
	unix.Close(s.small)
}

// both makes the two connections one after the other, so that the ends tell them apart by their
// order.
func both(connect func() (net.Conn, error)) (s sockets, err error) {
	if s.bulk, err = one(connect); err != nil {
		return s, err
	}
	if s.small, err = one(connect); err != nil {
		unix.Close(s.bulk)
	}
	return s, err
}

// one makes a connection and takes it away from the runtime.
func one(connect func() (net.Conn, error)) (fd int, err error) {
	c, err := connect()
	if err != nil {
		return 0, err
	}
	defer c.Close()
	raw, err := c.(*net.TCPConn).SyscallConn() // it has TCP_NODELAY, as Go's connections do
	if err != nil {
		return 0, err
	}
	var failed error
	err = raw.Control(func(runtimes uintptr) { fd, failed = unix.FcntlInt(runtimes, unix.F_DUPFD_CLOEXEC, 0) })
	return fd, errors.Join(err, failed)
}

// moved makes of a read or write how much it moved, which is nothing if it would have had to wait.
func moved(n int, err error) (int, error) {
	switch {
	case err == unix.EAGAIN || err == unix.EINTR:
		return 0, nil
	case err == nil && n == 0:
		return 0, io.EOF
	}
	return n, err
}

func tcpClient(t *Task) (*gauge, error) {
	s, err := both(func() (net.Conn, error) {
		return net.DialTimeout("tcp", netip.AddrPortFrom(t.Peer, LoadedPort).String(), time.Minute)
	})
	if err != nil {
		return nil, err
	}
	defer s.close()
	chunk, message := make([]byte, bulkSize), make([]byte, smallSize)
	written, underWay := 0, false
	for g := newGauge(t.Duration); ; {
		n, err := moved(unix.Write(s.bulk, chunk))
		if err != nil {
			return nil, err
		}
		written += n
		if !underWay {
			g.leaves()
			// There is always room for a single message.
			if _, err := unix.Write(s.small, message); err != nil {
				return nil, err
			}
			underWay = true
		}
		if n, err = moved(unix.Read(s.small, message)); err != nil {
			return nil, err
		}
		if n > 0 {
			g.answered()
			underWay = false
		}
		unacknowledged, err := unix.IoctlGetInt(s.bulk, unix.SIOCOUTQ)
		if err != nil {
			return nil, err
		}
		if !g.goesOn(uint64(written - unacknowledged)) {
			return g, nil
		}
	}
}

// tcpServer takes the stream and returns the small messages until the client leaves.
func tcpServer(t *Task) (*gauge, error) {
	l, err := net.Listen("tcp", netip.AddrPortFrom(t.Local, LoadedPort).String())
	if err != nil {
		return nil, err
	}
	s, err := both(l.Accept)
	l.Close()
	if err != nil {
		return nil, err
	}
	defer s.close()
	chunk, message := make([]byte, bulkSize), make([]byte, smallSize)
	for {
		n, err := moved(unix.Read(s.small, message))
		if n > 0 {
			_, err = unix.Write(s.small, message[:n])
		}
		if err == nil {
			_, err = moved(unix.Read(s.bulk, chunk))
		}
		// The peer stops amid the stream.
		if err == io.EOF || err == unix.ECONNRESET || err == unix.EPIPE {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
	}
}
