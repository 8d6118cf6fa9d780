package diff

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/trace"
	"github.com/goroce/goroce/trace/world"
)

// ahead is how far the second clock is ahead of the first.
const ahead = int64(7_654_321)

// traffic is WRITEs and READs between two hosts.
func traffic(w *world.World) {
	a, b := w.AddHost("A"), w.AddHost("B")
	const access = mr.LocalWrite | mr.RemoteWrite | mr.RemoteRead
	from, to := a.RegMR("from", 8192, access), b.RegMR("to", 8192, access)
	ca, cb := a.CreateCQ(64), b.CreateCQ(64)
	p, q := a.CreateQP(ca, world.QPInit{}), b.CreateQP(cb, world.QPInit{})
	w.Connect(p, q)
	for i := range 12 {
		op := qp.WRWrite
		if i%3 == 2 {
			op = qp.WRRead
		}
		_ = p.PostSend(qp.SendWR{Opcode: op, WRID: uint64(i), Flags: qp.SendSignaled, SGL: []qp.SGE{from.SGE(0, 3000)},
			RemoteAddr: to.Addr(0), RKey: to.RKey()})
		w.RunFor(60 * world.Microsecond)
		ca.Poll()
	}
	w.Run()
}

// sight is when a packet was at an end.
type sight struct {
	at     int64
	packet *world.Packet
}

// seen is what a capture at one end of a play has, in the order of time.
func seen(play *world.Play, host int) (all []sight) {
	for i := range play.Packets {
		p := &play.Packets[i]
		if p.From == host {
			all = append(all, sight{p.Sent, p})
			continue
		}
		if p.Arrived > 0 {
			all = append(all, sight{p.Arrived, p})
		}
		if p.Again > 0 {
			all = append(all, sight{p.Again, p})
		}
	}
	slices.SortStableFunc(all, func(a, b sight) int { return int(a.at - b.at) })
	return all
}

// compare compares captures at both ends of a play. numbers are those of the play's packets by
// their numbers in each capture.
func compare(t *testing.T, changes []world.Change, swapped bool) (r *Result, numbers [2]map[int]int, play *world.Play) {
	t.Helper()
	play = world.Run(traffic, changes)
	d := New()
	for c := range 2 {
		host := c
		if swapped {
			host = 1 - c
		}
		numbers[c] = map[int]int{}
		for i, s := range seen(play, host) {
			data := slices.Clone(s.packet.Bytes)
			if s.packet.From == host {
				data = asSent(s.packet)
			}
			x := trace.Packet{Record: trace.Record{Number: i + 1, Time: s.at + int64(host)*ahead, Link: trace.LinkRaw,
				Length: len(data), Data: data}}
			x.Decode()
			require.NoError(t, d.Add(c, &x))
			numbers[c][i+1] = s.packet.N
		}
	}
	return d.Compare(), numbers, play
}

// asSent is a packet before something happened to it: a play has its bytes as they arrive.
func asSent(p *world.Packet) []byte {
	for _, q := range world.Run(traffic, nil).Packets {
		if q.N == p.N && (p.Fate == world.Marked || p.Fate == world.Corrupted) {
			return q.Bytes
		}
	}
	return p.Bytes
}

// TestTruth: what was done to packets is what is found, and delays and clocks are as they were.
func TestTruth(t *testing.T) {
	for _, c := range []struct {
		action world.Action
		of     func(w *Way) []Event
	}{
		{world.Drop, func(w *Way) []Event { return w.Lost }},
		{world.Duplicate, func(w *Way) []Event { return w.Twice }},
		{world.Delay, func(w *Way) []Event { return w.Overtook }},
		{world.Mark, func(w *Way) []Event { return w.Marked }},
		{world.Corrupt, func(w *Way) []Event { return w.Damaged }},
	} {
		for _, n := range []int{2, 5, 9} {
			for _, swapped := range []bool{false, true} {
				t.Run(fmt.Sprint(c.action, n, swapped), func(t *testing.T) {
					r, numbers, play := compare(t, []world.Change{{Packet: n, Action: c.action}}, swapped)
					require.Len(t, r.Pairs, 1)
					p := r.Pairs[0]
					require.False(t, p.Guess)
					require.NotNil(t, p.Clock)
					require.InDelta(t, ahead, abs(p.Clock.Offset), 1000)
					found := 0
					for i := range p.Ways {
						w := &p.Ways[i]
						require.Equal(t, w.Sent, w.Arrived+len(w.Lost)+w.Outside)
						for _, e := range c.of(w) {
							require.Equal(t, n, numbers[i][e.Sent], "%+v", e)
							found++
						}
						require.Empty(t, w.Strange)
					}
					if c.action == world.Delay && found == 0 {
						return // nothing was sent behind it before it came
					}
					require.Equal(t, 1, found, "%s", text(t, r))
					require.NotEmpty(t, play.Packets)
				})
			}
		}
	}
}

func abs(n int64) int64 { return max(n, -n) }

func text(t *testing.T, r *Result) string {
	var b bytes.Buffer
	require.NoError(t, r.Write(&b))
	return b.String()
}

// TestDelays: each packet takes as long as it did.
func TestDelays(t *testing.T) {
	r, _, play := compare(t, nil, false)
	longest, shortest := int64(0), int64(1<<62)
	for _, p := range play.Packets {
		longest, shortest = max(longest, p.Arrived-p.Sent), min(shortest, p.Arrived-p.Sent)
	}
	d := r.Pairs[0].Ways[0].Delay
	require.InDelta(t, shortest, d.Min, 1000)
	require.InDelta(t, longest, max(d.Max, r.Pairs[0].Ways[1].Delay.Max), 1000)
}

// TestReport: text and JSON have all of it.
func TestReport(t *testing.T) {
	r, _, _ := compare(t, []world.Change{{Packet: 2, Action: world.Drop}, {Packet: 20, Action: world.Duplicate}}, false)
	for _, want := range []string{"1 lost", "lost   packet", "ahead of A's", "right up to a constant", "by the times of both ways"} {
		require.Contains(t, text(t, r), want)
	}
	var b bytes.Buffer
	require.NoError(t, r.WriteJSON(&b))
	var back Result
	require.NoError(t, json.Unmarshal(b.Bytes(), &back))
	require.Equal(t, *r, back)
}

// TestOneWay: without the other way nothing is known of the clocks, and delays are counted from the
// fastest packet.
func TestOneWay(t *testing.T) {
	play := world.Run(traffic, nil)
	d := New()
	for c := range 2 {
		for i, s := range seen(play, c) {
			x := trace.Packet{Record: trace.Record{Number: i + 1, Time: s.at + int64(c)*ahead, Link: trace.LinkRaw, Data: s.packet.Bytes}}
			if x.Decode(); s.packet.From == 0 {
				require.NoError(t, d.Add(c, &x))
			}
		}
	}
	r := d.Compare()
	require.Nil(t, r.Pairs[0].Clock)
	require.Zero(t, r.Pairs[0].Ways[0].Delay.Min)
	require.True(t, r.Pairs[0].Guess)
	require.Contains(t, text(t, r), "nothing is known of the clocks")
}
