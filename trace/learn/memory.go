package learn

// The chapter of memory that others write: whose keys are good for what, what can be seen half
// done, what an attacker can do, and what registering, copying and a device's caches cost.

import (
	"fmt"
	"slices"

	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/trace/world"
	"github.com/goroce/goroce/wire"
)

var memory = Chapter{Name: "memory", Title: "Memory that others write",
	Text: `
A program that gives away a key shares its memory with a machine that it does not control. What that allows, what it does not, and what it
takes.`,
	Lessons: []*Lesson{
		{
			Name: "other-pd", Title: "Keys of another protection domain",
			Text: `
B's program serves two customers, with a protection domain for each. A is the first. The second's region has an rkey that A has got hold of.
A writes with it: {1 RDMA_WRITE_ONLY}. Key, address and rights are all right. But A's connection is a queue pair of the first domain, and
the key is of the second: {2 NAK remote access error}, {A 1 REM_ACCESS_ERR}. For B's device the key does not exist.

It is the same for B's own lkeys: a SEND on the first queue pair from the second's memory ends, without a packet, with {B 1 LOC_PROT_ERR}.

A domain costs nothing. A server that trusts its clients differently has one for each of them.`,
			Scenario: func(w *world.World) {
				a, b := connected(w, qp.RC)
				second := b.AllocPD()
				buf := b.RegMRIn(second, "buf2", make([]byte, 4096), all)
				own := b.CreateQP(b.CQ, world.QPInit{})
				w.Connect(own, a.CreateQP(a.CQ, world.QPInit{}))
				wr := a.write(1, 32, b, 0)
				wr.RemoteAddr, wr.RKey = buf.Addr(0), buf.RKey()
				_ = a.QP.PostSend(wr)
				w.Run()
				_ = own.PostSend(qp.SendWR{
					WRID:   5,
					Opcode: qp.WRSend,
					Flags:  qp.SendSignaled,
					SGL:    []qp.SGE{buf.SGE(0, 32)},
				})
				finish(w, a, b)
			},
			Claims: []Claim{packets("RDMA_WRITE_ONLY", "NAK remote access error"), completes("A", qp.WCRemAccessErr),
				completes("B", qp.WCLocProtErr), has("B", "buf2", 0, make([]byte, 32)...)},
			Question: "What else must be of the queue pair's own domain?",
			Answers:  []string{"its completion queue", "a shared receive queue and memory windows", "nothing"},
			Right:    1, Why: "Completion queues belong to the device. Regions, windows, address handles, shared " +
				"receive queues and queue pairs are of a domain.",
		},
		{
			Name: "torn-read", Title: "A READ that is torn",
			Text: `
B's program keeps a record of 7000 bytes, with its version at the front and again at the end: 1 and 1. A READs it: {1 RDMA_READ_REQUEST}.
While B's device sends the seven responses, B's program makes a new record: version 2 and 2. {2 RDMA_READ_RESPONSE_FIRST} was read before
that, {8 RDMA_READ_RESPONSE_LAST} after it. What A has is neither: version 1 at the front and 2 at the end. And {A 1 SUCCESS}: every byte
came as it was when the device looked.

A compares the two versions, sees that they differ, and READs again: {9 RDMA_READ_REQUEST}. Now it has 2 and 2.

The writer must store the end's version first, then the data, then the front's, each visible before the next, and the reader may trust a
copy only if both are the same; if the device does not read in order, it takes a version in each cache line, or a checksum over all.`,
			NIC: `
The same, and finer: a NIC fetches cache lines, which may tear within a packet. No order between them is promised. 8 bytes that lie in one
line are not torn.`,
			Scenario: func(w *world.World) {
				a, b := connected(w, qp.RC)
				b.Buf.Set(0, native(1))
				b.Buf.Set(6992, native(1))
				w.After(6*world.Microsecond, func() {
					b.Buf.Set(6992, native(2))
					b.Buf.Set(0, native(2))
				})
				_ = a.QP.PostSend(a.read(1, 0, 7000, b, 0))
				w.Run()
				a.Buf.Set(7100, slices.Clone(a.Buf.Bytes[:8])) // what A compares
				a.Buf.Set(7108, slices.Clone(a.Buf.Bytes[6992:7000]))
				_ = a.QP.PostSend(a.read(2, 0, 7000, b, 0))
				finish(w, a)
			},
			Claims: []Claim{completes("A", qp.WCSuccess, qp.WCSuccess), has("A", "buf", 7100, native(1)...),
				has("A", "buf", 7108, native(2)...), has("A", "buf", 0, native(2)...),
				has("A", "buf", 6992, native(2)...)},
			Question: "Would a lock in B's memory, which B's program takes before it changes the record, help A?",
			Answers:  []string{"yes, if A takes it too, by an atomic", "no"}, Right: 0,
			Why: "A takes it by compare-and-swap, READs, and gives it back: two more round trips, and a lock that " +
				"stays taken if A dies. Versions need one READ in the good case.",
		},
		{
			Name: "no-scatter", Title: "A WRITE cannot scatter at the far end",
			Text: `
A has 16 bytes in two places and wants them in two places of B's. The WRITE's list gathers: {1 RDMA_WRITE_ONLY} has all 16, one address, and
they lie in a row at B. There is no list of remote addresses.

Two WRITEs do it, {3 RDMA_WRITE_ONLY} and {4 RDMA_WRITE_ONLY}, posted as one list, if A knows both places. Or a SEND: {6 SEND_ONLY} knows no
address, and B's receive has a list of two, so B's program decides where each part goes: {B 1 SUCCESS}.

So where layout belongs to the receiver, SEND; where the sender knows it, WRITE.`,
			Scenario: func(w *world.World) {
				a, b := connected(w, qp.RC)
				two := a.write(1, 0, b, 0)
				two.SGL = []qp.SGE{a.Buf.SGE(0, 8), a.Buf.SGE(512, 8)}
				_ = a.QP.PostSend(two)
				w.Run()
				second := a.write(3, 0, b, 2048)
				second.SGL = []qp.SGE{a.Buf.SGE(512, 8)}
				_ = a.QP.PostSend(quiet(a.write(2, 8, b, 1024)), second)
				w.Run()
				_ = b.QP.PostRecv(qp.RecvWR{WRID: 7, SGL: []qp.SGE{b.Buf.SGE(4096, 8), b.Buf.SGE(5120, 8)}})
				send := a.send(4, 0)
				send.SGL = two.SGL
				_ = a.QP.PostSend(send)
				finish(w, a, b)
			},
			Claims: []Claim{packets("RDMA_WRITE_ONLY", "ACK", "RDMA_WRITE_ONLY", "RDMA_WRITE_ONLY", "ACK", "SEND_ONLY",
				"ACK"), completes("B", qp.WCSuccess),
				holds("B", "buf", 0, "A", "buf", 0, 8), holds("B", "buf", 8, "A", "buf", 512, 8),
				holds("B", "buf", 2048, "A", "buf", 512, 8), holds("B", "buf", 4096, "A", "buf", 0, 8),
				holds("B", "buf", 5120, "A", "buf", 512, 8)},
			Question: "And a READ: can it gather from several remote places?",
			Answers:  []string{"yes", "no: one remote range; it scatters into a local list"}, Right: 1,
			Why: "READ and WRITE packets have one RETH. The list is always the side's that posts.",
		},
		{
			Name: "two-devices", Title: "Two devices and one counter",
			Text: `
B's machine has two devices, B1 and B2, and both have registered the same memory, with a counter in it. A adds 5 by B1, {2 FETCH_ADD}, and 7
by B2, {1 FETCH_ADD}. Here the counter ends at 12, as our device adds with an atomic instruction of the processor (IBV_ATOMIC_GLOB).

Each of the two can only promise for itself that nothing comes between its reading and its writing. With IBV_ATOMIC_HCA, which most NICs
say, B1 may read 0, B2 read 0, B1 write 5, and B2 write 7: one of the two additions is lost, and both completions say success.

So give each counter to one device, or ask ibv_query_device for atomic_cap before you share it.`,
			Scenario: func(w *world.World) {
				a := newEnd(w, "A", qp.RC)
				b1 := newEnd(w, "B1", qp.RC)
				b2 := w.AddHost("B2")
				shared := b2.RegMRIn(b2.PD, "buf", b1.Buf.Bytes, all)
				q2, peer := a.CreateQP(a.CQ, world.QPInit{}), b2.CreateQP(b2.CreateCQ(4), world.QPInit{})
				w.Connect(a.QP, b1.QP)
				w.Connect(q2, peer)
				_ = a.QP.PostSend(a.add(1, 4096, b1, 0, 5))
				second := a.add(2, 4104, b1, 0, 7)
				second.RemoteAddr, second.RKey = shared.Addr(0), shared.RKey()
				_ = q2.PostSend(second)
				finish(w, a)
			},
			Claims: []Claim{completes("A", qp.WCSuccess, qp.WCSuccess), has("B1", "buf", 0, native(12)...),
				has("B2", "buf", 0, native(12)...)},
			Question: "Two queue pairs of one NIC add to the same counter. Is the sum right?",
			Answers:  []string{"yes: IBV_ATOMIC_HCA covers all queue pairs of a device", "no"}, Right: 0,
			Why: "Atomic to a device means against everything that comes by way of it.",
		},
		capability,
		registration,
		copies,
		caches,
	}}

// forged is the packet that A sends first in the lesson, as somebody on the way saw it, made into
// the one that comes next: another PSN, other bytes, and a right ICRC, which is no secret.
func forged() []byte {
	seen := world.Run(func(w *world.World) {
		a, b := connected(w, qp.RC)
		_ = a.QP.PostSend(a.write(1, 4, b, 0))
		w.Run()
	}, nil).Packets[0].Bytes
	f, _ := wire.SplitFrame(seen)
	var p wire.Packet
	if wire.Parse(&f, &p) != wire.DropNone {
		return nil
	}
	p.BTH.SetPSN(p.BTH.PSN().Add(1))
	copy(p.Payload, "evil")
	wire.Seal(&f)
	return seen
}

var capability = &Lesson{
	Name: "capabilities", Title: "Keys are capabilities, and packets are open",
	Text: fmt.Sprintf(`
An rkey is all that it takes: who knows it, the address and the queue pair's number and PSN may write. B does not ask who somebody is. That
is a capability, as the key of a house is. It must not be guessed: here it has 32 random bits, the queue pair number and PSN 24 each, and a
packet must bear the peer's address and fit the next PSN. One packet in 2^%d would do, for somebody who sees nothing.

But who sees the packets sees all of it. A writes: {1 RDMA_WRITE_ONLY}, {2 ACK}. C, somewhere on the way, takes the packet it saw, counts
the PSN up, puts in its own bytes, computes the ICRC, which guards against accidents and not against people, and sends it as if it were A:
{3 RDMA_WRITE_ONLY}. B's device has no reason to doubt it, and writes "evil".
Its {4 ACK} goes to A, which has sent nothing of the kind and drops it: a counter is all that tells.

{: 5 sent} And A? Its next WRITE, {5 RDMA_WRITE_ONLY}, has a PSN that B has seen already. B takes it for a repetition: acknowledges it and throws it
away. {A 2 SUCCESS}, and its bytes are not there.

So RoCE belongs on networks that are trusted, or into a tunnel (IPsec, MACsec) between hosts. Besides: a domain for each client, regions no
larger and rights no wider than needed, memory windows for a transfer, and keys taken back (SEND with invalidate) when it is done.
SECURITY.md says what this stack promises.`, 24+24+32),
	NIC: `
Many NICs number keys and queue pairs one after the other: who has one of its own can guess the next. Papers have shown it (ReDMArk, 2021).`,
	Scenario: func(w *world.World) {
		a, b := connected(w, qp.RC)
		c := w.AddHost("C")
		_ = a.QP.PostSend(a.write(1, 4, b, 0))
		w.Run()
		c.Inject(forged())
		w.Run()
		_ = a.QP.PostSend(a.write(2, 4, b, 0))
		finish(w, a)
	},
	Claims: []Claim{completes("A", qp.WCSuccess, qp.WCSuccess), has("B", "buf", 0, []byte("evil")...),
		fate(3, world.Delivered), records("B", qp.RecordExecuted, 2)},
	Question: "Does the ICRC protect against C?", Answers: []string{"yes, it covers keys, PSN and payload",
		"no: everybody can compute it"}, Right: 1,
	Why: "It has no secret in it. It finds bits that have flipped.",
}

// What registering and copying took on the machine of the README ("roce perf reg"), in nanoseconds.
const (
	pinned4K, copied4K = 1330 + 950, 74
	pinned4M, copied4M = 111490 + 80380, 283390
)

var registration = &Lesson{
	Name: "registration", Title: "Why memory is registered, and what it costs",
	Text: fmt.Sprintf(`
A device is given addresses by strangers and must not ask the operating system about each packet. So the program registers what it is going
to use, before: the driver keeps the pages in memory, so that they stay where they are (pins them), tells the device which physical page is
behind each address, and makes the keys under which it may be used, and how.

B registers the same 4096 bytes twice, once to be written and once to be read only. {1 RDMA_WRITE_ONLY} with the first key is executed,
{3 RDMA_WRITE_ONLY} with the second is refused: {A 2 REM_ACCESS_ERR}. A key is not a place, but a right to it.

What it costs: on the machine of the README, with pages pinned, %d ns for 4 KiB and %d us for 4 MiB, there and back, where copying the same
bytes takes %d ns and %d us. So one small message is better copied into memory that is registered once for ever (a bounce buffer), unless
the same buffer is used %d times or more; megabytes are better registered. "roce perf reg" has your own machine's table.`, pinned4K, pinned4M/1000, copied4K, copied4M/1000, pinned4K/copied4K+1),
	NIC: `
A driver also writes an entry for each page into the NIC's table. Programs that cannot know their buffers before keep a cache of
registrations, which must hear of every munmap; or they use on-demand paging, where the NIC asks the system when a page is not there.`,
	Scenario: func(w *world.World) {
		a, b := connected(w, qp.RC)
		bytes := make([]byte, 4096)
		write, read := b.RegMRIn(b.PD, "to write", bytes, mr.LocalWrite|mr.RemoteWrite),
			b.RegMRIn(b.PD, "to read", bytes, mr.RemoteRead)
		for i, r := range []*world.Region{write, read} {
			wr := a.write(uint64(i+1), 32, b, 0)
			wr.RemoteAddr, wr.RKey = r.Addr(64*i), r.RKey()
			_ = a.QP.PostSend(wr)
			w.Run()
		}
		finish(w, a, b)
	},
	Claims: []Claim{packets("RDMA_WRITE_ONLY", "ACK", "RDMA_WRITE_ONLY", "NAK remote access error"),
		completes("A", qp.WCSuccess, qp.WCRemAccessErr), holds("B", "to write", 0, "A", "buf", 0, 32)},
	Question: "A program sends each of its 100-byte messages from a buffer of its own, once. What is best?",
	Answers:  []string{"register each buffer", "copy it, or send it inline", "register all of memory anew each time"},
	Right:    1, Why: "A hundred bytes are copied in a few nanoseconds. Registering takes a thousand times that.",
}

// Copying at 100 Gbit/s: each byte that is copied is read once and written once.
const (
	lineGB   = 100 / 8.0 // gigabytes a second of 100 Gbit/s
	twiceGB  = 2 * 2 * lineGB
	coreGB   = 10 // that one core copies, about
	coresFor = 2 * lineGB / coreGB
)

var copies = &Lesson{
	Name: "copies", Title: "Zero copies against two",
	Text: fmt.Sprintf(`
With sockets each byte is copied twice: by send from the program into the kernel's buffers, by recv out of them at the other end. With RDMA
the device takes the bytes from the program's memory and puts them into the other program's: {1 SEND_ONLY} goes straight into the buffer
that B's receive names, {B 1 SUCCESS}. Nobody stores it elsewhere in between.

At 100 Gbit/s that is %.1f GB/s. Two copies read and write each byte twice: %.0f GB/s of memory traffic that zero copies do not have. A core
copies about %d GB/s, so the copies alone keep %.1f cores busy, both ends together.

It is not free: memory must be registered, and a buffer belongs to the device until its completion. The program must wait before it uses it
again, which with send it need not.`, lineGB, twiceGB, coreGB, coresFor),
	NIC: `
This stack is software: it copies each payload once into the packets, and the kernel's network stack does what it does with them. "Zero
copies" is what a NIC gives you; what you keep here is the interface.`,
	Scenario: func(w *world.World) {
		a, b := connected(w, qp.RC)
		_ = b.recv(7, 512, 1000)
		_ = a.QP.PostSend(a.send(1, 1000))
		finish(w, a, b)
	},
	Claims: []Claim{packets("SEND_ONLY", "ACK"), completes("B", qp.WCSuccess),
		holds("B", "buf", 512, "A", "buf", 0, 1000)},
	Question: "A program writes into its buffer right after ibv_post_send has returned. What does the peer get?",
	Answers:  []string{"the old bytes", "the new ones", "either, or a part of each"}, Right: 2,
	Why: "The device reads the memory when it makes the packet, and once more if it has to send it again.",
}

// What a NIC remembers, and where.
const (
	registered  = 16 << 30
	entries     = registered / 4096
	tableMiB    = entries * 8 >> 20
	hugeKiB     = registered / (2 << 20) * 8 >> 10
	contextByte = 512
	pairs       = 10_000
)

var caches = &Lesson{
	Name: "caches", Title: "What a device has to remember", SetUp: true,
	Text: fmt.Sprintf(`
To execute a packet a NIC needs the state of its queue pair, the region of its key, and the physical page of its address. All of it is in
the host's memory. On the NIC there are caches of a few megabytes; what is not in them is fetched across PCI Express, 300 to 500 ns each.

16 GiB in pages of 4 KiB are %d entries of 8 bytes: %d MiB of table. No cache holds that; random accesses miss. In pages of 2 MiB they are
%d KiB, which always fit. %d queue pairs of %d bytes are %.1f MB: connections miss, too. So: huge pages, few large regions instead of many
small ones, and not a connection for each pair of threads.

B's device here has a table for 16 pages. A region of 32 KiB takes 8 of them and one of 16 KiB 4; 4 single bytes as many as 16 KiB. Then it
is full: {B refuses 1 ENOMEM}. What counts is pages, not bytes.`, entries, tableMiB, hugeKiB, pairs, contextByte, float64(pairs*contextByte)/1e6),
	NIC: `
How many misses there are only the vendors' counters tell. This stack's tables are the host's memory and caches; what many queue pairs cost
it is in bench/RESULTS.md.`,
	Scenario: func(w *world.World) {
		b := w.AddHost("B")
		b.MaxPages = 16
		b.RegMR("32 KiB", 32<<10, all)
		w.RunFor(world.Microsecond)
		b.RegMR("16 KiB", 16<<10, all)
		for i := range 5 {
			w.RunFor(world.Microsecond)
			b.RegMR(fmt.Sprintf("byte %d", i+1), 1, all)
		}
	},
	Claims: []Claim{refused("B", "ENOMEM"), packets()},
	Question: "How much of their time do huge pages save random accesses to 16 GiB, if a miss costs 400 ns and a " +
		"small WRITE takes 1.2 us otherwise?", Answers: []string{"a tenth", "a quarter", "three quarters"}, Right: 1,
	Why: "1.6 us with the miss, 1.2 without: a quarter off the time, if hardly any other access missed before.",
}
