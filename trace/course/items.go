package course

// Every item of the module and of the three articles that are read with it, and where it is.
// Stages: the items, by the module's parts; the table made of them.

import (
	"fmt"
	"strings"

	"github.com/goroce/goroce/trace/learn"
	"github.com/goroce/goroce/trace/quiz"
)

// Item is something that the module teaches, asks or claims.
type Item struct {
	Name     string // as the module has it, in our words
	Lessons  string // that show it
	Quizzes  string // that ask for it, with fresh numbers
	Tasks    string // of the sheet, with the module's own
	Commands string // of roce, with semicolons between, that do it on this machine
	Remark   string // what is not as the module says
}

// Part is a part of the module.
type Part struct {
	Title string
	Items []Item
}

// Parts are all items. Failure 6 is missing in the module, too.
var Parts = []Part{
	{"The text", []Item{
		{Name: "Sockets copy, RDMA does not", Lessons: "copies", Commands: "roce perf sockets"},
		{Name: "No CPU in the data path", Lessons: "myth-no-cpu",
			Remark: "the far program's before and after, and with software the packets', too"},
		{Name: "Registering memory: pin, translate, keys", Lessons: "registration caches"},
		{Name: "Pages neither move nor are swapped", Lessons: "page-moved page-swapped"},
		{Name: "Queue pairs and completion queues", Lessons: "write rings"},
		{Name: "SEND, RECV, WRITE, READ", Lessons: "send write read atomics"},
		{Name: "The program: device, PD, CQ, QP, MR", Lessons: "myth-cq-pd myth-reset",
			Remark: "its queue pair is never taken to RTS, so its WRITE would be refused"},
		{Name: "Writing, then polling", Lessons: "write myth-poll"},
		{Name: "Latency and throughput beside sockets", Lessons: "timeline when-not", Tasks: "S4 S5 S6",
			Commands: "roce perf sockets"},
	}},
	{"Practice", []Item{
		{Name: "Exercise 1: Soft-RoCE, ibv_devinfo", Lessons: "my-nic",
			Commands: "roce devices; roce devinfo --dev udp:127.0.0.1",
			Remark:   "rping over lo fails with the kernel's: from-tutorials.md"},
		{Name: "Exercise 2: cost of registration, plotted", Lessons: "registration", Tasks: "R1 R2 R3",
			Commands: "roce perf reg --plot reg.svg",
			Remark:   "50, 5,000 and 500,000 us are not one rule; measured: answers.md"},
		{Name: "Exercise 3: UDP against SEND, distributions", Lessons: "poll-or-sleep",
			Commands: "roce perf sockets --plot sockets.svg"},
	}},
	{"The sheet", []Item{
		{Name: "A: pages, table, what a table holds", Lessons: "caches", Quizzes: "pages table largest cached",
			Tasks: "A1 A2 A3"},
		{Name: "B: sizes of queues", Lessons: "rings", Quizzes: "queues", Tasks: "B1 B2 B3 B4 B5 B6",
			Remark: "64, 64 and 32 bytes, unrounded, are the sheet's device; NICs round"},
		{Name: "C: the fields of a WRITE", Lessons: "write keys-swapped", Quizzes: "send-wr",
			Tasks: "C1 C2 C3 C4 C5 C6 C7 C8"},
		{Name: "D: a round trip by sockets and by RDMA", Lessons: "timeline", Quizzes: "ways latency speed-up",
			Tasks: "D1 D2 D3 D4", Remark: "D3 compares an answer with an acknowledgement"},
	}},
	{"Failure predictions", []Item{
		{Name: "1: memory is not registered", Lessons: "unregistered"},
		{Name: "2: a wrong rkey", Lessons: "wrong-rkey"},
		{Name: "3: a buffer is not aligned", Lessons: "misaligned myth-alignment",
			Remark: "it may be anywhere; atomics may not"},
		{Name: "4: num_sge is wrong", Lessons: "num-sge num-sge-zero num-sge-garbage"},
		{Name: "5: nobody polls", Lessons: "cq-overrun myth-unsignaled"},
		{Name: "7: the rkey of another region", Lessons: "other-region other-pd"},
		{Name: "8: no receive is posted", Lessons: "rnr rnr-exceeded",
			Remark: "a SEND waits first, and often succeeds"},
		{Name: "9: the table is full", Lessons: "table-full caches", Tasks: "A4"},
		{Name: "10: munmap while it is in use", Lessons: "page-unmapped unmapped deregistered"},
	}},
	{"The seven questions", []Item{
		{Name: "WHAT registering does", Lessons: "registration", Tasks: "A1 A2"},
		{Name: "WHY pages are pinned", Lessons: "page-moved page-swapped myth-pinned"},
		{Name: "WHERE queues live", Lessons: "rings", Remark: "in the program's memory; the NIC's is the doorbell"},
		{Name: "WHO moves data", Lessons: "copies myth-no-cpu"},
		{Name: "WHEN a completion is made", Lessons: "timeline rings",
			Remark: "after the acknowledgement, not when the DMA is over"},
		{Name: "WITHOUT: a million operations", Lessons: "when-not", Quizzes: "cpu", Tasks: "T2"},
		{Name: "WHICH operation, by number", Lessons: "myth-opcodes", Tasks: "C6",
			Remark: "WRITE is 0, SEND 2, READ 4, compare-and-swap 5"},
	}},
	{"Sums and the plan of attack", []Item{
		{Name: "A table for 16 GB", Lessons: "caches", Tasks: "A4 A5",
			Remark: "no reason why it cannot be registered"},
		{Name: "Doorbell, fetch, DMA", Lessons: "rings doorbells", Tasks: "T1"},
		{Name: "Polling, and status 5", Lessons: "myth-poll myth-status-5",
			Commands: "roce trace explain 5; roce trace explain 10",
			Remark:   "5 is a flush; the remote access error is 10"},
		{Name: "Register, exchange, post, poll, check", Lessons: "by-hand keys-swapped write"},
	}},
	{"Commands", []Item{
		{Name: "1: Soft-RoCE", Lessons: "my-nic copies", Commands: "roce devices",
			Remark: "software copies each byte: it shows the interface, not what zero copies gain"},
		{Name: "2: ib_write_bw", Quizzes: "gbit headers", Tasks: "S1 S2 S3",
			Commands: "roce perf write-bw; roce perf write-bw 127.0.0.1", Remark: "perftest's MB are MiB"},
		{Name: "3: timing ibv_reg_mr", Tasks: "R1 R2 R3", Commands: "roce perf reg"},
		{Name: "4: ib_write_lat beside ping", Tasks: "S4", Commands: "roce perf write-lat; roce perf sockets",
			Remark: "ping wakes no program"},
	}},
	{"Paradox questions", []Item{
		{Name: "1: zero copies, and 500 ms to register", Lessons: "registration", Tasks: "Q1",
			Remark: "1000 transfers are not 0 ms"},
		{Name: "2: how does the far program learn of it?", Lessons: "notify", Commands: "roce perf notify"},
		{Name: "3: why not everywhere?", Lessons: "when-not capabilities"},
	}},
	{"The trace of a WRITE", []Item{
		{Name: "R1: the request", Lessons: "rings write"},
		{Name: "R2: the doorbell", Lessons: "rings doorbells"},
		{Name: "R3: the NIC fetches the request", Lessons: "rings",
			Remark: "from the send queue; the module has the buffer's address there"},
		{Name: "R4: lkey, table, DMA", Lessons: "rings caches"},
		{Name: "R5: the packet", Lessons: "rings packets",
			Remark: "a \"DstLID\" is InfiniBand's; here an IP address and a queue pair number"},
		{Name: "R6: acknowledged, CQE, polled", Lessons: "rings timeline"},
	}},
	{"The articles", []Item{
		{Name: "send_data: fields that are left out", Lessons: "num-sge-zero myth-unsignaled",
			Remark: "without num_sge, 0 bytes; without IBV_SEND_SIGNALED no completion to poll for"},
		{Name: "poll_cq: while (ibv_poll_cq(…))", Lessons: "myth-poll"},
		{Name: "memory verbs, messages, RC, UC, UD", Lessons: "write send uc ud"},
		{Name: "completion queues are in a PD", Lessons: "myth-cq-pd", Remark: "they are not"},
		{Name: "states, connecting by the RDMA CM", Lessons: "by-hand wrong-state",
			Commands: "roce rping -s; roce rping -c -a 127.0.0.1"},
		{Name: "polling against events", Lessons: "poll-or-sleep"},
		{Name: "scatter and gather", Lessons: "scatter-gather no-scatter"},
		{Name: "InfiniBand, RoCE, iWARP", Lessons: "compared"},
		{Name: "atomics against the CPU, and two HCAs", Lessons: "atomic-covers two-devices"},
		{Name: "READ of what a CPU changes", Lessons: "torn-read"},
		{Name: "is pinned memory constant?", Lessons: "myth-pinned"},
		{Name: "RoCE over a WAN", Lessons: "wan"},
		{Name: "does my card do it?", Lessons: "my-nic"},
		{Name: "status 9", Lessons: "access-flags path-mtu", Commands: "roce trace explain 9"},
		{Name: "keys on the wire, men in the middle", Lessons: "capabilities"},
	}},
}

// table is all items, and where they are.
func table() (string, error) {
	var b strings.Builder
	for _, p := range Parts {
		fmt.Fprintf(&b, "### %s\n\n| item | lessons | numbers | on your machine | corrected "+
			"|\n|---|---|---|---|---|\n", p.Title)
		for _, x := range p.Items {
			lessons, numbers, err := x.found()
			if err != nil {
				return "", fmt.Errorf("%s: %w", x.Name, err)
			}
			var commands []string
			for c := range strings.SplitSeq(x.Commands, "; ") {
				if c != "" {
					commands = append(commands, "`"+c+"`")
				}
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", escape(x.Name), strings.Join(lessons, ", "),
				strings.Join(numbers, ", "), strings.Join(commands, ", "), escape(x.Remark))
		}
		b.WriteByte('\n')
	}
	return strings.TrimSpace(b.String()), nil
}

// found are links to the lessons, and tasks and quizzes by name. What is nowhere is an error.
func (x *Item) found() (lessons, numbers []string, err error) {
	for _, name := range strings.Fields(x.Lessons) {
		l := learn.Find(name)
		if l == nil {
			return nil, nil, fmt.Errorf("there is no lesson %q", name)
		}
		lessons = append(lessons, fmt.Sprintf("[%s](%s)", name, at(l)))
	}
	for _, name := range strings.Fields(x.Tasks) {
		if _, err := task(name); err != nil {
			return nil, nil, err
		}
		numbers = append(numbers, name)
	}
	for _, kind := range strings.Fields(x.Quizzes) {
		if quiz.Find(kind) == nil {
			return nil, nil, fmt.Errorf("there is no quiz %q", kind)
		}
		numbers = append(numbers, "quiz `"+kind+"`")
	}
	if lessons == nil && numbers == nil {
		return nil, nil, fmt.Errorf("it is nowhere")
	}
	return lessons, numbers, nil
}
