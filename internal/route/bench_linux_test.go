package route

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkTo is the way to an address of this machine.
func BenchmarkTo(b *testing.B) {
	for b.Loop() {
		_, err := To(netip.MustParseAddr("127.0.0.2"), netip.MustParseAddr("127.0.0.1"))
		require.NoError(b, err)
	}
}

// BenchmarkFrom is the same for who knows the interface.
func BenchmarkFrom(b *testing.B) {
	lo := Link{"lo", 1, 65536}
	for b.Loop() {
		_, err := From(netip.MustParseAddr("127.0.0.1"), lo, netip.MustParseAddr("127.0.0.2"))
		require.NoError(b, err)
	}
}

// BenchmarkSource is the source address alone.
func BenchmarkSource(b *testing.B) {
	for b.Loop() {
		_, err := Source(netip.MustParseAddr("127.0.0.2"))
		require.NoError(b, err)
	}
}
