package fault

// The link: up, but for the outages that rules have.
// Stages: the timer that tells of its ends and returns, and what the port below tells → whether it
// is down now, which every frame asks → the end.

import (
	"sync"
	"time"

	"github.com/goroce/goroce/transport"
)

// link says when the port has no link, and tells of it.
type link struct {
	now     func() time.Time
	opened  time.Time
	outages []outage
	events  chan transport.Event

	mu      sync.Mutex // for telling, and against telling after close
	changes []change   // yet to come, the next one first
	timer   *time.Timer
	closed  bool
	inner   sync.WaitGroup
	ending  chan struct{}
}

// change is an end or a return of the link.
type change struct {
	at    time.Duration
	event transport.Event
}

const linkEvents = 16 // that wait for whoever reads them

// newLink begins the outages, and hands on what the inner port tells.
func newLink(list []outage, now func() time.Time, p transport.Port) *link {
	inner := transport.Events(p)
	l := &link{
		now:     now,
		opened:  now(),
		outages: list,
		events:  make(chan transport.Event, linkEvents),
		ending:  make(chan struct{}),
	}
	for _, o := range list {
		l.changes = append(l.changes, change{o.from, transport.LinkDown}, change{o.to, transport.LinkUp})
	}
	l.mu.Lock()
	began := time.Now()
	l.timer = time.AfterFunc(l.changes[0].at, func() { l.happens(began, p) })
	l.mu.Unlock()
	if inner != nil {
		l.inner.Go(func() {
			for {
				select {
				case e, ok := <-inner:
					if !ok {
						return
					}
					if e != transport.LinkUp || !l.down() {
						l.tell(e)
					}
				case <-l.ending:
					return
				}
			}
		})
	}
	return l
}

// happens tells of the next change, and waits for the one after it. There is one timer: of two that
// ring at nearly the same time on a busy machine, either may be first.
func (l *link) happens(began time.Time, p transport.Port) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	next := l.changes[0].event
	if next != transport.LinkUp || p.Info().Up {
		l.put(next)
	}
	if l.changes = l.changes[1:]; len(l.changes) > 0 {
		l.timer.Reset(time.Until(began.Add(l.changes[0].at)))
	}
}

// down says whether there is no link now. A nil link is up.
func (l *link) down() bool {
	if l == nil {
		return false
	}
	since := l.now().Sub(l.opened)
	for _, o := range l.outages {
		if o.from <= since && since < o.to {
			return true
		}
	}
	return false
}

// tell hands an event on, if there is room for it.
func (l *link) tell(e transport.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.put(e)
	}
}

// put is tell; the caller has the lock.
func (l *link) put(e transport.Event) {
	select {
	case l.events <- e:
	default:
	}
}

func (l *link) close() {
	if l == nil {
		return
	}
	close(l.ending)
	l.inner.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timer.Stop()
	l.closed = true
	close(l.events)
}
