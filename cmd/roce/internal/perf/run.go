// Package perf measures bandwidth and latency as the programs of perftest 4.5 do, with either of
// which it can be paired: each end may be this one or ib_write_bw, ib_send_lat and so on.
//
// Stages of a run: meet the peer on TCP or by the RDMA connection manager (control.go, pairs.go),
// agree on terms and swap keys (messages.go, rig.go), move messages (stream.go for bandwidth,
// volley.go for latency) while the costs are measured (phase.go), compare notes, part (this file),
// print (report.go).
package perf

import (
	"context"
	"fmt"
	"io"
	"time"
)

// Run runs a test as the server, or with a host as the client, and prints its results.
func Run(ctx context.Context, out io.Writer, t *Test, o Options) (err error) {
	if err := o.complete(t); err != nil {
		return err
	}
	r := &rig{t: t, o: o, out: out}
	defer func() {
		if e := r.close(); err == nil {
			err = e
		}
	}()
	if err := r.meet(ctx); err != nil {
		return err
	}
	if err := r.build(); err != nil {
		return err
	}
	if err := r.meetPeer(ctx); err != nil {
		return err
	}
	watched, stop := r.link.Watch(ctx)
	defer stop()
	r.header()
	return r.measure(watched)
}

// test runs all message sizes.
func (r *rig) test(ctx context.Context) error {
	kind := r.oneSided
	switch {
	case r.t.Lat && r.t.respOp:
		kind = r.asking
	case r.t.Lat:
		kind = r.bouncing
	case r.o.Bidi:
		kind = r.bothWays
	case r.t.sends():
		kind = r.sending
	}
	return kind(ctx, r.o.sizes(r.mtu.Bytes()))
}

// oneSided is a WRITE, READ or atomic bandwidth test: the client works through all sizes, the
// server's part is to wait for the client to come back and tell.
func (r *rig) oneSided(ctx context.Context, sizes []int) (err error) {
	var last figures
	if r.link.client {
		for _, n := range sizes {
			if last, err = r.stream(ctx, n, stream{sends: true}); err != nil {
				return err
			}
			r.bandwidth(last)
		}
	}
	// The server's report is whatever: it measured nothing.
	return r.attend(func() error {
		if _, err := r.link.key(r.queues[0].own, 0); err != nil {
			return err
		}
		theirs, err := r.link.report(last)
		if !r.link.client {
			r.bandwidth(r.inOurUnit(theirs))
		}
		return err
	})
}

// bothWays is a bandwidth test in which both ends send at once; the results are sums.
func (r *rig) bothWays(ctx context.Context, sizes []int) error {
	for _, n := range sizes {
		if r.t.sends() {
			if err := r.ready(n); err != nil {
				return err
			}
		}
		if err := r.barrier(); err != nil {
			return err
		}
		mine, err := r.stream(ctx, n, stream{sends: true, takes: r.t.sends(), yield: r.t.sends() && !r.link.client})
		if err != nil {
			return err
		}
		if r.t.sends() && r.o.Duration > 0 {
			r.bandwidth(mine)
			continue
		}
		if err := r.attend(func() error { return r.compare(mine) }); err != nil {
			return err
		}
	}
	return nil
}

// compare swaps what both ends measured and prints the sum. With --all there is one more round to
// wait for each other.
func (r *rig) compare(mine figures) error {
	if r.o.AllSizes && !r.t.sends() {
		if _, err := r.link.key(r.queues[0].own, 0); err != nil {
			return err
		}
	}
	theirs, err := r.link.report(mine)
	if err != nil {
		return err
	}
	theirs = r.inOurUnit(theirs)
	sum := mine
	sum.Peak += theirs.Peak
	sum.Avg += theirs.Avg
	sum.Rate += theirs.Rate
	r.bothBandwidths(sum, &mine.Avg, &theirs.Avg)
	if r.o.AllSizes && r.t.sends() {
		_, err = r.link.key(r.queues[0].own, 0)
	}
	return err
}

// sending is a SEND bandwidth test: the client sends, the server receives, each prints what it saw.
func (r *rig) sending(ctx context.Context, sizes []int) error {
	for _, n := range sizes {
		r.size(n)
		if !r.link.client {
			if err := r.ready(n); err != nil {
				return err
			}
		}
		if err := r.barrier(); err != nil {
			return err
		}
		f, err := r.stream(ctx, n, stream{sends: r.link.client, takes: !r.link.client})
		if err != nil {
			return err
		}
		r.bandwidth(f)
		if r.o.AllSizes {
			if err := r.attend(func() error { _, err := r.link.key(r.queues[0].own, 0); return err }); err != nil {
				return err
			}
		}
	}
	return nil
}

// bouncing is a WRITE or SEND latency test: one message goes back and forth.
func (r *rig) bouncing(ctx context.Context, sizes []int) error {
	for _, n := range sizes {
		r.size(n)
		if r.t.sends() {
			if err := r.ready(n); err != nil {
				return err
			}
			if err := r.barrier(); err != nil {
				return err
			}
		}
		t, err := r.newVolley(n).run(ctx)
		if err != nil {
			return err
		}
		r.latency(t)
	}
	return nil
}

// asking is a READ or atomic latency test: the client asks, the server's device answers.
func (r *rig) asking(ctx context.Context, sizes []int) error {
	if !r.link.client {
		return nil
	}
	for _, n := range sizes {
		r.size(n)
		t, err := r.newVolley(n).run(ctx)
		if err != nil {
			return err
		}
		r.latency(t)
	}
	return nil
}

// stream runs one size of a bandwidth test.
func (r *rig) stream(ctx context.Context, size int, s stream) (figures, error) {
	if !r.t.sends() {
		r.size(size)
	}
	s.rig, s.size = r, size
	return s.run(ctx)
}

// ready posts the receives of one size, before the peer is told that it may send.
func (r *rig) ready(size int) error {
	r.size(size)
	for _, q := range r.queues {
		if err := r.refill(q); err != nil {
			return err
		}
	}
	return nil
}

// part ends the conversation as the test wants it. WRITE latency ends without a word: the device
// stays open until the peer has left, since our acknowledgement of its last message may have been
// lost.
func (r *rig) part() error {
	if r.o.CM {
		if err := r.leave(); err != nil {
			return err
		}
	}
	if r.t.untimely {
		return r.link.Finish(linger)
	}
	return r.link.goodbye()
}

// linger is how long a finished end stays to repeat acknowledgements for a peer that missed them.
const linger = time.Second

// waiting says that the server waits, as perftest does.
func (r *rig) waiting() {
	const stars = "************************************"
	r.say(fmt.Sprintf("\n%s\n* Waiting for client to connect... *\n%s\n", stars, stars))
}
