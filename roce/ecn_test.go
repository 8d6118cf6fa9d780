package roce

// What switches are told: ECN in the IP headers that leave a device.

import (
	"sync"
	"testing"
	"time"

	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/capture"
	"github.com/goroce/goroce/wire"
)

// classes counts packets by the queue pair that they are for and the traffic class in their IP
// header, at both ends of a wire.
type classes struct {
	mu   sync.Mutex
	seen map[uint32]map[uint8]int
}

func (c *classes) wrap(p transport.Port) transport.Port {
	return capture.Wrap(p, capture.Func(func(_ capture.Direction, _ time.Time, f *wire.Frame) {
		c.mu.Lock()
		defer c.mu.Unlock()
		qpn := (*wire.BTH)(f.Body).DestQP()
		if c.seen[qpn] == nil {
			c.seen[qpn] = map[uint8]int{}
		}
		c.seen[qpn][f.TOS()]++
	}))
}

// only checks that there were packets for a queue pair, all of one class.
func (c *classes) only(t *testing.T, to *end, want uint8) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if seen := c.seen[to.qp.QPN()]; len(seen) != 1 || seen[want] == 0 {
		t.Errorf("packets to a %v queue pair by traffic class: %v, want all to be %#x", to.qp.Type(), seen, want)
	}
}

// TestECN: requests, READ responses and acknowledgements of connected queue pairs may be marked.
// Datagrams do not slow down, so they do not claim to.
func TestECN(t *testing.T) {
	without := wire2{"without ECN", func(t testing.TB, wrap func(transport.Port) transport.Port) (a, b *Device) {
		for _, d := range []**Device{&a, &b} {
			var err error
			*d, err = Open("pipe:no-ecn", &Config{Wrap: wrap, NoECN: true})
			must(t, err)
			t.Cleanup(func() { must(t, (*d).Close()) })
		}
		return a, b
	}}
	for _, w := range append(wires, without) {
		t.Run(w.name, func(t *testing.T) {
			c := &classes{seen: map[uint32]map[uint8]int{}}
			da, db := w.open(t, c.wrap)
			for class, want := range map[uint8]uint8{0: 2, 0x68: 0x6a, 0x6a: 0x6a, 0x01: 0x01} {
				if w.name == without.name {
					want = class
				}
				o := DefaultConnectOptions()
				o.TrafficClass = class
				a, b := newEnd(t, da, RC, 8192), newEnd(t, db, RC, 8192)
				must(t, a.qp.Connect(bg, b.qp.Endpoint(), &o))
				must(t, b.qp.Connect(bg, a.qp.Endpoint(), &o))
				for _, op := range []WROpcode{WRWrite, WRRead} {
					a.post(SendWR{Opcode: op, SGL: []SGE{a.mr.SGE(0, 5000)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
					a.wait()
				}
				c.only(t, a, want)
				c.only(t, b, want)
			}
			a, b := newEnd(t, da, UD, 8192), newEnd(t, db, UD, 8192)
			must(t, a.qp.Activate(7))
			must(t, b.qp.Activate(7))
			b.recv(1, b.mr.SGE(0, 100))
			ah, err := a.pd.CreateAH(bg, AHAttr{DGID: db.GIDs()[0]})
			must(t, err)
			a.post(SendWR{Opcode: WRSend, SGL: []SGE{a.mr.SGE(0, 10)}, AH: ah, RemoteQPN: b.qp.QPN(), RemoteQKey: 7})
			b.wait()
			c.only(t, b, 0)
			must(t, a.pd.DestroyAH(ah))
		})
	}
}
