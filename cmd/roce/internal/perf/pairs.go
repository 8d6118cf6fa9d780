package perf

// The queue pairs of a test whose ends meet by the RDMA connection manager: it connects them too,
// on the port of the control connection. UD queue pairs are asked for by service ID.
//
// Stages: a round before, so that the server listens; connecting, one after the other, or being
// connected to; the number of a UD queue pair that the server must answer; a round after; parting.

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/goroce/goroce/cmd/roce/internal/session"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/rdmacm"
)

// pairs are the test's identifiers of the connection manager; those of a rig without -R are none.
type pairs struct {
	ch       *rdmacm.EventChannel
	listener *rdmacm.ID
	ids      []*rdmacm.ID
	gone     int // of ids, those that the peer has left
}

const (
	// perftest's server begins to listen only when it has sent its part of the round before
	patience    = 10 * time.Second
	nextAttempt = 20 * time.Millisecond
	// an emulated guest takes a while to part
	partTime = 5 * time.Second
)

// space is the port space of the queue pairs.
func (r *rig) space() rdmacm.PortSpace {
	if r.o.Type == roce.UD {
		return rdmacm.PSUDP
	}
	return rdmacm.PSTCP
}

// pair makes the queue pairs and connects them.
func (r *rig) pair(ctx context.Context) (err error) {
	ctx, stop := r.link.Watch(ctx)
	defer stop()
	ctx, cancel := context.WithTimeoutCause(ctx, answerTime, fmt.Errorf("the queue pairs are not connected after %v",
		answerTime))
	defer cancel()
	if r.pairs.ch, err = rdmacm.NewEventChannel(&rdmacm.Config{Devices: []*roce.Device{r.s.Device}}); err != nil {
		return err
	}
	if !r.link.client {
		if err := r.listen(); err != nil {
			return err
		}
	}
	if _, err := r.link.key(key{}, answerTime); err != nil {
		return err
	}
	if r.link.client {
		for i := 0; i < r.o.QPs && err == nil; i++ {
			err = r.dial(ctx, i)
		}
	} else {
		err = r.accept(ctx)
	}
	if err != nil {
		return fmt.Errorf("connect the queue pairs of the test: %w", err)
	}
	_, err = r.link.key(key{}, answerTime)
	return err
}

// next takes the next event.
func (p *pairs) next(ctx context.Context) (*rdmacm.Event, error) {
	e, err := p.ch.Get(ctx)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return e, err
}

// must takes the next event, which must be of a type.
func (p *pairs) must(ctx context.Context, want rdmacm.EventType) (*rdmacm.Event, error) {
	e, err := p.next(ctx)
	if err == nil && e.Type != want {
		err = fmt.Errorf("%v while waiting for %v", e, want)
	}
	return e, err
}

// param is what either end says: READs and atomics count only where they are tested.
func (r *rig) param() *rdmacm.ConnParam {
	p := &rdmacm.ConnParam{RetryCount: 7, RNRRetryCount: 7, GoBackN: r.o.GoBackN}
	if r.t.respOp {
		p.ResponderResources, p.InitiatorDepth = uint8(r.o.Outs), uint8(r.o.Outs)
	}
	return p
}

// adopt makes an ID's queue pair the test's.
func (r *rig) adopt(id *rdmacm.ID) (*queue, error) {
	qp, err := id.CreateQP(r.pd, r.queueAttr(r.wait.CQ))
	if err != nil {
		return nil, err
	}
	return r.enlist(qp), nil
}

// dial connects a queue pair, again and again while nobody listens there yet.
func (r *rig) dial(ctx context.Context, i int) error {
	began := time.Now()
	for {
		e, err := r.try(ctx)
		if err != nil {
			return err
		}
		if e.Type == rdmacm.EventEstablished {
			q := r.queues[i]
			if r.o.Type != roce.UD {
				return q.quick(ctx)
			}
			return r.aim(ctx, q, &e.Datagram)
		}
		if time.Since(began) > patience {
			return fmt.Errorf("%w for %v", e.Err, patience)
		}
		if err := r.forget(e.ID); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(nextAttempt):
		}
	}
}

// try makes one attempt to connect, and returns how it ended: connected, or refused by a peer that
// does not listen.
func (r *rig) try(ctx context.Context) (*rdmacm.Event, error) {
	p, conn := &r.pairs, r.link.carrier.(*control).conn
	id, err := p.ch.CreateID(r.space())
	if err != nil {
		return nil, err
	}
	p.ids = append(p.ids, id)
	if err := errors.Join(id.SetTOS(uint8(r.o.TClass)), id.SetAckTimeout(uint8(r.o.QPTimeout))); err != nil {
		return nil, err
	}
	err = id.ResolveAddr(netip.AddrPortFrom(conn.LocalAddr().Addr(), 0), netip.AddrPortFrom(conn.RemoteAddr().Addr(),
		uint16(r.o.Port)), 0)
	if err != nil {
		return nil, err
	}
	if _, err := p.must(ctx, rdmacm.EventAddrResolved); err != nil {
		return nil, err
	}
	if err := id.ResolveRoute(0); err != nil {
		return nil, err
	}
	if _, err := p.must(ctx, rdmacm.EventRouteResolved); err != nil {
		return nil, err
	}
	if _, err := r.adopt(id); err != nil {
		return nil, err
	}
	if err := id.Connect(r.param()); err != nil {
		return nil, err
	}
	e, err := p.next(ctx)
	switch {
	case err != nil:
		return nil, err
	case e.Type == rdmacm.EventEstablished, e.Type == rdmacm.EventRejected, e.Type == rdmacm.EventUnreachable &&
		e.Status > 0:
		return e, nil
	}
	return nil, fmt.Errorf("%v", e)
}

// forget takes back the last attempt.
func (r *rig) forget(id *rdmacm.ID) error {
	r.queues = r.queues[:len(r.queues)-1]
	r.pairs.ids = r.pairs.ids[:len(r.pairs.ids)-1]
	return id.Close()
}

// listen listens where the control connection came to.
func (r *rig) listen() (err error) {
	p := &r.pairs
	if p.listener, err = p.ch.CreateID(r.space()); err != nil {
		return err
	}
	if err := p.listener.SetTOS(uint8(r.o.TClass)); err != nil {
		return err
	}
	if err := p.listener.BindAddr(netip.AddrPortFrom(r.link.Local(), uint16(r.o.Port))); err != nil {
		return err
	}
	return p.listener.Listen(r.o.QPs)
}

// accept takes the peer's queue pairs in the order of their requests.
func (r *rig) accept(ctx context.Context) error {
	p, peer := &r.pairs, r.link.Remote()
	ready := 0 // queue pairs; those of UD are so at once
	for len(r.queues) < r.o.QPs || ready < r.o.QPs {
		e, err := p.next(ctx)
		switch {
		case err != nil:
			return err
		case e.Type == rdmacm.EventEstablished:
			ready++
		case e.Type != rdmacm.EventConnectRequest:
			return fmt.Errorf("%v", e)
		case len(r.queues) == r.o.QPs || e.ID.PeerAddr().Addr() != peer:
			if err := e.ID.Close(); err != nil { // somebody else
				return err
			}
		default:
			p.ids = append(p.ids, e.ID)
			if err := r.take(ctx, e.ID); err != nil {
				return err
			}
			if r.o.Type == roce.UD {
				ready++
			}
		}
	}
	return nil
}

// take accepts one queue pair of the peer's.
func (r *rig) take(ctx context.Context, id *rdmacm.ID) error {
	q, err := r.adopt(id)
	if err != nil {
		return err
	}
	if r.answersUD() {
		if err := q.PostRecv(roce.RecvWR{SGL: []roce.SGE{{Addr: q.recv, Length: roce.GRHSize + 4,
			LKey: r.mr.LKey()}}}); err != nil {
			return err
		}
	}
	if err := id.Accept(r.param()); err != nil {
		return err
	}
	switch {
	case r.o.Type != roce.UD:
		return q.quick(ctx)
	case r.answersUD():
		return r.aimBack(ctx, q)
	}
	return nil
}

// quick shortens how long a peer waits when no receive is posted: the connection manager's 655 ms
// are for other uses.
func (q *queue) quick(ctx context.Context) error {
	return q.Modify(ctx, &roce.QPAttr{MinRNRTimer: session.Path(0).MinRNRTimer}, roce.AttrMinRNRTimer)
}

// answersUD says whether the server sends datagrams, and so must know the client's queue pair: the
// first datagram tells it, in its immediate data.
func (r *rig) answersUD() bool { return r.o.Type == roce.UD && (r.t.Lat || r.o.Bidi) }

// aim makes the address handle of the server's queue pair, and introduces the client's there.
func (r *rig) aim(ctx context.Context, q *queue, to *rdmacm.DatagramParam) (err error) {
	if q.ah, err = r.pd.CreateAH(ctx, to.AH); err != nil {
		return err
	}
	q.qkey = to.QKey
	if !r.answersUD() {
		return nil
	}
	err = q.PostSend(roce.SendWR{Opcode: roce.WRSendWithImm, Flags: roce.SendSignaled, Imm: q.QPN(), AH: q.ah,
		RemoteQPN: to.QPN, RemoteQKey: to.QKey, SGL: []roce.SGE{{Addr: q.send, Length: 4, LKey: r.mr.LKey()}}})
	if err != nil {
		return err
	}
	_, err = r.introduced(ctx)
	return err
}

// aimBack waits for the client's introduction.
func (r *rig) aimBack(ctx context.Context, q *queue) error {
	wc, err := r.introduced(ctx)
	if err != nil {
		return err
	}
	q.qkey = rdmacm.UDPQKey
	q.ah, err = r.pd.CreateAHFromWC(ctx, wc, r.mem[q.recv-r.mr.Addr():])
	return err
}

// introduced waits for the completion of an introduction.
func (r *rig) introduced(ctx context.Context) (*roce.WC, error) {
	n, err := r.wait.CQ.Wait(ctx, r.wcs[:1])
	switch {
	case n == 0 && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, err
	case r.wcs[0].Status != roce.WCSuccess:
		return nil, &session.FailedError{WC: r.wcs[0], What: "the introduction of a UD queue pair"}
	}
	return &r.wcs[0], nil
}

// leave disconnects the queue pairs. The client begins and the server waits for that, as with
// perftest. WRITE latency ends without a word, and the server when it has sent the last message and
// the client when it has that one: so there the server begins, for the client may still have to
// repeat an acknowledgement.
func (r *rig) leave() error {
	if r.space() == rdmacm.PSUDP {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), partTime)
	defer cancel()
	begin := r.link.client != r.t.untimely
	if begin {
		r.disconnect()
	}
	for p := &r.pairs; p.gone < len(p.ids); {
		e, err := p.next(ctx)
		if err != nil {
			break // it does not matter any more
		}
		if e.Type == rdmacm.EventDisconnected {
			p.gone++
		}
	}
	if !begin {
		r.disconnect()
	}
	return nil
}

// disconnect tells the peer, or answers it. Connections that are over are no mistake.
func (r *rig) disconnect() {
	for _, id := range r.pairs.ids {
		_ = id.Disconnect()
	}
}

// close gives everything back; queue pairs go with their IDs.
func (p *pairs) close() error {
	if p.ch == nil {
		return nil
	}
	var errs []error
	for _, id := range p.ids {
		errs = append(errs, id.Close())
	}
	if p.listener != nil {
		errs = append(errs, p.listener.Close())
	}
	return errors.Join(append(errs, p.ch.Close())...)
}
