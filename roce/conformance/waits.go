package conformance

// Waiting for completions: in Wait, and by a completion channel.

import (
	"context"

	"github.com/goroce/goroce/roce"
)

func waits() []Case {
	return []Case{
		{"messages to and fro, both asleep between", func(e *End) { toAndFro(e, true) }, func(e *End) {
			toAndFro(e, false)
		}},
		{"messages to and fro, both polling", func(e *End) { pollToAndFro(e, true) }, func(e *End) {
			pollToAndFro(e, false)
		}},
		{"a channel tells of a completion", func(e *End) { announce(e, 0) }, func(e *End) { hears(e, false) }},
		{"messages to and fro, both asleep at their channels",
			func(e *End) { attendToAndFro(e, true) }, func(e *End) { attendToAndFro(e, false) }},
		{"a channel tells of a solicited one", func(e *End) {
			announce(e, roce.SendSolicited)
		}, func(e *End) { hears(e, true) }},
		{"a wait that is given up", givenUpActs, nil},
		{"a wait that Close ends", closedWaitActs, nil},
		{"a wait at a channel that is given up, and one that Close ends", endedAttendActs, nil},
		{"Len", lenActs, lenServes},
	}
}

const rallies = 50

func toAndFro(e *End, first bool) {
	rally(e, first, func() roce.WC { return e.Any() })
}

func pollToAndFro(e *End, first bool) {
	rally(e, first, func() roce.WC {
		var wcs [1]roce.WC
		for {
			n, err := e.CQ.Poll(wcs[:])
			e.Must(err)
			if n > 0 {
				return wcs[0]
			}
			e.Must(e.ctx.Err())
		}
	})
}

// attendToAndFro waits as an edge-triggered loop does: arm, poll until nothing is left, wait for
// the channel.
func attendToAndFro(e *End, first bool) {
	rally(e, first, func() roce.WC {
		var wcs [1]roce.WC
		for {
			n, err := e.CQ.Poll(wcs[:])
			e.Must(err)
			if n == 0 {
				e.Must(e.CQ.ReqNotify(false))
				n, err = e.CQ.Poll(wcs[:])
				e.Must(err)
			}
			if n > 0 {
				return wcs[0]
			}
			cq, err := e.Ch.Wait(e.ctx)
			e.Must(err)
			e.Check(cq == e.CQ, "the channel tells of another queue")
		}
	})
}

func rally(e *End, first bool, next func() roce.WC) {
	e.Join(roce.RC, 64)
	e.Recv(0, 0, 8)
	e.Sync()
	for i := range rallies {
		if first {
			e.Send(small(e, 1))
		}
		for done := false; !done; {
			wc := next()
			e.Check(wc.Status == roce.WCSuccess, "%+v", wc)
			done = wc.Opcode == roce.WCRecv
		}
		if i < rallies-1 || !first {
			e.Recv(0, 0, 8)
		}
		if !first {
			e.Send(small(e, 1))
		}
	}
}

// announce sends two messages, the second with flags.
func announce(e *End, flags roce.SendFlags) {
	e.Join(roce.RC, 64)
	for range 2 {
		e.Sync()
		e.Send(small(e, 1))
		wr := small(e, 2)
		wr.Flags |= flags
		e.Send(wr)
		e.Good(roce.WCSend)
		e.Good(roce.WCSend)
	}
}

// hears is told once of what it asked for. Of solicited completions only, it is told when the
// second one is there.
func hears(e *End, solicited bool) {
	e.Join(roce.RC, 64)
	for range 2 {
		e.Recv(1, 0, 8)
		e.Recv(2, 0, 8)
		e.Must(e.CQ.ReqNotify(solicited))
		e.Sync()
		cq, err := e.Ch.Wait(e.ctx)
		e.Must(err)
		e.Check(cq == e.CQ, "the channel tells of another queue")
		var wcs [4]roce.WC
		n, err := e.CQ.Poll(wcs[:])
		e.Must(err)
		e.Check(n == 2 || n == 1 && !solicited, "%d completions are there", n)
		for ; n < 2; n++ {
			e.Good(roce.WCRecv)
		}
	}
	_, more := e.Ch.TryGet()
	e.Check(!more, "told of more than was asked for")
}

func givenUpActs(e *End) {
	e.Make(roce.RC, 64)
	ctx, cancel := context.WithCancel(e.ctx)
	ended := make(chan error)
	go func() {
		var wcs [1]roce.WC
		_, err := e.CQ.Wait(ctx, wcs[:])
		ended <- err
	}()
	cancel()
	e.Refused("Wait", <-ended, context.Canceled)
}

func endedAttendActs(e *End) {
	e.Make(roce.RC, 64)
	ch, err := e.CreateCompChannel()
	e.Must(err)
	ctx, cancel := context.WithCancel(e.ctx)
	ended := make(chan error)
	attend := func() {
		_, err := ch.Wait(ctx)
		ended <- err
	}
	go attend()
	cancel()
	e.Refused("Wait", <-ended, context.Canceled)
	ctx = context.Background()
	for range 2 {
		go attend()
	}
	e.Must(ch.Close())
	for range 2 {
		e.Refused("Wait", <-ended, roce.ErrClosed)
	}
}

func closedWaitActs(e *End) {
	e.Furnish(8)
	const waiters = 3
	started, ended := make(chan bool), make(chan error)
	for range waiters {
		go func() {
			var wcs [1]roce.WC
			started <- true
			_, err := e.CQ.Wait(context.Background(), wcs[:])
			ended <- err
		}()
	}
	for range waiters {
		<-started
	}
	err := e.CQ.Close()
	for range waiters {
		if got := <-ended; err == nil {
			e.Refused("Wait", got, roce.ErrClosed)
		}
	}
	e.Must(err)
}

func lenActs(e *End) {
	e.Join(roce.RC, 64)
	e.Sync()
	for id := range uint64(3) {
		e.Send(small(e, id))
	}
	for e.CQ.Len() < 3 {
		e.Must(e.ctx.Err())
	}
	for id := range uint64(3) {
		wc := e.Good(roce.WCSend)
		e.Check(wc.WRID == id, "%+v", wc)
	}
	e.Check(e.CQ.Len() == 0 && e.CQ.Cap() >= 16*Depth, "%d of %d", e.CQ.Len(), e.CQ.Cap())
}

func lenServes(e *End) {
	e.Join(roce.RC, 64)
	for id := range uint64(3) {
		e.Recv(id, 0, 8)
	}
	e.Sync()
	for range 3 {
		e.Good(roce.WCRecv)
	}
}
