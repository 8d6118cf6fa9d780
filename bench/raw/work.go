//go:build linux

package raw

// What the super-frames of a stream look like, and the work on them: numbers, copy and ICRC.

import (
	"encoding/binary"

	"github.com/goroce/goroce/wire"
)

// shape is what a stream's super-frames look like: segments of one size.
type shape struct {
	segments int
	size     int // bytes of a segment after the UDP header
	payload  int // of these
}

// The parts of a segment: as a RoCE packet of a WRITE has them.
const (
	numberAt  = wire.BTHLen      // where the segment's number is: the place of RETH's address
	payloadAt = wire.BTHLen + 16 // behind BTH and RETH
	aroundIt  = payloadAt + wire.ICRCLen
)

// longestRun is how many segments go to the kernel as one packet, by its rules.
func longestRun(size int) int {
	// Before Linux 6.9 a run had 64 segments at most.
	const mostSegments, mostDatagram = 128, 1<<16 - 1 - ipLen - udpLen
	return min(mostSegments, mostDatagram/size)
}

// bulk is full runs of packets of the largest path MTU that fits a link.
func bulk(runs int) func(linkMTU int) shape {
	return func(linkMTU int) shape {
		const least, most = 256, 4096
		pathMTU := most
		for pathMTU > least && ipLen+udpLen+aroundIt+pathMTU > linkMTU {
			pathMTU /= 2
		}
		size := pathMTU + aroundIt
		return shape{segments: runs * longestRun(size), size: size, payload: pathMTU}
	}
}

// tiny is packets of 8 bytes, which fit any link.
func tiny(segments int) func(linkMTU int) shape {
	return func(int) shape { return shape{segments: segments, size: 8 + aroundIt, payload: 8} }
}

const memory = 64 << 10 // the application's memory on each end: one message

// worker does the work that cannot be avoided.
type worker struct {
	shape
	head   []byte // IP and UDP, which the ICRC covers: one for all packets
	memory []byte
	at     int
}

func newWorker(s shape) *worker {
	return &worker{shape: s, head: make([]byte, wire.Head4Len), memory: make([]byte, memory)}
}

// next is the payload's place in the application's memory; messages fill it again and again.
func (w *worker) next() []byte {
	if w.at+w.payload > len(w.memory) {
		w.at = 0
	}
	m := w.memory[w.at : w.at+w.payload]
	w.at += w.payload
	return m
}

// number writes the numbers of the segments of a super-frame whose first has the given one.
func (w *worker) number(l link, first uint64) {
	for i := range w.segments {
		binary.LittleEndian.PutUint64(l.segment(i, w.size)[numberAt:], first+uint64(i))
	}
}

// fill lays out the payloads and ICRCs of a super-frame.
func (w *worker) fill(l link) {
	for i := range w.segments {
		wire.SealPayload(&wire.Frame{Head: w.head, Body: l.segment(i, w.size)}, payloadAt, w.next())
	}
}

// drain takes the segments of a super-frame and returns how many were bad.
func (w *worker) drain(frame []byte, segment int) (bad uint64) {
	for ; len(frame) >= segment; frame = frame[segment:] {
		body := frame[:segment:segment]
		if !wire.Verify(&wire.Frame{Head: w.head, Body: body}) {
			bad++
			continue
		}
		copy(w.next(), body[payloadAt:])
	}
	return bad
}
