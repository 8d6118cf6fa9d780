package play

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/goroce/goroce/bench/figures"
)

const statOutput = `cpu  920485 306706 345710 729462 2287 0 36114 2388 0 0
cpu0 440652 173076 179842 354718 577 0 21743 1170 0 0
cpu1 479833 133629 165868 374744 1710 0 14370 1217 0 0
intr 123456 0 9
ctxt 42
`

func TestParseStat(t *testing.T) {
	var r reading
	err := r.parse(statOutput)
	want := reading{cpus: 2, idle: 7317490 * time.Millisecond, steal: 23880 * time.Millisecond}
	if err != nil || r != want {
		t.Errorf("%+v, %v; want %+v", r, err, want)
	}
	for _, text := range []string{"", "cpu  1 2 3\n", "cpu0 1 2 3 4 5 6 7 8\ncpu 1 2 3 x 5 6 7 8\n"} {
		if err := new(reading).parse(text); err == nil {
			t.Errorf("%q is read", text)
		}
	}
}

// Only the middle half of the client's life counts, and what the host took is nobody's.
func TestLoadOf(t *testing.T) {
	began := time.Now()
	var readings []reading
	idle, steal, self := time.Hour, time.Minute, time.Second
	// In the middle 0.45 of two processors are idle, 0.1 stolen and 0.05 ours; outside all is idle.
	for at := -200; at <= 1200; at += 100 { // ms
		readings = append(readings, reading{began.Add(time.Duration(at) * time.Millisecond), 2, idle, steal, self})
		if at >= 200 && at < 800 {
			idle, steal, self = idle+45*time.Millisecond, steal+10*time.Millisecond, self+5*time.Millisecond
		} else {
			idle += 200 * time.Millisecond
		}
	}
	l, err := loadOf(readings, began, began.Add(time.Second), aQuarter)
	if err != nil || math.Abs(l.busy-1.4) > 1e-9 || math.Abs(l.steal-0.1) > 1e-9 || math.Abs(l.ticks-1.4*40) > 1e-9 {
		t.Errorf("%+v, %v; want 1.4 busy and 0.1 stolen", l, err)
	}
	if whole, err := loadOf(readings, began, began.Add(time.Second), 0); err != nil || whole.busy > 1.2 {
		t.Errorf("of the whole life: %+v, %v", whole, err)
	}
	if _, err := loadOf(readings, began, began.Add(150*time.Millisecond), aQuarter); err != errTooShort {
		t.Errorf("of a short life: %v", err)
	}
}

// The counters tell hundredths of a second. A line through many readings tells more.
func TestLoadBetweenTicks(t *testing.T) {
	const busy = 0.0294
	began := time.Now()
	var readings []reading
	for at := time.Duration(0); at <= 6*time.Second; at += 100 * time.Millisecond {
		idle := time.Duration(float64(at) * (2 - busy)).Truncate(time.Second / ticks)
		readings = append(readings, reading{at: began.Add(at), cpus: 2, idle: idle})
	}
	l, err := loadOf(readings, began, began.Add(6*time.Second), 0.05)
	if err != nil || math.Abs(l.busy/busy-1) > 0.05 || l.whyNoCost(0) != "" {
		t.Errorf("%+v, %v; want %v busy", l, err, busy)
	}
}

// What cannot be a cost says why.
func TestWhyNoCost(t *testing.T) {
	for _, c := range []struct {
		ticks, others float64
		want          string
	}{{100, 0.05, ""}, {100, 0.4, "others"}, {5, 0, "too little work"}, {0, 0, "too little work"}} {
		if why := (&load{ticks: c.ticks}).whyNoCost(c.others); (why == "") != (c.want == "") || !strings.Contains(why, c.want) {
			t.Errorf("%+v: %q", c, why)
		}
	}
	h := heard{load: &load{busy: 1}, noCost: "no cost: others"}
	if unit, cost, err := costOf(&figures.Case{Unit: figures.Gbps}, 8, h); unit.Name != "" || cost != 0 || err != nil {
		t.Errorf("%v %v, %v", cost, unit, err)
	}
}

func TestCost(t *testing.T) {
	busy := &load{busy: 1.6}
	exchanges := figures.Case{Unit: figures.Usec, CostUnit: figures.PerExchange, Work: func(_, client []byte) (n float64, err error) {
		_, err = fmt.Sscan(string(client), &n)
		return n / 1e6, err
	}}
	for _, c := range []struct {
		name   string
		of     figures.Case
		figure float64
		heard  heard
		unit   figures.Unit
		cost   float64
	}{
		{"16 Gbit/s are 2 GB/s", figures.Case{Unit: figures.Gbps}, 16, heard{load: busy}, figures.PerGB, 0.8},
		{"4 M messages/s", figures.Case{Unit: figures.Mpps}, 4, heard{load: busy}, figures.PerMillion, 0.4},
		{"a latency", figures.Case{Unit: figures.Usec}, 5, heard{load: busy}, figures.Unit{}, 0},
		{"8000 exchanges a second", exchanges, 5, heard{client: []byte("8000"), load: busy}, figures.PerExchange, 200},
		{"in a guest", figures.Case{Unit: figures.Gbps}, 16, heard{}, figures.Unit{}, 0},
	} {
		unit, cost, err := costOf(&c.of, c.figure, c.heard)
		if err != nil || unit != c.unit || math.Abs(cost-c.cost) > 1e-9 {
			t.Errorf("%s: %v %s, %v; want %v %s", c.name, cost, unit.Name, err, c.cost, c.unit.Name)
		}
	}
	for _, said := range []string{"", "0"} {
		if _, _, err := costOf(&exchanges, 5, heard{client: []byte(said), load: busy}); err == nil {
			t.Errorf("%q has a cost", said)
		}
	}
	exchanges.Work = func(_, _ []byte) (float64, error) { return 0, errors.New("it broke") }
	if _, _, err := costOf(&exchanges, 5, heard{load: busy}); err == nil {
		t.Error("work that is not known has a cost")
	}
}
