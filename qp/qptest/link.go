package qptest

// What can happen to a packet on its way. Stages of send: partition, scripted drop, loss, burst
// loss, the queue in front of the link's rate, ECN mark, corruption, delay, duplication.

import (
	"slices"

	"math/rand/v2"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/wire"
)

// Faults describes a link in one direction. The zero value is perfect and takes no time.
// Probabilities are per packet.
type Faults struct {
	Loss      float64
	Burst     Burst
	Duplicate float64
	// Reorder holds a packet back by up to ReorderBy; all others keep their order.
	Reorder   float64
	Corrupt   float64 // one to three bits flip
	ReorderBy qp.Time
	Delay     qp.Time
	Jitter    qp.Time
	Rate      int64 // bits per second; 0 is unlimited
	Queue     int   // bytes that may wait for the link, more are dropped; 0 is unlimited
	// MarkAt is how many bytes wait when packets of ECN-capable transports are marked; 0 marks
	// none.
	MarkAt    int
	Partition []Interval

	// Drop loses the packets for which it returns true.
	Drop func(p *wire.Packet) bool
}

// Burst is the Gilbert–Elliott model: a good state without loss and a bad state that loses packets
// with probability Loss.
type Burst struct{ Enter, Leave, Loss float64 }

// Interval is a span of time, To excluded.
type Interval struct{ From, To qp.Time }

// LinkStats counts what a link did.
type LinkStats struct {
	Sent, Lost, Duplicated, Reordered, Corrupted, Marked, Bytes uint64
	// Peak is the most bytes that waited for the link.
	Peak int
}

// Link is one direction between two nodes.
type Link struct {
	Faults
	Stats LinkStats

	w      *World
	rnd    *rand.Rand
	bad    bool    // state of Burst
	busy   qp.Time // when the last queued bit will have left
	latest qp.Time // the last arrival in order
}

// Flight is a packet on its way: a copy, as frames are lent.
type Flight struct {
	from, to *Node
	pkt      []byte // from the IP header
	head     int
	broken   bool // bits that the ICRC covers have changed
}

// Link returns the link from one node to another, made with the world's Faults on first use.
func (w *World) Link(from, to *Node) *Link {
	k := [2]int{from.Index, to.Index}
	l := w.links[k]
	if l == nil {
		l = &Link{Faults: w.Faults, w: w, rnd: w.rand("link", from.Index, to.Index)}
		w.links[k] = l
	}
	return l
}

// flight takes a copy of a frame.
func (w *World) flight(from, to *Node, f *wire.Frame) *Flight {
	var fl *Flight
	if n := len(w.spare); n > 0 {
		fl, w.spare = w.spare[n-1], w.spare[:n-1]
	} else {
		fl = new(Flight)
	}
	fl.from, fl.to, fl.head, fl.broken = from, to, len(f.Head), false
	fl.pkt = append(append(fl.pkt[:0], f.Head...), f.Body...)
	return fl
}

func (w *World) release(f *Flight) { w.spare = append(w.spare, f) }

func (f *Flight) clone(w *World) *Flight {
	c := w.flight(f.from, f.to, &wire.Frame{Head: f.pkt[:f.head], Body: f.pkt[f.head:]})
	c.broken = f.broken
	return c
}

// packet parses the flight; ok is false for what no receiver would take.
func (f *Flight) packet() (fr wire.Frame, p wire.Packet, ok bool) {
	fr, why := wire.SplitFrame(f.pkt)
	if why != wire.DropNone {
		return fr, p, false
	}
	return fr, p, wire.Parse(&fr, &p) == wire.DropNone
}

// send lets a packet enter the link.
func (l *Link) send(f *Flight) {
	l.Stats.Sent++
	l.Stats.Bytes += uint64(len(f.pkt))
	if l.loses(f) || !l.enqueue(f) {
		l.Stats.Lost++
		l.w.release(f)
		return
	}
	if l.chance(l.Duplicate) {
		l.Stats.Duplicated++
		l.fly(f.clone(l.w))
	}
	l.fly(f)
}

func (l *Link) chance(p float64) bool { return p > 0 && l.rnd.Float64() < p }

// Cut has all links lose everything from now on for some time.
func (w *World) Cut(long qp.Time) {
	cut := Interval{w.Now, w.Now + long}
	w.Faults.Partition = append(slices.Clone(w.Faults.Partition), cut) // of links to come
	for _, l := range w.links {
		l.Partition = append(slices.Clone(l.Partition), cut)
	}
}

func (l *Link) loses(f *Flight) bool {
	for _, cut := range l.Partition {
		if l.w.Now >= cut.From && l.w.Now < cut.To {
			return true
		}
	}
	if l.Drop != nil {
		if fr, p, ok := f.packet(); ok {
			p.Frame = &fr
			if l.Drop(&p) {
				return true
			}
		}
	}
	if b := &l.Burst; b.Enter > 0 {
		if l.bad {
			l.bad = !l.chance(b.Leave)
		} else {
			l.bad = l.chance(b.Enter)
		}
		if l.bad && l.chance(b.Loss) {
			return true
		}
	}
	return l.chance(l.Loss)
}

// enqueue puts the packet behind the others that wait for the link; false means that the queue is
// full.
func (l *Link) enqueue(f *Flight) bool {
	l.busy = max(l.busy, l.w.Now)
	if l.Rate == 0 {
		return true
	}
	waiting := int(int64(l.busy-l.w.Now) * l.Rate / (8 * int64(Second)))
	if l.Queue > 0 && waiting+len(f.pkt) > l.Queue {
		return false
	}
	l.Stats.Peak = max(l.Stats.Peak, waiting+len(f.pkt))
	if l.MarkAt > 0 && waiting >= l.MarkAt && f.mark() {
		l.Stats.Marked++
	}
	// Preamble, FCS and gap take their time too.
	l.busy += qp.Time(int64(len(f.pkt)+24) * 8 * int64(Second) / l.Rate)
	return true
}

// fly gives the packet its arrival time.
func (l *Link) fly(f *Flight) {
	at := l.busy + l.Delay
	if l.Jitter > 0 {
		at += qp.Time(l.rnd.Int64N(int64(l.Jitter)))
	}
	if l.chance(l.Reorder) && l.ReorderBy > 0 {
		l.Stats.Reordered++
		at += qp.Time(l.rnd.Int64N(int64(l.ReorderBy)))
	} else {
		at = max(at, l.latest)
		l.latest = at
	}
	if l.chance(l.Corrupt) {
		l.Stats.Corrupted++
		f.corrupt(l.rnd)
	}
	l.w.schedule(at, f, nil)
}

// mark sets Congestion Experienced if the packet says that its transport understands it.
func (f *Flight) mark() bool {
	if f.pkt[0]>>4 == 4 {
		h := (*wire.IPv4)(f.pkt)
		if h.TOS()&3 == 0 {
			return false
		}
		h.SetTOS(h.TOS() | 3)
		h.UpdateChecksum()
		return true
	}
	h := (*wire.IPv6)(f.pkt)
	if h.TrafficClass()&3 == 0 {
		return false
	}
	h.SetTrafficClass(h.TrafficClass() | 3)
	return true
}

// corrupt flips one to three bits anywhere; the ICRC detects every such error in what it covers.
func (f *Flight) corrupt(rnd *rand.Rand) {
	first, step := rnd.IntN(8*len(f.pkt)), 1+rnd.IntN(64)
	unmasked := f.likeRxe()
	for i := range 1 + rnd.IntN(3) {
		bit := (first + i*step) % (8 * len(f.pkt))
		f.pkt[bit/8] ^= 1 << (bit % 8)
		f.broken = f.broken || (covered(f.head, bit) || unmasked && bit/8 >= f.head) && !f.unseen(bit)
	}
}

// likeRxe tells of a FLUSH whose ICRC is made as rxe wants it: that covers all from the BTH on
// (section 13).
func (f *Flight) likeRxe() bool {
	fr, p, ok := f.packet()
	return ok && p.Opcode == wire.RCFlush && !wire.Verify(&fr) && wire.VerifyFlush(&fr)
}

// unseen says whether a bit is in the Identification of IPv4, and arrives where nobody sees that.
// Another bit in a field that routers change may make up for it in the header checksum.
func (f *Flight) unseen(bit int) bool {
	return f.to.cfg.SynthHead && f.head == wire.Head4Len && (bit/8 == 4 || bit/8 == 5)
}

// covered says whether the ICRC covers a bit of a packet: everything but the fields that routers
// change (section 3).
func covered(head, bit int) bool {
	at := bit / 8
	switch {
	case at == head+4: // FECN, BECN
		return false
	case at == head-2, at == head-1: // UDP checksum
		return false
	case head == wire.Head4Len: // TOS, TTL, header checksum
		return at != 1 && at != 8 && at != 10 && at != 11
	default: // traffic class, flow label, hop limit
		return at == 0 && bit%8 >= 4 || at >= 4 && at != 7
	}
}
