//go:build unix

package system

import (
	"syscall"
	"time"
)

// ProcessTime is the CPU time of this process, user and system.
func ProcessTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
