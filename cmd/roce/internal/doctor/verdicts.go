package doctor

// What the facts mean. Each check is a function of the record alone.

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/wire"
)

// checks are in the order in which packets meet what they are about.
var checks = []struct {
	name  string
	judge func(f *facts) Verdict
}{
	{"route", routeVerdict},
	{"port here", portVerdict},
	{"GID", gidVerdict},
	{"neighbour", neighbourVerdict},
	{"MTU", mtuVerdict},
	{"segmentation", cutVerdict},
	{"peer", peerVerdict},
	{"congestion", congestionVerdict},
}

// judge makes a verdict of each check.
func judge(f *facts) (list verdicts) {
	for _, c := range checks {
		v := c.judge(f)
		v.Check = c.name
		list = append(list, v)
	}
	return list
}

func verdict(g Grade, format string, args ...any) Verdict {
	return Verdict{Grade: g, Says: fmt.Sprintf(format, args...)}
}

// but adds what to do.
func (v Verdict) but(format string, args ...any) Verdict {
	v.Do = fmt.Sprintf(format, args...)
	return v
}

// unrouted is the verdict where only a route could lead on.
var unrouted = verdict(Unknown, "not looked at: there is no route")

func routeVerdict(f *facts) Verdict {
	r := f.route
	switch {
	case f.noRoute != nil && f.peer.IsLinkLocalUnicast() && f.peer.Zone() == "":
		return verdict(Wrong, "%v", f.noRoute).but("name the interface: roce doctor %v%%INTERFACE", f.peer)
	case f.noRoute != nil && (f.peer.IsUnspecified() || f.peer.IsMulticast()):
		return verdict(Wrong, "%v", f.noRoute).but("name the address of a machine")
	case f.noRoute != nil:
		return verdict(Wrong, "%v",
			f.noRoute).but("give an interface an address in %v's network, or add a route: ip route add %v via GATEWAY",
			f.peer, f.peer)
	case r.Local:
		return verdict(Right, "%v is an address of this machine, on %s", f.peer, r.Interface)
	case !f.linkUp && f.noOpen == nil:
		return verdict(Wrong, "by %s, which is down or has no carrier",
			r.Interface).but("ip link set %s up; look at its cable", r.Interface)
	}
	return verdict(Right, "by %s, from %v, next hop %v", r.Interface, r.Source, r.NextHop)
}

func portVerdict(f *facts) Verdict {
	switch {
	case f.device == "":
		return unrouted
	case f.noOpen != nil:
		v := verdict(Wrong, "%s: %s", f.device, strings.TrimPrefix(f.noOpen.Error(), "roce: Open on "+f.device+": "))
		if errors.Is(f.noOpen, syscall.EADDRINUSE) {
			return v.but("end who has the port, or use its device (roce devices), or another address of this " +
				"machine with --dev")
		}
		return v.but("name a device of this machine with --dev: roce devices has those that work")
	}
	return verdict(Right, "%s has UDP port %d of its address", f.device, wire.UDPPort)
}

func gidVerdict(f *facts) Verdict {
	switch {
	case f.noRoute != nil:
		return unrouted
	case f.noOpen != nil:
		return verdict(Unknown, "not looked at: %s could not be opened", f.device)
	}
	row := slices.Index(f.gids, wire.GIDFrom(f.route.Source))
	switch {
	case row >= 0:
		return verdict(Right, "row %d of %s is %v, from which %v is reached", row, f.device, f.gids[row], f.peer)
	case !slices.ContainsFunc(f.gids, func(g roce.GID) bool { return !g.IsZero() && g.Is4() == f.peer.Is4() }):
		return verdict(Wrong, "%s has no %s address, and %v is one", f.device, version(f.peer.Is4()), f.peer).
			but("--dev udp:%v, or the peer's address of the other IP version", f.route.Source)
	case f.route.Local: // any of this machine's addresses reaches any other
		return verdict(Right, "%s and %v are of one machine", f.device, f.peer)
	}
	return verdict(Wrong, "no row of %s is %v, from which %v is reached", f.device, f.route.Source, f.peer).
		but("--dev udp:%v, or a route by the device's interface", f.route.Source)
}

func version(four bool) string {
	if four {
		return "IPv4"
	}
	return "IPv6"
}

func neighbourVerdict(f *facts) Verdict {
	hop := f.route.NextHop
	switch {
	case f.noRoute != nil:
		return unrouted
	case f.route.Local:
		return verdict(Right, "none is needed on one machine")
	}
	switch f.neighbour {
	case neighbourNone:
		return verdict(Right, "%s needs none", f.route.Interface)
	case neighbourFound:
		return verdict(Right, "%v has answered with its Ethernet address", hop)
	case neighbourSilent:
		return verdict(Wrong, "%v does not answer to %s", hop, resolution(hop.Is4())).
			but("look whether %v is up and on the same network (VLAN, switch) as %s", hop, f.route.Interface)
	}
	return verdict(Unknown, "the system does not tell")
}

// resolution is how Ethernet addresses are asked for.
func resolution(four bool) string {
	if four {
		return "ARP"
	}
	return "neighbour discovery"
}

func mtuVerdict(f *facts) Verdict {
	n, fits := f.route.NetMTU, f.route.MTU()
	switch {
	case f.noRoute != nil:
		return unrouted
	case fits == 0:
		return verdict(Wrong, "packets may have %d bytes, which is too few for the smallest path MTU", n).
			but("ip link set %s mtu 1500, likewise there", f.route.Interface)
	case f.route.Local:
		return verdict(Right, "%d bytes, on one machine: path MTU up to %d", n, fits.Bytes())
	case f.full.answer == probeTooLong:
		return verdict(Wrong, "packets may have %d bytes here, and do not fit a link on the way", n).
			but("the same MTU on all links, or a smaller path MTU: --mtu of roce perf, or ip route add %v mtu N",
				f.peer)
	case f.full.arrived(f.peer) && f.active > fits:
		return verdict(Note, "packets of %d bytes arrive: path MTU up to %d, and the port's %d does not fit the path",
			n, fits.Bytes(), f.active.Bytes()).
			but("roce perf and RDMA CM choose %d by themselves; elsewhere choose it at both ends (--mtu %d, "+
				"ConnectOptions.MTU)", fits.Bytes(), fits.Bytes())
	case f.full.arrived(f.peer):
		return verdict(Right, "packets of %d bytes arrive: path MTU up to %d", n, fits.Bytes())
	case f.full.answer == probeSilent && f.host.arrived(f.peer):
		return verdict(Wrong, "small packets are answered and those of %d bytes are not: a black hole, which drops "+
			"what is too long for a link and says nothing", n).
			but("find out how long they may be (ping -M do -s %d %v, and less), then make the MTU of the switches and "+
				"of the peer %d too, or have packets be shorter: ip route add %v mtu N, at both ends",
				n-headers(f.peer.Is4()), f.peer, n, f.peer)
	}
	return verdict(Note, "packets may have %d bytes here: path MTU up to %d. Whether such packets arrive is not "+
		"known: nothing answers them", n, fits.Bytes()).
		but("if small messages arrive and large ones do not, compare the MTU of both ends: ip link")
}

// headers are the bytes of IP and UDP, or of IP and an echo request.
func headers(four bool) int {
	const ipv4, ipv6, udp = 20, 40, 8
	if four {
		return ipv4 + udp
	}
	return ipv6 + udp
}

func cutVerdict(f *facts) Verdict {
	switch {
	case f.noRoute != nil:
		return unrouted
	case f.route.Local || f.cut == cutByKernel:
		return verdict(Right, "no NIC divides our packets")
	case f.cut == cutByNIC && !f.peer.Is4():
		return verdict(Right, "%s divides runs of packets, which over IPv6 breaks nothing", f.route.Interface)
	case f.cut == cutByNIC:
		return verdict(Note, "%s divides runs of packets. If it does not count the IPv4 Identification up, all but "+
			"the first of a run have a wrong ICRC; "+
			"this cannot be seen from here", f.route.Interface).
			but("if long messages crawl and the peer counts ICRC errors (rx_icrc_encapsulated): ethtool -K %s "+
				"tx-udp-segmentation off", f.route.Interface)
	}
	return verdict(Unknown, "the system does not tell who divides runs of packets")
}

func peerVerdict(f *facts) Verdict {
	switch {
	case f.noRoute != nil:
		return unrouted
	case f.self():
		return verdict(Wrong, "%v is an address of this machine, and nobody has UDP port %d there", f.peer,
			wire.UDPPort).
			but("start the program there, on this address")
	case f.cm.answer == cmRejected:
		return verdict(Right, "its connection manager answers (%v)", f.cm.err)
	case f.cm.answer == cmAccepted:
		return verdict(Right, "its connection manager answers, and accepts")
	case f.port.answer == probeRefused:
		return verdict(Wrong,
			"%v is there, and refuses UDP port %d: nobody there has it, or a firewall there rejects it", f.peer,
			wire.UDPPort).
			but("start the program there, on this address (for Soft-RoCE: rdma link add rxe0 type rxe netdev " +
				"INTERFACE); if it runs, allow the port in the firewall")
	case f.port.answer == probeBarred:
		return verdict(Wrong, "UDP port %d of %v is not let through: %v answers %v", wire.UDPPort, f.peer, f.port.by,
			f.port.err).
			but("allow UDP port %d both ways in the firewall of %v, or mend its routes", wire.UDPPort, f.port.by)
	case f.full.answer == probeBarred && !f.full.arrived(f.peer):
		return verdict(Wrong, "nothing gets through to %v: %v answers %v", f.peer, f.full.by, f.full.err).
			but("look at the firewall and the routes of %v", f.full.by)
	case f.port.answer == probeFailed:
		return verdict(Wrong, "UDP port %d of %v cannot be reached: %v", wire.UDPPort, f.peer, f.port.err).
			but("look at the firewall of this machine: nft list ruleset")
	case f.cm.answer == cmFailed:
		return verdict(Wrong, "its connection manager could not be asked: %v", f.cm.err).but("see the lines above")
	case f.cm.answer == cmNone:
		return verdict(Unknown, "its connection manager was not asked: %s could not be opened", f.device)
	case f.host.arrived(f.peer):
		return verdict(Wrong,
			"%v is there, but its UDP port %d is silent: a firewall, or nobody there who answers connection requests",
			f.peer, wire.UDPPort).
			but("allow UDP port %d both ways; see that the program there connects by rdma_cm (perf without -R and "+
				"pingpong do not answer)", wire.UDPPort)
	}
	return verdict(Wrong, "silent: a firewall, or nobody there").
		but("see that %v is up, that a program has UDP port %d there, and that firewalls let that port "+
			"through both ways", f.peer, wire.UDPPort)
}

// congestionVerdict is advice: what switches do cannot be seen from a host.
func congestionVerdict(f *facts) Verdict {
	switch {
	case f.noRoute != nil:
		return unrouted
	case f.route.Local:
		return verdict(Right, "there is no switch on one machine")
	}
	return verdict(Note, "our packets leave as ECT(0), and we slow down when they come marked; what switches and the "+
		"peer do cannot be seen from here").
		but("have switches mark (ECN) before they drop; a NIC at the other end wants its class lossless (PFC: dcb " +
			"pfc show dev INTERFACE); rxe never slows down")
}
