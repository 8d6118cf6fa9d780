package packet

import (
	"math/rand/v2"
	"testing"
)

// TestSum16 holds the sum against RFC 1071 word by word, for all lengths that checksums here are
// made of and more.
func TestSum16(t *testing.T) {
	rng := rand.New(rand.NewPCG(1071, 16))
	b := make([]byte, 64<<10)
	for i := range b {
		if b[i] = byte(rng.Uint32()); rng.IntN(2) == 0 {
			b[i] = 0xff
		}
	}
	for _, n := range []int{0, 2, 4, 6, 8, 10, 20, 32, 40, 1000, len(b) - 2, len(b)} {
		var sum uint64
		for i := 0; i < n; i += 2 {
			sum += uint64(b[i])<<8 + uint64(b[i+1])
		}
		for sum > 0xffff {
			sum = sum>>16 + sum&0xffff
		}
		if got := fold(sum16(b[:n])); got != uint16(sum) {
			t.Fatalf("%d bytes add up to %04x, got %04x", n, sum, got)
		}
	}
}
