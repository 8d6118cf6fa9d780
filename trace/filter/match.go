package filter

// Values of packets, and what they are compared with.

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/goroce/goroce/trace"
	"github.com/goroce/goroce/wire"
)

// value is one of a field in a packet: a number, or bytes.
type value struct {
	n uint64
	b []byte
}

// Match says whether a packet is one that the expression describes. Packets come in the order of
// the capture: frame.time_relative counts from the first of them.
func (f *Filter) Match(p *trace.Packet) bool {
	if !f.begun {
		f.begun, f.first = true, p.Time
	}
	f.packet, f.walked = p, false
	return f.test(f)
}

// valuesOf is how a field's values are found in the packet at hand.
func (f *Filter) valuesOf(x *field) func(*Filter) []value {
	if x.get != nil {
		var one [1]value
		return func(f *Filter) []value {
			v, ok := x.get(f, f.packet)
			if !ok {
				return nil
			}
			one[0] = v
			return one[:]
		}
	}
	slot := len(f.values)
	f.values = append(f.values, nil)
	in := f.slots
	if x.kind == present {
		in = f.heads
	}
	for _, part := range x.parts {
		in[part] = append(in[part], slot)
		header, _, _ := strings.Cut(part, ".")
		f.names[header] = true
		f.names["MAD"] = f.names["MAD"] || strings.HasPrefix(header, "CM ") // these lie in one
	}
	return func(f *Filter) []value {
		f.walk()
		return f.values[slot]
	}
}

// walk finds the values of all fields that the expression names, once for a packet.
func (f *Filter) walk() {
	if f.walked {
		return
	}
	f.walked = true
	for i := range f.values {
		f.values[i] = f.values[i][:0]
	}
	f.packet.EachNumber(f.names, func(x trace.Field) {
		for _, slot := range f.heads[x.Layer] {
			f.values[slot] = append(f.values[slot], value{})
		}
		slots := f.slots[x.Layer+"."+x.Name]
		if slots == nil || x.Missing {
			return
		}
		v := value{n: x.Value}
		if x.Bit%8 == 0 && x.Bits%8 == 0 {
			v.b = f.packet.Data[x.Bit/8 : (x.Bit+x.Bits)/8]
		}
		for _, slot := range slots {
			f.values[slot] = append(f.values[slot], v)
		}
	})
}

// operand is what a field is compared with.
type operand struct {
	kind kind
	n    uint64
	b    []byte
	net  netip.Prefix
}

// network says whether it is a network of more than one address.
func (o *operand) network() bool { return o.net.IsValid() && !o.net.IsSingleIP() }

// holds says whether a packet's value is in a relation to it.
func (o *operand) holds(relation string, v value) bool {
	order := 0
	switch o.kind {
	case number, opcode, seconds:
		order = cmpUint(v.n, o.n)
	case octets, text:
		order = bytes.Compare(v.b, o.b)
	case address:
		a, ok := netip.AddrFromSlice(v.b)
		if a = a.Unmap(); !ok || a.Is4() != o.net.Addr().Is4() {
			return false
		}
		if relation == "==" {
			return o.net.Contains(a)
		}
		order = a.Compare(o.net.Addr())
	}
	switch relation {
	case "==":
		return order == 0
	case "<":
		return order < 0
	case ">":
		return order > 0
	case "<=":
		return order <= 0
	}
	return order >= 0
}

func cmpUint(a, b uint64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// value reads what a field is compared with. ordered: by more than ==.
func (p *parser) value(x *field, ordered bool) (*operand, error) {
	end := p.ended()
	w := p.word()
	if end || !w.quoted && slices.Contains(signs, w.text) {
		return nil, p.wrong(w, "a value for %s is missing", x.name)
	}
	o, err := &operand{kind: x.kind}, error(nil)
	switch x.kind {
	case number:
		if o.n, err = numberOf(w.text); w.quoted {
			err = fmt.Errorf("%q is a text: a number has no quotation marks", cut(w.text))
		}
		if bits := widths[x.name]; err == nil && bits > 0 && bits < 64 && o.n >= 1<<bits {
			err = fmt.Errorf("%s is too large: the field has %d bits, up to %#x", w.text, bits, uint64(1)<<bits-1)
		}
	case opcode:
		if o.n, err = opcodeOf(w.text); err == nil && o.n > 0xff {
			err = fmt.Errorf("%s is too large: an opcode has 8 bits", w.text)
		}
	case seconds:
		o.n, err = secondsOf(w.text)
	case octets:
		o.b, err = bytesOf(w)
	case text:
		if o.b = []byte(w.text); x.words != nil && !slices.Contains(x.words, w.text) {
			err = fmt.Errorf("%q is none of its words, which are %s", cut(w.text), strings.Join(x.words, ", "))
		}
	case address:
		if o.net, err = networkOf(w.text); err == nil && ordered && o.network() {
			err = fmt.Errorf("a network has no order: compare with an address")
		}
		if six := strings.HasPrefix(x.name, "ipv6."); err == nil && (six || strings.HasPrefix(x.name, "ip.")) &&
			o.net.Addr().Is4() == six {
			err = fmt.Errorf("%s is of the other family: ip. has addresses of IPv4, ipv6. of IPv6, roce. of both",
				w.text)
		}
	}
	if err != nil {
		return nil, p.wrong(w, "%s: %v", x.name, err)
	}
	return o, nil
}

// contained reads what a field is to contain.
func (p *parser) contained(x *field) (test1, error) {
	w := p.words[0]
	if x.kind != text && x.kind != octets {
		return nil, p.wrong(w, "%s is neither a text nor bytes: it contains nothing", x.name)
	}
	if p.ended() {
		return nil, p.wrong(w, "a value for %s is missing", x.name)
	}
	p.word()
	b := []byte(w.text)
	if parsed, err := bytesOf(w); x.kind == octets && err == nil {
		b = parsed
	}
	return func(v value) bool { return bytes.Contains(v.b, b) }, nil
}

func numberOf(s string) (uint64, error) {
	switch strings.ToLower(s) {
	case "true":
		return 1, nil
	case "false":
		return 0, nil
	}
	n, err := strconv.ParseUint(s, 0, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is no number, such as 18 or 0x12", s)
	}
	return n, nil
}

// opcodes are the names of opcodes, without what people leave out.
var opcodes = func() map[string]uint64 {
	all := map[string]uint64{}
	for op := range 256 {
		if info := wire.Opcode(op).Info(); info.Flags != 0 {
			all[plainName(wire.Opcode(op).String())] = uint64(op)
		}
	}
	return all
}()

func plainName(s string) string {
	return strings.NewReplacer(" ", "", "_", "", "-", "").Replace(strings.ToLower(s))
}

func opcodeOf(s string) (uint64, error) {
	if n, ok := opcodes[plainName(s)]; ok {
		return n, nil
	}
	n, err := numberOf(s)
	if err != nil {
		err = fmt.Errorf("%q is no opcode, such as 17 or RC_ACKNOWLEDGE%s", s, opcodeLike(s))
	}
	return n, err
}

// opcodeLike names the opcodes that have a text in them.
func opcodeLike(s string) string {
	var names []string
	for name, op := range opcodes {
		if s = plainName(s); len(s) > 2 && strings.Contains(name, s) {
			names = append(names, strings.ReplaceAll(wire.Opcode(op).String(), " ", "_"))
		}
	}
	slices.Sort(names)
	if len(names) == 0 {
		return ""
	}
	return "; there is " + strings.Join(names[:min(len(names), 4)], ", ")
}

// secondsOf reads a time exactly, up to nanoseconds.
func secondsOf(s string) (uint64, error) {
	digits, negative := strings.CutPrefix(s, "-")
	whole, part, _ := strings.Cut(digits, ".")
	n, err := strconv.ParseUint(whole+(part + "000000000")[:9], 10, 63)
	if err != nil || whole == "" || strings.Trim(part, "0123456789") != "" {
		return 0, fmt.Errorf("%q is no time in seconds, such as 0.0025", s)
	}
	if negative {
		return order(-int64(n)), nil
	}
	return order(int64(n)), nil
}

// bytesOf reads bytes as aa:bb:cc, or a text in quotation marks.
func bytesOf(w word) ([]byte, error) {
	if w.quoted {
		return []byte(w.text), nil
	}
	b, err := hex.DecodeString(strings.NewReplacer(":", "", "-", "", ".", "").Replace(w.text))
	if err != nil {
		return nil, fmt.Errorf("%q is no bytes, such as 02:00:0a, nor a text in quotation marks", w.text)
	}
	return b, nil
}

// networkOf reads an address, or a network as 10.0.0.0/8.
func networkOf(s string) (netip.Prefix, error) {
	if n, err := netip.ParsePrefix(s); err == nil {
		return n.Masked(), nil
	}
	a, err := netip.ParseAddr(s)
	if err != nil || a.Zone() != "" {
		return netip.Prefix{}, fmt.Errorf("%q is no address, such as 10.0.0.1, 10.0.0.0/8 or fe80::1", s)
	}
	a = a.Unmap()
	return netip.PrefixFrom(a, a.BitLen()), nil
}
