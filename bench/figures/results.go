package figures

// What was measured: samples by case and round, with their medians. It is what results.json holds.

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"
)

// Results of one run.
type Results struct {
	Started  time.Time `json:"started"`
	Machine  Machine   `json:"machine"`
	Full     bool      `json:"full"`     // all cases, and not only those of a short run
	Complete bool      `json:"complete"` // the run was not interrupted
	Rounds   int       `json:"rounds"`
	Seed     uint64    `json:"seed"`  // of the orders of bouts and cases
	Order    []string  `json:"bouts"` // as they were played
	Duration string    `json:"duration_of_a_case"`
	Figures  []*Figure `json:"figures"`
	Missing  []string  `json:"missing"` // what could not be measured, and why
	Verdicts []Verdict `json:"verdicts"`
	Profiles []Profile `json:"-"`

	Chance *rand.Rand
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
	Case     string   `json:"case"`
	Brief    string   `json:"brief"`
	Unit     Unit     `json:"unit"`
	CostUnit Unit     `json:"cost_unit,omitzero"`
	Samples  []Sample `json:"samples"`
	Errors   []string `json:"errors,omitempty"`
}

// Sample is what one round gave.
type Sample struct {
	Round int     `json:"round"`
	Turn  int     `json:"turn"` // in the order of the round, from 1
	Value float64 `json:"value"`
	Cost  float64 `json:"cost,omitempty"` // 0: not known
	P99   float64 `json:"p99,omitempty"`  // in the figure's unit
	Note  string  `json:"note,omitempty"`

	Steal  float64 `json:"steal,omitempty"`   // processors that the host took meanwhile
	Others float64 `json:"others,omitempty"`  // processors that were busy before the play began
	NoCost string  `json:"no_cost,omitempty"` // why no cost is known, where there should be one
}

// Add takes a sample of a case, or why there is none.
func (r *Results) Add(c *Case, s Sample, cost Unit, err error) {
	f := r.Figure(c.Name)
	if f == nil {
		f = &Figure{Case: c.Name, Brief: c.Brief, Unit: c.Unit}
		r.Figures = append(r.Figures, f)
		if r.byCase == nil {
			r.byCase = map[string]*Figure{}
		}
		r.byCase[c.Name] = f
	}
	if err == nil {
		err = c.Sound(s.Value)
	}
	if err != nil {
		f.Errors = append(f.Errors, fmt.Sprintf("round %d: %v", s.Round, err))
		return
	}
	if s.Cost > 0 {
		f.CostUnit = cost
	}
	f.Samples = append(f.Samples, s)
}

// Sound says what is wrong with a value of the case's figure.
func (c *Case) Sound(v float64) error {
	if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 || v == 0 && !c.Unit.Zero {
		return fmt.Errorf("the figure is %v", v)
	}
	return nil
}

// Figure of a case; nil if it was not played.
func (r *Results) Figure(name string) *Figure { return r.byCase[name] }

// Rounds is in how many the case was played.
func (f *Figure) Rounds() int { return len(f.Samples) + len(f.Errors) }

// Measured says whether there is a sample at all; f may be nil.
func (f *Figure) Measured() bool { return f != nil && len(f.Samples) > 0 }

// sorted are the samples' values, or what else is asked for, in ascending order, but for unknown
// ones.
func (f *Figure) sorted(what func(Sample) float64) (v []float64) {
	for _, s := range f.Samples {
		if x := what(s); !math.IsNaN(x) {
			v = append(v, x)
		}
	}
	slices.Sort(v)
	return v
}

func value(s Sample) float64 { return s.Value }

// cost of a sample; not a number if it is not known.
func cost(s Sample) float64 {
	if s.Cost == 0 {
		return math.NaN()
	}
	return s.Cost
}

// Median is that of the samples' values.
func (f *Figure) Median() float64 { return median(f.sorted(value)) }

// medianCost is 0 where no cost is known.
func (f *Figure) medianCost() float64 {
	if v := f.sorted(cost); len(v) > 0 {
		return median(v)
	}
	return 0
}

// medianP99 is 0 where none is known.
func (f *Figure) medianP99() float64 {
	v := f.sorted(func(s Sample) float64 {
		if s.P99 == 0 {
			return math.NaN()
		}
		return s.P99
	})
	if len(v) > 0 {
		return median(v)
	}
	return 0
}

func (f *Figure) spread() (low, high float64) {
	v := f.sorted(value)
	return v[0], v[len(v)-1]
}

// At returns the sample of a round.
func (f *Figure) At(round int) (s Sample, ok bool) {
	if i := slices.IndexFunc(f.Samples, func(s Sample) bool { return s.Round == round }); i >= 0 {
		return f.Samples[i], true
	}
	return s, false
}

// notes are what stands beside the figures of the rounds, each once, with how often there is no
// cost.
func (f *Figure) notes() string {
	var all []string
	costless := map[string]int{}
	for _, s := range f.Samples {
		if s.Note != "" && !slices.Contains(all, s.Note) {
			all = append(all, s.Note)
		}
		if s.NoCost != "" {
			costless[s.NoCost]++
		}
	}
	if p99 := f.medianP99(); p99 > 0 {
		all = append(all, "p99 "+Number(p99))
	}
	for _, why := range slices.Sorted(maps.Keys(costless)) {
		all = append(all, fmt.Sprintf("in %d rounds %s", costless[why], why))
	}
	return strings.Join(all, "; ")
}

// median of sorted values; at least one.
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

// Number prints a figure with three digits that count.
func Number(v float64) string {
	switch a := math.Abs(v); {
	case math.IsNaN(a):
		return "–"
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

// Quiet is how many processors others may keep busy: more is worth a word, and leaves no cost.
const Quiet = 0.1
