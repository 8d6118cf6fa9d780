package drive

// When to send, for an application that always comes back at once: the policy. It decides nothing
// else about who runs the lane (machine.go).
//
// A loop that polls completions and posts the next requests calls the stack every microsecond or
// so. For such a one it is better to wait for its next call in two places:
//
//   - Debts. Completions that a poll finds, and what a peer's WRITE has brought, are handed over
//     before their acknowledgements are sent, which takes a system call; the next call sends them,
//     in one batch with what was posted meanwhile.
//   - Held posts. Requests that are posted while others are unacknowledged, or in a stream, when
//     several packets left together last time, are left to the next poll, or until there are
//     MaxHeld, so that many small packets leave in one system call. The first request after a poll
//     is held in a stream only: in a ping-pong it goes at once.
//
// An application earns this by coming back promptly many times in a row, and loses it by being late
// once; the time that the stack itself takes does not count. What it has left behind then is sent
// by the background, which sees within a millisecond that nobody polls any more. A device without a
// background holds nothing and postpones nothing: nobody would send it.
//
// Even so an acknowledgement waits for MaxPostponed polls or PostponedTime at most, and a NAK or a
// CNP never: a peer that hears late of a loss or of congestion goes on sending.
//
// Stages: earning it → debts → held posts → losing it → those who poll in vain.

import (
	"sync/atomic"

	"github.com/goroce/goroce/qp"
)

const (
	// promptTime is within what time an application comes back that only looks at its completions
	// and posts requests.
	promptTime = 10 * microsecond
	// PromptEnough is how many times in a row it must have done so.
	PromptEnough = 16
	// PromptAsleep is the same for one that sleeps in between. If it is late after all, an alarm
	// sends what it has left.
	PromptAsleep = 2

	// MaxPostponed is how many polls in a row may leave an acknowledgement to the application's
	// next call: a message of 64 KiB comes in two or three pieces, and the answer should go with
	// its acknowledgement. PostponedTime is for how long they may: a quarter of the 100 us after
	// which a requester of this stack asks again (minProbe in package qp).
	MaxPostponed  = 3
	PostponedTime = 25 * microsecond

	// MaxHeld is how many requests are held back at most: what one send takes. heldTime is for how
	// long the application may go on posting meanwhile.
	MaxHeld  = 128
	heldTime = 50 * microsecond

	// yieldEvery is after how many polls in vain a poller lets other goroutines run: more pollers
	// than processors would otherwise wait for each other's time slices of 10 ms.
	yieldEvery = 64
)

// trust is what a lane knows of how its application comes back. The zero trust is none.
type trust struct {
	// under the turn lock
	left   qp.Time // when the application left with something to come back for; 0 if it is back
	prompt qp.Time // within what time it is to be back
	streak int     // how many times in a row it came back promptly

	// under the turn lock, but read by polls that need no turn
	// when sending was first left to the application's next calls; 0: nothing is owed
	owedSince atomic.Int64
	owedPolls atomic.Int32 // polls that have left it unsent since

	// any goroutine
	mayHold atomic.Bool  // posts may be held
	held    atomic.Int32 // requests that are
	heldAt  atomic.Int64 // when the first of them was
	visited atomic.Bool  // a poll since the last turn found what it wanted without one
}

// earned tells whether the application may be waited for.
func (r *trust) earned() bool { return r.streak >= PromptEnough }

// Earn has the application be trusted at once. It is for tests.
func (r *trust) Earn() { r.streak = PromptEnough }

// Gives notes that the application is given something to come back for: completions, or requests
// that it has posted.
func (r *trust) Gives(t qp.Time) { r.left, r.prompt = t, promptTime }

// GivesAwoken notes the same of an application that has slept: all that it needs must come from
// memory into its processor first.
func (r *trust) GivesAwoken(t qp.Time) { r.left, r.prompt = t, PostponedTime }

// Away tells whether the application was given something and is not back.
func (r *trust) Away() bool { return r.left != 0 }

// Returns notes that the application is back.
func (r *trust) Returns(t qp.Time) {
	late := false
	if r.held.Load() > 0 {
		r.held.Store(0)
		late = t-qp.Time(r.heldAt.Load()) > heldTime
	} else if r.left == 0 {
		return
	} else {
		late = t-r.left > r.prompt
	}
	r.left = 0
	r.streak++
	if late {
		r.streak = 0
	}
}

// Visited tells whether a poll that needed no turn has come since it was last asked.
func (r *trust) Visited() bool {
	visited := r.visited.Load()
	if visited {
		r.visited.Store(false)
	}
	return visited
}

// Visits notes a poll that needs no turn, and tells whether something is owed. Any goroutine.
func (r *trust) Visits() (owes bool) {
	if !r.visited.Load() {
		r.visited.Store(true)
	}
	return r.Owes()
}

// Owe notes that something due is left to the application's next calls.
func (r *trust) Owe(t qp.Time) {
	r.owedSince.Store(int64(max(t, 1)))
	r.owedPolls.Store(0)
}

// Owes tells whether something is. Any goroutine.
func (r *trust) Owes() bool { return r.owedSince.Load() != 0 }

// Paid notes that it has left.
func (r *trust) Paid() {
	if r.Owes() {
		r.owedSince.Store(0)
	}
}

// LeavesOwed counts a poll that leaves it unsent. Any goroutine.
func (r *trust) LeavesOwed() { r.owedPolls.Add(1) }

// Overdue tells whether what is owed has to be sent now. Any goroutine.
func (r *trust) Overdue(t qp.Time) bool {
	at := r.owedSince.Load()
	return at != 0 && (r.owedPolls.Load() >= MaxPostponed || t-qp.Time(at) >= PostponedTime)
}

// postpones tells whether what is due is left to the application's next call, which has earned
// that.
func (r *trust) postpones(t qp.Time) bool {
	if r.Overdue(t) {
		return false
	}
	if !r.Owes() {
		r.Owe(t)
	}
	r.LeavesOwed()
	return true
}

// setMayHold says whether posts may be held from now on.
func (r *trust) setMayHold(yes bool) {
	if r.mayHold.Load() != yes {
		r.mayHold.Store(yes)
	}
}

// MayHold tells whether posts may be held. Any goroutine.
func (r *trust) MayHold() bool { return r.mayHold.Load() }

// PostHeld is asked with each post of n requests, after its doorbell has rung, whether it is left
// for later. Any goroutine.
func (r *trust) PostHeld(n int, now func() qp.Time) bool {
	if !r.mayHold.Load() {
		return false
	}
	all := int(r.held.Add(int32(n)))
	if all == n {
		r.heldAt.Store(int64(now()))
	}
	return all < MaxHeld
}

// forget forgets all trust. What is owed stays so.
func (r *trust) forget() {
	r.left, r.streak = 0, 0
	r.mayHold.Store(false)
	r.held.Store(0)
}

// pollers says when those who poll let others have the processor.
type pollers struct {
	vain  uint32        // polls since one that found completions; under the turn lock
	crowd atomic.Uint32 // polls that met somebody else's turn
}

// Found notes that a poll has found completions.
func (p *pollers) Found() { p.vain = 0 }

// InVain counts a poll that had a turn, and says whether to let others run after it.
func (p *pollers) InVain() (yield bool) {
	p.vain++
	return p.vain%yieldEvery == 0
}

// Crowded is the same for a poll that met somebody else's. Any goroutine.
func (p *pollers) Crowded() (yield bool) { return p.crowd.Add(1)%yieldEvery == 0 }
