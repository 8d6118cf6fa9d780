package learn

// The chapter of what goes wrong: each mistake is made, and ends in a status at both sides.

import (
	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/trace/world"
	"github.com/goroce/goroce/wire"
)

var refusals = Chapter{Name: "refusals", Title: "What goes wrong",
	Text: `
Every mistake with RDMA ends in one of three ways: a call is refused at once; a completion has a status that is not success; or nothing
happens at all. Here each common mistake is made once, and shown to its end on both sides. "roce trace explain 10" says for any status
what it means and where to look.`,
	Lessons: []*Lesson{
		{
			Name: "unregistered", Title: "Memory that is not registered",
			Text: `
A's request names 32 bytes by an lkey that no region has: the program has never registered them, or has used the key of a region that
it has closed since.

{: A ibv_post_send} ibv_post_send cannot know that: it puts the request into the queue. A second request, which is right, is behind it.

{: A completion} The device looks, finds nothing, and sends nothing. The completion is {A 1 LOC_PROT_ERR}.

A's queue pair is in the error state now. The second request is not executed any more: {A 2 WR_FLUSH_ERR}. B has heard nothing; its queue
pair waits for ever.`,
			NIC: `
Same status. What B learns is the same, too: nothing. Whoever closes a connection after an error has to tell the other side by other
means, such as the connection manager's DREQ.`,
			Scenario: func(w *world.World) {
				a, b := connected(w, qp.RC)
				wrong, right := a.write(1, 32, b, 0), a.write(2, 32, b, 64)
				wrong.SGL[0].LKey ^= 0x100
				_ = a.QP.PostSend(wrong, right)
				finish(w, a, b)
			},
			Claims: []Claim{packets(), completes("A", qp.WCLocProtErr, qp.WCWRFlushErr), completes("B"),
				state("A", 0, qp.StateErr), state("B", 0, qp.StateRTS)},
			Question: "Status 4 at A. Whose memory is wrong?",
			Answers:  []string{"A's: LOC means local", "B's: PROT means that a protection domain refuses a peer"},
			Right:    0, Why: "All that begins with LOC is about the side that has the completion. {A 1 " +
				"LOC_PROT_ERR} says that A's own device may not touch what A's own request names.",
		},
		{
			Name: "wrong-rkey", Title: "A wrong rkey",
			Text: `
A has got B's rkey wrong: mistyped, in the wrong byte order, or from before B restarted. {: B ibv_post_recv} B's program has posted a
receive, which has nothing to do with it.

{1 RDMA_WRITE_ONLY} leaves; A's device cannot know.

{: 1 arrives} B's device finds no region with that key. It writes nothing, and answers {2 NAK remote access error}. A negative
acknowledgement (NAK) names what is wrong by a code.

B's queue pair goes to the error state. The receive comes back as {B 1 WR_FLUSH_ERR}, and there is an event, {B event QP_ACCESS_ERR}: so B's
program can find out what has happened.

A's completion is {A 1 REM_ACCESS_ERR}. REM: the other side's. A's queue pair is in the error state, too.

Both have to start anew: queue pairs to RESET, and connect.`,
			NIC: `
The event comes from most NICs, but not from all; rxe raises none.`,
			Scenario: func(w *world.World) {
				a, b := connected(w, qp.RC)
				_ = b.recv(7, 0, 100)
				wr := a.write(1, 32, b, 0)
				wr.RKey ^= 0xff00
				_ = a.QP.PostSend(wr)
				finish(w, a, b)
			},
			Claims: []Claim{packets("RDMA_WRITE_ONLY", "NAK remote access error"), completes("A", qp.WCRemAccessErr),
				completes("B", qp.WCWRFlushErr), state("A", 0, qp.StateErr), state("B", 0, qp.StateErr),
				event("B", qp.EventQPAccessErr), has("B", "buf", 0, make([]byte, 32)...)},
			Question: "Can A, after status 10, correct the key and post the WRITE again?",
			Answers: []string{"yes, on the same queue pair",
				"only after both queue pairs were reset and connected again"}, Right: 1,
			Why: "Both are in ERR, where every request is flushed. That makes guessing keys expensive: each wrong " +
				"guess costs the connection.",
		},
		{
			Name: "other-region", Title: "The right address with another region's rkey",
			Text: `
B has two regions, "buf" and "other", and A mixes them up: the address is in "buf", the key is that of "other". Both exist, both allow
writing.

{1 RDMA_WRITE_ONLY} leaves. {: 1 arrives} But a key opens its own region's addresses only, and the address lies outside.
It answers {2 NAK remote access error}.

A has {A 1 REM_ACCESS_ERR}.

So an address and an rkey belong together, and are handed over together.`,
			Scenario: func(w *world.World) {
				a, b := connected(w, qp.RC)
				other := b.RegMR("other", 4096, all)
				wr := a.write(1, 32, b, 0)
				wr.RKey = other.RKey()
				_ = a.QP.PostSend(wr)
				finish(w, a, b)
			},
			Claims: []Claim{packets("RDMA_WRITE_ONLY", "NAK remote access error"), completes("A", qp.WCRemAccessErr),
				state("B", 0, qp.StateErr)},
			Question: "Does the NAK say which of key, address, length and right was wrong?",
			Answers:  []string{"yes, in its syndrome", "no: all of them are 0x62, remote access error"}, Right: 1,
			Why: "A peer is told as little as possible. B's own device may count more, for B's administrator.",
		},
		{
			Name: "out-of-range", Title: "A WRITE that runs out of the region",
			Text: `
B's region has 8192 bytes. A writes 2000, beginning 1000 before the end.

The RETH of {1 RDMA_WRITE_FIRST} has the length of the whole message. {2 RDMA_WRITE_LAST} is behind it.

{: 1 arrives} So B's device sees with the first packet that the message would not fit, and takes none of it. {3 NAK remote access error}
says so. Nothing is written, not even what would have fitted.

{: 2 arrives} Packet 2 was on its way already. B's queue pair is in the error state when it comes, and drops it.

A has {A 1 REM_ACCESS_ERR}.`,
			NIC: `
The same. Our own device, where its port sends runs of packets (udp does), makes a message of its own of each packet of a long WRITE: then
those that end before the region does are written.`,
			Scenario: func(w *world.World) {
				a, b := connected(w, qp.RC)
				_ = a.QP.PostSend(a.write(1, 2000, b, 8192-1000))
				finish(w, a, b)
			},
			Claims: []Claim{packets("RDMA_WRITE_FIRST", "RDMA_WRITE_LAST", "NAK remote access error"),
				completes("A", qp.WCRemAccessErr), has("B", "buf", 8192-1000, make([]byte, 1000)...),
				drops("B", wire.DropQPState, 1)},
			Question: "How many of the 2000 bytes are in B's memory?", Answers: []string{"0", "1000", "1024"}, Right: 0,
			Why: "The range is checked as a whole, with the first packet.",
		},
		{
			Name: "access-flags", Title: "Missing rights: 9 or 10",
			Text: `
Two places say what a peer may do: the region (the access of ibv_reg_mr) and the queue pair (qp_access_flags of ibv_modify_qp). Both
must allow it. Which one refuses shows in the status.

The first pair of queue pairs may do everything, but the region "closed" has no REMOTE_WRITE. {1 RDMA_WRITE_ONLY} comes to
{2 NAK remote access error}, and A has {A 1 REM_ACCESS_ERR}.

The second pair writes to "buf", which allows it, but B's queue pair has only REMOTE_READ. It refuses the operation of {3 RDMA_WRITE_ONLY}
itself, before it looks at any key: {4 NAK invalid request}. At B it is {B event QP_REQ_ERR} instead of {B event QP_ACCESS_ERR}.

A has {A 2 REM_INV_REQ_ERR}. So: 10 means look at the region and the key, 9 look at the queue pair (or at a message that is malformed).`,
			Scenario: func(w *world.World) {
				a, b := connected(w, qp.RC)
				closed := b.RegMR("closed", 4096, mr.LocalWrite|mr.RemoteRead)
				wr := a.write(1, 32, b, 0)
				wr.RemoteAddr, wr.RKey = closed.Addr(0), closed.RKey()
				_ = a.QP.PostSend(wr)
				w.Run()
				qa, qb := a.CreateQP(a.CQ, world.QPInit{}), b.CreateQP(b.CQ, world.QPInit{})
				qb.Attr.AccessFlags = mr.RemoteRead
				w.Connect(qa, qb)
				_ = qa.PostSend(a.write(2, 32, b, 0))
				finish(w, a, b)
			},
			Claims: []Claim{packets("RDMA_WRITE_ONLY", "NAK remote access error", "RDMA_WRITE_ONLY",
				"NAK invalid request"), completes("A", qp.WCRemAccessErr, qp.WCRemInvReqErr),
				event("B", qp.EventQPAccessErr), event("B", qp.EventQPReqErr)},
			Question: "A READ fails with status 9. What is the first thing to look at?",
			Answers:  []string{"the rkey", "qp_access_flags of the peer's queue pair", "the length of the region"},
			Right:    1, Why: "A wrong key, range or right of the region is 10. 9 comes from the queue pair: it " +
				"lacks REMOTE_READ, or max_dest_rd_atomic is 0.",
		},
		{
			Name: "local-rights", Title: "A READ into memory that may not be written",
			Text: `
A reads from B into a region that was registered with no rights at all. Reading such memory needs none, so SENDs from it work. But a READ
writes into it, and that needs LOCAL_WRITE. A's device sees it before it sends anything: {A 1 LOC_PROT_ERR}, and no packet.

The same is true of receives. {1 SEND_ONLY} is for a receive into memory without LOCAL_WRITE. Such a receive is taken when it is posted, and
fails when the message comes. {: 1 arrives} Now B has {B 1 LOC_PROT_ERR}, and its device can only answer {2 NAK remote operational error}: the
request was right, it is B that cannot do it.

A has {A 2 REM_OP_ERR}.`,
			Scenario: func(w *world.World) {
				a, b := connected(w, qp.RC)
				constant := a.RegMR("constant", 4096, 0)
				wr := a.read(1, 0, 32, b, 0)
				wr.SGL = []qp.SGE{constant.SGE(0, 32)}
				_ = a.QP.PostSend(wr)
				w.Run()
				qa, qb := a.CreateQP(a.CQ, world.QPInit{}), b.CreateQP(b.CQ, world.QPInit{})
				w.Connect(qa, qb)
				theirs := b.RegMR("constant", 4096, 0)
				_ = qb.PostRecv(qp.RecvWR{WRID: 7, SGL: []qp.SGE{theirs.SGE(0, 100)}})
				_ = qa.PostSend(a.send(2, 32))
				finish(w, a, b)
			},
			Claims: []Claim{packets("SEND_ONLY", "NAK remote operational error"),
				completes("A", qp.WCLocProtErr, qp.WCRemOpErr), completes("B", qp.WCLocProtErr),
				state("B", 0, qp.StateRTS)},
			Question: "A SEND ends with REM_OP_ERR (11). Where is the mistake?",
			Answers:  []string{"in the sender's memory", "in the receiver's posted receive", "in the rkey"}, Right: 1,
			Why: "A SEND names no remote memory. What the receiver's own receive names is the receiver's business: " +
				"its completion says more than the sender's.",
		},
		{
			Name: "num-sge", Title: "Too many elements, too much inline",
			Text: `
What can be seen in the request alone is refused when it is posted. A request may have as many scatter/gather elements as the queue pair was
made for (max_send_sge), here 4. For 5 it is {A refuses 1 EINVAL}.

A request may also be inline: its bytes go into the queue with it. The queue pair was made for 64. For 65 bytes inline it is
{A refuses 2 EINVAL}, and for an inline READ, which makes no sense, {A refuses 3 EINVAL}.

Nothing is queued, there is no completion, and the queue pair goes on: {1 RDMA_WRITE_ONLY}, {2 ACK}.

ibv_post_send takes a list. What stands before the wrong request is posted all the same; bad_wr points at the one that was refused.`,
			NIC: `
Not every driver checks everything on this path, as each check costs time. What it lets through ends as a completion with an error, such as
LOC_QP_OP_ERR (2).`,
			Scenario: func(w *world.World) {
				a, b := connected(w, qp.RC)
				many := a.write(1, 4, b, 0)
				for range 4 {
					many.SGL = append(many.SGL, a.Buf.SGE(0, 4))
				}
				_ = a.QP.PostSend(many)
				inline := qp.SendWR{WRID: 2, Opcode: qp.WRSend, Flags: qp.SendInline, Inline: make([]byte, 65)}
				_ = a.QP.PostSend(inline)
				read := a.read(3, 0, 32, b, 0)
				read.Flags |= qp.SendInline
				_ = a.QP.PostSend(read)
				_ = a.QP.PostSend(a.write(4, 32, b, 0))
				finish(w, a, b)
			},
			Claims: []Claim{refused("A", "EINVAL", "EINVAL", "EINVAL"), packets("RDMA_WRITE_ONLY", "ACK"),
				completes("A", qp.WCSuccess)},
			Question: "ibv_post_send returns EINVAL. When does the completion of that request come?",
			Answers:  []string{"at once, with an error status", "never", "when the queue pair is closed"}, Right: 1,
			Why: "A request that was refused was never in the queue. Only what was accepted completes.",
		},
		{
			Name: "too-long", Title: "A message longer than the receive",
			Text: `
{: B ibv_post_recv} B has posted a receive of 100 bytes. Nobody tells a sender how long the receives of its peer are.

A sends 200: {1 SEND_ONLY}.

{: 1 arrives} There is no such thing as half a message: B's device answers {2 NAK invalid request}. B has {B 1 LOC_LEN_ERR}.

A has {A 1 REM_INV_REQ_ERR}, and both queue pairs are in the error state.

So programs agree on a length, or send the length first.`,
			NIC: `
NICs differ in B's status: LOC_LEN_ERR (1) or REM_INV_REQ_ERR (9). rxe answers with a remote operational error, so A has status 11 there.`,
			Scenario: func(w *world.World) {
				a, b := connected(w, qp.RC)
				_ = b.recv(7, 0, 100)
				_ = a.QP.PostSend(a.send(1, 200))
				finish(w, a, b)
			},
			Claims: []Claim{packets("SEND_ONLY", "NAK invalid request"), completes("A", qp.WCRemInvReqErr),
				completes("B", qp.WCLocLenErr), state("A", 0, qp.StateErr), state("B", 0, qp.StateErr),
				has("B", "buf", 0, make([]byte, 100)...)},
			Question: "And if the receive is longer than the message?",
			Answers: []string{"the rest is filled with zeros", "success, and byte_len says how much came",
				"LOC_LEN_ERR as well"}, Right: 1, Why: "Room that is not needed is left as it was.",
		},
		{
			Name: "misaligned", Title: "Alignment: buffers may, atomics may not",
			Text: `
A's WRITE takes 33 bytes from an odd address, and puts them to another odd address: {1 RDMA_WRITE_ONLY}, {2 ACK}, {A 1 SUCCESS}. Bytes are bytes.

An atomic works on 8 bytes that begin at a multiple of 8. For 4 beside that it was {A refuses 1 EINVAL}, when it was posted, as the address is in
the request. And it needs exactly 8 bytes for the old value: {A refuses 2 EINVAL} for 16.`,
			NIC: `
A NIC's driver may not look; then the responder does, and answers NAK invalid request: status 9 instead of EINVAL.`,
			Scenario: func(w *world.World) {
				a, b := connected(w, qp.RC)
				wr := a.write(1, 33, b, 77)
				wr.SGL[0].Addr += 3
				_ = a.QP.PostSend(wr)
				_ = a.QP.PostSend(a.add(2, 4096, b, 132, 1))
				long := a.add(3, 4096, b, 128, 1)
				long.SGL[0].Length = 16
				_ = a.QP.PostSend(long)
				finish(w, a, b)
			},
			Claims: []Claim{packets("RDMA_WRITE_ONLY", "ACK"), completes("A", qp.WCSuccess),
				holds("B", "buf", 77, "A", "buf", 3, 33), refused("A", "EINVAL", "EINVAL")},
			Question: "A region begins at an odd address. Can it be registered?",
			Answers:  []string{"yes", "no, regions begin at a page"}, Right: 0,
			Why: "A region may begin and end at any byte. The device maps whole pages, but checks bytes.",
		},
		{
			Name: "rnr", Title: "No receive is posted", Queues: true,
			Text: `
{: A ibv_post_send} A posts a SEND. B's program has posted no receive.

{1 SEND_ONLY} leaves. {: 1 arrives} It finds nothing to take. B's device answers {2 RNR NAK 0.64 ms}: receiver not ready, come back
in 0.64 ms.

{: A wait} A's device waits. How long B asks for is in B's queue pair (min_rnr_timer, a code: 12 is 0.64 ms). How often A tries again is
in A's (rnr_retry).

{: B ibv_post_recv} In the meantime B's program posts a receive.

The time is over, and A's device sends the same again: {3 SEND_ONLY}. {: 3 arrives} It takes the receive, and all is well: {B 1 SUCCESS}.
{4 ACK} goes back, and A has {A 1 SUCCESS}.

It works, but it has taken as long as 150 round trips. Programs post receives before the peer may send, and count them.`,
			Scenario: func(w *world.World) {
				a, b := connected(w, qp.RC)
				_ = a.QP.PostSend(a.send(1, 32))
				w.RunFor(100 * world.Microsecond)
				_ = b.recv(7, 0, 100)
				finish(w, a, b)
			},
			Claims: []Claim{packets("SEND_ONLY", "RNR NAK 0.64 ms", "SEND_ONLY", "ACK"), completes("A", qp.WCSuccess),
				completes("B", qp.WCSuccess), records("A", qp.RecordWait, 1)},
			Question: "Which of these can get an RNR NAK?", Answers: []string{"an RDMA WRITE", "an RDMA READ",
				"a WRITE with immediate data"}, Right: 2,
			Why: "Only what takes a receive: SENDs, and WRITEs with immediate data. A plain WRITE or READ needs none.",
		},
		{
			Name: "rnr-exceeded", Title: "Never a receive: RNR retry exceeded",
			Text: `
The same, but B never posts a receive, and A's rnr_retry is 2. {1 SEND_ONLY} gets {2 RNR NAK}.

Two more follow, {3 SEND_ONLY} and {5 SEND_ONLY}, and each has its answer, {4 RNR NAK} and {6 RNR NAK}.

Then A gives up: {A 1 RNR_RETRY_EXC_ERR}, and its queue pair is in the error state. B's is not: it has only said "not yet".

rnr_retry 7 stands for "for ever". Many programs set it, and then seem to hang when a receive is forgotten.`,
			Scenario: func(w *world.World) {
				a, b := two(w, qp.RC)
				a.QP.Attr.RNRRetry = 2
				w.Connect(a.QP, b.QP)
				w.RunFor(world.Microsecond)
				_ = a.QP.PostSend(a.send(1, 32))
				finish(w, a, b)
			},
			Claims: []Claim{completes("A", qp.WCRNRRetryExcErr), state("A", 0, qp.StateErr),
				state("B", 0, qp.StateRTS), records("A", qp.RecordWait, 2), records("A", qp.RecordGiveUp, 1)},
			Question: "Whose rnr_retry counts here, and whose min_rnr_timer?",
			Answers:  []string{"A's and A's", "A's rnr_retry, B's min_rnr_timer", "B's and B's"}, Right: 1,
			Why: "The one who waits decides how often; the one who is not ready says for how long.",
		},
		{
			Name: "cq-overrun", Title: "A completion queue that nobody polls", Queues: true,
			Text: `
A's completion queue has 2 entries. {: A ibv_post_send} A posts three signaled WRITEs, which are to yield a completion each, and does not
poll.

{: 1-3 arrives} {1 RDMA_WRITE_ONLY}, {2 RDMA_WRITE_ONLY} and {3 RDMA_WRITE_ONLY} arrive. {: without 4-6} Their bytes are in B's memory.

Two completions fit: {A 1 SUCCESS} and {A 2 SUCCESS}.

The third is lost: {A event CQ_ERR}. A queue pair whose completions cannot be told is of no use, so it goes to the error
state: {A event QP_FATAL}. The bytes are in B's memory all the same. A's program can never know.

A completion queue must have room for all requests that may complete between two polls: at least the sizes of all queues that complete
there.`,
			NIC: `
The CQ is in the error state for good, on a NIC as here: destroy it. rxe drops the completion and goes on. Sizes are rounded up, so an
overrun may come later than it was asked for.`,
			Scenario: func(w *world.World) {
				a, b := two(w, qp.RC)
				small := a.CreateCQ(2)
				q := a.CreateQP(small, world.QPInit{})
				w.Connect(q, b.QP)
				w.RunFor(world.Microsecond)
				_ = q.PostSend(a.write(1, 32, b, 0), a.write(2, 32, b, 32), a.write(3, 32, b, 64))
				w.Run()
			},
			Claims: []Claim{completes("A", qp.WCSuccess, qp.WCSuccess), event("A", qp.EventCQErr),
				event("A", qp.EventQPFatal), state("A", 1, qp.StateErr), holds("B", "buf", 64, "A", "buf", 0, 32)},
			Question: "Two queue pairs of 64 requests each way complete in one queue. How large must it be?",
			Answers:  []string{"64", "128", "256"}, Right: 2, Why: "2 queue pairs, each 64 sends and 64 receives: " +
				"256 completions if nobody polls meanwhile and all are signaled.",
		},
	}}
