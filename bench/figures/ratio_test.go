package figures

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"testing"
)

// The intervals are those of the usual tables, such as that of 10 values: from the 2nd to the 9th.
func TestInterval(t *testing.T) {
	for _, c := range []struct{ n, low, high int }{ // places from 1; 0: no interval
		{0, 0, 0}, {1, 0, 0}, {2, 0, 0}, {5, 0, 0}, {6, 1, 6}, {8, 1, 8}, {9, 2, 8}, {10, 2, 9}, {11, 2, 10}, {12, 3, 10},
		{15, 4, 12}, {16, 4, 13}, {17, 5, 13}, {18, 5, 14}, {20, 6, 15}, {100, 40, 61},
	} {
		values := make([]float64, c.n)
		for i := range values {
			values[i] = float64(i + 1)
		}
		low, high, ok := interval(values)
		if ok != (c.low > 0) || int(low) != c.low || int(high) != c.high {
			t.Errorf("of %d values: %v to %v, %v; want %d to %d", c.n, low, high, ok, c.low, c.high)
		}
	}
}

func TestState(t *testing.T) {
	for _, c := range []struct {
		low, high float64
		want      string
	}{
		{0.90, 0.96, IsWorse}, {0.5, 0.5, IsWorse}, {0, 0, IsWorse},
		{0.90, 0.98, IsUndecided}, {0.90, 1.10, IsUndecided}, {0.98, 1.10, IsUndecided}, {0.96, 1, IsUndecided}, {1, 1.04, IsUndecided},
		{0.98, 1.02, IsSame}, {1, 1, IsSame}, {0.97, 1.03, IsSame}, {1.01, 1.02, IsSame},
		{1.04, 1.10, IsBetter}, {2, math.Inf(1), IsBetter}, {1.02, 1.10, IsUndecided},
	} {
		if got := state(c.low, c.high); got != c.want {
			t.Errorf("%v to %v: %s, want %s", c.low, c.high, got, c.want)
		}
	}
}

// samplesOf makes a figure of values by round; a value below zero is a round that failed.
func samplesOf(u Unit, values ...float64) *Figure {
	r := &Results{}
	for i, v := range values {
		var err error
		if v < 0 {
			err = errors.New("it broke")
		}
		r.Add(&Case{Name: "case", Unit: u}, Sample{Round: i + 1, Value: v}, Unit{}, err)
	}
	return r.Figure("case")
}

// ten is what most pairs of TestDifference have on the old side; failed rounds are below zero.
var ten, zeros, broken = scaled(1), make([]float64, 10), scaled(-1)

// scaled is ten times 10, multiplied by the given factors in turn.
func scaled(by ...float64) (v []float64) {
	for i := range 10 {
		v = append(v, 10*by[i%len(by)])
	}
	return v
}

// failing is values of which the first n failed.
func failing(n int, values []float64) []float64 {
	return append(slices.Clone(broken[:n]), values[n:]...)
}

func twice(values []float64) []float64 { return append(slices.Clone(values), values...) }

var differences = []struct {
	name     string
	unit     Unit
	old, new []float64
	state    string
	ratio    float64 // NaN: none
	pairs    int
}{
	{"the same", Gbps, ten, ten, IsSame, 1, 10},
	{"less bandwidth", Gbps, ten, scaled(0.9, 0.94), IsWorse, 0.92, 10},
	{"more bandwidth", Gbps, ten, scaled(1.1, 1.2), IsBetter, 1.15, 10},
	{"a longer time", Usec, ten, scaled(1.25), IsWorse, 0.8, 10},
	{"a shorter time", Usec, ten, scaled(0.8), IsBetter, 1.25, 10},
	{"slower, but not by enough", Gbps, ten, scaled(0.98), IsSame, 0.98, 10},
	{"noise", Gbps, ten, scaled(0.8, 1.25), IsUndecided, 1.025, 10},
	{"one bad pair of ten", Gbps, ten, append(scaled(1)[:9], 1), IsSame, 1, 10},
	{"too few pairs", Gbps, ten[:5], scaled(0.5)[:5], IsUndecided, 0.5, 5},
	{"rounds that failed", Gbps, ten, failing(2, scaled(0.5)), IsWorse, 0.5, 8},
	{"more bandwidth, one failure", Gbps, ten, failing(1, scaled(1.1)), IsBetter, 1.1, 9},
	{"more bandwidth, four failures", Gbps, ten, failing(4, scaled(1.1)), IsUndecided, 1.1, 6},
	{"more bandwidth, four failures of the old one", Gbps, failing(4, ten), scaled(1.1), IsBetter, 1.1, 6},
	{"as much bandwidth, four failures", Gbps, ten, failing(4, ten), IsUndecided, 1, 6},
	{"half of the pairs are whole", Gbps, ten, failing(5, ten), IsUndecided, 1, 5},
	{"six failures", Gbps, ten, failing(6, scaled(1.1)), FailsMore, 1.1, 4},
	{"six failures of many pairs", Gbps, twice(ten), append(failing(6, scaled(1.1)), scaled(1.1)...), FailsMore, 1.1, 14},
	{"nine failures", Gbps, ten, failing(9, ten), FailsMore, 1, 1},
	{"nine failures, and one of the old one", Gbps, append(scaled(1)[:9], -1), failing(9, ten), IsFailed, math.NaN(), 0},
	{"six failures of the old one", Gbps, failing(6, ten), scaled(1.1), IsFailed, 1.1, 4},
	{"six failures of both", Gbps, failing(6, ten), failing(6, ten), IsFailed, 1, 4},
	{"six failures of both, and no allocations", Allocs, failing(6, zeros), failing(6, zeros), IsFailed, 1, 4},
	{"eleven failures of both, and less bandwidth", Gbps, append(failing(1, ten), broken...), append(failing(1, scaled(0.5)), broken...),
		IsWorse, 0.5, 9},
	{"no pair is whole", Gbps, []float64{10, -1}, []float64{-1, 10}, IsFailed, math.NaN(), 0},
	{"the new one fails, the old one mostly", Gbps, failing(9, ten), broken, IsFailed, math.NaN(), 0},
	{"the new one fails, the old one once", Gbps, failing(1, ten), broken, FailsMore, math.NaN(), 0},
	{"the new one fails in its only pair", Gbps, ten[:1], broken[:1], FailsNow, math.NaN(), 0},
	{"the old one failed, the new one once", Gbps, broken, failing(1, ten), IsFailed, math.NaN(), 0},
	{"the new one fails", Gbps, ten, broken, FailsNow, math.NaN(), 0},
	{"the old one failed", Gbps, broken, ten, OnlyNew, math.NaN(), 0},
	{"both fail", Gbps, broken, broken, IsFailed, math.NaN(), 0},
	{"no allocations", Allocs, zeros, zeros, IsSame, 1, 10},
	{"allocations are new", Allocs, zeros, ten, IsWorse, 0, 10},
	{"a few are new, even in two pairs", Allocs, zeros[:2], []float64{0, 0.01}, IsWorse, 0.5, 2},
	{"one allocation in ten pairs", Allocs, zeros, append(make([]float64, 9), 1), IsSame, 1, 10},
	{"allocations are gone", Allocs, ten, zeros, IsBetter, math.Inf(1), 10},
	{"as many allocations", Allocs, ten, ten, IsSame, 1, 10},
	{"more allocations", Allocs, ten, scaled(1.1), IsWorse, 1 / 1.1, 10},
}

func TestDifference(t *testing.T) {
	for _, c := range differences {
		d := NewDifference(samplesOf(c.unit, c.old...), samplesOf(c.unit, c.new...))
		near := math.Abs(float64(d.Ratio)-c.ratio) < 1e-9 || float64(d.Ratio) == c.ratio || math.IsNaN(float64(d.Ratio)) &&
			math.IsNaN(c.ratio)
		if d.State != c.state || !near || d.Pairs != c.pairs {
			t.Errorf("%s: %s, ratio %v of %d pairs; want %s, %v of %d", c.name, d.State, d.Ratio, d.Pairs, c.state, c.ratio, c.pairs)
		}
		if _, err := json.Marshal(d); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
