package roce

// The clock of the engines: monotone nanoseconds since the process started.
//
// A lane that polls asks for the time some twenty times a microsecond, and reading it is a third of what an empty poll costs. So a
// lane keeps what it read for as long as the processor's own counter says that hardly any time has passed. That counter's rate
// need not be known, and nothing is made of it but this: if it stood still, ran backwards or differed between processors, the
// clock would only be read more often.

import (
	"time"

	"github.com/goroce/goroce/qp"
)

// start0 is when the clock of all engines in this process started.
var start0 = time.Now()

// now reads the clock.
func now() qp.Time { return qp.Time(time.Since(start0)) }

// sameTime is how many ticks of the processor's counter are no time: 0.2 to 0.5 us at the usual 2 to 5 GHz.
const sameTime = 1024

// clock is the time as one lane knows it.
type clock struct {
	at   qp.Time
	tick uint64
}

// read returns the time, at most sameTime old.
func (c *clock) read() qp.Time {
	tick := ticks()
	if tick-c.tick >= sameTime || tick == 0 {
		c.at, c.tick = now(), tick
	}
	return c.at
}
