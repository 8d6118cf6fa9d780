package main

// Sockets of librdmacm.so.1: those of package rsocket, and of each how far it is. What a program
// has set C keeps, and tells before each call that it counts for. Bytes are in rsocket_data.go,
// datagrams in rsocket_datagram.go.
//
// Stages: a socket of C's; configured, bound; listening and accepting. What becomes of it then is
// in rsocket_connect.go.

// #include "rsocket.h"
import "C"

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/roce/rsocket"
)

// streamSocket is a socket of streams: one that is to be something, a listener or a connection.
type streamSocket struct {
	domain int

	// set when it is connected, and for ever
	conn atomic.Pointer[rsocket.Conn]

	mu       sync.Mutex
	options  C.struct_goroce_rs_options
	sock     *rsocket.Socket
	begun    bool // rconnect was called, and what comes of it is not known
	listener *rsocket.Listener
	accepts  *acceptance   // of the listener
	failure  syscall.Errno // for SO_ERROR
	failed   bool          // it could not be connected
	closed   bool
	shown    int  // the descriptor whose duplicate C's number is; 0: none
	sleepers int  // calls of C that sleep on it
	watched  bool // the connection thinks so

	// of one call at a time, which C sees to
	pieces [][]byte
	maps   []exposed
}

// acceptance says what connections of a listener are like, from the first call that waits for one
// on, or soon: a program may still set it when it listens already, or may first wait for its own
// connection, which needs no raccept with TCP.
type acceptance struct {
	config atomic.Pointer[rsocket.Config]
	once   sync.Once
	begins chan struct{}
}

const soon = time.Second

func (a *acceptance) begin() { a.once.Do(func() { close(a.begins) }) }

func (a *acceptance) next() rsocket.Config {
	select {
	case <-a.begins:
	case <-time.After(soon):
		a.begin()
	}
	return *a.config.Load()
}

//export goroce_rs_open
func goroce_rs_open(domain, typ C.int, out *C.uint32_t) C.int {
	if typ == unix.SOCK_DGRAM {
		d := &datagramSocket{domain: int(domain)}
		return made(nil, d, d.close, out)
	}
	s := &streamSocket{domain: int(domain), sock: new(rsocket.Socket)}
	return made(nil, s, s.close, out)
}

// configOf is the Config that a program has set.
func configOf(o *C.struct_goroce_rs_options) rsocket.Config {
	c := rsocket.Config{SendBuffer: int(o.send_buffer), ReceiveBuffer: int(o.receive_buffer), Depth: int(o.depth),
		Maps: int(o.maps), KeepAlive: time.Duration(o.keepalive) * time.Second}
	switch {
	case o.linger == 0:
		c.Linger = time.Nanosecond // what is not there yet is given up
	case o.linger > 0:
		c.Linger = time.Duration(o.linger) * time.Second
	}
	return c
}

func optionsOf(o *C.struct_goroce_rs_options) rsocket.Options {
	devices := cmConfig()
	return rsocket.Options{Config: configOf(o), Devices: devices.Devices, Open: devices.Open}
}

// goroce_rs_configure tells what a program has set by now.
//
//export goroce_rs_configure
func goroce_rs_configure(h C.uint32_t, o *C.struct_goroce_rs_options) C.int {
	switch s, _ := find[any](handle(h)); s := s.(type) {
	case *datagramSocket:
		s.configure(o)
	case *streamSocket:
		s.mu.Lock()
		defer s.mu.Unlock()
		s.configure(o)
	default:
		return C.int(unix.EBADF)
	}
	return 0
}

// configure has what was set count. The caller has mu.
func (s *streamSocket) configure(o *C.struct_goroce_rs_options) {
	s.options = *o
	config := configOf(o)
	if c := s.conn.Load(); c != nil {
		if o.keepalive != 0 {
			c.SetKeepAlive(config.KeepAlive)
		}
		if config.Linger != 0 {
			c.SetLinger(config.Linger)
		}
		return
	}
	if s.accepts != nil {
		s.accepts.config.Store(&config)
	}
	if !s.begun && s.listener == nil {
		s.sock.Options, s.sock.ReuseAddr, s.sock.V6Only = optionsOf(o), o.reuse_addr != 0, o.v6only != 0
	}
}

// streamOf is the socket of a handle.
func streamOf(h C.uint32_t) (*streamSocket, C.int) {
	s, ok := find[*streamSocket](handle(h))
	if !ok {
		return nil, C.int(unix.EBADF)
	}
	return s, 0
}

// local is an address that a program has given, for a socket of the domain.
func local(domain int, addr unsafe.Pointer, length C.socklen_t) (netip.AddrPort, C.int) {
	least := map[int]C.socklen_t{unix.AF_INET: unix.SizeofSockaddrInet4, unix.AF_INET6: unix.SizeofSockaddrInet6}
	if length < 2 || addr == nil {
		return netip.AddrPort{}, invalid
	}
	family := int(*(*uint16)(addr))
	if least[family] == 0 || domain == unix.AF_INET && family != domain {
		return netip.AddrPort{}, C.int(unix.EAFNOSUPPORT)
	}
	if length < least[family] {
		return netip.AddrPort{}, invalid
	}
	return addressOf(addr)
}

//export goroce_rs_bind
func goroce_rs_bind(h C.uint32_t, addr unsafe.Pointer, length C.socklen_t) C.int {
	if d, ok := find[*datagramSocket](handle(h)); ok {
		return d.bind(addr, length)
	}
	s, no := streamOf(h)
	if no != 0 {
		return no
	}
	at, no := local(s.domain, addr, length)
	if no != 0 {
		return no
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return rsErrno(s.sock.Bind(at))
}

//export goroce_rs_listen
func goroce_rs_listen(h C.uint32_t, backlog C.int) C.int {
	s, no := streamOf(h)
	if no != 0 {
		return no
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener != nil {
		return 0
	}
	if s.sock.LocalAddr() == nil && s.domain == unix.AF_INET && !s.begun {
		if err := s.sock.Bind(unbound); err != nil {
			return rsErrno(err)
		}
	}
	a := &acceptance{begins: make(chan struct{})}
	config := configOf(&s.options)
	a.config.Store(&config)
	s.sock.Backlog, s.sock.Accepting = max(int(backlog), 0), a.next
	l, err := s.sock.Listen()
	if err != nil {
		return rsErrno(err)
	}
	s.listener, s.accepts = l, a
	say("listens on", l.Addr())
	return 0
}

// goroce_rs_accept takes a connection, and says where it is from. EAGAIN: there is none.
//
//export goroce_rs_accept
func goroce_rs_accept(h C.uint32_t, out *C.uint32_t) C.int {
	s, no := streamOf(h)
	if no != 0 {
		return no
	}
	s.mu.Lock()
	l, a, options := s.listener, s.accepts, s.options
	s.mu.Unlock()
	if l == nil {
		return invalid
	}
	a.begin()
	c, err := l.TryAccept()
	if err != nil {
		return rsErrno(err)
	}
	child := &streamSocket{domain: s.domain, options: options}
	child.conn.Store(c)
	return made(nil, child, child.close, out)
}
