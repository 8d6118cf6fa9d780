package rsocket

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMemoryIsClean: memory is used again, for the same sizes only, and what the other end of one
// connection has written is not there for the next.
func TestMemoryIsClean(t *testing.T) {
	again := 0
	for range 100 {
		m := takeMemory(4096, 8192)
		require.Equal(t, [2]int{4096, 8192}, [2]int{len(m.own), len(m.exposed)})
		for i, b := range m.exposed {
			require.Zero(t, b, "byte %d", i)
		}
		if m.own[0] != 0 {
			again++
		}
		m.own[0] = 1
		for i := range m.exposed {
			m.exposed[i] = 0xff
		}
		m.giveBack()
	}
	require.Positive(t, again) // with the race detector the pool forgets some
	require.Len(t, takeMemory(8192, 4096).own, 8192)
}
