package roce

// What switches are told: ECN in the IP headers that leave a device.

import (
	"sync"
	"testing"
	"time"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/capture"
	"github.com/goroce/goroce/wire"
)

// classes counts packets by the queue pair that they are for and the traffic class in their IP header, at both ends of a wire.
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

// TestECN: requests, READ responses and acknowledgements of connected queue pairs may be marked. Datagrams do not slow down, so
// they do not claim to.
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
				must(t, a.qp.Connect(b.qp.Endpoint(), &o))
				must(t, b.qp.Connect(a.qp.Endpoint(), &o))
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
			ah, err := a.pd.CreateAH(AHAttr{DGID: db.GIDs()[0]})
			must(t, err)
			a.post(SendWR{Opcode: WRSend, SGL: []SGE{a.mr.SGE(0, 10)}, AH: ah, RemoteQPN: b.qp.QPN(), RemoteQKey: 7})
			b.wait()
			c.only(t, b, 0)
			must(t, a.pd.DestroyAH(ah))
		})
	}
}

// The traffic class that most packets have is the socket's own, which costs nothing a message.
func TestECNIsTheSockets(t *testing.T) {
	for _, c := range []struct {
		cfg  Config
		want uint8
	}{
		{Config{}, 2},
		{Config{NoECN: true}, 0},
		{Config{Transport: transport.Options{TrafficClass: 0x68}}, 0x6a},
		{Config{Transport: transport.Options{TrafficClass: 0x69}}, 0x69},
		{Config{Transport: transport.Options{TrafficClass: 0x68}, NoECN: true}, 0x68},
	} {
		d, err := Open("pipe:tos", &c.cfg)
		must(t, err)
		if got := d.cfg.Transport.TrafficClass; got != c.want {
			t.Errorf("%+v: the port is opened with %#x", c.cfg, got)
		}
		must(t, d.Close())
	}
}

// speedPort is a port on an interface of some speed.
type speedPort struct {
	transport.Port
	mbps int
}

func (p speedPort) Info() transport.Info {
	i := p.Port.Info()
	i.SpeedMbps = p.mbps
	return i
}

func TestLineRate(t *testing.T) {
	for mbps, want := range map[int]uint64{0: qp.DefaultCongestion.LineRate, 10: qp.DefaultCongestion.LineRate, 25000: 25e9} {
		d := openDevice(t, "pipe:speed", func(p transport.Port) transport.Port { return speedPort{p, mbps} })
		c := d.congestion()
		if c.LineRate != want {
			t.Errorf("interface of %d Mbit/s: line rate %d", mbps, c.LineRate)
		}
		c.LineRate = qp.DefaultCongestion.LineRate
		if c != qp.DefaultCongestion {
			t.Errorf("%+v", c)
		}
	}
	own := qp.CongestionParams{LineRate: 7e9}
	d, err := Open("pipe:speed", &Config{Congestion: own})
	must(t, err)
	if got := d.congestion(); got != own {
		t.Errorf("%+v", got)
	}
	must(t, d.Close())
}
