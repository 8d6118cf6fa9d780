//go:build unix

package costs

// Messages over sockets, by one read and one write each: an end that sleeps is parked by Go's
// runtime, which has one epoll for all sockets; one that polls reads a socket that does not block
// again and again.

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// spins is how many reads that find nothing pass between two looks at the context.
const spins = 256

// patience is how long the answer to a datagram may take before it counts as lost.
const patience = time.Second

// socket is an end: a connection whose file descriptor is read and written directly.
type socket struct {
	*side
	polls    bool
	datagram bool
	listener *net.TCPListener // TCP: of the server until the client has come
	conn     interface {
		syscall.Conn
		io.Closer
		SetReadDeadline(time.Time) error
		LocalAddr() net.Addr
	}
	raw     syscall.RawConn
	stop    []func() bool // what interruptible has begun
	out, in []byte

	// of one call of read or write, whose closures are made once
	buf        []byte
	n          int
	errno      error
	tryR, tryW func(fd uintptr) bool
	idle       int
	asked      time.Time
}

func newSocket(s *side, w way) *socket {
	k := &socket{side: s, polls: w.Waits == polling, out: make([]byte, s.size), in: make([]byte, s.size)}
	k.tryR = func(fd uintptr) bool {
		k.n, k.errno = unix.Read(int(fd), k.buf)
		return k.polls || k.errno != unix.EAGAIN
	}
	k.tryW = func(fd uintptr) bool {
		k.n, k.errno = unix.Write(int(fd), k.buf)
		return k.errno != unix.EAGAIN
	}
	return k
}

func openUDP(s *side, w way) (end, error) {
	if err := s.fitsDatagram(); err != nil {
		return nil, err
	}
	k := newSocket(s, w)
	k.datagram = true
	addr, err := netip.ParseAddr(s.local)
	if err != nil {
		return nil, err
	}
	c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, 0)))
	if err != nil {
		return nil, err
	}
	k.conn = c
	k.raw, err = c.SyscallConn()
	return k, err
}

func openTCP(s *side, w way) (end, error) {
	k := newSocket(s, w)
	if s.client {
		return k, nil
	}
	addr, err := netip.ParseAddr(s.local)
	if err != nil {
		return nil, err
	}
	k.listener, err = net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(addr, 0)))
	return k, err
}

func (k *socket) own() place {
	switch {
	case k.datagram:
		return place{Port: k.conn.LocalAddr().(*net.UDPAddr).Port}
	case k.listener != nil:
		return place{Port: k.listener.Addr().(*net.TCPAddr).Port}
	}
	return place{}
}

func (k *socket) meet(ctx context.Context, peer place) error {
	to, err := netip.ParseAddr(k.remote)
	if err != nil {
		return err
	}
	switch {
	case k.datagram:
		k.interruptible(ctx)
		return k.connect(netip.AddrPortFrom(to, uint16(peer.Port)))
	case !k.client:
		return nil // the client comes after the reply: accept in answer
	}
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", netip.AddrPortFrom(to, uint16(peer.Port)).String())
	if err != nil {
		return err
	}
	return k.take(ctx, c.(*net.TCPConn))
}

// connect makes the kernel send and take datagrams of one peer only.
func (k *socket) connect(to netip.AddrPort) (err error) {
	var at unix.Sockaddr
	if to.Addr().Is4() {
		at = &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}
	} else {
		at = &unix.SockaddrInet6{Port: int(to.Port()), Addr: to.Addr().As16()}
	}
	if e := k.raw.Control(func(fd uintptr) { err = unix.Connect(int(fd), at) }); e != nil {
		return e
	}
	return os.NewSyscallError("connect", err)
}

// take makes a connection the one to use; Go has turned Nagle's delay off.
func (k *socket) take(ctx context.Context, c *net.TCPConn) (err error) {
	k.conn = c
	k.interruptible(ctx)
	k.raw, err = c.SyscallConn()
	return err
}

// write sends all of k.out.
func (k *socket) write() error {
	for k.buf = k.out; len(k.buf) > 0; k.buf = k.buf[k.n:] {
		if err := k.raw.Write(k.tryW); err != nil {
			return err
		}
		if k.errno != nil {
			return os.NewSyscallError("write", k.errno)
		}
	}
	return nil
}

// errLate is the end of the patience with a datagram.
var errLate = errors.New("no datagram came")

// read takes one message into k.in.
func (k *socket) read(ctx context.Context) error {
	for k.buf = k.in; len(k.buf) > 0; {
		if err := k.raw.Read(k.tryR); err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if k.datagram && errors.Is(err, os.ErrDeadlineExceeded) {
				return errLate
			}
			return err
		}
		switch {
		case k.errno == unix.EAGAIN:
			if err := k.nothing(ctx); err != nil {
				return err
			}
			continue
		case k.errno != nil:
			return os.NewSyscallError("read", k.errno)
		case k.datagram:
			return nil
		case k.n == 0:
			return io.EOF
		}
		k.buf = k.buf[k.n:]
	}
	return nil
}

// nothing counts reads that found nothing and now and then looks at the clock and the context.
func (k *socket) nothing(ctx context.Context) error {
	if k.idle++; k.idle%spins != 0 {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if k.client && k.datagram && time.Since(k.asked) > patience {
		return errLate
	}
	return nil
}

func (k *socket) ask(ctx context.Context, i int) (lost bool, err error) {
	binary.BigEndian.PutUint64(k.out, uint64(i))
	if k.datagram {
		k.asked = time.Now()
		if !k.polls {
			k.conn.SetReadDeadline(k.asked.Add(patience))
		}
	}
	if err := k.write(); err != nil {
		return false, err
	}
	for {
		err := k.read(ctx)
		switch {
		case errors.Is(err, errLate):
			return true, nil
		case err != nil:
			return false, err
		case binary.BigEndian.Uint64(k.in) == uint64(i): // not one that was late
			return false, nil
		}
	}
}

func (k *socket) answer(ctx context.Context) error {
	if k.listener != nil {
		defer context.AfterFunc(ctx, func() { k.listener.SetDeadline(time.Unix(1, 0)) })()
		c, err := k.listener.AcceptTCP()
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			err = k.take(ctx, c)
		}
		if err != nil {
			return err
		}
	}
	if k.datagram {
		k.interruptible(ctx)
	}
	for {
		err := k.read(ctx)
		if ctx.Err() != nil || err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		copy(k.out, k.in)
		if err := k.write(); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// interruptible wakes whoever sleeps in read when the context ends. Who polls looks at it anyway.
func (k *socket) interruptible(ctx context.Context) {
	if !k.polls {
		k.stop = append(k.stop, context.AfterFunc(ctx, func() { k.conn.SetReadDeadline(time.Unix(1, 0)) }))
	}
}

func (k *socket) close() error {
	var errs []error
	for _, stop := range k.stop {
		stop()
	}
	if k.listener != nil {
		errs = append(errs, k.listener.Close())
	}
	if k.conn != nil {
		errs = append(errs, k.conn.Close())
	}
	return errors.Join(errs...)
}
