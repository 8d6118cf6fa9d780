package analysis

// What was captured twice: on a second interface, by a second tap, by a mirror of both directions.
// A copy equals a packet that was seen shortly before. A sender repeats a packet later than that:
// an answer takes a round trip, and no timer is shorter than the shortest timeout (section 4.7).

import (
	"slices"

	"github.com/goroce/goroce/trace"
	"github.com/goroce/goroce/wire"
)

// Times within which an equal packet is a copy, nanoseconds.
const (
	shortestTimer = 4096 << 1 // of IBTA's Local ACK Timeout, 1
	otherPlace    = 1e6       // at another interface, whose packets may wait for each other
	atOnce        = 1e3       // at the same one, if nothing was heard in between
	doubtfulTwin  = 2e4       // it is a guess that a timer has sent it again
)

// maxTwins is how many packets are kept in mind.
const maxTwins = 1 << 14

// point is where a packet was captured: machines that capture on all interfaces see some twice.
type point struct {
	name      string
	number    int
	direction trace.Direction
}

func place(p *trace.Packet) point { return point{p.Name, p.Interface, p.Direction} }

// twin is what a packet and its copy have.
type twin struct {
	flow *Flow
	psn  wire.PSN
	icrc uint32
	op   wire.Opcode
	size int
}

// sighting is where and when a packet was seen last.
type sighting struct {
	at    int64
	point point
	slot  int
}

// copies are the packets of all flows that were seen last.
type copies struct {
	newest map[twin]sighting
	ring   []twin
	next   int
}

// copied says whether a packet is a copy of one that was seen, and else keeps it in mind.
func (c *copies) copied(f *Flow, p *trace.Packet) bool {
	k := twin{f, p.Wire.BTH.PSN(), p.Wire.ICRC(), p.Wire.Opcode, len(p.Wire.Payload)}
	at := place(p)
	f.since = -1
	if s, ok := c.newest[k]; ok {
		f.since = max(p.Time-s.at, s.at-p.Time)
		if s.point != at && f.since < max(otherPlace, f.req.trip) || s.point == at && f.mirrors(p, s.at) {
			return true
		}
	}
	if len(c.ring) < maxTwins {
		c.ring = append(c.ring, k)
	} else {
		if c.newest[c.ring[c.next]].slot == c.next {
			delete(c.newest, c.ring[c.next])
		}
		c.ring[c.next] = k
	}
	c.newest[k] = sighting{p.Time, at, c.next}
	c.next = (c.next + 1) % maxTwins
	return false
}

// mirrors says whether an equal packet at the same place, seen before at a time, was not sent
// again. If no NAK asks for it, a sender goes back by a timer only. Copies of what may be sent
// twice at once, or because of any response, are left out if nearly every packet of the flow comes
// twice.
func (f *Flow) mirrors(p *trace.Packet, at int64) bool {
	q, psn := &f.req, p.Wire.BTH.PSN()
	request := p.Wire.Op.Flags&wire.OpRequest != 0 && f.Service != wire.ServiceUD
	if request && (q.back && psn == q.follows || q.saying.packet > 0 && q.saying.at >= at ||
		slices.ContainsFunc(q.gaps, func(g gap) bool { return psn.Sub(g.next) >= 0 && psn.Sub(g.to) < 0 })) {
		return false
	}
	trip := q.trip
	if !request && f.Peer != nil {
		trip = f.Peer.req.trip
	}
	if f.since >= max(trip, shortestTimer) {
		return false
	}
	if d := f.since - f.apart; f.twins == 0 || max(d, -d) > max(f.apart/4, 1000) {
		f.twins, f.apart = 0, f.since
	}
	f.twins++
	if !request && f.Peer != nil {
		return f.Peer.mirrored()
	}
	return f.mirrored() ||
		request && f.since < atOnce && 5*f.twins >= 2*f.Packets && (q.voice.packet == 0 || q.voice.at < at)
}

// mirrored says whether nearly every packet came twice, at about the same distance.
func (f *Flow) mirrored() bool { return f.twins >= 8 && 5*f.twins >= 2*f.Packets }
