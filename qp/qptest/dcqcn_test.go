package qptest

// DCQCN as a whole (section 10.3): flows through one bottleneck that marks.

import (
	"errors"
	"testing"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/wire"
)

const (
	bottleneckRate = 10e9
	bottleneckMark = 40 << 10
)

// bottleneck is a link that marks, and streams of WRITEs through it that never end by themselves.
type bottleneck struct {
	*World
	t      *testing.T
	a, b   *Node
	link   *Link
	local  *Region
	remote *Region
}

// flow is one of the streams.
type flow struct {
	net     *bottleneck
	qp      *QP
	sent    int // bytes of payload acknowledged
	stopped bool
}

func newBottleneck(t *testing.T, window int) *bottleneck {
	w := NewWorld(5)
	w.Unchecked = true
	w.MaxEvents = 100_000_000
	w.Faults = Faults{Rate: bottleneckRate, Delay: 10 * Microsecond, Queue: 4 << 20, MarkAt: bottleneckMark}
	nc := NodeConfig{}
	nc.Engine.Window = window
	n := &bottleneck{World: w, t: t, a: w.AddNode(nc), b: w.AddNode(nc)}
	n.link = w.Link(n.a, n.b)
	n.local, n.remote = n.a.NewRegion("local", flowMessage, 0x1000, 1), n.b.NewRegion("remote", flowMessage, 0x1000, 0xf)
	return n
}

const flowMessage = 64 << 10

// flow starts a stream.
func (n *bottleneck) flow() *flow {
	cfg := QPConfig{MTU: wire.MTU4096, TrafficClass: 2, Timeout: 14, CQE: 256,
		Cap: qp.Cap{MaxSendWR: 32, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1}}
	f := &flow{net: n, qp: n.a.CreateQP(cfg)}
	n.Connect(f.qp, n.b.CreateQP(cfg))
	f.qp.OnSend = f.post
	f.post()
	return f
}

// post counts what is complete and fills the queue.
func (f *flow) post() {
	for _, wc := range f.qp.SendWCs {
		if wc.Status != qp.WCSuccess {
			f.net.t.Fatalf("a WRITE failed: %v", wc.Status)
		}
		f.sent += flowMessage
	}
	f.qp.SendWCs = nil
	for posted := false; !f.stopped; posted = true {
		err := f.qp.Stage(&qp.SendWR{Opcode: qp.WRWrite, Flags: qp.SendSignaled, SGL: []qp.SGE{f.net.local.SGE(0, flowMessage)},
			RKey: f.net.remote.RKey(), RemoteAddr: f.net.remote.Addr(0)})
		if errors.Is(err, qp.ErrFull) {
			if posted {
				f.qp.Ring()
			}
			return
		}
		if err != nil {
			f.net.t.Fatal(err)
		}
	}
}

// measure lets time pass and returns each flow's goodput as a share of the link's rate, the most
// that queued, and what was lost.
func (n *bottleneck) measure(d qp.Time, flows ...*flow) (shares []float64, peak int, lost uint64) {
	before := make([]int, len(flows))
	for i, f := range flows {
		before[i] = f.sent
	}
	n.link.Stats = LinkStats{}
	if err := n.RunFor(d); err != nil {
		n.t.Fatal(err)
	}
	for i, f := range flows {
		shares = append(shares, float64(f.sent-before[i])*8/float64(d)*float64(Second)/bottleneckRate)
	}
	return shares, n.link.Stats.Peak, n.link.Stats.Lost
}

// TestBottleneck: one flow finds the rate of the bottleneck, a second one joins, both get the same,
// it leaves. Once converged nothing is lost and the queue stays below twice the mark: beyond the
// mark, it holds what the flows send too much until CNPs have effect. Fixed or adaptive, the window
// does not interfere: the result is the same.
func TestBottleneck(t *testing.T) {
	for _, window := range []int{qp.DefaultWindow, 0} {
		n := newBottleneck(t, window)
		used := func(what string, d qp.Time, least float64, flows ...*flow) {
			t.Helper()
			shares, peak, lost := n.measure(d, flows...)
			sum := 0.0
			for _, s := range shares {
				sum += s
				if s < 0.9*shares[0] || s > 1.1*shares[0] {
					t.Errorf("window %d, %s: shares %.3f differ by more than a tenth", window, what, shares)
				}
			}
			if sum < least || peak > 2*bottleneckMark || lost > 0 {
				t.Errorf("window %d, %s: %.3f of the link used, want %.2f; %d bytes queued at most, %d packets lost",
					window, what, sum, least, peak, lost)
			}
			// When the second joins, a queue of a millisecond builds up.
			if p := n.a.Engine.Stats().Probes; p > 5 {
				t.Errorf("window %d, %s: %d probes, as if slow were lost", window, what, p)
			}
			t.Logf("window %d, %s: shares %.3f, %d bytes queued", window, what, shares, peak)
		}
		x := n.flow()
		n.measure(20*Millisecond, x)
		used("alone", 50*Millisecond, 0.93, x)
		y := n.flow()
		if _, _, lost := n.measure(80*Millisecond, x, y); lost > 0 {
			t.Errorf("window %d: %d packets lost when the second flow joined", window, lost)
		}
		for range 4 {
			used("together", 50*Millisecond, 0.93, x, y)
		}
		y.stopped = true
		n.measure(20*Millisecond, x)
		used("alone again", 50*Millisecond, 0.93, x)
	}
}
