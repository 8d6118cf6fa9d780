package main

// Sockets of datagrams of librdmacm.so.1, over rsocket.PacketConn. One is opened when its address
// is known: by rbind, or for any by the first call that sends.
//
// Stages: opened, bound, connected; datagrams come and go; sleeping, closing.

// #include "rsocket.h"
import "C"

import (
	"net"
	"net/netip"
	"runtime"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/roce/rsocket"
)

// datagramSocket is a socket of datagrams.
type datagramSocket struct {
	domain int

	mu      sync.Mutex
	options C.struct_goroce_rs_options
	packets *rsocket.PacketConn // nil: it is not open
	to      netip.AddrPort      // where what has no address goes
	shown   int
	closed  bool

	// A datagram that was looked at, and not taken.
	held   []byte
	from   netip.AddrPort
	peeked bool

	out []byte // what several pieces are together
}

// longest is how many bytes a datagram has at most: what no packet has room for is refused below.
const longest = 16 << 10

func (d *datagramSocket) configure(o *C.struct_goroce_rs_options) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.options = *o
}

// open opens it at an address. The caller has mu.
func (d *datagramSocket) open(at netip.AddrPort) C.int {
	switch {
	case d.closed:
		return C.int(unix.EBADF)
	case d.packets != nil:
		return invalid
	}
	options := optionsOf(&d.options)
	p, err := rsocket.ListenPacket(bg, at.String(), &options)
	d.packets = p
	return rsErrno(err)
}

// opened is its PacketConn; one that was not bound gets any port.
func (d *datagramSocket) opened() (*rsocket.PacketConn, C.int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.packets == nil {
		at := unbound
		if d.domain == unix.AF_INET6 {
			at = netip.AddrPortFrom(netip.IPv6Unspecified(), 0)
		}
		if no := d.open(at); no != 0 {
			return nil, no
		}
	}
	return d.packets, 0
}

func (d *datagramSocket) bind(addr unsafe.Pointer, length C.socklen_t) C.int {
	at, no := local(d.domain, addr, length)
	if no != 0 {
		return no
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.open(at)
}

func (d *datagramSocket) connect(addr unsafe.Pointer, length C.socklen_t) C.int {
	to, no := local(d.domain, addr, length)
	if no == 0 {
		_, no = d.opened()
	}
	if no != 0 {
		return no
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.to = to
	return 0
}

// name is its address, or that which it is connected to; nil: there is none.
func (d *datagramSocket) name(peer bool) net.Addr {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case peer && d.to.IsValid():
		return &rsocket.Addr{TCPAddr: *net.TCPAddrFromAddrPort(d.to)}
	case !peer && d.packets != nil:
		return d.packets.LocalAddr()
	}
	return nil
}

// tries is how often a call looks for a datagram before it says that there is none.
const tries = 64

// goroce_rs_recvfrom takes a datagram, or looks at it, and says where it is from. EAGAIN: there is
// none.
//
//export goroce_rs_recvfrom
func goroce_rs_recvfrom(h C.uint32_t, v *C.struct_iovec, n, peek C.int, from *C.struct_sockaddr_storage,
	got *C.size_t) C.int {
	d, ok := find[*datagramSocket](handle(h))
	if !ok {
		return C.int(unix.EBADF)
	}
	p, no := d.opened()
	if no != 0 {
		return no
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.held == nil {
		d.held = make([]byte, 0, longest)
	}
	for i := 0; !d.peeked; i++ {
		k, at, err := p.TryReadFrom(d.held[:longest])
		if err == nil {
			d.held, d.from, d.peeked = d.held[:k], at, true
		} else if err != syscall.EAGAIN || i == tries {
			return rsErrno(err)
		} else {
			d.mu.Unlock()
			runtime.Gosched()
			d.mu.Lock()
		}
	}
	rest := d.held
	for _, piece := range unsafe.Slice(v, int(n)) {
		to, ok := memoryOf(piece.iov_base, piece.iov_len)
		if !ok {
			return C.int(unix.EFAULT)
		}
		rest = rest[copy(to, rest):]
	}
	*got = C.size_t(len(d.held) - len(rest))
	if from != nil {
		setAddress(unsafe.Pointer(from), d.from)
	}
	d.peeked = peek != 0
	return 0
}

// goroce_rs_sendto sends a datagram to an address, or to where the socket is connected. It waits
// for no other than packets before it that leave.
//
//export goroce_rs_sendto
func goroce_rs_sendto(h C.uint32_t, v *C.struct_iovec, n C.int, addr unsafe.Pointer, length C.socklen_t) C.int {
	d, ok := find[*datagramSocket](handle(h))
	if !ok {
		return C.int(unix.EBADF)
	}
	p, no := d.opened()
	if no != 0 {
		return no
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	to := d.to
	if addr != nil {
		if to, no = local(d.domain, addr, length); no != 0 {
			return no
		}
	}
	if !to.IsValid() {
		return C.int(unix.EDESTADDRREQ)
	}
	d.out = d.out[:0]
	for _, piece := range unsafe.Slice(v, int(n)) {
		from, ok := memoryOf(piece.iov_base, piece.iov_len)
		switch {
		case !ok:
			return C.int(unix.EFAULT)
		case len(d.out)+len(from) > longest:
			return C.int(unix.EMSGSIZE)
		}
		d.out = append(d.out, from...)
	}
	for {
		_, err := p.TryWriteTo(d.out, to)
		if err != syscall.EAGAIN {
			return rsErrno(err)
		}
		runtime.Gosched()
	}
}

// look is what the socket is ready for that its number does not show.
func (d *datagramSocket) look(events C.short) C.short {
	d.mu.Lock()
	defer d.mu.Unlock()
	is := events & (C.POLLOUT | C.POLLWRNORM)
	if d.peeked {
		is |= events & (C.POLLIN | C.POLLRDNORM)
	}
	return is
}

// sleep has a number of C's show whether datagrams have come, from now on.
func (d *datagramSocket) sleep(number int) C.int {
	p, no := d.opened()
	if no != 0 {
		return no
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed { // its descriptor may be another file's by now
		return C.int(unix.EBADF)
	}
	fd, err := p.FD()
	if err == nil && fd != d.shown {
		unix.SetNonblock(fd, false)
		if err = unix.Dup3(fd, number, unix.O_CLOEXEC); err == nil {
			d.shown = fd
		}
	}
	return rsErrno(err)
}

// Close is close.
func (d *datagramSocket) Close() error { return d.close() }

func (d *datagramSocket) close() error {
	d.mu.Lock()
	d.closed = true
	p := d.packets
	d.mu.Unlock()
	if p == nil {
		return nil
	}
	return p.Close()
}
