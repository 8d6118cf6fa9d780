package ladder

// Packets to rows. Stages: the analysis, which also leaves out what was captured twice → the
// columns of sender and receiver → a short label and the colour.

import (
	"slices"
	"strconv"

	"github.com/goroce/goroce/trace"
	"github.com/goroce/goroce/trace/analysis"
	"github.com/goroce/goroce/wire"
)

// maxColumns is how many addresses have a line of their own; the others share the last.
const maxColumns = 8

// DefaultRows is how many packets a ladder shows unless Rows says otherwise: more than anybody
// scrolls through.
const DefaultRows = 1000

// Class is what kind of packet a row shows; each has a colour.
type Class uint8

// The classes.
const (
	Request Class = iota
	Response
	Refusal // a NAK or an RNR NAK
	Connect // the connection manager's
	Notice  // a congestion notification
	Damaged // a wrong ICRC, or headers that make no sense
)

// row is a packet.
type row struct {
	number   int
	time     int64
	from, to int
	class    Class
	marked   bool // by a switch
	label    string
	note     string // of the analysis
}

// Ladder collects the rows of a diagram. It is not for concurrent use.
type Ladder struct {
	Title string
	Rows  int // how many packets are shown at most; 0: DefaultRows
	// Show says which are shown, while all are analyzed; nil: all
	Show func(p *trace.Packet) bool

	columns Columns
	rows    []row
	left    int // packets that are not shown
	study   *analysis.Analysis
}

// Add takes the next packet of the capture. What comes behind the last row is only counted.
func (l *Ladder) Add(p *trace.Packet) {
	if l.study == nil {
		l.study = analysis.New()
	}
	if p.Kind == trace.Other {
		return
	}
	show := l.Show == nil || l.Show(p)
	if l.Full() {
		if show {
			l.left++
		}
		return
	}
	remark := l.study.Add(p)
	if remark.Twice || !show {
		return
	}
	r := row{number: p.Number, time: p.Time, class: classOf(p), label: Label(p)}
	src, dst := p.Addresses()
	r.from, r.to = l.columns.Of(src), l.columns.Of(dst)
	r.marked = p.Kind == trace.RoCEv2 && p.Frame.ECN() == wire.ECNCongestion
	if remark.Finding != nil {
		r.note = remark.Finding.Weight.String() + ": " + remark.Finding.Text
	}
	if p.Comment != "" {
		r.note += " " + trace.Printable(p.Comment)
	}
	l.rows = append(l.rows, r)
}

// Full says whether what comes is only counted.
func (l *Ladder) Full() bool {
	most := l.Rows
	if most <= 0 {
		most = DefaultRows
	}
	return len(l.rows) >= most
}

// Columns are the addresses that have a line of their own, in the order of their appearance, and
// "others" as the last one if there are more than maxColumns.
type Columns []string

// Of returns the column of an address, a new one if need be.
func (c *Columns) Of(address string) int {
	if i := slices.Index(*c, address); i >= 0 {
		return i
	}
	switch {
	case len(*c) < maxColumns-1:
		*c = append(*c, address)
	case len(*c) < maxColumns:
		*c = append(*c, "others")
	}
	return len(*c) - 1
}

func classOf(p *trace.Packet) Class {
	if !p.Parsed || p.ICRC == trace.ICRCWrong {
		return Damaged
	}
	if h := p.Wire.AETH(); h != nil && h.Syndrome().Kind() != wire.KindACK {
		return Refusal
	}
	switch op := p.Wire.Op; {
	case op.Flags&wire.OpCNP != 0:
		return Notice
	case wire.MADOf(&p.Wire) != nil:
		return Connect
	case op.Flags&wire.OpResponse != 0:
		return Response
	}
	return Request
}

// Label is what stands on a packet's arrow.
func Label(p *trace.Packet) string {
	if !p.Parsed {
		return "? " + p.Problem
	}
	if m := wire.MADOf(&p.Wire); m != nil {
		return "CM " + m.Attribute().String()
	}
	text := p.Wire.Op.Name
	if s := p.Wire.Opcode.Service(); s != wire.ServiceRC && s != wire.ServiceCNP {
		text = s.String() + " " + text
	}
	if p.Wire.Op.Flags&wire.OpCNP == 0 {
		text += " psn " + p.Wire.BTH.PSN().String()
	}
	if h := p.Wire.AETH(); h != nil && p.Wire.Op.Flags&wire.OpAck != 0 {
		text = h.Syndrome().String() + " psn " + p.Wire.BTH.PSN().String()
		if p.Wire.Op.Flags&wire.OpAtomic != 0 {
			text = "ATOMIC " + text
		}
	}
	if n := len(p.Wire.Payload); n > 0 {
		text += " " + strconv.Itoa(n) + " B"
	}
	if p.ICRC == trace.ICRCWrong {
		text += " (ICRC wrong)"
	}
	return text
}

// since is the row's time after the first row's, in seconds.
func (l *Ladder) since(r *row) string {
	return strconv.FormatFloat(float64(r.time-l.rows[0].time)/1e9, 'f', 9, 64)
}
