package stream

// What travels: the immediate of a message, the entries that are written into the other end's
// tables, and the data that both ends exchange before the first message. docs/rsocket.md has all of
// it; "section n" is a section of that document here and in the whole of rsocket.

import (
	"encoding/binary"
	"fmt"
)

// An op is the kind of a message: bits 31:29 of the immediate (section 3.1).
type op uint32

const (
	opData    op = 0
	opUpdate  op = 4
	opIOMap   op = 6
	opControl op = 7

	opShift  = 29
	argument = 1<<opShift - 1 // the other bits
)

func (o op) with(arg uint32) uint32 { return uint32(o)<<opShift | arg&argument }

// What a control message says (section 3.5).
const (
	sayDisconnect uint32 = 0
	sayKeepalive  uint32 = 1 // never sent as a message: section 7
	sayShutdown   uint32 = 2
)

// Sizes of what is written into the other end's memory.
const (
	SGESize  = 16 // of an entry of the target SGL
	MapSize  = 24 // of an entry of the iomap table
	DataSize = 40 // of ConnData
)

// SGE names memory of one end to the other.
type SGE struct {
	Addr        uint64
	Key, Length uint32
}

func (s SGE) put(o binary.ByteOrder, b []byte) {
	o.PutUint64(b, s.Addr)
	o.PutUint32(b[8:], s.Key)
	o.PutUint32(b[12:], s.Length)
}

func readSGE(o binary.ByteOrder, b []byte) SGE {
	return SGE{o.Uint64(b), o.Uint32(b[8:]), o.Uint32(b[12:])}
}

// Map is an entry of the iomap table: memory that can be written directly, under offsets that its
// owner has chosen (section 4.4).
type Map struct {
	Offset uint64
	SGE
}

func (m Map) put(o binary.ByteOrder, b []byte) {
	o.PutUint64(b, m.Offset)
	m.SGE.put(o, b[8:])
}

func readMap(o binary.ByteOrder, b []byte) Map {
	return Map{o.Uint64(b), readSGE(o, b[8:])}
}

// ConnData is what each end tells the other before the first message (section 2).
type ConnData struct {
	BigEndian bool   // the byte order that this end wants in its memory
	Credits   uint16 // messages that it can take
	Maps      int    // entries of its iomap table: 0 to 128, or a multiple of 256 below 2^15
	SGL       SGE    // its target SGL; Length counts entries
	Buffer    SGE    // the first of its receive buffers
}

// The flags of section 2.1.
const (
	flagNet   = 1 << 0
	flagIOMap = 1 << 1
)

// Marshal returns the 40 bytes that travel.
func (c ConnData) Marshal() []byte {
	b := make([]byte, DataSize)
	b[0], b[1] = 1, flagIOMap
	if c.BigEndian {
		b[1] |= flagNet
	}
	binary.BigEndian.PutUint16(b[2:], c.Credits)
	b[7] = scale(c.Maps)
	c.SGL.put(binary.BigEndian, b[8:])
	c.Buffer.put(binary.BigEndian, b[24:])
	return b
}

// ParseConnData reads what the other end has sent, which may be longer: a connection manager pads
// private data. The error says what cannot be worked with.
func ParseConnData(b []byte) (c ConnData, err error) {
	if len(b) < DataSize {
		return c, fmt.Errorf("%w: connection data of %d bytes, want %d", ErrProtocol, len(b), DataSize)
	}
	if b[0] != 1 {
		return c, fmt.Errorf("%w: connection data of version %d, want 1", ErrProtocol, b[0])
	}
	c = ConnData{BigEndian: b[1]&flagNet != 0, Credits: binary.BigEndian.Uint16(b[2:]),
		SGL: readSGE(binary.BigEndian, b[8:]), Buffer: readSGE(binary.BigEndian, b[24:])}
	if b[1]&flagIOMap != 0 {
		c.Maps = unscale(b[7])
	}
	switch {
	case c.SGL.Length < 2:
		err = fmt.Errorf("%w: a target SGL of %d entries, want at least 2", ErrProtocol, c.SGL.Length)
	case c.Buffer.Length == 0:
		err = fmt.Errorf("%w: a receive buffer of no bytes", ErrProtocol)
	}
	return c, err
}

// scale is section 2.2.
func scale(n int) byte {
	if n <= 128 {
		return byte(n)
	}
	return byte(128 | n>>8)
}

func unscale(b byte) int {
	if b <= 128 {
		return int(b)
	}
	return int(b&127) << 8
}
