package wire

// Which queue pair numbers are whose.
//
//	23            6       0
//	│ free │ owner │ … lane │    Mask has the bits of owner and lane, Value what they are
//
// One rule for all who share an address: who makes queue pairs takes numbers from its own space,
// and who steers packets goes by BTH.DestQP. Lanes of one device are told apart by the lowest bits,
// because a filter in the kernel reads a byte of the number; owners, which are processes say, by
// those above all lanes.

// QPNSpace is the queue pair numbers whose bits under Mask are those of Value. The zero value is
// all numbers. QP 0 and 1 and MulticastQPN are nobody's, whatever a space says.
type QPNSpace struct {
	Mask  uint32 // within QPNMask; leaves some bits free
	Value uint32 // within Mask
}

// Owns tells whether the number is one of the space.
func (s QPNSpace) Owns(qpn uint32) bool { return qpn&s.Mask == s.Value }

// Bits is how many bits of a number the space leaves free.
func (s QPNSpace) Bits() (n int) {
	for free := QPNMask &^ s.Mask; free != 0; free &= free - 1 {
		n++
	}
	return n
}

// Number is the space's number i, 0 to 2^Bits-1: the bits of i, the lowest first, in the places
// that are free.
func (s QPNSpace) Number(i uint32) uint32 {
	n := s.Value
	for free := QPNMask &^ s.Mask; free != 0; free &= free - 1 {
		n |= free & -free * (i & 1)
		i >>= 1
	}
	return n
}

// Lane is the share of lane i of some lanes, a power of two. The share of a share is that of the
// whole, if the lanes are as many.
func (s QPNSpace) Lane(i, lanes int) QPNSpace {
	low := uint32(lanes - 1)
	return QPNSpace{Mask: s.Mask | low, Value: s.Value&^low | uint32(i)}
}

// OwnerShift is the lowest bit that tells owners apart. A device has 2^OwnerShift lanes at most.
const OwnerShift = 6

// MaxOwners is how many owners an address can have: more would leave each less than 2^10 numbers a
// lane.
const MaxOwners = 256

// Owner is the share of owner i of some owners, a power of two up to MaxOwners.
func (s QPNSpace) Owner(i, owners int) QPNSpace {
	bits := uint32(owners-1) << OwnerShift
	return QPNSpace{Mask: s.Mask | bits, Value: s.Value&^bits | uint32(i)<<OwnerShift}
}

// OwnerOf is which of some owners, a power of two, has the number.
func OwnerOf(qpn uint32, owners int) int { return int(qpn>>OwnerShift) & (owners - 1) }

// AnyLane is the space of which s is the share of a lane: all of its owner's.
func (s QPNSpace) AnyLane() QPNSpace {
	const lanes = 1<<OwnerShift - 1
	return QPNSpace{Mask: s.Mask &^ lanes, Value: s.Value &^ lanes}
}

// LaneOf is which of some lanes, a power of two, has the number.
func LaneOf(qpn uint32, lanes int) int { return int(qpn) & (lanes - 1) }
