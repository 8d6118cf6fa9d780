package repertoire

// The cases in the guest: the same tests by perftest on rxe and by roce perf on our ports, on a
// whole wire and on spoiled ones.

import (
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goroce/goroce/bench/figures"
)

// Both ends of the pair in the guest, and rxe's devices on them.
var (
	GuestA = figures.Side{
		Interface: "veth0",
		Addr:      netip.MustParseAddr("198.51.100.1"),
		MAC:       net.HardwareAddr{2, 0, 0x5e, 0, 1, 1},
	}
	GuestB = figures.Side{
		Interface: "veth1",
		Addr:      netip.MustParseAddr("198.51.100.2"),
		MAC:       net.HardwareAddr{2, 0, 0x5e, 0, 1, 2},
	}

	rxeOn = map[string]string{"veth0": "rxeA", "veth1": "rxeB"}
)

const (
	rxeGID = 1 // row of rxe's GID table with the IPv4 address, behind the link-local one

	GuestRoce  = "/bench/roce"    // where a guest has the command,
	GuestBench = "/bench/bench"   // this program,
	GuestWire  = "/bench/wire.sh" // and the script that makes its wire
)

// Losses in percent, each way: those that bars are about, and those that only draw the picture.
var (
	barredLosses = []string{"0.1", "1"}
	otherLosses  = []string{"0", "0.5", "2"}
)

// duel is a test that both stacks can do.
type duel struct {
	name   string
	rxe    string // perftest's words
	column int    // of its result line
	ours   perfCase
	spoil  string // netem's words
}

// Columns of perftest's lines, as this package counts them from 0.
const (
	averageBW     = 3
	messageRate   = 4
	typicalMicros = 4
)

var duels = []duel{
	{"write-bw/64K", "ib_write_bw -s 65536 -m 4096 --report_gbits -D SECONDS", averageBW,
		perfCase{"write-bw/64K", "RC WRITE 64 KiB", figures.Gbps, "write-bw -s 65536 -m 4096", duration, Bandwidth},
		""},
	{"write-lat/8", "ib_write_lat -s 8 -n 3000", typicalMicros,
		perfCase{"write-lat/8", "RC WRITE 8 B latency, polling", figures.Usec, "write-lat -s 8",
			func(time.Duration) string {
				return "-n 3000"
			}, typical}, ""},
	{"write-rate/8", "ib_write_bw -s 8 -l 32 -t 512 -D SECONDS", messageRate,
		perfCase{"write-rate/8", "RC WRITE 8 B, post list 32", figures.Mpps, "write-bw -s 8 -l 32 -t 512", duration,
			rate}, ""},
}

// lossDuels are the first duel on spoiled wires.
func lossDuels(losses []string) (all []duel) {
	for _, loss := range losses {
		d := duels[0]
		d.name = "loss-" + loss + "%/64K"
		d.ours.name = d.name
		d.ours.brief = "RC WRITE 64 KiB, 100 us round trip, " + loss + " % loss each way"
		d.spoil = "delay 50us loss " + loss + "%"
		all = append(all, d)
	}
	return all
}

// guestCases are those that bars are about.
func guestCases(ports []string) []figures.Case {
	return casesOf(append(slices.Clone(duels), lossDuels(barredLosses)...), ports)
}

func moreLosses(ports []string) []figures.Case { return casesOf(lossDuels(otherLosses), ports) }

// casesOf are the duels by rxe and by ours on each port, where packets are lost also with
// go-back-N.
func casesOf(duels []duel, ports []string) (cases []figures.Case) {
	for _, d := range duels {
		cases = append(cases, d.byRxe())
		for _, port := range ports {
			cases = append(cases, d.inGuest(d.ours.on("guest/ours/"+port+"/", port), "ours"))
			if strings.Contains(d.spoil, "loss") {
				cases = append(cases, d.inGuest(d.ours.goingBack().on("guest/go-back-n/"+port+"/", port), "ours"))
			}
		}
	}
	return cases
}

// goingBack is the same test with losses repaired as rxe does, for what selective repeat brings.
func (c perfCase) goingBack() perfCase {
	c.brief, c.options = c.brief+", go-back-N", c.options+" --go-back-n"
	return c
}

// byRxe is the duel's case for perftest on rxe.
func (d duel) byRxe() figures.Case {
	return d.inGuest(figures.Case{Name: "guest/rxe/" + d.name, Brief: "rxe, perftest: " + d.ours.brief,
		Unit: d.ours.unit, Play: func(s figures.Setting) figures.Play {
			side := func(me figures.Side, peer string) figures.Command {
				line := strings.ReplaceAll(d.rxe, "SECONDS", figures.Seconds(s.Duration))
				return Words(fmt.Sprintf("%s -F -p %d -d %s -x %d %s",
					line, PerfPort, rxeOn[me.Interface], rxeGID, peer))
			}
			return figures.Play{Port: PerfPort, Server: side(s.B, ""), Client: side(s.A, s.B.Addr.String())}
		},
		Figure: func(_, client []byte) (float64, error) { return perftestColumn(client, d.column) }}, "rxe")
}

// inGuest makes the wire for a stack before each play, and gives each end its processor and its
// namespace.
func (d duel) inGuest(c figures.Case, stack string) figures.Case {
	play := c.Play
	c.Play = func(s figures.Setting) figures.Play {
		p := play(s)
		p.Before = []figures.Command{Words("sh " + GuestWire + " " + stack + " " + d.spoil)}
		in := [2]string{}
		if stack == "ours" {
			in = [2]string{"ip netns exec bench0 ", "ip netns exec bench1 "}
		}
		p.Client.Args = append(Words(in[0]+"busybox taskset 1").Args, p.Client.Args...)
		p.Server.Args = append(Words(in[1]+"busybox taskset 2").Args, p.Server.Args...)
		return p
	}
	return c
}

// perftestLine is a line of results: size, iterations and figures, some of which may be "nan".
var perftestLine = regexp.MustCompile(`(?m)^ *\d+[ \t]+\d+[ \t]+[\d.]+[ \t][^\n]*$`)

// perftestColumn returns a column of the last line of results.
func perftestColumn(text []byte, column int) (float64, error) {
	lines := perftestLine.FindAll(text, -1)
	if len(lines) == 0 {
		return 0, fmt.Errorf("no results in %q", text)
	}
	col := Words(string(lines[len(lines)-1])).Args
	if len(col) <= column {
		return 0, fmt.Errorf("no column %d in %q", column, lines[len(lines)-1])
	}
	return strconv.ParseFloat(col[column], 64)
}
