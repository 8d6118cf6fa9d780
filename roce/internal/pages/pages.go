// Package pages is memory from the system, outside of Go's heap: whole pages, zeroed, that nobody
// moves, collects or scans.
package pages

import (
	"errors"
	"os"
)

// Pages is a mapping. Its bytes are the application's until Free.
type Pages struct {
	Bytes []byte
	// Size is that of the pages that the system has promised.
	Size   int
	mapped []byte // what is given back: the same, rounded up
}

// errNoMemory is the error of more than there can be.
var errNoMemory = errors.New("larger than the address space")

// Alloc maps n bytes, n > 0. With huge they are of huge pages if the system has some reserved, else
// aligned to them, and the system is asked to use them where it can. Any goroutine.
func Alloc(n int, huge bool) (*Pages, error) {
	if huge {
		if p := hugePages(n); p != nil {
			return p, nil
		}
	}
	size := os.Getpagesize()
	whole, ok := roundUp(n, size)
	if !ok {
		return nil, errNoMemory
	}
	b, err := mapPages(whole, huge)
	if err != nil {
		return nil, err
	}
	return &Pages{Bytes: b[:n:n], Size: size, mapped: b}, nil
}

// Free gives the pages back, once. Who touches them afterwards faults, or touches what has been
// mapped there since.
func (p *Pages) Free() {
	unmapPages(p.mapped)
	p.Bytes, p.mapped = nil, nil
}

// roundUp is the least multiple of size, a power of two, that is not less than n.
func roundUp(n, size int) (whole int, ok bool) {
	whole = (n + size - 1) &^ (size - 1)
	return whole, whole >= n
}
