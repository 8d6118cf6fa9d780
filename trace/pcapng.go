package trace

// The newer format: blocks of a type and a length. A section begins with a block of its own, which
// fixes the byte order; interfaces have blocks, to which the blocks of packets refer by number;
// all others are passed over. The Writer writes it, each packet with its comment, which Wireshark
// shows at the packet's head.

import (
	"encoding/binary"
	"fmt"
	"io"
	"math/bits"
	"strings"

	"github.com/goroce/goroce/wire/pcapng"
)

// Types of blocks that are not written.
const (
	ngOldPacketBlock = 2
	ngSimpleBlock    = 3
)

// NotesBlock is the type of blocks with notes between the packets: text, filled up with newlines.
// Types with the highest bit are for everybody's own use; other programs pass them over.
const NotesBlock = 0x80004e54

const (
	ngOptIfTSOff    = 14 // an option of an interface that is not written
	maxNgInterfaces = 1 << 16
	maxNgOptions    = 1 << 18 // bytes of options of one block that are kept
	maxNotes        = 1 << 20 // bytes of one block of notes
)

// ngSection is the section at hand.
type ngSection struct {
	ifs []ngInterface
}

// ngInterface is an interface of the section at hand.
type ngInterface struct {
	link  LinkType
	name  string
	units uint64 // of a time in a second
	shift int64  // seconds to add to a time
	snap  int    // 0: no limit
}

// firstSection reads the block that every file begins with.
func (r *Reader) firstSection() error {
	var h [8]byte
	if err := r.must(h[:], "the file's header"); err != nil {
		return err
	}
	return r.section(h[:])
}

// section reads what follows the first eight bytes of a section's block.
func (r *Reader) section(h []byte) error {
	var rest [16]byte
	began := r.offset - 8
	if err := r.must(rest[:], "the header of a section"); err != nil {
		return err
	}
	switch uint32(pcapng.ByteOrder) {
	case binary.LittleEndian.Uint32(rest[:]):
		r.order = binary.LittleEndian
	case binary.BigEndian.Uint32(rest[:]):
		r.order = binary.BigEndian
	default:
		return r.damaged(r.number, began, "the section's byte order mark is % x, neither way round 1a 2b 3c 4d",
			rest[:4])
	}
	length := r.order.Uint32(h[4:])
	if length < 28 || length%4 != 0 {
		return r.damaged(r.number, began, "a section header of %d bytes: it has at least 28, and a multiple of 4",
			length)
	}
	if major := r.order.Uint16(rest[4:]); major != 1 {
		return r.damaged(r.number, began, "pcapng of version %d; there is only version 1", major)
	}
	r.ng.ifs = r.ng.ifs[:0]
	return r.skip(int64(length)-24, "the header of a section")
}

// nextNg goes from block to block up to the next packet.
func (r *Reader) nextNg(rec *Record) error {
	for {
		began := r.offset
		var h [8]byte
		if err := r.read(h[:], "the header of a block"); err != nil {
			return err
		}
		kind, length := r.order.Uint32(h[:]), r.order.Uint32(h[4:])
		if kind == pcapng.SectionBlock {
			if err := r.section(h[:]); err != nil {
				return err
			}
			continue
		}
		if length < 12 || length%4 != 0 {
			return r.damaged(rec.Number, began,
				"a block of type %d with %d bytes: it has at least 12, and a multiple of 4", kind, length)
		}
		rec.Offset = began
		found, err := r.block(rec, kind, int64(length)-12)
		if err == nil {
			err = r.trailer(rec, began, length)
		}
		if err != nil || found {
			return err
		}
	}
}

// trailer reads the length that every block ends with.
func (r *Reader) trailer(rec *Record, began int64, length uint32) error {
	var t [4]byte
	if err := r.must(t[:], "the end of a block"); err != nil {
		return err
	}
	if again := r.order.Uint32(t[:]); again != length {
		return r.damaged(rec.Number, began, "a block begins with a length of %d bytes and ends with one of %d",
			length, again)
	}
	return nil
}

// block reads the n bytes inside a block and says whether they are a packet.
func (r *Reader) block(rec *Record, kind uint32, n int64) (found bool, err error) {
	switch kind {
	case pcapng.InterfaceBlock:
		return false, r.ngInterface(n)
	case pcapng.PacketBlock, ngOldPacketBlock:
		return true, r.ngPacket(rec, kind, n)
	case ngSimpleBlock:
		return true, r.ngSimple(rec, n)
	case NotesBlock:
		if r.Notes != nil && n <= maxNotes {
			return false, r.ngNotes(int(n))
		}
	}
	return false, r.skip(n, "a block that is no packet")
}

// ngNotes hands notes on.
func (r *Reader) ngNotes(n int) error {
	text, err := r.take(n, "a block of notes")
	if err == nil {
		r.Notes(text)
	}
	return err
}

func (r *Reader) ngInterface(n int64) error {
	var h [8]byte
	switch {
	case n < 8:
		return r.damaged(r.number+1, r.offset, "the description of an interface has %d bytes; it has at least 8", n)
	case len(r.ng.ifs) == maxNgInterfaces:
		return r.damaged(r.number+1, r.offset, "more than %d interfaces", maxNgInterfaces)
	}
	if err := r.must(h[:], "the description of an interface"); err != nil {
		return err
	}
	f := ngInterface{link: LinkType(r.order.Uint16(h[:])), snap: int(min(r.order.Uint32(h[4:]), maxRecord)), units: 1e6}
	err := r.options(n-8, func(code uint16, v []byte) {
		switch {
		case code == pcapng.OptName:
			f.name = string(v)
		case code == pcapng.OptResolution && len(v) > 0:
			f.units = ngUnits(v[0])
		case code == ngOptIfTSOff && len(v) >= 8:
			f.shift = int64(r.order.Uint64(v))
		}
	})
	r.ng.ifs = append(r.ng.ifs, f)
	return err
}

// ngUnits is how many units of time a second has: a power of ten, or of two with the highest bit.
// What 64 bits cannot hold, no clock has; it is read as nanoseconds.
func ngUnits(resolution byte) uint64 {
	if n := resolution & 0x7f; resolution&0x80 != 0 && n < 64 {
		return 1 << n
	} else if resolution&0x80 == 0 && n < 20 {
		units := uint64(1)
		for range n {
			units *= 10
		}
		return units
	}
	return 1e9
}

// nanoseconds converts a time of this interface.
func (f *ngInterface) nanoseconds(t uint64) int64 {
	hi, lo := bits.Mul64(t%f.units, 1e9)
	part, _ := bits.Div64(hi, lo, f.units) // t%units is less than units, so it fits
	return (int64(t/f.units)+f.shift)*1e9 + int64(part)
}

// ngPacket reads the block of a packet, which names its interface in 32 bits, or in 16 of an old
// one.
func (r *Reader) ngPacket(rec *Record, kind uint32, n int64) error {
	var h [20]byte
	if n < int64(len(h)) {
		return r.damaged(rec.Number, r.offset, "the block of a packet has %d bytes; it has at least %d",
			n+12, len(h)+12)
	}
	if err := r.must(h[:], "the block of a packet"); err != nil {
		return err
	}
	rec.Interface = int(r.order.Uint32(h[:]))
	if kind == ngOldPacketBlock {
		rec.Interface = int(r.order.Uint16(h[:]))
	}
	size := int64(r.order.Uint32(h[12:]))
	if err := r.ngData(rec, size, n-20, r.order.Uint32(h[16:])); err != nil {
		return err
	}
	rec.Time = r.ng.ifs[rec.Interface].nanoseconds(uint64(r.order.Uint32(h[4:]))<<32 | uint64(r.order.Uint32(h[8:])))
	var comments []byte
	err := r.options(n-20-(size+3)&^3, func(code uint16, v []byte) {
		switch {
		case code == pcapng.OptComment:
			comments = append(append(comments, v...), '\n')
		case code == pcapng.OptFlags && len(v) >= 4:
			rec.Direction = [4]Direction{DirUnknown, DirReceived, DirSent, DirUnknown}[r.order.Uint32(v)&3]
		}
	})
	rec.Comment = strings.TrimSuffix(string(comments), "\n")
	return err
}

// ngSimple reads a packet of the first interface without a time.
func (r *Reader) ngSimple(rec *Record, n int64) error {
	var h [4]byte
	if n < 4 {
		return r.damaged(rec.Number, r.offset, "a simple packet block of %d bytes; it has at least 16", n+12)
	}
	if err := r.must(h[:], "a simple packet block"); err != nil {
		return err
	}
	length := r.order.Uint32(h[:])
	size := min(int64(length), n-4)
	if len(r.ng.ifs) > 0 && r.ng.ifs[0].snap > 0 {
		size = min(size, int64(r.ng.ifs[0].snap))
	}
	if err := r.ngData(rec, size, n-4, length); err != nil {
		return err
	}
	return r.skip(n-4-(size+3)&^3, "a simple packet block")
}

// ngData reads the bytes of a packet and their padding; room is what the block has for both.
func (r *Reader) ngData(rec *Record, size, room int64, length uint32) (err error) {
	switch {
	case rec.Interface >= len(r.ng.ifs):
		return r.damaged(rec.Number, rec.Offset,
			"it is of interface %d; the section has described %d so far, counted from 0", rec.Interface, len(r.ng.ifs))
	case size > maxRecord:
		return r.damaged(rec.Number, rec.Offset, "a captured length of %d bytes; %d is the most that is ever captured",
			size, maxRecord)
	case (size+3)&^3 > room:
		return r.damaged(rec.Number, rec.Offset, "a captured length of %d bytes in a block with room for %d",
			size, room)
	}
	f := &r.ng.ifs[rec.Interface]
	rec.Link, rec.Name = f.link, f.name
	rec.Length = int(min(max(int64(length), size), maxRecord))
	if rec.Data, err = r.take(int(size), "a packet"); err != nil {
		return err
	}
	return r.skip(-size&3, "a packet")
}

// options calls f with each option in the n bytes at hand.
func (r *Reader) options(n int64, f func(code uint16, value []byte)) error {
	if n <= 0 {
		return nil
	}
	if n > maxNgOptions {
		return r.skip(n, "the options of a block")
	}
	all := make([]byte, n)
	if err := r.must(all, "the options of a block"); err != nil {
		return err
	}
	for len(all) >= 4 {
		code, size := r.order.Uint16(all), int(r.order.Uint16(all[2:]))
		all = all[4:]
		if code == pcapng.OptEnd || size > len(all) {
			break // the end; or an option longer than its block, which means nothing
		}
		f(code, all[:size])
		all = all[min((size+3)&^3, len(all)):]
	}
	return nil
}

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
