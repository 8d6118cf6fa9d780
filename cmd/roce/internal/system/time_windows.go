package system

import (
	"syscall"
	"time"
)

// ProcessTime is the CPU time of this process, user and kernel.
func ProcessTime() time.Duration {
	self, err := syscall.GetCurrentProcess()
	if err != nil {
		return 0
	}
	var created, exited, kernel, user syscall.Filetime
	if syscall.GetProcessTimes(self, &created, &exited, &kernel, &user) != nil {
		return 0
	}
	ticks := func(f syscall.Filetime) time.Duration {
		return time.Duration(uint64(f.HighDateTime)<<32 | uint64(f.LowDateTime))
	}
	return 100 * (ticks(kernel) + ticks(user)) // in units of 100 ns
}
