package lives

// What an application can do: a table, by name and by how often. A deed that means nothing in the
// present state does nothing.

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/qp/qptest"
)

// row is what a deed can be. Rough ones make requests fail; a calm world has none of them, and
// there nothing may fail.
type row struct {
	kind   string
	weight int
	rough  bool
	do     func(a *app, d *Deed) bool // false: it meant nothing in the state it met
}

// deeds is the table.
var deeds = []row{
	{"write", 160, false, func(a *app, d *Deed) bool { return a.postRDMA(qp.WRWrite, d) }},
	{"write with immediate", 30, false, func(a *app, d *Deed) bool { return a.postRDMA(qp.WRWriteWithImm, d) }},
	{"read", 80, false, func(a *app, d *Deed) bool { return a.postRDMA(qp.WRRead, d) }},
	{"fetch and add", 50, false, func(a *app, d *Deed) bool { return a.postRDMA(qp.WRAtomicFetchAndAdd, d) }},
	{"atomic write", 40, false, func(a *app, d *Deed) bool { return a.postRDMA(qp.WRAtomicWrite, d) }},
	{"flush", 30, false, (*app).flush},
	{"send", 100, false, func(a *app, d *Deed) bool { return a.postSend(d) }},
	{"send with invalidate", 12, true, func(a *app, d *Deed) bool { return a.postSend(d) }},
	{"receives", 150, false, (*app).receives},
	{"bind", 20, true, (*app).bind},
	{"bind type 1", 20, true, (*app).bindCommon},
	{"invalidate", 10, true, (*app).invalidate},
	{"bad local key", 4, true, (*app).badLocal},
	{"bad bind", 3, true, (*app).badBind},
	{"foreign window", 9, true, (*app).foreignWindow},
	{"RESET", 14, false, func(a *app, d *Deed) bool { return a.rejoin(d, true) }},
	{"close", 14, false, func(a *app, d *Deed) bool { return a.rejoin(d, false) }},
	{"other peer", 8, false, (*app).swap},
	{"restart", 4, true, (*app).restart},
	{"ERR", 5, true, (*app).abandon},
	{"close local", 16, true, (*app).closeLocal},
	{"post and close local", 30, true, (*app).postAndClose},
	{"close remote", 14, true, (*app).closeRemote},
	{"reregister", 14, true, (*app).reregister},
	{"drain", 14, false, (*app).drain},
	{"drain and modify", 20, false, (*app).drainAndModify},
	{"modify", 16, false, (*app).modifyLive},
	{"modify drained", 16, false, (*app).modifyDrained},
	{"modify in INIT", 30, false, (*app).modifyInit},
	{"destroy handle", 10, true, (*app).destroyHandle},
	{"recover", 10, false, (*app).recover},
	{"larger queue", 6, false, func(a *app, d *Deed) bool { return a.resize(d, a.plan.Cfg.CQE+int(d.R[1]%600)) }},
	{"smaller queue", 6, true, func(a *app, d *Deed) bool { return a.resize(d, 1+int(d.R[1])%a.plan.Cfg.CQE) }},
	{"deaf", 10, false, func(a *app, _ *Deed) bool { return a.hears(false) }},
	{"limit", 0, false, (*app).modifyShared}, // drawn by drawShared
	{"resize", 0, false, (*app).modifyShared},
	{"renew queue", 0, true, (*app).renewQueue}, // drawn by drawXRC
	{"wrong queue", 0, true, (*app).wrongQueue},
	{"list", 0, false, (*app).postList}, // drawn by drawLists
	{"arm", 0, false, (*app).arm},       // drawn by drawTold
	{"moderate", 0, false, (*app).moderate},
	{"drain and be told", 0, false, (*app).drainAndBeTold},
	{"rate", 0, false, (*app).limit}, // drawn by drawBelow
	{"cut", 0, false, (*app).cut},
	{"address", 0, false, (*app).loseAddress},
	{"junk", 0, false, (*app).junk},
	{"read and take back", 0, true, (*app).readAndTake}, // drawn by drawTaken
	{"hear", 20, false, func(a *app, _ *Deed) bool { return a.hears(true) }},
}

// drawKind draws a row by its weight.
func drawKind(d qptest.Dice, calm bool) string {
	all := 0
	for _, r := range deeds {
		all += r.weight
	}
	for {
		n := d.IntN(all)
		i := 0
		for ; n >= deeds[i].weight; i++ {
			n -= deeds[i].weight
		}
		if !calm || !deeds[i].rough {
			return deeds[i].kind
		}
	}
}

// rowOf finds the row of a deed.
func rowOf(kind string) *row {
	return &deeds[slices.IndexFunc(deeds, func(r row) bool { return r.kind == kind })]
}

func (w *world) do(d *Deed) {
	a := w.apps[d.App]
	if rowOf(d.Kind).do(a, d) {
		w.plan.done[d.Kind]++
	}
}

// length of a message: often around the edges of packets.
func (a *app) length(r uint32, least int) int {
	n := 0
	switch r % 4 {
	case 0:
		n = 8 + int(r>>2%64)
	case 1:
		n = a.mtu()*int(r>>2%4) + int(r>>4%3) - 1
	default:
		n = int(r>>2) % (4 * a.mtu())
	}
	return max(least, min(n, 1500))
}

// flags of a request.
func (a *app) flags(r uint32) (f qp.SendFlags) {
	if r%8 != 0 {
		f |= qp.SendSignaled
	}
	if r>>3%8 == 0 {
		f |= qp.SendFence
	}
	if r>>6%8 == 0 {
		f |= qp.SendSolicited
	}
	return f
}

// newWork is a request that is not accepted yet.
func (a *app) newWork(kind qp.WROpcode) *work {
	a.w.wrid++
	k := &work{id: a.w.wrid, life: a.life, kind: kind, local: a.locals[a.w.wrid%3]}
	if b := a.life.bond; b != nil {
		k.to = b.peer(a)
	}
	return k
}

// post gives a request to the queue pair, or to the list that is being built.
func (a *app) post(k *work, wr qp.SendWR) bool {
	wr.WRID, wr.Opcode = k.id, k.kind
	if a.cfg.Type == qp.XRCSend && !k.hopeless {
		k.name(&wr)
	}
	if a.list != nil {
		a.list.works, a.list.wrs = append(a.list.works, k), append(a.list.wrs, wr)
		return true
	}
	return a.postBy(k, wr.Flags, func() (int, error) { return a.life.q.PostSend([]qp.SendWR{wr}) })
}

// postBy is post by another call.
func (a *app) postBy(k *work, flags qp.SendFlags, call func() (int, error)) bool {
	l := a.life
	n, err := call()
	switch {
	case errors.Is(err, qp.ErrFull), errors.Is(err, qp.ErrState) && l.q.State() < qp.StateRTS:
		return false
	case err != nil || n != 1:
		a.fail("PostSend(%v): %d accepted, %v", k.kind, n, err)
		return false
	}
	a.posted(k, flags)
	a.node.Engine.Ring(l.q)
	a.node.Kick()
	return true
}

// posted notes a request that the queue pair has accepted.
func (a *app) posted(k *work, flags qp.SendFlags) {
	k.signaled = a.cfg.SQSigAll || flags&qp.SendSignaled != 0
	a.w.tell("%s posts %v %#x, %d bytes to %v+%d", a, k.kind, k.id, k.len, k.to, k.at)
	a.w.works[k.id] = k
	a.life.sends = append(a.life.sends, k)
}

// neverPosted is the end of a request that its queue pair did not take: it may not touch memory.
func (k *work) neverPosted() { k.done, k.life = true, nil }

// hears has the application poll from now on, or stop.
func (a *app) hears(yes bool) bool {
	changed := a.deaf == yes
	a.deaf = !yes
	a.look()
	return changed
}

// ready says whether requests can be posted.
func (a *app) ready() bool { return a.connected() && a.requests() }

// connected says whether its queue pair is in use.
func (a *app) connected() bool {
	return !a.w.coda && a.coming == nil && a.life.bond != nil && a.life.q.State() >= qp.StateRTS
}

// overHere says that memory of a request may be used again.
func (k *work) overHere() bool { return k.done }

// elements claims n bytes in a part of memory for a request and fills them.
func (a *app) elements(k *work, n int, r uint32, data []byte, from, size int) (sgl []qp.SGE, ok bool) {
	k.len = n
	if k.own = a.claim(k, from, size, max(n, 1), r, k.overHere); k.own < 0 {
		return nil, false
	}
	if data == nil {
		data = make([]byte, n)
		for i := range data {
			data[i] = untouched
		}
	}
	a.set(k.own, data)
	cut := 0
	if r%4 == 0 {
		cut = int(r>>8) % (n + 1)
	}
	at := a.base + uint64(k.own)
	return []qp.SGE{{Addr: at, Length: uint32(cut), LKey: k.local.key},
		{Addr: at + uint64(cut), Length: uint32(n - cut), LKey: k.local.key}}, true
}

// postRDMA posts a WRITE, a READ or an atomic under one of the keys that the peer has given out.
func (a *app) postRDMA(kind qp.WROpcode, d *Deed) bool {
	if !a.ready() || a.cfg.Type == qp.UD || !a.reliable() && kind != qp.WRWrite && kind != qp.WRWriteWithImm ||
		kind == qp.WRAtomicWrite && a.cfg.Type != qp.RC {
		return false
	}
	k := a.newWork(kind)
	if len(k.to.grants) == 0 {
		return false
	}
	k.target = k.to.grants[int(d.R[0])%len(k.to.grants)]
	wr := qp.SendWR{Flags: a.flags(d.R[1]), RKey: k.target.key}
	var data []byte
	n, r, ok := a.length(d.R[2], 1), d.R[0]>>8, false
	need := mr.RemoteWrite
	switch kind {
	case qp.WRRead:
		need = mr.RemoteRead
		n = min(n, sourceSize)
		k.at = int(r) % (sourceSize - n + 1)
	case qp.WRAtomicFetchAndAdd:
		need = mr.RemoteAtomic
		n, wr.CompareAdd = 8, 1
		k.at = k.to.claim(k, targetAt, targetSize, 8, r, k.overAtPeer)
	case qp.WRAtomicWrite:
		n = 8
		k.at = k.to.claim(k, targetAt, targetSize, 8, r, k.overAtPeer)
		wr.Swap = binary.NativeEndian.Uint64(pattern(k, 8))
	default:
		data = pattern(k, n)
		wr.Imm = uint32(k.id)
		k.at = k.to.claim(k, targetAt, targetSize, n, r, k.overAtPeer)
	}
	if k.at < 0 {
		return false
	}
	if kind != qp.WRRead {
		k.to.set(k.at, make([]byte, n))
	}
	if kind == qp.WRAtomicWrite {
		k.len, k.local = n, nil
	} else if wr.SGL, ok = a.elements(k, n, d.R[1]>>9, data, ownAt, ownSize); !ok {
		k.neverPosted()
		return false
	}
	if len(wr.SGL) > 0 && len(wr.SGL) > int(a.cfg.Cap.MaxSendSGE) || kind == qp.WRAtomicFetchAndAdd {
		wr.SGL = []qp.SGE{{Addr: a.base + uint64(k.own), Length: uint32(n), LKey: k.local.key}}
	}
	wr.RemoteAddr = k.to.base + uint64(k.at)
	if k.target.doubtful(k.at, n, need, k.to) {
		a.life.bond.excuse(qp.WCRemAccessErr, qp.WCRemInvReqErr)
	}
	if !a.post(k, wr) {
		k.neverPosted()
		return false
	}
	return true
}

// flush posts a FLUSH of what peers may write.
func (a *app) flush(d *Deed) bool {
	if !a.ready() || a.cfg.Type != qp.RC {
		return false
	}
	k := a.newWork(qp.WRFlush)
	if len(k.to.grants) == 0 {
		return false
	}
	k.target, k.local = k.to.grants[int(d.R[0])%len(k.to.grants)], nil
	k.at = k.target.from
	k.flushed = k.to.node.Synced
	f := qp.FlushInfo{
		Length:      d.R[2] % uint32(k.target.to-k.target.from+1),
		Placement:   qp.Placement(1 + d.R[1]>>10%3),
		Selectivity: qp.Selectivity(d.R[1] >> 12 % 2),
	}
	need := []mr.Access{1: mr.FlushGlobal, 2: mr.FlushPersistent, 3: mr.FlushGlobal | mr.FlushPersistent}[f.Placement]
	if k.target.doubtful(k.at, 0, need, k.to) {
		a.life.bond.excuse(qp.WCRemAccessErr, qp.WCRemInvReqErr)
	}
	k.durable = need&mr.FlushPersistent != 0 && f.Length > 0
	return a.post(k, qp.SendWR{
		Flags:      a.flags(d.R[1]),
		RKey:       k.target.key,
		RemoteAddr: k.to.base + uint64(k.at),
		Flush:      f,
	})
}

// overAtPeer says that the request is over for its responder too: nothing of it can be executed any
// more.
func (k *work) overAtPeer() bool {
	if k.life == nil {
		return true
	}
	b := k.life.bond
	return b.left[b.side(k.to)] || k.ok && k.life.app.reliable()
}

// doubtful says whether a request with this key may be refused.
func (g *grant) doubtful(at, n int, need mr.Access, to *app) bool {
	return g.dead || g.window != nil || at < g.from || at+n > g.to || g.rights&need != need || to.access&need != need
}

// postSend posts a SEND.
func (a *app) postSend(d *Deed) bool {
	if !a.ready() {
		return false
	}
	k := a.newWork(qp.WRSend)
	wr := qp.SendWR{Flags: a.flags(d.R[0]), AH: a.ah, RemoteQPN: k.to.life.q.QPN(), RemoteQKey: a.cfg.QKey}
	n := a.length(d.R[1], 16)
	switch {
	case a.cfg.Type == qp.UD:
		n = min(n, 1000)
	case d.Kind == "send with invalidate" && a.cfg.Type == qp.RC:
		g := k.to.windowGrant()
		if g == nil {
			return false
		}
		k.kind, wr.InvalidateKey = qp.WRSendWithInv, g.key
		// The key may be invalid when it arrives; then the peer's queue pair fails.
		a.life.bond.excuse(qp.WCRemAccessErr, qp.WCRemInvReqErr)
	}
	var ok bool
	if wr.SGL, ok = a.elements(k, n, d.R[2], pattern(k, n), ownAt, ownSize); !ok {
		return false
	}
	if n <= 64 && d.R[0]>>10%3 == 0 {
		wr.SGL, wr.Inline, k.local = nil, pattern(k, n), nil
		wr.Flags |= qp.SendInline
	}
	if !a.post(k, wr) {
		k.neverPosted()
		return false
	}
	return true
}

// receives posts receive requests.
func (a *app) receives(d *Deed) bool {
	if a.w.coda || a.life.q.State() < qp.StateInit {
		return false
	}
	posted := false
	if p := a.somePool(d.R[1]); p != nil || a.cfg.Type >= qp.XRCSend {
		for range 1 + d.R[0]%4 {
			posted = p != nil && p.post() || posted
		}
		return posted
	}
	for i := range 1 + d.R[0]%4 {
		n := longest
		if d.R[1]>>i%64 == 0 && !a.w.plan.Calm { // too short for most messages
			n = 48
			a.excuseBoth(qp.WCRemInvReqErr, qp.WCLocLenErr)
		}
		posted = a.postRecv(n, d.R[2]>>i, ownAt, ownSize) || posted
	}
	return posted
}

// postRecv posts a receive of n bytes in a part of memory; false if there is no room.
func (a *app) postRecv(n int, r uint32, from, size int) bool {
	l := a.life
	a.w.wrid++
	k := &work{id: a.w.wrid, life: l, recv: true, signaled: true, local: a.locals[a.w.wrid%3]}
	sgl, ok := a.elements(k, n, r, nil, from, size)
	if !ok {
		return false
	}
	if c, err := l.q.PostRecv([]qp.RecvWR{{WRID: k.id, SGL: sgl}}); err != nil || c != 1 {
		k.done = true
		if !errors.Is(err, qp.ErrFull) && !errors.Is(err, qp.ErrState) {
			a.fail("PostRecv: %d accepted, %v", c, err)
		}
		return false
	}
	a.w.works[k.id] = k
	l.recvs = append(l.recvs, k)
	if l.q.State() == qp.StateErr { // otherwise a receive needs no doorbell
		a.node.Engine.Ring(l.q)
		a.node.Kick()
	}
	return true
}
