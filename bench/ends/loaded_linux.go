package ends

// Small messages beside a bulk stream between the same two ends, over our stack or TCP: how long do
// they take?
//
// Stages of a run: the ends meet; the client keeps a stream of 64 KiB messages full and has one
// small message under way, which the server answers at once; it counts once both have found their
// pace, and prints the percentiles of the round trips and what the stream carried meanwhile.
//
// Each end is one thread that spins over both connections: an end has one processor, and a second
// thread that spins on it would make the first wait for a time slice, milliseconds, whatever the
// network does.

import (
	"context"
	"fmt"
	"time"
)

const (
	bulkSize  = 64 << 10
	smallSize = 8
	// warmUp is how long the stream has to find its pace.
	warmUp = 200 * time.Millisecond
)

// transports are what a run can go over: each end by its name.
var transports = map[string]struct{ client, server func(*Task) (*gauge, error) }{
	"roce": {roceClient, roceServer},
	"tcp":  {tcpClient, tcpServer},
}

// loaded is an end. The client has the Result.
func (t *Task) loaded(context.Context) (*Result, error) {
	ends, ok := transports[t.Over]
	if !ok {
		return nil, fmt.Errorf("no transport %q", t.Over)
	}
	if !t.Sends {
		_, err := ends.server(t)
		return nil, err
	}
	g, err := ends.client(t)
	if err != nil {
		return nil, err
	}
	return g.result()
}

// gauge takes the client's measurements.
type gauge struct {
	trips    tally
	start    time.Time
	duration time.Duration

	sent     time.Duration // when the small message that is under way left, since start
	from, to mark          // of what is measured

	resent, timeouts uint64 // of our stack, in all its life
}

// mark is how much the stream had carried at a time.
type mark struct {
	at    time.Duration
	bytes uint64
}

func newGauge(duration time.Duration) *gauge {
	return &gauge{trips: newTally(), start: time.Now(), duration: duration}
}

// goesOn takes note of what the stream has carried, and says whether the measurement is to go on.
func (g *gauge) goesOn(bytes uint64) bool {
	now := mark{time.Since(g.start), bytes}
	if now.at < warmUp {
		return true
	}
	if g.from.at == 0 {
		g.from = now
	}
	g.to = now
	return now.at < warmUp+g.duration
}

// leaves and answered take the times of the small message.
func (g *gauge) leaves() { g.sent = time.Since(g.start) }
func (g *gauge) answered() {
	if g.sent >= warmUp {
		g.trips.add(time.Since(g.start) - g.sent)
	}
}

// result are the figures.
func (g *gauge) result() (*Result, error) {
	seconds := (g.to.at - g.from.at).Seconds()
	r := g.trips.result()
	if r.Exchanges == 0 || seconds <= 0 || g.to.bytes == g.from.bytes {
		return nil, fmt.Errorf("%d answers and %d bytes of the stream in %.3f s",
			r.Exchanges, g.to.bytes-g.from.bytes, seconds)
	}
	r.Gbps, r.Resent, r.Timeouts = float64(g.to.bytes-g.from.bytes)*8/1e9/seconds, g.resent, g.timeouts
	return r, nil
}
