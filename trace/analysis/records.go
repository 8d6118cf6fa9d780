package analysis

// What a device has recorded of itself (roce --records) beside the packets: no guesses. A record
// names the device's queue pair, so it belongs to what that queue pair sends.

import (
	"fmt"
	"strings"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/trace"
	"github.com/goroce/goroce/trace/timeline"
	"github.com/goroce/goroce/wire"
)

// maxRecorded is how many queue pairs are counted.
const maxRecorded = 1 << 16

// Recorded is what a queue pair's device says of it.
type Recorded struct {
	Node        string
	Requests    uint64                     // work requests that began
	Back        uint64                     // times that it went back
	Waits       uint64                     // times that it waited, after an RNR NAK
	Gaps        uint64                     // times that it repeated what was reported missing
	Timers      uint64                     // deadlines that came: of probes, of waits, of timeouts
	GaveUp      uint64                     // no retry was left
	Completions map[qp.WCStatus]uint64     // those that were reported
	Drops       map[wire.DropReason]uint64 // of what arrived
}

// Told takes an entry of the device that captured. The order of packets and entries does not
// matter.
func (a *Analysis) Told(x *timeline.Entry) {
	if x.Record.Kind == qp.RecordLost {
		a.Lost += x.Record.Value
		return
	}
	r := a.recorded[x.Record.QPN]
	if r == nil {
		if len(a.recorded) == maxRecorded {
			return
		}
		r = &Recorded{Node: x.Node, Completions: map[qp.WCStatus]uint64{}, Drops: map[wire.DropReason]uint64{}}
		a.recorded[x.Record.QPN] = r
	}
	switch x.Record.Kind {
	case qp.RecordRequest:
		r.Requests++
	case qp.RecordRetry:
		r.Back++
	case qp.RecordWait:
		r.Waits++
	case qp.RecordGap:
		r.Gaps++
	case qp.RecordTimer:
		r.Timers++
	case qp.RecordGiveUp:
		r.GaveUp++
	case qp.RecordCompletion:
		r.Completions[qp.WCStatus(x.Record.Length)]++
	case qp.RecordDropped:
		r.Drops[wire.DropReason(x.Record.Value)]++
	}
}

// RecordedOf returns what the sender of a flow has recorded of the queue pair that sends, nil if
// nothing is known of it.
func (a *Analysis) RecordedOf(f *Flow) *Recorded {
	switch {
	case f.point.name == "received": // the peer of the device that captured sends it
		return nil
	case f.Service == wire.ServiceUD:
		return a.recorded[f.SrcQP]
	case f.Peer != nil:
		return a.recorded[f.Peer.DestQP]
	}
	return nil
}

// recorded writes what the sender's device says.
func (w *writer) recorded(r *Recorded) {
	if text := r.words(); text != "" {
		w.line("    as %s has recorded: %s", trace.Printable(r.Node), text)
	}
}

// words are what the device says.
func (r *Recorded) words() string {
	if r == nil {
		return ""
	}
	var text []string
	for _, x := range []struct {
		n    uint64
		what string
	}{{r.Requests, "requests began"}, {r.Back, "× back"}, {r.Waits, "waits for the peer's receives"},
		{r.Gaps, "reports of what was missing"}, {r.Timers, "deadlines"}, {r.GaveUp, "× no retry was left"}} {
		if x.n > 0 {
			text = append(text, fmt.Sprintf("%d %s", x.n, x.what))
		}
	}
	for s := qp.WCStatus(0); s < 64; s++ {
		if n := r.Completions[s]; n > 0 {
			text = append(text, fmt.Sprintf("%d completions: %v", n, s))
		}
	}
	for d := wire.DropNone; d < wire.NumDropReasons; d++ {
		if n := r.Drops[d]; n > 0 {
			text = append(text, fmt.Sprintf("%d dropped: %s", n, d.Explain()))
		}
	}
	return strings.Join(text, "; ")
}
