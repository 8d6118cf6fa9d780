// Package runtime is that of the standard library for a rewritten build: see package step.
package runtime

import (
	"runtime"

	"github.com/goroce/goroce/internal/step"
)

// The system that this is.
const (
	GOOS   = runtime.GOOS
	GOARCH = runtime.GOARCH
)

// Gosched lets others go on.
func Gosched() { step.Yield() }

// NumCPU and KeepAlive are what they always are.
func NumCPU() int { return runtime.NumCPU() }

// KeepAlive keeps x.
func KeepAlive(x any) { runtime.KeepAlive(x) }
