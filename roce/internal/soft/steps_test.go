package soft

// Nobody sleeps while there is a completion in the queue, or an error, and nobody left who would
// wake it: stories of a few goroutines and one completion queue, in every order of their steps that
// has few switches (internal/step). Each ends when every goroutine has what it waits for, so an
// order in which one sleeps for ever is a wake-up that was lost.

import (
	"testing"
	"time"

	"github.com/goroce/goroce/internal/step"
	"github.com/goroce/goroce/internal/step/context"
	"github.com/goroce/goroce/qp"
)

// story is one of TestSteps. Its goroutines meet in a world.
type story struct {
	name             string
	switches, random int
	has              stepOptions
	pace             step.Pace
	tell             func(w *stepWorld)
}

var (
	// away is the pace of goroutines that are away for long when they wait: leases end meanwhile.
	away = step.Pace{Look: 10 * time.Microsecond, Wake: 100 * time.Microsecond}
	// near is that of some that come back soon: they poll before they wait, and leases last.
	near = step.Pace{Look: 4 * time.Microsecond, Wake: 4 * time.Microsecond}
)

func TestSteps(t *testing.T) {
	if !step.Rebuilt(t, "roce/internal/soft", "roce/internal/soft/drive", "qp/cq.go", "qp/ring.go", "mr/reader.go") {
		return
	}
	for _, s := range stories {
		t.Run(s.name, func(t *testing.T) {
			(&step.Story{Switches: s.switches, Random: s.random, Pace: s.pace, Tell: func(p *step.Play) {
				s.tell(newStepWorld(t, p, s.has))
			}}).Play(t)
		})
	}
}

var stories = []story{
	{"one waits, one polls what completes", 3, 0, stepOptions{}, away, pollsBeside},
	{"one waits, one polls what completes and polls on", 2, 500, stepOptions{}, near, pollsBeside},
	{"one waits, one asks for solicited completions only", 3, 0, stepOptions{}, away, func(w *stepWorld) {
		q := w.pair(UC)
		w.Task("waits", func() { w.waits(2) })
		w.Task("asks", func() {
			w.completes(q)
			must(w, w.cq.ReqNotify(true))
			w.polls()
			w.completes(q)
		})
	}},
	{"one hears from the channel, one polls what completes", 3, 0, stepOptions{}, away, func(w *stepWorld) {
		q := w.pair(UC)
		w.Task("hears", func() { w.hears(2) })
		w.Task("polls", func() {
			w.completes(q)
			w.polls()
			w.completes(q)
		})
	}},
	{"one waits for the channel, one polls what completes", 2, 1000, stepOptions{channel: true}, away, attendsBeside},
	{"one waits for the channel, one polls what completes and polls on", 2, 500, stepOptions{channel: true}, near, attendsBeside},
	{"one waits for the channel, one posts what nobody answers", 2, 1000, stepOptions{channel: true}, away, func(w *stepWorld) {
		q := w.pair(RC)
		w.Task("attends", func() { w.attends(1) })
		w.Task("posts", func() { must(w, postSend(q, SendWR{Opcode: WRSend})) })
	}},
	{"one waits for the channel, one closes it", 3, 0, stepOptions{channel: true}, away, func(w *stepWorld) {
		w.Task("attends", func() {
			if w.channel.Wait(bg) {
				step.Fail("an event")
			}
		})
		w.Task("closes", func() { w.channel.Close(); step.Close(w.ready) })
	}},
	{"one waits for the channel, one ends its context", 3, 0, stepOptions{channel: true}, away, func(w *stepWorld) {
		ctx, end := context.WithCancel(bg)
		w.Task("attends", func() {
			if w.channel.Wait(ctx) {
				step.Fail("an event")
			}
		})
		w.Task("ends", func() { end() })
	}},
	{"two wait for the channel of two queues", 2, 1000, stepOptions{channel: true}, away, func(w *stepWorld) {
		other := w.queue()
		a, b := w.pair(UC), w.pairOn(UC, other)
		must(w, w.cq.ReqNotify(false))
		must(w, other.ReqNotify(false))
		w.Task("attends", w.attendsOnce)
		w.Task("attends too", w.attendsOnce)
		w.Task("completes", func() {
			w.completes(a)
			w.completes(b)
		})
	}},
	{"one waits, one resets a queue pair that completes there", 2, 0, stepOptions{}, away, func(w *stepWorld) {
		a, b := w.pair(UC), w.pair(UC)
		w.Task("waits", func() { w.waitsOf(b) })
		w.Task("resets", func() {
			w.completes(a)
			w.completes(b)
			must(w, a.Modify(bg, &QPAttr{State: StateReset}, AttrState))
		})
	}},
	{"one waits, one takes out the completions of a queue pair that is gone", 3, 0, stepOptions{}, away, func(w *stepWorld) {
		q := w.pair(UC)
		w.Task("waits", func() { w.waits(1) })
		w.Task("purges", func() {
			w.completes(q)
			w.cq.purge(q.QPN()+1, false)
		})
	}},
	{"one waits, one closes a queue pair and uses another", 2, 0, stepOptions{}, away, func(w *stepWorld) {
		a, b := w.pair(UC), w.pair(UC)
		w.Task("waits", func() { w.waitsOf(b) })
		w.Task("closes", func() {
			w.completes(a)
			must(w, a.Close())
			w.completes(b)
		})
	}},
	{"one waits, one closes the queue", 3, 0, stepOptions{}, away, func(w *stepWorld) {
		w.Task("waits", func() { w.waitsFor(bg, ErrClosed) })
		w.Task("closes", func() { must(w, w.cq.Close()) })
	}},
	{"one waits, one closes everything", 2, 2000, stepOptions{}, away, closesBeside},
	{"one waits, one ends its context", 3, 0, stepOptions{}, away, func(w *stepWorld) {
		ctx, end := context.WithCancel(bg)
		q := w.pair(UC)
		w.Task("waits", func() { w.waitsFor(ctx, context.Canceled) })
		w.Task("ends", func() {
			w.completes(q)
			end()
		})
	}},
	{"one waits, one posts what nobody answers", 3, 2000, stepOptions{}, away, unanswered},
	{"one waits, a packet strays", 3, 0, stepOptions{}, away, strayBeside},
	{"two wait, one completes", 2, 1000, stepOptions{}, away, func(w *stepWorld) {
		q := w.pair(UC)
		w.Task("waits", func() { w.waits(2) })
		w.Task("waits too", func() { w.waits(2) })
		w.Task("completes", func() {
			w.completes(q)
			w.completes(q)
			w.completes(q) // who was late has one, too
		})
	}},
	{"with a background: one waits, one closes everything", 2, 2000, stepOptions{background: true}, away, closesBeside},
	{"with a background: one hears from the channel of a packet", 2, 1000, stepOptions{background: true}, near, func(w *stepWorld) {
		q := w.pair(UC)
		message := w.message(q)
		w.Task("hears", func() { w.hears(1) })
		w.Task("peer", func() { w.arrives(message) })
	}},
	{"with a background: one waits for the channel, a packet arrives", 2, 1000, stepOptions{background: true, channel: true}, near,
		func(w *stepWorld) {
			q := w.pair(UC)
			message := w.message(q)
			w.Task("attends", func() { w.attends(1) })
			w.Task("peer", func() { w.arrives(message) })
		}},
	{"with a background: one waits for the channel, one waits, a packet for each", 1, 2000, stepOptions{background: true, channel: true},
		away, func(w *stepWorld) {
			other := w.queue()
			first, second := w.message(w.pair(UC)), w.message(w.pairOn(UC, other))
			must(w, other.ReqNotify(false))
			w.Task("attends", w.attendsOnce)
			w.Task("waits", func() { w.waits(1) })
			w.Task("peer", func() { w.arrives(first); w.arrives(second) })
		}},
	{"with a background that watches alone: one waits for the channel, a packet arrives", 2, 1000,
		stepOptions{background: true, unwatched: true, channel: true}, away, func(w *stepWorld) {
			q := w.pair(UC)
			message := w.message(q)
			w.Task("attends", func() { w.attends(1) })
			w.Task("peer", func() { w.arrives(message) })
		}},
	{"with a background: one hears from the channel, one posts what nobody answers", 2, 2000, stepOptions{background: true}, away,
		func(w *stepWorld) {
			q := w.pair(RC)
			w.Task("hears", func() { w.hears(1) })
			w.Task("posts", func() { must(w, postSend(q, SendWR{Opcode: WRSend})) })
		}},
	{"with a background: one waits, a packet strays", 2, 1000, stepOptions{background: true}, away, strayBeside},
	{"with a background: one waits, one hears of another queue, for which a packet strays", 1, 2000, stepOptions{background: true}, away,
		func(w *stepWorld) {
			w.isOneOfSeveral()
			q, other := w.pair(UC), w.queue()
			message := w.message(w.pairOn(UC, other))
			must(w, other.ReqNotify(false))
			w.Task("waits", func() { w.waits(1) })
			w.Task("completes", func() { w.completes(q) })
			w.Task("other lane", func() { w.strays(message) })
			w.Task("hears", func() { step.Recv(w.told) })
		}},
	{"with a background that watches alone: one waits, a packet strays", 2, 1000, stepOptions{background: true, unwatched: true}, away,
		strayBeside},
	{"with a background: one waits, one hears, one polls and resets", 0, 20_000, stepOptions{background: true}, away, func(w *stepWorld) {
		a, b := w.pair(UC), w.pair(UC)
		message := w.message(b)
		w.Task("waits", func() { w.waitsOf(b) })
		w.Task("resets", func() {
			w.completes(a)
			must(w, w.cq.ReqNotify(true))
			must(w, a.Modify(bg, &QPAttr{State: StateReset}, AttrState))
		})
		w.Task("peer", func() { w.arrives(message) })
	}},
}

// pollsBeside: what completes last is for who waits, whoever has taken what came before.
func pollsBeside(w *stepWorld) {
	q := w.pair(UC)
	w.Task("waits", func() { w.waits(2) })
	w.Task("polls", func() {
		w.completes(q)
		w.polls()
		w.completes(q)
	})
}

// attendsBeside is pollsBeside for one who waits for the channel.
func attendsBeside(w *stepWorld) {
	q := w.pair(UC)
	w.Task("attends", func() { w.attends(2) })
	w.Task("polls", func() {
		w.completes(q)
		w.polls()
		w.completes(q)
	})
}

func closesBeside(w *stepWorld) {
	q := w.pair(UC)
	w.Task("waits", func() { w.waitsFor(bg, ErrClosed) })
	w.Task("closes", func() {
		w.completes(q)
		must(w, q.Close())
		must(w, w.cq.Close())
		must(w, w.pd.Close())
		must(w, w.d.Close())
	})
}

// unanswered: the request fails when an alarm has gone off, twice.
func unanswered(w *stepWorld) {
	q := w.pair(RC)
	w.Task("waits", func() {
		var wcs [1]WC
		n, err := w.cq.Wait(bg, wcs[:])
		must(w, err)
		if n != 1 || wcs[0].Status != qp.WCRetryExcErr {
			step.Fail("%d completions, %v", n, wcs[0].Status)
		}
	})
	w.Task("posts", func() { must(w, postSend(q, SendWR{Opcode: WRSend})) })
}

func strayBeside(w *stepWorld) {
	w.isOneOfSeveral()
	q := w.pair(UC)
	message := w.message(q)
	w.Task("waits", func() { w.waits(1) })
	w.Task("other lane", func() { w.strays(message) })
}
