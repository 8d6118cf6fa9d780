package conformance

// A row of the table of errors is played: both ends make what it says, the acting end posts, and
// each looks at what has come of it. What differs is noted and said at the end, all of it, so that
// a device that differs in one thing is held to the others.
//
// Stages: the acting end; the serving end; what both look at (states, events, NAKs); making memory.

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
		cases = append(cases, Case{"error/" + c.name, func(e *End) { c.act(&witness{End: e}) }, func(e *End) { c.serve(&witness{End: e}) }})
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

// begin makes the queue pair and connects it.
func (c *condition) begin(w *witness, tune func(*roce.ConnectOptions)) {
	w.Furnish(2 * 4096)
	if c.srq && !w.Acts {
		w.srq = w.share(Depth, 0)
	}
	if c.typ == roce.XRCSend {
		c.makeXRC(w)
	} else {
		w.QP = w.queue(c.typ, w.srq)
	}
	if c.typ == roce.UD {
		w.Must(w.QP.Activate(qkey))
		w.Swap()
		w.Sync()
	} else {
		o := options()
		if tune != nil {
			tune(&o)
		}
		w.Connect(o)
	}
	w.before = w.naks()
}

// makeXRC makes the queue pair of an end of XRC, and where the serving end receives.
func (c *condition) makeXRC(w *witness) {
	x := w.domain()
	w.later(x.Close)
	var err error
	if w.Acts {
		w.QP, err = w.PD.CreateQP(roce.QPInitAttr{Type: roce.XRCSend, SendCQ: w.CQ, Cap: roce.QPCap{MaxSendWR: Depth, MaxSendSGE: 3}})
	} else {
		attr := roce.SRQInitAttr{MaxWR: Depth, MaxSGE: 3, XRCD: x, CQ: w.CQ}
		if c.to.key == otherDomain {
			attr.XRCD = w.domain()
			w.later(attr.XRCD.Close)
		}
		w.srq, err = w.PD.CreateSRQ(attr)
		w.Must(err)
		w.later(w.srq.Close)
		w.QP, err = w.PD.CreateQP(roce.QPInitAttr{Type: roce.XRCRecv, XRCD: x})
	}
	w.Must(err)
	w.later(w.QP.Close)
}

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

// request is the row's request.
func (c *condition) request(w *witness, there Card) roce.SendWR {
	wr := c.wr
	wr.WRID, wr.Flags = theRequest, wr.Flags|roce.SendSignaled
	m := c.place(w, c.from, c.n)
	if c.n > 0 {
		wr.SGL = []roce.SGE{{Addr: m.Addr + uint64(c.from.off), Length: uint32(c.n), LKey: m.lkey}}
	}
	if wr.RemoteAddr += there.Addr; c.wrap {
		wr.RemoteAddr = 1<<64 - 8
	}
	wr.RKey = there.RKey
	switch wr.Opcode {
	case roce.WRSendWithInv:
		wr.InvalidateKey = there.RKey
	case roce.WRLocalInv:
		wr.InvalidateKey = m.RKey
	case roce.WRBindMW:
		windows(w.End)
		b := *wr.Bind
		mw := window(w.End, roce.MWType2)
		b.WindowKey, b.NewKey, b.LKey = mw.RKey(), roce.IncRKey(mw.RKey()), m.lkey
		b.Addr += m.Addr
		wr.Bind = &b
	}
	return c.address(w, there, wr)
}

// address adds whom a datagram is for, or which queue.
func (c *condition) address(w *witness, there Card, wr roce.SendWR) roce.SendWR {
	switch c.typ {
	case roce.UD:
		wr.AH = handle(w.End, w.Peer.Endpoint.GID)
		wr.RemoteQPN ^= w.Peer.Endpoint.QPN
		wr.RemoteQKey ^= qkey
	case roce.XRCSend:
		wr.RemoteSRQN ^= there.SRQN
	}
	return wr
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
		if want == roce.StateRTS || time.Since(start) > patience {
			w.note("in %v, want %v", w.QP.State(), want)
			return
		}
	}
}

// receive posts the row's receives.
func (c *condition) receive(w *witness) {
	for i, r := range c.recvs {
		m := c.place(w, r, 0)
		w.post(roce.RecvWR{WRID: uint64(i), SGL: []roce.SGE{{Addr: m.Addr + uint64(r.off), Length: uint32(r.n), LKey: m.lkey}}})
	}
}

// post posts a receive to the queue that the queue pair has.
func (w *witness) post(wr roce.RecvWR) {
	if w.srq != nil {
		w.Must(w.srq.PostRecv(wr))
		return
	}
	w.Must(w.QP.PostRecv(wr))
}

// become has the queue pair be what the row says.
func (w *witness) become(s situation) {
	modify := func(to roce.QPState) error { return w.QP.Modify(w.ctx, &roce.QPAttr{State: to}, roce.AttrState) }
	switch s {
	case closed:
		w.Must(w.QP.Close())
	case reset:
		w.Must(modify(roce.StateReset))
	case failed:
		w.Must(modify(roce.StateErr))
	}
}

// patience is how long a device is waited for that may differ.
const patience = 2 * time.Second

// soon waits for the next completion, but not for ever.
func (w *witness) soon() (wc roce.WC, ok bool) {
	ctx, stop := context.WithTimeout(w.ctx, patience)
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

// happened returns the events of the queue pair until now, and with left until EventQPLastWQE, which
// comes of itself. What comes in the same queue behind all others is that of a queue pair that was
// made to have one.
func (w *witness) happened(left bool) map[roce.EventType]int {
	got := map[roce.EventType]int{}
	if w.Query().MaxSRQ == 0 {
		return got
	}
	last := w.queue(roce.RC, w.share(1, 0))
	w.Must(last.Init(nil))
	w.Must(last.Modify(w.ctx, &roce.QPAttr{State: roce.StateErr}, roce.AttrState))
	ctx, stop := context.WithTimeout(w.ctx, patience)
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

var nakNames = [numNAKs]string{"no NAK", "RNR NAK", "NAK invalid request (61H)", "NAK remote access error (62H)", "NAK remote operational error (63H)"}

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

// place is where memory is, and what opens it.
type place struct {
	Card
	lkey uint32
	buf  []byte
}

// place makes memory for n bytes of a row.
func (c *condition) place(w *witness, m memory, n int) place {
	if m.access == 0 {
		m.access = everything
	}
	if m.key >= theWindow {
		m.access |= roce.MWBind
	}
	pd, e := w.PD, w.End
	if m.key == otherDomain {
		pd = elsewhere(e)
	}
	buf := make([]byte, max(regionSize, 2*n))
	if w.Acts {
		copy(buf, pattern(len(buf), 6))
	}
	region, err := pd.RegMR(buf, m.access)
	e.Must(err)
	e.later(region.Close)
	p := place{Card: Card{Addr: region.Addr(), RKey: region.RKey()}, lkey: region.LKey(), buf: buf}
	switch m.key {
	case nobody:
		p.lkey ^= 0x00ffff00
		p.RKey ^= 0x00ffff00
	case closedRegion:
		e.Must(region.Close())
	case theWindow, otherWindow, freeWindow:
		p.RKey = w.bindPart(region, m.key)
	case firstWindow, reboundWindow:
		windows1(e)
		mw := window(e, roce.MWType1)
		for range 2 {
			p.RKey = mw.RKey() // the last one but for the window that is bound
			e.Must(e.QP.BindMW(mw, roce.MWBindAttr{Flags: roce.SendSignaled, MR: region, Addr: region.Addr(), Length: regionSize / 2, Access: roce.RemoteRead}))
			e.Good(roce.WCBindMW)
		}
		if m.key == firstWindow {
			p.RKey = mw.RKey()
		}
	}
	return p
}

// bindPart makes a window of type 2 to the first half of a region, and returns its key.
func (w *witness) bindPart(region *roce.MR, key keyOf) uint32 {
	windows(w.End)
	mw := window(w.End, roce.MWType2)
	if key == freeWindow {
		return mw.RKey()
	}
	q := w.QP
	if key == otherWindow {
		q = w.Queue(roce.RC)
		o := options()
		w.Must(q.Connect(w.ctx, w.Peer.Endpoint, &o))
	}
	fresh := roce.IncRKey(mw.RKey())
	w.Must(q.PostSend(roce.SendWR{Opcode: roce.WRBindMW, Flags: roce.SendSignaled, Bind: &roce.BindInfo{WindowKey: mw.RKey(), NewKey: fresh,
		LKey: region.LKey(), Addr: region.Addr(), Length: regionSize / 2, Access: roce.RemoteRead}}))
	w.Good(roce.WCBindMW)
	return fresh
}
