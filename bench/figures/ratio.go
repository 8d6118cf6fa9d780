package figures

// How much better or worse a case has become between two commits: the ratios of its pairs, their
// median with an interval, the pairs in which only one commit failed, and what can be said of it.

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
)

const (
	// margin is by how much a ratio must differ from 1 to matter: any change moves code about in a
	// program, and that alone moves figures a little.
	margin = 0.03
	// confidence is how often an interval must hold the true median.
	confidence = 0.95
	// FewestRounds have such an interval.
	FewestRounds = 6
	// aloneEnough is in how many pairs the new commit must fail alone, and the old one in none,
	// before it fails more often: a fair coin falls on one side six times of six in 3 % of all
	// tries.
	aloneEnough = 6
)

// What can be said of a case.
const (
	IsWorse     = "worse"
	IsBetter    = "better"
	IsSame      = "no difference shown"
	IsUndecided = "undecided"
	OnlyOld     = "only old"         // the new commit does not have the case, or not its port
	OnlyNew     = "only new"         // the same of the old one; or it alone failed, each time
	FailsNow    = "fails now"        // the new one failed each time, the old one never
	FailsMore   = "fails more often" // the new one alone in aloneEnough pairs, the old one in none
	IsFailed    = "failed"           // in more than half of the pairs; the rest does not say worse
)

// Ratio of new to old, turned so that more than 1 is better; infinite if something became nothing.
type Ratio float64

// MarshalJSON writes null for what JSON has no numbers for.
func (r Ratio) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(r)) || math.IsInf(float64(r), 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(r))
}

// Difference is what two commits made of one case.
type Difference struct {
	Case       string   `json:"case"`
	Unit       Unit     `json:"unit"`
	State      string   `json:"verdict"`
	Old        float64  `json:"old_median"`
	New        float64  `json:"new_median"`
	Ratio      Ratio    `json:"ratio_median"`
	Low        Ratio    `json:"ratio_low"` // the interval of the ratio's median
	High       Ratio    `json:"ratio_high"`
	Pairs      int      `json:"pairs"`           // in which neither commit failed
	OldAlone   int      `json:"only_old_failed"` // in which the new one did not
	NewAlone   int      `json:"only_new_failed"`
	OldSamples []Sample `json:"old_samples"`
	NewSamples []Sample `json:"new_samples"`
	Notes      []string `json:"notes,omitempty"` // what failed, or why the case was not played
}

// NewDifference judges the figures that two commits gave in one case.
func NewDifference(before, after *Figure) Difference {
	none := Ratio(math.NaN())
	d := Difference{Case: after.Case, Unit: after.Unit, Ratio: none, Low: none, High: none,
		OldSamples: before.Samples, NewSamples: after.Samples}
	for _, e := range before.Errors {
		d.Notes = append(d.Notes, "old, "+e)
	}
	for _, e := range after.Errors {
		d.Notes = append(d.Notes, "new, "+e)
	}
	d.weigh(before, after)
	d.NewAlone, d.OldAlone = len(before.Samples)-d.Pairs, len(after.Samples)-d.Pairs
	switch played := len(after.Samples) + len(after.Errors); {
	case len(before.Errors) == 0 && !after.Measured():
		d.State = FailsNow
	case d.NewAlone >= aloneEnough && d.OldAlone == 0:
		d.State = FailsMore
	case len(after.Errors) == 0 && !before.Measured():
		d.State = OnlyNew
	case 2*d.Pairs < played && d.State != IsWorse: // the few that are left may be the lucky ones
		d.State = IsFailed
	}
	return d
}

// weigh compares the samples of the pairs in which neither commit failed. Without such pairs it
// finds only the medians of what there is.
func (d *Difference) weigh(before, after *Figure) {
	d.State = IsUndecided
	var olds, news, ratios []float64
	for _, s := range after.Samples {
		if o, ok := before.At(s.Round); ok {
			olds, news = append(olds, o.Value), append(news, s.Value)
			ratios = append(ratios, advantage(d.Unit, o.Value, s.Value))
		}
	}
	if d.Pairs = len(ratios); d.Pairs == 0 {
		if before.Measured() {
			d.Old = before.Median()
		}
		if after.Measured() {
			d.New = after.Median()
		}
		return
	}
	slices.Sort(olds)
	slices.Sort(news)
	slices.Sort(ratios)
	d.Old, d.New, d.Ratio = median(olds), median(news), Ratio(median(ratios))
	low, high, ok := interval(ratios)
	if ok {
		// Where only the new commit failed, it may have been at its slowest: for the lower end such
		// pairs count as ratios of 0, so that failures never make a case better.
		lost := make([]float64, len(before.Samples)-d.Pairs)
		if lowest, _, ok := interval(append(lost, ratios...)); ok {
			low = min(low, lowest)
		}
		d.Low, d.High = Ratio(low), Ratio(high)
	}
	if d.Old == 0 || d.New == 0 { // no part of nothing is small
		d.State = zeroState(d.Unit, d.Old, d.New)
	} else if ok {
		d.State = state(low, high)
	}
}

// advantage is the ratio of one pair. Nothing and nothing are equal.
func advantage(u Unit, before, after float64) float64 {
	switch {
	case before == after:
		return 1
	case u.Lower:
		return before / after
	}
	return after / before
}

// interval returns an interval that holds the median of what the sorted values are samples of, with
// a confidence of 95 % or more: from the kth least value to the kth greatest. A fair coin decides
// whether a value lies below the median, whatever the distribution, so the chance of fewer than k
// values on one side is a sum of binomial coefficients (H. A. David and H. N. Nagaraja, Order
// Statistics, 3rd edition, 2003, section 7.1). Ten values have k = 2 and so a confidence of 97.9 %;
// fewer than six values have none.
func interval(sorted []float64) (low, high float64, ok bool) {
	n, k := len(sorted), 0
	outside, term := 0.0, math.Pow(2, float64(1-n)) // both sides: twice C(n, k) / 2^n
	for k < n/2 && outside+term <= 1-confidence {
		outside += term
		term *= float64(n-k) / float64(k+1)
		k++
	}
	if k == 0 {
		return 0, 0, false
	}
	return sorted[k-1], sorted[n-k], true
}

// state is what an interval says.
func state(low, high float64) string {
	switch {
	case high < 1-margin:
		return IsWorse
	case low > 1+margin:
		return IsBetter
	case low >= 1-margin && high <= 1+margin:
		return IsSame
	}
	return IsUndecided
}

// zeroState is what two medians say of which at least one is nothing, such as allocations.
func zeroState(u Unit, before, after float64) string {
	switch {
	case before == after:
		return IsSame
	case u.Lower == (after > before):
		return IsWorse
	}
	return IsBetter
}

// Rank orders what is said of cases: what must not be overlooked, what was compared, the rest.
func (d *Difference) Rank() int {
	switch d.State {
	case FailsNow, FailsMore:
		return 0
	case IsWorse:
		return 1
	case IsBetter, IsSame, IsUndecided:
		return 2
	}
	return 3
}

// Verdict is the state with what it rests on, if not on all pairs that were played.
func (d *Difference) Verdict(played int) string {
	switch d.State {
	case IsFailed:
		return fmt.Sprintf("failed %d of %d", played-d.Pairs, played)
	case FailsMore:
		return fmt.Sprintf("fails more often (alone in %d of %d pairs)", d.NewAlone, played)
	case IsWorse, IsBetter, IsSame, IsUndecided:
		if d.Pairs < played {
			return fmt.Sprintf("%s (%d of %d pairs)", d.State, d.Pairs, played)
		}
	}
	return d.State
}
