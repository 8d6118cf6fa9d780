package qp

// The window: how many packets of an RC queue pair may be unacknowledged.
//
// Go-back-N repeats everything in flight behind a loss. So the right window is what the path holds,
// bandwidth times round trip: with less the path idles, with more every loss costs more and nothing
// is gained. But without losses a window that is too large costs nothing that matters here; and
// where two busy processors make the round trip, instead of a wire, the product says little. So the
// window never goes below DefaultWindow without a reason, and losses are the reason. For small
// messages that is smallWindow: their packets travel in runs of up to 128, and with one run on its
// way at a time each end would wait for the other.
//
// Stages: about once a round trip the requester learns how long it took and how much arrived
// meanwhile (round). The part of that which fits into the least round trip ever is what the path
// holds; the rest stood in queues → if the window was what held the requester back, and nothing
// queues, it grows → a loss (wentBack) takes it down to what the path holds, or to the share of the
// distance between losses that may be lost.
//
// With selective repeat a loss costs a packet, and what is known to have arrived behind it does not
// count (recovery.inFlight). So the window is not cut before so much is lost that a queue must be
// overflowing, and then to two round trips of the path.
//
// Rates are DCQCN's affair (rate.go). A queue pair that is held back by its rate is not held back
// by its window, so the window rests. And marks come before losses, so it is not the window that
// slows down on a path that marks.

// window is the controller of one queue pair.
type window struct {
	size     int32 // packets
	every    int   // packets after which an ACK is asked for inside a message
	adaptive bool
	small    bool  // the newest message is at most smallMessage bytes long
	spacing  int64 // from one lost packet to the next, smoothed, times lossShare
	single   bool  // the last loss cost one packet, not a window

	limited bool  // a packet had to wait for the window in this round
	path    int32 // packets that the path holds, from recent rounds
	clean   int64 // packets acknowledged since the last loss
	between int64 // packets from loss to loss, smoothed; 0: no loss yet
}

// start begins with n packets, for good; 0 stands for an adaptive window.
func (w *window) start(n int) {
	*w = window{adaptive: n == 0}
	if w.adaptive {
		n = DefaultWindow
	}
	w.resize(int32(n))
}

// resize sets the window. ACKs are asked for four times a window. After losses it is twice as
// often: a window that is just what the path holds must not wait for them.
func (w *window) resize(n int32) {
	parts := int32(4)
	if w.adaptive && n < DefaultWindow {
		parts = 8
	}
	w.size, w.every = n, int(min(max(n/parts, 1), maxUnasked))
}

// round ends a round trip. It took rtt, the least one ever took base, and so many packets were
// acknowledged meanwhile.
func (w *window) round(rtt, base Time, delivered int32) {
	limited := w.limited
	w.limited = false
	w.path = max(int32(Time(delivered)*base/rtt), w.path-w.path/16)
	if !w.adaptive || !limited {
		return
	}
	switch {
	case rtt <= base+base/4: // nothing queues: the path holds more
		w.resize(min(w.size+w.size/4, MaxWindow))
	case w.size < w.least():
		w.resize(max(w.size, w.bearable()))
	case rtt > 2*base: // half of it queues
		w.resize(max(w.size-w.size/16, w.least()))
	}
}

// wentBack takes notice that a packet was lost and will be sent again with all behind it.
func (w *window) wentBack() {
	if w.clean == 0 { // the same one
		return
	}
	if w.between == 0 {
		w.between = w.clean
	}
	w.between += (w.clean - w.between) / 4
	w.clean, w.single = 0, false
	if n := w.bearable(); w.adaptive && n < w.size {
		w.resize(n)
	}
}

// repeats takes notice that n packets were lost, which will be sent again without what is behind
// them.
func (w *window) repeats(n int32) {
	w.single = true
	if w.spacing == 0 {
		w.spacing = lossShare * max(w.clean, DefaultWindow)
	}
	for range min(n, MaxWindow) {
		w.spacing += w.clean - w.spacing/lossShare
		w.clean = 0
	}
	if n := w.bearable(); w.adaptive && n < w.size {
		w.resize(n)
	}
}

// bearable is the window for a path with losses: what the path holds, and a little more since that
// is never known exactly. It may be larger as long as it costs little to repeat a whole window each
// time.
func (w *window) bearable() int32 {
	cheap := max(w.clean, w.between) / lossShare
	switch {
	case !w.single && w.between == 0: // no loss yet
		return max(w.size, w.least())
	case w.single && w.spacing >= lossShare*crowded:
		return max(w.size, w.least())
	case w.single:
		return min(max(2*w.path, minWindow), MaxWindow)
	}
	return min(max(w.path+w.path/4, int32(min(cheap, int64(w.least()))), minWindow), MaxWindow)
}

// least is the window that is kept without a reason for less.
func (w *window) least() int32 {
	if w.small {
		return smallWindow
	}
	return DefaultWindow
}
