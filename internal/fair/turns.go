package fair

// Turns: who waits is called by address, one of each in turn, and of an address in order.
// Stages: joining → the next one → leaving.

import (
	"container/list"

	"github.com/goroce/goroce/wire"
)

// Turns is who waits. The zero value is nobody.
type Turns[T any] struct {
	all queue
	n   int
}

// queue is who waits of all, of a /64 or of an address.
type queue struct {
	of    *queue // nil of all
	key   wire.GID
	at    *list.Element // in of.order
	parts map[wire.GID]*queue
	order list.List // whose turn it is: *queue, or of an address who waits
}

// Turn is the place of one who waits.
type Turn[T any] struct {
	turns *Turns[T]
	of    *queue
	at    *list.Element
}

// Len is how many wait.
func (t *Turns[T]) Len() int { return t.n }

// Join lets somebody of an address wait.
func (t *Turns[T]) Join(address wire.GID, who T) *Turn[T] {
	t.n++
	q := &t.all
	keys, from := sources(address)
	for _, key := range keys[from:] {
		in := q.parts[key]
		if in == nil {
			in = &queue{of: q, key: key}
			in.at = q.order.PushBack(in)
			if q.parts == nil {
				q.parts = map[wire.GID]*queue{}
			}
			q.parts[key] = in
		}
		q = in
	}
	return &Turn[T]{t, q, q.order.PushBack(who)}
}

// Next takes out whose turn it is, and the turn goes on to the next address; false if nobody waits.
func (t *Turns[T]) Next() (who T, ok bool) {
	q := &t.all
	for {
		first := q.order.Front()
		if first == nil {
			return who, false
		}
		in, more := first.Value.(*queue)
		if !more {
			who = first.Value.(T)
			(&Turn[T]{t, q, first}).Leave()
			return who, true
		}
		q.order.MoveToBack(first)
		q = in
	}
}

// Leave takes out somebody who has not been called.
func (w *Turn[T]) Leave() {
	w.turns.n--
	q := w.of
	for q.order.Remove(w.at); q.of != nil && q.order.Len() == 0; q = q.of {
		q.of.order.Remove(q.at)
		delete(q.of.parts, q.key)
	}
}
