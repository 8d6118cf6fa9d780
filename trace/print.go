package trace

// A packet as text: one line, or a line for each field.

import (
	"strconv"
	"strings"

	"github.com/goroce/goroce/wire"
)

// AppendLine appends the packet in one line, without a newline: addresses, opcode, every field that
// has not the value it nearly always has, and what is wrong with it.
func (p *Packet) AppendLine(dst []byte) []byte {
	if p.Kind == Other {
		return append(append(strconv.AppendInt(append(dst, "(no RoCE: "...), int64(len(p.Data)), 10), " B, "...),
			p.Why+")"...)
	}
	switch {
	case p.Kind == RoCEv2 && p.ICRC == ICRCRight:
		dst = wire.AppendPacket(dst, &p.Frame)
	case p.Parsed:
		dst = p.appendAddresses(dst)
		dst = wire.AppendTransport(dst, &p.Wire)
		if p.Kind == RoCEv2 {
			dst = wire.AppendIP(dst, &p.Frame)
		}
	case p.HeadCut:
		dst = append(p.appendAddresses(dst), "| CUT: "+p.Problem...)
	default:
		dst = append(p.appendAddresses(dst), "| BAD: "+p.Problem...)
	}
	if p.ICRC == ICRCWrong {
		dst = append(dst, " | BAD ICRC 0x"+hexDigits(uint64(p.Wire.ICRC()), 32)...)
		if p.Kind == RoCEv2 {
			dst = p.appendSolved(dst)
		}
	}
	return p.appendRest(dst)
}

// appendSolved says whether another Identification makes the ICRC right.
func (p *Packet) appendSolved(dst []byte) []byte {
	if id, df, ok := wire.SolveIdentification(&p.Frame); ok && df {
		dst = append(dst, "; right for IP identification 0x"+hexDigits(uint64(id), 16)...)
	}
	return dst
}

// appendRest says what a line of package wire cannot know.
func (p *Packet) appendRest(dst []byte) []byte {
	for _, l := range p.Layers {
		if l.Name == "VLAN" {
			dst = append(dst, " vlan "...)
			dst = strconv.AppendInt(dst, int64(be.Uint16(p.Data[l.At:])&0xfff), 10)
		}
	}
	if p.ICRC == ICRCRightRxe {
		dst = append(dst, " | ICRC as rxe computes it"...)
	}
	if p.Part > 0 {
		dst = append(dst, " | part "...)
		dst = append(strconv.AppendInt(dst, int64(p.Part), 10), " of a run"...)
	}
	if p.Cut > 0 {
		dst = append(dst, " | "...)
		dst = append(strconv.AppendInt(dst, int64(p.Cut), 10), " B not captured"...)
	}
	if p.RunCut {
		dst = append(dst, ", with them the other packets of a run"...)
	}
	if p.Comment != "" {
		dst = append(append(dst, " | "...), Printable(p.Comment)...)
	}
	return dst
}

// appendAddresses writes who sends to whom, and what carries it unless it is RoCEv2.
func (p *Packet) appendAddresses(dst []byte) []byte {
	if p.Kind != RoCEv2 {
		dst = append(append(dst, p.Kind.String()...), ' ')
	}
	src, dest := p.Addresses()
	if src == "" {
		return dst
	}
	return append(append(dst, src+" > "+dest...), ' ')
}

// Addresses are the packet's source and destination as people write them: of IP, of a GRH, or LIDs.
// They are empty if it has none.
func (p *Packet) Addresses() (src, dst string) {
	s, d := p.GIDs()
	switch {
	case p.Kind == InfiniBand && p.body-p.head != grhLen:
		return "lid " + strconv.Itoa(int(be.Uint16(s[14:]))), "lid " + strconv.Itoa(int(be.Uint16(d[14:])))
	case s.IsZero() && d.IsZero():
		return "", ""
	}
	return s.Addr().Unmap().String(), d.Addr().Unmap().String()
}

// AppendFields appends every field of the packet, a line each, a header's behind a line with its
// name.
func (p *Packet) AppendFields(dst []byte) []byte {
	last := ""
	p.EachField(func(f Field) {
		if f.Layer != last {
			last = f.Layer
			dst = append(append(append(dst, "    "...), last...), '\n')
		}
		dst = append(dst, "        "...)
		dst = pad(append(dst, f.Name...), len(f.Name), 24)
		dst = append(dst, f.Text...)
		if f.Meaning != "" {
			dst = append(append(pad(dst, len(f.Text), 20), "  "...), f.Meaning...)
		}
		dst = append(dst, '\n')
	})
	return dst
}

// pad fills what has n columns up to a width.
func pad(dst []byte, n, width int) []byte {
	for ; n < width; n++ {
		dst = append(dst, ' ')
	}
	return dst
}

// Printable replaces what a terminal might obey, or what would break a line: text from a capture is
// anybody's.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case !strconv.IsPrint(r):
			return '�'
		}
		return r
	}, s)
}
