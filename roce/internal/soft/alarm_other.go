//go:build !linux

package soft

import "runtime"

// newStandby makes the alarm that a background stands by on.
func newStandby() (alarm, error) { return newTimerAlarm() }

// yieldThread lets other goroutines have the processor.
func yieldThread() { runtime.Gosched() }
