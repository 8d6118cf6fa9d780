package qp

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/wire"
)

// TestAdoptedSource: a handle has one source address on all lanes, also if the row of the GID table
// that it names has become empty, or another's, between them.
func TestAdoptedSource(t *testing.T) {
	other := wire.GIDFrom(netip.MustParseAddr("192.0.2.9"))
	for name, gids := range map[string][]wire.GID{"empty": {{}}, "another's": {other}} {
		a, b := newEnd(t, "192.0.2.1", 1, 64), newEnd(t, "192.0.2.1", 2, 64)
		ah, err := a.e.CreateAH(a.pd, AHAttr{DGID: other})
		require.NoError(t, err)
		b.e.SetGIDs(gids)
		require.NoError(t, b.e.AdoptAH(ah), name)
		require.Equal(t, a.gid, b.e.ah(ah.row).path.Src, name)
	}
}
