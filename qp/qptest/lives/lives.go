// Package lives is a simulated world whose queue pairs live more than once. Its applications do, at
// any moment and with old packets still on their way, what applications do: they reset, reconnect
// to the same peer or to another, close queue pairs and make them again, restart, close regions and
// register the same memory again with other rights, bind windows and take them back, modify
// attributes, drain, recover from SQE, stop polling, let completion queues overrun, make mistakes.
// Their two ends may have different options.
//
// The oracle of package qptest follows each packet and knows what the engines must do. This one
// stands where the applications stand: it sees work requests, completions and memory, and holds
// them against what is promised (rules.go):
//
//   - No byte changes that was not granted at that moment to who changed it.
//   - No byte leaves of what its application has taken back (taken.go).
//   - No success of what was not executed.
//   - Exactly one completion of each work request, in order, unless RESET or the end of its queue
//     pair swallowed it.
//   - No packet of an earlier connection has an effect.
//   - No error without a reason, no hang.
//
// Two worlds in five are calm: no deed of theirs makes requests fail, so nothing may fail but what
// waits for an end that has left the connection. In the others an application that gives a reason
// excuses the status for the rest of the connection (bond.excuse).
//
// How to read it: plan.go draws a world as data, a list of deeds; deeds.go is the table of what a
// deed can be, and posts; control.go is the other deeds; app.go is an application with its memory,
// its queue pair and the lives of that; rules.go is the oracle; shared.go is shared receive queues;
// xrc.go is connections of XRC; list.go is lists of requests; told.go is notifications, and the
// event of a drained send queue; purpose.go is requests that fail on purpose; below.go is what
// happens to links, addresses and rates.
package lives

import (
	"fmt"
	"io"
	"runtime/debug"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/qp/qptest"
	"github.com/goroce/goroce/wire"
)

// world is a plan while it runs.
type world struct {
	*qptest.World
	plan  *Plan
	apps  []*app
	pools []*pool
	gone  []*pool          // pools of XRC that are no more
	works map[uint64]*work // by WRID: every work request that was accepted
	wrid  uint64
	sent  []*work // SENDs that succeeded on reliable connections
	coda  bool    // no more deeds: what has begun must come to its end

	stranger *qptest.Node // who sends junk; nil: nobody has yet
	numbers  uint32       // the newest of a pool of XRC
	began    qp.Time
	silences []qptest.Interval        // in which packets got lost
	back     map[*qptest.Node]qp.Time // when the address comes back that a node has lost last
	heard    map[*qptest.Node]int     // events of a node that were looked at
}

// bond is one connection of two applications, from when its first end enters RTR until both have
// left it.
type bond struct {
	ends [2]*app
	told [2]address // what the ends have told each other
	left [2]bool
	// shallow says that an end has remembered fewer READs and atomics than the other may have
	// outstanding: it cannot answer all of them again.
	shallow bool
	// excused is the set of 1<<WCStatus that a request of it may fail with, for reasons that the
	// applications have given.
	excused uint32
}

// address is what an end must know of the other.
type address struct {
	qpn uint32
	psn wire.PSN
}

func (b *bond) side(a *app) int {
	if b.ends[0] == a {
		return 0
	}
	return 1
}

// peer returns the other end.
func (b *bond) peer(a *app) *app { return b.ends[1-b.side(a)] }

// over says that the other end has failed, or has left the connection.
func (b *bond) over(a *app) bool {
	l := b.peer(a).life
	return l.bond != b || l.q.State() == qp.StateErr
}

// excuse lets requests of a bond fail with a status from now on. An end that fails, or whose NAK
// gets lost, is silent then: what the other end sees is that.
func (b *bond) excuse(statuses ...qp.WCStatus) {
	b.excused |= 1 << qp.WCRetryExcErr
	for _, s := range statuses {
		b.excused |= 1 << s
	}
}

// Play runs the plan and returns the first violation. trace, if not nil, gets the story, and digest
// what the engines do.
func (p *Plan) Play(trace io.Writer, digest *qptest.Digest) (err error) {
	w := &world{
		World: qptest.NewWorld(p.Seed),
		plan:  p,
		works: map[uint64]*work{},
		back:  map[*qptest.Node]qp.Time{},
		heard: map[*qptest.Node]int{},
	}
	w.began = w.Now
	w.Trace, w.OneByOne, w.Faults, w.Applications = trace, true, p.Faults, w
	w.Digest = digest
	w.MaxEvents = 60_000
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	for i, n := range p.Nodes {
		n.Engine.Purpose = w.purposes(i)
		w.AddNode(n)
	}
	for i := range p.Pools {
		w.pools = append(w.pools, w.openPool(&p.Pools[i], w.nextNumber()))
	}
	for i := range p.Apps {
		w.apps = append(w.apps, w.newApp(i, &p.Apps[i]))
	}
	for i := 0; i < len(w.apps); i += 2 {
		w.join(w.apps[i], w.apps[i+1], 0)
	}
	for i := range p.Deeds {
		d := &p.Deeds[i]
		w.After(d.At, func() { w.do(d) })
	}
	if err := w.RunFor(p.End); err != nil {
		return err
	}
	return w.finish()
}

// finish lets what has begun come to its end, and asks whether it has.
func (w *world) finish() error {
	w.coda = true
	for round := 0; round < 200 && w.Err() == nil && w.helpAll(round >= 20); round++ {
		_ = w.RunFor(2 * qptest.Millisecond)
	}
	if err := w.Run(); err != nil {
		return err
	}
	for _, a := range w.apps {
		a.checkOver()
	}
	for _, p := range w.pools {
		p.checkOver()
	}
	for _, p := range w.gone {
		p.checkGone()
	}
	w.checkArrived()
	return w.Err()
}

// helpAll gives every application that still waits for something what it may wait for. Last
// requests, whose doorbells could wake what has been forgotten, come last. It returns false when
// none waits.
func (w *world) helpAll(last bool) (waiting bool) {
	for _, a := range w.apps {
		a.deaf = false
		a.look()
	}
	for _, a := range w.apps {
		if s := a.life.q.State(); a.outstanding() > 0 || s == qp.StateRTS && !a.saidLast && a.requests() {
			waiting = true
		}
		a.help(last)
	}
	return waiting
}

// tell writes a line of the story.
func (w *world) tell(format string, args ...any) {
	if w.Trace != nil {
		fmt.Fprintf(w.Trace, "                "+format+"\n", args...)
	}
}

// Arrives is part of qptest.Applications: it notes packets that are longer than their queue pair's
// path MTU, and READs.
func (w *world) Arrives(n *qptest.Node, packet []byte) {
	fr, why := wire.SplitFrame(packet)
	var p wire.Packet
	if why != wire.DropNone || wire.Parse(&fr, &p) != wire.DropNone {
		return
	}
	p.Frame = &fr
	if w.stranger != nil && fr.Src() == w.stranger.GID {
		return // it is connected to nobody, so it asks for nothing
	}
	for _, a := range w.apps {
		if a.node != n || a.life.q.QPN() != p.BTH.DestQP() {
			continue
		}
		if len(p.Payload) > a.cfg.MTU.Bytes() {
			a.oversize = &oversize{n.Engine.Stats().Kept}
		}
		a.life.asks(&p)
	}
}

// Turned is part of qptest.Applications: memory is looked at first, for what may change depends on
// what has completed.
func (w *world) Turned(n *qptest.Node) {
	w.checkTold(n)
	w.checkDrained(n)
	for _, a := range w.apps {
		if a.node == n {
			a.checkMemory()
			a.checkKept()
		}
	}
	for _, p := range w.pools {
		if p.node == n {
			p.checkMemory()
			if p.cq == nil {
				p.checkEvents()
			} else {
				p.poll()
			}
		}
	}
	for _, a := range w.apps {
		if a.node == n {
			a.look()
		}
	}
}

// poolOf is the shared receive queue of a node.
func (w *world) poolOf(n *qptest.Node) *pool {
	for _, p := range w.pools {
		if p.node == n && p.plan == nil {
			return p
		}
	}
	w.pools = append(w.pools, w.newPool(n, nil, 0))
	return w.pools[len(w.pools)-1]
}
