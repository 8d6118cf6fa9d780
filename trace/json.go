package trace

// A packet as a line of JSON.

import (
	"encoding/json"
	"strconv"
	"time"
	"unicode/utf8"
)

// AppendJSON appends the packet as one JSON object, without a newline:
//
//	number, part    of the record, from 1 on; of the packet in a run
//	time            RFC 3339, nanoseconds
//	interface, comment, cut, why, problem   if there is something to say
//	run_cut         true if what is cut off is more packets of a run
//	kind, src, dst, opcode, payload         payload in bytes
//	icrc            "right", "wrong", "unchecked", "right as rxe computes it"
//	fields          every field of the headers, as "header.field": a number, or a string if it has
//	                more than 64 bits
func (p *Packet) AppendJSON(dst []byte) []byte {
	dst = strconv.AppendInt(append(dst, `{"number":`...), int64(p.Number), 10)
	if p.Part > 0 {
		dst = strconv.AppendInt(append(dst, `,"part":`...), int64(p.Part), 10)
	}
	dst = append(dst, `,"time":"`...)
	dst = time.Unix(0, p.Time).UTC().AppendFormat(dst, time.RFC3339Nano)
	dst = append(dst, `","kind":`...)
	dst = appendString(dst, p.Kind.String())
	src, dest := p.Addresses()
	for _, x := range [...][2]string{{"interface", p.Name}, {"comment", p.Comment}, {"why", p.Why},
		{"problem", p.Problem}, {"src", src}, {"dst", dest}} {
		if x[1] != "" {
			dst = appendString(append(dst, `,"`+x[0]+`":`...), x[1])
		}
	}
	if p.Cut > 0 {
		dst = strconv.AppendInt(append(dst, `,"cut":`...), int64(p.Cut), 10)
	}
	if p.RunCut {
		dst = append(dst, `,"run_cut":true`...)
	}
	if p.Parsed {
		dst = appendString(append(dst, `,"opcode":`...), p.Wire.Opcode.String())
		dst = strconv.AppendInt(append(dst, `,"payload":`...), int64(len(p.Wire.Payload)), 10)
		dst = appendString(append(dst, `,"icrc":`...), p.ICRC.String())
	}
	dst = append(dst, `,"fields":{`...)
	first := true
	p.EachNumber(nil, func(f Field) {
		if f.Missing || f.Name == "payload" || f.Name == "data" {
			return
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(append(append(append(dst, '"'), f.Layer...), '.'), f.Name...) // plain words
		dst = append(dst, `":`...)
		if f.Bits > 64 {
			dst = appendString(dst, f.Text)
		} else {
			dst = strconv.AppendUint(dst, f.Value, 10)
		}
	})
	return append(dst, "}}"...)
}

// appendShown appends JSON without what a terminal might obey: JSON lets some of that stand, from
// U+007F on.
func appendShown(dst []byte, text string) []byte {
	for _, r := range text {
		if r > '~' && !strconv.IsPrint(r) && r <= 0xffff {
			dst = append(append(dst, `\u`...), hexDigits(uint64(r), 16)...)
		} else {
			dst = utf8.AppendRune(dst, r)
		}
	}
	return dst
}

// appendString writes s as JSON does, for HTML and terminals too.
func appendString(dst []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			b, _ := json.Marshal(s) // a string has a form in JSON, whatever is in it
			return appendShown(dst, string(b))
		}
	}
	return append(append(append(dst, '"'), s...), '"')
}
