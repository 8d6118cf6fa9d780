package play

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goroce/goroce/bench/figures"
)

// script is a theatre whose programs' names are their figures' names.
type script struct {
	figure map[string]string // what a program prints, by its name
	played []string          // the programs in the order of their plays
}

func (s *script) perform(_ context.Context, p figures.Play, _ time.Duration) (heard, error) {
	program := p.Client.Args[0]
	s.played = append(s.played, program)
	said, ok := s.figure[program]
	if !ok {
		return heard{}, errors.New("no such program")
	}
	return heard{client: []byte(said)}, nil
}

// scripted is a case whose figure is what the roce command prints.
func scripted(name string, program func(figures.Setting) string) figures.Case {
	return figures.Case{Name: name, Unit: figures.Gbps,
		Play: func(s figures.Setting) figures.Play {
			return figures.Play{Client: figures.Command{Args: []string{program(s)}}}
		},
		Figure: func(_, client []byte) (v float64, err error) {
			_, err = fmt.Sscan(string(client), &v)
			return v, err
		}}
}

func roceOf(s figures.Setting) string  { return s.Roce }
func benchOf(s figures.Setting) string { return s.Bench }

func newScripted(pairs int) *Comparison {
	return &Comparison{Pairs: pairs, Seed: 7,
		old: contender{name: "old", set: figures.Setting{Roce: "old-roce", Bench: "old-bench"}, cannot: map[string]string{}},
		new: contender{name: "new", set: figures.Setting{Roce: "new-roce", Bench: "new-bench"}, cannot: map[string]string{}}}
}

// The partners of a pair play one after the other, and who is first alternates: ABBA.
func TestTurns(t *testing.T) {
	c := newScripted(4)
	s := &script{figure: map[string]string{"old-roce": "10", "new-roce": "5"}}
	c.playPairs(t.Context(), s, []figures.Case{scripted("a", roceOf)}, &bytes.Buffer{})
	if want := "old-roce new-roce new-roce old-roce old-roce new-roce new-roce old-roce"; strings.Join(s.played, " ") != want {
		t.Errorf("played %v, want %s", s.played, want)
	}
	for p, want := range map[*contender]float64{&c.old: 10, &c.new: 5} {
		if f := p.Figure("a"); len(f.Samples) != 4 || f.Median() != want {
			t.Errorf("%s commit: %+v, want 4 times %v", p.name, f, want)
		}
	}
}

// Every case is played once a round by both, in another order each time, which the seed decides.
func TestShuffledRounds(t *testing.T) {
	var cases []figures.Case
	printed := map[string]string{}
	for i := range 8 {
		name := fmt.Sprint(i)
		printed["old-roce"+name], printed["new-roce"+name] = "1", "1"
		cases = append(cases, scripted(name, func(s figures.Setting) string { return s.Roce + name }))
	}
	orders := func(seed uint64) (rounds []string) {
		c := newScripted(3)
		c.Seed = seed
		s := &script{figure: printed}
		c.playPairs(t.Context(), s, cases, &bytes.Buffer{})
		for round := range slices.Chunk(s.played, 2*len(cases)) {
			var order []string
			for pair := range slices.Chunk(round, 2) {
				order = append(order, pair[0][len("old-roce"):])
				if pair[0] == pair[1] || pair[0][len("old-roce"):] != pair[1][len("old-roce"):] {
					t.Errorf("a pair of %v", pair)
				}
			}
			rounds = append(rounds, strings.Join(order, ""))
			if slices.Sort(order); strings.Join(order, "") != "01234567" {
				t.Errorf("a round of %v", order)
			}
		}
		return rounds
	}
	one, again, other := orders(7), orders(7), orders(8)
	if one[0] == one[1] || one[1] == one[2] || one[0] == other[0] || !slices.Equal(one, again) {
		t.Errorf("the orders %v, again %v, with another seed %v", one, again, other)
	}
}

func TestPlan(t *testing.T) {
	c := newScripted(1)
	c.old.ports = map[string]error{"packet": errors.New("no packets"), "xdp": errors.New("no xdp")}
	c.new.ports = map[string]error{"xdp": errors.New("no xdp")}
	c.old.listed = map[string]bool{
		"inside/allocs":         true,
		"inside/mlock":          true,
		"inside/gone":           true,
		"1500/ours/udp/gone":    true,
		"ours/udp/write-bw/64K": true,
		"1500/raw/gone":         true,
	}
	cases := c.plan()
	states := map[string]string{}
	for _, k := range cases {
		states[k.Name] = "both"
		if c.old.cannot[k.Name] != "" || c.new.cannot[k.Name] != "" {
			states[k.Name] = c.difference(k).State
		}
	}
	for name, want := range map[string]string{
		"1500/ours/udp/write-bw/64K": "both", "9000/ours/udp/write-bw/64K": "both",
		"ours/udp/write-bw/64K":         "", // as it was called
		"9000/ours/packet/write-bw/64K": figures.OnlyNew, "1500/ours/xdp/write-bw/64K": "",
		"inside/allocs": "both", "inside/idle": figures.OnlyNew, "inside/mlock": "", "inside/gone": figures.OnlyOld,
		"1500/ours/udp/gone": figures.OnlyOld, "1500/raw/gone": "",
	} {
		if states[name] != want {
			t.Errorf("%s: %q, want %q", name, states[name], want)
		}
	}
	if len(c.Notes) != 1 || c.Notes[0] != "no xdp" {
		t.Errorf("notes %q, want that xdp works for neither", c.Notes)
	}
}

// The table has the worst first, and nothing is dropped that was to be played.
func TestComparison(t *testing.T) {
	c := newScripted(10)
	c.OldCommit, c.NewCommit = "1234 what was", "5678 what is"
	s := &script{figure: map[string]string{
		"old-roce":  "10",
		"new-roce":  "8",
		"new-bench": "3",
		"old-same":  "1",
		"new-same":  "1",
		"old-only":  "2",
	}}
	cases := []figures.Case{
		scripted("same", func(s figures.Setting) string { return strings.TrimSuffix(s.Roce, "roce") + "same" }),
		scripted("slower", roceOf),
		scripted("fails", func(s figures.Setting) string { return strings.TrimSuffix(s.Roce, "roce") + "only" }),
		scripted("newly", benchOf),
		{Name: "inside/gone"},
	}
	c.new.cannot["inside/gone"] = "no such case"
	c.playPairs(t.Context(), s, cases, &bytes.Buffer{})
	c.Judge(cases)
	var out bytes.Buffer
	file := filepath.Join(t.TempDir(), "all.json")
	if err := errors.Join(c.Write(&out), c.writeJSON(file)); err != nil {
		t.Fatal(err)
	}
	if n := c.regressions(); n != 2 {
		t.Errorf("%d regressions, want those of fails and slower", n)
	}
	for i, want := range []string{
		"old: 1234 what was", "new: 5678 what is", "", "", "case old new unit ratio 95 % interval verdict",
		"fails 2.00 - Gbit/s - - fails now", "slower 10.0 8.00 Gbit/s 0.800 0.800 to 0.800 worse",
		"same 1.00 1.00 Gbit/s 1.000 1.000 to 1.000 no difference shown", "inside/gone - - - - only old",
		"newly - 3.00 Gbit/s - - only new", "note: fails: new, round 1: no such program",
	} {
		lines := strings.Split(out.String(), "\n")
		if got := strings.Join(strings.Fields(lines[i]), " "); want != "" && got != want {
			t.Errorf("line %d: %q, want %q", i, got, want)
		}
	}
	var read struct {
		Differences []figures.Difference
	}
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &read)
	}
	if err != nil || len(read.Differences) != 5 || len(read.Differences[1].NewSamples) != 10 {
		t.Errorf("the JSON: %v, %s", err, text)
	}
}

// Failures are part of the verdict: how many they were, and that nothing else is no success.
func TestOutcome(t *testing.T) {
	for _, c := range []struct {
		name           string
		state          string
		pairs, alone   int
		verdict, fails string
	}{
		{"compared", figures.IsBetter, 10, 0, "better", ""},
		{"compared in part", figures.IsUndecided, 6, 4, "undecided (6 of 10 pairs)", ""},
		{"worse", figures.IsWorse, 9, 0, "worse (9 of 10 pairs)", "1 of 1 cases: worse"},
		{"hardly compared", figures.IsFailed, 1, 5, "failed 9 of 10", ""},
		{"nothing but failures", figures.IsFailed, 0, 0, "failed 10 of 10", "nothing was compared"},
		{"new failures", figures.FailsMore, 3, 7, "fails more often (alone in 7 of 10 pairs)",
			"1 of 1 cases: worse, failing now, or failing more often"},
		{"only failures of the new one", figures.FailsNow, 0, 10, "fails now", "1 of 1 cases"},
		{"not played", figures.OnlyNew, 0, 0, "only new", "nothing was compared"},
	} {
		d := figures.Difference{State: c.state, Pairs: c.pairs, NewAlone: c.alone}
		if got := d.Verdict(10); got != c.verdict {
			t.Errorf("%s: the verdict is %q, want %q", c.name, got, c.verdict)
		}
		err := (&Comparison{Differences: []figures.Difference{d}}).outcome()
		if (err == nil) != (c.fails == "") || err != nil && !strings.HasPrefix(err.Error(), c.fails) {
			t.Errorf("%s: the outcome is %v, want %q", c.name, err, c.fails)
		}
	}
}

// What fails more often comes before what is worse, however good its ratio is.
func TestFailuresFirst(t *testing.T) {
	c := newScripted(10)
	cases := []figures.Case{{Name: "worse", Unit: figures.Gbps}, {Name: "failing", Unit: figures.Gbps}}
	for pair := 1; pair <= c.Pairs; pair++ {
		var err error
		if pair <= 6 {
			err = errors.New("it broke")
		}
		c.old.Add(&cases[0], figures.Sample{Round: pair, Value: 10}, figures.Unit{}, nil)
		c.new.Add(&cases[0], figures.Sample{Round: pair, Value: 5}, figures.Unit{}, nil)
		c.old.Add(&cases[1], figures.Sample{Round: pair, Value: 10}, figures.Unit{}, nil)
		c.new.Add(&cases[1], figures.Sample{Round: pair, Value: 20}, figures.Unit{}, err)
	}
	c.Judge(cases)
	if first := c.Differences[0]; first.Case != "failing" || first.State != figures.FailsMore || c.regressions() != 2 {
		t.Errorf("%s is first and %s, %d regressions; want the failing case, and 2", first.Case, first.State, c.regressions())
	}
}
