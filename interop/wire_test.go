package interop

// A wire between two real drivers: two virtio_net cards in a guest with a kernel as new as Debian
// has. What no veth pair shows is there: zero-copy AF_XDP (virtio_net has it since Linux 6.13), an
// interface without UDP segmentation of its own behind a queueing discipline, and a receiving side
// that merges packets.
//
// Stages: boot, a namespace for each end, then games between our own programs, each a script in the
// guest.

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/interop/lab"
)

// wireKernel is where the kernel comes from, whatever Debian the host is.
var wireKernel = lab.Config{Suite: "trixie-backports", Kernel: "7.3," + lab.NewestKernel, Wire: true}

const (
	wireRoce = "/root/roce"

	// zeroCopyMTU is the longest with which virtio_net does zero-copy: it takes no packets in
	// pieces there.
	zeroCopyMTU = 3814
)

// theWire boots the guest, or skips.
func theWire(t *testing.T, cpus int) *lab.Lab {
	t.Helper()
	if testing.Short() {
		t.Skip("boots a virtual machine")
	}
	lab.Require(t)
	cfg := wireKernel
	cfg.CPUs = cpus
	cfg.Files = map[string]string{wireRoce: buildRoce(t)}
	l, err := lab.Start(t.Context(), cfg)
	if err != nil && os.Getenv(lab.RequireEnv) != "1" {
		t.Skipf("no guest with a new kernel: %v", err)
	}
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	t.Logf("Linux %s", l.Kernel())
	inGuest(t, l, `for i in 1 2; do
		ip netns add end$i && ip link set eth$i netns end$i
		ip -n end$i link set lo up && ip -n end$i link set eth$i up && ip -n end$i addr add 198.51.100.$i/24 dev eth$i
	done`)
	return l
}

func buildRoce(t *testing.T) string {
	t.Helper()
	a := &arena{dir: t.TempDir()}
	require.NoError(t, a.build())
	return a.roce
}

// inGuest runs a script in the guest.
func inGuest(t *testing.T, l *lab.Lab, script string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), duelLimit)
	defer cancel()
	out, err := l.Command(ctx, "sh", "-e", "-c", script).CombinedOutput()
	require.NoError(t, err, "%s\n%s", script, out)
	return string(out)
}

func setMTU(t *testing.T, l *lab.Lab, mtu int) {
	inGuest(t, l, fmt.Sprintf("for i in 1 2; do ip -n end$i link set eth$i mtu %d; done", mtu))
}

// game is a command of roce that both ends run, the second one as the server.
func game(port, command string) string {
	command += " -u " + patience
	return fmt.Sprintf(`ip netns exec end2 %[1]s %[3]s --dev %[2]s:eth2 >/tmp/server 2>&1 &
		until ip netns exec end2 grep -q ':4853 .* 0A ' /proc/net/tcp /proc/net/tcp6; do kill -0 $! || { cat /tmp/server; exit 1; }; sleep 0.05; done
		ip netns exec end1 %[1]s %[3]s --dev %[2]s:eth1 198.51.100.2 || { cat /tmp/server; exit 1; }
		wait $! || { cat /tmp/server; exit 1; }`, wireRoce, port, command) // 4853: TCP port 18515
}

// packetPort is what roce devinfo says of it.
type packetPort struct {
	Kind, Why, Mode string
	Without         []string
}

func packetPortOf(t *testing.T, l *lab.Lab, device string) packetPort {
	t.Helper()
	var infos []struct {
		Packet packetPort `json:"packet_port"`
	}
	out := inGuest(t, l, fmt.Sprintf("ip netns exec end1 %s devinfo --json --dev %s", wireRoce, device))
	require.NoError(t, json.Unmarshal([]byte(out), &infos))
	require.Len(t, infos, 1)
	return infos[0].Packet
}

// wireGames are of all services and of all that RC does, with runs and single packets. -c compares
// every byte. UC neither repeats nor sorts: packets that overtake others end its game.
var wireGames = []string{
	"pingpong -c -s 64K -n 100 -m %d --stall 30s",
	"pingpong -c -s 64K -n 100 -m %d --stall 30s -t uc",
	"pingpong -c -s 1024 -n 200 -m %d --stall 30s -t ud",
	"perf write-bw -s 64K -n 300 -m %d",
	"perf read-bw -s 64K -n 300 -m %d",
	"perf send-lat -s 8 -n 200 -m %d",
	"perf write-bw -s 8 -n 3000 -l 32 -m %d",
}

func TestWire(t *testing.T) {
	l := theWire(t, 1)
	for _, w := range []struct{ mtu, path int }{{zeroCopyMTU, 2048}, {9000, 4096}} {
		setMTU(t, l, w.mtu)
		t.Run(fmt.Sprintf("mtu-%d", w.mtu), func(t *testing.T) {
			t.Run("devices", func(t *testing.T) { checkWireDevices(t, l, w.mtu == zeroCopyMTU) })
			for _, port := range []string{"xdp", "packet", "udp"} {
				for _, g := range wireGames {
					command := fmt.Sprintf(g, w.path)
					t.Run(port+"/"+strings.ReplaceAll(command, " ", "_"), func(t *testing.T) { inGuest(t, l, game(port, command)) })
				}
			}
		})
	}
}

// A card with several queues: zero-copy sockets on all of them share the memory, for one lane or
// divided among lanes.
func TestWireQueues(t *testing.T) {
	l := theWire(t, 2)
	setMTU(t, l, zeroCopyMTU)
	checkWireDevices(t, l, true)
	for _, command := range []string{
		"pingpong -c -s 64K -n 100 -m 2048 --stall 30s -t uc",
		"perf write-bw -s 64K -n 50 -m 2048 -q 8",
		"perf write-bw -s 64K -n 50 -m 2048 -q 8 --lanes 2",
		"perf send-bw -s 64K -n 50 -m 2048 -q 8 --lanes 2 -b",
		"perf write-bw -s 8 -n 1000 -l 32 -q 8 --lanes 2",
	} {
		for _, port := range []string{"xdp", "packet", "udp"} {
			t.Run(port+"/"+strings.ReplaceAll(command, " ", "_"), func(t *testing.T) { inGuest(t, l, game(port, command)) })
		}
	}
	for _, n := range []string{"0", "1"} { // packets came by both queues
		got := inGuest(t, l,
			fmt.Sprintf(`awk '/virtio3-input.%s$/ { for (i = 2; i <= 3; i++) n += $i } END { print (n > 100) }' /proc/interrupts`, n))
		require.Equal(t, "1\n", got, "interrupts of queue %s", n)
	}
}

// checkWireDevices: auto takes xdp where that is zero-copy, and says so. Otherwise xdp says what
// would help.
func checkWireDevices(t *testing.T, l *lab.Lab, zeroCopy bool) {
	auto, xdp := packetPortOf(t, l, "auto:eth1"), packetPortOf(t, l, "xdp:eth1")
	if zeroCopy {
		require.Equal(t, packetPort{
			Kind: "xdp",
			Mode: "native, zero-copy",
			Why:  "xdp: the driver receives into our memory and sends from it",
		}, auto)
		require.Equal(t, packetPort{Kind: "xdp", Mode: "native, zero-copy"}, xdp)
		return
	}
	require.Equal(t, "packet", auto.Kind)
	require.Equal(t, "native, copy", xdp.Mode)
	require.Len(t, xdp.Without, 1)
	require.Contains(t, xdp.Without[0], fmt.Sprintf("It does with an interface MTU of at most %d", zeroCopyMTU))
}
