//go:build !linux

package perf

import "time"

// pause sleeps.
func pause(d time.Duration) { time.Sleep(d) }
