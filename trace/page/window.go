package page

// Packets of a capture as the page draws them. Stages: analysis, from the capture's first packet
// on, as what is wrong with a packet depends on those before it → those that are wanted → a row of
// the ladder, and what it opens to.

import (
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/goroce/goroce/trace"
	"github.com/goroce/goroce/trace/analysis"
	"github.com/goroce/goroce/trace/ladder"
	"github.com/goroce/goroce/wire"
)

// How many packets a page shows at once: unless it is told otherwise, and at most.
const (
	DefaultCount = 1000
	MaxCount     = 10_000
)

// Window is consecutive packets of a capture. It is not for concurrent use.
type Window struct {
	Title  string
	From   int    // the number of the first packet; 0: from the beginning
	Count  int    // how many, up to MaxCount; 0: DefaultCount
	Damage string // why the capture could not be read on, "" if it could

	packets []packet
	more    bool // there are packets behind these
	columns ladder.Columns
	study   *analysis.Analysis
	first   int64 // the time of the capture's first packet
}

// Add takes the next packet of the capture; those before From are analyzed only. It returns false
// if the window has no room for it: those behind are not wanted.
func (w *Window) Add(p *trace.Packet) bool {
	if p.Kind == trace.Other {
		return true
	}
	if w.study == nil {
		w.study, w.first = analysis.New(), p.Time
	}
	if len(w.packets) >= w.room() {
		w.more = true
		return false
	}
	remark := w.study.Add(p)
	if !remark.Twice && p.Number >= w.From {
		w.packets = append(w.packets, w.row(p, remark.Finding))
	}
	return true
}

func (w *Window) room() int {
	if w.Count <= 0 {
		return DefaultCount
	}
	return min(w.Count, MaxCount)
}

// play is what the page draws. A simulated world has more of it (world.Play).
type play struct {
	Title   string   `json:"title"`
	From    int      `json:"from"`
	Hosts   []host   `json:"hosts"`
	Packets []packet `json:"packets"`
	More    bool     `json:"more"`
	Damage  string   `json:"damage,omitempty"`
}

// host is a line down.
type host struct {
	Name string `json:"name"`
	Addr string `json:"addr"`
}

// packet is an arrow. Times are nanoseconds since the first packet of the capture.
type packet struct {
	N       int    `json:"n"`
	Part    int    `json:"part,omitempty"`
	From    int    `json:"from"`
	To      int    `json:"to"`
	Sent    int64  `json:"sent"`
	Arrived int64  `json:"arrived"`
	Fate    string `json:"fate"`
	Label   string `json:"label"` // what stands on it
	Line    string `json:"line"`  // all of it
	QPN     uint32 `json:"qpn"`
	PSN     uint32 `json:"psn"`
	Kind    string `json:"kind"`
	Op      string `json:"op"`
	Wrong   string `json:"wrong,omitempty"`
	Remark  string `json:"remark,omitempty"` // worth knowing, and not wrong
	*detail        // nil: the page asks for it
}

// detail is what a packet opens to.
type detail struct {
	Bytes  string  `json:"bytes"`          // the first of its bytes, hexadecimal
	Tail   string  `json:"tail,omitempty"` // the last ones, if some between are left out
	Length int     `json:"length"`         // how many it has
	Fields []field `json:"fields"`
}

// field is a field of a header: the bytes that it touches, and which of their bits it has.
type field struct {
	Layer  string `json:"layer"`
	Name   string `json:"name"`
	Offset int    `json:"offset"`
	Bits   string `json:"bits"`
	Length int    `json:"length"`
	Value  string `json:"value"`
	Means  string `json:"means,omitempty"`
}

// Of a packet's bytes the page shows so many, and so many of its last ones: all headers, of a
// payload what anybody reads, and the ICRC.
const (
	maxBytes  = 512
	tailBytes = 16
)

// kinds are the ladder's classes as the page names them.
var kinds = map[ladder.Class]string{ladder.Request: "request", ladder.Response: "ack", ladder.Refusal: "nak",
	ladder.Connect: "cm", ladder.Notice: "cnp", ladder.Damaged: "other"}

// row makes a packet's arrow.
func (w *Window) row(p *trace.Packet, f *analysis.Finding) packet {
	src, dst := p.Addresses()
	at := p.Time - w.first
	x := packet{N: p.Number, Part: p.Part, From: w.columns.Of(src), To: w.columns.Of(dst), Sent: at, Arrived: at, Fate: "delivered",
		Label: ladder.Label(p), Line: string(p.AppendLine(nil)), Kind: kinds[ladder.ClassOf(p)], detail: detailOf(p)}
	if p.Parsed {
		x.QPN, x.PSN, x.Op = p.Wire.BTH.DestQP(), uint32(p.Wire.BTH.PSN()), p.Wire.Opcode.String()
	}
	switch {
	case !p.Parsed:
		x.Fate, x.Wrong = "corrupt", p.Problem
	case p.ICRC == trace.ICRCWrong:
		x.Fate, x.Wrong = "corrupt", p.ICRCMeaning()
	case p.Kind == trace.RoCEv2 && p.Frame.ECN() == wire.ECNCongestion:
		x.Fate = "marked"
	}
	if f != nil {
		text := f.Weight.String() + ": " + f.Text
		if f.Rule != "" {
			text += " (" + f.Rule + ")"
		}
		if x.Remark = text; f.Weight > analysis.Noted {
			x.Wrong, x.Remark = text, ""
		}
	}
	if p.Comment != "" {
		x.Remark = strings.TrimPrefix(x.Remark+"; "+trace.Printable(p.Comment), "; ")
	}
	return x
}

func detailOf(p *trace.Packet) *detail {
	data := p.Data[:len(p.Data)-p.Cut]
	d := &detail{Length: len(data), Fields: []field{}}
	if len(data) > maxBytes+tailBytes {
		d.Tail = hex.EncodeToString(data[len(data)-tailBytes:])
		data = data[:maxBytes]
	}
	d.Bytes = hex.EncodeToString(data)
	p.EachField(func(f trace.Field) {
		at := f.Bit / 8
		d.Fields = append(d.Fields, field{f.Layer, f.Name, at, fmt.Sprintf("%d-%d", f.Bit%8, f.Bit%8+f.Bits-1), (f.Bit+f.Bits+7)/8 - at, f.Text, f.Meaning})
	})
	return d
}

// play is the window as JSON, with what its packets open to, or without.
func (w *Window) play(details bool) *play {
	all := &play{Title: trace.Printable(w.Title), From: max(w.From, 1), Hosts: []host{}, Packets: append([]packet{}, w.packets...), More: w.more, Damage: w.Damage}
	for _, c := range w.columns {
		all.Hosts = append(all.Hosts, host{Name: c})
	}
	for i := range all.Packets {
		if !details {
			all.Packets[i].detail = nil
		}
	}
	return all
}

// open returns what a packet opens to, nil if it is not in the window.
func (w *Window) open(n, part int) *detail {
	for i := range w.packets {
		if w.packets[i].N == n && w.packets[i].Part == part {
			return w.packets[i].detail
		}
	}
	return nil
}
