package diff

// Which packet is which. One that occurs once in each capture is a pair, whatever its delay. Of
// packets that are alike, as those that are sent again, the first is the first if there are as many
// in both; if not, each that arrives is the one whose delay is the most likely, in their order.

import (
	"slices"
)

// compare says what became of the packets of both ways.
func (p *pairing) compare(span [2][2]int64) Pair {
	rate := p.straighten(&span)
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
		r.Clock.Unsteady = r.Clock.RoundTrip < 0
		r.Clock.Guess = rate != 0 || r.Clock.Unsteady
		if r.Clock.Drift = rate * 1e6; first == 1 {
			r.Clock.Drift = -r.Clock.Drift
		}
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
	known         bool  // some packets occur once
	fastest       int64 // of those
	longest       int64 // of those
	close         int64 // packets that follow each other within it can be each other
	origin        []int // of what has arrived: which of those sent it is, -1: none
	taken         []int // of what was sent: which has arrived, -1: none
	delays        []int64
}

func (w *walk) walk() Way {
	r := Way{Sent: len(w.sent), Lost: []Event{}, Twice: []Event{}, Overtook: []Event{}, Marked: []Event{},
		Damaged: []Event{}, Strange: []Event{}}
	w.bounds()
	r.Guess = w.match()
	w.damaged()
	w.order(&r)
	w.lost(&r)
	slices.Sort(w.delays)
	if n := len(w.delays); n > 0 && (w.clock == nil || !w.clock.Unsteady) {
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
	if w.known = len(steps) > 0; !w.known {
		w.least, w.most = -1<<62, 1<<62
		return
	}
	spread := max(steps[len(steps)-1]-steps[0], 1e6)
	w.fastest = steps[0]
	if w.least = w.fastest - spread; w.clock != nil && !w.clock.Unsteady {
		w.least = w.fastest - w.clock.RoundTrip
	}
	w.longest = steps[len(steps)-1]
	w.most = w.longest + spread
	if w.close = w.longest - w.fastest; w.clock != nil {
		w.close = max(w.close, w.clock.RoundTrip)
	}
}

// alike are packets with the same key: those sent, and those that have arrived.
type alike struct{ sent, arrived []int }

// match finds the origin of everything that has arrived, and says whether it had to guess.
func (w *walk) match() (guess bool) {
	w.origin, w.taken = make([]int, len(w.arrived)), make([]int, len(w.sent))
	var all []*alike // in the order of the captures
	of := map[key]*alike{}
	group := func(k key) *alike {
		g := of[k]
		if g == nil {
			g = &alike{}
			of[k] = g
			all = append(all, g)
		}
		return g
	}
	for i, s := range w.sent {
		w.taken[i] = -1
		g := group(s.key)
		g.sent = append(g.sent, i)
	}
	for j, s := range w.arrived {
		w.origin[j] = -1
		g := group(s.key)
		g.arrived = append(g.arrived, j)
	}
	for _, g := range all {
		if len(g.sent) == len(g.arrived) && (len(g.sent) == 1 || w.inOrder(g)) {
			for n, i := range g.sent {
				w.pair(i, g.arrived[n])
			}
			continue
		}
		guess = w.nearest(g) || guess
		w.late(g)
	}
	return guess
}

// delay is how long a packet took, by the two clocks.
func (w *walk) delay(i, j int) int64 { return w.arrived[j].time - w.sent[i].time }

// inOrder says whether the delays are like those of other packets if none has overtaken another.
// What is sent again because of an answer would be late by a round trip.
func (w *walk) inOrder(g *alike) bool {
	for n, i := range g.sent {
		if d := w.delay(i, g.arrived[n]); d < w.least || w.known && d > w.longest && d-w.fastest >= w.close {
			return false
		}
	}
	return true
}

// nearest pairs each arrival with the one sent that makes its delay the most likely. guess: two
// were sent so closely behind each other that it could be the other one.
func (w *walk) nearest(g *alike) (guess bool) {
	n := 0
	for _, j := range g.arrived {
		for w.known && n+1 < len(g.sent) && w.unlikely(g.sent[n+1], j) <= w.unlikely(g.sent[n], j) {
			n++
		}
		if n == len(g.sent) {
			break
		}
		if d := w.delay(g.sent[n], j); d >= w.least && d <= w.most {
			w.pair(g.sent[n], j)
			n++
		}
	}
	for n := 1; n < len(g.sent) && !guess; n++ {
		guess = !w.known || w.sent[g.sent[n]].time-w.sent[g.sent[n-1]].time < w.close
	}
	return guess && len(g.arrived) > 0
}

// unlikely is how far a delay is from that of the fastest; shorter ones are less likely than longer
// ones.
func (w *walk) unlikely(i, j int) int64 {
	d := w.delay(i, j) - w.fastest
	if d < 0 {
		return -2 * d
	}
	return d
}

// late pairs what is left over on both sides. If nothing of its key was found, any delay will do:
// what else could it be?
func (w *walk) late(g *alike) {
	most := int64(1 << 62)
	for _, i := range g.sent {
		if w.taken[i] >= 0 {
			most = w.most
		}
	}
	n := len(g.sent) - 1
	for _, j := range slices.Backward(g.arrived) {
		if w.origin[j] >= 0 {
			continue
		}
		for n >= 0 && (w.taken[g.sent[n]] >= 0 || w.delay(g.sent[n], j) < w.least) {
			n--
		}
		if n >= 0 && w.delay(g.sent[n], j) <= most {
			w.pair(g.sent[n], j)
		}
	}
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
			list := of[k]
			for len(list) > 0 && w.delay(list[0], j) > w.most {
				list = list[1:]
			}
			if len(list) > 0 && w.delay(list[0], j) >= w.least {
				w.pair(list[0], j)
				list = list[1:]
			}
			of[k] = list
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
