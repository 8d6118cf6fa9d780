package roce

// Sleeping and waking: nothing that happens may be slept through, and sleeping costs nothing.
//
// These tests have no time limits: a lost wake-up shows as a test that hangs, and go test's own
// limit prints where.

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/goroce/goroce/transport"
)

// overSleeps is over wires, and over sockets with sleeps in the kernel.
func overSleeps(t *testing.T, f func(t *testing.T, w wire2)) {
	overWires(t, f)
	w := wire2{"udp, threads", openThreads}
	t.Run(w.name, func(t *testing.T) { f(t, w) })
}

func TestWaitCancel(t *testing.T) {
	overSleeps(t, func(t *testing.T, w wire2) {
		a, _ := connected(t, w, RC, 64)
		ctx, cancel := context.WithCancelCause(context.Background())
		result := make(chan error)
		go func() {
			_, err := a.cq.Wait(ctx, make([]WC, 1))
			result <- err
		}()
		cancel(nil)
		if err := <-result; !errors.Is(err, context.Canceled) {
			t.Errorf("Wait: %v", err)
		}
		// A canceled context does not hide a completion that is there.
		a.recv(1)
		must(t, a.qp.Modify(bg, &QPAttr{State: StateErr}, AttrState))
		if n, err := a.cq.Wait(ctx, make([]WC, 1)); n != 1 || err != nil {
			t.Errorf("Wait with a completion there: %d, %v", n, err)
		}
		if n, err := a.cq.Wait(ctx, nil); n != 0 || err != nil {
			t.Errorf("Wait for nothing: %d, %v", n, err)
		}
	})
}

// TestManyWaiters: each completion wakes somebody, though one token may stand for many.
func TestManyWaiters(t *testing.T) {
	overSleeps(t, func(t *testing.T, w wire2) {
		a, b := connected(t, w, RC, 64)
		const waiters, rounds = 4, 200
		var done sync.WaitGroup
		for range waiters {
			done.Go(func() {
				for range rounds {
					if _, err := b.cq.Wait(context.Background(), make([]WC, 1)); err != nil {
						t.Error(err)
					}
				}
			})
		}
		for range rounds {
			for i := range waiters {
				b.recv(uint64(i))
				a.post(SendWR{Opcode: WRSend})
			}
			for range waiters {
				a.wait()
			}
		}
		done.Wait()
	})
}

// TestNotify uses a completion channel as verbs programs do: arm, poll, sleep. Every step of the
// ping-pong would hang if one notification were lost.
func TestNotify(t *testing.T) {
	wait := func(e *end) (*CQ, error) { return e.ch.Wait(bg) }
	overSleeps(t, func(t *testing.T, w wire2) {
		t.Run("Get", func(t *testing.T) { notified(t, w, func(e *end) (*CQ, error) { return e.ch.Get(bg) }) })
		t.Run("Wait", func(t *testing.T) { notified(t, w, wait) })
	})
	t.Run("Wait without a background", func(t *testing.T) { notified(t, wire2{open: openBare}, wait) })
}

// openBare makes devices that only their users run.
func openBare(t testing.TB, wrap func(transport.Port) transport.Port) (a, b *Device) {
	segment := fmt.Sprintf("pipe:test-%d", serial.Add(1))
	var ends [2]*Device
	for i := range ends {
		d, err := Open(segment, &Config{Wrap: wrap, NoBackground: true})
		must(t, err)
		t.Cleanup(func() { must(t, d.Close()) })
		ends[i] = d
	}
	return ends[0], ends[1]
}

func notified(t *testing.T, w wire2, event func(*end) (*CQ, error)) {
	a, b := connected(t, w, RC, 64)
	next := func(e *end) {
		var wcs [1]WC
		for {
			must(e.t, e.cq.ReqNotify(false))
			n, err := e.cq.Poll(wcs[:])
			must(e.t, err)
			if n == 1 && wcs[0].Opcode == WCRecv {
				return
			}
			if n == 0 {
				got, err := event(e)
				must(e.t, err)
				if got != e.cq {
					e.t.Errorf("another queue: %p", got)
				}
			}
		}
	}
	const rounds = 500
	for _, e := range []*end{a, b} {
		for range 2 {
			e.recv(0)
		}
	}
	var peer sync.WaitGroup
	peer.Go(func() {
		for range rounds {
			next(b)
			b.recv(0)
			b.post(SendWR{Opcode: WRSend})
		}
	})
	for range rounds {
		a.post(SendWR{Opcode: WRSend})
		next(a)
		a.recv(0)
	}
	peer.Wait()
}

// TestPassiveTarget: an application that does nothing at all is served by the background: writes
// arrive, reads are answered, and timers run.
func TestPassiveTarget(t *testing.T) {
	overSleeps(t, func(t *testing.T, w wire2) {
		a, b := connected(t, w, RC, 4096)
		for i := range 100 {
			fill(a.buf[:100], i)
			a.post(SendWR{Opcode: WRWrite, SGL: []SGE{a.mr.SGE(0, 100)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
			a.post(SendWR{Opcode: WRRead, SGL: []SGE{a.mr.SGE(1000, 100)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
			a.wait()
			a.wait()
			same(t, a.buf[1000:1100], a.buf[:100])
		}
	})
}

// TestWaitPingPong goes back and forth with Wait on both sides, at all paces: as fast as possible,
// so that Wait polls, and with pauses, so that both sides and both backgrounds sleep.
func TestWaitPingPong(t *testing.T) {
	overSleeps(t, func(t *testing.T, w wire2) {
		for _, pause := range []time.Duration{0, time.Microsecond, 60 * time.Microsecond, 2 * time.Millisecond} {
			a, b := connected(t, w, RC, 64)
			rounds := 1000
			if pause > 0 {
				rounds = 100
			}
			recvOf := func(e *end) {
				for e.wait().Opcode != WCRecv {
				}
			}
			a.recv(0)
			b.recv(0)
			var peer sync.WaitGroup
			peer.Go(func() {
				for range rounds {
					recvOf(b)
					b.recv(0)
					b.post(SendWR{Opcode: WRSend})
				}
			})
			for range rounds {
				if pause > 0 {
					time.Sleep(pause)
				}
				a.post(SendWR{Opcode: WRSend})
				recvOf(a)
				a.recv(0)
			}
			peer.Wait()
		}
	})
}
