// Sending: each frame is copied, with its Ethernet header in front, into chunks of the packet memory; their descriptors go
// into the tx ring, all frames of a batch at once; one system call has the kernel look there, unless a driver does so by
// itself. Chunks come back by the completion ring when what was in them has left.
//
//	free chunks ──▶ tx ring ──▶ kernel ──▶ completion ring ──▶ free chunks
//
// The chunk that came back last is used first: it is in the cache.

package transport

import (
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/wire"
)

// xdpSendBudget is how many packets the kernel may send in one system call, where it lets us choose (6.17). It is 32
// otherwise, and a batch takes several calls.
const xdpSendBudget = 256

type xdpSender struct {
	port *xdpPort
	q    *xdpQueue
	free []uint64 // chunks

	short shortage      // what the last Send had too little of
	stuck bool          // the kernel has not taken all that is in the tx ring
	down  syscall.Errno // the interface does not send, and why
}

func (s *xdpSender) init(p *xdpPort, q *xdpQueue) {
	s.port, s.q = p, q
	unix.SetsockoptInt(q.fd, unix.SOL_XDP, unix.XDP_MAX_TX_SKB_BUDGET, xdpSendBudget)
	// Copies of packets under way are charged to the socket, with about twice their size.
	if want := 2 * p.opt.SendBuffer; unix.SetsockoptInt(q.fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, want) != nil {
		unix.SetsockoptInt(q.fd, unix.SOL_SOCKET, unix.SO_SNDBUF, want) // takes what the limit allows
	}
}

// Send hands the frames of b to the interface.
func (p *xdpPort) Send(b *wire.Batch) (sent int, err error) {
	if p.closed.Load() {
		return 0, ErrClosed
	}
	s := &p.send
	s.reap()
	var went tally
	frames, short := b.Frames(), nothing
	for sent < len(frames) && short == nothing {
		if short = s.frame(&frames[sent], &went); short == nothing {
			sent++
		}
	}
	s.q.tx.publishPut()
	err = s.kick()
	p.sent(went.frames, went.bytes)
	if s.short = short; short != nothing {
		p.sendBlocked.Add(1)
	} else if s.stuck && s.down == 0 {
		short = driverQueue // nobody tells when the kernel would take it; a Wait must end soon, for the next Recv to offer it again
	}
	p.sleep.lack(short)
	return sent, err
}

// frame deals with one frame: into the tx ring, or back to ourselves, or counted as lost.
func (s *xdpSender) frame(f *wire.Frame, went *tally) shortage {
	p := s.port
	header := p.headerFor(f)
	self := p.hop.self.Load()
	switch {
	case self && !p.hop.dst.IsMulticast():
		if !p.toSelf(f) {
			return driverQueue // until the next Recv
		}
	case header == nil:
		p.unreachable()
		return nothing
	case f.Len() > p.netMTU():
		p.lost(unix.EMSGSIZE, 1)
		return nothing
	case s.room(etherLen + f.Len()):
		s.lay(f, header)
		if self && !p.toSelf(f) { // a group that we have joined: what is lost on the way is lost
			p.recvOverflow.Add(1)
		}
	case s.down != 0:
		p.lost(s.down, 1)
		return nothing
	default:
		return driverQueue
	}
	went.add(1, len(f.Body))
	return nothing
}

// room says whether there are chunks for a packet, after looking for some that have come back.
func (s *xdpSender) room(size int) bool {
	chunks := (size + s.port.memory.chunk - 1) / s.port.memory.chunk
	if len(s.free) >= chunks {
		return true
	}
	s.q.tx.publishPut()
	s.kick()
	s.reap()
	return len(s.free) >= chunks
}

// lay copies a frame into chunks and puts their descriptors into the tx ring.
func (s *xdpSender) lay(f *wire.Frame, header *etherHeader) {
	chunk, room := s.chunk()
	n := copy(room, header[:])
	n += copy(room[n:], f.Head)
	done := copy(room[n:], f.Body)
	d := unix.XDPDesc{Addr: chunk, Len: uint32(n + done)}
	for done < len(f.Body) {
		d.Options = unix.XDP_PKT_CONTD
		s.q.tx.put(d)
		chunk, room = s.chunk()
		n = copy(room, f.Body[done:])
		d = unix.XDPDesc{Addr: chunk, Len: uint32(n)}
		done += n
	}
	s.q.tx.put(d)
}

// chunk takes a free one.
func (s *xdpSender) chunk() (addr uint64, room []byte) {
	last := len(s.free) - 1
	addr = s.free[last]
	s.free = s.free[:last]
	return addr, s.port.memory.area[addr : addr+uint64(s.port.memory.chunk)]
}

// reap takes back the chunks that the kernel is done with.
func (s *xdpSender) reap() {
	c := &s.q.completion
	n := c.there(uint32(len(c.entries)))
	for i := range n {
		s.free = append(s.free, c.peek(i))
	}
	c.take(n)
	c.publishTaken()
}

// kick has the kernel send what is in the tx ring, and notes whether all of it was taken; Recv will look again if not. The
// error is one of the socket as a whole.
func (s *xdpSender) kick() error {
	left := s.q.tx.pending()
	for before := uint32(0); left > 0 && left != before && s.q.tx.needsWakeup(); {
		before = left
		switch errno := kickSend(s.q.fd); errno {
		case 0, syscall.EINTR, syscall.EAGAIN: // EAGAIN: the budget of a call is used up, or that of the socket
			s.down = 0
		case syscall.ENOBUFS, syscall.EBUSY, syscall.ENOMEM:
		case syscall.ENETDOWN:
			s.down = errno
		default: // ENXIO: the interface is gone
			return errno
		}
		left = s.q.tx.pending()
	}
	s.stuck = left > 0
	return nil
}

// again looks after what the kernel had not taken. It is called by Recv, as whoever has sent all goes on to receive.
func (p *xdpPort) again() {
	s := &p.send
	s.kick() // an error will come back to the next Send
	if !s.stuck && s.short == nothing {
		p.sleep.lack(nothing)
	}
}
