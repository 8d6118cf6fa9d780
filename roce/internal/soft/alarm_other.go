//go:build !linux

package soft

// newStandby makes the alarm that a background stands by on.
func newStandby() (alarm, error) { return newTimerAlarm() }
