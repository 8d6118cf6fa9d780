package wire

// Solving for what a UDP socket hides.
//
// The ICRC covers the IPv4 Identification and flags, bytes 4..7 of the header, but a socket does
// not show them. The CRC is linear over GF(2): if the head is guessed, the computed ICRC and the
// received one differ by the CRC of the error in the guess alone. That error is four bytes e, of
// which n bytes of packet follow. A register to which e was added and which n+4 zero bytes then
// passed through holds
//
//	diff = e · x^(8(n+4))  mod P          (e as a polynomial, first byte lowest in the register)
//
// so e = diff · x^(-8(n+4)) mod P, exactly: P has a constant term, hence x an inverse. One of the
// 2^32 values of e fits any diff, and the packet is good if the e that fits changes nothing but the
// Identification: two of its four bytes are zero, which a damaged packet passes with a chance of
// 2^-16.
//
// The power of x is the product of two table entries; a product of two polynomials is a carry-less
// multiplication made of integer ones, and a reduction with the CRC tables. About 20 ns in all,
// whatever the packet.

// xInverse holds x^(-8·i) and x^(-8·256·i) mod P, reflected: bit 31 is the coefficient of x^0.
var xInverse = func() (t [2][256]uint32) {
	t[0][0], t[1][0] = 1<<31, 1<<31
	byteBack := divX(1<<31, 8)
	pageBack := divX(1<<31, 8*256)
	for i := 1; i < 256; i++ {
		t[0][i] = mulmod(t[0][i-1], byteBack)
		t[1][i] = mulmod(t[1][i-1], pageBack)
	}
	return t
}()

// divX divides by x, n times: the step of a bitwise CRC run backwards.
func divX(r uint32, n int) uint32 {
	const poly = 0xedb88320
	for range n {
		if r&(1<<31) != 0 {
			r = (r^poly)<<1 | 1
		} else {
			r <<= 1
		}
	}
	return r
}

// mulmod multiplies two reflected polynomials modulo P.
func mulmod(a, b uint32) uint32 {
	v := clmul(a, b) << 1 // bit 63 is now the coefficient of x^0
	return crc4(uint32(v), 0) ^ uint32(v>>32)
}

// clmul multiplies without carries. Of each factor four words are made that hold every fourth bit:
// in a product of two such words at most eight ones add up in one place, which its own bit and the
// three empty ones above it can hold.
func clmul(a, b uint32) uint64 {
	const m = 0x1111111111111111
	a0, a1, a2, a3 := uint64(a)&m, uint64(a)&(m<<1), uint64(a)&(m<<2), uint64(a)&(m<<3)
	b0, b1, b2, b3 := uint64(b)&m, uint64(b)&(m<<1), uint64(b)&(m<<2), uint64(b)&(m<<3)
	p0 := a0*b0 ^ a1*b3 ^ a2*b2 ^ a3*b1
	p1 := a0*b1 ^ a1*b0 ^ a2*b3 ^ a3*b2
	p2 := a0*b2 ^ a1*b1 ^ a2*b0 ^ a3*b3
	p3 := a0*b3 ^ a1*b2 ^ a2*b1 ^ a3*b0
	return p0&m | p1&(m<<1) | p2&(m<<2) | p3&(m<<3)
}

// solve returns the Identification and the flags-and-offset word that explain a difference between
// computed and received ICRC of an IPv4 frame. It is not ok if the word it takes is impossible in a
// packet that is no fragment.
func solve(f *Frame, diff uint32) (id, fragment uint16, ok bool) {
	// n+4: from Identification to the end of what is covered
	back := ipv4Len - 4 + udpLen + len(f.Body) - ICRCLen
	if back > 0xffff {
		return 0, 0, false
	}
	e := mulmod(diff, mulmod(xInverse[0][back&0xff], xInverse[1][back>>8]))
	h := (*IPv4)(f.Head)
	var word [4]byte
	le.PutUint32(word[:], le.Uint32(h[4:])^e)
	id, fragment = be.Uint16(word[0:]), be.Uint16(word[2:])
	return id, fragment, fragment&^DontFragment == 0
}

// SolveIdentification finds the IPv4 Identification and the DF flag with which the frame's ICRC is
// right, whatever its header says of them. It is for tools that explain packets; ok with DF clear
// leaves 15 check bits.
func SolveIdentification(f *Frame) (id uint16, df, ok bool) {
	if len(f.Head) != Head4Len || len(f.Body) < MinBody {
		return 0, false, false
	}
	id, fragment, ok := solve(f, icrc(f)^le.Uint32(f.Body[len(f.Body)-ICRCLen:]))
	return id, fragment == DontFragment, ok
}
