package diff

// Who is at which end, and how far the clocks are apart. A packet that occurs once in each capture
// has two times. Of those that go one way the later clock is ahead by the delay and the offset, of
// those that come back by the delay less the offset: the sum has no offset, and tells by its sign
// who sends.

import (
	"slices"

	"github.com/goroce/goroce/trace"
)

// pairing is the packets of two addresses, by capture.
type pairing struct {
	name        way
	there, back [2][]*sighting
}

// step is the time of a packet in the second capture less that in the first.
type step struct{ at, length int64 }

// steps are of the packets that occur once in each capture.
func steps(seen [2][]*sighting) (all []step) {
	count := map[key][2]int{}
	at := map[key]int64{}
	for c, list := range seen {
		for _, s := range list {
			n := count[s.key]
			n[c]++
			count[s.key] = n
			if c == 0 {
				at[s.key] = s.time
			}
		}
	}
	for _, s := range seen[1] {
		if count[s.key] == [2]int{1, 1} {
			all = append(all, step{at[s.key], s.time - at[s.key]})
		}
	}
	return all
}

// once returns the lengths of the steps, the shortest first.
func once(seen [2][]*sighting) (lengths []int64) {
	for _, s := range steps(seen) {
		lengths = append(lengths, s.length)
	}
	slices.Sort(lengths)
	return lengths
}

// drift fits a line to the steps of both ways: how fast the second clock runs away from the first,
// and the time at which that does not count. 0: there is nothing to fit it to.
func (p *pairing) drift() (rate float64, from int64) {
	var over, under float64
	for _, seen := range [][2][]*sighting{p.there, p.back} {
		all := steps(seen)
		if len(all) < 3 {
			continue
		}
		if from == 0 {
			from = all[0].at
		}
		var at, length float64
		for _, s := range all {
			at += float64(s.at-from) / float64(len(all))
			length += float64(s.length-all[0].length) / float64(len(all))
		}
		for _, s := range all {
			x := float64(s.at-from) - at
			over += x * (float64(s.length-all[0].length) - length)
			under += x * x
		}
	}
	if under == 0 {
		return 0, 0
	}
	return over / under, from
}

// straighten takes a drift out of the second capture's times, if without it packets would come
// before they were sent.
func (p *pairing) straighten(span *[2][2]int64) (rate float64) {
	first, _, _ := p.sends()
	c := clock(p.there, p.back)
	if c == nil || (c.RoundTrip >= 0) == (first == 0) && c.RoundTrip != 0 {
		return 0
	}
	rate, from := p.drift()
	if rate == 0 {
		return 0
	}
	right := func(t *int64) { *t -= int64(rate * float64(*t-from)) }
	for _, seen := range [][2][]*sighting{p.there, p.back} {
		for _, s := range seen[1] {
			right(&s.time)
		}
	}
	right(&span[1][0])
	right(&span[1][1])
	return rate
}

// sends says which capture is the sender's, of packets that go there: by what the captures say of
// directions, by both ways' times, or by what one of them lacks.
func (p *pairing) sends() (capture int, known string, guess bool) {
	votes := 0
	for c := range 2 {
		for _, x := range [2]struct {
			seen []*sighting
			sign int
		}{{p.there[c], 1 - 2*c}, {p.back[c], 2*c - 1}} {
			for _, s := range x.seen {
				switch s.as {
				case trace.DirSent:
					votes += x.sign
				case trace.DirReceived:
					votes -= x.sign
				}
			}
		}
	}
	if votes != 0 {
		return chosen(votes > 0), "by the directions in the captures", false
	}
	there, back := once(p.there), once(p.back)
	if len(there) > 0 && len(back) > 0 {
		if sum := there[len(there)/2] - back[len(back)/2]; sum != 0 {
			return chosen(sum > 0), "by the times of both ways", false
		}
	}
	if n := len(p.there[0]) - len(p.there[1]); n != 0 {
		return chosen(n > 0), "by what the other capture lacks", true
	}
	return 0, "by nothing: the captures do not tell", true
}

// chosen is the first capture if a condition holds.
func chosen(first bool) int {
	if first {
		return 0
	}
	return 1
}

// clock finds out how far the receiver's clock is ahead of the sender's, of packets that go there.
func clock(there, back [2][]*sighting) *Clock {
	out, home := once(there), once(back)
	if len(out) == 0 || len(home) == 0 {
		return nil
	}
	least := out[0]            // the delay there, and the offset
	most := -home[len(home)-1] // the delay back, less the offset
	return &Clock{Offset: (least - most) / 2, RoundTrip: least + most}
}
