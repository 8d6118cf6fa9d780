//go:build !linux

package roce

import "time"

// nap sleeps for tens of microseconds, or what the system makes of it.
func nap(d time.Duration) { time.Sleep(d) }
