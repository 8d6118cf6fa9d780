package learn

// The chapter of loss and congestion.

import (
	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/trace/world"
	"github.com/goroce/goroce/wire"
)

var loss = Chapter{Name: "loss", Title: "Lost packets and full queues",
	Text: `
Networks lose packets: a queue in a switch is full, a bit flips. A reliable connection repairs that, and no program notices but by the time
it takes. What is lost here you can let through (--change deliver:2), and lose something else instead.`,
	Lessons: []*Lesson{
		{
			Name: "lost-packet", Title: "A lost packet: go back",
			Text: `
A writes 5000 bytes, five packets. {2 lost}. B's device gets {3 RDMA_WRITE_MIDDLE} where it expected PSN 1001: one is missing. It does not
keep packet 3, nor 4 and 5. It says once what it waits for: {7 NAK PSN sequence error}, with PSN 1001.

A's device goes back to that PSN and sends everything again from there: {8 RDMA_WRITE_MIDDLE} and so on. This is called go-back-N. One lost
packet has cost four. A's program sees nothing of it: {A 1 SUCCESS}, later than without.

The packets are not kept anywhere. They are made again, from the memory that the request names. That is why a program must not change it
before the completion.`,
			NIC: `
The same. Newer NICs can do better between themselves (selective repeat, see below); the standard has go-back-N only.`,
			Scenario: func(w *world.World) {
				w.Change(2, world.Drop)
				a, b := connected(w, qp.RC)
				_ = a.QP.PostSend(a.write(1, 5000, b, 0))
				finish(w, a, b)
			},
			Claims: []Claim{fate(2, world.Lost), records("A", qp.RecordRetry, 1), completes("A", qp.WCSuccess),
				holds("B", "buf", 0, "A", "buf", 0, 5000), drops("B", wire.DropOutOfSequence, 3)},
			Question: "Three packets came behind the gap. How many NAKs does B send?",
			Answers:  []string{"one", "three", "none"}, Right: 0, Why: "One NAK for a gap: more would make the " +
				"sender go back again and again. The others behind it are dropped in silence.",
		},
		{
			Name: "lost-ack", Title: "A lost ACK",
			Text: `
A sends two messages. {3 lost}: the ACK of the first. It does not matter: {4 ACK} is about the second, and an ACK speaks for all before it.
Both requests complete with it, {A 1 SUCCESS} and {A 2 SUCCESS}.

The last ACK is another matter: see the next lesson.`,
			Scenario: func(w *world.World) {
				w.Change(3, world.Drop)
				a, b := connected(w, qp.RC)
				_, _ = b.recv(7, 0, 100), b.recv(8, 100, 100)
				_ = a.QP.PostSend(a.send(1, 32), a.send(2, 32))
				finish(w, a, b)
			},
			Claims: []Claim{packets("SEND_ONLY", "SEND_ONLY", "ACK", "ACK"), fate(3, world.Lost),
				completes("A", qp.WCSuccess, qp.WCSuccess), completes("B", qp.WCSuccess, qp.WCSuccess),
				records("A", qp.RecordRetry, 0)},
			Question: "Does the loss of this ACK cost anything?",
			Answers: []string{"a packet more", "a little time for the first completion, no packet",
				"the first message is executed twice"}, Right: 1,
			Why: "Nothing is sent again. Only the first completion is as late as the second.",
		},
		{
			Name: "lost-last", Title: "The last one is lost",
			Text: `
{1 SEND_ONLY} arrives, B has its message and its completion. But {2 lost}, the ACK. A's device does not know whether message or ACK was
lost, and nothing more comes that would tell. It waits until its timeout, here 1.05 ms, and sends the message again: {3 SEND_ONLY}.

B's device has seen PSN 1000. It does not execute it again: no second receive is taken, B's program does not get it twice. It only says
again what it has said: {4 ACK}. Now A has {A 1 SUCCESS}.

The timeout is a code in the queue pair: 4.096 us times 2 to that power. 14, a usual value, is 67 ms, an eternity on a path of 5 us. So a loss
at the end is what hurts most.`,
			NIC: `
NICs round the timeout, and many have a least one of some milliseconds. Our device, once it has measured the round trip, asks much earlier: it
sends the oldest packet again after a few round trips of silence (a probe). Here it could not: nothing had been measured yet.`,
			Scenario: func(w *world.World) {
				w.Change(2, world.Drop)
				a, b := connected(w, qp.RC)
				_ = b.recv(7, 0, 100)
				_ = a.QP.PostSend(a.send(1, 32))
				finish(w, a, b)
			},
			Claims: []Claim{packets("SEND_ONLY", "ACK", "SEND_ONLY", "ACK"), fate(2, world.Lost),
				completes("A", qp.WCSuccess), completes("B", qp.WCSuccess)},
			Question: "What is the timeout of code 18?", Answers: []string{"18 ms", "about 1.07 s", "about 4.3 s"},
			Right: 1, Why: "4.096 us * 2^18 = 1.07 s. Each step doubles.",
		},
		{
			Name: "lost-atomic", Title: "A repeated atomic is executed once",
			Text: `
A adds 1 to B's counter, which is 10. {1 FETCH_ADD} is executed, the counter is 11. But {2 lost}, the answer. After the timeout A sends the
same request again: {3 FETCH_ADD}.

If B executed it again the counter would be 12. It does not. B's device keeps the answers of the newest atomics, and finds this one by its
PSN: {4 ATOMIC_ACKNOWLEDGE} brings the old value, 10, from the store.

A READ that is repeated is executed again, as reading twice does no harm; it may bring newer bytes then.`,
			NIC: `
How many answers it keeps is max_dest_rd_atomic: no more atomics than that can be under way.`,
			Scenario: func(w *world.World) {
				w.Change(2, world.Drop)
				a, b := connected(w, qp.RC)
				number(b.Buf, 0, 10)
				_ = a.QP.PostSend(a.add(1, 4096, b, 0, 1))
				finish(w, a)
			},
			Claims: []Claim{packets("FETCH_ADD", "ATOMIC_ACKNOWLEDGE", "FETCH_ADD", "ATOMIC_ACKNOWLEDGE"),
				fate(2, world.Lost), completes("A", qp.WCSuccess), has("B", "buf", 0, native(11)...),
				has("A", "buf", 4096, native(10)...)},
			Question: "A's connection breaks before the answer comes. Was the atomic executed?",
			Answers:  []string{"no", "yes", "it cannot be known"}, Right: 2,
			Why: "Either the request or the answer was lost, and over a new connection nobody remembers. A program " +
				"that must know has to make it part of its data.",
		},
		{
			Name: "retry-exceeded", Title: "Nobody answers: retry exceeded",
			Text: `
A cable is pulled: all that A sends is lost. A sends {1 RDMA_WRITE_ONLY}, hears nothing until its timeout, sends it
again, and so on, three times more (retry_cnt 3).
Then it gives up: {A 1 RETRY_EXC_ERR}. The request behind it is flushed: {A 2 WR_FLUSH_ERR}.

How long that takes is the timeout times the number of tries. With timeout 14 and retry_cnt 7, usual values, it is more than half a second;
with timeout 18 more than 8 seconds. It is how soon a program notices that its peer is gone.

B notices nothing. A peer that only receives has to ask now and then, by a message of its own.`,
			NIC: `
NICs wait between one and four times the timeout for each try (the standard allows that), some longer with each.`,
			Scenario: func(w *world.World) {
				a, b := connected(w, qp.RC)
				w.Cut(a.Host)
				_ = a.QP.PostSend(a.write(1, 32, b, 0))
				w.RunFor(10 * world.Microsecond)
				_ = a.QP.PostSend(a.write(2, 32, b, 0))
				finish(w, a, b)
			},
			Claims: []Claim{completes("A", qp.WCRetryExcErr, qp.WCWRFlushErr), records("A", qp.RecordGiveUp, 1),
				state("A", 0, qp.StateErr), state("B", 0, qp.StateRTS), completes("B")},
			Question: "Status 12 at A. Did B execute the request?",
			Answers:  []string{"no", "perhaps: only the answers may have been lost"}, Right: 1,
			Why: "Here nothing has arrived. But if only B's ACKs are lost, A sees the same, and B has " +
				"executed everything.",
		},
		{
			Name: "overtaken", Title: "A packet that is overtaken",
			Text: `
{2 RDMA_WRITE_MIDDLE} is not lost. It takes another way and is 20 us late. To B that is a gap as any other: when {3 RDMA_WRITE_MIDDLE}
comes first, B's device says {6 NAK PSN sequence error}, and A sends again from PSN 1001 on. When the late packet comes at last, B has
that PSN already: a duplicate, which is not executed.

So a network must keep the packets of a queue pair in order. Switches do it by sending all that have the same addresses and UDP ports the
same way. That is what the UDP source port is for: a device gives each connection one of its own, so that connections are spread over
all ways, and each of them keeps to one.`,
			NIC: `
NICs do so, and our packet and xdp devices; our udp device is a socket, which has one port: all that it sends comes from 4791. NICs with adaptive routing put up with WRITEs in any order: each of their packets must have its address, so they are not those of the
standard.`,
			Scenario: func(w *world.World) {
				w.Change(2, world.Delay)
				a, b := connected(w, qp.RC)
				_ = a.QP.PostSend(a.write(1, 4000, b, 0))
				finish(w, a, b)
			},
			Claims: []Claim{completes("A", qp.WCSuccess), holds("B", "buf", 0, "A", "buf", 0, 4000),
				records("A", qp.RecordRetry, 1)},
			Question: "Two ways of the same speed are there. Why does a queue pair not use both at once?",
			Answers:  []string{"its packets would overtake each other", "a NIC has one port only"}, Right: 0,
			Why: "Each overtaking costs a NAK and a repetition of all that is under way. Several queue pairs " +
				"use several ways.",
		},
		{
			Name: "corrupted", Title: "A bit flips: the ICRC",
			Text: `
Ethernet has a checksum, but each switch takes it off and makes it anew: what happens inside of a switch it does not see. So every RoCE
packet ends with one of its own, the ICRC, over all that no router may change.

A bit of {1 RDMA_WRITE_ONLY} has flipped on the way. B's device computes another ICRC, and drops the packet without a word: it cannot even trust the
number of the queue pair. To A it is a loss like any other. {2 RDMA_WRITE_ONLY} shows B the gap, and everything goes again.`,
			Scenario: func(w *world.World) {
				w.Change(1, world.Corrupt)
				a, b := connected(w, qp.RC)
				_ = a.QP.PostSend(a.write(1, 32, b, 0), a.write(2, 32, b, 32))
				finish(w, a, b)
			},
			Claims: []Claim{fate(1, world.Corrupted), drops("B", wire.DropICRC, 1),
				completes("A", qp.WCSuccess, qp.WCSuccess), holds("B", "buf", 0, "A", "buf", 0, 32)},
			Question: "A router counts down the TTL of a packet. Is the ICRC wrong then?",
			Answers:  []string{"no: it leaves out what routers change", "yes, so the router makes it anew"}, Right: 0,
			Why: "TTL, traffic class and header checksum count as ones in the ICRC. A router knows nothing of it.",
		},
		{
			Name: "selective-repeat", Title: "Go-back-N against selective repeat",
			Text: `
Two pairs of queue pairs do the same: a WRITE of 8 packets, of which the second is lost. The first pair goes back as the standard says:
after {8 NAK PSN sequence error} it sends 7 packets again. The second pair has agreed on selective repeat. B's device keeps what comes behind
the gap, and {29 NAK PSN sequence error} says which packet is missing. A sends that one again, {32 RDMA_WRITE_MIDDLE}, and no other.

How much that matters depends on how much is under way. At 100 Gbit/s and a round trip of 100 us it is 300 packets of 4 KiB, and each loss
costs all of them.`,
			NIC: `
Selective repeat is not in the standard. NICs of one maker have it among themselves, and so has this stack
(ConnectOptions.SelectiveRepeat): both ends must have it, and must agree before they connect.`,
			Scenario: func(w *world.World) {
				a, b := connected(w, qp.RC)
				w.Change(2, world.Drop)
				_ = a.QP.PostSend(a.write(1, 8192, b, 0))
				w.Run()
				qa, qb := a.CreateQP(a.CQ, world.QPInit{}), b.CreateQP(b.CQ, world.QPInit{})
				qa.Attr.SelectiveRepeat, qb.Attr.SelectiveRepeat = true, true
				w.Connect(qa, qb)
				w.Change(w.Sent()+2, world.Drop)
				_ = qa.PostSend(a.write(2, 8192, b, 0))
				finish(w, a, b)
			},
			Claims: []Claim{completes("A", qp.WCSuccess, qp.WCSuccess), holds("B", "buf", 0, "A", "buf", 0, 8192),
				drops("B", wire.DropOutOfSequence, 6)},
			Question: "1 packet in 1000 is lost, and 500 are under way. How much of what go-back-N sends " +
				"is sent again?", Answers: []string{"about 0.1 %", "about a third", "about 5 %"}, Right: 1,
			Why: "Every 1000 packets a loss costs up to 500 more: 500 of 1500.",
		},
		{
			Name: "ecn", Title: "Congestion: ECN, CNP and a lower rate",
			Text: `
A and C both write to B, each as fast as its port can. B's port is no faster, so half of it waits at the switch, and more and more of it. When
3000 bytes wait the switch does not drop packets. It marks them: two bits in the IP header (ECN) now say "congestion experienced".

B's device sees the mark and tells the sender, by a packet of its own: {21 CNP}, a congestion notification. It has no PSN and is not
acknowledged. A device that gets one sends at half the rate, and becomes faster again, step by step, while no more come. This is DCQCN.

Nothing was lost, and nothing was sent twice. All completions are {A 1 SUCCESS}.`,
			NIC: `
The switch must be told to mark (its ECN threshold), and the NIC must have RoCE congestion control on; on many it is, by default. Where
nothing marks, queues grow until packets are lost.`,
			Scenario: func(w *world.World) {
				w.MarkAt = 3000
				a, b, c := newEnd(w, "A", qp.RC), newEnd(w, "B", qp.RC), newEnd(w, "C", qp.RC)
				to := b.RegMR("to", 1<<16, all)
				for _, e := range []*end{a, c} {
					w.Connect(e.QP, b.CreateQP(b.CQ, world.QPInit{}))
					for i := range 3 {
						wr := e.write(uint64(i+1), 8192, b, 0)
						wr.RemoteAddr, wr.RKey = to.Addr(8192*i), to.RKey()
						_ = e.QP.PostSend(wr)
					}
				}
				finish(w, a, c)
			},
			Claims: []Claim{completes("A", qp.WCSuccess, qp.WCSuccess, qp.WCSuccess), records("A", qp.RecordRetry, 0),
				records("C", qp.RecordRetry, 0), slowed},
			Question: "Who decides to send slower?", Answers: []string{"the switch", "the receiver",
				"the sender, told by the receiver, who was told by the switch"}, Right: 2,
			Why: "The switch only sets two bits, the receiver only sends a CNP. The sender has the rate.",
		},
		{
			Name: "pfc", Title: "A full switch, and PFC",
			Text: `
The same two senders, but the switch marks nothing and has room for 3000 bytes only. What does not fit is lost. Count the arrows that end
nowhere, and how much is sent again: go-back-N makes it worse, as what is repeated meets the same full queue.

Priority flow control (PFC) is Ethernet's answer: a switch whose queue fills tells its neighbour to pause this class of traffic, and nothing is
lost. It is what "lossless Ethernet" means, and RoCE was made for it. Its price: a pause stops everything of its class, not only who is
too fast. Pauses spread backwards, from switch to switch, and can end in a standstill (a PFC storm, or a deadlock). So PFC is set up
as the last resort, and ECN so that it rarely comes to it.

PFC is below IP. It is not in the packets of this lesson, nor in any capture; switches and NICs count the pauses.`,
			NIC: `
Counters: rx_prio3_pause and tx_prio3_pause of ethtool -S, for instance. Nowadays NICs get along without PFC, by ECN and better repetition;
the first ones did not.`,
			Scenario: func(w *world.World) {
				w.Queue = 3000
				a, b, c := newEnd(w, "A", qp.RC), newEnd(w, "B", qp.RC), newEnd(w, "C", qp.RC)
				for _, e := range []*end{a, c} {
					w.Connect(e.QP, b.CreateQP(b.CQ, world.QPInit{}))
					for i := range 2 {
						_ = e.QP.PostSend(e.write(uint64(i+1), 8192, b, 0))
					}
				}
				finish(w, a, c)
			},
			Claims: []Claim{completes("A", qp.WCSuccess, qp.WCSuccess), completes("C", qp.WCSuccess, qp.WCSuccess),
				someLost},
			Question: "A server's NIC is too slow and pauses its switch all the time. Who suffers?",
			Answers: []string{"only those who send to that server",
				"in the end everybody whose traffic shares a queue with theirs"}, Right: 1,
			Why: "The switch's queue fills with packets for the slow server, then it pauses its own neighbours, and " +
				"these everything of the class, wherever it goes.",
		},
		{
			Name: "lossy", Title: "RoCE without a lossless network",
			Text: `
The same two senders, at 1 Gbit/s; the switch has room for 8000 bytes, and neither marks nor pauses. Both ends of each connection have agreed on
selective repeat. A is alone first, then C comes, and the queue overflows: {19 lost}, and four more of A's.

B's device keeps what comes behind the gap, and says which packets are missing: {46 NAK PSN sequence error}. They alone are sent again, from
{47 RDMA_WRITE_MIDDLE} on. So a loss costs a packet, not all that is under way.

And A's device takes the loss for what it is: packets had to wait in front of the switch just before it, so there is no room for all who send.
It makes its window smaller, the number of packets that it has under way. From then on the window is a share of that queue: it grows slowly, as
that of TCP does, and is cut at the next overflow. QP.PathInfo tells, at the end of the play. A loss where nothing had to wait would have meant nothing: some links lose
packets by chance.

Here all of it is over in less than a millisecond, most of which is the time until the last loss is noticed. docs/congestion.md says what comes of it in a second.`,
			NIC: `
NICs that go back want a network that loses nothing, or one that marks. Some makers have selective repeat and a window against losses
among their own. Which packets a sender sends, and when, is its own affair: the other end need not know.`,
			Scenario: func(w *world.World) {
				w.Queue, w.Rate = 8000, 1e9
				a, b, c := newEnd(w, "A", qp.RC), newEnd(w, "B", qp.RC), newEnd(w, "C", qp.RC)
				for _, e := range []*end{a, c} {
					to := b.CreateQP(b.CQ, world.QPInit{})
					e.QP.Attr.SelectiveRepeat, to.Attr.SelectiveRepeat = true, true
					w.Connect(e.QP, to)
				}
				for i := range 3 {
					_ = a.QP.PostSend(a.write(uint64(i+1), 8192, b, 0))
				}
				w.RunFor(30 * world.Microsecond)
				for i := range 3 {
					_ = c.QP.PostSend(c.write(uint64(i+1), 5500, b, 0))
				}
				finish(w, a, c)
				a.QP.PathInfo()
				c.QP.PathInfo()
			},
			Claims: []Claim{completes("A", qp.WCSuccess, qp.WCSuccess, qp.WCSuccess),
				completes("C", qp.WCSuccess, qp.WCSuccess, qp.WCSuccess), someLost,
				drops("B", wire.DropOutOfSequence, 0), shares("A")},
			Question: "Nothing waits in any queue, and 1 packet in 1000 is lost by a bad cable. " +
				"What should the window do?",
			Answers: []string{"shrink at each loss", "stay as it is", "shrink to one packet"}, Right: 1,
			Why: "There is room. A smaller window would only make it slower, as it does TCP's. What is lost is sent " +
				"again, one packet in 1000.",
		},
	}}
