package stream

// The two headers of datagram rsockets (section 11): before what goes over a UD queue pair, and
// before what goes over a UDP socket while the other end's queue pair is not known.

import (
	"encoding/binary"
	"net/netip"
)

// Sizes of headers, by the version of the address.
const (
	headerSize4, headerSize6 = 8, 24
	askSize4, askSize6       = 16, 28
	MaxAsk                   = askSize6 // the most bytes of an Ask
)

// HeaderSize is how many bytes AppendHeader adds.
func HeaderSize(addr netip.Addr) int {
	if addr.Is4() {
		return headerSize4
	}
	return headerSize6
}

// AppendHeader adds the header of a datagram: whose it is.
func AppendHeader(b []byte, from netip.AddrPort) []byte {
	addr := from.Addr()
	if addr.Is4() {
		b = binary.BigEndian.AppendUint16(append(b, 4, headerSize4), from.Port())
	} else {
		b = binary.BigEndian.AppendUint16(append(b, 6, headerSize6), from.Port())
		b = append(b, 0, 0, 0, 0) // flow information
	}
	return append(b, addr.AsSlice()...)
}

// ParseHeader reads the header, and returns what is behind it.
func ParseHeader(b []byte) (from netip.AddrPort, data []byte, ok bool) {
	switch {
	case len(b) >= headerSize4 && b[0] == 4 && b[1] == headerSize4:
		from = netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), binary.BigEndian.Uint16(b[2:]))
	case len(b) >= headerSize6 && b[0] == 6 && b[1] == headerSize6:
		from = netip.AddrPortFrom(netip.AddrFrom16([16]byte(b[8:24])), binary.BigEndian.Uint16(b[2:]))
	default:
		return from, nil, false
	}
	return from, b[b[1]:], true
}

// Ask is what goes over a UDP socket: the sender's queue pair, and with Data a datagram that asks
// for the receiver's; without, the answer.
type Ask struct {
	Data bool
	QPN  uint32
	Addr netip.Addr // of the sender's queue pair
}

const (
	askTag   = 0x55555555
	askSays  = 7
	askBytes = 0
)

// Append adds the header.
func (a Ask) Append(b []byte) []byte {
	version, size, op := byte(4), byte(askSize4), byte(askSays)
	if !a.Addr.Is4() {
		version, size = 6, askSize6
	}
	if a.Data {
		op = askBytes
	}
	b = append(binary.BigEndian.AppendUint32(b, askTag), version, op, size, 0)
	return append(binary.BigEndian.AppendUint32(b, a.QPN), a.Addr.AsSlice()...)
}

// ParseAsk reads the header, and returns what is behind it.
func ParseAsk(b []byte) (a Ask, data []byte, ok bool) {
	if len(b) < askSize4 || binary.BigEndian.Uint32(b) != askTag || b[5] != askBytes && b[5] != askSays {
		return a, nil, false
	}
	a = Ask{Data: b[5] == askBytes, QPN: binary.BigEndian.Uint32(b[8:]) & 0xffffff}
	switch {
	case b[4] == 4 && b[6] == askSize4:
		a.Addr = netip.AddrFrom4([4]byte(b[12:16]))
	case b[4] == 6 && b[6] == askSize6 && len(b) >= askSize6:
		a.Addr = netip.AddrFrom16([16]byte(b[12:28]))
	default:
		return a, nil, false
	}
	return a, b[b[6]:], true
}
