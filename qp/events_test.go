package qp

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestManyEvents: when a completion queue overruns, each of its queue pairs has an event or two.
// They come in order, and to take one costs the same however many wait: the lane does it in a turn.
func TestManyEvents(t *testing.T) {
	e := &Engine{}
	const many = 500_000
	q := make([]QP, many)
	for i := range q {
		e.raise(Event{Type: EventQPFatal, QP: &q[i]})
	}
	for i := range q {
		ev, ok := e.PollEvent()
		if !ok || ev.QP != &q[i] {
			t.Fatalf("event %d: %v of %p, %v", i, ev.Type, ev.QP, ok)
		}
		if i == 0 { // it comes behind the others
			e.raise(Event{Type: EventCommEst})
		}
	}
	ev, ok := e.PollEvent()
	require.Equal(t, Event{Type: EventCommEst}, ev)
	require.True(t, ok)
	_, ok = e.PollEvent()
	require.False(t, ok)
}
