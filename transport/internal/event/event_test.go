package event

import (
	"slices"
	"testing"

	"github.com/goroce/goroce/transport"
)

// drain reads what waits.
func drain(o *Output) (list []transport.Event) {
	for {
		select {
		case e, ok := <-o.Events():
			if !ok {
				return list
			}
			list = append(list, e)
		default:
			return list
		}
	}
}

// Each change has its event, and what has not changed has none.
func TestNote(t *testing.T) {
	whole := Facts{Up: true, Address: true, MTU: 1500}
	o := New(whole)
	for _, c := range []struct {
		now  Facts
		want []transport.Event
	}{
		{whole, nil},
		{Facts{Up: false, Address: true, MTU: 1500}, []transport.Event{transport.LinkDown}},
		{Facts{Up: false, Address: true, MTU: 9000}, []transport.Event{transport.MTUChanged}},
		{Facts{Up: true, Address: false, MTU: 9000}, []transport.Event{transport.LinkUp, transport.AddressGone}},
		{whole, []transport.Event{transport.AddressBack, transport.MTUChanged}},
		{Facts{}, []transport.Event{transport.LinkDown, transport.AddressGone}},
		{whole, []transport.Event{transport.LinkUp, transport.AddressBack, transport.MTUChanged}},
	} {
		o.Note(c.now)
		if got := drain(o); !slices.Equal(got, c.want) || o.Facts() != c.now {
			t.Errorf("%+v: %v, want %v", c.now, got, c.want)
		}
	}
}

// Without a reader nothing blocks, and after Close nothing comes.
func TestNobodyReads(t *testing.T) {
	o := New(Facts{})
	for i := range 10 * room {
		o.Note(Facts{Up: i%2 == 0})
	}
	if got := drain(o); len(got) != room {
		t.Errorf("%d events wait, want %d", len(got), room)
	}
	o.Close()
	o.Close()
	o.Note(Facts{Up: true})
	if e, ok := <-o.Events(); ok {
		t.Errorf("%v after Close", e)
	}
}
