package trace

// Every field of a packet. Stages: the headers below the transport, by rows.go's tables → BTH and
// extension headers, by the opcode → a management datagram, by wire's table → payload, pad, ICRC.

import (
	"net/netip"
	"strconv"

	"github.com/goroce/goroce/wire"
)

// Field is a field of a header as it lies in a packet.
type Field struct {
	Layer   string // the header: "BTH"
	Name    string // "psn"
	Bit     int    // where its most significant bit is, from the packet's first byte
	Bits    int    // its width
	Value   uint64 // of a field of up to 64 bits
	Text    string // the value as people write it
	Meaning string // what the value says here, "" if the name says all
	Missing bool   // the capture has cut it off
}

// style is how a value is written.
type style uint8

const (
	decimal style = iota
	hexadecimal
	binaryDigits
	mac
	address // IPv4 or IPv6, by its width
	octets
)

// row is a field in the table of a header.
type row struct {
	name      string
	bit, bits int // from the header's first byte
	style     style
	means     func(p *Packet, v uint64) string // nil: the name says all
}

// EachField calls f with every field of the packet, in the order of its bytes. What nothing is
// known of is one field, "data".
func (p *Packet) EachField(f func(Field)) {
	end := 0
	for _, l := range p.Layers {
		p.header(l.Name, l.At, l.Len, f)
		end = l.At + l.Len
	}
	if !p.Parsed {
		p.unknown(end, f)
		return
	}
	at := p.body
	p.header("BTH", at, wire.BTHLen, f)
	for _, h := range p.Wire.Op.Headers {
		p.header(h.String(), at+int(p.Wire.Op.Off[h]), h.Size(), f)
	}
	at += int(p.Wire.Op.HdrLen)
	p.eachPayload(at, f)
	at += len(p.Wire.Payload)
	if n := int(p.Wire.BTH.PadCount()); n > 0 {
		p.raw("pad", "pad", at, n, "zeros, so that the ICRC begins at a multiple of four", f)
		at += n
	}
	p.icrcField(at, f)
	if at += wire.ICRCLen; at < len(p.Data) {
		meaning := "belongs to no packet: the padding of a short Ethernet frame, or a checksum of the link"
		if p.RunCut {
			meaning = "the other packets of a run, which the kernel handles as one datagram"
		}
		p.raw("after", "data", at, len(p.Data)-at, meaning, f)
	}
}

// EachNumber is EachField without texts and meanings of the fields of up to 64 bits, and of the
// headers that are wanted only (nil: of all), which is quicker.
func (p *Packet) EachNumber(wanted map[string]bool, f func(Field)) {
	p.numbers, p.wanted = true, wanted
	defer func() { p.numbers, p.wanted = false, nil }()
	p.EachField(f)
}

// unknown shows what follows the headers that were found.
func (p *Packet) unknown(end int, f func(Field)) {
	if p.Problem == "" || len(p.Frame.Body) < wire.BTHLen {
		p.raw("data", "data", end, len(p.Data)-end, p.Why+p.Problem, f)
		return
	}
	p.header("BTH", p.body, wire.BTHLen, f)
	at := p.body + wire.BTHLen
	p.raw("data", "data", at, len(p.Data)-at, "not looked at: "+p.Problem, f)
}

// header shows the fields of a header by its table.
func (p *Packet) header(name string, at, n int, f func(Field)) {
	if p.wanted != nil && !p.wanted[name] {
		return
	}
	for i := range rows[name] {
		r := &rows[name][i]
		if r.bit+r.bits > 8*n {
			continue
		}
		x := Field{Layer: name, Name: r.name, Bit: 8*at + r.bit, Bits: r.bits}
		p.fill(&x, r.style)
		if r.means != nil && !x.Missing && !p.numbers {
			x.Meaning = r.means(p, x.Value)
		}
		f(x)
	}
}

// eachPayload shows the payload: a message of the connection manager by its fields.
func (p *Packet) eachPayload(at int, f func(Field)) {
	n := len(p.Wire.Payload)
	if n == 0 {
		return
	}
	m := wire.MADOf(&p.Wire)
	if m != nil && p.wanted != nil && !p.wanted["MAD"] {
		return
	}
	if m == nil || p.Cut > 0 {
		p.raw("payload", "payload", at, n, "", f)
		return
	}
	p.header("MAD", at, 24, f)
	err := wire.EachCMField(m, func(c wire.CMField) {
		x := Field{
			Layer:   "CM " + m.Attribute().String(),
			Name:    c.Name,
			Bit:     8*at + c.Bit,
			Bits:    c.Bits,
			Value:   c.Value,
			Meaning: c.Text,
		}
		p.fill(&x, cmStyle(c))
		f(x)
	})
	if err != nil {
		p.raw("payload", "payload", at+24, n-24, err.Error(), f)
	}
}

// cmStyle is how a field of the connection manager is written: a number in decimal up to 8 bits.
func cmStyle(c wire.CMField) style {
	switch {
	case c.Bits == 128:
		return address
	case c.Bits > 64:
		return octets
	case c.Bits > 8:
		return hexadecimal
	}
	return decimal
}

// raw shows n bytes that have no inner structure.
func (p *Packet) raw(layer, name string, at, n int, meaning string, f func(Field)) {
	if n <= 0 || at > len(p.Data) || p.wanted != nil && !p.wanted[layer] {
		return
	}
	x := Field{Layer: layer, Name: name, Bit: 8 * at, Bits: 8 * n, Meaning: meaning}
	p.fill(&x, octets)
	f(x)
}

func (p *Packet) icrcField(at int, f func(Field)) {
	x := Field{Layer: "ICRC", Name: "icrc", Bit: 8 * at, Bits: 32}
	if !p.numbers {
		x.Meaning = p.ICRCMeaning()
	}
	if p.fill(&x, hexadecimal); !x.Missing {
		x.Value = uint64(p.Wire.ICRC())
		x.Text = "0x" + hexDigits(x.Value, 32)
	}
	f(x)
}

// fill reads the field's value and writes it as a text.
func (p *Packet) fill(x *Field, s style) {
	if end := (x.Bit + x.Bits + 7) / 8; end > len(p.Data)-p.Cut {
		x.Missing, x.Text = true, "(not captured)"
		return
	}
	b := p.Data[x.Bit/8 : (x.Bit+x.Bits+7)/8]
	if x.Bits <= 64 {
		var v uint64
		for _, c := range b[:min(len(b), 8)] {
			v = v<<8 | uint64(c)
		}
		x.Value = v >> uint(8*len(b)-x.Bit%8-x.Bits) & (1<<uint(x.Bits) - 1)
	}
	if p.numbers && x.Bits <= 64 {
		return
	}
	switch s {
	case decimal:
		x.Text = strconv.FormatUint(x.Value, 10)
	case hexadecimal:
		x.Text = "0x" + hexDigits(x.Value, x.Bits)
	case binaryDigits:
		x.Text = "0b" + hexDigitsOf(x.Value, x.Bits, 1)
	case address:
		a, _ := netip.AddrFromSlice(b)
		x.Text = a.Unmap().String()
	case mac, octets:
		x.Text = spaced(b, s == mac)
	}
}

// hexDigits writes v with as many digits as bits need.
func hexDigits(v uint64, bits int) string { return hexDigitsOf(v, (bits+3)/4, 4) }

// hexDigitsOf writes n digits of a number of bits each.
func hexDigitsOf(v uint64, n, bits int) string {
	b := make([]byte, n)
	for i := range b {
		b[n-1-i] = "0123456789abcdef"[v&(1<<bits-1)]
		v >>= bits
	}
	return string(b)
}

// spaced writes bytes, at most sixteen of them.
func spaced(b []byte, colons bool) string {
	var out []byte
	for i, c := range b {
		if i == 16 {
			return string(out) + " ... (" + strconv.Itoa(len(b)) + " bytes)"
		}
		if i > 0 && colons {
			out = append(out, ':')
		} else if i > 0 && i%4 == 0 {
			out = append(out, ' ')
		}
		out = append(out, "0123456789abcdef"[c>>4], "0123456789abcdef"[c&15])
	}
	return string(out)
}
