package conformance

// A row of the table of errors is played: both ends make what it says, the acting end posts, and
// each looks at what has come of it. What differs is noted and said at the end, all of it, so that
// a device that differs in one thing is held to the others.
//
// Stages: the acting end; the serving end; what both look at (states, events, NAKs). What the ends
// have before is made in prepared.go.

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/goroce/goroce/roce"
)

func errorCases() (cases []Case) {
	for _, c := range conditions() {
		if c.typ == 0 {
			c.typ = roce.RC
		}
		if c.want.state == 0 {
			c.want.state = roce.StateRTS
		}
		if c.want.servingState == 0 {
			c.want.servingState = roce.StateRTS
		}
		cases = append(cases, Case{"error/" + c.name, func(e *End) { c.act(&witness{End: e}) }, func(e *End) {
			c.serve(&witness{End: e})
		}})
	}
	return cases
}

// goesOn says that both queue pairs work afterwards.
func (c *condition) goesOn() bool {
	return c.want.state == roce.StateRTS && c.want.servingState == roce.StateRTS && (c.peer == ready || c.peer == late)
}

// witness is an end that notes what it sees.
type witness struct {
	*End
	srq    *roce.SRQ
	before [2][numNAKs]uint64
	wrong  []string
}

// note notes what differs.
func (w *witness) note(format string, args ...any) {
	w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
}

// said ends the case with all that was noted.
func (w *witness) said() {
	if len(w.wrong) > 0 {
		w.Fail("%s", strings.Join(w.wrong, "; "))
	}
}

// Numbers of requests.
const (
	theRequest = 1
	behindIt   = 2
	theNext    = 9
)

func (c *condition) act(w *witness) {
	c.begin(w, c.acting)
	var there Card
	w.Hear(&there)
	wrs := []roce.SendWR{c.request(w, there)}
	if c.want.state != roce.StateRTS {
		wrs = append(wrs, c.address(w, there, small(w.End, behindIt)))
	}
	w.Sync() // the peer is what the row says
	sends(w.End, wrs...)
	if c.peer == late {
		w.Sync()
	}
	for i, want := range []roce.WCStatus{c.want.status, roce.WCWRFlushErr}[:len(wrs)] {
		wc, ok := w.soon()
		if !ok {
			w.note("request %d has not completed, want %v", wrs[i].WRID, want)
			break
		}
		if wc.WRID != wrs[i].WRID || wc.Status != want {
			w.note("request %d: %v, want request %d: %v", wc.WRID, wc.Status, wrs[i].WRID, want)
		}
	}
	w.Sync()
	if state := w.QP.State(); state != c.want.state {
		w.note("in %v, want %v", state, c.want.state)
	}
	if c.goesOn() {
		w.Sync() // there is a receive
		next := c.address(w, there, small(w.End, theNext))
		next.Opcode, next.Imm = roce.WRSendWithImm, immediate
		err := w.QP.PostSend(next)
		if err == nil {
			if wc, ok := w.soon(); !ok || wc.Status != roce.WCSuccess {
				err = fmt.Errorf("%v", wc.Status)
			}
		}
		if err != nil {
			w.note("the next message: %v", err)
		}
		w.Tell(err == nil)
	}
	w.Sync()
	c.compare(w, nil)
	w.Sync()
	w.said()
}

func (c *condition) serve(w *witness) {
	has(w.End, c.caps, "such requests")
	c.begin(w, c.serving)
	m := c.place(w, c.to, 0)
	if c.typ == roce.XRCSend {
		m.SRQN = w.srq.Number()
	}
	w.Tell(m.Card)
	if c.peer != late {
		c.receive(w)
	}
	w.become(c.peer)
	w.Sync()
	if c.peer == late {
		w.Sync()
		c.receive(w)
	}
	w.Sync()
	used := append([]roce.WCStatus(nil), c.want.receives...)
	got := 0
	if c.goesOn() {
		used = append(used, roce.WCSuccess)
		got = c.next(w, used)
	}
	w.Sync()
	if c.peer <= deaf {
		w.comesTo(c.want.servingState)
		c.compare(w, c.want.events)
		c.rest(w, used, got)
	}
	for i, b := range m.buf {
		if b != 0 {
			w.note("byte %d of the memory has changed", i)
			break
		}
	}
	w.Sync()
	w.said()
}

// comesTo looks at the state of the serving end. A NAK may be on its way before the queue pair that
// sends it is in ERR.
func (w *witness) comesTo(want roce.QPState) {
	for start := time.Now(); w.QP.State() != want; {
		if want == roce.StateRTS || time.Since(start) > w.patience {
			w.note("in %v, want %v", w.QP.State(), want)
			return
		}
	}
}

// soon waits for the next completion, but not for ever.
func (w *witness) soon() (wc roce.WC, ok bool) {
	ctx, stop := context.WithTimeout(w.ctx, w.patience)
	defer stop()
	var wcs [1]roce.WC
	_, err := w.CQ.Wait(ctx, wcs[:])
	if errors.Is(err, context.DeadlineExceeded) && w.ctx.Err() == nil {
		return wc, false
	}
	w.Must(err)
	return wcs[0], true
}

// next sees the next message arrive, and returns how many receives have completed.
func (c *condition) next(w *witness, used []roce.WCStatus) (got int) {
	w.post(roce.RecvWR{WRID: uint64(len(c.recvs)), SGL: []roce.SGE{w.MR.SGE(0, 64)}})
	w.Sync()
	var sent bool
	if w.Hear(&sent); !sent || w.QP.State() != roce.StateRTS {
		return 0
	}
	for {
		wc, ok := w.soon()
		if !ok {
			w.note("the next message has not come")
			return got
		}
		w.ended(&wc, used, got)
		got++
		if wc.Flags&roce.WCWithImm != 0 && wc.Imm == immediate && wc.Status == roce.WCSuccess {
			return got
		}
	}
}

// rest flushes what is left: every receive ends in one completion, but for those of a shared queue
// that no message has used.
func (c *condition) rest(w *witness, used []roce.WCStatus, got int) {
	w.become(failed)
	posted := len(c.recvs)
	if c.goesOn() {
		posted++
	}
	if w.srq != nil {
		posted = len(used)
	}
	for ; got < posted; got++ {
		wc := w.Any()
		w.ended(&wc, used, got)
	}
	var wcs [1]roce.WC
	n, err := w.CQ.Poll(wcs[:])
	w.Must(err)
	if n != 0 {
		w.note("one completion too many: request %d, %v", wcs[0].WRID, wcs[0].Status)
	}
}

// ended holds the completion of a receive against what it should be.
func (w *witness) ended(wc *roce.WC, used []roce.WCStatus, i int) {
	want := roce.WCWRFlushErr
	if i < len(used) {
		want = used[i]
	}
	if wc.WRID != uint64(i) || wc.Status != want {
		w.note("receive %d: %v, want receive %d: %v", wc.WRID, wc.Status, i, want)
	}
}

// compare holds events and NAKs against what they should be.
func (c *condition) compare(w *witness, events []roce.EventType) {
	got := w.happened(slices.Contains(events, roce.EventQPLastWQE))
	for _, want := range events {
		if got[want]--; got[want] < 0 {
			w.note("no event: %v", want)
		}
	}
	for typ, n := range got {
		if n > 0 {
			w.note("an event: %v", typ)
		}
	}
	c.compareNAKs(w)
}

// happened returns the events of the queue pair until now, and with left until EventQPLastWQE,
// which comes of itself. What comes in the same queue behind all others is that of a queue pair
// that was made to have one.
func (w *witness) happened(left bool) map[roce.EventType]int {
	got := map[roce.EventType]int{}
	if w.Query().MaxSRQ == 0 {
		return got
	}
	w.Stats() // which waits for the turn in which another lane than last's has told of something
	last := w.queue(roce.RC, w.share(1, 0))
	w.Must(last.Init(nil))
	w.Must(last.Modify(w.ctx, &roce.QPAttr{State: roce.StateErr}, roce.AttrState))
	ctx, stop := context.WithTimeout(w.ctx, w.patience)
	defer stop()
	for over := false; !over || left && got[roce.EventQPLastWQE] == 0; {
		ev, err := w.Events().Get(ctx)
		if err != nil && w.ctx.Err() == nil {
			w.note("the events do not end: %v", err)
			return got
		}
		w.Must(err)
		over = over || ev.QP == last
		if ev.QP == w.QP && ev.Type != roce.EventCommEst {
			got[ev.Type]++
		}
	}
	return got
}

var nakNames = [numNAKs]string{"no NAK", "RNR NAK", "NAK invalid request (61H)", "NAK remote access error (62H)",
	"NAK remote operational error (63H)"}

// naks are how many of each kind the device has received and sent.
func (w *witness) naks() [2][numNAKs]uint64 {
	s := w.Stats().Engine
	return [2][numNAKs]uint64{{0, s.RcvdRNR, s.RcvdInvReq, s.RcvdAccessErr, s.RcvdOpErr},
		{0, s.SentRNR, s.SentInvReq, s.SentAccessErr, s.SentOpErr}}
}

// compareNAKs looks at what this stack counts. Drivers do not tell the kinds apart.
func (c *condition) compareNAKs(w *witness) {
	if !w.Query().SelectiveRepeat { // it is of this stack alone
		return
	}
	role, verb := 0, "received"
	if !w.Acts {
		role, verb = 1, "sent"
	}
	now := w.naks()[role]
	for kind := rnrNAK; kind < numNAKs; kind++ {
		n := now[kind] - w.before[role][kind]
		if c.peer == late && kind == rnrNAK {
			continue // the receive may be in time
		}
		if kind == c.want.nak && n != 1 && (n == 0 || kind != rnrNAK) || kind != c.want.nak && n != 0 {
			w.note("%s %d times: %s", verb, n, nakNames[kind])
		}
	}
}
