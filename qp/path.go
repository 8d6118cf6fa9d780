package qp

// What a queue pair knows of its path: for people and programs that ask (PathInfo), and whether
// long packets get through at all.
//
// Stages: the oldest packet has been sent again for an ack timeout or two, without an answer, and
// it is a long one (suspect) → beside it goes an empty packet that any responder answers, because
// it is a duplicate (sound) → an answer tells a black hole, which drops what is too long for a link
// and says nothing, from a peer that is gone (sounded) → if no retry is left, the completion says
// so (tooLong).
//
// The duplicate is a SEND ONLY with the PSN before the oldest: nothing is executed for it, and what
// is acknowledged again is what was acknowledged (section 4.5). On a new connection that PSN was
// never used, and is an old one all the same.

import "github.com/goroce/goroce/wire"

// PathInfo is what an RC or XRC queue pair knows of its path. Times are in nanoseconds.
type PathInfo struct {
	MTU       wire.MTU // path MTU
	RTT       Time     // smoothed round trip; 0: none has been measured yet
	Deviation Time     // of round trips, smoothed
	BaseRTT   Time     // the least ever measured: what is more was waiting in queues

	State       WindowState
	Window      int    // packets that may be unacknowledged, 1 to 2^22
	WindowBytes uint64 // the same in bytes of payload
	InFlight    int    // packets that are unacknowledged now

	Cuts   uint64 // times that losses have made the window smaller, since RESET
	Resent uint64 // packets that were sent again, since RESET; READ responses are the peer's

	// Rate is what packets are paced to, in bits per second: by QPAttr.RateLimit, or by congestion
	// control after marks, which Limited tells; 0: they are not.
	Rate    uint64
	Limited bool

	// TooLong says that the queue pair has failed (WCRetryExcErr) because packets as long as the
	// path MTU did not arrive, while short ones did. A smaller path MTU is what helps, or a path
	// that carries the packets; nobody on it has said what is too long.
	TooLong bool
}

// WindowState says what the window of a queue pair is (docs/congestion.md).
type WindowState uint8

// The states.
const (
	WindowFixed   WindowState = iota // as Config.Window has it
	WindowFree                       // nothing has overflowed yet, or for long: it follows the path
	WindowTrying                     // a larger one is tried, as somebody else keeps the queue full
	WindowSharing                    // it is a share of a queue that has overflowed
)

// VendorErrTooLong is, with WCRetryExcErr, WC.VendorErr of a request whose packets, or their
// answers, were too long for the path: short packets were answered meanwhile (PathInfo.TooLong).
const VendorErrTooLong uint8 = 0xb1

// String names the state: "fixed", "free", "trying", "sharing".
func (s WindowState) String() string {
	return [...]string{"fixed", "free", "trying", "sharing"}[s&3]
}

// state is what PathInfo says of the window.
func (w *window) state() WindowState {
	switch {
	case !w.adaptive:
		return WindowFixed
	case w.sharing:
		return WindowSharing
	case w.trial.rounds > 0:
		return WindowTrying
	}
	return WindowFree
}

// PathInfo returns what a connected reliable queue pair knows of its path. After a failure the
// round trips are forgotten, and the rest is as it was. ErrInvalid for other types, which are not
// acknowledged, and for XRC_RECV, which sends no requests.
func (e *Engine) PathInfo(q *QP) (PathInfo, error) {
	if !q.reliable || q.noSends {
		return PathInfo{}, invalid("a queue pair of type %v knows nothing of its path: nobody acknowledges its packets",
			q.typ)
	}
	r := &q.rec
	p := PathInfo{MTU: q.attr.PathMTU, RTT: r.srtt, Deviation: r.rttvar, BaseRTT: r.base,
		State: r.window.state(), Window: int(q.limit()), Cuts: r.window.cuts, Resent: q.sent.again,
		Limited: q.rate.limited, TooLong: q.tooLong()}
	p.WindowBytes = uint64(p.Window) * uint64(q.mtu)
	if q.State() == StateRTS || q.State() == StateSQD {
		p.InFlight = int(r.inFlight())
	}
	switch {
	case q.rate.limited:
		p.Rate = uint64(q.rate.current * 8)
	case q.rate.ceiling > 0:
		p.Rate = uint64(q.rate.ceiling * 8)
	}
	return p, nil
}

// departures are what is known of the packets that a queue pair has sent, from RESET to RESET.
type departures struct {
	again    uint64   // packets sent again
	soundAt  Time     // when the last sounding left; 0: none has
	sounding wire.PSN // the oldest packet at that time
	arrived  bool     // it was answered
	failed   bool     // no retry was left for that packet
}

// shortPacket is how much payload any path carries.
const shortPacket = 256

// suspect says whether the oldest packet, which is the one at the present position, may be too long
// for the path, or its answer: it is the first of its request, is long, and nothing has come of it
// for more than an ack timeout, nor answers behind it.
func (q *QP) suspect() bool {
	r := &q.rec
	return q.typ == RC && q.req.off == 0 && r.timeouts > 1 && r.reached == r.una &&
		min(q.mtu, q.req.length(q)) > shortPacket
}

// length is that of the request at the present position.
func (r *requester) length(q *QP) uint32 { return q.sq.at(r.next).length }

// sound asks whether short packets arrive.
func (e *Engine) sound(q *QP, b *wire.Batch) {
	info := wire.RCSendOnly.Info()
	f := b.Reserve(&q.path, int(info.HdrLen)+wire.ICRCLen)
	if f == nil { // another time
		return
	}
	(*wire.BTH)(f.Body).Put(wire.RCSendOnly, wire.BTHAckReq, 0, wire.DefaultPKey, q.attr.DestQPN, q.rec.una.Prev())
	wire.Seal(f)
	e.stats.SentPkts++
	e.stats.Probes++
	if q.sent.soundAt == 0 || q.sent.sounding != q.rec.una {
		q.sent.arrived = false
	}
	q.sent.sounding, q.sent.soundAt = q.rec.una, max(e.now, 1)
}

// sounded takes notice of an ACK that acknowledges nothing new: a short packet has arrived, if one
// was sent after the oldest packet.
func (q *QP) sounded() {
	if q.sent.soundAt != 0 && q.sent.sounding == q.rec.una {
		q.sent.arrived = true
	}
}

// gaveUp takes notice that no retry is left, and returns what the completion says of it.
func (q *QP) gaveUp() (vendorErr uint8) {
	if q.sent.arrived && q.sent.sounding == q.rec.una {
		q.sent.failed = true
		return VendorErrTooLong
	}
	return 0
}

// tooLong says whether the queue pair has failed for a black hole.
func (q *QP) tooLong() bool { return q.sent.failed && q.State() == StateErr }
