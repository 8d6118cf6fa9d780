package packet

// Two rings, one order. A slot must hold a super-frame of 64 KiB if one may come, and 16 MiB of
// such slots are 240: enough for 15 MB that come in runs, but a quarter of a megabyte of packets
// that come one by one, as they do from a NIC or a switch. So a port has two packet sockets:
//
//	short   packets of the interface's MTU, thousands of slots
//	long    what is longer: runs, and packets of an MTU that has grown since
//
// The kernel chooses by length (lanes_linux.go). So what was sent in one order lies in two rings.
// It is taken in the order of time: the kernel notes in each slot when it was filled. Why that is
// the order in which each flow came:
//
//   - A processor delivers one packet after another. Before a packet that we see, we see all that
//     it has delivered before, if we look at the other ring after that.
//   - Several processors fill slots of a ring at once. They take the slots in the order of the
//     ring, but note the time when the packet has been copied, and a run takes microseconds to
//     copy. So a packet that came late may lie, with its later time, in front of one that came
//     early. Therefore next is not the ring with the older head, but the one that has the oldest
//     packet in its first slots, as many as processors may be filling. If the head of that ring is
//     not filled yet, it is waited for, as it would be in a single ring.
//   - The time is that of the clock, or, if somebody on the machine wants such times, that at which
//     the packet came to the kernel. Both grow from packet to packet of a processor, by more than
//     the nanosecond that they are counted in. Where the clock is so coarse that two are equal, the
//     long one is first: the short one is rather the end of its message than one before it.
//
// Where somebody wants such times and the kernel hands packets from one processor to another before
// it delivers them (RPS, which is off unless chosen), they are older than what lies before them,
// and a run may pass packets of its flow that came alone: 10 to 50 times in 300,000 packets. It is
// a change of places as a network's.
//
// Who sets the clock may make packets that lie in the rings at that moment change places, as they
// may on any network. A ring waits for no more packets than the other one has slots, as no more can
// have come before its own.
//
// Alone a ring of short slots would keep the order by itself: what does not fit the kernel puts
// into the socket's buffer (PACKET_COPY_THRESH). But that has room for six super-frames without
// CAP_NET_ADMIN, and to take each out would be a system call.

import "github.com/goroce/goroce/wire"

const (
	// longSlot is for super-frames, which are 64 KiB at most.
	longSlot = 69_824

	// maxLong bounds the ring of long slots, whatever Options.RecvBuffer says: 240 slots. The
	// kernel goes round in it, so all of it passes through the cache: a stream of super-frames with
	// copy and ICRC ran at 58 Gbit/s with 16 MiB, 56 with 32, 54 with 64. maxShort is that of the
	// short ones: 5,240 at an MTU of 1500, 1,896 for the longest packets. A burst of packets alone
	// costs its sender on a veth pair 0.15 us more a packet than with 1 MiB, of some 2.5.
	maxLong  = 16 << 20
	maxShort = 8 << 20

	// ahead is how many slots count, from the head of a ring on. If more processors than that
	// deliver to one lane in the same microseconds, packets may change places.
	ahead = 4
)

// shortSlot is the length of the slots for packets that come alone by an interface with an MTU: for
// one that is longer than any of RoCE, for those.
func shortSlot(mtu int) int { return slotFor(min(mtu, wire.Head6Len+wire.FullBody)) }

// rings are those of a lane.
type rings struct{ short, long ring }

// bytes is how much memory they have.
func (r *rings) bytes() int { return len(r.short.mem) + len(r.long.mem) }

// shortest is how long the slots of the short ring are.
func (r *rings) shortest() int { return len(r.short.slots[0]) }

// next returns the ring whose head is the packet that came first, nil if there is none.
func (r *rings) next() *ring {
	short, long := r.short.filled(), r.long.filled()
	if !short && !long {
		return nil
	}
	// We have looked at both now. At the one that was empty we look again.
	longAt, ok := r.long.oldest()
	if !ok {
		return &r.short
	}
	shortAt, ok := r.short.oldest()
	if !ok {
		return &r.long
	}
	first, second := &r.long, &r.short
	if shortAt < longAt {
		first, second = second, first
	}
	if second.passed >= len(first.slots) && second.filled() {
		first, second = second, first
	}
	if !first.filled() {
		return nil
	}
	second.passed++
	return first
}

// giveBack returns all lent slots to the kernel.
func (r *rings) giveBack() {
	r.short.giveBack()
	r.long.giveBack()
}
