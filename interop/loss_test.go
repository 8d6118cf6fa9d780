package interop

// The same over a network that loses and reorders packets: everything must arrive all the same.

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/interop/lab"
)

// storm is 1 % of loss in each direction, and every fiftieth packet overtakes.
const storm = "delay 1ms loss 1% reorder 2%"

// spoil spoils the network for the rest of the test.
func (a *arena) spoil(t *testing.T) {
	require.NoError(t, a.Netem(t.Context(), lab.Both, storm))
	a.weather = storm
	t.Cleanup(func() {
		a.weather = ""
		if err := a.Netem(context.WithoutCancel(t.Context()), lab.Both, ""); err != nil {
			t.Error(err)
		}
	})
}

func TestLossyPingpong(t *testing.T) {
	a := theArena(t)
	a.spoil(t)
	for _, role := range roles {
		for _, size := range []int{1, 4096, 1 << 20} {
			for _, mtu := range []int{1024, 4096} {
				t.Run(fmt.Sprintf("ibv_rc_pingpong/roce-is-%s/size=%d/mtu=%d", role.name, size, mtu), func(t *testing.T) {
					a.pingpong(t, "rc", ipv4, role.serving, size, mtu, nil)
				})
			}
		}
	}
}

func TestLossyPerf(t *testing.T) {
	a := theArena(t)
	a.spoil(t)
	for _, test := range []string{"write-bw", "read-bw", "send-bw"} {
		for _, role := range roles {
			for _, size := range []int{8, 65536} {
				t.Run(fmt.Sprintf("%s/roce-is-%s/size=%d", tool(test), role.name, size), func(t *testing.T) {
					a.perf(t, test, role.serving, size)
				})
			}
		}
	}
}
