package ports

// auto: the best port of those that work on an address.
//
//	xdp      where the driver receives into our memory and sends from it: the kernel copies
//	         nothing. Behind virtio_net it moves 1.2 to 2.1 times what packet does, and as many
//	         small messages (bench, cases wire/)
//	packet   answers in half the time of udp, checks all 32 bits of the ICRC and can send from any
//	         UDP port, but needs a privilege
//	udp      always
//
// AF_XDP that copies is never the best: packet has runs of packets, and memory of its own that the
// kernel copies to. On loopback packet would reach only other packet ports: the kernel takes no
// packets there that claim to come from this machine but did not come from its own sockets.

import (
	"errors"
	"net"

	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/internal/host"
	"github.com/goroce/goroce/transport/packet"
	"github.com/goroce/goroce/transport/udp"
	"github.com/goroce/goroce/transport/xdp"
)

func openAuto(name string, lanes int, o transport.Options) ([]transport.Port, error) {
	where, err := transport.Where(name, lanes)
	if err != nil {
		return nil, err
	}
	addr, _, err := host.Address(name, where)
	if err != nil {
		return nil, err
	}
	if i, ok := host.InterfaceOf(addr); ok && i.Flags&net.FlagLoopback != 0 {
		o.Why = "udp: on loopback a packet port reaches only other packet ports"
		return udp.Open(name, lanes, o)
	}
	o.Why = "xdp: the driver receives into our memory and sends from it"
	ports, tried, err := xdp.OpenZeroCopy(name, lanes, o)
	if tried && err == nil {
		return ports, nil
	}
	o.Why = "packet: half the round trip of udp, and the whole ICRC is checked"
	if tried {
		o.Why += "; the driver says it is able to do zero-copy, but " + reasonOf(err)
	}
	if ports, err = packet.Open(name, lanes, o); err == nil {
		return ports, nil
	}
	o.Why = "udp: " + reasonOf(err)
	return udp.Open(name, lanes, o)
}

// reasonOf is what an error of opening a port says, without the port's name.
func reasonOf(err error) string {
	var open *transport.OpenError
	switch {
	case !errors.As(err, &open):
		return err.Error()
	case open.Err != nil:
		return open.Reason + " (" + open.Err.Error() + ")"
	}
	return open.Reason
}
