package conformance

// Requests that fail, and queues that are full: each request ends in one completion, with the
// status that says why, and nothing is lost silently.

import (
	"errors"

	"github.com/goroce/goroce/roce"
)

func failures() []Case {
	return []Case{
		{"a send queue is full", fullActs, fullServes},
		{"a receive queue is full", fullRecvActs, nil},
		{"requests are flushed", flushActs, connectedServes},
		{"the request before one that is refused", refusedActs, connectedServes},
	}
}

func connectedServes(e *End) { e.Join(roce.RC, 64) }

// small is a signaled SEND of 8 bytes.
func small(e *End, id uint64) roce.SendWR {
	return roce.SendWR{WRID: id, Opcode: roce.WRSend, Flags: roce.SendSignaled, SGL: []roce.SGE{e.MR.SGE(0, 8)}}
}

// fullActs posts more than the queue holds, to a peer that has no receives yet.
func fullActs(e *End) {
	e.Join(roce.RC, 64)
	attr, err := e.QP.Query()
	e.Must(err)
	slots := attr.Cap.MaxSendWR
	e.Check(slots >= Depth, "the queue has %d slots, want at least %d", slots, Depth)
	n := 0
	for n <= 2*int(slots) {
		err = e.QP.PostSend(small(e, uint64(n)), small(e, uint64(n+1)))
		var p *roce.PostError
		if errors.As(err, &p) {
			n += p.Index
			break
		}
		e.Must(err)
		n += 2
	}
	e.Refused("a request too many", err, roce.ErrFull)
	// Drivers round up once more for themselves.
	e.Check(n >= int(slots) && n <= 2*int(slots), "%d were posted, the queue has %d slots", n, slots)
	e.Tell(n)
	for i := range n {
		wc := e.Good(roce.WCSend)
		e.Check(wc.WRID == uint64(i), "request %d in place %d", wc.WRID, i)
	}
	e.Send(small(e, 0)) // there is room again
	e.Good(roce.WCSend)
}

func fullServes(e *End) {
	e.Join(roce.RC, 64)
	var n int
	e.Hear(&n)
	for range n + 1 {
		e.Recv(1, 0, 64)
		e.Good(roce.WCRecv)
	}
}

func fullRecvActs(e *End) {
	e.Make(roce.RC, 64)
	e.Must(e.QP.Init(nil))
	attr, err := e.QP.Query()
	e.Must(err)
	n := 0
	for ; err == nil && n <= 2*int(attr.Cap.MaxRecvWR); n++ {
		err = e.QP.PostRecv(roce.RecvWR{SGL: []roce.SGE{e.MR.SGE(0, 8)}})
	}
	e.Refused("a receive too many", err, roce.ErrFull)
	e.Check(n > int(attr.Cap.MaxRecvWR), "%d were posted, the queue has %d slots", n-1, attr.Cap.MaxRecvWR)
}

func flushActs(e *End) {
	e.Join(roce.RC, 64)
	for id := range uint64(3) {
		e.Recv(id, 0, 8)
	}
	e.Must(e.QP.Modify(e.ctx, &roce.QPAttr{State: roce.StateErr}, roce.AttrState))
	for id := range uint64(3) {
		wc := e.Bad(roce.WCWRFlushErr)
		e.Check(wc.WRID == id, "receive %d in place %d", wc.WRID, id)
	}
	e.Send(small(e, 7))
	wc := e.Bad(roce.WCWRFlushErr)
	e.Check(wc.WRID == 7 && wc.QPN == e.QP.QPN(), "%+v", wc)
}

func refusedActs(e *End) {
	e.Join(roce.RC, 64)
	var p *roce.PostError
	err := e.QP.PostSend(roce.SendWR{
		Opcode:     roce.WRWrite,
		RemoteAddr: e.Peer.Addr,
		RKey:       e.Peer.RKey,
		Flags:      roce.SendSignaled,
		WRID:       3,
	}, roce.SendWR{Opcode: 99})
	e.Check(errors.As(err, &p) && p.Index == 1, "the second one of two: %v", err)
	wc := e.Good(roce.WCRDMAWrite)
	e.Check(wc.WRID == 3, "%+v", wc)
}
