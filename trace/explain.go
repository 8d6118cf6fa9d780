package trace

// A picture of one packet, byte by byte: each field with its place, its bytes or bits, its value
// and what that means. And from bytes that somebody has copied from somewhere back to a packet.

import (
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/goroce/goroce/wire"
)

// maxShown is how many bytes of a payload a picture shows.
const maxShown = 256

// AppendPicture appends the picture, many lines.
func (p *Packet) AppendPicture(dst []byte) []byte {
	dst = append(p.AppendLine(dst), "\n\n"...)
	last := ""
	p.EachField(func(f Field) {
		if f.Layer != last {
			last = f.Layer
			dst = fmt.Appendf(dst, "%s%s\n", last, layerNotes[last])
		}
		dst = p.appendPlace(dst, &f)
	})
	if p.Problem != "" {
		dst = append(append(append(dst, "\nwrong with it: "...), p.Problem...), '\n')
	}
	return dst
}

// layerNotes say what a header is for.
var layerNotes = map[string]string{
	"IPv4":         ": from which machine to which",
	"IPv6":         ": from which machine to which",
	"UDP":          ": port 4791 says RoCEv2",
	"GRH":          ": from which machine to which (global route header)",
	"LRH":          ": from which port of the subnet to which (local route header)",
	"BTH":          ": what the packet is, for which queue pair, and its number (base transport header)",
	"RETH":         ": which remote memory (RDMA extended transport header)",
	"AETH":         ": what the responder says (acknowledge extended transport header)",
	"AtomicETH":    ": which remote memory, and what to do with it",
	"AtomicAckETH": ": the answer to an atomic operation",
	"ImmDt":        ": immediate data",
	"IETH":         ": a key to invalidate",
	"DETH":         ": who sends a datagram, and its right to (datagram extended transport header)",
	"MAD":          ": a management datagram",
	"ICRC":         ": over all that no router may change, least significant byte first (section 3)",
}

// appendPlace appends a line, or several of a long field: place, bytes, name, value, meaning.
func (p *Packet) appendPlace(dst []byte, f *Field) []byte {
	at, n := f.Bit/8, (f.Bit+f.Bits+7)/8-f.Bit/8
	data := p.Data[:len(p.Data)-p.Cut]
	var shown string
	switch {
	case f.Missing:
		shown = "--"
	case f.Bit%8 != 0 || f.Bits%8 != 0:
		shown = bitPicture(data[at:at+n], f.Bit%8, f.Bits)
	default:
		shown = strings.TrimRight(fmt.Sprintf("% x", data[at:at+min(n, 8)]), " ")
	}
	text := f.Text
	if f.Layer == "payload" || n > 16 {
		text = fmt.Sprintf("%d bytes", n)
	}
	line := fmt.Sprintf("  %04x  %-24s %-18s %-20s %s", at, shown, f.Name, text, f.Meaning)
	dst = append(append(dst, strings.TrimRight(line, " ")...), '\n')
	if n > 8 && !f.Missing {
		dst = appendDump(dst, data[:at+min(n, maxShown)], at+8)
		if n > maxShown {
			dst = fmt.Appendf(dst, "        ... %d bytes more\n", n-maxShown)
		}
	}
	return dst
}

// bitPicture shows which bits of some bytes a field has: ".01. ....".
func bitPicture(b []byte, first, n int) string {
	var out []byte
	for i := range 8 * len(b) {
		if i > 0 && i%4 == 0 {
			out = append(out, ' ')
		}
		if i < first || i >= first+n {
			out = append(out, '.')
		} else {
			out = append(out, '0'+b[i/8]>>(7-i%8)&1)
		}
	}
	return string(out)
}

// appendDump shows the bytes from a place on, with their letters.
func appendDump(dst, b []byte, at int) []byte {
	for ; at < len(b); at += 8 {
		row := b[at:min(at+8, len(b))]
		dst = fmt.Appendf(dst, "  %04x  %-24s %s\n", at, fmt.Sprintf("% x", row), letters(row))
	}
	return dst
}

// letters shows bytes as ASCII, dots for the rest.
func letters(b []byte) string {
	out := make([]byte, len(b))
	for i, c := range b {
		if out[i] = '.'; c >= ' ' && c < 0x7f {
			out[i] = c
		}
	}
	return string(out)
}

// ParseHex reads bytes as people copy them: digits, with or without spaces, line breaks, colons or
// 0x between them. It does not understand the offsets and letters of a hexdump.
func ParseHex(text string) ([]byte, error) {
	clean := strings.NewReplacer("0x", "", " ", "", "\n", "", "\t", "", "\r", "", ":", "", "-", "", ",", "", "\\x",
		"").Replace(text)
	if len(clean)%2 != 0 {
		return nil, fmt.Errorf("trace: %d hexadecimal digits are no whole bytes", len(clean))
	}
	b, err := hex.DecodeString(clean)
	if err != nil {
		return nil, fmt.Errorf("trace: no bytes in hexadecimal digits: %w", err)
	}
	if len(b) == 0 {
		return nil, fmt.Errorf("trace: no bytes to look at")
	}
	return b, nil
}

// guesses are what bytes without a file may begin with, the likeliest first.
var guesses = [...]LinkType{LinkRaw, LinkEthernet, LinkCooked, LinkCooked2, LinkERF, LinkNull, LinkInfiniBand}

// Guess decodes bytes that somebody has copied from somewhere: they may begin at any header. Bytes
// that make sense from no header on are taken for a BTH.
func Guess(data []byte) *Packet {
	var odd *Packet // RoCE, but with something wrong
	for _, link := range guesses {
		p := &Packet{Record: Record{Number: 1, Link: link, Length: len(data), Data: data}}
		p.Decode()
		if p.Parsed && p.ICRC == ICRCRight {
			return p
		}
		if p.Kind != Other && odd == nil && link != LinkInfiniBand {
			odd = p
		}
	}
	if odd == nil {
		odd = &Packet{}
		odd.DecodeBare(data)
		if len(data) < wire.MinBody {
			odd.Problem = fmt.Sprintf("%d bytes are no packet: a BTH and an ICRC have %d", len(data), wire.MinBody)
		}
	}
	return odd
}
