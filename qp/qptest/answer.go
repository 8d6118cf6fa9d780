package qptest

// The oracle as requester: what an arriving response completes (section 4.4). Where implementations
// differ about what a response acknowledges beside its own operation, acked is the least and
// ackable the most.

import (
	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/wire"
)

// nakStatus is the status that a NAK gives the work request it is for (section 6.3).
var nakStatus = map[wire.Syndrome]qp.WCStatus{
	wire.SynNAKInvReq: qp.WCRemInvReqErr,
	wire.SynNAKAccess: qp.WCRemAccessErr,
	wire.SynNAKOp:     qp.WCRemOpErr,
}

// responded is a response at the requester.
func (s *stream) responded(p *wire.Packet) {
	if s.from.down != "" || s.failing {
		return
	}
	s.credited(p)
	_, _, named := s.from.namedGap(p)
	if s.early != nil {
		if psn, ok := s.from.newestNamed(p); ok {
			if m := s.number(psn, s.nxt); m > 0 && uint64(m) < s.nxt {
				s.heard = max(s.heard, uint64(m))
			}
		}
	}
	at := s.number(p.BTH.PSN(), s.nxt)
	if at > 0 && uint64(at) < s.nxt && p.Opcode.Operation() != wire.RCAcknowledge {
		s.heard = max(s.heard, uint64(at))
	}
	if at < 0 || uint64(at) >= s.nxt {
		// a report that the very first packet is lost names the one before
		if named || s.early != nil {
			s.reports++
		}
		return // answers nothing that was sent
	}
	n := uint64(at)
	if b := s.barrier(); n > b || p.Opcode.Operation() == wire.RCAcknowledge && (named || s.early != nil ||
		p.AETH().Syndrome() == wire.SynNAKSeq) {
		defer func() { s.reports++ }() // also if it acknowledges something
	}
	switch {
	case s.early != nil && named: // acknowledges nothing
	case p.Op.Has(wire.OpRead), p.Op.Has(wire.OpAtomic):
		s.fetched(n)
	case p.AETH().Syndrome().Kind() == wire.KindACK:
		s.acknowledge(n + 1)
	case p.AETH().Syndrome().Kind() == wire.KindRNR:
		s.acknowledge(n)
		if n >= s.acked {
			s.rnrs++
		}
	case p.AETH().Syndrome() == wire.SynNAKSeq:
		s.acknowledge(n)
	default:
		s.nakked(n, nakStatus[p.AETH().Syndrome()])
	}
}

// credited takes note of credits: the limit only grows, and who says once that it does not count
// them never does (section 4.8).
func (s *stream) credited(p *wire.Packet) {
	a := p.AETH()
	if a == nil || a.Syndrome().Kind() != wire.KindACK || !s.from.Cfg.FlowControl || s.from.Cfg.Selective {
		return
	}
	n, limited := wire.Credits(a.Syndrome().Code())
	switch {
	case !limited:
		s.counts = countsNothing
	case s.counts != countsNothing:
		s.counts, s.lsn = countsCredits, max(s.lsn, s.messages(a)+int(n))
	}
}

// barrier returns the first packet number whose reply must come itself: that of the oldest
// incomplete READ or atomic.
func (s *stream) barrier() uint64 {
	for _, o := range s.from.fetching {
		if o.progress < o.packets {
			return o.first + o.progress
		}
	}
	return s.end
}

// acknowledge takes everything before n as executed; what is behind a reply that has not come
// counts when it has.
func (s *stream) acknowledge(n uint64) {
	if n > s.barrier() {
		s.heard = max(s.heard, n-1)
	}
	s.known = max(s.known, n)
	s.advance(min(s.known, s.barrier()))
}

func (s *stream) advance(n uint64) {
	if n > s.acked {
		s.acked, s.rnrs = n, 0
		if n > s.ackable { // else the requester may have known before
			s.reports, s.since = 0, s.from.Node.W.Now
		}
	}
	s.ackable = max(s.ackable, s.acked)
}

// fetched is a READ or atomic reply with packet number n.
func (s *stream) fetched(n uint64) {
	o, k := s.locate(n)
	if k >= o.progress {
		if o.came == nil {
			o.came = map[uint64]bool{}
		}
		o.came[k] = true
	}
	for ; o.came[o.progress]; o.progress++ {
		delete(o.came, o.progress)
	}
	s.acknowledge(n + 1)
}

// nakked is a fatal NAK of packet n.
func (s *stream) nakked(n uint64, status qp.WCStatus) {
	s.acknowledge(n)
	if n < s.acked {
		return
	}
	o, _ := s.locate(n)
	s.from.mayFail = append(s.from.mayFail, failure{o, status})
	if n <= s.barrier() {
		s.failing = true
		s.from.fatal = &failure{o, status}
	}
}
