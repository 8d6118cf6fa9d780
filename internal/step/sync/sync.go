// Package sync is that of the standard library for a rewritten build: see package step.
package sync

import (
	"sync"
	"unsafe"

	"github.com/goroce/goroce/internal/step"
)

// What does not wait while others run is what it always is.
type (
	Locker = sync.Locker
	Map    = sync.Map
	Pool   = sync.Pool
)

// Mutex is a lock.
type Mutex struct{ held bool }

// Lock waits for it.
func (m *Mutex) Lock() {
	at := unsafe.Pointer(m)
	for step.At(at, true); m.held; {
		step.Block(at)
	}
	m.held = true
}

// TryLock does not.
func (m *Mutex) TryLock() bool {
	step.At(unsafe.Pointer(m), true)
	if m.held {
		return false
	}
	m.held = true
	return true
}

// Unlock gives it back.
func (m *Mutex) Unlock() {
	step.At(unsafe.Pointer(m), true)
	if !m.held {
		panic("sync: unlock of unlocked mutex")
	}
	m.held = false
	step.Touch(unsafe.Pointer(m))
}

// RWMutex is a lock of one writer or many readers.
type RWMutex struct {
	writer  bool
	readers int
}

// Lock waits until nobody has it.
func (m *RWMutex) Lock() {
	at := unsafe.Pointer(m)
	for step.At(at, true); m.writer || m.readers > 0; {
		step.Block(at)
	}
	m.writer = true
}

// Unlock gives it back.
func (m *RWMutex) Unlock() {
	step.At(unsafe.Pointer(m), true)
	m.writer = false
	step.Touch(unsafe.Pointer(m))
}

// RLock waits until no writer has it.
func (m *RWMutex) RLock() {
	at := unsafe.Pointer(m)
	for step.At(at, true); m.writer; {
		step.Block(at)
	}
	m.readers++
}

// RUnlock gives it back.
func (m *RWMutex) RUnlock() {
	step.At(unsafe.Pointer(m), true)
	m.readers--
	step.Touch(unsafe.Pointer(m))
}

// Cond is a condition.
type Cond struct {
	L           Locker
	come, woken uint64 // who waits has a number
}

// NewCond makes one.
func NewCond(l Locker) *Cond { return &Cond{L: l} }

// Wait waits to be told.
func (c *Cond) Wait() {
	at := unsafe.Pointer(c)
	step.At(at, true)
	mine := c.come
	c.come++
	c.L.Unlock()
	for mine >= c.woken {
		step.Block(at)
	}
	c.L.Lock()
}

// Signal tells who has waited longest.
func (c *Cond) Signal() {
	step.At(unsafe.Pointer(c), true)
	c.woken = min(c.woken+1, c.come)
	step.Touch(unsafe.Pointer(c))
}

// Broadcast tells all.
func (c *Cond) Broadcast() {
	step.At(unsafe.Pointer(c), true)
	c.woken = c.come
	step.Touch(unsafe.Pointer(c))
}

// WaitGroup counts what is under way.
type WaitGroup struct{ n int }

// Add adds to it.
func (w *WaitGroup) Add(n int) {
	step.At(unsafe.Pointer(w), true)
	w.n += n
	step.Touch(unsafe.Pointer(w))
}

// Done takes one away.
func (w *WaitGroup) Done() { w.Add(-1) }

// Go runs f beside, and counts it.
func (w *WaitGroup) Go(f func()) {
	w.Add(1)
	step.Go(func() {
		defer w.Done()
		f()
	})
}

// Wait waits until nothing is.
func (w *WaitGroup) Wait() {
	at := unsafe.Pointer(w)
	for step.At(at, true); w.n > 0; {
		step.Block(at)
	}
}

// Once does something once.
type Once struct {
	mu   Mutex
	done bool
}

// Do does it, or waits until it is done.
func (o *Once) Do(f func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.done {
		defer func() { o.done = true }()
		f()
	}
}
