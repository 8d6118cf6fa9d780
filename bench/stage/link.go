//go:build linux

package stage

// What the link between the ends is like, which a play may choose: how long its packets are,
// whether they stay in order, how long the runs are that the kernel takes them in, and what TCP
// does on it.

import (
	"fmt"
	"net"
	"os"

	"github.com/vishvananda/netlink"
)

// Link is such a choice.
type Link struct {
	MTU int // 0: as it is
	// InOrder has one processor take in what comes to an end, its own. Otherwise it is the one
	// that sent it, as veth pairs are made; and because TCP sends both from the program and from
	// acknowledgements, which come in on different processors, its packets overtake each other, and
	// it takes that for losses.
	InOrder bool
	// Big lets the kernel take TCP's packets over IPv4 in runs of up to bigRun ("BIG TCP").
	Big bool
	// Congestion is what TCP does unless a program chooses; "": the system's choice.
	Congestion string
}

// Lengths of runs in bytes: what the kernel makes at most, and what it makes unless told otherwise.
const (
	bigRun   = 196000
	usualRun = 65536
)

// SetLink changes the link at both ends. What runs meanwhile may lose packets.
func (s *Stage) SetLink(l Link) error {
	for _, e := range []*End{s.A, s.B} {
		if err := e.Do(func() error { return e.setLink(l) }); err != nil {
			return fmt.Errorf("the link at %s, %+v: %w", e.Interface, l, err)
		}
	}
	return nil
}

// setLink runs in the end's namespace.
func (e *End) setLink(l Link) error {
	link, err := netlink.LinkByName(e.Interface)
	if err != nil {
		return err
	}
	if l.MTU != 0 && l.MTU != link.Attrs().MTU {
		if err := netlink.LinkSetMTU(link, l.MTU); err != nil {
			return err
		}
	}
	if err := e.steer(e.Interface, l.InOrder); err != nil {
		return err
	}
	run := usualRun
	if l.Big {
		run = bigRun
	}
	// Without such runs the kernel says 0.
	if attrs := link.Attrs(); attrs.GSOIPv4MaxSize != 0 || l.Big {
		if err := netlink.LinkSetGSOIPv4MaxSize(link, run); err != nil {
			return fmt.Errorf("runs of %d bytes: %w", run, err)
		}
		if err := netlink.LinkSetGROIPv4MaxSize(link, run); err != nil {
			return fmt.Errorf("received runs of %d bytes: %w", run, err)
		}
	}
	// A route may have a congestion control that a namespace may not have as its default.
	return netlink.RouteReplace(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: e.network(), Src: e.Addr.AsSlice(),
		Scope: netlink.SCOPE_LINK, Protocol: routeByKernel, Congctl: l.Congestion})
}

// routeByKernel is the protocol number of routes that come with addresses.
const routeByKernel = 2

// network is that of the end's address.
func (e *End) network() *net.IPNet {
	mask := net.CIDRMask(prefixBits, 32)
	return &net.IPNet{IP: net.IP(e.Addr.AsSlice()).Mask(mask), Mask: mask}
}

// steer has the end's own processor take in what comes over an interface, or the one that sent it.
// It runs in the end's namespace.
func (e *End) steer(iface string, toOwn bool) error {
	mask := 0
	if toOwn {
		mask = 1 << e.CPU
	}
	return os.WriteFile("/sys/class/net/"+iface+"/queues/rx-0/rps_cpus", fmt.Appendf(nil, "%x", mask), 0)
}
