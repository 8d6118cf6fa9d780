package trace

// Capture files as a stream of records. Stages: look at the first four bytes → the reader of that
// format → one record after the other, none of them larger than maxRecord.
//
// The formats are read here and not by pcapgo: its link types have 8 bits, so that Linux cooked
// captures of version 2 (276) cannot be told; it allocates what a damaged length asks for; and it
// knows neither the comments of packets nor where in the file it is.

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/goroce/goroce/wire/pcapng"
)

// LinkType says what a record's bytes begin with, by the numbers of tcpdump.org/linktypes.html.
type LinkType uint16

// The link types that Source decodes.
const (
	LinkNull       LinkType = 0   // BSD loopback: an address family in four bytes
	LinkEthernet   LinkType = 1   // Ethernet II, with or without VLAN tags
	LinkRaw        LinkType = 101 // an IP header
	LinkLoop       LinkType = 108 // OpenBSD loopback
	LinkCooked     LinkType = 113 // Linux "any", version 1
	LinkERF        LinkType = 197 // Endace's records: InfiniBand or Ethernet
	LinkIPv4       LinkType = 228
	LinkIPv6       LinkType = 229
	LinkInfiniBand LinkType = 247 // a local route header
	LinkCooked2    LinkType = 276 // Linux "any", version 2
	linkRawBSD     LinkType = 12  // an IP header, as old files say it
	linkRawOpenBSD LinkType = 14
)

// maxRecord is the longest packet that a record may hold: tcpdump's largest snapshot length, four
// times the longest IP packet.
const maxRecord = 262144

// Direction of a record, as far as the file says it.
type Direction uint8

// The directions.
const (
	DirUnknown  Direction = iota // the file does not say
	DirReceived                  // by the machine that captured
	DirSent                      // by it
)

// Record is a packet as a capture file holds it.
type Record struct {
	Number    int   // from 1 on, as Wireshark counts
	Offset    int64 // of the record in the file, in bytes
	Time      int64 // nanoseconds since 1970, or since what the clock of the capture began with
	Link      LinkType
	Interface int    // its number in the file
	Name      string // of the interface, "" if the file has none
	Direction Direction
	Length    int    // of the packet when it was captured; Data may be shorter
	Data      []byte // valid until the next call of Next
	Comment   string // all of the packet's comments
}

// Reader reads a capture file.
type Reader struct {
	// Notes, if it is not nil, gets the text of each block of notes (NotesBlock) that lies before
	// the record that Next returns, or before the end. It is lent for the call.
	Notes func(text []byte)

	in     *bufio.Reader
	offset int64 // of the next byte
	number int   // records so far
	order  binary.ByteOrder
	data   []byte
	next   func(rec *Record) error // of the file's format

	pcap pcapFile
	ng   ngSection
}

// DamageError says that a file cannot be read on, and from where.
type DamageError struct {
	Record int   // the number of the record, 0: the file's beginning
	Offset int64 // where it begins in the file
	Reason string
}

// Error says where and why.
func (e *DamageError) Error() string {
	if e.Record == 0 {
		return "trace: " + e.Reason
	}
	return fmt.Sprintf("trace: packet %d, at byte %d of the file: %s", e.Record, e.Offset, e.Reason)
}

// NewReader looks at the beginning of a capture file. It reads ahead of what it returns.
func NewReader(in io.Reader) (*Reader, error) {
	r := &Reader{in: bufio.NewReaderSize(in, 1<<18)}
	magic, err := r.in.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("trace: %w", err)
	}
	if len(magic) < 4 {
		return nil, r.damaged(0, 0, "%d bytes are no capture file: pcap and pcapng have at least 24", len(magic))
	}
	switch m := binary.LittleEndian.Uint32(magic); {
	case m == pcapng.SectionBlock:
		r.next = r.nextNg
		return r, r.firstSection()
	case pcapMagic[m].order != nil:
		r.next = r.nextPcap
		return r, r.pcapHeader(pcapMagic[m])
	default:
		return nil, r.damaged(0, 0, "neither pcap nor pcapng: the file begins with % x%s", magic,
			otherFormats[m&0xffff])
	}
}

// otherFormats are files that people give to programs like this, by their first two bytes.
var otherFormats = map[uint32]string{0x8b1f: " (gzip: decompress it first)", 0xb528: " (zstd: decompress it first)",
	0x4947: " (an image)", 0x5b7b: " (JSON)", 0x4b50: " (zip: unpack it first)"}

// Next reads a record into rec, whose Data is valid until the next call. It returns io.EOF at the
// end of the file, and a *DamageError where the file cannot be read on.
func (r *Reader) Next(rec *Record) error {
	*rec = Record{Number: r.number + 1, Offset: r.offset}
	err := r.next(rec)
	if err == nil {
		r.number++
	}
	return err
}

// Offset is how many bytes of the file have been looked at: for a progress bar.
func (r *Reader) Offset() int64 { return r.offset }

func (r *Reader) damaged(record int, offset int64, format string, args ...any) error {
	return &DamageError{record, offset, fmt.Sprintf(format, args...)}
}

// read fills b. At the end of the file it returns io.EOF if none of b is there, and else says how
// much of what is missing.
func (r *Reader) read(b []byte, what string) error {
	began := r.offset
	n, err := io.ReadFull(r.in, b)
	r.offset += int64(n)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return r.damaged(r.number+1, began, "the file ends inside %s: %d of %d bytes are there", what, n, len(b))
	case errors.Is(err, io.EOF):
		return io.EOF
	case err != nil:
		return fmt.Errorf("trace: %w", err)
	}
	return nil
}

// must is read for what may not be missing.
func (r *Reader) must(b []byte, what string) error {
	err := r.read(b, what)
	if err == io.EOF {
		return r.damaged(r.number+1, r.offset, "the file ends before %s of %d bytes", what, len(b))
	}
	return err
}

// skip passes n bytes over.
func (r *Reader) skip(n int64, what string) error {
	for n > 0 {
		k, err := r.in.Discard(int(min(n, 1<<20)))
		r.offset += int64(k)
		n -= int64(k)
		if err != nil {
			return r.damaged(r.number+1, r.offset, "the file ends inside %s: %d bytes are missing", what, n)
		}
	}
	return nil
}

// take reads n bytes into the reader's buffer.
func (r *Reader) take(n int, what string) ([]byte, error) {
	if cap(r.data) < n {
		r.data = make([]byte, n, max(n, 4096))
	}
	r.data = r.data[:n]
	return r.data, r.must(r.data, what)
}
