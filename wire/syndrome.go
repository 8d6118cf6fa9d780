package wire

// Acknowledge syndromes: the first byte of an AETH, and the tables of timers and credits it refers
// to.
//
//	bits 7:5   kind: ACK, RNR NAK, (reserved), NAK; bits 4:0   credit code, timer code, NAK code

import "strconv"

// Syndrome is the first byte of an AETH (section 1.6).
type Syndrome uint8

const (
	SynACK       Syndrome = 0x1f // acknowledge without credit information
	SynRNR       Syndrome = 0x20 // receiver not ready; or'ed with a timer code
	SynNAKSeq    Syndrome = 0x60 // PSN sequence error
	SynNAKInvReq Syndrome = 0x61 // invalid request
	SynNAKAccess Syndrome = 0x62 // remote access error
	SynNAKOp     Syndrome = 0x63 // remote operational error
	SynNAKInvRD  Syndrome = 0x64 // invalid RD request
)

// SyndromeKind is the meaning of a syndrome's upper three bits.
type SyndromeKind uint8

const (
	KindACK      SyndromeKind = iota // acknowledge, with a credit code
	KindRNR                          // receiver not ready, with a timer code
	KindNAK                          // negative acknowledge, with a NAK code
	KindReserved                     // ignore the packet
)

// syndromeKinds is indexed by bits 7:5.
var syndromeKinds = [8]SyndromeKind{KindACK, KindRNR, KindReserved, KindNAK, KindReserved, KindReserved, KindReserved,
	KindReserved}

// AckSyndrome returns the syndrome of an ACK with a credit code 0..31; 31 says nothing about
// credits.
func AckSyndrome(credits uint8) Syndrome { return Syndrome(credits & 0x1f) }

// RNRSyndrome returns the syndrome of an RNR NAK with a timer code 0..31.
func RNRSyndrome(code uint8) Syndrome { return SynRNR | Syndrome(code&0x1f) }

// Kind returns what the syndrome is.
func (s Syndrome) Kind() SyndromeKind { return syndromeKinds[s>>5] }

// Code returns the lower five bits: a credit code, a timer code or a NAK code by kind.
func (s Syndrome) Code() uint8 { return uint8(s & 0x1f) }

// nakNames is indexed by NAK code.
var nakNames = [...]string{"PSN sequence error", "invalid request", "remote access error", "remote operational error",
	"invalid RD request"}

// String prints what the syndrome says: "ACK", "ACK credits 16", "RNR NAK 0.64 ms", "NAK remote
// access error".
func (s Syndrome) String() string { return string(s.append(nil)) }

func (s Syndrome) append(dst []byte) []byte {
	code := s.Code()
	switch s.Kind() {
	case KindACK:
		dst = append(dst, "ACK"...)
		if n, limited := Credits(code); limited {
			dst = strconv.AppendUint(append(dst, " credits "...), uint64(n), 10)
		}
	case KindRNR:
		dst = append(dst, "RNR NAK "...)
		dst = append(strconv.AppendFloat(dst, float64(RNRTimeout(code))/1e6, 'f', -1, 64), " ms"...)
	case KindNAK:
		dst = append(dst, "NAK "...)
		if int(code) < len(nakNames) {
			return append(dst, nakNames[code]...)
		}
		dst = strconv.AppendUint(append(dst, "reserved code "...), uint64(code), 10)
	default:
		dst = strconv.AppendUint(append(dst, "reserved syndrome 0x"...), uint64(s), 16)
	}
	return dst
}

// creditCounts is indexed by credit code 0..30; 31 carries no limit (section 1.6).
var creditCounts = [31]uint16{0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192,
	256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768}

// Credits returns how many receive work requests the peer says it has, for a credit code 0..30.
// Code 31 has no limit.
func Credits(code uint8) (n uint32, limited bool) {
	if code &= 0x1f; int(code) < len(creditCounts) {
		return uint32(creditCounts[code]), true
	}
	return 0, false
}

// rnrTimers is indexed by timer code, in units of 10 microseconds (section 1.6). Code 0 is the
// longest.
var rnrTimers = [32]uint32{65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192,
	256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152}

// RNRTimeout returns the nanoseconds that an RNR NAK with this timer code (0..31) asks the
// requester to wait.
func RNRTimeout(code uint8) int64 { return int64(rnrTimers[code&0x1f]) * 10_000 }

// RNRCode returns the smallest timer code that waits at least ns nanoseconds. More than 491.52 ms
// gives 0, 655.36 ms.
func RNRCode(ns int64) uint8 {
	for code := uint8(1); code < 32; code++ {
		if RNRTimeout(code) >= ns {
			return code
		}
	}
	return 0
}

// AckTimeout returns the local ACK timeout in nanoseconds for the 5-bit attribute n: 4.096 us *
// 2^n. 0 disables the timer and gives 0 (section 4.7).
func AckTimeout(n uint8) int64 {
	if n &= 0x1f; n == 0 {
		return 0
	}
	return 4096 << n
}
