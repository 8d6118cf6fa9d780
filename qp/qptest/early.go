package qptest

// The oracle as responder with selective repeat: what comes after a gap is kept and executed when the gap has been filled, and what
// the responder says about that must be so. (qp.QPAttr.SelectiveRepeat has the agreement.)

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

// carriesPSN says whether the MSN field of such an ACKNOWLEDGE packet holds a PSN.
func carriesPSN(syn wire.Syndrome) bool { return syn.Kind() == wire.KindACK || syn == wire.SynNAKSeq }

// isGapReport says whether p is a NAK that names both ends of a gap.
func isGapReport(p *wire.Packet) bool {
	return p.Opcode == wire.RCAcknowledge && p.AETH().Syndrome() == wire.SynNAKSeq && p.AETH().MSN() != p.BTH.PSN()
}

// selectiveAck checks an ACK: everything up to n, and the newest packet that is there if there is a gap behind n.
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

// gapReport checks a NAK: from n to the one before its MSN field everything is missing, the next one is there, and nobody said so before.
func (s *stream) gapReport(n int64, p *wire.Packet, bad func(string, ...any)) {
	e, end := s.early, s.number(p.AETH().MSN(), s.epsn)
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
