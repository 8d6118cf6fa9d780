// Package world is a small world for lessons: a few hosts, each a protocol engine (package qp) with
// memory (package mr) and completion queues, a switch between them, and time that passes only when
// nothing else is left to do. The same scenario with the same changes gives the same play, to the
// byte. It reads no clock, starts no goroutine and opens nothing, so it runs in a browser too.
//
//	play := world.Play(func(w *world.World) {
//		a, b := w.AddHost("A"), w.AddHost("B")
//		buf := b.RegMR("buf", 64, mr.LocalWrite|mr.RemoteWrite)
//		...
//		w.Run()
//	}, nil)
//
// A scenario is the program of all hosts in one: what it calls happens at the world's time, and
// [World.Run] lets the time pass until nothing is left to happen. It must get along with whatever a
// student changes: a poll may find nothing.
//
// What it has in common with the worlds of qp/qptest is a heap of twenty lines: those lose by
// chance and hand over batches, which an oracle judges; this one shows each packet at a switch, and
// takes changes.
//
// The files, in reading order:
//
//	world.go   time: what happens next
//	host.go    a host: its engine and the turns it takes, memory, completion queues
//	pair.go    queue pairs: states, connections, posting
//	link.go    packets on their way, and what is changed about them
//	script.go  what a scenario itself does to its packets
//	play.go    what is left of it all: packets, what engines did, queues and memory at each moment
//	record.go  how that is gathered; words.go says it in sentences
//	packet.go  a packet's line and fields
package world

import (
	"container/heap"

	"github.com/goroce/goroce/qp"
)

// Durations in nanoseconds.
const (
	Microsecond qp.Time = 1000
	Millisecond         = 1000 * Microsecond
	Second              = 1000 * Millisecond
)

const (
	// begin is when a world begins: not at 0, so that a time that was forgotten shows.
	begin = Second
	// doorbell is how long it takes until a device sees what was posted: about what a write across
	// PCI Express and the fetch of the request take.
	doorbell = qp.Time(300)
	// maxSteps ends a world that does not come to rest: a student may have a peer that is never
	// ready asked for ever.
	maxSteps = 50_000
)

// World is hosts, the switch between them, and the events to come. Not for concurrent use.
type World struct {
	// Delay is how long a packet's first bit takes from host to host: 2 us unless it is set.
	Delay qp.Time
	// Rate is that of each port in bits a second: 10 Gbit/s unless it is set.
	Rate int64
	// MarkAt is how many bytes wait in front of a port of the switch when it marks what comes
	// (ECN), Queue how many fit; 0 marks and drops nothing.
	MarkAt, Queue int

	now     qp.Time
	hosts   []*Host
	events  eventHeap
	serial  uint64
	steps   int
	changes map[int]Change // the student's, by number of the packet
	script  script
	flights []*flight // all packets that were sent
	psns    int       // queue pairs connected
	play    *Play
}

// Scenario makes hosts and has them do something.
type Scenario func(w *World)

// Run plays a scenario with changes to its packets: those of the student, which count before the
// scenario's own.
func Run(s Scenario, changes []Change) *Play {
	w := play(s, changes)
	w.describe()
	return w.play
}

// play has everything happen.
func play(s Scenario, changes []Change) *World {
	w := &World{
		Delay:   2 * Microsecond,
		Rate:    10_000_000_000,
		now:     begin,
		changes: map[int]Change{},
		script:  script{scenario: s, seen: map[what]int{}},
		play: &Play{
			Hosts:       []HostInfo{},
			Entries:     []Entry{},
			Moments:     []Moment{},
			Completions: []Completion{},
			Notes:       []Note{},
		},
	}
	for _, c := range changes {
		w.changes[c.Packet] = c
	}
	s(w)
	return w
}

// Now is the world's time since its beginning.
func (w *World) Now() qp.Time { return w.now - begin }

// After has something done some time from now.
func (w *World) After(d qp.Time, do func()) {
	w.serial++
	heap.Push(&w.events, event{w.now + max(d, 0), w.serial, do})
}

// Run lets time pass until nothing is left to happen.
func (w *World) Run() { w.until(qp.Never) }

// RunFor lets some time pass.
func (w *World) RunFor(d qp.Time) { w.until(w.now + d) }

// until has everything happen that is due up to t.
func (w *World) until(t qp.Time) {
	for {
		at, host := w.next()
		if at > t || at == qp.Never {
			break
		}
		if w.steps++; w.steps > maxSteps {
			w.play.Unfinished = true
			break
		}
		w.now = max(w.now, at)
		if host != nil {
			host.turn(0, func() { host.engine.HandleTimeout(w.now) })
			continue
		}
		heap.Pop(&w.events).(event).do()
	}
	if t != qp.Never {
		w.now = max(w.now, t)
	}
}

// next is when the next thing happens, and on which host, if it is an engine's deadline.
func (w *World) next() (at qp.Time, host *Host) {
	at = qp.Never
	if len(w.events) > 0 {
		at = w.events[0].at
	}
	for _, h := range w.hosts {
		if h.deadline < at {
			at, host = h.deadline, h
		}
	}
	return at, host
}

// event is something that will happen.
type event struct {
	at     qp.Time
	serial uint64
	do     func()
}

type eventHeap []event

func (h eventHeap) Len() int { return len(h) }
func (h eventHeap) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].serial < h[j].serial
}
func (h eventHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *eventHeap) Push(x any)   { *h = append(*h, x.(event)) }
func (h *eventHeap) Pop() any {
	old := *h
	e := old[len(old)-1]
	*h = old[:len(old)-1]
	return e
}
