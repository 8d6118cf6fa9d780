package lives

// XRC: applications that only request (XRC_SEND), each connected to one that only responds
// (XRC_RECV). Each request names a shared receive queue of the responder's node, which must be of
// the responder's domain; its bytes and its completion are in that queue, and in its completion
// queue, whatever becomes of the queue pair. So queues are pools (shared.go) with a domain and a
// number; and some are of another protection domain than the memory that peers may use.
//
// Stages: drawing it, with dice of its own (drawXRC) → who is what → a request names its queue
// (name) → mistakes (wrongQueue) → a queue goes while connections live, and another takes its
// place, maybe under the same number (renewQueue) → its completions (poll) → the rules that are of
// XRC alone.

import (
	"slices"

	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/qp/qptest"
)

// PoolPlan is a shared receive queue of XRC.
type PoolPlan struct {
	Node   int     // of Plan.Nodes
	Domain qp.XRCD // 1 or 2
	Apart  bool    // it is of a protection domain of its own
	CQE    int     // of its completion queue
}

// drawXRC gives the fifth part of the worlds one or two connections of XRC to one node.
func (p *Plan) drawXRC(d qptest.Dice, end qp.Time) {
	if !d.Chance(0.2) {
		return
	}
	node, first := d.IntN(len(p.Nodes)), len(p.Apps)
	domains := 1 + d.IntN(2)
	for i := range domains + d.IntN(3) { // each domain has one that all requests may name
		q := PoolPlan{Node: node, Domain: qp.XRCD(1 + i%domains), Apart: i >= domains && d.Chance(0.5), CQE: 64}
		if d.Chance(0.2) && !p.Calm {
			q.CQE = 2
		}
		p.Pools = append(p.Pools, q)
	}
	for range 1 + d.IntN(2) {
		p.drawPair(d, qp.XRCSend)
		b := &p.Apps[len(p.Apps)-1]
		b.Cfg.Type, b.Node, b.Domain = qp.XRCRecv, node, qp.XRCD(1+d.IntN(domains))
	}
	kinds := []string{"write", "write with immediate", "read", "read", "fetch and add", "send", "send", "send",
		"limit", "resize"}
	if !p.Calm {
		kinds = append(kinds, "renew queue", "wrong queue")
	}
	for range 20 + d.IntN(60) {
		i := d.IntN(len(p.Apps) - first)
		kind := drawKind(d, p.Calm)
		if d.Chance(0.6) {
			kind = qptest.Pick(d, kinds...)
		}
		if d.Chance(0.2) {
			i, kind = i|1, "receives"
		}
		p.Deeds = append(p.Deeds, Deed{upTo(d, end+1), first + i, kind, [3]uint32{d.Uint32(), d.Uint32(), d.Uint32()}})
	}
}

// opposite is the type of the queue pairs that those of a type are connected to.
func opposite(t qp.QPType) qp.QPType {
	switch t {
	case qp.XRCSend:
		return qp.XRCRecv
	case qp.XRCRecv:
		return qp.XRCSend
	}
	return t
}

// reliable says that requests of the application, or to it, are executed once and acknowledged.
func (a *app) reliable() bool { return a.cfg.Type == qp.RC || a.cfg.Type >= qp.XRCSend }

// requests says that its queue pair has a send queue.
func (a *app) requests() bool { return a.cfg.Type != qp.XRCRecv }

// receivesFrom says whether requests of a pool may complete for it.
func (a *app) receivesFrom(p *pool) bool {
	if a.cfg.Type == qp.XRCRecv {
		return p.plan != nil && p.node == a.node && p.plan.Domain == a.plan.Domain
	}
	return a.pool == p
}

// pools are those that it receives from.
func (a *app) pools() []*pool {
	return slices.DeleteFunc(slices.Clone(a.w.pools), func(p *pool) bool { return !a.receivesFrom(p) })
}

// somePool is one of them, nil if there is none.
func (a *app) somePool(r uint32) *pool {
	if all := a.pools(); len(all) > 0 {
		return all[int(r)%len(all)]
	}
	return nil
}

// openPool makes a shared receive queue of XRC with a number, and its completion queue.
func (w *world) openPool(plan *PoolPlan, number uint32) *pool {
	n := w.Nodes[plan.Node]
	p := w.newPool(n, plan, number)
	var err error
	if p.cq, err = n.Engine.CreateCQ(plan.CQE, nil); err == nil {
		err = n.Engine.AddXRC(p.srq, p.cq)
	}
	if err != nil {
		w.Fail("%s: CreateCQ, AddXRC: %v", n, err)
	}
	return p
}

// nextNumber is a number that no queue has had.
func (w *world) nextNumber() uint32 {
	w.numbers++
	return w.numbers
}

// name has a request name a queue of the responder: for RDMA one of the domain of the memory, for
// its keys count in that of the queue.
func (k *work) name(wr *qp.SendWR) {
	var may []*pool
	for _, p := range k.to.pools() {
		if k.kind == qp.WRSend || !p.plan.Apart {
			may = append(may, p)
		}
	}
	k.queue = may[int(k.id*2654435761>>7)%len(may)].number
	wr.RemoteSRQN = k.queue
}

// wrongQueue posts a request that names no queue, one of another domain, or one that opens other
// memory.
func (a *app) wrongQueue(d *Deed) bool {
	if !a.ready() || a.cfg.Type != qp.XRCSend {
		return false
	}
	k := a.newWork(qp.WRSend)
	k.local, k.len, k.hopeless = nil, 16, true
	wr := qp.SendWR{Flags: qp.SendSignaled | qp.SendInline, RemoteSRQN: a.w.numbers + 1<<20}
	for _, p := range a.w.pools {
		switch {
		case p.plan == nil || p.node != k.to.node || d.R[0]%3 == 0 || wr.RemoteSRQN == p.number:
		case p.plan.Domain != k.to.plan.Domain:
			wr.RemoteSRQN = p.number
		case p.plan.Apart && p.plan.Domain == k.to.plan.Domain && len(k.to.grants) > 0 && d.R[0]%3 == 1 &&
			k.kind == qp.WRSend:
			if k.at = k.to.claim(k, targetAt, targetSize, k.len, d.R[1], k.overAtPeer); k.at < 0 {
				k.neverPosted()
				return false
			}
			k.to.set(k.at, make([]byte, k.len))
			k.kind, k.target, wr.RemoteSRQN = qp.WRWrite, k.to.grants[0], p.number
			wr.RKey, wr.RemoteAddr = k.target.key, k.to.base+uint64(k.at)
		}
	}
	wr.Inline, k.queue = pattern(k, k.len), wr.RemoteSRQN
	a.excuseBoth(qp.WCRemInvReqErr, qp.WCRemAccessErr)
	if !a.post(k, wr) {
		k.neverPosted()
		return false
	}
	return true
}

// renewQueue ends a queue that the application receives from, whatever it is being used for, and
// makes another one. Half of the times that has the number of the old one.
func (a *app) renewQueue(d *Deed) bool {
	p := a.somePool(d.R[0])
	if a.cfg.Type != qp.XRCRecv || p == nil || a.w.coda {
		return false
	}
	w := a.w
	for _, x := range w.apps {
		if x.receivesFrom(p) {
			x.excuseBoth(qp.WCRemInvReqErr)
		}
	}
	a.must(a.node.Control(func() error { a.node.Engine.RemoveXRC(p.srq); return nil }), "RemoveXRC")
	p.poll()
	a.must(a.node.Engine.DestroyCQ(p.cq), "DestroyCQ")
	a.must(a.node.Memory.Deregister(p.region), "Deregister")
	for _, k := range p.at {
		if k != nil {
			k.done = true
		}
	}
	number := p.number
	if d.R[1]%2 == 0 {
		number = w.nextNumber()
	}
	w.gone = append(w.gone, p)
	w.pools[slices.Index(w.pools, p)] = w.openPool(p.plan, number)
	w.tell("%s has another shared receive queue 0x%06x instead of 0x%06x", a.node, number, p.number)
	return true
}

// poll takes the completions of the pool, which say by the queue pair whose they are.
func (p *pool) poll() {
	var wcs [16]qp.WC
	for n := p.cq.Poll(wcs[:]); n > 0; n = p.cq.Poll(wcs[:]) {
		for i := range wcs[:n] {
			if a := p.receiver(wcs[i].QPN); a != nil {
				a.completed(&wcs[i])
			} else {
				p.w.Fail("%s: completion of a shared request by a queue pair that receives nothing there: %+v",
					p.node, wcs[i])
			}
		}
	}
	if p.cq.Err() == nil {
		return
	}
	for _, a := range p.w.apps {
		if a.life != nil && a.receivesFrom(p) {
			a.excuseBoth()
		}
	}
}

// receiver is the application that has or had a queue pair which receives from the pool.
func (p *pool) receiver(qpn uint32) *app {
	for _, a := range p.w.apps {
		if a.receivesFrom(p) && slices.ContainsFunc(a.lives, func(l *life) bool { return l.q.QPN() == qpn }) {
			return a
		}
	}
	return nil
}

// overran says that completions of a queue with this number may have been lost.
func (a *app) overran(number uint32) bool {
	return slices.ContainsFunc(append(a.pools(), a.w.gone...), func(p *pool) bool {
		return p.node == a.node && p.number == number && p.mayMiss()
	})
}

// checkGone is asked at the end: nothing has come to a queue that was no more.
func (p *pool) checkGone() {
	if p.cq.Len() > 0 {
		p.w.Fail("%s: %d completions of a shared receive queue that was no more", p.node, p.cq.Len())
	}
	p.at = [poolSize]*work{}
	p.checkMemory()
}

// quit closes the queue pairs that may hold a request of the pool.
func (p *pool) quit() {
	for _, a := range p.w.apps {
		if a.receivesFrom(p) && !a.quit {
			a.quit = true
			a.destroy()
		}
	}
}

// pdOf is the protection domain of a pool.
func pdOf(n *qptest.Node, plan *PoolPlan) mr.PD {
	if plan == nil || !plan.Apart {
		return n.PD
	}
	pd, err := n.Memory.AllocPD()
	if err != nil {
		panic(err)
	}
	return pd
}
