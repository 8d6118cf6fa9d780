package networks

// A case played once: the network is made, every flow's programs run through it to their end, and
// what they and the switch say becomes a record.

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/goroce/goroce/bench/repertoire"
	"github.com/goroce/goroce/bench/stage"
)

// processors that are to spare: more programs than that sleep between completions.
const spinning = 2

// window of TCP: what a long path holds, several times.
const tcpBuffers = "4096 131072 67108864"

// Play plays a case once, for about d.
func Play(ctx context.Context, c *Case, d time.Duration, roce, bench string) (r Record, err error) {
	b, err := stage.NewBottleneck(len(c.Flows), MTU, c.Queue)
	if err != nil {
		return r, err
	}
	defer b.Close()
	for _, e := range append(append([]*stage.End{}, b.Senders...), b.Receiver) {
		if err := e.Do(largeWindows); err != nil {
			return r, err
		}
	}
	flows, plays := make([]flow, len(c.Flows)), make([]stage.Play, len(c.Flows))
	for i, kind := range c.Flows {
		flows[i] = flow{kind: kind, sender: b.Senders[i].Addr, receiver: b.Targets[i], port: repertoire.PerfPort + i,
			start: c.Start, length: d, sleeps: 2*len(c.Flows) > spinning, programs: programs{roce, bench}}
		plays[i] = flows[i].play()
	}
	said, first, last, err := b.Share(ctx, plays, c.Start, c.Start+d)
	if err != nil {
		return r, err
	}
	r.Case = c.Name
	lost, passed := last.Drops-first.Drops, last.Passed-first.Passed
	if lost+passed <= 0 {
		return r, errors.New("nothing came to the switch")
	}
	r.Lost = 100 * float64(lost) / float64(lost+passed)
	sent, resent := 0.0, 0.0
	for i := range flows {
		o, err := flows[i].outcome(said[i])
		if err != nil {
			return r, err
		}
		if o.p99 > 0 {
			r.P99 = o.p99
			continue
		}
		if o.gbps <= 0 {
			return r, fmt.Errorf("flow %d (%s) has carried nothing", i, flows[i].kind)
		}
		r.Flows, sent, resent = append(r.Flows, o.gbps), sent+o.sent, resent+o.resent
	}
	if sent > 0 {
		r.Resent = 100 * resent / sent
	}
	return r, nil
}

// largeWindows has TCP use windows that fill a long path. It runs in the namespace of an end.
func largeWindows() error {
	var errs []error
	for _, name := range []string{"tcp_rmem", "tcp_wmem"} {
		errs = append(errs, os.WriteFile("/proc/sys/net/ipv4/"+name, []byte(tcpBuffers), 0))
	}
	return errors.Join(errs...)
}

// Lacks says which kinds of TCP the kernel does not have.
func Lacks() (kinds []string) {
	text, _ := os.ReadFile("/proc/sys/net/ipv4/tcp_available_congestion_control")
	for _, kind := range tcps {
		if !strings.Contains(" "+strings.TrimSpace(string(text))+" ", " "+kind+" ") {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}
