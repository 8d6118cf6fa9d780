package packet

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/internal/netns"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/internal/porttest"
	"github.com/goroce/goroce/wire"
)

// A thousand packets that come one by one while nobody receives are all there.
func TestPauseOfReceiver(t *testing.T) {
	for _, mtu := range []int{1500, 9000} {
		t.Run(fmt.Sprint(mtu), func(t *testing.T) {
			w := netns.NewWire(t, mtu)
			a, b := openOn(t, w, "packet:10.77.0.%d", 0, transport.Options{}), openOn(t, w, "packet:10.77.0.%d", 1, transport.Options{})
			porttest.Reach(t, a, b)
			batch := wire.NewBatch(1000, 1100)
			for i := range 1000 {
				porttest.Put(t, batch, porttest.PathBetween(t, a, b, 0, 64), i, 1024)
			}
			porttest.SendAll(t, a, batch)
			porttest.Drain(t, b, 64, 1000)
			if s := b.Stats(); s.RecvOverflow+s.RecvBad+s.RecvRuns != 0 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// flow is numbered packets for a queue pair, in runs and alone as it happens.
type flow struct {
	from  transport.Port
	path  *wire.Path
	qpn   uint32
	rng   *rand.Rand
	batch *wire.Batch
	sent  int

	mu   sync.Mutex
	more sync.Cond // seen has grown
	seen int       // how many were received
}

func newFlow(t testing.TB, from, to transport.Port, qpn uint32) *flow {
	porttest.Reach(t, from, to)
	f := &flow{from: from, path: porttest.PathBetween(t, from, to, 0, 64), qpn: qpn,
		rng: rand.New(rand.NewPCG(4791, uint64(qpn))), batch: wire.NewBatch(80, 1100)}
	f.more.L = &f.mu
	return f
}

// send sends what goes in one batch: a run or not, and a few packets alone. It ends at packet end.
func (f *flow) send(t testing.TB, end int) {
	put := func(n int) {
		if f.sent < end {
			porttest.PutFor(t, f.batch, f.path, f.qpn, f.sent, n)
			f.sent++
		}
	}
	if f.rng.IntN(2) == 0 {
		f.batch.MaxRun(64)
		for range 2 + f.rng.IntN(58) {
			put(1024)
		}
	}
	f.batch.MaxRun(1)
	for range f.rng.IntN(4) {
		put(f.rng.IntN(1024))
	}
	porttest.SendAll(t, f.from, f.batch)
}

// stream sends up to packet end, no more at a time than the rings have room for.
func (f *flow) stream(t testing.TB, end int) {
	for f.sent < end {
		f.mu.Lock()
		for f.sent > f.seen+128 {
			f.more.Wait()
		}
		f.mu.Unlock()
		f.send(t, end)
	}
}

// got notes a packet, which is the next of the flow.
func (f *flow) got(t testing.TB, number int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if number != f.seen {
		t.Fatalf("packet %d for queue pair %d instead of %d", number, f.qpn, f.seen)
	}
	f.seen++
	f.more.Signal()
}

// receive receives flows to queue pairs 0, 1 ..., up to packet end of each.
func receive(t testing.TB, p transport.Port, end int, flows ...*flow) {
	t.Helper()
	frames := make([]wire.Frame, 64)
	for left := func(f *flow) bool { return f.seen < end }; slices.ContainsFunc(flows, left); {
		for _, f := range porttest.RecvSome(t, p, frames) {
			flows[(*wire.BTH)(f.Body).DestQP()].got(t, porttest.Number(t, &f))
		}
	}
}

// Runs and packets alone come in the order in which they were sent, although they lie in two rings:
// those that lay there while nobody received, and those that senders on several processors send
// meanwhile.
func TestOrder(t *testing.T) {
	for _, format := range []string{"packet:10.77.0.%d", "packet:fd78::%d"} {
		t.Run(fmt.Sprintf(format, 1), func(t *testing.T) {
			w := netns.NewWire(t, 1500)
			to := openOn(t, w, format, 0, transport.Options{})
			flows := make([]*flow, 3)
			for i := range flows {
				flows[i] = newFlow(t, openOn(t, w, format, i+1, transport.Options{}), to, uint32(i))
			}
			const lying, streaming = 4000, 40_000
			for flows[0].sent < lying {
				flows[0].send(t, lying)
			}
			receive(t, to, lying, flows[0])
			for _, f := range flows {
				go f.stream(t, streaming)
			}
			receive(t, to, streaming, flows...)
			if s := to.Stats(); s.RecvOverflow+s.RecvBad != 0 || s.RecvRuns == 0 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// So they do in each lane, also when the interface was down: then the kernel has numbered the
// sockets anew.
func TestOrderOfLanes(t *testing.T) {
	for _, lanes := range []int{2, 4} {
		t.Run(fmt.Sprint(lanes), func(t *testing.T) {
			w := netns.NewWire(t, 1500)
			from := openOn(t, w, "packet:10.77.0.%d", 0, transport.Options{})
			to := porttest.OpenLanesIn(t, w.Right, Open, "packet:10.77.0.2", lanes, transport.Options{})
			flows := make([]*flow, lanes)
			for i := range flows {
				flows[i] = newFlow(t, from, to[0], uint32(i))
			}
			for end := 500; end <= 1000; end += 500 {
				for _, f := range flows {
					for f.sent < end {
						f.send(t, end)
					}
				}
				for i, p := range to {
					receive(t, p, end, flows[:i+1]...)
				}
				w.Right.IP(t, "link set wire down", "link set wire up")
				porttest.Reach(t, from, to[0])
			}
		})
	}
}

// slots is a ring as the kernel has left it: the times of the packets, 0 where none is.
func slots(times ...int) (r ring) {
	for _, at := range times {
		mem := make([]unix.Tpacket2Hdr, 1)
		if at > 0 {
			mem[0] = unix.Tpacket2Hdr{Status: unix.TP_STATUS_USER, Sec: 1, Nsec: uint32(at)}
		}
		r.slots = append(r.slots, unsafe.Slice((*byte)(unsafe.Pointer(&mem[0])), unix.SizeofTpacket2Hdr))
	}
	return r
}

// Which ring is next, from what lies in them to what is taken until something is to be waited for.
func TestNext(t *testing.T) {
	for _, c := range []struct {
		name        string
		short, long []int
		want        string
	}{
		{"nothing", []int{0, 0}, []int{0, 0}, ""},
		{"short only", []int{1, 2}, []int{0, 0}, "ss"},
		{"long only", []int{0, 0}, []int{1, 2}, "ll"},
		{"by time", []int{2, 3, 5, 0}, []int{1, 4, 6, 7}, "lsslsll"},
		{"at one time", []int{5, 5}, []int{5, 0}, "lss"},
		{"a short one is being filled", []int{0, 3}, []int{0, 0}, ""},
		{"a long one is being filled, and behind it is one before the short one", []int{6, 0}, []int{0, 5}, ""},
		{"a long one is being filled, and behind it is none before the short one", []int{6, 0}, []int{0, 7}, "s"},
		{"a long one took long, and behind it is one before the short one", []int{6, 11, 0}, []int{10, 5}, "llss"},
		{"a short one took long, and behind it is one before the long one", []int{10, 5}, []int{6, 11, 0}, "ssll"},
		{"three took long", []int{6, 0}, []int{10, 11, 12, 5}, "lllls"},
		{"the clock was set back: short ones wait for no more long ones than there is room for",
			[]int{90, 91}, []int{1, 2, 3}, "lllss"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := takeAll(&rings{slots(c.short...), slots(c.long...)}); got != c.want {
				t.Errorf("took %q, want %q", got, c.want)
			}
		})
	}
}

// takeAll takes what can be taken.
func takeAll(r *rings) (took string) {
	for from := r.next(); from != nil; from = r.next() {
		if from.advance(); from == &r.short {
			took += "s"
		} else {
			took += "l"
		}
	}
	return took
}

// When the clock was set back by an hour and long packets come all the time, a short one that lay
// there waits for as many as the ring has slots.
func TestClockSetBack(t *testing.T) {
	r := &rings{slots(3600, 3601, 0), slots(1, 2, 3)}
	var took string
	for at := 4; at < 20; at++ {
		from := r.next()
		if from.advance(); from == &r.short {
			took += "s"
			r.giveBack()
			continue
		}
		took += "l"
		r.giveBack()
		last := (r.long.head + len(r.long.slots) - 1) % len(r.long.slots)
		h := (*unix.Tpacket2Hdr)(unsafe.Pointer(&r.long.slots[last][0]))
		h.Status, h.Nsec = unix.TP_STATUS_USER, uint32(at)
	}
	if !strings.HasPrefix(took, "lllslll") || strings.Count(took, "s") != 2 {
		t.Errorf("took %q", took)
	}
}
