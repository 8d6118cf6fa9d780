package learn

// The last chapter: how two programs find each other, how one sees what happens on real networks,
// what else there is beside RoCE, and where RDMA is the wrong tool.

import (
	"fmt"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/trace/world"
)

var outside = Chapter{Name: "outside", Title: "Out in the world",
	Text: `
From the two hosts of these lessons to machines and networks as they are.`,
	Lessons: []*Lesson{
		{
			Name: "by-hand", Title: "Connecting by hand, and through the connection manager", SetUp: true,
			Text: `
Two queue pairs that are to talk must know of each other: address (GID), number (QPN), first PSN, path MTU, how many READs at a time. By
hand the two programs swap these over a TCP connection, as perftest does, and each takes its own queue pair through INIT, RTR (with the
peer's numbers) and RTS (with its own). That is what you see here: six calls, no packet. Not one bit about it goes over RDMA. {1 SEND_ONLY}
is the first packet, {2 ACK} the answer.

The connection manager (rdma_cm) does it by IP address and port, as sockets do. rdma_connect sends a REQ to queue pair 1 of the other host,
with all these numbers; rdma_accept answers with a REP, with the other's; an RTU says that it has come. Three datagrams, one and a half
round trips; then both queue pairs are in RTS. A DREQ and a DREP end it. It also carries up to 56 bytes of the program's own in the REQ,
such as an address and an rkey.

"roce rping -s" and "roce rping -c -a HOST --pcap cm.pcapng", then "roce trace decode cm.pcapng" shows REQ, REP and RTU with every field.
"roce perf write-bw" connects by hand, with -R through the connection manager. In Go: QP.Connect with an Endpoint, or rdmacm.Dial.`,
			NIC: `
With -R you need not look for the right GID index: the address chooses it.`,
			Scenario: func(w *world.World) {
				a, b := two(w, qp.RC)
				for _, ends := range [][2]*end{{a, b}, {b, a}} {
					own, peer := ends[0].QP, ends[1].QP
					own.Attr.DestQPN, own.Attr.RQPSN, own.Attr.AV.DGID = peer.QPN(), peer.Attr.SQPSN, peer.Host.GID
					own.To(qp.StateRTS)
				}
				_ = b.recv(7, 512, 100)
				_ = a.QP.PostSend(a.send(1, 32))
				finish(w, a, b)
			},
			Claims: []Claim{packets("SEND_ONLY", "ACK"), completes("B", qp.WCSuccess), state("A", 0, qp.StateRTS),
				state("B", 0, qp.StateRTS)},
			Question: "Who may send first after a connection through the connection manager?",
			Answers:  []string{"either, at once", "the side that connected; the other when the RTU, or data, has come"},
			Right:    1, Why: "The connecting side has the REP, so the other is ready to receive. The accepting side " +
				"knows that only when the RTU or a first message arrives (IBV_EVENT_COMM_EST).",
		},
		wan,
		compared,
		{
			Name: "capturing", Title: "Capturing on a real NIC",
			Text: `
{1 RDMA_WRITE_ONLY} and {2 ACK}: what you see here, and what "roce --pcap" writes, are packets that a program has made. tcpdump on the host
of a NIC shows none of this, as the packets of hardware RDMA never pass the kernel. You see the TCP connection over which the programs
swapped their numbers, and then nothing.

Four ways to see them. The NIC's own tap: with mlx5, tcpdump on the RDMA device itself (tcpdump -i mlx5_0) copies what it sends and
receives, if libpcap knows RDMA devices. A mirror port of the switch to a third machine: complete, with no load on the ends; packets may be
dropped at the mirror at full rate. rxe, or this stack, at one end: then one end is software, and everything is on its interface. And the
counters, if there is nothing else: /sys/class/infiniband/DEVICE/ports/1/hw_counters.

Whatever wrote the file, "roce trace analyze FILE" says what became of each message, and "sudo roce trace capture eth1" is a listener for
the mirror port.`,
			Scenario: func(w *world.World) {
				a, b := connected(w, qp.RC)
				_ = a.QP.PostSend(a.write(1, 64, b, 0))
				finish(w, a)
			},
			Claims:   []Claim{packets("RDMA_WRITE_ONLY", "ACK"), completes("A", qp.WCSuccess)},
			Question: "tcpdump -i eth0 shows nothing while ib_write_bw runs at 90 Gbit/s. What is wrong?",
			Answers: []string{"nothing: the kernel does not see the NIC's RDMA packets", "the test runs over loopback",
				"UDP port 4791 is blocked"}, Right: 0,
			Why: "That is kernel bypass. With rxe or this stack you would see them.",
		},
		{
			Name: "my-nic", Title: "Does my NIC do RDMA?",
			Text: `
There are no packets in this lesson: the question comes before the first.

    ls /sys/class/infiniband          a name there is an RDMA device: mlx5_0, irdma0, bnxt_re0, qedr0, rxe0
    ibv_devices; rdma link            the same, and on which interface it is
    lspci | grep -i -e ethernet -e infiniband

If the first is empty and the third names a ConnectX, an E810 or X722, a BCM575xx, a FastLinQ 41000, a Chelsio T6, the hardware can and the
driver is missing: modprobe mlx5_ib (irdma, bnxt_re, qedr, iw_cxgb4), and the package rdma-core. Most other cards, those of desktops, and
what clouds give virtual machines unless they say RDMA, cannot. "transport" of ibv_devinfo says InfiniBand also for RoCE; "link_layer:
Ethernet" is what makes it RoCE. X722 and Chelsio do iWARP, which is not RoCE: the two do not talk to each other.

Without such a card: rxe, if the kernel has the module, and this stack anywhere. "roce devices" shows what it can open, "roce doctor PEER"
why two machines cannot connect.`,
			Scenario: func(w *world.World) { w.AddHost("A").RegMR("buf", 4096, all) },
			Claims:   []Claim{packets(), completes("A"), hosts(1)},
			Question: "ibv_devinfo says \"transport: InfiniBand\" and \"link_layer: Ethernet\". What is it?",
			Answers:  []string{"InfiniBand", "RoCE", "iWARP"}, Right: 1,
			Why: "RoCE is InfiniBand's transport over Ethernet. iWARP would say \"transport: iWARP\".",
		},
		{
			Name: "when-not", Title: "When not to use RDMA",
			Text: `
A message and its answer, {1 SEND_ONLY} to {4 ACK}, are quick. What they ask for in exchange is not always worth it.

Not for few or slow messages: if the program thinks for a millisecond about each, ten microseconds less do not show. The quiz ("roce learn
quiz speed-up") has the sum.

Not across the internet or through NAT: RoCE needs UDP to arrive as it left, hardly any loss, and a network that is trusted; the packets are
neither encrypted nor authenticated.

Not with thousands of peers that all talk to all: each reliable connection has state in the device. Use datagrams (UD), fewer connections,
or TCP.

Not to sleep: most of the gain comes from polling. A program that must not keep a processor busy has what "roce perf sockets" shows under
events: on this stack more than UDP takes.

Not for what a kernel does for you: flow control, fairness, security, reconnecting, any peer. With RDMA that is your program's. If you want
the speed without the verbs, take something that is built upon them: rsockets (package roce/rsocket), NVMe over RDMA, NFS over RDMA, MPI,
UCX, libfabric.`,
			Scenario: func(w *world.World) {
				a, b := connected(w, qp.RC)
				_, _ = a.recv(9, 1024, 100), b.recv(7, 1024, 100)
				_ = a.QP.PostSend(a.send(1, 32))
				w.Run()
				_ = b.QP.PostSend(b.send(2, 32))
				finish(w, a, b)
			},
			Claims: []Claim{packets("SEND_ONLY", "ACK", "SEND_ONLY", "ACK"),
				completes("A", qp.WCSuccess, qp.WCSuccess), completes("B", qp.WCSuccess, qp.WCSuccess)},
			Question: "A web server with 100,000 clients on the internet, mostly idle. RDMA to the clients?",
			Answers:  []string{"yes", "no; perhaps between the server and its storage"}, Right: 1,
			Why: "Clients behind NAT, over lossy paths, untrusted, mostly idle: all that speaks against it. Between " +
				"machines of one room that talk all the time it is the other way round.",
		},
	}}

// The path of the lesson: what it needs under way, and what a window of rxe's 128 packets moves.
const (
	wanDelay   = 20_000_000 // nanoseconds one way
	wanRTT     = 2 * wanDelay
	wanGbit    = 10
	wanNeedMB  = wanGbit * 1000 / 8 * (wanRTT / 1_000_000) / 1000
	wanWindow  = 128 * 1024 // bytes
	wanMbit    = wanWindow * 8 * 1000 / wanRTT
	timeout14  = 4096 << 14 // ns
	timeout8us = 4096 << 8 / 1000
)

var wan = &Lesson{
	Name: "wan", Title: "RDMA over a long way",
	Text: fmt.Sprintf(`
Here the cable takes %d ms, a round trip %d. A writes 8000 bytes. {1 RDMA_WRITE_FIRST} leaves at once, the bytes are at B after half a round
trip, and {A 1 SUCCESS} comes after a whole one: the line is idle nearly all the time. To fill %d Gbit/s, %d MB must be under way. rxe has a
window of 128 packets: %d KiB each %d ms are %d Mbit/s, however fast the line is. This stack's window grows with the path; "roce perf
write-bw -t 1024 -s 1M" gives it something to send.

Every time must fit the path. An ack timeout code of 8, %d us, is far below the round trip here: a requester that obeys it repeats
everything before the first ACK can be back, and gives up. A's queue pair has code 14, %d ms.

And loss: going back, a lost packet costs a round trip and all that was sent behind it. At 1 lost packet in 10,000 and a window of %d MB
there is nearly always one missing. Selective repeat sends only that again. Both are yours to try: --change drop:3.`,
		wanDelay/1_000_000, wanRTT/1_000_000, wanGbit, wanNeedMB, wanWindow/1024, wanRTT/1_000_000, wanMbit, timeout8us,
		timeout14/1_000_000, wanNeedMB),
	NIC: `
NICs reach over some tens of kilometers (a millisecond) with large windows and PFC switched off on the long link; beyond that their windows
and buffers end. RoCE crosses routers; what it does not cross is NAT.`,
	Scenario: func(w *world.World) {
		w.Delay = wanDelay
		a, b := two(w, qp.RC)
		a.QP.Attr.Timeout, b.QP.Attr.Timeout = 14, 14
		w.Connect(a.QP, b.QP)
		_ = a.QP.PostSend(a.write(1, 8000, b, 0))
		finish(w, a)
	},
	Claims: []Claim{completes("A", qp.WCSuccess), later("A", 1, wanRTT), fate(1, world.Delivered),
		holds("B", "buf", 0, "A", "buf", 0, 8000), records("A", qp.RecordRetry, 0)},
	Question: "The round trip is 80 ms, the window 16 MiB. How much per second at most?",
	Answers:  []string{"1.7 Gbit/s", "16.8 Gbit/s", "what the line has"}, Right: 0,
	Why: "16 MiB each 80 ms: 16 * 1048576 * 8 / 0.08 s = 1.68 Gbit/s.",
}

// What a MIDDLE packet of a path MTU of 4096 has around it, in bytes.
const (
	midMTU = 4096
	// preamble, Ethernet, IPv4, UDP, BTH, ICRC, FCS, gap
	aroundRoCE = 8 + 14 + 20 + 8 + 12 + 4 + 4 + 12
	aroundIB   = 8 + 12 + 4 + 2 // LRH, BTH, ICRC, VCRC
	// preamble, Ethernet, IPv4, TCP with timestamps, FCS, gap; MPA length and CRC, DDP and RDMAP of
	// a tagged segment; Ethernet's 1500 bytes bound it
	aroundIWARP = 8 + 14 + 20 + 32 + 4 + 12 + 2 + 4 + 14
	midIWARP    = 1500 - 20 - 32 - 2 - 4 - 14
)

// share of a line that payload has, in percent.
func share(payload, around int) float64 { return 100 * float64(payload) / float64(payload+around) }

var compared = &Lesson{
	Name: "compared", Title: "RoCE, InfiniBand and iWARP",
	Text: fmt.Sprintf(`
Three networks, one set of verbs: a program need not know which it is on, but for addresses and the connection manager.

InfiniBand has its own links and switches, addresses that a subnet manager gives (LIDs), and credits on each link, so nothing is dropped for
want of room. RoCE is its transport, the headers from BTH to ICRC as in {1 RDMA_WRITE_FIRST}, over Ethernet: version 1 directly (Ethertype
0x8915, not routed), version 2 in UDP to port 4791. Credits are missing, so it needs PFC, or ECN and good repetition. iWARP is RDMA over TCP
(MPA, DDP, RDMAP): TCP repeats what is lost, so any network will do; it has READ, WRITE and SEND, atomics only in newer standards, and few
NICs have it.

                     InfiniBand        RoCEv2              iWARP
    below            its own links     Ethernet, IP, UDP   Ethernet, IP, TCP
    address          LID, GID          GID = IP address    IP address
    loss             hardly: credits   PFC or ECN, repeat  TCP
    routed           rarely (GRH)      yes                 yes
    UD, multicast    yes               yes                 no
    around a packet  %d bytes          %d bytes            %d bytes
    payload at most  %.1f %%            %.1f %%              %.1f %%

(The last two rows: MIDDLE packets of 4096 bytes, IPv4, with preamble and gap; iWARP in frames of 1500.) The standards are the InfiniBand
Architecture Specification with its annexes A16 and A17 for RoCE, and RFC 5040, 5041, 5044 for iWARP.`, aroundIB, aroundRoCE, aroundIWARP, share(midMTU, aroundIB), share(midMTU, aroundRoCE), share(midIWARP, aroundIWARP)),
	Scenario: func(w *world.World) {
		a, b := connected(w, qp.RC)
		_ = a.QP.PostSend(a.write(1, 2500, b, 0))
		finish(w, a)
	},
	Claims: []Claim{packets("RDMA_WRITE_FIRST", "RDMA_WRITE_MIDDLE", "RDMA_WRITE_LAST", "ACK", "ACK"),
		completes("A", qp.WCSuccess)},
	Question: "Can a RoCEv2 NIC talk to an iWARP NIC?", Answers: []string{"yes, the verbs are the same",
		"no: the packets have nothing in common"}, Right: 1,
	Why: "The verbs are an interface in a machine. On the wire one is UDP with BTH, the other a TCP stream.",
}

// hosts: so many hosts take part.
func hosts(want int) Claim {
	return func(p *world.Play) error {
		if got := len(p.Hosts); got != want {
			return fmt.Errorf("%d hosts take part, in the lesson %d", got, want)
		}
		return nil
	}
}
