package play

// Playing bouts. A bout is played round by round, so that what changes in the machine over minutes
// meets all of its cases. A round has every case once: odd rounds in a shuffled order, even ones in
// the reverse of the order before (ABBA), so that of each two cases either is first equally often,
// and what one play leaves behind favours nobody. A case that failed is tried in the next round
// too.

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/goroce/goroce/bench/figures"
)

// theatre performs plays: the stage on this machine, or a guest.
type theatre interface {
	perform(ctx context.Context, p figures.Play, limit time.Duration) (heard, error)
}

// heard is what came of a play.
type heard struct {
	server, client []byte  // what they printed
	load           *load   // nil: not known
	noCost         string  // why the load can be no cost; "": it can
	others         float64 // processors that were busy before the play began
}

// orders returns the orders of n cases in a number of rounds.
func orders(n, rounds int, chance *rand.Rand) (all [][]int) {
	for round := range rounds {
		if round%2 == 1 {
			back := slices.Clone(all[round-1])
			slices.Reverse(back)
			all = append(all, back)
			continue
		}
		all = append(all, chance.Perm(n))
	}
	return all
}

// playBout plays the cases of a bout and adds the figures to r.
func playBout(ctx context.Context, t theatre, set figures.Setting, b *figures.Bout, rounds int, r *figures.Results,
	progress io.Writer) {
	for i, order := range orders(len(b.Cases), rounds, r.Chance) {
		shared := map[string]*performance{}
		for turn, k := range order {
			c := &b.Cases[k]
			s := figures.Sample{Round: i + 1, Turn: turn + 1}
			unit, err := playCase(ctx, c, t, set, shared, &s)
			if ctx.Err() != nil {
				return
			}
			r.Add(c, s, unit, err)
			said := fmt.Sprintf("%10s %s", figures.Number(s.Value), c.Unit.Name)
			if s.Cost > 0 {
				said += fmt.Sprintf(", %s %s", figures.Number(s.Cost), unit.Name)
			}
			if s.NoCost != "" {
				said += ", " + s.NoCost
			}
			if err != nil {
				said = "failed: " + figures.Cell(err.Error())
			}
			fmt.Fprintf(progress, "%s: round %d/%d  %-34s %s\n", b.Name, i+1, rounds, c.Name, said)
		}
	}
}

// performance is what came of a play, or why nothing did.
type performance struct {
	heard
	err error
}

// playCase performs the case's play, unless it is among the shared ones of this round, and takes
// the figure from what came of it, with its cost.
func playCase(ctx context.Context, c *figures.Case, t theatre, set figures.Setting, shared map[string]*performance,
	s *figures.Sample) (costUnit figures.Unit, err error) {
	play := c.Play(set)
	if play.Link.MTU == 0 {
		play.Link.MTU = c.MTU
	}
	key := fmt.Sprint(play)
	p := shared[key]
	if p == nil {
		p = &performance{}
		p.heard, p.err = t.perform(ctx, play, figures.Limit(set.Duration))
		if c.Shared {
			shared[key] = p
		}
	}
	if p.err != nil {
		return costUnit, p.err
	}
	if s.Value, err = c.Figure(p.server, p.client); err == nil {
		err = c.Sound(s.Value) // first: without a figure there is no cost either
	}
	if err != nil {
		return costUnit, err
	}
	if c.Note != nil {
		s.Note = c.Note(p.server, p.client)
	}
	if c.P99 != nil {
		s.P99 = c.P99(p.server, p.client)
	}
	if p.load != nil {
		s.Steal = p.load.steal
	}
	if s.Others = p.others; c.HasCost() {
		s.NoCost = p.noCost
	}
	costUnit, s.Cost, err = costOf(c, s.Value, p.heard)
	return costUnit, err
}
