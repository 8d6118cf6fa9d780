package perf

// What a test costs the processors: CPU time of the process over the measured phase, at this end
// and, if the peer is one of ours, at the other. perftest has no such round, so two ends of ours
// know each other by a mark (messages.go) and have it in addition.

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/goroce/goroce/cmd/roce/internal/system"
)

// cost is what an end spent on a phase. A polling end burns a core whatever it carries: cores shows
// that, and the times for each message and byte are to be read with it.
type cost struct {
	CPU, Elapsed    time.Duration
	Messages, Bytes uint64 // moved meanwhile, both directions together
}

// clock is when a phase began.
type clock struct {
	cpu time.Duration
	at  time.Time
}

func startClock() clock { return clock{system.ProcessTime(), time.Now()} }

// stop returns what the phase has cost so far.
func (c clock) stop(messages, size int) cost {
	return cost{
		CPU:      system.ProcessTime() - c.cpu,
		Elapsed:  time.Since(c.at),
		Messages: uint64(messages),
		Bytes:    uint64(messages) * uint64(size),
	}
}

func (c *cost) add(d cost) {
	c.CPU += d.CPU
	c.Elapsed += d.Elapsed
	c.Messages += d.Messages
	c.Bytes += d.Bytes
}

// costResult is a cost as --json prints it.
type costResult struct {
	CPU        float64 `json:"cpu_seconds"`
	Elapsed    float64 `json:"elapsed_seconds"`
	Cores      float64 `json:"cores"`
	PerMessage float64 `json:"ns_per_message"`
	PerKiB     float64 `json:"ns_per_kib"`
}

func (c *cost) result() *costResult {
	ratio := func(x, y float64) float64 {
		if y == 0 {
			return 0
		}
		return x / y
	}
	ns := float64(c.CPU)
	return &costResult{CPU: c.CPU.Seconds(), Elapsed: c.Elapsed.Seconds(), Cores: ratio(ns, float64(c.Elapsed)),
		PerMessage: ratio(ns, float64(c.Messages)), PerKiB: ratio(ns*1024, float64(c.Bytes))}
}

func (c *costResult) line(who string) string {
	return fmt.Sprintf(" CPU of %s : %.2f cores, %.1f ns/message, %.1f ns/KiB", who, c.Cores, c.PerMessage, c.PerKiB)
}

// columns are what --cpu-util adds to a line of results.
func (c *costResult) columns() string {
	return fmt.Sprintf("   %-12.2f %-14.1f %-10.1f", c.Cores, c.PerMessage, c.PerKiB)
}

const costColumns = "   CPU[cores]   CPU[ns/msg]    CPU[ns/KiB]"

// cost swaps the costs of both ends: one round of four numbers.
func (l *link) cost(mine cost) (theirs cost, err error) {
	var msg []byte
	for _, v := range []uint64{uint64(mine.CPU), uint64(mine.Elapsed), mine.Messages, mine.Bytes} {
		msg = binary.BigEndian.AppendUint64(msg, v)
	}
	got := make([]byte, len(msg))
	if err := l.swap(msg, got, 0); err != nil {
		return theirs, fmt.Errorf("swap the costs: %w", err)
	}
	field := func(i int) uint64 { return binary.BigEndian.Uint64(got[8*i:]) }
	return cost{
		CPU:      time.Duration(field(0)),
		Elapsed:  time.Duration(field(1)),
		Messages: field(2),
		Bytes:    field(3),
	}, nil
}
