// Package pcapng writes packets into a file that Wireshark reads: one section, an interface for
// each name and link type that occurs, times in nanoseconds. Package trace reads such files, and
// shares the numbers.
package pcapng

import (
	"encoding/binary"
	"fmt"
	"io"
)

// Types of blocks. Those from OwnBlocks on are for everybody's own use.
const (
	SectionBlock   = 0x0a0d0d0a
	InterfaceBlock = 1
	PacketBlock    = 6
	OwnBlocks      = 1 << 31
)

// ByteOrder is how a section says which byte order it has.
const ByteOrder = 0x1a2b3c4d

// Options of blocks.
const (
	OptEnd         = 0
	OptComment     = 1
	OptName        = 2 // of an interface
	OptFlags       = 2 // of a packet
	OptApplication = 4 // of a section
	OptResolution  = 9
)

// LinkRaw is the link type of packets that begin at the IP header.
const LinkRaw = 101

// Interface is what packets arrived on.
type Interface struct {
	Name string // "" for none
	Link uint16 // a LINKTYPE number
}

// Packet is a packet to be written.
type Packet struct {
	On      Interface
	Time    int64 // nanoseconds since 1970, not negative
	Data    []byte
	Length  int    // bytes that it had, if they are more than Data
	Comment string // "" for none
	Flags   uint32 // epb_flags: 1 was received, 2 sent; 0 for none
}

// Writer writes a file. What it hands to the writer below always ends with a whole block, so that
// the file of a program that was killed can be read to its end. Not for concurrent use.
type Writer struct {
	out   io.Writer
	ready []byte // whole blocks that are not handed on yet
	ifs   map[Interface]uint32
	err   error
}

// writeAhead is how many bytes of blocks are handed on at a time.
const writeAhead = 1 << 16

var le = binary.LittleEndian

// NewWriter begins a file. Flush at the end.
func NewWriter(w io.Writer) *Writer {
	x := &Writer{out: w, ifs: map[Interface]uint32{}}
	b := le.AppendUint32(x.begin(SectionBlock), ByteOrder)
	b = le.AppendUint64(le.AppendUint32(b, 1), ^uint64(0)) // version 1.0, of unknown length
	x.end(appendOption(appendOption(b, OptApplication, "goroce"), OptEnd, ""))
	return x
}

// Packet writes a packet. The error is the first that the writer below returned.
func (x *Writer) Packet(p *Packet) error {
	id := x.Interface(p.On)
	b := le.AppendUint32(x.begin(PacketBlock), id)
	b = le.AppendUint32(le.AppendUint32(b, uint32(uint64(p.Time)>>32)), uint32(p.Time))
	b = le.AppendUint32(le.AppendUint32(b, uint32(len(p.Data))), uint32(max(p.Length, len(p.Data))))
	b = align(append(b, p.Data...))
	bare := len(b)
	if p.Comment != "" {
		b = appendOption(b, OptComment, p.Comment)
	}
	if p.Flags != 0 {
		b = le.AppendUint32(append(b, OptFlags, 0, 4, 0), p.Flags)
	}
	if len(b) > bare {
		b = appendOption(b, OptEnd, "")
	}
	x.end(b)
	return x.err
}

// Block writes a block of a type from OwnBlocks on. body has a multiple of four bytes.
func (x *Writer) Block(kind uint32, body []byte) error {
	if kind < OwnBlocks || len(body)%4 != 0 {
		return fmt.Errorf("pcapng: a block of type 0x%x with %d bytes: want 0x%x or more, and a multiple of four bytes",
			kind, len(body), uint32(OwnBlocks))
	}
	x.end(append(x.begin(kind), body...))
	return x.err
}

// Flush hands everything to the writer below, and returns the first error there was.
func (x *Writer) Flush() error {
	if len(x.ready) > 0 && x.err == nil {
		if _, err := x.out.Write(x.ready); err != nil {
			x.err = fmt.Errorf("pcapng: %w", err)
		}
	}
	x.ready = x.ready[:0]
	return x.err
}

// Interface returns the number of an interface, and describes it to the file when it is new.
func (x *Writer) Interface(of Interface) uint32 {
	id, known := x.ifs[of]
	if !known {
		id = uint32(len(x.ifs))
		x.ifs[of] = id
		b := le.AppendUint16(x.begin(InterfaceBlock), of.Link)
		b = append(b, make([]byte, 6)...) // reserved; no snapshot length
		if of.Name != "" {
			b = appendOption(b, OptName, of.Name)
		}
		x.end(appendOption(appendOption(b, OptResolution, "\x09"), OptEnd, ""))
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
