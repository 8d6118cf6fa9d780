package learn

// The chapter of what an exercise sheet predicts and few have seen: numbers of elements that are
// wrong within the limit, an address and a key that change places, and (pages.go) pages that a
// device finds elsewhere than the program, and what a NIC does step by step.

import (
	"encoding/binary"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/trace/world"
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
