package roce

// A device on a port that breaks or is slow, and applications that stop without a word.

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/wire"
)

// bodySize is room for the longest packet behind its IP and UDP headers.
const bodySize = 4096 + 64

// moodyPort breaks, and takes few frames at a time, when told to.
type moodyPort struct {
	transport.Port
	broken atomic.Bool
	sends  atomic.Int64
	slow   bool
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
	if !p.slow {
		return p.Port.Send(b)
	}
	if p.sends.Add(1)%2 == 0 {
		return 0, nil
	}
	two := wire.NewBatch(2, bodySize)
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
