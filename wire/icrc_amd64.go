//go:build !purego

package wire

// The ICRC of a whole packet, head and body, in words of 64 bytes, where the processor has AVX-512
// with GFNI and VPCLMULQDQ (AMD from Zen 4, Intel from Ice Lake). On Zen 5 it takes about a quarter
// of the portable routine's time, for a payload of 4 KiB as for one of 64 bytes; BenchmarkICRC has
// both.
//
// A packet is a polynomial over GF(2), first bit highest, and the ICRC is that times x^32 modulo P:
// so whatever may be done to the packet without changing it modulo P may be done. Zeros in front
// change nothing: they fill the first word.
//
// Folding. Call y = x^512, a shift by one word. Each byte b of a word is replaced by four bytes in
// the same place of the words 4, 5, 7 and 8 further on:
//
//	b · y^8  =  b0 · y^4 + b1 · y^3 + b2 · y + b3    (mod P)
//
// The right side has 32 unknown bits for the 32 bits of a remainder, and these four distances give
// exactly one solution (4, 5, 6 and 7 for one do not). It is linear in b: four 8×8 bit matrices,
// the same for all bytes, and multiplying 64 bytes by such a matrix is one GF2P8AFFINEQB. The usual
// way, carry-less multiplication, takes two per word instead of four, but on Zen 5 each of them
// keeps its unit busy for two cycles, and a matrix half a cycle (measured).
//
// The last eight words are multiplied, in pieces of 64 bits, by the power of x that stands at their
// place. The sum S has 95 bits; with mu = floor(x^94 / P) its quotient by P is
// floor(floor(S/x^32)·mu / x^62) and the remainder is the ICRC.
//
// Registers hold polynomials as the packet does, lowest bit first: 64 bits from x^63, a multiplier
// from x^32 (powers, P) or from x^62 (mu), so that products of 127 bits start from x^95 and x^125
// and no result has to be shifted.

import "golang.org/x/sys/cpu"

// haveWords says whether processor and system have what icrcAVX512 is made of.
var haveWords = cpu.X86.HasAVX512F && cpu.X86.HasAVX512VL && cpu.X86.HasAVX512GFNI && cpu.X86.HasAVX512VPCLMULQDQ &&
	cpu.X86.HasBMI2

// cover4 and cover6 hold the masks of icrc.go: of the head in units of four bytes, then of the BTH.
// The last unit is what is in front of the head: eight bytes FF, of which the register's initial
// value cancels four.
var (
	cover4 = [16]uint32{0: 0xff << 8, 2: 0xff | 0xffff<<16, 6: 0xffff << 16, 8: 0xff, 15: 0xffffffff}
	cover6 = [16]uint32{0: 0xffffff0f, 1: 0xff << 24, 11: 0xffff << 16, 13: 0xff, 15: 0xffffffff}
)

// icrcWords is icrc for a frame whose body is a multiple of four bytes long, as a pad makes it;
// otherwise it is not ok.
func icrcWords(f *Frame) (crc uint32, ok bool) {
	n := len(f.Body) - ICRCLen
	if !haveWords || n < BTHLen || n%4 != 0 {
		return 0, false
	}
	switch len(f.Head) {
	case Head4Len:
		return icrcAVX512(&cover4, &f.Head[0], Head4Len, &f.Body[0], n, nil, 0), true
	case Head6Len:
		return icrcAVX512(&cover6, &f.Head[0], Head6Len, &f.Body[0], n, nil, 0), true
	}
	return 0, false
}

// Copying. The payload on its way into the body passes through registers, so its ICRC costs little
// more than the copy. The words in front, where headers and payload meet, are taken from the body:
// the payload's start is copied there first.
const (
	// bytes of a body: no word is copied that starts before 80, and all are that start after this
	copiedFirst = 352
	copyWords   = 1024 // length of a payload from which it is faster
)

// icrcPayload is icrcWords with the payload, which goes to offset at of the body up to its end,
// copied there. If it is not ok, nothing has been copied.
func icrcPayload(f *Frame, at int, payload []byte) (crc uint32, ok bool) {
	if len(payload) < copyWords || at > 80 || at+len(payload) != len(f.Body)-ICRCLen {
		return 0, false
	}
	n := at + len(payload)
	switch {
	case n%4 != 0:
	case len(f.Head) == Head4Len:
		copy(f.Body[at:copiedFirst], payload)
		return icrcAVX512(&cover4, &f.Head[0], Head4Len, &f.Body[0], n, &payload[0], at), true
	case len(f.Head) == Head6Len:
		copy(f.Body[at:copiedFirst], payload)
		return icrcAVX512(&cover6, &f.Head[0], Head6Len, &f.Body[0], n, &payload[0], at), true
	}
	return 0, false
}

// icrcAVX512 computes an ICRC; n is the length of the body without it. Unless payload is nil, it is
// what belongs from offset at to n; it is copied except for the first copiedFirst-at bytes, which
// are there already.
//
//go:noescape
func icrcAVX512(cover *[16]uint32, head *byte, headLen int, body *byte, n int, payload *byte, at int) uint32

// folding is what the assembly multiplies by.
var folding = newFolding()

type foldTables struct {
	matrix [4]uint64  // for the words foldDistance on
	power  [64]uint64 // x^(32+64i) mod P for the i-th 64 bits from the end, the end last
	mu     uint64     // floor(x^94 / P)
	poly   uint64     // P
}

// foldDistance is how many words on a folded word goes.
var foldDistance = [4]int{4, 5, 7, 8}

func newFolding() (t foldTables) {
	t.matrix = foldMatrices()
	for i := range t.power {
		t.power[i] = uint64(powX(32+64*(63-i))) << 1
	}
	t.mu, t.poly = quotientX94(), 0xedb88320<<1|1
	return t
}

// powX returns x^n mod P, reflected: bit 31 is the coefficient of x^0.
func powX(n int) uint32 {
	r, square := uint32(1)<<31, uint32(1)<<30
	for ; n > 0; n >>= 1 {
		if n&1 != 0 {
			r = mulmod(r, square)
		}
		square = mulmod(square, square)
	}
	return r
}

// quotientX94 returns floor(x^94 / P), reflected: bit 0 is the coefficient of x^62. It is the
// division as done by hand.
func quotientX94() (q uint64) {
	const p = 0x104c11db7
	rem := uint64(1) << 32 // the first 33 bits of x^94
	for i := range 63 {
		if rem>>32 != 0 {
			q |= 1 << i
			rem ^= p
		}
		rem <<= 1
	}
	return q
}

// foldMatrices solves the equation above for each bit of b. Bit k of a byte is x^(7-k); the
// unknowns are numbered 8 per distance.
func foldMatrices() (m [4]uint64) {
	far := foldDistance[3]
	at := func(bit, words int) uint32 { return powX(7 - bit + 512*words) }

	type equation struct{ value, terms uint32 } // the sum of these unknowns' places is value
	var rows [32]equation                       // rows[i].value has i as its lowest bit
	express := func(e equation) equation {
		for i, row := range rows {
			if e.value>>i&1 != 0 {
				e.value ^= row.value
				e.terms ^= row.terms
			}
		}
		return e
	}
	for i := range 32 {
		e := express(equation{at(i%8, far-foldDistance[i/8]), 1 << i})
		low := 0
		for e.value>>low&1 == 0 { // ends: no place is a sum of others
			low++
		}
		rows[low] = e
	}
	for in := range 8 {
		out := express(equation{at(in, far), 0}).terms
		for i := range 32 { // row 7-k of a matrix gives bit k of the product
			m[i/8] |= uint64(out>>i&1) << (8*(7-i%8) + in)
		}
	}
	return m
}
