package pin

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// lockPages locks them. They reach beyond the bytes that are registered, hence an address and no
// slice.
func lockPages(p pages) error {
	if _, _, errno := unix.Syscall(unix.SYS_MLOCK, p.lo, p.hi-p.lo, 0); errno != 0 {
		return errno
	}
	return nil
}

// unlockPages cannot fail for pages that were locked and are still mapped.
func unlockPages(p pages) { unix.Syscall(unix.SYS_MUNLOCK, p.lo, p.hi-p.lo, 0) }

// Limit says how much the process may lock.
func Limit() string {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit); err != nil {
		return "see ulimit -l"
	}
	return fmt.Sprintf("RLIMIT_MEMLOCK, ulimit -l, is %d bytes", uint64(limit.Cur))
}
