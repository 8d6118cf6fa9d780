package qptest

// Packets in scripts: a Match says what one must look like, a Craft makes one by hand.

import (
	"bytes"
	"fmt"

	"github.com/goroce/goroce/wire"
)

// Match looks at a packet and says what is wrong with it; empty if nothing is.
type Match func(p *wire.Packet) string

// Pkt is the template of a packet: its opcode, its PSN, and whatever more matters.
func Pkt(op wire.Opcode, psn wire.PSN, more ...Match) Match {
	return func(p *wire.Packet) string {
		if p.Opcode != op || p.BTH.PSN() != psn&wire.PSNMask {
			return fmt.Sprintf("want %v PSN %d", op, psn&wire.PSNMask)
		}
		for _, m := range more {
			if s := m(p); s != "" {
				return s
			}
		}
		return ""
	}
}

// Ack is an ACK of everything up to a PSN, without credits.
func Ack(psn wire.PSN, more ...Match) Match { return Nak(wire.SynACK, psn, more...) }

// Nak is an ACKNOWLEDGE packet with a syndrome.
func Nak(s wire.Syndrome, psn wire.PSN, more ...Match) Match {
	return Pkt(wire.RCAcknowledge, psn, append([]Match{Syn(s)}, more...)...)
}

func field[T comparable](name string, got, want T) string {
	if got != want {
		return fmt.Sprintf("want %s %v, got %v", name, want, got)
	}
	return ""
}

// Syn matches the syndrome.
func Syn(s wire.Syndrome) Match {
	return func(p *wire.Packet) string { return field("syndrome", p.AETH().Syndrome(), s) }
}

// MSN matches the message sequence number.
func MSN(n uint32) Match {
	return func(p *wire.Packet) string { return field("MSN", p.AETH().MSN(), wire.PSN(n)) }
}

// RETH matches the RDMA header.
func RETH(va uint64, rkey, n uint32) Match {
	return func(p *wire.Packet) string {
		h := p.RETH()
		return field("RETH", [3]uint64{h.VA(), uint64(h.RKey()), uint64(h.DMALen())},
			[3]uint64{va, uint64(rkey), uint64(n)})
	}
}

// AckReq matches the A bit.
func AckReq(on bool) Match {
	return func(p *wire.Packet) string { return field("A", p.BTH.AckReq(), on) }
}

// Solicited matches the SE bit.
func Solicited(on bool) Match {
	return func(p *wire.Packet) string { return field("SE", p.BTH.Solicited(), on) }
}

// Imm matches the immediate data.
func Imm(v uint32) Match {
	return func(p *wire.Packet) string { return field("immediate", p.ImmDt().Imm(), v) }
}

// Inv matches the key to invalidate.
func Inv(key uint32) Match {
	return func(p *wire.Packet) string { return field("invalidated key", p.IETH().RKey(), key) }
}

// Orig matches the original value of an atomic reply.
func Orig(v uint64) Match {
	return func(p *wire.Packet) string { return field("original value", p.AtomicAckETH().Orig(), v) }
}

// Payload matches all bytes of the payload.
func Payload(b []byte) Match {
	return func(p *wire.Packet) string {
		if !bytes.Equal(p.Payload, b) {
			return fmt.Sprintf("payload of %d bytes differs from the %d wanted", len(p.Payload), len(b))
		}
		return ""
	}
}

// Size matches the length of the payload.
func Size(n int) Match {
	return func(p *wire.Packet) string { return field("payload bytes", len(p.Payload), n) }
}

// Craft is a packet made by hand. Zero values are what an honest peer would send.
type Craft struct {
	Op        wire.Opcode
	PSN       wire.PSN
	AckReq    bool
	Solicited bool
	MigReq    bool
	Payload   []byte

	VA      uint64 // RETH, AtomicETH
	RKey    uint32 // and IETH
	Len     uint32
	SwapAdd uint64
	Compare uint64
	Imm     uint32
	QKey    uint32
	SrcQP   uint32
	Syn     wire.Syndrome
	MSN     wire.PSN
	Orig    uint64

	Placement, Selectivity uint8  // FETH
	SRQN                   uint32 // XRCETH

	Tamper func(f *wire.Frame) // before the ICRC is made: anything that is not honest
	Break  func(f *wire.Frame) // after that
}

// Frame builds the packet for a queue pair at the end of a path.
func (c *Craft) Frame(path *wire.Path, qpn uint32) wire.Frame {
	f := wire.Frame{Head: make([]byte, path.HeadLen()), Body: make([]byte, wire.BodyLen(c.Op, len(c.Payload)))}
	path.PutHead(f.Head, len(f.Body), 0)
	var p wire.Packet
	if !p.Lay(&f, c.Op, len(c.Payload)) {
		panic(fmt.Sprintf("qptest: cannot craft %v", c.Op))
	}
	var flags wire.BTHFlags
	for _, b := range []struct {
		on   bool
		flag wire.BTHFlags
	}{{c.AckReq, wire.BTHAckReq}, {c.Solicited, wire.BTHSolicited}, {c.MigReq, wire.BTHMigReq}} {
		if b.on {
			flags |= b.flag
		}
	}
	p.BTH.Put(c.Op, flags, uint8(wire.Pad(len(c.Payload))), wire.DefaultPKey, qpn, c.PSN&wire.PSNMask)
	c.extend(&p)
	copy(p.Payload, c.Payload)
	if c.Tamper != nil {
		c.Tamper(&f)
	}
	wire.Seal(&f)
	if c.Break != nil {
		c.Break(&f)
	}
	return f
}

// extend fills the extension headers that the opcode has.
func (c *Craft) extend(p *wire.Packet) {
	if h := p.RETH(); h != nil {
		h.Put(c.VA, c.RKey, c.Len)
	}
	if h := p.AtomicETH(); h != nil {
		h.Put(c.VA, c.RKey, c.SwapAdd, c.Compare)
	}
	if h := p.XRCETH(); h != nil {
		h.Put(c.SRQN)
	}
	if h := p.FETH(); h != nil {
		h.Put(c.Placement, c.Selectivity)
	}
	if h := p.ImmDt(); h != nil {
		h.Put(c.Imm)
	}
	if h := p.IETH(); h != nil {
		h.Put(c.RKey)
	}
	if h := p.DETH(); h != nil {
		h.Put(c.QKey, c.SrcQP)
	}
	if h := p.AETH(); h != nil {
		h.Put(c.Syn, c.MSN)
	}
	if h := p.AtomicAckETH(); h != nil {
		h.Put(c.Orig)
	}
}
