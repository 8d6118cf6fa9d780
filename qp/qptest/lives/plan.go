package lives

// A world as data, so that it can be printed, run again and made smaller. Everything is drawn from
// the seed; a deed's numbers are read against whatever state it meets, so any deed can be left out.

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/qp/qptest"
	"github.com/goroce/goroce/wire"
)

// Plan is a world.
type Plan struct {
	Seed   uint64
	Calm   bool // nothing that makes requests fail
	Nodes  []qptest.NodeConfig
	Faults qptest.Faults
	Apps   []AppPlan  // pairs that are connected at first
	Pools  []PoolPlan // shared receive queues of XRC
	// Purpose is how many requests fail on purpose.
	Purpose PurposePlan

	Deeds []Deed
	done  map[string]int // how often deeds of a row have taken effect
	End   qp.Time        // a millisecond after the last deed: from then on the world comes to rest
}

// AppPlan is an application.
type AppPlan struct {
	Node int // of Plan.Nodes
	Cfg  qptest.QPConfig
	// Shares says that it receives from the shared queue of its node.
	Shares bool
	Domain qp.XRCD // of XRC_RECV
}

// Deed is something that an application does.
type Deed struct {
	At   qp.Time   // from the beginning of the world
	App  int       // who does it, of Plan.Apps
	Kind string    // a row of deeds
	R    [3]uint32 // random numbers for it to choose by
}

// upTo is a time from 1 ns on.
func upTo(d qptest.Dice, t qp.Time) qp.Time { return 1 + qp.Time(d.Int64N(int64(t))) }

// NewPlan draws a world.
func NewPlan(seed uint64) *Plan {
	d := qptest.Dice{Rand: rand.New(rand.NewPCG(seed, 0x6c69766573))}
	p := &Plan{Seed: seed, Calm: d.Chance(0.4), done: map[string]int{}}
	for i := range 2 + d.IntN(2) {
		n := qptest.NodeConfig{Addr: fmt.Sprintf("10.2.0.%d", i+1)}
		n.Engine.Window = qptest.Pick(d, 0, 0, 0, 2, 8)
		n.Engine.ECN = d.Chance(0.3)
		if d.Chance(0.3) {
			n.Budget, n.Pace = 1+d.IntN(8), qptest.Microsecond
		}
		if d.Chance(0.3) {
			n.Batch = 1 + d.IntN(4)
		}
		if d.Chance(0.4) {
			n.MaxRun, n.Engine.EvenPackets = 16, true
		}
		p.Nodes = append(p.Nodes, n)
	}
	p.drawFaults(d)
	h := qptest.Dice{Rand: rand.New(rand.NewPCG(seed, 0x4e4943))} // of their own
	nics := h.Chance(0.3)
	for i := range p.Nodes {
		if nics && h.Chance(0.7) {
			p.Nodes[i].Hardware = qptest.NewHardware(h)
		}
	}
	for range 1 + d.IntN(3) {
		p.drawPair(d, qptest.Pick(d, qp.RC, qp.RC, qp.RC, qp.RC, qp.RC, qp.UC, qp.UD))
	}
	for i := range p.Apps {
		p.Apps[i].Cfg.FlowControl = nics && p.Apps[i].Cfg.Type == qp.RC && h.Chance(0.7)
	}
	at := qp.Time(0)
	for range 20 + d.IntN(80) {
		if d.Chance(0.6) {
			at += upTo(d, 15*qptest.Microsecond)
		}
		p.Deeds = append(p.Deeds, Deed{at, d.IntN(len(p.Apps)), drawKind(d, p.Calm),
			[3]uint32{d.Uint32(), d.Uint32(), d.Uint32()}})
	}
	p.End = at + qptest.Millisecond
	p.drawShared(qptest.Dice{Rand: rand.New(rand.NewPCG(seed, 0x737271))}, at)
	p.drawBelow(qptest.Dice{Rand: rand.New(rand.NewPCG(seed, 0x62656c6f77))}, at)
	p.drawXRC(qptest.Dice{Rand: rand.New(rand.NewPCG(seed, 0x787263))}, at)
	p.drawLists(qptest.Dice{Rand: rand.New(rand.NewPCG(seed, 0x6c697374))}, at)
	p.drawPurpose(qptest.Dice{Rand: rand.New(rand.NewPCG(seed, 0x707572706f7365))})
	p.drawTold(qptest.Dice{Rand: rand.New(rand.NewPCG(seed, 0x746f6c64))}, at)
	p.drawNeighbour(qptest.Dice{Rand: rand.New(rand.NewPCG(seed, 0x6e656967))}, at)
	p.drawTaken(qptest.Dice{Rand: rand.New(rand.NewPCG(seed, 0x74616b656e))}, at)
	return p
}

// NewSwarm draws a world with few kinds of deeds, and many of each: as NewPlan, but that deeds of
// other kinds become some of these. In some, messages are counted beyond 2^24.
func NewSwarm(seed uint64) *Plan {
	d, p := qptest.Dice{Rand: rand.New(rand.NewPCG(seed, 0x737761726d))}, NewPlan(seed)
	few := []string{"receives", qptest.Pick(d, "write", "read", "send", "fetch and add", "atomic write", "flush")}
	share := d.Float64() * 0.4
	for _, r := range deeds {
		if r.weight > 0 && !(p.Calm && r.rough) && d.Chance(share) {
			few = append(few, r.kind)
		}
	}
	for i := range p.Deeds {
		if k := &p.Deeds[i].Kind; !slices.Contains(few, *k) && rowOf(*k).weight > 0 {
			*k = qptest.Pick(d, few...)
		}
	}
	if d.Chance(0.3) {
		first := wire.PSN(0).Add(uint32(1<<24 - d.IntN(30)))
		for i := range p.Nodes {
			p.Nodes[i].Engine.FirstMSN = first
		}
	}
	return p
}

// drawShared lets some applications share a receive queue, in the third part of the worlds. It has
// dice of its own, so that the other worlds are what they were.
func (p *Plan) drawShared(d qptest.Dice, end qp.Time) {
	if !d.Chance(0.35) {
		return
	}
	for i := range p.Apps {
		if p.Apps[i].Shares = d.Chance(0.7); !p.Apps[i].Shares {
			continue
		}
		for d.Chance(0.7) {
			p.Deeds = append(p.Deeds, Deed{upTo(d, end+1), i, qptest.Pick(d, "limit", "resize"),
				[3]uint32{d.Uint32(), d.Uint32(), d.Uint32()}})
		}
	}
}

// drawFaults draws links that the retry counters bear; but some packets are very late.
func (p *Plan) drawFaults(d qptest.Dice) {
	f := &p.Faults
	f.Delay = upTo(d, 10*qptest.Microsecond)
	if d.Chance(0.3) {
		f.Jitter = upTo(d, 5*qptest.Microsecond)
	}
	if d.Chance(0.5) {
		f.Loss = d.Float64() * 0.05
	}
	if d.Chance(0.3) {
		f.Duplicate = d.Float64() * 0.1
	}
	if d.Chance(0.6) {
		f.Reorder, f.ReorderBy = d.Float64()*0.15,
			upTo(d, qptest.Pick(d, 20*qptest.Microsecond, 200*qptest.Microsecond))
	}
	if d.Chance(0.1) {
		f.Corrupt = d.Float64() * 0.02
	}
	if d.Chance(0.1) {
		f.Rate, f.MarkAt = 10e9, 4<<10
	}
}

// timeout is a code that is long enough for the links.
func (p *Plan) timeout() uint8 {
	f := &p.Faults
	t := 8*(f.Delay+f.Jitter+f.ReorderBy) + 300*qptest.Microsecond
	for code := uint8(1); ; code++ {
		if qp.Time(wire.AckTimeout(code)) >= t {
			return code
		}
	}
}

// drawPair draws a connection.
func (p *Plan) drawPair(d qptest.Dice, typ qp.QPType) {
	mtu := qptest.Pick(d, wire.MTU256, wire.MTU256, wire.MTU512, wire.MTU1024)
	cfg := qptest.QPConfig{Type: typ, MTU: mtu, Timeout: p.timeout(), MinRNRTimer: uint8(1 + d.IntN(6)), QKey: 0x1234,
		RdAtomic: 1 + d.IntN(8), DestRdAtomic: 8, Selective: typ == qp.RC && d.Chance(0.5)}
	if d.Chance(0.1) { // a READ in pieces
		cfg.RdAtomic, cfg.DestRdAtomic = 64, qp.MaxRdAtomic
	}
	a, b := cfg, cfg
	if typ == qp.RC && d.Chance(0.15) && !p.Calm {
		b.Selective = !a.Selective
	}
	if typ != qp.UD && d.Chance(0.05) && !p.Calm {
		b.MTU = qptest.Pick(d, wire.MTU256, wire.MTU512, wire.MTU1024, wire.MTU4096)
	}
	if typ == qp.RC && d.Chance(0.05) && !p.Calm {
		b.DestRdAtomic = 1
	}
	for _, c := range []*qptest.QPConfig{&a, &b} {
		c.SQSigAll, c.SharedCQ = d.Chance(0.3), d.Chance(0.5)
		c.Cap = qp.Cap{
			MaxSendWR:     uint32(1 + d.IntN(24)),
			MaxRecvWR:     uint32(1 + d.IntN(24)),
			MaxSendSGE:    2,
			MaxRecvSGE:    2,
			MaxInlineData: 64,
		}
		c.CQE = qptest.Pick(d, 4, 64, 64, 64)
		if p.Calm {
			c.CQE = 512
		} else if d.Chance(0.2) {
			c.RNRRetry = uint8(1 + d.IntN(5))
		}
		c.WholeMessages = d.Chance(0.2)
		p.Apps = append(p.Apps, AppPlan{Node: d.IntN(len(p.Nodes)), Cfg: *c})
	}
}

// String prints the plan for a person.
func (p *Plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "lives of seed %d: calm %v links %+v on purpose %+v\n", p.Seed, p.Calm, p.Faults, p.Purpose)
	for i, n := range p.Nodes {
		fmt.Fprintf(&b, "  node %d %s window %d budget %d batch %d run %d hardware %+v\n", i, n.Addr, n.Engine.Window,
			n.Budget, n.Batch, n.MaxRun, n.Hardware)
	}
	for i, a := range p.Apps {
		fmt.Fprintf(&b, "  app %d: node %d %v MTU %v rd_atomic %d/%d rnr %d selective %v credits %v whole %v sigall "+
			"%v cqe %d cap %v shares %v domain %d\n", i, a.Node, a.Cfg.Type, a.Cfg.MTU,
			a.Cfg.RdAtomic, a.Cfg.DestRdAtomic, a.Cfg.RNRRetry, a.Cfg.Selective, a.Cfg.FlowControl, a.Cfg.WholeMessages,
			a.Cfg.SQSigAll, a.Cfg.CQE, a.Cfg.Cap, a.Shares, a.Domain)
	}
	for _, x := range p.Pools {
		fmt.Fprintf(&b, "  shared receive queue of XRC: %+v\n", x)
	}
	for _, x := range p.Deeds {
		fmt.Fprintf(&b, "    %7d ns: app %d: %s %#x\n", x.At, x.App, x.Kind, x.R)
	}
	return b.String()
}

// Shrink leaves deeds and faults out as long as the plan still fails in the same way, and returns
// what is left.
func Shrink(p *Plan, err error) (*Plan, error) {
	same := qptest.Kind(err)
	try := func(change func(*Plan)) bool {
		c := *p
		c.Deeds, c.Nodes = slices.Clone(p.Deeds), slices.Clone(p.Nodes)
		change(&c)
		e := c.Play(nil, nil)
		if e == nil || qptest.Kind(e) != same {
			return false
		}
		p, err = &c, e
		return true
	}
	for before := -1; before != len(p.Deeds); {
		before = len(p.Deeds)
		for n := len(p.Deeds); n >= 1; n /= 2 {
			for i := 0; i < len(p.Deeds); {
				if !try(func(c *Plan) { c.Deeds = slices.Delete(c.Deeds, i, min(i+n, len(c.Deeds))) }) {
					i += n
				}
			}
		}
		for _, change := range []func(f *qptest.Faults){
			func(f *qptest.Faults) { f.Loss = 0 }, func(f *qptest.Faults) {
				f.Duplicate = 0
			}, func(f *qptest.Faults) { f.Corrupt = 0 },
			func(f *qptest.Faults) {
				f.Reorder = 0
			}, func(f *qptest.Faults) { f.Jitter = 0 }, func(f *qptest.Faults) { f.Rate = 0 },
		} {
			try(func(c *Plan) { change(&c.Faults) })
		}
		for i := range p.Nodes {
			try(func(c *Plan) { c.Nodes[i].Hardware = qptest.Hardware{} })
		}
	}
	return p, err
}
