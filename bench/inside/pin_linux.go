package inside

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// pin keeps the calling thread on a processor.
func pin(cpu int) error {
	var one unix.CPUSet
	one.Set(cpu)
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		return fmt.Errorf("a thread on processor %d: %w", cpu, err)
	}
	return nil
}
