//go:build !purego

package wire

import (
	"hash/crc32"
	mathbits "math/bits"
	"testing"
)

// register is the CRC register that started as 0 and has seen b.
func register(b []byte) uint32 { return ^crc32.Update(^uint32(0), crc32.IEEETable, b) }

// TestFoldMatrices: a byte in a word is worth what the four bytes are that the matrices make of it,
// whatever the CRC of it.
func TestFoldMatrices(t *testing.T) {
	const word = 64
	for v := range 256 {
		one := make([]byte, 9*word)
		one[17] = byte(v)
		four := make([]byte, 9*word)
		for i, m := range folding.matrix {
			four[17+word*foldDistance[i]] = product(m, byte(v))
		}
		if got, want := register(four), register(one); got != want {
			t.Fatalf("byte %02x: folded %08x, itself %08x", v, got, want)
		}
	}
}

// product is what GF2P8AFFINEQB makes of one byte: bit k is the parity of byte 7-k of the matrix,
// and v.
func product(m uint64, v byte) (p byte) {
	for k := range 8 {
		p |= byte(mathbits.OnesCount8(byte(m>>(8*(7-k)))&v)&1) << k
	}
	return p
}

// TestFoldPowers: one bit, zeros after it, against one bit times a power.
func TestFoldPowers(t *testing.T) {
	for i, p := range folding.power {
		b := make([]byte, 8*(64-i))
		b[0] = 1 << 7 // x^56 of the first 64 bits
		if got := mulmod(uint32(p>>1), powX(56)); p>>1>>32 != 0 || p&1 != 0 || got != register(b) {
			t.Fatalf("power %d: %016x: %08x, want %08x", i, p, got, register(b))
		}
	}
}

// TestFoldQuotient: mu·P is x^94 but for a remainder, and that has less than 32 bits.
func TestFoldQuotient(t *testing.T) {
	var hi, lo uint64 // mu·P, bit k of the pair is the coefficient of x^k
	for k := range 63 {
		if folding.mu>>(62-k)&1 != 0 {
			const p = 0x104c11db7
			lo ^= p << k
			hi ^= p >> (64 - k)
		}
	}
	if hi != 1<<(94-64) || lo>>32 != 0 {
		t.Errorf("mu·P = %x %016x", hi, lo)
	}
	if folding.poly != mathbits.Reverse64(0x104c11db7)>>31 {
		t.Errorf("P = %x", folding.poly)
	}
}
