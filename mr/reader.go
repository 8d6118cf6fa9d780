package mr

// Quiescence: how Deregister knows that nobody touches the memory any more.
//
// Each lane has a Reader, whose turn count is odd while the lane is inside a turn. A writer first
// takes the entry out of the table and then looks at every reader: one that is outside, or that has
// left since, can only find the new state of the table when it enters again. Go's atomics are
// sequentially consistent, so it can not happen that a reader finds the old entry while the writer
// still sees it outside.

import (
	"runtime"
	"slices"
	"sync/atomic"
	"time"
)

// Reader marks the turns of one lane. Since turns exclude each other, it can be the lock that they
// are taken under, too: TryEnter. That saves each turn a lock of its own, two locked instructions
// of some 5 ns each.
type Reader struct {
	_     [64]byte // a cache line of its own: every turn writes here
	turns atomic.Uint64
	_     [56]byte
	table *Table
}

// NewReader returns a reader for one lane; Close it when the lane ends.
func (t *Table) NewReader() *Reader {
	r := &Reader{table: t}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.readers = append(t.readers, r)
	return r
}

// Enter begins a turn: until Exit, spans that the table hands out stay valid. Turns do not nest and
// should be short, since Deregister waits for them. It is for a lane that one goroutine at a time
// drives anyway.
func (r *Reader) Enter() { r.turns.Add(1) }

// TryEnter begins a turn unless one is in progress: then it returns false. Any goroutine may call
// it. Whoever gets false can rely on an Exit to come, after which everything is seen that the
// caller had stored before, if it is loaded by sync/atomic.
func (r *Reader) TryEnter() bool {
	n := r.turns.Load()
	return n%2 == 0 && r.turns.CompareAndSwap(n, n+1)
}

// Inside tells whether a turn is in progress.
func (r *Reader) Inside() bool { return r.turns.Load()%2 != 0 }

// Exit ends the turn. Spans from before must not be used any more.
func (r *Reader) Exit() { r.turns.Add(1) }

// Close takes the reader out of the table. It must be outside a turn, for good.
func (r *Reader) Close() {
	r.table.mu.Lock()
	defer r.table.mu.Unlock()
	if i := slices.Index(r.table.readers, r); i >= 0 {
		r.table.readers = slices.Delete(r.table.readers, i, i+1)
	}
}

// quiesce returns once every reader that is inside a turn now has left it. It holds no lock while
// it waits: a lane may need the mutex (BindWindow) to end its turn.
func (t *Table) quiesce() {
	t.mu.Lock()
	readers := slices.Clone(t.readers)
	t.mu.Unlock()
	for _, r := range readers {
		r.awaitExit()
	}
}

func (r *Reader) awaitExit() {
	seen := r.turns.Load()
	if seen%2 != 0 {
		await(runtime.Gosched, func() bool { return r.turns.Load() != seen })
	}
}

// AwaitEnter begins a turn as soon as none is in progress. yield has other goroutines run.
func (r *Reader) AwaitEnter(yield func()) { await(yield, r.TryEnter) }

// patience is how often await yields before it sleeps: some tens of microseconds.
const patience = 200

// await waits for what the end of a turn brings. Turns take microseconds, so it yields first. One
// that takes longer has lost its processor, as happens where its packet wakes another process: then
// it sleeps, lest it be its own processor that the turn waits for, until the system's next tick.
func await(yield func(), done func() bool) {
	for n := 0; !done(); n++ {
		if n < patience {
			yield()
		} else {
			time.Sleep(20 * time.Microsecond)
		}
	}
}
