package play

// What a play costs: the processor time of the whole machine, which has both ends in it, the
// kernel's work for them, and that in interrupts, which no counter of a process tells. Stages: a
// short look at the machine before a play tells what others do on it; while the play lasts, the
// counters of all processors are read every now and then; afterwards the readings of the middle
// half of the client's life, or more of it, tell how many processors were busy, without what
// starting and ending takes; busy processors divided by the work done in a second are the cost.

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/goroce/goroce/bench/figures"
)

// ticks a second of /proc/stat, on all systems that this runs on.
const ticks = 100

// reading is what the counters stood at.
type reading struct {
	at    time.Time
	cpus  int
	idle  time.Duration // of all processors together; waiting for a disk is idle too
	steal time.Duration // what the host took from this virtual machine
	self  time.Duration // what this process took, which only looks on
}

// load is what a play took.
type load struct {
	busy  float64 // processors
	steal float64 // processors that the host took meanwhile: in nobody's cost
	ticks float64 // of the machine's counters that were busy
}

// parse takes the counters of /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal.
func (r *reading) parse(text string) error {
	for line := range strings.Lines(text) {
		col := strings.Fields(line)
		if len(col) < 9 || !strings.HasPrefix(col[0], "cpu") {
			continue
		}
		if col[0] != "cpu" {
			r.cpus++
			continue
		}
		for i, sum := range map[int]*time.Duration{4: &r.idle, 5: &r.idle, 8: &r.steal} {
			n, err := strconv.ParseInt(col[i], 10, 64)
			if err != nil {
				return fmt.Errorf("the counters of the processors: %w", err)
			}
			*sum += time.Duration(n) * time.Second / ticks
		}
	}
	if r.cpus == 0 {
		return fmt.Errorf("no counters of processors in %q", text)
	}
	return nil
}

// aQuarter of a life at either end is starting and ending.
const aQuarter = 0.25

// fewestTicks of work tell a cost. The counters stand still within a tick, so that the difference
// of two readings is wrong by a tick at most; the line through dozens of readings is wrong by a
// tenth of one or two.
const fewestTicks = 10

var errTooShort = errors.New("no cost: the play was too short for it")

// loadOf tells the load in a life without a margin at either end, a part of it, from the readings
// around it.
func loadOf(readings []reading, began, ended time.Time, margin float64) (l load, err error) {
	cut := time.Duration(margin * float64(ended.Sub(began)))
	var in []reading
	for _, r := range readings {
		if !r.at.Before(began.Add(cut)) && !r.at.After(ended.Add(-cut)) {
			in = append(in, r)
		}
	}
	if len(in) < 2 {
		return l, errTooShort
	}
	first, last := in[0], in[len(in)-1]
	l.steal = slope(in, func(r reading) time.Duration { return r.steal })
	l.busy = max(0, float64(last.cpus)-slope(in, func(r reading) time.Duration { return r.idle + r.self + r.steal }))
	l.ticks = l.busy * last.at.Sub(first.at).Seconds() * ticks
	return l, nil
}

// slope of the line nearest to readings (least squares): how fast a counter has grown.
func slope(in []reading, counter func(reading) time.Duration) float64 {
	var x, y, xx, xy float64
	for _, r := range in {
		at, value := r.at.Sub(in[0].at).Seconds(), (counter(r) - counter(in[0])).Seconds()
		x, y, xx, xy = x+at, y+value, xx+at*at, xy+at*value
	}
	n := float64(len(in))
	return (n*xy - x*y) / (n*xx - x*x)
}

// whyNoCost is empty if a load can be a cost.
func (l *load) whyNoCost(others float64) string {
	switch {
	case l.ticks < fewestTicks:
		return "no cost: too little work for the machine's counters"
	case others > figures.Quiet:
		return "no cost: others kept processors busy"
	}
	return ""
}

// costOf is the cost of a unit of work: what its processor time is told per, and how much of that
// there was.
func costOf(c *figures.Case, figure float64, h heard) (unit figures.Unit, cost float64, err error) {
	known := figures.CostUnits[c.Unit]
	unit, work := known.Cost, figure*known.Work
	if c.CostUnit.Name != "" {
		unit = c.CostUnit
	}
	if unit.Name == "" || h.load == nil || h.noCost != "" {
		return figures.Unit{}, 0, nil
	}
	if c.Work != nil {
		if work, err = c.Work(h.server, h.client); err != nil {
			return unit, 0, err
		}
	}
	if work <= 0 {
		return unit, 0, fmt.Errorf("%v of work in a second", work)
	}
	return unit, h.load.busy / work, nil
}
