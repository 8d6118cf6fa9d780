package wire

// The invariant CRC (section 3): the last four bytes of a packet, over everything that no router
// may change.
//
//	8 x FF │ IP, masked │ UDP, masked │ BTH, masked │ extension headers, payload, pad
//	         TOS/class    checksum      byte 4
//	         TTL/hops                   (FECN, BECN)
//	         checksum/flow label
//
// Masked bytes count as FF. Where the processor has the instructions, icrc_amd64.go takes the
// packet as one piece. Elsewhere the headers are folded in eight bytes at a time straight from
// where they lie, the masks or'ed into the words; the rest goes to crcUpdate. Least significant
// byte first on the wire.

// afterFF is the CRC register after the eight FF bytes in front.
const afterFF = 0xdebb20e3

// Masks of the little-endian words that headers are read in.
const (
	mask4Word0 = 0xff << 8         // IPv4 byte 1: TOS
	mask4Word1 = 0xff | 0xffff<<16 // IPv4 byte 8: TTL; bytes 10 and 11: checksum
	mask6Word0 = 0xffffff0f | 0xff<<56
	maskUDP    = 0xffff << 16 // of bytes 4..7: the checksum
	maskBTH    = 0xff         // of bytes 4..11: FECN, BECN, reserved
)

// HeadCRC returns the CRC, in the form of hash/crc32, of the eight FF bytes, the masked IP and UDP
// header and the masked BTH. crc32.Update continues it over the rest of the body. A head of a
// length other than Head4Len and Head6Len gives 0.
func HeadCRC(head []byte, bth *BTH) uint32 {
	switch len(head) {
	case Head4Len:
		return ^head4((*[Head4Len]byte)(head), le.Uint64(head)|mask4Word0, bth)
	case Head6Len:
		return ^head6((*[Head6Len]byte)(head), bth)
	}
	return 0
}

// head4 folds in an IPv4 head, whose first eight bytes are given masked.
func head4(h *[Head4Len]byte, word0 uint64, bth *BTH) uint32 {
	r := crc8(afterFF, word0)
	r = crc8(r, le.Uint64(h[8:])|mask4Word1)
	r = crc8(r, le.Uint64(h[16:]))
	r = crc8(r, uint64(le.Uint32(h[24:])|maskUDP)|uint64(le.Uint32(bth[0:]))<<32)
	return crc8(r, le.Uint64(bth[4:])|maskBTH)
}

// head6 folds in an IPv6 head.
func head6(h *[Head6Len]byte, bth *BTH) uint32 {
	r := crc8(afterFF, le.Uint64(h[0:])|mask6Word0)
	for i := 8; i < 40; i += 8 {
		r = crc8(r, le.Uint64(h[i:]))
	}
	r = crc8(r, le.Uint64(h[40:])|maskUDP<<32)
	r = crc8(r, uint64(le.Uint32(bth[0:]))|uint64(le.Uint32(bth[4:])|maskBTH)<<32)
	return crc4(r, le.Uint32(bth[8:]))
}

// useWords chooses icrcWords; tests try both ways.
var useWords = haveWords

// icrc computes what the last four bytes of the body should hold.
func icrc(f *Frame) uint32 {
	if useWords {
		if crc, ok := icrcWords(f); ok {
			return crc
		}
	}
	return crcUpdate(HeadCRC(f.Head, (*BTH)(f.Body)), f.Body[BTHLen:len(f.Body)-ICRCLen])
}

// Seal computes the ICRC and writes it into the last four bytes of the body. The head must be as it
// will be sent. It panics if the body is shorter than MinBody.
func Seal(f *Frame) {
	le.PutUint32(f.Body[len(f.Body)-ICRCLen:], icrc(f))
}

// SealPayload copies the payload to offset at of the body and seals the frame, in one pass over the
// bytes where the processor can. Everything else, the pad too, must be there already. What is
// sealed is what was copied, even if somebody changes the payload meanwhile. It panics if the
// payload does not fit before the ICRC; it must not overlap the body.
func SealPayload(f *Frame, at int, payload []byte) {
	end := len(f.Body) - ICRCLen
	dst := f.Body[at:end:end][:len(payload)]
	if useWords {
		if crc, ok := icrcPayload(f, at, payload); ok {
			le.PutUint32(f.Body[end:], crc)
			return
		}
	}
	copy(dst, payload)
	Seal(f)
}

// Verify says whether the ICRC is right. Where a UDP port made the IPv4 header up (FrameSynthHead),
// it is right if some Identification, with DF set, explains it: 16 of the 32 check bits remain.
func Verify(f *Frame) bool {
	return len(f.Body) >= MinBody && explains(f, le.Uint32(f.Body[len(f.Body)-ICRCLen:]))
}

// explains says whether the ICRC of f is crc.
func explains(f *Frame, crc uint32) bool {
	diff := icrc(f) ^ crc
	if diff == 0 || f.Flags&FrameSynthHead == 0 || len(f.Head) != Head4Len {
		return diff == 0
	}
	_, fragment, ok := solve(f, diff)
	return ok && fragment == DontFragment
}

// SealFlush is Seal for a FLUSH to rxe, which covers all from the BTH on twice, the second time
// without masks (section 13): no other implementation agrees with it.
func SealFlush(f *Frame) {
	end := len(f.Body) - ICRCLen
	le.PutUint32(f.Body[end:], crcUpdate(icrc(f), f.Body[:end]))
}

// VerifyFlush is Verify for a FLUSH that rxe has sent.
func VerifyFlush(f *Frame) bool {
	if len(f.Body) < MinBody {
		return false
	}
	end := len(f.Body) - ICRCLen
	return explains(f, crcUndo(le.Uint32(f.Body[end:]), f.Body[:end]))
}
