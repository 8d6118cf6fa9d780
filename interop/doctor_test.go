package interop

// roce doctor looks at a machine with rxe0.

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDoctor: the kernel's connection manager refuses a port that nobody has, which proves that
// rxe0 is there, over IPv4 and IPv6; an address that no route leads to is told.
func TestDoctor(t *testing.T) {
	a := theArena(t)
	ctx, cancel := context.WithTimeout(t.Context(), duelLimit)
	defer cancel()
	for _, peer := range []string{ipv4.guest, ipv6.guest} {
		out, err := a.Host(ctx, a.roce, "doctor", peer, "--wait", "30s").CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Regexp(t, `ok +peer +its connection manager answers .*invalid service ID`, string(out))
		require.Regexp(t, `ok +neighbour `, string(out))
		require.Regexp(t, `ok +MTU `, string(out))
	}
	const nobody = "10.99.99.99"
	out, err := a.Host(ctx, a.roce, "doctor", nobody, "--wait", "1s").CombinedOutput()
	require.Error(t, err, "%s", out)
	require.Regexp(t, `BAD +route `, string(out))
}
