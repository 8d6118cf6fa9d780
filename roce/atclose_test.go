package roce

import (
	"errors"
	"runtime"
	"testing"
)

// TestAtClose: what was asked for happens before the device looks whether it may close, the last
// first, and an error keeps the device open.
func TestAtClose(t *testing.T) {
	d, err := Open("pipe:atclose", nil)
	must(t, err)
	pd, err := d.AllocPD()
	must(t, err)
	var order []string
	bad := errors.New("not yet")
	must(t, d.AtClose(func() error { order = append(order, "first"); return pd.Close() }))
	must(t, d.AtClose(func() error {
		order = append(order, "last")
		defer func() { bad = nil }()
		return bad
	}))
	if err := d.Close(); err == nil || err.Error() != "roce: Close on pipe:atclose: not yet" {
		t.Fatal(err)
	}
	must(t, d.Close())
	must(t, d.Close())
	if len(order) != 3 || order[0] != "last" || order[1] != "last" || order[2] != "first" {
		t.Error(order)
	}
	if err := d.AtClose(func() error { return nil }); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

// TestCloseTwice: of two Closes at once the second waits for what AtClose was given to the first,
// and the device is closed when either returns. If the first fails, the second tries again.
func TestCloseTwice(t *testing.T) {
	bad := errors.New("not yet")
	for _, fails := range []error{nil, bad} {
		d, err := Open("pipe:closed-twice", &Config{NoBackground: true})
		must(t, err)
		running, second, calls := make(chan struct{}), make(chan error, 1), 0
		must(t, d.AtClose(func() error {
			if calls++; calls > 1 {
				return nil
			}
			close(running)
			for range 1000 { // turns of the second
				runtime.Gosched()
			}
			if len(second) > 0 {
				t.Error("the second has returned while the first was at it")
			}
			pd, err := d.AllocPD()
			must(t, err)
			must(t, pd.Close())
			return fails
		}))
		go func() {
			<-running
			err := d.Close()
			if d.AtClose(nil) == nil {
				t.Error("the second has returned, and the device is open")
			}
			second <- err
		}()
		if err := d.Close(); !errors.Is(err, fails) {
			t.Errorf("the first: %v, want %v", err, fails)
		}
		if err := <-second; err != nil {
			t.Errorf("the second, after a first that returned %v: %v", fails, err)
		}
	}
}

// TestEventSource: what one side puts the other gets, but for what was removed, until the end.
func TestEventSource(t *testing.T) {
	s := NewEventSource[int]()
	for i := range 4 {
		s.Put(i)
	}
	s.Remove(func(i int) bool { return i%2 == 0 })
	s.Close()
	s.Put(9)
	for _, want := range []int{1, 3} {
		if got := next(t, s.Queue()); got != want {
			t.Error(got, want)
		}
	}
	if _, err := s.Queue().Get(bg); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}
