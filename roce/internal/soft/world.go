package soft

// What a device has of the machine that it runs on beside its ports: time, and chance.
//
// The clock of the engines counts monotone nanoseconds since the process started. A lane that polls
// asks for the time some twenty times a microsecond, and reading it is a third of what an empty
// poll costs. So a lane keeps what it read for as long as the processor's own counter says that
// hardly any time has passed. That counter's rate need not be known, and nothing is made of it but
// this: if it stood still, ran backwards or differed between processors, the clock would only be
// read more often (sameFor).

import (
	"crypto/rand"
	"encoding/binary"
	"runtime"
	"sync"
	"time"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/roce/internal/ticks"
)

// start0 is when the clock of all engines in this process started.
var start0 = time.Now()

// now reads the clock.
func now() qp.Time { return qp.Time(time.Since(start0)) }

// world is what a device has of the machine that it runs on beside its ports. A simulation has one
// of its own, in which nothing else lets time pass (drive_test.go).
type world struct {
	now   func() qp.Time
	yield func() // lets other goroutines run while one waits for another
	alarm func() (alarm, error)
	exact bool // the clock is read each time, whatever the processor's counter says
	space int  // bytes of packets that one send has room for
}

// machine is the real one.
var machine = world{now: now, yield: runtime.Gosched, alarm: newStandby, space: txSpace}

// In ticks of the processor's counter, usually 2 to 5 a nanosecond: sameTime are no time, 0.4 to 1
// us. A poll renews the time when it is older than fresh, mostly while there is nothing to do: what
// comes of a packet, up to its answer, then finds it new enough.
const (
	sameTime = 2048
	fresh    = sameTime / 4
)

// clock is the time as one lane knows it.
type clock struct {
	now   func() qp.Time // what it reads; any goroutine. A test has a time of its own
	exact bool           // it is read each time
	at    qp.Time
	tick  uint64
}

// read returns the time, at most sameTime old.
func (c *clock) read() qp.Time { return c.within(sameTime) }

// within returns the time, at most age ticks old.
func (c *clock) within(age uint64) qp.Time {
	tick := ticks.Now()
	if !sameFor(tick-c.tick, age) || c.exact {
		c.at, c.tick = c.now(), tick
	}
	return c.at
}

// sameFor says whether so little has passed on the counter, but something, that the time is taken
// to be what it was. A counter that stands still, or is always 0 as there is none, tells nothing.
func sameFor(passed, age uint64) bool { return passed-1 < age-1 }

// entropy draws unpredictable numbers for keys, queue pair numbers and starting PSNs: what is hard
// to guess is hard to spoof. It reads ahead, so that a draw costs no system call.
type entropy struct {
	mu   sync.Mutex
	left []byte
	buf  [512]byte
}

// random serves all devices of the process.
var random entropy

// Uint64 may be called from any goroutine.
func (e *entropy) Uint64() uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.left) == 0 {
		rand.Read(e.buf[:]) // never fails: the runtime ends the process instead
		e.left = e.buf[:]
	}
	v := binary.LittleEndian.Uint64(e.left)
	clear(e.left[:8]) // what was given away is not kept
	e.left = e.left[8:]
	return v
}
