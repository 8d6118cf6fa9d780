package main

// What a play costs: the processor time of the whole machine, which has both ends in it, the
// kernel's work for them, and that in interrupts, which no counter of a process tells. Stages:
// while a play lasts, the counters of all processors are read every now and then; afterwards the
// readings of the middle half of the client's life tell how many processors were busy, without
// what starting and ending takes; busy processors divided by the work done in a second are the
// cost.

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
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

var errTooShort = errors.New("too short to tell its processor time")

// loadOf tells the load in the middle half of a life from the readings around it.
func loadOf(readings []reading, began, ended time.Time) (l load, err error) {
	quarter := ended.Sub(began) / 4
	var in []reading
	for _, r := range readings {
		if !r.at.Before(began.Add(quarter)) && !r.at.After(ended.Add(-quarter)) {
			in = append(in, r)
		}
	}
	if len(in) < 2 {
		return l, errTooShort
	}
	a, z := in[0], in[len(in)-1]
	wall := z.at.Sub(a.at)
	l.steal = (z.steal - a.steal).Seconds() / wall.Seconds()
	l.busy = max(0, float64(z.cpus)-(z.idle-a.idle+z.self-a.self).Seconds()/wall.Seconds()-l.steal)
	return l, nil
}

// cost of a unit of work: what its processor time is told per, and how much of that there was.
func (c *Case) cost(figure float64, h heard) (unit Unit, cost float64, err error) {
	known := costUnits[c.Unit]
	unit, work := known.cost, figure*known.work
	if c.CostUnit.Name != "" {
		unit = c.CostUnit
	}
	if unit.Name == "" || h.load == nil {
		return Unit{}, 0, nil
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
