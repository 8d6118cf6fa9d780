// auto: the best port of those that work on an address.
//
//	xdp      where the driver receives into our memory and sends from it: the kernel copies nothing. Behind virtio_net it moves 1.2 to
//	         2.1 times what packet does, and as many small messages (bench, cases wire/)
//	packet   answers in half the time of udp, checks all 32 bits of the ICRC and can send from any UDP port, but needs a privilege
//	udp      always
//
// AF_XDP that copies is never the best: packet has runs of packets, and memory of its own that the kernel copies to. On loopback
// packet would reach only other packet ports: the kernel takes no packets there that claim to come from this machine but did not come
// from its own sockets.

package transport

import (
	"errors"
	"net"
)

func openAuto(name, rest string, lanes int, o Options) ([]Port, error) {
	addr, err := udpAddress(name, rest)
	if err != nil {
		return nil, err
	}
	if i, ok := interfaceOf(addr); ok && i.Flags&net.FlagLoopback != 0 {
		o.why = "udp: on loopback a packet port reaches only other packet ports"
		return openUDP(name, rest, lanes, o)
	}
	o.why = "xdp: the driver receives into our memory and sends from it"
	ports, tried, err := openZeroCopy(name, rest, lanes, o)
	if tried && err == nil {
		return ports, nil
	}
	o.why = "packet: half the round trip of udp, and the whole ICRC is checked"
	if tried {
		o.why += "; the driver says it is able to do zero-copy, but " + reasonOf(err)
	}
	if ports, err = openPacket(name, rest, lanes, o); err == nil {
		return ports, nil
	}
	o.why = "udp: " + reasonOf(err)
	return openUDP(name, rest, lanes, o)
}

// reasonOf is what an error of opening a port says, without the port's name.
func reasonOf(err error) string {
	var open *OpenError
	switch {
	case !errors.As(err, &open):
		return err.Error()
	case open.Err != nil:
		return open.Reason + " (" + open.Err.Error() + ")"
	}
	return open.Reason
}
