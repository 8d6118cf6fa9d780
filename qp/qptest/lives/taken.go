package lives

// Memory that was taken back (section 7.7): what leaves must not be of it. This is held against
// each packet with data, when it leaves.
//
// Stages: drawing who takes memory back from under READs (drawTaken, readAndTake) → an application
// marks what it can reuse (took, reuse) → READ requests are noted when they arrive (asks) → whose
// packet leaves (Leaves) → a READ response must be granted at that moment (mayRead), and what
// others carry must not be marked.

import (
	"bytes"
	"math/bits"

	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/qp/qptest"
	"github.com/goroce/goroce/wire"
)

// drawTaken has applications of some worlds take memory back from under READs. It has dice of its
// own, so that the other worlds are what they were.
func (p *Plan) drawTaken(d qptest.Dice, end qp.Time) {
	if p.Calm || !d.Chance(0.25) {
		return
	}
	for range 2 + d.IntN(10) {
		p.Deeds = append(p.Deeds, Deed{upTo(d, end+1), d.IntN(len(p.Apps)), "read and take back",
			[3]uint32{d.Uint32(), d.Uint32(), d.Uint32()}})
	}
}

// takings are the ways of taking memory back that a peer may READ.
var takings = []func(a *app, d *Deed) bool{(*app).abandon, (*app).abandon, (*app).modifyLive, (*app).closeRemote,
	(*app).reregister, (*app).invalidate, (*app).bindCommon, func(a *app, d *Deed) bool { return a.rejoin(d, true) }}

// readAndTake has the peer READ, perhaps do something that it may not do behind that, and soon
// takes the memory back.
func (a *app) readAndTake(d *Deed) bool {
	if !a.connected() {
		return false
	}
	p := a.life.bond.peer(a)
	if p.life.bond != a.life.bond || !p.ready() {
		return false
	}
	for i := range 1 + d.R[0]%4 {
		each := Deed{R: [3]uint32{bits.RotateLeft32(d.R[0], int(7*i)), d.R[1], bits.RotateLeft32(d.R[2], int(5*i))}}
		p.postRDMA(qp.WRRead, &each)
	}
	if d.R[1]%2 == 0 && p.reliable() && len(a.grants) > 0 {
		k := p.newWork(qp.WRWrite)
		k.local, k.len, k.target = nil, 16, &grant{app: a, key: a.grants[0].key ^ 0x5500, dead: true}
		k.life.bond.excuse(qp.WCRemAccessErr, qp.WCRemInvReqErr)
		p.post(k, qp.SendWR{
			Flags:      qp.SendSignaled | qp.SendInline,
			Inline:     pattern(k, 16),
			RKey:       k.target.key,
			RemoteAddr: a.base,
		})
	}
	take := takings[d.R[1]>>4%uint32(len(takings))]
	a.w.After(a.w.plan.Faults.Delay+qp.Time(d.R[2]%64)*300, func() {
		take(a, &Deed{R: [3]uint32{d.R[2] &^ 3, d.R[0], d.R[1]}})
	})
	return true
}

// reused is what memory of requests holds once its application may put something else there. No
// data has such bytes (patternByte).
const reused = 0xff

// readAsked is a READ request that has arrived.
type readAsked struct {
	first wire.PSN
	key   uint32
	va    uint64
	size  int
}

// took notes that the queue pair has just been moved to ERR or RESET, or destroyed, by its
// application: all that it was given belongs to that again.
func (l *life) took() {
	l.taken = true
	for _, k := range l.sends {
		k.reuse()
	}
}

// finish ends a request: the application has its memory again.
func (k *work) finish() {
	if !k.done {
		k.done = true
		k.reuse()
	}
}

// reuse marks the memory that a request sends.
func (k *work) reuse() {
	if k.local != nil && !k.recv && (k.kind == qp.WRSend || k.kind == qp.WRSendWithInv || k.kind == qp.WRWrite ||
		k.kind == qp.WRWriteWithImm) {
		k.life.set(k.own, bytes.Repeat([]byte{reused}, k.len))
	}
}

// asks notes a READ request that arrives.
func (l *life) asks(p *wire.Packet) {
	if h := p.RETH(); p.Opcode.Operation() == wire.RCReadRequest && wire.Verify(p.Frame) {
		l.reads = append(l.reads, readAsked{p.BTH.PSN(), h.RKey(), h.VA(), int(h.DMALen())})
	}
}

// Leaves is part of qptest.Applications. Two queue pairs of a node may take the same one for their
// peer, which has left one of them; then it is enough if one of them may send the packet.
func (w *world) Leaves(n *qptest.Node, p *wire.Packet) {
	if len(p.Payload) == 0 || p.Opcode.Operation() == wire.RCAtomicWrite && p.Opcode.Service() != wire.ServiceUD {
		return
	}
	why := "no queue pair is connected to there"
	for _, a := range w.apps {
		if a.node != n || a.life == nil || !a.life.isOf(p) {
			continue
		}
		if why = a.life.mayLeave(p); why == "" {
			return
		}
	}
	w.Fail("%s sent %s with %d bytes of memory: %s", n, wire.AppendPacket(nil, p.Frame), len(p.Payload), why)
}

// isOf says whether a packet can be of this life.
func (l *life) isOf(p *wire.Packet) bool {
	if d := p.DETH(); d != nil {
		return d.SrcQP() == l.q.QPN()
	}
	b := l.bond
	if b == nil {
		return false
	}
	peer := b.peer(l.app)
	return b.told[b.side(peer)].qpn == p.BTH.DestQP() && peer.node.GID == p.Frame.Dst()
}

// mayLeave says what forbids that a packet with data leaves, "" if it may.
func (l *life) mayLeave(p *wire.Packet) string {
	data := p.Payload
	switch {
	case l.taken:
		return "the application has moved the queue pair to ERR or RESET, or has closed it"
	case p.Op.Has(wire.OpResponse):
		return l.mayRead(p)
	case p.Op.Has(wire.OpSend) && p.Op.Has(wire.OpStart): // the WRID, which has any bytes
		data = data[8:]
	}
	if bytes.IndexByte(data, reused) >= 0 {
		return "the application has had the memory back"
	}
	return ""
}

// mayRead is mayLeave of a READ response: the application grants now what it brings.
func (l *life) mayRead(p *wire.Packet) string {
	a := l.app
	for i := len(l.reads) - 1; i >= 0; i-- {
		r := &l.reads[i]
		at := int(p.BTH.PSN().Sub(r.first)) * a.mtu()
		if at < 0 || at+len(p.Payload) > r.size {
			continue
		}
		if a.access&mr.RemoteRead == 0 {
			return "the queue pair does not grant it"
		}
		from := int(r.va-a.base) + at
		for _, g := range a.grants {
			if g.key == r.key && g.grants(l, mr.RemoteRead, from, from+len(p.Payload)) {
				return ""
			}
		}
		return "the key does not grant it"
	}
	return "nobody has asked for it"
}

// grants says whether a key grants a right to bytes of memory to the peer of a life, now.
func (g *grant) grants(l *life, need mr.Access, from, to int) bool {
	return !g.dead && g.rights&need != 0 && from >= g.from && to <= g.to && (!g.isWindow(mr.Window2) || g.by == l)
}
