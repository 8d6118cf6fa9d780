package conformance

// Attributes, states, and the ends of things.

import (
	"context"
	"errors"
	"time"

	"github.com/goroce/goroce/roce"
)

func lives() []Case {
	return []Case{
		{"attributes of device and port", attributesAct, nil},
		{"a queue pair's states", statesAct, nil},
		{"attributes that were set", queryActs, queryServes},
		{"what a queue pair was made from", queryInitAct, nil},
		{"a rate limit", rateLimitActs, rateLimitServes},
		{"RESET and a second life", secondLife, secondLife},
		{"the send queue drains", drainActs, drainServes},
		{"UC goes on after a local error", squelchedActs, squelchedServes},
		{"closing twice", closingActs, nil},
		{"use after Close", closedActs, nil},
	}
}

func attributesAct(e *End) {
	a, p, gids := e.Query(), e.QueryPort(), e.GIDs()
	e.Check(a.MaxQP > 0 && a.MaxQPWR > 0 && a.MaxSGE > 0 && a.MaxCQE > 0 && a.MaxMR > 0 && a.NumCompVectors > 0, "%+v",
		a)
	e.Check(a.NodeGUID != 0 && a.PhysPortCnt == 1, "%+v", a)
	e.Check(a.MaxTotalMcastQPAttach >= a.MaxMcastQPAttach && (a.MaxMcastQPAttach > 0) == (a.MaxMcastGrp > 0), "%+v", a)
	e.Check(p.State == roce.PortActive && p.LinkLayer == roce.LinkLayerEthernet && p.MaxMsgSz > 0, "%+v", p)
	e.Check(p.ActiveMTU >= roce.MTU256 && p.ActiveMTU <= p.MaxMTU, "active MTU %v, at most %v", p.ActiveMTU, p.MaxMTU)
	e.Check(len(gids) > 0 && len(gids) == p.GIDTblLen, "%d GIDs, gid_tbl_len %d", len(gids), p.GIDTblLen)
	for i, g := range gids {
		got, err := e.QueryGID(i)
		e.Must(err)
		e.Check(got == g, "GID %d is %v and %v", i, got, g)
		if _, err = e.QueryGIDEx(i); g.IsZero() {
			e.Refused("an empty row", err, roce.ErrInvalid)
			err = nil
		}
		e.Must(err)
	}
	info := e.PortInfo()
	e.Check(info.Kind != "" && info.Up == (p.State == roce.PortActive) || info.Interface == "", "%+v", info)
}

func statesAct(e *End) {
	e.Make(roce.RC, 64)
	e.Check(e.QP.State() == roce.StateReset, "born in %v", e.QP.State())
	modify := func(a roce.QPAttr, mask roce.AttrMask) error { return e.QP.Modify(e.ctx, &a, mask) }
	e.Must(e.QP.Init(nil))
	e.Check(e.QP.State() == roce.StateInit, "in %v, want INIT", e.QP.State())
	e.Recv(1, 0, 8)
	if !e.Query().FlowControl {
		o := options()
		o.FlowControl = true
		e.Refused("flow control where it is the device's affair",
			e.QP.Connect(e.ctx, e.QP.Endpoint(), &o), roce.ErrNotSupported)
	}
	e.Must(modify(roce.QPAttr{State: roce.StateErr}, roce.AttrState))
	wc := e.Bad(roce.WCWRFlushErr)
	e.Check(wc.WRID == 1, "%+v", wc)
	e.Must(modify(roce.QPAttr{State: roce.StateReset}, roce.AttrState))
	e.Check(e.QP.State() == roce.StateReset, "in %v, want RESET", e.QP.State())
}

func queryActs(e *End) {
	e.Make(roce.RC, 64)
	o := options()
	o.Timeout, o.RetryCnt, o.RNRRetry, o.MinRNRTimer, o.MaxRdAtomic, o.MaxDestRdAtomic = 15, 3, 4, 5, 6, 7
	o.Access, o.FlowControl = roce.RemoteRead|roce.RemoteWrite, e.Query().FlowControl
	e.Connect(o)
	a, err := e.QP.Query()
	e.Must(err)
	e.Check(a.State == roce.StateRTS && a.DestQPN == e.Peer.Endpoint.QPN && a.AV.DGID == e.Peer.Endpoint.GID, "%+v", a)
	e.Check(a.Timeout == 15 && a.RetryCnt == 3 && a.RNRRetry == 4 && a.MinRNRTimer == 5, "%+v", a)
	e.Check(a.FlowControl == o.FlowControl, "%+v", a)
	e.Check(a.MaxRdAtomic >= 6 && a.MaxDestRdAtomic >= 7 && a.Port == 1, "%+v", a)
	e.Check(a.Cap.MaxSendWR >= Depth && a.Cap.MaxRecvSGE >= 3 && a.Cap.MaxInlineData >= 64, "%+v", a.Cap)
	const rights = roce.RemoteRead | roce.RemoteWrite | roce.RemoteAtomic
	e.Check(a.AccessFlags&rights == o.Access, "access %v, want %v", a.AccessFlags, o.Access)
}

func queryInitAct(e *End) {
	e.Make(roce.UC, 64)
	init, err := e.QP.QueryInit()
	e.Must(err)
	e.Check(init.Type == roce.UC && init.SendCQ == e.CQ && init.RecvCQ == e.CQ && !init.SQSigAll, "%+v", init)
	e.Check(init.Cap.MaxSendWR >= Depth && init.Cap.MaxRecvWR >= Depth && init.Cap.MaxSendSGE >= 3, "%+v", init.Cap)
}

// rateLimitActs sends with a limit, and then faster: the time is for the simulated worlds to judge,
// but not that of a limit which means seconds.
func rateLimitActs(e *End) {
	e.Join(roce.RC, 64<<10)
	a := e.Query()
	limit := func(kbps uint32) error {
		return e.QP.Modify(e.ctx, &roce.QPAttr{RateLimit: kbps}, roce.AttrRateLimit)
	}
	if a.RateLimitMax == 0 {
		e.Refused("a rate limit", limit(1_000_000), roce.ErrNotSupported)
		e.Skip("%s has no rate limits", e.Name())
	}
	e.Refused("a limit that is too low", limit(a.RateLimitMin-1), roce.ErrInvalid)
	e.Refused("a limit that is too high", limit(a.RateLimitMax+1), roce.ErrInvalid)
	write := func() time.Duration {
		start := time.Now()
		e.Send(roce.SendWR{
			Opcode:     roce.WRWrite,
			Flags:      roce.SendSignaled,
			SGL:        []roce.SGE{e.MR.SGE(0, len(e.Buf))},
			RemoteAddr: e.Peer.Addr,
			RKey:       e.Peer.RKey,
		})
		e.Good(roce.WCRDMAWrite)
		return time.Since(start)
	}
	e.Must(limit(5_000)) // 64 KiB take 105 ms, but for the last packet and what may be made up for
	took := write()
	e.Check(took > 80*time.Millisecond, "%d bytes took %v at 5 Mbit/s", len(e.Buf), took)
	attr, err := e.QP.Query()
	e.Must(err)
	e.Check(attr.RateLimit == 5_000, "a limit of %d kbit/s", attr.RateLimit)
	e.Must(limit(0))
	write()
}

func rateLimitServes(e *End) { e.Join(roce.RC, 64<<10) }

func queryServes(e *End) {
	e.Make(roce.RC, 64)
	e.Connect(options())
}

// secondLife is both ends': they send, are reset, and connect again.
func secondLife(e *End) {
	e.Make(roce.RC, 64)
	for life := range 2 {
		e.Connect(options())
		if e.Acts {
			e.Sync()
			e.Send(small(e, uint64(life)))
			e.Good(roce.WCSend)
			e.Send(roce.SendWR{
				WRID:       99,
				Opcode:     roce.WRWrite,
				Flags:      roce.SendSignaled,
				RemoteAddr: e.Peer.Addr,
				RKey:       e.Peer.RKey,
			})
		} else {
			e.Recv(uint64(life), 0, 8)
			e.Recv(99, 0, 8)
			e.Sync()
			wc := e.Good(roce.WCRecv)
			e.Check(wc.WRID == uint64(life), "a completion of an earlier life: %+v", wc)
		}
		e.Sync()
		e.Must(e.QP.Modify(e.ctx, &roce.QPAttr{State: roce.StateReset}, roce.AttrState))
		var wcs [1]roce.WC
		n, err := e.CQ.Poll(wcs[:])
		e.Must(err)
		e.Check(n == 0, "a completion after RESET: %+v", wcs[0])
		e.Sync()
	}
}

// drainActs drains a queue of which everything is done. What of a request that is under way when
// the queue is told to drain has begun is the device's to say; and rxe now and then forgets the
// event if the last acknowledgement comes in that moment (docs/rocev2.md, section 5.4).
func drainActs(e *End) {
	e.Join(roce.RC, 64)
	e.Sync()
	e.Send(small(e, 1))
	e.Good(roce.WCSend)
	err := e.QP.Modify(e.ctx, &roce.QPAttr{State: roce.StateSQD, EnSQDAsyncNotify: true},
		roce.AttrState|roce.AttrEnSQDAsyncNotify)
	if errors.Is(err, roce.ErrNotSupported) {
		e.Skip("%v", err)
	}
	e.Must(err)
	for {
		ev, err := e.Events().Get(e.ctx)
		e.Must(err)
		if ev.Type == roce.EventSQDrained && ev.QP == e.QP {
			break
		}
	}
	e.Send(small(e, 2)) // waits
	e.Check(e.CQ.Len() == 0, "a request that was posted to a drained queue has been executed")
	e.Must(e.QP.Modify(e.ctx, &roce.QPAttr{State: roce.StateRTS}, roce.AttrState))
	e.Good(roce.WCSend)
}

func drainServes(e *End) {
	e.Join(roce.RC, 64)
	e.Recv(1, 0, 8)
	e.Recv(2, 0, 8)
	e.Sync()
	e.Good(roce.WCRecv)
	e.Good(roce.WCRecv)
}

// squelchedActs: a request that fails at this end flushes the send queue and no more; RTS opens it
// again.
func squelchedActs(e *End) {
	e.Join(roce.UC, 64)
	e.Recv(7, 8, 8)
	e.Sync()
	wr := small(e, 1)
	wr.SGL[0].LKey ^= 0x00ffff00
	e.Send(wr)
	e.Bad(roce.WCLocProtErr, roce.WCWRFlushErr)
	state := e.QP.State()
	e.Tell(state)
	if state != roce.StateSQE {
		e.Check(state == roce.StateErr, "in %v", state)
		e.Skip("%s moves UC to ERR", e.Name())
	}
	e.Send(small(e, 2))
	wc := e.Bad(roce.WCWRFlushErr)
	e.Check(wc.WRID == 2, "%+v", wc)
	e.Sync() // the other end's message comes to it all the same
	wc = e.Good(roce.WCRecv)
	e.Check(wc.WRID == 7, "%+v", wc)
	e.Must(e.QP.Modify(e.ctx, &roce.QPAttr{State: roce.StateRTS, CurState: roce.StateSQE},
		roce.AttrState|roce.AttrCurState))
	e.Sync() // or this might come before the completion of that
	e.Send(small(e, 3))
	wc = e.Good(roce.WCSend)
	e.Check(wc.WRID == 3, "%+v", wc)
	e.Sync()
}

func squelchedServes(e *End) {
	e.Join(roce.UC, 64)
	e.Recv(1, 0, 8)
	e.Sync()
	var state roce.QPState
	e.Hear(&state)
	if state != roce.StateSQE {
		return
	}
	e.Sync() // or our message might come before what is flushed there
	e.Send(small(e, 1))
	e.Good(roce.WCSend)
	e.Sync()
	e.Good(roce.WCRecv)
	e.Sync()
}

func closingActs(e *End) {
	e.Make(roce.RC, 64)
	for range 2 {
		e.Must(e.QP.Close())
		e.Must(e.MR.Close())
		e.Must(e.CQ.Close())
		e.Must(e.Ch.Close())
		e.Must(e.PD.Close())
	}
}

func closedActs(e *End) {
	e.Make(roce.RC, 64)
	e.Must(e.QP.Init(nil))
	e.Recv(1, 0, 8)
	e.Must(e.QP.Close())
	e.Refused("PostRecv", e.QP.PostRecv(roce.RecvWR{}), roce.ErrClosed)
	e.Check(e.QP.Modify(e.ctx, &roce.QPAttr{State: roce.StateReset}, roce.AttrState) != nil,
		"Modify of a closed queue pair")
	_, err := e.QP.Query()
	e.Check(err != nil, "Query of a closed queue pair")
	e.Must(e.CQ.Close())
	var wcs [1]roce.WC
	_, err = e.CQ.Poll(wcs[:])
	e.Refused("Poll", err, roce.ErrClosed)
	_, err = e.CQ.Wait(context.Background(), wcs[:])
	e.Refused("Wait", err, roce.ErrClosed)
	e.Refused("ReqNotify", e.CQ.ReqNotify(false), roce.ErrClosed)
}
