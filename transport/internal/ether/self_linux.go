package ether

// Frames to ourselves. An interface does not bring back what it sends, and the kernel would take
// such packets another way (over lo, where this port does not listen). So they stay in the port:
// copied by Send, lent by the next Recv.

import "github.com/goroce/goroce/wire"

// SelfFrames is how many frames to ourselves wait for the next Recv at most.
const SelfFrames = 256

// selfQueue is two batches: one that Send fills while the other is lent out.
type selfQueue struct {
	filling, lent *wire.Batch // nil until the first frame to ourselves
	out           int         // frames of lent that the last Recv gave out
}

// put copies a frame. false: there is no room before the next take.
func (q *selfQueue) put(f *wire.Frame) bool {
	if q.filling == nil {
		q.filling, q.lent = wire.NewBatch(SelfFrames, wire.FullBody), wire.NewBatch(SelfFrames, wire.FullBody)
	}
	return q.filling.Append(f) != nil
}

// take lends frames and takes back those that it lent before.
func (q *selfQueue) take(frames []wire.Frame) (n int) {
	if q.filling == nil {
		return 0
	}
	if q.lent.Drop(q.out); q.lent.Len() == 0 {
		q.filling, q.lent = q.lent, q.filling
		q.filling.Reset()
	}
	q.out = copy(frames, q.lent.Frames())
	return q.out
}
