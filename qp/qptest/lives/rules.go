package lives

// The oracle: what is promised to applications, and no more. Stages of a turn: every byte that has
// changed must have been granted (checkMemory) → every completion must be true (look) → at the end
// nothing is left (checkOver).

import (
	"bytes"
	"encoding/binary"

	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/qp"
)

// checkMemory asks for each byte that has changed in the last turn who may have changed it.
func (a *app) checkMemory() {
	if bytes.Equal(a.mem, a.want) {
		return
	}
	for i := range a.mem {
		if a.mem[i] == a.want[i] {
			continue
		}
		if why := a.explain(i); why != "" {
			a.fail("byte %d of its memory has become %#02x, was %#02x: %s", i, a.mem[i], a.want[i], why)
			return
		}
		a.want[i] = a.mem[i]
	}
}

// explain returns what forbids that a byte changed, "" if it may have.
func (a *app) explain(i int) string {
	for _, c := range a.claims {
		if i < c.off || i >= c.off+c.len {
			continue
		}
		if i >= ownAt {
			return c.work.mayLand(i)
		}
		return c.work.mayExecute(i)
	}
	return "nobody asked for it"
}

// mayLand is the rule for receive buffers and results: they belong to the queue pair until its
// completion.
func (k *work) mayLand(i int) string {
	a, off := k.life.app, i-k.own
	switch {
	case k.life != a.life:
		return "the request belongs to an earlier life"
	case k.done:
		return "the request is over"
	case k.local == nil || k.local.dead:
		return "the key of the request is not valid any more"
	case k.recv:
	case k.kind == qp.WRRead && a.mem[i] == sourceByte(k.target.generation, k.at+off):
	case k.kind == qp.WRAtomicFetchAndAdd && a.mem[i] == 0:
	default:
		return "it is not what the request brings"
	}
	return ""
}

// mayExecute is the rule for what peers may change: the connection is the one that both are in, the
// key and the queue pair grant it now, the byte is of the message, and nothing is executed twice.
func (k *work) mayExecute(i int) string {
	a, need := k.to, mr.RemoteWrite
	if k.kind == qp.WRAtomicFetchAndAdd {
		need = mr.RemoteAtomic
	}
	switch {
	case k.life == nil || k.life.bond != a.life.bond:
		return "it comes from another connection than the present one"
	case k.ok && a.reliable():
		return "the request was executed and completed before"
	case a.access&need == 0:
		return "the queue pair does not grant it"
	case !a.grantsByte(k, i, need):
		return "the key does not grant it"
	}
	switch want := byte(0); {
	case k.kind == qp.WRAtomicFetchAndAdd:
		if want = 1; a.mem[i] != want || i != k.at {
			return "the word should have become 1"
		}
	default:
		if want = patternByte(k, i-k.at); a.mem[i] != want {
			return "it is not what was sent"
		}
	}
	k.landed++
	return ""
}

// grantsByte says whether a key of the application grants byte i of a request now. Packets that are
// messages of their own are judged one by one, others by the whole message.
func (a *app) grantsByte(k *work, i int, need mr.Access) bool {
	from, to := k.at, k.at+k.len
	if sender := k.life.app; sender.node.Even() && !sender.plan.Cfg.WholeMessages && k.kind == qp.WRWrite &&
		a.reliable() {
		from, to = i, i+1
	}
	for _, g := range a.grants {
		if g.key == k.target.key && g.grants(a.life, need, from, to) {
			return true
		}
	}
	return false
}

// checkKept holds that nothing longer than the path MTU is kept.
func (a *app) checkKept() {
	if a.oversize != nil && a.node.Engine.Stats().Kept > a.oversize.kept {
		a.fail("a packet longer than the path MTU of %d was kept", a.mtu())
	}
	a.oversize = nil
}

// look polls all completion queues, unless the application is deaf.
func (a *app) look() {
	if a.deaf || a.life == nil {
		return
	}
	var wcs [16]qp.WC
	for _, c := range a.cqs {
		for n := c.Poll(wcs[:]); n > 0; n = c.Poll(wcs[:]) {
			a.bellOf(c).polled += n
			for i := range wcs[:n] {
				a.completed(&wcs[i])
			}
		}
	}
	if l := a.life; l.overrun() {
		if s := l.q.State(); s != qp.StateErr && s != qp.StateReset {
			a.fail("its completion queue has overrun, and its queue pair is in %v", s)
		}
		a.excuseBoth()
	}
}

// overrun says that completions of this life may have been lost.
func (l *life) overrun() bool { return l.cqs[0].Err() != nil || l.cqs[1].Err() != nil }

// completed holds a completion against the request that it is for.
func (a *app) completed(wc *qp.WC) {
	a.w.Digest.Completion(a.w.Now, a.node, wc)
	k := a.w.works[wc.WRID]
	a.w.tell("%s: %#x %v", a, wc.WRID, wc.Status)
	switch {
	case k != nil && k.pool != nil:
		a.completedShared(k, wc)
		return
	case k == nil || k.life == nil || k.life.app != a:
		a.fail("completion of a request that it has not posted: %+v", *wc)
		return
	case k.completed:
		a.fail("a second completion of %#x: %+v", wc.WRID, *wc)
		return
	case k.life.mute:
		a.fail("completion of %#x, which RESET or the end of its queue pair had swallowed: %+v", wc.WRID, *wc)
		return
	case k.recv != (wc.Opcode >= qp.WCRecv) && wc.Status == qp.WCSuccess:
		a.fail("opcode %v of %#x", wc.Opcode, wc.WRID)
	}
	k.completed = true
	if !k.life.over && !a.inOrder(k) {
		return
	}
	k.finish()
	switch wc.Status {
	case qp.WCSuccess:
		if k.recv {
			a.received(k, wc)
		} else {
			a.succeeded(k)
		}
	case qp.WCWRFlushErr:
		if s := k.life.q.State(); !k.life.over && !k.life.failed && s != qp.StateErr && s != qp.StateSQE {
			a.fail("%#x was flushed in %v", k.id, s)
		}
	default:
		b := k.life.bond
		if b == nil || b.excused&(1<<wc.Status) == 0 {
			a.fail("%v %#x failed with %q without a reason", k.kind, k.id, wc.Status)
		} else if wc.Status == qp.WCRetryExcErr && b.answers(a) {
			a.fail("%v %#x failed with %q, but its peer answers", k.kind, k.id, wc.Status)
		} else if refused(wc.Status) && !k.recv && k.to.life.bond == b && k.to.life.q.State() != qp.StateErr {
			a.fail("%v %#x failed with %q, but who refused it is in %v", k.kind, k.id, wc.Status, k.to.life.q.State())
		} else if k.life.failed && a.reliable() && !k.recv {
			a.fail("%v %#x failed with %q: it should be flushed, as another has failed before", k.kind, k.id, wc.Status)
		}
		k.life.failed = k.life.failed || !k.recv
		b.excuse()
	}
}

// refused says whether a status stands for a NAK that ends the connection at both ends.
func refused(s qp.WCStatus) bool {
	return s == qp.WCRemInvReqErr || s == qp.WCRemAccessErr || s == qp.WCRemOpErr
}

// answers says that the other end has been there all the time, able to answer.
func (b *bond) answers(a *app) bool {
	p := b.peer(a)
	x, y, l, s := &a.plan.Cfg, &p.plan.Cfg, p.life, p.life.q.State()
	return l.bond == b && !l.failed && !l.overrun() && (s == qp.StateRTS || s == qp.StateSQD) && x.MTU == y.MTU &&
		x.Selective == y.Selective && !b.shallow && !a.w.silentLately(2*a.retrying())
}

// inOrder takes a request off the list of those without completion. Requests before it that were
// not signaled have succeeded.
func (a *app) inOrder(k *work) bool {
	list := &k.life.sends
	if k.recv {
		list = &k.life.recvs
	}
	for len(*list) > 0 {
		first := (*list)[0]
		*list = (*list)[1:]
		if first == k {
			return true
		}
		first.finish()
		switch {
		case k.life.overrun(): // its completion may have been lost
		case first.signaled:
			a.fail("completion of %#x although %#x, posted before, has none", k.id, first.id)
			return false
		default:
			a.succeeded(first)
		}
	}
	a.fail("completion of %#x, which is not outstanding", k.id)
	return false
}

// succeeded holds a success of a send request against what has happened at the peer.
func (a *app) succeeded(k *work) {
	k.ok = true
	if k.hopeless {
		a.fail("%v %#x succeeded, though the queue 0x%06x that it names is none for it", k.kind, k.id, k.queue)
	}
	switch k.kind {
	case qp.WRFlush:
		if k.durable && k.to.node.Synced == k.flushed {
			a.fail("FLUSH %#x succeeded, and storage has done nothing since", k.id)
		}
	case qp.WRWrite, qp.WRWriteWithImm, qp.WRAtomicWrite:
		if !a.reliable() {
			return
		}
		if k.landed != k.len {
			a.fail("%v %#x succeeded, but %d of its %d bytes were written", k.kind, k.id, k.landed, k.len)
		}
		k.clear()
	case qp.WRRead:
		for i := range k.len {
			if !k.life.over && a.mem[k.own+i] != sourceByte(k.target.generation, k.at+i) {
				a.fail("READ %#x succeeded, but byte %d of %d is not there", k.id, i, k.len)
				return
			}
		}
	case qp.WRAtomicFetchAndAdd:
		if k.landed != 1 {
			a.fail("FETCH_ADD %#x succeeded, but was executed %d times", k.id, k.landed)
		} else if !k.life.over && !bytes.Equal(a.mem[k.own:k.own+8], make([]byte, 8)) {
			a.fail("FETCH_ADD %#x found % x", k.id, a.mem[k.own:k.own+8])
		}
		k.clear()
	case qp.WRSend:
		if a.reliable() {
			a.w.sent = append(a.w.sent, k)
		}
	}
	if k.after != nil {
		k.after()
	}
}

// clear is the peer consuming what a request has written: if it is written once more, that shows.
func (k *work) clear() {
	if b := k.life.bond; !b.left[b.side(k.to)] {
		k.to.set(k.at, make([]byte, k.len))
	}
}

// received holds the success of a receive against the request that it says has arrived.
func (a *app) received(k *work, wc *qp.WC) {
	if k.life.over && wc.Opcode != qp.WCRecvRDMAWithImm {
		return // the application has put something else there
	}
	s, data := a.sentAs(wc, a.mem[k.own:k.own+k.len])
	switch {
	case s == nil || s.recv || s.to != a || int(wc.ByteLen) != s.len:
		a.fail("receive %#x of %d bytes: nobody has sent that", k.id, wc.ByteLen)
		return
	case a.cfg.Type != qp.UD && s.life.bond != k.life.bond:
		a.fail("receive %#x holds %#x, which was sent over an earlier connection", k.id, s.id)
	case a.cfg.Type == qp.RC && s.arrived:
		a.fail("receive %#x holds %#x, which has arrived before", k.id, s.id)
	case a.cfg.Type == qp.RC && s.id < k.life.newest[nil]:
		a.fail("receive %#x holds %#x, which was sent before %#x, which has arrived", k.id, s.id, k.life.newest[nil])
	case wc.Opcode == qp.WCRecv && !bytes.Equal(data[:s.len], pattern(s, s.len)):
		a.fail("receive %#x does not hold what was sent with %#x", k.id, s.id)
	case wc.Opcode == qp.WCRecv && a.cfg.Type == qp.RC && bytes.Count(data[s.len:],
		[]byte{untouched}) != len(data)-s.len:
		a.fail("receive %#x of %d bytes has brought more than that", k.id, s.len)
	}
	s.arrived, k.life.newest[nil] = true, s.id
	a.invalidated(wc)
}

// sentAs finds what a message was sent as: its immediate says so, or what it has brought, which is
// returned without a GRH.
func (a *app) sentAs(wc *qp.WC, data []byte) (*work, []byte) {
	if wc.Opcode == qp.WCRecvRDMAWithImm {
		return a.w.works[uint64(wc.Imm)], data
	}
	if a.cfg.Type == qp.UD {
		data = data[qp.GRHSize:]
		wc.ByteLen -= qp.GRHSize
	}
	return a.w.works[binary.LittleEndian.Uint64(data)], data
}

// invalidated ends the grants whose key a message has taken back.
func (a *app) invalidated(wc *qp.WC) {
	if wc.Flags&qp.WCWithInv != 0 {
		for _, g := range a.grants {
			g.dead = g.dead || g.key == wc.InvalidatedRKey
		}
	}
}

// checkOver is asked when the world has come to rest.
func (a *app) checkOver() {
	l := a.life
	for _, k := range l.sends {
		if k.signaled && !l.overrun() {
			a.fail("%v %#x never completed; its queue pair is in %v", k.kind, k.id, l.q.State())
			return
		}
	}
	if l.q.State() == qp.StateErr && len(l.recvs) > 0 && !l.overrun() {
		a.fail("%d receives were not flushed", len(l.recvs))
	}
}

// checkArrived is asked at the very end: what was sent with success has been received with success.
func (w *world) checkArrived() {
	for _, k := range w.sent {
		// the completion that would say so
		lost := k.to.cfg.Type == qp.XRCRecv && k.to.overran(k.queue)
		for _, l := range k.to.lives {
			lost = lost || l.bond == k.life.bond && (l.overrun() || l.over && !l.mute && k.to.pool == nil)
		}
		if !k.arrived && !lost {
			k.life.app.fail("SEND %#x succeeded, but %s has not received it", k.id, k.to)
		}
	}
}
