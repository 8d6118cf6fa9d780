// Package qp is the protocol: queue pairs of the RC, UC, UD and XRC services as pure state
// machines.
//
// # Where to start
//
// A send work request goes PostSend (wr.go) → ring (ring.go) → Posted, by whoever drives the
// engine, or by way of a doorbell (engine.go) → requester (requester.go) → packet. At the peer:
// handleFrame (engine.go) → responder (responder.go) → memory, completion, and a reply (reply.go).
// Back again: handleFrame → completer (completer.go) → completion queue (cq.go) → Poll. What
// happens when packets are lost is in recovery.go, which has the state machine, with a file for
// each policy: go-back-N (goback.go), or, if both ends agree, selective repeat (selective.go; its
// responder is reorder.go). silence.go is about losses that nobody reports. How much may be under
// way is in window.go, what the peer's credits allow of it in credits.go, how fast it goes in
// rate.go, and what asks for an ACK in ask.go.
//
// Beside that: where a message's receive request comes from is in receives.go, with queues that are
// shared in srq.go, XRC in xrc.go; when a responder says that a packet is missing in absence.go;
// what a FLUSH asks of storage in flush.go; the states and attributes in modify.go; what types and
// operations are like in traits.go; what fails on purpose in purpose.go; every limit in limits.go.
//
// # The contract
//
// An [Engine] is the state of one lane. One caller at a time drives it with its control methods
// (Create…, Modify…, Query…, Destroy…) and with the turn:
//
//	HandleFrames    network input; payload is in its memory region before it returns
//	HandlePosted    application input: queue pairs whose doorbells rang (Ring)
//	Posted          the same of one queue pair, which the caller has posted to itself
//	HandleTimeout   clock input; a call too many is harmless
//	PollTransmit    fills a batch with packets to send; a full batch means: send it and call again
//	PollTimeout     the next deadline, or Never
//	PollEvent       asynchronous events
//	PollSync        memory that is to reach storage now, elsewhere; Synced says that it has
//	Publish         shows the completions of this turn; PollNotify then names who is to wake
//
// It reads no clock (time is an argument), never blocks and starts nothing. What carries data
// allocates nothing; what few queue pairs ever need is allocated when they first do: places for
// packets behind a gap, for READs of peers, for gaps to be repaired, for events. Frames are lent
// for the call; nothing keeps a reference. The turn runs inside Enter and Exit of an [mr.Reader],
// so that memory can be deregistered safely.
//
// The application's side, [QP.PostSend], [QP.PostRecv], [CQ.Poll], [CQ.PollEx] and [CQ.Arm], runs
// on other goroutines at the same time, one caller per queue.
//
// # What makes it small
//
// No packet that was sent is ever kept. Registered memory is the retransmit buffer: a retry moves
// the position in the send queue back (QP.seek) and packets are made again. It is the reassembly
// buffer too. Instead of output queues a queue pair has a set of what is due, and a packet is made
// when there is room to send it. Only a responder with selective repeat keeps packets, those behind
// a gap, until it is filled.
//
// References of the form "section 4.5" are to docs/rocev2.md, C9-… to the rules of the InfiniBand
// architecture specification.
package qp
