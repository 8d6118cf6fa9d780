package qp

// Gaps: which packets are to be sent again by themselves, and which of them have been.
//
// Up to recovery.reached they are of answers that have not come (answers.go), behind it of requests
// that the peer has reported missing (selective.go). What is below reached and in no gap is
// complete, or has been answered early: there is no other account of that.
//
// Stages: a list by PSN → what goes next, and that it has gone → what comes out of the list, or
// moves from requests to answers.

import (
	"slices"

	"github.com/goroce/goroce/wire"
)

// gap is packets that are missing.
type gap struct {
	from, to wire.PSN // from to to-1
	next     wire.PSN // the one to be sent again next; to: all have been
	top      wire.PSN // then: one past the newest packet sent before
}

// gaps is what is to be sent again: by PSN, and none of it acknowledged.
type gaps struct {
	list  []gap
	due   int      // how many of them have something to be sent
	heard wire.PSN // while there are gaps: the newest packet that is known to have arrived
	// no gap of answers that has been asked for again has a top before this one
	alarm wire.PSN
	// of the last gap that no report has named: its end, and how many packets were taken for it
	guessed wire.PSN
	guess   int32
}

// clear forgets all gaps and keeps the room for them.
func (s *gaps) clear() { s.list, s.due, s.guess, s.alarm = s.list[:0], 0, 0, noPSN }

// hear notes a packet that has arrived behind a gap.
func (s *gaps) hear(psn wire.PSN) {
	if len(s.list) == 0 || psn.Sub(s.heard) > 0 {
		s.heard = psn
	}
}

// first returns the oldest gap that has something to be sent. There is one.
func (s *gaps) first() *gap {
	i := 0
	for s.list[i].next == s.list[i].to {
		i++
	}
	return &s.list[i]
}

// sent takes notice that the packets of g before next have been sent again; r knows what had been
// sent before.
func (s *gaps) sent(g *gap, next wire.PSN, r *recovery) {
	if g.from.Sub(r.reached) < 0 {
		s.asked(g, next, r.top)
		return
	}
	top := r.top
	g.next = next
	if next.Sub(g.to) >= 0 {
		s.widen(g, next)
		g.next, g.top = g.to, top
		s.due--
	}
}

// widen makes a gap end at to if it ends earlier: the request of a READ stands for all of it, also
// for what was reported as a gap of its own. To ask for the rest too would have the peer drop what
// it has just been asked for.
func (s *gaps) widen(g *gap, to wire.PSN) {
	if to.Sub(g.to) <= 0 {
		return
	}
	g.to = to
	i := 1 + slices.IndexFunc(s.list, func(o gap) bool { return o.from == g.from })
	n := i
	for n < len(s.list) && s.list[n].to.Sub(to) <= 0 {
		s.settle(&s.list[n])
		n++
	}
	if s.list = slices.Delete(s.list, i, n); i < len(s.list) && s.list[i].from.Sub(to) < 0 {
		if o := &s.list[i]; o.next.Sub(to) < 0 {
			o.next = to
		}
		s.list[i].from = to
	}
}

// inFlight is how many packets before psn are missing, or newer than anything that has arrived.
func (s *gaps) inFlight(psn wire.PSN) int32 {
	n := max(psn.Sub(s.heard)-1, 0)
	for i := range s.list {
		n += s.list[i].to.Sub(s.list[i].from)
	}
	return n
}

// oldest returns the gap that una belongs to, nil if there is none.
func (s *gaps) oldest(una wire.PSN) *gap {
	if len(s.list) > 0 && s.list[0].from.Sub(una) <= 0 {
		return &s.list[0]
	}
	return nil
}

// newest returns the last gap, nil if there is none.
func (s *gaps) newest() *gap {
	if len(s.list) == 0 {
		return nil
	}
	return &s.list[len(s.list)-1]
}

// unnamed is where a gap may end that begins with una, lies before newest, and was in no report. So
// it is taken for one packet; but if una is what follows the last such gap, that one was longer
// than it was taken for, and the next guess is twice as long. So a gap of n packets takes log n
// round trips, and no more than n are sent in vain.
func (s *gaps) unnamed(una, newest wire.PSN) (to wire.PSN) {
	n := int32(1)
	if una == s.guessed {
		n = max(n, 2*s.guess)
	}
	if len(s.list) > 0 && newest.Sub(s.list[0].from) > 0 {
		newest = s.list[0].from
	}
	s.guess = min(n, newest.Sub(una))
	s.guessed = una.Add(uint32(s.guess))
	return s.guessed
}

// insertOldest makes packets from una to to-1 a gap of their own, the oldest. There is room, at the
// cost of the newest gap.
func (s *gaps) insertOldest(una, to wire.PSN) {
	if n := len(s.list); n == maxGaps {
		s.settle(&s.list[n-1])
		s.list = s.list[:n-1]
	}
	s.list = append(s.list, gap{})
	copy(s.list[1:], s.list)
	s.list[0] = gap{from: una, to: to, next: una}
	s.due++
}

// settle takes a gap out of the account of what is due.
func (s *gaps) settle(g *gap) {
	if g.next != g.to {
		s.due--
	}
}

// acknowledged forgets what lies before una.
func (s *gaps) acknowledged(una wire.PSN) {
	n := 0
	for n < len(s.list) && s.list[n].to.Sub(una) <= 0 {
		s.settle(&s.list[n])
		n++
	}
	if n > 0 {
		s.list = append(s.list[:0], s.list[n:]...)
	}
	if g := s.oldest(una); g != nil {
		g.from = una
		if g.next.Sub(una) < 0 {
			g.next = una
		}
	}
}

// around returns the gap that psn lies in; nil: none.
func (s *gaps) around(psn wire.PSN) *gap {
	if i := s.search(psn); i < len(s.list) && s.list[i].from.Sub(psn) <= 0 {
		return &s.list[i]
	}
	return nil
}

// search is the index of the first gap that ends beyond psn.
func (s *gaps) search(psn wire.PSN) int {
	from, to := 0, len(s.list)
	for from < to {
		if i := (from + to) / 2; s.list[i].to.Sub(psn) > 0 {
			to = i
		} else {
			from = i + 1
		}
	}
	return from
}

// asked takes notice that answers from those of g on, before next, have been asked for again. A
// peer without selective repeat sends more than is missing.
func (s *gaps) asked(g *gap, next, top wire.PSN) {
	for i := s.search(g.from); i < len(s.list) && s.list[i].from.Sub(next) < 0; i++ {
		g := &s.list[i]
		if g.next.Sub(next) >= 0 || g.next == g.to {
			continue
		}
		if g.next = next; next.Sub(g.to) >= 0 {
			s.done(g, top)
			s.due--
		}
	}
}

// done notes that all of a gap of answers has been asked for.
func (s *gaps) done(g *gap, top wire.PSN) {
	if g.next, g.top = g.to, top; s.alarm == noPSN || top.Sub(s.alarm) < 0 {
		s.alarm = top
	}
}

// lostAgain makes those due that were asked for before psn left, which has been executed: how many
// packets, and whether the oldest are among them.
func (s *gaps) lostAgain(psn, reached wire.PSN) (n int32, oldest bool) {
	if s.alarm == noPSN || psn.Sub(s.alarm) < 0 {
		return 0, false
	}
	s.alarm = noPSN
	for i := range s.list {
		switch g := &s.list[i]; {
		case g.from.Sub(reached) >= 0:
			return n, oldest
		case g.next != g.to:
		case g.top.Sub(psn) <= 0:
			g.next = g.from
			s.due++
			n += g.to.Sub(g.from)
			oldest = oldest || i == 0
		default:
			s.done(g, g.top)
		}
	}
	return n, oldest
}

// askAll makes all answers due that have not come, or the oldest gap of them alone.
func (s *gaps) askAll(alone bool) {
	for i := range s.list {
		if g := &s.list[i]; i == 0 || !alone {
			s.settle(g)
			g.next = g.from
			s.due++
		}
	}
}

// missing is how many packets from from to end-1 are missing.
func (s *gaps) missing(from, end wire.PSN) (n int32) {
	if from == end {
		return 0
	}
	for i := s.search(from); i < len(s.list) && s.list[i].from.Sub(end) < 0; i++ {
		n += s.list[i].to.Sub(s.list[i].from)
	}
	return n
}

// missAnswers notes that the answers from from to end-1 are missing. All gaps before from are of
// answers, and those behind it of requests. false: there is no room.
func (s *gaps) missAnswers(from, end wire.PSN) bool {
	s.came(from, end)
	i := s.search(from)
	if i > 0 && s.list[i-1].to == from && s.list[i-1].next == s.list[i-1].from {
		s.list[i-1].to = end
		return true
	}
	if len(s.list) == maxGaps {
		return false
	}
	s.hear(end.Prev())
	s.list = slices.Insert(s.list, i, gap{from: from, to: end, next: from})
	s.due++
	return true
}

// came takes packets from from to end-1 out of the gaps, none of which begins before from and ends
// behind it.
func (s *gaps) came(from, end wire.PSN) {
	if len(s.list) == 0 {
		return
	}
	i := s.search(from)
	n := i
	for n < len(s.list) && s.list[n].to.Sub(end) <= 0 {
		s.settle(&s.list[n])
		n++
	}
	s.list = slices.Delete(s.list, i, n)
	if i < len(s.list) && s.list[i].from.Sub(end) < 0 {
		g := &s.list[i]
		g.from = end
		if g.next.Sub(end) < 0 {
			g.next = end
		}
	}
}

// fill takes answer psn out of its gap. top is one past the newest packet that was ever sent.
// false: there is no room for what is left of the gap.
func (s *gaps) fill(psn, top wire.PSN) bool {
	i := s.search(psn)
	g := &s.list[i]
	before := *g
	if psn != before.from && psn.Next() != before.to && len(s.list) == maxGaps {
		return false
	}
	s.settle(g)
	keep := func(i int, from, to wire.PSN) {
		next := before.next
		if next.Sub(from) < 0 {
			next = from
		}
		s.list[i] = gap{from: from, to: to, next: next, top: before.top}
		if next.Sub(to) < 0 {
			s.due++
		} else if before.next == before.to {
			s.list[i].next = to
		} else {
			s.done(&s.list[i], top)
		}
	}
	switch {
	case before.to.Sub(before.from) == 1:
		s.list = slices.Delete(s.list, i, i+1)
	case psn == before.from:
		keep(i, psn.Next(), before.to)
	case psn.Next() == before.to:
		keep(i, before.from, psn)
	default:
		s.list = slices.Insert(s.list, i, gap{})
		keep(i, before.from, psn)
		keep(i+1, psn.Next(), before.to)
	}
	return true
}

// cut forgets what is missing from psn on.
func (s *gaps) cut(psn wire.PSN) {
	i := s.search(psn)
	for n := i; n < len(s.list); n++ {
		s.settle(&s.list[n])
	}
	s.list = s.list[:i]
}
