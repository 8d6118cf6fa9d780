// Package roce is RDMA verbs over RoCEv2 in pure Go: queue pairs, completion queues and registered
// memory as libibverbs has them, on a network interface without RDMA hardware, kernel module or
// privilege.
//
// # A first program
//
// A [Device] is one IP address, or all of an interface. On it a [PD] groups what may work together,
// an [MR] makes bytes reachable under keys, a [CQ] collects completions, and a [QP] is one end of a
// connection. Every call returns an error too (left out here):
//
//	device := roce.Open("udp:eth0", nil) // or an address; "roce devices" lists them
//	pd, cq := device.AllocPD(), device.CreateCQ(roce.CQInitAttr{CQE: 256})
//	mr := pd.RegMR(memory, roce.LocalWrite|roce.RemoteWrite)
//	qp := pd.CreateQP(roce.QPInitAttr{SendCQ: cq})
//	// the two ends tell each other qp.Endpoint(), mr.Addr() and mr.RKey(), by any means
//	qp.Connect(ctx, theirs, nil)
//	qp.PostSend(roce.SendWR{Opcode: roce.WRWrite, Flags: roce.SendSignaled,
//		SGL: []roce.SGE{mr.SGE(0, 64)}, RemoteAddr: theirAddr, RKey: theirKey})
//	n := cq.Wait(ctx, wcs) // the peer's memory has the bytes now
//
// The package example is that as a whole, to be run. Package rdmacm connects by address and port
// instead, as librdmacm does, and package rsocket makes a net.Conn of it. An [SRQ] holds receive
// requests for many queue pairs; those of UD send datagrams.
//
// # What is where
//
//	app ── PostSend / PostRecv ──▶ [send, receive rings] ─┐   ┌─▶ [completions] ── Poll ──▶ app
//	                                                      ▼   │
//	app ── CreateQP, Modify ... ──▶  lane: one turn = receive → handle → publish → send
//	                                                      │   ▲
//	                               frames, lent for a call│   │qp.Engine: the protocol
//	                                                      ▼   │mr.Table: keys → memory
//	                                       transport.Port (UDP socket, pipe in memory ...)
//
// This package is the verbs and no more: what is made, what belongs to what, who may be closed
// when. The device below is internal/soft, which is this stack; a build with the tag verbs adds the
// RDMA devices of the kernel, by way of libibverbs (provider.go). The records that are posted and
// polled are those of packages qp and mr under their verbs names, so nothing is copied: go doc
// qp.SendWR, qp.WC, qp.QPAttr.
//
// # Who runs the stack
//
// Whoever is there. [CQ.Poll] on an empty queue and [QP.PostSend] run the stack on the calling
// goroutine, so a polling application sees single-digit microseconds. When nobody polls, a
// goroutine in the background sleeps on the port and serves peers and timers. It takes over some
// tens of microseconds after the last poll, or up to a millisecond if the application has polled
// for long; at once when the application arms a queue. An application that sleeps in [CQ.Wait],
// which polls a little first, watches the port itself. An idle device uses no processor time.
//
// # Memory
//
// Registered memory is read and written by the stack while the application runs. The bytes of a
// request belong to the queue pair from the post to the completion; what a peer writes is safe to
// read after a completion of this end that comes later (of its message, or of the next one), or
// when polled with sync/atomic (the last bytes of a message are written last). Nothing is copied in
// between: a retransmission reads the memory again.
//
// Close a region before its memory goes. If the application unmaps or protects it sooner, whoever
// accesses it by its keys gets an error (WCLocProtErr, or WCRemAccessErr at the peer), the counter
// memory_faults says so, and the process goes on. Memory that was unmapped and then mapped by
// others cannot be told from the application's: it is read and written.
//
// Any bytes can be registered. Those of Go's heap stay where they are and are not collected until
// the region is closed, whatever the application forgets; a device of the kernel pins them besides
// (runtime.Pinner), as a driver pins all memory that a NIC is to write. [AllocBuffer] gives memory
// from outside the heap: pages of its own, huge ones if wanted, and nothing for the collector to
// look at.
//
// # Wrong use
//
// What is closed twice stays closed: the second Close does nothing. What is used after its Close
// answers ErrClosed; what is closed while others need it, a [Buffer] below a region among them,
// answers ErrBusy and says what needs it. Nothing is closed by the collector: a device remembers
// all that was made on it, so what the application forgets works on and costs its memory until the
// process ends. Two things nobody can catch: the address of Go memory given to [PD.RegMRAt] keeps
// it neither alive nor, on a stack, in its place, and slices of a Buffer that was closed are of
// memory that is gone.
//
// Programs may be started (os/exec): they inherit nothing. A process that C code forks, and that
// goes on without executing a program, must use nothing of this package. Its parent is not
// disturbed: the memory of a Buffer stays the parent's alone; other memory that a device of the
// kernel writes is shared until one of both writes to it, see ibv_fork_init, which Linux before
// 5.12 needs.
//
// # Errors
//
// Calls return an [*Error] or a [*PostError] that names the value and the rule and matches one of
// the Err variables, but for what the system says of a port when it is opened; a context that ends
// is its own error. What a peer or the network does wrong is the [WCStatus] of a completion, an
// [AsyncEvent], or a counter in [Stats].
//
// # Waiting
//
// [CQ.Poll] never waits. [CQ.Wait] waits for completions, [CompChannel.Wait] for the queues that
// have some, and [EventQueue.Get] for the events of a device: all end with a context. [QP.Modify],
// [QP.Connect] and [PD.CreateAH] take one because an address may have to be resolved.
//
// # Where to read on
//
// docs/design.md, section 6, follows a request to the wire and back, function by function: qp.go
// PostSend → internal/soft/qp.go PostSend → calls.go sendPosted → lane.go output →
// qp.Engine.PollTransmit → transport.Port.Send; and back: lane.go receive → input →
// qp.Engine.HandleFrames → Publish → internal/soft/cq.go Poll. The examples have what programs do
// most.
package roce
