package qptest

// The oracle as responder with selective repeat: what comes after a gap is kept and executed when
// the gap has been filled, and what the responder says about that must be so.
// (qp.QPAttr.SelectiveRepeat has the agreement.) Places for that are few, and sources share them
// (section 14).
//
// Stages: a place is found, or made (room) → a packet is kept (keep) → it gives way (giveWay), or
// its turn comes (catchUp) → what ACKs and NAKs may say.

import (
	"maps"
	"slices"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/wire"
)

// early is what has arrived before its turn.
type early struct {
	kept     map[uint64]uint64 // packet number → how many numbers it takes
	places   map[uint64]int    // and places
	long     bool              // some of them were beyond MaxWindow
	newest   uint64            // one past the newest of them
	reported uint64            // gaps before this one have been
	dropped  uint64            // one past the newest that was not kept, or gave way
	of       *source           // whose places these are; nil: none
}

// pool is the places of a node.
type pool struct {
	size, used int
	sources    []*source // that have some
	hand       int       // of sources: the next to give way
	gaveWay    uint64    // packets
}

// source is a peer's address.
type source struct {
	gid    wire.GID
	places int
	stores []*stream // that keep something
}

// maxKept is how many places there are unless a node has fewer. storePlaces is how many a queue
// pair takes that keeps something, beside those of packets.
const (
	maxKept     = 1 << 16
	keptPlace   = 1100 // bytes
	storePlaces = 120
	longPlaces  = 1920 // beside those, of one that reaches beyond MaxWindow
)

// take has a source take n places more, or fewer.
func (p *pool) take(o *source, n int) {
	if o.places == 0 {
		p.sources = append(p.sources, o)
	}
	p.used += n
	if o.places += n; o.places == 0 {
		p.sources = swapOut(p.sources, o)
	}
}

// swapOut removes a value, in whose place the last one goes.
func swapOut[T comparable](list []T, v T) []T {
	last := len(list) - 1
	list[slices.Index(list, v)] = list[last]
	return list[:last]
}

// room finds a place for a packet of the stream, at the cost of those who have more than their
// share if it has less; false: there is none.
func (s *stream) room(want int, long bool) bool {
	p, from := &s.to.Node.pool, s.to.dest.gid
	own, sources := want, len(p.sources)
	if s.early.of == nil {
		want += storePlaces
	}
	if long = long && !s.early.long; long {
		want += longPlaces
	}
	i := slices.IndexFunc(p.sources, func(o *source) bool { return o.gid == from })
	mine := &source{gid: from}
	if i >= 0 {
		mine = p.sources[i]
	} else {
		sources++
	}
	for share := p.size / sources; p.used+want > p.size; {
		if mine.places+want > share || !p.giveWay(share) {
			return false
		}
	}
	if s.early.of == nil {
		s.early.of = mine
		mine.stores = append(mine.stores, s)
		p.take(mine, storePlaces)
	}
	if p.take(mine, own); long {
		s.early.long = true
		p.take(mine, longPlaces)
	}
	return true
}

// giveWay has the next source that is above its share lose a packet: the newest of the queue pair
// that has last begun to keep some.
func (p *pool) giveWay(share int) bool {
	for range p.sources {
		if p.hand >= len(p.sources) {
			p.hand = 0
		}
		if o := p.sources[p.hand]; o.places > share {
			o.stores[len(o.stores)-1].giveWay()
			p.gaveWay++
			return true
		}
		p.hand++
	}
	return false
}

// giveWay drops the newest packet, as if it had found no place.
func (s *stream) giveWay() {
	e := s.early
	n := slices.Max(slices.Collect(maps.Keys(e.kept)))
	e.drop(n, &s.to.Node.pool)
	e.dropped = max(e.dropped, n+1)
	if len(e.kept) == 0 {
		s.emptied()
		s.gap = true
		return
	}
	n = slices.Max(slices.Collect(maps.Keys(e.kept)))
	e.newest = n + e.kept[n]
	e.reported = min(e.reported, e.newest)
}

// drop removes a packet, which gives its place back.
func (e *early) drop(n uint64, p *pool) {
	delete(e.kept, n)
	p.take(e.of, -e.places[n])
}

// emptied is the end of what is kept: all has been executed, or nothing will be.
func (s *stream) emptied() {
	e := s.early
	if e == nil || e.of == nil {
		return
	}
	p := &s.to.Node.pool
	for n := range e.kept {
		e.drop(n, p)
	}
	e.of.stores = swapOut(e.of.stores, s)
	if e.long {
		p.take(e.of, -longPlaces)
	}
	p.take(e.of, -storePlaces)
	*e = early{kept: e.kept, places: e.places, dropped: e.dropped}
}

// keep takes packet n, which is not the expected one.
func (s *stream) keep(n uint64, bytes int) {
	e := s.early
	o, k := s.locate(n)
	if _, again := e.kept[n]; o == nil || again {
		return
	}
	places, span := (bytes-1)/keptPlace+1, s.to.Cfg.span()
	if n-s.epsn >= span || !s.room(places, n-s.epsn >= qp.MaxWindow) {
		s.gap = s.gap || len(e.kept) == 0
		e.dropped = max(e.dropped, n+1)
		return
	}
	takes := uint64(1)
	if o.read() {
		takes = s.pieceEnd(o, k) - k
	}
	e.kept[n], e.places[n] = min(takes, span-(n-s.epsn)), places
	e.newest = max(e.newest, n+e.kept[n])
}

// catchUp executes what has been waiting.
func (s *stream) catchUp() {
	e, p := s.early, &s.to.Node.pool
	for s.to.down == "" {
		for n := range e.kept {
			if n < s.epsn {
				e.drop(n, p)
			}
		}
		if _, ok := e.kept[s.epsn]; !ok {
			break
		}
		e.drop(s.epsn, p)
		if !s.execute(s.epsn) {
			break
		}
	}
	if len(e.kept) == 0 {
		s.gap = e.dropped > s.epsn
		s.emptied()
	}
}

// span is how many packets the oracle expects to be kept behind a gap, or to be under way at most.
func (c *QPConfig) span() uint64 {
	if c.Selective && !c.LongWindow {
		return qp.MaxWindow
	}
	return qp.MaxLongWindow
}

// depth is how many READs and atomics may be outstanding where so many packets may be.
func (c *QPConfig) depth(window int) uint64 {
	if c.Selective && c.LongWindow && window*c.MTU.Bytes() > 4<<20 {
		return 2 * uint64(c.RdAtomic)
	}
	return uint64(c.RdAtomic)
}

// ownMSN says whether the MSN field of such an ACKNOWLEDGE packet has a meaning of its own.
func ownMSN(syn wire.Syndrome) bool { return syn.Kind() == wire.KindACK || syn == wire.SynNAKSeq }

// namedGap reads a NAK that names one: packets from to to-1 are missing.
func (q *QP) namedGap(p *wire.Packet) (from, to wire.PSN, ok bool) {
	if p.Opcode != wire.RCAcknowledge || p.AETH().Syndrome() != wire.SynNAKSeq || p.AETH().MSN() == 0 {
		return 0, 0, false
	}
	code := uint32(p.AETH().MSN())
	if !q.Cfg.LongWindow {
		from = p.BTH.PSN().Add(code >> 12)
		return from, from.Add(code & 0xfff), true
	}
	from = p.BTH.PSN().Add(code >> 8)
	if n := code & 0xff; n < 128 {
		return from, from.Add(n), true
	} else {
		return from, from.Add((n - 127) * 128), true
	}
}

// newestNamed returns the newest packet that an ACKNOWLEDGE packet says has arrived.
func (q *QP) newestNamed(p *wire.Packet) (psn wire.PSN, ok bool) {
	if _, to, ok := q.namedGap(p); ok {
		return to, true
	}
	if p.Opcode != wire.RCAcknowledge || p.AETH().Syndrome().Kind() != wire.KindACK {
		return 0, false
	}
	return p.AETH().MSN(), true
}

// selectiveAck checks an ACK: everything up to n, and the newest packet that is there if there is a
// gap behind n.
func (s *stream) selectiveAck(n int64, p *wire.Packet, bad func(string, ...any)) {
	newest := p.BTH.PSN()
	if uint64(n+1) == s.epsn && len(s.early.kept) > 0 {
		newest = s.psn(s.early.newest - 1)
	}
	if p.AETH().MSN() != newest {
		bad("the newest packet (in the MSN field) should be %d", newest)
	}
	if n >= 0 {
		s.ackSent(uint64(n), bad)
	} else if n < -1 {
		bad("it answers a packet before the first")
	}
}

// gapReport checks a NAK that names a gap: all of it is missing, the packet behind it is there,
// nobody said so before. Its own PSN is the expected one: a requester that did not agree takes
// everything before that for acknowledged.
func (s *stream) gapReport(at int64, p *wire.Packet, bad func(string, ...any)) {
	from, to, _ := s.to.namedGap(p)
	e, n, end := s.early, s.number(from, s.epsn), s.number(to, s.epsn)
	if uint64(at) != s.epsn {
		bad("a NAK's PSN must be the expected one, %d", s.psn(s.epsn))
		return
	}
	if n < int64(s.epsn) || end <= n || n < int64(e.reported) {
		bad("it reports packets %d to %d; expected is %d, and gaps up to %d are reported", n, end, s.epsn, e.reported)
		return
	}
	if _, ok := e.kept[uint64(end)]; !ok && !(s.to.Cfg.LongWindow && end-n >= 128 && uint64(end) < e.newest) {
		bad("the packet behind the gap has not arrived")
	}
	for at, span := range e.kept {
		if int64(at) < end && int64(at+span) > n {
			bad("packet %d of the gap is there", at)
		}
	}
	e.reported = uint64(end)
	s.naked = false // what is behind it is not asked for any more
}
