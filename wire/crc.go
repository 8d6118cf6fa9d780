package wire

// CRC-32 (IEEE, reflected) of a few dozen bytes.
//
// Where there is nothing better (icrc_amd64.go), hash/crc32 is used for payloads, or crc_shifts.go
// where the processor has no instructions for it. For headers hash/crc32 has two drawbacks: what it
// is given escapes to the heap, and its call costs more than the work. So headers go through the
// table routine below, eight bytes a step: T[k][b] is what byte b contributes to the register after
// k more bytes have passed.

import (
	"encoding/binary"
	"hash/crc32"
)

var le = binary.LittleEndian

// slices are the tables of the slicing-by-8 method.
var slices = func() (t [8][256]uint32) {
	for b := range 256 {
		r := crc32.IEEETable[b]
		t[0][b] = r
		for k := 1; k < 8; k++ {
			r = r>>8 ^ crc32.IEEETable[r&0xff]
			t[k][b] = r
		}
	}
	return t
}()

// crc8 advances the register by the eight bytes of w, first byte lowest.
func crc8(r uint32, w uint64) uint32 {
	w ^= uint64(r)
	return slices[7][byte(w)] ^ slices[6][byte(w>>8)] ^ slices[5][byte(w>>16)] ^ slices[4][byte(w>>24)] ^
		slices[3][byte(w>>32)] ^ slices[2][byte(w>>40)] ^ slices[1][byte(w>>48)] ^ slices[0][byte(w>>56)]
}

// crc4 advances the register by the four bytes of w, first byte lowest.
func crc4(r, w uint32) uint32 {
	w ^= r
	return slices[3][byte(w)] ^ slices[2][byte(w>>8)] ^ slices[1][byte(w>>16)] ^ slices[0][byte(w>>24)]
}

// indexOf is the index of the entry of slices[0] with this highest byte, which no other has.
var indexOf = func() (at [256]byte) {
	for i, r := range slices[0] {
		at[r>>24] = byte(i)
	}
	return at
}()

// crcUndo returns what crcUpdate has continued over p if crc came of it.
func crcUndo(crc uint32, p []byte) uint32 {
	r := ^crc
	for i := len(p) - 1; i >= 0; i-- {
		at := indexOf[r>>24]
		r = (r^slices[0][at])<<8 | uint32(at^p[i])
	}
	return ^r
}

// shortCRC is the length from which hash/crc32 is worth its call, and crcShifts worth its beginning
// and its end.
const shortCRC = 64

// useShifts chooses crcShifts over hash/crc32; tests try both ways.
var useShifts = haveShifts

// crcUpdate continues a CRC in the form of hash/crc32 (final complement applied) over p.
func crcUpdate(crc uint32, p []byte) uint32 {
	if len(p) >= shortCRC && !useShifts {
		return crc32.Update(crc, crc32.IEEETable, p)
	}
	r := ^crc
	if len(p) >= shortCRC {
		r, p = crcShifts(r, p)
	}
	for len(p) >= 8 {
		r = crc8(r, le.Uint64(p))
		p = p[8:]
	}
	if len(p) >= 4 {
		r = crc4(r, le.Uint32(p))
		p = p[4:]
	}
	for _, b := range p {
		r = r>>8 ^ slices[0][byte(r)^b]
	}
	return ^r
}
