// Package fair shares out what is scarce among the addresses that ask for it: places, of which
// there are so many, and turns. So whoever asks for more than anybody, be it a flood, takes nothing
// from those who ask for less than their part.
//
// All is counted for an address, and with IPv6 first for its /64, all addresses of which one host
// may have. What a call takes does not depend on how many there are. One caller at a time uses what
// is made from this package.
package fair

// Places: who has how many, and who gives one up.
// Stages: whom a place counts for → taking one and giving it back → which may be asked back → who
// gives one up.

import (
	"container/list"

	"github.com/goroce/goroce/wire"
)

// Places are places of one kind, and who has them. If all are taken, an address with fewer than
// another gets the oldest one of the one that has most: so n addresses that want more than there
// are have an n-th each, and one that wants less has all that it wants. The zero value is none.
type Places[T any] struct{ all part[T] }

// part is the places of all, of a /64 or of an address.
type part[T any] struct {
	of    *part[T] // that it is a part of; nil of all
	key   wire.GID
	n     int                   // places
	rank  int                   // where it stands in of.ranks[n]
	parts map[wire.GID]*part[T] // of an address none
	ranks [][]*part[T]          // the parts, by how many places they have
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
		in.count(1)
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
		s.count(-1)
	}
	s.n--
}

// Keep says that the place is not to be asked back any more.
func (p *Place[T]) Keep() {
	if p.at != nil {
		p.of.given.Remove(p.at)
		p.at = nil
	}
}

// Offer says that the place may be asked back again, as the youngest of its address.
func (p *Place[T]) Offer() {
	p.Keep()
	p.at = p.of.given.PushBack(p.who)
}

// count gives a part so many places more, and with them another rank.
func (s *part[T]) count(more int) {
	all := s.of
	if s.n > 0 {
		row := all.ranks[s.n]
		last := len(row) - 1
		row[s.rank], row[last].rank = row[last], s.rank
		row[last] = nil
		all.ranks[s.n] = row[:last]
	}
	if s.n += more; s.n == 0 {
		delete(all.parts, s.key)
	} else {
		for len(all.ranks) <= s.n {
			if n := len(all.ranks); n < cap(all.ranks) {
				all.ranks = all.ranks[:n+1] // with the memory of the row that was there
			} else {
				all.ranks = append(all.ranks, nil)
			}
		}
		s.rank = len(all.ranks[s.n])
		all.ranks[s.n] = append(all.ranks[s.n], s)
	}
	for n := len(all.ranks); n > 0 && len(all.ranks[n-1]) == 0; n-- {
		all.ranks = all.ranks[:n-1]
	}
}

// largest is a part that has as many places as any; nil if there is none.
func (s *part[T]) largest() *part[T] {
	if len(s.ranks) == 0 {
		return nil
	}
	return s.ranks[len(s.ranks)-1][0]
}

// Gives is who has to give up a place to one of an address; false if nobody has more than that
// address would have with it, or those who have most keep theirs.
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
			if oldest := most.given.Front(); oldest != nil {
				return oldest.Value.(T), true
			}
			break
		}
		if s == nil {
			break
		}
	}
	return who, false
}
