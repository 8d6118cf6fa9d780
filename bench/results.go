package main

// What was measured: samples by case and round, with their median and spread. It is what results.json holds.

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"time"
)

// Results of one run.
type Results struct {
	Started  time.Time `json:"started"`
	Machine  Machine   `json:"machine"`
	Rounds   int       `json:"rounds"`
	Duration string    `json:"duration_of_a_case"`
	Figures  []*Figure `json:"figures"`
	Missing  []string  `json:"missing"` // what could not be measured, and why
	Verdicts []Verdict `json:"verdicts"`
	Profiles []Profile `json:"-"`

	byCase map[string]*Figure
}

// Profile says where the time of a case goes.
type Profile struct {
	Name string // "best" or "worst": the case is the furthest above its bar, or below
	Case string
	Text string
}

// Figure is one case's samples.
type Figure struct {
	Case    string   `json:"case"`
	Brief   string   `json:"brief"`
	Unit    Unit     `json:"unit"`
	Samples []Sample `json:"samples"`
	Errors  []string `json:"errors,omitempty"`
}

// Sample is what one round gave.
type Sample struct {
	Round int     `json:"round"`
	Value float64 `json:"value"`
}

func (r *Results) add(c *Case, round int, value float64, err error) {
	f := r.figure(c.Name)
	if f == nil {
		f = &Figure{Case: c.Name, Brief: c.Brief, Unit: c.Unit}
		r.Figures = append(r.Figures, f)
		if r.byCase == nil {
			r.byCase = map[string]*Figure{}
		}
		r.byCase[c.Name] = f
	}
	if err == nil && (math.IsNaN(value) || math.IsInf(value, 0) || value < 0 || value == 0 && !c.Unit.Zero) {
		err = fmt.Errorf("the figure is %v", value)
	}
	if err != nil {
		f.Errors = append(f.Errors, fmt.Sprintf("round %d: %v", round, err))
		return
	}
	f.Samples = append(f.Samples, Sample{round, value})
}

// figure of a case; nil if it was not played.
func (r *Results) figure(name string) *Figure { return r.byCase[name] }

func (f *Figure) measured() bool { return f != nil && len(f.Samples) > 0 }

// values in ascending order.
func (f *Figure) values() []float64 {
	v := make([]float64, len(f.Samples))
	for i, s := range f.Samples {
		v[i] = s.Value
	}
	slices.Sort(v)
	return v
}

func (f *Figure) median() float64 { return median(f.values()) }

func (f *Figure) spread() (low, high float64) {
	v := f.values()
	return v[0], v[len(v)-1]
}

// at returns the sample of a round.
func (f *Figure) at(round int) (float64, bool) {
	for _, s := range f.Samples {
		if s.Round == round {
			return s.Value, true
		}
	}
	return 0, false
}

// median of sorted values.
func median(v []float64) float64 {
	n := len(v)
	if n%2 == 1 {
		return v[n/2]
	}
	return (v[n/2-1] + v[n/2]) / 2
}

func (r *Results) writeJSON(path string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

// number prints a figure with three digits that count.
func number(v float64) string {
	switch a := math.Abs(v); {
	case a == 0:
		return "0"
	case a >= 100:
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	case a >= 1:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.3g", v)
}
