// auto: the better port of those that work on an address.
//
// A packet port answers in half the time of a UDP port, checks all 32 bits of the ICRC and can send from any UDP port, but
// needs a privilege. On loopback it would reach only other packet ports: the kernel takes no packets there that claim to
// come from this machine but did not come from its own sockets.

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
	o.why = "packet: half the round trip of udp, and the whole ICRC is checked"
	ports, err := openPacket(name, rest, lanes, o)
	if err == nil {
		return ports, nil
	}
	o.why = "udp: " + err.Error()
	var open *OpenError
	if errors.As(err, &open) {
		o.why = "udp: " + open.Reason
	}
	return openUDP(name, rest, lanes, o)
}
