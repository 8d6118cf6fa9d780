package qp

// The window: how many packets of an RC queue pair may be unacknowledged.
//
// Without losses a window that is too large costs nothing that matters here; and where two busy
// processors make the round trip, instead of a wire, it says little about the path. So the window
// never goes below DefaultWindow without a reason, and losses are the reason. For small messages
// that is smallWindow: their packets travel in runs of up to 128, and with one run on its way at a
// time each end would wait for the other.
//
// Stages: about once a round trip the requester learns how long it took and how much arrived
// meanwhile (round). The part of that which fits into the least round trip ever is what the path
// holds; the rest stood in queues → if the window was what held the requester back it may grow → a
// loss (overflowed, wentBack, repeats) may take it down.
//
// # Whose loss
//
// A queue that overflows was long just before. So a loss while nothing queues means nothing, unless
// so many are lost that somebody must be throwing away what is above a rate (crowded). Any other is
// a sign that there is no room for all who send: the window is cut, once for all that had left by
// then, and from then on it is this sender's share of a queue (docs/congestion.md). It grows as
// that of others does, and is cut by as much. What was free of the path it takes back faster. Once
// nothing has been lost for long it is as it was at first.
//
//	state    event                                    window
//	free     round, limited, nothing queues           + 1/4, beyond MaxWindow 1/16
//	free     round, limited, more queues than travels + 1/4 on trial (try)
//	free     ... and more arrives than before that    + 1/4: the queue is somebody else's
//	free     ... or not                               - 1/16, for trialPause rounds, to
//	                                                  DefaultWindow at least
//	free     loss, and a queue                        x 0.7, sharing
//	sharing  round, limited                           as CUBIC's, + 1 at least (raise)
//	sharing  ... the queue was not half of what it is + 1/8: others have left
//	         at losses, for calmRounds
//	sharing  loss, and a queue                        x 0.7
//	sharing  no loss for forgotten windows            free
//	any      loss, no queue                           as it is
//
// All other rounds leave it as it is. Where losses cost a window each (go-back-N), a share grows by
// half of that packet, and one of fewer than minWindow packets by three quarters.
//
// # What a loss costs
//
// Go-back-N repeats everything in flight behind a loss: with more than the path holds every loss
// costs more and nothing is gained (bearable). With selective repeat a loss costs a packet, and
// what is known to have arrived behind it does not count (recovery.inFlight).
//
// Rates are DCQCN's affair (rate.go). A queue pair that is held back by its rate is not held back
// by its window, so the window rests. And marks come before losses, so it is not the window that
// slows down on a path that marks.

// window is the controller of one queue pair.
type window struct {
	// What each round looks at lies together, as in QP.
	adaptive bool
	small    bool  // the newest message is at most smallMessage bytes long
	sharing  bool  // it is a share of a queue that has overflowed
	single   bool  // the last loss cost one packet, not a window
	limited  bool  // a packet had to wait for the window in this round
	size     int32 // packets
	every    int32 // packets after which an ACK is asked for inside a message
	bound    int32 // as far as it grows
	path     int32 // packets that the path holds, from recent rounds
	calm     int32 // rounds in a row whose queue was not half of overfull
	clean    int64 // packets acknowledged since the last loss
	arrived  int64 // packets acknowledged since the last round
	nextAt   Time  // when the next packet is due, if they are spread (spread.go)
	queued   Time  // the shortest queue of the last two rounds, in time
	newest   Time  // the queue of the last round

	trial    trial
	spacing  int64 // from one lost packet to the next, smoothed, times lossShare
	between  int64 // packets from loss to loss, smoothed; 0: no loss yet
	part     int64 // of those that arrived, what counts for the next packet of a share
	cutAt    Time  // when the window was last cut ...
	most     int32 // ... what it was before ...
	plateau  Time  // ... and how much later it is to be as large again
	overfull Time  // the queue at losses that it was cut for, smoothed
	cuts     uint64
}

// trial is a larger window for some rounds.
type trial struct {
	rounds  int32
	since   Time
	arrived int64 // packets
	before  int64 // that arrived in a time, of the smaller window; 0: not known yet
}

// start begins with n packets, for good; 0 stands for an adaptive window.
func (w *window) start(n int) {
	*w = window{adaptive: n == 0, bound: MaxWindow}
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
	w.size, w.every = n, min(max(n/parts, 1), maxUnasked)
}

// acked counts packets that have arrived.
func (w *window) acked(n int32) {
	w.clean += int64(n)
	w.arrived += int64(n)
}

// round ends a round trip. It took rtt, the least one ever took base, and so many packets were
// acknowledged meanwhile.
func (w *window) round(now, rtt, base Time, delivered int32) {
	limited, arrived := w.limited, w.arrived
	w.limited, w.arrived = false, 0
	w.path = max(int32(Time(delivered)*base/rtt), w.path-w.path/16)
	w.queued, w.newest = min(w.newest, rtt-base), rtt-base
	if !w.adaptive || !limited {
		return
	}
	if w.sharing && w.clean > forgotten*int64(w.size) {
		w.sharing, w.overfull = false, 0
	}
	switch {
	case w.sharing:
		w.raise(now+rtt, arrived)
	case w.size >= MaxWindow: // with care: more than a queue takes may leave in a round
		if w.newest <= base/16 {
			w.resize(min(w.size+w.size/16, w.bound))
		}
	case w.newest <= base/4: // nothing queues: the path holds more
		w.resize(min(w.size+w.size/4, w.bound))
	case w.size < w.least():
		w.resize(max(w.size, min(w.bearable(), w.least())))
	case rtt > 2*base: // half of it queues
		w.try(now, arrived)
	}
}

// try finds out whose queue it is in which more stands than travels. If it is this sender's own, a
// larger window is of no use, and one that is larger than at first is given up. But if it is kept
// full by others, who do not mind, then a larger window is a larger share.
func (w *window) try(now Time, arrived int64) {
	w.trial.arrived += arrived
	switch w.trial.rounds++; {
	case w.trial.rounds < 0:
		w.resize(max(w.size-w.size/16, w.least()))
		return
	case w.trial.rounds < trialRounds && w.trial.since != 0:
		return
	}
	rate := w.trial.arrived * 1_000_000 / max(int64(now-w.trial.since), 1)
	t := trial{since: now, before: w.trial.before}
	switch {
	case w.trial.since == 0:
	case w.trial.before == 0, rate > w.trial.before+w.trial.before/8:
		t.before = rate
		w.resize(min(w.size+w.size/4, w.bearable()))
	default:
		t = trial{rounds: -trialPause}
	}
	w.trial = t
}

// raise is a round of a share, in which so many packets arrived. It grows as the window of a TCP
// does that it may share the queue with, CUBIC: by a packet a window at least, and up to what it
// was before the last cut fast at first, then slowly, then faster and faster (RFC 9438). But if for
// some rounds the queue was never half of what it is at losses, others have left.
func (w *window) raise(at Time, arrived int64) {
	w.calm++
	if w.newest >= w.overfull/2 {
		w.calm = 0
	}
	if w.calm > calmRounds {
		arrived *= max(int64(w.size)/8, 1)
	}
	switch {
	case !w.single: // the next loss will cost a window
		arrived /= 2
	case w.size < minWindow: // one of many in a queue: who grows by a packet loses one
		arrived -= arrived / 4
	}
	w.part += arrived
	n := w.size + int32(w.part/int64(w.size))
	w.part %= int64(w.size)
	n = max(n, min(w.cubic(at), w.size+w.size/2))
	w.resize(max(w.size, min(n, w.bearable(), w.bound)))
}

// cubic is CUBIC's window at a time.
func (w *window) cubic(at Time) int32 {
	ms := int64(at-w.cutAt-w.plateau) / 1_000_000
	ms = max(min(ms, 30_000), -30_000)
	return w.most + int32(ms*ms*ms*cubicC/1_000_000_000/10)
}

// plateauOf is how long it takes CUBIC to grow a window that was cut to what it was: the cube root
// of what was cut, in milliseconds.
func plateauOf(most int32) (ms Time) {
	cube := Time(most) * 3 * 1_000_000_000 / cubicC // 0.3 of it
	for bit := Time(1 << 14); bit > 0; bit /= 2 {
		if k := ms + bit; k*k*k <= cube {
			ms = k
		}
	}
	return ms * 1_000_000
}

// overflowed takes notice of a loss, of packets that left after the last cut, and says whether the
// window was cut for it.
func (w *window) overflowed(now, base Time) bool {
	rare := !w.single || w.spacing >= lossShare*crowded
	if !w.adaptive || rare && w.queued <= noise+base/16 {
		return false
	}
	if !w.sharing {
		w.sharing, w.overfull = true, w.queued
	}
	w.overfull += (w.queued - w.overfull) / 4
	if w.size < w.most { // less than last time: there is somebody new
		w.most = w.size * 17 / 20
	} else {
		w.most = w.size
	}
	w.cutAt, w.plateau, w.part = now, plateauOf(w.most), 0
	w.resize(max(w.size*7/10, leastShare))
	return true
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
	for range min(n, w.bound) {
		w.spacing += w.clean - w.spacing/lossShare
		w.clean = 0
	}
}

// bearable is the window for a path with losses: what the path holds, and a little more since that
// is never known exactly. It may be larger as long as it costs little to repeat a whole window each
// time.
func (w *window) bearable() int32 {
	cheap := max(w.clean, w.between) / lossShare
	if w.single || w.between == 0 { // a packet, or no loss yet
		return w.bound
	}
	return min(max(w.path+w.path/4, int32(min(cheap, int64(w.least()))), minWindow), w.bound)
}

// smooth says that nothing was lost lately.
func (w *window) smooth() bool { return !w.sharing && w.clean >= smooth*int64(w.size) }

// least is the window that is kept without a reason for less.
func (w *window) least() int32 {
	if w.small {
		return smallWindow
	}
	return DefaultWindow
}
