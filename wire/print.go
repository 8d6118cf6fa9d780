package wire

// One line of text per packet.
//
//	127.0.0.1 > 127.0.0.2 RC RDMA_WRITE_FIRST qp 0x000012 psn 5 va 0x7f0000001000
//	rkey 0x00001234 dmalen 65536 | 4096 B |
//	    sport 49443        (in one line)
//
// From left to right: addresses, opcode, BTH, extension headers in wire order, payload, what IP and
// UDP say, and last what is wrong. Left out are fields that have the value they nearly always have:
// P_Key 0xffff, pad 0, TVer 0, TOS 0, TTL 64, Identification 0 with DF set, flow label 0, UDP
// checksum 0, flags that are not set, and an ICRC that is right.

import (
	"net/netip"
	"strconv"
)

// AppendPacket appends a line, without a newline, that shows every field of every header of the
// packet and what is wrong with it. It accepts any frame.
func AppendPacket(dst []byte, f *Frame) []byte {
	dst = appendGID(dst, f.Src())
	dst = append(dst, " > "...)
	dst = appendGID(dst, f.Dst())
	dst = append(dst, ' ')
	var p Packet
	if drop := Parse(f, &p); drop != DropNone {
		return appendUnparsed(dst, f, drop)
	}
	dst = AppendIP(AppendTransport(dst, &p), f)
	if !Verify(f) {
		dst = appendBadICRC(dst, f)
	}
	return dst
}

// AppendTransport appends the middle of such a line: what the BTH, the extension headers and a
// management datagram say, and how long the payload is. It needs no IP header.
func AppendTransport(dst []byte, p *Packet) []byte {
	dst = append(dst, p.Opcode.String()...)
	dst = appendBTH(dst, p.BTH)
	for _, h := range p.Op.Headers {
		dst = headerPrinters[h](dst, p)
	}
	if p.Op.Flags&OpPayload != 0 || len(p.Payload) > 0 {
		dst = appendDecimal(dst, " | ", uint64(len(p.Payload)))
		dst = append(dst, " B"...)
	}
	if n := p.BTH.PadCount(); n != 0 {
		dst = appendDecimal(dst, " pad ", uint64(n))
	}
	return appendMAD(dst, p)
}

// appendUnparsed says what can be said of a frame that Parse refuses.
func appendUnparsed(dst []byte, f *Frame, drop DropReason) []byte {
	if len(f.Body) >= BTHLen {
		bth := (*BTH)(f.Body)
		dst = append(dst, bth.Opcode().String()...)
		dst = appendBTH(dst, bth)
	} else {
		dst = append(dst, "RoCEv2"...)
	}
	dst = appendDecimal(dst, " | body ", uint64(len(f.Body)))
	dst = append(dst, " B"...)
	dst = AppendIP(dst, f)
	return append(append(dst, " | BAD: "...), drop.Explain()...)
}

// bthFlagNames lists the single bits of a BTH as they are printed.
var bthFlagNames = [...]struct {
	flag BTHFlags
	name string
}{
	{BTHAckReq, " ackreq"},
	{BTHSolicited, " se"},
	{BTHMigReq, " migreq"},
	{BTHFECN, " fecn"},
	{BTHBECN, " becn"},
}

func appendBTH(dst []byte, h *BTH) []byte {
	dst = appendHex(append(dst, " qp 0x"...), uint64(h.DestQP()), 6)
	dst = appendDecimal(dst, " psn ", uint64(h.PSN()))
	flags := h.Flags()
	for _, x := range bthFlagNames {
		if flags&x.flag != 0 {
			dst = append(dst, x.name...)
		}
	}
	if k := h.PKey(); k != DefaultPKey {
		dst = appendHex(append(dst, " pkey 0x"...), uint64(k), 4)
	}
	if v := h.TVer(); v != 0 {
		dst = appendDecimal(dst, " tver ", uint64(v))
	}
	return dst
}

// headerPrinters prints an extension header that the packet has.
var headerPrinters = [NumHeaders]func(dst []byte, p *Packet) []byte{
	HdrRETH: func(dst []byte, p *Packet) []byte {
		h := p.RETH()
		dst = appendHex(append(dst, " va 0x"...), h.VA(), 1)
		dst = appendHex(append(dst, " rkey 0x"...), uint64(h.RKey()), 8)
		return appendDecimal(dst, " dmalen ", uint64(h.DMALen()))
	},
	HdrAETH: func(dst []byte, p *Packet) []byte {
		h := p.AETH()
		dst = h.Syndrome().append(append(dst, ' '))
		return appendDecimal(dst, " msn ", uint64(h.MSN()))
	},
	HdrAtomicETH: func(dst []byte, p *Packet) []byte {
		h := p.AtomicETH()
		dst = appendHex(append(dst, " va 0x"...), h.VA(), 1)
		dst = appendHex(append(dst, " rkey 0x"...), uint64(h.RKey()), 8)
		if p.Opcode&0x1f != RCFetchAdd {
			dst = appendHex(append(dst, " swap 0x"...), h.SwapAdd(), 1)
			return appendHex(append(dst, " compare 0x"...), h.Compare(), 1)
		}
		dst = appendHex(append(dst, " add 0x"...), h.SwapAdd(), 1)
		if h.Compare() != 0 {
			dst = appendHex(append(dst, " (compare 0x"...), h.Compare(), 1)
			dst = append(dst, " ignored)"...)
		}
		return dst
	},
	HdrAtomicAckETH: func(dst []byte, p *Packet) []byte {
		return appendHex(append(dst, " orig 0x"...), p.AtomicAckETH().Orig(), 1)
	},
	HdrImmDt: func(dst []byte, p *Packet) []byte {
		return appendHex(append(dst, " imm 0x"...), uint64(p.ImmDt().Imm()), 8)
	},
	HdrIETH: func(dst []byte, p *Packet) []byte {
		return appendHex(append(dst, " invalidate 0x"...), uint64(p.IETH().RKey()), 8)
	},
	HdrDETH: func(dst []byte, p *Packet) []byte {
		h := p.DETH()
		dst = appendHex(append(dst, " qkey 0x"...), uint64(h.QKey()), 8)
		return appendHex(append(dst, " srcqp 0x"...), uint64(h.SrcQP()), 6)
	},
	HdrRDETH: func(dst []byte, p *Packet) []byte {
		return appendHex(append(dst, " eec 0x"...), uint64(p.RDETH().EEContext()), 6)
	},
	HdrXRCETH: func(dst []byte, p *Packet) []byte {
		return appendHex(append(dst, " srqn 0x"...), uint64(p.XRCETH().SRQN()), 6)
	},
	HdrFETH: func(dst []byte, p *Packet) []byte {
		h := p.FETH()
		dst = appendHex(append(dst, " plt 0x"...), uint64(h.Placement()), 1)
		dst = append(dst, placementNames[h.Placement()&3]...)
		dst = appendDecimal(dst, " sel ", uint64(h.Selectivity()))
		return append(dst, selectivityNames[h.Selectivity()]...)
	},
	HdrCNPReserved: func(dst []byte, p *Packet) []byte {
		if b := p.at(HdrCNPReserved); [16]byte(b) != [16]byte{} {
			dst = append(dst, " (reserved bytes are not 0)"...)
		}
		return dst
	},
}

var (
	placementNames   = [4]string{"", " (global)", " (persistent)", " (global, persistent)"}
	selectivityNames = [4]string{" (range)", " (whole region)", "", ""}
)

// appendMAD explains the management datagram that a packet to queue pair 1 carries.
func appendMAD(dst []byte, p *Packet) []byte {
	m := MADOf(p)
	if m == nil {
		return dst
	}
	return AppendMAD(append(dst, " | "...), m)
}

// AppendMAD appends what a management datagram says: "CM REQ tid 0x… local id 0x…", without fields
// that are 0.
func AppendMAD(dst []byte, m *MAD) []byte {
	msg, err := ParseCM(m)
	if err != nil {
		dst = appendDecimal(dst, "MAD class ", uint64(m.MgmtClass()))
		dst = appendDecimal(dst, " method ", uint64(m.Method()))
		return appendHex(append(dst, " attribute 0x"...), uint64(m.Attribute()), 4)
	}
	dst = append(append(dst, "CM "...), msg.Attribute().String()...)
	dst = appendHex(append(dst, " tid 0x"...), m.TransactionID(), 1)
	if x := m.AttributeModifier(); x != 0 {
		dst = appendHex(append(dst, " modifier 0x"...), uint64(x), 8)
	}
	w := cmWalker{mode: cmPrint, text: dst}
	msg.walk(&w)
	switch msg := msg.(type) {
	case *CMReq:
		return appendCMIP(w.text, msg.ServiceID, msg.PrivateData[:])
	case *CMSidrReq:
		return appendCMIP(w.text, msg.ServiceID, msg.PrivateData[:])
	}
	return w.text
}

// appendCMIP prints who calls whom when the service ID is that of an IP port.
func appendCMIP(dst []byte, service uint64, private []byte) []byte {
	ps, port, ok := CMServicePort(service)
	var h CMIPHeader
	if !ok || h.Get(private) != nil {
		return dst
	}
	dst = appendGID(append(dst, " ("...), h.Src)
	dst = appendDecimal(dst, " port ", uint64(h.SrcPort))
	dst = appendGID(append(dst, " calls "...), h.Dst)
	dst = appendDecimal(dst, " port ", uint64(port))
	return append(appendHex(append(dst, " space 0x"...), uint64(ps), 4), ')')
}

// AppendIP appends the end of such a line: what IP and UDP say beyond the addresses.
func AppendIP(dst []byte, f *Frame) []byte {
	u := f.UDP()
	if u == nil {
		return append(dst, " | no IP header"...)
	}
	dst = appendDecimal(dst, " | sport ", uint64(u.SrcPort()))
	switch tos := f.TOS(); tos {
	case 0:
	case ECNCapable0: // all that RoCE devices usually say
		dst = append(dst, " ect(0)"...)
	default:
		dst = appendHex(append(dst, " tos 0x"...), uint64(tos), 2)
	}
	if f.ECN() == ECNCongestion {
		dst = append(dst, " (congestion experienced)"...)
	}
	if ttl := f.TTL(); ttl != 64 {
		dst = appendDecimal(dst, " ttl ", uint64(ttl))
	}
	if h := f.IPv4(); h != nil && f.Flags&FrameSynthHead == 0 {
		if id := h.Identification(); id != 0 {
			dst = appendHex(append(dst, " id 0x"...), uint64(id), 4)
		}
		if h.Fragment()&DontFragment == 0 {
			dst = append(dst, " no-df"...)
		}
	}
	if h := f.IPv6(); h != nil && h.FlowLabel() != 0 {
		dst = appendHex(append(dst, " flow 0x"...), uint64(h.FlowLabel()), 5)
	}
	if c := u.Checksum(); c != 0 {
		dst = appendHex(append(dst, " checksum 0x"...), uint64(c), 4)
	}
	if int(u.Length()) != udpLen+len(f.Body) {
		dst = appendDecimal(dst, " BAD: UDP length ", uint64(u.Length()))
	}
	if u.DstPort() != UDPPort {
		dst = appendDecimal(dst, " BAD: destination port ", uint64(u.DstPort()))
	}
	return dst
}

// appendBadICRC shows the wrong ICRC and the right one, and says when only the IPv4 Identification
// is to blame: something on the sender's side changed it after the ICRC was made.
func appendBadICRC(dst []byte, f *Frame) []byte {
	dst = appendHex(append(dst, " | BAD ICRC 0x"...), uint64(le.Uint32(f.Body[len(f.Body)-ICRCLen:])), 8)
	dst = appendHex(append(dst, ", computed 0x"...), uint64(icrc(f)), 8)
	if id, df, ok := SolveIdentification(f); ok {
		dst = appendHex(append(dst, "; right for IP identification 0x"...), uint64(id), 4)
		if !df {
			dst = append(dst, " without DF"...)
		}
	}
	return dst
}

// appendGID prints an address the short way: IPv4 without its prefix.
func appendGID(dst []byte, g GID) []byte {
	if g.IsZero() {
		return append(dst, '?')
	}
	return netip.AddrFrom16(g).Unmap().AppendTo(dst)
}

func appendDecimal(dst []byte, label string, v uint64) []byte {
	return strconv.AppendUint(append(dst, label...), v, 10)
}

// appendHex appends v as at least digits hexadecimal digits.
func appendHex(dst []byte, v uint64, digits int) []byte {
	for d := 15; d >= 0; d-- {
		if n := v >> (4 * d); n != 0 || d < digits {
			dst = append(dst, "0123456789abcdef"[n&15])
		}
	}
	return dst
}
