package lives

// What an application can do: a table, by name and by how often. A deed that means nothing in the present state does nothing.

import (
	"errors"
	"math/bits"
	"slices"

	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/qp/qptest"
)

// row is what a deed can be. Rough ones make requests fail; a calm world has none of them, and there nothing may fail.
type row struct {
	kind   string
	weight int
	rough  bool
	do     func(a *app, d *Deed)
}

// deeds is the table.
var deeds = []row{
	{"write", 160, false, func(a *app, d *Deed) { a.postRDMA(qp.WRWrite, d) }},
	{"write with immediate", 30, false, func(a *app, d *Deed) { a.postRDMA(qp.WRWriteWithImm, d) }},
	{"read", 80, false, func(a *app, d *Deed) { a.postRDMA(qp.WRRead, d) }},
	{"fetch and add", 50, false, func(a *app, d *Deed) { a.postRDMA(qp.WRAtomicFetchAndAdd, d) }},
	{"send", 100, false, func(a *app, d *Deed) { a.postSend(d) }},
	{"send with invalidate", 12, true, func(a *app, d *Deed) { a.postSend(d) }},
	{"receives", 150, false, (*app).receives},
	{"bind", 20, true, (*app).bind},
	{"invalidate", 10, true, (*app).invalidate},
	{"bad local key", 4, true, (*app).badLocal},
	{"bad bind", 3, true, (*app).badBind},
	{"foreign window", 5, true, (*app).foreignWindow},
	{"RESET", 14, false, func(a *app, d *Deed) { a.rejoin(d, true) }},
	{"close", 14, false, func(a *app, d *Deed) { a.rejoin(d, false) }},
	{"other peer", 8, false, (*app).swap},
	{"restart", 4, true, (*app).restart},
	{"ERR", 5, true, (*app).abandon},
	{"close local", 16, true, (*app).closeLocal},
	{"post and close local", 30, true, (*app).postAndClose},
	{"close remote", 14, true, (*app).closeRemote},
	{"drain", 14, false, (*app).drain},
	{"drain and modify", 20, false, (*app).drainAndModify},
	{"modify", 16, false, (*app).modifyLive},
	{"modify drained", 16, false, (*app).modifyDrained},
	{"recover", 10, false, (*app).recover},
	{"deaf", 10, false, func(a *app, _ *Deed) { a.deaf = true }},
	{"hear", 20, false, func(a *app, _ *Deed) { a.deaf = false; a.look() }},
}

// drawKind draws a row.
func drawKind(d dice, calm bool) string {
	for {
		n := d.IntN(1000)
		for i := range deeds {
			if n -= deeds[i].weight; n < 0 && !(calm && deeds[i].rough) {
				return deeds[i].kind
			} else if n < 0 {
				break
			}
		}
	}
}

func (w *world) do(d *Deed) {
	a := w.apps[d.App]
	i := slices.IndexFunc(deeds, func(r row) bool { return r.kind == d.Kind })
	deeds[i].do(a, d)
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

// post gives a request to the queue pair.
func (a *app) post(k *work, wr qp.SendWR) bool {
	l := a.life
	wr.WRID, wr.Opcode = k.id, k.kind
	k.signaled = a.cfg.SQSigAll || wr.Flags&qp.SendSignaled != 0
	n, err := l.q.PostSend([]qp.SendWR{wr})
	switch {
	case errors.Is(err, qp.ErrFull), errors.Is(err, qp.ErrState) && l.q.State() < qp.StateRTS:
		return false
	case err != nil || n != 1:
		a.fail("PostSend(%v): %d accepted, %v", k.kind, n, err)
		return false
	}
	a.w.tell("%s posts %v %#x, %d bytes to %v+%d", a, k.kind, k.id, k.len, k.to, k.at)
	a.w.works[k.id] = k
	l.sends = append(l.sends, k)
	a.node.Engine.Ring(l.q)
	a.node.Kick()
	return true
}

// ready says whether requests can be posted.
func (a *app) ready() bool {
	return !a.w.coda && !a.busy && a.life.bond != nil && a.life.q.State() >= qp.StateRTS
}

// sendable says that memory of a request may be used again.
func (k *work) sendable() bool { return k.done }

// elements claims n bytes in a part of memory for a request and fills them.
func (a *app) elements(k *work, n int, r uint32, data []byte, from, size int) (sgl []qp.SGE, ok bool) {
	k.len = n
	if k.own = a.claim(k, from, size, max(n, 1), r, k.sendable); k.own < 0 {
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
	return []qp.SGE{{Addr: at, Length: uint32(cut), LKey: k.local.key}, {Addr: at + uint64(cut), Length: uint32(n - cut), LKey: k.local.key}}, true
}

// postRDMA posts a WRITE, a READ or an atomic under one of the keys that the peer has given out.
func (a *app) postRDMA(kind qp.WROpcode, d *Deed) {
	if !a.ready() || a.cfg.Type == qp.UD || a.cfg.Type == qp.UC && (kind == qp.WRRead || kind == qp.WRAtomicFetchAndAdd) {
		return
	}
	k := a.newWork(kind)
	if len(k.to.grants) == 0 {
		return
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
		k.at = k.to.claim(k, targetAt, targetSize, 8, r, k.executable)
	default:
		data = pattern(k, n)
		wr.Imm = uint32(k.id)
		k.at = k.to.claim(k, targetAt, targetSize, n, r, k.executable)
	}
	if k.at < 0 {
		return
	}
	if kind != qp.WRRead {
		k.to.set(k.at, make([]byte, n))
	}
	if wr.SGL, ok = a.elements(k, n, d.R[1]>>9, data, ownAt, ownSize); !ok {
		k.done = true
		k.life = nil
		return
	}
	if len(wr.SGL) > int(a.cfg.Cap.MaxSendSGE) || kind == qp.WRAtomicFetchAndAdd {
		wr.SGL = []qp.SGE{{Addr: a.base + uint64(k.own), Length: uint32(n), LKey: k.local.key}}
	}
	wr.RemoteAddr = k.to.base + uint64(k.at)
	if k.target.doubtful(k.at, n, need, k.to) {
		a.life.bond.excuse(qp.WCRemAccessErr, qp.WCRemInvReqErr)
	}
	if !a.post(k, wr) {
		k.done, k.life = true, nil
	}
}

// executable says that the request is over for its responder too: nothing of it can be executed any more.
func (k *work) executable() bool {
	if k.life == nil {
		return true
	}
	b := k.life.bond
	return b.left[b.side(k.to)] || k.ok && k.life.app.cfg.Type == qp.RC
}

// doubtful says whether a request with this key may be refused.
func (g *grant) doubtful(at, n int, need mr.Access, to *app) bool {
	return g.dead || g.window != nil || at < g.from || at+n > g.to || g.rights&need == 0 || to.access&need == 0
}

// postSend posts a SEND.
func (a *app) postSend(d *Deed) {
	if !a.ready() {
		return
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
			return
		}
		k.kind, wr.InvalidateKey = qp.WRSendWithInv, g.key
		a.life.bond.excuse(qp.WCRemAccessErr, qp.WCRemInvReqErr) // it may be invalid when it arrives, and the peer's queue pair fails
	}
	var ok bool
	if wr.SGL, ok = a.elements(k, n, d.R[2], pattern(k, n), ownAt, ownSize); !ok {
		return
	}
	if n <= 64 && d.R[0]>>10%3 == 0 {
		wr.SGL, wr.Inline, k.local = nil, pattern(k, n), nil
		wr.Flags |= qp.SendInline
	}
	if !a.post(k, wr) {
		k.done = true
	}
}

// receives posts receive requests.
func (a *app) receives(d *Deed) {
	if a.w.coda || a.life.q.State() < qp.StateInit {
		return
	}
	for i := range 1 + d.R[0]%4 {
		n := longest
		if d.R[1]>>i%64 == 0 && !a.w.plan.Calm { // too short for most messages
			n = 48
			a.excuseBoth(qp.WCRemInvReqErr, qp.WCLocLenErr)
		}
		a.postRecv(n, d.R[2]>>i, ownAt, ownSize)
	}
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
	a.node.Engine.Ring(l.q)
	a.node.Kick()
	return true
}

// windowGrant is the key of the application's window, nil if it has none.
func (a *app) windowGrant() *grant {
	for _, g := range a.grants {
		if g.window != nil && !g.dead {
			return g
		}
	}
	return nil
}

// bind opens a part of the region by a window. Its key may be valid from now on.
func (a *app) bind(d *Deed) {
	if !a.ready() || a.cfg.Type == qp.UD || a.windowGrant() != nil || len(a.grants) == 0 {
		return
	}
	region := a.grants[0]
	if region.dead || region.window != nil || region.to <= targetAt {
		return
	}
	if a.window == nil {
		var err error
		a.window, err = a.node.Memory.AllocWindow(a.node.PD)
		a.must(err, "AllocWindow")
	}
	key := a.window.RKey()&^0xff | uint32(byte(d.R[0]))
	from := int(d.R[1]) % region.to &^ 7
	n := 1 + int(d.R[2])%(region.to-from)
	rights := []mr.Access{mr.RemoteWrite, mr.RemoteRead, mr.RemoteWrite | mr.RemoteRead | mr.RemoteAtomic}[d.R[0]>>8%3]
	g := &grant{app: a, window: a.window, key: key, from: from, to: from + n, rights: rights, generation: region.generation, by: a.life}
	k := a.newWork(qp.WRBindMW)
	if b := a.life.bond; region.rights&mr.MWBind == 0 || rights&(mr.RemoteWrite|mr.RemoteAtomic) != 0 && region.rights&mr.LocalWrite == 0 {
		b.excuse(qp.WCMWBindErr)
	}
	a.life.bond.excuse() // of the peer, should it fail
	if a.post(k, qp.SendWR{Flags: a.flags(d.R[0] >> 10), Bind: &qp.BindInfo{WindowKey: a.window.RKey(), NewKey: key, LKey: region.key,
		Addr: a.base + uint64(from), Length: uint64(n), Access: rights}}) {
		a.grants = append(a.grants, g)
	}
}

// invalidate takes the window back.
func (a *app) invalidate(d *Deed) {
	g := a.windowGrant()
	if g == nil || !a.ready() {
		return
	}
	k := a.newWork(qp.WRLocalInv)
	k.after = func() { g.dead = true }
	a.life.bond.excuse(qp.WCLocQPOpErr, qp.WCRemAccessErr) // the peer may have invalidated it, or may be using it
	a.post(k, qp.SendWR{Flags: qp.SendSignaled, InvalidateKey: g.key})
}

// badLocal posts a SEND whose local key is none, of one packet or several.
func (a *app) badLocal(d *Deed) {
	if !a.ready() {
		return
	}
	k := a.newWork(qp.WRSend)
	k.local = nil
	a.excuseBoth(qp.WCLocProtErr)
	a.post(k, qp.SendWR{Flags: qp.SendSignaled, AH: a.ah, RemoteQPN: k.to.life.q.QPN(), RemoteQKey: a.cfg.QKey,
		SGL: []qp.SGE{{Addr: a.base, Length: uint32(a.length(d.R[0], 16)), LKey: a.locals[0].key ^ 0x5500}}})
}

// badBind binds beyond the end of the region.
func (a *app) badBind(d *Deed) {
	if !a.ready() || a.cfg.Type == qp.UD || len(a.grants) == 0 || a.windowGrant() != nil {
		return
	}
	if a.window == nil {
		var err error
		a.window, err = a.node.Memory.AllocWindow(a.node.PD)
		a.must(err, "AllocWindow")
	}
	k := a.newWork(qp.WRBindMW)
	a.excuseBoth(qp.WCMWBindErr)
	a.post(k, qp.SendWR{Flags: a.flags(d.R[0]), Bind: &qp.BindInfo{WindowKey: a.window.RKey(), NewKey: a.window.RKey() ^ 1, LKey: a.grants[0].key,
		Addr: a.base, Length: memorySize + 1, Access: mr.RemoteWrite}})
}

// foreignWindow writes through a window of an application that the peer's queue pair is not of, though it is on the same node
// and of the same protection domain.
func (a *app) foreignWindow(d *Deed) {
	if !a.ready() || a.cfg.Type == qp.UD {
		return
	}
	k := a.newWork(qp.WRWrite)
	for _, x := range a.w.apps {
		g := x.windowGrant()
		if g == nil || x == k.to || x.node != k.to.node {
			continue
		}
		a.excuseBoth(qp.WCRemAccessErr, qp.WCRemInvReqErr)
		k.local, k.len, k.target = nil, 16, g
		a.post(k, qp.SendWR{Flags: qp.SendSignaled | qp.SendInline, Inline: pattern(k, 16), RKey: g.key, RemoteAddr: x.base + uint64(g.from)})
		return
	}
}

// excuseBoth excuses a failure of this end, which the other end then sees as silence.
func (a *app) excuseBoth(statuses ...qp.WCStatus) {
	for _, b := range []*bond{a.life.bond, a.coming} {
		if b != nil {
			b.excuse(statuses...)
		}
	}
}

// rejoin ends the lives of this end and of its peer and connects them again.
func (a *app) rejoin(d *Deed, reset bool) {
	b := a.life.bond
	if b == nil || a.busy || a.w.coda {
		return
	}
	a.w.meet(a, b.peer(a), d.R, reset)
}

// meet connects two applications anew, whatever they are doing. Old packets of UC mean something to a new life of the same
// queue pair, so there it is always another one.
func (w *world) meet(a, b *app, r [3]uint32, reset bool) {
	if a.busy || b.busy || a == b || a.cfg.Type != b.cfg.Type {
		return
	}
	a.busy, b.busy = true, true
	reset = reset && a.cfg.Type != qp.UC
	w.tell("%s and %s begin anew", a, b)
	w.After(qp.Time(r[0]&0xff)*200, func() { a.end(reset) })
	w.After(qp.Time(r[0]>>8&0xff)*200, func() { b.end(reset && r[1]%4 != 0) })
	w.join(a, b, r[0]|1)
}

// swap connects two applications that were not connected to each other; their peers are left alone.
func (a *app) swap(d *Deed) {
	other := a.w.apps[int(d.R[1])%len(a.w.apps)]
	if a.busy || other.busy || a.life.bond == nil || other.life.bond == nil || a.w.coda {
		return
	}
	a.w.meet(a, other, d.R, d.R[2]%2 == 0)
}

// restart ends all that its node has: new queue pairs, new keys. The others connect to it again.
func (a *app) restart(d *Deed) {
	for _, x := range a.w.apps {
		if x.node == a.node && x.life.bond != nil && !x.busy {
			x.closeLocal(d)
			x.closeRemote(d)
			x.rejoin(d, false)
		}
	}
}

// abandon moves the queue pair to ERR.
func (a *app) abandon(*Deed) {
	if a.life.bond == nil || a.busy || a.w.coda {
		return
	}
	a.excuseBoth()
	a.modify(qp.QPAttr{State: qp.StateErr}, qp.AttrState)
}

// closeLocal deregisters the memory of the application's own requests and registers it again: what is outstanding has lost it.
func (a *app) closeLocal(d *Deed) {
	if a.w.coda {
		return
	}
	i := int(d.R[0] % 3)
	a.must(a.node.Memory.Deregister(a.locals[i].region), "Deregister")
	a.locals[i].dead = true
	if len(a.life.sends)+len(a.life.recvs) > 0 {
		a.excuseBoth(qp.WCLocProtErr, qp.WCRemOpErr)
	}
	a.openLocal(i)
}

// postAndClose posts several requests, and soon the memory of some of them is gone: before they leave, while they are on
// their way, when they have to be sent again.
func (a *app) postAndClose(d *Deed) {
	for i := range 2 + d.R[0]%4 {
		each := Deed{R: [3]uint32{bits.RotateLeft32(d.R[0], int(7*i)), d.R[1] | 1, bits.RotateLeft32(d.R[2], int(5*i))}}
		switch d.R[1] >> (8 + i) % 4 {
		case 0:
			a.postSend(&each)
		case 1:
			a.postRDMA(qp.WRRead, &each)
		default:
			a.postRDMA(qp.WRWrite, &each)
		}
	}
	a.w.After(qp.Time(d.R[2]%64)*500, func() { a.closeLocal(d) })
}

// closeRemote deregisters what peers may use and registers some of it again, with other rights.
func (a *app) closeRemote(d *Deed) {
	if len(a.grants) == 0 || a.w.coda {
		return
	}
	if a.window != nil && d.R[0]%2 == 0 {
		a.must(a.node.Memory.DeallocWindow(a.window), "DeallocWindow")
		a.window = nil
	}
	region := a.grants[0]
	err := a.node.Memory.Deregister(region.region)
	if errors.Is(err, mr.ErrBusy) && a.window != nil {
		return
	}
	a.must(err, "Deregister")
	a.excuseBoth(qp.WCRemAccessErr, qp.WCMWBindErr)
	for _, g := range a.grants {
		g.dead = true
	}
	a.grants = a.grants[:0]
	a.renewSource()
	to := []int{memorySize - ownSize, targetAt + 1000, targetAt + 100, sourceSize}[d.R[1]%4]
	rights := []mr.Access{a.access | mr.LocalWrite | mr.MWBind, mr.LocalWrite | mr.RemoteWrite, mr.RemoteRead, mr.LocalWrite | mr.RemoteAtomic | mr.RemoteRead | mr.MWBind}[d.R[1]>>2%4]
	a.openRemote(to, rights)
}

// drain goes to SQD.
func (a *app) drain(*Deed) {
	if a.ready() && a.life.q.State() == qp.StateRTS {
		a.modify(qp.QPAttr{State: qp.StateSQD}, qp.AttrState)
	}
}

// drainAndModify does it all: SQD, other attributes as soon as all is complete, and on.
func (a *app) drainAndModify(d *Deed) {
	a.drain(d)
	l := a.life
	var again func()
	again = func() {
		if a.life != l || l.q.State() != qp.StateSQD {
			return
		}
		if attr, _ := a.node.Engine.QueryQP(l.q); attr.SQDraining {
			a.w.After(3*qptest.Microsecond, again)
			return
		}
		each := *d
		each.R[2] = 0
		a.modifyDrained(&each)
	}
	a.w.After(qp.Time(d.R[2]%4)*qptest.Microsecond, again)
}

// modifyLive changes attributes in RTS.
func (a *app) modifyLive(d *Deed) {
	if !a.ready() || a.life.q.State() != qp.StateRTS || a.cfg.Type == qp.UD {
		return
	}
	mask := qp.AttrAccessFlags
	attr := qp.QPAttr{AccessFlags: mr.RemoteWrite | mr.RemoteRead | mr.RemoteAtomic, MinRNRTimer: uint8(1 + d.R[1]%6)}
	if d.R[0]%4 == 0 && !a.w.plan.Calm {
		attr.AccessFlags = []mr.Access{0, mr.RemoteWrite, mr.RemoteRead}[d.R[1]%3]
		a.excuseBoth(qp.WCRemInvReqErr, qp.WCRemAccessErr)
	}
	if a.cfg.Type == qp.RC {
		mask |= qp.AttrMinRNRTimer
	}
	a.modify(attr, mask)
	a.access = attr.AccessFlags
}

// modifyDrained changes in SQD what can be changed there, or goes on.
func (a *app) modifyDrained(d *Deed) {
	if !a.ready() || a.life.q.State() != qp.StateSQD {
		return
	}
	if attr, _ := a.node.Engine.QueryQP(a.life.q); attr.SQDraining {
		return
	}
	if a.cfg.Type == qp.RC {
		depth := 1 + int(d.R[0]%16)
		if a.w.plan.Calm {
			depth += a.life.bond.peer(a).cfg.RdAtomic
		}
		if b := a.life.bond; b.peer(a).cfg.RdAtomic > depth {
			b.excuse(qp.WCRemInvReqErr)
		}
		a.cfg.DestRdAtomic = depth
		a.modify(qp.QPAttr{MaxDestRdAtomic: uint8(depth), RetryCnt: 7, RNRRetry: 7, MinRNRTimer: uint8(1 + d.R[1]%6)},
			qp.AttrMaxDestRdAtomic|qp.AttrRetryCnt|qp.AttrRNRRetry|qp.AttrMinRNRTimer)
	}
	if d.R[2]%2 == 0 {
		a.modify(qp.QPAttr{State: qp.StateRTS}, qp.AttrState)
	}
}

// recover leaves SQE or SQD.
func (a *app) recover(*Deed) {
	if a.life.bond != nil && !a.busy {
		switch a.life.q.State() {
		case qp.StateSQE, qp.StateSQD:
			a.help()
		}
	}
}
