package rdmacm

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// command runs a program of the system, as root.
func command(t *testing.T, line string) {
	t.Helper()
	args := strings.Fields(line)
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	require.NoError(t, err, "%s: %s", line, out)
}

// TestRemoved: IDs on a device of the kernel hear that it is gone. Another rxe is made for that,
// and deleted while a connection is up. That ends when this process does: librdmacm keeps the
// device open.
func TestRemoved(t *testing.T) {
	if *onDevice == "" {
		t.Skip("no device is named by -device; of software devices it is TestGone")
	}
	n := os.Getpid() % 250
	link, device := fmt.Sprintf("rv%d", n), fmt.Sprintf("rxe%d", 1+n)
	command(t, "ip link add "+link+" type veth peer name "+link+"p")
	command(t, fmt.Sprintf("ip addr add 203.0.113.%d/24 dev %s", 1+n, link))
	command(t, "ip link set "+link+" up")
	command(t, "ip link set "+link+"p up")
	command(t, "rdma link add "+device+" type rxe netdev "+link)
	a, b := newHost(t, "verbs:"+device, nil), newHost(t, "verbs:"+device, nil)
	active, passive := connected(t, a, b)
	require.NoError(t, exec.Command("rdma", "link", "delete", device).Start())
	require.Same(t, active, a.next(EventDeviceRemoval).ID)
	told := map[*ID]bool{}
	for len(told) < 2 { // the listener too
		e, err := b.ch.Get(bg)
		require.NoError(t, err)
		// The kernel ends the active end's ID by itself, whose leave may still pass the device.
		if e.Type == EventDisconnected && e.ID == passive {
			continue
		}
		require.Equal(t, EventDeviceRemoval, e.Type, "%v", e)
		require.ErrorIs(t, e.Err, ErrUnreachable)
		told[e.ID] = true
	}
	require.True(t, told[passive])
	require.ErrorIs(t, active.Disconnect(), ErrState)
	require.NoError(t, active.Close())
	require.NoError(t, passive.Close())
}

// TestKindVerbs: devices of the kernel are found by their addresses, opened, shared and closed.
func TestKindVerbs(t *testing.T) {
	if *onDevice == "" {
		t.Skip("no device is named by -device")
	}
	cfg := ConnConfig{Config: Config{Kind: "verbs"}}
	l, err := Listen(bg, ":7499", &ListenConfig{ConnConfig: cfg})
	require.NoError(t, err)
	to := netip.AddrPortFrom(newHost(t, *onDevice, nil).addr, 7499)
	c, err := Dial(bg, to.String(), &cfg)
	require.NoError(t, err)
	require.Equal(t, *onDevice, c.Device().Name())
	s, err := l.Accept(bg)
	require.NoError(t, err)
	require.Equal(t, c.LocalAddr(), s.RemoteAddr())
	dev := s.Device()
	require.Same(t, dev, c.Device())
	require.NoError(t, c.Close(bg))
	<-s.Done()
	s.Close(bg)
	require.NoError(t, l.Close())
	until(func() bool { return dev.AtClose(func() error { return nil }) != nil }) // it is closed
	_, err = Dial(bg, "127.0.0.1:7499", &ConnConfig{Config: cfg.Config, Local: netip.MustParseAddr("127.0.0.1")})
	require.ErrorContains(t, err, "no device of the kernel has it")
}
