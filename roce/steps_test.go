package roce

// Nobody sleeps at a queue of events in which there is one: stories of a few goroutines, in every
// order of their steps that has few switches (internal/step). That a completion gets there is
// TestSteps of roce/internal/soft.

import (
	"errors"
	"testing"

	"github.com/goroce/goroce/internal/step"
	"github.com/goroce/goroce/internal/step/context"
)

func TestSteps(t *testing.T) {
	if !step.Rebuilt(t, "roce/eventqueue.go") {
		return
	}
	for _, s := range eventStories {
		t.Run(s.name, func(t *testing.T) {
			(&step.Story{Switches: s.switches, Random: 2000, Tell: func(p *step.Play) {
				w := &eventWorld{Play: p, source: NewEventSource[int]()}
				w.ctx, w.end = context.WithCancel(bg)
				s.tell(w)
			}}).Play(t)
		})
	}
}

// eventWorld is a queue of events, and what was taken from it.
type eventWorld struct {
	*step.Play
	source *EventSource[int]
	ctx    context.Context
	end    context.CancelFunc
	got    []int
}

// gets adds a goroutine that takes an event.
func (w *eventWorld) gets(name string) {
	w.Task(name, func() {
		e, err := w.source.Queue().Get(w.ctx)
		if err != nil {
			step.Fail("%s: %v", name, err)
		}
		w.got = append(w.got, e)
	})
}

// until adds a goroutine that takes all events until there is this error.
func (w *eventWorld) until(want error) {
	w.Task("gets", func() {
		for {
			e, err := w.source.Queue().Get(w.ctx)
			if errors.Is(err, want) {
				return
			}
			if w.got = append(w.got, e); err != nil || e != len(w.got) {
				step.Fail("%v, %v", w.got, err)
			}
		}
	})
}

// selects adds a goroutine that takes so many events, each after a token.
func (w *eventWorld) selects(n int) {
	w.Task("selects", func() {
		for n > 0 {
			step.Recv(w.source.Queue().Ready())
			if _, ok := w.source.Queue().TryGet(); ok {
				n--
			}
		}
	})
}

// puts adds one that puts events, and then does something.
func (w *eventWorld) puts(n int, then func()) {
	w.Task("puts", func() {
		for i := range n {
			w.source.Put(1 + i)
		}
		then()
	})
}

func nothing() {}

var eventStories = []struct {
	name     string
	switches int
	tell     func(w *eventWorld)
}{
	{"two get", 3, func(w *eventWorld) {
		w.gets("gets")
		w.gets("gets too")
		w.puts(2, nothing)
	}},
	{"one gets, one selects", 3, func(w *eventWorld) {
		w.gets("gets")
		w.selects(2)
		w.puts(3, nothing)
	}},
	{"one gets all until the end", 3, func(w *eventWorld) {
		w.until(ErrClosed)
		w.puts(2, func() {
			w.source.Close()
			w.source.Put(3) // for nobody
		})
	}},
	{"one gets all until its context ends", 3, func(w *eventWorld) {
		w.until(context.Canceled)
		w.puts(2, w.end)
	}},
	{"one gets, one takes out what concerns nobody", 3, func(w *eventWorld) {
		w.gets("gets")
		w.puts(2, func() { w.source.Remove(func(e int) bool { return e == 1 }) })
	}},
}
