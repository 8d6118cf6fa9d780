// Package pingpong bounces messages between two queue pairs as ibv_rc_pingpong, ibv_uc_pingpong and
// ibv_ud_pingpong do, or between many that share a receive queue, as ibv_srq_pingpong does; either
// end may be one of those.
//
// Stages of a run: meet the peer on TCP, open the device that leads to it (one that is named is
// opened first), swap addresses
// (address.go), play (game.go), report. The TCP connection ends before the first message flies:
// from then on only the messages themselves tell how the peer is.
package pingpong

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/goroce/goroce/cmd/roce/internal/oob"
	"github.com/goroce/goroce/cmd/roce/internal/session"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/wire"
)

// Options are those of the C programs. MTU, Size and Iters are not exchanged: both ends need the
// same.
type Options struct {
	session.Options
	Host string // "" makes this end the server
	Port int

	Type    roce.QPType
	SRQ     bool // RC: many queue pairs at each end, with one receive queue
	QPs     int  // with SRQ: how many
	Size    int  // 0: 4096, UD 1024
	MTU     int  // bytes; RC and UC
	RxDepth int
	Iters   int
	SL      int
	Timeout int // code of the ack timeout; the C programs have 14, 67 ms
	Events  bool
	Check   bool
	JSON    bool
	Stall   time.Duration // nothing for so long is an error
}

// Sizes of a message when none is asked for.
const (
	defaultSize   = 4096
	defaultUDSize = 1024
)

// maxQPs is how many queue pairs ibv_srq_pingpong has at most. Its ends exchange as many addresses,
// however many there are; those behind the last one are empty.
const maxQPs = 256

// linger is how long a client that has all it wants repeats acknowledgements that the server may
// have missed: three of its timeouts.
const linger = 200 * time.Millisecond

// answerTime is how long a peer may take for its part of the exchange.
const answerTime = time.Minute

// Run plays a whole game as the server, or with a host as the client.
func Run(ctx context.Context, out io.Writer, o Options) (err error) {
	if err := o.complete(); err != nil {
		return err
	}
	g := &game{o: o, mtu: roce.MTU1024}
	if o.Type != roce.UD {
		if g.mtu, err = wire.MTUFromBytes(o.MTU); err != nil {
			return fmt.Errorf("--mtu: %w", err)
		}
	}
	defer func() {
		if e := g.close(); err == nil {
			err = e
		}
	}()
	if o.Dev != "" { // what is wrong with it is said before a peer is asked for
		if g.s, err = session.Open(o.Options, netip.Addr{}); err != nil {
			return err
		}
	}
	conn, err := meet(ctx, o)
	if err != nil {
		return err
	}
	defer conn.Close()
	if g.s == nil {
		if g.s, err = session.Open(o.Options, conn.Local()); err != nil {
			return err
		}
	}
	if err := g.furnish(); err != nil {
		return err
	}
	p := printer{out, o}
	if err := g.swap(ctx, conn, p); err != nil {
		return err
	}
	start := time.Now()
	if err := g.play(ctx); err != nil {
		return g.s.Explain(err)
	}
	p.result(g, time.Since(start))
	if (o.Host != "" || o.SRQ) && o.Type == roce.RC {
		pause(ctx, linger)
	}
	return g.verdict()
}

func (o *Options) complete() error {
	if o.Size == 0 {
		o.Size = defaultSize
		if o.Type == roce.UD {
			o.Size = defaultUDSize
		}
	}
	if !o.SRQ {
		o.QPs = 1
	}
	for _, rule := range []struct {
		broken bool
		why    string
	}{
		{o.Size < 1 || o.Size > 1<<30, fmt.Sprintf("--size %d: want 1 to 1G", o.Size)},
		{o.Port < 1 || o.Port > 65535, fmt.Sprintf("--port %d: want 1 to 65535", o.Port)},
		{o.Iters < 1, fmt.Sprintf("--iters %d: want 1 or more", o.Iters)},
		{o.SRQ && o.Type != roce.RC, "--srq is for --type rc, as in ibv_srq_pingpong"},
		{o.QPs < 1 || o.QPs > maxQPs, fmt.Sprintf("--num-qp %d: want 1 to %d", o.QPs, maxQPs)},
		{o.SRQ && o.RxDepth < o.QPs, fmt.Sprintf("--rx-depth %d is too small for %d queue pairs", o.RxDepth, o.QPs)},
		{o.RxDepth < 1, fmt.Sprintf("--rx-depth %d: want 1 or more", o.RxDepth)},
		{o.Timeout < 0 || o.Timeout > 31, fmt.Sprintf("--qp-timeout %d: want 0 to 31", o.Timeout)},
		{o.GIDIndex < 0 || o.GIDIndex > 255, fmt.Sprintf("--gid-idx %d: want 0 to 255", o.GIDIndex)},
		{o.SL < 0 || o.SL > 7, fmt.Sprintf("--sl %d: want 0 to 7", o.SL)},
	} {
		if rule.broken {
			return errors.New(rule.why)
		}
	}
	return o.CheckFaults()
}

func meet(ctx context.Context, o Options) (*oob.Conn, error) {
	if o.Host == "" {
		return oob.Accept(ctx, o.Port)
	}
	return oob.Dial(ctx, o.Host, o.Port)
}

// swap exchanges addresses and connects. The client speaks first, and says "done" before it is
// ready to receive: the server will not send before it has received.
func (g *game) swap(ctx context.Context, conn *oob.Conn, p printer) error {
	say := func() error {
		var all []byte
		for _, r := range g.rallies {
			all = r.own.append(all)
		}
		for range g.o.addresses() - len(g.rallies) {
			all = new(address).append(all)
		}
		return conn.Send(all)
	}
	msg := make([]byte, addressLen)
	hear := func() (err error) {
		for i := 0; i < g.o.addresses() && err == nil; i++ {
			if err = conn.RecvWithin(answerTime, msg); err == nil && i < len(g.rallies) {
				g.rallies[i].peer, err = parseAddress(msg)
			}
		}
		return err
	}
	for _, r := range g.rallies {
		r.own = address{QPN: r.qp.QPN(), PSN: r.qp.Endpoint().PSN, GID: g.s.GID}
		p.address("local", r.own)
	}
	if g.o.Host != "" {
		if err := say(); err != nil {
			return err
		}
		if err := hear(); err != nil {
			return err
		}
		if err := conn.Send(done); err != nil {
			return err
		}
		g.printPeers(p)
		return g.connect(ctx)
	}
	if err := hear(); err != nil {
		return err
	}
	if err := g.connect(ctx); err != nil {
		return err
	}
	if err := say(); err != nil {
		return err
	}
	g.printPeers(p)
	return conn.RecvWithin(answerTime, msg[:len(done)])
}

// addresses is how many each end tells the other.
func (o *Options) addresses() int {
	if o.SRQ {
		return maxQPs
	}
	return 1
}

func (g *game) printPeers(p printer) {
	for _, r := range g.rallies {
		p.address("remote", r.peer)
	}
}

// pause waits, unless the user has enough.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
