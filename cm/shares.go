package cm

// Shares of a listener's places: who floods it with requests keeps nobody else out.
// Stages: whom a place counts for → taking one and giving it back → who has to give one up.
//
// A place counts for the address that asked, and with IPv6 first for its /64, all addresses of
// which one host may have. If all are taken, a source with fewer places than another gets the
// oldest one of the source that has most; so n sources that want more than there is have an n-th
// each, and one that wants less has all that it wants. Taking and giving back take a time that does
// not depend on how many there are.

import (
	"container/list"

	"github.com/goroce/goroce/wire"
)

// share is the places of a source: of all, of a /64 or of an address.
type share struct {
	of    *share // that it is a part of; nil of all
	key   wire.GID
	n     int                 // places
	rank  int                 // where it stands in of.ranks[n]
	parts map[wire.GID]*share // of an address none
	ranks [][]*share          // the parts, by how many places they have
	conns list.List           // of an address: who has the places, the oldest first
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

// place is a connection's, in the share of its address.
type place struct {
	of *share
	at *list.Element // of of.conns
}

// take gives a connection a place.
func (s *share) take(c *Conn) *place {
	s.n++
	keys, from := sources(c.path.Remote)
	for _, key := range keys[from:] {
		part := s.parts[key]
		if part == nil {
			part = &share{of: s, key: key}
			if s.parts == nil {
				s.parts = map[wire.GID]*share{}
			}
			s.parts[key] = part
		}
		part.count(1)
		s = part
	}
	return &place{s, s.conns.PushBack(c)}
}

// giveBack gives a place back; nil is none.
func (p *place) giveBack() {
	if p == nil {
		return
	}
	s := p.of
	s.conns.Remove(p.at)
	for ; s.of != nil; s = s.of {
		s.count(-1)
	}
	s.n--
}

// count gives a part so many places more, and with them another rank.
func (s *share) count(more int) {
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
func (s *share) largest() *share {
	if len(s.ranks) == 0 {
		return nil
	}
	return s.ranks[len(s.ranks)-1][0]
}

// gives returns the connection that has to give its place to one from an address; nil if nobody has
// more than that one's source would have with it.
func (s *share) gives(address wire.GID) *Conn {
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
			return most.conns.Front().Value.(*Conn)
		}
		if s == nil {
			break
		}
	}
	return nil
}
