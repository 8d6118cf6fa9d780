package analysis

// All of it as text: a summary, then each connection with its two ways, then the datagrams.

import (
	"fmt"
	"io"
	"strings"

	"github.com/goroce/goroce/wire"
)

// Write writes the report.
func (a *Analysis) Write(out io.Writer) error {
	w := &writer{out: out, first: a.first, study: a}
	w.line("%d packets of RoCE in %s%s", a.Packets, duration(a.last-a.first), others(a))
	w.line("verdict: %s", a.Verdict())
	for _, f := range a.Flows {
		switch {
		case f.Peer != nil && f.Peer.order < f.order:
			// written with its peer
		case f.Service == wire.ServiceUD:
			w.datagrams(f)
		default:
			w.connection(f)
		}
	}
	return w.err
}

func others(a *Analysis) string {
	var s strings.Builder
	for _, x := range []struct {
		n    uint64
		text string
	}{{a.Others, "others"}, {a.Problems, "with headers that make no sense (roce trace decode shows them)"},
		{a.Unsorted, "of more flows than are told apart"},
		{a.HeadersCut, "whose headers the capture has cut off: a longer snapshot length shows them"},
		{a.RunsCut, "are the first of a run, whose other packets the capture has cut off: roce trace capture --snap " +
			"keeps the headers of all"},
		{a.Lost, "records of the device are lost, so that it did more than is told here"}} {
		if x.n > 0 {
			fmt.Fprintf(&s, "; %d %s", x.n, x.text)
		}
	}
	return s.String()
}

// writer keeps the first error.
type writer struct {
	out   io.Writer
	first int64 // the capture's beginning
	study *Analysis
	err   error
}

func (w *writer) line(format string, args ...any) {
	if w.err == nil {
		_, w.err = fmt.Fprintf(w.out, format+"\n", args...)
	}
}

func (w *writer) connection(f *Flow) {
	peer := f.Peer
	if peer == nil {
		w.line("\n%v %v > %v qp 0x%06x (the other way is not in the capture, or could not be told)",
			f.Service, f.Src.Addr().Unmap(), f.Dst.Addr().Unmap(), f.DestQP)
		w.line("  verdict: %s", f.Verdict())
		w.way("there", f)
		return
	}
	w.line("\n%v connection, recognised by %s", f.Service, f.Known)
	w.line("  A  %v qp 0x%06x", f.Src.Addr().Unmap(), peer.DestQP)
	w.line("  B  %v qp 0x%06x", f.Dst.Addr().Unmap(), f.DestQP)
	if f.PathMTU > 0 {
		w.line("  path MTU %d", f.PathMTU)
	}
	w.line("  verdict: %s", f.Verdict())
	w.way("A to B", f)
	w.way("B to A", peer)
}

// way writes what one flow carried.
func (w *writer) way(name string, f *Flow) {
	if f.Packets == 0 && f.BadICRC == 0 {
		w.line("  %s: no packet", name)
		return
	}
	w.line("  %s: %d packets, %s of payload%s", name, f.Packets, size(f.Payload), rate(f))
	r := &f.Requests
	for k := range numKinds {
		if r.Messages[k] > 0 {
			w.line("    %d × %v, %s", r.Messages[k], k, size(r.Bytes[k]))
		}
	}
	if r.latency != nil {
		w.line("    a message took %s at least, %s in the median, %s in 99 of 100, %s at most",
			duration(r.latency.Min()), duration(r.Latency(50)), duration(r.Latency(99)), duration(r.latency.Max()))
	}
	if n := f.unacknowledged(); n > 0 {
		m := f.req.flight.at(0)
		w.line("    %d not acknowledged at the end: the oldest is the %v of packet %d%s", n, m.kind, m.number,
			w.tried(f))
	}
	for c := range numCauses {
		if r.Retries[c] > 0 {
			w.line("    went back %d × %v", r.Retries[c], c)
		}
	}
	if r.Guessed > 0 {
		w.line("    of these causes %d are guesses", r.Guessed)
	}
	if s := &f.Responses; s.Credits > 0 {
		w.line("    %d ACKs say how many receives there are, %d at the fewest (section 4.8)", s.Credits, s.FewCredits)
	}
	for _, x := range f.totals() {
		if x.n > 0 {
			w.line("    %d %s", x.n, x.text)
		}
	}
	w.recorded(w.study.RecordedOf(f))
	w.findings(f)
}

// counted is a number, and of what.
type counted struct {
	n    uint64
	text string
}

// totals are what is counted of a flow.
func (f *Flow) totals() []counted {
	r, s := &f.Requests, &f.Responses
	return []counted{
		{r.Repeated, "packets sent again"}, {r.Missing, "packets missing in the capture"},
		{r.Broken, "messages seen in part only"}, {r.Forgotten, "messages too many to follow"},
		{r.Refused, "messages refused"}, {r.Flushed, "messages behind those, which end with IBV_WC_WR_FLUSH_ERR (5)"},
		{s.Sequence, "NAKs: PSN sequence error"}, {s.RNR, "RNR NAKs: no receive was posted"},
		{s.Fatal, "NAKs that fail a request"},
		{s.Ghosts, "responses to what was acknowledged before"},
		{s.Unexpected, "responses to requests that are not in the capture"},
		{f.Marked, "packets marked by a switch (congestion experienced)"},
		{f.CNPs, "CNPs: the receiver of these is to send more slowly"},
		{f.BadICRC, "packets with a wrong ICRC"},
		{f.SeenTwice, "copies of packets, captured at a second place or by a mirror: left out"},
	}
}

// maxRetries is the most that a retry_cnt can be: it has 3 bits.
const maxRetries = 7

// tried says how often the oldest packet was sent in vain. What the device has recorded wins.
func (w *writer) tried(f *Flow) string {
	n := f.req.times
	if n == 0 {
		return ""
	}
	text := fmt.Sprintf("; PSN %v was sent again %s in vain", f.req.again, times(n))
	const end = "IBV_WC_RETRY_EXC_ERR (12), section 4.7"
	switch r := w.study.RecordedOf(f); {
	case r != nil && r.GaveUp > 0:
		return text + ", and the device has recorded that no retry was left: " + end
	case r != nil && r.Requests+r.Timers > 0:
		return text + ", and the device has not recorded that it gave up"
	case n > maxRetries:
		return text + fmt.Sprintf(": not all of it by the timer, as retry_cnt is %d at most; when none is left it "+
			"ends with %s", maxRetries, end)
	}
	return text + fmt.Sprintf(": if the timer did it each time, retry_cnt %d ends it with %s", n, end)
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

func (w *writer) findings(f *Flow) {
	for _, x := range f.Findings {
		w.line("    %-6s packet %d, %s: %s (%s)", x.Weight, x.Packet, stamp(x.Time-w.first), x.Text, x.Rule)
		w.line("           seen: %s", x.Reasons())
	}
	if f.MoreFindings > 0 {
		w.line("    ... and %d more of the like", f.MoreFindings)
	}
}

func (w *writer) datagrams(f *Flow) {
	w.line("\nUD %v qp 0x%06x > %v qp 0x%06x: %d packets, %s%s", f.Src.Addr().Unmap(), f.SrcQP, f.Dst.Addr().Unmap(),
		f.DestQP, f.Packets, size(f.Payload), rate(f))
	if f.SeenTwice > 0 {
		w.line("    %d copies of packets, captured at a second place or by a mirror: left out", f.SeenTwice)
	}
	w.recorded(w.study.RecordedOf(f))
	w.findings(f)
}

// rate is the payload over the time that it took, of what took long enough to say.
func rate(f *Flow) string {
	ns := f.Last - f.First
	if ns < 1000 || f.Packets < 2 {
		return ""
	}
	return fmt.Sprintf(" in %s: %.3g Gbit/s", duration(ns), 8*float64(f.Payload)/float64(ns))
}

// stamp prints a time since the capture's beginning, in seconds.
func stamp(ns int64) string { return fmt.Sprintf("%.9f s", float64(ns)/1e9) }
