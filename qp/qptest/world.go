// Package qptest is a simulated world for the protocol engine of package qp: virtual time, any
// number of nodes, seeded links that lose, duplicate, reorder and corrupt, and an oracle that says
// after every event whether what the engines did was right.
//
// How to read the package:
//
//	world.go    time: the heap of events, Step, Run, RunUntil; the first violation ends the world
//	link.go     what can happen to a packet on its way
//	hardware.go what a NIC would have sent instead of an engine's packet
//	node.go     one engine and its turn: frames in, frames out, completions
//	memory.go   registered memory with canaries, and beside it the memory as it should be
//	queue.go    queue pairs: create, connect, post
//	xrc.go      XRC: what is of its own beside RC
//	neighbour.go a host that floods those of a random world
//	shared.go   shared receive queues: the oracle's, and who keeps one filled in a random world
//	model.go    the oracle: an operation, and a stream of them from one queue pair to another
//	execute.go  the oracle as responder: what an arriving request does
//	early.go    the same with selective repeat: what comes after a gap
//	answer.go   the oracle as requester: what an arriving response completes
//	watch.go    what an engine may put on the wire
//	complete.go what an engine may put into completion queues
//	datagram.go the same for UD
//	packet.go   packet templates: expected ones and crafted ones
//	script.go   scripted tests: post, expect, drop, advance, expect
//	plan.go     a random world as data; play.go runs it, shrink.go makes it smaller
//	swarm.go    random worlds that have a few things only, and much of them
//	capture.go  what happened, as a file that Wireshark opens; digest.go the same as one number
//
// The oracle does not look into the engine. It knows what was posted, sees each packet leave and
// arrive, and derives from the protocol's rules alone what memory and completions must be. It is
// slow and obvious; packets are numbered from 0 with 64 bits, so that nothing wraps.
package qptest

import (
	"fmt"
	"io"
	"math/rand/v2"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/wire"
)

// Durations of virtual time in nanoseconds.
const (
	Microsecond qp.Time = 1000
	Millisecond         = 1000 * Microsecond
	Second              = 1000 * Millisecond
)

// World is engines, links between them, and the events to come. Not for concurrent use.
type World struct {
	Now   qp.Time
	Seed  uint64
	Nodes []*Node
	// Faults is what a link does unless it is given faults of its own.
	Faults Faults
	// Unchecked turns the oracle off: crafted packets and hostile peers have no honest history to
	// compare with.
	Unchecked bool
	// Hopeless allows requests to fail for lack of answers: the links are worse than the retry
	// counters can bear.
	Hopeless bool
	// Applications, if not nil, drive the engines themselves and judge what comes of it: package
	// lives. The oracle of this package then only looks at whether packets are well-formed.
	Applications Applications
	// OneByOne gives each packet an event of its own even if others arrive at the same time.
	OneByOne bool
	// Hold keeps packets on the sender's side until a script decides: see Script.
	Hold bool
	// Capture records every packet that is sent, if not nil.
	Capture *Capture
	// Records is how many records of its engine each node keeps (Node.Recorder).
	Records int
	// Digest gets every packet that is sent and every completion, if not nil.
	Digest *Digest
	// Trace gets a line for every packet that leaves or arrives and for every completion, if not
	// nil.
	Trace io.Writer
	// MaxEvents ends a world that does not come to rest.
	MaxEvents int

	events   eventHeap
	serial   uint64
	steps    int
	links    map[[2]int]*Link
	byGID    map[wire.GID]*Node
	groups   map[wire.GID][]*Node
	held     []*Flight
	spare    []*Flight
	leaving  []byte // the packet that is looked at
	wrid     uint64
	err      error
	lastSend qp.Time // when the last send completed
	stuck    int     // deadlines handled in a row without time moving on
}

// Applications are what runs on the nodes of a world, if that is more than this package's own queue
// pairs.
type Applications interface {
	// Arrives is called before a packet, from its IP header on, goes to the engine of n.
	Arrives(n *Node, packet []byte)
	// Leaves is called with each packet of n that is well-formed, when it leaves.
	Leaves(n *Node, p *wire.Packet)
	// Turned is called after each turn of n, when its completions have been published.
	Turned(n *Node)
}

// judges says whether this package's own oracle is on.
func (w *World) judges() bool { return !w.Unchecked && w.Applications == nil }

// NewWorld returns an empty world at a time that is not 0, so that forgotten clocks show.
func NewWorld(seed uint64) *World {
	return &World{Now: 1_000_000 * Second, Seed: seed, MaxEvents: 500_000, links: map[[2]int]*Link{},
		byGID: map[wire.GID]*Node{}, groups: map[wire.GID][]*Node{}}
}

// rand returns a stream of random numbers of its own for each purpose, so that one more link or
// node shifts nothing.
func (w *World) rand(purpose string, a, b int) *rand.Rand {
	h := w.Seed
	for _, c := range purpose {
		h = (h ^ uint64(c)) * 0x100000001b3
	}
	return rand.New(rand.NewPCG(h, uint64(a)<<32|uint64(uint32(b))))
}

// event is something that will happen: a packet arrives or an action runs.
type event struct {
	at     qp.Time
	serial uint64
	flight *Flight
	do     func()
}

// before says which of two comes first: at one time the one that was scheduled first.
func (e *event) before(o *event) bool {
	return e.at < o.at || e.at == o.at && e.serial < o.serial
}

// eventHeap is a binary heap. That of package container/heap allocates for each event.
type eventHeap []event

func (h *eventHeap) push(e event) {
	*h = append(*h, e)
	all := *h
	for i := len(all) - 1; i > 0; {
		above := (i - 1) / 2
		if !all[i].before(&all[above]) {
			return
		}
		all[i], all[above] = all[above], all[i]
		i = above
	}
}

func (h *eventHeap) pop() event {
	all := *h
	first, last := all[0], len(all)-1
	all[0], all[last] = all[last], event{}
	all = all[:last]
	*h = all
	for i := 0; ; {
		next := 2*i + 1
		if next+1 < last && all[next+1].before(&all[next]) {
			next++
		}
		if next >= last || !all[next].before(&all[i]) {
			return first
		}
		all[i], all[next] = all[next], all[i]
		i = next
	}
}

func (w *World) schedule(at qp.Time, f *Flight, do func()) {
	w.serial++
	w.events.push(event{max(at, w.Now), w.serial, f, do})
}

// At runs an action at a time, or now if that has passed.
func (w *World) At(t qp.Time, do func()) { w.schedule(t, nil, do) }

// After runs an action some time from now.
func (w *World) After(d qp.Time, do func()) { w.schedule(w.Now+d, nil, do) }

// next returns when the next thing happens and on which node, if it is an engine's deadline.
func (w *World) next() (at qp.Time, node *Node) {
	at = qp.Never
	if len(w.events) > 0 {
		at = w.events[0].at
	}
	for _, n := range w.Nodes {
		if n.deadline < at {
			at, node = n.deadline, n
		}
	}
	return at, node
}

// Step makes the next thing happen and checks everything. It returns false when there is nothing to
// come or the world is in violation (Err).
func (w *World) Step() bool {
	at, node := w.next()
	if w.err != nil || at == qp.Never {
		return false
	}
	if w.steps++; w.steps > w.MaxEvents {
		w.Fail("the world does not come to rest: %d events", w.steps)
		return false
	}
	if at > w.Now {
		w.Now, w.stuck = at, 0
	}
	if node != nil {
		if w.stuck++; w.stuck > 1000 {
			w.Fail("%s: livelock: PollTimeout stays at or before now however often HandleTimeout is called", node)
			return false
		}
		node.timeout()
		return w.err == nil
	}
	e := w.events.pop()
	if e.do != nil {
		e.do()
	} else {
		w.arrive(e.flight)
	}
	return w.err == nil
}

// arrive delivers a packet together with those that arrive at the same node at the same time:
// engines get batches.
func (w *World) arrive(f *Flight) {
	batch := append(f.to.arrivals[:0], f)
	for len(w.events) > 0 && len(batch) < 64 && !w.OneByOne {
		e := w.events[0]
		if e.flight == nil || e.at > w.Now || e.flight.to != f.to {
			break
		}
		w.events.pop()
		batch = append(batch, e.flight)
	}
	f.to.arrivals = batch
	f.to.deliver(batch)
	for _, f := range batch {
		w.release(f)
	}
}

// Run steps until nothing is left to happen.
func (w *World) Run() error {
	for w.Step() {
	}
	return w.err
}

// RunUntil steps until time t has come and everything up to it has happened.
func (w *World) RunUntil(t qp.Time) error {
	for w.err == nil {
		if at, _ := w.next(); at > t {
			w.Now = max(w.Now, t)
			break
		}
		w.Step()
	}
	return w.err
}

// RunFor steps until some time has passed.
func (w *World) RunFor(d qp.Time) error { return w.RunUntil(w.Now + d) }

// Fail records a violation; the first one counts.
func (w *World) Fail(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf("at %s: "+format, append([]any{stamp(w.Now)}, args...)...)
	}
}

// trace writes a line of the story.
func (w *World) trace(format string, args ...any) {
	if w.Trace != nil {
		fmt.Fprintf(w.Trace, "%14s  "+format+"\n", append([]any{stamp(w.Now)}, args...)...)
	}
}

// Err returns the first violation.
func (w *World) Err() error { return w.err }

// Steps returns how many events have happened.
func (w *World) Steps() int { return w.steps }

// stamp prints a time relative to the beginning of the world.
func stamp(t qp.Time) string {
	return fmt.Sprintf("%.3f us", float64(t-1_000_000*Second)/1000)
}
