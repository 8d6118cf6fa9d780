package figures

// What can be said of a bar. In each round the figure of ours is divided by the best one of the
// rivals in that round; the median of these ratios has an interval that holds the true one with a
// confidence of 95 % (ratio.go). A bar is passed if all of the interval is on the bar's side,
// failed if none of it is, and undecided otherwise, or if there are too few rounds for an interval.

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
)

// What became of a bar.
const (
	Passed      = "pass"
	failed      = "fail"
	undecided   = "undecided"
	notMeasured = "not measured"
)

// atPar is by how much figures may differ and still be called at par.
const atPar = 0.1

// Verdict is a bar with what was found.
type Verdict struct {
	Bout      string     `json:"bout"`
	What      string     `json:"what"`
	Case      string     `json:"case"`
	Unit      Unit       `json:"unit"`
	Reference bool       `json:"reference,omitempty"`
	Best      string     `json:"best,omitempty"` // the best rivals of the rounds, and how often
	Figure    Held       `json:"figure"`
	CostUnit  Unit       `json:"cost_unit,omitzero"`
	Cost      Held       `json:"cost,omitzero"`
	P99       [2]float64 `json:"p99,omitzero"`   // medians, of ours and of the best
	Note      string     `json:"note,omitempty"` // why it was not measured, or the rivals' notes
}

// Held is one figure held against a demand.
type Held struct {
	Demand string  `json:"demand,omitempty"`
	Ours   float64 `json:"ours"`             // medians
	Theirs float64 `json:"theirs,omitempty"` //
	Ratio  Ratio   `json:"ratio_median"`
	Low    Ratio   `json:"ratio_low"`
	High   Ratio   `json:"ratio_high"`
	Rounds int     `json:"rounds"`
	Played int     `json:"played,omitempty"`  // rounds there were
	Word   string  `json:"word,omitempty"`    // ours against theirs
	State  string  `json:"verdict,omitempty"` // "": nothing is demanded
}

// Judge holds the results against the bars of bouts.
func (r *Results) Judge(bouts []Bout) {
	r.Verdicts = nil
	for i := range bouts {
		for _, bar := range bouts[i].Bars {
			if v, ok := bar.Judge(r, &bouts[i]); ok {
				r.Verdicts = append(r.Verdicts, v)
			}
		}
	}
}

// Judge holds results of a bout against a bar, unless ours is not in it: a short run has fewer
// cases.
func (b *Bar) Judge(r *Results, bout *Bout) (v Verdict, ok bool) {
	if !slices.ContainsFunc(bout.Cases, func(c Case) bool { return c.Name == b.Ours }) {
		return v, false
	}
	v = Verdict{Bout: bout.Name, What: b.What, Case: b.Ours, Reference: b.Reference}
	ours := r.Figure(b.Ours)
	if !ours.Measured() {
		v.Figure.Demand, v.Figure.State, v.Note = demand(b.Rule, b.Factor, ""), notMeasured, b.Ours+": "+why(ours)
		return v, true
	}
	v.Unit, v.CostUnit = ours.Unit, ours.CostUnit
	if b.Against == "" {
		v.Figure = hold(ours.sorted(value), b.Rule, b.Factor)
		v.Figure.Demand, v.Figure.Ours = demand(b.Rule, b.Factor, ours.Unit.Name), ours.Median()
		return v, true
	}
	rivals, missing := b.rivals(r, bout)
	if len(rivals) == 0 && missing == "" {
		return v, false
	}
	if missing != "" {
		v.Figure.Demand, v.Figure.State, v.Note = demand(b.Rule, b.Factor, "×"), notMeasured,
			missing+": "+why(r.Figure(missing))
		return v, true
	}
	b.compare(&v, ours, rivals)
	return v, true
}

// rivals are the figures of a bout that ours is held against, and one that should be among them and
// never ran: without it the best may be missing.
func (b *Bar) rivals(r *Results, bout *Bout) (figures []*Figure, missing string) {
	against := regexp.MustCompile("^(" + b.Against + ")$")
	for _, c := range bout.Cases {
		if c.Name == b.Ours || !against.MatchString(c.Name) {
			continue
		}
		if f := r.Figure(c.Name); f.Measured() {
			figures = append(figures, f)
		} else {
			missing = c.Name
		}
	}
	return figures, missing
}

// compare fills a verdict with the ratios to the best rival of each round.
func (b *Bar) compare(v *Verdict, ours *Figure, rivals []*Figure) {
	var ratios, costs, theirs, theirCosts, theirP99 []float64
	won := map[string]int{}
	notes := map[string]bool{}
	winning := winnersOf(ours, rivals)
	for _, s := range ours.Samples {
		f, best := bestOf(rivals, s.Round)
		if f == nil || !all(winning, s.Round) {
			continue
		}
		won[WithoutMTU(f.Case)]++
		if best.Note != "" {
			notes[f.Case+": "+best.Note] = true
		}
		if best.P99 > 0 {
			theirP99 = append(theirP99, best.P99)
		}
		theirs, ratios = append(theirs, best.Value), append(ratios, quotient(s.Value, best.Value))
		if s.Cost > 0 && best.Cost > 0 {
			theirCosts, costs = append(theirCosts, best.Cost), append(costs, s.Cost/best.Cost)
		}
	}
	v.Best, v.Note = winners(won), strings.Join(slices.Sorted(maps.Keys(notes)), "; ")
	v.Figure = against(ours.Median(), theirs, ratios, b.Rule, b.Factor)
	v.Figure.Word, v.Figure.Played = word(v.Unit, v.Figure), ours.Rounds()
	if missed := v.Figure.Played - v.Figure.Rounds; missed > mayMiss {
		v.Figure.State, v.Figure.Word = notMeasured, ""
		v.Note = fmt.Sprintf("in %d of %d rounds ours or one of the best rivals failed", missed, v.Figure.Played)
		return
	}
	if slices.Sort(theirP99); len(theirP99) > 0 {
		v.P99 = [2]float64{ours.medianP99(), median(theirP99)}
	}
	rule := AtMost
	if b.Cost == 0 {
		rule = ""
	}
	if len(costs) == 0 && rule == "" {
		return
	}
	v.Cost = against(ours.medianCost(), theirCosts, costs, rule, b.Cost)
	v.Cost.Word, v.Cost.Played = word(v.CostUnit, v.Cost), ours.Rounds()
}

// mayMiss is in how many rounds ours or one of the best rivals may be missing. Whoever fails more
// often may have failed where it would have been the best, or the worst.
const mayMiss = 1

// winnersOf are the rivals that are the best of some round.
func winnersOf(ours *Figure, rivals []*Figure) (winning []*Figure) {
	for round := 1; round <= ours.Rounds(); round++ {
		if f, _ := bestOf(rivals, round); f != nil && !slices.Contains(winning, f) {
			winning = append(winning, f)
		}
	}
	return winning
}

// all says whether none of the figures is missing in a round.
func all(figures []*Figure, round int) bool {
	return !slices.ContainsFunc(figures, func(f *Figure) bool {
		_, ok := f.At(round)
		return !ok
	})
}

// quotient of two figures. Nothing and nothing are equal.
func quotient(a, b float64) float64 {
	if a == b {
		return 1
	}
	return a / b
}

// bestOf is the best rival of a round; nil if all of them failed.
func bestOf(rivals []*Figure, round int) (best *Figure, sample Sample) {
	for _, f := range rivals {
		if s, ok := f.At(round); ok && (best == nil || f.Unit.Lower == (s.Value < sample.Value)) {
			best, sample = f, s
		}
	}
	return best, sample
}

// winners says who was the best of a round, and how often, the most frequent first.
func winners(won map[string]int) string {
	names := slices.SortedFunc(maps.Keys(won), func(a, b string) int {
		return cmp.Or(cmp.Compare(won[b], won[a]), cmp.Compare(a, b))
	})
	for i, name := range names {
		if len(won) > 1 {
			names[i] = fmt.Sprintf("%s (%d)", name, won[name])
		}
	}
	return strings.Join(names, ", ")
}

// against holds the ratios to the best rivals of the rounds.
func against(ours float64, theirs, ratios []float64, rule Rule, factor float64) Held {
	if len(ratios) == 0 {
		none := Ratio(math.NaN())
		return Held{
			Demand: demand(rule, factor, "×"),
			Ours:   ours,
			Ratio:  none,
			Low:    none,
			High:   none,
			State:  notMeasured,
		}
	}
	slices.Sort(theirs)
	slices.Sort(ratios)
	h := hold(ratios, rule, factor)
	h.Demand, h.Ours, h.Theirs = demand(rule, factor, "×"), ours, median(theirs)
	return h
}

// hold holds the interval of the median of sorted values against a demand. Where there are too few
// values for one it shows their range, and decides nothing.
func hold(sorted []float64, rule Rule, factor float64) Held {
	h := Held{Ratio: Ratio(median(sorted)), Rounds: len(sorted)}
	low, high, ok := interval(sorted)
	if !ok {
		low, high = sorted[0], sorted[len(sorted)-1]
	}
	h.Low, h.High = Ratio(low), Ratio(high)
	switch {
	case rule == "":
	case !ok:
		h.State = undecided
	case rule == AtLeast && low >= factor, rule == AtMost && high <= factor:
		h.State = Passed
	case rule == AtLeast && high < factor, rule == AtMost && low > factor:
		h.State = failed
	default:
		h.State = undecided
	}
	return h
}

// words for what is better, at par and worse, by the unit. Others have none.
var threeWords = map[Unit][3]string{
	Gbps: {"faster", "at par", "slower"}, Mpps: {"faster", "at par", "slower"}, Usec: {"faster", "at par", "slower"},
	NsEach: {"faster", "at par", "slower"}, UsOnce: {"faster", "at par", "slower"},
	UsTrip: {"faster", "at par", "slower"},
	PerGB:  {"cheaper", "at par", "dearer"}, PerMillion: {"cheaper", "at par", "dearer"},
	PerExchange: {"cheaper", "at par", "dearer"},
}

// word says how ours is to theirs: at par if the interval lies within a tenth of 1, undecided if it
// spans 1 and more than that, else better or worse; none if there are too few rounds to tell.
func word(unit Unit, h Held) string {
	w, known := threeWords[unit]
	if !known || h.Rounds < FewestRounds {
		return ""
	}
	low, high := float64(h.Low), float64(h.High)
	switch {
	case low >= 1-atPar && high <= 1+atPar:
		return w[1]
	case low <= 1 && high >= 1:
		return undecided
	case unit.Lower == (high < 1):
		return w[0]
	}
	return w[2]
}

// Extremes are the cases of ours on this machine that do best and worst by their bars.
func (r *Results) Extremes(bouts []Bout) (best, worst string) {
	most, least := 0.0, math.Inf(1)
	for i := range bouts {
		for _, bar := range bouts[i].Bars {
			v, ok := bar.Judge(r, &bouts[i])
			if !ok || Maker(bar.Ours) != "ours" || bar.Rule == "" || v.Figure.State == notMeasured ||
				v.Figure.Ratio <= 0 {
				continue
			}
			room := float64(v.Figure.Ratio) / bar.Factor
			if bar.Rule == AtMost {
				room = 1 / room
			}
			if room > most {
				best, most = bar.Ours, room
			}
			if room < least {
				worst, least = bar.Ours, room
			}
		}
	}
	return best, worst
}

func why(f *Figure) string {
	switch {
	case f == nil:
		return "not played"
	case len(f.Errors) > 0:
		return f.Errors[0]
	}
	return "no samples"
}
