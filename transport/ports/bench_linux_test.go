package ports

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/internal/netns"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/internal/porttest"
	"github.com/goroce/goroce/wire"
)

// The ceilings of the kinds of port that have sockets, between two namespaces on a veth pair of MTU
// 9000, with sender and receiver on a processor each. "copied" adds on each side what no protocol
// above can avoid: a copy of the payload between application memory and frame, and the ICRC.
// Compare within one run: machines differ, ratios do not.
//
//	go test -bench 'Stream|Latency' -run - ./transport/ports

var benchPorts = []struct{ name, format string }{{"udp", "udp:10.77.0.%d"}, {"packet", "packet:10.77.0.%d"}, {"xdp", "xdp:10.77.0.%d"}}

// moreBenchKinds are packet and xdp ports on a cable of their own.
func moreBenchKinds() (list []porttest.Kind) {
	for _, k := range []struct {
		name, format string
		hosts        func(t testing.TB, i int) *netns.Namespace
	}{
		{"packet4", "packet:10.77.0.%d", func(t testing.TB, i int) *netns.Namespace { return netns.NewWire(t, 9000).End(i) }},
		{"xdp4", "xdp:10.78.0.%d", func(t testing.TB, i int) *netns.Namespace { return netns.NewSwitch(t, 3, 9000)[i] }},
	} {
		list = append(list, porttest.Kind{Name: k.name, Open: func(t testing.TB, i int, o transport.Options) transport.Port {
			t.Helper()
			p := porttest.OpenIn(t, k.hosts(t, i), OpenLanes, fmt.Sprintf(k.format, i+1), o)
			if _, peer, _ := strings.Cut(fmt.Sprintf(k.format, 2-i), ":"); i < 2 {
				porttest.Resolve(t, p, peer)
			}
			return p
		}})
	}
	return list
}

// openPair opens two ports and has them know each other.
func openPair(b *testing.B, format string) (left, right transport.Port) {
	w := netns.NewWire(b, 9000)
	left = porttest.OpenIn(b, w.Left, OpenLanes, fmt.Sprintf(format, 1), transport.Options{})
	right = porttest.OpenIn(b, w.Right, OpenLanes, fmt.Sprintf(format, 2), transport.Options{})
	porttest.Resolve(b, left, "10.77.0.2")
	porttest.Resolve(b, right, "10.77.0.1")
	return left, right
}

// blocks takes the time of every so many packets. Their median, and the tenth that was fastest, say
// more on a machine with other work than the mean does.
type blocks struct {
	size  int
	items int
	start time.Time
	times []float64 // ns per item
}

func newBlocks(items, size int) *blocks {
	return &blocks{size: size, times: make([]float64, 0, items/size+1)}
}

func (b *blocks) done(n int) {
	if b.start.IsZero() {
		b.start = time.Now()
		return
	}
	if b.items += n; b.items >= b.size {
		now := time.Now()
		b.times = append(b.times, float64(now.Sub(b.start))/float64(b.items))
		b.start, b.items = now, 0
	}
}

func (b *blocks) perItem() (typical, best float64) {
	if len(b.times) == 0 {
		return math.NaN(), math.NaN()
	}
	slices.Sort(b.times)
	return b.times[len(b.times)/2], b.times[len(b.times)/10]
}

// pin gives the goroutine a thread on one processor until it ends.
func pin(cpu int) {
	runtime.LockOSThread()
	var set unix.CPUSet
	set.Set(cpu % runtime.NumCPU())
	unix.SchedSetaffinity(0, &set)
}

func BenchmarkStream(b *testing.B) {
	for _, port := range benchPorts {
		for _, c := range []struct {
			name   string
			size   int
			copied bool
		}{{"4096B", 4096, false}, {"4096B-copied", 4096, true}, {"1024B-copied", 1024, true}, {"64B-copied", 64, true}} {
			b.Run(port.name+"/"+c.name, func(b *testing.B) { stream(b, port.format, c.size, c.copied) })
		}
	}
}

// stream sends b.N packets and measures the rate at which they arrive.
func stream(b *testing.B, format string, size int, copied bool) {
	left, right := openPair(b, format)
	var flow flow
	blocks := newBlocks(b.N, 4*window) // so long that what has piled up does not matter
	sender, receiver := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(sender)
		pin(0)
		sendStream(left, size, copied, &flow)
	}()
	go func() {
		defer close(receiver)
		pin(1)
		receiveStream(b, right, copied, &flow, blocks)
	}()
	<-receiver
	flow.stop.Store(true)
	<-sender
	typical, _ := blocks.perItem() // the best ones only had many packets waiting
	b.ReportMetric(float64(size)*8/typical, "Gbit/s")
	b.ReportMetric(1e3/typical, "Mpkt/s")
	sent := left.Stats()
	b.ReportMetric(float64(sent.SendFrames)/float64(max(b.N, 1)), "sent/recv")
	b.ReportMetric(0, "ns/op")
}

// window is how many packets may be under way.
const window = 2048

// flow keeps a stream from overrunning its receiver, as a protocol's window does.
type flow struct {
	received atomic.Int64
	stop     atomic.Bool
}

// wait returns when few enough packets are under way, and how many were sent; what does not arrive
// in time is given up.
func (f *flow) wait(sent int64) int64 {
	for spins := 0; sent-f.received.Load() > window && !f.stop.Load(); spins++ {
		if spins > 1e7 {
			return f.received.Load()
		}
	}
	return sent
}

func sendStream(p transport.Port, size int, copied bool, flow *flow) {
	path := porttest.PathByHand("10.77.0.1", "10.77.0.2", wire.UDPPort)
	batch := wire.NewBatch(60, 4200) // 15 packets of 4 KiB make a run
	batch.MaxRun(p.Info().MaxRun)
	user := make([]byte, 1<<20)
	at := 0
	fill := func() {
		for {
			f := batch.Reserve(path, wire.BodyLen(wire.RCWriteMiddle, size))
			if f == nil {
				break
			}
			(*wire.BTH)(f.Body).Put(wire.RCWriteMiddle, 0, 0, wire.DefaultPKey, 0x11, 1)
			if copied {
				copy(f.Body[wire.BTHLen:], user[at:at+size])
				at = (at + size) % (len(user) - size)
			}
			if copied {
				wire.Seal(f)
			}
		}
	}
	for sent := int64(0); !flow.stop.Load(); {
		fill()
		for batch.Len() > 0 && !flow.stop.Load() {
			n, err := p.Send(batch)
			if err != nil {
				panic(err)
			}
			batch.Drop(n)
			sent = flow.wait(sent + int64(n))
		}
	}
}

func receiveStream(b *testing.B, p transport.Port, copied bool, flow *flow, blocks *blocks) {
	frames := make([]wire.Frame, 64)
	user := make([]byte, 1<<20)
	at := 0
	for got := -20000; got < b.N; { // the first ones warm up
		n, err := p.Recv(frames)
		if err != nil {
			b.Error(err)
			return
		}
		if got += n; got > 0 {
			blocks.done(n)
		}
		flow.received.Add(int64(n))
		if !copied {
			continue
		}
		for i := range frames[:n] {
			if !wire.Verify(&frames[i]) {
				b.Error("bad ICRC")
				return
			}
			at += copy(user[at:], frames[i].Body[wire.BTHLen:])
			if len(user)-at < 1<<13 {
				at = 0
			}
		}
	}
}

// BenchmarkLatency is 64 B there and back, both ends spinning.
func BenchmarkLatency(b *testing.B) {
	for _, port := range benchPorts {
		b.Run(port.name, func(b *testing.B) {
			left, right := openPair(b, port.format)
			var stop atomic.Bool
			blocks := newBlocks(b.N, 200)
			echo := make(chan struct{})
			go func() {
				defer close(echo)
				pin(1)
				back := porttest.PathByHand("10.77.0.2", "10.77.0.1", wire.UDPPort)
				batch := wire.NewBatch(1, 256)
				frames := make([]wire.Frame, 64)
				for !stop.Load() {
					if n, _ := right.Recv(frames); n > 0 {
						ping(right, batch, back)
					}
				}
			}()
			done := make(chan struct{})
			go func() {
				defer close(done)
				pin(0)
				to := porttest.PathByHand("10.77.0.1", "10.77.0.2", wire.UDPPort)
				batch := wire.NewBatch(1, 256)
				frames := make([]wire.Frame, 64)
				for i := -1000; i < b.N; i++ {
					ping(left, batch, to)
					for n := 0; n == 0; {
						n, _ = left.Recv(frames)
					}
					if i >= 0 {
						blocks.done(1)
					}
				}
			}()
			<-done
			stop.Store(true)
			<-echo
			typical, best := blocks.perItem()
			b.ReportMetric(typical/1e3, "us")
			b.ReportMetric(best/1e3, "us-best")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func ping(p transport.Port, batch *wire.Batch, path *wire.Path) {
	f := batch.Reserve(path, wire.BodyLen(wire.RCSendOnly, 20))
	(*wire.BTH)(f.Body).Put(wire.RCSendOnly, 0, 0, wire.DefaultPKey, 0x11, 1)
	n, _ := p.Send(batch)
	batch.Drop(n)
}
