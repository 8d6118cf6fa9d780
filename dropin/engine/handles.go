package main

// The objects that C names by number. A number is a place in a table and how often the place was
// used, so that one that is over names nothing, or at least nobody else for long.
//
// Stages: the number, the table, putting in, finding, taking out.

import (
	"sync"
	"sync/atomic"

	"github.com/goroce/goroce/roce"
)

// handle is a number: a place in the low bits, and above them its use. 0 names nothing.
type handle = uint32

const (
	placeBits = 20
	chunkBits = 10
	chunkSize = 1 << chunkBits
)

// entry is what a number stands for.
type entry struct {
	number handle
	object any
	of     *roce.Device // which ends with it
}

// table is of chunks that stay where they are, so that finding needs no lock.
var table struct {
	chunks [1 << (placeBits - chunkBits)]atomic.Pointer[[chunkSize]atomic.Pointer[entry]]

	mu    sync.Mutex
	free  []handle // numbers for places that are empty, the next use of each
	fresh uint32   // places below it have been used
}

func slotOf(h handle) *atomic.Pointer[entry] {
	place := h & (1<<placeBits - 1)
	chunk := table.chunks[place>>chunkBits].Load()
	if chunk == nil {
		return nil
	}
	return &chunk[place&(chunkSize-1)]
}

// put gives an object a number; 0: there is none left.
func put(of *roce.Device, object any) handle {
	table.mu.Lock()
	defer table.mu.Unlock()
	var h handle
	if n := len(table.free); n > 0 && (n > chunkSize || table.fresh == 1<<placeBits-1) {
		h, table.free = table.free[0], table.free[1:] // the one that was over first
	} else if table.fresh < 1<<placeBits-1 {
		table.fresh++ // place 0 stays empty
		h = table.fresh
		if c := &table.chunks[h>>chunkBits]; c.Load() == nil {
			c.Store(new([chunkSize]atomic.Pointer[entry]))
		}
	} else {
		return 0
	}
	slotOf(h).Store(&entry{h, object, of})
	return h
}

// find returns the object of a kind that has a number; false: there is none.
func find[T any](h handle) (object T, ok bool) {
	s := slotOf(h)
	if s == nil {
		return object, false
	}
	e := s.Load()
	if e == nil || e.number != h {
		return object, false
	}
	object, ok = e.object.(T)
	return object, ok
}

// left returns what is still there of a device, in the order in which it can be closed.
func left(of *roce.Device) (list [ranks][]*entry) {
	for h := range table.fresh + 1 {
		if s := slotOf(h); s != nil {
			if e := s.Load(); e != nil && e.of == of {
				list[rank(e.object)] = append(list[rank(e.object)], e)
			}
		}
	}
	return list
}

// all are the objects of a kind.
func all[T any](yield func(T) bool) {
	table.mu.Lock()
	end := table.fresh + 1
	table.mu.Unlock()
	for h := range end {
		if s := slotOf(h); s != nil {
			if e := s.Load(); e != nil {
				if object, ok := e.object.(T); ok && !yield(object) {
					return
				}
			}
		}
	}
}

// drop takes an object out.
func drop(h handle) {
	table.mu.Lock()
	defer table.mu.Unlock()
	slotOf(h).Store(nil)
	table.free = append(table.free, h+1<<placeBits)
}
