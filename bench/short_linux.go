package main

// "bench short": flows through a bottleneck without marks. Stages: make the network (package
// stage), have a sender of each flow run to its end, and take what arrived from what the programs
// say, and what was lost from the switch, both without the first second of the flows and the last.

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/goroce/goroce/bench/stage"

	"github.com/goroce/goroce/bench/figures"
	"github.com/goroce/goroce/bench/repertoire"
)

// shortRate of the slow link: two processors can play three hosts and a switch at it, and fill it,
// which TCP does at this MTU by packets that the kernel does not take in runs.
const shortRate = 5e8

// shortSenders is how many flows there can be.
const shortSenders = 2

func shortMain(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("bench short", flag.ExitOnError)
	roce := f.String("roce", "roce", "the roce command")
	packets := f.Int("packets", 64, "packets that may wait, of the link's MTU")
	flows := f.String("flows", "udp", "a flow or two: udp is ours, others are TCP with that congestion control")
	length := f.Duration("d", 2*time.Second, "how long to look at the flows, about")
	f.Parse(args)
	kinds := strings.Split(*flows, ",")
	if len(kinds) > shortSenders {
		return fmt.Errorf("short: %d flows: want %d at most", len(kinds), shortSenders)
	}
	const header = 14 // of Ethernet
	b, err := stage.NewBottleneck(shortSenders, repertoire.ShortMTU,
		stage.Queue{Rate: shortRate, Limit: *packets * (repertoire.ShortMTU + header)})
	if err != nil {
		return err
	}
	defer b.Close()
	var plays []stage.Play
	for i, kind := range kinds {
		plays = append(plays, shortFlow(b, i, kind, *roce, *length))
	}
	said, first, last, err := b.Share(ctx, plays, repertoire.ShortStart, repertoire.ShortStart+*length)
	if err != nil {
		return err
	}
	figures, err := shortOutcome(kinds, said, last.Drops-first.Drops, last.Passed-first.Passed)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(figures)
}

// shortFlow is the play of a sender. Ours sleeps between completions, because there are more
// programs than processors.
func shortFlow(b *stage.Bottleneck, i int, kind, roce string, length time.Duration) stage.Play {
	whole := length + 2*repertoire.ShortStart
	p := stage.Play{Ready: stage.Port{Proto: "tcp", Number: repertoire.PerfPort + i}, Limit: time.Minute + whole}
	target := b.Targets[i].String()
	if kind == "udp" {
		line := fmt.Sprintf("%s perf write-bw -e -s 65536 -p %d -D %v -f %v --json -d udp:",
			roce, p.Ready.Number, whole, repertoire.ShortStart)
		p.Server.Args = strings.Fields(line + target)
		p.Client.Args = strings.Fields(line + b.Senders[i].Addr.String() + " " + target)
		return p
	}
	p.Server.Args = strings.Fields(fmt.Sprintf("iperf3 -s -1 -p %d -B %s", p.Ready.Number, target))
	p.Client.Args = strings.Fields(fmt.Sprintf("iperf3 -J -C %s -p %d -c %s -O %s -t %s", kind, p.Ready.Number, target,
		figures.Seconds(repertoire.ShortStart), figures.Seconds(length)))
	return p
}

// shortOutcome makes figures of what the clients said and the switch counted.
func shortOutcome(kinds []string, said [][]byte, lost, passed int) (f repertoire.ShortFigures, err error) {
	if lost+passed <= 0 {
		return f, fmt.Errorf("nothing came to the switch")
	}
	f.Lost = 100 * float64(lost) / float64(lost+passed)
	sent, resent := 0.0, 0.0
	for i, text := range said {
		rate := 0.0
		if kinds[i] == "udp" {
			var r struct {
				repertoire.PerfReport
				Counters struct {
					Sent   float64 `json:"sent_pkts"`
					Resent float64 `json:"retransmitted_pkts"`
				} `json:"counters"`
			}
			if r.PerfReport, err = repertoire.ParsePerf(text); err == nil {
				err = json.Unmarshal(text, &r)
			}
			if err == nil {
				rate = repertoire.Bandwidth(repertoire.PerfReport{}, r.PerfReport)
				sent, resent = sent+r.Counters.Sent, resent+r.Counters.Resent
			}
		} else {
			rate, err = repertoire.Iperf3("", "", "").Figure(nil, text)
		}
		if err != nil {
			return f, fmt.Errorf("%s: %w", kinds[i], err)
		}
		f.Use = append(f.Use, 100*rate*1e9/shortRate)
	}
	if sent > 0 {
		f.Resent = 100 * resent / sent
	}
	return f, nil
}
