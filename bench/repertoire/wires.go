package repertoire

// The cases on a wire between two drivers: what each port costs behind virtio_net, which does
// zero-copy AF_XDP and has no UDP segmentation of its own. They are what auto's choice of a port
// rests on. The guest has one processor for both ends, so bandwidth and rate tell what a message
// costs, and no end polls where latency is asked for.

import (
	"net"
	"net/netip"
	"time"

	"github.com/goroce/goroce/bench/figures"
)

// Both ends of the wire. Its MTU is the longest with which virtio_net does zero-copy: a path MTU of
// 2048.
var (
	WireA = figures.Side{
		Interface: "eth1",
		Addr:      netip.MustParseAddr("198.51.100.1"),
		MAC:       net.HardwareAddr{2, 0, 0x5e, 0, 3, 1},
	}
	WireB = figures.Side{
		Interface: "eth2",
		Addr:      netip.MustParseAddr("198.51.100.2"),
		MAC:       net.HardwareAddr{2, 0, 0x5e, 0, 3, 2},
	}

	wirePorts = []string{"xdp", "packet", "udp"}
)

// WireScript gives each end a namespace, because rxe may hold UDP port 4791 in the first one.
const WireScript = `for i in 1 2; do
	ip netns add wire$i && ip link set eth$i netns wire$i
	ip -n wire$i link set lo up && ip -n wire$i link set eth$i mtu 3814 up && ip -n wire$i addr add 198.51.100.$i/24 dev eth$i
done`

var wireTests = []perfCase{
	{"write-bw/64K", "RC WRITE 64 KiB, path MTU 2048", figures.Gbps, "write-bw -s 65536 -m 2048", duration, Bandwidth},
	{"read-bw/64K", "RC READ 64 KiB, path MTU 2048", figures.Gbps, "read-bw -s 65536 -m 2048", duration, Bandwidth},
	{"write-rate/8", "RC WRITE 8 B, post list 32", figures.Mpps, "write-bw -s 8 -l 32 -t 512", duration, rate},
	{"send-lat-events/8", "RC SEND 8 B, event-driven", figures.Usec, "send-lat -s 8 -e", func(time.Duration) string {
		return "-n 1000"
	}, typical},
}

func wireCases() (cases []figures.Case) {
	for _, test := range wireTests {
		for _, port := range wirePorts {
			c := test.on("wire/"+port+"/", port)
			play := c.Play
			c.Play = func(s figures.Setting) figures.Play {
				p := play(s)
				p.Client.Args = append(Words("ip netns exec wire1").Args, p.Client.Args...)
				p.Server.Args = append(Words("ip netns exec wire2").Args, p.Server.Args...)
				return p
			}
			cases = append(cases, c)
		}
	}
	return cases
}
