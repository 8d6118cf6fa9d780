package main

// What a socket becomes: connected, shut down, closed; what is asked of it; and what an error is.
//
// Stages: connecting, and what came of it; shut down, closed; names; errors.

// #include "rsocket.h"
import "C"

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/rsocket"
)

// goroce_rs_connect begins to connect. EINPROGRESS: that has begun, now or before.
//
//export goroce_rs_connect
func goroce_rs_connect(h C.uint32_t, addr unsafe.Pointer, length C.socklen_t) C.int {
	if d, ok := find[*datagramSocket](handle(h)); ok {
		return d.connect(addr, length)
	}
	s, no := streamOf(h)
	if no != 0 {
		return no
	}
	to, no := local(s.domain, addr, length)
	if no != 0 {
		return no
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.conn.Load() != nil:
		return C.int(unix.EISCONN)
	case s.listener != nil:
		return invalid
	case s.begun:
		return s.decide()
	}
	s.failed = false
	s.configure(&s.options)
	if err := s.sock.Connect(to); err != nil {
		return rsErrno(err)
	}
	s.begun = true
	return C.int(unix.EINPROGRESS)
}

// goroce_rs_connected says what came of it. EINPROGRESS: that is not known after so many ms.
//
//export goroce_rs_connected
func goroce_rs_connected(h C.uint32_t, waits C.int) C.int {
	s, no := streamOf(h)
	if no != 0 {
		return no
	}
	s.mu.Lock()
	if s.begun && waits > 0 {
		done := s.sock.Done()
		s.mu.Unlock()
		late := time.NewTimer(milliseconds(waits))
		select {
		case <-done:
		case <-late.C:
		}
		late.Stop()
		s.mu.Lock()
	}
	defer s.mu.Unlock()
	if s.conn.Load() != nil {
		return 0
	}
	return s.decide()
}

// decide takes what came of connecting, if that is known. The caller has mu.
func (s *streamSocket) decide() C.int {
	switch {
	case s.closed:
		return C.int(unix.EBADF)
	case !s.begun:
		return C.int(unix.ENOTCONN)
	}
	c, err := s.sock.Conn()
	switch {
	case err == syscall.EAGAIN:
		return C.int(unix.EINPROGRESS)
	case err != nil:
		no := rsErrno(err)
		s.failure, s.failed, s.begun = syscall.Errno(no), true, false
		s.sock.Close() // who sleeps on the descriptor hears of it
		s.sock, s.shown = new(rsocket.Socket), 0
		return no
	}
	s.begun, s.watched = false, s.shown != 0
	s.conn.Store(c)
	s.configure(&s.options)
	return 0
}

// connOf is the connection of a socket. EAGAIN: it is being made.
func connOf(h C.uint32_t) (*streamSocket, *rsocket.Conn, C.int) {
	s, no := streamOf(h)
	if no != 0 {
		return nil, nil, no
	}
	if c := s.conn.Load(); c != nil {
		return s, c, 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if no := s.decide(); no == C.int(unix.EINPROGRESS) {
		return nil, nil, C.int(unix.EAGAIN)
	} else if no != 0 {
		return nil, nil, no
	}
	return s, s.conn.Load(), 0
}

// goroce_rs_shutdown ends reading, writing, or both. What is no connection has nothing to end.
//
//export goroce_rs_shutdown
func goroce_rs_shutdown(h C.uint32_t, how C.int) C.int {
	if _, ok := find[*datagramSocket](handle(h)); ok {
		return 0
	}
	_, c, no := connOf(h)
	switch {
	case no == C.int(unix.EBADF):
		return no
	case no != 0:
		return 0
	}
	var errs [2]error
	if how != unix.SHUT_WR {
		errs[0] = c.CloseRead()
	}
	if how != unix.SHUT_RD {
		errs[1] = c.CloseWrite()
	}
	return rsErrno(errors.Join(errs[:]...))
}

// goroce_rs_close ends a socket. What was written still arrives, unless the program does not want
// to linger; that it is not known is no error of rclose.
//
//export goroce_rs_close
func goroce_rs_close(h C.uint32_t) C.int {
	object, ok := find[closer](handle(h))
	if !ok {
		return C.int(unix.EBADF)
	}
	drop(handle(h))
	if err := object.Close(); err != nil && verbose {
		fmt.Fprintln(os.Stderr, "goroce:", err)
	}
	return 0
}

// closeSockets closes all that are left, for a process that ends, as the kernel does with those of
// TCP, and says whether there were any.
func closeSockets() (some bool) {
	var closing sync.WaitGroup
	for s := range all[*streamSocket] {
		some = true
		closing.Go(func() { s.close() })
	}
	for d := range all[*datagramSocket] { // the first to somebody may wait for its way
		some = true
		closing.Go(func() { d.close() })
	}
	closing.Wait()
	return some
}

// Close is close.
func (s *streamSocket) Close() error { return s.close() }

func (s *streamSocket) close() error {
	s.mu.Lock()
	c, l, sock := s.conn.Load(), s.listener, s.sock
	if s.closed {
		c, l, sock = nil, nil, nil
	}
	s.closed = true
	if s.accepts != nil {
		s.accepts.begin()
	}
	s.mu.Unlock()
	switch {
	case c != nil:
		return c.Close()
	case l != nil:
		return l.Close()
	case sock != nil:
		return sock.Close()
	}
	return nil
}

// goroce_rs_name is the address of this end, or of the other. ENOTCONN: there is none.
//
//export goroce_rs_name
func goroce_rs_name(h C.uint32_t, peer C.int, out *C.struct_sockaddr_storage) C.int {
	var a net.Addr
	switch s, _ := find[any](handle(h)); s := s.(type) {
	case *datagramSocket:
		a = s.name(peer != 0)
	case *streamSocket:
		_, c, _ := connOf(h)
		s.mu.Lock()
		defer s.mu.Unlock()
		switch {
		case c != nil && peer != 0:
			a = c.RemoteAddr()
		case c != nil:
			a = c.LocalAddr()
		case peer != 0:
		case s.listener != nil:
			a = s.listener.Addr()
		default:
			a = s.sock.LocalAddr()
		}
	default:
		return C.int(unix.EBADF)
	}
	at, ok := a.(*rsocket.Addr)
	if !ok || at == nil {
		return C.int(unix.ENOTCONN)
	}
	setAddress(unsafe.Pointer(out), netip.AddrPortFrom(at.AddrPort().Addr().Unmap(), at.AddrPort().Port()))
	return 0
}

// goroce_rs_status tells the errno of SO_ERROR, once, or how many bytes a packet has.
//
//export goroce_rs_status
func goroce_rs_status(h C.uint32_t, option C.int, value *C.int) C.int {
	s, ok := find[*streamSocket](handle(h))
	if !ok {
		*value = 0
		return 0
	}
	_, c, _ := connOf(h)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case option == C.GOROCE_RS_ERROR:
		*value = C.int(s.failure)
		s.failure = 0
	case c != nil:
		*value = C.int(c.Device().QueryPort().ActiveMTU.Bytes())
	default:
		return C.int(unix.ENOTCONN)
	}
	return 0
}

// rsErrno is the number of an error of a socket's. It differs from that of a verb's where the error
// has an errno in it, as those of package rsocket have; and what ends writing is ECONNRESET, as
// rsockets have no SIGPIPE.
func rsErrno(err error) C.int {
	var no syscall.Errno
	switch {
	case err == nil || err == io.EOF:
		return 0
	case err == syscall.EAGAIN:
		return C.int(unix.EAGAIN)
	case errors.Is(err, net.ErrClosed), errors.Is(err, rdmacm.ErrClosed):
		return C.int(unix.EBADF)
	}
	shown := errno(err) // which prints it
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return C.int(unix.ECONNREFUSED)
	case errors.As(err, &no) && no == syscall.EPIPE:
		return C.int(unix.ECONNRESET)
	case no != 0:
		return C.int(no)
	case errors.Is(err, rsocket.ErrProtocol):
		return C.int(unix.EPROTO)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return C.int(unix.ETIMEDOUT)
	}
	return shown
}
