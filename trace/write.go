package trace

// Packets to a pcapng file with a comment each, which Wireshark shows at the packet's head.

import (
	"fmt"
	"io"
)

// Writer writes records as pcapng: one section, an interface for each name and link type that
// occurs, nanoseconds. What it hands to the writer below always ends with a whole block, so that
// the file of a program that was killed can be read to its end.
type Writer struct {
	out   io.Writer
	ready []byte // whole blocks that are not handed on yet
	ifs   map[writerKey]uint32
	err   error
}

// writeAhead is how many bytes of blocks are handed on at a time.
const writeAhead = 1 << 16

// writerKey is what makes records share an interface.
type writerKey struct {
	name string
	link LinkType
}

// NewWriter begins a file. Flush at the end.
func NewWriter(w io.Writer) *Writer {
	x := &Writer{out: w, ifs: map[writerKey]uint32{}}
	b := le.AppendUint32(x.begin(ngSectionBlock), ngByteOrder)
	b = le.AppendUint64(le.AppendUint32(b, 1), ^uint64(0)) // version 1.0, of unknown length
	x.end(appendOption(appendOption(b, ngOptApplication, "goroce"), ngOptEnd, ""))
	return x
}

// Write writes a record, its Comment too. Time must not be negative.
func (x *Writer) Write(rec *Record) error {
	if rec.Time < 0 || len(rec.Data) > maxRecord {
		return fmt.Errorf("trace: a record of %d bytes at %d ns: there is room for %d bytes, and for times from 0 on",
			len(rec.Data), rec.Time, maxRecord)
	}
	id := x.iface(writerKey{rec.Name, rec.Link})
	b := le.AppendUint32(x.begin(ngPacketBlock), id)
	b = le.AppendUint32(le.AppendUint32(b, uint32(uint64(rec.Time)>>32)), uint32(rec.Time))
	b = le.AppendUint32(le.AppendUint32(b, uint32(len(rec.Data))), uint32(max(rec.Length, len(rec.Data))))
	b = align(append(b, rec.Data...))
	bare := len(b)
	if rec.Comment != "" {
		b = appendOption(b, ngOptComment, rec.Comment)
	}
	if d := rec.Direction; d != DirUnknown {
		b = appendOption(b, ngOptFlags, string([]byte{byte(d), 0, 0, 0}))
	}
	if len(b) > bare {
		b = appendOption(b, ngOptEnd, "")
	}
	x.end(b)
	return x.err
}

// WriteNotes writes a block of notes (NotesBlock), at most 1 MiB.
func (x *Writer) WriteNotes(text []byte) error {
	if len(text) > maxNotes {
		return fmt.Errorf("trace: notes of %d bytes: %d is the most", len(text), maxNotes)
	}
	b := append(x.begin(NotesBlock), text...)
	for len(b)%4 != 0 {
		b = append(b, '\n')
	}
	x.end(b)
	return x.err
}

// Flush hands everything to the writer below, and returns the first error there was.
func (x *Writer) Flush() error {
	if len(x.ready) > 0 && x.err == nil {
		if _, err := x.out.Write(x.ready); err != nil {
			x.err = fmt.Errorf("trace: write a capture file: %w", err)
		}
	}
	x.ready = x.ready[:0]
	return x.err
}

// iface returns the number of an interface, and describes it to the file when it is new.
func (x *Writer) iface(k writerKey) uint32 {
	id, known := x.ifs[k]
	if !known {
		id = uint32(len(x.ifs))
		x.ifs[k] = id
		b := le.AppendUint16(x.begin(ngInterfaceBlock), uint16(k.link))
		b = append(b, make([]byte, 6)...) // reserved; no snapshot length
		if k.name != "" {
			b = appendOption(b, ngOptIfName, k.name)
		}
		x.end(appendOption(appendOption(b, ngOptIfTSResol, "\x09"), ngOptEnd, ""))
	}
	return id
}

// appendOption appends an option of at most 65535 bytes.
func appendOption(b []byte, code uint16, value string) []byte {
	value = value[:min(len(value), 65535)]
	b = le.AppendUint16(le.AppendUint16(b, code), uint16(len(value)))
	return align(append(b, value...))
}

// align fills up to a multiple of four: all that is in a block begins at one, and so do blocks.
func align(b []byte) []byte {
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}

// begin begins a block, behind which its body is to be appended.
func (x *Writer) begin(kind uint32) []byte {
	return append(le.AppendUint32(x.ready, kind), 0, 0, 0, 0) // its length is not known yet
}

// end ends the block that was begun last. b is all of what is ready with it.
func (x *Writer) end(b []byte) {
	n := uint32(len(b) - len(x.ready) + 4)
	le.PutUint32(b[len(x.ready)+4:], n)
	if x.ready = le.AppendUint32(b, n); len(x.ready) >= writeAhead {
		_ = x.Flush() // it is kept, and returned by every call
	}
}
