package porttest

// Neighbours of a port that has all addresses of its interface: IPv4, IPv6, a group, the port
// itself, and the queues of the card.

import (
	"fmt"
	"testing"

	"github.com/goroce/goroce/internal/netns"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/wire"
)

// playAll plays each source against each other one.
func (c *contest) playAll() {
	c.t.Helper()
	for i, a := range c.sources {
		for _, b := range c.sources[:i] {
			c.play(a, b)
		}
	}
}

// TestShareOfRows: a flood to one address of an interface leaves the others their share, whichever
// they are. kind is as "udp", places is how many frames a Recv takes.
func TestShareOfRows(t *testing.T, open transport.Opener, kind string, places int) {
	for _, run := range []int{0, 1} {
		t.Run(fmt.Sprintf("MaxRun=%d", run), func(t *testing.T) {
			w, o := netns.NewWire(t, 1500), transport.Options{MaxRun: run}
			left, right := OpenIn(t, w.Left, open, kind+":wire", o), OpenIn(t, w.Right, open, kind+":wire", o)
			group, _ := wire.ParseGID("239.77.9.9")
			if err := transport.JoinGroup(right, group); err != nil {
				t.Fatal(err)
			}
			c := &contest{t: t, port: right, frames: make([]wire.Frame, places)}
			for i, s := range []struct {
				name     string
				from     transport.Port
				src, dst string
			}{
				{"IPv4", left, "10.77.0.1", "10.77.0.2"},
				{"IPv6", left, "fd78::1", "fd78::2"},
				{"another address", left, "10.77.0.1", "10.77.0.3"},
				{"a group", left, "10.77.0.1", "239.77.9.9"},
				{"the port itself", right, "10.77.0.2", "10.77.0.2"},
			} {
				Resolve(t, s.from, s.dst)
				c.sources = append(c.sources,
					c.newSource(s.name, s.from, PathByHand(s.src, s.dst, s.from.Info().SrcPort), uint32(0x100+i)))
			}
			c.sources[1].batch.MaxRun(1) // its packets come one by one, where others come as runs
			c.playAll()
		})
	}
}

// TestShareOfQueues: one lane has all queues of a card, each of which brings what one lane of the
// peer sends. kind is as "xdp".
func TestShareOfQueues(t *testing.T, open transport.Opener, kind string) {
	w := netns.NewWireWithQueues(t, 4)
	left := OpenLanesIn(t, w.Left, open, kind+":10.77.0.1", 4, transport.Options{})
	right := OpenIn(t, w.Right, open, kind+":10.77.0.2", transport.Options{})
	Reach(t, left[0], right)
	c := &contest{t: t, port: right, frames: make([]wire.Frame, sharePlaces)}
	c.sources = []*source{c.newSource("the port itself", right, PathBetween(t, right, right, 0, 64), 0x100)}
	for i, p := range left {
		c.sources = append(c.sources, c.newSource(fmt.Sprint("queue ", i), p, PathBetween(t, p, right, 0, 64),
			uint32(0x101+i)))
	}
	c.playAll()
}
