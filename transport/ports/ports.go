// Package ports knows every kind of port: it opens one by name, and lists those of this machine.
//
//	ports.go   the kinds, and opening (this file)
//	auto.go    the best port of those that work on an address
//	list.go    which ports this machine has, and what is missing for those that do not work
//
// A program that needs one kind only can open it in that kind's package, and then links none of the
// others.
package ports

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/packet"
	"github.com/goroce/goroce/transport/pipe"
	"github.com/goroce/goroce/transport/udp"
	"github.com/goroce/goroce/transport/xdp"
)

// kind is a kind of port.
type kind struct {
	name string // what its names begin with
	open transport.Opener
	// probe finds out whether a port could be opened; nil: List leaves the kind out.
	probe func(name string) error
	needs string // beside the address
}

// kinds are those that there are; List has them in this order, the one that needs least first.
var kinds = []kind{
	{"udp", udp.Open, openAndClose(udp.Open), "nothing"},
	{"packet", packet.Open, openAndClose(packet.Open), "Linux, CAP_NET_RAW"},
	{"xdp", xdp.Open, probeXDP, "Linux, CAP_NET_RAW, CAP_NET_ADMIN, CAP_BPF"},
	{"auto", openAuto, nil, "nothing"},
	{"pipe", pipe.Open, nil, "nothing"},
}

// Open opens a port by name:
//
//	udp:ADDRESS        a UDP socket on an address of this machine: "udp:127.0.0.1", "udp:::1",
//	                   "udp:fe80::1%eth0"
//	udp:INTERFACE      the same on all addresses of an interface, IPv4 before IPv6, link-local
//	                   last; without Linux's netlink on the first of them
//	packet:ADDRESS     AF_PACKET sockets on the interface that has the address; also
//	                   packet:INTERFACE. Needs CAP_NET_RAW
//	xdp:ADDRESS        AF_XDP sockets on all queues of the interface that has the address; also
//	                   xdp:INTERFACE. Needs CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF
//	xdp:ADDRESS/QUEUE  the same on one queue: a port for each lane
//	auto:ADDRESS       the best of those that work here: Info.Why says which, and why; also
//	                   auto:INTERFACE
//	pipe:NAME          joins the in-memory segment NAME of this process at a free address 10.0.0.N
//	pipe:NAME/ADDRESS  the same at ADDRESS
//
// Errors are *transport.OpenError. It may be called from any goroutine, and in any network
// namespace: the port stays there.
func Open(name string, o transport.Options) (transport.Port, error) {
	list, err := OpenLanes(name, 1, o)
	if err != nil {
		return nil, err
	}
	return list[0], nil
}

// OpenLanes opens the ports of a device with several lanes. It is a transport.Opener, which says
// how they share the address.
func OpenLanes(name string, lanes int, o transport.Options) ([]transport.Port, error) {
	first, _, colon := strings.Cut(name, ":")
	for _, k := range kinds {
		if k.name == first {
			return k.open(name, lanes, o)
		}
	}
	var all []string
	for _, k := range kinds {
		all = append(all, fmt.Sprintf("%s (needs %s)", k.name, k.needs))
	}
	reason := fmt.Sprintf("%q is not a kind of port; there are %s", first, strings.Join(all, ", "))
	if _, err := netip.ParseAddr(name); !colon || err == nil {
		reason = fmt.Sprintf("the kind of port is missing: udp:%s, or in front of the colon %s",
			name, strings.Join(all, ", "))
		if err != nil && !colon {
			reason += fmt.Sprintf("; if it is an RDMA device of the kernel, verbs:%s, with a program built "+
				"with -tags verbs", name)
		}
	}
	return nil, &transport.OpenError{Name: name, Reason: reason}
}
