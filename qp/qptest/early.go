package qptest

// The oracle as responder with selective repeat: what comes after a gap is kept and executed when
// the gap has been filled, and what the responder says about that must be so.
// (qp.QPAttr.SelectiveRepeat has the agreement.)

import (
	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/wire"
)

// early is what has arrived before its turn.
type early struct {
	kept     map[uint64]uint64 // packet number → how many numbers it takes
	newest   uint64            // one past the newest of them
	reported uint64            // gaps before this one have been
	short    bool              // something was too far ahead to be kept
}

// keep takes packet n, which is not the expected one.
func (s *stream) keep(n uint64) {
	e := s.early
	if n-s.epsn >= qp.MaxWindow {
		e.short = len(e.kept) > 0
		s.gap = len(e.kept) == 0
		return
	}
	o, k := s.locate(n)
	if _, again := e.kept[n]; o == nil || again {
		return
	}
	span := uint64(1)
	if o.read() {
		span = s.pieceEnd(o, k) - k
	}
	e.kept[n] = min(span, qp.MaxWindow-(n-s.epsn))
	e.newest = max(e.newest, n+e.kept[n])
}

// catchUp executes what has been waiting.
func (s *stream) catchUp() {
	e := s.early
	for s.to.down == "" {
		for n := range e.kept {
			if n < s.epsn {
				delete(e.kept, n)
			}
		}
		if _, ok := e.kept[s.epsn]; !ok {
			break
		}
		delete(e.kept, s.epsn)
		if !s.execute(s.epsn) {
			break
		}
	}
	if len(e.kept) == 0 {
		s.gap = e.short
		e.newest, e.short = 0, false
	}
}

// ownMSN says whether the MSN field of such an ACKNOWLEDGE packet has a meaning of its own.
func ownMSN(syn wire.Syndrome) bool { return syn.Kind() == wire.KindACK || syn == wire.SynNAKSeq }

// namedGap reads a NAK that names one: packets from to to-1 are missing.
func namedGap(p *wire.Packet) (from, to wire.PSN, ok bool) {
	if p.Opcode != wire.RCAcknowledge || p.AETH().Syndrome() != wire.SynNAKSeq || p.AETH().MSN() == 0 {
		return 0, 0, false
	}
	code := uint32(p.AETH().MSN())
	from = p.BTH.PSN().Add(code >> 12)
	return from, from.Add(code & 0xfff), true
}

// newestNamed returns the newest packet that an ACKNOWLEDGE packet says has arrived.
func newestNamed(p *wire.Packet) (psn wire.PSN, ok bool) {
	if _, to, ok := namedGap(p); ok {
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
	from, to, _ := namedGap(p)
	e, n, end := s.early, s.number(from, s.epsn), s.number(to, s.epsn)
	if uint64(at) != s.epsn {
		bad("a NAK's PSN must be the expected one, %d", s.psn(s.epsn))
		return
	}
	if n < int64(s.epsn) || end <= n || n < int64(e.reported) {
		bad("it reports packets %d to %d; expected is %d, and gaps up to %d are reported", n, end, s.epsn, e.reported)
		return
	}
	if _, ok := e.kept[uint64(end)]; !ok {
		bad("the packet behind the gap has not arrived")
	}
	for at, span := range e.kept {
		if int64(at) < end && int64(at+span) > n {
			bad("packet %d of the gap is there", at)
		}
	}
	e.reported = uint64(end)
}
