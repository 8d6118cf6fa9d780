package wire

import (
	"errors"
	"strconv"
)

// MTU is a path MTU as ibv_mtu numbers it: 1..5 for 256..4096 bytes of payload a packet. 0 is no
// MTU.
type MTU uint8

const (
	MTU256  MTU = 1 // 256 bytes of payload a packet
	MTU512  MTU = 2 // 512 bytes
	MTU1024 MTU = 3 // 1024 bytes: what Ethernet's 1500 has room for
	MTU2048 MTU = 4 // 2048 bytes
	MTU4096 MTU = 5 // 4096 bytes: needs jumbo frames
)

// RoCEOverhead is what a RoCEv2 packet may need beside a full payload: IPv6, UDP, BTH, RETH, ImmDt
// and ICRC of a WRITE_ONLY_IMM (section 11; rxe reckons with 80 and loses that packet on an
// interface of just that size).
const RoCEOverhead = 84

// FullBody is room for the body of any packet whose payload fits the largest path MTU, from BTH to
// ICRC: 64 bytes beside the payload, of which a WRITE_ONLY_IMM of XRC takes 40 and one of RD 48.
const FullBody = 4096 + 64

// Valid says whether m is one of the five.
func (m MTU) Valid() bool { return m >= MTU256 && m <= MTU4096 }

// Bytes returns the payload bytes of a full packet, 0 if m is not valid.
func (m MTU) Bytes() int {
	if !m.Valid() {
		return 0
	}
	return 128 << m
}

// String prints the number of bytes: "1024".
func (m MTU) String() string {
	if !m.Valid() {
		return "MTU(" + strconv.Itoa(int(m)) + ")"
	}
	return strconv.Itoa(m.Bytes())
}

// MTUFromEnum checks a number that came from a packet or a caller: 1..5.
func MTUFromEnum(e uint8) (MTU, error) {
	if m := MTU(e); m.Valid() {
		return m, nil
	}
	return 0, errors.New("wire: path MTU enum " + strconv.Itoa(int(e)) + " is not 1..5 (256..4096 bytes)")
}

// MTUFromBytes returns the MTU of exactly n payload bytes: 256, 512, 1024, 2048 or 4096.
func MTUFromBytes(n int) (MTU, error) {
	for m := MTU256; m <= MTU4096; m++ {
		if m.Bytes() == n {
			return m, nil
		}
	}
	return 0, errors.New("wire: path MTU of " + strconv.Itoa(n) + " bytes is not 256, 512, 1024, 2048 or 4096")
}

// MTUForNet returns the largest MTU whose packets fit a network interface that carries netMTU bytes
// of IP packet: 1500 gives 1024, 4180 and more gives 4096. 0 means that not even 256 fits.
func MTUForNet(netMTU int) MTU {
	for m := MTU4096; m > 0; m-- {
		if m.Bytes()+RoCEOverhead <= netMTU {
			return m
		}
	}
	return 0
}
