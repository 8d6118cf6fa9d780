package roce

// Packets of a connection that is over: RESET and a new connection between the same two queue
// pairs, while requests or acknowledgements of the old one are still on their way.

import (
	"context"
	"runtime"
	"sync"
	"testing"

	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/wire"
)

// slowPort holds back packets until they are released, as a switch with a long queue or a stopped
// virtual machine does.
type slowPort struct {
	transport.Port
	mu   sync.Mutex
	hold func(op wire.Opcode) bool // nil: nothing
	lose bool                      // what is not held is lost
	kept *wire.Batch
	all  chan struct{} // a token for each packet held
}

func newSlowPort(p transport.Port) *slowPort {
	return &slowPort{Port: p, kept: wire.NewBatch(256, wire.FullBody), all: make(chan struct{}, 256)}
}

func (p *slowPort) Send(b *wire.Batch) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hold == nil {
		return p.Port.Send(b)
	}
	pass := wire.NewBatch(256, wire.FullBody)
	for i := range b.Frames() {
		switch f := &b.Frames()[i]; {
		case p.hold(wire.Opcode(f.Body[0])):
			if p.kept.Append(f) != nil { // or it has been repeated for very long
				p.all <- struct{}{}
			}
		case !p.lose:
			pass.Append(f)
		}
	}
	if _, err := p.Port.Send(pass); err != nil {
		return 0, err
	}
	return b.Len(), nil
}

// set says what is held from now on, and whether the rest is lost.
func (p *slowPort) set(hold func(op wire.Opcode) bool, lose bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hold, p.lose = hold, lose
}

// release sends what was held.
func (p *slowPort) release(t *testing.T) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, err := p.Port.Send(p.kept)
	must(t, err)
	if n == 0 {
		t.Fatal("nothing had been held")
	}
	p.kept.Reset()
}

// slowPair is two connected ends whose ports hold packets back.
func slowPair(t *testing.T, w wire2, o *ConnectOptions) (a, b *end, pa, pb *slowPort) {
	var ports []*slowPort
	a, b = connectedBy(t, w, func(p transport.Port) transport.Port {
		ports = append(ports, newSlowPort(p))
		return ports[len(ports)-1]
	}, o)
	return a, b, ports[0], ports[1]
}

func connectedBy(t *testing.T, w wire2, wrap func(transport.Port) transport.Port, o *ConnectOptions) (a, b *end) {
	da, db := w.open(t, wrap)
	a, b = newEnd(t, da, RC, 4096), newEnd(t, db, RC, 4096)
	join(t, a, b, o)
	return a, b
}

func join(t *testing.T, a, b *end, o *ConnectOptions) {
	must(t, a.qp.Connect(bg, b.qp.Endpoint(), o))
	must(t, b.qp.Connect(bg, a.qp.Endpoint(), o))
}

// rejoin resets both ends and connects them again.
func rejoin(t *testing.T, a, b *end, o *ConnectOptions) {
	for _, e := range []*end{a, b} {
		before := e.qp.Endpoint()
		must(t, e.qp.Modify(bg, &QPAttr{State: StateReset}, AttrState))
		if after := e.qp.Endpoint(); after.PSN == before.PSN || after.QPN != before.QPN {
			t.Errorf("the endpoint was %v and is %v after RESET", before, after)
		}
	}
	join(t, a, b, o)
}

func writeTo(a, b *end, off int) {
	a.post(SendWR{Opcode: WRWrite, SGL: []SGE{a.mr.SGE(off, 8)}, RemoteAddr: b.mr.Addr() + uint64(off), RKey: b.mr.RKey()})
}

// staleOptions are go-back-N, and selective repeat, which keeps packets that come too early.
func staleOptions() []ConnectOptions {
	plain, selective := DefaultConnectOptions(), DefaultConnectOptions()
	selective.SelectiveRepeat = true
	return []ConnectOptions{plain, selective}
}

// overOneLane runs f over the wires whose devices have one port each.
func overOneLane(t *testing.T, f func(t *testing.T, w wire2)) {
	for _, w := range wires[:2] {
		t.Run(w.name, func(t *testing.T) { f(t, w) })
	}
}

// TestStaleRequests: WRITEs that are late are not executed in the next connection, and those in
// their places are.
func TestStaleRequests(t *testing.T) {
	const writes = 40
	overOneLane(t, func(t *testing.T, w wire2) {
		for _, o := range staleOptions() {
			a, b, port, _ := slowPair(t, w, &o)
			sent := 0
			port.set(func(op wire.Opcode) bool {
				if op != wire.RCWriteOnly {
					return false
				}
				sent++
				return sent != 1 // the first is lost
			}, true)
			fill(a.buf, 1)
			for i := range writes {
				writeTo(a, b, 8*i)
			}
			for range writes - 1 {
				<-port.all
			}
			rejoin(t, a, b, &o)
			port.set(nil, false)
			port.release(t)
			fill(a.buf, 2)
			for i := range writes {
				writeTo(a, b, 8*i)
			}
			for range writes {
				a.wait()
			}
			same(t, b.buf[:8*writes], a.buf[:8*writes])
		}
	})
}

// TestStaleAck: an ACK that is late acknowledges nothing in the next connection.
func TestStaleAck(t *testing.T) {
	overOneLane(t, func(t *testing.T, w wire2) {
		for _, o := range staleOptions() {
			// 4 ms: then the new WRITE fails, if it does not succeed by mistake
			o.Timeout, o.RetryCnt = 10, 0
			a, b, ahead, back := slowPair(t, w, &o)
			back.set(func(op wire.Opcode) bool { return op == wire.RCAcknowledge }, false)
			writeTo(a, b, 0)
			<-back.all
			rejoin(t, a, b, &o)
			back.set(nil, false)
			ahead.set(func(op wire.Opcode) bool { return false }, true) // the network is down
			writeTo(a, b, 0)
			back.release(t)
			var wcs [1]WC
			if _, err := a.cq.Wait(context.Background(), wcs[:]); err != nil || wcs[0].Status != WCRetryExcErr {
				t.Errorf("a WRITE that never arrived: %v, %v", wcs[0].Status, err)
			}
			ahead.set(nil, false)
		}
	})
}

// TestStaleCompletions: what completed before RESET and was not polled is not seen after it.
func TestStaleCompletions(t *testing.T) {
	overWires(t, func(t *testing.T, w wire2) {
		a, b := connected(t, w, RC, 64)
		b.recv(1)
		a.post(SendWR{Opcode: WRSend})
		for a.cq.Len() == 0 || b.cq.Len() == 0 {
			runtime.Gosched()
		}
		rejoin(t, a, b, nil)
		for _, e := range []*end{a, b} {
			if n := e.cq.Len(); n != 0 {
				t.Errorf("%d completions of the connection before", n)
			}
		}
		b.recv(2)
		a.post(SendWR{WRID: 3, Opcode: WRSend})
		if wc := b.wait(); wc.WRID != 2 {
			t.Errorf("receive %d completed", wc.WRID)
		}
		if wc := a.wait(); wc.WRID != 3 {
			t.Errorf("send %d completed", wc.WRID)
		}
	})
}
