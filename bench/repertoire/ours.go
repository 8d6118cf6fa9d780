package repertoire

// Our own figures: roce perf on both ends, on one port after the other.

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/goroce/goroce/bench/figures"
)

// PerfPort is where both ends of roce perf, and of perftest, meet.
const PerfPort = 18515

// perfCase is one test of roce perf.
type perfCase struct {
	name    string
	brief   string
	unit    figures.Unit
	options string                     // for both ends; PATH: the path MTU that fits the link
	length  func(time.Duration) string // how long it takes, in the test's words
	figure  func(server, client PerfReport) float64
}

var perfCases = []perfCase{
	{"write-bw/64K", "RC WRITE 64 KiB, 1 QP", figures.Gbps, "write-bw -s 65536 -m PATH", duration, Bandwidth},
	{"write-bw-events/64K", "RC WRITE 64 KiB, 1 QP, both ends sleep while there is nothing to do", figures.Gbps,
		"write-bw -e -s 65536 -m PATH", duration, Bandwidth},
	{"read-bw/64K", "RC READ 64 KiB, 1 QP, 32 outstanding", figures.Gbps, "read-bw -s 65536 -o 32 -m PATH", duration,
		Bandwidth},
	{"send-bw/64K", "RC SEND 64 KiB, 1 QP", figures.Gbps, "send-bw -s 65536 -m PATH", duration, Bandwidth},
	{"write-lat/8", "RC WRITE 8 B, polling", figures.Usec, "write-lat -s 8", duration, latency},
	{"send-lat/8", "RC SEND 8 B, polling", figures.Usec, "send-lat -s 8", duration, latency},
	{"write-lat/64K", "RC WRITE 64 KiB, one at a time", figures.Usec, "write-lat -s 65536 -m PATH", duration, latency},
	{"send-lat-events/8", "RC SEND 8 B, event-driven", figures.Usec, "send-lat -e -s 8", duration, latency},
	{"write-rate/8", "RC WRITE 8 B, 1 QP, post list 32", figures.Mpps, "write-bw -s 8 -l 32 -t 512", duration, rate},
	{"write-rate-single/8", "RC WRITE 8 B, 1 QP, one a call", figures.Mpps, "write-bw -s 8 -l 1 -t 512",
		duration, rate},
	{"send-rate/8", "RC SEND 8 B, 1 QP, post list 32, as received", figures.Mpps, "send-bw -s 8 -l 32 -t 512", duration,
		rateReceived},
	{"ud-rate/8", "UD SEND 8 B, post list 32, as received", figures.Mpps, "send-bw -c UD -s 8 -l 32 -t 512", duration,
		rateReceived},
}

// PerfReport is what roce perf --json prints, in part.
type PerfReport struct {
	Results []struct {
		Bytes   float64 `json:"bytes"`
		Rate    float64 `json:"msg_rate_mpps"`
		Average float64 `json:"t_avg_usec"`
		Typical float64 `json:"t_typical_usec"`
	} `json:"results"`
}

// Bandwidth in Gbit/s is the client's.
func Bandwidth(_, client PerfReport) float64 {
	r := client.Results[0]
	return r.Rate * r.Bytes * 8 / 1e3
}
func latency(_, client PerfReport) float64      { return client.Results[0].Average }
func typical(_, client PerfReport) float64      { return client.Results[0].Typical }
func rate(_, client PerfReport) float64         { return client.Results[0].Rate }
func rateReceived(server, _ PerfReport) float64 { return server.Results[0].Rate }

func duration(d time.Duration) string { return "-D " + d.String() }

// pathMTUs are the largest that fit links: with the headers of RoCE a packet has some 60 bytes
// more.
var pathMTUs = map[int]string{1500: "1024", figures.JumboMTU: "4096"}

// noRival are those of our tests that no bar is about.
var noRival = []string{"send-lat-events/8"}

// OurCases are our own on a port, on links of an MTU.
func OurCases(port string, mtu int) (cases []figures.Case) {
	for _, c := range perfCases {
		c.options = strings.ReplaceAll(c.options, "PATH", pathMTUs[mtu])
		made := c.on("ours/"+port+"/", port)
		made.Full = slices.Contains(noRival, c.name)
		cases = append(cases, made)
	}
	return cases
}

// unprofiled are the main ones of our cases by the command as it is built without the profile,
// which comes from these very cases.
func unprofiled(port string, mtu int) (cases []figures.Case) {
	main := []string{"write-bw/64K", "read-bw/64K", "send-bw/64K", "write-lat/8", "write-rate/8"}
	for _, c := range OurCases(port, mtu) {
		test := strings.TrimPrefix(c.Name, "ours/"+port+"/")
		if !slices.Contains(main, test) {
			continue
		}
		c.Name, c.Brief, c.Full = "ours-nopgo/"+port+"/"+test, c.Brief+", built without the profile", true
		play := c.Play
		c.Play = func(s figures.Setting) figures.Play {
			s.Roce = s.RoceNoPGO
			return play(s)
		}
		cases = append(cases, c)
	}
	return cases
}

// on makes the case of a test on a port.
func (c perfCase) on(prefix, port string) figures.Case {
	return figures.Case{Name: prefix + c.name, Brief: fmt.Sprintf("goroce, %s port: %s", port, c.brief), Unit: c.unit,
		Play: func(s figures.Setting) figures.Play {
			side := func(me figures.Side) figures.Command {
				line := fmt.Sprintf("%s perf %s %s -p %d --json --dev %s:%s",
					s.Roce, c.options, c.length(s.Duration), PerfPort, port, me.Interface)
				return Words(line)
			}
			client := side(s.A)
			client.Args = append(client.Args, s.B.Addr.String())
			return figures.Play{Proto: "tcp", Port: PerfPort, Server: side(s.B), Client: client}
		},
		Figure: func(server, client []byte) (float64, error) {
			atClient, err := ParsePerf(client)
			if err != nil {
				return 0, fmt.Errorf("client: %w", err)
			}
			atServer, err := ParsePerf(server)
			// The servers of other tests need not say anything.
			if err != nil && strings.Contains(c.options, "send-bw") {
				return 0, fmt.Errorf("server: %w", err)
			}
			return c.figure(atServer, atClient), nil
		}}
}

var errNoResult = errors.New("no result in what it printed")

// ParsePerf reads what roce perf --json prints.
func ParsePerf(text []byte) (r PerfReport, err error) {
	if err := json.Unmarshal(text, &r); err != nil {
		return r, err
	}
	if len(r.Results) == 0 {
		return r, errNoResult
	}
	return r, nil
}
