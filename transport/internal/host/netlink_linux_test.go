package host

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/internal/netns"
	"github.com/goroce/goroce/transport"
)

// TestDescribeSeesChanges: what Describe says is so when it is called, right after a change as well
// as when somebody else has taken in what the kernel says of it.
func TestDescribeSeesChanges(t *testing.T) {
	for _, drained := range []bool{false, true} {
		t.Run(fmt.Sprintf("drained=%v", drained), func(t *testing.T) {
			ns := netns.NewWire(t, 1500).Left
			var l *Link
			var err error
			ns.Do(func() {
				i, _ := InterfaceOf(netip.MustParseAddr("10.77.0.1"))
				l, err = OpenLink(i.Index, nil, 0)
			})
			require.NoError(t, err)
			defer l.Close()
			describe := func() (info transport.Info) {
				if drained {
					l.Drain()
				}
				l.Describe(&info)
				return info
			}
			require.Equal(t, 1500, describe().NetMTU)
			for _, c := range []struct {
				command string
				so      func(transport.Info) bool
			}{
				{"link set wire mtu 1400", func(i transport.Info) bool { return i.NetMTU == 1400 }},
				{"link set wire down", func(i transport.Info) bool { return !i.Up }},
				{"link set wire up", func(i transport.Info) bool { return i.Up }},
				{"addr add 10.78.0.1/16 dev wire", func(i transport.Info) bool {
					return slices.Contains(i.Addresses, netip.MustParsePrefix("10.78.0.1/16"))
				}},
				{"link set wire address 02:00:00:00:00:07", func(i transport.Info) bool { return i.MAC.String() == "02:00:00:00:00:07" }},
				{"link set wire down", func(i transport.Info) bool { return !i.Up }},
				{"link set wire name cable", func(i transport.Info) bool { return i.Interface == "cable" }},
				{"link del cable", func(i transport.Info) bool { return i.Interface == "" && i.NetMTU == 0 }},
			} {
				ns.IP(t, c.command)
				info := describe()
				require.True(t, c.so(info), "after ip %s: %+v", c.command, info)
			}
		})
	}
}

// BenchmarkDescribe is a Describe while nothing changes.
func BenchmarkDescribe(b *testing.B) {
	i, ok := InterfaceOf(netip.MustParseAddr("127.0.0.1"))
	require.True(b, ok)
	l, err := OpenLink(i.Index, nil, 0)
	require.NoError(b, err)
	defer l.Close()
	for b.Loop() {
		var info transport.Info
		l.Describe(&info)
	}
}
