package wire

import "strconv"

// cmWalker goes over the rows of a message's table and does one thing to each field.
type cmWalker struct {
	mode cmMode
	body *[cmBodyLen]byte // to put to or get from
	text []byte           // to print to
	show func(CMField)    // to show to
}

// CMField is a field of the connection manager's messages, as EachCMField shows it.
type CMField struct {
	Name  string
	Bit   int    // where its most significant bit is, counted from the start of the MAD
	Bits  int    // its width
	Value uint64 // of a field of up to 64 bits
	Text  string // the value in words, if it has a name
}

// EachCMField calls f with every field of the connection manager's message that m holds, in the
// order of the table; one that lies scattered is shown piece by piece. The error says why m is no
// such message.
func EachCMField(m *MAD, f func(CMField)) error {
	msg, err := ParseCM(m)
	if err == nil {
		msg.walk(&cmWalker{mode: cmShow, body: m.body(), show: f})
	}
	return err
}

type cmMode uint8

const (
	cmPut cmMode = iota
	cmGet
	cmPrint // fields that have names for their values, and others that are not 0
	cmShow
)

// num is a row for a whole number of bytes.
func num[T ~uint8 | ~uint16 | ~uint32 | ~uint64](w *cmWalker, name string, off, size int, field *T) {
	bits(w, name, off, size, 8*size-1, 0, field)
}

// bits is a row for bits hi..lo of the big-endian word of size bytes at off.
func bits[T ~uint8 | ~uint16 | ~uint32 | ~uint64](w *cmWalker, name string, off, size, hi, lo int, field *T) {
	mask := uint64(1)<<(hi-lo+1) - 1 // hi-lo = 63: the shift gives 0, the mask is all ones
	switch w.mode {
	case cmPut:
		w.or(off, size, (uint64(*field)&mask)<<lo)
	case cmGet:
		*field = T(w.word(off, size) >> lo & mask)
	case cmPrint:
		w.text = appendField(w.text, name, any(*field), uint64(*field), hi-lo+1)
	case cmShow:
		f := CMField{
			Name:  name,
			Bit:   8*(madHeaderLen+off+size) - 1 - hi,
			Bits:  hi - lo + 1,
			Value: w.word(off, size) >> lo & mask,
		}
		if named, ok := any(T(f.Value)).(interface{ String() string }); ok {
			f.Text = named.String()
		}
		w.show(f)
	}
}

// part is a piece of a field that lies scattered: size bytes at off hold the bits from shift on.
type part struct{ off, size, shift int }

// split is a row for a field in several places.
func split(w *cmWalker, name string, field *uint32, parts ...part) {
	if w.mode == cmPrint {
		num(w, name, 0, 3, field)
		return
	}
	var got uint32
	for _, p := range parts {
		piece := *field >> p.shift & (1<<(8*p.size) - 1)
		num(w, name, p.off, p.size, &piece)
		got |= piece << p.shift
	}
	if w.mode == cmGet {
		*field = got
	}
}

// flag is a row for one bit of the byte at off.
func (w *cmWalker) flag(name string, off, bit int, field *bool) {
	switch w.mode {
	case cmPut:
		setBit(&w.body[off], 1<<bit, *field)
	case cmGet:
		*field = w.body[off]>>bit&1 != 0
	case cmPrint:
		if *field {
			w.text = append(append(w.text, ' '), name...)
		}
	case cmShow:
		w.show(CMField{Name: name, Bit: 8*(madHeaderLen+off) + 7 - bit, Bits: 1, Value: uint64(w.body[off] >> bit & 1)})
	}
}

// gid is a row for a GID.
func (w *cmWalker) gid(name string, off int, field *GID) {
	switch w.mode {
	case cmPut:
		copy(w.body[off:], field[:])
	case cmGet:
		copy(field[:], w.body[off:])
	case cmPrint:
		if !field.IsZero() {
			w.text = append(append(append(w.text, ' '), name...), ' ')
			w.text = appendGID(w.text, *field)
		}
	case cmShow:
		w.show(CMField{Name: name, Bit: 8 * (madHeaderLen + off), Bits: 128, Text: GID(w.body[off : off+16]).String()})
	}
}

// bytes is a row for an array of bytes. Printing shows how many of them there are up to the last
// that is not 0.
func (w *cmWalker) bytes(name string, off int, field []byte) {
	switch w.mode {
	case cmPut:
		copy(w.body[off:], field)
	case cmGet:
		copy(field, w.body[off:])
	case cmPrint:
		n := len(field)
		for n > 0 && field[n-1] == 0 {
			n--
		}
		if n > 0 {
			w.text = append(append(append(w.text, ' '), name...), ' ')
			w.text = append(strconv.AppendInt(w.text, int64(n), 10), " B"...)
		}
	case cmShow:
		w.show(CMField{Name: name, Bit: 8 * (madHeaderLen + off), Bits: 8 * len(field)})
	}
}

// word reads size bytes, big-endian.
func (w *cmWalker) word(off, size int) (v uint64) {
	for _, b := range w.body[off : off+size] {
		v = v<<8 | uint64(b)
	}
	return v
}

// or adds bits to size bytes, big-endian.
func (w *cmWalker) or(off, size int, v uint64) {
	for i := size - 1; i >= 0; i-- {
		w.body[off+i] |= byte(v)
		v >>= 8
	}
}

// appendField prints a number: by name if its type has names, otherwise, unless it is 0, decimal up
// to 8 bits wide and hexadecimal beyond.
func appendField(dst []byte, label string, typed any, v uint64, width int) []byte {
	named, isNamed := typed.(interface{ String() string })
	if v == 0 && !isNamed {
		return dst
	}
	dst = append(append(append(dst, ' '), label...), ' ')
	switch {
	case isNamed:
		return append(dst, named.String()...)
	case width <= 8:
		return strconv.AppendUint(dst, v, 10)
	}
	return appendHex(append(dst, "0x"...), v, (width+3)/4)
}
