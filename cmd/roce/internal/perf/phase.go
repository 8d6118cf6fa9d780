package perf

// The measured phase of a run, and what surrounds it.
//
// Stages: start the clock, the watch and the profile; the test; the peer is done too; stop; swap
// the costs; print, draw, judge; part.

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/pprof"
)

// measure runs the test and reports it.
func (r *rig) measure(ctx context.Context) error {
	endProfile, err := profile(r.o.Profile)
	if err != nil {
		return err
	}
	r.watch()
	clock := startClock()
	err = r.test(ctx)
	var left error
	if err == nil && !r.t.untimely { // an end that only answers does so in here
		left = r.attend(func() error { return r.link.finished(r.queues[0].own) })
	}
	phase := clock.stop(0, 0)
	r.eye.end()
	if err := errors.Join(r.s.Explain(err), endProfile()); err != nil {
		return err
	}
	var costs map[string]*costResult
	if left == nil {
		costs, left = r.settle(phase)
	}
	drawn := r.draw()
	r.footer(costs)
	if left == nil {
		left = r.part()
	}
	return errors.Join(left, drawn, r.verdict())
}

// settle swaps the costs with a peer of our own kind. An end that measured no size itself has spent
// the whole phase on answering the peer, and what it moved is known there.
func (r *rig) settle(phase cost) (map[string]*costResult, error) {
	mine, theirs := r.spent, cost{}
	if mine.Elapsed == 0 {
		mine = phase
	}
	client := r.link.client
	if r.link.ours {
		err := r.attend(func() (err error) { theirs, err = r.link.cost(mine); return err })
		if err != nil {
			return nil, err
		}
	}
	for _, pair := range [][2]*cost{{&mine, &theirs}, {&theirs, &mine}} {
		if idle, busy := pair[0], pair[1]; idle.Messages == 0 {
			idle.Messages, idle.Bytes = busy.Messages, busy.Bytes
		}
	}
	costs := map[string]*costResult{role(client): mine.result()}
	if r.link.ours {
		costs[role(!client)] = theirs.result()
	}
	return costs, nil
}

// verdict holds the results against --limit-bw and --limit-msgrate.
func (r *rig) verdict() error {
	var errs []error
	_, unit := r.o.unitName()
	for _, b := range r.bandwidths {
		if b.Avg < r.o.LimitBW {
			errs = append(errs, fmt.Errorf("%d bytes: the average bandwidth, %.2f %s, is below --limit-bw %v",
				b.Size, b.Avg, unit, r.o.LimitBW))
		}
		if b.Rate < r.o.LimitRate {
			errs = append(errs, fmt.Errorf("%d bytes: the message rate, %.6f M/s, is below --limit-msgrate %v",
				b.Size, b.Rate, r.o.LimitRate))
		}
	}
	return errors.Join(errs...)
}

// profile starts a CPU profile into a file, if there is to be one, and returns what ends it.
func profile(name string) (end func() error, err error) {
	if name == "" {
		return func() error { return nil }, nil
	}
	f, err := os.Create(name)
	if err != nil {
		return nil, fmt.Errorf("--cpuprofile: %w", err)
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		f.Close()
		return nil, fmt.Errorf("--cpuprofile: %w", err)
	}
	return func() error {
		pprof.StopCPUProfile()
		return f.Close()
	}, nil
}
