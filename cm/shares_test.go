package cm

// Shares of a listener's places: who asks for many leaves the others theirs.

import (
	"math/rand/v2"
	"testing"

	"github.com/goroce/goroce/wire"
)

// crowd is sources that ask one listener.
type crowd struct {
	t    *testing.T
	m    *Machine
	l    *Listener
	n    uint32
	told []*Conn // requests that the application has heard of
	lost int     // of these, those that were displaced afterwards
}

var v6Path = Path{Local: wire.GID{0xfd, 15: 1}}

func newCrowd(t *testing.T, o ListenOptions) *crowd {
	m := New(Config{Rand: rand.New(rand.NewPCG(1, 2)).Uint64, CAGUID: 1})
	l, err := m.Listen(other, o)
	if err != nil {
		t.Fatal(err)
	}
	return &crowd{t: t, m: m, l: l}
}

// at is an address: of IPv4, or one of a /64 of IPv6.
func at(v6 bool, network, host byte) wire.GID {
	if v6 {
		return wire.GID{0: 0xfd, 7: network, 15: host}
	}
	return wire.GID{10: 0xff, 11: 0xff, 12: 10, 14: network, 15: host}
}

// ask lets a source send so many requests.
func (c *crowd) ask(from wire.GID, requests int) {
	c.t.Helper()
	to := peerPath.Local
	if !from.Is4() {
		to = v6Path.Local
	}
	for range requests {
		c.n++
		req := wire.CMReq{LocalCommID: c.n, LocalQPN: c.n, LocalCAGUID: 9, ServiceID: other, PartitionKey: 0xffff, PathMTU: wire.MTU1024,
			MaxCMRetries: 3, LocalCMResponseTimeout: 20, Primary: wire.CMPath{LocalGID: from, RemoteGID: to, LocalAckTimeout: 17}}
		c.m.HandleMAD(1, Path{Local: to, Remote: from}, mad(uint64(c.n), &req)[:])
		for e, ok := c.m.PollEvent(); ok; e, ok = c.m.PollEvent() {
			switch e.Type {
			case EventConnectRequest:
				c.told = append(c.told, e.Conn)
			case EventRejected, EventUnreachable:
				c.lost++
			}
		}
		for msg := (Message{}); c.m.PollTransmit(&msg); {
		}
	}
	if err := c.m.check(); err != nil {
		c.t.Fatal(err)
	}
}

// accept accepts all that was asked; nobody ever says that he is ready.
func (c *crowd) accept() {
	for _, conn := range c.told {
		if conn.State() == StateReqRcvd {
			if err := conn.Accept(1, &AcceptParams{}); err != nil {
				c.t.Fatal(err)
			}
		}
	}
}

// has is how many places a source has, by counting them.
func (c *crowd) has(from ...wire.GID) (n int) {
	for _, conn := range c.m.conns {
		for _, gid := range from {
			if conn.listener != nil && conn.path.Remote == gid {
				n++
			}
		}
	}
	return n
}

// TestShares: a source that has all places gives up those above its share, the oldest first, and no
// more: whether they wait for the application or for the peer, and for a /64 as for an address.
func TestShares(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		for _, accepted := range []bool{false, true} {
			c := newCrowd(t, ListenOptions{Backlog: 12, HalfOpen: 12})
			flood, honest, third := at(v6, 1, 1), at(v6, 2, 1), at(v6, 3, 1)
			for i, step := range []struct {
				from wire.GID
				asks int
				want [3]int
			}{
				{flood, 100, [3]int{12, 0, 0}}, {honest, 1, [3]int{11, 1, 0}}, {flood, 100, [3]int{11, 1, 0}},
				{honest, 100, [3]int{6, 6, 0}}, {flood, 100, [3]int{6, 6, 0}}, {third, 2, [3]int{5, 5, 2}}, {flood, 100, [3]int{5, 5, 2}},
				{third, 100, [3]int{4, 4, 4}}, {honest, 100, [3]int{4, 4, 4}},
			} {
				c.ask(step.from, step.asks)
				if accepted {
					c.accept()
				}
				if got := [3]int{c.has(flood), c.has(honest), c.has(third)}; got != step.want {
					t.Errorf("IPv6 %v, accepted %v, step %d: %v, want %v", v6, accepted, i, got, step.want)
				}
			}
			if c.lost != 10 || c.told[7].listener != nil || c.told[8].listener == nil {
				t.Errorf("IPv6 %v, accepted %v: %d were displaced, want 10, and of the first source the 8 oldest", v6, accepted, c.lost)
			}
		}
	}
}

// TestSharesOfNetworks: all addresses of a /64 have one share, and within it one each.
func TestSharesOfNetworks(t *testing.T) {
	c := newCrowd(t, ListenOptions{Backlog: 12})
	var many []wire.GID
	for i := range byte(12) {
		many = append(many, at(true, 1, i))
		c.ask(many[i], 10)
	}
	honest := at(true, 2, 1)
	c.ask(honest, 100)
	if c.has(honest) != 6 || c.has(many...) != 6 {
		t.Errorf("%d of another network, %d of a network of many addresses", c.has(honest), c.has(many...))
	}
	c = newCrowd(t, ListenOptions{Backlog: 12})
	flood, neighbour := at(true, 1, 1), at(true, 1, 2)
	c.ask(flood, 100)
	c.ask(honest, 100)
	c.ask(neighbour, 100)
	if got := [3]int{c.has(honest), c.has(flood), c.has(neighbour)}; got != [3]int{6, 3, 3} {
		t.Errorf("%v: of another network, and of two in one", got)
	}
}

// TestSharesAreFair: whoever asks for how many and in whichever order, who was turned away or lost
// a place has no fewer than any other, but for one.
func TestSharesAreFair(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 7))
	for range 200 {
		places, sources := 1+rnd.IntN(40), 1+rnd.IntN(6)
		c := newCrowd(t, ListenOptions{Backlog: places, HalfOpen: places})
		asks := make([]int, sources)
		for range 30 {
			from := rnd.IntN(sources)
			n := rnd.IntN(20)
			asks[from] += n
			c.ask(at(false, 0, byte(from)), n)
			if rnd.IntN(3) == 0 {
				c.accept()
			}
		}
		most, all := 0, 0
		for i := range asks {
			most = max(most, c.has(at(false, 0, byte(i))))
		}
		for i, n := range asks {
			has := c.has(at(false, 0, byte(i)))
			all += has
			if has < min(n, places/(2*sources)) {
				t.Errorf("%d places, %d sources: %d has %d of the %d that it wants, and another %d", places, sources, i, has, n, most)
			}
		}
		if all > places {
			t.Errorf("%d places, %d taken", places, all)
		}
	}
}
