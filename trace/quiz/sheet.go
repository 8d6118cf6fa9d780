package quiz

// The exercise sheet of the training module that docs/course retells, with the sheet's own numbers,
// each worked by what the quiz computes with. Where the sheet says something else, the remark says
// why.

import "fmt"

// Task is an exercise of the sheet.
type Task struct {
	Name string `json:"name"` // "A1": the first of exercise A
	Question
	Sheet  float64 `json:"sheet,omitempty"`  // what the sheet has; 0: a blank
	Remark string  `json:"remark,omitempty"` // what is to be said of that
}

// The sheet's numbers.
const (
	kib, mib, gib  = 1 << 10, 1 << 20, 1 << 30
	sheetPerPage   = 2       // us to register a page
	sheetLine      = 95      // Gbit/s that it gives RDMA on a line of 100
	sheetSockets   = 40      // and sockets
	sheetTransfers = 1000    // of 1 GiB
	sheetSockets1G = 200_000 // us that it gives sockets for 1 GiB
)

// Sheet returns the exercises in the sheet's order.
func Sheet() []Task {
	return append(append(memoryTasks(), queueTasks()...), timeTasks()...)
}

func memoryTasks() []Task {
	return []Task{
		{Name: "A1", Question: as("pages", pagesOf(0x7f0000000000, gib)), Sheet: 262144},
		{Name: "A2", Question: as("table", tableOf(gib, page)), Sheet: 2 * mib},
		{Name: "A3", Question: as("largest", largestOf(mib, page)), Remark: "That is half a GiB. It is what a *cache* of " +
			"1 MiB knows, not what can be registered: NICs keep the table in the host's memory."},
		{Name: "A4", Question: as("table", tableOf(16*gib, page)), Sheet: 32 * mib, Remark: "The sheet says that 16 MB of " +
			"memory on the NIC make such a region impossible. They make it slow where accesses are random: the lesson " +
			"caches. What refuses a region is max_mr_size, or ulimit -l."},
		{Name: "A5", Question: as("table", tableOf(16*gib, 2*mib)), Remark: "The same 16 GiB in huge pages."},
		{Name: "R1", Question: perPage(gib), Sheet: 524_000},
		{Name: "R2", Question: perPage(mib), Sheet: 5000, Remark: fmt.Sprintf("The sheet expects 5,000 us, that is %s us a page, "+
			"and for 1 GiB %s us a page: its three figures do not follow one rule. What was measured is below.",
			Number(5000/256.0), Number(500_000/262_144.0))},
		{Name: "R3", Question: perPage(page), Sheet: 50, Remark: "A page costs 2 us by the sheet's rule, and 50 by its table: what is " +
			"missing in the rule is what a call costs whatever the size."},
	}
}

func queueTasks() []Task {
	b := rings{128, 64, 128 + 64, 64, 64, 32, false}
	sq, rq, cq := b.sizes()
	c := wanted{local: 0x7f0000000000, remote: 0x7f0010000000, n: page, lkey: 0x1234, rkey: 0x5678}
	tasks := []Task{
		{Name: "B1", Question: sum("bytes", fmt.Sprintf("A send queue of %d requests of %d bytes: how many bytes?", b.sq, b.sqe),
			float64(sq), fmt.Sprintf("%d * %d = %d.", b.sq, b.sqe, sq)), Sheet: 8192},
		{Name: "B2", Question: sum("bytes", fmt.Sprintf("A receive queue of %d requests of %d bytes: how many bytes?", b.rq, b.rqe),
			float64(rq), fmt.Sprintf("%d * %d = %d.", b.rq, b.rqe, rq)), Sheet: 4096},
		{Name: "B3", Question: sum("bytes", "Both queues of the pair together: how many bytes?", float64(sq+rq),
			fmt.Sprintf("%d + %d = %d, that is %d KiB.", sq, rq, sq+rq, (sq+rq)/kib)), Sheet: 12288},
		{Name: "B4", Question: sum("bytes", fmt.Sprintf("A completion queue of %d entries of %d bytes: how many bytes?", b.cq, b.cqe),
			float64(cq), fmt.Sprintf("%d * %d = %d.", b.cq, b.cqe, cq)), Sheet: 6144},
	}
	b.rounded = true
	tasks = append(tasks, Task{Name: "B5", Question: as("queues", queuesOf(b)), Remark: "128 and 64 are powers of two already. 192 is " +
		"not: the completion queue has room for 256, and takes 8,192 bytes instead of the sheet's 6,144."})
	b.rqe, b.cqe = 16, 64
	tasks = append(tasks, Task{Name: "B6", Question: as("queues", queuesOf(b)), Remark: "The same with the entries of a common " +
		"NIC (64, 16 and 64 bytes): a receive names memory only, so it is short; a completion is a cache line. The " +
		"sheet's 64, 64 and 32 are a device of its own. No number is wrong, if it is said whose it is."})
	for i := range fields {
		tasks = append(tasks, Task{Name: fmt.Sprintf("C%d", i+1), Question: as("send-wr", fieldOf(c, i))})
	}
	return tasks
}

func timeTasks() []Task {
	ways := waysOf(25, 25, 5, 500, 500)
	sockets := 2*25.0 + 2*25.0
	oneSided := 0.5 + 5 + 0.5
	transfer := float64(gib) * 8 / sheetLine / 1e9 // seconds
	all := sheetTransfers*transfer + 0.5
	bySockets := sheetTransfers * sheetSockets1G / 1e6
	return []Task{
		{Name: "D1", Question: sum("us", "A round trip by sockets, of two sends and two receives of 25 us each: how many us, "+
			"without the network?", sockets, fmt.Sprintf("25 + 25 + 25 + 25 = %s. With 5 us of network it is %s.",
			Number(sockets), Number(sockets+5))), Remark: "The sheet has four blanks and five terms: with the network, which the other " +
			"line counts, it is 105."},
		{Name: "D2", Question: sum("us", "A WRITE: 0.5 us to post, 5 us there and back, 0.5 us to poll: how many us until the "+
			"completion?", oneSided, fmt.Sprintf("0.5 + 5 + 0.5 = %s.", Number(oneSided)))},
		{Name: "D3", Question: sumOf("times", "The sheet's speed-up, D1 by D2?", sockets/oneSided,
			fmt.Sprintf("%s / %s = %s.", Number(sockets), Number(oneSided), Number(sockets/oneSided))),
			Remark: "It compares a message that a program has answered with a WRITE that a NIC has acknowledged, and the " +
				"network is in one of the two only. D4 compares like with like."},
		{Name: "D4", Question: as("ways", ways)},
		{Name: "T1", Question: sum("ns", "A NIC reads the request 100 ns after the doorbell, and begins to read the data 50 ns later. "+
			"How many ns after the doorbell is that?", 150, fmt.Sprintf("100 + 50 = %d.", 100+50))},
		{Name: "T2", Question: sum("s", "A million operations of 25 us, one after the other: how many seconds?", 25,
			fmt.Sprintf("10^6 * 25 us = %d s. At 1 us it is %d s.", 1_000_000*25/1_000_000, 1)), Sheet: 25,
			Remark: "These are seconds of waiting. Processor time is another sum: the quiz cpu."},
		{Name: "S1", Question: as("gbit", gbitOf(4800)), Sheet: 38.4, Remark: "The sheet takes perftest's MB for 10^6 bytes. " +
			"perftest means MiB."},
		{Name: "S2", Question: sum("bytes", "1000 messages of 64 KiB: how many bytes?", 1000*64*kib,
			fmt.Sprintf("1000 * 65536 = %d, that is %s MiB.", 1000*64*kib, Number(1000*64*kib/float64(mib)))), Sheet: 64e6,
			Remark: "64 MB is neither of the two."},
		{Name: "S3", Question: as("headers", headersOf(4096, false, 100)), Sheet: 96, Remark: "At a path MTU of 2048 it is " +
			Number(headersOf(2048, false, 100).Answer) + ", at 1024 " + Number(headersOf(1024, false, 100).Answer) + "."},
		{Name: "S4", Question: sumOf("times", "A WRITE of 15 us by Soft-RoCE, a ping of 25 us: the ratio?", 25.0/15,
			fmt.Sprintf("25 / 15 = %s.", Number(25.0/15))), Sheet: 1.67, Remark: "ping is answered by the kernel: no program is woken " +
			"and no socket read. \"roce perf sockets\" puts ping, UDP, TCP, SEND and WRITE side by side."},
		{Name: "S5", Question: sumOf("times", "Sockets take 10 to 25 us, RDMA 1 to 2: what is the smallest ratio?", 10.0/2,
			fmt.Sprintf("10 / 2 = %s; the largest is 25 / 1 = %s.", Number(10.0/2), Number(25.0))), Sheet: 10,
			Remark: "\"10 to 25 times\" divides both by 1."},
		{Name: "Q1", Question: sumOf("s", fmt.Sprintf("%d transfers of 1 GiB at %d Gbit/s, after 0.5 s of registration: how many seconds?",
			sheetTransfers, sheetLine), all, fmt.Sprintf("2^30 * 8 / (%d * 10^9) = %s s each; %d of them and 0.5 s: %s s. Sockets, at the "+
			"sheet's 200 ms each: %s s. That is %s times as long.", sheetLine, Number(transfer), sheetTransfers, Number(all),
			Number(bySockets), Number(bySockets/all))), Sheet: 0.5, Remark: "The sheet says that 1000 transfers take 0 ms. No copies is " +
			"not no time: the bytes still cross the line. What is near 0 is the processor's time, and what registration " +
			"adds to it all: half a second in " + Number(all) + "."},
	}
}

// perPage is the sheet's rule for what registration takes.
func perPage(n int) Question {
	v := float64(sheetPerPage * n / page)
	return sum("us", fmt.Sprintf("Registering takes %d us a page, by the sheet's rule. How many us are %s, in pages of 4 KiB?",
		sheetPerPage, size(int64(n))), v, fmt.Sprintf("%s / 4096 = %d pages, times %d us: %s us.", size(int64(n)), n/page,
		sheetPerPage, Number(v)))
}

// sum is a task whose answer is exact.
func sum(unit, text string, answer float64, why string) Question {
	return Question{Text: text, Answer: answer, Unit: unit, Within: exact, Why: why}
}

// sumOf is one whose answer is rounded.
func sumOf(unit, text string, answer float64, why string) Question {
	q := sum(unit, text, answer, why)
	q.Within = near
	return q
}

// as is a question of a kind, of which the quiz has more.
func as(kind string, q Question) Question {
	q.Kind = kind
	return q
}
