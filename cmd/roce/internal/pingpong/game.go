package pingpong

// The game itself: the client sends, and from then on each end sends when its last message is
// complete and the peer's next one has come. With a shared receive queue that is so for each of the
// queue pairs, and the messages of all count.
//
// Without --chk both directions use one buffer, so that what comes is what goes back, as in the C
// programs. With --chk what is sent is a pattern, and what comes lands elsewhere, is compared byte
// for byte, and is wiped before the next.

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/goroce/goroce/cmd/roce/internal/session"
	"github.com/goroce/goroce/roce"
)

// rally is what goes on between two queue pairs.
type rally struct {
	qp           *roce.QP
	own, peer    address
	sent, sentOK int // sends posted, and complete
	received     int
}

// game is one end.
type game struct {
	o       Options
	mtu     roce.MTU
	s       *session.Session
	rallies []*rally
	byQPN   map[uint32]*rally

	pd   *roce.PD
	cq   *roce.CQ
	mr   *roce.MR
	srq  *roce.SRQ // nil: the one queue pair has a receive queue of its own
	ah   *roce.AH
	wait session.Waiter

	send, recv int // offsets in the region
	grh        int // bytes in front of a received datagram
	// With --chk, receives of a shared queue have places of their own, as several messages may come
	// at a time; other receives have one.
	places int
	free   []int
	swr    [1]roce.SendWR
	wcs    [16]roce.WC

	posted   int // receives in the queue
	sent     int // of all rallies
	sentOK   int
	received int
	wrong    []string // what --chk found
}

// Work request numbers, as in the C programs.
const (
	recvWRID = 1 // beside it, from bit 8 on, the place
	sendWRID = 2
)

// The content of a message: one character, and with --chk on the client a 0 at the start of each
// page. That of ibv_srq_pingpong is all 0.
const (
	filler = '{'
	page   = 4096
	wiped  = 0xee // what a receive buffer holds before a message comes
)

// furnish makes everything that exists before the peer is known and posts the receives.
func (g *game) furnish() (err error) {
	if g.o.Type == roce.UD {
		g.grh = roce.GRHSize
		g.mtu = g.s.Port.ActiveMTU
		if g.o.Size > g.mtu.Bytes() {
			return fmt.Errorf("Requested size larger than port MTU (%d): a datagram is one packet", g.mtu.Bytes())
		}
	}
	if g.pd, err = g.s.AllocPD(); err != nil {
		return err
	}
	one := g.o.Size + g.grh
	g.send = g.grh
	mem := make([]byte, one)
	g.places = 1
	if g.o.Check {
		if g.o.SRQ {
			g.places = g.o.RxDepth
		}
		mem = make([]byte, (1+g.places)*one)
		g.recv = one
	}
	for i := range mem {
		if mem[i] = filler; g.o.SRQ {
			mem[i] = 0
		}
	}
	if g.o.Check {
		g.paint(mem[g.send:one])
		g.wipe(mem[g.recv:])
	}
	if g.mr, err = g.pd.RegMR(mem, roce.LocalWrite); err != nil {
		return err
	}
	if g.cq, err = g.s.CreateCQ(roce.CQInitAttr{CQE: g.o.RxDepth + g.o.QPs}); err != nil {
		return err
	}
	g.wait = session.Waiter{CQ: g.cq, Events: g.o.Events, Stall: g.o.Stall}
	if g.o.SRQ {
		if g.srq, err = g.pd.CreateSRQ(roce.SRQInitAttr{MaxWR: g.o.RxDepth, MaxSGE: 1}); err != nil {
			return err
		}
	}
	g.byQPN = make(map[uint32]*rally)
	for range g.o.QPs {
		if err := g.join(); err != nil {
			return err
		}
	}
	for i := range g.o.RxDepth {
		g.free = append(g.free, i%g.places)
	}
	g.swr[0] = roce.SendWR{WRID: sendWRID, Opcode: roce.WRSend, Flags: roce.SendSignaled,
		SGL: []roce.SGE{g.mr.SGE(g.send, g.o.Size)}, RemoteQKey: session.QKey}
	return g.refill()
}

// join makes a queue pair.
func (g *game) join() (err error) {
	r := new(rally)
	r.qp, err = g.pd.CreateQP(roce.QPInitAttr{Type: g.o.Type, SendCQ: g.cq, RecvCQ: g.cq, SRQ: g.srq,
		Cap: roce.QPCap{MaxSendWR: 1, MaxRecvWR: uint32(g.o.RxDepth), MaxSendSGE: 1, MaxRecvSGE: 1}})
	if err != nil {
		return err
	}
	g.rallies = append(g.rallies, r)
	g.byQPN[r.qp.QPN()] = r
	path := session.Path(0)
	return r.qp.Init(&path)
}

// place is where the i-th kind of receive lies in the region, with the GRH in front.
func (g *game) place(i int) int { return g.recv + i*(g.o.Size+g.grh) }

// paint writes what a client with -c sends, or what a server with -c expects.
func (g *game) paint(msg []byte) {
	for i := 0; i < len(msg); i += page {
		msg[i] = 0
	}
}

func (g *game) wipe(msg []byte) {
	for i := range msg {
		msg[i] = wiped
	}
}

// connect takes the queue pairs to where they may send.
func (g *game) connect(ctx context.Context) error {
	for _, r := range g.rallies {
		if err := g.connectOne(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

func (g *game) connectOne(ctx context.Context, r *rally) (err error) {
	if r.peer.GID.Is4() != r.own.GID.Is4() {
		return fmt.Errorf("the peer's GID is %v and this end's %v: both must be IPv4 or both IPv6; choose with --dev "+
			"here, -g there", r.peer.GID, r.own.GID)
	}
	p := session.Path(0)
	p.MTU, p.SGIDIndex, p.SL, p.Timeout = g.mtu, uint8(g.o.GIDIndex), uint8(g.o.SL), uint8(g.o.Timeout)
	p.MaxDestRdAtomic, p.MaxRdAtomic = 1, 1
	peer := roce.Endpoint{GID: r.peer.GID, QPN: r.peer.QPN, PSN: r.peer.PSN}
	if err := session.Connect(ctx, r.qp, peer, &p); err != nil {
		return err
	}
	if g.o.Type == roce.UD {
		if g.ah, err = g.pd.CreateAH(ctx, session.AV(r.peer.GID, &p)); err != nil {
			return err
		}
		g.swr[0].AH, g.swr[0].RemoteQPN = g.ah, r.peer.QPN
	}
	return nil
}

// refill posts receives when nearly none are left, all in one go.
func (g *game) refill() error {
	if g.posted > len(g.rallies) {
		return nil
	}
	list := make([]roce.RecvWR, 0, len(g.free))
	for _, i := range g.free {
		list = append(list, roce.RecvWR{WRID: recvWRID | uint64(i)<<8,
			SGL: []roce.SGE{g.mr.SGE(g.place(i), g.o.Size+g.grh)}})
	}
	g.posted, g.free = g.o.RxDepth, g.free[:0]
	if g.srq != nil {
		return g.srq.PostRecv(list...)
	}
	return g.rallies[0].qp.PostRecv(list...)
}

// play sends and receives Iters messages each. The client has the first move: it may send one more
// than it has received, the server as many.
func (g *game) play(ctx context.Context) error {
	lead := 0
	if g.o.Host != "" {
		lead = 1
	}
	for g.received < g.o.Iters || g.sentOK < g.o.Iters {
		for _, r := range g.rallies {
			if r.sent > r.sentOK || r.sent >= r.received+lead || g.sent == g.o.Iters {
				continue
			}
			r.sent++
			g.sent++
			if err := r.qp.PostSend(g.swr[:]...); err != nil {
				return err
			}
		}
		n, err := g.wait.Wait(ctx, g.wcs[:])
		if err != nil {
			return fmt.Errorf("after %d of %d messages sent and %d received: %w", g.sentOK, g.o.Iters, g.received, err)
		}
		for i := range g.wcs[:n] {
			if err := g.took(&g.wcs[i]); err != nil {
				if g.forgiven(err) {
					return nil
				}
				return err
			}
		}
	}
	return nil
}

// took accounts for one completion.
func (g *game) took(wc *roce.WC) error {
	if wc.Status != roce.WCSuccess {
		return &session.FailedError{WC: *wc, What: fmt.Sprintf("wr_id %d", wc.WRID)}
	}
	r := g.byQPN[wc.QPN]
	if r == nil {
		return fmt.Errorf("a completion of QP 0x%06x, which there is not", wc.QPN)
	}
	if wc.WRID == sendWRID {
		r.sentOK++
		g.sentOK++
		return nil
	}
	r.received++
	g.received++
	g.posted--
	g.free = append(g.free, int(wc.WRID>>8))
	if g.o.Check {
		g.check(wc)
	}
	return g.refill()
}

// forgiven says whether the failure is only that the acknowledgement of our last message got lost
// and the peer, which had all it wanted, has left: a server has answered that message, and a client
// has no more to say.
func (g *game) forgiven(err error) bool {
	var f *session.FailedError
	return g.received >= g.o.Iters && g.sentOK >= g.o.Iters-max(len(g.rallies), 1) && errors.As(err, &f) &&
		f.WC.Status == roce.WCRetryExcErr
}

// check compares a message with what it should be and makes the buffer ready for the next.
func (g *game) check(wc *roce.WC) {
	mem := g.mr.Bytes()
	at := g.place(int(wc.WRID >> 8))
	got := mem[at+g.grh:][:g.o.Size]
	want := mem[g.send : g.send+g.o.Size]
	if int(wc.ByteLen) != g.o.Size+g.grh {
		g.wrong = append(g.wrong, fmt.Sprintf("message %d has %d bytes, want %d",
			g.received, int(wc.ByteLen)-g.grh, g.o.Size))
	} else if !bytes.Equal(got, want) {
		i := 0
		for got[i] == want[i] {
			i++
		}
		g.wrong = append(g.wrong, fmt.Sprintf("invalid data in page %d: message %d, byte %d is 0x%02x, want 0x%02x",
			i/page, g.received, i, got[i], want[i]))
	}
	g.wipe(mem[at:][:g.grh+g.o.Size])
}

// verdict is the error of a game whose data was wrong.
func (g *game) verdict() error {
	if len(g.wrong) == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d messages are wrong; the first: %s (a peer without -c sends no 0 at the "+
		"start of a page)",
		len(g.wrong), g.received, g.wrong[0])
}

func (g *game) close() error {
	var errs []error
	closing := func(made bool, c func() error) {
		if made {
			errs = append(errs, c())
		}
	}
	for _, r := range g.rallies {
		closing(true, r.qp.Close)
	}
	closing(g.srq != nil, func() error { return g.srq.Close() })
	closing(g.ah != nil, func() error { return g.pd.DestroyAH(g.ah) })
	closing(g.cq != nil, g.cq.Close)
	closing(g.mr != nil, g.mr.Close)
	closing(g.pd != nil, g.pd.Close)
	closing(g.s != nil, func() error { return g.s.Close() })
	return errors.Join(errs...)
}
