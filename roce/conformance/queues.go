package conformance

// Completion queues: their size, what becomes of one that is too small, and when and what they
// tell.

import (
	"errors"
	"time"

	"github.com/goroce/goroce/roce"
)

func completionQueues() []Case {
	return []Case{
		{"a completion queue changes its size", resizeActs, resizeServes},
		{"a completion queue changes its size in a stream", resizeStreamActs, resizeStreamServes},
		{"a completion queue is overrun", overrunActs, resizeServes},
		{"error/queue pair whose completion queue is overrun", overrunFailsActs, resizeServes},
		{"a completion queue of one goroutine", singleActs, resizeServes},
		{"completions have times", timesActs, resizeServes},
		{"notifications are moderated", moderationActs, moderationServes},
	}
}

// burst is how many messages the cases here send at once.
const burst = 20

// withQueue is Join with a completion queue of the case's own, which has no channel.
func withQueue(e *End, attr roce.CQInitAttr) {
	e.Furnish(64)
	cq, err := e.CreateCQ(attr)
	if errors.Is(err, roce.ErrNotSupported) {
		e.Skip("%v", err)
	}
	e.Must(err)
	e.later(cq.Close)
	e.CQ = cq
	e.QP = e.Queue(roce.RC)
	e.Connect(options())
	e.Sync() // the receives are there
}

// fill has n requests complete that nobody polls, and returns when they have.
func fillQueue(e *End, n int) {
	for id := range uint64(n) {
		e.Send(small(e, id))
	}
	for e.CQ.Len() < n {
		e.Must(e.ctx.Err())
	}
}

// resizeServes takes bursts of messages, and sees a connection end.
func resizeServes(e *End) {
	e.Join(roce.RC, 64)
	for id := range uint64(Depth) {
		e.Recv(id, 0, 8)
	}
	e.Sync()
}

func resizeActs(e *End) {
	withQueue(e, roce.CQInitAttr{CQE: Depth})
	err := e.CQ.Resize(4 * Depth)
	if errors.Is(err, roce.ErrNotSupported) {
		e.Skip("%v", err)
	}
	e.Must(err)
	e.Check(e.CQ.Cap() >= 4*Depth, "the queue holds %d, want %d", e.CQ.Cap(), 4*Depth)
	fillQueue(e, burst)
	e.Refused("a size of 0", e.CQ.Resize(0), roce.ErrInvalid)
	e.Refused("a size that is less than there is", e.CQ.Resize(burst/4), roce.ErrInvalid)
	e.Check(e.CQ.Len() == burst, "%d completions, want %d", e.CQ.Len(), burst)
	e.Must(e.CQ.Resize(burst))
	e.Must(e.CQ.Resize(2 * Depth))
	for id := range uint64(burst) {
		wc := e.Good(roce.WCSend)
		e.Check(wc.WRID == id, "request %d in place %d", wc.WRID, id)
	}
	e.Must(e.QP.Close())
	e.Must(e.CQ.Close())
	e.Refused("a closed queue", e.CQ.Resize(Depth), roce.ErrClosed)
}

const streamed = 200

// resizeStreamActs sends messages one after the other while another goroutine changes the size of
// the queue, about once a message: each completes, in order.
func resizeStreamActs(e *End) {
	withQueue(e, roce.CQInitAttr{CQE: Depth})
	if err := e.CQ.Resize(Depth); errors.Is(err, roce.ErrNotSupported) {
		e.Skip("%v", err)
	}
	again, ended := make(chan bool, 1), make(chan error, 1)
	defer func() { // however the case ends
		close(again)
		e.Must(<-ended)
	}()
	go func() {
		var err error
		for n := 0; <-again; n++ {
			if err == nil {
				err = e.CQ.Resize(Depth << (n % 4))
			}
		}
		ended <- err
	}()
	for id := range uint64(streamed) {
		select {
		case again <- true:
		default: // it is still at it
		}
		e.Send(small(e, id))
		wc := e.Good(roce.WCSend)
		e.Check(wc.WRID == id, "request %d in place %d", wc.WRID, id)
	}
}

func resizeStreamServes(e *End) {
	e.Join(roce.RC, 64)
	for id := range uint64(Depth) {
		e.Recv(id, 0, 8)
	}
	e.Sync()
	for id := range uint64(streamed) {
		e.Good(roce.WCRecv)
		e.Recv(id, 0, 8)
	}
}

// overrunActs has more complete than the queue holds: it says so, by an event and to who polls, and
// what had completed before is still there.
func overrunActs(e *End) {
	overrun(e)
	holds := e.CQ.Cap()
	var wcs [1]roce.WC
	for got := 0; ; got++ {
		n, err := e.CQ.Poll(wcs[:])
		if n == 0 {
			e.Refused("the end of the queue", err, roce.ErrOverrun)
			e.Check(got >= 2 && got <= holds, "%d completions of %d before the end", got, holds)
			return
		}
		e.Check(wcs[0].WRID == uint64(got), "request %d in place %d", wcs[0].WRID, got)
	}
}

// overrun has more complete than the queue holds, and returns when the queue has said so; fatal:
// the queue pair has said that it failed, too.
func overrun(e *End) (fatal bool) {
	withQueue(e, roce.CQInitAttr{CQE: 2, Flags: roce.CQIgnoreOverrun})
	holds := e.CQ.Cap()
	e.Check(holds < Depth, "a queue of 2 holds %d", holds)
	for id := range uint64(holds + 1) {
		e.Send(small(e, id))
	}
	for {
		ev, err := e.Events().Get(e.ctx)
		e.Must(err)
		fatal = fatal || ev.Type == roce.EventQPFatal && ev.QP == e.QP
		if ev.Type == roce.EventCQErr {
			e.Check(ev.CQ == e.CQ, "the event is about another queue")
			return fatal
		}
	}
}

// overrunFailsActs: the queue pairs that complete there fail.
func overrunFailsActs(e *End) {
	fatal := overrun(e)
	cq, err := e.CreateCQ(roce.CQInitAttr{CQE: Depth})
	e.Must(err)
	e.later(cq.Close)
	e.CQ = cq // for the queue pair that ends the events
	w := &witness{End: e}
	if !fatal && w.happened(false)[roce.EventQPFatal] != 1 {
		w.note("no event: %v", roce.EventQPFatal)
	}
	if state := e.QP.State(); state != roce.StateErr {
		w.note("in %v, want %v", state, roce.StateErr)
	}
	w.said()
}

func singleActs(e *End) {
	withQueue(e, roce.CQInitAttr{CQE: Depth, Flags: roce.CQSingleThreaded})
	for id := range uint64(burst) {
		e.Send(small(e, id))
		wc := e.Good(roce.WCSend)
		e.Check(wc.WRID == id, "request %d in place %d", wc.WRID, id)
	}
}

// timesActs: a completion has the time at which it came, by the device's clock and by that of the
// day.
func timesActs(e *End) {
	withQueue(e, roce.CQInitAttr{CQE: Depth,
		WCFlags: roce.WCExStandard | roce.WCExWithCompletionTimestamp | roce.WCExWithCompletionTimestampWallclock})
	a := e.Query()
	e.Check(a.HCACoreClock > 0 && a.CompletionTimestampMask != 0, "a clock of %d kHz, mask 0x%x", a.HCACoreClock,
		a.CompletionTimestampMask)
	slack := a.HCACoreClock / 10 // 100 us: who stamps may go by a clock that was read before
	for range 3 {
		before, err := e.QueryRTValues()
		e.Must(err)
		fillQueue(e, 3)
		after, err := e.QueryRTValues()
		e.Must(err)
		var wcs [4]roce.WCEx
		n, err := e.CQ.PollEx(wcs[:])
		e.Must(err)
		e.Check(n == 3, "%d completions, want 3", n)
		last := before.RawClock - slack
		for i, wc := range wcs[:n] {
			e.Check(wc.WRID == uint64(i) && wc.Status == roce.WCSuccess && wc.Opcode == roce.WCSend, "%+v", wc)
			e.Check(wc.Timestamp >= last && wc.Timestamp <= after.RawClock, "stamped %d, after %d and before %d",
				wc.Timestamp, last, after.RawClock)
			last = wc.Timestamp
			off := time.Since(time.Unix(0, int64(wc.Wallclock)))
			e.Check(off > -time.Minute && off < time.Hour, "it is %v ago by the time of day", off)
		}
		n, err = e.CQ.PollEx(wcs[:])
		e.Must(err)
		e.Check(n == 0, "%d more completions", n)
	}
}

const moderatedBy = 8

// moderationActs is told of several completions at once, and of one alone as well; who waits has
// the first one.
func moderationActs(e *End) {
	e.Join(roce.RC, 64)
	err := e.CQ.Modify(roce.CQModeration{Count: moderatedBy, Period: 20_000})
	if errors.Is(err, roce.ErrNotSupported) {
		e.Skip("%v", err)
	}
	e.Must(err)
	a := e.Query()
	e.Check(a.MaxCQCount >= moderatedBy && a.MaxCQPeriod >= 20_000, "at most %d completions and %d us", a.MaxCQCount,
		a.MaxCQPeriod)
	e.Sync()
	for _, n := range []int{moderatedBy, 1, moderatedBy - 1} {
		e.Must(e.CQ.ReqNotify(false))
		for id := range uint64(n) {
			e.Send(small(e, id))
		}
		cq, err := e.Ch.Get(e.ctx)
		e.Must(err)
		e.Check(cq == e.CQ, "the channel tells of another queue")
		for range n {
			e.Good(roce.WCSend)
		}
	}
	e.Must(e.CQ.Modify(roce.CQModeration{}))
}

func moderationServes(e *End) {
	e.Join(roce.RC, 64)
	for id := range uint64(2 * moderatedBy) {
		e.Recv(id, 0, 8)
	}
	e.Sync()
}
