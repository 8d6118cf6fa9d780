package interop

// Pingpong against ibv_rc_pingpong, ibv_uc_pingpong, ibv_ud_pingpong and ibv_srq_pingpong. With -c
// ours compares every byte of every message.

import (
	"fmt"
	"net/netip"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/interop/lab"
)

// roles of our end.
var roles = []struct {
	name    string
	serving bool
}{{"server", true}, {"client", false}}

// modes of both ends' completion queues.
var modes = []struct {
	name    string
	options []string
}{{"poll", nil}, {"event", []string{"-e"}}}

// games are the four programs. Sizes are such that a burst fits the queue of the lab's tap device,
// of 1000 packets: UC and UD have nothing that would slow a sender down or repeat what was lost.
var games = []struct {
	kind  string
	sizes []int
	mtus  []int // 0: the port's
}{
	{"rc", []int{1, 4096, 1 << 20}, []int{1024, 4096}},
	{"uc", []int{1, 4096, 512 << 10}, []int{1024}},
	{"uc", []int{1, 4096, 1 << 20}, []int{4096}},
	{"ud", []int{1, 1024, 4096}, []int{0}},
	{"srq", []int{1, 4096, 64 << 10}, []int{1024, 4096}}, // 16 queue pairs at each end
}

// messages is how many a game of a size has: a guest under software emulation needs 66 us for each
// packet.
func messages(size int) int {
	if size > 64<<10 {
		return 4
	}
	return 40
}

// TestPingpong plays every fifth of each game in CI, and others where ours is the client, so that
// each size, MTU and mode occurs.
func TestPingpong(t *testing.T) {
	a := theArena(t)
	for _, g := range games {
		for first, role := range roles {
			n := 0
			for _, size := range g.sizes {
				for _, mtu := range g.mtus {
					for _, mode := range modes {
						name := fmt.Sprintf("ibv_%s_pingpong/roce-is-%s/size=%d/mtu=%d/%s", g.kind, role.name, size, mtu, mode.name)
						one := n%5 == 2*first
						t.Run(name, func(t *testing.T) {
							matrix(t, one)
							a.pingpong(t, g.kind, ipv4, role.serving, size, mtu, mode.options)
						})
						n++
					}
				}
			}
		}
	}
}

// GIDs that are IPv6 addresses, whose packets have another header in front; the two ends still meet
// over IPv4.
func TestPingpongIPv6(t *testing.T) {
	a := theArena(t)
	for _, kind := range []string{"rc", "uc", "ud"} {
		for _, role := range roles {
			t.Run(fmt.Sprintf("ibv_%s_pingpong/roce-is-%s", kind, role.name), func(t *testing.T) {
				mtu := 1024
				if kind == "ud" {
					mtu = 0
				}
				a.pingpong(t, kind, ipv6, role.serving, 3000, mtu, nil)
			})
		}
	}
}

// The other ports, which see and send whole packets. RC only: until the neighbour's Ethernet
// address is known they drop packets, which nobody would repeat for UC.
func TestPingpongPorts(t *testing.T) {
	a := theArena(t)
	for _, port := range []string{"packet", "xdp"} {
		for _, role := range roles {
			t.Run(fmt.Sprintf("%s/ibv_rc_pingpong/roce-is-%s", port, role.name), func(t *testing.T) {
				f := family{host: lab.HostIPv4, guest: lab.GuestIPv4, port: port}
				a.pingpong(t, "rc", f, role.serving, 10000, 4096, nil)
			})
		}
	}
}

// family is a pair of addresses that a game is played between, and the kind of port that ours uses.
type family struct{ host, guest, port string }

var (
	ipv4 = family{lab.HostIPv4, lab.GuestIPv4, "udp"}
	ipv6 = family{lab.HostIPv6, lab.GuestIPv6, "udp"}
)

// pingpong plays one game and looks at what both ends say.
func (a *arena) pingpong(t *testing.T, kind string, f family, serving bool, size, mtu int, mode []string) {
	index, err := a.GIDIndex(netip.MustParseAddr(f.guest))
	require.NoError(t, err)
	n := messages(size)
	options := append([]string{"-s", strconv.Itoa(size), "-n", strconv.Itoa(n), "-c"}, mode...)
	if mtu != 0 {
		options = append(options, "-m", strconv.Itoa(mtu))
	}
	what := []string{"--type", kind}
	if kind == "srq" {
		what = []string{"--srq"}
	}
	r := a.fight(t, duel{serving: serving,
		guest: append([]string{"ibv_" + kind + "_pingpong", "-d", lab.Device, "-g", strconv.Itoa(index)}, options...),
		host:  append(append([]string{"pingpong", "-d", f.port + ":" + f.host, "-u", patience}, what...), options...)})
	for _, out := range []string{r.guest, r.host} {
		require.Contains(t, out, fmt.Sprintf("%d bytes in ", 2*n*size))
		require.Contains(t, out, fmt.Sprintf("%d iters in ", n))
		require.NotContains(t, out, "invalid data")
	}
}
