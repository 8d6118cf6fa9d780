package soft

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goroce/goroce/mr"
)

// TestLongTurn: who waits for a turn that has lost its processor gives its own away. (In the bubble
// time passes only when nobody runs: a waiter that only yields would wait for ever.)
func TestLongTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := turnLock{reader: mr.NewTable(random.Uint64).NewReader(), yield: runtime.Gosched}
		l.lock()
		go func() {
			time.Sleep(time.Second)
			l.unlock()
		}()
		l.lock()
		if l.tryLock() {
			t.Error("the lock was got twice")
		}
		l.unlock()
		if !l.tryLock() {
			t.Error("the lock is held although nobody has it")
		}
	})
}
