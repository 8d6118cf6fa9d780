package roce

// Queues of events: the asynchronous events of a device, and what completion queues have to tell
// (event.go).
//
// Stages: put an event, never waiting → take one, waiting or not → be told by a Go channel or a
// file descriptor that there is one → the end.

import (
	"context"
	"slices"
	"sync"
)

// EventQueue holds events until they are taken, in the order in which they happened. All methods
// may be called from any goroutine. There are three ways to wait for an event: [EventQueue.Get]
// blocks, [EventQueue.Ready] is for a select statement, and [EventQueue.FD] for a program that has
// an epoll loop of its own; the latter two are followed by TryGet until that finds nothing.
type EventQueue[E any] struct {
	mu     sync.Mutex
	queue  []E
	limit  int    // the oldest event goes when there are more; 0: there is no limit
	lost   uint64 // events that went
	closed bool
	ready  chan struct{} // holds a token while there are events; closed with the queue
	fd     eventFD       // readable while there are events
	raised bool          // it was raised for the newest of them
	takers int           // goroutines that are about to take one: fd is silent of so many
}

func (q *EventQueue[E]) init(limit int) {
	q.limit, q.ready, q.fd = limit, make(chan struct{}, 1), noEventFD
}

// put appends an event. It never waits: a lane calls it in its turn.
func (q *EventQueue[E]) put(e E) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	if q.limit > 0 && len(q.queue) == q.limit {
		q.queue = slices.Delete(q.queue, 0, 1)
		q.lost++
	}
	q.queue = append(q.queue, e)
	q.tell(true)
}

// some tells whether there are events.
func (q *EventQueue[E]) some() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.queue) > 0
}

// tell makes both signs say whether there are events, and the descriptor have an edge for one that
// is new. The caller has the lock.
func (q *EventQueue[E]) tell(isNew bool) {
	some := len(q.queue) > 0
	if some {
		select {
		case q.ready <- struct{}{}:
		default:
		}
	} else {
		select {
		case <-q.ready:
		default:
		}
	}
	some = len(q.queue) > q.takers
	if q.fd == noEventFD || some == q.raised && !(some && isNew) {
		return
	}
	if q.raised = some; some {
		q.fd.raise()
	} else {
		q.fd.lower()
	}
}

// TryGet takes the oldest event, if there is one.
func (q *EventQueue[E]) TryGet() (e E, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.queue) == 0 {
		// who sleeps by reading it puts back what it has read, maybe for an event that is gone
		if q.fd != noEventFD {
			q.fd.lower()
			q.raised = false
		}
		return e, false
	}
	e = q.queue[0]
	q.queue = slices.Delete(q.queue, 0, 1)
	if !q.closed {
		q.tell(false)
	}
	return e, true
}

// take has a goroutine that runs the stack until there is an event take it: no descriptor has to
// say so, which costs two system calls and more. wait returns false when there will be none.
func (q *EventQueue[E]) take(wait func() bool) (e E, ok bool) {
	q.mu.Lock()
	q.takers++
	q.mu.Unlock()
	for !ok && wait() {
		e, ok = q.TryGet()
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.takers--; !q.closed {
		q.tell(false)
	}
	return e, ok
}

// Get takes the oldest event and waits for one if need be, until ctx ends, whose error it then
// returns, or the queue's owner is closed and nothing is left: ErrClosed.
func (q *EventQueue[E]) Get(ctx context.Context) (E, error) {
	for {
		if e, ok := q.TryGet(); ok {
			return e, nil
		}
		select {
		case _, open := <-q.ready:
			e, ok := q.TryGet()
			switch {
			case ok:
				return e, nil
			case !open:
				return e, ErrClosed
			}
		case <-ctx.Done():
			var none E
			return none, ctx.Err()
		}
	}
}

// Ready is a channel from which a token can be received when there may be events; it is closed with
// the queue's owner. Several goroutines may receive from it: each gets a token as long as there are
// events.
func (q *EventQueue[E]) Ready() <-chan struct{} { return q.ready }

// FD is a file descriptor that is readable as long as there are events, for poll and epoll, and
// that has an edge for each event, for epoll with EPOLLET; but it says nothing of those that a
// goroutine in [CompChannel.Wait] is about to take. Only ask whether it is readable: it is an
// eventfd that TryGet and Get keep up to date, written in the turn that makes an event. It is made
// by the first call and stays valid until the queue's owner is closed, of which a sleeping poll
// hears, and an epoll does not. ErrNotSupported where the system is not Linux.
func (q *EventQueue[E]) FD() (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return -1, ErrClosed
	}
	if q.fd == noEventFD {
		fd, err := newEventFD()
		if err != nil {
			return -1, err
		}
		q.fd = fd
		q.tell(false)
	}
	return int(q.fd), nil
}

// remove takes out the events that no longer concern anybody.
func (q *EventQueue[E]) remove(gone func(E) bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queue = slices.DeleteFunc(q.queue, gone)
	if !q.closed {
		q.tell(false)
	}
}

func (q *EventQueue[E]) lostCount() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.lost
}

// close ends the queue. What is in it can still be taken.
func (q *EventQueue[E]) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	q.closed = true
	close(q.ready)
	if q.fd != noEventFD {
		q.fd.raise() // for who sleeps in poll
		q.fd.close()
		q.fd = noEventFD
	}
}

// EventSource is an event queue and its other side, for packages that have events of their own, as
// roce/rdmacm has. The zero value is no source: NewEventSource makes one. All methods may be called
// from any goroutine.
type EventSource[E any] struct{ queue EventQueue[E] }

// NewEventSource makes a source with an empty queue.
func NewEventSource[E any]() *EventSource[E] {
	s := new(EventSource[E])
	s.queue.init(0)
	return s
}

// Queue is where the events are taken.
func (s *EventSource[E]) Queue() *EventQueue[E] { return &s.queue }

// Put appends an event. It never waits; after Close it does nothing.
func (s *EventSource[E]) Put(e E) { s.queue.put(e) }

// Remove takes out those events of which gone says so, in their order. gone is called with the
// queue's lock.
func (s *EventSource[E]) Remove(gone func(E) bool) { s.queue.remove(gone) }

// Close ends the queue: who waits hears ErrClosed when nothing is left in it. A second Close does
// nothing.
func (s *EventSource[E]) Close() { s.queue.close() }
