package qp

// What gave way, or found no room, is asked for as soon as everything before it is there, whatever
// becomes of the NAK that asked for it first (recall).

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/wire"
)

const us = Time(1000)

// givesWay has everything that is kept give way.
func (d *end) givesWay() {
	for d.q.resp.kept != nil {
		d.e.dropNewest(d.q)
	}
}

// sends is what the end sends at a time.
func (d *end) sends(now Time) []wire.Frame {
	d.out.Reset()
	d.e.HandleTimeout(now)
	d.e.PollTransmit(now, d.out)
	return d.out.Frames()
}

// settle carries packets to and fro, at one time: nothing that waits for a timer is among them.
func settle(a, b *end, now Time) {
	for some := true; some; {
		some = false
		for _, d := range [2][2]*end{{a, b}, {b, a}} {
			for _, f := range d[0].sends(now) {
				some = true
				d[1].e.HandleFrames(now, []wire.Frame{f})
			}
		}
	}
}

// came is how many of the packets of gapped have been executed.
func (d *end) came() int32 { return d.q.resp.epsn.Sub(wire.PSNMask) }

// TestMissedBehindNAKTakenBack: the missing packet comes before the NAK has left that asks for it
// and all that gave way.
func TestMissedBehindNAKTakenBack(t *testing.T) {
	a, b, _ := gapped(t, 5)
	a.e.HandleFrames(0, b.sends(0)) // the report of the gap
	again := a.sends(0)
	require.Len(t, again, 1)
	b.givesWay()
	b.receive(again...)
	settle(a, b, 0)
	require.EqualValues(t, 6, b.came())
}

// TestMissedIsNews: a requester that has just repeated a gap hears that all is asked for, however
// soon: that is no echo of the gap's report.
func TestMissedIsNews(t *testing.T) {
	for _, late := range []Time{5 * us, 25 * us} { // within a round trip, and later
		t.Run(time.Duration(late).String(), func(t *testing.T) {
			a, b, _ := gapped(t, 5)
			// the report of the gap; the round trip is 20 us
			a.e.HandleFrames(20*us, b.sends(10*us))
			again := slices.Clone(a.sends(20 * us))
			require.Len(t, again, 1)
			again[0].Body = slices.Clone(again[0].Body) // it is on its way
			b.givesWay()
			naks := b.sends(10*us + late)
			require.Len(t, naks, 1)
			a.e.HandleFrames(20*us+late, naks)
			b.e.HandleFrames(30*us+late, again)
			settle(a, b, 40*us+late)
			require.EqualValues(t, 6, b.came())
		})
	}
}

// TestGivesWayTwice: all was asked for, came, but for the first, and gives way again, after the gap
// alone was asked for.
func TestGivesWayTwice(t *testing.T) {
	for _, n := range []int{1, 5} {
		a, b, _ := gapped(t, n)
		b.sends(10 * us) // the report of the gap is lost
		b.givesWay()
		a.e.HandleFrames(60*us, b.sends(50*us))
		again := a.sends(60 * us)
		require.NotEmpty(t, again)
		b.e.HandleFrames(70*us, again[1:]) // the first is lost again
		require.NotNil(t, b.q.resp.kept)
		a.e.HandleFrames(80*us, b.sends(70*us)) // the gap alone is asked for
		b.givesWay()
		settle(a, b, 90*us)
		require.EqualValues(t, n+1, b.came())
	}
}

// TestGivesWayBeforeNamed: the same, before the gap is named.
func TestGivesWayBeforeNamed(t *testing.T) {
	for _, n := range []int{1, 5} {
		a, b, _ := gapped(t, n)
		b.sends(10 * us) // the report of the gap is lost
		b.givesWay()
		a.e.HandleFrames(60*us, b.sends(50*us)) // all is asked for
		again := a.sends(60 * us)
		require.NotEmpty(t, again)
		b.e.HandleFrames(70*us, again[1:]) // the first is lost again
		require.NotNil(t, b.q.resp.kept)
		b.givesWay()
		settle(a, b, 130*us) // after a round trip, or it is no news
		require.EqualValues(t, n+1, b.came())
	}
}

// TestGapsWiden: the request of a READ that is sent again for one gap stands for others that lie
// within it, in whole or in part.
func TestGapsWiden(t *testing.T) {
	g := func(from, to, next wire.PSN) gap { return gap{from: from, to: to, next: next} }
	for name, c := range map[string]struct {
		list, want []gap
		due        int
	}{
		"alone":           {[]gap{g(5, 6, 5)}, []gap{g(5, 8, 8)}, 0},
		"within it":       {[]gap{g(5, 6, 5), g(6, 7, 6), g(7, 8, 8)}, []gap{g(5, 8, 8)}, 0},
		"in part":         {[]gap{g(5, 6, 5), g(7, 10, 7)}, []gap{g(5, 8, 8), g(8, 10, 8)}, 1},
		"in part, sent":   {[]gap{g(5, 6, 5), g(7, 10, 10)}, []gap{g(5, 8, 8), g(8, 10, 10)}, 0},
		"behind it":       {[]gap{g(5, 6, 5), g(8, 10, 8)}, []gap{g(5, 8, 8), g(8, 10, 8)}, 1},
		"within and then": {[]gap{g(5, 6, 5), g(6, 8, 6), g(12, 13, 12)}, []gap{g(5, 8, 8), g(12, 13, 12)}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := gaps{list: c.list}
			for _, o := range c.list {
				if o.next != o.to {
					s.due++
				}
			}
			s.sent(&s.list[0], 8, &recovery{sequence: sequence{top: 20}})
			c.want[0].top = 20
			require.Equal(t, c.want, s.list)
			require.Equal(t, c.due, s.due)
		})
	}
}
