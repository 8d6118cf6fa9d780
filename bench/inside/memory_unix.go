//go:build unix

package inside

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// fresh maps memory that was never touched.
func fresh(size int) (buf []byte, free func(), err error) {
	buf, err = unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, nil, fmt.Errorf("mapping %d bytes: %w", size, err)
	}
	return buf, func() { unix.Munmap(buf) }, nil
}

// lockOnce is how long mlock takes, in microseconds.
func lockOnce(buf []byte) (float64, error) {
	start := time.Now()
	err := unix.Mlock(buf)
	took := time.Since(start)
	if err != nil {
		return 0, fmt.Errorf("mlock: %w", err)
	}
	return float64(took.Nanoseconds()) / 1e3, unix.Munlock(buf)
}
