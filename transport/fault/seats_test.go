package fault

import (
	"testing"
	"time"

	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/wire"
)

// seated notes who sleeps at its seats.
type seated struct {
	transport.Port
	transport.Seats
	slept []transport.Watcher
}

func (s *seated) SetAlarm(time.Duration) {}
func (s *seated) Take()                  {}
func (s *seated) Leave()                 {}
func (s *seated) Watch(w transport.Watcher) error {
	s.slept = append(s.slept, w)
	return nil
}

// TestLeftOver: frames that are left over keep from sleeping who has the port, and nobody else.
func TestLeftOver(t *testing.T) {
	s := newScene(t, "")
	inner := &seated{Port: s.rx}
	port := Wrap(inner, Config{On: Recv})
	seats := transport.SeatsOf(port)
	for range 3 {
		s.send()
	}
	n, err := port.Recv(make([]wire.Frame, 1))
	if n != 1 || err != nil {
		t.Fatal(n, err)
	}
	watch := func(w transport.Watcher, sleeps bool) {
		t.Helper()
		before := len(inner.slept)
		if err := seats.Watch(w); err != nil || len(inner.slept) > before != sleeps {
			t.Errorf("watcher %v has slept: %v, want %v; %v", w, !sleeps, sleeps, err)
		}
	}
	watch(transport.Background, false)
	seats.Take()
	watch(transport.Background, true)
	watch(transport.Relief, false)
	seats.Leave()
	watch(transport.Background, false)
	for n := 1; n > 0; {
		if n, err = port.Recv(make([]wire.Frame, 1)); err != nil {
			t.Fatal(err)
		}
	}
	watch(transport.Background, true)
	s.close()
}
