package trace

// Runs: packets of one length, but for a shorter last one, which a Linux host hands to its kernel
// as one datagram (UDP_SEGMENT). A capture on that host shows the datagram. Where it is to be cut
// is not in it; but the opcode leaves few lengths for its first packet, one for each path MTU, and
// the ICRC says which of them is right.

import "github.com/goroce/goroce/wire"

// run is what is left to be cut.
type run struct {
	rec   Record
	whole []byte // the record
	head  int    // where the IP header begins
	body  int    // where the first BTH begins
	size  int    // of a packet from its BTH on; 0: no run at hand
	part  int    // cut so far
	one   []byte // the packet at hand
}

// found says whether p is a run, and begins to cut it.
func (u *run) found(p *Packet) bool {
	body := p.Frame.Body
	if p.Kind != RoCEv2 || !p.Parsed || p.ICRC != ICRCWrong || p.Wire.Op.Flags&wire.OpPayload == 0 {
		return false
	}
	op := p.Wire.Opcode
	for _, mtu := range [...]int{4096, 2048, 1024, 512, 256} {
		n := wire.BodyLen(op, mtu)
		if n >= len(body) {
			continue
		}
		u.rec, u.head, u.body, u.part = p.Record, p.head, p.body, 0
		u.whole = append(u.whole[:0], p.Data[:p.body+len(body)]...)
		u.size = n
		first := u.make()
		f, drop := wire.SplitFrame(first[u.head:])
		if drop == wire.DropNone && wire.Verify(&f) {
			return true
		}
	}
	u.size = 0
	return false
}

// make puts the next packet together: its headers as the kernel will write them.
func (u *run) make() []byte {
	n := min(u.size, len(u.whole)-u.body-u.part*u.size)
	u.one = append(u.one[:0], u.whole[:u.body]...)
	u.one = append(u.one, u.whole[u.body+u.part*u.size:][:n]...)
	ip := u.one[u.head:]
	switch u.body - u.head {
	case wire.Head4Len:
		h := (*wire.IPv4)(ip)
		h.SetTotalLength(uint16(wire.Head4Len + n))
		h.SetIdentification(h.Identification() + uint16(u.part))
		h.UpdateChecksum()
		be.PutUint16(ip[24:], uint16(8+n))
	case wire.Head6Len:
		(*wire.IPv6)(ip).SetPayloadLength(uint16(8 + n))
		be.PutUint16(ip[44:], uint16(8+n))
	}
	return u.one
}

// cut makes p the next packet of the run, if there is one.
func (u *run) cut(p *Packet) bool {
	if u.size == 0 {
		return false
	}
	if u.body+u.part*u.size >= len(u.whole) {
		u.size = 0
		return false
	}
	p.Record = u.rec
	p.Data = u.make()
	p.Length = len(p.Data)
	u.part++
	p.Part = u.part
	p.Decode()
	return true
}
