package transport

import "testing"

// The kernel's limit is found: what is below it goes, and it has one.
func TestLongestRun(t *testing.T) {
	n := longestRun()
	if n != sureRun && n != maxRun {
		t.Fatalf("longest run: %d", n)
	}
	if !takesRun(1) {
		t.Skip("this kernel has no UDP_SEGMENT, or loopback is down")
	}
	if !takesRun(n) {
		t.Errorf("%d segments are refused", n)
	}
	if takesRun(16 * maxRun) {
		t.Errorf("%d segments are taken: maxRun is too low", 16*maxRun)
	}
}
