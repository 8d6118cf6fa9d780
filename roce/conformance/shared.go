package conformance

// Shared receive queues: one for queue pairs of several types, empty, below its limit, resized; and
// what becomes of its requests when a queue pair ends.

import (
	"errors"

	"github.com/goroce/goroce/roce"
)

func shared() []Case {
	return []Case{
		{"a shared receive queue for RC, UC and UD", sharedActs, sharedServes},
		{"a shared receive queue is empty", starvedActs, starvedServes},
		{"a shared receive queue comes below its limit", limitActs, limitServes},
		{"a shared receive queue is resized", resizedActs, resizedServes},
		{"a queue pair with a shared receive queue fails", leftActs, leftServes},
		{"a queue pair with a shared receive queue is closed", closedBesideActs, closedBesideServes},
		{"what is refused of shared receive queues", sharedRefusals, nil},
		{"XRC: one connection for several shared receive queues", xrcActs, xrcServes},
	}
}

// sharers are the types of the queue pairs that share.
var sharers = []roce.QPType{roce.RC, roce.RC, roce.UC, roce.UD}

// share makes a shared receive queue.
func (e *End) share(wr, limit int) *roce.SRQ {
	if e.Query().MaxSRQ == 0 {
		e.Skip("the device has no shared receive queues")
	}
	s, err := e.PD.CreateSRQ(roce.SRQInitAttr{MaxWR: wr, MaxSGE: 3, Limit: limit, Context: e})
	e.Must(err)
	e.later(s.Close)
	return s
}

// several makes queue pairs and connects each with one of the other end, which does so too. s is
// where they receive, nil for queues of their own.
func (e *End) several(types []roce.QPType, s *roce.SRQ) (qps []*roce.QP, peers []roce.Endpoint) {
	for _, typ := range types {
		q := e.queue(typ, s)
		e.QP = q
		if typ == roce.UD {
			e.Must(q.Activate(qkey))
			e.Swap()
			e.Sync()
		} else {
			e.Connect(options())
		}
		qps, peers = append(qps, q), append(peers, e.Peer.Endpoint)
	}
	return qps, peers
}

// offer posts a receive for a message of n bytes to a shared queue. Its WRID says where it begins.
func (e *End) offer(s *roce.SRQ, off, n int) {
	e.Must(s.PostRecv(roce.RecvWR{WRID: uint64(off), SGL: []roce.SGE{e.MR.SGE(off, roce.GRHSize),
		e.MR.SGE(off+roce.GRHSize, n)}}))
}

const sharedRounds = 8

func sharedActs(e *End) {
	e.Furnish(4096)
	qps, peers := e.several(sharers, nil)
	ah := handle(e, peers[len(peers)-1].GID)
	for i := range sharedRounds * len(qps) {
		q := i % len(qps)
		copy(e.Buf, pattern(900, i))
		wr := roce.SendWR{
			Opcode: roce.WRSendWithImm,
			Imm:    uint32(i),
			Flags:  roce.SendSignaled,
			SGL:    []roce.SGE{e.MR.SGE(0, 900)},
		}
		if sharers[q] == roce.UD {
			wr.AH, wr.RemoteQPN, wr.RemoteQKey = ah, peers[q].QPN, qkey
		}
		e.Sync()
		e.Must(qps[q].PostSend(wr))
		e.Good(roce.WCSend)
		e.Sync()
	}
}

func sharedServes(e *End) {
	e.Furnish(sharedRounds * 4096)
	s := e.share(sharedRounds, 0)
	qps, _ := e.several(sharers, s)
	next := 0
	post := func() {
		e.offer(s, next%sharedRounds*1024, 900)
		next++
	}
	for range sharedRounds {
		post()
	}
	for i := range sharedRounds * len(qps) {
		e.Sync()
		wc := e.Good(roce.WCRecv)
		q := i % len(qps)
		at, n := i%sharedRounds*1024, 900
		e.Check(wc.WRID == uint64(at), "message %d has taken the request at %d, the oldest is at %d", i, wc.WRID, at)
		e.Check(wc.QPN == qps[q].QPN() && wc.Flags&roce.WCWithImm != 0 && wc.Imm == uint32(i),
			"message %d to QP 0x%06x: %+v", i, qps[q].QPN(), wc)
		if sharers[q] == roce.UD {
			n += roce.GRHSize
			at += roce.GRHSize
		}
		e.Check(wc.ByteLen == uint32(n), "message %d: %d bytes, want %d", i, wc.ByteLen, n)
		e.Same(e.Buf[at:][:900], i)
		post()
		e.Sync()
	}
}

func starvedActs(e *End) {
	e.Furnish(64)
	qps, _ := e.several([]roce.QPType{roce.RC, roce.RC}, nil)
	for i, q := range qps {
		e.Must(q.PostSend(small(e, uint64(i))))
	}
	e.Sync()
	for range qps {
		e.Good(roce.WCSend)
	}
}

func starvedServes(e *End) {
	e.Furnish(1024)
	s := e.share(4, 0)
	e.several([]roce.QPType{roce.RC, roce.RC}, s)
	e.Sync() // the SENDs are posted; they may have been here
	e.offer(s, 0, 64)
	first := e.Good(roce.WCRecv)
	e.offer(s, 512, 64)
	second := e.Good(roce.WCRecv)
	e.Check(first.QPN != second.QPN && first.WRID == 0 && second.WRID == 512, "%+v, %+v", first, second)
}

// oneActs sends small messages when it is told.
func oneActs(e *End, messages int) {
	e.Furnish(64)
	e.several([]roce.QPType{roce.RC}, nil)
	for range messages {
		e.Sync()
		e.Send(small(e, 1))
		e.Good(roce.WCSend)
	}
}

func limitActs(e *End) { oneActs(e, 6) }

func limitServes(e *End) {
	e.Furnish(4096)
	s := e.share(8, 0)
	e.several([]roce.QPType{roce.RC}, s)
	message := func() {
		e.Sync()
		e.Good(roce.WCRecv)
	}
	for i := range 4 {
		e.offer(s, i*256, 64)
	}
	e.Must(s.Modify(roce.SRQAttr{Limit: 2}, roce.SRQLimit))
	message()
	message() // two are left
	a, err := s.Query()
	e.Must(err)
	e.Check(a.Limit == 2, "with two requests left the limit is %d, want 2", a.Limit)
	message()
	for {
		ev, err := e.Events().Get(e.ctx)
		e.Must(err)
		if ev.Type == roce.EventSRQLimit && ev.SRQ == s {
			break
		}
	}
	a, err = s.Query()
	e.Must(err)
	e.Check(a.Limit == 0, "after the event the limit is %d, want 0", a.Limit)
	for i := range 2 {
		e.offer(s, i*256, 64)
	}
	message()
	message()
	message()
	for ev, ok := e.Events().TryGet(); ok; ev, ok = e.Events().TryGet() {
		e.Check(ev.Type != roce.EventSRQLimit || ev.SRQ != s, "a second event of a limit that was armed once")
	}
}

func resizedActs(e *End) { oneActs(e, 12) }

func resizedServes(e *End) {
	e.Furnish(16 * 256)
	s := e.share(2, 0)
	e.several([]roce.QPType{roce.RC}, s)
	a, err := s.Query()
	e.Must(err)
	for i := range int(a.MaxWR) {
		e.offer(s, i%16*256, 64)
	}
	e.Refused("more than fit", s.PostRecv(roce.RecvWR{}), roce.ErrFull)
	err = s.Modify(roce.SRQAttr{MaxWR: a.MaxWR + 4}, roce.SRQMaxWR)
	if errors.Is(err, roce.ErrNotSupported) {
		e.Skip("%v", err)
	}
	e.Must(err)
	larger, err := s.Query()
	e.Must(err)
	e.Check(larger.MaxWR >= a.MaxWR+4, "%+v after a resize to %d", larger, a.MaxWR+4)
	for i := range larger.MaxWR - a.MaxWR {
		e.offer(s, int(a.MaxWR+i)%16*256, 64)
	}
	e.Refused("more than fit", s.PostRecv(roce.RecvWR{}), roce.ErrFull)
	for i := range 12 { // in the order in which they were posted
		e.Sync()
		wc := e.Good(roce.WCRecv)
		n := i % int(larger.MaxWR)
		e.Check(wc.WRID == uint64(n%16*256), "message %d has taken request %d, want %d", i, wc.WRID, n%16*256)
		e.offer(s, n%16*256, 64)
	}
}

func leftActs(e *End) {
	e.Furnish(64)
	qps, _ := e.several([]roce.QPType{roce.RC, roce.RC}, nil)
	e.Sync()
	e.Must(qps[1].PostSend(small(e, 2)))
	e.Good(roce.WCSend)
}

// leftServes: a queue pair that fails leaves the requests to the others.
func leftServes(e *End) {
	e.Furnish(1024)
	s := e.share(4, 0)
	qps, _ := e.several([]roce.QPType{roce.RC, roce.RC}, s)
	e.offer(s, 0, 64)
	e.Must(qps[0].Modify(e.ctx, &roce.QPAttr{State: roce.StateErr}, roce.AttrState))
	for {
		ev, err := e.Events().Get(e.ctx)
		e.Must(err)
		if ev.Type == roce.EventQPLastWQE && ev.QP == qps[0] {
			break
		}
	}
	var wcs [1]roce.WC
	n, err := e.CQ.Poll(wcs[:])
	e.Must(err)
	e.Check(n == 0, "a request that no message had was flushed: %+v", wcs[0])
	e.Sync()
	wc := e.Good(roce.WCRecv)
	e.Check(wc.QPN == qps[1].QPN() && wc.WRID == 0, "%+v", wc)
}

func closedBesideActs(e *End) {
	e.Furnish(64)
	qps, _ := e.several([]roce.QPType{roce.RC, roce.RC}, nil)
	e.Must(qps[0].PostSend(small(e, 1)))
	e.Good(roce.WCSend)
	e.Sync()
	e.Sync()
	e.Must(qps[1].PostSend(small(e, 2)))
	e.Good(roce.WCSend)
}

// closedBesideServes: completions of shared requests outlive their queue pair.
func closedBesideServes(e *End) {
	e.Furnish(1024)
	s := e.share(4, 0)
	qps, _ := e.several([]roce.QPType{roce.RC, roce.RC}, s)
	e.offer(s, 0, 64)
	e.offer(s, 512, 64)
	e.Sync() // the first message has been acknowledged, its completion was not polled
	gone := qps[0].QPN()
	e.Must(qps[0].Close())
	wc := e.Good(roce.WCRecv)
	e.Check(wc.QPN == gone && wc.WRID == 0, "%+v", wc)
	e.Sync()
	wc = e.Good(roce.WCRecv)
	e.Check(wc.QPN == qps[1].QPN() && wc.WRID == 512, "%+v", wc)
}

func sharedRefusals(e *End) {
	e.Furnish(64)
	s := e.share(4, 0)
	q, err := e.PD.CreateQP(roce.QPInitAttr{SendCQ: e.CQ, SRQ: s})
	e.Must(err)
	e.later(q.Close)
	e.Must(q.Init(nil))
	e.Check(q.SRQ() == s && s.PD() == e.PD && s.Context() == any(e), "%v, %v, %v", q.SRQ(), s.PD(), s.Context())
	at, err := q.Query()
	e.Must(err)
	e.Check(at.Cap.MaxRecvWR == 0 && at.Cap.MaxRecvSGE == 0, "%+v", at.Cap)
	e.Refused("a receive of a queue pair that shares", q.PostRecv(roce.RecvWR{}), roce.ErrInvalid)
	now, err := s.Query()
	e.Must(err)
	e.Refused("too many elements", s.PostRecv(roce.RecvWR{SGL: make([]roce.SGE, now.MaxSGE+1)}), roce.ErrInvalid)
	e.Refused("a limit above the size", s.Modify(roce.SRQAttr{Limit: now.MaxWR + 1}, roce.SRQLimit), roce.ErrInvalid)
	e.Refused("an unknown attribute", s.Modify(roce.SRQAttr{}, 1<<7), roce.ErrInvalid)
	e.Refused("a domain with a shared queue", e.PD.Close(), roce.ErrBusy)
	e.Must(q.Close())
	for range 2 {
		e.Must(s.Close())
	}
	e.Refused("a post to a closed queue", s.PostRecv(roce.RecvWR{}), roce.ErrClosed)
	_, err = s.Query()
	e.Refused("Query of a closed queue", err, roce.ErrClosed)
	e.Refused("Modify of a closed queue", s.Modify(roce.SRQAttr{Limit: 1}, roce.SRQLimit), roce.ErrClosed)
	_, err = e.PD.CreateQP(roce.QPInitAttr{SendCQ: e.CQ, SRQ: s})
	e.Refused("a queue pair with a closed queue", err, roce.ErrClosed)
}

// xrcActs sends to three shared receive queues over one connection, and reads and writes by keys of
// their domain.
func xrcActs(e *End) {
	e.Furnish(4096)
	x := e.domain()
	e.later(x.Close)
	q, err := e.PD.CreateQP(roce.QPInitAttr{
		Type:   roce.XRCSend,
		SendCQ: e.CQ,
		Cap:    roce.QPCap{MaxSendWR: Depth, MaxSendSGE: 3, MaxInlineData: 64},
	})
	e.Must(err)
	e.later(q.Close)
	e.QP = q
	e.Connect(options())
	e.Refused("a receive of a queue pair that only sends", q.PostRecv(roce.RecvWR{}), roce.ErrInvalid)
	var numbers []uint32
	e.Hear(&numbers)
	for i := range 4 * (len(numbers) - 1) {
		srqn := numbers[i%(len(numbers)-1)]
		copy(e.Buf, pattern(900, i))
		e.Send(roce.SendWR{
			Opcode:     roce.WRSendWithImm,
			Imm:        uint32(i),
			Flags:      roce.SendSignaled,
			SGL:        []roce.SGE{e.MR.SGE(0, 900)},
			RemoteSRQN: srqn,
		})
		e.Good(roce.WCSend)
		e.Sync()
	}
	copy(e.Buf, pattern(2000, 77))
	e.Send(roce.SendWR{
		Opcode:     roce.WRWrite,
		Flags:      roce.SendSignaled,
		SGL:        []roce.SGE{e.MR.SGE(0, 2000)},
		RemoteAddr: e.Peer.Addr,
		RKey:       e.Peer.RKey,
		RemoteSRQN: numbers[0],
	})
	e.Good(roce.WCRDMAWrite)
	e.Send(roce.SendWR{
		Opcode:     roce.WRRead,
		Flags:      roce.SendSignaled,
		SGL:        []roce.SGE{e.MR.SGE(2000, 2000)},
		RemoteAddr: e.Peer.Addr,
		RKey:       e.Peer.RKey,
		RemoteSRQN: numbers[1],
	})
	e.Good(roce.WCRDMARead)
	e.Same(e.Buf[2000:4000], 77)
	e.Refused("a number of 25 bits", q.PostSend(roce.SendWR{Opcode: roce.WRSend, RemoteSRQN: 1 << 24}), roce.ErrInvalid)
	// the last queue is of another domain
	e.Send(roce.SendWR{
		Opcode:     roce.WRSend,
		Flags:      roce.SendSignaled,
		SGL:        []roce.SGE{e.MR.SGE(0, 8)},
		RemoteSRQN: numbers[len(numbers)-1],
	})
	e.Bad(roce.WCRemInvReqErr)
}

// domain makes an XRC domain.
func (e *End) domain() *roce.XRCD {
	x, err := e.OpenXRCD()
	if errors.Is(err, roce.ErrNotSupported) {
		e.Skip("%v", err)
	}
	e.Must(err)
	return x
}

func xrcServes(e *End) {
	e.Furnish(3 * 4096)
	x, other := e.domain(), e.domain()
	e.later(x.Close)
	e.later(other.Close)
	var queues []*roce.SRQ
	var numbers []uint32
	for i := range 4 {
		attr := roce.SRQInitAttr{MaxWR: 8, MaxSGE: 2, XRCD: x, CQ: e.CQ}
		if i == 3 {
			attr.XRCD = other
		}
		s, err := e.PD.CreateSRQ(attr)
		e.Must(err)
		e.later(s.Close)
		for n := range 4 {
			e.offer(s, i%3*4096+n*1024, 900)
		}
		queues, numbers = append(queues, s), append(numbers, s.Number())
	}
	_, err := e.PD.CreateSRQ(roce.SRQInitAttr{MaxWR: 8, XRCD: x})
	e.Refused("XRC without a completion queue", err, roce.ErrInvalid)
	_, err = e.PD.CreateQP(roce.QPInitAttr{SendCQ: e.CQ, SRQ: queues[0]})
	e.Refused("an XRC queue as that of RC", err, roce.ErrInvalid)
	q, err := e.PD.CreateQP(roce.QPInitAttr{Type: roce.XRCRecv, XRCD: x})
	e.Must(err)
	e.later(q.Close)
	e.QP = q
	e.Refused("a domain that is in use", x.Close(), roce.ErrBusy)
	e.Connect(options())
	e.Refused("a send of a queue pair that only receives", q.PostSend(roce.SendWR{Opcode: roce.WRSend}),
		roce.ErrInvalid)
	e.Refused("a receive of a queue pair without a queue", q.PostRecv(roce.RecvWR{}), roce.ErrInvalid)
	e.Tell(numbers)
	for i := range 12 {
		wc := e.Good(roce.WCRecv)
		at := i%3*4096 + i/3*1024
		e.Check(wc.WRID == uint64(at) && wc.QPN == q.QPN() && wc.Imm == uint32(i) && wc.ByteLen == 900,
			"message %d: %+v, want the request at %d", i, wc, at)
		e.Same(e.Buf[at:][:900], i)
		e.Sync()
	}
}
