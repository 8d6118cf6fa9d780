package mr

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// Lanes write through a key while it is deregistered: once Deregister has returned, the buffer
// belongs to the caller. The race detector is the judge (a late write races with the plain writes
// below), the comparison is for runs without.
func TestDeregisterAgainstReaders(t *testing.T) {
	const lanes, rounds = 3, 400
	tab, pd := newTestTable(t)
	var current atomic.Pointer[Region]
	var hits atomic.Uint64
	var stop atomic.Bool
	var wg sync.WaitGroup
	for lane := range lanes {
		wg.Go(func() {
			reader := tab.NewReader()
			defer reader.Close()
			for !stop.Load() {
				reader.Enter()
				if r := current.Load(); r != nil {
					for i := range 8 {
						// Lanes write different bytes: the memory of one QP, not a race among
						// peers.
						if s, st := tab.Remote(pd, 0, r.RKey(), uint64(64*lane+i), 1, RemoteWrite); st == OK {
							s.Write([]byte{0xaa}, 0)
							hits.Add(1)
						}
					}
				}
				reader.Exit()
				runtime.Gosched()
			}
		})
	}
	for round := range rounds {
		buf := make([]byte, 64*lanes)
		r := mustRegister(t, tab, pd, buf, 0, LocalWrite|RemoteWrite)
		current.Store(r)
		for before := hits.Load(); hits.Load() < before+lanes; {
			runtime.Gosched()
		}
		if err := tab.Deregister(r); err != nil {
			t.Fatal(err)
		}
		for i := range buf {
			buf[i] = byte(round)
		}
		runtime.Gosched()
		for i := range buf {
			if buf[i] != byte(round) {
				t.Fatalf("round %d: byte %d was written after Deregister", round, i)
			}
		}
	}
	stop.Store(true)
	wg.Wait()
	if len(tab.readers) != 0 {
		t.Fatalf("%d readers after all were closed", len(tab.readers))
	}
}

// Readers look keys up while the slot array is exchanged for larger ones: a valid key is found at
// any moment.
func TestGrowthAgainstReaders(t *testing.T) {
	tab, pd := newTestTable(t)
	fixed := mustRegister(t, tab, pd, make([]byte, 8), 0, RemoteRead)
	var stop atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		reader := tab.NewReader()
		defer reader.Close()
		for !stop.Load() {
			reader.Enter()
			if _, s := tab.Remote(pd, 0, fixed.RKey(), 0, 8, RemoteRead); s != OK {
				t.Errorf("valid key: %v", s)
				stop.Store(true)
			}
			reader.Exit()
		}
	})
	for range 20_000 {
		mustRegister(t, tab, pd, nil, 0, 0)
	}
	stop.Store(true)
	wg.Wait()
}

// Deregister waits for a turn that began before it, also when that turn itself needs the table's
// mutex to end, and does not wait for turns that began after.
func TestDeregisterWaitsForTheTurn(t *testing.T) {
	tab, pd := newTestTable(t)
	r := mustRegister(t, tab, pd, make([]byte, 8), 0, LocalWrite|RemoteWrite)
	reader := tab.NewReader()
	reader.Enter()
	span, _ := tab.Remote(pd, 0, r.RKey(), 0, 8, RemoteWrite)
	var returned atomic.Bool
	finished := make(chan error, 1)
	go func() {
		err := tab.Deregister(r)
		returned.Store(true)
		finished <- err
	}()
	for { // until the key is gone, seen from inside the turn
		if _, s := tab.Remote(pd, 0, r.RKey(), 0, 8, RemoteWrite); s == BadKey {
			break
		}
		runtime.Gosched()
	}
	tab.Invalidate(pd, 0, r.RKey()) // takes the mutex
	for range 100 {
		runtime.Gosched()
	}
	if returned.Load() {
		t.Fatal("Deregister returned during the turn")
	}
	span.Write(make([]byte, 8), 0)
	reader.Exit()
	reader.Enter() // a new turn: not waited for
	if err := <-finished; err != nil {
		t.Fatal(err)
	}
	reader.Exit()
	reader.Close()
}
