package roce

// The lock that a lane's turns are taken under. Most who want it only want the turn to be run, by whomever: they try, and go
// away if somebody else is at it. Control calls must have it: they wait, and while they wait nobody new gets it by trying.
//
// It is not a sync.Mutex because of one promise (see lane.release): whoever fails to get it can rely on somebody releasing
// it later who then sees everything that the failing one wrote before. sync.Mutex.TryLock fails on a plain load, which on
// some processors may be older than the caller's own last store.

import (
	"runtime"
	"sync"
	"sync/atomic"
)

type turnLock struct {
	held    atomic.Bool
	waiters atomic.Int32
	gate    sync.Mutex // one waiter at a time watches held
}

// tryLock takes the lock unless somebody has it or waits for it.
func (t *turnLock) tryLock() bool {
	return t.waiters.Load() == 0 && t.held.CompareAndSwap(false, true)
}

// lock waits for the lock. A turn takes microseconds, so there is nothing to sleep on.
func (t *turnLock) lock() {
	t.waiters.Add(1)
	t.gate.Lock()
	for !t.held.CompareAndSwap(false, true) {
		runtime.Gosched()
	}
	t.gate.Unlock()
	t.waiters.Add(-1)
}

func (t *turnLock) unlock() { t.held.Store(false) }
