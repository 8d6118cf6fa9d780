package repertoire

// Both directions at once, and many connections. iperf3 has 128 connections at most, so beyond it,
// and for messages that it has not, TCP is this program's own (package ends): it runs itself with
// the word "many".

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/goroce/goroce/bench/ends"
	"github.com/goroce/goroce/bench/figures"
)

// The bars demand nothing yet: they show how things stand.
var (
	bothWaysBars = []figures.Bar{{What: "WRITE 64 KiB both ways at once against iperf3 --bidir", Ours: "both/%s",
		Against: "both/iperf3/.*"}}
	manyBars = []figures.Bar{
		{What: "64 KiB over 100 connections against TCP", Ours: "many/%s/100/64K",
			Against: "many/(tcp|iperf3)/100/64K"},
		{What: "64 KiB over 1000 connections against TCP", Ours: "many/%s/1000/64K", Against: "many/tcp/1000/64K"},
		{What: "8 B over 100 connections, one a call, against TCP, one a write", Ours: "many/%s/100/8-single",
			Against: "many/tcp/100/8-single"},
		{What: "8 B over 1000 connections, one a call, against TCP, one a write", Ours: "many/%s/1000/8-single",
			Against: "many/tcp/1000/8-single"},
		{What: "8 B over 100 connections, 32 a call, against TCP, 32 a write", Ours: "many/%s/100/8",
			Against: "many/tcp/100/8"},
		{What: "8 B over 1000 connections, 32 a call, against TCP, 32 a write", Ours: "many/%s/1000/8",
			Against: "many/tcp/1000/8"},
	}
)

// bothWaysCases are the sums of both directions.
func bothWaysCases(ports []string) (cases []figures.Case) {
	for _, port := range ports {
		both := perfCase{port, "RC WRITE 64 KiB, both ends at once, 1 QP, sum", figures.Gbps, "write-bw -b -s 65536",
			duration, Bandwidth}
		cases = append(cases, both.on("both/", port))
	}
	for _, l := range []string{"128K", "1M"} {
		c := Iperf3("", "iperf3 --bidir, TCP, 1 stream each way, -l "+l+", sum", "--bidir -l "+l)
		c.Name, c.Figure = "both/iperf3/"+l, bothReceived
		cases = append(cases, c)
	}
	return cases
}

// bothReceived is what both ends of iperf3 --bidir have received.
func bothReceived(_, client []byte) (float64, error) {
	type sum struct {
		Bits float64 `json:"bits_per_second"`
	}
	var r struct {
		End struct {
			There sum `json:"sum_received"`
			Back  sum `json:"sum_received_bidir_reverse"`
		} `json:"end"`
	}
	if err := json.Unmarshal(client, &r); err != nil {
		return 0, err
	}
	if r.End.There.Bits == 0 || r.End.Back.Bits == 0 {
		return 0, errNoResult
	}
	return (r.End.There.Bits + r.End.Back.Bits) / 1e9, nil
}

// manySizes are the messages that many connections carry, and how many are handed over at once.
var manySizes = []struct {
	bytes   int
	batch   int
	name    string
	text    string
	unit    figures.Unit
	options string // of roce perf
	figure  func(server, client PerfReport) float64
}{
	// More under way would be gigabytes, and even so a queue pair waits longer for its turn than
	// the default timeout allows.
	{65536, 1, "64K", "64 KiB", figures.Gbps, " -t 8 -u 18", Bandwidth},
	{8, 32, "8", "8 B, 32 at a time,", figures.Mpps, " -l 32 -u 18", rate},
	{8, 1, "8-single", "8 B, one at a time,", figures.Mpps, " -l 1 -u 18", rate},
}

// manyCases are those of 100 and 1000 connections.
func manyCases(ports []string) (cases []figures.Case) {
	for _, n := range []int{100, 1000} {
		for _, size := range manySizes {
			what := fmt.Sprintf("%d/%s", n, size.name)
			for _, port := range ports {
				brief := fmt.Sprintf("RC WRITE %s over %d queue pairs", size.text, n)
				cases = append(cases, perfCase{what, brief, size.unit, fmt.Sprintf("write-bw -q %d -s %d%s",
					n, size.bytes, size.options),
					duration, size.figure}.on("many/"+port+"/", port))
			}
			cases = append(cases, manyTCP(what, n, size.bytes, size.batch, size.text, size.unit))
		}
	}
	c := Iperf3("", "iperf3 -P 100, TCP (it has 128 streams at most), -l 64K", "-P 100 -l 64K")
	c.Name = "many/iperf3/100/64K"
	cases = append(cases, c)
	return figures.OnlyFull(cases)
}

// manyTCP is a number of TCP connections that a thread at each end serves, with a batch of messages
// in each write.
func manyTCP(name string, connections, size, batch int, text string, unit figures.Unit) figures.Case {
	return figures.Case{Name: "many/tcp/" + name, Unit: unit,
		Brief: fmt.Sprintf("TCP, %d connections, one thread with epoll at each end, writes of %s",
			connections, strings.TrimSuffix(text, ",")),
		Play: endsPlay("many", ends.ManyPort, alike(fmt.Sprintf("-n %d -size %d", connections, batch*size))),
		Figure: endsFigure(func(r *ends.Result) float64 {
			if unit == figures.Gbps {
				return float64(r.Bytes) / r.Seconds * 8 / 1e9
			}
			return float64(r.Bytes) / r.Seconds / float64(size) / 1e6
		})}
}
