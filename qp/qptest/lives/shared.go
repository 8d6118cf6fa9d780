package lives

// Shared receive queues: a pool is one of a node, with memory of its own, from which applications
// of the node receive in all their lives. Queue pairs come and go; what is posted to a pool stays,
// so its rule is stronger than that of other requests: each one that was posted either completes,
// once, or is still there at the end, whatever has happened to the queue pair that was using it.

import (
	"bytes"
	"errors"

	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/qp/qptest"
)

// poolSize is how many requests a pool has memory for.
const poolSize = 10

// pool is a shared receive queue.
type pool struct {
	w      *world
	plan   *PoolPlan // of XRC; nil of the others
	number uint32    // of XRC: what requests name it by
	cq     *qp.CQ    // of XRC: where its requests complete
	node   *qptest.Node
	srq    *qp.SRQ
	region *mr.Region
	base   uint64

	mem, want []byte
	at        [poolSize]*work // the request that has each piece of memory; nil: it is free
	seen      int             // events of the node that were looked at
}

func (w *world) newPool(node *qptest.Node, plan *PoolPlan, number uint32) *pool {
	index := len(w.pools) + len(w.gone)
	p := &pool{
		w:      w,
		node:   node,
		plan:   plan,
		number: number,
		base:   uint64(index+1) << 48,
		mem:    make([]byte, poolSize*longest),
	}
	p.want = bytes.Clone(p.mem)
	pd := pdOf(node, plan)
	var err error
	if p.region, err = node.Memory.Register(pd, p.mem, p.base, mr.LocalWrite); err != nil {
		panic(err)
	}
	init := qp.SRQInit{Memory: node.Memory, PD: pd, MaxWR: poolSize, MaxSGE: 1, Context: p, Number: number}
	if plan != nil {
		init.XRCD = plan.Domain
	}
	if p.srq, err = qp.NewSRQ(init); err != nil {
		panic(err)
	}
	return p
}

// post posts a request for any message; false: there is no memory left, or no room.
func (p *pool) post() bool {
	for i := range p.at {
		if p.at[i] != nil {
			continue
		}
		p.w.wrid++
		k := &work{id: p.w.wrid, recv: true, pool: p, own: i * longest, len: longest}
		for j := range longest {
			p.mem[k.own+j] = untouched
		}
		copy(p.want[k.own:], p.mem[k.own:k.own+longest])
		n, err := p.srq.PostRecv([]qp.RecvWR{{WRID: k.id,
			SGL: []qp.SGE{{Addr: p.base + uint64(k.own), Length: longest, LKey: p.region.LKey()}}}})
		if err != nil || n != 1 {
			if !errors.Is(err, qp.ErrFull) || p.outstanding() < int(p.srq.Query().MaxWR) {
				p.w.Fail("PostRecv to a shared queue with %d outstanding: %d accepted, %v", p.outstanding(), n, err)
			}
			return false
		}
		p.at[i], p.w.works[k.id] = k, k
		return true
	}
	return false
}

func (p *pool) outstanding() (n int) {
	for _, k := range p.at {
		if k != nil {
			n++
		}
	}
	return n
}

// modifyShared changes the size or the limit. The size is refused if and only if it is less than
// what is outstanding.
func (a *app) modifyShared(d *Deed) bool {
	p := a.somePool(d.R[1])
	if p == nil || a.w.coda {
		return false
	}
	if d.Kind == "limit" {
		_, err := p.srq.Modify(qp.SRQAttr{Limit: d.R[0] % (p.srq.Query().MaxWR + 1)}, qp.SRQLimit)
		a.must(err, "Modify")
		return true
	}
	size := 1 + d.R[0]%(2*poolSize)
	_, err := p.srq.Modify(qp.SRQAttr{MaxWR: size}, qp.SRQMaxWR)
	if refused := errors.Is(err, qp.ErrInvalid); refused != (int(size) < p.outstanding()) && !p.mayMiss() {
		a.fail("a size of %d with %d outstanding: %v", size, p.outstanding(), err)
	}
	return true
}

// mayMiss says that there may be completions which nobody has seen, or ever will.
func (p *pool) mayMiss() bool {
	if p.cq != nil {
		return p.cq.Err() != nil
	}
	for _, a := range p.w.apps {
		if a.pool != p {
			continue
		}
		if a.deaf {
			return true
		}
		for _, l := range a.lives {
			if l.overrun() {
				return true
			}
		}
	}
	return false
}

// checkMemory holds that bytes change only where a request is posted.
func (p *pool) checkMemory() {
	if bytes.Equal(p.mem, p.want) {
		return
	}
	for i := range p.mem {
		if p.mem[i] == p.want[i] {
			continue
		}
		if p.at[i/longest] == nil {
			p.w.Fail("%s: byte %d of the shared queue's memory has become %#02x: no request is posted there",
				p.node, i, p.mem[i])
			return
		}
		p.want[i] = p.mem[i]
	}
}

// checkEvents holds that a queue pair says that it takes nothing more if it has failed, once.
func (p *pool) checkEvents() {
	for ; p.seen < len(p.node.Events); p.seen++ {
		ev := &p.node.Events[p.seen]
		if ev.Type != qp.EventQPLastWQE {
			continue
		}
		for _, a := range p.w.apps {
			if l := a.life; l.q == ev.QP {
				if l.lastWQEs++; a.pool == nil || l.lastWQEs > 1 {
					a.fail("%d events %q", l.lastWQEs, ev.Type)
				}
			}
		}
	}
	for _, a := range p.w.apps {
		if a.pool == p && a.life != nil && a.life.lastWQEs == 0 && a.life.q.State() == qp.StateErr {
			a.fail("its queue pair is in ERR, and no event %q has come", qp.EventQPLastWQE)
		}
	}
}

// checkOver is asked when the world has come to rest. How small the queue can be made shows what is
// outstanding. And once its queue pairs are gone, all of that waits for others: none is below the
// limit.
func (p *pool) checkOver() {
	n := uint32(p.outstanding())
	if p.mayMiss() {
		return
	}
	p.quit()
	if low, err := p.srq.Modify(qp.SRQAttr{Limit: n}, qp.SRQLimit); low || err != nil {
		p.w.Fail("%s: %d requests were posted to the shared queue and have no completion, but fewer wait in it (%v)",
			p.node, n, err)
	}
	if _, err := p.srq.Modify(qp.SRQAttr{MaxWR: max(n, 1)}, qp.SRQMaxWR); err != nil {
		p.w.Fail("%s: %d requests of the shared queue have no completion, but the queue says: %v", p.node, n, err)
	}
	if n < 2 {
		return
	}
	if _, err := p.srq.Modify(qp.SRQAttr{MaxWR: n - 1}, qp.SRQMaxWR); err == nil {
		p.w.Fail("%s: %d requests were posted to the shared queue and have no completion, but it has lost some",
			p.node, n)
	}
}

// completedShared holds a completion of a shared request against what was posted and sent. The
// life that it belongs to may be over.
func (a *app) completedShared(k *work, wc *qp.WC) {
	if !a.receivesFrom(k.pool) || k.done {
		a.fail("completion of %#x, which is not outstanding in its shared queue: %+v", k.id, *wc)
		return
	}
	k.completed, k.done = true, true
	k.pool.at[k.own/longest] = nil
	var lives []*life
	for _, l := range a.lives {
		if l.q.QPN() == wc.QPN {
			lives = append(lives, l)
		}
	}
	if len(lives) == 0 {
		a.fail("completion of %#x by a queue pair 0x%06x that it never had", k.id, wc.QPN)
		return
	}
	now := lives[len(lives)-1]
	switch {
	case wc.Status == qp.WCSuccess:
		a.receivedShared(k, wc, lives)
	case now.over || len(lives) > 1:
	case wc.Status == qp.WCWRFlushErr:
		if s := now.q.State(); s != qp.StateErr {
			a.fail("%#x was flushed in %v", k.id, s)
		}
	case now.bond == nil || now.bond.excused&(1<<wc.Status) == 0:
		a.fail("the shared request %#x failed with %q without a reason", k.id, wc.Status)
	default:
		now.bond.excuse()
	}
}

// receivedShared holds a success against the request that it says has arrived.
func (a *app) receivedShared(k *work, wc *qp.WC, lives []*life) {
	s, data := a.sentAs(wc, k.pool.mem[k.own:][:k.len])
	if s == nil || s.recv || s.to != a || int(wc.ByteLen) != s.len {
		a.fail("the shared request %#x of %d bytes: nobody has sent that", k.id, wc.ByteLen)
		return
	}
	var in *life // where it arrived
	for _, l := range lives {
		if l.bond == s.life.bond {
			in = l
		}
	}
	switch {
	case a.cfg.Type != qp.UD && in == nil:
		a.fail("the shared request %#x holds %#x, which was sent over another connection than those of QP 0x%06x",
			k.id, s.id, wc.QPN)
	case s.queue != k.pool.number:
		a.fail("the shared request %#x of queue 0x%06x holds %#x, which is for 0x%06x",
			k.id, k.pool.number, s.id, s.queue)
	case a.reliable() && s.arrived:
		a.fail("the shared request %#x holds %#x, which has arrived before", k.id, s.id)
	case a.reliable() && s.id < in.newest[k.pool]:
		a.fail("the shared request %#x holds %#x, which was sent before %#x, which has arrived",
			k.id, s.id, in.newest[k.pool])
	case wc.Opcode == qp.WCRecv && !bytes.Equal(data[:s.len], pattern(s, s.len)):
		a.fail("the shared request %#x does not hold what was sent with %#x", k.id, s.id)
	}
	if s.arrived = true; in != nil {
		in.newest[k.pool] = s.id
	}
	a.invalidated(wc)
}
