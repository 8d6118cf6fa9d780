package event

import (
	"slices"
	"testing"

	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/wire"
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
	one, two := wire.GID{15: 1}, wire.GID{15: 2}
	whole := Facts{Up: true, GIDs: []wire.GID{one, two}, MTU: 1500}
	o := New(whole)
	for _, c := range []struct {
		now  Facts
		want []transport.Event
	}{
		{whole, nil},
		{Facts{Up: false, GIDs: whole.GIDs, MTU: 1500}, []transport.Event{transport.LinkDown}},
		{Facts{Up: false, GIDs: whole.GIDs, MTU: 9000}, []transport.Event{transport.MTUChanged}},
		{Facts{Up: true, GIDs: []wire.GID{{}, two}, MTU: 9000}, []transport.Event{transport.LinkUp, transport.AddressGone}},
		{whole, []transport.Event{transport.AddressBack, transport.MTUChanged}},
		{Facts{Up: true, GIDs: []wire.GID{one, one}, MTU: 1500}, []transport.Event{transport.AddressGone, transport.AddressBack}},
		{Facts{Up: true, GIDs: []wire.GID{one, one, two}, MTU: 1500}, []transport.Event{transport.AddressBack}},
		{Facts{}, []transport.Event{transport.LinkDown, transport.AddressGone, transport.InterfaceGone}},
		{whole, []transport.Event{transport.LinkUp, transport.AddressBack, transport.MTUChanged}},
	} {
		o.Note(c.now)
		if got := drain(o); !slices.Equal(got, c.want) || !slices.Equal(o.Facts().GIDs, c.now.GIDs) {
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
