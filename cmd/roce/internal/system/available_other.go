//go:build !linux

package system

// AvailableMemory is not known here.
func AvailableMemory() (n uint64, known bool) { return 0, false }
