package roce

import (
	"syscall"
	"time"
)

// nap sleeps for tens of microseconds. time.Sleep would take a millisecond when no other goroutine runs.
func nap(d time.Duration) {
	t := syscall.NsecToTimespec(int64(d))
	syscall.Nanosleep(&t, nil) // a signal may end it early: no harm
}
