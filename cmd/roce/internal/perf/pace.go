package perf

// --rate-limit: messages leave on a schedule instead of as fast as they can.

import "time"

// catchUp is how much lost time a sender that comes late makes good, sending faster than its rate:
// an operating system takes the processor away for many milliseconds, and the average should be the
// rate nevertheless. What is later than this is forgotten.
const catchUp = 100 * time.Millisecond

// pacer is the schedule. Bursts leave at fixed times, counted from the start and not from the burst
// before: what comes late shifts nothing that follows, so errors do not add up. It reads no clock.
type pacer struct {
	gap   float64 // nanoseconds from a burst to the next; a fraction matters at millions a second
	burst int     // messages
	slack int     // messages that a late sender may have in arrears
	sent  int     // or forgotten
}

// newPacer makes a schedule of so many messages a second, which leave in bursts of a number of
// messages.
func newPacer(rate float64, burst int) *pacer {
	gap := 1e9 / rate * float64(burst)
	return &pacer{gap: gap, burst: burst, slack: burst * (1 + int(float64(catchUp)/gap))}
}

// due is how many messages may be posted at a time since the start.
func (p *pacer) due(now time.Duration) int {
	n := (int(float64(now)/p.gap)+1)*p.burst - p.sent
	if n > p.slack {
		p.sent += n - p.slack
		n = p.slack
	}
	return n
}

// next is when a message may be posted again, as a time since the start: past if some may be now.
func (p *pacer) next() time.Duration { return time.Duration(float64(p.sent/p.burst) * p.gap) }
