package xdp

// Receiving: frames are lent straight from the packet memory, and their chunks go back to the fill
// ring with the next Recv, in the order in which they came: that keeps neighbours neighbours (see
// memory_linux.go).
//
// A packet of more than one descriptor lies in one piece if each chunk continues the one before;
// otherwise its pieces are copied together.

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/internal/count"
	"github.com/goroce/goroce/transport/internal/ether"
	"github.com/goroce/goroce/transport/internal/rota"
	"github.com/goroce/goroce/wire"
)

type receiver struct {
	order rota.Rota // of the queues, and last the frames to ourselves

	joined []byte // packets that were copied together by this Recv, one after the other
	used   int

	station *ether.Station // whose Martians are dropped and counted as forged

	bad, forged, copied uint64 // counted here during a Recv, then added to the port's counters
}

const (
	joinedPackets = 64   // the most that one Recv copies together
	joinedMax     = 9216 // longest of them: jumbo frames
)

// Recv lends what is in the rings, and what this port has sent to itself. When nothing is there, it
// is one or two loads from memory for each queue, and no system call unless the driver wants to be
// woken.
func (p *port) Recv(frames []wire.Frame) (n int, err error) {
	if p.Closed.Load() {
		return 0, transport.ErrClosed
	}
	r := &p.recv
	r.used = 0
	// What is longer was merged by the kernel, and nothing says where to cut it.
	longest := p.Peers.MTU() + ether.HeaderMax
	sources := len(p.queues) + 1
	for i, first := 0, r.order.Begin(sources); i < sources; i++ {
		source, got := (first+i)%sources, 0
		if source == len(p.queues) {
			got = p.TakeSelf(frames[n:])
		} else {
			got = p.takeQueue(p.queues[source], frames[n:], longest)
		}
		r.order.Gave(source, got)
		n += got
	}
	if p.send.stuck {
		p.again()
	}
	if p.Received(frames[:n]); n > 0 {
		p.Heard()
	}
	r.report(&p.Counters)
	return n, nil
}

// takeQueue gives a queue the chunks that it lent, and fills frames from it.
func (p *port) takeQueue(q *queue, frames []wire.Frame, longest int) (n int) {
	q.giveBack()
	// A driver that has run out of chunks says so, but maybe just after we had given it some and
	// looked.
	if n = q.take(p.memory, &p.recv, frames, longest); n == 0 && p.binding.zeroCopy && q.fill.needsWakeup() {
		kickReceive(q.fd)
	}
	return n
}

func (r *receiver) report(c *count.Counters) {
	if r.bad > 0 {
		c.RecvBad.Add(r.bad)
		r.bad = 0
	}
	if r.forged > 0 {
		c.RecvForged.Add(r.forged)
		r.forged = 0
	}
	c.RecvCopied += r.copied
	r.copied = 0
}

// giveBack returns the chunks of the frames that were lent.
func (q *queue) giveBack() {
	if len(q.lent) == 0 {
		return
	}
	for _, chunk := range q.lent {
		q.fill.put(chunk)
	}
	q.lent = q.lent[:0]
	q.fill.publishPut()
}

// take fills frames with packets of the queue.
func (q *queue) take(m *memory, r *receiver, frames []wire.Frame, longest int) (n int) {
	there := q.rx.there(uint32(len(frames)))
	for n < len(frames) && there > 0 {
		packet, pieces := q.packet(m, r, there)
		if pieces == 0 {
			break
		}
		for i := range pieces {
			_, _, chunk := m.locate(q.rx.peek(i))
			q.lent = append(q.lent, chunk)
		}
		q.rx.take(pieces)
		there -= pieces
		switch frame, ok := etherFrame(packet); {
		case !ok || len(packet) > longest:
			r.bad++
		case r.station.Martians().Has(&frame):
			r.forged++
		default:
			frames[n] = frame
			n++
		}
	}
	q.rx.publishTaken()
	return n
}

// packet returns the next packet and how many descriptors it has; 0 if it is not there as a whole,
// or if there is no room to copy it together before the next Recv.
func (q *queue) packet(m *memory, r *receiver, there uint32) (packet []byte, pieces uint32) {
	d := q.rx.peek(0)
	start, end, _ := m.locate(d)
	size, whole := int(d.Len), true
	for pieces = 1; d.Options&unix.XDP_PKT_CONTD != 0; pieces++ {
		if pieces == there {
			return nil, 0
		}
		d = q.rx.peek(pieces)
		from, to, _ := m.locate(d)
		whole = whole && from == end
		end = to
		size += int(d.Len)
	}
	switch {
	case whole:
		return m.area[start:end:end], pieces
	case size > joinedMax:
		return nil, pieces // not a frame, so it will be counted as bad
	case size > len(r.joined)-r.used:
		return nil, 0
	}
	packet = r.joined[r.used : r.used : r.used+size]
	for i := range pieces {
		from, to, _ := m.locate(q.rx.peek(i))
		packet = append(packet, m.area[from:to]...)
	}
	r.used += size
	r.copied++
	return packet, pieces
}

// etherFrame finds the frame in an Ethernet packet, which the XDP program has looked at.
func etherFrame(packet []byte) (wire.Frame, bool) {
	at := ether.HeaderLen
	if len(packet) >= ether.HeaderMax && binary.BigEndian.Uint16(packet[12:]) == unix.ETH_P_8021Q {
		at = ether.HeaderMax
	}
	if len(packet) < at {
		return wire.Frame{}, false
	}
	frame, drop := wire.SplitFrame(packet[at:])
	return frame, drop == wire.DropNone
}
