package main

// Playing the cases. Rounds are interleaved: every case once, then every case again, so that what changes in the machine
// over minutes meets all of them. A case that failed is tried in the next round too, and all its errors are reported.

import (
	"context"
	"fmt"
	"io"
	"time"
)

// theatre performs plays: the stage on this machine, or the guest with rxe.
type theatre interface {
	perform(ctx context.Context, p Play, limit time.Duration) (server, client []byte, err error)
}

// playRounds plays all cases n times and adds the figures to r.
func playRounds(ctx context.Context, t theatre, set Setting, cases []Case, n int, r *Results, progress io.Writer) {
	for round := 1; round <= n; round++ {
		shared := map[string]*performance{}
		for i := range cases {
			c := &cases[i]
			value, err := c.play(ctx, t, set, shared)
			if ctx.Err() != nil {
				return
			}
			r.add(c, round, value, err)
			if err != nil {
				fmt.Fprintf(progress, "round %d/%d  %-34s failed: %v\n", round, n, c.Name, err)
			} else {
				fmt.Fprintf(progress, "round %d/%d  %-34s %10s %s\n", round, n, c.Name, number(value), c.Unit.Name)
			}
		}
	}
}

// performance is what came of a play.
type performance struct {
	server, client []byte
	err            error
}

// play performs the case's play, unless it is among the shared ones of this round, and takes the figure from what came of it.
func (c *Case) play(ctx context.Context, t theatre, set Setting, shared map[string]*performance) (float64, error) {
	play := c.Play(set)
	key := fmt.Sprint(play)
	p := shared[key]
	if p == nil {
		p = &performance{}
		p.server, p.client, p.err = t.perform(ctx, play, limit(set.Duration))
		if c.Shared {
			shared[key] = p
		}
	}
	if p.err != nil {
		return 0, p.err
	}
	return c.Figure(p.server, p.client)
}
