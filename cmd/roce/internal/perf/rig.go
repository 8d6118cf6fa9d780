package perf

// What a test runs on: the device, one region of memory, one completion queue and the queue pairs,
// connected to the peer's.
//
// Stages: build (device, memory, queue pairs in INIT), rounds (terms, keys, the checks between
// them), connect.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"

	"github.com/goroce/goroce/cmd/roce/internal/session"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/wire"
)

// rig is one end of a test.
type rig struct {
	t   *Test
	o   Options
	out io.Writer

	link   *link
	s      *session.Session
	limits roce.DeviceAttr
	terms
	wait session.Waiter
	wcs  []roce.WC

	pd     *roce.PD
	mr     *roce.MR
	mem    []byte
	stride int // each queue pair has this much memory to send from, and again to receive into
	queues []*queue

	pairs pairs // with -R

	bandwidths []bwResult
	latencies  []latResult
	warn       []string  // said after the results
	spent      cost      // of the sizes that this end measured
	progress   *progress // nil if nobody watches
	eye        *watch    // nil if nobody watches
}

// queue is a queue pair and its share of everything.
type queue struct {
	*roce.QP
	index     int
	own, peer key
	ah        *roce.AH
	qkey      uint32 // of the peer, UD
	send      uint64 // addresses
	recv      uint64

	wrs    []roce.SendWR // a list to post, its parts that never change filled in
	rwrs   []roce.RecvWR
	posted int // sends: messages posted, the last signaled one of them, messages known to be done
	signed int
	done   int
	asked  int // receives: posted, and done
	got    int
}

// page is what peers find their addresses aligned to.
const page = 4096

// atOnce is how many requests a list has and how many completions a poll takes, at most.
const atOnce = 64

// receive marks the WRID of a receive; the low bits of any WRID are the index of the queue pair,
// those above it count.
const (
	receive    = 1 << 63
	indexBits  = 16
	indexMask  = 1<<indexBits - 1
	countShift = indexBits
)

// meet connects to the peer and opens the device. One that is named is opened first, so that what
// is wrong with it is said before a peer is asked for.
func (r *rig) meet(ctx context.Context) (err error) {
	if r.o.CM {
		return r.meetCM(ctx)
	}
	if r.o.Dev != "" {
		if r.s, err = session.Open(r.o.Options, netip.Addr{}); err != nil {
			return err
		}
	}
	if r.o.Host == "" {
		r.waiting()
	}
	if r.link, err = meet(ctx, r.o.Host, r.o.Port); err != nil {
		return err
	}
	if r.s == nil {
		r.s, err = session.Open(r.o.Options, r.link.Local())
	}
	return err
}

// build says what this end wants of the test, before the peer is asked.
func (r *rig) build() (err error) {
	mtu := r.s.Port.ActiveMTU
	if r.link.Local() == r.s.GID.Addr() { // the peer's device is where its program is
		mtu = r.s.PathMTU(r.link.Remote())
	}
	if r.o.MTU != 0 {
		if mtu, err = wire.MTUFromBytes(r.o.MTU); err != nil {
			return fmt.Errorf("--mtu: %w", err)
		}
		mtu = min(mtu, r.s.Port.ActiveMTU)
	}
	r.limits = r.s.Query()
	// with -R the connection manager agrees to it
	selective := r.limits.SelectiveRepeat && r.o.Type == roce.RC && !r.o.GoBackN && !r.o.CM
	r.terms = terms{cycle: os.Getpagesize(), cacheLine: 64, mtu: mtu, selective: selective, game: r.o.game(r.t)}
	return nil
}

// furnish registers memory and creates the queue pairs; the terms say how much.
func (r *rig) furnish() (err error) {
	size := r.o.Size
	if r.o.AllSizes {
		sizes := r.o.sizes(r.mtu.Bytes())
		size = sizes[len(sizes)-1]
	}
	r.stride = (max(size, r.cycle) + roce.GRHSize + page - 1) &^ (page - 1)
	if r.pd, err = r.s.AllocPD(); err != nil {
		return err
	}
	n := r.o.QPs
	// An allocation of this size starts on a page.
	r.mem = make([]byte, max(2*n*r.stride, 1<<16))
	if r.mr, err = r.pd.RegMR(r.mem, roce.LocalWrite|r.t.access); err != nil {
		return err
	}
	cq, err := r.s.CreateCQ(roce.CQInitAttr{CQE: n * (r.o.TxDepth + r.o.RxDepth)})
	if err != nil {
		return err
	}
	r.wait = session.Waiter{CQ: cq, Events: r.o.Events}
	if r.t.Op == roce.WRWrite && r.t.Lat && r.s.PortInfo().Kind == "verbs" {
		r.wait.Looks = looks
	}
	if r.o.Alone {
		if err := cq.Linger(r.o.Linger); err != nil {
			return err
		}
	}
	r.wcs = make([]roce.WC, atOnce)
	for i := 0; i < n && !r.o.CM; i++ {
		if err := r.addQueue(cq); err != nil {
			return err
		}
	}
	return nil
}

// looks is how often memory is looked at between two polls of a device that needs none.
const looks = 200

// queueAttr is what the queue pairs are made from.
func (r *rig) queueAttr(cq *roce.CQ) roce.QPInitAttr {
	rx, tx := uint32(1), r.o.TxDepth
	if r.t.Lat {
		tx = max(tx, unacked)
	}
	if r.t.sends() {
		rx = uint32(r.o.RxDepth)
	}
	return roce.QPInitAttr{Type: r.o.Type, SendCQ: cq, RecvCQ: cq, Cap: roce.QPCap{
		MaxSendWR: uint32(tx), MaxRecvWR: rx, MaxSendSGE: 1, MaxRecvSGE: 1, MaxInlineData: uint32(r.o.Inline)}}
}

func (r *rig) addQueue(cq *roce.CQ) error {
	qp, err := r.pd.CreateQP(r.queueAttr(cq))
	if err != nil {
		return err
	}
	r.enlist(qp)
	path := session.Path(r.t.qpAccess)
	return qp.Init(&path)
}

// enlist gives a queue pair its share of the memory.
func (r *rig) enlist(qp *roce.QP) *queue {
	i := len(r.queues)
	q := &queue{
		QP:    qp,
		index: i,
		qkey:  session.QKey,
		send:  r.mr.Addr() + uint64(i*r.stride),
		recv:  r.mr.Addr() + uint64((r.o.QPs+i)*r.stride),
	}
	q.own = key{Outs: 1, QPN: qp.QPN(), PSN: qp.Endpoint().PSN, RKey: r.mr.RKey(), VAddr: q.recv, GID: r.s.GID}
	if r.t.respOp {
		q.own.Outs = uint16(r.o.Outs)
	}
	r.queues = append(r.queues, q)
	return q
}

// own are the keys of this end.
func (r *rig) own() []key {
	k := make([]key, len(r.queues))
	for i, q := range r.queues {
		k[i] = q.own
	}
	return k
}

// meetPeer goes through all rounds before the test and leaves the queue pairs connected. Their
// number and order is perftest's.
func (r *rig) meetPeer(ctx context.Context) (err error) {
	if r.terms, err = r.link.preamble(r.terms); err != nil {
		return err
	}
	if r.o.Outs == 0 {
		r.o.Outs = safeOuts
		if r.link.ours {
			r.o.Outs = maxOuts
		}
		r.o.Outs = min(r.o.Outs, r.limits.MaxQPRdAtom)
	}
	if r.o.Type == roce.UD {
		if err := r.fitDatagram(); err != nil {
			return err
		}
	}
	if err := r.furnish(); err != nil {
		return err
	}
	if r.o.CM {
		if err := r.pair(ctx); err != nil {
			return err
		}
	}
	r.banner()
	r.addresses("local", r.own())
	if r.t.extraKeys {
		if _, err := r.link.keys(r.own()); err != nil {
			return err
		}
	}
	peers, err := r.link.keys(r.own())
	if err != nil {
		return err
	}
	if !r.o.CM && peers[0].GID.Is4() != r.s.GID.Is4() {
		return fmt.Errorf("the peer's GID is %v and this end's %v: both must be IPv4 or both IPv6; choose with --dev "+
			"here, -x there", peers[0].GID, r.s.GID)
	}
	for i, q := range r.queues {
		q.peer = peers[i]
		if err := r.connect(ctx, q); err != nil {
			return err
		}
	}
	// The rounds from here on only wait for each other: their data is that of the first.
	if r.t.sends() {
		if err := r.barrier(); err != nil {
			return err
		}
	}
	if _, err := r.link.keys(r.own()); err != nil {
		return err
	}
	r.addresses("remote", peers)
	if r.t.Op != roce.WRSend {
		return r.barrier()
	}
	return nil
}

// barrier waits for the peer, which does the same.
func (r *rig) barrier() error {
	_, err := r.link.key(r.queues[0].own, answerTime)
	return err
}

// fitDatagram holds the message size against the MTU, now that it is agreed on. A size nobody asked
// for is lowered.
func (r *rig) fitDatagram() error {
	mtu := r.mtu.Bytes()
	if r.o.Size > mtu && r.o.Size == r.t.Size {
		r.say(fmt.Sprintf(" Max msg size in UD is MTU %d\n Changing to this MTU\n", mtu))
		r.o.Size = mtu
	}
	if r.o.Size > mtu {
		return fmt.Errorf("--size %d: a datagram has no more bytes than the path MTU, %d", r.o.Size, mtu)
	}
	return nil
}

func (r *rig) connect(ctx context.Context, q *queue) (err error) {
	if r.o.CM { // it has done so
		attr, err := q.QP.Query()
		r.selective = attr.SelectiveRepeat
		r.prepare(q)
		return err
	}
	p := session.Path(r.t.qpAccess)
	p.MTU, p.SGIDIndex, p.SL, p.TrafficClass = r.mtu, uint8(r.o.GIDIndex), uint8(r.o.SL), uint8(r.o.TClass)
	p.Timeout, p.SelectiveRepeat, p.LongWindow = uint8(r.o.QPTimeout), r.selective, r.link.long
	p.MaxDestRdAtomic, p.MaxRdAtomic = uint8(q.own.Outs),
		uint8(min(int(q.peer.Outs), maxOuts, r.limits.MaxQPInitRdAtom))
	peer := roce.Endpoint{GID: q.peer.GID, QPN: q.peer.QPN, PSN: q.peer.PSN}
	if err := session.Connect(ctx, q.QP, peer, &p); err != nil {
		return err
	}
	if r.o.Type == roce.UD {
		if q.ah, err = r.pd.CreateAH(ctx, session.AV(q.peer.GID, &p)); err != nil {
			return err
		}
	}
	r.prepare(q)
	return nil
}

// prepare fills in what the requests of a queue pair have in common.
func (r *rig) prepare(q *queue) {
	n := min(atOnce, r.o.TxDepth)
	q.wrs = make([]roce.SendWR, n)
	sges := make([]roce.SGE, n)
	op := r.t.Op
	if r.o.CmpSwap {
		op = roce.WRAtomicCmpAndSwp
	}
	for i := range q.wrs {
		sges[i] = roce.SGE{Addr: q.send, LKey: r.mr.LKey()}
		q.wrs[i] = roce.SendWR{Opcode: op, SGL: sges[i : i+1], RemoteAddr: q.peer.VAddr, RKey: q.peer.RKey,
			AH: q.ah, RemoteQPN: q.peer.QPN, RemoteQKey: q.qkey}
		if op == roce.WRAtomicFetchAndAdd {
			q.wrs[i].CompareAdd = 1
		}
	}
	q.rwrs = make([]roce.RecvWR, min(atOnce, r.o.RxDepth))
	rsges := make([]roce.SGE, 1)
	rsges[0] = roce.SGE{Addr: q.recv, Length: uint32(r.stride), LKey: r.mr.LKey()}
	for i := range q.rwrs {
		q.rwrs[i] = roce.RecvWR{WRID: receive | uint64(q.index), SGL: rsges}
	}
}

// size sets the message size of the coming test and starts the counters anew.
func (r *rig) size(n int) {
	for _, q := range r.queues {
		q.posted, q.signed, q.done, q.asked, q.got = 0, 0, 0, 0, 0
		for i := range q.wrs {
			w := &q.wrs[i]
			w.SGL[:1][0].Length = uint32(n)
			if n <= r.o.Inline && (r.t.Op == roce.WRWrite || r.t.sends()) {
				w.SGL, w.Inline = w.SGL[:0], r.mem[q.send-r.mr.Addr():][:n]
			} else {
				w.SGL, w.Inline = w.SGL[:1], nil
			}
		}
	}
}

// refill keeps the receive queue as full as it may be: no more receives in all than messages will
// come.
func (r *rig) refill(q *queue) error {
	for {
		n := min(r.o.RxDepth-(q.asked-q.got), len(q.rwrs))
		if r.o.Iters > 0 {
			n = min(n, r.o.Iters-q.asked)
		}
		if n <= 0 {
			return nil
		}
		if err := q.PostRecv(q.rwrs[:n]...); err != nil {
			return err
		}
		q.asked += n
	}
}

// attend waits for what the peer says out of band. Meanwhile the device's background goroutine
// serves the peer's requests. In a latency test we poll as well, which answers sooner, unless the
// user prefers sleep to speed; in a bandwidth test that would only cut the batches small.
func (r *rig) attend(said func() error) error {
	if r.o.Events || !r.t.Lat {
		return said()
	}
	ended := make(chan error, 1)
	go func() { ended <- said() }()
	for {
		select {
		case err := <-ended:
			return err
		default:
		}
		for range 256 {
			n, err := r.wait.CQ.Poll(r.wcs)
			if err == nil && n > 0 {
				err = r.check(&r.wcs[0])
			}
			if err != nil {
				return err
			}
		}
	}
}

// check turns a completion that is no success into an error.
func (r *rig) check(wc *roce.WC) error {
	if wc.Status == roce.WCSuccess {
		return nil
	}
	what := fmt.Sprintf("%v %d", r.t.Op, wc.WRID>>countShift)
	if wc.WRID&receive != 0 {
		what = "a receive"
	}
	e := &session.FailedError{WC: *wc, What: what, MTU: r.mtu.Bytes(), Option: "--mtu"}
	if r.o.CM {
		e.Option = "the MTU of the interface"
	}
	return e
}

// close takes everything down. An error of the test is more interesting than one of the end.
func (r *rig) close() error {
	var errs []error
	for _, q := range r.queues {
		errs = append(errs, q.QP.Close())
		if q.ah != nil {
			errs = append(errs, r.pd.DestroyAH(q.ah))
		}
	}
	errs = append(errs, r.pairs.close())
	if r.wait.CQ != nil {
		errs = append(errs, r.wait.CQ.Close())
	}
	if r.mr != nil {
		errs = append(errs, r.mr.Close())
	}
	if r.pd != nil {
		errs = append(errs, r.pd.Close())
	}
	if r.link != nil {
		if err := r.link.Close(); r.o.CM { // it is on the device; one of TCP is closed twice
			errs = append(errs, err)
		}
	}
	if r.s != nil {
		errs = append(errs, r.s.Close())
	}
	return errors.Join(errs...)
}
