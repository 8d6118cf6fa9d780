package analysis

import (
	"bytes"
	"errors"
	"io"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/trace"
	"github.com/goroce/goroce/wire"
)

// TestMirror: a capture in which each packet is once more half a microsecond later has no retries.
func TestMirror(t *testing.T) {
	data, err := os.ReadFile("../../testdata/captures/rc.pcapng")
	require.NoError(t, err)
	src, err := trace.NewSource(bytes.NewReader(data))
	require.NoError(t, err)
	var all []*trace.Packet
	for {
		p, err := src.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		for i := range int64(2) {
			x := &trace.Packet{Record: p.Record}
			x.Data = slices.Clone(p.Data)
			x.Time += 500 * i
			x.Decode()
			all = append(all, x)
		}
	}
	slices.SortStableFunc(all, func(a, b *trace.Packet) int { return int(a.Time - b.Time) })
	a, copies := New(), uint64(0)
	for i, p := range all {
		p.Number = i + 1
		a.Add(p)
	}
	require.Equal(t, "no problem was seen", a.Verdict())
	for _, f := range a.Flows {
		copies += f.SeenTwice
		require.Zero(t, f.Requests.Repeated)
	}
	require.NotZero(t, copies)
}

// TestFailOver: what goes on at another interface, be it new or sent again, is no copy.
func TestFailOver(t *testing.T) {
	k := newTalk(t)
	k.send(fromA, wire.RCSendOnly, 5, 1, nil)
	k.now += 67_000_000
	for _, psn := range []wire.PSN{5, 6} {
		p := k.packet(fromA, wire.RCSendOnly, psn, 1, nil)
		p.Interface = 1
		require.False(t, k.a.Add(p).Twice)
	}
	p := k.packet(fromB, wire.RCAcknowledge, 6, 0, says(wire.SynACK))
	p.Interface = 1
	require.False(t, k.a.Add(p).Twice)
	require.EqualValues(t, 1, k.a.Flows[0].Requests.Repeated)
	require.EqualValues(t, 3, k.a.Flows[0].Packets)
}
