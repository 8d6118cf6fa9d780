package qp

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/wire"
)

// asker is one end of an exchange whose messages have no completions. The peer acknowledges what it
// is asked to, a round trip later.
type asker struct {
	t     *testing.T
	a, b  *end
	rtt   Time   // of the path
	asks  []Time // when a message asked for an ACK
	heard Time   // when the last ACK came
}

func newAsker(t *testing.T, timeout uint8) *asker {
	x := &asker{t: t, rtt: 10_000}
	x.a, x.b = pair(t, 64, wire.MTU256)
	x.a.q.attr.Timeout = timeout
	return x
}

// send has a message leave, and tells whether it asks for an ACK.
func (x *asker) send(now Time) (asks bool) {
	x.t.Helper()
	x.until(now)
	_, err := x.b.q.PostRecv([]RecvWR{{}})
	require.NoError(x.t, err)
	x.a.post(x.t, SendWR{Opcode: WRSend})
	x.a.e.HandlePosted(now)
	require.Equal(x.t, 1, x.a.e.PollTransmit(now, x.a.out))
	if asks = (*wire.BTH)(x.a.out.Frames()[0].Body).AckReq(); asks {
		x.asks = append(x.asks, now)
	}
	x.deliver(now)
	x.b.poll(x.t)
	return asks
}

// until lets time pass, with all deadlines that come.
func (x *asker) until(now Time) {
	for at := x.a.e.NextTimeout(); at <= now; at = x.a.e.NextTimeout() {
		x.a.e.HandleTimeout(at)
		x.a.e.PollTransmit(at, x.a.out)
		x.deliver(at)
	}
}

// deliver brings the peer what has left, and the answer back.
func (x *asker) deliver(now Time) {
	x.b.receive(x.a.out.Frames()...)
	x.a.out.Reset()
	if x.b.e.PollTransmit(now, x.b.out) > 0 {
		x.heard = now + x.rtt
		x.a.e.HandleFrames(x.heard, x.b.out.Frames())
		x.b.out.Reset()
	}
	x.a.e.Publish()
	x.b.e.Publish()
}

// TestAsksAfterSilence: of messages without completions one that leaves after a silence asks for an
// ACK, as it may be the last for a while and a probe would wake both ends; one of a quick exchange
// does not, and if it was the last after all a single probe finds out about it.
func TestAsksAfterSilence(t *testing.T) {
	x := newAsker(t, 14)
	now, probes := Time(1_000_000), uint64(0)
	require.True(t, x.send(now), "the path is not known yet")
	patience := x.a.q.rec.patience()
	for round := range 200 {
		now += 3 * patience
		x.until(now)
		require.Equal(t, probes, x.a.e.Stats().Probes, "round %d", round)
		require.True(t, x.send(now), "round %d", round)
		for i := range round % 8 {
			now += patience/Time(1+i%3) - 1
			require.False(t, x.send(now), "round %d", round)
		}
		if round%8 > 0 {
			probes++
		}
	}
	require.Zero(t, x.a.e.Stats().AckTimeouts)
}

// TestAsksInTime: an exchange that is never silent asks for an ACK when a quarter of the ack
// timeout has passed without one, by its next message or by a probe, so that the timeout, which is
// for peers that are gone, never comes. Where it asks more often than that anyway, every so many
// packets, there is no probe.
func TestAsksInTime(t *testing.T) {
	for timeout := uint8(6); timeout <= 14; timeout++ {
		t.Run(fmt.Sprintf("timeout %d", timeout), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(uint64(timeout), 1))
			x := newAsker(t, timeout)
			quarter := Time(wire.AckTimeout(timeout)) / 4
			now, seldom := Time(1_000_000), 0
			for i := range 5000 {
				if i%500 == 0 { // another path, or other paces
					x.rtt = 5_000 + Time(rnd.IntN(15_000))
				}
				x.send(now)
				gap := x.rtt + Time(rnd.IntN(int(minProbe-x.rtt)))
				silent := now - x.heard // the last ACK is that long ago
				require.Less(t, silent, quarter+minProbe, "message %d", i)
				if silent >= quarter {
					seldom++
				}
				now += gap
			}
			s := x.a.e.Stats()
			require.Zero(t, s.AckTimeouts)
			if often := Time(x.a.q.rec.window.every) * minProbe; often < quarter {
				require.Zero(t, s.Probes)
			} else if often > 4*quarter {
				require.NotZero(t, seldom, "the clock was never asked")
			}
		})
	}
}

// TestNextTimeoutIsExact: after an acknowledgement PollTimeout still tells of the deadline that is
// no more, or an earlier one than the next; NextTimeout does not.
func TestNextTimeoutIsExact(t *testing.T) {
	x := newAsker(t, 14)
	x.send(1_000_000) // acknowledged
	require.NotEqual(t, Never, x.a.e.PollTimeout())
	require.Equal(t, Never, x.a.e.NextTimeout())
	require.Equal(t, Never, x.a.e.PollTimeout(), "NextTimeout has tidied up")

	early := Time(0)
	for now := Time(2_000_000); now < 3_000_000; now += 20_000 {
		x.send(now)
		r := &x.a.q.rec
		want := min(r.ackAt, r.probeAt)
		if poll := x.a.e.PollTimeout(); poll != want {
			require.Less(t, poll, want)
			early++
		}
		if now%3 == 0 {
			require.Equal(t, want, x.a.e.NextTimeout())
			require.Equal(t, want, x.a.e.PollTimeout())
		}
	}
	require.NotZero(t, early)
}

// TestTimersModel arms, restarts and stops the deadlines of some queue pairs at random: the heap's
// next one is never late, after settle it is exact, and each that has come is reported once.
func TestTimersModel(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		var h timers
		qps := make([]*QP, 1+rnd.IntN(12))
		want := map[*QP]Time{} // those that are armed
		for i := range qps {
			qps[i] = &QP{deadline: Never}
		}
		first := func() Time {
			least := Never
			for _, at := range want {
				least = min(least, at)
			}
			return least
		}
		now := Time(1000)
		for step := range 400 {
			q := qps[rnd.IntN(len(qps))]
			switch n := rnd.IntN(20); {
			case n < 9:
				want[q] = now + Time(1+rnd.IntN(500))
				h.arm(q, want[q])
			case n < 12:
				delete(want, q)
				h.disarm(q)
			case n < 13:
				delete(want, q)
				h.remove(q)
			case n < 17:
				h.settle()
				require.Equal(t, first(), h.next(), "seed %d, step %d", seed, step)
			default:
				now += Time(rnd.IntN(300))
				for due := h.expired(now); due != nil; due = h.expired(now) {
					require.Contains(t, want, due, "seed %d, step %d", seed, step)
					require.LessOrEqual(t, want[due], now, "seed %d, step %d", seed, step)
					delete(want, due)
				}
				require.Greater(t, first(), now, "seed %d, step %d: one that has come was not reported", seed, step)
			}
			require.LessOrEqual(t, h.next(), first(), "seed %d, step %d", seed, step)
			for i := range h {
				require.Equal(t, i+1, h[i].timerPos, "seed %d, step %d", seed, step)
			}
		}
	}
}
