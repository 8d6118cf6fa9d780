package udp

// Sending: a run of frames becomes one message with a UDP_SEGMENT size, and up to sendMsgs
// messages of one source leave with one sendmmsg, by the socket of that address.
//
// The kernel numbers the segments of a message 0, 1, 2, … and the ICRC of each frame covers its
// number. A frame that must leave alone although it was sealed as a later part of a run (the kernel
// refused the run) is sealed again with 0.

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/internal/host"
	"github.com/goroce/goroce/wire"
)

const sendMsgs = 64

type sender struct {
	port   *port
	maxRun int // as the options and the kernel allow
	from   *socket
	single atomic.Bool // the kernel has refused runs since

	msgs  []host.Message
	iovs  []unix.Iovec
	names []unix.RawSockaddrInet6
	dsts  []wire.GID // what is in names
	zone  int        // and of which socket the zone there is
	ctl   [][controlSpace]byte
	runs  []int // how many frames each message holds
	bytes []int // and how many bytes
}

func (s *sender) init(p *port) {
	s.port, s.maxRun = p, min(p.opt.MaxRun, host.LongestRun())
	if p.opt.ZeroChecksum {
		s.maxRun = 1 // the kernel refuses the two together
	}
	s.msgs = make([]host.Message, sendMsgs)
	s.iovs = make([]unix.Iovec, sendMsgs)
	s.names = make([]unix.RawSockaddrInet6, sendMsgs)
	s.dsts = make([]wire.GID, sendMsgs)
	s.ctl = make([][controlSpace]byte, sendMsgs)
	s.runs = make([]int, sendMsgs)
	s.bytes = make([]int, sendMsgs)
	for i := range s.msgs {
		h := &s.msgs[i].Hdr
		h.Name = (*byte)(unsafe.Pointer(&s.names[i]))
		h.Iov = &s.iovs[i]
		h.SetIovlen(1)
	}
}

// runLimit is the longest run that leaves as one message.
func (s *sender) runLimit() int {
	if s.single.Load() {
		return 1
	}
	return s.maxRun
}

// Send hands the frames of b to the kernel.
func (p *port) Send(b *wire.Batch) (sent int, err error) {
	if p.closed.Load() {
		return 0, transport.ErrClosed
	}
	s := &p.send
	frames := b.Frames()
	okFrames, okBytes, okRuns := 0, 0, 0
	defer func() { p.countSent(okFrames, okBytes, okRuns) }()
	l := p.sockets.list.Load()
	several := p.all || len(l.rows) != 1
	for sent < len(frames) {
		if s.from = l.sender(&frames[sent], several); s.from == nil {
			p.SendUnreachable.Add(1)
			p.LastError(errNoAddress)
			sent++
			continue
		}
		n := s.lay(b, frames, sent, several)
		done, errno := s.sendmmsg(n)
		for i := range done {
			sent += s.runs[i]
			okFrames += s.runs[i]
			okBytes += s.bytes[i]
			if s.runs[i] > 1 {
				okRuns++
			}
		}
		if done == n {
			continue
		}
		if roomless(errno) {
			p.SendBlocked.Add(1)
			p.LackRoom(s.from.tx)
			return sent, nil
		}
		skip, err := s.refused(errno, frames[sent:sent+s.runs[done]])
		if err != nil {
			return sent, err
		}
		sent += skip
	}
	p.Lack(host.Nothing)
	return sent, nil
}

// sender is the socket to send a frame by: that of its source address, nil if there is none any
// more. A port that has one address all the time, not several, need not look.
func (l *socketList) sender(f *wire.Frame, several bool) *socket {
	if !several {
		return l.rows[0]
	}
	for _, s := range l.rows {
		if f.From(&s.recv.local) {
			return s
		}
	}
	return nil
}

// errNoAddress is what frames without a socket are counted under.
var errNoAddress = fmt.Errorf("the source address has gone: %w", unix.EADDRNOTAVAIL)

func (p *port) countSent(frames, bytes, runs int) {
	p.Sent(frames, bytes)
	p.SendRuns += uint64(runs)
}

// lay prepares messages for frames[at:], as far as they have the same source, of which there may be
// several, and returns how many.
func (s *sender) lay(b *wire.Batch, frames []wire.Frame, at int, several bool) (n int) {
	limit := s.runLimit()
	if s.zone != s.from.zone {
		clear(s.dsts)
		s.zone = s.from.zone
	}
	for n < len(s.msgs) && at < len(frames) {
		if several && !frames[at].From(&s.from.recv.local) {
			break
		}
		run := 1
		if limit > 1 && identification(&frames[at]) == 0 {
			run = min(b.Run(at), limit)
		}
		if run == 1 {
			s.renumber(&frames[at])
		}
		s.layMessage(n, frames[at:at+run])
		at += run
		n++
	}
	return n
}

// layMessage prepares message i for a run. The bodies of a run are contiguous: one piece of memory,
// as the kernel likes it best.
func (s *sender) layMessage(i int, run []wire.Frame) {
	first := &run[0]
	size := 0
	for j := range run {
		size += len(run[j].Body)
	}
	s.runs[i], s.bytes[i] = len(run), size
	s.iovs[i].Base = unsafe.SliceData(first.Body)
	s.iovs[i].SetLen(size)
	s.address(i, first)

	ctl := controlWriter{buf: &s.ctl[i]}
	if len(run) > 1 {
		ctl.put16(unix.IPPROTO_UDP, host.UDPSegment, uint16(len(first.Body)))
	}
	level, tosType, ttlType := int32(unix.IPPROTO_IP), int32(unix.IP_TOS), int32(unix.IP_TTL)
	if first.IPv6() != nil {
		level, tosType, ttlType = unix.IPPROTO_IPV6, unix.IPV6_TCLASS, unix.IPV6_HOPLIMIT
	}
	if tos := first.TOS(); tos != s.port.opt.TrafficClass {
		ctl.put32(level, tosType, uint32(tos))
	}
	if ttl := first.TTL(); ttl != s.port.opt.HopLimit || s.dsts[i].IsMulticast() {
		ctl.put32(level, ttlType, uint32(ttl)) // a group has another default, 1
	}
	h := &s.msgs[i].Hdr
	h.Control = nil
	if ctl.n > 0 {
		h.Control = &s.ctl[i][0]
	}
	h.SetControllen(ctl.n)
}

// address writes the receiver's sockaddr for message i, unless it was the same the last time.
func (s *sender) address(i int, f *wire.Frame) {
	if f.To(&s.dsts[i]) {
		return
	}
	dst := f.Dst()
	s.dsts[i] = dst
	s.msgs[i].Hdr.Namelen = unix.SizeofSockaddrInet6
	port := host.Htons(uint16(s.port.opt.UDPPort))
	if dst.Is4() {
		sa := (*unix.RawSockaddrInet4)(unsafe.Pointer(&s.names[i]))
		sa.Family, sa.Port = unix.AF_INET, port
		s.msgs[i].Hdr.Namelen = unix.SizeofSockaddrInet4
		copy(sa.Addr[:], dst[12:])
		return
	}
	sa := &s.names[i]
	*sa = unix.RawSockaddrInet6{Family: unix.AF_INET6, Port: port, Addr: dst}
	if linkLocal := dst[0] == 0xfe && dst[1]&0xc0 == 0x80; linkLocal || dst.IsMulticast() {
		sa.Scope_id = uint32(s.zone)
	}
}

// sendmmsg sends n messages and returns how many went; errno is why the next one did not.
func (s *sender) sendmmsg(n int) (done int, errno syscall.Errno) {
	for done < n {
		r, e := s.sendSome(s.msgs[done:n])
		if e == syscall.EINTR {
			continue
		}
		if e != 0 {
			return done, e
		}
		done += r
	}
	return done, 0
}

// sendSome is sendmmsg, or for one message the cheaper sendmsg; without ancillary data sendto is
// cheaper still.
func (s *sender) sendSome(msgs []host.Message) (n int, errno syscall.Errno) {
	if len(msgs) > 1 {
		sent, _, errno := syscall.RawSyscall6(unix.SYS_SENDMMSG, uintptr(s.from.tx), uintptr(unsafe.Pointer(&msgs[0])),
			uintptr(len(msgs)), unix.MSG_DONTWAIT, 0, 0)
		return int(sent), errno
	}
	if h := &msgs[0].Hdr; h.Controllen == 0 {
		_, _, errno = syscall.RawSyscall6(unix.SYS_SENDTO, uintptr(s.from.tx), uintptr(unsafe.Pointer(h.Iov.Base)),
			uintptr(h.Iov.Len), unix.MSG_DONTWAIT, uintptr(unsafe.Pointer(h.Name)), uintptr(h.Namelen))
		return 1, errno
	}
	_, _, errno = syscall.RawSyscall(unix.SYS_SENDMSG, uintptr(s.from.tx), uintptr(unsafe.Pointer(&msgs[0].Hdr)),
		unix.MSG_DONTWAIT)
	return 1, errno
}

// roomless tells errors that pass by themselves.
func roomless(errno syscall.Errno) bool {
	return errno == syscall.EAGAIN || errno == syscall.ENOBUFS || errno == syscall.ENOMEM
}

// refused deals with the first message of what could not be sent: a run is tried again packet by
// packet, a packet is counted and skipped. The error is one of the socket as a whole.
func (s *sender) refused(errno syscall.Errno, run []wire.Frame) (skip int, err error) {
	if s.gone() { // the errno is that of the socket that blank put there
		s.port.SendUnreachable.Add(uint64(len(run)))
		s.port.LastError(errNoAddress)
		return len(run), nil
	}
	if len(run) > 1 {
		switch errno {
		case syscall.EIO, syscall.EINVAL, syscall.EOPNOTSUPP, syscall.ENOPROTOOPT:
			s.single.Store(true)
			s.port.Degrade("UDP_SEGMENT", "packets are sent one by one", errno)
			return 0, nil
		}
	}
	c := &s.port.Counters
	n := uint64(len(run))
	switch errno {
	case syscall.EBADF, syscall.ENOTSOCK, syscall.EFAULT:
		return 0, errno
	case syscall.EMSGSIZE:
		c.SendTooLong.Add(n)
	case syscall.ENETUNREACH, syscall.EHOSTUNREACH, syscall.ENETDOWN, syscall.EADDRNOTAVAIL:
		c.SendUnreachable.Add(n)
	default:
		c.SendRefused.Add(n)
	}
	c.LastError(errno)
	return len(run), nil
}

// gone says whether the address that s sends from has gone since Send took its list. The goroutine
// that takes a socket away holds the lock until the new list is there.
func (s *sender) gone() bool {
	ss := &s.port.sockets
	ss.Lock()
	defer ss.Unlock()
	return !slices.Contains(ss.rows, s.from)
}

// renumber seals a frame again for Identification 0 if it has another one, which the kernel would
// not send.
func (s *sender) renumber(f *wire.Frame) {
	if h := f.IPv4(); h != nil && h.Identification() != 0 {
		h.SetIdentification(0)
		h.UpdateChecksum()
		wire.Seal(f)
		s.port.SendResealed++
	}
}

// identification is the number of a frame within its run; over IPv6 there is none, and none is
// covered by the ICRC.
func identification(f *wire.Frame) uint16 {
	if h := f.IPv4(); h != nil {
		return h.Identification()
	}
	return 0
}

// controlWriter lays ancillary data into a message's buffer.
type controlWriter struct {
	buf *[controlSpace]byte
	n   int
}

func (w *controlWriter) put16(level, typ int32, v uint16) {
	binary.NativeEndian.PutUint16(w.header(level, typ, 2), v)
}

func (w *controlWriter) put32(level, typ int32, v uint32) {
	binary.NativeEndian.PutUint32(w.header(level, typ, 4), v)
}

// header appends a header for size bytes of data and returns the place for them.
func (w *controlWriter) header(level, typ int32, size int) []byte {
	b := w.buf[w.n:]
	c := (*unix.Cmsghdr)(unsafe.Pointer(unsafe.SliceData(b)))
	c.Level, c.Type = level, typ
	c.SetLen(unix.CmsgLen(size))
	w.n += unix.CmsgSpace(size)
	return b[unix.CmsgLen(0):]
}
