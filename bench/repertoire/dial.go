package repertoire

// What programs get that dial and listen: a stream, small exchanges, HTTP and connections set up,
// over rsocket and over TCP by the same code, as this program plays both ends with the word "dial".
// Beside them stand iperf3, and the verbs that the stream is made of.

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/goroce/goroce/bench/ends"
	"github.com/goroce/goroce/bench/figures"
)

// dialBars hold the stream against what it is made of, and both against TCP.
var dialBars = []figures.Bar{
	{What: "stream, writes of 64 KiB, polling, against our WRITE", Ours: "dial/%s-polling/stream",
		Against: "dial/%s/write-bw", Rule: figures.AtLeast, Factor: 0.8},
	{What: "stream, writes of 64 KiB, against our WRITE that sleeps", Ours: "dial/%s/stream",
		Against: "dial/%s/write-bw-events", Rule: figures.AtLeast, Factor: 0.8},
	{What: "stream, writes of 64 KiB, polling, against iperf3", Ours: "dial/%s-polling/stream", Against: "dial/iperf3"},
	{What: "stream, writes of 64 KiB, against TCP by the same code", Ours: "dial/%s/stream",
		Against: "dial/tcp/stream"},
	{What: "64 B one way, polling, against our SEND", Ours: "dial/%s-polling/trip", Against: "dial/%s/send-lat",
		Rule: figures.AtMost, Factor: 1.3},
	{What: "64 B one way, events, against our SEND that sleeps", Ours: "dial/%s/trip",
		Against: "dial/%s/send-lat-events", Rule: figures.AtMost, Factor: 1.3},
	{What: "64 B one way against TCP by the same code", Ours: "dial/%s/trip", Against: "dial/tcp/trip"},
	{What: "HTTP, one connection, polling: p50 against TCP", Ours: "dial/%s-polling/http-1/p50",
		Against: "dial/tcp/http-1/p50", Rule: figures.AtMost, Factor: 1},
	{What: "HTTP, one connection: p50 against TCP", Ours: "dial/%s/http-1/p50", Against: "dial/tcp/http-1/p50",
		Rule: figures.AtMost, Factor: 1},
	{What: "HTTP, one connection: p99 against TCP", Ours: "dial/%s/http-1/p99", Against: "dial/tcp/http-1/p99"},
	{What: "HTTP, 16 connections: requests against TCP", Ours: "dial/%s/http-16/rate",
		Against: "dial/tcp/http-16/rate"},
	{What: "HTTP, 16 connections: p99 against TCP", Ours: "dial/%s/http-16/p99", Against: "dial/tcp/http-16/p99"},
	{What: "connections set up and closed, one at a time, against TCP", Ours: "dial/%s/setup-1",
		Against: "dial/tcp/setup-1"},
	{What: "connections set up and closed, 16 at a time, against TCP", Ours: "dial/%s/setup-16",
		Against: "dial/tcp/setup-16"},
}

// dialTests are what is done over each transport; those of one play follow each other.
var dialTests = []struct {
	name, brief string
	unit        figures.Unit
	options     string
	figure      func(*ends.Result) float64
	polls       bool // also with calls that poll
}{
	{"stream", "a stream, writes of 64 KiB", figures.Gbps, "-work stream -size 65536", func(r *ends.Result) float64 {
		return r.Gbps
	}, true},
	{"trip", "64 B there and back, half of the median", figures.Usec, "-work trip -size 64",
		func(r *ends.Result) float64 {
			return r.P50 / 2
		}, true},
	{"http-1/p50", "GET of 1 KiB, one connection, median", figures.UsTrip, "-work http -size 1024",
		func(r *ends.Result) float64 {
			return r.P50
		}, true},
	{"http-1/p99", "… : 99 of 100", figures.UsTrip, "-work http -size 1024", func(r *ends.Result) float64 {
		return r.P99
	}, true},
	{"http-16/rate", "GET of 1 KiB, 16 connections", figures.PerSec, "-work http -size 1024 -n 16",
		func(r *ends.Result) float64 {
			return r.PerSecond
		}, false},
	{"http-16/p99", "… : 99 of 100", figures.UsTrip, "-work http -size 1024 -n 16", func(r *ends.Result) float64 {
		return r.P99
	}, false},
	{"setup-1", "connections set up and closed, one at a time", figures.PerSec, "-work setup -size 1",
		func(r *ends.Result) float64 {
			return r.PerSecond
		}, false},
	{"setup-16", "connections set up and closed, 16 at a time", figures.PerSec, "-work setup -size 1 -n 16",
		func(r *ends.Result) float64 {
			return r.PerSecond
		}, false},
}

// dialCases are those of TCP, of our ports, and of what they are made of.
func dialCases(ports []string) (cases []figures.Case) {
	cases = dialOver("tcp", "TCP", "-over tcp", false)
	for _, port := range ports {
		cases = append(cases, dialOver(port, "rsocket, "+port+" port", "-over "+port, false)...)
		cases = append(cases, dialOver(port+"-polling", "rsocket, "+port+" port, calls that wait poll",
			"-polling -over "+port, true)...)
		for _, c := range []perfCase{
			{"write-bw", "RC WRITE 64 KiB, 1 QP", figures.Gbps, "write-bw -s 65536", duration, Bandwidth},
			{"write-bw-events", "RC WRITE 64 KiB, 1 QP, both ends sleep while there is nothing to do", figures.Gbps,
				"write-bw -e -s 65536", duration, Bandwidth},
			{"send-lat", "RC SEND 64 B, polling", figures.Usec, "send-lat -s 64", duration, typical},
			{"send-lat-events", "RC SEND 64 B, event-driven", figures.Usec, "send-lat -e -s 64", duration, typical},
		} {
			cases = append(cases, c.on("dial/"+port+"/", port))
		}
	}
	c := Iperf3("", "iperf3, TCP, 1 stream, its defaults", "")
	c.Name = "dial/iperf3"
	cases = append(cases, c)
	for i := range cases { // a short run has one port, and one connection at a time
		c := &cases[i]
		c.Full = strings.Contains(c.Name, "-16") || strings.HasPrefix(c.Name, "dial/packet")
	}
	return cases
}

// rxeConnections is how many connections cmtime sets up at a time.
const rxeConnections = 200

// guestDials are connections set up and closed in the guest, many at a time: by rdma-core's cmtime
// on rxe, which does each step for all of its connections before the next step, and by ours, each
// with the buffers of a stream.
func guestDials(ports []string) []figures.Case {
	rxe := figures.Case{Name: "guest/rxe/setup", Unit: figures.PerSec,
		Brief: fmt.Sprintf("rxe, cmtime: %d connections set up and closed together", rxeConnections),
		Play: func(s figures.Setting) figures.Play {
			server := fmt.Sprintf(`cmtime -b %s -c %d & until rdma resource show cm_id | grep -q LISTEN; do sleep 0.05; done
				busybox nc -l -p %[3]d & wait %%1; kill %%2`, s.B.Addr, rxeConnections, ends.DialPort)
			return figures.Play{Port: ends.DialPort, Server: figures.Command{Args: []string{"sh", "-c", server}},
				Client: Words(fmt.Sprintf("cmtime -s %s -b %s -c %d", s.B.Addr, s.A.Addr, rxeConnections))}
		},
		Figure: func(_, client []byte) (float64, error) { return cmtimeRate(client) }}
	cases := []figures.Case{duel{}.inGuest(rxe, "rxe")}
	for _, port := range ports {
		for _, c := range dialOver(port, "rsocket, "+port+" port", "-over "+port, false) {
			if strings.HasSuffix(c.Name, "/setup-16") {
				c.Name = "guest/ours/" + port + "/setup"
				cases = append(cases, duel{}.inGuest(c, "ours"))
			}
		}
	}
	return cases
}

// cmtimeRate is how many connections a second all steps of cmtime together make.
func cmtimeRate(text []byte) (float64, error) {
	total := 0.0
	for _, line := range cmtimeLine.FindAllSubmatch(text, -1) {
		ms, err := strconv.ParseFloat(string(line[1]), 64)
		if err != nil {
			return 0, err
		}
		total += ms
	}
	if total == 0 {
		return 0, errNoResult
	}
	return rxeConnections / total * 1000, nil
}

// cmtimeLine is a step with its milliseconds in total.
var cmtimeLine = regexp.MustCompile(`(?m)^[a-z ]+: +([\d.]+) `)

// dialOver are the cases of a transport, or those of them that have a form that polls.
func dialOver(who, what, over string, polling bool) (cases []figures.Case) {
	shares := map[string]int{}
	for _, d := range dialTests {
		shares[d.options]++
	}
	for _, d := range dialTests {
		if polling && !d.polls {
			continue
		}
		cases = append(cases, figures.Case{Name: "dial/" + who + "/" + d.name, Brief: what + ": " + d.brief,
			Unit: d.unit, Shared: shares[d.options] > 1,
			Play: endsPlay("dial", ends.DialPort, alike(over+" "+d.options)), Figure: endsFigure(d.figure)})
	}
	return cases
}
