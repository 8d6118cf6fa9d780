package trace

// The classic format: a header of 24 bytes, then for each packet 16 bytes and its data.

import "encoding/binary"

// pcapKind is what the first four bytes of a file say.
type pcapKind struct {
	order binary.ByteOrder
	unit  int64 // nanoseconds of the second number of a time
}

// pcapMagic is keyed by the first four bytes as a little-endian number.
var pcapMagic = map[uint32]pcapKind{
	0xa1b2c3d4: {binary.LittleEndian, 1000},
	0xa1b23c4d: {binary.LittleEndian, 1},
	0xd4c3b2a1: {binary.BigEndian, 1000},
	0x4d3cb2a1: {binary.BigEndian, 1},
}

// pcapFile is what the header of a file says of all of its packets.
type pcapFile struct {
	unit int64
	link LinkType
}

func (r *Reader) pcapHeader(kind pcapKind) error {
	var h [24]byte
	if err := r.must(h[:], "the file's header"); err != nil {
		return err
	}
	r.order = kind.order
	// Above the 16 bits of the link type are those about the Ethernet checksum.
	r.pcap = pcapFile{unit: kind.unit, link: LinkType(r.order.Uint32(h[20:]))}
	if major := r.order.Uint16(h[4:]); major != 2 {
		return r.damaged(0, 0, "pcap of version %d; there is only version 2", major)
	}
	return nil
}

func (r *Reader) nextPcap(rec *Record) (err error) {
	var h [16]byte
	if err := r.read(h[:], "a packet's header"); err != nil {
		return err
	}
	n, length := r.order.Uint32(h[8:]), r.order.Uint32(h[12:])
	if n > maxRecord {
		return r.damaged(rec.Number, rec.Offset, "a captured length of %d bytes; %d is the most that is ever captured",
			n, maxRecord)
	}
	rec.Time = int64(r.order.Uint32(h[0:]))*1e9 + int64(r.order.Uint32(h[4:]))*r.pcap.unit
	rec.Link = r.pcap.link
	rec.Length = int(min(max(length, n), maxRecord))
	rec.Data, err = r.take(int(n), "a packet")
	return err
}
