package lives

// What happens below the queue pairs while they live: all links are cut for a while, an address
// goes and comes back, packets get another rate, a neighbour throws packets at them.
//
// Stages: drawing it (drawBelow, drawNeighbour) → a silence, in which packets get lost → the four
// deeds. They are drawn with dice of their own, so that the other worlds are what they were.

import (
	"math/rand/v2"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/qp/qptest"
	"github.com/goroce/goroce/wire"
)

// drawBelow gives the third part of the worlds some of it.
func (p *Plan) drawBelow(d qptest.Dice, end qp.Time) {
	if !d.Chance(0.35) {
		return
	}
	for range 1 + d.IntN(6) {
		p.Deeds = append(p.Deeds, Deed{upTo(d, end+1), d.IntN(len(p.Apps)),
			qptest.Pick(d, "rate", "rate", "cut", "address"), [3]uint32{d.Uint32(), d.Uint32(), d.Uint32()}})
	}
}

// drawNeighbour gives some worlds a host that has no connection and sends nevertheless.
func (p *Plan) drawNeighbour(d qptest.Dice, end qp.Time) {
	if !d.Chance(0.1) {
		return
	}
	for range 1 + d.IntN(100) {
		p.Deeds = append(p.Deeds, Deed{upTo(d, end+1), d.IntN(len(p.Apps)), "junk", [3]uint32{d.Uint32(), d.Uint32()}})
	}
}

// retrying is how long a requester may go on without an answer, and a little more.
func (a *app) retrying() qp.Time { return 10 * qp.Time(wire.AckTimeout(a.plan.Cfg.Timeout)) }

// silence is a while from now on in which packets get lost, which ends before the world comes to
// rest. In a calm world retries bear it: it is short, and the next one comes much later.
func (a *app) silence(r uint32) (long qp.Time, ok bool) {
	w, timeout := a.w, qp.Time(wire.AckTimeout(a.plan.Cfg.Timeout))
	long = timeout * []qp.Time{3, 15, 60, 120}[r%4] / 10
	if w.plan.Calm {
		long = timeout * qp.Time(1+r%15) / 10
	}
	long = min(long, w.began+w.plan.End-w.Now)
	if long <= 0 || w.coda || w.plan.Calm && w.silentLately(2*a.retrying()) {
		return 0, false
	}
	w.silences = append(w.silences, qptest.Interval{From: w.Now, To: w.Now + long})
	if !w.plan.Calm {
		for _, x := range w.apps {
			x.excuseBoth()
		}
	}
	return long, true
}

// silentLately says whether there is a silence, or was one that ended less than some time ago.
func (w *world) silentLately(before qp.Time) bool {
	for _, s := range w.silences {
		if s.To+before > w.Now {
			return true
		}
	}
	return false
}

// cut has all links lose everything.
func (a *app) cut(d *Deed) bool {
	long, ok := a.silence(d.R[0])
	if ok {
		a.w.tell("all links are cut for %d ns", long)
		a.w.Cut(long)
	}
	return ok
}

// loseAddress takes the node's address away: what comes for its queue pairs is dropped, and none
// can be connected before it is back.
func (a *app) loseAddress(d *Deed) bool {
	if !a.there() {
		return false
	}
	long, ok := a.silence(d.R[0])
	if ok {
		n, rows := a.node, a.node.GIDs
		a.w.tell("%s has no address for %d ns", n, long)
		n.SetGIDs(wire.GID{})
		a.w.back[n] = a.w.Now + long
		a.w.After(long, func() { n.SetGIDs(rows...) })
	}
	return ok
}

// there says that the node has its address.
func (a *app) there() bool { return !a.node.GIDs[0].IsZero() }

// limit gives the packets of the queue pair another rate, or none of their own.
func (a *app) limit(d *Deed) bool {
	if !a.connected() || a.life.q.State() != qp.StateRTS || a.cfg.Type == qp.UD {
		return false
	}
	a.modify(qp.QPAttr{RateLimit: []uint32{0, 200_000, 1_000_000, 10_000_000}[d.R[0]%4]}, qp.AttrRateLimit)
	return true
}

// junk is a packet of a stranger for the queue pair or one beside it, which must have no effect.
func (a *app) junk(d *Deed) bool {
	w := a.w
	if w.stranger == nil {
		w.stranger = w.AddNode(qptest.NodeConfig{Addr: "10.2.0.99", Raw: true})
	}
	dice := qptest.Dice{Rand: rand.New(rand.NewPCG(uint64(d.R[0]), uint64(d.R[1])))}
	w.Junk(dice, w.stranger, a.node, a.life.q.QPN())
	return true
}
