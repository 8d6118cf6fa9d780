// Package storage brings what is in memory to the storage behind it.
package storage

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Works says whether Sync can do anything on this system.
const Works = true

// Sync returns when the pages that mem lies in are on the storage of the file that they are a
// mapping of. Memory that is no file's, or a private copy, has none: nothing happens. The error is
// what the storage says, or that the memory is not there any more; it is not touched. Any
// goroutine.
func Sync(mem []byte) error {
	if len(mem) == 0 {
		return nil
	}
	page := uintptr(os.Getpagesize())
	at := uintptr(unsafe.Pointer(unsafe.SliceData(mem)))
	from := at &^ (page - 1)
	// An address and no slice, as it reaches beyond the bytes that are registered.
	if _, _, errno := unix.Syscall(unix.SYS_MSYNC, from, at+uintptr(len(mem))-from, unix.MS_SYNC); errno != 0 {
		return errno
	}
	return nil
}
