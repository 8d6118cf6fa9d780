//go:build linux

package networks

// What a flow is: the programs at its ends, and what they say of it in the end.

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/goroce/goroce/bench/ends"
	"github.com/goroce/goroce/bench/figures"
	"github.com/goroce/goroce/bench/repertoire"
	"github.com/goroce/goroce/bench/stage"
)

// flow is one of a case.
type flow struct {
	kind             string
	sender, receiver netip.Addr // of bytes
	port             int
	start, length    time.Duration
	sleeps           bool // there are more programs than processors
	programs
}

// programs are the files of those that are measured.
type programs struct{ roce, bench string }

// play is the flow's. Who reads is the client, and at the receiver's end.
func (f *flow) play() stage.Play {
	port, test, ours := strings.Cut(f.kind, "-")
	whole := f.length + 2*f.start
	p := stage.Play{Ready: stage.Port{Proto: "tcp", Number: f.port}, Limit: time.Minute + whole}
	words := func(format string, a ...any) []string { return strings.Fields(fmt.Sprintf(format, a...)) }
	switch {
	case !ours:
		p.Server.Args = words("iperf3 -s -1 -p %d -B %v", f.port, f.receiver)
		p.Client.Args = words("iperf3 -J -C %s -p %d -c %v -O %s -t %s", f.kind, f.port, f.receiver,
			figures.Seconds(f.start), figures.Seconds(f.length))
	case test == "trip":
		p.Ready.Number = ends.DialPort
		line := fmt.Sprintf("%s dial -over %s -work trip -size 65536 -n %d -d %v", f.bench, port, crowd, f.length)
		p.Server.Args = words("%s -local %v -peer %v", line, f.receiver, f.sender)
		p.Client.Args = words("%s -sends -local %v -peer %v", line, f.sender, f.receiver)
	default:
		server, client := f.receiver, f.sender
		if p.Back = test == "read"; p.Back {
			server, client = client, server
		}
		line := fmt.Sprintf("%s perf %s-bw -v -s 65536 -p %d -D %v -f %v --json -d %s:", f.roce, test, f.port, whole,
			f.start, port)
		if f.sleeps {
			line = strings.Replace(line, " -v ", " -v -e ", 1)
		}
		p.Server.Args = words("%s%v", line, server)
		p.Client.Args = words("%s%v %v", line, client, server)
	}
	return p
}

// outcome is what a client has said.
type outcome struct {
	gbps         float64
	sent, resent float64 // packets of ours
	p99          float64 // milliseconds, of an exchange
}

func (f *flow) outcome(said []byte) (o outcome, err error) {
	_, test, ours := strings.Cut(f.kind, "-")
	switch {
	case !ours:
		o.gbps, err = repertoire.Iperf3("", "", "").Figure(nil, said)
	case test == "trip":
		var r ends.Result
		err = json.Unmarshal(said, &r)
		o.p99 = r.P99 / 1e3
	default:
		var r struct {
			Counters struct {
				Sent   float64 `json:"sent_pkts"`
				Resent float64 `json:"retransmitted_pkts"`
			} `json:"counters"`
		}
		var perf repertoire.PerfReport
		if perf, err = repertoire.ParsePerf(said); err == nil {
			err = json.Unmarshal(said, &r)
		}
		if err == nil {
			o.gbps = repertoire.Bandwidth(perf, perf)
			o.sent, o.resent = r.Counters.Sent, r.Counters.Resent
		}
	}
	if err != nil {
		return o, fmt.Errorf("%s: %w", f.kind, err)
	}
	return o, nil
}
