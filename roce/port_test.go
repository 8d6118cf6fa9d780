package roce

// A device on a port that breaks or is slow, and applications that stop without a word.

import (
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
	"testing"

	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/pipe"
	"github.com/goroce/goroce/wire"
)

// moodyPort breaks, and takes few frames at a time, when told to.
type moodyPort struct {
	transport.Port
	broken  atomic.Bool // Recv
	clogged atomic.Bool // Send
	hoarse  atomic.Bool // Send takes all and fails
	sends   atomic.Int64
	slow    bool
}

var errBroken = errors.New("the cable is out")

func (p *moodyPort) Recv(frames []wire.Frame) (int, error) {
	if p.broken.Load() {
		return 0, errBroken
	}
	return p.Port.Recv(frames)
}

// Send of a slow port takes two frames, and every other time none.
func (p *moodyPort) Send(b *wire.Batch) (int, error) {
	if p.clogged.Load() {
		p.sends.Add(1)
		return 0, errBroken
	}
	if !p.slow {
		n, err := p.Port.Send(b)
		if p.hoarse.Load() {
			err = errBroken
		}
		return n, err
	}
	if p.sends.Add(1)%2 == 0 {
		return 0, nil
	}
	two := wire.NewBatch(2, wire.FullBody)
	for i := range min(2, b.Len()) {
		two.Append(&b.Frames()[i])
	}
	return p.Port.Send(two)
}

func TestBrokenPort(t *testing.T) {
	var port *moodyPort
	d := openDevice(t, "pipe:broken", func(p transport.Port) transport.Port {
		port = &moodyPort{Port: p}
		return port
	})
	port.broken.Store(true)
	port.Wake()
	if ev := next(t, d.Events()); ev.Type != EventPortErr || !errors.Is(ev.Err, errBroken) {
		t.Errorf("event %v", ev)
	}
	port.broken.Store(false)
	if ev := next(t, d.Events()); ev.Type != EventPortActive {
		t.Errorf("event %v", ev)
	}
}

// TestPortFailsOneWay: while a port sends nothing but receives, as one without its interface does,
// it has failed, and says so once. It is active again when both ways work.
func TestPortFailsOneWay(t *testing.T) {
	var port *moodyPort
	da, db := openPipes(t, func(p transport.Port) transport.Port {
		port = &moodyPort{Port: p} // b's is the later one
		return port
	})
	a, b := newEnd(t, da, RC, 64), newEnd(t, db, RC, 64)
	patient := DefaultConnectOptions()
	patient.Timeout = 0 // nothing is lost, however long the machine takes
	must(t, a.qp.Connect(bg, b.qp.Endpoint(), &patient))
	must(t, b.qp.Connect(bg, a.qp.Endpoint(), &patient))
	heard := func(want EventType) {
		t.Helper()
		if ev := next(t, db.Events()); ev.Type != want {
			t.Errorf("event %v, want %v", ev, want)
		}
		if ev, more := db.Events().TryGet(); more {
			t.Errorf("event %v behind that", ev)
		}
	}
	turns := func() { // that receive, and would send
		for until := port.sends.Load() + 100; port.sends.Load() < until; {
			_, err := b.cq.Poll(nil)
			must(t, err)
		}
	}
	port.clogged.Store(true)
	b.post(SendWR{Opcode: WRWrite, SGL: []SGE{b.mr.SGE(0, 8)}, RemoteAddr: a.mr.Addr(), RKey: a.mr.RKey()})
	turns()
	heard(EventPortErr)
	port.broken.Store(true)
	turns()
	port.broken.Store(false)
	turns()
	if ev, more := db.Events().TryGet(); more {
		t.Errorf("event %v of a port that cannot send", ev)
	}
	port.clogged.Store(false)
	b.wait()
	heard(EventPortActive)

	// It takes a packet and fails all the same, as xdp does where the driver cannot be woken.
	port.hoarse.Store(true)
	b.post(SendWR{Opcode: WRWrite, SGL: []SGE{b.mr.SGE(0, 8)}, RemoteAddr: a.mr.Addr(), RKey: a.mr.RKey()})
	b.wait()
	heard(EventPortErr)
	port.hoarse.Store(false)
	heard(EventPortActive)
}

// TestPipeEvents: a device hears of what happens to its port also when nobody runs it but polls in
// vain, and a datagram goes to the rows that there are.
func TestPipeEvents(t *testing.T) {
	for _, alone := range []bool{false, true} {
		var port *pipe.Port
		d, err := Open(fmt.Sprintf("pipe:events-%v", alone),
			&Config{NoBackground: alone, Lanes: 2, Wrap: func(p transport.Port) transport.Port {
				if port == nil {
					port = p.(*pipe.Port)
				}
				return p
			}})
		must(t, err)
		t.Cleanup(func() { must(t, d.Close()) })
		e := newEnd(t, d, UD, 2000)
		second := netip.MustParseAddr("fd00::5")
		for _, c := range []struct {
			change func() error
			want   EventType
			so     func() bool
		}{
			{func() error { port.SetLink(false); return nil }, EventPortErr, func() bool { return d.QueryPort().State == PortDown }},
			{func() error { port.SetLink(true); return nil }, EventPortActive, func() bool { return d.QueryPort().State == PortActive }},
			{func() error { port.SetMTU(1500); return nil }, EventPortActive, func() bool { return d.QueryPort().ActiveMTU == MTU1024 }},
			{func() error { return port.SetAddress(second, true) }, EventGIDChange, func() bool {
				return len(d.GIDs()) == 2 && d.GIDs()[1].Addr() == second
			}},
			{func() error {
				return port.SetAddress(d.GIDs()[0].Addr(), false)
			}, EventGIDChange, func() bool { return d.GIDs()[0].IsZero() }},
		} {
			must(t, c.change())
			ev, ok := d.Events().TryGet()
			for ; !ok; ev, ok = d.Events().TryGet() {
				_, err := e.cq.Poll(make([]WC, 1))
				must(t, err)
			}
			if ev.Type != c.want || !c.so() {
				t.Errorf("%v, want %v: %+v, GIDs %v", ev, c.want, d.QueryPort(), d.GIDs())
			}
		}
		must(t, e.qp.Activate(7))
		_, err = e.pd.CreateAH(bg, AHAttr{DGID: d.GIDs()[1]})
		refused(t, err, ErrInvalid, "row of the GID table is empty")
		ah, err := e.pd.CreateAH(bg, AHAttr{DGID: d.GIDs()[1], SGIDIndex: 1})
		must(t, err)
		e.recv(1, e.mr.SGE(0, 64))
		e.post(SendWR{Opcode: WRSend, SGL: []SGE{e.mr.SGE(0, 8)}, AH: ah, RemoteQPN: e.qp.QPN(), RemoteQKey: 7})
		e.post(SendWR{Opcode: WRSend, WRID: 2, SGL: []SGE{e.mr.SGE(0, 2000)}, AH: ah, RemoteQPN: e.qp.QPN(), RemoteQKey: 7})
		for got := 0; got < 3; {
			var wcs [2]WC
			n, err := e.cq.Poll(wcs[:])
			must(t, err)
			for _, wc := range wcs[:n] {
				if got++; (wc.Status != WCSuccess) != (wc.WRID == 2) { // longer than the MTU is now
					t.Errorf("%+v", wc)
				}
			}
		}
		must(t, e.pd.DestroyAH(ah))
	}
}

// TestBackPressure: frames that a port does not take are sent later, in order, and nothing that
// arrives meanwhile is lost.
func TestBackPressure(t *testing.T) {
	overWires(t, func(t *testing.T, w wire2) {
		slow := func(p transport.Port) transport.Port { return &moodyPort{Port: p, slow: true} }
		a, b := connectedOn(t, w, slow, RC, 1<<20)
		fill(a.buf, 1)
		for range 3 {
			a.post(SendWR{Opcode: WRWrite, SGL: []SGE{a.mr.SGE(0, 1<<19)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
			a.post(SendWR{Opcode: WRRead, SGL: []SGE{a.mr.SGE(1<<19, 1<<19)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
			a.wait()
			a.wait()
			same(t, a.buf[1<<19:], a.buf[:1<<19])
			clear(a.buf[1<<19:])
		}
		if s := a.dev.Stats(); s.Lane.PortFull == 0 || s.Engine.RetryExceeded != 0 {
			t.Errorf("%+v", s.Lane)
		}
	})
}

// TestTakeOver: the background serves peers also when the application stops polling without a word.
func TestTakeOver(t *testing.T) {
	overWires(t, func(t *testing.T, w wire2) {
		a, b := connected(t, w, RC, 64)
		for range 20 {
			for range 1000 {
				b.cq.Poll(make([]WC, 1))
			}
			a.post(SendWR{Opcode: WRRead, SGL: []SGE{a.mr.SGE(0, 8)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
			a.wait()
		}
	})
}

// TestHeldPostsAreSent: an application earns that its posts are held for its next poll, and then
// does not come back.
func TestHeldPostsAreSent(t *testing.T) {
	overWires(t, func(t *testing.T, w wire2) {
		a, b := connected(t, w, RC, 64)
		write := SendWR{Opcode: WRWrite, SGL: []SGE{a.mr.SGE(0, 8)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()}
		for range 5 {
			for done, posted := 0, 0; done < 500; {
				for ; posted < done+20; posted++ {
					a.post(write)
				}
				var wcs [4]WC
				n, err := a.cq.Poll(wcs[:])
				must(t, err)
				done += n
			}
			must(t, a.cq.ReqNotify(false))
			for range 3 {
				a.post(write)
			}
			b.recv(1)
			a.post(SendWR{Opcode: WRSend})
			b.wait() // somebody has sent it, though a never polls
			for wc := a.wait(); wc.Opcode != WCSend; wc = a.wait() {
			}
		}
	})
}
