package perf

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// pace plays a sender for a second of a clock that it turns itself: it looks at the schedule at
// times that delay chooses.
func pace(p *pacer, most int, delay func() time.Duration) (sent int) {
	for now := time.Duration(0); now < time.Second; now += delay() {
		n := min(p.due(now), most)
		p.sent += n
		sent += n
	}
	return sent
}

func TestPacerKeepsItsRate(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	us := time.Microsecond
	for _, c := range []struct {
		name  string
		rate  float64
		burst int
		most  int
		delay func() time.Duration
	}{
		{"one by one", 1000, 1, 64, func() time.Duration { return us }},
		{"6 M a second, looking every 0.3 us", 6e6, 1, 64, func() time.Duration { return 300 }},
		{"6 M a second, looking now and then", 6e6, 1, 1 << 20, func() time.Duration { return time.Duration(random.IntN(4000)) * us }},
		{"bursts", 50000, 100, 64, func() time.Duration { return us }},
		{"the processor goes away for 15 ms at a time", 100e3, 1, 1 << 20, func() time.Duration { return 15 * time.Millisecond }},
		{"a gap that is no whole number", 3e6, 1, 64, func() time.Duration { return us }},
	} {
		sent := pace(newPacer(c.rate, c.burst), c.most, c.delay)
		require.InEpsilon(t, c.rate, sent, 0.02, c.name)
	}
}

// Messages of a burst leave together, and none before its time.
func TestPacerBursts(t *testing.T) {
	p := newPacer(1000, 4) // a burst every 4 ms
	ms := time.Millisecond
	require.Equal(t, 4, p.due(0))
	p.sent += 3
	require.Equal(t, 1, p.due(0))
	require.LessOrEqual(t, p.next(), time.Duration(0), "the rest of a burst need not wait")
	p.sent++
	require.Equal(t, 0, p.due(4*ms-1))
	require.Equal(t, 4*ms, p.next())
	require.Equal(t, 4, p.due(4*ms))
	require.Equal(t, 8, p.due(8*ms), "a late one is made good")
}

// After a long stop the sender does not flood the network with all that it missed.
func TestPacerForgets(t *testing.T) {
	p := newPacer(1e6, 1)
	p.sent = p.due(0)
	n := p.due(10 * time.Second)
	require.LessOrEqual(t, float64(n), 1e6*catchUp.Seconds()+2)
	p.sent += n
	require.Equal(t, 0, p.due(10*time.Second))
	require.Equal(t, 1000, p.due(10*time.Second+time.Millisecond), "and goes on at its rate")
}

func TestRateAsFlag(t *testing.T) {
	for text, want := range map[string]Rate{
		"10": {Bits: 10e9}, "2.5": {Bits: 2.5e9}, "10G": {Bits: 10e9}, "10Gbps": {Bits: 10e9}, "500M": {Bits: 500e6},
		"64Kbps": {Bits: 64e3}, "100MiBps": {Bits: 100 * 8 << 20}, "1.5Mpps": {Messages: 1.5e6}, "200kpps": {Messages: 200e3},
		"7pps": {Messages: 7},
	} {
		var r Rate
		require.NoError(t, r.Set(text), text)
		require.NoError(t, r.unit(""))
		require.Equal(t, want.messages(1), r.messages(1), text)
		again := Rate{}
		require.NoError(t, again.Set(r.String()), r.String())
		require.InEpsilon(t, r.messages(1), again.messages(1), 1e-9, text)
	}
	for _, text := range []string{"", "0", "-1", "G", "1T", "1 G", "NaN", "Inf", "1e400", "1Gpps2", "10Gib"} {
		require.ErrorContains(t, new(Rate).Set(text), "want", text)
	}
	r := Rate{}
	require.NoError(t, r.Set("8"))
	for units, want := range map[string]float64{"": 1e9, "g": 1e9, "M": 8 << 20, "p": 8} {
		again := r
		require.NoError(t, again.unit(units))
		require.InEpsilon(t, want, again.messages(1), 1e-9, units)
	}
	require.ErrorContains(t, r.unit("x"), "want g, M or p")
	require.NoError(t, r.Set("8G"))
	require.ErrorContains(t, r.unit("p"), "has its unit")
	require.InEpsilon(t, 10e9/8/4096, (&Rate{Bits: 10e9}).messages(4096), 1e-9)
}
