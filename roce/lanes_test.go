package roce

// Several lanes: where queue pairs and their packets go, and what happens to packets that arrive on
// the wrong lane.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/ports"
	"github.com/goroce/goroce/wire"
)

// All tests of operations run over devices with lanes too, and over some where every packet arrives
// on the wrong one.
func init() {
	wires = append(wires,
		wire2{"pipe 2 lanes", overLanes(2, "pipe", nil)}, wire2{"udp 4 lanes", overLanes(4, "udp", nil)},
		wire2{"pipe strays", overLanes(2, "pipe", newRing)}, wire2{"udp strays", overLanes(2, "udp", newRing)})
}

// overLanes opens two devices with lanes. The next queue pair of the second one goes to another
// lane than that of the first.
func overLanes(lanes int, kind string, ring func() func(transport.Port) transport.Port) func(testing.TB,
	func(transport.Port) transport.Port) (a, b *Device) {
	return func(t testing.TB, wrap func(transport.Port) transport.Port) (a, b *Device) {
		t.Helper()
		name := names[kind](t)
		open := func(i int) *Device {
			cfg := Config{Lanes: lanes, Wrap: wrap}
			if ring != nil {
				turn := ring()
				cfg.Wrap = func(p transport.Port) transport.Port {
					if wrap != nil {
						p = wrap(p)
					}
					return turn(p)
				}
			}
			d, err := Open(name(i), &cfg)
			must(t, err)
			t.Cleanup(func() { must(t, d.Close()) })
			return d
		}
		a, b = open(0), open(1)
		newEnd(t, b, RC, 8)
		return a, b
	}
}

// names give the names of devices i of a test that can reach each other.
var names = map[string]func(testing.TB) func(i int) string{
	"pipe": func(testing.TB) func(int) string {
		segment := serial.Add(1)
		return func(int) string { return fmt.Sprintf("pipe:test-%d", segment) }
	},
	"udp": func(testing.TB) func(int) string { return udpNames() },
}

// turnedPort is the port of the lane before, so that each packet arrives one lane further than it
// was steered.
type turnedPort struct {
	ports *[]transport.Port
	lane  int
}

// newRing returns a Wrap that turns the ports of a device.
func newRing() func(transport.Port) transport.Port {
	ports := new([]transport.Port)
	return func(p transport.Port) transport.Port {
		*ports = append(*ports, p)
		return &turnedPort{ports, len(*ports) - 1}
	}
}

func (p *turnedPort) port() transport.Port {
	n := len(*p.ports)
	return (*p.ports)[(p.lane+n-1)%n]
}

func (p *turnedPort) Recv(f []wire.Frame) (int, error) { return p.port().Recv(f) }
func (p *turnedPort) Send(b *wire.Batch) (int, error)  { return p.port().Send(b) }
func (p *turnedPort) Wait(d time.Duration) error       { return p.port().Wait(d) }
func (p *turnedPort) Wake()                            { p.port().Wake() }
func (p *turnedPort) Info() transport.Info             { return p.port().Info() }
func (p *turnedPort) Stats() transport.Stats           { return p.port().Stats() }
func (p *turnedPort) Close() error                     { return p.port().Close() }
func (p *turnedPort) JoinGroup(g GID) error {
	return (*p.ports)[0].(transport.Multicaster).JoinGroup(g)
}
func (p *turnedPort) LeaveGroup(g GID) error {
	return (*p.ports)[0].(transport.Multicaster).LeaveGroup(g)
}

// laned opens two devices with lanes, connected queue pairs on all of them, and closes everything
// with the test.
func laned(t testing.TB, kind string, lanes, pairs, size int, wrap func(transport.Port) transport.Port) (as, bs []*end) {
	t.Helper()
	name := names[kind](t)
	var devices []*Device
	for i := range 2 {
		d, err := Open(name(i), &Config{Lanes: lanes, Wrap: wrap})
		must(t, err)
		t.Cleanup(func() { must(t, d.Close()) })
		devices = append(devices, d)
	}
	for range pairs {
		a, b := newEnd(t, devices[0], RC, size), newEnd(t, devices[1], RC, size)
		connect(t, a, b)
		as, bs = append(as, a), append(bs, b)
	}
	return as, bs
}

// TestLanesShareTheLoad: queue pairs are spread evenly, also after some were closed, and all lanes
// work.
func TestLanesShareTheLoad(t *testing.T) {
	for kind := range names {
		for _, lanes := range []int{2, 4} {
			t.Run(fmt.Sprintf("%s/%d", kind, lanes), func(t *testing.T) {
				as, bs := laned(t, kind, lanes, 2*lanes, 32<<10, nil)
				var all sync.WaitGroup
				for i := range as {
					if lane := as[i].qp.Lane(); lane != i%lanes || int(as[i].qp.QPN())%lanes != lane {
						t.Errorf("queue pair %d, 0x%06x, is on lane %d", i, as[i].qp.QPN(), lane)
					}
					carry(&all, as[i], bs[i], 100, i)
				}
				all.Wait()
				for _, d := range []*Device{as[0].dev, bs[0].dev} {
					var packets, turns uint64
					for i, s := range d.StatsByLane() {
						if s.Engine.SentPkts+s.Engine.RcvdPkts < 200 || s.Port.SendFrames == 0 || s.Port.RecvFrames == 0 ||
							s.Lane.Turns == 0 {
							t.Errorf("lane %d: %+v", i, s)
						}
						packets += s.Port.SendFrames
						turns += s.Lane.Turns
					}
					if sum := d.Stats(); sum.Port.SendFrames < packets || sum.Lane.Turns < turns || sum.Engine.SentPkts < packets ||
						sum.Lane.Strays != 0 {
						t.Errorf("%d packets and %d turns of %+v", packets, turns, sum)
					}
				}
				// The lane that lost its queue pairs gets the next ones.
				must(t, as[1].qp.Close())
				must(t, as[1+lanes].qp.Close())
				for range 2 {
					if q := newEnd(t, as[0].dev, RC, 8).qp; q.Lane() != 1 {
						t.Errorf("a new queue pair is on lane %d", q.Lane())
					}
				}
			})
		}
	}
}

// TestStraysAreCounted: on a device whose ports are turned, every packet is a stray, and arrives.
func TestStraysAreCounted(t *testing.T) {
	a, b := connected(t, wire2{open: overLanes(2, "pipe", newRing)}, RC, 4096)
	for i := range 50 {
		b.recv(uint64(i), b.mr.SGE(0, 4096))
		a.post(SendWR{Opcode: WRSend, SGL: []SGE{a.mr.SGE(0, 4096)}})
		a.wait()
		b.wait()
	}
	for _, d := range []*Device{a.dev, b.dev} {
		if s := d.Stats(); s.Lane.Strays != s.Port.RecvFrames || s.Lane.Strays < 50 || s.Engine.RcvdPkts != s.Lane.Strays ||
			s.Lane.StraysLost != 0 {
			t.Errorf("%+v of %d frames", s.Lane, s.Port.RecvFrames)
		}
	}
}

// TestGroupAcrossLanes: each member of a group gets each datagram once, on whichever lanes they
// are.
func TestGroupAcrossLanes(t *testing.T) {
	for _, kind := range []string{"pipe", "udp"} {
		t.Run(kind, func(t *testing.T) {
			name := names[kind](t)
			a, err := Open(name(0), &Config{Lanes: 2})
			must(t, err)
			t.Cleanup(func() { must(t, a.Close()) })
			b, err := Open(name(1), &Config{Lanes: 4})
			must(t, err)
			t.Cleanup(func() { must(t, b.Close()) })
			group, err := ParseGID("239.7.7.8")
			must(t, err)
			from := newEnd(t, a, UD, 256)
			must(t, from.qp.Activate(9))
			ah, err := from.pd.CreateAH(bg, AHAttr{DGID: group})
			must(t, err)
			defer func() { must(t, from.pd.DestroyAH(ah)) }()
			var members []*end
			// lanes 2 and 3 have one queue pair, 0 and 1 two; that of lane 2 is no member
			for i := range 6 {
				e := newEnd(t, b, UD, 4096)
				must(t, e.qp.Activate(9))
				if e.qp.Lane() != i%4 {
					t.Fatalf("lane %d", e.qp.Lane())
				}
				if e.qp.Lane() != 2 {
					must(t, e.qp.AttachMcast(group))
					members = append(members, e)
				}
			}
			const messages = 20
			for _, e := range members {
				for i := range messages + 1 {
					e.recv(uint64(i), e.mr.SGE(0, 100))
				}
			}
			for i := range messages {
				from.post(SendWR{
					Opcode:     WRSend,
					Flags:      SendInline,
					Inline:     []byte{byte(i)},
					AH:         ah,
					RemoteQPN:  wire.MulticastQPN,
					RemoteQKey: 9,
				})
				from.wait()
				for _, e := range members {
					if wc := e.wait(); wc.WRID != uint64(i) || e.buf[GRHSize] != byte(i) {
						t.Errorf("lane %d: message %d: %+v", e.qp.Lane(), i, wc)
					}
				}
			}
			for _, e := range members {
				must(t, e.qp.DetachMcast(group))
			}
		})
	}
}

// TestHandlesOnEveryLane: a queue pair of any lane sends with an address handle of its domain, and
// none with a destroyed one.
func TestHandlesOnEveryLane(t *testing.T) {
	d, err := Open(names["pipe"](t)(0), &Config{Lanes: 4})
	must(t, err)
	t.Cleanup(func() { must(t, d.Close()) })
	to := newEnd(t, d, UD, 256)
	must(t, to.qp.Activate(5))
	pd, err := d.AllocPD()
	must(t, err)
	defer pd.Close()
	var handles []*AH
	for range 5 {
		ah, err := pd.CreateAH(bg, AHAttr{DGID: d.GIDs()[0]})
		must(t, err)
		handles = append(handles, ah)
	}
	must(t, pd.DestroyAH(handles[1]))
	again, err := pd.CreateAH(bg, AHAttr{DGID: d.GIDs()[0]})
	must(t, err)
	cq, err := d.CreateCQ(CQInitAttr{CQE: 64})
	must(t, err)
	defer cq.Close()
	lanes := map[int]bool{}
	for i := range 8 {
		q, err := pd.CreateQP(QPInitAttr{Type: UD, SendCQ: cq, SQSigAll: true})
		must(t, err)
		must(t, q.Activate(5))
		defer q.Close()
		lanes[q.Lane()] = true
		send := SendWR{Opcode: WRSend, AH: again, RemoteQPN: to.qp.QPN(), RemoteQKey: 5}
		to.recv(uint64(i), to.mr.SGE(0, 64))
		must(t, q.PostSend(send))
		if wc := to.wait(); wc.WRID != uint64(i) || wc.SrcQP != q.QPN() {
			t.Errorf("%+v", wc)
		}
		send.AH = handles[1]
		var post *PostError
		if err := q.PostSend(send); !errors.As(err, &post) {
			t.Errorf("a destroyed handle: %v", err)
		}
	}
	if len(lanes) != 4 {
		t.Errorf("queue pairs on lanes %v", lanes)
	}
	for _, ah := range append(handles[2:], handles[0], again) {
		must(t, pd.DestroyAH(ah))
	}
	refused(t, pd.DestroyAH(again), ErrInvalid)
}

// TestAtomicsOfManyLanes: atomics on one word that come by different lanes are atomic.
func TestAtomicsOfManyLanes(t *testing.T) {
	for _, kind := range []string{"pipe", "udp"} {
		t.Run(kind, func(t *testing.T) {
			as, bs := laned(t, kind, 4, 4, 4096, nil)
			const each = 500
			word := make([]byte, 8)
			var all sync.WaitGroup
			for i, a := range as {
				mr, err := bs[i].pd.RegMR(word, LocalWrite|RemoteAtomic)
				must(t, err)
				defer func() { must(t, mr.Close()) }()
				all.Go(func() {
					add := SendWR{
						Opcode:     WRAtomicFetchAndAdd,
						CompareAdd: 1,
						SGL:        []SGE{a.mr.SGE(0, 8)},
						RemoteAddr: mr.Addr(),
						RKey:       mr.RKey(),
					}
					for left := each; left > 0; left-- {
						if err := a.qp.PostSend(add); err != nil {
							t.Error(err)
							return
						}
						if wc := a.waitAny(); wc.Status != WCSuccess {
							t.Error(wc.Status)
						}
					}
				})
			}
			all.Wait()
			if got := binary.NativeEndian.Uint64(word); got != 4*each {
				t.Errorf("%d additions counted of %d", got, 4*each)
			}
		})
	}
}

// TestOneQueueManyLanes: one completion queue for queue pairs of all lanes gets everything, however
// few a poll takes.
func TestOneQueueManyLanes(t *testing.T) {
	for _, background := range []bool{true, false} {
		t.Run(fmt.Sprintf("background=%v", background), func(t *testing.T) {
			var cqs [2]*CQ
			var pds [2]*PD
			name := udpNames()
			for i := range 2 {
				d, err := Open(name(i), &Config{Lanes: 4, NoBackground: !background})
				must(t, err)
				t.Cleanup(func() { must(t, d.Close()) })
				pds[i], err = d.AllocPD()
				must(t, err)
				cqs[i], err = d.CreateCQ(CQInitAttr{CQE: 1024})
				must(t, err)
			}
			var pairs [4][2]*QP
			for i := range pairs {
				for side := range 2 {
					q, err := pds[side].CreateQP(QPInitAttr{SendCQ: cqs[side], SQSigAll: true})
					must(t, err)
					pairs[i][side] = q
				}
				must(t, pairs[i][0].Connect(bg, pairs[i][1].Endpoint(), nil))
				must(t, pairs[i][1].Connect(bg, pairs[i][0].Endpoint(), nil))
			}
			exchangeNumbered(t, cqs, pairs)
			for side := range 2 {
				for _, p := range pairs {
					must(t, p[side].Close())
				}
				must(t, cqs[side].Close())
				must(t, pds[side].Close())
			}
		})
	}
}

// exchangeNumbered sends messages from the first to the second of each pair, and takes both ends'
// completions one by one: those of each queue pair come in order.
func exchangeNumbered(t *testing.T, cqs [2]*CQ, pairs [4][2]*QP) {
	const each = 64
	for i, p := range pairs {
		for n := range each {
			must(t, p[1].PostRecv(RecvWR{WRID: uint64(i<<8 | n)}))
		}
		for n := range each {
			must(t, p[0].PostSend(SendWR{WRID: uint64(i<<8 | n), Opcode: WRSend}))
		}
	}
	var next [2][4]uint64
	for got := 0; got < 2*4*each; {
		for side := range 2 {
			var wc [1]WC
			n, err := cqs[side].Poll(wc[:])
			must(t, err)
			if n == 0 {
				continue
			}
			got++
			i := wc[0].WRID >> 8
			if wc[0].Status != WCSuccess || wc[0].WRID&0xff != next[side][i] {
				t.Fatalf("%+v after %d", wc[0], next[side][i])
			}
			next[side][i]++
		}
	}
}

// TestLanesRefused: what is asked for and can not be is an error that says what can.
func TestLanesRefused(t *testing.T) {
	port, err := ports.Open("pipe:refused", transport.Options{})
	must(t, err)
	last, err := ports.Open("pipe:refused", transport.Options{})
	must(t, err)
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{Config{Lanes: 3}, "3 lanes (Config.Lanes or Ports), want a power of two from 1 to 64"},
		{Config{Lanes: -2}, "-2 lanes (Config.Lanes or Ports), want a power of two from 1 to 64"},
		{Config{Lanes: 2, Ports: []transport.Port{port}}, "Config.Lanes is 2, but there are 1 Ports"},
		{Config{Ports: []transport.Port{port, port, port}}, "3 lanes (Config.Lanes or Ports)"},
		{Config{Ports: []transport.Port{port, port}}, "one of Config.Ports is there twice"},
		{Config{Ports: []transport.Port{nil}}, "one of Config.Ports is nil"},
		{Config{Ports: []transport.Port{last}, Faults: "no such fault"}, "no such fault"},
	} {
		_, err := Open("pipe:lanes-refused", &c.cfg)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
	for _, p := range []transport.Port{port, last} {
		if err := p.Close(); !errors.Is(err, transport.ErrClosed) {
			t.Errorf("a port that was given is not closed: %v", err)
		}
	}
}
