package qptest

// The networks that people have: one link at 1 Gbit/s whose queue drops at its end and marks
// nothing, alone, shared with others of ours and with CUBIC, near and far, with losses and late
// packets that mean no congestion. What each sender gets of it is kept in testdata/networks.txt, so
// that a change of the algorithm is seen as a change of the table:
//
//	go test ./qp/qptest -run TestNetworks -update && git diff qp/qptest/testdata
//
// Stages: a network, senders on it, time to settle, and what arrives in the time after that.

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/wire"
)

// network is a link and who sends through it.
type network struct {
	Faults
	what         string
	ours, cubics int
	op           qp.WROpcode
	goBackN      bool
	message      int      // bytes of each request; 0: netMessage
	mtu          wire.MTU // 0: 1024
	warm, time   qp.Time
}

// outcome is what came of it.
type outcome struct {
	shares []float64 // of the link's rate, payload: ours, then the TCPs
	again  float64   // per cent of our packets
	lost   float64   // per cent of all packets, at the link
	srtt   qp.Time
}

// jitter is how much later an ACK may be than another: hosts are not prompt. Without it all senders
// would march in step, and the queue would drop the packets of one of them.
const jitter = 20 * Microsecond

const netMessage = 64 << 10

// stage is a network with its senders on it.
type stage struct {
	w      *World
	a      *Node // where ours are
	loaded *Link // that all send through
	flows  []*endless
	tcps   []*tcp
}

// begin builds a network and lets the senders begin.
func (n *network) begin(t *testing.T) *stage {
	t.Helper()
	w := NewWorld(5)
	w.Unchecked, w.Hopeless = true, true
	w.MaxEvents = math.MaxInt
	w.Faults = Faults{Rate: n.Rate, Delay: n.Delay, Jitter: jitter}
	a, b := w.AddNode(NodeConfig{}), w.AddNode(NodeConfig{})
	there, back := w.Link(a, b), w.Link(b, a)
	there.Faults = n.Faults
	s := &stage{w: w, a: a, loaded: there}
	if n.op == qp.WRRead {
		there.Faults, back.Faults = back.Faults, there.Faults
		s.loaded = back
	}
	if n.message == 0 {
		n.message = netMessage
	}
	local, remote := a.NewRegion("local", n.message, 0x1000, 1), b.NewRegion("remote", n.message, 0x1000, 0xf)
	for range n.ours {
		s.flows = append(s.flows, n.endless(t, local, remote))
	}
	for range n.cubics {
		s.tcps = append(s.tcps, w.tcp(s.loaded))
	}
	return s
}

// run lets some time pass.
func (s *stage) run(t *testing.T, d qp.Time) {
	t.Helper()
	if err := s.w.RunFor(d); err != nil {
		t.Fatal(err)
	}
}

// arrived is how many bytes each has brought: ours, then the TCPs.
func (s *stage) arrived() (bytes []int) {
	for _, f := range s.flows {
		bytes = append(bytes, f.done)
	}
	for _, f := range s.tcps {
		bytes = append(bytes, f.delivered)
	}
	return bytes
}

// play lets the senders send.
func (n *network) play(t *testing.T) outcome {
	t.Helper()
	s := n.begin(t)
	s.run(t, n.warm)
	before, stats, link := s.arrived(), s.a.Engine.Stats(), s.loaded.Stats
	s.run(t, n.time)
	var o outcome
	for i, bytes := range s.arrived() {
		o.shares = append(o.shares, float64(bytes-before[i])*8*float64(Second)/float64(n.time)/float64(n.Rate))
	}
	after, now := s.a.Engine.Stats(), s.loaded.Stats
	o.again = 100 * float64(after.Retransmitted-stats.Retransmitted) / float64(max(after.SentPkts-stats.SentPkts, 1))
	o.lost = 100 * float64(now.Lost-link.Lost) / float64(max(now.Sent-link.Sent, 1))
	return o
}

// endless is a sender of ours that never ends.
type endless struct {
	t    *testing.T
	qp   *QP
	wr   qp.SendWR
	size int // of wr
	done int // bytes complete
}

// endless begins to send from one region to the other, which are of the two ends.
func (n *network) endless(t *testing.T, local, remote *Region) *endless {
	cfg := QPConfig{MTU: max(n.mtu, wire.MTU1024), Selective: !n.goBackN, LongWindow: !n.goBackN, Timeout: 14, CQE: 1024,
		RdAtomic: 128, DestRdAtomic: 128, Cap: qp.Cap{MaxSendWR: 256, MaxRecvWR: 256, MaxSendSGE: 1, MaxRecvSGE: 1}}
	x, y := local.Node.CreateQP(cfg), remote.Node.CreateQP(cfg)
	local.Node.W.Connect(x, y)
	s := &endless{t: t, qp: x, size: n.message, wr: qp.SendWR{Opcode: n.op, Flags: qp.SendSignaled,
		SGL:  []qp.SGE{local.SGE(0, n.message)},
		RKey: remote.RKey(), RemoteAddr: remote.Addr(0)}}
	if n.op == qp.WRSend {
		receive := func() {
			if _, err := y.PostRecv(remote.SGE(0, n.message)); err != nil {
				t.Fatal(err)
			}
		}
		for range 250 {
			receive()
		}
		y.OnReceive = receive
	}
	x.OnSend = s.post
	s.post()
	return s
}

// post counts what is complete and fills the queue.
func (s *endless) post() {
	for _, wc := range s.qp.SendWCs {
		if wc.Status != qp.WCSuccess {
			s.t.Fatalf("%v", wc.Status)
		}
		s.done += s.size
	}
	s.qp.SendWCs = nil
	posted := false
	for wr := s.wr; s.qp.Stage(&wr) == nil; wr = s.wr {
		posted = true
	}
	if posted {
		s.qp.Ring()
	}
}

func TestNetworks(t *testing.T) {
	var b strings.Builder
	for _, n := range networks() {
		t.Run(n.what, func(t *testing.T) { b.WriteString(n.row(t)) })
	}
	golden(t, "networks.txt", b.String())
}

// networks are the rows of the table.
func networks() (rows []network) {
	add := func(n network, what string, args ...any) {
		n.what = fmt.Sprintf(what, args...)
		rows = append(rows, n)
	}
	// beside has ours alone do two operations, and a CUBIC alone.
	beside := func(n network, what string) {
		for _, op := range []qp.WROpcode{qp.WRWrite, qp.WRRead} {
			n.ours, n.op = 1, op
			add(n, "%s, %v", what, op)
		}
		n.ours, n.cubics, n.op = 0, 1, qp.WRWrite
		add(n, "%s, cubic", what)
	}
	queues := []int{64 << 10, 256 << 10, 1 << 20}
	for _, q := range queues {
		f, k := Faults{Queue: q}, q>>10
		beside(network{Faults: f}, fmt.Sprintf("alone, queue %d KiB", k))
		add(network{Faults: f, ours: 1, op: qp.WRSend}, "alone, queue %d KiB, SEND", k)
		add(network{Faults: f, ours: 1, goBackN: true}, "alone, queue %d KiB, go-back-N", k)
	}
	for _, q := range queues {
		f, k := Faults{Queue: q}, q>>10
		add(network{Faults: f, ours: 2}, "two, queue %d KiB", k)
		add(network{Faults: f, ours: 2, goBackN: true}, "two, queue %d KiB, go-back-N", k)
		add(network{Faults: f, cubics: 2}, "two cubics, queue %d KiB", k)
		long := network{Faults: f, ours: 1, cubics: 1, warm: 3 * Second, time: 4 * Second}
		add(long, "one and a cubic, queue %d KiB", k)
		long.cubics = 4
		add(long, "one and four cubics, queue %d KiB", k)
	}
	add(network{Faults: Faults{Queue: 256 << 10}, ours: 20}, "twenty, queue 256 KiB")
	add(network{Faults: Faults{Queue: 256 << 10}, cubics: 20}, "twenty cubics, queue 256 KiB")
	for _, d := range []qp.Time{75 * Microsecond, 5 * Millisecond} {
		for _, loss := range []float64{0.0001, 0.001, 0.01} {
			beside(network{Faults: Faults{Delay: d, Queue: 4 << 20, Loss: loss}},
				fmt.Sprintf("loss %g %%, round trip %g ms", 100*loss, 2*float64(d)/float64(Millisecond)))
		}
	}
	for _, by := range []qp.Time{200 * Microsecond, 2 * Millisecond} {
		beside(network{Faults: Faults{Queue: 4 << 20, Reorder: 0.01, ReorderBy: 2 * by}},
			fmt.Sprintf("1 %% late by %d us", by/Microsecond))
	}
	for _, ms := range []qp.Time{1, 10, 20, 50, 100} {
		beside(network{Faults: Faults{Delay: ms * Millisecond / 2, Queue: 4 << 20}, warm: 5 * Second, time: Second},
			fmt.Sprintf("round trip %d ms, queue 4 MiB", ms))
	}
	// A READ that is long needs no more of them than others.
	add(network{Faults: Faults{Delay: 50 * Millisecond, Queue: 4 << 20}, ours: 1, op: qp.WRRead, message: 1 << 20,
		warm: 5 * Second, time: Second}, "round trip 100 ms, READs of 1 MiB")
	add(network{Faults: Faults{Delay: 50 * Millisecond, Queue: 4 << 20}, ours: 1, op: qp.WRRead, mtu: wire.MTU4096,
		warm: 5 * Second, time: Second}, "round trip 100 ms, READ, path MTU 4096")
	// 25 MB on their way, with 32 MB of room at the link: messages are large, or 256 requests would
	// not fill it.
	for _, op := range []qp.WROpcode{qp.WRWrite, qp.WRSend, qp.WRRead} {
		add(network{Faults: Faults{Rate: 10e9, Delay: 10 * Millisecond, Queue: 32 << 20}, ours: 1, op: op, message: 1 << 18,
			warm: 5 * Second / 4, time: Second / 10}, "10 Gbit/s, round trip 20 ms, %v", op)
	}
	return rows
}

// row is what the table says of a network.
func (n network) row(t *testing.T) string {
	var b strings.Builder
	if n.Rate == 0 {
		n.Rate = 1e9
	}
	if n.Delay == 0 {
		n.Delay = 75 * Microsecond
	}
	switch {
	case n.time != 0:
	case n.ours+n.cubics == 1:
		n.warm, n.time = Second/2, Second/2
	default:
		n.warm, n.time = Second, Second
	}
	o := n.play(t)
	fmt.Fprintf(&b, "%-44s", n.what)
	ours, theirs := o.shares[:n.ours], o.shares[n.ours:]
	fmt.Fprintf(&b, " ours %s", shares(ours))
	if len(theirs) > 0 {
		fmt.Fprintf(&b, " cubic %s", shares(theirs))
	}
	if len(theirs) > 0 && len(ours) > 0 {
		fmt.Fprintf(&b, " ours/cubic %.2f", mean(ours)/mean(theirs))
	}
	fmt.Fprintf(&b, " again %.2f%% lost %.2f%%\n", o.again, o.lost)
	t.Logf("%s", b.String())
	return b.String()
}

func mean(of []float64) (m float64) {
	for _, x := range of {
		m += x / float64(len(of))
	}
	return m
}

// shares prints what flows got: each, or of many the sum and Jain's index.
func shares(of []float64) string {
	if len(of) <= 2 {
		return strings.Trim(fmt.Sprintf("%.3f", of), "[]")
	}
	squares := 0.0
	for _, x := range of {
		squares += x * x
	}
	m, n := mean(of), float64(len(of))
	return fmt.Sprintf("%.3f (Jain %.3f)", m*n, m*m*n/squares)
}
