package trace

// Runs: packets of one length, but for a shorter last one, which a Linux host hands to its kernel
// as one datagram (UDP_SEGMENT), or which its kernel has put together again (UDP_GRO). A capture on
// that host shows the datagram. Where it is to be cut is not in it: the first packet ends where
// another BTH could begin and where, as the ICRC says, all is right up to there.

import "github.com/goroce/goroce/wire"

// run is what is left to be cut.
type run struct {
	rec   Record
	whole []byte // the record, up to the end of the last ICRC
	head  int    // where the IP header begins
	body  int    // where the first BTH begins
	size  int    // of a packet from its BTH on; 0: no run at hand
	part  int    // cut so far
	one   []byte // the packet at hand
}

// found says whether p is a run, and begins to cut it. p.Data must stay as it is meanwhile.
func (u *run) found(p *Packet) bool {
	body := p.Frame.Body
	if p.Kind != RoCEv2 || p.Cut > 0 || len(body) < 2*wire.MinBody || p.Parsed && p.ICRC != ICRCWrong {
		return false
	}
	first := (*wire.BTH)(body)
	op := first.Opcode()
	if op.Info().Flags == 0 {
		return false
	}
	from, to := wire.BodyLen(op, 0), wire.BodyLen(op, 0)
	if op.Info().Flags&wire.OpPayload != 0 {
		to = wire.BodyLen(op, wire.MTU4096.Bytes())
	}
	u.rec, u.head, u.body, u.part = p.Record, p.head, p.body, 0
	u.whole = p.Data[:p.body+len(body)]
	for u.size = from; u.size <= min(to, len(body)-wire.MinBody); u.size += 4 {
		if next := (*wire.BTH)(body[u.size:]); next.PKey() != first.PKey() || next.TVer() != 0 ||
			next.Opcode().Info().Flags == 0 {
			continue
		}
		f, drop := wire.SplitFrame(u.make()[u.head:])
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
	putHead(u.one[u.head:u.body], n, u.part)
	return u.one
}

// putHead makes the IP and UDP header of a run that of one of its packets, with a body of n bytes.
func putHead(head []byte, n, part int) {
	switch len(head) {
	case wire.Head4Len:
		h := (*wire.IPv4)(head)
		h.SetTotalLength(uint16(wire.Head4Len + n))
		h.SetIdentification(h.Identification() + uint16(part))
		h.UpdateChecksum()
		be.PutUint16(head[24:], uint16(8+n))
	case wire.Head6Len:
		(*wire.IPv6)(head).SetPayloadLength(uint16(8 + n))
		be.PutUint16(head[44:], uint16(8+n))
	}
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
