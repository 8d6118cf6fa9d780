package diff

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/trace"
	"github.com/goroce/goroce/wire"
)

// made is a packet between two addresses.
func made(t *testing.T, src, dst string, op wire.Opcode, psn, body int) []byte {
	s, d := netip.MustParseAddr(src), netip.MustParseAddr(dst)
	path, err := wire.NewPath(wire.GIDFrom(s), wire.GIDFrom(d), 50000, 0, 64, 0)
	require.NoError(t, err)
	n := wire.Head4Len
	if s.Is6() {
		n = wire.Head6Len
	}
	size := wire.BTHLen + body + wire.ICRCLen
	f := wire.Frame{Head: make([]byte, n), Body: make([]byte, size)}
	path.PutHead(f.Head, size, 0)
	(*wire.BTH)(f.Body).Put(op, 0, 0, wire.DefaultPKey, 0x11, wire.PSN(psn))
	wire.Seal(&f)
	return slices.Concat(f.Head, f.Body)
}

// stamped is a packet at a time.
type stamped struct {
	at   int64
	data []byte
}

// compared is what is found of two captures.
func compared(t *testing.T, captures [2][]stamped) *Result {
	d := New()
	for c, all := range captures {
		slices.SortStableFunc(all, func(a, b stamped) int { return int(a.at - b.at) })
		for i, s := range all {
			x := trace.Packet{Record: trace.Record{Number: i + 1, Time: s.at, Link: trace.LinkRaw, Length: len(s.data), Data: s.data}}
			x.Decode()
			require.NoError(t, d.Add(c, &x))
		}
	}
	return d.Compare()
}

// TestAlike: packets that are alike, many within a round trip, are told by their order; if one is
// lost, which one is a guess.
func TestAlike(t *testing.T) {
	const a, b = "2001:db8::1", "2001:db8::2"
	cnp := made(t, b, a, 0x81, 0, 16)
	for _, lost := range []int{-1, 77} {
		for _, gap := range []int64{500_000, 50_000, 20_000} {
			var seen [2][]stamped
			both := func(from int, at int64, data []byte, arrives bool) {
				if seen[from] = append(seen[from], stamped{at, data}); arrives {
					seen[1-from] = append(seen[1-from], stamped{at + 100_000, data})
				}
			}
			for i := range 200 {
				at := int64(i) * gap
				both(0, at, made(t, a, b, wire.RCSendOnly, i, 64), true)
				both(1, at+101_000, made(t, b, a, wire.RCAcknowledge, i, 4), true)
				both(1, at+102_000, cnp, i != lost)
			}
			r := compared(t, seen)
			require.Len(t, r.Pairs, 1)
			for i, w := range r.Pairs[0].Ways {
				missing := 0
				if i == 1 && lost >= 0 {
					missing = 1
				}
				require.Len(t, w.Lost, missing)
				require.Equal(t, missing > 0 && gap < 200_000, w.Guess)
				require.Empty(t, w.Twice)
				require.Empty(t, w.Overtook)
				require.Empty(t, w.Strange)
				require.Equal(t, Delay{100_000, 100_000, 100_000, 100_000}, *w.Delay)
			}
		}
	}
}

// TestDrift: a clock that runs away by more than a round trip loses no packet; the line that it
// runs along is taken out. One that jumps is said.
func TestDrift(t *testing.T) {
	for _, ppm := range []int64{-50, 1, 5, 50} {
		var seen [2][]stamped
		far := func(at int64) int64 { return at + at*ppm/1_000_000 }
		for i := range 600 {
			at := int64(i) * 50_000_000
			w, ack := made(t, "10.0.0.1", "10.0.0.2", wire.RCSendOnly, i, 64), made(t, "10.0.0.2", "10.0.0.1", wire.RCAcknowledge, i, 4)
			seen[0] = append(seen[0], stamped{at, w}, stamped{at + 110_000, ack})
			seen[1] = append(seen[1], stamped{far(at + 50_000), w}, stamped{far(at + 60_000), ack})
		}
		p := compared(t, seen).Pairs[0]
		require.Equal(t, [2]string{"10.0.0.1", "10.0.0.2"}, p.Addresses)
		require.Equal(t, ppm != 1, p.Clock.Guess)
		if p.Clock.Guess {
			require.InDelta(t, ppm, p.Clock.Drift, 0.1)
		}
		for _, w := range p.Ways {
			require.Equal(t, 600, w.Arrived)
			require.Empty(t, w.Strange)
			require.InDelta(t, 50_000, w.Delay.Median, 1000)
		}
	}
}

// TestUnsteady: of a clock that is set back and forth nothing is said but that.
func TestUnsteady(t *testing.T) {
	var seen [2][]stamped
	for i := range 600 {
		at, off := int64(i)*50_000_000, int64(i%2)*1_000_000
		w, ack := made(t, "10.0.0.1", "10.0.0.2", wire.RCSendOnly, i, 64), made(t, "10.0.0.2", "10.0.0.1", wire.RCAcknowledge, i, 4)
		seen[0] = append(seen[0], stamped{at, w}, stamped{at + 110_000, ack})
		seen[1] = append(seen[1], stamped{at + 50_000 + off, w}, stamped{at + 60_000 + off, ack})
	}
	r := compared(t, seen)
	require.True(t, r.Pairs[0].Clock.Unsteady)
	for _, w := range r.Pairs[0].Ways {
		require.Equal(t, 600, w.Arrived)
		require.Nil(t, w.Delay)
	}
	require.Contains(t, text(t, r), "the clocks drift")
}

// TestSame: one capture twice is said.
func TestSame(t *testing.T) {
	all := []stamped{{0, made(t, "10.0.0.1", "10.0.0.2", wire.RCSendOnly, 1, 64)}}
	require.Contains(t, text(t, compared(t, [2][]stamped{all, all})), "one capture twice")
}
