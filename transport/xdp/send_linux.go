package xdp

// Sending: each frame is copied, with its Ethernet header in front, into chunks of the packet
// memory; their descriptors go into the tx ring, all frames of a batch at once; one system call has
// the kernel look there, unless a driver does so by itself. Chunks come back by the completion ring
// when what was in them has left.
//
//	free chunks ──▶ tx ring ──▶ kernel ──▶ completion ring ──▶ free chunks
//
// The chunk that came back last is used first: it is in the cache.

import (
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/internal/count"
	"github.com/goroce/goroce/transport/internal/ether"
	"github.com/goroce/goroce/transport/internal/host"
	"github.com/goroce/goroce/wire"
)

// sendBudget is how many packets the kernel may send in one system call, where it lets us choose
// (6.17). It is 32 otherwise, and a batch takes several calls.
const sendBudget = 256

type sender struct {
	port *port
	q    *queue
	free []uint64 // chunks

	short host.Shortage // what the last Send had too little of
	stuck bool          // the kernel has not taken all that is in the tx ring
	down  syscall.Errno // the interface does not send, and why
}

func (s *sender) init(p *port, q *queue) {
	s.port, s.q = p, q
	unix.SetsockoptInt(q.fd, unix.SOL_XDP, unix.XDP_MAX_TX_SKB_BUDGET, sendBudget)
	// Copies of packets under way are charged to the socket, with about twice their size.
	if want := 2 * p.Options.SendBuffer; unix.SetsockoptInt(q.fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, want) != nil {
		// The kernel takes what the limit allows.
		unix.SetsockoptInt(q.fd, unix.SOL_SOCKET, unix.SO_SNDBUF, want)
	}
}

// Send hands the frames of b to the interface.
func (p *port) Send(b *wire.Batch) (sent int, err error) {
	if p.Closed.Load() {
		return 0, transport.ErrClosed
	}
	s := &p.send
	s.reap()
	var went count.Tally
	frames, short := b.Frames(), host.Nothing
	for sent < len(frames) && short == host.Nothing {
		if short = s.frame(&frames[sent], &went); short == host.Nothing {
			sent++
		}
	}
	s.q.tx.publishPut()
	err = s.kick()
	p.Sent(went.Frames, went.Bytes)
	if s.short = short; short != host.Nothing {
		p.SendBlocked.Add(1)
	} else if s.stuck && s.down == 0 {
		// Nobody tells when the kernel would take it; a Wait must end soon, for the next Recv to
		// offer it again.
		short = host.DriverQueue
	}
	p.Lack(short)
	return sent, err
}

// frame deals with one frame: into the tx ring, or back to ourselves, or counted as lost.
func (s *sender) frame(f *wire.Frame, went *count.Tally) host.Shortage {
	p := s.port
	header := p.HeaderFor(f)
	self := p.Hop.Self()
	switch {
	case self && !p.Hop.Multicast():
		if !p.ToSelf(f) {
			return host.DriverQueue // until the next Recv
		}
	case header == nil:
		p.Unreachable()
		return host.Nothing
	case f.Len() > p.netMTU():
		p.Lost(unix.EMSGSIZE, 1)
		return host.Nothing
	case s.room(ether.HeaderLen + f.Len()):
		s.lay(f, header)
		if self && !p.ToSelf(f) { // a group that we have joined: what is lost on the way is lost
			p.RecvOverflow.Add(1)
		}
	case s.down != 0:
		p.Lost(s.down, 1)
		return host.Nothing
	default:
		return host.DriverQueue
	}
	went.Add(1, len(f.Body))
	return host.Nothing
}

// room says whether there are chunks for a packet, after looking for some that have come back.
func (s *sender) room(size int) bool {
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
func (s *sender) lay(f *wire.Frame, header *ether.Header) {
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
func (s *sender) chunk() (addr uint64, room []byte) {
	last := len(s.free) - 1
	addr = s.free[last]
	s.free = s.free[:last]
	return addr, s.port.memory.area[addr : addr+uint64(s.port.memory.chunk)]
}

// reap takes back the chunks that the kernel is done with.
func (s *sender) reap() {
	c := &s.q.completion
	n := c.there(uint32(len(c.entries)))
	for i := range n {
		s.free = append(s.free, c.peek(i))
	}
	c.take(n)
	c.publishTaken()
}

// kick has the kernel send what is in the tx ring, and notes whether all of it was taken; Recv will
// look again if not. The error is one of the socket as a whole.
func (s *sender) kick() error {
	left := s.q.tx.pending()
	for before := uint32(0); left > 0 && left != before && s.q.tx.needsWakeup(); {
		before = left
		switch errno := kickSend(s.q.fd); errno {
		// EAGAIN says that the budget of a call is used up, or that of the socket.
		case 0, syscall.EINTR, syscall.EAGAIN:
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

// again looks after what the kernel had not taken. It is called by Recv, as whoever has sent all
// goes on to receive.
func (p *port) again() {
	s := &p.send
	s.kick() // an error will come back to the next Send
	if !s.stuck && s.short == host.Nothing {
		p.Lack(host.Nothing)
	}
}
