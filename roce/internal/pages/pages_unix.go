//go:build unix && !linux

package pages

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// hugePages are for Linux.
func hugePages(int) *Pages { return nil }

func mapPages(whole int, _ bool) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, whole, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("mmap of %d bytes: %w", whole, err)
	}
	return b, nil
}

// unmapPages cannot fail for pages that are mapped.
func unmapPages(b []byte) { unix.Munmap(b) }
