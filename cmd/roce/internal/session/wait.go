package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goroce/goroce/roce"
)

// Waiter takes completions from a queue, spinning or sleeping. (CQ.PollUntil leaves them there, and
// neither sleeps nor gives up a peer that says nothing.)
type Waiter struct {
	CQ     *roce.CQ
	Events bool          // sleep until something happens instead of polling
	Stall  time.Duration // nothing for so long is an error; 0 waits for ever
	// Events: ask ready again after so long, though nothing has come; 0: no limit
	Nap time.Duration
	// Looks is how often ready is asked between two polls. A software device lives on polls, so
	// there it is 0, which is once; with one that runs by itself they only delay who watches
	// memory.
	Looks int

	turns uint // of all calls of Until
}

// spins is how many turns pass between looks at the clock and the context: some 100 us of empty
// polls, so that neither costs anything.
const spins = 256

// Wait waits for at least one completion.
func (w *Waiter) Wait(ctx context.Context, wcs []roce.WC) (n int, err error) {
	err = w.Until(ctx, wcs, func() bool { return n > 0 }, func(got []roce.WC) error { n = len(got); return nil })
	return n, err
}

// Until waits until ready says so and hands on the completions that come meanwhile; ready is asked
// after each poll, so it may also watch memory that a peer writes. The context's cause, which
// counts even if all is ready, and a stall are errors, and so is what take returns.
func (w *Waiter) Until(ctx context.Context, wcs []roce.WC, ready func() bool, take func([]roce.WC) error) error {
	var idle time.Time // when the last look at the clock found nothing new
	for {
		// A call whose answer is there at once has a turn too: otherwise nobody would look while
		// every answer comes soon.
		if w.turns++; w.turns%spins == 0 {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if idle.IsZero() {
				idle = time.Now()
			} else if w.Stall > 0 && time.Since(idle) > w.Stall {
				return &StallError{w.Stall}
			}
		}
		if ready() {
			return nil
		}
		for range w.Looks {
			if ready() {
				return nil
			}
		}
		n, err := w.some(ctx, wcs)
		if n > 0 {
			if err := take(wcs[:n]); err != nil {
				return err
			}
			idle = time.Time{}
		}
		if err != nil {
			return err
		}
	}
}

// some polls once, or with Events sleeps for at least one completion.
func (w *Waiter) some(ctx context.Context, wcs []roce.WC) (int, error) {
	if !w.Events {
		return w.CQ.Poll(wcs)
	}
	wait := ctx
	limit, nap := w.Stall, w.Nap > 0 && (w.Stall == 0 || w.Nap < w.Stall)
	if nap {
		limit = w.Nap
	}
	if limit > 0 {
		why := errAwake
		if !nap {
			why = &StallError{w.Stall}
		}
		var cancel context.CancelFunc
		wait, cancel = context.WithTimeoutCause(ctx, limit, why)
		defer cancel()
	}
	n, err := w.CQ.Wait(wait, wcs)
	if n == 0 && wait.Err() != nil {
		err = context.Cause(wait)
	}
	if err == errAwake {
		err = nil
	}
	return n, err
}

// errAwake ends a nap.
var errAwake = errors.New("the nap is over")

// StallError says that nothing happened for too long.
type StallError struct{ After time.Duration }

// Error says so, and what to look at.
func (e *StallError) Error() string {
	return fmt.Sprintf("nothing arrived for %v: the peer left or waits for something else (are sizes, counts and MTU "+
		"the same on both ends?), or the network lost a message of a transport that does not repeat (UC, UD)", e.After)
}

// Stalled says whether the error is a wait that ran into its limit.
func Stalled(err error) bool {
	var s *StallError
	return errors.As(err, &s)
}
