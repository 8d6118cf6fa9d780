// Package repertoire is what the benchmark plays: which cases there are, ours, those of the rivals
// and the references, with their command lines and where the figure stands in what they print;
// which of them are held against each other; and what is demanded of ours.
package repertoire

// The bars: what goroce must reach, each as a ratio to the best of what was measured in the same
// bout, or as a plain limit. A bar that demands nothing shows how things stand.

import (
	"fmt"
	"strings"

	"github.com/goroce/goroce/bench/figures"
)

// Rivals by what they do.
const (
	// bestTCP is TCP as it comes, bigTCP with links and sockets that let it merge more than 64 KiB.
	bestTCP      = "iperf3/tcp/(128K|512K|1M)(-w2M|-ordered)?(-bbr)?"
	bigTCP       = "iperf3/tcp/.*-big.*"
	bestTwoSided = "ucx/(tag|am|stream)-bw/64K.*"
	bestSmall    = "ucx/.*-bw/8"
	bestSpinning = "ucx/.*-lat/8|fi_pingpong/.*/8|sockperf/.*/spin"
	bestLarge    = "ucx/.*-lat/64K.*|fi_pingpong/.*/64K"
)

// In the tables %s is the port.
var BandwidthBars = []figures.Bar{
	{What: "WRITE 64 KiB against the best TCP", Ours: "ours/%s/write-bw/64K", Against: bestTCP, Rule: figures.AtLeast,
		Factor: 1.05, Cost: 1.1, Only: "udp"},
	{What: "WRITE 64 KiB against the best TCP", Ours: "ours/%s/write-bw/64K", Against: bestTCP, Rule: figures.AtLeast,
		Factor: 1.05, Only: "packet 1500"},
	{What: "WRITE 64 KiB against the best TCP", Ours: "ours/%s/write-bw/64K", Against: bestTCP, Rule: figures.AtLeast,
		Factor: 1.3, Only: "packet 9000"},
	{What: "WRITE 64 KiB against BIG TCP, which has to be set up", Ours: "ours/%s/write-bw/64K", Against: bigTCP},
	{What: "WRITE 64 KiB, both ends sleep, against the best TCP", Ours: "ours/%s/write-bw-events/64K", Against: bestTCP,
		Rule: figures.AtLeast, Factor: 1, Cost: 1.1},
	{What: "WRITE 64 KiB against UCX put", Ours: "ours/%s/write-bw/64K", Against: "ucx/put-bw/64K.*",
		Rule: figures.AtLeast, Factor: 1.5},
	{What: "WRITE 64 KiB against UCX tag", Ours: "ours/%s/write-bw/64K", Against: "ucx/tag-bw/64K.*",
		Rule: figures.AtLeast, Factor: 1.2},
	{What: "SEND 64 KiB against UCX tag, am and stream", Ours: "ours/%s/send-bw/64K", Against: bestTwoSided,
		Rule: figures.AtLeast, Factor: 1},
	{What: "READ 64 KiB against UCX get, 32 outstanding", Ours: "ours/%s/read-bw/64K", Against: "ucx/get/64K.*",
		Rule: figures.AtLeast, Factor: 1},
	{What: "READ 64 KiB against our WRITE", Ours: "ours/%s/read-bw/64K", Against: "ours/%s/write-bw/64K",
		Rule: figures.AtLeast, Factor: 0.9},
	{What: "SEND 64 KiB against our WRITE", Ours: "ours/%s/send-bw/64K", Against: "ours/%s/write-bw/64K",
		Rule: figures.AtLeast, Factor: 0.9},
	{What: "WRITE 64 KiB without the profile against with it", Ours: "ours-nopgo/%s/write-bw/64K",
		Against: "ours/%s/write-bw/64K"},
	{What: "READ 64 KiB without the profile against with it", Ours: "ours-nopgo/%s/read-bw/64K",
		Against: "ours/%s/read-bw/64K"},
	{What: "SEND 64 KiB without the profile against with it", Ours: "ours-nopgo/%s/send-bw/64K",
		Against: "ours/%s/send-bw/64K"},
	{What: "WRITE 64 KiB, where a copy and a CRC are done", Ours: "ours/%s/write-bw/64K",
		Against: "raw/%s-stream.*work.*", Rule: figures.AtLeast, Factor: 0.8, Reference: true},
}

var latencyBars = []figures.Bar{
	{What: "WRITE 8 B, polling, against the best rival that spins", Ours: "ours/%s/write-lat/8", Against: bestSpinning,
		Rule: figures.AtMost, Factor: 1},
	{What: "SEND 8 B, polling, against the best rival that spins", Ours: "ours/%s/send-lat/8", Against: bestSpinning,
		Rule: figures.AtMost, Factor: 1},
	{What: "WRITE 64 KiB one at a time against the best rival", Ours: "ours/%s/write-lat/64K", Against: bestLarge,
		Rule: figures.AtMost, Factor: 1},
	{What: "WRITE 8 B without the profile against with it", Ours: "ours-nopgo/%s/write-lat/8",
		Against: "ours/%s/write-lat/8"},
	{What: "WRITE 8 B, polling, where a ping-pong spins", Ours: "ours/%s/write-lat/8", Against: "raw/%s-pingpong.*",
		Rule: figures.AtMost, Factor: 1.3, Reference: true},
}

var rateBars = []figures.Bar{
	{What: "WRITE 8 B, one a call, against the best of UCX", Ours: "ours/%s/write-rate-single/8", Against: bestSmall,
		Rule: figures.AtLeast, Factor: 5},
	{What: "WRITE 8 B, 32 a call, against the best of UCX, one a call", Ours: "ours/%s/write-rate/8",
		Against: bestSmall, Rule: figures.AtLeast, Factor: 10},
	{What: "UD SEND 8 B, 32 a call, against the best of UCX, one a call", Ours: "ours/%s/ud-rate/8", Against: bestSmall,
		Rule: figures.AtLeast, Factor: 10},
	{What: "SEND 8 B, 32 a call, against the best of UCX, one a call", Ours: "ours/%s/send-rate/8", Against: bestSmall},
	{What: "WRITE 8 B without the profile against with it", Ours: "ours-nopgo/%s/write-rate/8",
		Against: "ours/%s/write-rate/8"},
	{What: "WRITE 8 B, where a copy and a CRC are done", Ours: "ours/%s/write-rate/8",
		Against: "raw/%s-(small|most).*work.*", Rule: figures.AtLeast, Factor: 0.45, Reference: true},
	{What: "UD SEND 8 B, where a copy and a CRC are done", Ours: "ours/%s/ud-rate/8",
		Against: "raw/%s-(small|most).*work.*", Rule: figures.AtLeast, Factor: 0.45, Reference: true},
}

// bars inside the guest, beside rxe. Go-back-N is what rxe does: on a whole wire it is the same.
var guestBars = []figures.Bar{
	{What: "WRITE 64 KiB", Ours: "guest/ours/%s/write-bw/64K", Against: "guest/rxe/write-bw/64K", Rule: figures.AtLeast,
		Factor: 3},
	{What: "WRITE 8 B latency", Ours: "guest/ours/%s/write-lat/8", Against: "guest/rxe/write-lat/8",
		Rule: figures.AtMost, Factor: 0.5},
	{What: "WRITE 8 B message rate", Ours: "guest/ours/%s/write-rate/8", Against: "guest/rxe/write-rate/8",
		Rule: figures.AtLeast, Factor: 5},
	{What: "connections set up and closed, many at a time", Ours: "guest/ours/%s/setup", Against: "guest/rxe/setup"},
	{What: "WRITE 64 KiB, 100 us round trip, 0.1 % loss, selective repeat", Ours: "guest/ours/%s/loss-0.1%/64K",
		Against: "guest/rxe/loss-0.1%/64K", Rule: figures.AtLeast, Factor: 3},
	{What: "WRITE 64 KiB, 100 us round trip, 0.1 % loss, go-back-N", Ours: "guest/go-back-n/%s/loss-0.1%/64K",
		Against: "guest/rxe/loss-0.1%/64K", Rule: figures.AtLeast, Factor: 2},
	{What: "WRITE 64 KiB, 100 us round trip, 1 % loss, selective repeat", Ours: "guest/ours/%s/loss-1%/64K",
		Against: "guest/rxe/loss-1%/64K", Rule: figures.AtLeast, Factor: 3},
	{What: "WRITE 64 KiB, 100 us round trip, 1 % loss, go-back-N", Ours: "guest/go-back-n/%s/loss-1%/64K",
		Against: "guest/rxe/loss-1%/64K", Rule: figures.AtLeast, Factor: 2},
}

// bars of what only shows from inside a process.
var insideBars = []figures.Bar{
	{What: "a message with 10,000 connected QPs against 1", Ours: "inside/scale/10000", Against: "inside/scale/1",
		Rule: figures.AtMost, Factor: 1.3},
	{What: "messages of two lanes on two processors against one lane", Ours: "inside/lanes/2",
		Against: "inside/lanes/1", Rule: figures.AtLeast, Factor: 1.6},
	{What: "memory of an idle QP beyond its queues", Ours: "inside/memory", Rule: figures.AtMost, Factor: 8192},
	{What: "an idle device", Ours: "inside/idle", Rule: figures.AtMost, Factor: 1},
	{What: "allocations on the hot path", Ours: "inside/allocs", Rule: figures.AtMost, Factor: 0},
}

var regionBars = []figures.Bar{
	{What: "registering 1 GiB", Ours: "inside/register", Rule: figures.AtMost, Factor: 1000},
	{What: "registering 1 GiB, pinned, against mlock alone", Ours: "inside/pinned", Against: "inside/mlock",
		Rule: figures.AtMost, Factor: 1.2},
}

// bars of two flows through one bottleneck. The queue may not be longer than twice the length from
// which everything is marked: it goes beyond that while marks are on their way.
var FairBars = []figures.Bar{
	{What: "the smaller flow to the larger", Ours: "fair/%s/ratio", Rule: figures.AtLeast, Factor: 0.9},
	{What: "packets lost once converged", Ours: "fair/%s/drops", Rule: figures.AtMost, Factor: 0},
	{What: "longest queue once converged", Ours: "fair/%s/backlog", Rule: figures.AtMost,
		Factor: 2 * FairMarkAll >> 10},
}

// ports that goroce has; xdp is measured where it can be and has no bar of its own.
var (
	AllPorts    = []string{"udp", "packet", "xdp"}
	barredPorts = []string{"udp", "packet"}
)

// BarsAt are the bars of a table on ports, and on links of an MTU unless it is 0, on whose cases
// they then are. Those of several ports say which one they are about.
func BarsAt(mtu int, table []figures.Bar, ports []string) (bars []figures.Bar) {
	prefix := ""
	if mtu > 0 {
		prefix = fmt.Sprintf("%d/", mtu)
	}
	for _, port := range ports {
		for _, b := range table {
			if only := strings.Fields(b.Only); len(only) > 0 && only[0] != port ||
				len(only) > 1 && only[1] != fmt.Sprint(mtu) {
				continue
			}
			b.What = port + ": " + b.What
			b.Ours = prefix + strings.ReplaceAll(b.Ours, "%s", port)
			if b.Against != "" {
				b.Against = prefix + "(" + strings.ReplaceAll(b.Against, "%s", port) + ")"
			}
			bars = append(bars, b)
		}
	}
	return bars
}
