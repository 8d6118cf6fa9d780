package trace

// Packets to a pcapng file with a comment each, which Wireshark shows at the packet's head.

import (
	"fmt"
	"io"

	"github.com/goroce/goroce/wire/pcapng"
)

// Writer writes records as pcapng (package pcapng).
type Writer struct{ w *pcapng.Writer }

// NewWriter begins a file. Flush at the end.
func NewWriter(w io.Writer) *Writer { return &Writer{pcapng.NewWriter(w)} }

// Write writes a record, its Comment too. Time must not be negative.
func (x *Writer) Write(rec *Record) error {
	if rec.Time < 0 || len(rec.Data) > maxRecord {
		return fmt.Errorf("trace: a record of %d bytes at %d ns: there is room for %d bytes, and for times from 0 on",
			len(rec.Data), rec.Time, maxRecord)
	}
	return x.w.Packet(&pcapng.Packet{On: pcapng.Interface{Name: rec.Name, Link: uint16(rec.Link)}, Time: rec.Time,
		Data: rec.Data, Length: rec.Length, Comment: rec.Comment, Flags: uint32(rec.Direction)})
}

// WriteNotes writes a block of notes (NotesBlock), at most 1 MiB.
func (x *Writer) WriteNotes(text []byte) error {
	if len(text) > maxNotes {
		return fmt.Errorf("trace: notes of %d bytes: %d is the most", len(text), maxNotes)
	}
	text = text[:len(text):len(text)]
	for len(text)%4 != 0 {
		text = append(text, '\n')
	}
	return x.w.Block(NotesBlock, text)
}

// Flush hands everything to the writer below, and returns the first error there was.
func (x *Writer) Flush() error { return x.w.Flush() }
