// Package pin keeps memory from being paged out, counted: the system's own locks do not count, one
// unlock undoes any number of them. They belong to the process, and so does what is remembered
// here.
package pin

// Stages: Lock locks the pages that bytes lie in, and remembers them → Unlock unlocks those that no
// other Lock has.

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"unsafe"
)

// pages are those from lo to hi-1, both addresses of pages.
type pages struct{ lo, hi uintptr }

// pinned are the pages of all Locks of this process; those of several are there several times.
var pinned struct {
	sync.Mutex
	all []pages
}

// pagesOf returns the pages that buf lies in.
func pagesOf(buf []byte) pages {
	size, at := uintptr(os.Getpagesize()), uintptr(unsafe.Pointer(unsafe.SliceData(buf)))
	return pages{at &^ (size - 1), (at + uintptr(len(buf)) + size - 1) &^ (size - 1)}
}

// Lock locks buf in memory. That takes as long as the system needs to find pages for what was never
// touched. The error says what the process may lock. Any goroutine.
func Lock(buf []byte) error {
	if len(buf) == 0 {
		return nil
	}
	p := pagesOf(buf)
	pinned.Lock()
	// before its pages are locked: nobody may unlock them from now on
	pinned.all = append(pinned.all, p)
	pinned.Unlock()
	if err := lockPages(p); err != nil {
		Unlock(buf)
		return fmt.Errorf("pinning %d bytes: %w (%s)", len(buf), err, Limit())
	}
	return nil
}

// Unlock undoes one Lock of buf, which must have succeeded. Any goroutine.
func Unlock(buf []byte) {
	if len(buf) == 0 {
		return
	}
	p := pagesOf(buf)
	pinned.Lock()
	defer pinned.Unlock()
	i := slices.Index(pinned.all, p)
	pinned.all = slices.Delete(pinned.all, i, i+1)
	for _, free := range p.without(pinned.all) {
		unlockPages(free)
	}
}

// without returns what is in p and in none of the others.
func (p pages) without(others []pages) []pages {
	left := []pages{p}
	for _, o := range others {
		var next []pages
		for _, q := range left {
			if o.hi <= q.lo || o.lo >= q.hi {
				next = append(next, q)
				continue
			}
			if q.lo < o.lo {
				next = append(next, pages{q.lo, o.lo})
			}
			if o.hi < q.hi {
				next = append(next, pages{o.hi, q.hi})
			}
		}
		left = next
	}
	return left
}
