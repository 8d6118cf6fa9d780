package packet

// Receiving: frames are lent straight from the rings. A slot holds one packet, or a super-frame:
// several packets of one flow and one size that the sender made as one (UDP_SEGMENT, or our own
// runs) or that the driver has merged. That has one IP header for all; each of its frames gets a
// header of its own, made from it.
//
// Slots go back to the kernel with the next Recv. A super-frame of which there are frames left
// stays until they are gone.

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/internal/ether"
	"github.com/goroce/goroce/transport/internal/rota"
	"github.com/goroce/goroce/wire"
)

const recvFrames = 512 // the most that one Recv lends

type receiver struct {
	rings   rings
	from    *ring                // whose slot at head is looked at
	order   rota.Rota            // of the rings and the frames to ourselves
	heads   [][wire.HeadMax]byte // of the frames of super-frames
	super   superFrame
	station *ether.Station // whose Martians are dropped and counted as forged

	bad, forged, runs uint64 // counted here during a Recv, then added to the port's counters
}

func (r *receiver) open(station *ether.Station) {
	r.station = station
	r.heads = make([][wire.HeadMax]byte, recvFrames)
}

// Recv lends what is in the rings, and what this port has sent to itself. When nothing is there, it
// is a load from memory for each.
func (p *port) Recv(frames []wire.Frame) (n int, err error) {
	if p.Closed.Load() {
		return 0, transport.ErrClosed
	}
	r := &p.recv
	r.rings.giveBack()
	for i, first := 0, r.order.Begin(2); i < 2; i++ {
		source, got := (first+i)%2, 0
		if source == 0 {
			got = r.take(frames[n:])
		} else {
			got = p.TakeSelf(frames[n:])
		}
		r.order.Gave(source, got)
		n += got
	}
	if p.Received(frames[:n]); n > 0 {
		p.Heard()
	}
	if r.bad > 0 {
		p.RecvBad.Add(r.bad)
		r.bad = 0
	}
	if r.forged > 0 {
		p.RecvForged.Add(r.forged)
		r.forged = 0
	}
	p.RecvRuns += r.runs
	r.runs = 0
	return n, nil
}

// take fills frames from the rings.
func (r *receiver) take(frames []wire.Frame) (n int) {
	frames = frames[:min(len(frames), len(r.heads))]
	for n < len(frames) {
		if len(r.super.body) > 0 {
			frames[n] = r.super.next(&r.heads[n])
			n++
		} else {
			if r.from = r.rings.next(); r.from == nil {
				break
			}
			n += r.look(r.from.slots[r.from.head], &frames[n])
		}
		if len(r.super.body) == 0 {
			r.from.advance()
		}
	}
	return n
}

// look looks into a new slot: 1 if it holds a packet, which is then in f; 0 if it was none of ours,
// or is a super-frame, which is then in r.super.
func (r *receiver) look(slot []byte, f *wire.Frame) int {
	ip, vnet, cut := slotPacket(slot)
	if cut {
		r.bad++
		return 0
	}
	frame, drop := wire.SplitFrame(ip)
	if drop != wire.DropNone {
		r.bad++
		return 0
	}
	if r.station.Martians().Has(&frame) {
		r.forged++
		return 0
	}
	if vnet.gsoType == unix.VIRTIO_NET_HDR_GSO_UDP_L4 && vnet.gsoSize > 0 && int(vnet.gsoSize) < len(frame.Body) {
		r.super.open(&frame, int(vnet.gsoSize))
		r.runs++
		return 0
	}
	if vnet.flags&unix.VIRTIO_NET_HDR_F_NEEDS_CSUM != 0 {
		// A sender on this machine left it to hardware that the packet never came by.
		frame.UDP().SetChecksum(0)
	}
	*f = frame
	return 1
}

// superFrame is the rest of a super-frame that is being given out.
type superFrame struct {
	head  []byte // in its slot, with the lengths of the whole
	body  []byte // of the frames that are left
	size  int    // of each body, bar the last
	first bool   // the next frame is the first one
	id    uint16 // IPv4 Identification of the next frame
	sum   uint32 // of the IPv4 header without what differs between frames
}

func (s *superFrame) open(f *wire.Frame, size int) {
	s.head, s.body, s.size, s.first = f.Head, f.Body, size, true
	f.UDP().SetChecksum(0) // it is for the whole
	if h := f.IPv4(); h != nil {
		s.id = h.Identification()
		h.SetTotalLength(0)
		h.SetIdentification(0)
		s.sum = sum16(h[:10]) + sum16(h[12:])
	}
}

// next cuts off a frame, whose head it writes to dst. Identifications count on from the first one:
// that is how Linux cuts up what was sent as one. For packets that a driver has merged it is a
// guess if they all had the same one, hence the flag: then Verify finds out, and otherwise it costs
// nothing.
func (s *superFrame) next(dst *[wire.HeadMax]byte) wire.Frame {
	n := min(s.size, len(s.body))
	f := wire.Frame{Head: dst[:len(s.head):len(s.head)], Body: s.body[:n:n]}
	if !s.first {
		f.Flags = wire.FrameSynthHead
	}
	s.body, s.first = s.body[n:], false
	copy(f.Head, s.head)
	udp := len(f.Head) - udpLen
	binary.BigEndian.PutUint16(f.Head[udp+4:], uint16(udpLen+n))
	if len(f.Head) == wire.Head6Len {
		binary.BigEndian.PutUint16(f.Head[4:], uint16(udpLen+n))
		return f
	}
	total := uint32(len(f.Head) + n)
	binary.BigEndian.PutUint16(f.Head[2:], uint16(total))
	binary.BigEndian.PutUint16(f.Head[4:], s.id)
	binary.BigEndian.PutUint16(f.Head[10:], ^fold(s.sum+total+uint32(s.id)))
	s.id++
	return f
}

const udpLen = 8

// sum16 is a sum of the 16-bit words of b in ones' complement arithmetic, in which it is all the
// same to add two at a time. b is at most 64 KiB, an even number of bytes.
func sum16(b []byte) uint32 {
	var sum uint64
	for ; len(b) >= 4; b = b[4:] {
		sum += uint64(binary.BigEndian.Uint32(b))
	}
	if len(b) >= 2 {
		sum += uint64(binary.BigEndian.Uint16(b))
	}
	return uint32(sum>>32 + sum>>16&0xffff + sum&0xffff)
}

// fold reduces a sum of 16-bit words to 16 bits in ones' complement arithmetic.
func fold(sum uint32) uint16 {
	sum = sum>>16 + sum&0xffff
	return uint16(sum>>16 + sum&0xffff)
}
