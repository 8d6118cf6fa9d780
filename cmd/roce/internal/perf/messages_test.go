package perf

import (
	"errors"
	"math"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/cmd/roce/internal/oob/oobtest"
	"github.com/goroce/goroce/internal/netns"
	"github.com/goroce/goroce/wire"
)

func TestMain(m *testing.M) {
	netns.Own()
	m.Run()
}

const keyExample = "0000:0001:000011:5b3a2c:000002b4:00007f1c2a5d1000:00:00:00:00:00:00:00:00:00:00:ff:ff:0a:00:00:01:00000000:\x00"

func TestKeyIsThatOfPerftest(t *testing.T) {
	want := key{Outs: 1, QPN: 0x11, PSN: 0x5b3a2c, RKey: 0x2b4, VAddr: 0x7f1c2a5d1000, GID: wire.GIDFrom(netip.MustParseAddr("10.0.0.1"))}
	require.Len(t, keyExample, keyLen)
	require.Equal(t, keyExample, string(want.append(nil)))
	got, err := parseKey([]byte(keyExample))
	require.NoError(t, err)
	require.Equal(t, want, got)
}

func FuzzParseKey(f *testing.F) {
	f.Add([]byte(keyExample))
	f.Fuzz(func(t *testing.T, msg []byte) {
		if k, err := parseKey(msg); err == nil {
			again, err := parseKey(k.append(nil))
			require.NoError(t, err)
			require.Equal(t, k, again)
		}
	})
}

// links returns the two ends of an out-of-band connection.
func links(t *testing.T) (server, client *link) {
	port := oobtest.FreePort(t)
	got := make(chan *link)
	go func() {
		s, err := meet(t.Context(), "", port)
		if err != nil {
			t.Error(err)
		}
		got <- s
	}()
	require.Eventually(t, func() (ok bool) {
		var err error
		client, err = meet(t.Context(), "127.0.0.1", port)
		return err == nil
	}, time.Minute, time.Millisecond)
	return <-got, client
}

// play runs the script of both ends at once, each against the other.
func play[T any](t *testing.T, script func(l *link) T) (server, client T) {
	s, c := links(t)
	got := make(chan T)
	go func() { got <- script(c) }()
	server = script(s)
	return server, <-got
}

func TestPreambleAgrees(t *testing.T) {
	mine := map[bool]terms{false: {4096, 64, wire.MTU4096, true, ""}, true: {16384, 128, wire.MTU1024, true, ""}}
	s, c := play(t, func(l *link) terms {
		got, err := l.preamble(mine[l.client])
		if err != nil {
			t.Error(err)
		}
		return got
	})
	require.Equal(t, terms{16384, 128, wire.MTU1024, true, ""}, s)
	require.Equal(t, s, c)
}

func TestSelectiveRepeatTakesBoth(t *testing.T) {
	for _, ready := range []map[bool]bool{{true: true, false: true}, {true: true}, {false: true}, {}} {
		s, c := play(t, func(l *link) terms {
			got, err := l.preamble(terms{4096, 64, wire.MTU4096, ready[l.client], ""})
			if err != nil || !l.ours {
				t.Errorf("%v, ours: %v", err, l.ours)
			}
			return got
		})
		require.Equal(t, ready[true] && ready[false], s.selective)
		require.Equal(t, s, c)
	}
}

// TestGameIsCompared: both ends of ours say at once that they were asked for different things.
func TestGameIsCompared(t *testing.T) {
	games := map[bool]string{false: "send-bw -c RC -q 4 -n 1000", true: "send-bw -c RC -q 8 -n 1000"}
	s, c := play(t, func(l *link) error {
		_, err := l.preamble(terms{4096, 64, wire.MTU4096, true, games[l.client]})
		return err
	})
	require.ErrorContains(t, s, `the peer plays "send-bw -c RC -q 8 -n 1000", this end "send-bw -c RC -q 4 -n 1000"`)
	require.ErrorContains(t, c, `the peer plays "send-bw -c RC -q 4 -n 1000", this end "send-bw -c RC -q 8 -n 1000"`)
}

// TestGameFits: whatever the options, the peer gets all of the message.
func TestGameFits(t *testing.T) {
	for i := range Tests {
		for _, o := range []Options{{Bidi: true, AllSizes: true, Iters: math.MaxInt}, {Bidi: true, Iters: math.MaxInt, Size: 1 << 30}} {
			if o.QPs = 16384; Tests[i].Lat {
				o.QPs, o.Bidi = 1, false // complete allows no more
			}
			require.LessOrEqual(t, len(o.game(&Tests[i])), gameLen)
		}
	}
}

func TestPreambleBytes(t *testing.T) {
	s, c := links(t)
	ended := make(chan error)
	go func() {
		got, err := s.preamble(terms{4096, 64, wire.MTU2048, true, ""})
		if got.selective {
			t.Error("selective repeat with perftest")
		}
		ended <- err
	}()
	for _, round := range []struct{ send, want string }{
		// After the end of perftest's text stands our mark, where perftest has zeros.
		{"6.06\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", "6.06\x00goroce2glo\x00"},
		{"\x00\x00\x10\x00", "\x00\x00\x10\x00"},
		{"\x00\x00\x00\x40", "\x00\x00\x00\x40"},
		{"3\x00", "4\x00"},
	} {
		got := make([]byte, len(round.want))
		require.NoError(t, c.swap([]byte(round.send), got, time.Minute))
		require.Equal(t, round.want, string(got))
	}
	require.NoError(t, <-ended)
	require.False(t, s.ours, "perftest is not one of us")
}

func TestCostsAreSwappedAmongOurselves(t *testing.T) {
	mine := map[bool]cost{false: {time.Second, 2 * time.Second, 0, 0}, true: {3 * time.Second, 2 * time.Second, 1000, 8000}}
	s, c := play(t, func(l *link) cost {
		if _, err := l.preamble(terms{4096, 64, wire.MTU2048, false, ""}); err != nil || !l.ours {
			t.Errorf("%v, ours: %v", err, l.ours)
		}
		got, err := l.cost(mine[l.client])
		if err != nil {
			t.Error(err)
		}
		return got
	})
	require.Equal(t, mine[true], s)
	require.Equal(t, mine[false], c)
}

func TestReportAndGoodbye(t *testing.T) {
	mine := map[bool]figures{false: {Size: 65536, Iters: 1000, Peak: 1, Avg: 2, Rate: 3},
		true: {Size: 8, Iters: 5000, Peak: 1234.5, Avg: 1200.25, Rate: 0.5}}
	s, c := play(t, func(l *link) figures {
		got, err := l.report(mine[l.client])
		if err == nil {
			err = errors.Join(l.finished(key{}), l.goodbye())
		}
		if err != nil {
			t.Error(err)
		}
		return got
	})
	require.Equal(t, mine[true], s)
	require.Equal(t, mine[false], c)
}
