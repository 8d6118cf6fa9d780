package qptest

// FuzzEngine: any bytes become a story for pairs of engines and a hostile peer: posts, honest
// packets that arrive, are lost, doubled or changed, invented packets, time, states and attributes,
// queues that change their size, storage that takes its time, memory that is registered again,
// addresses that go. ICRCs are made anew after every change, so that mutants get as far as the
// state machine. Nothing may panic, write beside its memory, complete twice, send what is
// malformed, or spin.

import (
	"math/rand/v2"
	"testing"

	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/wire"
)

// story reads decisions from bytes; at their end everything is 0.
type story struct {
	s     *Script
	data  []byte
	ends  []*End // in pairs: cast
	recvs map[*End]int
	// windows are of type 2, one of each end; srqs those of the ends that have one.
	windows map[*End]*mr.Window
	srqs    map[*End]*SRQ
}

// cast is who is in a story.
var cast = []struct {
	types     [2]qp.QPType
	selective bool
	shared    bool // the second end has a shared receive queue
}{
	{types: [2]qp.QPType{qp.RC, qp.RC}},
	{types: [2]qp.QPType{qp.UC, qp.UC}},
	{types: [2]qp.QPType{qp.UD, qp.UD}},
	{types: [2]qp.QPType{qp.RC, qp.RC}, selective: true},
	{types: [2]qp.QPType{qp.RC, qp.RC}, shared: true},
	{types: [2]qp.QPType{qp.XRCSend, qp.XRCRecv}, shared: true},
}

func (y *story) byte() int {
	if len(y.data) == 0 {
		return 0
	}
	b := y.data[0]
	y.data = y.data[1:]
	return int(b)
}

func (y *story) uint32() uint32 {
	return uint32(y.byte())<<24 | uint32(y.byte())<<16 | uint32(y.byte())<<8 | uint32(y.byte())
}

func FuzzEngine(f *testing.F) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for n := range 24 {
		b := make([]byte, 40+n*30)
		for i := range b {
			b[i] = byte(rnd.Uint32())
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, data []byte) { runStory(t, data) })
}

// fuzzMemory is the size of each region, small because every story makes many.
const fuzzMemory = 8 << 10

func runStory(t *testing.T, data []byte) {
	y := &story{s: NewScript(t), data: data, recvs: map[*End]int{}, windows: map[*End]*mr.Window{}, srqs: map[*End]*SRQ{}}
	y.s.Unchecked, y.s.Memory = true, fuzzMemory
	y.s.MaxEvents = 100_000
	for i := range cast {
		y.enter(i)
	}
	for len(y.data) > 0 && y.s.Err() == nil {
		y.act()
	}
	y.finish()
	y.s.check()
}

// enter makes the ends of row i of the cast, connected, each with a window.
func (y *story) enter(i int) {
	var pair [2]*End
	for side, typ := range cast[i].types {
		cfg := QPConfig{Type: typ, Selective: cast[i].selective, MTU: wire.MTU256, PSN: wire.PSN(0).Add(uint32(1<<24 - 3*i)), CQE: 4096,
			RdAtomic: 2, DestRdAtomic: 2, Timeout: 3, DontConnect: true}
		e := y.s.newEnd(NodeConfig{}, cfg)
		if cast[i].shared && side == 1 {
			init := qp.SRQInit{MaxWR: 8, MaxSGE: 1, Limit: 3}
			if typ == qp.XRCRecv {
				init.XRCD = xrcDomain
			}
			y.srqs[e] = e.Node.CreateSRQ(init)
			if typ == qp.RC {
				_ = e.Destroy()
				cfg.SRQ = y.srqs[e]
				e.QP = e.Node.CreateQP(cfg)
			}
		}
		var err error
		if y.windows[e], err = e.Node.Memory.AllocWindow(e.Node.PD, mr.Window2); err != nil {
			panic(err)
		}
		storage(e)
		pair[side] = e
	}
	if cast[i].types[0] == qp.UD {
		pair[0].Activate()
		pair[1].Activate()
	} else {
		y.s.Connect(pair[0].QP, pair[1].QP)
	}
	y.ends = append(y.ends, pair[:]...)
}

// act does one thing.
func (y *story) act() {
	e := y.ends[y.byte()%len(y.ends)]
	peer := y.peer(e)
	switch op := y.byte() % 22; op {
	case 0, 1, 2:
		y.post(e, peer)
	case 3, 4:
		y.recv(e)
	case 5, 6, 7, 8:
		y.deliver(op == 8)
	case 9:
		if len(y.s.held) > 0 {
			y.s.held = y.s.held[1:]
		}
	case 10:
		y.s.RunFor(qp.Time(y.byte()) * 2 * Microsecond)
	case 11:
		y.s.RunFor(qp.Time(y.byte()) * 100 * Microsecond)
	case 12:
		y.modify(e, peer)
	case 16:
		y.resize(e)
	case 17:
		y.sync(e, y.byte()%8 > 0)
	case 18:
		y.queue(e)
	case 19:
		y.address(e.Node, y.byte()%2 > 0)
	case 20:
		y.reregister(e)
	case 21:
		y.set(e)
	default:
		y.invent(e, peer)
	}
}

func (y *story) peer(e *End) *End {
	for i, x := range y.ends {
		if x == e {
			return y.ends[i^1]
		}
	}
	return nil
}

// post posts some work request, most of them good.
func (y *story) post(e, peer *End) {
	off, n := y.byte()*16, y.byte()*y.byte()%2000
	wr := e.Send(off, n)
	wr.Opcode = qp.WROpcode(y.byte() % 16)
	wr.RKey, wr.RemoteAddr = peer.Remote.RKey(), peer.Remote.Addr(y.byte()*8)
	wr.Flags = qp.SendFlags(y.byte() & 7)
	wr.Imm, wr.RemoteQPN, wr.RemoteQKey = 7, peer.QPN(), peer.Cfg.QKey
	wr.InvalidateKey = y.windows[peer].RKey()
	if y.byte()%4 == 0 {
		wr.RKey = y.windows[peer].RKey()
	}
	if q := y.srqs[peer]; q != nil {
		wr.RemoteSRQN = q.Number()
	}
	switch wr.Opcode {
	case qp.WRAtomicCmpAndSwp, qp.WRAtomicFetchAndAdd:
		wr.SGL = []qp.SGE{e.Local.SGE(off, 8)}
	case qp.WRLocalInv, qp.WRBindMW:
		key := y.windows[e].RKey()
		wr.SGL, wr.InvalidateKey = nil, key
		wr.Bind = &qp.BindInfo{WindowKey: key, NewKey: key ^ uint32(y.byte()), LKey: e.Remote.LKey(), Addr: e.Remote.Addr(y.byte() * 8),
			Length: uint64(y.byte() * 16), Access: mr.RemoteAny &^ mr.FlushPersistent}
	case qp.WRFlush, qp.WRAtomicWrite:
		wr.SGL, wr.Swap = nil, uint64(n)
		wr.Flush = qp.FlushInfo{Length: uint32(n), Placement: qp.Placement(y.byte() % 4), Selectivity: qp.Selectivity(y.byte() % 3)}
	}
	if e.Type() == qp.UD {
		if e.Node.GIDs[0].IsZero() { // no handle can be made
			return
		}
		wr.AH = e.handle(peer.Node.GID, qp.AHAttr{})
	}
	if y.byte() == 3 && len(wr.SGL) > 0 {
		wr.SGL[0].LKey++
	}
	_, _ = e.PostSend(wr)
}

func (y *story) recv(e *End) {
	n := y.byte() * 12
	if e.posted+n > fuzzMemory {
		e.posted = 0
	}
	if q := y.srqs[e]; q != nil {
		_, _ = q.PostRecv(e.Recv.SGE(e.posted, n))
	} else if _, err := e.PostRecv(e.Recv.SGE(e.posted, n)); err == nil {
		y.recvs[e]++
	}
	e.posted += n
}

// resize changes a shared receive queue, and holds what it says of that against what is in it.
func (y *story) resize(e *End) {
	q := y.srqs[e]
	if q == nil {
		return
	}
	size := uint32(y.byte() % 20)
	_, err := q.SRQ.Modify(qp.SRQAttr{MaxWR: size, Limit: size / 2}, qp.SRQMaxWR|qp.SRQLimit)
	if (err == nil) != (size > 0 && int(size) >= q.outstanding) {
		y.s.Fail("%s: a shared queue with %d outstanding is made %d large: %v", e.Node, q.outstanding, size, err)
	}
	if err == nil {
		q.attr.MaxWR = size
	}
}

// sync is the end of what storage does for the oldest FLUSH.
func (y *story) sync(e *End, ok bool) {
	if syncs := e.Node.Syncs; len(*syncs) > 0 {
		first := (*syncs)[0]
		*syncs = (*syncs)[1:]
		e.Node.turn(func() { e.Node.Engine.Synced(y.s.Now, first, ok) })
	}
}

// queue resizes a completion queue, arms or moderates it.
func (y *story) queue(e *End) {
	c := []*qp.CQ{e.sendCQ, e.recvCQ}[y.byte()%2]
	if c == nil {
		return
	}
	switch n := y.byte(); n % 4 {
	case 0:
		_ = e.Node.Control(func() error { return e.Node.Engine.ResizeCQ(c, 1024+16*n) })
	case 1:
		c.Arm(n&4 != 0)
	case 2:
		c.ArmNow()
	default:
		_ = e.Node.Control(func() error {
			return e.Node.Engine.ModerateCQ(y.s.Now, c, n>>2, qp.Time(y.byte())*Microsecond)
		})
	}
}

// address takes the address of a node away, or gives it back.
func (y *story) address(n *Node, back bool) {
	if back {
		n.SetGIDs(n.GID)
	} else {
		n.SetGIDs(wire.GID{})
	}
}

// reregister changes what peers may use, or how.
func (y *story) reregister(e *End) {
	to := mr.Registration{Mem: e.Remote.Bytes[:fuzzMemory>>(y.byte()%3)], IOVA: e.Remote.Addr(0),
		Access: []mr.Access{mr.LocalWrite | mr.RemoteAny | mr.MWBind, mr.RemoteRead, mr.LocalWrite | mr.RemoteWrite}[y.byte()%3]}
	_ = e.Node.Memory.Reregister(e.Remote.Region, []mr.Change{mr.ChangeTranslation, mr.ChangeAccess,
		mr.ChangeTranslation | mr.ChangeAccess}[y.byte()%3], to)
}

// set changes attributes, whatever the state.
func (y *story) set(e *End) {
	n := y.byte()
	a := qp.QPAttr{State: qp.StateSQD, EnSQDAsyncNotify: n&1 != 0, AccessFlags: mr.RemoteAny, RateLimit: 1000 << (n % 16),
		MaxDestRdAtomic: uint8(n % 9), MaxRdAtomic: uint8(n % 5), MinRNRTimer: uint8(n % 32), Timeout: uint8(n % 4)}
	mask := []qp.AttrMask{qp.AttrState | qp.AttrEnSQDAsyncNotify, qp.AttrAccessFlags, qp.AttrRateLimit, qp.AttrMaxDestRdAtomic,
		qp.AttrMaxRdAtomic | qp.AttrTimeout, qp.AttrMinRNRTimer}[y.byte()%6]
	_ = e.Node.Control(func() error { return e.Node.Engine.ModifyQP(y.s.Now, e.QP.QP, &a, mask) })
}

// deliver lets a waiting packet arrive: the first or a later one, changed or not, and perhaps once
// more later.
func (y *story) deliver(change bool) {
	if len(y.s.held) == 0 {
		return
	}
	i := 0
	if b := y.byte(); b > 200 {
		i = b % len(y.s.held)
	}
	f := y.s.held[i]
	if !change {
		y.s.held = append(y.s.held[:i], y.s.held[i+1:]...)
	} else {
		f = f.clone(y.s.World)
		for range 1 + y.byte()%3 {
			at := f.head + y.byte()%min(40, len(f.pkt)-f.head-4)
			f.pkt[at] ^= 1 << (y.byte() % 8)
		}
		reseal(f)
	}
	f.to.deliver([]*Flight{f.clone(y.s.World)})
}

func reseal(f *Flight) {
	fr := wire.Frame{Head: f.pkt[:f.head], Body: f.pkt[f.head:]}
	wire.Seal(&fr)
}

// crafts are the opcodes that an invented packet may have.
var crafts = []wire.Opcode{wire.RCSendFirst, wire.RCSendMiddle, wire.RCSendLast, wire.RCSendLastImm, wire.RCSendOnly, wire.RCSendOnlyImm,
	wire.RCWriteFirst, wire.RCWriteMiddle, wire.RCWriteLast, wire.RCWriteLastImm, wire.RCWriteOnly, wire.RCWriteOnlyImm, wire.RCReadRequest,
	wire.RCReadResponseFirst, wire.RCReadResponseMiddle, wire.RCReadResponseLast, wire.RCReadResponseOnly, wire.RCAcknowledge,
	wire.RCAtomicAcknowledge, wire.RCCompareSwap, wire.RCFetchAdd, wire.RCSendLastInv, wire.RCSendOnlyInv, wire.RCFlush, wire.RCAtomicWrite,
	wire.UCSendFirst, wire.UCSendMiddle, wire.UCSendLast, wire.UCWriteFirst, wire.UCWriteMiddle, wire.UCWriteLast, wire.UCWriteOnlyImm,
	wire.UDSendOnly, wire.UDSendOnlyImm, wire.CNP}

// invent makes a packet from e's peer to e.
func (y *story) invent(e, peer *End) {
	c := Craft{Op: crafts[y.byte()%len(crafts)], PSN: wire.PSN(y.byte() - 64), AckReq: y.byte()&1 != 0, VA: e.Remote.Addr(y.byte() * 8),
		RKey: e.Remote.RKey(), Len: uint32(y.byte()), QKey: e.Cfg.QKey, SrcQP: peer.QPN(), Syn: wire.Syndrome(y.byte())}
	if a := e.Node.Engine.QueryQP(e.QP.QP); y.byte()&1 != 0 { // near what is expected
		c.PSN = a.RQPSN.Add(uint32(c.PSN))
		if c.Op.Info().Has(wire.OpResponse) {
			c.PSN = a.SQPSN.Add(uint32(c.PSN))
		}
	}
	if c.MSN = wire.PSN(c.Len); c.Len&1 != 0 { // as selective repeat has it
		c.MSN = c.PSN.Add(c.Len >> 1)
	}
	if op := c.Op.Operation().Of(wire.ServiceXRC); e.Type() >= qp.XRCSend && op.Info().Flags != 0 {
		c.Op = op
	}
	if q := y.srqs[e]; q != nil {
		c.SRQN = q.Number() ^ uint32(y.byte()&1)
	}
	c.Placement, c.Selectivity = uint8(y.byte()%4), uint8(y.byte()%3)
	if info := c.Op.Info(); info.Has(wire.OpPayload) {
		n := [4]int{y.byte(), 256, 8, 256}[y.byte()%4]
		c.Payload = make([]byte, n)
		if info.Has(wire.OpStart | wire.OpEnd) {
			c.Len = uint32(n)
		}
	}
	if y.byte() < 16 {
		c.Len, c.VA, c.RKey = y.uint32(), uint64(y.uint32())<<32|uint64(y.uint32()), y.uint32()
	}
	path, err := wire.NewPath(peer.Node.GID, e.Node.GID, 0xc000, uint8(y.byte()), 64, 0)
	if err != nil {
		panic(err)
	}
	fr := c.Frame(&path, e.QPN())
	e.Node.deliver([]*Flight{y.s.flight(peer.Node, e.Node, &fr)})
}

// modify tries some transition.
func (y *story) modify(e, peer *End) {
	to := qp.QPState(y.byte() % 8)
	mask := qp.AttrState
	switch {
	case to == qp.StateInit && e.State() == qp.StateReset:
		mask |= toInit[e.Type()]
	case to == qp.StateRTR:
		mask |= toRTR[e.Type()]
	case to == qp.StateRTS && e.State() == qp.StateRTR:
		mask |= toRTS[e.Type()]
	}
	a := e.attr(peer.Node.GID, peer.QPN(), peer.Cfg.PSN)
	a.State = to
	if to == qp.StateReset {
		y.recvs[e] = len(e.RecvWCs) // forgotten without completions
	}
	_ = e.Node.Control(func() error { return e.Node.Engine.ModifyQP(y.s.Now, e.QP.QP, &a, mask) })
}

// finish moves everything to ERR: every receive that was posted has completed, or is in its shared
// queue still, and the engines are at rest.
func (y *story) finish() {
	for _, e := range y.ends {
		if e.State() != qp.StateReset {
			_ = e.Node.Control(func() error {
				return e.Node.Engine.ModifyQP(y.s.Now, e.QP.QP, &qp.QPAttr{State: qp.StateErr}, qp.AttrState)
			})
			if y.srqs[e] == nil && len(e.RecvWCs) != y.recvs[e] {
				y.s.Fail("%s: %d receives posted, %d completed", e.QP, y.recvs[e], len(e.RecvWCs))
			}
		}
	}
	for _, e := range y.ends {
		if q := y.srqs[e]; q != nil {
			if _, err := q.SRQ.Modify(qp.SRQAttr{MaxWR: uint32(max(q.outstanding, 1))}, qp.SRQMaxWR); err != nil {
				y.s.Fail("%s: %d requests of a shared queue have no completion, and it cannot be as small: %v", e.Node, q.outstanding, err)
			}
			if q.outstanding > 1 {
				if _, err := q.SRQ.Modify(qp.SRQAttr{MaxWR: uint32(q.outstanding) - 1}, qp.SRQMaxWR); err == nil {
					y.s.Fail("%s: %d requests of a shared queue have no completion, and it has lost some", e.Node, q.outstanding)
				}
			}
		}
	}
	for _, e := range y.ends {
		for len(*e.Node.Syncs) > 0 {
			y.sync(e, true)
		}
	}
	y.s.Clear()
	_ = y.s.RunFor(1000 * Second)
	for _, n := range y.s.Nodes {
		if d := n.Engine.PollTimeout(); d != qp.Never {
			y.s.Fail("%s: all queue pairs are in ERR but there is a deadline", n)
		}
	}
}
