package host

import (
	"testing"

	"github.com/goroce/goroce/transport"
)

// The kernel's limit is found: what is below it goes, and it has one.
func TestLongestRun(t *testing.T) {
	n := LongestRun()
	if n != sureRun && n != transport.MaxRun {
		t.Fatalf("longest run: %d", n)
	}
	if !takesRun(1) {
		t.Skip("this kernel has no UDP_SEGMENT, or loopback is down")
	}
	if !takesRun(n) {
		t.Errorf("%d segments are refused", n)
	}
	if takesRun(16 * transport.MaxRun) {
		t.Errorf("%d segments are taken: MaxRun is too low", 16*transport.MaxRun)
	}
}
