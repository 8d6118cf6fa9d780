// Package timeline puts together what engines say they did (qp.Record) and the packets of a
// capture, in the order of time: what was posted, which packets it became, what was dropped and
// why, and in which completion it ended.
package timeline

// Records of nodes → entries → merged with packets → lines.

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/trace"
	"github.com/goroce/goroce/wire"
)

// Entry is a record, and whose it is.
type Entry struct {
	Time   int64  // nanoseconds, by the clock that the packets are stamped by
	Node   string // whose engine
	Record qp.Record
}

// Entries makes entries of the records of a node. shift is what is added to the engine's time to
// come to the packets': of a device, the time of day less its clock's (QueryRTValues); of a
// simulated world, 0.
func Entries(dst []Entry, node string, records []qp.Record, shift int64) []Entry {
	for _, r := range records {
		dst = append(dst, Entry{int64(r.At) + shift, node, r})
	}
	return dst
}

// Write writes entries and packets in the order of time, a line each; of the same time an engine's
// receiving comes after the packet, and all else before it. src may be nil. With packets, entries
// that only say that one was sent or taken are left out.
func Write(out io.Writer, src *trace.Source, entries []Entry) error {
	slices.SortStableFunc(entries, func(a, b Entry) int { return cmp.Compare(a.Time, b.Time) })
	w := writer{out: out}
	for src != nil {
		p, err := src.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		w.begin(p.Time)
		entries = w.until(p.Time, entries)
		w.line = fmt.Appendf(w.stamp(p.Time), "%-10s ", "packet "+strconv.Itoa(p.Number))
		w.line = p.AppendLine(w.line)
		w.packets = true
		w.flush()
	}
	w.until(1<<63-1, entries)
	return w.err
}

// writer keeps the first error and the first time.
type writer struct {
	out     io.Writer
	first   int64
	begun   bool
	packets bool // some were shown
	line    []byte
	err     error
}

// begin fixes the time that all others are counted from.
func (w *writer) begin(t int64) {
	if !w.begun {
		w.first, w.begun = t, true
	}
}

// until writes the entries up to a time and returns the others.
func (w *writer) until(t int64, entries []Entry) []Entry {
	for len(entries) > 0 && entries[0].Time <= t {
		x := &entries[0]
		entries = entries[1:]
		w.begin(x.Time)
		if k := x.Record.Kind; w.packets && (k == qp.RecordSent || k == qp.RecordReceived) {
			continue
		}
		w.line = x.AppendLine(w.stamp(x.Time))
		w.flush()
	}
	return entries
}

// stamp begins a line with the time since the beginning, in seconds.
func (w *writer) stamp(t int64) []byte {
	return fmt.Appendf(w.line[:0], "%14.9f  ", float64(t-w.first)/1e9)
}

func (w *writer) flush() {
	if w.err == nil {
		_, w.err = w.out.Write(append(w.line, '\n'))
	}
}

// AppendLine appends the entry in words: "A          qp 0x000012 request SEND wr 7, 64 B, psn 5".
func (x *Entry) AppendLine(dst []byte) []byte {
	r := &x.Record
	dst = fmt.Appendf(dst, "%-10s qp 0x%06x %v", x.Node, r.QPN, r.Kind)
	if say := words[r.Kind]; say != nil {
		dst = append(append(dst, ' '), say(r)...)
	}
	return dst
}

// words are what is said of each kind behind its name.
var words = map[qp.RecordKind]func(r *qp.Record) string{
	qp.RecordRequest: func(r *qp.Record) string {
		return fmt.Sprintf("%v wr %d, %d B, psn %v", qp.WROpcode(r.Op), r.Value, r.Length, r.PSN)
	},
	qp.RecordSent:     packet,
	qp.RecordReceived: packet,
	qp.RecordDropped: func(r *qp.Record) string {
		return packet(r) + ": " + wire.DropReason(r.Value).Explain()
	},
	qp.RecordExecuted: func(r *qp.Record) string {
		text := packet(r)
		if r.Value != 0 {
			text += fmt.Sprintf(" at 0x%x", r.Value)
		}
		return text
	},
	qp.RecordRetry:  fromPSN,
	qp.RecordWait:   fromPSN,
	qp.RecordGiveUp: fromPSN,
	qp.RecordCompletion: func(r *qp.Record) string {
		return fmt.Sprintf("%v wr %d: %v", qp.WCOpcode(r.Op), r.Value, qp.WCStatus(r.Length))
	},
	qp.RecordState: func(r *qp.Record) string { return qp.QPState(r.Op).String() },
	qp.RecordSlowed: func(r *qp.Record) string {
		return fmt.Sprintf("to %.3g Gbit/s", 8*float64(r.Value)/1e9)
	},
}

func packet(r *qp.Record) string {
	return fmt.Sprintf("%v psn %v, %d B", wire.Opcode(r.Op), r.PSN, r.Length)
}

func fromPSN(r *qp.Record) string { return "from psn " + r.PSN.String() }
