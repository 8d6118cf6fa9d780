// Package timeline puts together what engines say they did (qp.Record) and the packets of a
// capture: what was posted, which packets it became, what was dropped and why, and in which
// completion it ended.
//
// The files, in reading order:
//
//	entry.go      records → entries; an entry in words
//	notes.go      entries as lines of JSON, inside a capture file and out of it
//	recorder.go   a device's entries into the file that its packets are captured in
//	timeline.go   entries and packets → lines, in the order in which things happened
package timeline

// Entries merged with packets. An engine records each packet that it sends or takes, in the order
// in which it did, so such an entry says where among the entries its packet belongs; times do not:
// an engine reads its clock once in a turn, and a capture once for several packets.
//
// Stages: read packets ahead of the entry at hand → a packet that it names is written here, others
// when they are too old to be named still → the entry itself, unless the packet says it all.

import (
	"fmt"
	"io"
	"iter"
	"slices"
	"time"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/trace"
	"github.com/goroce/goroce/wire"
)

// Bounds of how far packet and entry may lie apart: nanoseconds, packets.
const (
	apart        = int64(20 * time.Millisecond)
	maxUnwritten = 1 << 14
)

// Options are those of Write. The zero value writes text.
type Options struct {
	JSON bool // a JSON object a line, as Packet.AppendJSON and Entry.AppendJSON have them
}

// Write writes entries and packets in the order in which they happened, a line each. Entries are in
// the order of time. src may be nil. With packets, entries that only say that one was sent or taken
// are left out.
func Write(out io.Writer, src *trace.Source, entries iter.Seq[Entry], o Options) error {
	w := writer{out: out, src: src, json: o.JSON}
	for x := range entries {
		w.entry(&x)
		if w.err != nil {
			return w.err
		}
	}
	for w.err == nil {
		w.read(1<<63 - 1)
		if len(w.packets) == 0 {
			break
		}
		w.until(1<<63 - 1)
	}
	return w.err
}

// packet is one that was read and not written.
type packet struct {
	key  key
	time int64
	text []byte // nil: it was written
}

// key is what an entry says of a packet.
type key struct {
	op  uint8
	qpn uint32
	psn wire.PSN
}

// writer keeps the first error and the first time.
type writer struct {
	out     io.Writer
	src     *trace.Source // nil: at its end
	json    bool
	packets []packet // from the first on that is not written yet, in the order of the file
	waiting int      // so many of them are not
	any     bool     // there were packets
	first   int64
	begun   bool
	line    []byte
	err     error
}

// entry writes an entry, and the packets that come before it.
func (w *writer) entry(x *Entry) {
	w.read(x.Time + apart)
	w.until(x.Time - apart)
	if k := x.Record.Kind; w.any && (k == qp.RecordSent || k == qp.RecordReceived) {
		w.named(x)
		return
	}
	w.stamp(x.Time)
	if w.json {
		w.line = x.AppendJSON(w.line)
	} else {
		w.line = x.AppendLine(w.line)
	}
	w.flush()
}

// read reads packets up to a time.
func (w *writer) read(until int64) {
	for w.src != nil && w.waiting < maxUnwritten && (len(w.packets) == 0 || w.packets[len(w.packets)-1].time <= until) {
		p, err := w.src.Next()
		if err == io.EOF {
			w.src = nil
			return
		}
		if err != nil {
			w.src, w.err = nil, err
			return
		}
		w.any = true
		x := packet{time: p.Time}
		if p.Parsed {
			x.key = key{uint8(p.Wire.Opcode), p.Wire.BTH.DestQP(), p.Wire.BTH.PSN()}
		}
		if w.json {
			x.text = p.AppendJSON(nil)
		} else {
			x.text = p.AppendLine(fmt.Appendf(nil, "%-10s ", fmt.Sprintf("packet %d", p.Number)))
		}
		if len(w.packets) >= 2*maxUnwritten {
			w.packets = slices.DeleteFunc(w.packets, func(p packet) bool { return p.text == nil })
		}
		w.packets = append(w.packets, x)
		w.waiting++
	}
}

// until writes the packets that are older than a time.
func (w *writer) until(t int64) {
	n := 0
	for n < len(w.packets) && (w.packets[n].time < t || w.waiting == maxUnwritten) {
		w.write(&w.packets[n], w.packets[n].time)
		n++
	}
	w.drop()
}

// drop forgets the written packets in front of others.
func (w *writer) drop() {
	for len(w.packets) > 0 && w.packets[0].text == nil {
		w.packets = w.packets[1:]
	}
}

// named writes the packet that an entry names, if it is there and was not written before.
func (w *writer) named(x *Entry) {
	k := key{x.Record.Op, x.Record.QPN, x.Record.PSN}
	for i := range w.packets {
		if w.packets[i].key == k && w.packets[i].text != nil {
			w.write(&w.packets[i], x.Time)
			w.drop()
			return
		}
	}
}

func (w *writer) write(p *packet, at int64) {
	if p.text == nil {
		return
	}
	w.stamp(at)
	w.line = append(w.line, p.text...)
	p.text = nil
	w.waiting--
	w.flush()
}

// stamp begins a line with the time since the beginning, in seconds. JSON has times of its own.
func (w *writer) stamp(t int64) {
	if !w.begun {
		w.first, w.begun = t, true
	}
	w.line = w.line[:0]
	if !w.json {
		w.line = fmt.Appendf(w.line, "%14.9f  ", float64(t-w.first)/1e9)
	}
}

func (w *writer) flush() {
	if w.err == nil {
		_, w.err = w.out.Write(append(w.line, '\n'))
	}
}
