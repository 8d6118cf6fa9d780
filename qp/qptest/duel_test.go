package qptest

// Two engines on one core with nothing between them: what the protocol itself costs, in allocations
// and in time.

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/wire"
)

// side is one of them.
type side struct {
	e      *qp.Engine
	table  *mr.Table
	reader *mr.Reader
	pd     mr.PD
	mem    *mr.Region
	bytes  []byte
	cq     *qp.CQ
	q      *qp.QP
	ah     *qp.AH
	gid    wire.GID
	out    *wire.Batch
	wcs    [64]qp.WC
}

type duel struct {
	now  qp.Time
	a, b *side
	lose int // drop every lose-th frame from a; 0: none
	sent int
}

const duelMemory = 64 << 10

func newDuel(t testing.TB, typ qp.QPType) *duel { return newRecordedDuel(t, typ, 0) }

// newRecordedDuel makes a duel whose engines keep so many records.
func newRecordedDuel(t testing.TB, typ qp.QPType, records int) *duel {
	d := &duel{now: 1 << 40}
	seed := uint64(1)
	rnd := func() uint64 { seed = seed*6364136223846793005 + 1442695040888963407; return seed>>32 | seed<<32 }
	fail := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for i, s := range []**side{&d.a, &d.b} {
		x := &side{
			gid:   wire.GIDFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)})),
			out:   wire.NewBatch(256, wire.FullBody),
			bytes: make([]byte, duelMemory),
		}
		x.table = mr.NewTable(rnd)
		x.reader = x.table.NewReader()
		var err error
		x.pd, err = x.table.AllocPD()
		fail(err)
		x.mem, err = x.table.Register(x.pd, x.bytes, 0, 0xf)
		fail(err)
		cfg := qp.Config{Memory: x.table, Rand: rnd, GIDs: []wire.GID{x.gid}}
		if records > 0 {
			cfg.Recorder = qp.NewRecorder(records)
		}
		x.e = qp.NewEngine(cfg)
		x.cq, err = x.e.CreateCQ(1024, nil)
		fail(err)
		x.q, err = x.e.CreateQP(qp.QPInit{
			Type:   typ,
			PD:     x.pd,
			SendCQ: x.cq,
			RecvCQ: x.cq,
			Cap:    qp.Cap{MaxSendWR: 256, MaxRecvWR: 256, MaxSendSGE: 2, MaxRecvSGE: 2, MaxInlineData: 64},
		})
		fail(err)
		*s = x
	}
	d.connect(d.a, d.b, fail)
	d.connect(d.b, d.a, fail)
	return d
}

func (d *duel) connect(x, y *side, fail func(error)) {
	attr := qp.QPAttr{PathMTU: wire.MTU4096, DestQPN: y.q.QPN(), AccessFlags: 0xe, Port: 1, AV: qp.AHAttr{DGID: y.gid}, MaxRdAtomic: 16,
		MaxDestRdAtomic: 16, MinRNRTimer: 1, Timeout: 10, RetryCnt: 7, RNRRetry: 7, QKey: 7}
	for _, step := range []struct {
		to   qp.QPState
		mask map[qp.QPType]qp.AttrMask
	}{{qp.StateInit, toInit}, {qp.StateRTR, toRTR}, {qp.StateRTS, toRTS}} {
		attr.State = step.to
		fail(x.e.ModifyQP(d.now, x.q, &attr, step.mask[x.q.Type()]))
	}
	if x.q.Type() == qp.UD {
		var err error
		x.ah, err = x.e.CreateAH(x.pd, qp.AHAttr{DGID: y.gid})
		fail(err)
	}
}

// step lets x send all it has and y take it; it returns how many frames there were.
func (d *duel) step(x, y *side) int {
	x.reader.Enter()
	x.out.Reset()
	n := x.e.PollTransmit(d.now, x.out)
	x.e.Publish()
	x.reader.Exit()
	frames := x.out.Frames()
	if d.lose > 0 && x == d.a {
		kept := frames[:0]
		for i := range frames {
			if d.sent++; d.sent%d.lose != 0 {
				kept = append(kept, frames[i])
			}
		}
		frames = kept
	}
	if len(frames) > 0 {
		y.reader.Enter()
		y.e.HandleFrames(d.now, frames)
		y.e.Publish()
		y.reader.Exit()
	}
	return n
}

// settle runs both until neither has anything to say, time included.
func (d *duel) settle() {
	for {
		for d.step(d.a, d.b)+d.step(d.b, d.a) > 0 {
		}
		next := min(d.a.e.PollTimeout(), d.b.e.PollTimeout())
		if next == qp.Never {
			return
		}
		d.now = max(d.now, next)
		d.a.e.HandleTimeout(d.now)
		d.b.e.HandleTimeout(d.now)
	}
}

// round posts n work requests, lets everything happen, and polls the completions.
func (d *duel) round(t testing.TB, wrs []qp.SendWR, recvs []qp.RecvWR) {
	if len(recvs) > 0 {
		if _, err := d.b.q.PostRecv(recvs); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.a.q.PostSend(wrs); err != nil {
		t.Fatal(err)
	}
	d.a.e.Ring(d.a.q)
	d.a.reader.Enter()
	d.a.e.HandlePosted(d.now)
	d.a.reader.Exit()
	d.settle()
	got := 0
	for {
		n := d.a.cq.Poll(d.a.wcs[:])
		for i := range d.a.wcs[:n] {
			if d.a.wcs[i].Status != qp.WCSuccess {
				t.Fatalf("completion %+v", d.a.wcs[i])
			}
		}
		if got += n; n == 0 {
			break
		}
	}
	if got == 0 {
		t.Fatal("no completion")
	}
	for d.b.cq.Poll(d.b.wcs[:]) > 0 {
	}
}

// batch is n work requests of one kind, the last one signaled.
func (d *duel) batch(op qp.WROpcode, n, size int) (wrs []qp.SendWR, recvs []qp.RecvWR) {
	for i := range n {
		wr := qp.SendWR{WRID: uint64(i), Opcode: op, SGL: []qp.SGE{{Addr: 0, Length: uint32(size), LKey: d.a.mem.LKey()}},
			RKey: d.b.mem.RKey(), RemoteAddr: 4096, AH: d.a.ah, RemoteQPN: d.b.q.QPN(), RemoteQKey: 7}
		if i == n-1 {
			wr.Flags = qp.SendSignaled
		}
		wrs = append(wrs, wr)
		if op == qp.WRSend || op == qp.WRSendWithImm || op == qp.WRWriteWithImm {
			recvs = append(recvs, qp.RecvWR{SGL: []qp.SGE{{Addr: 0, Length: uint32(size + 40), LKey: d.b.mem.LKey()}}})
		}
	}
	return wrs, recvs
}

// TestNoAllocations: nothing on the data path allocates: posting, the turn with frames in and out,
// retries, polling.
func TestNoAllocations(t *testing.T) {
	for _, c := range []struct {
		name string
		typ  qp.QPType
		op   qp.WROpcode
		size int
		lose int
	}{
		{"WRITE", qp.RC, qp.WRWrite, 10000, 0}, {"SEND", qp.RC, qp.WRSend, 10000, 0}, {"READ", qp.RC, qp.WRRead, 10000, 0},
		{"atomic", qp.RC, qp.WRAtomicFetchAndAdd, 8, 0},
		{"WRITE with immediate", qp.RC, qp.WRWriteWithImm, 10000, 0}, {"lossy WRITE", qp.RC, qp.WRWrite, 10000, 7},
		{"lossy READ", qp.RC, qp.WRRead, 10000, 5},
		{"lossy atomic", qp.RC, qp.WRAtomicFetchAndAdd, 8, 3}, {"UC SEND", qp.UC, qp.WRSend, 10000, 0},
		{"UC WRITE", qp.UC, qp.WRWrite, 10000, 0}, {"UD SEND", qp.UD, qp.WRSend, 1000, 0},
	} {
		d := newDuel(t, c.typ)
		d.lose = c.lose
		wrs, recvs := d.batch(c.op, 16, c.size)
		d.round(t, wrs, recvs) // whatever grows, grows once
		if n := testing.AllocsPerRun(50, func() { d.round(t, wrs, recvs) }); n != 0 {
			t.Errorf("%s: %.1f allocations a round", c.name, n)
		}
	}
}

// BenchmarkEngine is the cost of one packet of payload, both ends and their share of ACKs on one
// core, without any I/O.
func BenchmarkEngine(b *testing.B) { benchmarkEngine(b, 0, 64, 1024, 4096) }

// BenchmarkRecorded is BenchmarkEngine with a record of everything.
func BenchmarkRecorded(b *testing.B) { benchmarkEngine(b, 1<<12, 64) }

func benchmarkEngine(b *testing.B, records int, sizes ...int) {
	for _, op := range []qp.WROpcode{qp.WRWrite, qp.WRSend, qp.WRRead} {
		for _, size := range sizes {
			b.Run(fmt.Sprintf("%v/%d", op, size), func(b *testing.B) {
				d := newRecordedDuel(b, qp.RC, records)
				const n = 64
				wrs, recvs := d.batch(op, n, size)
				d.round(b, wrs, recvs)
				b.SetBytes(int64(size))
				b.ReportAllocs()
				b.ResetTimer()
				for i := 0; i < b.N; i += n {
					d.round(b, wrs, recvs)
				}
			})
		}
	}
}

// BenchmarkStream is the same for the packets of long messages: 4096 bytes each.
func BenchmarkStream(b *testing.B) {
	for _, op := range []qp.WROpcode{qp.WRWrite, qp.WRSend, qp.WRRead} {
		b.Run(op.String(), func(b *testing.B) {
			d := newDuel(b, qp.RC)
			const size = 56 << 10
			wrs, recvs := d.batch(op, 16, size)
			d.round(b, wrs, recvs)
			b.SetBytes(4096)
			b.ResetTimer()
			for i := 0; i < b.N; i += 16 * size / 4096 {
				d.round(b, wrs, recvs)
			}
		})
	}
}
