package learn

// The chapter of what an exercise sheet predicts and few have seen: numbers of elements that are
// wrong within the limit, an address and a key that change places, pages that a device finds
// elsewhere than the program, and what a NIC does step by step.
//
// What a NIC and an operating system do with pages and rings is acted by the scenarios: a region
// "frame 7" is a page of physical memory as the NIC's table has it, another frame is where the
// program's own table leads.

import (
	"encoding/binary"
	"fmt"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/trace/world"
	"github.com/goroce/goroce/wire"
)

var predictions = Chapter{Name: "predictions", Title: "What exercise sheets predict",
	Text: `
Sheets of exercises ask what happens if num_sge is wrong, if a page moves, if keys are mixed up, and what a NIC does at each step. Here each of
it happens. Where the operating system or hardware of a NIC has a part in it, that part is acted: this world has neither, and says so. The
course of two afternoons that these lessons belong to is docs/course of the repository.`,
	Lessons: []*Lesson{numSGEZero, numSGEGarbage, keysSwapped, pageMoved, pageSwapped, pageUnmapped, rings}}

var numSGEZero = &Lesson{
	Name: "num-sge-zero", Title: "num_sge is 0: a success that does nothing", Queues: true,
	Text: `
A tutorial's send_data fills in a scatter/gather element and lets wr.sg_list point at it, but the line wr.num_sge = 1 is missing. The request
was all zeros before, as C leaves what an initialiser does not name, so num_sge is 0: a message of no elements, and so of no bytes.

Nothing is wrong with that. A's device sends {1 RDMA_WRITE_ONLY}, a WRITE of 0 bytes, B's device acknowledges it, {2 ACK}, and A has
{A 1 SUCCESS}. The program prints "completed successfully". B's memory is as it was.

Then A posts the same with num_sge = 1: {3 RDMA_WRITE_ONLY} has 32 bytes, and they are at B.

No status tells the two apart, as both did what they were asked to. What tells: byte_len of a receive (not of a WRITE), the length in the RETH of
the packet, or a look at the memory. So fill in requests in one place, and let a test look at the far end.`,
	NIC: `
The same. An empty request is even useful: a WRITE or READ of 0 bytes finds out whether the peer still answers. The rkey of one is not looked
at, neither by a NIC nor here.`,
	Scenario: func(w *world.World) {
		a, b := connected(w, qp.RC)
		forgotten := a.write(1, 0, b, 0)
		forgotten.SGL = nil
		_ = a.QP.PostSend(forgotten)
		w.Run()
		_ = a.QP.PostSend(a.write(2, 32, b, 1024))
		finish(w, a, b)
	},
	Claims: []Claim{packets("RDMA_WRITE_ONLY", "ACK", "RDMA_WRITE_ONLY", "ACK"),
		completes("A", qp.WCSuccess, qp.WCSuccess), has("B", "buf", 0, make([]byte, 32)...),
		holds("B", "buf", 1024, "A", "buf", 0, 32)},
	Question: "A SEND with num_sge 0, to a peer that has posted a receive of 100 bytes. What does the peer get?",
	Answers:  []string{"nothing: no packet is sent", "a completion with byte_len 0", "LOC_LEN_ERR"}, Right: 1,
	Why: "A message without bytes is a message: one packet, which takes a receive. With immediate data it is a " +
		"common " +
		"way to notify.",
}

var numSGEGarbage = &Lesson{
	Name: "num-sge-garbage", Title: "num_sge is too large: garbage is sent",
	Text: `
The queue pair was made for 4 elements (max_send_sge), the list has one, and num_sge is 2. Nobody can see from the number that it is wrong: it
is within the limit, so it is not refused. The device reads a second element from where the list has ended.

What is there is chance. Here it is first an element of an earlier request, which still lies on the program's stack: an address, a length and
an lkey that are all valid. {1 RDMA_WRITE_ONLY} has the 32 bytes that A meant, and 16 bytes of something else behind them. {A 1 SUCCESS}: 48
bytes were written, and what lay behind the 32 at B is overwritten. Nobody is told.

Then it is garbage proper. Its lkey is of no region: {A 2 LOC_PROT_ERR}. No packet leaves, and A's queue pair is in the error state.

The second kind is the lucky one: it ends at once, with status 4. If you see 4, or bytes behind a message that nobody sent, count the elements.
More of them than the queue pair takes is another matter: that is refused when it is posted (lesson num-sge).`,
	NIC: `
The driver copies the elements into the send queue while posting, so it is the driver that reads beyond the list, and it may crash there.
What it has copied the NIC looks at as here.`,
	Scenario: func(w *world.World) {
		a, b := connected(w, qp.RC)
		stale := a.write(1, 32, b, 0)
		stale.SGL = append(stale.SGL, a.Buf.SGE(4096, 16))
		_ = a.QP.PostSend(stale)
		w.Run()
		garbage := a.write(2, 32, b, 1024)
		garbage.SGL = append(garbage.SGL, qp.SGE{Addr: 0x7ffd_0000_0040, Length: 0x1f80, LKey: 0x7ffd})
		_ = a.QP.PostSend(garbage)
		finish(w, a, b)
	},
	Claims: []Claim{packets("RDMA_WRITE_ONLY", "ACK"), completes("A", qp.WCSuccess, qp.WCLocProtErr),
		holds("B", "buf", 0, "A", "buf", 0, 32), holds("B", "buf", 32, "A", "buf", 4096, 16),
		has("B", "buf", 1024, make([]byte, 32)...), state("A", 0, qp.StateErr)},
	Question: "num_sge is 2, the list has 3 elements. What happens?",
	Answers: []string{"EINVAL", "the third is not sent, and the completion says success",
		"LOC_LEN_ERR"}, Right: 1,
	Why: "The device takes as many as it is told. A message that is too short succeeds as well as one that is " +
		"too long.",
}

// offer is what B tells A about its memory: an address and a key, in the order of the network.
func offer(addr uint64, rkey uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(nil, addr), rkey)
}

var keysSwapped = &Lesson{
	Name: "keys-swapped", Title: "The address and the key change places", Queues: true,
	Text: `
Before A can write, B must tell it an address (8 bytes) and an rkey (4 bytes). How is up to the programs: a TCP connection, the private data of
the connection manager, or, as here, a message: {1 SEND_ONLY} has the 12 bytes. A reads the address first, then the key, as B has written
them, and {3 RDMA_WRITE_ONLY} is executed: {A 2 SUCCESS}.

On a second connection B sends the same, {5 SEND_ONLY}, to a program that reads the key first. It takes 4 bytes of the address for the key
and the rest, with the key behind, for the address. {7 RDMA_WRITE_ONLY} goes out with that: an rkey that B never gave, and an address where
nothing is. {8 NAK remote access error}, {A 4 REM_ACCESS_ERR}.

The status is that of a wrong key, of a wrong address, and of a number whose bytes are in the wrong order: the last happens between machines of
different kinds, and never in the test on one machine. So write down the layout, with its byte order, and print both at both ends: if they
differ, the exchange is wrong, and not RDMA.`,
	NIC: `
The same. In C a struct with an address and a key also has padding, 4 bytes behind the key, that two compilers need not agree on.`,
	Scenario: func(w *world.World) {
		a, b := connected(w, qp.RC)
		qa, qb := a.CreateQP(a.CQ, world.QPInit{}), b.CreateQP(b.CQ, world.QPInit{})
		w.Connect(qa, qb)
		b.Buf.Set(4096, offer(b.Buf.Addr(0), b.Buf.RKey()))
		for i, pair := range [][2]*world.QP{{a.QP, b.QP}, {qa, qb}} {
			at := 4096 + 64*i
			_ = pair[0].PostRecv(qp.RecvWR{WRID: uint64(10 + i), SGL: []qp.SGE{a.Buf.SGE(at, 12)}})
			tell := b.send(uint64(20+i), 0)
			tell.SGL = []qp.SGE{b.Buf.SGE(4096, 12)}
			_ = pair[1].PostSend(tell)
			w.Run()
			got := a.Buf.Bytes[at:]
			wr := a.write(uint64(1+i), 32, b, 0)
			wr.RemoteAddr, wr.RKey = binary.BigEndian.Uint64(got), binary.BigEndian.Uint32(got[8:])
			if i == 1 {
				wr.RKey, wr.RemoteAddr = binary.BigEndian.Uint32(got), binary.BigEndian.Uint64(got[4:])
			}
			_ = pair[0].PostSend(wr)
			w.Run()
		}
		finish(w, a, b)
	},
	Claims: []Claim{packets("SEND_ONLY", "ACK", "RDMA_WRITE_ONLY", "ACK", "SEND_ONLY", "ACK", "RDMA_WRITE_ONLY",
		"NAK remote access error"), completes("A", qp.WCSuccess, qp.WCSuccess, qp.WCSuccess, qp.WCRemAccessErr),
		holds("B", "buf", 0, "A", "buf", 0, 32), state("A", 1, qp.StateErr), state("A", 0, qp.StateRTS)},
	Question: "Both ends print the rkey: one 0x12345678, the other 0x78563412. What is missing?",
	Answers:  []string{"htonl and ntohl", "ibv_reg_mr", "a protection domain"}, Right: 0,
	Why: "The bytes are in the order of another machine. A key of your own printing backwards is the surest sign.",
}

// into is a WRITE of 32 bytes to a place of a region.
func (e *end) into(wrid uint64, r *world.Region, at int) qp.SendWR {
	return qp.SendWR{WRID: wrid, Opcode: qp.WRWrite, Flags: qp.SendSignaled, SGL: []qp.SGE{e.Buf.SGE(0, 32)},
		RemoteAddr: r.Addr(at), RKey: r.RKey()}
}

// from is a READ of 16 bytes from a region's beginning to a place of the buffer.
func (e *end) from(wrid uint64, r *world.Region, to int) qp.SendWR {
	return qp.SendWR{WRID: wrid, Opcode: qp.WRRead, Flags: qp.SendSignaled, SGL: []qp.SGE{e.Buf.SGE(to, 16)},
		RemoteAddr: r.Addr(0), RKey: r.RKey()}
}

var pageMoved = &Lesson{
	Name: "page-moved", Title: "A page moves, pinned and not",
	Text: `
A program's addresses are not places in memory. The system's table says in which frame, a page of physical memory, the bytes behind an address
are, and the system may move them: to make room for a huge page, or nearer to another processor. The program notices nothing, as its
table is changed with it. A NIC has a table of its own, made when the memory was registered, and nobody changes that.

B's buffer is in frame 7, and that is what the NIC's table has. {1 RDMA_WRITE_ONLY} arrives, and B's program sees it. Then imagine a driver that
has not pinned the page: the system moves it to frame 9, and gives frame 7 to another program, which stores "theirs" there.
{3 RDMA_WRITE_ONLY} goes to frame 7. {A 2 SUCCESS}. B's program looks at its buffer, now in frame 9: nothing has come. And the other
program's memory has 32 bytes that it never wrote.

Frame 12 is pinned, as ibv_reg_mr does it. The system wants to move it, and must let it be. {5 RDMA_WRITE_ONLY} arrives where it should.

So "pinned" is a promise to the NIC: the frame behind this address stays the same until ibv_dereg_mr.`,
	NIC: `
Drivers of the kernel always pin, so the first half does not happen to you: it is why they do. With on-demand paging they do not pin; then the
system tells the driver before it moves a page, the NIC's entry is taken out, and the next access waits until there is a new one. This
stack touches memory by the program's own addresses, so it follows every move, and pins nothing unless Config.PinMemory says so.`,
	Scenario: func(w *world.World) {
		a, b := connected(w, qp.RC)
		seven := b.RegMR("frame 7", 4096, all)
		nine := b.Show("frame 9", make([]byte, 4096))
		twelve := b.RegMR("frame 12", 4096, all)
		_ = a.QP.PostSend(a.into(1, seven, 0))
		w.Run()
		b.Did("the system moves the page from frame 7 to frame 9; frame 7 is another program's now", func() {
			copy(nine.Bytes, seven.Bytes)
			clear(seven.Bytes)
			copy(seven.Bytes, "theirs")
		})
		_ = a.QP.PostSend(a.into(2, seven, 64))
		w.Run()
		b.Did("the system wants to move frame 12, which is pinned: it stays", func() {})
		_ = a.QP.PostSend(a.into(3, twelve, 0))
		finish(w, a, b)
	},
	Claims: []Claim{packets("RDMA_WRITE_ONLY", "ACK", "RDMA_WRITE_ONLY", "ACK", "RDMA_WRITE_ONLY", "ACK"),
		completes("A", qp.WCSuccess, qp.WCSuccess, qp.WCSuccess), has("B", "frame 7", 0, []byte("theirs")...),
		holds("B", "frame 9", 0, "A", "buf", 0, 32), has("B", "frame 9", 64, make([]byte, 32)...),
		holds("B", "frame 7", 64, "A", "buf", 0, 32), holds("B", "frame 12", 0, "A", "buf", 0, 32)},
	Question: "What does pinning cost the machine?",
	Answers: []string{"a copy of each page", "memory that can neither be moved nor swapped out while it is registered",
		"an interrupt for each access"}, Right: 1,
	Why: "1 GiB registered is 262,144 pages that the system cannot use otherwise. That is what ulimit -l bounds.",
}

var pageSwapped = &Lesson{
	Name: "page-swapped", Title: "A page is swapped out, pinned and not",
	Text: `
When memory is short the system writes pages that nobody has touched for a while to the disk and uses their frames for others. What a NIC does
to a page does not count as touching: the processor does not see it.

B's program has stored "balance: 100" in its page, which is in frame 7. A READs it: {1 RDMA_READ_REQUEST}, {2 RDMA_READ_RESPONSE_ONLY}.
Then imagine again that nobody has pinned it: the system writes the page to the disk, and frame 7 becomes another program's, which keeps a
password there. A READs again, with the same key: {3 RDMA_READ_REQUEST}. {4 RDMA_READ_RESPONSE_ONLY} brings the password. {A 2 SUCCESS}:
key, address, length and rights are right.

Frame 12 is pinned. The system looks for pages to swap out and passes it over; {6 RDMA_READ_RESPONSE_ONLY} has what B's program stored.

A copy into the kernel's buffers, as send() makes it, needs no pinning: the processor copies, and if the page is on the disk it is fetched
first. Zero copies are paid for with memory that stays.`,
	NIC: `
As with pages that move: drivers pin, or with on-demand paging fetch the page before the NIC gets it, which takes as long as a fault and a disk
do. Here a page that is on the disk is fetched when the device, a program like any other, touches it.`,
	Scenario: func(w *world.World) {
		a, b := connected(w, qp.RC)
		seven, twelve := b.RegMR("frame 7", 4096, all), b.RegMR("frame 12", 4096, all)
		disk := b.Show("disk", make([]byte, 4096))
		seven.Set(0, []byte("balance: 100"))
		twelve.Set(0, []byte("balance: 100"))
		clear(a.Buf.Bytes[4096:])
		_ = a.QP.PostSend(a.from(1, seven, 4096))
		w.Run()
		b.Did("the system writes frame 7 to the disk; another program gets the frame and stores a password", func() {
			copy(disk.Bytes, seven.Bytes)
			clear(seven.Bytes)
			copy(seven.Bytes, "hunter2")
		})
		_ = a.QP.PostSend(a.from(2, seven, 4096+64))
		w.Run()
		b.Did("the system looks for pages to swap out: frame 12 is pinned, and stays", func() {})
		_ = a.QP.PostSend(a.from(3, twelve, 4096+128))
		finish(w, a)
	},
	Claims: []Claim{packets("RDMA_READ_REQUEST", "RDMA_READ_RESPONSE_ONLY", "RDMA_READ_REQUEST",
		"RDMA_READ_RESPONSE_ONLY", "RDMA_READ_REQUEST", "RDMA_READ_RESPONSE_ONLY"),
		completes("A", qp.WCSuccess, qp.WCSuccess, qp.WCSuccess),
		has("A", "buf", 4096, []byte("balance: 100")...), has("A", "buf", 4096+64, []byte("hunter2")...),
		has("A", "buf", 4096+128, []byte("balance: 100")...), has("B", "disk", 0, []byte("balance: 100")...)},
	Question: "Why does send() of a socket need no pinned memory?",
	Answers: []string{"the kernel copies at once, and what is on the disk is fetched for it", "sockets use huge pages",
		"the kernel pins it secretly for the whole connection"}, Right: 0,
	Why: "When send has returned the bytes are in the kernel's own memory, which is never swapped out.",
}

var pageUnmapped = &Lesson{
	Name: "page-unmapped", Title: "munmap without ibv_dereg_mr, as a NIC sees it",
	Text: `
B's program has registered its buffer, in frame 7, and given A the key. {1 RDMA_WRITE_ONLY} arrives. Then the program unmaps the buffer and forgets
ibv_dereg_mr. The frame is pinned, so the system keeps it for the NIC, although no address of the program leads there any more. The program
maps memory anew, happens to get the same address, and this time it is frame 9.

{3 RDMA_WRITE_ONLY} has the same address and the same key, and both are valid: the NIC's table says frame 7. {A 2 SUCCESS}, and the program
looks into frame 9, where nothing has come. No error, nowhere.

At last it calls ibv_dereg_mr. The key ends, and only now the system gets the frame back. {5 RDMA_WRITE_ONLY} is refused:
{6 NAK remote access error}, {A 3 REM_ACCESS_ERR}.

The lesson unmapped has what this stack does instead: it meets the fault, and says so.`,
	Scenario: func(w *world.World) {
		a, b := connected(w, qp.RC)
		seven := b.RegMR("frame 7", 4096, all)
		nine := b.Show("frame 9", make([]byte, 4096))
		_ = a.QP.PostSend(a.into(1, seven, 0))
		w.Run()
		b.Did("munmap, then mmap: the program's address leads to frame 9; frame 7 stays pinned",
			func() { clear(nine.Bytes) })
		_ = a.QP.PostSend(a.into(2, seven, 64))
		w.Run()
		_ = seven.DeregMR()
		_ = a.QP.PostSend(a.into(3, seven, 128))
		finish(w, a, b)
	},
	Claims: []Claim{packets("RDMA_WRITE_ONLY", "ACK", "RDMA_WRITE_ONLY", "ACK", "RDMA_WRITE_ONLY",
		"NAK remote access error"), completes("A", qp.WCSuccess, qp.WCSuccess, qp.WCRemAccessErr),
		holds("B", "frame 7", 64, "A", "buf", 0, 32), has("B", "frame 7", 128, make([]byte, 32)...),
		has("B", "frame 9", 64, make([]byte, 32)...)},
	Question: "Who may call munmap of registered memory without the program's knowing?",
	Answers:  []string{"nobody", "free(), for large buffers, and libraries that give memory back", "the NIC"}, Right: 1,
	Why: "That is why caches of registrations listen to every munmap, which is harder than it sounds.",
}

// What the lesson of the rings takes, in nanoseconds, as the exercise sheet has it.
const (
	fetchRequest = 100 // from the doorbell until the NIC has read the request
	startDMA     = 50  // until it begins to read the data
)

// ringEntry is a work request as this lesson lays it out: 64 bytes, of which drivers of NICs make
// another use each.
func ringEntry(wr *qp.SendWR) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(wr.Opcode))
	b = binary.BigEndian.AppendUint32(b, wr.SGL[0].Length)
	b = binary.BigEndian.AppendUint64(b, wr.SGL[0].Addr)
	b = binary.BigEndian.AppendUint64(b, uint64(wr.SGL[0].LKey))
	b = binary.BigEndian.AppendUint64(b, wr.RemoteAddr)
	return append(binary.BigEndian.AppendUint64(b, uint64(wr.RKey)), make([]byte, 24)...)
}

var rings = &Lesson{
	Name: "rings", Title: "Where the queues live, and what a NIC does with them", Queues: true,
	Text: fmt.Sprintf(`
A WRITE of 4096 bytes, in the six steps that exercise sheets trace, R1 to R6. The queues of A are shown as what they are, memory: a send queue of
4 entries of 64 bytes, a completion queue of 4 entries of 32, a doorbell of 8 bytes, and the NIC's table. The first two are the program's own
memory, which the driver has allocated, pinned and told the NIC of. The doorbell is a page of the NIC that the driver has mapped into the
program: that is why no system call is needed.

R1: the program fills in a request and ibv_post_send writes it into the send queue: opcode, length, address and lkey of the buffer, remote address,
rkey. R2: it stores the queue pair's number into the doorbell: that store crosses PCI Express and is all that the NIC gets. Call it T0.

R3: the NIC reads the entry, from the send queue and not from the buffer, as some sheets have it: T1 = T0 + %d ns. R4: it looks up the lkey in its table:
is there such a region, are the bytes within it, and in which frame are they? Then it reads the buffer, by that physical address: T2 = T1 + %d ns.

R5: it makes the packet, {1 RDMA_WRITE_ONLY}. What says where it goes is an IP address and, in the BTH, the number of B's queue pair. A "DstLID" is
InfiniBand's, and there is none here. The rkey and the remote address are in the RETH; of a message of several packets in that of the first
alone.

R6: when {2 ACK} has come, and not when the DMA is over, the NIC writes an entry into the completion queue. The program sees it by looking at memory:
{A 1 SUCCESS}. Polling asks the NIC nothing.`, fetchRequest, startDMA),
	NIC: `
What the doorbell, the table and the fetches do is acted here: this stack is a part of the program, takes requests from a ring by a function
call, and reads memory by the program's addresses. NICs differ: many let the program write a small request into the doorbell page itself,
which saves R3, and keep the table in the host's memory with a cache of it. Each fetch takes 300 to 500 ns rather than the sheet's numbers.`,
	Scenario: func(w *world.World) {
		a, b := two(w, qp.RC)
		a.QP.Attr.PathMTU, b.QP.Attr.PathMTU = wire.MTU4096, wire.MTU4096
		w.Connect(a.QP, b.QP)
		sq, cq := a.Show("send queue", make([]byte, 4*64)), a.Show("completion queue", make([]byte, 4*32))
		bell, table := a.Show("doorbell", make([]byte, 8)), a.Show("NIC's table", make([]byte, 16))
		binary.BigEndian.PutUint64(table.Bytes, uint64(a.Buf.LKey()))
		binary.BigEndian.PutUint64(table.Bytes[8:], 0x3000_0000)
		wr := a.write(1, 4096, b, 0)
		w.RunFor(world.Microsecond) // what comes now is no preparation
		a.Did(fmt.Sprintf("R1: the request is written into the send queue, at 0x%x", sq.Addr(0)),
			func() { copy(sq.Bytes, ringEntry(&wr)) })
		a.Did("R2: the queue pair's number is stored into the doorbell: T0",
			func() { binary.BigEndian.PutUint64(bell.Bytes, uint64(a.QP.QPN())) })
		_ = a.QP.PostSend(wr)
		w.After(fetchRequest, func() {
			a.Did(fmt.Sprintf("R3: the NIC has read the 64 bytes at 0x%x: T1", sq.Addr(0)), func() {})
		})
		w.After(fetchRequest+startDMA, func() {
			a.Did(fmt.Sprintf("R4: lkey 0x%x: the frame at 0x30000000; the NIC begins to read it: T2", a.Buf.LKey()),
				func() {})
		})
		w.Run()
		if a.CQ.Len() > 0 {
			a.Did("R6: the NIC has written an entry of 32 bytes into the completion queue", func() {
				copy(cq.Bytes, binary.BigEndian.AppendUint64(nil, wr.WRID))
				cq.Bytes[31] = 1 // whose turn it is: the program polls this byte
			})
		}
		finish(w, a)
	},
	Claims: []Claim{packets("RDMA_WRITE_ONLY", "ACK"), completes("A", qp.WCSuccess),
		holds("B", "buf", 0, "A", "buf", 0, 4096), has("A", "completion queue", 31, 1),
		has("A", "doorbell", 5, 0, 1)},
	Question: "How does ibv_poll_cq find out that there is a completion?",
	Answers: []string{"by a system call", "by reading a register of the NIC",
		"by reading memory that the NIC has written to"},
	Right: 2, Why: "The completion queue is the program's own memory. An entry says whether it is new by a " +
		"bit that " +
		"changes each time around.",
}
