package main

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
		{0.90, 0.96, isWorse}, {0.5, 0.5, isWorse}, {0, 0, isWorse},
		{0.90, 0.98, isUndecided}, {0.90, 1.10, isUndecided}, {0.98, 1.10, isUndecided}, {0.96, 1, isUndecided}, {1, 1.04, isUndecided},
		{0.98, 1.02, isSame}, {1, 1, isSame}, {0.97, 1.03, isSame}, {1.01, 1.02, isSame},
		{1.04, 1.10, isBetter}, {2, math.Inf(1), isBetter}, {1.02, 1.10, isUndecided},
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
		r.add(&Case{Name: "case", Unit: u}, Sample{Round: i + 1, Value: v}, Unit{}, err)
	}
	return r.figure("case")
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
	{"the same", gbps, ten, ten, isSame, 1, 10},
	{"less bandwidth", gbps, ten, scaled(0.9, 0.94), isWorse, 0.92, 10},
	{"more bandwidth", gbps, ten, scaled(1.1, 1.2), isBetter, 1.15, 10},
	{"a longer time", usec, ten, scaled(1.25), isWorse, 0.8, 10},
	{"a shorter time", usec, ten, scaled(0.8), isBetter, 1.25, 10},
	{"slower, but not by enough", gbps, ten, scaled(0.98), isSame, 0.98, 10},
	{"noise", gbps, ten, scaled(0.8, 1.25), isUndecided, 1.025, 10},
	{"one bad pair of ten", gbps, ten, append(scaled(1)[:9], 1), isSame, 1, 10},
	{"too few pairs", gbps, ten[:5], scaled(0.5)[:5], isUndecided, 0.5, 5},
	{"rounds that failed", gbps, ten, failing(2, scaled(0.5)), isWorse, 0.5, 8},
	{"more bandwidth, one failure", gbps, ten, failing(1, scaled(1.1)), isBetter, 1.1, 9},
	{"more bandwidth, four failures", gbps, ten, failing(4, scaled(1.1)), isUndecided, 1.1, 6},
	{"more bandwidth, four failures of the old one", gbps, failing(4, ten), scaled(1.1), isBetter, 1.1, 6},
	{"as much bandwidth, four failures", gbps, ten, failing(4, ten), isUndecided, 1, 6},
	{"half of the pairs are whole", gbps, ten, failing(5, ten), isUndecided, 1, 5},
	{"six failures", gbps, ten, failing(6, scaled(1.1)), failsMore, 1.1, 4},
	{"six failures of many pairs", gbps, twice(ten), append(failing(6, scaled(1.1)), scaled(1.1)...), failsMore, 1.1, 14},
	{"nine failures", gbps, ten, failing(9, ten), failsMore, 1, 1},
	{"nine failures, and one of the old one", gbps, append(scaled(1)[:9], -1), failing(9, ten), isFailed, math.NaN(), 0},
	{"six failures of the old one", gbps, failing(6, ten), scaled(1.1), isFailed, 1.1, 4},
	{"six failures of both", gbps, failing(6, ten), failing(6, ten), isFailed, 1, 4},
	{"six failures of both, and no allocations", allocs, failing(6, zeros), failing(6, zeros), isFailed, 1, 4},
	{"eleven failures of both, and less bandwidth", gbps, append(failing(1, ten), broken...), append(failing(1, scaled(0.5)), broken...), isWorse, 0.5, 9},
	{"no pair is whole", gbps, []float64{10, -1}, []float64{-1, 10}, isFailed, math.NaN(), 0},
	{"the new one fails, the old one mostly", gbps, failing(9, ten), broken, isFailed, math.NaN(), 0},
	{"the new one fails, the old one once", gbps, failing(1, ten), broken, failsMore, math.NaN(), 0},
	{"the new one fails in its only pair", gbps, ten[:1], broken[:1], failsNow, math.NaN(), 0},
	{"the old one failed, the new one once", gbps, broken, failing(1, ten), isFailed, math.NaN(), 0},
	{"the new one fails", gbps, ten, broken, failsNow, math.NaN(), 0},
	{"the old one failed", gbps, broken, ten, onlyNew, math.NaN(), 0},
	{"both fail", gbps, broken, broken, isFailed, math.NaN(), 0},
	{"no allocations", allocs, zeros, zeros, isSame, 1, 10},
	{"allocations are new", allocs, zeros, ten, isWorse, 0, 10},
	{"a few are new, even in two pairs", allocs, zeros[:2], []float64{0, 0.01}, isWorse, 0.5, 2},
	{"one allocation in ten pairs", allocs, zeros, append(make([]float64, 9), 1), isSame, 1, 10},
	{"allocations are gone", allocs, ten, zeros, isBetter, math.Inf(1), 10},
	{"as many allocations", allocs, ten, ten, isSame, 1, 10},
	{"more allocations", allocs, ten, scaled(1.1), isWorse, 1 / 1.1, 10},
}

func TestDifference(t *testing.T) {
	for _, c := range differences {
		d := newDifference(samplesOf(c.unit, c.old...), samplesOf(c.unit, c.new...))
		near := math.Abs(float64(d.Ratio)-c.ratio) < 1e-9 || float64(d.Ratio) == c.ratio || math.IsNaN(float64(d.Ratio)) && math.IsNaN(c.ratio)
		if d.State != c.state || !near || d.Pairs != c.pairs {
			t.Errorf("%s: %s, ratio %v of %d pairs; want %s, %v of %d", c.name, d.State, d.Ratio, d.Pairs, c.state, c.ratio, c.pairs)
		}
		if _, err := json.Marshal(d); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
