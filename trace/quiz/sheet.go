package quiz

// The exercise sheet of the training module that docs/course retells, with the sheet's own numbers,
// each worked by what the quiz computes with. Where the sheet says something else, the remark says
// why.

import (
	"fmt"
	"slices"
)

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
	return slices.Concat(memoryTasks(), queueTasks(), timeTasks(), rateTasks())
}

func memoryTasks() []Task {
	return []Task{
		{Name: "A1", Sheet: 262144, Question: as("pages", pagesOf(0x7f0000000000, gib))},
		{Name: "A2", Sheet: 2 * mib, Question: as("table", tableOf(gib, page))},
		{Name: "A3", Question: as("largest", largestOf(mib, page)),
			Remark: "It is what a *cache* of 1 MiB knows, not what can be registered: NICs keep the table in the " +
				"host's " +
				"memory."},
		{Name: "A4", Sheet: 32 * mib, Question: as("table", tableOf(16*gib, page)),
			Remark: "The sheet says that 16 MB of memory on the NIC make such a region impossible. They make it " +
				"slow where " +
				"accesses are random: the lesson caches. What refuses a region is max_mr_size, or ulimit -l."},
		{Name: "A5", Question: as("table", tableOf(16*gib, 2*mib)), Remark: "The same 16 GiB in huge pages."},
		{Name: "R1", Sheet: 524_000, Question: perPage(gib)},
		{Name: "R2", Sheet: 5000, Question: perPage(mib),
			Remark: fmt.Sprintf("The sheet expects 5000 us, that is %s us a "+
				"page, and for 1 GiB %s us a page: its three figures follow no rule. What was measured is below.",
				Number(5000/float64(mib/page)), Number(500_000/float64(gib/page)))},
		{Name: "R3", Sheet: 50, Question: perPage(page), Remark: fmt.Sprintf("A page costs %d us by the sheet's "+
			"rule, and 50 "+
			"by its table: what is missing in the rule is what a call costs whatever the size.", sheetPerPage)},
	}
}

func queueTasks() []Task {
	b := rings{128, 64, 128 + 64, 64, 64, 32, false}
	sq, rq, cq := b.sizes()
	c := wanted{local: 0x7f0000000000, remote: 0x7f0010000000, n: page, lkey: 0x1234, rkey: 0x5678}
	product := func(what string, n, each int) Question {
		return sum("bytes", fmt.Sprintf("A %s of %d entries of %d bytes: how many bytes?", what, n, each),
			float64(n*each),
			fmt.Sprintf("%d * %d = %d.", n, each, n*each))
	}
	tasks := []Task{
		{Name: "B1", Sheet: 8192, Question: product("send queue", b.sq, b.sqe)},
		{Name: "B2", Sheet: 4096, Question: product("receive queue", b.rq, b.rqe)},
		{Name: "B3", Sheet: 12288, Question: sum("bytes", "Both queues of the pair together: how many bytes?",
			float64(sq+rq), fmt.Sprintf("%d + %d = %d, that is %d KiB.", sq, rq, sq+rq, (sq+rq)/kib))},
		{Name: "B4", Sheet: 6144, Question: product("completion queue", b.cq, b.cqe)},
	}
	b.rounded = true
	tasks = append(tasks, Task{Name: "B5", Question: as("queues", queuesOf(b)),
		Remark: fmt.Sprintf("%d and %d are powers of two already. %d is not: the completion queue has room for "+
			"%d, and "+
			"takes %d bytes instead of the sheet's "+
			"%d.", b.sq, b.rq, b.cq, powerOfTwo(b.cq), powerOfTwo(b.cq)*b.cqe, cq)})
	b.rqe, b.cqe = 16, 64
	tasks = append(tasks, Task{Name: "B6", Question: as("queues", queuesOf(b)),
		Remark: "The same with the entries of a common NIC (64, 16 and 64 bytes): a receive names memory only, " +
			"so it is " +
			"short; a completion is a cache line. The sheet's 64, 64 and 32 are a device of its own. No number " +
			"is wrong, if it is said whose it is."})
	for i := range fields {
		q := as("send-wr", fieldOf(c, i))
		q.Text = "What is " + fields[i].name + "?" // the sheet says once what is to be sent
		tasks = append(tasks, Task{Name: fmt.Sprintf("C%d", i+1), Question: q})
	}
	return tasks
}

func timeTasks() []Task {
	const call, network, post = 25.0, 5.0, 0.5 // us
	sockets, oneSided := 4*call, post+network+post
	return []Task{
		{Name: "D1", Question: sum("us", fmt.Sprintf("A round trip by sockets, of two sends and two receives of %s us "+
			"each: how many us, without the network?", Number(call)), sockets,
			fmt.Sprintf("4 * %s = %s.", Number(call), Number(sockets))),
			Remark: fmt.Sprintf("The sheet has four blanks. With the network, which D2 counts, it is %s.",
				Number(sockets+network))},
		{Name: "D2", Question: sum("us", fmt.Sprintf("A WRITE: %s us to post, %s us there and back, %s us to "+
			"poll: how "+
			"many us until the completion?", Number(post), Number(network), Number(post)), oneSided,
			fmt.Sprintf("%s + %s + %s = %s.", Number(post), Number(network), Number(post), Number(oneSided)))},
		{Name: "D3", Question: sumOf("times", "The sheet's speed-up, D1 by D2?", sockets/oneSided,
			fmt.Sprintf("%s / %s = %s.", Number(sockets), Number(oneSided), Number(sockets/oneSided))),
			Remark: "It compares a message that a program has answered with a WRITE that a NIC has acknowledged, and " +
				"the network is in one of the two only. D4 compares like with like."},
		{Name: "D4", Question: as("ways", waysOf(call, call, network, 1000*post, 1000*post))},
		{Name: "T1", Question: sum("ns", "A NIC reads the request 100 ns after the doorbell, and begins to read "+
			"the data "+
			"50 ns later. How many ns after the doorbell is that?", 100+50, fmt.Sprintf("100 + 50 = %d.", 100+50))},
		{Name: "T2", Sheet: 25, Question: sum("s", fmt.Sprintf("A million operations of %s us, one after the "+
			"other: how "+
			"many seconds?", Number(call)), 1e6*call/1e6, fmt.Sprintf("10^6 * %s us = %s "+
			"s.", Number(call), Number(call))),
			Remark: "These are seconds of waiting. Processor time is another sum: the quiz cpu."},
		transfers(),
	}
}

// transfers is the first paradox: what follows a registration that is paid once.
func transfers() Task {
	const registering = 0.5                      // s
	each := float64(gib) * 8 / (sheetLine * 1e9) // s
	all, sockets := registering+sheetTransfers*each, float64(sheetTransfers)*sheetSockets1G/1e6
	return Task{Name: "Q1", Sheet: registering, Question: sumOf("s",
		fmt.Sprintf("%d transfers of 1 GiB at %d Gbit/s, after "+
			"%s s of registration: how many seconds?", sheetTransfers, sheetLine, Number(registering)), all,
		fmt.Sprintf("2^30 * 8 / (%d * 10^9) = %s s each; %d of them and %s s: %s s. Sockets, at the sheet's %d "+
			"ms each: "+
			"%s s. That is %s times as "+
			"long.", sheetLine, Number(each), sheetTransfers, Number(registering), Number(all),
			sheetSockets1G/1000, Number(sockets), Number(sockets/all))),
		Remark: fmt.Sprintf("The sheet says that %d transfers take 0 ms. No copies is not no time: the bytes "+
			"still cross the "+
			"line. What is near 0 is the processor's time, and what registration adds: %s s of %s.",
			sheetTransfers, Number(registering), Number(all))}
}

func rateTasks() []Task {
	const messages, each = 1000, 64 * kib
	return []Task{
		{Name: "S1", Sheet: 38.4, Question: as("gbit", gbitOf(4800)),
			Remark: "The sheet takes perftest's MB for 10^6 bytes. perftest means MiB."},
		{Name: "S2", Sheet: 64e6, Question: sum("bytes", fmt.Sprintf("%d messages of %d KiB: how many bytes?", messages,
			each/kib), messages*each, fmt.Sprintf("%d * %d = %d, that is %s MiB.", messages, each, messages*each,
			Number(messages*each/float64(mib)))), Remark: "The sheet's 64 MB are neither of the two."},
		{Name: "S3", Sheet: 96, Question: as("headers", headersOf(4096, false, 100)),
			Remark: fmt.Sprintf("At a path MTU of 2048 it is %s, at 1024 %s.",
				Number(headersOf(2048, false, 100).Answer), Number(headersOf(1024, false, 100).Answer))},
		{Name: "S4", Sheet: 1.67, Question: sumOf("times", "A WRITE of 15 us by Soft-RoCE, a ping of 25 us: the ratio?",
			25.0/15, fmt.Sprintf("25 / 15 = %s.", Number(25.0/15))),
			Remark: "ping is answered by the kernel: no program is woken and no socket read. \"roce perf " +
				"sockets\" puts " +
				"ping, UDP, TCP, SEND and WRITE side by side."},
		{Name: "S5", Sheet: 10, Question: sumOf("times", "Sockets take 10 to 25 us, RDMA 1 to 2: what is the "+
			"smallest ratio?",
			10.0/2, fmt.Sprintf("10 / 2 = %s; the largest is 25 / 1 = %s.", Number(10.0/2), Number(25.0))),
			Remark: "\"10 to 25 times\" divides both by 1."},
		{Name: "S6", Question: sumOf("times", fmt.Sprintf("A line of 100 Gbit/s gives %d to RDMA and %d to sockets: "+
			"the ratio?", sheetLine, sheetSockets), float64(sheetLine)/sheetSockets,
			fmt.Sprintf("%d / %d = %s.", sheetLine, sheetSockets, Number(float64(sheetLine)/sheetSockets))),
			Remark: fmt.Sprintf("Throughput gains far less than latency. %d is near what one processor copies: "+
				"several, with a connection each, fill the line, too. The sheet's "+
				"%d ms for 1 GiB (Q1) are %s Gbit/s.", sheetSockets, sheetSockets1G/1000,
				Number(float64(gib)*8/(sheetSockets1G*1e3)))},
	}
}

// perPage is the sheet's rule for what registration takes.
func perPage(n int) Question {
	v := float64(sheetPerPage * n / page)
	return sum("us", fmt.Sprintf("Registering takes %d us a page, by the sheet's rule. How many us are %s, in "+
		"pages of 4 "+
		"KiB?", sheetPerPage, size(int64(n))), v, fmt.Sprintf("%s / 4096 = %d, times %d us: %s us.", size(int64(n)),
		n/page, sheetPerPage, Number(v)))
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
