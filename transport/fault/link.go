package fault

// The link: up, but for the outages that rules have.
// Stages: the timers that tell of its ends and returns, and what the port below tells → whether it
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

	timers []*time.Timer
	mu     sync.Mutex // for telling, and against telling after close
	closed bool
	inner  sync.WaitGroup
	ending chan struct{}
}

const linkEvents = 16 // that wait for whoever reads them

// newLink begins the outages, and hands on what the inner port tells.
func newLink(list []outage, now func() time.Time, p transport.Port) *link {
	inner := transport.Events(p)
	l := &link{now: now, opened: now(), outages: list, events: make(chan transport.Event, linkEvents), ending: make(chan struct{})}
	for _, o := range list {
		l.timers = append(l.timers, time.AfterFunc(o.from, func() { l.tell(transport.LinkDown) }),
			time.AfterFunc(o.to, func() {
				if p.Info().Up {
					l.tell(transport.LinkUp)
				}
			}))
	}
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
	if l.closed {
		return
	}
	select {
	case l.events <- e:
	default:
	}
}

func (l *link) close() {
	if l == nil {
		return
	}
	for _, t := range l.timers {
		t.Stop()
	}
	close(l.ending)
	l.inner.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	close(l.events)
}
