package play

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goroce/goroce/bench/figures"
	"github.com/goroce/goroce/bench/repertoire"
)

func newResults() *figures.Results { return &figures.Results{Chance: rand.New(rand.NewPCG(7, 0))} }

// Of each two cases either plays before the other equally often, and no two shuffles are alike.
func TestOrders(t *testing.T) {
	const cases, rounds = 9, 8
	all := orders(cases, rounds, rand.New(rand.NewPCG(1, 0)))
	if len(all) != rounds || slices.Equal(all[0], all[2]) {
		t.Fatalf("orders %v", all)
	}
	for a := range cases {
		for b := range cases {
			first := 0
			for _, order := range all {
				if slices.Index(order, a) < slices.Index(order, b) {
					first++
				}
			}
			if a != b && first != rounds/2 {
				t.Errorf("%d plays before %d in %d of %d rounds: %v", a, b, first, rounds, all)
			}
		}
	}
	if again := orders(cases, rounds, rand.New(rand.NewPCG(1, 0))); !slices.EqualFunc(all, again, slices.Equal) {
		t.Error("the same seed gives another order")
	}
}

// Samples say at which turn of their round they were taken, and what they cost; all cases are
// tried in each round.
func TestPlayBout(t *testing.T) {
	s := &script{figure: map[string]string{"a": "10", "b": "20"}}
	b := &figures.Bout{Name: "bout"}
	for _, name := range []string{"a", "b", "missing"} {
		b.Cases = append(b.Cases, scripted(name, func(figures.Setting) string { return name }))
	}
	r := newResults()
	playBout(t.Context(), busyTheatre{s, load{busy: 2, steal: 0.25}}, figures.Setting{}, b, 4, r, io.Discard)
	turns := map[int]int{}
	for i, played := range s.played {
		f := r.Figure(played)
		round := i/3 + 1
		if played == "missing" {
			if len(f.Errors) != 4 || f.Measured() {
				t.Errorf("%+v", f)
			}
			continue
		}
		sample, ok := f.At(round)
		if !ok || sample.Turn != i%3+1 || sample.Steal != 0.25 {
			t.Errorf("round %d of %s: %+v in play %d", round, played, sample, i)
		}
		if want := 2 / (f.Median() / 8); sample.Cost != want || f.CostUnit != figures.PerGB {
			t.Errorf("%s costs %v %s, want %v", played, sample.Cost, f.CostUnit.Name, want)
		}
		turns[sample.Turn]++
	}
	if len(s.played) != 12 || len(turns) != 3 {
		t.Errorf("played %v, turns %v", s.played, turns)
	}
}

// busyTheatre is a theatre whose plays take all the same processor time.
type busyTheatre struct {
	*script
	load
}

func (l busyTheatre) perform(ctx context.Context, p figures.Play, limit time.Duration) (heard, error) {
	h, err := l.script.perform(ctx, p, limit)
	h.load = &l.load
	return h, err
}

// countingTheatre counts performances.
type countingTheatre struct {
	played []string
	fail   bool
}

func (c *countingTheatre) perform(_ context.Context, p figures.Play, _ time.Duration) (heard, error) {
	c.played = append(c.played, strings.Join(p.Client.Args, " "))
	if c.fail {
		return heard{}, errors.New("no such port")
	}
	return heard{client: []byte(`{"ratio": 0.95, "drops": 0, "backlog": 100, "use": 98}`)}, nil
}

// All figures of a port come from one run in each round.
func TestSharedPlays(t *testing.T) {
	stage, ports := &countingTheatre{}, []string{"udp", "packet"}
	b := &figures.Bout{Cases: repertoire.FairCases(ports), Bars: repertoire.BarsAt(0, repertoire.FairBars, ports)}
	r := newResults()
	playBout(t.Context(), stage, figures.Setting{Bench: "bench", Roce: "roce", Duration: time.Second}, b, 6, r, io.Discard)
	slices.Sort(stage.played[:2])
	if len(stage.played) != 12 || !strings.Contains(stage.played[0], "-port packet -d 2s") ||
		!strings.Contains(stage.played[1], "-port udp") {
		t.Errorf("played %q", stage.played)
	}
	for name, want := range map[string]float64{
		"fair/udp/ratio":      0.95,
		"fair/udp/drops":      0,
		"fair/packet/backlog": 100,
		"fair/packet/use":     98,
	} {
		if f := r.Figure(name); !f.Measured() || len(f.Samples) != 6 || f.Median() != want {
			t.Errorf("%s: %+v", name, f)
		}
	}
	r.Judge([]figures.Bout{*b})
	for _, v := range r.Verdicts {
		if v.Figure.State != figures.Passed {
			t.Errorf("%+v", v)
		}
	}
	r, stage.fail = newResults(), true
	playBout(t.Context(), stage, figures.Setting{}, b, 1, r, io.Discard)
	if f := r.Figure("fair/udp/use"); f.Measured() || len(f.Errors) != 1 {
		t.Errorf("%+v", f)
	}
}

// A bout takes as long as its plays, of which shared ones are counted once.
func TestTakes(t *testing.T) {
	one := scripted("a", func(figures.Setting) string { return "a" })
	long := scripted("b", func(figures.Setting) string { return "b" })
	long.Takes = func(d time.Duration) time.Duration { return 3 * d }
	twin := scripted("c", func(figures.Setting) string { return "c" })
	twin.Shared = true
	b := figures.Bout{Cases: []figures.Case{one, long, twin, twin}, Rest: 10 * time.Second}
	if got, want := b.Takes(8, figures.Setting{Duration: time.Second}),
		8*(5*time.Second+3*figures.Starting[figures.OnStage])+b.Rest; got != want {
		t.Errorf("takes %v, want %v", got, want)
	}
	b.Rounds = 2
	if b.Times(8) != 2 || b.Times(1) != 1 {
		t.Errorf("rounds %d, %d", b.Times(8), b.Times(1))
	}
}
