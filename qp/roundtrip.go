package qp

// The round trip of a path, measured by one packet at a time.
// Stages: a packet that asks for an ACK and has never been sent before leaves (time) → its ACK
// comes (took), unless a loss has made it mean nothing → the measurement is smoothed as RFC 6298
// has it.

import "github.com/goroce/goroce/wire"

// roundTrip is what is known of the time on a path.
type roundTrip struct {
	srtt, rttvar Time     // smoothed, and its deviation; srtt 0: not measured yet
	base         Time     // the least ever measured
	timed        wire.PSN // packet whose ACK ends the present measurement; noPSN: none
	timedUna     wire.PSN // the oldest unacknowledged packet when it left ...
	timedAt      Time     // ... which was then
	doubt, most  Time     // what a packet took that was sent twice; the same, if both were answered
	doubtful     bool     // the packet that is timed has been sent twice
	movedAt      Time     // when una last moved by one packet with more under way, or Never
	gap          Time     // from the move before to that one; 0: nothing was awaited
	pace         Time     // the shorter of the last two such gaps
}

// moved takes notice that una has moved; next says whether by one packet, with more under way. Two
// long gaps in a row are no accident: the responses of a READ may have their rate, of which nobody
// is told.
func (t *roundTrip) moved(now Time, next bool) {
	gap := max(now-t.movedAt, 0)
	t.gap, t.pace = gap, min(gap, t.gap)
	if t.movedAt = Never; next {
		t.movedAt = now
	}
}

// unmeasured says that no round trip is known, nor will be by what is under way.
func (t *roundTrip) unmeasured() bool { return t.srtt == 0 && t.timed == noPSN }

// late is how long an answer takes that is late, but not too late.
func (t *roundTrip) late() Time { return t.srtt + 4*t.rttvar }

// patience is the time without an answer after which it is worth a packet to ask.
func (t *roundTrip) patience() Time { return max(t.late(), minProbe) }

// time begins a measurement.
func (t *roundTrip) time(now Time, psn, una wire.PSN) {
	t.timed, t.timedAt, t.timedUna, t.doubtful = psn, now, una, false
}

// again takes notice that a packet is sent once more. Its ACK measures nothing then, as nobody
// knows which of the two it is for, unless the other is answered too (answeredTwice): then it was
// for the first. That matters if nothing is known of the path yet, which may be slower than the ack
// timeout: the next one must wait longer, or no round trip would ever be measured.
func (t *roundTrip) again(psn wire.PSN) {
	switch {
	case psn != t.timed:
	case t.srtt == 0:
		t.doubtful = true
	default:
		t.timed = noPSN
	}
}

// answeredTwice is called for an ACK of what was acknowledged before.
func (t *roundTrip) answeredTwice() { t.most = t.doubt }

// took ends a measurement, smooths it, and returns it.
func (t *roundTrip) took(now Time) (rtt Time) {
	rtt = max(now-t.timedAt, minRTT)
	t.timed = noPSN
	if t.srtt == 0 {
		t.srtt, t.rttvar, t.base = rtt, rtt/2, rtt
		return rtt
	}
	t.base = min(t.base, rtt)
	d := t.srtt - rtt
	if d < 0 {
		d = -d
	}
	t.rttvar += (d - t.rttvar) / 4
	t.srtt = max(t.srtt+(rtt-t.srtt)/8, 1)
	return rtt
}
