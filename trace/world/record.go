package world

// How a play is gathered: what engines record and programs call becomes entries; after each step a
// moment, if queues, states or memory are not what they were.

import (
	"bytes"
	"slices"

	"github.com/goroce/goroce/qp"
)

// note appends an entry of a program.
func (h *Host) note(kind string, qpn uint32, text string) *Entry {
	p := h.w.play
	p.Entries = append(p.Entries, Entry{Time: int64(h.w.Now()), Host: h.index, Kind: kind, QPN: qpn, Text: text})
	return &p.Entries[len(p.Entries)-1]
}

// called notes a call and its error.
func (h *Host) called(verb, what string, err error) {
	e := h.note("call", 0, verb+": "+what)
	if err != nil {
		e.Err, e.Error = err, err.Error()
		e.Text += ": " + refusalWords(err)
	}
}

// asyncEvent notes an asynchronous event of the device.
func (h *Host) asyncEvent(ev *qp.Event) {
	e := h.note("event", 0, eventWords(ev))
	e.Event, e.Async = ev.Type, true
	if ev.QP != nil {
		e.QPN = ev.QP.QPN()
	}
}

// notified notes that a program that sleeps is woken.
func (h *Host) notified(cq *qp.CQ) {
	for _, c := range h.cqs {
		if c.CQ == cq {
			h.note("event", 0, "a completion event of "+c.Name+" wakes the program")
		}
	}
}

// gather makes entries of what the engine has recorded in a turn, and keeps the queues as a program
// sees them. packet is what the turn was about, 0: no packet.
func (h *Host) gather(packet int) {
	var records []qp.Record
	records, h.read = h.recorder.Append(nil, h.read)
	// an engine notes first what follows from a packet, such as a completion
	slices.SortStableFunc(records, func(a, b qp.Record) int { return Order(&a) - Order(&b) })
	first := len(h.w.play.Entries)
	for _, r := range records {
		h.account(&r)
		if r.Kind == qp.RecordSent || r.Kind == qp.RecordReceived { // the packets say it
			continue
		}
		h.w.play.Entries = append(h.w.play.Entries, Entry{Time: int64(r.At - begin), Host: h.index,
			Kind: r.Kind.String(), QPN: r.QPN, Text: RecordWords(&r), Packet: packet, Record: r})
	}
	for i, c := range h.cqs {
		all := make([]qp.WC, c.Len())
		c.Peek(all)
		fresh := all[min(len(c.shown), len(all)):]
		h.lost(c, fresh, first)
		for _, wc := range fresh {
			h.w.play.Completions = append(h.w.play.Completions, Completion{int64(h.w.Now()), h.index, i, wcOf(&wc), wc})
		}
		c.shown = all
	}
}

// lost says of completions, among the entries from number first on, that an overrun queue has lost
// them.
func (h *Host) lost(c *CQ, published []qp.WC, first int) {
	all := h.w.play.Entries
	for i := first; c.Err() != nil && i < len(all); i++ {
		r := &all[i].Record
		there := slices.ContainsFunc(published, func(wc qp.WC) bool { return wc.QPN == r.QPN && wc.WRID == r.Value })
		if at := slices.IndexFunc(h.pairs, func(q *QP) bool {
			return q.QPN() == r.QPN
		}); r.Kind == qp.RecordCompletion && !there &&
			at >= 0 && (h.pairs[at].send == c || h.pairs[at].recv == c) {
			all[i].Text += ": lost, as the completion queue is full"
		}
	}
}

// Order puts what became of a packet before the rest of what it has led to, of records of the same
// time.
func Order(r *qp.Record) int {
	switch r.Kind {
	case qp.RecordReceived, qp.RecordExecuted, qp.RecordDropped:
		return 0
	}
	return 1
}

// account moves work requests from state to state.
func (h *Host) account(r *qp.Record) {
	i := slices.IndexFunc(h.pairs, func(q *QP) bool { return q.QPN() == r.QPN })
	if i < 0 {
		return
	}
	q := h.pairs[i]
	switch r.Kind {
	case qp.RecordRequest:
		if i := slices.IndexFunc(q.sq, func(w WorkRequest) bool { return w.State == "waiting" }); i >= 0 {
			q.sq[i].State = "sent"
		}
	case qp.RecordCompletion:
		queue := &q.sq
		if qp.WCOpcode(r.Op) >= qp.WCRecv {
			queue = &q.rq
		}
		done := slices.IndexFunc(*queue, func(w WorkRequest) bool { return w.WRID == r.Value })
		*queue = slices.Delete(*queue, 0, done+1)
	case qp.RecordState:
		if qp.QPState(r.Op) == qp.StateReset {
			q.sq, q.rq = nil, nil
		}
	}
}

// moment appends the present state if it is not that of the moment before.
func (w *World) moment() {
	m := Moment{Time: int64(w.Now())}
	stored := false
	for _, h := range w.hosts {
		s := HostState{QPs: []QPState{}, CQs: [][]WC{}, Memory: []Stored{}}
		for _, q := range h.pairs {
			s.QPs = append(s.QPs, QPState{q.QPN(), q.State().String(), append([]WorkRequest{}, q.sq...),
				append([]WorkRequest{}, q.rq...)})
		}
		for _, c := range h.cqs {
			list := []WC{}
			for i := range c.shown {
				list = append(list, wcOf(&c.shown[i]))
			}
			s.CQs = append(s.CQs, list)
		}
		for _, r := range h.regions {
			s.Memory = r.changed(s.Memory)
		}
		stored = stored || len(s.Memory) > 0
		m.Hosts = append(m.Hosts, s)
	}
	if n := len(w.play.Moments); !stored && n > 0 && slices.EqualFunc(m.Hosts, w.play.Moments[n-1].Hosts, sameQueues) {
		return
	}
	w.play.Moments = append(w.play.Moments, m)
}

// sameQueues says whether queues and states are the same.
func sameQueues(a, b HostState) bool {
	return slices.EqualFunc(a.CQs, b.CQs, slices.Equal[[]WC]) && slices.EqualFunc(a.QPs, b.QPs,
		func(x, y QPState) bool {
			return x.State == y.State && slices.Equal(x.SQ, y.SQ) && slices.Equal(x.RQ, y.RQ)
		})
}

// changed appends the bytes from the first to the last that are not as they were shown.
func (r *Region) changed(dst []Stored) []Stored {
	if r.unmapped || bytes.Equal(r.Bytes, r.shown) {
		return dst
	}
	first := 0
	for r.Bytes[first] == r.shown[first] {
		first++
	}
	last := len(r.Bytes)
	for r.Bytes[last-1] == r.shown[last-1] {
		last--
	}
	copy(r.shown, r.Bytes)
	return append(dst, Stored{r.index, first, slices.Clone(r.Bytes[first:last])})
}

// wcOf is a completion as the JSON has it.
func wcOf(c *qp.WC) WC {
	op := c.Opcode.String()
	if c.Status != qp.WCSuccess {
		op = "" // means nothing then
	}
	return WC{c.WRID, StatusName(c.Status), int(c.Status), op, int(c.ByteLen), c.QPN}
}
