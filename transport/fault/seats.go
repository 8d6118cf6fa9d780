package fault

// The seats of a port whose lines hold frames.
// Stages: the alarm that the lane has set → the earlier one, of a frame that is held → watching.

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/goroce/goroce/transport"
)

// seats are those of the inner port. Its alarm also goes off when a frame that is held is due.
type seats struct {
	transport.Seats
	port *Port
	now  func() time.Time

	relieved atomic.Bool // the relief has the port

	mu    sync.Mutex
	alarm time.Time // that the lane has set, which does not set it again; zero: none
}

// Seats are those of the inner port; nil: it has none.
func (f *Port) Seats() transport.Seats {
	if f.seats == nil {
		return nil
	}
	return f.seats
}

// SetAlarm implements transport.Seats.
func (s *seats) SetAlarm(d time.Duration) {
	s.mu.Lock()
	s.alarm = time.Time{}
	if d >= 0 {
		s.alarm = s.now().Add(d)
	}
	s.mu.Unlock()
	s.set()
}

// set sets the alarm of the inner port, to the lane's or to when a frame is due that is held.
func (s *seats) set() {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := time.Duration(-1)
	if !s.alarm.IsZero() {
		d = max(0, s.alarm.Sub(s.now()))
	}
	s.Seats.SetAlarm(s.port.orDue(d))
}

// Take implements transport.Seats.
func (s *seats) Take() {
	s.relieved.Store(true)
	s.Seats.Take()
}

// Leave implements transport.Seats. Of what is left over the lane's alarm tells.
func (s *seats) Leave() {
	s.relieved.Store(false)
	s.Seats.Leave()
}

// Watch of the one who has the port returns at once when frames are left over from the last Recv.
func (s *seats) Watch(w transport.Watcher) error {
	if s.port.leftOver() && (w == transport.Relief) == s.relieved.Load() {
		return nil
	}
	s.set() // the alarm may have gone off for a frame, and the lane's is still to come
	return s.Seats.Watch(w)
}
