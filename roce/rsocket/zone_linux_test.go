package rsocket

import (
	"errors"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/internal/netns"
	"github.com/goroce/goroce/roce"
)

// TestPacketLinkLocal: whose a datagram is can be answered, as its address has a zone whichever way
// it came.
func TestPacketLinkLocal(t *testing.T) {
	netns.Need(t)
	const at = "fe80::77/64"
	out, err := exec.Command("ip", "-6", "addr", "add", at, "dev", "lo", "nodad").CombinedOutput()
	require.NoError(t, err, "%s", out)
	defer exec.Command("ip", "-6", "addr", "del", at, "dev", "lo").Run()
	dev := open(t, "udp:fe80::77%lo")
	var two [2]*PacketConn
	for i := range two {
		two[i], err = ListenPacket(bg, "[fe80::77%lo]:0", &Options{Devices: []*roce.Device{dev}})
		require.NoError(t, err)
		defer two[i].Close()
	}
	for byRail := false; !byRail; runtime.Gosched() {
		_, err := two[0].TryWriteTo([]byte("local"), two[1].local())
		if got, ok := two[1].came.Queue().TryGet(); ok { // the first may come before the route
			require.Equal(t, two[0].local(), got.from)
			byRail = got.rail != nil
			two[1].take(nil, got)
		} else if err != syscall.EAGAIN && !errors.Is(err, roce.ErrUnreachable) {
			require.NoError(t, err)
		}
	}
}
