package pipe

import (
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/capture"
	"github.com/goroce/goroce/transport/fault"
	"github.com/goroce/goroce/transport/internal/porttest"
	"github.com/goroce/goroce/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// kind is the pipe.
var kind = porttest.Kind{Name: "pipe", Held: true, Open: func(t testing.TB, i int, o transport.Options) transport.Port {
	t.Helper()
	return open(t, fmt.Sprintf("pipe:%s/10.1.0.%d", t.Name(), i+1), o)
}}

func open(t testing.TB, name string, o transport.Options) transport.Port {
	t.Helper()
	return porttest.Open(t, Open, name, o)
}

func TestPort(t *testing.T) { porttest.Test(t, kind) }

func TestLanes(t *testing.T) {
	porttest.TestLanes(t, porttest.Lanes{Name: "pipe", Open: Open, Address: "pipe:TestLanes/10.1.0.%d", Group: "239.1.2.3",
		Within: func(_ int, f func()) { f() }})
}

func TestAddresses(t *testing.T) {
	a, b := open(t, "pipe:TestAddresses", transport.Options{}), open(t, "pipe:TestAddresses/10.0.0.2", transport.Options{})
	c := open(t, "pipe:TestAddresses", transport.Options{})
	v6 := open(t, "pipe:TestAddresses/fd00::1", transport.Options{})
	var got []string
	for _, p := range []transport.Port{a, b, c, v6} {
		got = append(got, p.Info().GIDs[0].Addr().String())
	}
	if !slices.Equal(got, []string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "fd00::1"}) {
		t.Errorf("addresses %v", got)
	}
	elsewhere := open(t, "pipe:TestAddresses2", transport.Options{})
	if elsewhere.Info().GIDs[0] != a.Info().GIDs[0] {
		t.Error("segments share addresses")
	}
}

func TestUnknownAddress(t *testing.T) {
	a := open(t, "pipe:TestUnknownAddress", transport.Options{})
	nobody, _ := wire.ParseGID("10.0.0.99")
	batch := wire.NewBatch(4, 200)
	porttest.Put(t, batch, porttest.PathTo(t, a, nobody, 0, 64), 1, 8)
	porttest.Put(t, batch, porttest.PathTo(t, a, a.Info().GIDs[0], 0, 64), 2, 8)
	porttest.SendAll(t, a, batch)
	got := porttest.RecvSome(t, a, make([]wire.Frame, 4))
	if len(got) != 1 || porttest.Number(t, &got[0]) != 2 {
		t.Fatalf("%d frames", len(got))
	}
	if s := a.Stats(); s.SendFrames != 1 || s.SendUnreachable != 1 || s.LastSendError == "" {
		t.Errorf("%+v", s)
	}
}

// A full queue stops the sender, and the receiver's next Recv lets it go on: all arrives, in order,
// through a queue much smaller than the traffic.
func TestBackPressure(t *testing.T) {
	const packets, queue = 2000, 7
	a := open(t, "pipe:TestBackPressure", transport.Options{})
	b := open(t, "pipe:TestBackPressure", transport.Options{QueueLen: queue})
	path := porttest.PathBetween(t, a, b, 0, 64)
	var sender sync.WaitGroup
	sender.Go(func() {
		batch := wire.NewBatch(50, 200)
		for i := 0; i < packets; i += 50 {
			for j := range 50 {
				porttest.Put(t, batch, path, i+j, 64)
			}
			porttest.SendAll(t, a, batch)
		}
	})
	// The queue fills also with a receiver that is not fast.
	for blocked := &a.(*Port).counters.SendBlocked; blocked.Load() == 0; {
		runtime.Gosched()
	}
	frames := make([]wire.Frame, queue)
	for next := 0; next < packets; {
		got := porttest.RecvSome(t, b, frames)
		for i := range got {
			if n := porttest.Number(t, &got[i]); n != next {
				t.Fatalf("%d, want %d", n, next)
			}
			next++
		}
	}
	sender.Wait()
	if a.Stats().SendBlocked == 0 {
		t.Error("the queue was never full")
	}
}

// A receiver that goes away does not keep its senders waiting.
func TestCloseReleasesSenders(t *testing.T) {
	a := open(t, "pipe:TestCloseReleasesSenders", transport.Options{})
	b := open(t, "pipe:TestCloseReleasesSenders", transport.Options{QueueLen: 1})
	batch := wire.NewBatch(2, 200)
	path := porttest.PathBetween(t, a, b, 0, 64)
	porttest.Put(t, batch, path, 1, 8)
	porttest.Put(t, batch, path, 2, 8)
	if n, err := a.Send(batch); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	batch.Drop(1)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	porttest.SendAll(t, a, batch)
	if s := a.Stats(); s.SendUnreachable != 1 {
		t.Errorf("%+v", s)
	}
}

// A test has a pipe tell what happens below, which Info has too; wrappers pass it on.
func TestEvents(t *testing.T) {
	lanes := porttest.OpenLanes(t, Open, "pipe:TestEvents", 2, transport.Options{})
	p := lanes[0].(*Port)
	if transport.Events(lanes[1]) != nil {
		t.Error("the second lane has events")
	}
	events := transport.Events(fault.Wrap(capture.Wrap(p, nil), fault.Config{}))
	up := func(i transport.Info) bool { return i.Up }
	own, more := p.Info().GIDs[0].Addr(), netip.MustParseAddr("fd00::7")
	for _, c := range []struct {
		change func()
		want   transport.Event
		so     func(i transport.Info) bool
	}{
		{func() { p.SetLink(false) }, transport.LinkDown, func(i transport.Info) bool { return !i.Up }},
		{func() { p.SetLink(true) }, transport.LinkUp, up},
		{func() { p.SetMTU(1500) }, transport.MTUChanged, func(i transport.Info) bool { return i.NetMTU == 1500 }},
		{func() { p.SetAddress(own, false) }, transport.AddressGone, func(i transport.Info) bool { return i.GIDs[0].IsZero() }},
		{func() { p.SetAddress(own, true) }, transport.AddressBack, func(i transport.Info) bool { return i.GIDs[0].Addr() == own }},
		{func() { p.SetAddress(more, true) }, transport.AddressBack, func(i transport.Info) bool { return i.GIDs[1].Addr() == more }},
	} {
		c.change()
		if got := <-events; got != c.want || !c.so(p.Info()) || !c.so(lanes[1].Info()) {
			t.Errorf("%v instead of %v, %+v", got, c.want, p.Info())
		}
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if got, open := <-events; open {
		t.Errorf("%v after Close", got)
	}
}
