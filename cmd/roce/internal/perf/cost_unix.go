//go:build unix

package perf

import (
	"syscall"
	"time"
)

// processTime is the CPU time of this process, user and system.
func processTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
