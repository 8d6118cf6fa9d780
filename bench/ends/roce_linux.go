package ends

// Our stack: one device at each end with two queue pairs, WRITEs of 64 KiB on one and SENDs of 8
// bytes on the other, and one completion queue that a single goroutine polls.
//
// Stages: the ends swap what they must know of each other over TCP, connect, and the client begins;
// the server answers until the TCP connection ends.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/goroce/goroce/roce"
)

const (
	// balls is how many requests the queue pair of the small messages has room for.
	balls = 16
	// slow is the code of an ack timeout of a second: an end that loses its processor for a while
	// is no loss of packets.
	slow = 18
)

// What a completion is of.
const (
	ofStream uint64 = iota
	ofQuestion
	ofReceive
)

// endpoint is one end.
type endpoint struct {
	dev         *roce.Device
	pd          *roce.PD
	cq          *roce.CQ
	mr          *roce.MR
	bulk, small *roce.QP
	wcs         []roce.WC
	question    roce.SendWR
	receive     roce.RecvWR
}

// card is what the other end must know.
type card struct {
	Bulk, Small roce.Endpoint
	Addr        uint64
	RKey        uint32
}

// openEnd makes an end that is ready to receive the first small message.
func openEnd(device string, depth int) (e *endpoint, err error) {
	e = &endpoint{wcs: make([]roce.WC, depth+balls)}
	defer func() {
		if err != nil {
			e.close()
		}
	}()
	if e.dev, err = roce.Open(device, nil); err != nil {
		return e, err
	}
	if e.pd, err = e.dev.AllocPD(); err != nil {
		return e, err
	}
	if e.cq, err = e.dev.CreateCQ(roce.CQInitAttr{CQE: depth + 2*balls}); err != nil {
		return e, err
	}
	if e.mr, err = e.pd.RegMR(make([]byte, bulkSize+smallSize), roce.LocalWrite|roce.RemoteWrite); err != nil {
		return e, err
	}
	for _, q := range []struct {
		qp  **roce.QP
		cap roce.QPCap
	}{
		{&e.bulk, roce.QPCap{MaxSendWR: uint32(depth), MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1}},
		{&e.small, roce.QPCap{
			MaxSendWR:     balls,
			MaxRecvWR:     balls,
			MaxSendSGE:    1,
			MaxRecvSGE:    1,
			MaxInlineData: smallSize,
		}},
	} {
		if *q.qp, err = e.pd.CreateQP(roce.QPInitAttr{Type: roce.RC, SendCQ: e.cq, Cap: q.cap}); err != nil {
			return e, err
		}
	}
	e.question = roce.SendWR{WRID: ofQuestion, Opcode: roce.WRSend, Flags: roce.SendSignaled | roce.SendInline,
		Inline: make([]byte, smallSize)}
	e.receive = roce.RecvWR{WRID: ofReceive, SGL: []roce.SGE{e.mr.SGE(bulkSize, smallSize)}}
	return e, nil
}

// connect swaps the cards and connects both queue pairs, with a receive posted before the peer can
// send.
func (e *endpoint) connect(c net.Conn) (peer card, err error) {
	mine := card{e.bulk.Endpoint(), e.small.Endpoint(), e.mr.Addr(), e.mr.RKey()}
	say, hear := json.NewEncoder(c), json.NewDecoder(c)
	if err := errors.Join(say.Encode(mine), hear.Decode(&peer)); err != nil {
		return peer, err
	}
	options := roce.DefaultConnectOptions()
	options.Access = roce.RemoteWrite
	options.SelectiveRepeat, options.LongWindow = true, true // as roce perf has it
	options.Timeout = slow
	ctx := context.Background()
	if err := errors.Join(e.bulk.Connect(ctx, peer.Bulk, &options),
		e.small.Connect(ctx, peer.Small, &options)); err != nil {
		return peer, err
	}
	if err := e.small.PostRecv(e.receive); err != nil {
		return peer, err
	}
	// Nobody sends before both are connected.
	ready := true
	return peer, errors.Join(say.Encode(ready), hear.Decode(&ready))
}

// poll takes completions, all of which must be of success.
func (e *endpoint) poll() ([]roce.WC, error) {
	n, err := e.cq.Poll(e.wcs)
	for i := range e.wcs[:n] {
		if wc := &e.wcs[i]; wc.Status != roce.WCSuccess {
			return nil, fmt.Errorf("request of kind %d: %v", wc.WRID, wc.Status)
		}
	}
	return e.wcs[:n], err
}

// close closes what openEnd made, as far as it came.
func (e *endpoint) close() {
	for _, q := range []*roce.QP{e.bulk, e.small} {
		if q != nil {
			q.Close()
		}
	}
	if e.mr != nil {
		e.mr.Close()
	}
	if e.cq != nil {
		e.cq.Close()
	}
	if e.pd != nil {
		e.pd.Close()
	}
	if e.dev != nil {
		e.dev.Close()
	}
}

func roceClient(t *Task) (*gauge, error) {
	c, err := net.DialTimeout("tcp", netip.AddrPortFrom(t.Peer, LoadedPort).String(), time.Minute)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	e, err := openEnd(t.Device, t.Depth)
	if err != nil {
		return nil, err
	}
	defer e.close()
	peer, err := e.connect(c)
	if err != nil {
		return nil, err
	}
	stream := make([]roce.SendWR, t.Depth)
	for i := range stream {
		stream[i] = roce.SendWR{WRID: ofStream, Opcode: roce.WRWrite, Flags: roce.SendSignaled,
			SGL: []roce.SGE{e.mr.SGE(0, bulkSize)}, RemoteAddr: peer.Addr, RKey: peer.RKey}
	}
	g := newGauge(t.Duration)
	g.leaves()
	if err := e.small.PostSend(e.question); err != nil {
		return nil, err
	}
	err = e.call(g, stream)
	stats := e.dev.Stats()
	g.resent, g.timeouts = stats.Engine.Retransmitted, stats.Engine.AckTimeouts
	return g, err
}

// call keeps the stream full and asks again after each answer.
func (e *endpoint) call(g *gauge, stream []roce.SendWR) error {
	done, free := uint64(0), len(stream)
	for g.goesOn(done * bulkSize) {
		if free > 0 {
			if err := e.bulk.PostSend(stream[:free]...); err != nil {
				return err
			}
			free = 0
		}
		wcs, err := e.poll()
		if err != nil {
			return err
		}
		for i := range wcs {
			switch wcs[i].WRID {
			case ofStream:
				done++
				free++
			case ofReceive:
				g.answered()
				if err := e.small.PostRecv(e.receive); err != nil {
					return err
				}
				g.leaves()
				if err := e.small.PostSend(e.question); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func roceServer(t *Task) (*gauge, error) {
	l, err := net.Listen("tcp", netip.AddrPortFrom(t.Local, LoadedPort).String())
	if err != nil {
		return nil, err
	}
	c, err := l.Accept()
	l.Close()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	e, err := openEnd(t.Device, t.Depth)
	if err != nil {
		return nil, err
	}
	defer e.close()
	if _, err := e.connect(c); err != nil {
		return nil, err
	}
	var left atomic.Bool
	go func() {
		c.Read(make([]byte, 1)) // ends with the connection
		left.Store(true)
	}()
	for !left.Load() {
		wcs, err := e.poll()
		if err != nil {
			return nil, err
		}
		for i := range wcs {
			if wcs[i].WRID != ofReceive {
				continue
			}
			if err := errors.Join(e.small.PostRecv(e.receive), e.small.PostSend(e.question)); err != nil {
				return nil, err
			}
		}
	}
	return nil, nil
}
