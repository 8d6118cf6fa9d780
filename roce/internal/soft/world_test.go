package soft

// The time as a lane knows it, by what the processor's counter says.

import "testing"

// TestSameTime: the clock is not read again only while the counter goes on, and by little.
func TestSameTime(t *testing.T) {
	for _, c := range []struct {
		passed uint64
		want   bool
	}{
		{0, false}, // it stands still
		{1, true}, {sameTime / 2, true}, {sameTime - 1, true},
		{sameTime, false}, {1 << 40, false},
		{^uint64(0), false}, // it ran backwards
	} {
		if got := sameFor(c.passed, sameTime); got != c.want {
			t.Errorf("%d ticks later the time is the same: %v", int64(c.passed), got)
		}
	}
}
