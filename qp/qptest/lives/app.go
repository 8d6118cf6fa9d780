package lives

// An application: its memory, the keys it has given out, its queue pair and the lives of that. What
// is in memory and what should be there lie beside each other; rules.go compares them.

import (
	"encoding/binary"
	"fmt"

	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/qp/qptest"
	"github.com/goroce/goroce/wire"
)

// The memory of an application by purpose.
const (
	// sourceSize is what peers may READ; its bytes tell which generation of the memory they are of.
	sourceSize = 1 << 10
	targetSize = 5 << 10 // where peers may WRITE and do atomics; 0 until then
	ownSize    = 8 << 10 // data to send, receive buffers, results
	targetAt   = sourceSize
	ownAt      = targetAt + targetSize
	spareAt    = ownAt + ownSize
	spareSize  = 3 * longest // receive buffers for what is still waiting when all deeds are done
	memorySize = spareAt + spareSize

	longest = 1544 // bytes that a receive takes: any message, behind a GRH

	untouched = 0xee // what receive buffers and results hold before something arrives
)

// app is an application.
type app struct {
	w    *world
	name string
	plan *AppPlan
	cfg  qptest.QPConfig // of the plan; attributes that were modified since are changed here
	node *qptest.Node
	base uint64 // address of the first byte of memory, whatever is registered of it

	mem, want  []byte
	generation byte // of the source area
	claims     []*claim

	locals [3]*grant  // keys of its own requests, each for all of its memory
	grants []*grant   // keys for peers that are or may be valid
	window *mr.Window // of type 2
	common *mr.Window // of type 1, from the first bind on
	ah     *qp.AH

	pool     *pool // where its queue pairs receive, nil: in queues of their own
	life     *life // of its queue pair at present; nil only before the first
	lives    []*life
	cqs      []*qp.CQ
	bells    []*bell // of those that it has armed or moderated
	list     *list   // that it builds; nil: requests are posted one by one
	coming   *bond   // it is about to reconnect as an end of this one
	deaf     bool    // it does not poll
	access   mr.Access
	saidLast bool // it has posted its last request: help posts it

	quit     bool      // its queue pair was closed at the end
	oversize *oversize // the packet at hand is longer than the path MTU
}

// oversize is what the engine had kept before a packet came that is too long to be kept.
type oversize struct{ kept uint64 }

// claim is a piece of memory in use.
type claim struct {
	off, len int
	work     *work
	free     func() bool
}

// life is what lies between two RESETs of a queue pair.
type life struct {
	*app
	q      *qp.QP
	cqs    [2]*qp.CQ // of sends and of receives
	bond   *bond     // nil before it is connected
	over   bool      // RESET, or its queue pair was closed
	mute   bool      // no completion of it may come any more: all had been polled when it ended
	failed bool      // a request has failed: the rest is flushed
	sends  []*work   // without completion, oldest first
	recvs  []*work
	// newest is the latest SEND or WRITE with immediate that has arrived in a pool; nil: in the
	// queue pair's own queue
	newest map[*pool]uint64

	taken    bool // its application has ended it, see took
	reads    []readAsked
	lastWQEs int  // events EventQPLastWQE
	awaits   bool // the event that its send queue has drained
}

// grant is a key: a region or a bound window.
type grant struct {
	app        *app
	region     *mr.Region
	window     *mr.Window
	key        uint32
	from, to   int // of the application's memory
	rights     mr.Access
	generation byte
	dead       bool
	by         *life // a window of type 2 obeys this life's queue pair only
}

// isWindow says whether the key is a window's of a type.
func (g *grant) isWindow(typ mr.WindowType) bool { return g.window != nil && g.window.Type() == typ }

// work is a work request.
type work struct {
	id       uint64
	life     *life
	kind     qp.WROpcode
	recv     bool
	pool     *pool // a receive of a shared queue: life is nil
	signaled bool
	local    *grant // of its elements; nil: inline or none
	own      int    // where they begin in own memory
	len      int
	target   *grant // RDMA: the key that was used
	at       int    // and where in the peer's memory
	to       *app   // the application that it was meant for
	queue    uint32 // XRC: the number that it names
	hopeless bool   // XRC: which is none for it
	after    func() // what its success means

	flushed   int  // FLUSH: what storage of the peer's node had done when it was posted
	durable   bool // FLUSH: it is for storage
	landed    int  // WRITE, atomic: bytes of the peer's memory that it has changed
	arrived   bool // SEND, WRITE with immediate: the receive that took it has completed
	completed bool
	done      bool // completed, or no completion will come
	ok        bool // with success
}

func (w *world) newApp(i int, plan *AppPlan) *app {
	a := &app{w: w, name: fmt.Sprintf("app%d", i), plan: plan, cfg: plan.Cfg, node: w.Nodes[plan.Node],
		base: uint64(i+1) << 32, mem: make([]byte, memorySize), want: make([]byte, memorySize)}
	a.access = mr.RemoteAny
	if plan.Shares {
		a.pool = w.poolOf(a.node)
	}
	a.renewSource()
	for i := range a.locals {
		a.openLocal(i)
	}
	a.openRemote(targetAt+targetSize, a.access|mr.LocalWrite|mr.MWBind)
	a.create()
	return a
}

func (a *app) String() string { return a.name }

// fail reports a violation of a rule.
func (a *app) fail(format string, args ...any) {
	a.w.Fail("%s: "+format, append([]any{a.name}, args...)...)
}

// must reports an error of a call that should have had none.
func (a *app) must(err error, what string) {
	if err != nil {
		a.fail("%s: %v", what, err)
	}
}

// set is the application writing its own memory.
func (a *app) set(off int, b []byte) {
	copy(a.mem[off:], b)
	copy(a.want[off:], b)
}

// sourceByte is what the source area holds in a generation.
func sourceByte(generation byte, off int) byte { return byte(off*7) ^ generation*37 }

// renewSource gives the source area new contents.
func (a *app) renewSource() {
	a.generation++
	for i := range sourceSize {
		a.mem[i] = sourceByte(a.generation, i)
	}
	copy(a.want, a.mem[:sourceSize])
}

// pattern is the data of a request: bytes that follow from its WRID, none of them 0. A SEND begins
// with the WRID itself.
func pattern(k *work, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = patternByte(k, i)
	}
	if k.kind == qp.WRSend || k.kind == qp.WRSendWithInv {
		binary.LittleEndian.PutUint64(b, k.id)
	}
	return b
}

func patternByte(k *work, i int) byte { return byte(k.id*31+uint64(i)*13)%251 + 1 }

// claim finds n free bytes in an area, beginning the search where r says; -1 if there are none.
func (a *app) claim(k *work, from, size, n int, r uint32, free func() bool) int {
	if n > size {
		return -1
	}
	kept := a.claims[:0]
	for _, c := range a.claims {
		if !c.free() {
			kept = append(kept, c)
		}
	}
	a.claims = kept
	for range 16 {
		off := from + int(r%uint32(size-n+1))&^7
		r = r*1664525 + 1013904223
		if a.unclaimed(off, n) {
			a.claims = append(a.claims, &claim{off, n, k, free})
			return off
		}
	}
	return -1
}

func (a *app) unclaimed(off, n int) bool {
	for _, c := range a.claims {
		if off < c.off+c.len && c.off < off+n {
			return false
		}
	}
	return true
}

// openLocal registers all memory for the application's own use.
func (a *app) openLocal(i int) {
	r, err := a.node.Memory.Register(a.node.PD, a.mem, a.base, mr.LocalWrite)
	a.must(err, "Register")
	a.locals[i] = &grant{app: a, region: r, key: r.LKey(), to: memorySize}
}

// openRemote registers the memory for peers up to some byte.
func (a *app) openRemote(to int, rights mr.Access) {
	r, err := a.node.Memory.Register(a.node.PD, a.mem[:to], a.base, rights)
	a.must(err, "Register")
	a.grants = append(a.grants, &grant{
		app:        a,
		region:     r,
		key:        r.RKey(),
		to:         to,
		rights:     rights,
		generation: a.generation,
	})
}

// create makes a queue pair, and completion queues if there are none or they have overrun.
func (a *app) create() {
	n, l := a.node, &life{app: a, newest: map[*pool]uint64{}}
	if old := a.life; old != nil && old.cqs[0].Err() == nil && old.cqs[1].Err() == nil {
		l.cqs = old.cqs
	} else {
		for i := range l.cqs {
			var err error
			l.cqs[i], err = n.Engine.CreateCQ(a.cfg.CQE, nil)
			a.must(err, "CreateCQ")
		}
		if a.plan.Cfg.SharedCQ {
			l.cqs[1] = l.cqs[0]
		}
		a.cqs = append(a.cqs, l.cqs[:]...)
	}
	var err error
	init := qp.QPInit{Type: a.cfg.Type, PD: n.PD, SendCQ: l.cqs[0], RecvCQ: l.cqs[1], Cap: a.cfg.Cap,
		SQSigAll: a.cfg.SQSigAll, WholeMessages: a.plan.Cfg.WholeMessages}
	switch {
	case a.pool != nil:
		init.SRQ = a.pool.srq
	case a.cfg.Type == qp.XRCSend:
		init.RecvCQ = nil
	case a.cfg.Type == qp.XRCRecv:
		init.SendCQ, init.RecvCQ, init.XRCD = nil, nil, a.plan.Domain
	}
	l.q, err = n.Engine.CreateQP(init)
	a.must(err, "CreateQP")
	a.begin(l)
}

// begin is a new life, in INIT so that receives can be posted.
func (a *app) begin(l *life) {
	a.life = l
	a.lives = append(a.lives, l)
	a.cfg = a.plan.Cfg
	a.access = mr.RemoteAny
	mask := qp.AttrState | qp.AttrPKeyIndex | qp.AttrPort | qp.AttrAccessFlags
	if a.cfg.Type == qp.UD {
		mask = mask&^qp.AttrAccessFlags | qp.AttrQKey
	}
	a.modify(qp.QPAttr{State: qp.StateInit, Port: 1, AccessFlags: a.access, QKey: a.cfg.QKey}, mask)
}

func (a *app) modify(attr qp.QPAttr, mask qp.AttrMask) {
	a.must(a.tryModify(attr, mask), "ModifyQP")
}

func (a *app) tryModify(attr qp.QPAttr, mask qp.AttrMask) error {
	return a.node.Control(func() error {
		err := a.node.Engine.ModifyQP(a.w.Now, a.life.q, &attr, mask)
		if err == nil && mask&qp.AttrState != 0 && (attr.State == qp.StateErr || attr.State == qp.StateReset) {
			a.life.took()
		}
		if err == nil && mask&qp.AttrAccessFlags != 0 {
			a.access = attr.AccessFlags
		}
		return err
	})
}

// end ends the present life, by RESET or by closing the queue pair and making another.
func (a *app) end(reset bool) {
	l := a.life
	a.look()
	l.over, l.mute = true, !a.deaf
	for _, r := range append(l.sends, l.recvs...) {
		r.finish()
	}
	if b := l.bond; b != nil {
		b.left[b.side(a)] = true
		b.excuse()
	}
	if reset && !l.overrun() {
		next := &life{app: a, q: l.q, cqs: l.cqs, newest: map[*pool]uint64{}}
		a.modify(qp.QPAttr{State: qp.StateReset}, qp.AttrState)
		a.windowEnds()
		a.begin(next)
		return
	}
	a.destroy()
	a.windowEnds()
	a.create()
}

// destroy destroys the queue pair.
func (a *app) destroy() {
	a.must(a.node.Control(func() error {
		defer a.life.took()
		return a.node.Engine.DestroyQP(a.life.q)
	}), "DestroyQP")
}

// windowEnds takes note that the window of type 2 has ended with the life that it was bound in.
func (a *app) windowEnds() {
	for _, g := range a.grants {
		g.dead = g.dead || g.isWindow(mr.Window2)
	}
}

// join connects two applications in new lives, at moments that r says.
func (w *world) join(a, b *app, r uint32) {
	bond := &bond{ends: [2]*app{a, b}}
	bond.compare()
	if len(w.silences) > 0 && !w.plan.Calm {
		bond.excuse()
	}
	a.coming, b.coming = bond, bond
	delay := func(shift uint) qp.Time {
		if r == 0 {
			return 0
		}
		return qp.Time(r>>shift&0xff) * 200
	}
	both := w.Now + max(delay(0), delay(8))
	w.At(both, func() {
		for i, x := range bond.ends {
			bond.told[i] = address{x.life.q.QPN(), x.life.q.StartPSN()}
		}
	})
	w.At(both+delay(16), func() { a.connect(bond) })
	w.At(both+delay(24), func() { b.connect(bond) })
}

// compare notes what different options of the two ends excuse.
func (b *bond) compare() {
	x, y := &b.ends[0].plan.Cfg, &b.ends[1].plan.Cfg
	if x.MTU != y.MTU { // each takes the other's packets for malformed
		b.excuse(qp.WCRemInvReqErr, qp.WCLocLenErr, qp.WCBadRespErr, qp.WCRemAccessErr)
	}
	if x.RdAtomic > y.DestRdAtomic || y.RdAtomic > x.DestRdAtomic {
		b.shallow = true
		b.excuse(qp.WCRemInvReqErr)
	}
	if x.RNRRetry|y.RNRRetry != 0 {
		b.excuse(qp.WCRNRRetryExcErr)
	}
	if x.Selective != y.Selective { // losses are repaired slowly
		b.excuse()
	}
}

// connect takes the queue pair from INIT to RTS.
func (a *app) connect(b *bond) {
	if !a.there() {
		a.w.At(a.w.back[a.node], func() { a.connect(b) })
		return
	}
	a.coming = nil
	l, peer, c := a.life, b.peer(a), &a.cfg
	told := b.told[b.side(peer)]
	l.bond = b
	attr := qp.QPAttr{State: qp.StateRTR, PathMTU: c.MTU, DestQPN: told.qpn, RQPSN: told.psn,
		AV: qp.AHAttr{DGID: peer.node.GID}, MaxDestRdAtomic: uint8(c.DestRdAtomic), MinRNRTimer: c.MinRNRTimer,
		SelectiveRepeat: c.Selective, FlowControl: c.FlowControl}
	attr.LongWindow = c.Selective && (l.q.StartPSN()+told.psn)%2 == 1 // which needs no draw
	rts := qp.QPAttr{
		State:       qp.StateRTS,
		SQPSN:       l.q.StartPSN(),
		Timeout:     c.Timeout,
		RetryCnt:    7,
		RNRRetry:    c.RNRRetry,
		MaxRdAtomic: uint8(c.RdAtomic),
	}
	if rts.RNRRetry == 0 {
		rts.RNRRetry = 7
	}
	toRTR, toRTS := qp.AttrState, qp.AttrState|qp.AttrSQPSN
	if c.Type != qp.UD {
		toRTR |= qp.AttrAV | qp.AttrPathMTU | qp.AttrDestQPN | qp.AttrRQPSN
	}
	if c.Selective {
		toRTR |= qp.AttrSelectiveRepeat | qp.AttrLongWindow
	}
	if c.FlowControl {
		toRTR |= qp.AttrFlowControl
	}
	if c.Type == qp.RC || c.Type == qp.XRCRecv {
		toRTR |= qp.AttrMaxDestRdAtomic | qp.AttrMinRNRTimer
		toRTS |= qp.AttrTimeout
	}
	if c.Type == qp.RC || c.Type == qp.XRCSend {
		toRTS |= qp.AttrTimeout | qp.AttrRetryCnt | qp.AttrRNRRetry | qp.AttrMaxRdAtomic
	}
	a.modify(attr, toRTR)
	a.modify(rts, toRTS)
	if c.Type == qp.UD {
		a.must(a.node.Control(func() (err error) {
			a.ah, err = a.node.Engine.CreateAH(a.node.PD, attr.AV)
			return err
		}), "CreateAH")
	}
	a.w.tell("%s is connected to %s", a, peer)
}

// outstanding is how many requests of the present life a completion is still due for.
func (a *app) outstanding() (n int) {
	for _, s := range a.life.sends {
		if s.signaled {
			n++
		}
	}
	return n
}

// help gives the queue pair what it may wait for: receives for its peer's messages, the way back
// from SQD and SQE. And it posts a last request, which is signaled, so that all those before it are
// known to be over.
func (a *app) help(last bool) {
	l := a.life
	if last && l.q.State() == qp.StateRTS && !a.saidLast && a.requests() {
		k := a.newWork(qp.WRSend)
		k.local, k.len = nil, 16
		a.saidLast = a.post(k, qp.SendWR{Flags: qp.SendSignaled | qp.SendInline, Inline: pattern(k, k.len), AH: a.ah,
			RemoteQPN: k.to.life.q.QPN(), RemoteQKey: a.cfg.QKey})
	}
	switch l.q.State() {
	case qp.StateSQD:
		if attr := a.node.Engine.QueryQP(l.q); !attr.SQDraining {
			a.modify(qp.QPAttr{State: qp.StateRTS}, qp.AttrState)
		}
	case qp.StateSQE:
		a.modify(qp.QPAttr{State: qp.StateRTS}, qp.AttrState)
	}
	for _, p := range a.pools() {
		for p.post() {
		}
	}
	if s := l.q.State(); last && len(a.pools()) > 0 && s >= qp.StateRTR && s != qp.StateErr && l.bond != nil &&
		l.bond.over(a) {
		a.excuseBoth() // half a message may hold the last request of the pool
		a.modify(qp.QPAttr{State: qp.StateErr}, qp.AttrState)
	}
	if a.pool != nil || a.cfg.Type >= qp.XRCSend {
		return
	}
	for s := l.q.State(); s >= qp.StateInit && s != qp.StateErr && a.postRecv(longest, 0, spareAt,
		spareSize); s = l.q.State() {
	}
}

// mtu is the path MTU in bytes.
func (a *app) mtu() int { return wire.MTU(a.cfg.MTU).Bytes() }
