package pingpong

// The game itself: the client sends, and from then on each end sends when its last message is
// complete and the peer's next one has come.
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

// game is one end.
type game struct {
	o    Options
	mtu  roce.MTU
	s    *session.Session
	own  address
	peer address

	pd   *roce.PD
	cq   *roce.CQ
	mr   *roce.MR
	qp   *roce.QP
	ah   *roce.AH
	wait session.Waiter

	send, recv int // offsets in the region
	grh        int // bytes in front of a received datagram
	swr        [1]roce.SendWR
	rwr        roce.RecvWR
	wcs        [16]roce.WC

	posted   int // receives in the queue
	sent     int // sends posted, and complete
	sentOK   int
	received int
	wrong    []string // what --chk found
}

// Work request numbers, as in the C programs.
const (
	recvWRID = 1
	sendWRID = 2
)

// The content of a message: one character, and with --chk on the client a 0 at the start of each
// page.
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
	if g.o.Check {
		mem = make([]byte, 2*one)
		g.recv = one
	}
	for i := range mem {
		mem[i] = filler
	}
	if g.o.Check {
		g.paint(mem[g.send:one])
		g.wipe(mem[g.recv:])
	}
	if g.mr, err = g.pd.RegMR(mem, roce.LocalWrite); err != nil {
		return err
	}
	if g.cq, err = g.s.CreateCQ(roce.CQInitAttr{CQE: g.o.RxDepth + 1}); err != nil {
		return err
	}
	g.wait = session.Waiter{CQ: g.cq, Events: g.o.Events, Stall: g.o.Stall}
	g.qp, err = g.pd.CreateQP(roce.QPInitAttr{Type: g.o.Type, SendCQ: g.cq, RecvCQ: g.cq,
		Cap: roce.QPCap{MaxSendWR: 1, MaxRecvWR: uint32(g.o.RxDepth), MaxSendSGE: 1, MaxRecvSGE: 1}})
	if err != nil {
		return err
	}
	path := session.Path(0)
	if err := g.qp.Init(&path); err != nil {
		return err
	}
	g.rwr = roce.RecvWR{WRID: recvWRID, SGL: []roce.SGE{g.mr.SGE(g.recv, one)}}
	g.swr[0] = roce.SendWR{WRID: sendWRID, Opcode: roce.WRSend, Flags: roce.SendSignaled, SGL: []roce.SGE{g.mr.SGE(g.send, g.o.Size)},
		RemoteQKey: session.QKey}
	return g.refill()
}

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

// connect takes the queue pair to where it may send.
func (g *game) connect(ctx context.Context) (err error) {
	if g.peer.GID.Is4() != g.own.GID.Is4() {
		return fmt.Errorf("the peer's GID is %v and this end's %v: both must be IPv4 or both IPv6; choose with --dev here, -g there", g.peer.GID, g.own.GID)
	}
	p := session.Path(0)
	p.MTU, p.SGIDIndex, p.SL, p.Timeout = g.mtu, uint8(g.o.GIDIndex), uint8(g.o.SL), uint8(g.o.Timeout)
	p.MaxDestRdAtomic, p.MaxRdAtomic = 1, 1
	peer := roce.Endpoint{GID: g.peer.GID, QPN: g.peer.QPN, PSN: g.peer.PSN}
	if err := session.Connect(ctx, g.qp, peer, &p); err != nil {
		return err
	}
	if g.o.Type == roce.UD {
		if g.ah, err = g.pd.CreateAH(ctx, session.AV(g.peer.GID, &p)); err != nil {
			return err
		}
		g.swr[0].AH, g.swr[0].RemoteQPN = g.ah, g.peer.QPN
	}
	return nil
}

// refill posts receives when nearly none are left, all in one go.
func (g *game) refill() error {
	if g.posted > 1 {
		return nil
	}
	list := make([]roce.RecvWR, g.o.RxDepth-g.posted)
	for i := range list {
		list[i] = g.rwr
	}
	g.posted = g.o.RxDepth
	return g.qp.PostRecv(list...)
}

// play sends and receives Iters messages each. The client has the first move: it may send one more
// than it has received, the server as many.
func (g *game) play(ctx context.Context) error {
	lead := 0
	if g.o.Host != "" {
		lead = 1
	}
	for g.received < g.o.Iters || g.sentOK < g.o.Iters {
		if g.sent == g.sentOK && g.sent < min(g.received+lead, g.o.Iters) {
			g.sent++
			if err := g.qp.PostSend(g.swr[:]...); err != nil {
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
	if wc.WRID == sendWRID {
		g.sentOK++
		return nil
	}
	g.received++
	g.posted--
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
	return g.received == g.o.Iters && g.sentOK == g.o.Iters-1 && errors.As(err, &f) && f.WC.Status == roce.WCRetryExcErr
}

// check compares a message with what it should be and makes the buffer ready for the next.
func (g *game) check(wc *roce.WC) {
	mem := g.mr.Bytes()
	got := mem[g.recv+g.grh : g.recv+g.grh+g.o.Size]
	want := mem[g.send : g.send+g.o.Size]
	if int(wc.ByteLen) != g.o.Size+g.grh {
		g.wrong = append(g.wrong, fmt.Sprintf("message %d has %d bytes, want %d", g.received, int(wc.ByteLen)-g.grh, g.o.Size))
	} else if !bytes.Equal(got, want) {
		i := 0
		for got[i] == want[i] {
			i++
		}
		g.wrong = append(g.wrong, fmt.Sprintf("invalid data in page %d: message %d, byte %d is 0x%02x, want 0x%02x", i/page, g.received, i, got[i], want[i]))
	}
	g.wipe(mem[g.recv:])
}

// verdict is the error of a game whose data was wrong.
func (g *game) verdict() error {
	if len(g.wrong) == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d messages are wrong; the first: %s (a peer without -c sends no 0 at the start of a page)",
		len(g.wrong), g.received, g.wrong[0])
}

func (g *game) close() error {
	var errs []error
	closing := func(made bool, c func() error) {
		if made {
			errs = append(errs, c())
		}
	}
	closing(g.qp != nil, g.qp.Close)
	closing(g.ah != nil, func() error { return g.pd.DestroyAH(g.ah) })
	closing(g.cq != nil, g.cq.Close)
	closing(g.mr != nil, g.mr.Close)
	closing(g.pd != nil, g.pd.Close)
	closing(g.s != nil, func() error { return g.s.Close() })
	return errors.Join(errs...)
}
