//go:build !linux

package doctor

// Where there is no netlink: nothing of this is known.

import (
	"context"
	"net/netip"

	"github.com/goroce/goroce/internal/route"
)

func neighbourOf(int, netip.Addr) neighbour { return neighbourUnknown }

func cutOf(string) cut { return cutUnknown }

func knock(context.Context, route.Route, netip.Addr, uint16, []byte) probe { return probe{} }

func compare(context.Context, route.Route, netip.Addr, int) (short, long probe) {
	return probe{}, probe{}
}
