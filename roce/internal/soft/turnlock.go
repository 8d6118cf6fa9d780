package soft

// The lock that a lane's turns are taken under. Most goroutines that want it only want the turn to
// be run, by whichever: they try, and go away if another one is at it. Control calls must have it:
// they wait, and while they wait nobody new gets it by trying.
//
// It is the reader of the memory table, whose turns exclude each other: one locked instruction to
// get it and one to give it back say both that the turn is taken and that memory is in use. And it
// keeps a promise that lane.release relies on, and sync.Mutex.TryLock does not give: a goroutine
// that fails to get it can rely on another one to release it later, and to see then everything that
// the first had stored before (mr.Reader.TryEnter).

import (
	"sync/atomic"

	"github.com/goroce/goroce/mr"
)

type turnLock struct {
	reader  *mr.Reader
	yield   func()
	waiters atomic.Int32
}

// tryLock takes the lock unless somebody has it or waits for it.
func (t *turnLock) tryLock() bool { return t.waiters.Load() == 0 && t.reader.TryEnter() }

// lock waits for the lock.
func (t *turnLock) lock() {
	t.waiters.Add(1)
	t.reader.AwaitEnter(t.yield)
	t.waiters.Add(-1)
}

func (t *turnLock) unlock() { t.reader.Exit() }

func (t *turnLock) held() bool { return t.reader.Inside() }
