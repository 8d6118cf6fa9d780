package ends

// Sending over many TCP connections at once, as a program does that is good at it: one thread at
// each end, which epoll tells where there is something to do. It is what our queue pairs are held
// against where iperf3 ends, at 128 connections.
//
// Stages: the server takes all connections; the client writes one message after the other to each
// connection that has room, until its time is up; the server reads whatever is there, until all
// have ended, and prints what it received.

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// most is how much is read at once, and how many connections epoll tells of at once.
	most = 64 << 10
	told = 256
)

// many is an end. The server has the Result.
func (t *Task) many(context.Context) (*Result, error) {
	if t.Sends {
		return nil, t.send()
	}
	return t.receive()
}

// address is that of an end's listener.
func address(a netip.Addr) unix.Sockaddr { return &unix.SockaddrInet4{Port: ManyPort, Addr: a.As4()} }

func socket() (int, error) { return unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0) }

// watch has epoll tell of events of a connection, which no longer blocks.
func watch(epoll, fd int, events uint32) error {
	return errors.Join(unix.SetNonblock(fd, true),
		unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)}))
}

// send is the client.
func (t *Task) send() error {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(epoll)
	for i := range t.Connections {
		fd, err := socket()
		if err == nil {
			defer unix.Close(fd)
			err = unix.Connect(fd, address(t.Peer))
		}
		if err == nil {
			err = watch(epoll, fd, unix.EPOLLOUT)
		}
		if err != nil {
			return fmt.Errorf("connection %d: %w", i, err)
		}
	}
	message, events := make([]byte, t.Size), make([]unix.EpollEvent, told)
	for start := time.Now(); time.Since(start) < t.Duration; {
		n, err := unix.EpollWait(epoll, events, -1)
		if err != nil && err != unix.EINTR {
			return err
		}
		for _, e := range events[:max(n, 0)] {
			if _, err := unix.Write(int(e.Fd), message); err != nil && err != unix.EAGAIN {
				return err
			}
		}
	}
	return nil
}

// receive is the server.
func (t *Task) receive() (*Result, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	defer unix.Close(epoll)
	if err := t.accept(epoll); err != nil {
		return nil, err
	}
	var first, last time.Time
	var r Result
	buf, events := make([]byte, most), make([]unix.EpollEvent, told)
	for open := t.Connections; open > 0; {
		n, err := unix.EpollWait(epoll, events, -1)
		if err != nil && err != unix.EINTR {
			return nil, err
		}
		last = time.Now()
		if first.IsZero() {
			first = last
		}
		for _, e := range events[:max(n, 0)] {
			n, err := unix.Read(int(e.Fd), buf)
			switch {
			case n > 0:
				r.Bytes += uint64(n)
			case err == unix.EAGAIN || err == unix.EINTR:
			case n == 0 || err == unix.ECONNRESET:
				unix.Close(int(e.Fd))
				open--
			default:
				return nil, err
			}
		}
	}
	if r.Bytes == 0 {
		return nil, errors.New("many: nothing has come")
	}
	r.Seconds = last.Sub(first).Seconds()
	return &r, nil
}

// accept takes all connections and has epoll watch them.
func (t *Task) accept(epoll int) error {
	l, err := socket()
	if err != nil {
		return err
	}
	defer unix.Close(l)
	if err := errors.Join(unix.SetsockoptInt(l, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1), unix.Bind(l, address(t.Local)),
		unix.Listen(l, t.Connections)); err != nil {
		return err
	}
	for range t.Connections {
		fd, _, err := unix.Accept4(l, unix.SOCK_CLOEXEC)
		if err == nil {
			err = watch(epoll, fd, unix.EPOLLIN)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
