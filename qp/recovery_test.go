package qp

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/wire"
)

// The state machine of recovery.go, event by event, against the tables in its head. What it does on
// the wire has its tests in qptest.

const (
	recoveryNow = Time(50_000_000)
	readyIn     = Time(1_000_000)
)

var (
	phaseNames = [...]string{
		phaseFlowing:   "flowing",
		phaseProbeDue:  "probeDue",
		phaseProbeSent: "probeSent",
		phaseAlive:     "alive",
		phaseResting:   "resting",
	}
	decisionNames = [...]string{
		thenStay:   "stay",
		thenResume: "resume",
		thenMove:   "move",
		thenRest:   "rest",
	}
)

// underWay is the recovery of a queue pair on a path of 10 us that has sent packets 100 to 109, of
// which 100 to 104 before a probe of packet 100, if there was one.
func underWay(p phase, selective bool) *recovery {
	r := new(recovery)
	r.start(&QPAttr{Timeout: 14, RetryCnt: 7, RNRRetry: 3, SelectiveRepeat: selective}, new(Stats), 0)
	r.begin(100)
	r.psn, r.top = 110, 110
	r.srtt, r.base = 10_000, 10_000
	r.phase, r.probePSN, r.probeTop = p, 100, 105
	if p == phaseResting {
		r.readyAt = recoveryNow + readyIn
	} else {
		r.restartTimers(recoveryNow)
	}
	return r
}

// missAnswers has packet 104 come while the answers before it have not.
func (r *recovery) missAnswers(now Time) decision {
	r.passed(104, true)
	return r.overtaken(now, 104, r.una)
}

// TestLateNAK: what has been executed since it was missed is not sent again, and answers before it
// that are missing stay so.
func TestLateNAK(t *testing.T) {
	r := underWay(phaseFlowing, false)
	r.missAnswers(recoveryNow)
	at, missing := r.psn, r.gaps.missing(r.una, r.reached)
	require.Positive(t, missing)
	require.Equal(t, thenStay, r.sequenceNAKBeyond(recoveryNow, 102))
	require.Equal(t, at, r.psn)
	require.Equal(t, missing, r.gaps.missing(r.una, r.reached))
}

// TestRecoveryPhases holds what each event leads to in each phase against the table.
func TestRecoveryPhases(t *testing.T) {
	now := recoveryNow + 20_000
	var q QP // it has nothing to send
	for _, event := range []struct {
		name string
		do   func(r *recovery) decision
		to   string // from flowing, probeDue, probeSent, alive, resting
		what string
	}{
		{"acknowledged, a part of what was sent before the probe",
			func(r *recovery) decision { return r.acknowledged(now, 102) },
			"flowing flowing alive alive flowing", "resume resume resume resume resume"},
		{"acknowledged, all that was sent before the probe",
			func(r *recovery) decision { return r.acknowledged(now, 105) },
			"flowing flowing flowing flowing flowing", "resume resume resume resume resume"},
		{"acknowledged again, something from before the probe is missing",
			func(r *recovery) decision { return r.probeAnswered(now) },
			"flowing probeDue flowing flowing resting", "stay stay move move stay"},
		{"acknowledged again, nothing from before the probe is missing",
			func(r *recovery) decision { r.probeTop = 100; return r.probeAnswered(now) },
			"flowing probeDue flowing flowing resting", "stay stay stay stay stay"},
		{"sequence NAK",
			func(r *recovery) decision { return r.sequenceNAK(now) },
			"flowing flowing flowing flowing resting", "move move move move stay"},
		{"answers are missing",
			func(r *recovery) decision { return r.missAnswers(now) },
			"flowing flowing flowing flowing resting", "resume resume resume resume resume"},
		{"una is to be repeated",
			func(r *recovery) decision { return r.repeatOldest(now) },
			"flowing flowing flowing flowing resting", "resume resume resume resume resume"},
		{"RNR NAK",
			func(r *recovery) decision { return r.notReady(now, readyIn) },
			"resting resting resting resting resting", "rest rest rest rest stay"},
		{"the time of the RNR NAK has passed, or it was time for a probe",
			func(r *recovery) decision { return r.timer(r.deadline(), &q) },
			"probeDue probeDue probeDue flowing flowing", "resume resume resume move resume"},
		{"it was time for a probe, and the peer is past the last one",
			func(r *recovery) decision { r.probePSN = 98; return r.timer(r.deadline(), &q) },
			"probeDue probeDue probeDue probeDue flowing", "resume resume resume resume resume"},
		{"ack timeout",
			func(r *recovery) decision { r.probeAt = Never; return r.timer(r.deadline(), &q) },
			"probeDue probeDue probeDue flowing flowing", "resume resume resume move resume"},
	} {
		for p := range phaseNames {
			r := underWay(phase(p), false)
			what := event.do(r)
			in := fmt.Sprintf("%s, in %s", event.name, phaseNames[p])
			require.Equal(t, strings.Fields(event.what)[p], decisionNames[what], in)
			require.Equal(t, strings.Fields(event.to)[p], phaseNames[r.phase], in)
			require.Equal(t, r.phase == phaseResting, r.readyAt != Never, in)
			if what == thenMove || what == thenRest {
				require.Equal(t, r.una, r.psn, in)
			}
		}
	}
}

// TestRecoveryStanding holds what is known of the oldest packet against the table, and that only
// one that was lost again goes alone.
func TestRecoveryStanding(t *testing.T) {
	for _, event := range []struct {
		name string
		do   func(r *recovery)
		to   [3]standing // from sentOnce, repeated, alone
	}{
		{"goBack", func(r *recovery) { r.goBack(recoveryNow) },
			[3]standing{unaRepeated, unaAlone, unaAlone}},
		{"repeatOldest", func(r *recovery) { r.repeatOldest(recoveryNow) },
			[3]standing{unaRepeated, unaRepeated, unaAlone}},
		{"acknowledged", func(r *recovery) { r.acknowledged(recoveryNow, 101) },
			[3]standing{unaSentOnce, unaSentOnce, unaSentOnce}},
	} {
		for from, to := range event.to {
			r := underWay(phaseFlowing, false)
			r.oldest = standing(from)
			event.do(r)
			require.Equal(t, to, r.oldest, "%s from %d", event.name, from)
			require.Equal(t, to == unaAlone, r.limit() == 1)
		}
	}
}

// TestRecoveryGivesUp: without a retry left, what would use one up ends the connection, whatever
// reports the loss; progress brings all retries back, and a modified limit counts at once.
func TestRecoveryGivesUp(t *testing.T) {
	var q QP
	spent := func() *recovery {
		r := underWay(phaseFlowing, true)
		r.retries, r.rnrRetries = 0, 0
		return r
	}
	require.Equal(t, thenGiveUp, spent().sequenceNAK(recoveryNow))
	require.Equal(t, thenGiveUp, spent().missAnswers(recoveryNow))
	require.Equal(t, thenGiveUpRNR, spent().notReady(recoveryNow, readyIn))
	d, reason := spent().gapReported(recoveryNow, 100, 102)
	require.Equal(t, thenGiveUp, d)
	require.Equal(t, wire.DropNone, reason)
	r := spent()
	require.Equal(t, thenGiveUp, r.timer(r.ackAt, &q))

	r = spent()
	r.acknowledged(recoveryNow, 101)
	require.Equal(t, [2]uint8{7, 3}, [2]uint8{r.retries, r.rnrRetries})
	r.attr.RetryCnt, r.attr.RNRRetry = 2, rnrForever
	r.configured(AttrRetryCnt)
	require.Equal(t, [2]uint8{2, 3}, [2]uint8{r.retries, r.rnrRetries})
	r.configured(AttrRNRRetry)
	for range 100 {
		require.NotEqual(t, thenGiveUpRNR, r.notReady(recoveryNow, readyIn))
		r.timer(r.readyAt, &q)
	}
}

// TestRecoveryNext: what goes first, of all that could be sent.
func TestRecoveryNext(t *testing.T) {
	r := underWay(phaseFlowing, true)
	require.Equal(t, sendOn, r.next())
	r.phase = phaseProbeDue
	require.Equal(t, sendProbe, r.next())
	d, reason := r.gapReported(recoveryNow, 102, 104)
	require.Equal(t, thenResume, d)
	require.Equal(t, wire.DropNone, reason)
	require.Equal(t, sendGap, r.next(), "what is known to be lost, before a probe")
	require.Equal(t, thenWake, r.notReady(recoveryNow, readyIn))
	require.Equal(t, sendNothing, r.next())
	require.EqualValues(t, 110, r.psn, "selective repeat does not go back")
}

// TestOperationsExist: each operation has an opcode for every place in a message of each service
// that it is allowed on, and only reliable services answer.
func TestOperationsExist(t *testing.T) {
	for wr := range wrTable {
		rule := &wrTable[wr]
		for typ := range services {
			s := &services[typ]
			if s.name == "" || rule.types&(1<<typ) == 0 || rule.local {
				continue
			}
			require.True(t, s.reliable || rule.answer == answerNone, "%v on %v", WROpcode(wr), QPType(typ))
			for place := range 4 {
				first, last := place&1 != 0, place&2 != 0
				if (s.datagram || rule.answer != answerNone) && !(first && last) {
					continue // it is one packet
				}
				op := rule.opcodes.at(first, last, s.opcodes)
				require.NotZero(t, op.Info().Flags, "%v on %v", WROpcode(wr), QPType(typ))
				require.Equal(t, s.opcodes, op.Service())
				require.Equal(t, first, op.Info().Has(wire.OpStart))
				require.Equal(t, last, op.Info().Has(wire.OpEnd))
			}
		}
	}
}
