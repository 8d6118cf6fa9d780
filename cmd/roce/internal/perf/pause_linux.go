package perf

import (
	"time"

	"golang.org/x/sys/unix"
)

// pause sleeps in the kernel. The runtime's own sleep of an idle program ends on a whole
// millisecond, too late for short gaps.
func pause(d time.Duration) {
	left := unix.NsecToTimespec(int64(d))
	for unix.ClockNanosleep(unix.CLOCK_MONOTONIC, 0, &left, &left) == unix.EINTR {
		// A signal of the runtime has come in between: the rest is left.
		continue
	}
}
