//go:build !amd64

package soft

// ticks is 0: there is no counter that is cheaper to read than the clock.
func ticks() uint64 { return 0 }
