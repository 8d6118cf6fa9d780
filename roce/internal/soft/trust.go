package soft

// When to send, for an application that always comes back at once: the policy. It decides nothing
// else about who runs the lane (driver.go).
//
// A loop that polls completions and posts the next requests calls the stack every microsecond or
// so. For such a one it is better to wait for its next call in two places:
//
//   - Debts. Completions that a poll finds, and what a peer's WRITE has brought, are handed over
//     before their acknowledgements are sent, which takes a system call; the next call sends them,
//     in one batch with what was posted meanwhile.
//   - Held posts. Requests that are posted while others are unacknowledged, or in a stream, when
//     several packets left together last time, are left to the next poll, or until there are
//     maxHeld, so that many small packets leave in one system call. The first request after a poll
//     is held in a stream only: in a ping-pong it goes at once.
//
// An application earns this by coming back promptly many times in a row, and loses it by being late
// once; the time that the stack itself takes does not count. What it has left behind then is sent
// by the background, which sees within a millisecond that nobody polls any more. A device without a
// background holds nothing and postpones nothing: nobody would send it.
//
// Even so an acknowledgement waits for maxPostponed polls or postponedTime at most, and a NAK or a
// CNP never: a peer that hears late of a loss or of congestion goes on sending.
//
// Stages: earning it → debts → held posts → losing it.

import (
	"sync/atomic"
	"time"

	"github.com/goroce/goroce/qp"
)

const (
	// promptTime is within what time an application comes back that only looks at its completions
	// and posts requests.
	promptTime = qp.Time(10 * time.Microsecond)
	// promptEnough is how many times in a row it must have done so.
	promptEnough = 16
	// promptAsleep is the same for one that sleeps in between. If it is late after all, an alarm
	// sends what it has left.
	promptAsleep = 2

	// maxPostponed is how many polls in a row may leave an acknowledgement to the application's
	// next call: a message of 64 KiB comes in two or three pieces, and the answer should go with
	// its acknowledgement. postponedTime is for how long they may: a quarter of the 100 us after
	// which a requester of this stack asks again (minProbe in package qp).
	maxPostponed  = 3
	postponedTime = qp.Time(25 * time.Microsecond)

	// maxHeld is how many requests are held back at most: what one send takes. heldTime is for how
	// long the application may go on posting meanwhile.
	maxHeld  = txBatch
	heldTime = qp.Time(50 * time.Microsecond)
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
	hold   atomic.Bool  // posts may be held
	held   atomic.Int32 // requests that are
	heldAt atomic.Int64 // when the first of them was
}

// earned tells whether the application may be waited for.
func (r *trust) earned() bool { return r.streak >= promptEnough }

// earnedAsleep tells whether one that has slept may be.
func (r *trust) earnedAsleep() bool { return r.streak >= promptAsleep }

// leaves notes that the application is given something to come back for: completions, or requests
// that it has posted.
func (r *trust) leaves(t qp.Time) { r.left, r.prompt = t, promptTime }

// wakes notes the same of an application that has slept: all that it needs must come from memory
// into its processor first.
func (r *trust) wakes(t qp.Time) { r.left, r.prompt = t, postponedTime }

// away tells whether the application has left and is not back.
func (r *trust) away() bool { return r.left != 0 }

// returns notes that the application is back.
func (r *trust) returns(t qp.Time) {
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

// owe notes that something due is left to the application's next calls.
func (r *trust) owe(t qp.Time) {
	r.owedSince.Store(int64(max(t, 1)))
	r.owedPolls.Store(0)
}

// owes tells whether something is.
func (r *trust) owes() bool { return r.owedSince.Load() != 0 }

// paid notes that it has left.
func (r *trust) paid() {
	if r.owes() {
		r.owedSince.Store(0)
	}
}

// leavesOwed counts a poll that leaves it unsent.
func (r *trust) leavesOwed() { r.owedPolls.Add(1) }

// overdue tells whether what is owed has to be sent now.
func (r *trust) overdue(t qp.Time) bool {
	at := r.owedSince.Load()
	return at != 0 && (r.owedPolls.Load() >= maxPostponed || t-qp.Time(at) >= postponedTime)
}

// holds says whether posts may be held from now on.
func (r *trust) holds(yes bool) {
	if r.hold.Load() != yes {
		r.hold.Store(yes)
	}
}

// postHeld is asked with each post of n requests, after its doorbell has rung, whether it is left
// for later. It takes no lock.
func (r *trust) postHeld(n int, now func() qp.Time) bool {
	if !r.hold.Load() {
		return false
	}
	all := int(r.held.Add(int32(n)))
	if all == n {
		r.heldAt.Store(int64(now()))
	}
	return all < maxHeld
}

// forget forgets all trust. What is owed stays so.
func (r *trust) forget() {
	r.left, r.streak = 0, 0
	r.hold.Store(false)
	r.held.Store(0)
}
