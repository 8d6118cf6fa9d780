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

// once returns the time in the second capture less that in the first of packets that occur once in
// each.
func once(seen [2][]*sighting) (steps []int64) {
	count := map[key][2]int{}
	for c, all := range seen {
		for _, s := range all {
			n := count[s.key]
			n[c]++
			count[s.key] = n
		}
	}
	at := map[key]int64{}
	for _, s := range seen[0] {
		at[s.key] = s.time
	}
	for _, s := range seen[1] {
		if count[s.key] == [2]int{1, 1} {
			steps = append(steps, s.time-at[s.key])
		}
	}
	slices.Sort(steps)
	return steps
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
