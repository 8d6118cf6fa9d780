package timeline

// Entries as lines of JSON. In a capture file they lie between the packets, in blocks that other
// programs pass over (trace.NotesBlock).

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/trace"
	"github.com/goroce/goroce/wire"
)

// line is an entry as JSON has it.
type line struct {
	Time   time.Time `json:"time"`
	Node   string    `json:"node"`
	Record string    `json:"record"` // qp.RecordKind's name
	QP     uint32    `json:"qp"`
	PSN    uint32    `json:"psn"`
	Op     uint8     `json:"op"` // these three as qp.RecordKind says
	Value  uint64    `json:"value"`
	Length uint32    `json:"length"`
	Text   string    `json:"text,omitempty"` // the same in words
}

// kinds are the records by their names.
var kinds = func() map[string]qp.RecordKind {
	all := map[string]qp.RecordKind{}
	for k := qp.RecordKind(1); k.String() != "?"; k++ {
		all[k.String()] = k
	}
	return all
}()

// AppendJSON appends the entry as one JSON object, without a newline: time (RFC 3339), node, record
// (the name of its kind), qp, psn, op, value and length, as qp.RecordKind says what they are, and
// text, the same in words.
func (x *Entry) AppendJSON(dst []byte) []byte {
	r := &x.Record
	l := line{time.Unix(0, x.Time).UTC(), x.Node, r.Kind.String(), r.QPN, uint32(r.PSN), r.Op, r.Value, r.Length, ""}
	if say := words[r.Kind]; say != nil {
		l.Text = say(r)
	}
	b, _ := json.Marshal(&l) // it has no value without a form
	return append(dst, b...)
}

// ParseEntry reads what AppendJSON has written. The node is made printable: a file is anybody's.
func ParseEntry(text []byte) (x Entry, err error) {
	var l line
	if err := json.Unmarshal(text, &l); err != nil {
		return x, fmt.Errorf("timeline: an entry that is no JSON: %w", err)
	}
	kind, known := kinds[l.Record]
	if !known {
		return x, fmt.Errorf("timeline: an entry of the kind %q, which is not known", l.Record)
	}
	return Entry{l.Time.UnixNano(), trace.Printable(l.Node), qp.Record{
		Kind:   kind,
		QPN:    l.QP,
		PSN:    wire.PSN(l.PSN) & wire.PSNMask,
		Op:     l.Op,
		Value:  l.Value,
		Length: l.Length,
	}}, nil
}

// Notes reads the entries of a capture file.
type Notes struct {
	src *trace.Source
	err error
}

// NewNotes reads the file for its entries alone: src is used up.
func NewNotes(src *trace.Source) *Notes { return &Notes{src: src} }

// All yields the entries in the order of the file, each as soon as it is read: any number of them
// may lie between two packets. Err says afterwards what was wrong with it.
func (n *Notes) All() iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		wanted := true
		n.src.EachNotes(func(text []byte) {
			for one := range bytes.Lines(text) {
				if x, ok := n.entry(one); ok {
					wanted = wanted && yield(x)
				}
			}
		})
		for wanted {
			_, err := n.src.Next()
			if err != nil && !errors.Is(err, io.EOF) {
				n.note(err)
			}
			wanted = wanted && err == nil
		}
	}
}

// entry reads a line.
func (n *Notes) entry(line []byte) (x Entry, ok bool) {
	if line = bytes.TrimSpace(line); len(line) == 0 {
		return x, false
	}
	x, err := ParseEntry(line)
	n.note(err)
	return x, err == nil
}

// note keeps the first error.
func (n *Notes) note(err error) {
	if n.err == nil {
		n.err = err
	}
}

// Err is the first thing that was wrong: the file cannot be read on, or an entry is none.
func (n *Notes) Err() error { return n.err }
