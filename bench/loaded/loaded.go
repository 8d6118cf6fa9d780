//go:build linux

// Package loaded measures how long small messages take beside a bulk stream between the same two
// ends, over our stack or TCP.
//
// Stages of a run: the ends meet; the client keeps a stream of 64 KiB messages full and has one
// small message under way, which the server answers at once; it counts once both have found their
// pace, and prints the percentiles of the round trips and what the stream carried meanwhile.
//
// Each end is one thread that spins over both connections: an end has one processor, and a second
// thread that spins on it would make the first wait for a time slice, milliseconds, whatever the
// network does.
package loaded

import (
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Task is what an end is to do.
type Task struct {
	Device      string // of our stack; TCP has none
	Local, Peer netip.Addr
	Sends       bool // be the client
	Depth       int  // messages of our stream under way; of TCP there is what its buffers take
	Duration    time.Duration
}

// Result is what the client prints.
type Result struct {
	P50       float64 `json:"p50_usec"` // of a round trip
	P99       float64 `json:"p99_usec"`
	P999      float64 `json:"p99.9_usec"`
	Exchanges int64   `json:"exchanges"`
	Gbps      float64 `json:"gbps"` // of the stream, as acknowledged

	// Of our stack: packets that were sent again, and how often nothing was heard for too long.
	Resent   uint64 `json:"resent"`
	Timeouts uint64 `json:"timeouts"`
}

const (
	port      = 18516
	bulkSize  = 64 << 10
	smallSize = 8
	// warmUp is how long the stream has to find its pace.
	warmUp = 200 * time.Millisecond
	// longest is the longest round trip that is told apart; three digits are kept of each.
	longest = int64(time.Minute)
)

// transports are what a run can go over: each end by its name.
var transports = map[string]struct{ client, server func(Task) (*gauge, error) }{
	"roce": {roceClient, roceServer},
	"tcp":  {tcpClient, tcpServer},
}

// Run plays one end. The client prints its Result.
func Run(out io.Writer, over string, t Task) error {
	ends, ok := transports[over]
	if !ok {
		return fmt.Errorf("no transport %q", over)
	}
	end := ends.server
	if t.Sends {
		end = ends.client
	}
	g, err := end(t)
	if err != nil || !t.Sends {
		return err
	}
	r, err := g.result()
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(r)
}

// gauge takes the client's measurements.
type gauge struct {
	trips    *hdrhistogram.Histogram
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
	return &gauge{trips: hdrhistogram.New(1, longest, 3), start: time.Now(), duration: duration}
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
		g.trips.RecordValue(min(int64(time.Since(g.start)-g.sent), longest))
	}
}

// result are the figures.
func (g *gauge) result() (*Result, error) {
	seconds := (g.to.at - g.from.at).Seconds()
	n := g.trips.TotalCount()
	if n == 0 || seconds <= 0 || g.to.bytes == g.from.bytes {
		return nil, fmt.Errorf("%d answers and %d bytes of the stream in %.3f s", n, g.to.bytes-g.from.bytes, seconds)
	}
	usec := func(percent float64) float64 { return float64(g.trips.ValueAtPercentile(percent)) / 1e3 }
	return &Result{P50: usec(50), P99: usec(99), P999: usec(99.9), Exchanges: n,
		Gbps: float64(g.to.bytes-g.from.bytes) * 8 / 1e9 / seconds, Resent: g.resent, Timeouts: g.timeouts}, nil
}
