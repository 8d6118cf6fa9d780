//go:build linux

package launch

import (
	"net/netip"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/internal/netns"
	"github.com/goroce/goroce/roce"
)

func TestMain(m *testing.M) {
	netns.Own()
	os.Exit(m.Run())
}

// TestOpen: an address has one owner; and of a device that could not be opened nothing is kept.
func TestOpen(t *testing.T) {
	const name = "udp:127.0.0.9"
	other, err := roce.Open(name, nil) // of a program that was not started by roce run
	require.NoError(t, err)
	_, err = open(name)
	require.ErrorIs(t, err, errTaken)
	require.NoError(t, other.Close())
	_, err = open(name)
	require.NoError(t, err)
	_, err = open(name)
	require.ErrorIs(t, err, errTaken)
	taken, err := reserve([]netip.Addr{netip.MustParseAddr("127.0.0.8")})
	require.NoError(t, err)
	_, err = open("udp:127.0.0.8")
	require.ErrorIs(t, err, errTaken)
	taken.giveBack()
	_, err = open("udp:127.0.0.8")
	require.NoError(t, err)
	_, err = named([]string{"udp:127.0.0.7", "udp:127.0.0.7"})
	require.ErrorContains(t, err, "--dev udp:127.0.0.7: 127.0.0.7 of it is that of --dev udp:127.0.0.7 already")
}
