// Package roce is RDMA verbs over RoCEv2 in pure Go: queue pairs, completion queues and registered memory as libibverbs has
// them, on a network interface without RDMA hardware, kernel module or privilege.
//
//	app ── PostSend / PostRecv ──▶ [send, receive rings] ─┐                  ┌─▶ [completion rings] ── Poll / Wait ──▶ app
//	                                                      ▼                  │
//	app ── CreateQP, Modify, ... ───────▶  lane: one turn = receive → handle → send → publish
//	                                                      │   ▲
//	                                frames, lent for a call   │   qp.Engine: the protocol;  mr.Table: keys → memory
//	                                                      ▼   │
//	                                     transport.Port (UDP socket, pipe in memory, ...)
//
// A [Device] is one IP address. On it a [PD] groups what may work together, an [MR] makes bytes reachable under keys, a
// [CQ] collects completions, and a [QP] is one end of a connection (RC, UC) or sends datagrams (UD). Both ends exchange
// their [Endpoint] by any means, call [QP.Connect], post work requests and poll completions. Package example: Example.
//
// # Who runs the stack
//
// Whoever is there. [CQ.Poll] on an empty queue and [QP.PostSend] run the stack on the calling goroutine, so a polling
// application sees single-digit microseconds. When nobody polls, a goroutine in the background sleeps on the port and serves
// peers and timers. It takes over some tens of microseconds after the last poll, or up to a millisecond if the application has
// polled for long; at once when the application goes to sleep in [CQ.Wait], which polls a little first, or arms a queue. An
// idle device uses no processor time.
//
// # Memory
//
// Registered memory is read and written by the stack while the application runs. The bytes of a request belong to the queue
// pair from the post to the completion; what a peer writes is safe to read after a completion that comes later, or when
// polled with sync/atomic (the last bytes of a message are written last). Nothing is copied in between: a retransmission
// reads the memory again.
//
// # Errors
//
// Calls return an [*Error] or a [*PostError] that names the value and the rule and matches one of the Err variables. What a
// peer or the network does wrong is the [WCStatus] of a completion, an [AsyncEvent], or a counter in [Stats].
//
// # Where to read on
//
// qp.go PostSend → lane.go posted, turn, transmit → qp.Engine.PollTransmit → transport.Port.Send; and back:
// lane.go receive → qp.Engine.HandleFrames → Flush → cq.go Poll.
package roce
