package system

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// KeepOn keeps the calling goroutine on one processor, the first or the last of those that the
// process may use, until undo is called on the same goroutine. Two programs that spin are otherwise
// often put onto the same one, and wait milliseconds for each other. It does nothing where there is
// one processor only.
func KeepOn(last bool) (undo func()) {
	runtime.LockOSThread()
	var all, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil || all.Count() < 2 {
		return runtime.UnlockOSThread
	}
	chosen := -1
	for cpu := range len(all) * 64 {
		if all.IsSet(cpu) && (chosen < 0 || last) {
			chosen = cpu
		}
	}
	one.Set(chosen)
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		return runtime.UnlockOSThread
	}
	return func() {
		unix.SchedSetaffinity(0, &all)
		runtime.UnlockOSThread()
	}
}
