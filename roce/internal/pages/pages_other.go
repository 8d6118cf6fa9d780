//go:build !unix

package pages

// Elsewhere: of Go's heap, which does not move things either. Nothing is given back before the
// collector finds it.

import (
	"os"
	"unsafe"
)

// hugePages are for Linux.
func hugePages(int) *Pages { return nil }

func mapPages(whole int, _ bool) ([]byte, error) {
	size := os.Getpagesize()
	if whole+size < whole {
		return nil, errNoMemory
	}
	b := make([]byte, whole+size)
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) & uintptr(size-1))
	return b[skip : skip+whole : skip+whole], nil
}

func unmapPages([]byte) {}
