package learn

// The first chapter: what the operations are, one after the other, from nothing.

import (
	"encoding/binary"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/trace/world"
	"github.com/goroce/goroce/wire"
)

var operations = Chapter{Name: "operations", Title: "What RDMA does",
	Text: `
RDMA lets a program read and write the memory of a program on another machine, and send it messages, without either operating system
having a hand in it. A device does it: a network adapter (a NIC) in hardware, or, as here, a program that speaks the same packets.
"roce demo" shows all operations of this chapter at once, between two real devices on this machine. Here they come one at a time,
slowly, in a simulated world, where you can lose a packet and see what follows.`,
	Lessons: []*Lesson{
		{
			Name: "write", Title: "An RDMA WRITE, step by step", Queues: true,
			Text: `
A and B are programs on two machines. A has 32 bytes that are to be in B's memory. With RDMA A puts them there by an RDMA WRITE, and B's
program need not do anything.

It is not the programs that move bytes but their devices. A device touches only regions: memory that its program has registered.
A and B have registered "buf", each its own.

Registering gives keys. A's device wants the lkey of A's region, and B's device the rkey of B's. B has given its rkey to A, and the address of
the region. Without them A could do nothing.

Each program has a queue pair, and the two are connected: each works with the other one only. A queue pair is two lists, the send
queue and the receive queue. (How they were connected is a later lesson.)

{: A ibv_post_send} A's program posts a work request to its send queue: WRITE, these 32 bytes with their lkey, to that address of B's with
that rkey. No system call is made, and the program goes on at once.

A's device takes the request, checks the lkey, reads the 32 bytes and makes {1 RDMA_WRITE_ONLY} of them. The packet has a number, the PSN,
and a header, the RETH, with B's address, the rkey and the length.

{: 1 arrives} B's device looks the rkey up. Is there such a region, may this queue pair use it, does it allow writing, are all 32 bytes
inside of it? Then the device writes them.

It answers with {2 ACK}. B's program had no part in this. It does not even know.

{: 2 arrives} When the ACK arrives A's device puts a completion into A's completion queue: {A 1 SUCCESS}.

{: A poll} A's program finds it when it polls the queue. From now on the 32 bytes at A may be used for something else.`,
			NIC: `
The steps are the same. The doorbell is a write across PCI Express; the NIC then fetches the request and the bytes by DMA, so it must
know the physical address of every page, and the pages must stay where they are: that is what registration is for. Here registration
pins nothing, as the device is a part of the program.`,
			Inside: insideWrite,
			Scenario: func(w *world.World) {
				a, b := connected(w, qp.RC)
				_ = a.QP.PostSend(a.write(1, 32, b, 0))
				finish(w, a, b)
			},
			Claims: []Claim{packets("RDMA_WRITE_ONLY", "ACK"), completes("A", qp.WCSuccess), completes("B"),
				holds("B", "buf", 0, "A", "buf", 0, 32)},
			Question: "When does A's program know that the bytes are in B's memory?",
			Answers: []string{"when ibv_post_send has returned", "when packet 1 has left",
				"when it finds the completion", "never"},
			Right: 2, Why: "The completion is made when {2 ACK} has arrived, and B's device sends that after it has " +
				"taken the write. Posting only puts a request into a queue.",
		},
		{
			Name: "packets", Title: "A message of several packets",
			Text: `
A packet carries at most one path MTU of payload: 256, 512, 1024, 2048 or 4096 bytes. Both ends agree on it when they connect. Here it is
1024.

{: A ibv_post_send} A posts a WRITE of 3000 bytes. One work request, and it will be one completion.

A's device makes three packets of it: {1 RDMA_WRITE_FIRST}, {2 RDMA_WRITE_MIDDLE}, {3 RDMA_WRITE_LAST}. The first has the RETH with address,
key and the length of it all. FIRST and MIDDLE are full, LAST has the rest.

Each packet has a PSN, one more than the one before, modulo 2^24. So a receiver sees at once when one is missing.

A packet asks for an ACK by a bit in its header, AckReq. Here the first one does, and gets {4 ACK}: it is how this device measures the round
trip. The last packet of a message nearly always asks.

{5 ACK} names PSN 1002. An ACK speaks for all before the PSN that it names, so it says that all three packets are there. With it A has
{A 1 SUCCESS}.`,
			NIC: `
Which packets ask for an ACK is the sender's choice, and when to send one the receiver's: NICs often acknowledge several messages at
once. A path MTU of 4096 needs an Ethernet MTU of 4200 or more; with 1500 it is 1024.`,
			Scenario: func(w *world.World) {
				a, b := connected(w, qp.RC)
				_ = a.QP.PostSend(a.write(1, 3000, b, 0))
				finish(w, a, b)
			},
			Claims: []Claim{packets("RDMA_WRITE_FIRST", "RDMA_WRITE_MIDDLE", "RDMA_WRITE_LAST", "ACK", "ACK"),
				completes("A", qp.WCSuccess), holds("B", "buf", 0, "A", "buf", 0, 3000)},
			Question: "How many packets are 4097 bytes at a path MTU of 1024?",
			Answers:  []string{"4", "5", "6"}, Right: 1,
			Why: "4097 / 1024 is 4 and a byte more: FIRST, three times MIDDLE, and a LAST of 1 byte.",
		},
		{
			Name: "send", Title: "SEND and RECV", Queues: true,
			Text: `
A WRITE says where the bytes go. A SEND does not: the receiver decides.

{: B ibv_post_recv} B's program posts a receive before the message comes: a work request in its receive queue that names memory, here 100 bytes.

{: A ibv_post_send} A posts a SEND of 32 bytes. It needs no address and no rkey of B's.

{1 SEND_ONLY} leaves. {: 1 arrives} B's device takes the oldest receive and writes the bytes where it says.

Both programs have a part in a SEND, so both get a completion. B's, {B 1 SUCCESS}, has the length of what came. The receive that was used up
is gone: each message needs one of its own. A second SEND would find none.

A has {A 1 SUCCESS} when {2 ACK} has arrived.`,
			Inside: insideSend,
			Scenario: func(w *world.World) {
				a, b := connected(w, qp.RC)
				_ = b.recv(7, 512, 100)
				w.RunFor(world.Microsecond)
				_ = a.QP.PostSend(a.send(1, 32))
				finish(w, a, b)
			},
			Claims: []Claim{packets("SEND_ONLY", "ACK"), completes("A", qp.WCSuccess), completes("B", qp.WCSuccess),
				holds("B", "buf", 512, "A", "buf", 0, 32)},
			Question: "B's receive has room for 100 bytes, and 32 come. What does B's completion say?",
			Answers:  []string{"byte_len 32, success", "byte_len 100, success", "an error: the length is wrong"},
			Right:    0, Why: "A receive is the most that may come. The completion has the length of the message. " +
				"Only more than fits is an error.",
		},
		{
			Name: "read", Title: "An RDMA READ",
			Text: `
A wants 2000 bytes of B's memory. For an RDMA READ B's region must allow REMOTE_READ, and A's region, which the bytes go into, LOCAL_WRITE.
B's program has no part in it.

{1 RDMA_READ_REQUEST} has no payload, only a RETH: B's address, rkey and length.

B's device answers with the bytes: {2 RDMA_READ_RESPONSE_FIRST} and {3 RDMA_READ_RESPONSE_LAST}. They are acknowledgement enough.

The responses have PSNs too. The request has taken as many numbers as responses will come, so the request after it would have PSN 1002.

{: 3 arrives} Only now is the last byte at A: {A 1 SUCCESS}. A READ takes a whole round trip before the first byte is there; a WRITE
needs half of one.`,
			NIC: `
B's NIC must remember each READ until it is answered, so there is a limit: max_rd_atomic at the side that asks, max_dest_rd_atomic at
the one that answers. 16 is a usual number. Further READs wait in A's send queue, and with them everything that was posted later.`,
			Inside: insideRead,
			Scenario: func(w *world.World) {
				a, b := connected(w, qp.RC)
				b.fill()
				_ = a.QP.PostSend(a.read(1, 4096, 2000, b, 100))
				finish(w, a, b)
			},
			Claims: []Claim{packets("RDMA_READ_REQUEST", "RDMA_READ_RESPONSE_FIRST", "RDMA_READ_RESPONSE_LAST"),
				completes("A", qp.WCSuccess), completes("B"), holds("A", "buf", 4096, "B", "buf", 100, 2000)},
			Question: "Which packet acknowledges a READ request?",
			Answers: []string{"an ACK that comes before the data", "the responses themselves",
				"none: READs are not reliable"}, Right: 1,
			Why: "FIRST and LAST of the responses carry an AETH, the header that acknowledges, as an ACK does: {3 " +
				"RDMA_READ_RESPONSE_LAST} says that all is done.",
		},
		{
			Name: "atomics", Title: "Fetch-and-add, compare-and-swap",
			Text: `
Two operations read and change 8 bytes of the peer's memory in one step: fetch-and-add and compare-and-swap. The 8 bytes at B must lie at a
multiple of 8, and the region must allow REMOTE_ATOMIC. What was there before comes back, to 8 bytes of A's own.

{1 FETCH_ADD} adds 7 to the counter at B, which is 41. {2 ATOMIC_ACKNOWLEDGE} brings the old value back.

{3 COMPARE_SWAP} says: if it is 48, make it 1000. {4 ATOMIC_ACKNOWLEDGE} brings 48, so now it is 1000.

{5 COMPARE_SWAP} wants 48 again, and finds 1000. It changes nothing, and says so by what {6 ATOMIC_ACKNOWLEDGE} brings back.

That is not an error. All three end with {A 3 SUCCESS}. A program that swaps has to compare what came back with what it hoped for.`,
			NIC: `
The number is in the byte order of B's machine in memory, big-endian on the wire. Some NICs also have masked atomics, which are no part
of the standard.`,
			Scenario: func(w *world.World) {
				a, b := connected(w, qp.RC)
				number(b.Buf, 64, 41)
				_ = a.QP.PostSend(a.add(1, 4096, b, 64, 7))
				w.Run()
				for i, old := range []int{4104, 4112} {
					cas := a.add(uint64(2+i), old, b, 64, 48)
					cas.Opcode, cas.Swap = qp.WRAtomicCmpAndSwp, 1000
					_ = a.QP.PostSend(cas)
					w.Run()
				}
				finish(w, a)
			},
			Claims: []Claim{packets("FETCH_ADD", "ATOMIC_ACKNOWLEDGE", "COMPARE_SWAP", "ATOMIC_ACKNOWLEDGE",
				"COMPARE_SWAP", "ATOMIC_ACKNOWLEDGE"),
				completes("A", qp.WCSuccess, qp.WCSuccess, qp.WCSuccess), has("B", "buf", 64, native(1000)...),
				has("A", "buf", 4096, native(41)...), has("A", "buf", 4104, native(48)...),
				has("A", "buf", 4112, native(1000)...)},
			Question: "How does A know that its second compare-and-swap has changed nothing?",
			Answers: []string{"its completion has an error status", "B answers with a NAK",
				"the old value that came back is not the one it compared with"}, Right: 2,
			Why: "{6 ATOMIC_ACKNOWLEDGE} brings 1000, and A had asked for 48. The status is success: the operation " +
				"was executed, and its answer is no.",
		},
		{
			Name: "atomic-covers", Title: "What \"atomic\" covers",
			Text: `
An atomic operation is atomic against other atomic operations through the same device. That is all that is promised everywhere
(IBV_ATOMIC_HCA). It does not stop B's own processor.

See what becomes of a counter that both change. It is 10. B's program loads it, to add 1.

In between A's {1 FETCH_ADD} comes. {: 1 arrives} B's device adds 5: it is 15. {2 ATOMIC_ACKNOWLEDGE} brings back the 10.

{: B cpu 2} Now B's program stores what it has worked out, 11. A's 5 are lost, and A's completion says {A 1 SUCCESS}.

B's program must use an atomic instruction, if device and processor are atomic to each other (IBV_ATOMIC_GLOB; ibv_query_device tells). Or
it takes an RDMA atomic of its own, through the same device, to itself.`,
			NIC: `
Most NICs say IBV_ATOMIC_HCA: not even an atomic instruction of B's processor helps then, nor does a second NIC in B: each is atomic
for itself alone. Here it is IBV_ATOMIC_GLOB, as the device uses the processor's atomic instructions.`,
			Scenario: func(w *world.World) {
				a, b := connected(w, qp.RC)
				number(b.Buf, 0, 10)
				_ = a.QP.PostSend(a.add(1, 4096, b, 0, 5))
				w.RunFor(world.Microsecond)
				loaded := binary.NativeEndian.Uint64(b.Buf.Bytes)
				w.RunFor(5 * world.Microsecond)
				number(b.Buf, 0, loaded+1)
				finish(w, a)
			},
			Claims: []Claim{packets("FETCH_ADD", "ATOMIC_ACKNOWLEDGE"), completes("A", qp.WCSuccess),
				has("A", "buf", 4096, native(10)...), has("B", "buf", 0, native(11)...)},
			Question: "Two NICs of B get a fetch-and-add to the same counter at the same moment. Is the sum right?",
			Answers: []string{"yes, that is what atomic means", "only if B's devices say IBV_ATOMIC_GLOB",
				"only over InfiniBand"}, Right: 1,
			Why: "With IBV_ATOMIC_HCA a device is atomic to itself. Another device, or the processor, may come " +
				"between its reading and its writing.",
		},
		{
			Name: "uc", Title: "UC: the same without a guarantee",
			Text: `
An unreliable connection (UC) has SEND and WRITE, and no acknowledgements. READ and atomics do not exist over UC: they need an answer.

A's device sends {1 RDMA_WRITE_FIRST}. Here {2 lost}. The last one is {3 RDMA_WRITE_LAST}.

A's completion is made when the last packet has left: {A 1 SUCCESS} says nothing about B.

{: 3 arrives} B's device sees by the PSN that a packet is missing, and throws the rest of the message away. 1024 bytes are in B's memory, the others
are not. Nobody is told: no negative acknowledgement (NAK), no event, no completion.

{4 RDMA_WRITE_ONLY} is the next message. {: 4 arrives} It is taken as if nothing had happened.`,
			Scenario: func(w *world.World) {
				w.Change(2, world.Drop)
				a, b := connected(w, qp.UC)
				_ = a.QP.PostSend(a.write(1, 3000, b, 0))
				w.Run()
				_ = a.QP.PostSend(a.write(2, 8, b, 4096))
				finish(w, a, b)
			},
			Claims: []Claim{packets("RDMA_WRITE_FIRST", "RDMA_WRITE_MIDDLE", "RDMA_WRITE_LAST", "RDMA_WRITE_ONLY"),
				fate(2, world.Lost), completes("A", qp.WCSuccess, qp.WCSuccess), completes("B"),
				holds("B", "buf", 0, "A", "buf", 0, 1024), has("B", "buf", 1024, make([]byte, 1976)...),
				holds("B", "buf", 4096, "A", "buf", 0, 8)},
			Question: "How does A's program find out about the lost packet?",
			Answers: []string{"by an error completion", "by an asynchronous event",
				"not at all, unless B's program tells it"}, Right: 2,
			Why: "Nothing goes from B to A over UC. If it matters, B's program has to check what it got, and to say " +
				"so by a message of its own.",
		},
		{
			Name: "ud", Title: "Datagrams: UD",
			Text: `
A UD queue pair is not connected. Each request says where it goes: an address handle, made once for each destination, and the number of the
queue pair there.

And it bears a Q_Key, a number that both sides know. A message is one packet, a datagram, so it has at most one path MTU of bytes.

{1 SEND_ONLY} is the first. A has {A 1 SUCCESS} when the packet has left, as with UC.

{: 1 arrives} B's receive had room for 40 bytes more. They are filled with the IP header of the packet, behind 20 bytes of nothing for IPv4,
so that B knows who has sent it. The completion's length counts them, {B 1 SUCCESS}: 60 for 20 bytes. A receive without that room gets
nothing.

{2 SEND_ONLY} has a wrong Q_Key. {: 2 arrives} B's device drops it without a word.

{3 SEND_ONLY} is right again, but B has posted no second receive. {: 3 arrives} It is dropped, too. A does not know. That is all like UDP.`,
			Scenario: func(w *world.World) {
				a, b := two(w, qp.UD)
				a.QP.Activate()
				b.QP.Activate()
				_ = b.recv(7, 0, 40+100)
				w.RunFor(world.Microsecond)
				ah := a.AH(b.GID)
				for i, qkey := range []uint32{b.QP.Attr.QKey, 0xbad, b.QP.Attr.QKey} {
					wr := a.send(uint64(i+1), 20)
					wr.AH, wr.RemoteQPN, wr.RemoteQKey = ah, b.QP.QPN(), qkey
					_ = a.QP.PostSend(wr)
					w.Run()
				}
				finish(w, a, b)
			},
			Claims: []Claim{packets("SEND_ONLY", "SEND_ONLY", "SEND_ONLY"), completes("A", qp.WCSuccess, qp.WCSuccess,
				qp.WCSuccess), completes("B", qp.WCSuccess),
				holds("B", "buf", 40, "A", "buf", 0, 20), drops("B", wire.DropQKey, 1), drops("B", wire.DropNoRecv, 1)},
			Question: "B's program reads 60 bytes from its buffer. Where does the message begin?",
			Answers:  []string{"at byte 0", "at byte 20", "at byte 40"}, Right: 2,
			Why: "The first 40 bytes are the place of a GRH: an IPv6 header, or 20 unused bytes and an IPv4 header.",
		},
		{
			Name: "multicast", Title: "One datagram to many",
			Text: `
B and C have attached their UD queue pairs to a multicast group, 239.1.2.3. What is sent to the group comes to all of them.

{: A ibv_post_send} A posts one datagram, to the group's address and to queue pair 0xffffff, which stands for all that are attached.

The switch makes the copies: {1 SEND_ONLY} to B and {2 SEND_ONLY} to C. A has {A 1 SUCCESS}: the packet has left.

B has {B 1 SUCCESS}. {: 2 arrives} C has no receive posted. Its copy is dropped, and neither A nor B ever knows. Multicast has no
acknowledgements; a protocol above it has to see what is missing.`,
			NIC: `
Attaching joins the group by IGMP or MLD, so that switches send its packets this way; with RoCE the connection manager does it
(rdma_join_multicast). Here the switch is a line of the simulation.`,
			Scenario: func(w *world.World) {
				group := wire.GID{10: 0xff, 11: 0xff, 12: 239, 13: 1, 14: 2, 15: 3}
				a, b := two(w, qp.UD)
				c := newEnd(w, "C", qp.UD)
				for _, e := range []*end{a, b, c} {
					e.QP.Activate()
				}
				_, _ = b.QP.AttachMcast(group), c.QP.AttachMcast(group)
				_ = b.recv(7, 0, 100)
				w.RunFor(world.Microsecond)
				wr := a.send(1, 20)
				wr.AH, wr.RemoteQPN, wr.RemoteQKey = a.AH(group), wire.MulticastQPN, b.QP.Attr.QKey
				_ = a.QP.PostSend(wr)
				finish(w, a, b, c)
			},
			Claims: []Claim{packets("SEND_ONLY", "SEND_ONLY"), completes("A", qp.WCSuccess),
				completes("B", qp.WCSuccess), completes("C"), drops("C", wire.DropNoRecv, 1)},
			Question: "A wants to know whether all members have got its datagram. What can it do?",
			Answers: []string{"ask for an ACK in the packet", "have the members answer with messages of their own",
				"use RC multicast"}, Right: 1, Why: "Only UD has multicast, and UD has no acknowledgements.",
		},
		{
			Name: "scatter-gather", Title: "Scatter and gather",
			Text: `
A work request names its memory by a list of elements: address, length, lkey. One is a scatter/gather element (SGE). How long a list may be is
fixed when the queue pair is made (max_send_sge, max_recv_sge).

{: A ibv_post_send} A's SEND has three elements, 4, 8 and 20 bytes from three places.

The device gathers them: {1 SEND_ONLY} has 32 bytes in a row, and no trace of where they came from.

{: 1 arrives} B's receive has two elements, of 10 and 100 bytes. The device scatters: the first 10 bytes of the message go to the first, the
other 22 to the second. The lists need not match. A header can so be taken apart from its data at either end, without a copy.

{2 ACK} comes back, as for any SEND: {A 1 SUCCESS}.`,
			Scenario: func(w *world.World) {
				a, b := connected(w, qp.RC)
				_ = b.QP.PostRecv(qp.RecvWR{WRID: 7, SGL: []qp.SGE{b.Buf.SGE(0, 10), b.Buf.SGE(1000, 100)}})
				wr := a.send(1, 0)
				wr.SGL = []qp.SGE{a.Buf.SGE(0, 4), a.Buf.SGE(500, 8), a.Buf.SGE(100, 20)}
				_ = a.QP.PostSend(wr)
				finish(w, a, b)
			},
			Claims: []Claim{packets("SEND_ONLY", "ACK"), completes("A", qp.WCSuccess), completes("B", qp.WCSuccess),
				holds("B", "buf", 0, "A", "buf", 0, 4), holds("B", "buf", 4, "A", "buf", 500, 6),
				holds("B", "buf", 1000, "A", "buf", 506, 2), holds("B", "buf", 1002, "A", "buf", 100, 20)},
			Question: "Can the WRITE of a list scatter at the far end?",
			Answers: []string{"yes, one remote address for each element",
				"no: it names one remote address, from which on all bytes lie"}, Right: 1,
			Why: "A WRITE packet has one RETH: one address, one key, one length. Only the local side of a WRITE has " +
				"a list. To scatter remotely, SEND, or post several WRITEs.",
		},
	}}

// number stores 8 bytes as a number of the machine.
func number(r *world.Region, at int, n uint64) { r.Set(at, native(n)) }

func native(n uint64) []byte { return binary.NativeEndian.AppendUint64(nil, n) }

// What a NIC does of a request, stage by stage: R1 the work request, R2 the doorbell, R3 its fetch,
// R4 translation and DMA, R5 the packet, R6 the completion.
var (
	stageR1 = Stage{Step: "R1", Name: "work request", cue: "A ibv_post_send",
		NIC:  "The program writes a work queue entry (WQE) into the ring of its send queue, in its own memory.",
		Here: "The same: an entry in a ring."}
	stageR2 = Stage{Step: "R2", Name: "doorbell", cue: "A ibv_post_send",
		NIC: "One store to a register of the NIC, across PCI Express (MMIO), says which queue pair has work. The NIC " +
			"wakes up.",
		Here: "No register: the stack's own loop takes a turn."}
	stageR3 = Stage{Step: "R3", Name: "fetch", cue: "A request",
		NIC:  "The NIC reads the WQE from the ring by DMA. That takes 300 to 500 ns.",
		Here: "The device is a part of the program, and reads the entry as any code does."}
	stageR6 = Stage{Step: "R6", Name: "completion", cue: "A completion",
		NIC: "The answer is here. The NIC writes a completion queue entry (CQE) into the ring of the completion " +
			"queue by " +
			"DMA. The program polls that memory, and finds it.",
		Here: "The device puts the entry there itself."}
)

var insideWrite = []Stage{stageR1, stageR2, stageR3,
	{Step: "R4", Name: "translate, read", cue: "A request",
		NIC: "The NIC looks the lkey up: which region, are all 32 bytes inside? Its translation table (MTT) has the " +
			"physical " +
			"page behind the address. It reads the 32 bytes from there by DMA.",
		Here: "The lkey is looked up in a table of slices. No physical address is needed, and nothing is pinned."},
	{Step: "R5", Name: "packet", cue: "1 sent",
		NIC: "It makes the packet, with B's rkey and address in the RETH, and sends it. B's machine is named by the " +
			"IP " +
			"header; only InfiniBand has a DLID for that.",
		Here: "The same bytes, handed to a UDP socket."},
	{Step: "B", Name: "translate, write", cue: "1 arrives",
		NIC: "B's NIC looks the rkey up in its own table, writes the bytes to the physical page by DMA, and sends " +
			"the ACK. " +
			"No processor of B's has run.",
		Here: "A processor of B's runs the stack and copies the bytes. B's program still knows nothing."},
	stageR6}

var insideSend = []Stage{stageR1, stageR2, stageR3,
	{Step: "R4", Name: "translate, read", cue: "A request",
		NIC:  "By the lkey the NIC finds the region and the physical page, and reads the 32 bytes by DMA.",
		Here: "The lkey is looked up in a table of slices."},
	{Step: "R5", Name: "packet", cue: "1 sent",
		NIC: "It makes the packet. There is no RETH: no address, no rkey.", Here: "The same bytes, handed to a UDP " +
			"socket."},
	{Step: "B", Name: "receive", cue: "1 arrives",
		NIC: "B's NIC takes the oldest WQE of the receive queue, which it has often fetched before, translates its " +
			"address " +
			"by its lkey, and writes the bytes there by DMA. Then it sends the ACK, and writes a CQE for B's program.",
		Here: "A processor of B's runs the stack and copies the bytes."},
	stageR6}

var insideRead = []Stage{stageR1, stageR2, stageR3,
	{Step: "R4", Name: "translate", cue: "A request",
		NIC: "The NIC looks the lkey up: may it write there (LOCAL_WRITE), are all 2000 bytes inside? It reads " +
			"nothing: the " +
			"bytes come from B.",
		Here: "The same, in a table of slices."},
	{Step: "R5", Name: "packet", cue: "1 sent",
		NIC: "It makes the request, with B's rkey and address in the RETH, and remembers that it waits for two " +
			"answers.",
		Here: "The same bytes, handed to a UDP socket."},
	{Step: "B", Name: "translate, read", cue: "1 arrives",
		NIC: "B's NIC looks the rkey up, reads the bytes from the physical page by DMA, and sends them as two " +
			"responses. No " +
			"processor of B's has run.",
		Here: "A processor of B's runs the stack and copies the bytes."},
	{Step: "A", Name: "DMA write", cue: "3 arrives",
		NIC:  "A's NIC writes what comes to the physical page that R4 has found, by DMA.",
		Here: "The stack copies it there."},
	stageR6}
