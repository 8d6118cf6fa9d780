//go:build linux

// Package networks measures ours beside TCP on networks that lose packets, are shared, or are long:
// "go run ./bench net", or make bench NET=1.
//
// Stages: what is played (this file); a case played once through the forwarder (play_linux.go, what
// a flow is in flows.go); what has been played is kept in a file, so that a run that was stopped
// goes on (state.go); medians, held against what is wanted (report.go, bars.go).
package networks

import (
	"fmt"
	"slices"
	"time"

	"github.com/goroce/goroce/bench/stage"
)

// MTU is that of the links. Ours has a path MTU of 1024 there.
const MTU = 1500

// rate is that of the slow link, in bits per second.
const rate = 1e9

// Case is a network with who sends through it at the same time.
type Case struct {
	Name  string // "alone/64k/udp-write": the table, the row, and who
	Queue stage.Queue
	Flows []string // of each sender; names of kinds
	// Start is for the flows to find their rates; what is before it does not count.
	Start time.Duration
}

// queues are those of the switch that most cases have.
var queues = []struct {
	name  string
	bytes int
}{{"64k", 64 << 10}, {"256k", 256 << 10}, {"1m", 1 << 20}}

// longQueue is that of the long paths.
const longQueue = 4 << 20

// crowd is how many flows there are in the cases of many.
const crowd = 20

var (
	tcps   = []string{"cubic", "bbr"}
	writes = []string{"udp-write", "packet-write"}
	both   = []string{"udp-write", "udp-read", "packet-write", "packet-read"}
	every  = []string{"udp-write", "udp-send", "udp-read", "packet-write", "packet-send", "packet-read"}
)

// Cases are all.
func Cases() (all []Case) {
	add := func(table, row string, q stage.Queue, who string, flows ...string) {
		q.Rate = rate
		if q.Limit == 0 {
			q.Limit = longQueue
		}
		all = append(all, Case{Name: table + "/" + row + "/" + who, Queue: q, Flows: flows,
			Start: time.Second + 40*q.Delay})
	}
	alone := func(table, row string, q stage.Queue, kinds ...[]string) {
		for _, kind := range slices.Concat(kinds...) {
			add(table, row, q, kind, kind)
		}
	}
	for _, queue := range queues {
		q := stage.Queue{Limit: queue.bytes}
		alone("alone", queue.name, q, every, tcps)
		for _, kind := range slices.Concat(writes, tcps) {
			add("two", queue.name, q, kind, kind, kind)
		}
		for _, kind := range append(writes, "cubic") {
			for _, tcp := range tcps {
				add("beside-1-"+tcp, queue.name, q, kind, kind, tcp)
				add("beside-4-"+tcp, queue.name, q, kind, kind, tcp, tcp, tcp, tcp)
			}
		}
	}
	many := stage.Queue{Limit: 256 << 10}
	for _, kind := range slices.Concat(writes, tcps) {
		add("crowd", "256k", many, kind, slices.Repeat([]string{kind}, crowd)...)
	}
	for _, kind := range []string{"udp-trip", "packet-trip", "tcp-trip"} {
		add("crowd", "256k", many, kind, kind)
	}
	for _, loss := range []float64{0.001, 0.01} {
		row := fmt.Sprintf("%g%%", 100*loss)
		alone("loss", row, stage.Queue{Loss: loss}, both, tcps)
		alone("loss", row+"-10ms", stage.Queue{Loss: loss, Delay: 5 * time.Millisecond}, both, tcps)
	}
	for _, late := range []time.Duration{200 * time.Microsecond, 2 * time.Millisecond} {
		alone("late", late.String(), stage.Queue{Late: 0.01, LateBy: late}, both, tcps)
	}
	for _, ms := range []int{10, 20, 50, 100} {
		q := stage.Queue{Delay: time.Duration(ms) * time.Millisecond / 2}
		alone("long", fmt.Sprintf("%dms", ms), q, every, tcps)
	}
	return all
}

// Takes is how long a case takes, about.
func (c *Case) Takes(d time.Duration) time.Duration {
	return d + 2*c.Start + 2*time.Second + time.Duration(len(c.Flows))*100*time.Millisecond
}
