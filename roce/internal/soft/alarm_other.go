//go:build !linux

package soft

// newStandby makes the alarm that a background stands by on.
var newStandby = newTimerAlarm
