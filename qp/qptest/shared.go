package qptest

// Shared receive queues: what the oracle knows of one, and the application of the random world that
// keeps it filled, resizes it and arms its limit.
//
// A queue pair that shares has no receives of its own: takeRecv and returnRecv go to the queue. The
// oracle takes a request when the engine must have claimed it and gives it back when the message
// came to nothing, so it knows which request each message of each queue pair gets.

import (
	"errors"
	"slices"

	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/wire"
)

// SRQ is a shared receive queue of a node.
type SRQ struct {
	*qp.SRQ
	Node *Node
	CQ   *qp.CQ // of XRC: where its requests complete
	// OnReceive runs when a request of the queue has completed.
	OnReceive func(wrid uint64)

	xrcd        qp.XRCD
	attr        qp.SRQAttr // as it must be
	waiting     []*recvOp  // with no message, oldest first
	outstanding int        // without completion
	raised, due int        // limit events: those that came, those that had to
}

// CreateSRQ makes a shared receive queue; QPConfig.SRQ gives it to queue pairs of the node.
func (n *Node) CreateSRQ(init qp.SRQInit) *SRQ {
	s := &SRQ{Node: n, attr: qp.SRQAttr{MaxWR: init.MaxWR, MaxSGE: init.MaxSGE, Limit: init.Limit}}
	if init.PD == 0 {
		init.PD = n.PD
	}
	init.Memory, init.Context = n.Memory, s
	if init.XRCD != 0 {
		s.enterXRC(&init, 512)
	}
	var err error
	if s.SRQ, err = qp.NewSRQ(init); err != nil {
		panic("qptest: " + err.Error())
	}
	n.srqs = append(n.srqs, s)
	if s.CQ != nil {
		if err := n.Engine.AddXRC(s.SRQ, s.CQ); err != nil {
			panic("qptest: " + err.Error())
		}
	}
	return s
}

// PostRecv posts one request and returns its WRID.
func (s *SRQ) PostRecv(sgl ...qp.SGE) (uint64, error) {
	w := s.Node.W
	w.wrid++
	wr := qp.RecvWR{WRID: w.wrid | recvBit, SGL: sgl}
	n, err := s.SRQ.PostRecv([]qp.RecvWR{wr})
	if full := s.outstanding == int(s.attr.MaxWR); (n == 1) == full || errors.Is(err, qp.ErrFull) != full {
		w.Fail("%s: PostRecv returned %d, %v; %d of %d are outstanding", s.Node, n, err, s.outstanding, s.attr.MaxWR)
	}
	if err == nil {
		wr.SGL = slices.Clone(sgl)
		s.waiting = append(s.waiting, newRecvOp(wr))
		s.outstanding++
		s.Node.shared[wr.WRID] = s
	}
	return wr.WRID, err
}

// Modify sets the size or the limit, and says whether the engine did what it must.
func (s *SRQ) Modify(a qp.SRQAttr, mask qp.SRQAttrMask) error {
	now := s.attr
	if mask&qp.SRQMaxWR != 0 {
		now.MaxWR = a.MaxWR
	}
	bad := now.MaxWR < 1 || int(now.MaxWR) < s.outstanding
	if mask&qp.SRQLimit != 0 {
		now.Limit = a.Limit
		bad = bad || a.Limit > now.MaxWR
	}
	low, err := s.SRQ.Modify(a, mask)
	if !bad {
		s.attr = now
	}
	must := !bad && mask&qp.SRQLimit != 0 && s.low()
	if bad != errors.Is(err, qp.ErrInvalid) || low != must || s.Query() != s.attr {
		s.Node.W.Fail("%s: Modify(%+v, %d) of a shared queue with %d outstanding, %d waiting: low %v, %v; it is "+
			"%+v, should be %+v",
			s.Node, a, mask, s.outstanding, len(s.waiting), low, err, s.Query(), s.attr)
	}
	return err
}

// low says whether there are fewer requests than the limit, which then is disarmed.
func (s *SRQ) low() bool {
	low := len(s.waiting) < int(s.attr.Limit)
	if low {
		s.attr.Limit = 0
	}
	return low
}

// take is a message for q that takes the oldest request, with more of it to come or not; nil if
// there is none for it.
func (s *SRQ) take(q *QP, more bool) *recvOp {
	if len(s.waiting) == 0 || more && !s.mayHold(q.dest.gid) {
		return nil
	}
	r := s.waiting[0]
	s.waiting = s.waiting[1:]
	if s.low() {
		s.due++
	}
	return r
}

// mayHold says whether a message that is half there may have a request, for a peer's address: if
// the peer has less than its share of those that no message has or messages hold, or if what is
// left is the share of all the others and of one that is to come (section 14).
func (s *SRQ) mayHold(gid wire.GID) bool {
	sources, mine, held := map[wire.GID]bool{}, 0, 0
	for _, q := range s.Node.list {
		shares := q.Cfg.SRQ == s && q.Type() != qp.XRCRecv || q.Type() == qp.XRCRecv && s.xrcd == xrcDomain
		if !shares || q.dest == (remote{}) {
			continue
		}
		sources[q.dest.gid] = true
		if q.Cfg.SRQ == s && q.in.slot != nil {
			if held++; q.dest.gid == gid {
				mine++
			}
		}
	}
	share := (len(s.waiting) + held) / (2 * (len(sources) + 1))
	return mine < share || len(s.waiting) > len(sources)*share
}

func (s *SRQ) putBack(r *recvOp) { s.waiting = append([]*recvOp{r}, s.waiting...) }

// check is asked after every turn.
func (s *SRQ) check() {
	if s.raised != s.due || s.Query() != s.attr {
		s.Node.W.Fail("%s: %d limit events of a shared queue, should be %d; it is %+v, should be %+v",
			s.Node, s.raised, s.due, s.Query(), s.attr)
	}
}

// checkKept is asked at the end: nothing that was posted is lost. What is outstanding shows in how
// small the queue can be made.
func (s *SRQ) checkKept() {
	size := uint32(s.outstanding)
	_ = s.Modify(qp.SRQAttr{Limit: size}, qp.SRQLimit) // low if some are with messages
	if size > 0 {
		_ = s.Modify(qp.SRQAttr{MaxWR: size - 1}, qp.SRQMaxWR) // which must fail
	}
	_ = s.Modify(qp.SRQAttr{MaxWR: max(size, 1)}, qp.SRQMaxWR)
}

// noteEvent counts the events of shared queues and their queue pairs.
func (n *Node) noteEvent(ev *qp.Event) {
	switch ev.Type {
	case qp.EventSRQLimit:
		if s, ok := ev.SRQ.Context().(*SRQ); ok {
			s.raised++
		}
	case qp.EventQPLastWQE:
		if q, ok := ev.QP.Context().(*QP); ok {
			q.lastWQEs++
		}
	}
}

// checkLastWQE holds that a queue pair that shares says once that it takes nothing more, when it
// has failed.
func (q *QP) checkLastWQE() {
	want := 0
	if q.Cfg.SRQ != nil && q.Type() != qp.XRCRecv && q.State() == qp.StateErr {
		want = 1
	}
	if q.lastWQEs != want {
		q.Node.W.Fail("%s in %v: %d events %q, should be %d", q, q.State(), q.lastWQEs, qp.EventQPLastWQE, want)
	}
}

// SRQPlan is a shared receive queue of the random world.
type SRQPlan struct {
	Node   int
	Init   qp.SRQInit
	Room   int // bytes of each request
	Pieces []int
	First  int     // requests posted before anything is sent
	Every  qp.Time // pace of the others, and from a completion to the next post
	Acts   []SRQAct
}

// SRQAct changes an attribute.
type SRQAct struct {
	At   qp.Time
	Attr qp.SRQAttr
	Mask qp.SRQAttrMask
}

// maxShared is how large a shared queue of a random world gets, sharedRoom if messages of UC may
// never end: they keep their requests, and others must get something.
const (
	maxShared  = 16
	sharedRoom = 32
)

// drawShared lets some queue pairs of a node take their receives from a shared queue.
func (p *Plan) drawShared(d Dice) {
	for node := range p.Nodes {
		s := SRQPlan{
			Node: node,
			Init: qp.SRQInit{MaxWR: uint32(d.between(1, maxShared)), MaxSGE: uint32(d.between(1, 5))},
			Room: d.IntN(200),
		}
		s.First, s.Every = d.IntN(maxShared+1), qp.Time(d.IntN(int(20*Microsecond))+1)
		used, held := false, uint32(0) // held: what messages of UC that never end can keep
		if d.Chance(0.65) {
			continue
		}
		for i := range p.Conns {
			for j := range p.Conns[i].Ends {
				if e := &p.Conns[i].Ends[j]; e.Node == node && e.Cfg.Type < qp.XRCSend && d.Chance(0.8) {
					if e.SRQ, used = len(p.SRQs)+1, true; e.Cfg.Type == qp.UC {
						held++
					}
					for _, r := range e.Recvs {
						s.Room = max(s.Room, r.Len)
					}
				}
			}
		}
		if !used || s.Room > 32<<10 {
			p.unshare(len(p.SRQs) + 1)
			continue
		}
		s.Pieces = d.pieces(s.Room, int(s.Init.MaxSGE))
		s.Init.MaxWR = min(s.Init.MaxWR+2*held, sharedRoom)
		s.Init.Limit = uint32(d.IntN(int(s.Init.MaxWR) + 1))
		for d.Chance(0.7) {
			a := SRQAct{At: qp.Time(d.IntN(int(Millisecond))), Mask: qp.SRQLimit}
			if a.Attr.Limit = uint32(d.IntN(maxShared + 1)); d.Chance(0.4) {
				a.Attr, a.Mask = qp.SRQAttr{MaxWR: uint32(d.IntN(maxShared + 1))}, qp.SRQMaxWR
				if a.Attr.MaxWR > 0 {
					a.Attr.MaxWR = min(a.Attr.MaxWR+2*held, sharedRoom)
				}
			}
			s.Acts = append(s.Acts, a)
		}
		p.SRQs = append(p.SRQs, s)
		p.drawLeaving(d, len(p.SRQs))
	}
}

// drawLeaving lets queue pairs that share end or fail, more of them than elsewhere: mostly in the
// middle of a message.
func (p *Plan) drawLeaving(d Dice, srq int) {
	for i := range p.Conns {
		for j := range p.Conns[i].Ends {
			if p.Conns[i].Ends[j].SRQ == srq && d.Chance(0.2) {
				p.Acts = append(p.Acts, Act{At: qp.Time(d.IntN(int(200 * Microsecond))), Conn: i, Side: j,
					Kind: Pick(d, ActError, ActReset, ActReset, ActDestroy, ActDestroy)})
			}
		}
	}
}

// unshare gives queue pairs a receive queue of their own again.
func (p *Plan) unshare(srq int) {
	for i := range p.Conns {
		for j := range p.Conns[i].Ends {
			if e := &p.Conns[i].Ends[j]; e.SRQ == srq {
				e.SRQ = 0
			}
		}
	}
}

// sharer is the application that keeps a shared queue filled. Each request has a buffer of its own,
// which is used again when it has completed.
type sharer struct {
	w    *World
	plan *SRQPlan
	srq  *SRQ
	recv *Region
	free []int          // buffers
	used map[uint64]int // by WRID
	idle bool           // it waits for a buffer or for room
}

func (w *World) newSharer(plan *SRQPlan) *sharer {
	n := w.Nodes[plan.Node]
	s := &sharer{w: w, plan: plan, srq: n.CreateSRQ(plan.Init), used: map[uint64]int{}}
	s.recv = n.NewRegion("shared", max(sharedRoom*plan.Room, 8), uint64(len(n.regions)+1)<<32, mr.LocalWrite)
	for i := range sharedRoom {
		s.free = append(s.free, i)
	}
	s.srq.OnReceive = func(wrid uint64) {
		s.free = append(s.free, s.used[wrid])
		delete(s.used, wrid)
		s.goOn()
	}
	return s
}

// start posts the first requests and schedules the rest.
func (s *sharer) start() {
	for range s.plan.First {
		s.post()
	}
	s.fill()
	for _, a := range s.plan.Acts {
		s.w.After(a.At, func() {
			_ = s.srq.Modify(a.Attr, a.Mask)
			s.goOn()
		})
	}
}

func (s *sharer) fill() {
	if s.idle = !s.post(); !s.idle {
		s.w.After(s.plan.Every, s.fill)
	}
}

func (s *sharer) goOn() {
	if s.idle {
		s.idle = false
		s.w.After(s.plan.Every, s.fill)
	}
}

// post posts a request; false: there is no buffer, or no room.
func (s *sharer) post() bool {
	if len(s.free) == 0 {
		return false
	}
	wrid, err := s.srq.PostRecv(s.recv.cut(s.free[0]*s.plan.Room, s.plan.Pieces)...)
	if err != nil {
		return false
	}
	s.used[wrid], s.free = s.free[0], s.free[1:]
	return true
}
