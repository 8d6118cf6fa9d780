package learn

// The chapter of what tutorials get wrong: each statement is tried.

import (
	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/trace/world"
)

var myths = Chapter{Name: "myths", Title: "What tutorials get wrong",
	Text: `
All of these can be read somewhere. Each is tried here.`,
	Lessons: []*Lesson{
		{
			Name: "myth-opcodes", Title: "\"IBV_WR_SEND is 0 and IBV_WR_RDMA_WRITE is 1\"",
			Text: `
It is the other way round, and more than that: RDMA_WRITE is 0, RDMA_WRITE_WITH_IMM 1, SEND 2, SEND_WITH_IMM 3, RDMA_READ 4. Who writes numbers
instead of names, or forgets to set the opcode of a request that is all zeros, posts a WRITE.

A's program believes that it sends: opcode 0, a message of 32 bytes, no remote address. B has a receive posted for it. What leaves is
{1 RDMA_WRITE_ONLY}, to address 0 with rkey 0. B refuses: {2 NAK remote access error}, {A 1 REM_ACCESS_ERR}. The receive is flushed:
{B 1 WR_FLUSH_ERR}.

If you see status 10 for a SEND, look at the opcode.`,
			Scenario: func(w *world.World) {
				a, b := connected(w, qp.RC)
				_ = b.recv(7, 0, 100)
				wr := a.send(1, 32)
				wr.Opcode = 0
				_ = a.QP.PostSend(wr)
				finish(w, a, b)
			},
			Claims: []Claim{packets("RDMA_WRITE_ONLY", "NAK remote access error"), completes("A", qp.WCRemAccessErr),
				completes("B", qp.WCWRFlushErr)},
			Question: "And the opcode in a completion, is it the same number?",
			Answers:  []string{"yes", "no: of a SEND it is IBV_WC_SEND, 0"}, Right: 1,
			Why: "ibv_wr_opcode and ibv_wc_opcode are two lists: a WRITE is 0 and 1, a SEND 2 and 0. Use the names.",
		},
		{
			Name: "myth-status-5", Title: "\"Status 5 is an access error\"",
			Text: `
5 is WR_FLUSH_ERR: this request was not executed, as the queue pair was in the error state before its turn came. It says nothing about what
was wrong. 10 is the remote access error, 8 a local one, 4 a local key.

A posts three WRITEs, the first with a wrong rkey. {A 1 REM_ACCESS_ERR} is the reason; {A 2 WR_FLUSH_ERR} and {A 3 WR_FLUSH_ERR} are only its
consequence. They were right.

So look for the first completion that is neither 0 nor 5. If there is none, the reason is at the other side, or somebody has moved the
queue pair to the error state.`,
			Scenario: func(w *world.World) {
				a, b := connected(w, qp.RC)
				wrong := a.write(1, 32, b, 0)
				wrong.RKey ^= 0xff00
				_ = a.QP.PostSend(wrong, a.write(2, 32, b, 0), a.write(3, 32, b, 0))
				finish(w, a, b)
			},
			Claims: []Claim{completes("A", qp.WCRemAccessErr, qp.WCWRFlushErr, qp.WCWRFlushErr),
				state("A", 0, qp.StateErr)},
			Question: "All of a program's receives end with status 5. What happened?",
			Answers:  []string{"their memory was not registered", "their queue pair went to the error state"}, Right: 1,
			Why: "The reason is elsewhere: a failed send of its own, a refused request of the peer (an asynchronous " +
				"event tells), or its own program.",
		},
		{
			Name: "myth-cq-pd", Title: "\"A completion queue belongs to a protection domain\"", SetUp: true,
			Text: `
It belongs to the device. ibv_create_cq has no argument for a protection domain. Here B has two domains, a region and a queue pair in each, and
one completion queue for both: {B 1 SUCCESS} is of the first, {B 2 SUCCESS} of the second.

What does belong to a protection domain: regions, windows, queue pairs, address handles, shared receive queues. A key works only for queue
pairs of its own domain.`,
			Scenario: func(w *world.World) {
				a, b := connected(w, qp.RC)
				second := b.AllocPD()
				buf := b.RegMRIn(second, "buf2", make([]byte, 4096), all)
				q, peer := b.CreateQP(b.CQ, world.QPInit{PD: second}), a.CreateQP(a.CQ, world.QPInit{})
				w.Connect(q, peer)
				_ = b.recv(7, 0, 100)
				_ = q.PostRecv(qp.RecvWR{WRID: 8, SGL: []qp.SGE{buf.SGE(0, 100)}})
				_ = a.QP.PostSend(a.send(1, 32))
				w.Run()
				_ = peer.PostSend(a.send(2, 32))
				finish(w, a, b)
			},
			Claims: []Claim{completes("B", qp.WCSuccess, qp.WCSuccess), completes("A", qp.WCSuccess, qp.WCSuccess),
				holds("B", "buf2", 0, "A", "buf", 0, 32)},
			Question: "How does B's program tell whose completion it has polled?",
			Answers:  []string{"it cannot: use one queue for each", "by qp_num and wr_id"}, Right: 1,
			Why: "A completion has the number of its queue pair, and the wr_id that the program has given.",
		},
		{
			Name: "myth-alignment", Title: "\"Buffers must be aligned to a page to be registered\"", SetUp: true,
			Text: `
Any byte will do. B registers 100 bytes that begin at an odd place; A writes 33 of them, from an odd address to an odd address:
{1 RDMA_WRITE_ONLY}, {A 1 SUCCESS}.

Two things are true: an atomic needs an address that is a multiple of 8. And alignment may be faster, and takes fewer entries of the device's
table: a buffer of 4096 bytes that does not begin at a page takes two.`,
			Scenario: func(w *world.World) {
				a, b := connected(w, qp.RC)
				odd := b.RegMRIn(b.PD, "odd", make([]byte, 128)[3:103], all&^remoteAtomic)
				wr := a.write(1, 33, b, 0)
				wr.RemoteAddr, wr.RKey = odd.Addr(1), odd.RKey()
				wr.SGL[0].Addr += 5
				_ = a.QP.PostSend(wr)
				finish(w, a, b)
			},
			Claims: []Claim{packets("RDMA_WRITE_ONLY", "ACK"), completes("A", qp.WCSuccess),
				holds("B", "odd", 1, "A", "buf", 5, 33)},
			Question: "Two buffers of 100 bytes are in the same page. May both be registered?",
			Answers:  []string{"yes, each with its own keys and rights", "no, a page belongs to one region"}, Right: 0,
			Why: "Regions may even overlap. Each has its own bounds, to the byte.",
		},
		{
			Name: "myth-reset", Title: "\"Create the queue pair, post, connect later\"", SetUp: true,
			Text: `
A new queue pair is in RESET. There nothing can be posted: {A refuses 1 EINVAL} for the receive, {A refuses 2 EINVAL} for the send. From INIT on
receives can be posted, and should be: when the queue pair is in RTR the peer may send. Sends need RTS: {A refuses 3 EINVAL} in INIT.

So: create, INIT, post receives, exchange numbers with the peer, RTR, RTS, send.`,
			NIC: `
Providers differ. Some take what is posted in RESET without complaint, and it is lost at the next step. rdma_create_qp of librdmacm takes the
new queue pair to INIT, so that receives can be posted before the connection.`,
			Scenario: func(w *world.World) {
				a, b := two(w, qp.RC)
				_ = a.recv(7, 0, 100)
				_ = a.QP.PostSend(a.send(1, 32))
				a.QP.To(qp.StateInit)
				_ = a.recv(7, 0, 100)
				_ = a.QP.PostSend(a.send(1, 32))
				w.Connect(a.QP, b.QP)
				_ = b.QP.PostSend(b.send(2, 32))
				finish(w, a, b)
			},
			Claims: []Claim{refused("A", "EINVAL", "EINVAL", "EINVAL"), packets("SEND_ONLY", "ACK"),
				completes("A", qp.WCSuccess), completes("B", qp.WCSuccess)},
			Question: "In which state may a queue pair first receive a message?",
			Answers:  []string{"INIT", "RTR", "RTS"}, Right: 1,
			Why: "RTR: ready to receive. In INIT receives can be posted, but packets are dropped.",
		},
		{
			Name: "myth-unsignaled", Title: "\"Every request gives a completion\"", Queues: true,
			Text: `
Only if it asks for one (IBV_SEND_SIGNALED), or the queue pair was made with sq_sig_all, or it fails. A's WRITE does neither: {2 ACK} has come, the
bytes are in B's memory, and the completion queue stays empty. A program that waits for it waits for ever.

Look at the send queue: the request is still in it. To the program its place is taken until a later request is signaled and completes:
the second WRITE is. {A 1 SUCCESS} is its completion, and says that both are done, as a send queue completes in order.

So signal every n-th request. Signaling none fills the queue, and then ibv_post_send says ENOMEM.`,
			NIC: `
There the provider frees the places only when the program polls a completion. Our device frees a place when its ACK has come, so it runs a
program that signals nothing; do not rely on it.`,
			Scenario: func(w *world.World) {
				a, b := connected(w, qp.RC)
				quiet := a.write(1, 32, b, 0)
				quiet.Flags = 0
				_ = a.QP.PostSend(quiet)
				w.Run()
				a.CQ.Poll()
				_ = a.QP.PostSend(a.write(2, 32, b, 32))
				finish(w, a)
			},
			Claims: []Claim{packets("RDMA_WRITE_ONLY", "ACK", "RDMA_WRITE_ONLY", "ACK"), completes("A", qp.WCSuccess),
				holds("B", "buf", 0, "A", "buf", 0, 32)},
			Question: "An unsignaled WRITE fails. Is there a completion?",
			Answers:  []string{"yes: errors always give one", "no, it was not signaled"}, Right: 0,
			Why: "Errors are always told, and everything behind in the queue is flushed with a completion each, " +
				"signaled or not.",
		},
		{
			Name: "myth-poll", Title: "\"while (ibv_poll_cq(cq, 1, &wc)); waits for a completion\"",
			Text: `
ibv_poll_cq does not wait. It returns how many completions it has found: 0 if there are none, a negative number if it fails. So

    while (ibv_poll_cq(cq, 1, &wc));            /* goes on as long as it FINDS some */

ends at once when nothing is there yet, and the program goes on with a wc that nobody has filled. A's program does that: its poll right after
posting finds nothing. It believes that the WRITE is done, and stores something else into the buffer. That is what {1 RDMA_WRITE_ONLY} carries.
The completion, {A 1 SUCCESS}, comes later. It is right:

    do n = ibv_poll_cq(cq, 1, &wc); while (n == 0);
    if (n < 0 || wc.status != IBV_WC_SUCCESS) ...`,
			Scenario: func(w *world.World) {
				a, b := connected(w, qp.RC)
				_ = a.QP.PostSend(a.write(1, 4, b, 0))
				a.CQ.Poll()
				a.Buf.Set(0, []byte("next"))
				finish(w, a)
			},
			Claims: []Claim{packets("RDMA_WRITE_ONLY", "ACK"), completes("A", qp.WCSuccess),
				has("B", "buf", 0, []byte("next")...)},
			Question: "ibv_poll_cq returns 1. What has to be looked at first?",
			Answers:  []string{"wc.status", "wc.opcode", "wc.byte_len"}, Right: 0,
			Why: "If the status is an error, opcode and byte_len mean nothing. Only wr_id, status, qp_num and " +
				"vendor_err do.",
		},
		{
			Name: "myth-pinned", Title: "\"Pinned memory cannot be changed\"",
			Text: `
Pinning keeps pages where they are. It protects nothing: the program can store into registered memory at any time, also while a request is under
way. Then it is luck what is sent.

A posts a WRITE of 2048 bytes. Its device makes {1 RDMA_WRITE_FIRST}. Now A's program stores new bytes into both halves of the buffer, before the
second packet is made. {2 RDMA_WRITE_LAST} has the new ones. B's memory has the old first half and the new second half, and the completion
says {A 1 SUCCESS}: the checksum is of what was sent.

The buffer is the device's from posting to completion. That is a rule for the program; no hardware holds it to it.`,
			NIC: `
A NIC may fetch the whole message long before the last packet leaves, so there it mostly goes well. Until a packet is lost, and is fetched once more.`,
			Scenario: func(w *world.World) {
				a, b := connected(w, qp.RC)
				_ = a.QP.PostSend(a.write(1, 2048, b, 0))
				w.RunFor(500)
				a.Buf.Set(0, []byte("new"))
				a.Buf.Set(1024, []byte("new"))
				finish(w, a)
			},
			Claims: []Claim{packets("RDMA_WRITE_FIRST", "RDMA_WRITE_LAST", "ACK", "ACK"),
				completes("A", qp.WCSuccess), has("B", "buf", 0, 1, 2, 3), has("B", "buf", 1024, []byte("new")...)},
			Question: "May a program READ the buffer of a WRITE that is under way, with its processor?",
			Answers:  []string{"yes", "no"}, Right: 0,
			Why: "The device only reads it, too. Of the buffer of a receive or an RDMA READ it must do neither.",
		},
		{
			Name: "myth-no-cpu", Title: "\"RDMA needs no remote CPU\"",
			Text: `
The remote program takes no part: {1 RDMA_WRITE_ONLY} is checked, written and acknowledged while B's program does something else, or sleeps. That much
is true with a NIC, which does it all in hardware.

But B's program has worked before: it has registered the memory, made the queue pair and handed over the key. And it works after: the bytes are
of use only when somebody looks at them, and nothing tells B that they are there. Its poll finds nothing. Somebody has to look into the memory,
or the peer has to send a message. Memory bandwidth and caches of B are used, too.

Here, and with rxe, it is not even true of the packets: a processor of B's does what the NIC would do. It is another thread than the
program's, but it is a CPU.`,
			Scenario: func(w *world.World) {
				a, b := connected(w, qp.RC)
				_ = a.QP.PostSend(a.write(1, 32, b, 0))
				finish(w, a, b)
			},
			Claims: []Claim{packets("RDMA_WRITE_ONLY", "ACK"), completes("A", qp.WCSuccess), completes("B"),
				holds("B", "buf", 0, "A", "buf", 0, 32)},
			Question: "B's program is stopped in a debugger. Does A's WRITE arrive, with a NIC in B?",
			Answers:  []string{"yes", "no, it times out"}, Right: 0, Why: "The NIC does it alone. Even a program " +
				"that has crashed can be written to, until the system has taken its queue pairs away.",
		},
	}}
