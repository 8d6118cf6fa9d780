package wire

// appendHex appends v as at least digits hexadecimal digits.
func appendHex(dst []byte, v uint64, digits int) []byte {
	for d := 15; d >= 0; d-- {
		if n := v >> (4 * d); n != 0 || d < digits {
			dst = append(dst, "0123456789abcdef"[n&15])
		}
	}
	return dst
}
