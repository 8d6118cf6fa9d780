package udp

// Receiving: one recvmmsg fills up to recvMsgs messages; each is a packet, or with UDP_GRO a row
// of packets of one size that the kernel has merged. They are given out frame by frame, with a head
// made up for each; only when all of them are gone is there a next recvmmsg, so that what was lent
// stays untouched.

import (
	"encoding/binary"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/internal/count"
	"github.com/goroce/goroce/transport/internal/host"
	"github.com/goroce/goroce/wire"
)

const (
	recvMsgs     = 64
	recvFrames   = 512     // the most that one Recv lends
	msgSize      = 1 << 16 // one merged message; memory that is never written costs nothing
	smallMsg     = 9216    // without UDP_GRO: any packet of path MTU 4096, and jumbo frames
	controlSpace = 96      // TOS, TTL and segment size, 24 bytes each
)

type receiver struct {
	fd      int
	local   wire.GID // destination of what arrives here
	udpPort uint16   // the socket's, when it is not 4791

	msgs  []host.Message
	iovs  []unix.Iovec
	names []unix.RawSockaddrInet6 // has room for the IPv4 form
	ctl   [][controlSpace]byte
	rooms [][]byte // for a message each
	heads [][wire.HeadMax]byte
	maker headMaker

	limit     int // messages to ask the kernel for
	got, next int // messages received, and the first of them that is not given out yet
	current   struct {
		open     bool // what follows was read from the message
		bad      bool
		src      wire.GID
		port     uint16
		tos, ttl uint8
		segSize  int    // packets that the kernel has merged have this size, bar the last
		offset   int    // of the next packet
		segment  uint16 // and its number
	}

	bad, runs uint64 // counted here during a Recv, then added to the port's counters
}

func (r *receiver) init(fd int, local wire.GID, port int, gro bool) {
	size := smallMsg
	if gro {
		size = msgSize
	}
	r.fd, r.local, r.udpPort, r.limit = fd, local, uint16(port), 1
	r.msgs = make([]host.Message, recvMsgs)
	r.iovs = make([]unix.Iovec, recvMsgs)
	r.names = make([]unix.RawSockaddrInet6, recvMsgs)
	r.ctl = make([][controlSpace]byte, recvMsgs)
	r.rooms = make([][]byte, recvMsgs)
	r.heads = make([][wire.HeadMax]byte, recvFrames)
	arena := make([]byte, recvMsgs*size)
	for i := range r.msgs {
		r.rooms[i] = arena[i*size : (i+1)*size : (i+1)*size]
		r.iovs[i].Base = &r.rooms[i][0]
		r.iovs[i].SetLen(size)
		h := &r.msgs[i].Hdr
		h.Name = (*byte)(unsafe.Pointer(&r.names[i]))
		h.Iov = &r.iovs[i]
		h.SetIovlen(1)
		h.Control = &r.ctl[i][0]
		r.prepare(i)
	}
}

// prepare resets what the kernel changes in a message header.
func (r *receiver) prepare(i int) {
	h := &r.msgs[i].Hdr
	h.Namelen = unix.SizeofSockaddrInet6
	h.SetControllen(controlSpace)
	h.Flags = 0
}

// Recv gives out frames of messages received before, or of one recvmmsg; with several sockets, see
// recvSeveral.
func (p *port) Recv(frames []wire.Frame) (n int, err error) {
	if p.closed.Load() {
		return 0, transport.ErrClosed
	}
	l := p.sockets.list.Load()
	if l.left {
		p.closeLeft()
		l = p.sockets.list.Load()
	}
	if len(l.all) == 1 {
		n, err = l.all[0].receive(p, frames)
	} else {
		n, err = p.recvSeveral(l, frames)
	}
	if p.Received(frames[:n]); n > 0 {
		p.Heard()
	}
	return n, err
}

// receive receives from one socket.
func (s *socket) receive(p *port, frames []wire.Frame) (n int, err error) {
	n, err = s.recv.recv(frames)
	s.recv.report(&p.Counters)
	return n, err
}

// maxStreak is how many Recvs in a row look at one socket only, while it has something and the
// others had nothing.
const maxStreak = 8

// recvSeveral receives from sockets that there are several of. The one that had something last is
// asked alone, for a streak; if it has nothing, one system call looks at all others. So a Recv in
// vain takes two system calls, one for each IP version; and with one IP version, where that would
// be one too many, a single one, which looks at all. Whoever floods one address may fill every
// Recv, so a streak ends all the same, and there is none while several sockets have something.
func (p *port) recvSeveral(l *socketList, frames []wire.Frame) (n int, err error) {
	if len(l.all) == 0 {
		return 0, nil
	}
	if p.hot >= len(l.all) {
		p.hot = 0
	}
	var asked *socket
	if p.streak++; l.both && p.streak < maxStreak {
		asked = l.all[p.hot]
		if n, err = asked.receive(p, frames); n > 0 || err != nil {
			return n, err
		}
	}
	p.look(l)
	p.streak = 0
	for i, first := 0, p.order.Begin(len(l.all)); i < len(l.all); i++ {
		at := (first + i) % len(l.all)
		s := l.all[at]
		if s.known && !s.ready && !s.recv.holds() || s == asked {
			continue
		}
		if n > 0 {
			p.streak = maxStreak // there are several: the next Recv looks at all, too
		}
		if n == len(frames) {
			break
		}
		got, err := s.receive(p, frames[n:])
		p.order.Gave(at, got)
		s.ready = false
		if n += got; err != nil {
			return n, err
		}
		if got > 0 {
			p.hot = at
		}
	}
	return n, nil
}

// look asks the kernel which sockets have something, by an epoll that they are in: what it takes
// does not grow with their number.
func (p *port) look(l *socketList) {
	n, _, _ := syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(p.sockets.epoll), uintptr(unsafe.Pointer(&p.found)),
		uintptr(len(p.found)), 0, 0, 0)
	for i := range p.found[:max(int(n), 0)] {
		for _, s := range l.all {
			s.ready = s.ready || s.recv.fd == int(p.found[i].Fd)
		}
	}
}

// holds tells whether messages were received that are not given out yet.
func (r *receiver) holds() bool { return r.next != r.got }

// report moves the receiver's own counts to the port's.
func (r *receiver) report(c *count.Counters) {
	if r.bad > 0 {
		c.RecvBad.Add(r.bad)
		r.bad = 0
	}
	c.RecvRuns += r.runs
	r.runs = 0
}

func (r *receiver) recv(frames []wire.Frame) (n int, err error) {
	if !r.holds() {
		if err := r.fill(min(len(frames), r.limit)); err != nil {
			return 0, err
		}
	}
	frames = frames[:min(len(frames), len(r.heads))]
	for n < len(frames) && r.next < r.got {
		if r.give(&frames[n], r.heads[n][:]) {
			n++
		}
	}
	return n, nil
}

// fill receives at most limit messages with one system call.
func (r *receiver) fill(limit int) error {
	for i := range r.got {
		r.prepare(i)
	}
	r.got, r.next = 0, 0
	for {
		n, errno := r.receive(limit)
		switch errno {
		case 0:
			r.got = n
			r.adapt(limit)
			return nil
		case syscall.EINTR:
			continue
		case syscall.EBADF, syscall.ENOTSOCK, syscall.EFAULT, syscall.EINVAL:
			return errno
		default:
			// EAGAIN; or an ICMP message that some earlier packet of ours has caused, which the
			// system reports once and which is no reason to stop: the protocol's timers notice a
			// peer that is not there.
			r.limit = 1
			return nil
		}
	}
}

// receive is recvmmsg, or for one message the cheaper recvmsg: that is what a poller calls most, to
// find nothing.
func (r *receiver) receive(limit int) (n int, errno syscall.Errno) {
	m := &r.msgs[0]
	if limit > 1 {
		got, _, errno := syscall.RawSyscall6(unix.SYS_RECVMMSG, uintptr(r.fd), uintptr(unsafe.Pointer(m)),
			uintptr(limit), unix.MSG_DONTWAIT, 0, 0)
		return int(got), errno
	}
	size, _, errno := syscall.RawSyscall(unix.SYS_RECVMSG, uintptr(r.fd), uintptr(unsafe.Pointer(&m.Hdr)),
		unix.MSG_DONTWAIT)
	m.N = uint32(size)
	return 1, errno
}

// adapt sets how many messages to ask for next. The kernel looks once more than it finds packets,
// unless it has found as many as it was asked for: with single packets, as in a ping-pong, that
// second look is 5 % of the round trip.
func (r *receiver) adapt(asked int) {
	switch {
	case r.got == asked:
		r.limit = min(8*r.limit, len(r.msgs))
	case r.got == 1:
		r.limit = 1
	}
}

// give cuts the next frame off the current message. It returns false when the message held none.
func (r *receiver) give(f *wire.Frame, head []byte) bool {
	m, c := &r.msgs[r.next], &r.current
	size := int(m.N)
	if !c.open {
		r.open(m, size)
	}
	end := min(c.offset+c.segSize, size)
	body, id := r.rooms[r.next][c.offset:end:end], c.segment
	c.offset, c.segment = end, id+1
	if end == size {
		c.open = false
		r.next++
	}
	n := 0
	if !c.bad {
		n = r.maker.put(head, c.src, r.local, c.port, c.tos, c.ttl, len(body), id)
	}
	if n == 0 {
		r.bad++
		return false
	}
	*f = wire.Frame{Head: head[:n:n], Body: body, Flags: wire.FrameSynthHead}
	return true
}

// open reads what the kernel says about a message: sender and ancillary data.
func (r *receiver) open(m *host.Message, size int) {
	c := &r.current
	c.open, c.offset, c.segment = true, 0, 0
	c.tos, c.ttl, c.segSize = control(m)
	if c.segSize == 0 || c.segSize >= size {
		c.segSize = size
	} else {
		r.runs++
	}
	var ok bool
	c.src, c.port, ok = source(m)
	if c.port == r.udpPort {
		// On any other port the frames say 4791 nevertheless, see Options.UDPPort.
		c.port = wire.UDPPort
	}
	c.bad = !ok || m.Hdr.Flags&unix.MSG_TRUNC != 0
}

// source reads the sender's address from the sockaddr that the kernel has written.
func source(m *host.Message) (src wire.GID, port uint16, ok bool) {
	switch sa := (*unix.RawSockaddrInet6)(unsafe.Pointer(m.Hdr.Name)); sa.Family {
	case unix.AF_INET:
		sa4 := (*unix.RawSockaddrInet4)(unsafe.Pointer(sa))
		src = wire.GID{10: 0xff, 11: 0xff}
		copy(src[12:], sa4.Addr[:])
		port = host.Ntohs(sa4.Port)
	case unix.AF_INET6:
		src, port = sa.Addr, host.Ntohs(sa.Port)
	default:
		return src, 0, false
	}
	return src, port, true
}

// control reads the ancillary data: TOS, TTL, and the size of the packets that UDP_GRO has merged.
func control(m *host.Message) (tos, ttl uint8, segSize int) {
	b := unsafe.Slice(m.Hdr.Control, controlSpace)[:m.Hdr.Controllen]
	for len(b) >= unix.SizeofCmsghdr {
		c := (*unix.Cmsghdr)(unsafe.Pointer(unsafe.SliceData(b)))
		if int(c.Len) < unix.SizeofCmsghdr || int(c.Len) > len(b) {
			break
		}
		data := b[unix.CmsgLen(0):c.Len]
		switch {
		case c.Level == unix.IPPROTO_IP && c.Type == unix.IP_TOS && len(data) >= 1:
			tos = data[0]
		case len(data) < 4:
		case c.Level == unix.IPPROTO_IP && c.Type == unix.IP_TTL,
			c.Level == unix.IPPROTO_IPV6 && c.Type == unix.IPV6_HOPLIMIT:
			ttl = uint8(binary.NativeEndian.Uint32(data))
		case c.Level == unix.IPPROTO_IPV6 && c.Type == unix.IPV6_TCLASS:
			tos = uint8(binary.NativeEndian.Uint32(data))
		case c.Level == unix.IPPROTO_UDP && c.Type == host.UDPGRO:
			segSize = int(binary.NativeEndian.Uint32(data))
		}
		b = b[min(unix.CmsgSpace(len(data)), len(b)):]
	}
	return tos, ttl, segSize
}

// kernelDrops is how many packets a socket has lost because its buffer was full, since it is ours.
func (s *socket) kernelDrops() uint64 {
	const meminfoVars, meminfoDrops = 9, 8 // SK_MEMINFO_VARS, SK_MEMINFO_DROPS
	var mem [meminfoVars]uint32
	size := uint32(unsafe.Sizeof(mem))
	if _, _, errno := syscall.Syscall6(unix.SYS_GETSOCKOPT, uintptr(s.recv.fd), unix.SOL_SOCKET, unix.SO_MEMINFO,
		uintptr(unsafe.Pointer(&mem)), uintptr(unsafe.Pointer(&size)), 0); errno != 0 {
		return 0
	}
	return uint64(mem[meminfoDrops] - s.before)
}
