package wire

import (
	"math/rand/v2"
	"testing"
)

// RandomFrame is a sealed packet with n bytes of payload, and anything in its headers. It is for
// tests in package wire_test.
func RandomFrame(t testing.TB, rnd *rand.Rand, op Opcode, v6 bool, n int) Frame {
	b := build(t, rnd, op, testPath(t, v6), n, false)
	return b.frame
}
