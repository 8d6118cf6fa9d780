// Package atomic is sync/atomic for a rewritten build: see package step. One goroutine at a time
// runs there, so that plain memory will do.
package atomic

import (
	"unsafe"

	"github.com/goroce/goroce/internal/step"
)

// cell is what all have.
type cell[T comparable] struct{ v T }

func (c *cell[T]) Load() T {
	step.At(unsafe.Pointer(c), false)
	return c.v
}

func (c *cell[T]) Store(v T) {
	step.At(unsafe.Pointer(c), true)
	c.v = v
}

func (c *cell[T]) Swap(v T) (old T) {
	step.At(unsafe.Pointer(c), true)
	old, c.v = c.v, v
	return old
}

func (c *cell[T]) CompareAndSwap(old, v T) bool {
	step.At(unsafe.Pointer(c), true)
	if c.v != old {
		return false
	}
	c.v = v
	return true
}

// number is what numbers have beside.
type number[T ~int32 | ~int64 | ~uint32 | ~uint64 | ~uintptr] struct{ cell[T] }

func (n *number[T]) Add(d T) T {
	step.At(unsafe.Pointer(n), true)
	n.v += d
	return n.v
}

func (n *number[T]) And(mask T) (old T) {
	step.At(unsafe.Pointer(n), true)
	old = n.v
	n.v &= mask
	return old
}

func (n *number[T]) Or(mask T) (old T) {
	step.At(unsafe.Pointer(n), true)
	old = n.v
	n.v |= mask
	return old
}

// The types of sync/atomic.
type (
	Bool           struct{ cell[bool] }
	Int32          struct{ number[int32] }
	Int64          struct{ number[int64] }
	Uint32         struct{ number[uint32] }
	Uint64         struct{ number[uint64] }
	Uintptr        struct{ number[uintptr] }
	Pointer[T any] struct{ cell[*T] }
)
