package learn

// The chapter of costs: how the other side learns of a WRITE, and what a message takes of time and
// of processors. What is measured on real devices is named with the command that measures it.

import (
	"fmt"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/trace/world"
)

var costs = Chapter{Name: "costs", Title: "Who learns of it, and what it costs",
	Text: `
The simulated world has the packets right, and times only in proportion. What your machine takes is measured by "roce perf": sockets, notify
and reg put things side by side, write-bw and its like have perftest's options.`,
	Lessons: []*Lesson{
		{
			Name: "notify", Title: "How the other side learns of a WRITE",
			Text: `
A WRITE tells B's program nothing. There are four ways to make it known.

It looks at the memory. {1 RDMA_WRITE_ONLY} ends with a byte that B's program watches; when it changes all is there, since this device, as
NICs do, writes the last bytes last. One packet, the shortest time, but B can only poll, and must know which byte to watch.

The WRITE carries an immediate: {3 RDMA_WRITE_ONLY_IMM}. It takes a receive, and B has a completion with 4 bytes of A's choice:
{B 1 SUCCESS}. Still one packet; B may poll its completion queue or sleep.

A SEND follows: {5 RDMA_WRITE_ONLY}, {6 SEND_ONLY}. It takes a receive as well. It may carry more than 4 bytes, for a second packet.

An atomic follows and raises a counter of B's: {8 RDMA_WRITE_ONLY}, {9 FETCH_ADD}. No receive is needed and many writers can share the
counter, but B polls memory again, and the atomic has an answer: {10 ATOMIC_ACKNOWLEDGE}.

All four rely on one rule: what is posted later on a queue pair does not become visible before what was posted earlier. "roce perf notify"
measures all four: times, packets, and processor time with polling and with sleeping.`,
			NIC: `
The order in which the bytes of one WRITE become visible is promised by no standard; NICs write upwards unless the region allows relaxed
ordering. Programs that watch memory rely on it all the same.`,
			Scenario: func(w *world.World) {
				a, b := connected(w, qp.RC)
				_, _ = b.recv(1, 4096, 64), b.recv(2, 4096, 64)
				_ = a.QP.PostSend(a.write(1, 32, b, 0))
				w.Run()
				imm := a.write(2, 32, b, 64)
				imm.Opcode, imm.Imm = qp.WRWriteWithImm, 7
				_ = a.QP.PostSend(imm)
				w.Run()
				_ = a.QP.PostSend(quiet(a.write(3, 32, b, 128)), a.send(4, 4))
				w.Run()
				_ = a.QP.PostSend(quiet(a.write(5, 32, b, 192)), a.add(6, 6000, b, 1024, 1))
				finish(w, a, b)
			},
			Claims: []Claim{packets("RDMA_WRITE_ONLY", "ACK", "RDMA_WRITE_ONLY_IMM", "ACK", "RDMA_WRITE_ONLY",
				"SEND_ONLY", "ACK", "RDMA_WRITE_ONLY", "FETCH_ADD", "ATOMIC_ACKNOWLEDGE"),
				completes("B", qp.WCSuccess, qp.WCSuccess), has("B", "buf", 1024, native(1)...)},
			Question: "B's program wants to sleep until data comes, without a packet more. What does A post?",
			Answers:  []string{"a WRITE", "a WRITE with immediate", "a WRITE and a SEND", "a WRITE and an atomic"},
			Right:    1, Why: "Only a completion can wake who sleeps, so memory and atomic are out; {6 SEND_ONLY} is " +
				"a packet more.",
		},
		{
			Name: "poll-or-sleep", Title: "Polling against events",
			Text: `
B's program can look at its completion queue all the time. It then knows within the time of a look, and keeps a processor busy while nothing
comes. Or it arms the queue (ibv_req_notify_cq) and sleeps until the channel tells it: a system call, a wake-up, some tens of microseconds.

Arming is for one event. B armed once; {1 SEND_ONLY} and {3 SEND_ONLY} came; there was one event and there are two completions,
{B 1 SUCCESS} and {B 2 SUCCESS}. A program that polls one completion for each event and sleeps again loses the second, until something else
comes.

The order that loses nothing: arm, then poll until the queue is empty, then sleep. What comes between the poll and the sleep raises the
event.`,
			NIC: `
"roce perf sockets" and "roce perf notify" show both sides. On the machine of the README a WRITE was noticed in 2.6 us by polling and in 33
us by sleeping (CQ.Wait polls for some microseconds first: on a machine that does nothing else it often need not sleep). A NIC can also be
told to wait a little and raise one event for several completions (ibv_modify_cq, moderation): less work, later.`,
			Scenario: func(w *world.World) {
				a, b := connected(w, qp.RC)
				_, _ = b.recv(1, 4096, 64), b.recv(2, 4096, 64)
				b.CQ.Arm(false)
				_ = a.QP.PostSend(a.send(1, 32))
				w.Run()
				_ = a.QP.PostSend(a.send(2, 32))
				finish(w, a, b)
			},
			Claims: []Claim{packets("SEND_ONLY", "ACK", "SEND_ONLY", "ACK"),
				completes("B", qp.WCSuccess, qp.WCSuccess), notified("B", 1)},
			Question: "A program polls until the queue is empty, then arms it, then sleeps. What can go wrong?",
			Answers:  []string{"nothing", "what completes between the last poll and the arming wakes nobody"}, Right: 1,
			Why: "The queue was not armed when it came, so there is no event. Arm first, or poll once " +
				"more after arming.",
		},
		{
			Name: "doorbells", Title: "Doorbells and batches", Queues: true,
			Text: `
To post is to write an entry into a ring, and to ring: one store to the device. A posts three WRITEs one by one and waits for each:
{1 RDMA_WRITE_ONLY}, {2 ACK}, and so on: three doorbells, three ACKs, three completions, and each waits a whole round trip for the one
before.

Then it posts four as a list, which rings once. {7 RDMA_WRITE_ONLY} to {10 RDMA_WRITE_ONLY} leave in a row, only the last is signaled, and
{11 ACK} is for all.

So a program that has several requests posts them as a list (wr.next), and polls several completions with one call.`,
			NIC: `
A doorbell is an uncached write across PCI Express, some hundred nanoseconds of the processor's. "roce perf write-bw -s 8 -l 1 -Q 1 -t 1" is
one by one; "-l 64 -Q 32 -t 128" posts lists of 64. Here a doorbell is what takes a turn of the stack, and a list leaves with one system
call.`,
			Scenario: func(w *world.World) {
				a, b := connected(w, qp.RC)
				for i := range uint64(3) {
					_ = a.QP.PostSend(a.write(1+i, 32, b, 0))
					w.Run()
					a.CQ.Poll()
				}
				_ = a.QP.PostSend(quiet(a.write(4, 32, b, 64)), quiet(a.write(5, 32, b, 128)),
					quiet(a.write(6, 32, b, 192)), a.write(7, 32, b, 256))
				finish(w, a)
			},
			Claims: []Claim{packets("RDMA_WRITE_ONLY", "ACK", "RDMA_WRITE_ONLY", "ACK", "RDMA_WRITE_ONLY", "ACK",
				"RDMA_WRITE_ONLY", "RDMA_WRITE_ONLY", "RDMA_WRITE_ONLY", "RDMA_WRITE_ONLY", "ACK"),
				completes("A", qp.WCSuccess, qp.WCSuccess, qp.WCSuccess, qp.WCSuccess)},
			Question: "The second of four requests in a list is wrong (an opcode that there is not). What " +
				"has been posted?",
			Answers: []string{"nothing", "the first; bad_wr names the second", "all but the second"}, Right: 1,
			Why: "ibv_post_send stops at the first that it cannot take and says which (bad_wr). What was before it " +
				"is posted. Our own PostSend does the same; its error has the index.",
		},
		{
			Name: "inline", Title: "Inline: the bytes go with the request",
			Text: `
A posts two WRITEs of the 4 bytes "one.", and stores "two." into its buffer right after, before the device has done anything. The first is
inline: the bytes were copied into the request while it was posted, and {1 RDMA_WRITE_ONLY} carries "one.". The second names the buffer, and
{2 RDMA_WRITE_ONLY} carries what is there when the device looks: "two.".

So the buffer of an inline request is free as soon as ibv_post_send returns, and needs no lkey. Any other belongs to the device until the
completion.`,
			NIC: `
A NIC fetches an ordinary request, then its bytes: two trips across PCI Express. Inline there is one, which saves some hundred nanoseconds
for small messages. How many bytes fit is max_inline_data, a few hundred at most; they make each entry of the send queue larger. "roce perf
write-lat -I 0" and "-I 220" show what it is worth; here, where nothing crosses a bus, hardly anything.`,
			Scenario: func(w *world.World) {
				a, b := connected(w, qp.RC)
				a.Buf.Set(0, []byte("one."))
				inline := quiet(a.write(1, 4, b, 0))
				inline.SGL, inline.Inline, inline.Flags = nil, a.Buf.Bytes[:4], qp.SendInline
				_ = a.QP.PostSend(inline, a.write(2, 4, b, 64))
				a.Buf.Set(0, []byte("two."))
				finish(w, a)
			},
			Claims: []Claim{packets("RDMA_WRITE_ONLY", "RDMA_WRITE_ONLY", "ACK", "ACK"), completes("A", qp.WCSuccess),
				has("B", "buf", 0, []byte("one.")...), has("B", "buf", 64, []byte("two.")...)},
			Question: "May a READ be inline?", Answers: []string{"yes, up to max_inline_data", "no"}, Right: 1,
			Why: "A READ has no bytes to send with its request. Inline is for SEND and WRITE.",
		},
		{
			Name: "every-nth", Title: "Signaling every n-th", Queues: true,
			Text: `
A WRITE that is signaled ({1 RDMA_WRITE_ONLY}, {2 ACK}, {A 1 SUCCESS}), and then eight of which every fourth is: {A 2 SUCCESS} says that the
first four are done, {A 3 SUCCESS} that all are. Two completions to poll instead of eight, and two ACKs, {7 ACK} and {12 ACK}, instead of
one for each: this device asks for an ACK where somebody waits for it.

n must leave room: the places of requests that are not signaled come back only with the next completion, so n is at most the length of the
send queue, and half of it lets the program post while it waits.`,
			NIC: `
"roce perf write-bw -s 8 -Q 1" against "-Q 32" shows it. A NIC writes each completion of 64 bytes across PCI Express.`,
			Scenario: func(w *world.World) {
				a, b := connected(w, qp.RC)
				_ = a.QP.PostSend(a.write(1, 32, b, 0))
				w.Run()
				for half := range uint64(2) {
					first := 4*half + 2
					_ = a.QP.PostSend(quiet(a.write(first, 32, b, 0)), quiet(a.write(first+1, 32, b, 0)),
						quiet(a.write(first+2, 32, b, 0)), a.write(first+3, 32, b, 0))
					w.Run()
				}
				finish(w, a)
			},
			Claims: []Claim{packets("RDMA_WRITE_ONLY", "ACK", "RDMA_WRITE_ONLY", "RDMA_WRITE_ONLY", "RDMA_WRITE_ONLY",
				"RDMA_WRITE_ONLY", "ACK", "RDMA_WRITE_ONLY", "RDMA_WRITE_ONLY", "RDMA_WRITE_ONLY", "RDMA_WRITE_ONLY",
				"ACK"), completes("A", qp.WCSuccess, qp.WCSuccess, qp.WCSuccess)},
			Question: "A send queue of 16, every 32nd request signaled, never more than 16 posted. What happens?",
			Answers: []string{"it works: places come back with the ACKs",
				"after 16 requests ibv_post_send says ENOMEM, for ever"}, Right: 1,
			Why: "The 16 places wait for a completion that the 32nd would give, and that can never be posted. (This " +
				"device frees places by ACKs; do not rely on it.)",
		},
		timeline,
	}}

// The WRITE of the time line: its payload, and what it is on Ethernet, preamble and gap included.
const (
	timelineBytes = 1024
	timelineFrame = timelineBytes + 8 + 14 + 20 + 8 + 12 + 16 + 4 + 4 + 12
)

// timeline is the way of a WRITE with its times.
var timeline = &Lesson{
	Name: "timeline", Title: "The time line of a WRITE", Queues: true,
	Text: fmt.Sprintf(`
post, fetch, wire, ACK, CQE, poll: a WRITE of %d bytes in the world, where the cable takes 2000 ns and the port 10 Gbit/s. The device takes
the request 300 ns after it was posted. A frame of %d bytes, with what is around it, takes %d ns to leave, so {1 RDMA_WRITE_ONLY} arrives %d
ns after its first bit has left. {2 ACK} is short and takes little more than the cable. Only when it is back is there a completion,
{A 1 SUCCESS}: about two cables and a frame after the post.

B has the bytes half a round trip after the post; A knows it after a whole one. So latency tests of perftest halve the time of two messages,
and a program that waits for each completion before it posts the next moves one message a round trip, however fast the line is.

Measured, between two processes on the machine of the README: "roce perf write-bw -s 8 -t 1 -Q 1 --pcap bw.pcapng --records" writes down
what the client's device did, and "roce trace timeline bw.pcapng" shows it. One WRITE of two hundred, in microseconds:

    0.000  request RDMA_WRITE wr 12582912, 8 B      posted; a turn of the stack takes it
    0.000  packet RC RDMA_WRITE_ONLY, ackreq, 8 B   and sends it, by the clock of that turn
    5.718  packet RC ACKNOWLEDGE                    the wire, the other process's turn, the wire
    5.718  completion RDMA_WRITE: success           in the same turn
    7.166  request RDMA_WRITE wr 12648448, 8 B      polled, looked at, and the next one posted

"roce perf write-lat" and "roce perf notify" have the sums for your own machine.`, timelineBytes, timelineFrame, timelineFrame*8/10, 2000+timelineFrame*8/10),
	NIC: `
Between post and wire a NIC fetches the request and the bytes by PCI Express, 300 to 500 ns each; at B it writes them to memory, another
300. Two NICs on one cable need 1 to 2 us for a small WRITE one way, of which the wire is the least.`,
	Scenario: func(w *world.World) {
		a, b := connected(w, qp.RC)
		_ = a.QP.PostSend(a.write(1, timelineBytes, b, 0))
		finish(w, a)
	},
	Claims: []Claim{packets("RDMA_WRITE_ONLY", "ACK"), completes("A", qp.WCSuccess),
		holds("B", "buf", 0, "A", "buf", 0, timelineBytes), travels(1, 2000+timelineFrame*8/10, 2),
		later("A", 1, 4000+timelineFrame*8/10)},
	Question: "A posts, waits for the completion, posts again. The round trip takes 10 us. How many messages a second?",
	Answers:  []string{"10,000", "100,000", "as many as the line carries"}, Right: 1,
	Why: "One each 10 us: 100,000. To fill the line, have several under way.",
}

// quiet is a request that asks for no completion.
func quiet(w qp.SendWR) qp.SendWR {
	w.Flags &^= qp.SendSignaled
	return w
}

// notified: so many completion events were raised for a host's program.
func notified(host string, want int) Claim {
	return func(p *world.Play) error {
		got := 0
		for _, e := range p.EntriesOf(host, "event") {
			if !e.Async {
				got++
			}
		}
		if got != want {
			return fmt.Errorf("%s's program has %d completion events, in the lesson %d", host, got, want)
		}
		return nil
	}
}

// travels: a packet is under way for so many nanoseconds, more or less.
func travels(n int, want, about int64) Claim {
	return func(p *world.Play) error {
		if n > len(p.Packets) {
			return fmt.Errorf("there is no packet %d, as there is in the lesson", n)
		}
		if took := p.Packets[n-1].Arrived - p.Packets[n-1].Sent; took < want-about || took > want+about {
			return fmt.Errorf("packet %d is under way for %d ns, in the lesson %d", n, took, want)
		}
		return nil
	}
}

// later: the n-th completion of a host comes no earlier than so many nanoseconds after the first
// packet has left.
func later(host string, n int, least int64) Claim {
	return func(p *world.Play) error {
		seen := 0
		for _, c := range p.Completions {
			if c.Host != p.Host(host) {
				continue
			}
			if seen++; seen == n && len(p.Packets) > 0 {
				if took := c.Time - p.Packets[0].Sent; took < least {
					return fmt.Errorf("completion %d of %s comes after %d ns, in the lesson not before %d",
						n, host, took, least)
				}
				return nil
			}
		}
		return fmt.Errorf("%s has no completion %d, as it has in the lesson", host, n)
	}
}
