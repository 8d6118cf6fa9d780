package qp

// What a round trip is measured by, and what a loss does to the window, event by event, as seen
// from recovery.go: which packet an ACK or a report was for is not always known.

import (
	"testing"

	"github.com/stretchr/testify/require"
)

const took = Time(40_000)

// timing is a recovery that has sent packets 100 to 109, of which 104 is timed. srtt 0: it is the
// first that ever is.
func timing(srtt Time) *recovery {
	r := underWay(phaseFlowing, true)
	r.srtt, r.base, r.rttvar = srtt, srtt, 0
	r.time(recoveryNow, 104, 100)
	return r
}

// TestRoundTripEnds: what arrives ends the measurement of what left before it, unless that is lost.
func TestRoundTripEnds(t *testing.T) {
	now := recoveryNow + took
	for name, c := range map[string]struct {
		do       func(r *recovery)
		measured bool
		timed    bool // it goes on
	}{
		"acknowledged":                    {func(r *recovery) { r.acknowledged(now, 105) }, true, false},
		"acknowledged, one before":        {func(r *recovery) { r.acknowledged(now, 104) }, false, true},
		"a gap before it, itself there":   {func(r *recovery) { r.gapReported(now, 102, 104) }, true, false},
		"a gap before it, nothing later":  {func(r *recovery) { r.gapReported(now, 101, 102) }, false, true},
		"a gap that it is in":             {func(r *recovery) { r.gapReported(now, 103, 106) }, false, false},
		"a gap behind it":                 {func(r *recovery) { r.gapReported(now, 106, 108) }, true, false},
		"still missing, the first":        {func(r *recovery) { r.stillMissing(now, 108) }, true, false},
		"still missing, the timed itself": {func(r *recovery) { r.timed = 100; r.stillMissing(now, 108) }, false, false},
		"sent again":                      {func(r *recovery) { r.again(104) }, false, false},
		"another is sent again":           {func(r *recovery) { r.again(103) }, false, true},
	} {
		r := timing(10_000)
		c.do(r)
		require.Equal(t, c.measured, r.srtt != 10_000, name)
		require.Equal(t, c.timed, r.timed != noPSN, name)
	}
}

// TestSlowPath: on a path slower than the ack timeout each packet is sent twice before its answer
// comes. When both have been answered the first is known to be slow, and the next one has the time.
func TestSlowPath(t *testing.T) {
	r := timing(0)
	ack := r.ackAt - recoveryNow
	r.again(104)
	now := recoveryNow + 3*ack
	r.acknowledged(now, 105)
	require.Zero(t, r.srtt, "which of the two was answered?")
	require.Equal(t, ack, r.ackAt-now)
	r.answeredTwice()
	r.restartTimers(now)
	require.Equal(t, 6*ack, r.ackAt-now)
	r.time(now, 106, 105)
	r.acknowledged(now+3*ack, 107)
	require.Equal(t, 3*ack, r.srtt)
	require.Equal(t, r.late(), r.ackAt-(now+3*ack), "what was measured counts")
}

// TestDoubtEnds: of a packet that was sent twice and is lost, nothing is left to doubt.
func TestDoubtEnds(t *testing.T) {
	r := timing(0)
	r.again(104)
	r.gapReported(recoveryNow+took, 103, 106)
	r.time(recoveryNow+took, 109, 100)
	r.acknowledged(recoveryNow+2*took, 110)
	require.Equal(t, took, r.srtt)
}

// TestKeptBackoff: answers after probes do not make the next one hurry, until one was measured that
// was not sent twice.
func TestKeptBackoff(t *testing.T) {
	r := timing(10_000)
	r.timed, r.backoff = noPSN, maxProbes
	r.acknowledged(recoveryNow, 101)
	require.EqualValues(t, keptBackoff, r.backoff)
	r.time(recoveryNow, 109, 101)
	r.acknowledged(recoveryNow+took, 110)
	require.Zero(t, r.backoff)
}

// TestCutOnce: the losses of a round trip are one loss to the window: all that had left when it was
// cut. One of what left later cuts it again.
func TestCutOnce(t *testing.T) {
	r := timing(hop)
	r.timed = noPSN
	w := &r.window
	for range 2 {
		w.limited = true
		w.round(recoveryNow, 5*hop, hop, 1000) // a queue
	}
	w.resize(1000)
	r.gapReported(recoveryNow, 100, 101)
	require.EqualValues(t, 700, w.size)
	r.gapReported(recoveryNow, 103, 104)
	r.gapReported(recoveryNow, 106, 107)
	require.EqualValues(t, 700, w.size)
	r.psn, r.top = 120, 120
	r.gapReported(recoveryNow, 112, 113)
	require.EqualValues(t, 490, w.size)
}
