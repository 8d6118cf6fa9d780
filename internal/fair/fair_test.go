package fair

// Places and turns, among addresses of either IP version.
// Stages: what is counted, counted anew → a model that looks at all places → examples.

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/goroce/goroce/wire"
)

// addresses are of IPv4, and of IPv6 in two networks.
var addresses = [...]wire.GID{
	{10: 0xff, 11: 0xff, 12: 10, 15: 1}, {10: 0xff, 11: 0xff, 12: 10, 15: 2},
	{0: 0xfd, 7: 1, 15: 1}, {0: 0xfd, 7: 1, 15: 2}, {0: 0xfd, 7: 2, 15: 1},
}

// check holds a part against its places, which it counts anew, and returns how many it has found.
func (s *part[T]) check(places map[*Place[T]]bool) (n, offered int, err error) {
	for p := range places {
		if p.of == s {
			n++
		}
		if p.of == s && p.at != nil {
			offered++
		}
	}
	if s.given.Len() != offered {
		err = fmt.Errorf("%v offers %d places, and has %d to offer", s.key, s.given.Len(), offered)
	}
	for key, in := range s.parts {
		m, o, e := in.check(places)
		n, offered = n+m, offered+o
		switch {
		case e != nil:
			err = e
		case in.key != key || in.of != s || in.n != m || m == 0 || in.gives != o:
			err = fmt.Errorf("%v has %d places, and %d to offer: it stands as %+v", key, m, o, in)
		case o > 0 && (s.ranks[in.rank] != in || s.largest().n < m):
			err = fmt.Errorf("%v has %d places, and is not ranked by them: %+v", key, m, in)
		}
	}
	return n, offered, err
}

// held is a place as the model has it: all that it knows is in a list.
type held struct {
	place   *Place[int]
	address wire.GID
	offered int // when; 0: it is kept
}

// network is what an address shares with others: its /64, or with IPv4 nothing.
func network(address wire.GID) wire.GID {
	if !address.Is4() {
		clear(address[8:])
	}
	return address
}

func itself(address wire.GID) wire.GID { return address }

// of returns the places of one key.
func of(all []held, key func(wire.GID) wire.GID, of wire.GID) (in []held) {
	for _, h := range all {
		if key(h.address) == key(of) {
			in = append(in, h)
		}
	}
	return in
}

// most returns the places of each that has most, of those that offer any.
func most(all []held, key func(wire.GID) wire.GID) (parts [][]held) {
	seen := map[wire.GID]bool{}
	for _, h := range all {
		if h.offered == 0 || seen[key(h.address)] {
			continue
		}
		seen[key(h.address)] = true
		part := of(all, key, h.address)
		if len(parts) > 0 && len(part) > len(parts[0]) {
			parts = nil
		}
		if len(parts) == 0 || len(part) == len(parts[0]) {
			parts = append(parts, part)
		}
	}
	return parts
}

// give returns who may have to give a place up to an address: several if some have as many.
func give(all []held, to wire.GID) (who []int) {
	for _, key := range [...]func(wire.GID) wire.GID{network, itself} {
		mine, parts := of(all, key, to), most(all, key)
		if len(parts) > 0 && len(parts[0]) > len(mine)+1 {
			for _, part := range parts {
				for _, in := range most(part, itself) {
					in = slices.DeleteFunc(in, func(h held) bool { return h.offered == 0 })
					who = append(who, slices.MinFunc(in, func(a, b held) int { return a.offered - b.offered }).place.who)
				}
			}
			return who
		}
		all = mine
	}
	return nil
}

// TestGivesAsTheModel: after whatever was taken, given back, kept and offered, who has to give a
// place up to an address is whom a count of all places finds.
func TestGivesAsTheModel(t *testing.T) {
	for seed := range uint64(30) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		var p Places[int]
		var all []held
		keeps := 1 + rnd.IntN(8) // the more, the more of its places the first address keeps
		for i := 1; i < 300; i++ {
			if at := rnd.IntN(max(1, 2*len(all))); at >= len(all) {
				from := addresses[rnd.IntN(1+rnd.IntN(len(addresses)))]
				all = append(all, held{p.Take(from, i), from, i})
			} else if h := &all[at]; rnd.IntN(keeps) > 0 && h.address == addresses[0] || rnd.IntN(4) == 0 {
				h.place.Keep()
				h.offered = 0
			} else if rnd.IntN(2) == 0 {
				h.place.Offer()
				h.offered = i
			} else {
				h.place.GiveBack()
				all = slices.Delete(all, at, at+1)
			}
			for _, to := range addresses {
				want := give(all, to)
				if who, ok := p.Gives(to); ok != (want != nil) || ok && !slices.Contains(want, who) {
					t.Fatalf("seed %d, step %d: %d gives one to %v (%v), want one of %v", seed, i, who, to, ok, want)
				}
			}
		}
	}
}

// TestPlaces: after whatever was taken, given back, kept and offered, all is counted right.
func TestPlaces(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	for range 50 {
		var p Places[int]
		places := map[*Place[int]]bool{}
		for i := range 300 {
			if rnd.IntN(2) == 0 {
				places[p.Take(addresses[rnd.IntN(len(addresses))], i)] = true
			}
			for place := range places {
				switch rnd.IntN(6) {
				case 0:
					place.GiveBack()
					delete(places, place)
				case 1:
					place.Keep()
				case 2:
					place.Offer()
				}
				break
			}
			if n, _, err := p.all.check(places); err != nil || n != p.Len() || n != len(places) {
				t.Fatalf("%d places, %d of %d found: %v", p.Len(), n, len(places), err)
			}
		}
		for place := range places {
			place.GiveBack()
		}
		if p.Len() != 0 || len(p.all.parts)+len(p.all.ranks) != 0 {
			t.Fatalf("left: %+v", p.all)
		}
	}
}

// TestGives: who has most gives its oldest place, if it offers one.
func TestGives(t *testing.T) {
	var p Places[string]
	var first *Place[string]
	for i := range 4 {
		place := p.Take(addresses[0], fmt.Sprint("first ", i))
		if i == 0 {
			first = place
		}
	}
	p.Take(addresses[2], "second").Keep()
	expect := func(address int, want string) {
		t.Helper()
		if who, ok := p.Gives(addresses[address]); who != want || ok != (want != "") {
			t.Errorf("%v gives, want %q", who, want)
		}
	}
	expect(1, "first 0")
	expect(2, "first 0")
	expect(3, "first 0") // the network of the second has one place
	expect(0, "")
	first.Keep()
	expect(1, "first 1")
	first.Offer()
	expect(1, "first 1")
	for range 5 {
		p.Take(addresses[4], "third").Keep()
	}
	expect(1, "first 1") // the third has most, and keeps all
}

// TestAboveShare: an address has its share, or more, if it has no fewer places than all have in the
// middle; in a network of IPv6 that has its share among networks.
func TestAboveShare(t *testing.T) {
	var p Places[int]
	var first [len(addresses)]*Place[int]
	for i, n := range [...]int{3, 1, 2, 1, 1} {
		for range n {
			first[i] = p.Take(addresses[i], 0)
		}
	}
	for i, want := range [...]bool{true, false, true, false, false} {
		if got := first[i].AboveShare(); got != want {
			t.Errorf("%v: %v", addresses[i], got)
		}
	}
}

// TestTurns: addresses take turns, and networks as others do; of one it is in order.
func TestTurns(t *testing.T) {
	var q Turns[string]
	join := func(address int, who string) *Turn[string] { return q.Join(addresses[address], who) }
	for i := range 3 {
		join(0, fmt.Sprint("a", i))
	}
	left := join(1, "gone")
	join(1, "b0")
	join(2, "c0")
	join(2, "c1")
	join(3, "d0")
	gone := join(4, "gone")
	left.Leave()
	gone.Leave()
	if q.Len() != 7 {
		t.Errorf("%d wait", q.Len())
	}
	for _, want := range []string{"a0", "b0", "c0", "a1", "d0", "a2", "c1", ""} {
		if who, ok := q.Next(); who != want || ok != (want != "") {
			t.Errorf("%q, want %q", who, want)
		}
	}
	if q.Len() != 0 || len(q.all.parts) != 0 {
		t.Errorf("left: %+v", q.all)
	}
}
