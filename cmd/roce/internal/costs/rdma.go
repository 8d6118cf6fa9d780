package costs

// Messages over RDMA: a queue pair, a completion queue and a region, and the ways by which the
// receiver learns that something came.

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/goroce/goroce/cmd/roce/internal/session"
	"github.com/goroce/goroce/roce"
)

// notice is how the receiver learns of a message.
type notice uint8

const (
	byMemory    notice = iota + 1 // it looks at the last byte that a WRITE changes
	byFlag                        // it looks at a counter that an atomic behind the WRITE raises
	byImmediate                   // the WRITE carries an immediate, which takes a receive
	byTrailing                    // a SEND of no bytes behind the WRITE completes
	bySend                        // no WRITE: the message is a SEND
)

// of each way: what is posted for a message, and whether it takes a receive at the other end
var notices = map[notice]struct {
	posts    []roce.WROpcode
	receives bool
}{
	byMemory:    {[]roce.WROpcode{roce.WRWrite}, false},
	byFlag:      {[]roce.WROpcode{roce.WRWrite, roce.WRAtomicFetchAndAdd}, false},
	byImmediate: {[]roce.WROpcode{roce.WRWriteWithImm}, true},
	byTrailing:  {[]roce.WROpcode{roce.WRWrite, roce.WRSend}, true},
	bySend:      {[]roce.WROpcode{roce.WRSend}, true},
}

const (
	depth     = 64 // receives, and messages without a completion
	signalAll = 32 // every so many messages have a completion
	inlined   = 220
	stall     = 10 * time.Second // an answer that takes longer does not come
	ackTime   = 16               // the ack timeout, 268 ms: the machine may be busy
)

// rdma is one end. Its region: the message to send, the one that comes, the counter that the peer
// raises, and what our atomic returns.
type rdma struct {
	*side
	notice   notice
	receives bool
	pd       *roce.PD
	cq       *roce.CQ
	qp       *roce.QP
	mr       *roce.MR
	mem      []byte
	span     int // bytes of each message in the region

	wait   session.Waiter
	wcs    []roce.WC
	wrs    []roce.SendWR // what a message is
	rwrs   []roce.RecvWR
	peer   place
	posted int // messages
	done   int // messages known to be done
	got    int // receives completed
	free   int // receives to post again
	round  int
	ready  func() bool
}

func openRDMA(s *side, w way) (end, error) {
	r := &rdma{side: s, notice: w.notice, receives: notices[w.notice].receives, span: (s.size + 7) &^ 7}
	if err := r.open(w.Waits == events); err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

func (r *rdma) open(sleeps bool) (err error) {
	if r.pd, err = r.session.AllocPD(); err != nil {
		return err
	}
	r.mem = make([]byte, max(2*r.span+16, 4096)) // of this size it starts on a word
	if r.mr, err = r.pd.RegMR(r.mem, roce.LocalWrite|roce.RemoteWrite|roce.RemoteAtomic); err != nil {
		return err
	}
	if r.cq, err = r.session.CreateCQ(roce.CQInitAttr{CQE: 4 * depth}); err != nil {
		return err
	}
	r.wait = session.Waiter{CQ: r.cq, Events: sleeps}
	if r.client { // the server waits until the client says stop
		r.wait.Stall = stall
	}
	r.wcs = make([]roce.WC, depth)
	r.qp, err = r.pd.CreateQP(roce.QPInitAttr{SendCQ: r.cq, RecvCQ: r.cq, Cap: roce.QPCap{
		MaxSendWR: 2 * depth, MaxRecvWR: depth, MaxSendSGE: 1, MaxRecvSGE: 1, MaxInlineData: inlined}})
	if err != nil {
		return err
	}
	path := r.path()
	if err := r.qp.Init(&path); err != nil {
		return err
	}
	r.rwrs = make([]roce.RecvWR, depth)
	for i := range r.rwrs {
		r.rwrs[i].SGL = []roce.SGE{r.mr.SGE(r.span, r.span)}
	}
	r.free = depth
	return r.refill()
}

func (r *rdma) path() roce.ConnectOptions {
	p := session.Path(roce.RemoteWrite | roce.RemoteAtomic)
	p.MaxRdAtomic, p.MaxDestRdAtomic, p.Timeout = 16, 16, ackTime
	return p
}

func (r *rdma) own() place {
	e := r.qp.Endpoint()
	e.GID = r.session.GID
	return place{Endpoint: &e, Addr: r.mr.Addr() + uint64(r.span), RKey: r.mr.RKey()}
}

func (r *rdma) meet(ctx context.Context, peer place) error {
	if peer.Endpoint == nil {
		return errors.New("the other end did not say which queue pair it has")
	}
	r.peer = peer
	for _, op := range notices[r.notice].posts {
		r.wrs = append(r.wrs, r.request(op))
	}
	switch r.notice {
	case byMemory:
		r.ready = func() bool { return r.byteThatCame() == byte(r.round+1) && r.roomToPost() }
	case byFlag:
		r.ready = func() bool { return atomic.LoadUint64(r.word(2*r.span)) == uint64(r.round+1) && r.roomToPost() }
	default:
		r.ready = func() bool { return r.got > r.round && r.roomToPost() }
	}
	path := r.path()
	return r.qp.Connect(ctx, *peer.Endpoint, &path)
}

// request is a work request of a message, all but its flags filled in.
func (r *rdma) request(op roce.WROpcode) roce.SendWR {
	w := roce.SendWR{Opcode: op, RemoteAddr: r.peer.Addr, RKey: r.peer.RKey}
	switch {
	case op == roce.WRAtomicFetchAndAdd:
		w.SGL, w.RemoteAddr, w.CompareAdd = []roce.SGE{r.mr.SGE(2*r.span+8, 8)}, r.peer.Addr+uint64(r.span), 1
	case op == roce.WRSend && r.notice == byTrailing:
	case r.size <= inlined:
		w.Inline, w.Flags = r.mem[:r.size], roce.SendInline
	default:
		w.SGL = []roce.SGE{r.mr.SGE(0, r.size)}
	}
	return w
}

// word is an aligned word of the region, for loads that are atomic.
func (r *rdma) word(offset int) *uint64 { return (*uint64)(unsafe.Pointer(&r.mem[offset])) }

// byteThatCame is the last one of the message in memory: as part of its word, so that the load is
// atomic.
func (r *rdma) byteThatCame() byte {
	last := r.size - 1
	w := atomic.LoadUint64(r.word(r.span + last&^7))
	return (*[8]byte)(unsafe.Pointer(&w))[last&7]
}

// roomToPost says whether the next message may be posted. Bytes that are not inline belong to the
// device until their completion.
func (r *rdma) roomToPost() bool {
	if r.size > inlined {
		return r.done == r.posted
	}
	return r.posted-r.done < depth
}

// post sends the next message. Its last byte is its number.
func (r *rdma) post() error {
	r.posted++
	r.mem[r.size-1] = byte(r.posted)
	last := &r.wrs[len(r.wrs)-1]
	last.WRID = uint64(r.posted)
	last.Flags &^= roce.SendSignaled
	if r.posted%signalAll == 0 || r.size > inlined {
		last.Flags |= roce.SendSignaled
	}
	return r.qp.PostSend(r.wrs...)
}

// refill posts the receives that were used, in one list when half are.
func (r *rdma) refill() error {
	if !r.receives || r.free < depth/2 {
		return nil
	}
	n := r.free
	r.free = 0
	return r.qp.PostRecv(r.rwrs[:n]...)
}

// take accounts for completions.
func (r *rdma) take(wcs []roce.WC) error {
	for i := range wcs {
		switch wc := &wcs[i]; {
		case wc.Status != roce.WCSuccess:
			return &session.FailedError{WC: *wc, What: "a message"}
		case wc.WRID == 0:
			r.got++
			r.free++
		default:
			r.done = int(wc.WRID)
		}
	}
	return r.refill()
}

func (r *rdma) await(ctx context.Context, round int) error {
	r.round = round
	return r.wait.Until(ctx, r.wcs, r.ready, r.take)
}

func (r *rdma) ask(ctx context.Context, i int) (lost bool, err error) {
	if err := r.post(); err != nil {
		return false, err
	}
	return false, r.await(ctx, i)
}

func (r *rdma) answer(ctx context.Context) error {
	for i := 0; ; i++ {
		err := r.await(ctx, i)
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			err = r.post()
		}
		if err != nil {
			return err
		}
	}
}

func (r *rdma) close() error {
	var errs []error
	if r.qp != nil {
		errs = append(errs, r.qp.Close())
	}
	if r.cq != nil {
		errs = append(errs, r.cq.Close())
	}
	if r.mr != nil {
		errs = append(errs, r.mr.Close())
	}
	if r.pd != nil {
		errs = append(errs, r.pd.Close())
	}
	return errors.Join(errs...)
}
