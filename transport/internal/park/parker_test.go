package park

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestPark: whoever comes first ends a sleep, the time or a waker, and the next sleep is another.
func TestPark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New()
		slept := func(timeout time.Duration) time.Duration {
			began := time.Now()
			p.Park(timeout)
			return time.Since(began)
		}
		for range 3 {
			if d := slept(time.Second); d != time.Second {
				t.Errorf("slept %v", d)
			}
			go func() {
				time.Sleep(time.Millisecond)
				p.Unpark()
			}()
			if d := slept(time.Second); d != time.Millisecond {
				t.Errorf("woken after %v", d)
			}
			p.Unpark()
			p.Unpark()
			if a, b := slept(-1), slept(0); a != 0 || b != 0 {
				t.Errorf("slept %v and %v", a, b)
			}
		}
	})
}

// TestParkAllocatesNothing: a port that sleeps now and then makes no garbage.
func TestParkAllocatesNothing(t *testing.T) {
	p := New()
	p.Park(1)
	if n := testing.AllocsPerRun(100, func() { p.Park(1) }); n != 0 {
		t.Errorf("%v allocations a sleep", n)
	}
}
