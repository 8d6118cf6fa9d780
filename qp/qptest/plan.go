package qptest

// A random world as data, so that it can be printed, run again and made smaller. NewPlan draws
// everything from the seed; nothing about a plan depends on how it runs.

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/wire"
)

// Plan is a random world: nodes, one kind of link between all of them, connections with their work,
// interventions.
type Plan struct {
	Seed     uint64
	Nodes    []NodeConfig
	Faults   Faults
	Hopeless bool // requests may fail for lack of answers
	Conns    []ConnPlan
	Acts     []Act
	SRQs     []SRQPlan
	Features []string // those of a swarm that it has

	Neighbours []*NeighbourPlan
	Crowded    bool // places for packets behind gaps are few
}

// ConnPlan is a connection and what is done on it, or for UD two queue pairs that send to each
// other.
type ConnPlan struct {
	Ends [2]EndPlan
}

// EndPlan is one side of a connection.
type EndPlan struct {
	Node      int
	Cfg       QPConfig
	Ops       []OpPlan
	Recvs     []RecvPlan
	RecvFirst int     // receives posted before anything is sent
	RecvEvery qp.Time // pace of the others
	Remote    int     // size of the region that the peer may use
	NoRights  bool    // it may not
	Groups    uint8   // UD: a bit for each of groups that it is in
	SRQ       int     // 1 + index of the shared queue that takes the place of Recvs; 0: none
}

// OpPlan is a send work request. Offsets are into the regions of the connection.
type OpPlan struct {
	At     qp.Time
	Kind   qp.WROpcode
	Len    int
	Pieces []int // lengths of the elements; empty for inline
	Local  int
	Remote int
	Flags  qp.SendFlags
	Imm    uint32
	Swap   uint64
	Group  int // UD: 1 + index of the group that it goes to; 0: to the peer
	SRQ    int // XRC: of Plan.SRQs, at the peer's node
	Fault  OpFault
}

// bare says that the request has no local elements.
func (o *OpPlan) bare() bool { return o.Kind == qp.WRFlush || o.Kind == qp.WRAtomicWrite }

// OpFault is a mistake in a work request.
type OpFault uint8

// Mistakes.
const (
	FaultNone   OpFault = iota
	FaultLKey           // no such local key
	FaultRKey           // no such remote key
	FaultRange          // beyond the end of the remote region
	FaultQKey           // UD: not the receiver's
	FaultTooBig         // UD: longer than the path MTU
	FaultSRQN           // XRC: no such shared receive queue
)

// RecvPlan is a receive work request.
type RecvPlan struct {
	Off, Len int
	Pieces   []int
	BadKey   bool
}

// Act is an intervention: the application ends one side of a connection.
type Act struct {
	At         qp.Time
	Conn, Side int
	Kind       ActKind
}

// ActKind says how.
type ActKind uint8

// Interventions.
const (
	ActError ActKind = iota
	ActReset
	ActDestroy
	ActDrain // SQD, and back to RTS when drained
)

// Dice draws the numbers of a plan.
type Dice struct{ *rand.Rand }

// Chance says yes with a probability.
func (d Dice) Chance(p float64) bool { return d.Float64() < p }

// between returns a number in [lo, hi].
func (d Dice) between(lo, hi int) int { return lo + d.IntN(hi-lo+1) }

// Pick returns one of a few values.
func Pick[T any](d Dice, v ...T) T { return v[d.IntN(len(v))] }

// pieces cuts n bytes into up to most elements, some of them empty.
func (d Dice) pieces(n, most int) []int {
	k := d.between(1, most)
	out := make([]int, 0, k)
	for i := 1; i < k; i++ {
		part := d.IntN(n + 1)
		out = append(out, part)
		n -= part
	}
	return append(out, n)
}

// NewPlan draws a world.
func NewPlan(seed uint64) *Plan {
	d := Dice{rand.New(rand.NewPCG(seed, 0x706c616e))}
	p := &Plan{Seed: seed}
	p.drawNodes(d)
	p.drawFaults(d)
	limit := 8 << 10
	if d.Chance(0.1) {
		limit = 300 << 10
	}
	for range d.between(1, wholeMix.conns) {
		p.drawConn(d, &wholeMix, limit)
	}
	if d.Chance(0.2) {
		p.drawFault(d)
	}
	p.drawHardware(Dice{rand.New(rand.NewPCG(seed, 0x4e4943))})
	for d.Chance(0.15) {
		c := d.IntN(len(p.Conns))
		p.Acts = append(p.Acts, Act{
			At:   qp.Time(d.IntN(int(2 * Millisecond))),
			Conn: c,
			Side: d.IntN(2),
			Kind: ActKind(d.IntN(4)),
		})
	}
	if d := (Dice{rand.New(rand.NewPCG(seed, 0x726f7773))}); !d.Chance(0.6) { // of its own
		p.drawRows(d)
	}
	if limit <= 8<<10 { // with dice of its own, so that the other worlds are what they were
		p.drawShared(Dice{rand.New(rand.NewPCG(seed, 0x737271))})
	}
	if d := (Dice{rand.New(rand.NewPCG(seed, 0x787263))}); d.Chance(0.25) && limit <= 8<<10 {
		p.drawXRC(d, &wholeMix, limit)
	}
	p.drawNeighbour(neighbourDice(seed), 0.06)
	return p
}

func (p *Plan) drawNodes(d Dice) {
	v6 := d.Chance(0.3)
	for i := range d.between(1, 3) {
		n := NodeConfig{Addr: fmt.Sprintf("10.1.0.%d", i+1)}
		if v6 {
			n.Addr = fmt.Sprintf("fd00::%d", i+1)
		}
		n.Engine.Window = Pick(d, 0, 0, 1, 2, 3, 8, 32, 500)
		if d.Chance(0.3) {
			n.Budget, n.Pace = d.between(1, 20), Microsecond
		}
		if d.Chance(0.3) {
			n.Batch = d.between(1, 5)
		}
		if d.Chance(0.2) {
			n.MaxRun, n.Engine.EvenPackets = 16, true
		}
		p.Nodes = append(p.Nodes, n)
	}
}

// drawFaults chooses links that retry limits survive; a tenth of the worlds has worse ones.
func (p *Plan) drawFaults(d Dice) {
	f := &p.Faults
	f.Delay = qp.Time(d.IntN(int(20 * Microsecond)))
	if d.Chance(0.1) {
		f.Delay = 0
	}
	if d.Chance(0.3) {
		f.Jitter = qp.Time(d.IntN(int(10*Microsecond)) + 1)
	}
	if d.Chance(0.4) {
		f.Loss = d.Float64() * 0.03
	}
	if d.Chance(0.2) {
		f.Burst = Burst{Enter: 0.005, Leave: 0.5, Loss: 0.7}
	}
	if d.Chance(0.25) {
		f.Duplicate = d.Float64() * 0.1
	}
	if d.Chance(0.25) {
		f.Reorder, f.ReorderBy = d.Float64()*0.1, qp.Time(d.IntN(int(20*Microsecond))+1)
	}
	if d.Chance(0.2) {
		f.Corrupt = d.Float64() * 0.02
	}
	if d.Chance(0.2) {
		f.Rate, f.Queue = Pick[int64](d, 1e9, 10e9, 40e9), Pick(d, 0, 64<<10, 256<<10)
		f.MarkAt = Pick(d, 0, 10<<10)
	}
	if p.Hopeless = d.Chance(0.1); p.Hopeless {
		f.Loss = d.Float64() * 0.5
		if d.Chance(0.5) {
			f.Partition = []Interval{{worldStart + 100*Microsecond, worldStart + qp.Time(d.IntN(int(100*Millisecond)))}}
		}
	}
}

// drawHardware gives some nodes of some worlds the habits of NICs, which know no selective repeat.
// It has dice of its own.
func (p *Plan) drawHardware(d Dice) {
	if d.Chance(0.6) {
		return
	}
	for i := range p.Nodes {
		if n := &p.Nodes[i]; d.Chance(0.6) {
			n.Hardware = NewHardware(d)
		}
		p.Nodes[i].SynthHead = d.Chance(0.2)
	}
	for i := range p.Conns {
		ends := &p.Conns[i].Ends
		for j := range ends {
			cfg := &ends[j].Cfg
			cfg.FlowControl = cfg.Type == qp.RC && d.Chance(0.6)
			if p.Nodes[ends[j].Node].Hardware == (Hardware{}) {
				continue
			}
			ends[0].Cfg.Selective, ends[1].Cfg.Selective = false, false
			if d.Chance(0.3) {
				cfg.MinRNRTimer = uint8(d.between(1, 31))
			}
		}
	}
}

// NewHardware draws habits.
func NewHardware(d Dice) Hardware {
	return Hardware{MigReq: d.Chance(0.8), Port: Pick[uint16](d, 0, 1, 69, 72, 1023, 4791, 49152), CNP: d.Chance(0.7),
		Identification: Pick(d, IDOwn, IDZero, IDCounting, IDRandom), Marks: d.Chance(0.3),
		DSCP: Pick[uint8](d, 0, 0, 26, 48), Credits: Pick(d, CreditsNone, CreditsHonest, CreditsHonest, CreditsZero,
			CreditsRandom),
		AskAlways: d.Chance(0.2), AckEvery: Pick(d, 0, 2, 4, 100), AckDelay: qp.Time(d.between(1, 20)) * Microsecond,
		AckFirst: d.Chance(0.3), RepeatNAK: Pick(d, 0, 0, 1, 9), Continues: d.Chance(0.3),
		Rereads: Pick(d, 0, 0, 0.05, 0.3)}
}

// worldStart is the time at which every world begins.
const worldStart = 1_000_000 * Second

// timeout is a timer code that is long enough for the links: several round trips with full queues,
// at the rate of the links or that of a queue pair, in bits per second.
func (p *Plan) timeout(limit int64) uint8 {
	f := &p.Faults
	t := 4*(2*(f.Delay+f.Jitter+f.ReorderBy)) + 500*Microsecond
	for _, rate := range []int64{f.Rate, limit} {
		if rate > 0 {
			t += qp.Time(int64(3*500*4200) * 8 * int64(Second) / rate)
		}
	}
	for code := uint8(1); ; code++ {
		if qp.Time(wire.AckTimeout(code)) >= t {
			return code
		}
	}
}

func (p *Plan) drawConn(d Dice, m *mix, limit int) { p.drawConnOf(d, m, Pick(d, m.types...), limit) }

func (p *Plan) drawConnOf(d Dice, m *mix, typ qp.QPType, limit int) {
	mtu := wire.MTU(d.between(1, 5))
	if limit > 64<<10 {
		mtu = max(mtu, 2)
	}
	depth := [2]int{d.between(1, 8), d.between(1, 8)}
	if d.Chance(0.15) {
		depth = [2]int{d.between(60, qp.MaxRdAtomic), d.between(60, qp.MaxRdAtomic)}
	}
	var c ConnPlan
	for i := range c.Ends {
		e := &c.Ends[i]
		e.Node = d.IntN(len(p.Nodes))
		e.Cfg = QPConfig{Type: typ, MTU: mtu, PSN: wire.PSN(d.Uint32()) & wire.PSNMask, Timeout: p.timeout(0),
			MinRNRTimer: uint8(d.between(1, 8)), RdAtomic: depth[i], DestRdAtomic: depth[1-i], SQSigAll: d.Chance(0.3),
			WholeMessages: d.Chance(0.2), SharedCQ: d.Chance(0.3), CQE: 512,
			TrafficClass: Pick[uint8](d, 0, 0, 2, 0x69), Cap: qp.Cap{MaxSendWR: uint32(d.between(1, 32)),
				MaxRecvWR: uint32(d.between(1, 32)), MaxSendSGE: uint32(d.between(1, 5)),
				MaxRecvSGE: uint32(d.between(1, 5)), MaxInlineData: 128}}
		if d.Chance(0.2) { // around the wrap
			e.Cfg.PSN = wire.PSN(0).Add(uint32(1<<24 - d.IntN(40)))
		}
		if d.Chance(0.15) {
			e.Cfg.RateLimit = Pick[uint32](d, 200_000, 1_000_000, 10_000_000)
		}
		if d.Chance(0.1) {
			e.Cfg.RNRRetry = uint8(d.between(1, 6))
		}
		e.Remote = remoteSize(limit)
		e.RecvFirst, e.RecvEvery = d.IntN(33), qp.Time(d.IntN(int(40*Microsecond))+1)
	}
	if typ == qp.RC && d.Chance(0.5) {
		c.Ends[0].Cfg.Selective, c.Ends[1].Cfg.Selective = true, true
		long := c.Ends[0].Cfg.PSN%2 == 1 // which needs no draw of its own
		c.Ends[0].Cfg.LongWindow, c.Ends[1].Cfg.LongWindow = long, long
	}
	if typ == qp.UD {
		limit = 4096
	}
	if slowest := min(c.Ends[0].Cfg.RateLimit-1, c.Ends[1].Cfg.RateLimit-1) + 1; slowest != 0 {
		for i := range c.Ends { // of no limit, 0-1 is the largest
			c.Ends[i].Cfg.Timeout = p.timeout(int64(slowest) * 1000)
		}
	}
	for i := range c.Ends {
		c.Ends[i].drawOps(d, m, limit)
	}
	for i := range c.Ends {
		c.Ends[i].drawRecvs(d, c.Ends[1-i].Ops, limit)
	}
	if m.plain {
		c.Ends[0].plain()
		c.Ends[1].plain()
	}
	p.Conns = append(p.Conns, c)
}

// remoteSize is how much of the remote region operations use; beyond it is only for FaultRange.
func remoteSize(limit int) int { return limit + 256 }

func (e *EndPlan) drawOps(d Dice, m *mix, limit int) {
	at, reads := qp.Time(0), [][2]int(nil)
	local := 0
	most := m.most
	if limit > 64<<10 {
		most = 12
	}
	for range d.IntN(most) {
		if d.Chance(0.5) {
			at += qp.Time(d.IntN(int(30 * Microsecond)))
		}
		o := OpPlan{At: at, Kind: Pick(d, m.kinds[e.Cfg.Type]...), Imm: d.Uint32(), Swap: d.Uint64()}
		o.Len = d.size(m, e.Cfg.MTU.Bytes(), limit)
		o.Remote = d.IntN(remoteSize(limit) - o.Len + 1)
		atomic := o.Kind == qp.WRAtomicCmpAndSwp || o.Kind == qp.WRAtomicFetchAndAdd
		if atomic || o.Kind == qp.WRAtomicWrite {
			o.Len, o.Remote = 8, 8*d.IntN(16)
		}
		o.Pieces = d.pieces(o.Len, int(e.Cfg.Cap.MaxSendSGE))
		if o.Kind == qp.WRRead || atomic { // every result has a place of its own
			o.Local = local
			local += o.Len
		} else if o.Local = d.IntN(256); !o.bare() && o.Len <= 128 && d.Chance(0.2) {
			o.Flags, o.Pieces = qp.SendInline, nil
		}
		if d.Chance(0.7) {
			o.Flags |= qp.SendSignaled
		}
		if d.Chance(0.1) {
			o.Flags |= qp.SendSolicited
		}
		if d.Chance(0.1) {
			o.Flags |= qp.SendFence
		}
		if o.Flags&qp.SendFence != 0 {
			reads = nil
		}
		// What a READ reads may be changed by a later request unless that is fenced: READs are
		// executed again after losses.
		if o.Kind == qp.WRRead {
			reads = append(reads, [2]int{o.Remote, o.Remote + o.Len})
		} else if o.Kind != qp.WRSend && o.Kind != qp.WRSendWithImm {
			for _, r := range reads {
				if o.Remote < r[1] && r[0] < o.Remote+o.Len {
					o.Flags |= qp.SendFence
					reads = nil
					break
				}
			}
		}
		e.Ops = append(e.Ops, o)
	}
	if n := len(e.Ops); n > 0 { // so that the queue drains visibly
		e.Ops[n-1].Flags |= qp.SendSignaled
	}
}

// drawRecvs makes a receive for every request of the peer that needs one, and a few more.
func (e *EndPlan) drawRecvs(d Dice, peer []OpPlan, limit int) {
	off := 0
	add := func(n int) {
		e.Recvs = append(e.Recvs, RecvPlan{Off: off, Len: n, Pieces: d.pieces(n, int(e.Cfg.Cap.MaxRecvSGE))})
		off += n
	}
	for _, o := range peer {
		switch {
		case o.Kind != qp.WRSend && o.Kind != qp.WRSendWithImm && o.Kind != qp.WRWriteWithImm:
		case e.Cfg.Type == qp.UD:
			add(qp.GRHSize + o.Len + d.IntN(40))
		case e.Cfg.Type == qp.UC:
			add(min(limit, 2*o.Len))
		case o.Kind == qp.WRWriteWithImm && d.Chance(0.5):
			add(0)
		default:
			add(o.Len + Pick(d, 0, 0, 1, 100))
		}
	}
	for range d.IntN(3) {
		add(d.IntN(1000))
	}
}

// drawFault makes one mistake somewhere.
func (p *Plan) drawFault(d Dice) {
	c := &p.Conns[d.IntN(len(p.Conns))]
	i := d.IntN(2)
	a, b := &c.Ends[i], &c.Ends[1-i]
	ud := a.Cfg.Type == qp.UD
	switch kind := d.IntN(7); {
	case kind == 0 && !ud:
		b.NoRights = true
	case kind == 1 && !ud:
		b.Cfg.Access, b.Cfg.NoAccess = Pick(d, 0, mr.RemoteRead, mr.RemoteWrite, mr.RemoteAtomic,
			mr.RemoteAny&^mr.FlushPersistent), true
	case kind == 2 && len(b.Recvs) > 0:
		r := &b.Recvs[d.IntN(len(b.Recvs))]
		r.Len /= 2
		r.Pieces = []int{r.Len}
	case kind == 3 && len(b.Recvs) > 0 && a.Cfg.Type == qp.RC:
		b.Recvs[d.IntN(len(b.Recvs))].BadKey = true
	case len(a.Ops) > 0:
		o := &a.Ops[d.IntN(len(a.Ops))]
		o.Fault = Pick(d, FaultLKey, FaultRKey, FaultRange)
		if ud {
			o.Fault = Pick(d, FaultLKey, FaultQKey, FaultTooBig)
		}
	}
}

// String prints the plan for a person.
func (p *Plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "world of seed %d: links %+v hopeless %v features %q\n", p.Seed, p.Faults, p.Hopeless, p.Features)
	for i, n := range p.Nodes {
		fmt.Fprintf(&b, "  node %d %s %v window %d first MSN %d budget %d batch %d run %d synth %v hardware %+v\n", i,
			n.Addr, n.More, n.Engine.Window, n.Engine.FirstMSN, n.Budget, n.Batch, n.MaxRun, n.SynthHead, n.Hardware)
	}
	for i, c := range p.Conns {
		for j, e := range c.Ends {
			fmt.Fprintf(&b, "  conn %d end %d: node %d %v MTU %v PSN %d rd_atomic %d/%d retry %d rnr %d selective %v "+
				"credits %v kbps %d sigall %v cap %v recv %d then every %d ns rights %v access %v srq %d row "+
				"%d groups %b\n", i, j, e.Node,
				e.Cfg.Type, e.Cfg.MTU, e.Cfg.PSN, e.Cfg.RdAtomic, e.Cfg.DestRdAtomic, e.Cfg.RetryCnt, e.Cfg.RNRRetry,
				e.Cfg.Selective, e.Cfg.FlowControl, e.Cfg.RateLimit, e.Cfg.SQSigAll, e.Cfg.Cap, e.RecvFirst,
				e.RecvEvery, !e.NoRights, e.Cfg.Access, e.SRQ, e.Cfg.Row, e.Groups)
			for _, o := range e.Ops {
				fmt.Fprintf(&b, "    %6d ns %v len %d %v remote %d flags %x group %d fault %d srq %d\n", o.At, o.Kind,
					o.Len, o.Pieces, o.Remote, o.Flags, o.Group, o.Fault, o.SRQ+1)
			}
			for _, r := range e.Recvs {
				fmt.Fprintf(&b, "    receive %d %v bad %v\n", r.Len, r.Pieces, r.BadKey)
			}
		}
	}
	for i, s := range p.SRQs {
		fmt.Fprintf(&b, "  srq %d: node %d, %d requests of %v, limit %d, first %d then every %d ns, %+v\n", i+1, s.Node,
			s.Init.MaxWR, s.Pieces, s.Init.Limit, s.First, s.Every, s.Acts)
	}
	for _, a := range p.Acts {
		fmt.Fprintf(&b, "  at %d ns: act %d on conn %d end %d\n", a.At, a.Kind, a.Conn, a.Side)
	}
	for _, n := range p.Neighbours {
		fmt.Fprintf(&b, "  neighbour: %+v\n", *n)
	}
	return b.String()
}
