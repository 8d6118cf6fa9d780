package session

// The device for a program whose ends meet by the RDMA connection manager: there is no connection
// yet whose address could be asked.

import (
	"context"
	"net"
	"net/netip"

	"github.com/goroce/goroce/internal/route"
)

// Meet opens the device that opt names; or that of the address own, if it is not ""; or that from
// which the peer is reached, on loopback another one than the peer's. If all are "", it is nil: a
// server has all addresses of the machine then.
func Meet(ctx context.Context, opt Options, own, peer string) (*Session, error) {
	switch {
	case opt.Dev != "":
		return Open(opt, netip.Addr{})
	case own != "":
		addr, err := lookup(ctx, own)
		if err != nil {
			return nil, err
		}
		return openAt(addr, opt)
	case peer == "":
		return nil, nil
	}
	addr, err := lookup(ctx, peer)
	if err != nil {
		return nil, err
	}
	r, err := route.To(addr, netip.Addr{})
	if err != nil {
		return nil, err
	}
	return Open(opt, r.Source)
}

func lookup(ctx context.Context, host string) (netip.Addr, error) {
	list, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return netip.Addr{}, err
	}
	return list[0].Unmap(), nil
}
