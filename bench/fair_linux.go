package main

// Two flows through one bottleneck whose switch marks packets: "bench fair" makes the network
// (package stage), has two senders write to one receiver, and says how they share the slow link
// once they have found their rates.

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/goroce/goroce/bench/stage"

	"github.com/goroce/goroce/bench/figures"
	"github.com/goroce/goroce/bench/repertoire"
)

// The bottleneck: 1 Gbit/s, which two processors can play three hosts and a switch at, with the
// marks that are usual on links of 10 to 40 Gbit/s, and room for the windows of both flows several
// times over, so that only marks keep the queue short.
var bottleneck = stage.Queue{
	Rate:     1e9,
	MarkFrom: 40 << 10,
	MarkAll:  repertoire.FairMarkAll,
	MarkMost: 0.1,
	Limit:    4 << 20,
}

const (
	fairFlows = 2
	// fairStart is how long the flows have to converge. It takes some 0.3 s.
	fairStart = 2 * time.Second
	// fairEvery is how often the switch's counters are read.
	fairEvery = 5 * time.Millisecond
)

// fairMain is a run of "bench fair".
func fairMain(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("bench fair", flag.ExitOnError)
	port := f.String("port", "udp", "kind of port")
	roce := f.String("roce", "roce", "the roce command")
	length := f.Duration("d", 4*time.Second, "how long to look at the flows once they have converged")
	f.Parse(args)
	b, err := stage.NewBottleneck(fairFlows, figures.JumboMTU, bottleneck)
	if err != nil {
		return err
	}
	defer b.Close()
	readings, err := b.Compete(ctx, fairPlays(b, *roce, *port), fairEvery, fairStart+*length)
	if err != nil {
		return err
	}
	figures, err := shares(readings, readings[0].At.Add(fairStart))
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(figures)
}

// fairPlays are a play for each flow: as many WRITEs as it can, sleeping between completions,
// because there are more programs than processors.
func fairPlays(b *stage.Bottleneck, roce, port string) (plays []stage.Play) {
	for i, sender := range b.Senders {
		meet := repertoire.PerfPort + i
		end := func(device string, peer ...string) stage.Program {
			line := fmt.Sprintf("%s perf write-bw -e -n 100000000 -s 65536 -m 4096 -p %d -d %s:%s",
				roce, meet, port, device)
			return stage.Program{Args: append(strings.Fields(line), peer...)}
		}
		target := b.Targets[i].String()
		plays = append(plays, stage.Play{Server: end(target), Client: end(sender.Addr.String(), target),
			Ready: stage.Port{Proto: "tcp", Number: meet}, Limit: time.Minute})
	}
	return plays
}

// shares are the figures of the readings from a time on.
func shares(readings []stage.Reading, from time.Time) (repertoire.FairFigures, error) {
	first := slices.IndexFunc(readings, func(r stage.Reading) bool { return !r.At.Before(from) })
	if first < 0 || first == len(readings)-1 {
		return repertoire.FairFigures{}, fmt.Errorf("%d readings of the switch are not enough", len(readings))
	}
	a, z := readings[first], readings[len(readings)-1]
	if z.Marked == a.Marked {
		return repertoire.FairFigures{}, fmt.Errorf("the switch has marked nothing: the flows did not fill the link "+
			"(%d packets were not ECN-capable)", z.Unmarkable)
	}
	var each []float64
	total := 0.0
	for i := range a.Bytes {
		each = append(each, float64(z.Bytes[i]-a.Bytes[i]))
		total += each[i]
	}
	f := repertoire.FairFigures{Ratio: slices.Min(each) / slices.Max(each), Drops: float64(z.Drops - a.Drops),
		Use: 100 * total * 8 / z.At.Sub(a.At).Seconds() / float64(bottleneck.Rate)}
	for _, r := range readings[first:] {
		f.Backlog = max(f.Backlog, float64(r.Backlog)/1024)
	}
	return f, nil
}
