package cm

// The applications of the simulated world, and what they hold the machines to.
// Stages: an end of a connection, and the events that it may see → connecting and asking → what
// applications do when they hear something → calls at any moment → the last word.

import (
	"encoding/binary"
	"errors"

	"github.com/goroce/goroce/wire"
)

// end is an application's side of a connection or a query.
type end struct {
	w        *world
	d        *device
	c        *Conn
	attempt  int  // which the active side has put into the REQ
	dead     bool // crashed: it hears and does nothing any more
	closed   bool
	accepted bool // passive: Accept was called; active: EventConnectResponse came
	running  bool // established
	left     bool // it has ended it by itself
	heard    bool // active: the passive side's application has been asked
	exits    int  // EventTimeWaitExit
	terminal EventType
	began    Time
}

// expects says whether an event may come when an end has had none of the terminal ones.
func (e *end) expects(t EventType) bool {
	switch t {
	case EventConnectResponse:
		return !e.c.passive && !e.accepted
	case EventEstablished:
		return e.c.passive && e.accepted && !e.running
	case EventRejected:
		return !e.running
	case EventUnreachable:
		return !e.running && (e.accepted == e.c.passive)
	case EventDisconnected:
		return e.accepted
	case EventResolved:
		return e.c.query && !e.c.passive
	}
	return false
}

// answers says that every question has an answer in the end: nobody is slow, sixteen messages in a
// row, or their answers, are not lost, and nobody says what is not so.
func (w *world) answers() bool {
	return w.damage == 0 && !w.small && !w.lazy && !w.forge && (w.loss == 0 || !w.monkey)
}

// connect makes an attempt, to any device and any service.
func (w *world) connect(d *device) {
	to := w.devices[w.rnd.IntN(len(w.devices))]
	if to == d && !w.self {
		return
	}
	service := services[w.rnd.IntN(len(services))]
	if w.chance(0.03) {
		service = nobody
	}
	e := &end{w: w, d: d, began: w.now, attempt: len(w.ends)}
	private := binary.BigEndian.AppendUint32(nil, uint32(e.attempt))
	path := Path{Local: d.gid, Remote: to.gid}
	if w.queries && w.chance(0.5) {
		q, err := d.m.Resolve(w.now, &ResolveParams{ServiceID: service, Path: path, Private: private, Context: e})
		e.c = (*Conn)(q)
		w.begun(e, err)
		return
	}
	qpn := d.qpn()
	if qpn == 0 {
		return
	}
	var err error
	e.c, err = d.m.Connect(w.now, &ConnectParams{ServiceID: service, Path: path, SrcPort: 7, MTU: wire.MTU1024, Private: private,
		Context: e, ConnParam: ConnParam{
			QPN:                qpn,
			ResponderResources: uint8(w.rnd.IntN(256)),
			InitiatorDepth:     uint8(w.rnd.IntN(256)),
			RetryCount:         7,
			RNRRetryCount:      7,
		}})
	if err != nil {
		delete(d.qpns, qpn)
	}
	w.begun(e, err)
}

// begun notes an attempt; that it may fail for lack of room is the limits' business.
func (w *world) begun(e *end, err error) {
	if err != nil {
		if !errors.Is(err, ErrLimit) || !w.small {
			w.fail("%s: %v", e.d.name, err)
		}
		return
	}
	w.note("%s begins attempt %d as 0x%x", e.d.name, e.attempt, e.c.localID)
	e.d.made++
	w.ends = append(w.ends, e)
	e.d.turn()
	if w.close && w.chance(0.3) {
		w.later(e, e.leave)
	}
}

// later does something at an end after a while, unless it has crashed.
func (w *world) later(e *end, do func()) {
	most := 2 * second
	switch {
	case w.lazy && w.chance(0.5):
		most = 200 * second
	case w.chance(0.5):
		most = 100 * millisecond
	}
	w.in(Time(w.rnd.Int64N(int64(most))), func() {
		if !e.dead {
			do()
			e.d.turn()
		}
	})
}

// hear takes an event to the end that it is for, and makes ends of requests.
func (w *world) hear(d *device, ev *Event) {
	if ev.Type == EventConnectRequest || ev.Type == EventSIDRRequest {
		w.hearRequest(d, ev)
		return
	}
	e := ev.conn().Context.(*end)
	w.note("%s 0x%x hears %v %v", d.name, e.c.localID, ev.Type, ev.Reason)
	switch {
	case e.dead || e.closed || e.d != d:
		w.fail("0x%x hears %v after it has gone", e.c.localID, ev.Type)
	case ev.Type == EventTimeWaitExit:
		if e.exits++; e.exits > 1 || e.terminal == 0 {
			w.fail("0x%x leaves the time-wait %d times after %v", e.c.localID, e.exits, e.terminal)
		}
		e.free()
	case ev.Type == EventDisconnected && w.damage == 0 && !w.crash && !w.monkey && !e.left && !w.parted(e):
		w.fail("0x%x was disconnected by nobody", e.c.localID)
	case w.answers() && !(w.flood && e.c.passive) && (ev.Type == EventUnreachable || ev.Type == EventDisconnected &&
		ev.Reason == wire.CMRejTimeout):
		w.fail("0x%x hears %v %v, and there was an answer", e.c.localID, ev.Type, ev.Reason)
	case e.terminal != 0 || !e.expects(ev.Type):
		w.fail("0x%x in %v hears %v after %v (accepted %v, running %v)", e.c.localID, e.c.state, ev.Type, e.terminal, e.accepted, e.running)
	default:
		e.hear(ev)
	}
}

// free destroys the queue pair: its number may be used again at once.
func (e *end) free() {
	if !e.c.query {
		delete(e.d.qpns, e.c.own.QPN)
	}
}

func (e *end) hear(ev *Event) {
	w := e.w
	switch ev.Type {
	case EventConnectResponse:
		e.accepted = true
		w.later(e, e.establish)
	case EventEstablished:
		e.running = true
		e.mayLeave()
	default:
		if ev.Reason == wire.CMRejNoResources && e.attempt >= 0 { // it will be heard again
			w.ends[e.attempt].heard = false
		}
		e.terminal = ev.Type
		switch e.c.state {
		case StateTimeWait: // then the queue pair's number must not be used yet
		case StateDReqRcvd:
			w.later(e, e.leave)
		default:
			e.free()
		}
	}
}

// hearRequest makes an end of a peer's request, which answers after a while.
func (w *world) hearRequest(d *device, ev *Event) {
	e := &end{w: w, d: d, began: w.now, c: ev.conn(), attempt: -1}
	e.c.Context = e
	d.made++
	w.ends = append(w.ends, e)
	if n := binary.BigEndian.Uint32(ev.Private); int(n) < len(w.ends) {
		e.attempt = int(n)
	}
	if e.attempt >= 0 && w.answers() && w.loss == 0 && !w.crash {
		asking := w.ends[e.attempt]
		if asking.heard && asking.d.gid == e.c.path.Remote { // not a stranger's query of its own
			w.fail("%s hears twice of attempt %d", d.name, e.attempt)
		}
		asking.heard = asking.heard || asking.d.gid == e.c.path.Remote
	}
	w.note("%s hears %v of attempt %d as 0x%x", d.name, ev.Type, e.attempt, e.c.localID)
	w.later(e, e.answer)
	if w.mra && !e.c.query && w.chance(0.5) {
		w.later(e, func() { e.call(callMRA) })
	}
}

// answer accepts a request, or not.
func (e *end) answer() {
	w := e.w
	switch {
	case e.closed || e.terminal != 0:
	case e.c.query:
		if err := (*Query)(e.c).Answer(w.now, &Answer{Status: wire.CMSidrStatus(w.rnd.IntN(2)), QPN: 5, QKey: 0x1234567}); err != nil {
			w.fail("0x%x in %v: %v", e.c.localID, e.c.state, err)
		}
		e.terminal = EventSIDRRequest // that is all there is
	case w.reject && w.chance(0.3):
		e.call(callReject)
	case w.close && w.chance(0.2):
		e.leave()
	default:
		e.call(callAccept)
	}
}

// establish ends a handshake, or breaks it off.
func (e *end) establish() {
	switch {
	case e.closed || e.terminal != 0:
	case e.w.reject && e.w.chance(0.2):
		e.call(callReject)
	case e.w.mra && e.w.chance(0.3):
		e.call(callMRA)
		e.w.later(e, e.establish)
	default:
		e.call(callEstablish)
	}
}

// mayLeave is what an application does with its connection: nothing much.
func (e *end) mayLeave() {
	if e.w.disconnect && e.w.chance(0.5) {
		e.w.later(e, func() { e.call(callDisconnect) })
	}
	if e.w.close && e.w.chance(0.3) {
		e.w.later(e, e.leave)
	}
}

// leave closes an end, or disconnects where that is another way.
func (e *end) leave() {
	if table[e.c.state][callDisconnect].do != nil && e.w.chance(0.5) {
		e.call(callDisconnect)
		return
	}
	e.call(callClose)
}

// call makes a call, whether it is allowed or not, and holds its result against the table.
func (e *end) call(on input) {
	w, c, before := e.w, e.c, e.c.state
	var err error
	switch on {
	case callAccept:
		qpn := e.d.qpn()
		if qpn == 0 {
			e.call(callReject)
			return
		}
		if err = c.Accept(w.now, &AcceptParams{ConnParam: ConnParam{QPN: qpn, ResponderResources: 8, InitiatorDepth: 8}}); err == nil {
			e.accepted = true
		} else {
			delete(e.d.qpns, qpn)
		}
	case callReject:
		if err = c.Reject(w.now, wire.CMRejConsumer, nil, []byte("no")); err == nil {
			e.terminal = EventRejected // by ourselves: nothing more is heard
			e.free()
		}
	case callEstablish:
		if err = c.Establish(w.now, nil); err == nil {
			e.running = true
			w.establishedBy(e)
		}
	case callDisconnect:
		err = c.Disconnect(w.now, nil)
	case callMRA:
		err = c.MRA(w.now, uint8(10+w.rnd.IntN(16)))
	case callDrop:
		if err = c.Drop(w.now); err == nil {
			e.free()
			if e.attempt >= 0 { // it will be heard again
				w.ends[e.attempt].heard = false
			}
		}
	case callClose:
		c.Close(w.now)
		if !e.closed && e.terminal == 0 || before == StateDReqRcvd || before == StateTimeWait {
			e.free()
		}
		e.closed = true
	}
	w.note("%s 0x%x in %v calls %v: %v", e.d.name, c.localID, before, on, err)
	e.left = e.left || err == nil && on != callAccept && on != callEstablish && on != callMRA
	e.judge(before, on, err)
	e.closed = e.closed || on == callDrop && err == nil
	e.d.turn()
}

// judge holds what a call returned against the table.
func (e *end) judge(before State, on input, err error) {
	want := error(nil)
	switch {
	case on == callClose:
	case e.closed:
		want = ErrClosed
	case table[before][on].do == nil:
		want = ErrState
	}
	if !errors.Is(err, want) {
		e.w.fail("0x%x in %v: %v: %v, want %v", e.c.localID, before, on, err, want)
	}
}

// establishedBy is what an active side does when it is ready: it may send data, which may be there
// before the RTU is.
func (w *world) establishedBy(e *end) {
	e.mayLeave()
	if !w.data {
		return
	}
	for _, peer := range w.ends {
		if peer.c.passive && peer.c.localID == e.c.remoteID && peer.d.gid == e.c.path.Remote && !e.c.passive {
			w.in(millisecond, func() {
				if !peer.dead && !peer.closed && peer.terminal == 0 && !peer.running {
					peer.call(callEstablish)
				}
			})
		}
	}
}

// monkey calls anything, anywhere.
func (w *world) monkeyCall() {
	if len(w.ends) == 0 {
		return
	}
	e := w.ends[w.rnd.IntN(len(w.ends))]
	switch {
	case e.dead:
	case e.c.query:
		e.call(callClose)
	default:
		e.call(input(w.rnd.IntN(int(callClose) + 1)))
	}
}

// agree holds the ends of each connection against each other, when everything has come to rest: who
// is connected is so to one that is connected to him.
func (w *world) agree() {
	for _, e := range w.ends {
		if e.dead || e.c.state == StateIdle && (e.closed || e.terminal != 0) {
			continue
		}
		if e.c.state != StateEstablished || e.closed || e.terminal != 0 {
			w.fail("0x%x has come to rest in %v (closed %v, %v)", e.c.localID, e.c.state, e.closed, e.terminal)
			continue
		}
		if w.damage > 0 || w.monkey {
			continue // somebody said what was not so
		}
		for _, d := range w.devices {
			if d.gid != e.c.path.Remote || d.crashed >= e.began {
				continue
			}
			p := d.m.conns[e.c.remoteID]
			if w.lostREJ[e.c.localID] {
				continue // a REJ is sent once: what it would have told, the first data tells
			}
			if p == nil || p.remoteID != e.c.localID || p.state != StateEstablished {
				w.fail("0x%x believes that it is connected to 0x%x: %+v", e.c.localID, e.c.remoteID, p)
				continue
			}
			mine, theirs := e.c.QPParams(), p.QPParams()
			if mine.RQPSN != theirs.SQPSN || mine.DestQPN != p.own.QPN || mine.MaxRdAtomic > theirs.MaxDestRdAtomic ||
				mine.PathMTU != theirs.PathMTU {
				w.fail("0x%x and 0x%x have agreed on %+v and %+v", e.c.localID, e.c.remoteID, mine, theirs)
			}
		}
	}
}

// farewell ends what has not ended.
func (w *world) farewell() {
	for _, e := range w.ends {
		if !e.dead && !e.closed && e.terminal == 0 {
			e.leave()
		}
	}
}

// lastWord is said when everything is over: each end has heard of its end, and nothing is left.
func (w *world) lastWord() {
	for _, e := range w.ends {
		if !e.dead && !e.closed && e.terminal == 0 {
			w.fail("0x%x, in %v, was never told of its end", e.c.localID, e.c.state)
		}
	}
	for _, d := range w.devices {
		m := d.m
		if len(m.conns)+len(m.byPeer)+len(m.byQPN)+len(m.timers)+m.held.Len()+m.out.len()+m.events.len() != 0 {
			w.fail("%s: left are %d connections, %d and %d in the indexes, %d deadlines, %d remembered, %d messages, %d events", d.name,
				len(m.conns), len(m.byPeer), len(m.byQPN), len(m.timers), m.held.Len(), m.out.len(), m.events.len())
		}
	}
}
