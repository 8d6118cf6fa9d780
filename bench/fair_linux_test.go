package main

import (
	"strings"
	"testing"
	"time"

	"github.com/goroce/goroce/bench/stage"

	"github.com/goroce/goroce/bench/repertoire"
)

// The figures are those of the time after the start, whatever came before.
func TestShares(t *testing.T) {
	start := time.Now()
	reading := func(at time.Duration, a, b uint64, backlog, drops int, marked uint64) stage.Reading {
		return stage.Reading{At: start.Add(at), Bytes: []uint64{a, b}, Backlog: backlog, Drops: drops, Marked: marked}
	}
	readings := []stage.Reading{
		reading(0, 0, 0, 1<<20, 0, 0),
		reading(time.Second, 100e6, 1e6, 4<<20, 7, 50), // not converged
		reading(2*time.Second, 150e6, 51e6, 2048, 8, 60),
		reading(3*time.Second, 200e6, 91e6, 4096, 8, 70),
		reading(4*time.Second, 250e6, 131e6, 1024, 9, 90),
	}
	f, err := shares(readings, start.Add(1500*time.Millisecond))
	if err != nil || f != (repertoire.FairFigures{Ratio: 0.8, Drops: 1, Backlog: 4, Use: 72}) {
		t.Errorf("%+v, %v", f, err)
	}
	readings[4].Marked = 60
	if _, err := shares(readings, start.Add(1500*time.Millisecond)); err == nil || !strings.Contains(err.Error(), "marked nothing") {
		t.Errorf("without marks: %v", err)
	}
	for _, from := range []time.Duration{4, 5} {
		if _, err := shares(readings, start.Add(from*time.Second)); err == nil {
			t.Errorf("figures of nothing, from second %d", from)
		}
	}
}
