package drive

import (
	"testing"

	"github.com/goroce/goroce/qp"
)

// TestTrust: it is earned by coming back at once many times in a row, and lost by being late once;
// posts are held only where that was said, and not too many.
func TestTrust(t *testing.T) {
	var r trust
	at := qp.Time(1)
	now := func() qp.Time { return at }
	call := func(after qp.Time) {
		at += after
		r.Returns(at)
		r.Gives(at)
	}
	call(0)
	for range PromptEnough - 1 {
		call(promptTime)
	}
	if r.earned() {
		t.Error("trust is earned too soon")
	}
	call(promptTime)
	if !r.earned() {
		t.Error("trust is not earned")
	}
	if r.PostHeld(1, now) {
		t.Error("a post is held though nothing is outstanding")
	}
	r.setMayHold(true)
	for i := range MaxHeld {
		if held := r.PostHeld(1, now); held != (i < MaxHeld-1) {
			t.Errorf("post %d: held %v", i, held)
		}
	}
	r.Returns(at)
	r.Gives(at)
	call(promptTime + 1)
	if r.earned() {
		t.Error("trust survives being late")
	}
	r.forget()
	if r.PostHeld(1, now) {
		t.Error("a post is held without trust")
	}
}
