package conformance

// The errors of the verbs as a table: a row for each condition of docs/rocev2.md, sections 6.1 to
// 6.4, 7.5 and 8.1. It says what the acting end posts, what the serving end has prepared, and what
// comes of it: how the request ends, how the receives, in which state both queue pairs are, the NAK
// and the asynchronous events. outcome.go plays a row.
//
// Stages: what rows are made of; outcomes that many have in common; rows that are products (what is
// wrong with a key, times operations); rows of their own, by operation; of UC, UD, shared receive
// queues, XRC.

import (
	"github.com/goroce/goroce/roce"
)

// A condition is a row.
type condition struct {
	name string
	typ  roce.QPType // 0: RC
	srq  bool        // the serving end's receives are those of a shared queue
	caps roce.DeviceCaps

	// wr is what is posted. RemoteAddr counts from the serving end's memory, Bind.Addr from the
	// acting end's; RemoteQPN, RemoteQKey and RemoteSRQN are masks over the peer's.
	wr   roce.SendWR
	n    int    // bytes of it, in one element
	from memory // where they are
	wrap bool   // RemoteAddr is the last word of the address space

	to      memory   // what RemoteAddr, RKey and InvalidateKey are about
	recvs   []memory // receives
	peer    situation
	acting  func(*roce.ConnectOptions)
	serving func(*roce.ConnectOptions)

	want outcome
}

// memory is a region of 4096 bytes, or a window to it, or what was one.
type memory struct {
	key    keyOf
	access roce.Access // 0: everything
	off, n int         // of a receive, or of the bytes to be sent
}

// keyOf says what a key is of.
type keyOf uint8

const (
	aRegion       keyOf = iota
	nobody              // a key that nothing has
	otherDomain         // a region of another protection domain
	closedRegion        // one that was deregistered
	theWindow           // one of type 2 to the first half, for reading, bound by the queue pair
	otherWindow         // one that another queue pair has bound
	freeWindow          // one that is not bound
	reboundWindow       // a window of type 1 before it was bound anew
	firstWindow         // a window of type 1, bound
)

// situation is what the peer is doing.
type situation uint8

const (
	ready  situation = iota
	late             // it posts its receives when the request was sent
	deaf             // it never posts any
	closed           // it has destroyed its queue pair
	reset            // or reset it
	failed           // or it is in ERR
)

// nak is what the serving end answers.
type nak uint8

const (
	noNAK nak = iota
	rnrNAK
	invReqNAK
	accessNAK
	opNAK
	numNAKs
)

// outcome is what both ends see. A state of 0 is RTS; if both have that, the next message arrives.
type outcome struct {
	status       roce.WCStatus // of the request
	state        roce.QPState
	receives     []roce.WCStatus // of those that were used, before the next message
	servingState roce.QPState
	nak          nak
	events       []roce.EventType // at the serving end; there is none at the acting end
}

const regionSize = 4096

const everything = roce.LocalWrite | roce.RemoteRead | roce.RemoteWrite | roce.RemoteAtomic

// Outcomes that rows have in common.
var (
	wrongHere    = outcome{status: roce.WCLocProtErr, state: roce.StateErr}
	unbindable   = outcome{status: roce.WCMWBindErr, state: roce.StateErr}
	undoable     = outcome{status: roce.WCLocQPOpErr, state: roce.StateErr}
	stoppedHere  = outcome{status: roce.WCLocProtErr, state: roce.StateSQE}
	noAnswer     = outcome{status: roce.WCRetryExcErr, state: roce.StateErr}
	neverReady   = outcome{status: roce.WCRNRRetryExcErr, state: roce.StateErr, nak: rnrNAK}
	againstRules = outcome{status: roce.WCRemInvReqErr, state: roce.StateErr, servingState: roce.StateErr,
		nak: invReqNAK, events: []roce.EventType{roce.EventQPReqErr}}
	noRight = outcome{status: roce.WCRemAccessErr, state: roce.StateErr, servingState: roce.StateErr, nak: accessNAK,
		events: []roce.EventType{roce.EventQPAccessErr}}
	badReceive = outcome{status: roce.WCRemOpErr, state: roce.StateErr, servingState: roce.StateErr, nak: opNAK,
		receives: []roce.WCStatus{roce.WCLocProtErr}}
)

// with returns the outcome with receives that end so, in place of the serving end's events.
func (o outcome) with(statuses ...roce.WCStatus) outcome {
	o.receives, o.events = statuses, nil
	return o
}

// How queue pairs are connected.
func impatient(o *roce.ConnectOptions)   { o.Timeout, o.RetryCnt = 12, 1 }
func once(o *roce.ConnectOptions)        { o.RNRRetry = 0 }
func twice(o *roce.ConnectOptions)       { o.RNRRetry = 1 }
func quickly(o *roce.ConnectOptions)     { o.MinRNRTimer = 1 }
func askingNone(o *roce.ConnectOptions)  { o.MaxRdAtomic = 0 }
func servingNone(o *roce.ConnectOptions) { o.MaxDestRdAtomic = 0 }
func grantless(o *roce.ConnectOptions)   { o.Access = 0 }

// operation is a request for memory of the peer.
type operation struct {
	name  string
	wr    roce.SendWR
	n     int         // bytes of the peer's memory
	local int         // bytes of the acting end's
	right roce.Access // that it needs
	caps  roce.DeviceCaps
}

const data = 16

var operations = []operation{
	{"WRITE", aWrite, data, data, roce.RemoteWrite, 0},
	{"READ", aRead, data, data, roce.RemoteRead, 0},
	{"FETCH ADD", roce.SendWR{Opcode: roce.WRAtomicFetchAndAdd, CompareAdd: 1}, 8, 8, roce.RemoteAtomic, 0},
	{"COMPARE SWAP", roce.SendWR{Opcode: roce.WRAtomicCmpAndSwp, Swap: 1}, 8, 8, roce.RemoteAtomic, 0},
	{"ATOMIC WRITE", roce.SendWR{Opcode: roce.WRAtomicWrite, Swap: 1}, 8, 0, roce.RemoteWrite, roce.CapAtomicWrite},
	{"FLUSH", roce.SendWR{Opcode: roce.WRFlush, Flush: roce.FlushInfo{Length: data, Placement: globally}}, data, 0,
		roce.FlushGlobal, roce.CapFlushGlobal},
}

// remotely are the conditions of an operation on memory of the peer.
func (o *operation) remotely() []condition {
	c := condition{
		typ:  roce.RC,
		caps: o.caps,
		wr:   o.wr,
		n:    o.local,
		to:   memory{access: everything | o.right},
		want: noRight,
	}
	at := func(off int) func(*condition) { return func(c *condition) { c.wr.RemoteAddr = uint64(off) } }
	key := func(k keyOf) func(*condition) { return func(c *condition) { c.to.key = k } }
	return variants(c, o.name+" ", []variant{
		{"with a key that nobody has", key(nobody)},
		{"with a key of another domain", key(otherDomain)},
		{"of a region that was closed", key(closedRegion)},
		{"past the end", at(regionSize - o.n + 8)},
		{"before the beginning", at(-8)},
		{"around the end of the address space", func(c *condition) { c.wrap = true }},
		{"without the right to the region", func(c *condition) { c.to.access = roce.LocalWrite | everything&^o.right }},
		{"without the right of the queue pair", func(c *condition) { c.serving, c.want = grantless, againstRules }},
	})
}

// locally are the conditions of bytes of the acting end.
func (o *operation) locally() []condition {
	c := condition{caps: o.caps, wr: o.wr, n: o.local, want: wrongHere}
	key := func(k keyOf) func(*condition) { return func(c *condition) { c.from.key = k } }
	list := variants(c, o.name+" ", []variant{
		{"with an lkey that nobody has", key(nobody)},
		{"with an lkey of another domain", key(otherDomain)},
		{"of local memory that was deregistered", key(closedRegion)},
		{"of local bytes past the end", func(c *condition) { c.from.off = regionSize - 4 }},
	})
	if o.right&(roce.RemoteRead|roce.RemoteAtomic) != 0 {
		c.name, c.from.access = o.name+" into memory that is not for writing", roce.RemoteRead
		list = append(list, c)
	}
	return list
}

// variant is a change to a condition.
type variant struct {
	name   string
	change func(*condition)
}

func variants(c condition, prefix string, changes []variant) (list []condition) {
	for _, v := range changes {
		next := c
		next.name = prefix + v.name
		v.change(&next)
		list = append(list, next)
	}
	return list
}

// conditions are all rows.
func conditions() (all []condition) {
	all = append(all, reliable...)
	for i := range operations {
		all = append(all, operations[i].remotely()...)
	}
	for _, o := range append([]operation{{name: "SEND", wr: aSend, local: data}}, operations[:4]...) {
		all = append(all, o.locally()...)
	}
	for _, list := range [][]condition{windowConditions, unreliable, datagramConditions, sharedConditions,
		xrcConditions} {
		all = append(all, list...)
	}
	return all
}

var (
	room      = []memory{{n: data}, {n: data}}
	tooShort  = []memory{{n: data - 8}, {n: data}}
	aSend     = roce.SendWR{Opcode: roce.WRSend}
	aWrite    = roce.SendWR{Opcode: roce.WRWrite}
	aWriteImm = roce.SendWR{Opcode: roce.WRWriteWithImm, Imm: immediate}
	aRead     = roce.SendWR{Opcode: roce.WRRead}
	aSendInv  = roce.SendWR{Opcode: roce.WRSendWithInv}
)

// into makes receives of which the first names memory that is wrong.
func into(m memory) []memory {
	m.n = max(m.n, data)
	return []memory{m, {n: data}}
}

// reliable are rows of RC.
var reliable = []condition{
	{name: "SEND that is longer than the receive", wr: aSend, n: data, recvs: tooShort,
		want: againstRules.with(roce.WCLocLenErr)},
	{name: "SEND to a receive with an lkey that nobody has", wr: aSend, n: data, recvs: into(memory{key: nobody}),
		want: badReceive},
	{name: "SEND to a receive with an lkey of another domain", wr: aSend, n: data,
		recvs: into(memory{key: otherDomain}), want: badReceive},
	{name: "SEND to a receive in memory that is not for writing", wr: aSend, n: data,
		recvs: into(memory{access: roce.RemoteRead}), want: badReceive},
	{name: "SEND to a receive past the end of its region", wr: aSend, n: data, recvs: into(memory{off: regionSize - 8}),
		want: badReceive},
	{name: "SEND without a receive, rnr_retry 0", wr: aSend, n: data, acting: once, serving: quickly, want: neverReady},
	{name: "SEND without a receive, rnr_retry 1", wr: aSend, n: data, acting: twice, serving: quickly,
		want: neverReady},
	{name: "SEND before its receive", wr: aSend, n: data, recvs: room, peer: late, serving: quickly,
		want: outcome{receives: []roce.WCStatus{roce.WCSuccess}}},
	{name: "WRITE with immediate without a receive", wr: aWriteImm, n: data, acting: twice, serving: quickly,
		want: neverReady},
	{name: "WRITE with immediate and a key that nobody has", wr: aWriteImm, n: data, to: memory{key: nobody},
		recvs: room, want: noRight.with(roce.WCRemAccessErr)},
	{name: "WRITE with immediate without the right of the queue pair", wr: aWriteImm, n: data, serving: grantless,
		recvs: room, want: againstRules.with(roce.WCRemInvReqErr)},
	{name: "WRITE of nothing with a key that nobody has", wr: aWrite, to: memory{key: nobody}},
	{name: "READ of nothing with a key that nobody has", wr: aRead, to: memory{key: nobody}},
	{name: "READ with max_rd_atomic 0", wr: aRead, n: data, acting: askingNone, want: undoable},
	{name: "READ with max_dest_rd_atomic 0", wr: aRead, n: data, serving: servingNone, want: againstRules},
	{name: "FETCH ADD with max_dest_rd_atomic 0", wr: roce.SendWR{Opcode: roce.WRAtomicFetchAndAdd}, n: 8,
		serving: servingNone, want: againstRules},
	{name: "SEND to a queue pair that was closed", wr: aSend, n: data, acting: impatient, peer: closed, want: noAnswer},
	{name: "SEND to a queue pair that was reset", wr: aSend, n: data, acting: impatient, peer: reset, want: noAnswer},
	{name: "SEND to a queue pair that has failed", wr: aSend, n: data, acting: impatient, peer: failed, want: noAnswer},
	{name: "READ of a queue pair that was closed", wr: aRead, n: data, acting: impatient, peer: closed, want: noAnswer},
}

// failedLater: the request is acknowledged, and then its receive fails (section 6.3).
var failedLater = outcome{servingState: roce.StateErr, receives: []roce.WCStatus{roce.WCRemInvReqErr}}

const readable = roce.LocalWrite | roce.RemoteRead

// windowConditions are rows of memory windows and of keys that are taken back.
var windowConditions = []condition{
	{name: "WRITE through a window that is for reading", wr: aWrite, n: data, to: memory{key: theWindow},
		want: noRight},
	{name: "READ past the end of a window", wr: roce.SendWR{Opcode: roce.WRRead, RemoteAddr: regionSize/2 - 8}, n: data,
		to: memory{key: theWindow}, want: noRight},
	{name: "READ through a window of another queue pair", wr: aRead, n: data, to: memory{key: otherWindow},
		want: noRight},
	{name: "READ through a window that is not bound", wr: aRead, n: data, to: memory{key: freeWindow}, want: noRight},
	{name: "READ with the key that a window of type 1 had", wr: aRead, n: data, to: memory{key: reboundWindow},
		want: noRight},
	{name: "SEND that invalidates a key that nobody has", wr: aSendInv, n: data, to: memory{key: nobody}, recvs: room,
		want: failedLater},
	{name: "SEND that invalidates a region", wr: aSendInv, n: data, recvs: room, want: failedLater},
	{name: "SEND that invalidates a window of type 1", wr: aSendInv, n: data, to: memory{key: firstWindow}, recvs: room,
		want: failedLater},
	{name: "SEND that invalidates a window of another queue pair", wr: aSendInv, n: data, to: memory{key: otherWindow},
		recvs: room, want: failedLater},
	{name: "LOCAL_INV of a key that nobody has", wr: roce.SendWR{Opcode: roce.WRLocalInv}, from: memory{key: nobody},
		want: undoable},
	{name: "LOCAL_INV of a region", wr: roce.SendWR{Opcode: roce.WRLocalInv}, want: undoable},
	{name: "LOCAL_INV of a window of type 1", wr: roce.SendWR{Opcode: roce.WRLocalInv}, from: memory{key: firstWindow},
		want: undoable},
	{name: "BIND_MW to a region without the right", wr: binding(0, 8, roce.RemoteRead), from: memory{access: readable},
		want: unbindable},
	{name: "BIND_MW past the end of the region", wr: binding(regionSize-8, 16, roce.RemoteRead),
		from: memory{access: readable | roce.MWBind}, want: unbindable},
	{name: "BIND_MW for writing to a region that is not", wr: binding(0, 8, roce.RemoteWrite),
		from: memory{access: roce.RemoteRead | roce.MWBind}, want: unbindable},
	{name: "BIND_MW of nothing, type 2", wr: binding(0, 0, roce.RemoteRead),
		from: memory{access: readable | roce.MWBind}, want: unbindable},
}

// binding binds a fresh window.
func binding(off, n uint64, access roce.Access) roce.SendWR {
	return roce.SendWR{Opcode: roce.WRBindMW, Bind: &roce.BindInfo{Addr: off, Length: n, Access: access}}
}

// unreliable are rows of UC: what the peer cannot take is dropped, and the next message arrives
// (section 6.4).
var unreliable = []condition{
	{name: "UC WRITE with a key that nobody has", typ: roce.UC, wr: aWrite, n: data, to: memory{key: nobody}},
	{name: "UC WRITE past the end", typ: roce.UC, wr: roce.SendWR{Opcode: roce.WRWrite, RemoteAddr: regionSize - 8},
		n: data},
	{name: "UC WRITE without the right to the region", typ: roce.UC, wr: aWrite, n: data, to: memory{access: readable}},
	{name: "UC WRITE without the right of the queue pair", typ: roce.UC, wr: aWrite, n: data, serving: grantless},
	{name: "UC WRITE with immediate without a receive", typ: roce.UC, wr: aWriteImm, n: data, peer: deaf},
	{name: "UC SEND without a receive", typ: roce.UC, wr: aSend, n: data, peer: deaf},
	{name: "UC SEND that is longer than the receive", typ: roce.UC, wr: aSend, n: data, recvs: tooShort},
	{name: "UC SEND to a receive with an lkey that nobody has", typ: roce.UC, wr: aSend, n: data,
		recvs: into(memory{key: nobody}), want: outcome{receives: []roce.WCStatus{roce.WCLocProtErr}}},
	{name: "UC SEND to a queue pair that was closed", typ: roce.UC, wr: aSend, n: data, peer: closed},
	{name: "UC SEND with an lkey that nobody has", typ: roce.UC, wr: aSend, n: data, from: memory{key: nobody},
		want: stoppedHere},
	{name: "UC LOCAL_INV of a key that nobody has", typ: roce.UC, wr: roce.SendWR{Opcode: roce.WRLocalInv},
		from: memory{key: nobody}, want: outcome{status: roce.WCLocQPOpErr, state: roce.StateSQE}},
}

const datagram = roce.GRHSize + data

// datagramConditions are rows of UD.
var datagramConditions = []condition{
	{name: "UD SEND with another Q_Key", typ: roce.UD, wr: roce.SendWR{Opcode: roce.WRSend, RemoteQKey: 1}, n: data,
		recvs: []memory{{n: datagram}}},
	{name: "UD SEND to a queue pair that nobody has", typ: roce.UD,
		wr: roce.SendWR{Opcode: roce.WRSend, RemoteQPN: 1 << 20}, n: data, recvs: []memory{{n: datagram}}},
	{name: "UD SEND without a receive", typ: roce.UD, wr: aSend, n: data, peer: deaf},
	{name: "UD SEND that is longer than the receive", typ: roce.UD, wr: aSend, n: data,
		recvs: []memory{{n: datagram - 1}}},
	{name: "UD SEND to a receive with an lkey that nobody has", typ: roce.UD, wr: aSend, n: data,
		recvs: []memory{{key: nobody, n: datagram}}, want: outcome{receives: []roce.WCStatus{roce.WCLocProtErr}}},
	{name: "UD SEND that is longer than a packet", typ: roce.UD, wr: aSend, n: 4096 + 8,
		want: outcome{status: roce.WCLocLenErr, state: roce.StateSQE}},
	{name: "UD SEND with an lkey that nobody has", typ: roce.UD, wr: aSend, n: data, from: memory{key: nobody},
		want: stoppedHere},
}

// sharedConditions are rows of queue pairs with a shared receive queue: one that fails leaves what
// no message has used (section 8.1).
var sharedConditions = []condition{
	{name: "SEND to an empty SRQ", srq: true, wr: aSend, n: data, acting: once, serving: quickly, want: neverReady},
	{name: "SEND that is longer than a receive of the SRQ", srq: true, wr: aSend, n: data, recvs: tooShort,
		want: lastWQE(againstRules.with(roce.WCLocLenErr))},
	{name: "SEND to a receive of the SRQ with an lkey that nobody has", srq: true, wr: aSend, n: data,
		recvs: into(memory{key: nobody}), want: lastWQE(badReceive)},
	{name: "WRITE with a key that nobody has, to a queue pair with an SRQ", srq: true, wr: aWrite, n: data,
		to: memory{key: nobody}, recvs: room, want: outcome{status: roce.WCRemAccessErr, state: roce.StateErr,
			servingState: roce.StateErr, nak: accessNAK, events: []roce.EventType{roce.EventQPAccessErr,
				roce.EventQPLastWQE}}},
	{name: "UC SEND to an empty SRQ", typ: roce.UC, srq: true, wr: aSend, n: data, peer: deaf},
	{name: "UD SEND to an empty SRQ", typ: roce.UD, srq: true, wr: aSend, n: data, peer: deaf},
}

// xrcConditions are rows of XRC: a key of another domain stands for an XRC domain too.
var xrcConditions = []condition{
	{name: "XRC SEND to an SRQ that nobody has", typ: roce.XRCSend,
		wr: roce.SendWR{Opcode: roce.WRSend, RemoteSRQN: 0xffff}, n: data, recvs: room, want: againstRules},
	{name: "XRC SEND to an SRQ of another domain", typ: roce.XRCSend, wr: aSend, n: data, to: memory{key: otherDomain},
		recvs: room, want: againstRules},
	{name: "XRC SEND to an empty SRQ", typ: roce.XRCSend, wr: aSend, n: data, acting: once, serving: quickly,
		want: neverReady},
	{name: "XRC SEND that is longer than the receive", typ: roce.XRCSend, wr: aSend, n: data, recvs: tooShort,
		want: againstRules.with(roce.WCLocLenErr)},
	{name: "XRC WRITE with a key that nobody has", typ: roce.XRCSend, wr: aWrite, n: data, to: memory{key: nobody},
		recvs: room, want: noRight},
}

// lastWQE is the outcome where a shared queue is left.
func lastWQE(o outcome) outcome {
	o.events = []roce.EventType{roce.EventQPLastWQE}
	return o
}
