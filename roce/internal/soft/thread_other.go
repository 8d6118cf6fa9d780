//go:build !linux

package soft

import "runtime"

// yieldThread lets other goroutines have the processor.
func yieldThread() { runtime.Gosched() }
