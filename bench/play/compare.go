package play

// Two commits against each other: the same cases by the programs of both, in pairs. The partners of
// a pair follow each other at once, so that what changes in the machine over minutes meets both.
// Who is first alternates, so that what one play leaves behind favours neither.

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/goroce/goroce/bench/figures"
	"github.com/goroce/goroce/bench/repertoire"
)

// Comparison of two commits.
type Comparison struct {
	Started     time.Time            `json:"started"`
	Machine     figures.Machine      `json:"machine"`
	OldCommit   string               `json:"old"`
	NewCommit   string               `json:"new"`
	Seed        uint64               `json:"seed"` // of the order of the cases
	Pairs       int                  `json:"pairs"`
	Duration    string               `json:"duration_of_a_case"`
	Differences []figures.Difference `json:"differences"`
	Notes       []string             `json:"notes"` // what could not be compared, and why

	old, new contender
}

// ourCasesOn are our own on a port, on links of each MTU.
func ourCasesOn(port string) (cases []figures.Case) {
	for _, mtu := range figures.MTUs {
		cases = append(cases, figures.At(mtu, repertoire.OurCases(port, mtu))...)
	}
	return cases
}

// contender is one of the two commits.
type contender struct {
	name   string
	set    figures.Setting   // its programs
	ports  map[string]error  // why a port does not work with them
	listed map[string]bool   // the cases that its own bench knows
	cannot map[string]string // the cases that it cannot play, and why
	figures.Results
}

// plan returns the cases of the working tree that the commits can be compared by, and those that
// only the old commit has, which are listed but not played. It notes who cannot play which.
func (c *Comparison) plan() (cases []figures.Case) {
	c.old.cannot, c.new.cannot = map[string]string{}, map[string]string{}
	for _, port := range repertoire.AllPorts {
		if c.old.ports[port] != nil && c.new.ports[port] != nil {
			c.Notes = append(c.Notes, c.new.ports[port].Error())
			continue
		}
		for _, ours := range ourCasesOn(port) {
			for _, p := range []*contender{&c.old, &c.new} {
				if err := p.ports[port]; err != nil {
					p.cannot[ours.Name] = err.Error()
				}
			}
			cases = append(cases, ours)
		}
	}
	for _, inside := range repertoire.InsideCases() {
		if inside.Name == "inside/mlock" {
			continue // it measures the kernel, which is the same for both
		}
		if !c.old.listed[inside.Name] {
			c.old.cannot[inside.Name] = "its bench has no such case"
		}
		cases = append(cases, inside)
	}
	return append(cases, c.gone()...)
}

// gone are the cases of our own that the old commit has and the working tree has not.
func (c *Comparison) gone() (cases []figures.Case) {
	known := map[string]bool{}
	for _, port := range repertoire.AllPorts {
		for _, k := range ourCasesOn(port) {
			known[k.Name] = true
			known[figures.WithoutMTU(k.Name)] = true // as it was called when there was one MTU
		}
	}
	for _, k := range repertoire.InsideCases() {
		known[k.Name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(c.old.listed)) {
		if who := figures.Maker(name); (who == "ours" || who == "inside") && !known[name] {
			c.new.cannot[name] = "its bench has no such case"
			cases = append(cases, figures.Case{Name: name})
		}
	}
	return cases
}

// playPairs plays a pair of every case, then another one of every case. Each round has an order of
// its own, because a case may suffer from what the one before it leaves behind.
func (c *Comparison) playPairs(ctx context.Context, t theatre, cases []figures.Case, progress io.Writer) {
	both := func(k figures.Case) bool { return c.old.cannot[k.Name] == "" && c.new.cannot[k.Name] == "" }
	cases = slices.DeleteFunc(slices.Clone(cases), func(k figures.Case) bool { return !both(k) })
	order := rand.New(rand.NewPCG(c.Seed, 0))
	for pair := 1; pair <= c.Pairs; pair++ {
		order.Shuffle(len(cases), func(i, j int) { cases[i], cases[j] = cases[j], cases[i] })
		for i := range cases {
			c.playPair(ctx, t, &cases[i], pair, progress)
			if ctx.Err() != nil {
				return
			}
		}
	}
}

// playPair plays a case by the programs of both commits.
func (c *Comparison) playPair(ctx context.Context, t theatre, k *figures.Case, pair int, progress io.Writer) {
	said := map[*contender]string{}
	for turn, p := range c.turns(pair) {
		s := figures.Sample{Round: pair, Turn: turn + 1}
		cost, err := playCase(ctx, k, t, p.set, map[string]*performance{}, &s)
		if ctx.Err() != nil {
			return
		}
		p.Add(k, s, cost, err)
		said[p] = figures.Number(s.Value)
		if err != nil {
			said[p] = "failed: " + figures.Cell(err.Error())
		}
	}
	fmt.Fprintf(progress, "pair %d/%d  %-30s old %10s  new %10s  %s\n", pair, c.Pairs, k.Name, said[&c.old],
		said[&c.new], k.Unit.Name)
}

// turns says who plays first and who then in a pair: old new, new old, and so on.
func (c *Comparison) turns(pair int) [2]*contender {
	if pair%2 == 1 {
		return [2]*contender{&c.old, &c.new}
	}
	return [2]*contender{&c.new, &c.old}
}

// Judge finds the differences of the cases, the worst first.
func (c *Comparison) Judge(cases []figures.Case) {
	for _, k := range cases {
		c.Differences = append(c.Differences, c.difference(k))
	}
	slices.SortStableFunc(c.Differences, func(a, b figures.Difference) int {
		return cmp.Or(cmp.Compare(a.Rank(), b.Rank()), cmp.Compare(a.Ratio, b.Ratio), cmp.Compare(a.Case, b.Case))
	})
}

func (c *Comparison) difference(k figures.Case) figures.Difference {
	none := figures.Ratio(math.NaN())
	d := figures.Difference{Case: k.Name, Unit: k.Unit, Ratio: none, Low: none, High: none}
	if why := c.new.cannot[k.Name]; why != "" {
		d.State, d.Notes = figures.OnlyOld, []string{"new: " + why}
		return d
	}
	if why := c.old.cannot[k.Name]; why != "" {
		d.State, d.Notes = figures.OnlyNew, []string{"old: " + why}
		return d
	}
	return figures.NewDifference(c.old.Figure(k.Name), c.new.Figure(k.Name))
}

// regressions counts the cases in which the new commit is worse, fails now, or fails more often.
func (c *Comparison) regressions() (n int) {
	for i := range c.Differences {
		if c.Differences[i].Rank() < 2 {
			n++
		}
	}
	return n
}

// outcome is an error if a case has become worse or fails more than it did, and if nothing was
// compared: a stage on which everything fails must not look like a good commit.
func (c *Comparison) outcome() error {
	if n := c.regressions(); n > 0 {
		return fmt.Errorf("%d of %d cases: worse, failing now, or failing more often", n, len(c.Differences))
	}
	if !slices.ContainsFunc(c.Differences, func(d figures.Difference) bool { return d.Pairs > 0 }) {
		return errors.New("nothing was compared: no case has a pair in which neither commit failed")
	}
	return nil
}

// Write prints the commits, where and when they were compared, a line for each case, and the notes.
func (c *Comparison) Write(out io.Writer) error {
	fmt.Fprintf(out, "old: %s\nnew: %s\n", c.OldCommit, c.NewCommit)
	fmt.Fprintf(out, "%s; %s; %d pairs, %s a case, seed %d\n\n", c.Machine,
		c.Started.UTC().Format("2006-01-02 15:04 MST"), c.Pairs, c.Duration, c.Seed)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "case\told\tnew\tunit\tratio\t95 % interval\tverdict")
	for i := range c.Differences {
		d := &c.Differences[i]
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", d.Case, medianText(d.Old, d.OldSamples),
			medianText(d.New, d.NewSamples), d.Unit.Name, ratioText("%.3f", d.Ratio),
			ratioText("%.3f to %.3f", d.Low, d.High), d.Verdict(c.Pairs))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, d := range c.Differences {
		for _, n := range d.Notes {
			fmt.Fprintf(out, "note: %s: %s\n", d.Case, figures.Cell(n))
		}
	}
	for _, n := range c.Notes {
		fmt.Fprintf(out, "note: %s\n", figures.Cell(n))
	}
	return nil
}

func medianText(v float64, samples []figures.Sample) string {
	if len(samples) == 0 {
		return "-"
	}
	return figures.Number(v)
}

// ratioText prints ratios, or a dash if there are none.
func ratioText(format string, ratios ...figures.Ratio) string {
	var values []any
	for _, r := range ratios {
		if math.IsNaN(float64(r)) {
			return "-"
		}
		values = append(values, float64(r))
	}
	return fmt.Sprintf(format, values...)
}

// writeJSON writes everything, with all samples.
func (c *Comparison) writeJSON(path string) error {
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}
