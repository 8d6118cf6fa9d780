package diff

// Which packet is which. A packet that was sent again has the same key as the first, so several of
// one capture may be one of the other: each that arrives is the latest that can have been sent for
// it, and is not taken yet.

import (
	"slices"
)

// compare says what became of the packets of both ways.
func (p *pairing) compare(span [2][2]int64) Pair {
	first, known, guess := p.sends()
	r := Pair{Known: known, Guess: guess}
	there, back := p.there, p.back
	src, dst := p.name.src, p.name.dst
	if first == 1 { // A was captured where these arrive
		there, back, src, dst = back, there, dst, src
	}
	r.Addresses = [2]string{src.Addr().Unmap().String(), dst.Addr().Unmap().String()}
	r.Clock = clock(there, back)
	offset := int64(0)
	if r.Clock != nil {
		offset = r.Clock.Offset
	}
	for c, seen := range [2][2][]*sighting{there, back} {
		w := walk{sent: seen[c], arrived: seen[1-c], offset: offset * int64(1-2*c), clock: r.Clock,
			span: span[1-c]}
		if len(w.sent)+len(w.arrived) > 0 {
			way := w.walk()
			way.From, way.To = r.Addresses[c], r.Addresses[1-c]
			r.Ways = append(r.Ways, way)
		}
	}
	return r
}

// walk is one way: what was sent and what has arrived, each in the order of its capture.
type walk struct {
	sent, arrived []*sighting
	offset        int64 // of the receiver's clock
	clock         *Clock
	span          [2]int64
	least, most   int64 // delays that are plausible
	fastest       int64 // of packets that occur once
	origin        []int // of what has arrived: which of those sent it is, -1: none
	taken         []int // of what was sent: which has arrived, -1: none
	delays        []int64
}

func (w *walk) walk() Way {
	r := Way{Sent: len(w.sent), Lost: []Event{}, Twice: []Event{}, Overtook: []Event{}, Marked: []Event{},
		Damaged: []Event{}, Strange: []Event{}}
	w.bounds()
	w.match()
	w.damaged()
	w.order(&r)
	w.lost(&r)
	slices.Sort(w.delays)
	if n := len(w.delays); n > 0 {
		base := int64(0)
		if w.clock == nil {
			base = w.delays[0]
		}
		r.Delay = &Delay{w.delays[0] - base, w.delays[n/2] - base, w.delays[n*99/100] - base, w.delays[n-1] - base}
	}
	return r
}

// bounds finds the delays of packets that occur once. Others can be shorter by less than what the
// fastest take there and back, and are plausible up to twice the longest.
func (w *walk) bounds() {
	steps := once([2][]*sighting{w.sent, w.arrived})
	if len(steps) == 0 {
		w.least, w.most = -1<<62, 1<<62
		return
	}
	spread := max(steps[len(steps)-1]-steps[0], 1e6)
	w.fastest = steps[0]
	if w.least = w.fastest - spread; w.clock != nil {
		w.least = w.fastest - w.clock.RoundTrip
	}
	w.most = steps[len(steps)-1] + spread
}

// match finds the origin of everything that has arrived.
func (w *walk) match() {
	w.origin, w.taken = make([]int, len(w.arrived)), make([]int, len(w.sent))
	of, matched := map[key][]int{}, map[key]bool{}
	for i, s := range w.sent {
		w.taken[i] = -1
		of[s.key] = append(of[s.key], i)
	}
	for j, s := range w.arrived {
		if w.origin[j] = -1; w.latest(of[s.key], j, w.most) || matched[s.key] {
			matched[s.key] = true
			continue
		}
		matched[s.key] = w.latest(of[s.key], j, 1<<62) // late, but what else could it be?
	}
}

// latest pairs an arrival with the latest packet of a list that can be it.
func (w *walk) latest(list []int, j int, most int64) bool {
	for _, i := range slices.Backward(list) {
		step := w.arrived[j].time - w.sent[i].time
		if w.taken[i] < 0 && step >= w.least && step <= most {
			w.pair(i, j)
			return true
		}
	}
	return false
}

func (w *walk) pair(i, j int) {
	w.origin[j], w.taken[i] = i, j
	w.delays = append(w.delays, w.arrived[j].time-w.sent[i].time-w.offset)
}

// damaged finds the origin of packets whose ICRC field has changed: what is left over on both
// sides.
func (w *walk) damaged() {
	of := map[key][]int{}
	for i, s := range w.sent {
		if k := s.key; w.taken[i] < 0 {
			k.icrc = 0
			of[k] = append(of[k], i)
		}
	}
	for j, s := range w.arrived {
		if k := s.key; w.origin[j] < 0 && s.bad {
			k.icrc = 0
			for n, i := range of[k] {
				if step := s.time - w.sent[i].time; step >= w.least && step <= w.most {
					w.pair(i, j)
					of[k] = slices.Delete(of[k], n, n+1)
					break
				}
			}
		}
	}
}

// order looks at what has arrived: what is there once more, what another one has overtaken.
func (w *walk) order(r *Way) {
	first := map[key]int{} // arrivals that have an origin
	latest, by := -1, 0
	for j, s := range w.arrived {
		i := w.origin[j]
		if i < 0 {
			e := event(nil, s)
			if f, again := first[s.key]; again {
				e.Sent, e.By = int(w.sent[w.origin[f]].number), int(w.arrived[f].number)
				r.Twice = append(r.Twice, e)
			} else {
				r.Strange = append(r.Strange, e)
			}
			continue
		}
		r.Arrived++
		first[s.key] = j
		if s.marked && !w.sent[i].marked {
			r.Marked = append(r.Marked, event(w.sent[i], s))
		}
		if s.bad && !w.sent[i].bad {
			r.Damaged = append(r.Damaged, event(w.sent[i], s))
		}
		if i < latest {
			e := event(w.sent[i], s)
			e.By = by
			r.Overtook = append(r.Overtook, e)
			continue
		}
		latest, by = i, int(s.number)
	}
}

// lost looks at what was sent and has not arrived, unless the other capture has nothing of its
// time.
func (w *walk) lost(r *Way) {
	for i, s := range w.sent {
		switch at := s.time + w.fastest; {
		case w.taken[i] >= 0:
		case at < w.span[0] || at > w.span[1]:
			r.Outside++
		default:
			r.Lost = append(r.Lost, event(s, nil))
		}
	}
}
