package roce

// Memory that a peer writes, watched by an application that runs the stack meanwhile (PollUntil),
// or only polls for its own completions (Linger).

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"
)

// watcher is an end whose peer writes to it, both without a background: nothing is executed but in
// calls of theirs.
type watcher struct {
	*end
	peer    *end
	atomics bool // the peer adds instead of writing
	count   byte
}

func newWatcher(t *testing.T) *watcher {
	t.Helper()
	open := func() *Device {
		d, err := Open("pipe:"+strings.ReplaceAll(t.Name(), "/", "-"), &Config{NoBackground: true})
		must(t, err)
		t.Cleanup(func() { must(t, d.Close()) })
		return d
	}
	w := &watcher{end: newEnd(t, open(), RC, 64), peer: newEnd(t, open(), RC, 64)}
	connect(t, w.end, w.peer)
	return w
}

// write has the peer change a byte. What it sends waits in the pipe.
func (w *watcher) write() {
	if w.count++; w.atomics {
		w.peer.post(SendWR{
			Opcode:     WRAtomicFetchAndAdd,
			CompareAdd: 1,
			SGL:        []SGE{w.peer.mr.SGE(0, 8)},
			RemoteAddr: w.mr.Addr(),
			RKey:       w.mr.RKey(),
		})
		return
	}
	w.peer.post(SendWR{Opcode: WRWrite, Flags: SendInline, Inline: []byte{w.count}, RemoteAddr: w.mr.Addr(), RKey: w.mr.RKey()})
}

// own makes a completion of this end's own, which is in the queue but not polled.
func (w *watcher) own() {
	w.t.Helper()
	w.post(SendWR{Opcode: WRWrite, SGL: []SGE{w.mr.SGE(8, 8)}, RemoteAddr: w.peer.mr.Addr() + 8, RKey: w.peer.mr.RKey()})
	must(w.t, w.cq.PollUntil(bg, func() bool {
		var wcs [8]WC
		_, err := w.peer.cq.Poll(wcs[:])
		must(w.t, err)
		return w.cq.Len() > 0
	}))
}

func (w *watcher) take(poll func() (int, error)) {
	w.t.Helper()
	n, err := poll()
	must(w.t, err)
	if n != 1 {
		w.t.Fatalf("%d completions", n)
	}
}

// TestLinger: a poll that finds a completion stays for what the peer writes next, if it was asked
// to, and the peer has written something lately.
func TestLinger(t *testing.T) {
	for name, poll := range map[string]func(w *watcher) (int, error){
		"Poll":    func(w *watcher) (int, error) { return w.cq.Poll(make([]WC, 1)) },
		"PollEx":  func(w *watcher) (int, error) { return w.cq.PollEx(make([]WCEx, 1)) },
		"atomics": func(w *watcher) (int, error) { return w.cq.Poll(make([]WC, 1)) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWatcher(t)
			w.atomics = name == "atomics"
			next := func(stays bool, why string) {
				t.Helper()
				w.own()
				w.write()
				w.take(func() (int, error) { return poll(w) })
				if came := w.buf[0] == w.count; came != stays {
					t.Errorf("%s: what was written is there: %v", why, came)
				}
			}
			next(false, "nobody has asked")
			refused(t, w.cq.Linger(-1), ErrInvalid, "want 0 to 1ms")
			refused(t, w.cq.Linger(MaxLinger+1), ErrInvalid, "want 0 to 1ms")
			w.own() // which executes the peer's WRITE, so that Linger counts from here
			must(t, w.cq.Linger(MaxLinger))
			w.take(func() (int, error) { return poll(w) })
			next(false, "nothing was written since")
			next(false, "what was written since was executed by another call")
			w.own()
			w.take(func() (int, error) { return poll(w) })
			next(true, "something was")
			next(true, "and again")
			must(t, w.cq.Linger(0))
			next(false, "it has ended")
		})
	}
}

// TestLingerInVain: who has stayed in vain a few times polls as ever, until the peer writes again.
func TestLingerInVain(t *testing.T) {
	w := newWatcher(t)
	must(t, w.cq.Linger(MaxLinger))
	poll := func() (int, error) { return w.cq.Poll(make([]WC, 1)) }
	w.write()
	w.own()
	w.take(poll)
	for range 10 { // in vain
		w.own()
		w.take(poll)
	}
	w.own()
	w.write()
	w.take(poll)
	if w.buf[0] == w.count {
		t.Error("a poll stays though it was in vain so often")
	}
	w.own()
	w.take(poll)
	w.own()
	w.write()
	w.take(poll)
	if w.buf[0] != w.count {
		t.Error("a poll does not stay though the peer writes again")
	}
}

// TestLingerCatchesUp: what somebody else had executed before the application began to poll for its
// completion does not keep that poll from staying for what comes next; unless that is in vain too
// often.
func TestLingerCatchesUp(t *testing.T) {
	w := newWatcher(t)
	var wcs [1]WC
	must(t, w.cq.Linger(MaxLinger))
	round := func(comes bool) (stays bool) {
		for w.write(); w.buf[0] != w.count; { // as the background would
			must(t, w.cq.soft.Run())
		}
		w.post(SendWR{Opcode: WRWrite, SGL: []SGE{w.mr.SGE(8, 8)}, RemoteAddr: w.peer.mr.Addr() + 8, RKey: w.peer.mr.RKey()})
		if n, err := w.cq.Poll(wcs[:]); n != 0 || err != nil {
			t.Fatal("there before the peer has run:", n, err)
		}
		for w.cq.Len() == 0 {
			_, err := w.peer.cq.Poll(wcs[:])
			must(t, err)
			must(t, w.cq.soft.Run())
		}
		if comes {
			w.write()
		}
		w.take(func() (int, error) { return w.cq.Poll(wcs[:]) })
		return w.buf[0] == w.count
	}
	for range 3 {
		if !round(true) {
			t.Error("a poll does not stay")
		}
	}
	for range 10 {
		round(false)
	}
	if round(true) {
		t.Error("a poll stays though it was in vain so often")
	}
	tries := 0
	for range 4 * 8 {
		if round(true) {
			tries++
		}
	}
	if tries < 24 {
		t.Errorf("of 32 polls whose peer writes again %d stay", tries)
	}
}

// TestPollUntil: memory is watched by who runs the stack for it; completions stay, and an end of
// the context and of the queue are told.
func TestPollUntil(t *testing.T) {
	w := newWatcher(t)
	w.own()
	w.write()
	word := (*uint64)(unsafe.Pointer(&w.buf[0]))
	must(t, w.cq.PollUntil(bg, func() bool { return atomic.LoadUint64(word) != 0 }))
	if n := w.cq.Len(); n != 1 {
		t.Errorf("%d completions are left of 1", n)
	}
	ctx, cancel := context.WithTimeout(bg, time.Millisecond)
	defer cancel()
	never := func() bool { return false }
	if err := w.cq.PollUntil(ctx, never); err != context.DeadlineExceeded {
		t.Error(err)
	}
	cq, err := w.dev.CreateCQ(CQInitAttr{CQE: 1})
	must(t, err)
	must(t, cq.Close())
	refused(t, cq.PollUntil(bg, never), ErrClosed, "PollUntil")
}
