// Package fair shares out what is scarce among the addresses that ask for it: places, of which
// there are so many, and turns. So whoever asks for more than anybody, be it a flood, takes nothing
// from those who ask for less than their part.
//
// All is counted for an address, and with IPv6 first for its /64, all addresses of which one host
// may have. What a call takes grows with the logarithm of how many there are. One caller at a time
// uses what is made from this package.
package fair

// Places: who has how many, and who gives one up.
// Stages: whom a place counts for → taking one and giving it back → which may be asked back → who
// gives one up.

import (
	"container/heap"
	"container/list"

	"github.com/goroce/goroce/wire"
)

// Places are places of one kind, and who has them. If all are taken, an address with fewer than
// another gets the oldest one of the one that has most, of those that have any to be asked back: so
// n addresses that want more than there are have an n-th each, and one that wants less has all that
// it wants. The zero value is none.
type Places[T any] struct{ all part[T] }

// part is the places of all, of a /64 or of an address.
type part[T any] struct {
	of    *part[T] // that it is a part of; nil of all
	key   wire.GID
	n     int                   // places
	gives int                   // of them, those that may be asked back
	rank  int                   // where it stands in of.ranks
	parts map[wire.GID]*part[T] // of an address none
	ranks ranking[T]            // the parts that give any
	given list.List             // of an address: places to be asked back, the oldest first
}

// Place is a place that is taken.
type Place[T any] struct {
	who T
	of  *part[T]
	at  *list.Element // in of.given; nil: it is kept
}

// sources are whom a place counts for, the larger first, from the index that it returns on.
func sources(address wire.GID) (keys [2]wire.GID, from int) {
	if address.Is4() {
		return [...]wire.GID{1: address}, 1
	}
	network := address
	clear(network[8:])
	return [...]wire.GID{network, address}, 0
}

// Len is how many places are taken.
func (p *Places[T]) Len() int { return p.all.n }

// Take takes a place for somebody of an address. It may be asked back.
func (p *Places[T]) Take(address wire.GID, who T) *Place[T] {
	s := &p.all
	s.n++
	keys, from := sources(address)
	for _, key := range keys[from:] {
		in := s.parts[key]
		if in == nil {
			in = &part[T]{of: s, key: key}
			if s.parts == nil {
				s.parts = map[wire.GID]*part[T]{}
			}
			s.parts[key] = in
		}
		in.count(1, 0)
		s = in
	}
	taken := &Place[T]{who: who, of: s}
	taken.Offer()
	return taken
}

// GiveBack gives a place back; nil is none.
func (p *Place[T]) GiveBack() {
	if p == nil {
		return
	}
	p.Keep()
	s := p.of
	for ; s.of != nil; s = s.of {
		s.count(-1, 0)
	}
	s.n--
}

// Keep says that the place is not to be asked back any more.
func (p *Place[T]) Keep() {
	if p.at != nil {
		p.of.given.Remove(p.at)
		p.at = nil
		p.counts(-1)
	}
}

// Offer says that the place may be asked back again, as the youngest of its address.
func (p *Place[T]) Offer() {
	p.Keep()
	p.at = p.of.given.PushBack(p.who)
	p.counts(1)
}

// AboveShare tells whether the place's address has no less than it would have if all had as many.
func (p *Place[T]) AboveShare() bool {
	for s := p.of; s.of != nil; s = s.of {
		if s.n*len(s.of.parts) < s.of.n {
			return false
		}
	}
	return true
}

// counts has the parts that the place is in give so many more.
func (p *Place[T]) counts(more int) {
	for s := p.of; s.of != nil; s = s.of {
		s.count(0, more)
	}
}

// count gives a part so many places more, of which so many may be asked back, and with them another
// rank.
func (s *part[T]) count(places, gives int) {
	ranks, gave := &s.of.ranks, s.gives > 0
	s.n, s.gives = s.n+places, s.gives+gives
	switch {
	case gave && s.gives > 0:
		heap.Fix(ranks, s.rank)
	case gave:
		heap.Remove(ranks, s.rank)
	case s.gives > 0:
		heap.Push(ranks, s)
	}
	if s.n == 0 {
		delete(s.of.parts, s.key)
	}
}

// largest is a part that has as many places as any that gives one; nil if none does.
func (s *part[T]) largest() *part[T] {
	if len(s.ranks) == 0 {
		return nil
	}
	return s.ranks[0]
}

// ranking is a heap of parts: the first has most places.
type ranking[T any] []*part[T]

func (r ranking[T]) Len() int           { return len(r) }
func (r ranking[T]) Less(i, j int) bool { return r[i].n > r[j].n }

func (r ranking[T]) Swap(i, j int) {
	r[i], r[j] = r[j], r[i]
	r[i].rank, r[j].rank = i, j
}

func (r *ranking[T]) Push(in any) {
	s := in.(*part[T])
	s.rank = len(*r)
	*r = append(*r, s)
}

func (r *ranking[T]) Pop() any {
	last := len(*r) - 1
	s := (*r)[last]
	(*r)[last], *r = nil, (*r)[:last]
	return s
}

// Gives is who has to give up a place to one of an address; false if nobody who could has more than
// that address would have with it.
func (p *Places[T]) Gives(address wire.GID) (who T, ok bool) {
	s := &p.all
	keys, from := sources(address)
	for _, key := range keys[from:] {
		most, has := s.largest(), 0
		if s = s.parts[key]; s != nil {
			has = s.n
		}
		if most != nil && most.n > has+1 {
			for most.parts != nil {
				most = most.largest()
			}
			return most.given.Front().Value.(T), true
		}
		if s == nil {
			break
		}
	}
	return who, false
}
