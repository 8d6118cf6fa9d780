package wire

// CRC-32 of a payload with shifts instead of tables, for processors on which hash/crc32 has no
// instructions to use.
//
// Tables cost a load per byte and more; in an emulator, where each load is looked up in software,
// that is most of the work. Here it is one load per eight bytes: Russell, "Chorba: A novel CRC32
// implementation" (arXiv:2412.16398).
//
// A payload is a polynomial over GF(2), first bit highest, and what counts is its remainder modulo
// P. P divides
//
//	x^300 + x^155 + x^117 + x^89 + 1
//
// so a bit may be replaced by four others: 145, 183, 211 and 300 bits further on. For a word of 64
// bits, first bit lowest, these are shifts into the words 2 to 5 further on. Of all multiples of P
// that have four such delays of 64 bits or more, this is the shortest (all up to 700 bits were
// tried), and it takes the fewest words between the word in hand and the last that it touches. The
// first delay passes 128 bits, so two words at a time do not wait for each other.
//
// What remains is the last five words with what was moved into them, and up to 15 bytes: for the
// tables of crc.go.

import "golang.org/x/sys/cpu"

// haveCRC says whether hash/crc32 has instructions for this CRC. Its own choice is internal, so
// this repeats it (Go 1.26), for processors with registers of 64 bits.
var haveCRC = cpu.X86.HasPCLMULQDQ && cpu.X86.HasSSE41 || cpu.ARM64.HasCRC32 || cpu.Loong64.HasCRC32 ||
	cpu.S390X.HasVX || cpu.PPC64.IsPOWER8 && !cpu.IsBigEndian

// haveShifts says whether shifts are the faster way. With registers of 32 bits they are not. Time
// for 4 KiB against the tables of hash/crc32: amd64 without PCLMULQDQ 0.4, the same emulated by
// QEMU 0.3, 386 1.6 (Zen 5; BenchmarkICRC).
var haveShifts = !haveCRC && ^uint(0)>>63 == 1

// shiftedWords is how many words the shifts reach into: p must be that long at least.
const shiftedWords = 5

// crcShifts advances the register over p except for the last 0 to 15 bytes, which it returns.
func crcShifts(r uint32, p []byte) (uint32, []byte) {
	// moved into the words to come
	m0, m1, m2, m3, m4 := uint64(r), uint64(0), uint64(0), uint64(0), uint64(0)
	for len(p) >= 8*shiftedWords+16 {
		a, b := le.Uint64(p)^m0, le.Uint64(p[8:])^m1
		m0 = m2 ^ a<<17 ^ a<<55                        // 145 = 2·64+17, 183 = 2·64+55
		m1 = m3 ^ a>>47 ^ a>>9 ^ a<<19 ^ b<<17 ^ b<<55 // 211 = 3·64+19
		m2 = m4 ^ a>>45 ^ a<<44 ^ b>>47 ^ b>>9 ^ b<<19 // 300 = 4·64+44
		m3, m4 = a>>20^b>>45^b<<44, b>>20
		p = p[16:]
	}
	r = crc8(0, le.Uint64(p)^m0)
	r = crc8(r, le.Uint64(p[8:])^m1)
	r = crc8(r, le.Uint64(p[16:])^m2)
	r = crc8(r, le.Uint64(p[24:])^m3)
	r = crc8(r, le.Uint64(p[32:])^m4)
	return r, p[8*shiftedWords:]
}
