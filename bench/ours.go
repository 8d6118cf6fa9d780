package main

// Our own figures: roce perf on both ends, on one port after the other.

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// perfPort is where both ends of roce perf, and of perftest, meet.
const perfPort = 18515

// perfCase is one test of roce perf.
type perfCase struct {
	name    string
	brief   string
	unit    Unit
	options string                     // for both ends; PATH: the path MTU that fits the link
	length  func(time.Duration) string // how long it takes, in the test's words
	figure  func(server, client perfReport) float64
}

var perfCases = []perfCase{
	{"write-bw/64K", "RC WRITE 64 KiB, 1 QP", gbps, "write-bw -s 65536 -m PATH", duration, bandwidth},
	{"write-bw-events/64K", "RC WRITE 64 KiB, 1 QP, both ends sleep while there is nothing to do", gbps, "write-bw -e -s 65536 -m PATH", duration, bandwidth},
	{"read-bw/64K", "RC READ 64 KiB, 1 QP, 32 outstanding", gbps, "read-bw -s 65536 -o 32 -m PATH", duration, bandwidth},
	{"send-bw/64K", "RC SEND 64 KiB, 1 QP", gbps, "send-bw -s 65536 -m PATH", duration, bandwidth},
	{"write-lat/8", "RC WRITE 8 B, polling", usec, "write-lat -s 8", duration, latency},
	{"send-lat/8", "RC SEND 8 B, polling", usec, "send-lat -s 8", duration, latency},
	{"write-lat/64K", "RC WRITE 64 KiB, one at a time", usec, "write-lat -s 65536 -m PATH", duration, latency},
	{"send-lat-events/8", "RC SEND 8 B, event-driven", usec, "send-lat -e -s 8", duration, latency},
	{"write-rate/8", "RC WRITE 8 B, 1 QP, post list 32", mpps, "write-bw -s 8 -l 32 -t 512", duration, rate},
	{"write-rate-single/8", "RC WRITE 8 B, 1 QP, one a call", mpps, "write-bw -s 8 -l 1 -t 512", duration, rate},
	{"send-rate/8", "RC SEND 8 B, 1 QP, post list 32, as received", mpps, "send-bw -s 8 -l 32 -t 512", duration, rateReceived},
	{"ud-rate/8", "UD SEND 8 B, post list 32, as received", mpps, "send-bw -c UD -s 8 -l 32 -t 512", duration, rateReceived},
}

// perfReport is what roce perf --json prints, in part.
type perfReport struct {
	Results []struct {
		Bytes   float64 `json:"bytes"`
		Rate    float64 `json:"msg_rate_mpps"`
		Average float64 `json:"t_avg_usec"`
		Typical float64 `json:"t_typical_usec"`
	} `json:"results"`
}

func bandwidth(_, client perfReport) float64 {
	r := client.Results[0]
	return r.Rate * r.Bytes * 8 / 1e3
}
func latency(_, client perfReport) float64      { return client.Results[0].Average }
func typical(_, client perfReport) float64      { return client.Results[0].Typical }
func rate(_, client perfReport) float64         { return client.Results[0].Rate }
func rateReceived(server, _ perfReport) float64 { return server.Results[0].Rate }

func duration(d time.Duration) string { return "-D " + d.String() }

// pathMTUs are the largest that fit links: with the headers of RoCE a packet has some 60 bytes
// more.
var pathMTUs = map[int]string{1500: "1024", jumboMTU: "4096"}

// noRival are those of our tests that no bar is about.
var noRival = []string{"send-lat-events/8"}

// ourCases are our own on a port, on links of an MTU.
func ourCases(port string, mtu int) (cases []Case) {
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
func unprofiled(port string, mtu int) (cases []Case) {
	main := []string{"write-bw/64K", "read-bw/64K", "send-bw/64K", "write-lat/8", "write-rate/8"}
	for _, c := range ourCases(port, mtu) {
		test := strings.TrimPrefix(c.Name, "ours/"+port+"/")
		if !slices.Contains(main, test) {
			continue
		}
		c.Name, c.Brief, c.Full = "ours-nopgo/"+port+"/"+test, c.Brief+", built without the profile", true
		play := c.Play
		c.Play = func(s Setting) Play {
			s.Roce = s.RoceNoPGO
			return play(s)
		}
		cases = append(cases, c)
	}
	return cases
}

// on makes the case of a test on a port.
func (c perfCase) on(prefix, port string) Case {
	return Case{Name: prefix + c.name, Brief: fmt.Sprintf("goroce, %s port: %s", port, c.brief), Unit: c.unit,
		Play: func(s Setting) Play {
			side := func(me Side) Command {
				line := fmt.Sprintf("%s perf %s %s -p %d --json --dev %s:%s", s.Roce, c.options, c.length(s.Duration), perfPort, port, me.Interface)
				return words(line)
			}
			client := side(s.A)
			client.Args = append(client.Args, s.B.Addr.String())
			return Play{Proto: "tcp", Port: perfPort, Server: side(s.B), Client: client}
		},
		Figure: func(server, client []byte) (float64, error) {
			atClient, err := parsePerf(client)
			if err != nil {
				return 0, fmt.Errorf("client: %w", err)
			}
			atServer, err := parsePerf(server)
			// The servers of other tests need not say anything.
			if err != nil && strings.Contains(c.options, "send-bw") {
				return 0, fmt.Errorf("server: %w", err)
			}
			return c.figure(atServer, atClient), nil
		}}
}

var errNoResult = errors.New("no result in what it printed")

func parsePerf(text []byte) (r perfReport, err error) {
	if err := json.Unmarshal(text, &r); err != nil {
		return r, err
	}
	if len(r.Results) == 0 {
		return r, errNoResult
	}
	return r, nil
}
