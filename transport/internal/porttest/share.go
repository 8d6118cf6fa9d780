package porttest

// Neighbours: whoever floods a port leaves the others their share of its Recvs and of its places.
// Nothing here looks at a clock: turns and frames are counted.
//
// Stages: who sends → one frame under a flood → two floods at once → what stands behind a frame to
// ourselves.

import (
	"testing"

	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/wire"
)

const (
	// sharePlaces is how many frames the Recvs of most of these tests take.
	sharePlaces = 16
	// underWay is for how many Recvs a flood keeps frames on their way: for several, and so few
	// that four floods fit the ring of a packet port, which has 240 slots.
	underWay = 3
	// patientRecvs is how many Recvs in a row may look elsewhere although there is something.
	patientRecvs = 8
)

// source is one that sends to a port under test. Its frames name a queue pair of its own.
type source struct {
	name string
	port transport.Port
	path *wire.Path
	qpn  uint32
	// held says that the port under test is what keeps it waiting when there is no room.
	held  bool
	batch *wire.Batch // of as many frames as a flood keeps under way
	most  int         // that is
	sent  int
	seen  int // the number behind that of the last one received
	got   int // how many were
}

func (c *contest) newSource(name string, port transport.Port, path *wire.Path, qpn uint32) *source {
	most := underWay * len(c.frames)
	s := &source{name: name, port: port, path: path, qpn: qpn, batch: wire.NewBatch(most, 64), most: most}
	s.batch.MaxRun(port.Info().MaxRun)
	return s
}

// send sends n frames; as far as there is room, if the port under test makes that.
func (s *source) send(t *testing.T, n int) {
	t.Helper()
	for i := range n {
		PutFor(t, s.batch, s.path, s.qpn, s.sent+i, 12)
	}
	if !s.held {
		SendAll(t, s.port, s.batch)
	} else if gone, err := s.port.Send(s.batch); err != nil {
		t.Fatal(err)
	} else {
		n = gone
	}
	s.batch.Reset()
	s.sent += n
}

// flood keeps its frames under way, and sends one more if it believes that all are.
func (s *source) flood(t *testing.T) {
	t.Helper()
	s.send(t, min(max(s.most-(s.sent-s.seen), 1), s.most))
}

// contest is sources that send to one port.
type contest struct {
	t       *testing.T
	port    transport.Port
	sources []*source
	frames  []wire.Frame // of a Recv
}

// recv receives what is there, or the first that comes, and counts whose it is. Frames of a source
// come in order.
func (c *contest) recv() {
	c.t.Helper()
	for _, f := range RecvSome(c.t, c.port, c.frames) {
		for _, s := range c.sources {
			if (*wire.BTH)(f.Body).DestQP() != s.qpn {
				continue
			}
			number := Number(c.t, &f)
			if number < s.seen {
				c.t.Fatalf("%s: packet %d after number %d", s.name, number, s.seen-1)
			}
			s.seen, s.got = number+1, s.got+1
		}
	}
}

// trickle: a frame of one source under the flood of another comes after what was there before it,
// and after a Recv or two of each source.
func (c *contest) trickle(flood, honest *source) {
	c.t.Helper()
	for range 30 {
		flood.flood(c.t)
		most := flood.sent + (2*len(c.sources)+patientRecvs)*len(c.frames)
		for number := honest.sent; honest.seen <= number; {
			if honest.sent == number {
				honest.send(c.t, 1)
			}
			flood.flood(c.t)
			if c.recv(); flood.seen > most && honest.seen <= number {
				c.t.Fatalf("%s floods: frame %d of %s (%d were sent) has not come before frame %d of the flood",
					flood.name, number, honest.name, honest.sent, flood.seen)
			}
		}
	}
}

// compete: of two sources that flood, each gets half of its share at least, once both have begun.
func (c *contest) compete(a, b *source) {
	c.t.Helper()
	total := 120 * len(c.frames)
	hadA, hadB := a.got, b.got
	for a.got-hadA+b.got-hadB < total {
		a.flood(c.t)
		b.flood(c.t)
		c.recv()
	}
	if gotA, gotB := a.got-hadA, b.got-hadB; 4*min(gotA, gotB) < total-patientRecvs*len(c.frames) {
		c.t.Errorf("of two floods, %s got %d frames and %s %d", a.name, gotA, b.name, gotB)
	}
}

// play is all of that for two sources, whichever floods.
func (c *contest) play(a, b *source) {
	c.t.Helper()
	c.trickle(a, b)
	c.trickle(b, a)
	c.compete(a, b)
}

// openShare opens three ports and returns sources that send to the first: a neighbour, another one,
// and the port itself.
func openShare(t *testing.T, k Kind) (ports []transport.Port, c *contest) {
	t.Helper()
	for i := range 3 {
		ports = append(ports, k.Open(t, i, transport.Options{QueueLen: 2 * sharePlaces}))
	}
	c = &contest{t: t, port: ports[0], frames: make([]wire.Frame, sharePlaces)}
	for i, name := range []string{"the port itself", "a neighbour", "another"} {
		s := c.newSource(name, ports[i], PathBetween(t, ports[i], ports[0], 0, 64), uint32(0x100+i))
		s.held = k.Held
		c.sources = append(c.sources, s)
	}
	return ports, c
}

// testShare: two neighbours, and a neighbour and the port itself.
func testShare(t *testing.T, k Kind) {
	_, c := openShare(t, k)
	c.play(c.sources[1], c.sources[2])
	c.play(c.sources[0], c.sources[1])
}

// testShareBehind: what stands behind frames to ourselves leaves although those find no room, and a
// neighbour floods.
func testShareBehind(t *testing.T, k Kind) {
	ports, c := openShare(t, k)
	p, self, flood, frames := ports[0], c.sources[0], c.sources[1], make([]wire.Frame, 4)
	self.held = true
	for number := range 10 {
		for range 2 { // its queues are two, of which a Recv empties one
			for before := -1; self.sent != before && self.sent-self.seen < 20*self.most; {
				before = self.sent
				self.send(t, self.most)
			}
			flood.flood(t)
			c.recv()
		}
		batch := wire.NewBatch(2, 64)
		PutFor(t, batch, self.path, self.qpn, self.sent, 12)
		Put(t, batch, PathBetween(t, p, ports[2], 0, 64), number, 12)
		self.sent++
		most := len(c.sources)*(self.sent-self.seen)/sharePlaces + patientRecvs
		for turns := 0; batch.Len() > 0; turns++ {
			if turns > most {
				t.Fatalf("packet %d to another host has stood behind one to ourselves for %d turns", number, turns)
			}
			flood.flood(t)
			c.recv()
			n, err := p.Send(batch)
			if err != nil {
				t.Fatal(err)
			}
			batch.Drop(n)
		}
		if got := RecvSome(t, ports[2], frames); len(got) != 1 || Number(t, &got[0]) != number {
			t.Fatalf("packet %d: %d frames", number, len(got))
		}
	}
}
