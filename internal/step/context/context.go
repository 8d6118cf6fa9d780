// Package context is that of the standard library for a rewritten build: see package step.
package context

import (
	"context"
	"time"
	"unsafe"

	"github.com/goroce/goroce/internal/step"
)

// What is given and called is what it always is.
type (
	Context         = context.Context
	CancelFunc      = context.CancelFunc
	CancelCauseFunc = context.CancelCauseFunc
)

// The errors of a context that has ended.
var (
	Canceled         = context.Canceled
	DeadlineExceeded = context.DeadlineExceeded
)

// Background never ends.
func Background() Context { return context.Background() }

// TODO is Background.
func TODO() Context { return context.Background() }

// Cause is why ctx has ended.
func Cause(ctx Context) error {
	if c, ok := ctx.(*ends); ok && c.cause != nil {
		return c.cause
	}
	return ctx.Err()
}

// ends is a context that can end.
type ends struct {
	Context // above
	done    chan struct{}
	err     error
	cause   error
	until   time.Time
	then    map[*func()]struct{} // called when it has ended
}

// WithCancel makes a context that ends by a call, or with the one above.
func WithCancel(above Context) (Context, CancelFunc) {
	ctx, end := WithCancelCause(above)
	return ctx, func() { end(nil) }
}

// WithCancelCause is WithCancel, and says why.
func WithCancelCause(above Context) (Context, CancelCauseFunc) {
	c := &ends{Context: above, done: make(chan struct{}), then: map[*func()]struct{}{}}
	if above.Done() != nil {
		on(above.(*ends), func() { c.end(above.Err(), Cause(above)) })
	}
	return c, func(cause error) { c.end(Canceled, cause) }
}

// WithTimeout ends it after d, too.
func WithTimeout(above Context, d time.Duration) (Context, CancelFunc) {
	ctx, end := WithCancelCause(above)
	c := ctx.(*ends)
	c.until = step.Now().Add(d)
	timer := step.After(d, func() { step.Go(func() { c.end(DeadlineExceeded, nil) }) })
	return ctx, func() {
		timer.Stop()
		end(nil)
	}
}

// WithDeadline ends it at a time.
func WithDeadline(above Context, at time.Time) (Context, CancelFunc) {
	return WithTimeout(above, at.Sub(step.Now()))
}

func (c *ends) end(err, cause error) {
	step.At(unsafe.Pointer(c), true)
	if c.err != nil {
		return
	}
	c.err, c.cause = err, cause
	step.Close(c.done)
	for f := range c.then {
		delete(c.then, f)
		(*f)()
	}
}

// Done is closed when it has ended.
func (c *ends) Done() <-chan struct{} { return c.done }

// Deadline is when it ends.
func (c *ends) Deadline() (time.Time, bool) { return c.until, !c.until.IsZero() }

// Err says why it has ended.
func (c *ends) Err() error {
	step.At(unsafe.Pointer(c), false)
	return c.err
}

// on calls f when c has ended, unless what it returns is called before.
func on(c *ends, f func()) (stop func() bool) {
	if c.err != nil {
		f()
		return func() bool { return false }
	}
	c.then[&f] = struct{}{}
	return func() bool {
		_, there := c.then[&f]
		delete(c.then, &f)
		return there
	}
}

// AfterFunc calls f when ctx has ended, on a goroutine of its own.
func AfterFunc(ctx Context, f func()) (stop func() bool) {
	c, ok := ctx.(*ends)
	if !ok {
		return func() bool { return true }
	}
	step.At(unsafe.Pointer(c), true)
	return on(c, func() { step.Go(f) })
}
