// Package step stops goroutines between any two of their steps: it plays all orders, to a bound, in
// which the steps of a few goroutines can come, or random ones, and says in which order somebody
// sleeps for ever. It is for wake-ups, which a test on a real machine loses once in a million
// rounds, and a simulation that switches where somebody waits never does.
//
// A test that calls Rebuilt is built once more, with the product's packages rewritten (rewrite.go):
// their imports of sync, sync/atomic, time, context and runtime are those below this package, and
// channels, select and go are calls of this one. Nothing of the product is changed, and the line
// numbers stay. In such a build one goroutine at a time runs, a task, and before each atomic, lock,
// channel operation or wait it asks whether another is to go on (At). Who cannot go on says what
// for (Block), so that it is known when nobody can.
//
//	step.go     tasks, and who goes on
//	chan.go     channels
//	clock.go    time, which is virtual: it passes with looks at the clock and while all sleep
//	search.go   which orders are played: all with few switches, or random ones
//	trace.go    an order as one can read it
//	rewrite.go  the rewritten build
//	sync, atomic, time, context, runtime, ticks    what the product's imports are replaced by
//
// # What is played
//
// A task goes on until it waits, ends or yields; then the next one does, in turn. An order is the
// points at which another task goes on instead: its switches. All orders of up to so many of them
// are played, but a switch is tried only before a step whose object another task uses in the same
// play, and one of the two changes: elsewhere the order would be the same one for both.
//
// A step is what lies between two points. What the goroutines share beside locks, atomics and
// channels is the race detector's business. So is a memory model weaker than that of Go's atomics,
// which is sequential consistency.
package step

import (
	"errors"
	"fmt"
	"iter"
	"math/bits"
	"math/rand/v2"
	"slices"
	"unsafe"
)

// Object is what a step is done to: its address.
type Object = unsafe.Pointer

// task is a goroutine of a play.
type task struct {
	name    string
	daemon  bool // of the product: nobody misses it if it sleeps
	next    func() (struct{}, bool)
	stop    func()
	yield   func(struct{}) bool
	on      []Object // what it waits for, or has waited for last
	yielded bool     // it lets all others go first
	ended   bool
}

// point is where another task could have gone on.
type point struct {
	obj      Object // of the step that follows; nil: the task cannot or will not go on
	write    bool
	task     int8   // whose step follows unless there is a switch
	runnable uint32 // tasks that could go on, one bit each
}

// Switch is a point at which not the task goes on whose turn it is.
type Switch struct{ At, To int32 }

// Play is one order of steps. There is one at a time.
type Play struct {
	tasks    []*task
	runnable uint32
	cur      int // the task that runs; -1: none does
	points   []point
	switches []Switch // that are still to come
	to       int      // whom the last of them wants; -1: nobody
	within   []span   // nil: all objects count
	random   *rand.Rand
	oneIn    int // random: a point has a switch once in so many
	taken    []Switch
	trace    *trace

	clock
	failed error
}

// the is the play in progress; nil: there is none, and a step is what it is.
var the *Play

// mostPoints is how long a play may be: what is longer goes round in circles.
const mostPoints = 20_000

// Go starts a goroutine of the product.
func Go(f func()) { start("", true, f) }

// Task adds a goroutine of the test, which must end.
func (p *Play) Task(name string, f func()) { p.add(name, false, f) }

func start(name string, daemon bool, f func()) {
	if the == nil {
		panic("step: a goroutine is started outside of a play")
	}
	the.add(name, daemon, f)
}

func (p *Play) add(name string, daemon bool, f func()) {
	t, n := &task{name: name, daemon: daemon}, len(p.tasks)
	if name == "" {
		t.name = fmt.Sprintf("goroutine %d", n)
	}
	if n == 32 {
		panic("step: more than 32 goroutines")
	}
	t.next, t.stop = iter.Pull(func(yield func(struct{}) bool) {
		defer func() {
			if the != p { // its sleep was ended with the play (end)
				recover()
			}
		}()
		t.yield = yield
		f()
	})
	p.tasks = append(p.tasks, t)
	p.runnable |= 1 << n
}

// span is memory.
type span struct{ from, to uintptr }

// Within has a switch be tried only before steps on some memory, and on what was named before: what
// a story is about, where what is below it has stories of its own.
func (p *Play) Within(obj Object, size uintptr) {
	p.within = append(p.within, span{uintptr(obj), uintptr(obj) + size})
}

// counts tells whether a switch may be tried before a step on an object.
func (p *Play) counts(obj Object) bool {
	return p.within == nil || slices.ContainsFunc(p.within, func(s span) bool {
		return uintptr(obj)-s.from < s.to-s.from
	})
}

// At comes before a step on an object, which it may change.
func At(obj Object, write bool) {
	if p := the; p != nil && p.cur >= 0 {
		p.at(obj, write)
	}
}

func (p *Play) at(obj Object, write bool) {
	if !p.counts(obj) {
		return
	}
	n := len(p.points)
	if n >= mostPoints {
		p.fail(fmt.Errorf("%d steps and no end", n))
	}
	p.points = append(p.points, point{obj, write, int8(p.cur), p.runnable})
	if p.trace != nil {
		p.trace.step(p)
	}
	if to, ok := p.switchTo(n, p.runnable&^(1<<p.cur)); ok {
		p.to = to
		p.leave()
	}
}

// switchTo says whether there is a switch at point n, to one of some tasks.
func (p *Play) switchTo(n int, among uint32) (to int, ok bool) {
	switch {
	case len(p.switches) > 0 && int(p.switches[0].At) == n:
		to = int(p.switches[0].To)
		p.switches = p.switches[1:]
		if among>>to&1 == 0 {
			panic("step: a play cannot be repeated: something in it is not decided by its switches")
		}
	case p.random != nil && among != 0 && p.random.IntN(p.oneIn) == 0:
		for k := p.random.IntN(bits.OnesCount32(among)); k > 0; k-- {
			among &= among - 1
		}
		to = bits.TrailingZeros32(among)
	default:
		return 0, false
	}
	p.taken = append(p.taken, Switch{int32(n), int32(to)})
	return to, true
}

// leave lets another task go on. It returns when this one is to.
func (p *Play) leave() {
	if !p.tasks[p.cur].yield(struct{}{}) {
		panic("step: the play is over")
	}
}

// end ends the tasks that are left, in their sleep.
func (p *Play) end() {
	for _, t := range p.tasks {
		t.stop()
	}
}

// Block waits until somebody touches one of the objects.
func Block(on ...Object) {
	p := the
	if p == nil || p.cur < 0 {
		panic("step: waits for ever, outside of a play")
	}
	t := p.tasks[p.cur]
	t.on = on
	p.runnable &^= 1 << p.cur
	p.leave()
	p.woke()
}

// Touch has those who wait for the object look again.
func Touch(obj Object) {
	if the == nil {
		return
	}
	for i, t := range the.tasks {
		if !t.ended && slices.Contains(t.on, obj) {
			the.runnable |= 1 << i
		}
	}
}

// Yield lets all others go on first.
func Yield() {
	if p := the; p != nil && p.cur >= 0 {
		if p.look(); p.passed > horizon {
			p.fail(errors.New("looks for ever: " + p.tasks[p.cur].name))
		}
		p.tasks[p.cur].yielded = true
		p.leave()
	}
}

// fail ends the play.
func (p *Play) fail(err error) {
	if p.failed == nil {
		p.failed = err
	}
	p.runnable = 0
	p.leave() // for good
}

// Fail ends the play: a rule is broken.
func Fail(format string, a ...any) { the.fail(fmt.Errorf(format, a...)) }

// run plays until nobody can go on, and says what is wrong then.
func (p *Play) run() error {
	for last := -1; p.failed == nil; {
		if p.runnable == 0 {
			if !p.wait() {
				break
			}
			continue
		}
		last = p.pick(last)
		p.cur = last
		t := p.tasks[last]
		_, more := t.next()
		p.cur = -1
		if !more {
			t.ended = true
			p.runnable &^= 1 << last
		}
	}
	if p.failed != nil {
		return p.failed
	}
	asleep := ""
	for _, t := range p.tasks {
		if !t.ended && !t.daemon {
			asleep += " " + t.name
		}
	}
	if asleep != "" {
		return fmt.Errorf("sleeps for ever:%s", asleep)
	}
	return nil
}

// pick says who goes on: whom a switch wants, or the next one that does not yield.
func (p *Play) pick(last int) int {
	if to := p.to; to >= 0 {
		p.to = -1
		p.tasks[to].yielded = false
		return to
	}
	n, next := len(p.tasks), -1
	for i := range n {
		k := (last + 1 + i) % n
		if p.runnable>>k&1 == 0 {
			continue
		}
		if t := p.tasks[k]; t.yielded {
			if next < 0 {
				next = k
			}
			continue
		}
		next = k
		break
	}
	if p.tasks[next].yielded { // all do
		for _, t := range p.tasks {
			t.yielded = false
		}
	}
	if others := p.runnable &^ (1 << next); others != 0 && p.within == nil {
		at := len(p.points)
		p.points = append(p.points, point{nil, true, int8(next), p.runnable})
		if to, ok := p.switchTo(at, others); ok {
			next = to
		}
	}
	p.tasks[next].yielded = false
	return next
}
