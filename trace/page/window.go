package page

// Packets of a capture as the page draws them. Stages: analysis, from the capture's first packet
// on, as what is wrong with a packet depends on those before it → those that are wanted → a row of
// the ladder, and what it opens to.

import (
	"encoding/json"
	"io"
	"slices"
	"strings"

	"github.com/goroce/goroce/trace"
	"github.com/goroce/goroce/trace/analysis"
	"github.com/goroce/goroce/trace/filter"
	"github.com/goroce/goroce/trace/ladder"
	"github.com/goroce/goroce/trace/world"
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
	From   int            // the number of the first packet; 0: from the beginning
	Count  int            // how many, up to MaxCount; 0: DefaultCount
	Wrong  bool           // only packets with which something is wrong
	Filter *filter.Filter // only these, of what is analyzed; nil: all
	Study  *Study         // of the whole capture, for a page that is one file; nil: none
	Damage string         // why the capture could not be read on, "" if it could

	devices devices
	packets []packet
	entries []world.Entry // what was said between them
	more    bool          // there are packets behind these
	columns ladder.Columns
	study   *analysis.Analysis
	first   int64 // the time of the capture's first packet
}

// Add takes the next packet of the capture; those before From are analyzed only. It returns false
// if those behind it are not wanted: the window has no room, and has heard what devices did until
// then.
func (w *Window) Add(p *trace.Packet) bool {
	if p.Kind == trace.Other {
		return true
	}
	w.begin(p.Time)
	if len(w.packets) >= w.room() {
		w.more = true
		return w.devices.late(p.Time - w.first - w.packets[len(w.packets)-1].Sent)
	}
	remark := w.study.Add(p)
	w.devices.saw(p)
	if w.Filter != nil && !w.Filter.Match(p) {
		return true
	}
	if w.Wrong && p.Parsed && p.ICRC != trace.ICRCWrong && (remark.Finding == nil ||
		remark.Finding.Weight == analysis.Noted) {
		return true
	}
	if !remark.Twice && p.Number >= w.From {
		w.packets = append(w.packets, w.row(p, remark.Finding))
	}
	return true
}

// begin fixes the time that all others are counted from.
func (w *Window) begin(t int64) {
	if w.study == nil {
		w.study, w.first = analysis.New(), t
	}
}

func (w *Window) room() int {
	if w.Count <= 0 {
		return DefaultCount
	}
	return min(w.Count, MaxCount)
}

// play is what the page draws. A simulated world has more of it (world.Play).
type play struct {
	Title   string         `json:"title"`
	From    int            `json:"from"`
	Hosts   []host         `json:"hosts"`
	Packets []packet       `json:"packets,omitempty"` // encode writes the list if it is empty, too
	Entries []world.Entry  `json:"entries,omitempty"`
	Moments []world.Moment `json:"moments,omitempty"` // of what runs here, as its devices tell
	More    bool           `json:"more"`
	Wrong   bool           `json:"wrong,omitempty"`  // no others are in it
	Chosen  bool           `json:"chosen,omitempty"` // only those that a filter has left
	Damage  string         `json:"damage,omitempty"`
}

// encode writes the play as JSON, a packet at a time: of ten thousand it would be large.
func (p *play) encode(out io.Writer) error {
	rest := *p
	rest.Packets = nil
	head, err := json.Marshal(&rest)
	if err != nil {
		return err
	}
	head = append(head[:len(head)-1], `,"packets":[`...)
	for i := range p.Packets {
		if _, err := out.Write(head); err != nil {
			return err
		}
		if head, err = json.Marshal(&p.Packets[i]); err != nil {
			return err
		}
		if i < len(p.Packets)-1 {
			head = append(head, ',')
		}
	}
	_, err = out.Write(append(head, "]}"...))
	return err
}

// host is a line down.
type host struct {
	Name string `json:"name"`
	Addr string `json:"addr"`
}

// packet is an arrow, and what it opens to, as that of a simulated world. Times are nanoseconds
// since the first packet of the capture. Without bytes and fields, the page asks for them.
type packet struct {
	world.Packet
	Part   int    `json:"part,omitempty"`
	Remark string `json:"remark,omitempty"` // worth knowing, and not wrong
	Whole  int    `json:"whole"`            // how many bytes it has
	filtered
	Tail world.Bytes `json:"tail,omitempty"` // the last ones, if some behind Bytes are left out
}

// filtered is what a filter can ask for beside a packet's bytes, for a page that is one file.
type filtered struct {
	Link      trace.LinkType  `json:"link,omitempty"`
	Direction trace.Direction `json:"direction,omitempty"`
	Name      string          `json:"interface,omitempty"`
	Comment   string          `json:"comment,omitempty"`
	ICRC      trace.Verdict   `json:"icrc,omitempty"`
}

// Of a packet's bytes the page shows so many, and so many of its last ones: all headers, of a
// payload what anybody reads, and the ICRC.
const (
	maxBytes  = 512
	tailBytes = 16
)

// row makes a packet's arrow.
func (w *Window) row(p *trace.Packet, f *analysis.Finding) packet {
	src, dst := p.Addresses()
	var x packet
	x.Describe(p)
	x.N, x.Part, x.From, x.To = p.Number, p.Part, w.columns.Of(src), w.columns.Of(dst)
	x.Label, x.Sent = ladder.Label(p), p.Time-w.first
	x.Arrived, x.Fate = x.Sent, world.Delivered
	switch {
	case !p.Parsed:
		x.Fate, x.Wrong = world.Corrupted, p.Problem
	case p.ICRC == trace.ICRCWrong:
		x.Fate, x.Wrong = world.Corrupted, p.ICRCMeaning()
	case p.Kind == trace.RoCEv2 && p.Frame.ECN() == wire.ECNCongestion:
		x.Fate = world.Marked
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
	x.filtered = filtered{p.Link, p.Direction, p.Name, p.Comment, p.ICRC}
	x.keep(p.Data[:len(p.Data)-p.Cut])
	return x
}

// keep keeps the bytes that are shown.
func (x *packet) keep(data []byte) {
	x.Whole = len(data)
	if len(data) > maxBytes+tailBytes {
		x.Tail = slices.Clone(data[len(data)-tailBytes:])
		data = data[:maxBytes]
	}
	x.Bytes = slices.Clone(data)
}

// play is the window as JSON, with what its packets open to, or without.
func (w *Window) play(details bool) *play {
	all := &play{
		Title:   trace.Printable(w.Title),
		From:    max(w.From, 1),
		Hosts:   []host{},
		Packets: append([]packet{}, w.packets...),
		Entries: append(slices.Clone(w.entries), w.recorded()...),
		More:    w.more,
		Wrong:   w.Wrong,
		Chosen:  w.Filter != nil,
		Damage:  w.Damage,
	}
	for _, c := range w.columns {
		all.Hosts = append(all.Hosts, host{Name: c})
	}
	for i := range all.Packets {
		if p := &all.Packets[i]; !details {
			p.Bytes, p.Tail, p.Fields, p.filtered = nil, nil, nil, filtered{}
		}
	}
	return all
}

// open returns a packet with its bytes and fields, nil if it is not in the window.
func (w *Window) open(n, part int) *packet {
	for i := range w.packets {
		if w.packets[i].N == n && w.packets[i].Part == part {
			return &w.packets[i]
		}
	}
	return nil
}
