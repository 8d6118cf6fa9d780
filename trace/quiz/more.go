package quiz

// The kinds of questions about the wire, about times, and about processors.

import "fmt"

// mtus are the path MTUs that there are (section 2 of docs/rocev2.md).
var mtus = []int{256, 512, 1024, 2048, 4096}

func packets(d *dice) Question {
	mtu, n := of(d, mtus...), d.from(0, 1<<18)
	count := max((n+mtu-1)/mtu, 1)
	why := fmt.Sprintf("%d / %d, rounded up, is %d: ", n, mtu, count)
	switch {
	case n == 0:
		why = "A message without bytes is still a packet: "
		fallthrough
	case count == 1:
		why += "an ONLY."
	case count == 2:
		why += "a FIRST and a LAST."
	default:
		why += fmt.Sprintf("a FIRST, %d times MIDDLE, and a LAST of %d bytes.", count-2, n-(count-1)*mtu)
	}
	return Question{Text: fmt.Sprintf("How many packets is a SEND of %d bytes at a path MTU of %d?", n, mtu),
		Given: map[string]float64{"bytes": float64(n), "mtu": float64(mtu)}, Answer: float64(count), Unit: "packets",
		Within: exact, Why: why}
}

func headers(d *dice) Question {
	mtu, v6 := of(d, mtus...), d.IntN(2) == 1
	return headersOf(mtu, v6, of(d, 10, 25, 40, 50, 100, 200, 400))
}

func headersOf(mtu int, v6 bool, line int) Question {
	ip, name := 20, "IPv4"
	if v6 {
		ip, name = 40, "IPv6"
	}
	const preamble, ethernet, udp, bth, icrc, fcs, gap = 8, 14, 8, 12, 4, 4, 12
	over := preamble + ethernet + ip + udp + bth + icrc + fcs + gap
	share := float64(mtu) / float64(mtu+over)
	v := share * float64(line)
	return Question{Text: fmt.Sprintf("A long SEND over %s at a path MTU of %d, on Ethernet of %d Gbit/s. How many "+
		"Gbit/s of payload are that at most? "+
		"(MIDDLE packets, no VLAN tag; the line also carries a preamble before and a gap behind each frame)", name,
		mtu, line),
		Given: map[string]float64{"mtu": float64(mtu), "ip": float64(ip), "gbit": float64(line)}, Answer: v,
		Unit: "Gbit/s", Within: near / 2, Why: fmt.Sprintf("Preamble 8, Ethernet 14, IP %d, UDP 8, BTH 12, ICRC 4, "+
			"FCS 4, gap 12: %d bytes around %d. %d / %d = %s %%, of %d Gbit/s: %s.",
			ip, over, mtu, mtu, mtu+over, Number(100*share), line, Number(v))}
}

func latency(d *dice) Question {
	post, pci, cable, hops, hop, cache := d.from(50, 200), d.from(200, 500), d.from(1, 200), d.from(0, 4),
		d.from(200, 600), d.from(50, 200)
	sum := post + 2*pci + cable*5 + hops*hop + cache
	return Question{
		Text: fmt.Sprintf("A WRITE: %d ns to post, %d ns across PCI Express at each end, %d m of cable at 5 ns a "+
			"meter, %d switches of %d ns, %d ns until the reader sees it. How many nanoseconds?",
			post, pci, cable, hops, hop, cache),
		Given: map[string]float64{
			"post":     float64(post),
			"pci":      float64(pci),
			"meters":   float64(cable),
			"switches": float64(hops),
			"switch":   float64(hop),
			"see":      float64(cache),
		},
		Answer: float64(sum), Unit: "ns", Within: exact,
		Why: fmt.Sprintf("%d + 2 * %d + %d * 5 + %d * %d + %d = %d ns.", post, pci, cable, hops, hop, cache, sum)}
}

// ways asks for two sums of a message and its answer: each end sends and takes in once.
func ways(d *dice) Question {
	return waysOf(d.from(5, 40), d.from(5, 40), d.from(2, 20), d.from(100, 900), d.from(100, 900))
}

// waysOf has microseconds of sockets and the network, nanoseconds of RDMA.
func waysOf(send, recv, rtt, post, poll int) Question {
	sockets := 2*float64(send+recv) + float64(rtt)
	rdma := 2*float64(post+poll)/1e3 + float64(rtt)
	return Question{
		Text: fmt.Sprintf("A message goes to a program, which answers: each of the two sends once and takes in "+
			"once. By "+
			"sockets a send takes %d us, a receive %d us; by RDMA ibv_post_send takes %d ns, ibv_poll_cq %d ns. The "+
			"network takes %d us there and back. How many times faster is the round trip by RDMA?",
			send, recv, post, poll, rtt),
		Given: map[string]float64{"send": float64(send), "recv": float64(recv), "rtt": float64(rtt),
			"post": float64(post), "poll": float64(poll)},
		Answer: sockets / rdma, Unit: "times", Within: near,
		Why: fmt.Sprintf("Sockets: 2 * (%d + %d) + %d = %s us. RDMA: 2 * (%s + %s) + %d = %s us. %s / %s = %s. What "+
			"the network takes is in both.", send, recv, rtt, Number(sockets), Number(float64(post)/1e3),
			Number(float64(poll)/1e3), rtt, Number(rdma), Number(sockets), Number(rdma), Number(sockets/rdma))}
}

func speedUp(d *dice) Question {
	share, times := d.from(5, 95), d.from(2, 20)
	whole := 1 / (1 - float64(share)/100 + float64(share)/100/float64(times))
	return Question{
		Text: fmt.Sprintf("A program spends %d %% of its time waiting for the network. With RDMA that part is %d "+
			"times faster. How many times faster is the program?", share, times),
		Given: map[string]float64{"share": float64(share), "times": float64(times)}, Answer: whole, Unit: "times",
		Within: near, Why: fmt.Sprintf("Of 100 s there remain %d, and %d / %d = %s: 100 / %s = %s. Without any "+
			"network it would be %s times.", 100-share, share, times,
			Number(float64(share)/float64(times)), Number(100/whole), Number(whole), Number(100/float64(100-share)))}
}

func gbit(d *dice) Question {
	if d.IntN(2) == 0 {
		return gbitOf(d.from(100, 12000))
	}
	n := of(d, 1, 10, 25, 40, 50, 100, 200, 400)
	v := float64(n) * 1e9 / 8 / (1 << 20)
	return Question{Text: fmt.Sprintf("A line of %d Gbit/s: how many MiB/s is that, which ib_write_bw calls MB/sec?",
		n),
		Given: map[string]float64{"gbit": float64(n)}, Answer: v, Unit: "MiB/s", Within: near / 2,
		Why: fmt.Sprintf("%d * 10^9 / 8 / 1048576 = %s. Headers come off that.", n, Number(v))}
}

func gbitOf(n int) Question {
	v := float64(n) * (1 << 20) * 8 / 1e9
	return Question{Text: fmt.Sprintf("ib_write_bw prints %d MB/sec, by which it means MiB. How many Gbit/s?", n),
		Given: map[string]float64{"mib": float64(n)}, Answer: v, Unit: "Gbit/s", Within: near / 2,
		Why: fmt.Sprintf("%d * 1048576 * 8 / 10^9 = %s. Taking MB for 10^6 bytes gives 4.6 %% less.", n, Number(v))}
}

func window(d *dice) Question {
	packets, mtu, rtt := 1<<d.from(4, 12), of(d, mtus...), of(d, 10, 50, 100, 500, 1000, 10_000, 80_000)
	v := float64(packets*mtu) * 8 / float64(rtt) / 1e3
	return Question{
		Text: fmt.Sprintf("A queue pair may have %d packets of %d bytes without an acknowledgement. The round trip "+
			"takes %d us. The line is fast and loses nothing: how many Gbit/s at most?",
			packets, mtu, rtt),
		Given: map[string]float64{
			"packets": float64(packets),
			"mtu":     float64(mtu),
			"rtt":     float64(rtt),
		}, Answer: v, Unit: "Gbit/s", Within: near,
		Why: fmt.Sprintf("A window each round trip: %d * %d * 8 bits / %d us = %s Gbit/s, however fast the line is.",
			packets, mtu, rtt, Number(v))}
}

func inFlight(d *dice) Question {
	gbits, rtt := of(d, 1, 10, 25, 100, 400), of(d, 10, 100, 1000, 20_000, 80_000)
	v := float64(gbits) * 1e9 / 8 * float64(rtt) / 1e6
	return Question{Text: fmt.Sprintf("A path of %d Gbit/s with a round trip of %d us. How many bytes must be under "+
		"way to fill it?", gbits, rtt),
		Given: map[string]float64{"gbit": float64(gbits), "rtt": float64(rtt)}, Answer: v, Unit: "bytes", Within: near,
		Why: fmt.Sprintf("%d * 10^9 / 8 bytes a second, times %d us: %s bytes, all of which the sender must keep "+
			"until they are acknowledged.", gbits, rtt, Number(v))}
}

func cpu(d *dice) Question {
	ns, every := d.from(50, 3000), of(d, 1, 4, 16, 64)
	poll := d.from(20, 200)
	v := (float64(ns) + float64(poll)/float64(every)) / 1e3
	return Question{
		Text: fmt.Sprintf("To post a request takes %d ns of a processor, to poll a completion %d ns. Every %s "+
			"request is signaled. How many seconds of processor time are a million requests?",
			ns, poll, ordinal(every)),
		Given: map[string]float64{
			"post":  float64(ns),
			"poll":  float64(poll),
			"every": float64(every),
		}, Answer: v, Unit: "s", Within: near,
		Why: fmt.Sprintf("10^6 * (%d + %d / %d) ns = %s s.", ns, poll, every, Number(v))}
}

func ordinal(n int) string {
	if n == 1 {
		return "single"
	}
	return fmt.Sprintf("%dth", n)
}
