package analysis

// All of it as JSON, and the verdict in a line.

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/goroce/goroce/wire"
)

// Report is what the analysis has found out, as JSON has it. Times of packets are nanoseconds since
// the capture's first.
type Report struct {
	Packets     uint64       `json:"packets"`
	Begin       string       `json:"begin"` // RFC 3339
	Duration    int64        `json:"duration_ns"`
	Verdict     string       `json:"verdict"`
	Remarks     []string     `json:"remarks,omitempty"` // about the capture
	Connections []Connection `json:"connections"`
	Datagrams   []Way        `json:"datagrams"`
}

// Connection is two flows, or one whose other way is not known.
type Connection struct {
	Service string `json:"service"`
	Known   string `json:"known,omitempty"` // how the two were recognised
	PathMTU int    `json:"path_mtu,omitempty"`
	Verdict string `json:"verdict"`
	Ways    []Way  `json:"ways"`
}

// Way is what a flow has carried.
type Way struct {
	Number    int               `json:"number"` // of the flow, in the order of appearance
	Src       string            `json:"src"`
	SrcQP     uint32            `json:"src_qp,omitempty"`
	Dst       string            `json:"dst"`
	DestQP    uint32            `json:"dest_qp"`
	Packets   uint64            `json:"packets"`
	Payload   uint64            `json:"payload"`
	First     int64             `json:"first_ns"`
	Last      int64             `json:"last_ns"`
	Messages  []Messages        `json:"messages,omitempty"`
	Latency   *Latency          `json:"latency_ns,omitempty"`
	Unacked   int               `json:"unacknowledged,omitempty"`
	WentBack  map[string]uint64 `json:"went_back,omitempty"` // how often, by the cause
	Guessed   uint64            `json:"guessed_causes,omitempty"`
	Counts    map[string]uint64 `json:"counts,omitempty"`   // by what the text calls it
	Recorded  string            `json:"recorded,omitempty"` // what the sender's device says of it
	Findings  []FoundJSON       `json:"findings"`
	More      int               `json:"more_findings,omitempty"`
	HasGraphs bool              `json:"graphs,omitempty"`
}

// Messages are those of a kind that were seen to their ends.
type Messages struct {
	Kind  string `json:"kind"`
	Count uint64 `json:"count"`
	Bytes uint64 `json:"bytes"`
}

// Latency is how long messages took, from the first packet to the acknowledgement or the answer.
type Latency struct {
	Min    int64 `json:"min"`
	Median int64 `json:"median"`
	P99    int64 `json:"p99"`
	Max    int64 `json:"max"`
}

// FoundJSON is a finding.
type FoundJSON struct {
	Packet int         `json:"packet"`
	Time   int64       `json:"time_ns"`
	Weight string      `json:"weight"`
	Text   string      `json:"text"`
	Rule   string      `json:"rule,omitempty"`
	Guess  bool        `json:"guess"`
	Reason []SightJSON `json:"reason"`
}

// SightJSON is a packet that a finding rests on.
type SightJSON struct {
	Packet int    `json:"packet"`
	Time   int64  `json:"time_ns"`
	PSN    uint32 `json:"psn"`
	Shows  string `json:"shows"`
}

// WriteJSON writes the report as one JSON object.
func (a *Analysis) WriteJSON(out io.Writer) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(a.Report())
}

// Report returns what the analysis has found out.
func (a *Analysis) Report() *Report {
	r := &Report{Packets: a.Packets, Duration: a.last - a.first, Connections: []Connection{}, Datagrams: []Way{},
		Begin: time.Unix(0, a.first).UTC().Format(time.RFC3339Nano), Verdict: a.Verdict()}
	for _, text := range strings.Split(others(a), "; ") {
		if text != "" {
			r.Remarks = append(r.Remarks, text)
		}
	}
	for _, f := range a.Flows {
		switch {
		case f.Peer != nil && f.Peer.order < f.order:
			// it is there with its peer
		case f.Service == wire.ServiceUD:
			r.Datagrams = append(r.Datagrams, a.way(f))
		default:
			c := Connection{Service: f.Service.String(), Known: f.Known, PathMTU: f.PathMTU, Verdict: f.Verdict(),
				Ways: []Way{a.way(f)}}
			if f.Peer != nil {
				c.Ways = append(c.Ways, a.way(f.Peer))
			}
			r.Connections = append(r.Connections, c)
		}
	}
	return r
}

// way is a flow as JSON has it.
func (a *Analysis) way(f *Flow) Way {
	w := Way{Number: f.order, Src: f.Src.Addr().Unmap().String(), Dst: f.Dst.Addr().Unmap().String(), SrcQP: f.SrcQP,
		DestQP: f.DestQP, Packets: f.Packets, Payload: f.Payload, Unacked: f.unacknowledged(),
		Guessed: f.Requests.Guessed, Findings: []FoundJSON{}, More: f.MoreFindings, HasGraphs: f.drawn != nil,
		Recorded: a.RecordedOf(f).words()}
	if f.Peer != nil {
		w.SrcQP = f.Peer.DestQP
	}
	if f.Packets > 0 {
		w.First, w.Last = f.First-a.first, f.Last-a.first
	}
	r := &f.Requests
	for k := range numKinds {
		if r.Messages[k] > 0 {
			w.Messages = append(w.Messages, Messages{k.String(), r.Messages[k], r.Bytes[k]})
		}
	}
	if r.latency != nil {
		w.Latency = &Latency{r.latency.Min(), r.Latency(50), r.Latency(99), r.latency.Max()}
	}
	for c := range numCauses {
		if r.Retries[c] > 0 {
			if w.WentBack == nil {
				w.WentBack = map[string]uint64{}
			}
			w.WentBack[c.String()] = r.Retries[c]
		}
	}
	for _, x := range f.totals() {
		if x.n > 0 {
			if w.Counts == nil {
				w.Counts = map[string]uint64{}
			}
			w.Counts[x.text] = x.n
		}
	}
	for i := range f.Findings {
		w.Findings = append(w.Findings, a.found(&f.Findings[i]))
	}
	return w
}

// found is a finding as JSON has it.
func (a *Analysis) found(x *Finding) FoundJSON {
	j := FoundJSON{x.Packet, x.Time - a.first, x.Weight.String(), x.Text, x.Rule, x.Guess, []SightJSON{}}
	for _, s := range x.Reason {
		j.Reason = append(j.Reason, SightJSON{s.Packet, s.Time - a.first, uint32(s.PSN), s.Text})
	}
	return j
}

// verdicts are what findings of a weight are called, the worst first.
var verdicts = []struct {
	weight    Weight
	one, many string
}{
	{Failed, "failure", "failures"}, {Wrong, "breach of the protocol", "breaches of the protocol"},
	{Lost, "sign of loss", "signs of loss"}, {Again, "sign of repetition", "signs of repetition"},
}

// verdict says what so many findings of each weight come to.
func verdict(n [numWeights]uint64) string {
	var all []string
	for _, v := range verdicts {
		switch k := n[v.weight]; {
		case k == 1:
			all = append(all, "1 "+v.one)
		case k > 1:
			all = append(all, fmt.Sprintf("%d %s", k, v.many))
		}
	}
	if all == nil {
		return "no problem was seen"
	}
	return strings.Join(all, ", ")
}

// Verdict says in a line what was found of a flow and its peer.
func (f *Flow) Verdict() string {
	n, left := f.Weights, f.unacknowledged()
	if f.Peer != nil {
		for w, k := range f.Peer.Weights {
			n[w] += k
		}
		left += f.Peer.unacknowledged()
	}
	text := verdict(n)
	if left == 1 {
		text += "; 1 message is not acknowledged at the end"
	} else if left > 1 {
		text += fmt.Sprintf("; %d messages are not acknowledged at the end", left)
	}
	return text
}

// Verdict says in a line what was found of all flows.
func (a *Analysis) Verdict() string {
	if a.Packets == 0 {
		return "none: there is no packet of RoCE"
	}
	var n [numWeights]uint64
	bad := 0
	for _, f := range a.Flows {
		for w, k := range f.Weights {
			n[w] += k
		}
		if f.Weights[Failed]+f.Weights[Wrong]+f.Weights[Lost]+f.Weights[Again] > 0 {
			bad++
		}
	}
	if bad == 0 {
		return verdict(n)
	}
	return fmt.Sprintf("%s, in %d of %d flows", verdict(n), bad, len(a.Flows))
}

// unacknowledged is how many messages are in flight at the end.
func (f *Flow) unacknowledged() int {
	if f.Service == wire.ServiceUC {
		return 0
	}
	return f.req.flight.len()
}
