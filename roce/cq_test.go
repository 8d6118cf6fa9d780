package roce

// Completion queues of several lanes, and polls without a lock.

import (
	"sync"
	"testing"

	"github.com/goroce/goroce/qp"
)

// TestResizeManyLanes: a queue that four lanes fill changes its size while others poll it; it keeps
// its size if one of its lanes cannot change it.
func TestResizeManyLanes(t *testing.T) {
	d, err := Open(udpNames()(0), &Config{Lanes: 4})
	must(t, err)
	defer func() { must(t, d.Close()) }()
	pd, err := d.AllocPD()
	must(t, err)
	defer func() { must(t, pd.Close()) }()
	cq, err := d.CreateCQ(CQInitAttr{CQE: 1024})
	must(t, err)
	defer func() { must(t, cq.Close()) }()
	var pairs [4][2]*QP
	for i := range pairs {
		for side := range 2 {
			q, err := pd.CreateQP(QPInitAttr{SendCQ: cq, SQSigAll: true})
			must(t, err)
			defer func() { must(t, q.Close()) }()
			pairs[i][side] = q
		}
		must(t, pairs[i][0].Connect(bg, pairs[i][1].Endpoint(), nil))
		must(t, pairs[i][1].Connect(bg, pairs[i][0].Endpoint(), nil))
	}
	resizeUnderLoad(t, cq, pairs)

	// what is in the rings of all lanes together is too much
	for i, p := range pairs {
		for n := range 2 + i {
			must(t, p[1].PostRecv(RecvWR{WRID: uint64(n)}))
		}
		must(t, p[1].Modify(bg, &QPAttr{State: StateErr}, AttrState))
	}
	before := cq.Cap()
	for n := range cq.Len() {
		refused(t, cq.Resize(n), ErrInvalid)
	}
	if cq.Cap() != before || cq.Len() != 2+3+4+5 {
		t.Errorf("%d of %d completions, want 14 of %d", cq.Len(), cq.Cap(), before)
	}
	must(t, cq.Resize(14))
	refused(t, cq.Resize(qp.MaxCQE+1), ErrInvalid)
	if cq.Cap() != 16 || cq.Len() != 14 {
		t.Errorf("%d of %d completions, want 14 of 16", cq.Len(), cq.Cap())
	}
}

// TestOverrunManyLanes: a queue that one lane overruns is broken for all: when a poll has said so,
// no queue pair that completes there works on.
func TestOverrunManyLanes(t *testing.T) {
	d, err := Open("pipe:overrun-lanes", &Config{Lanes: 2})
	must(t, err)
	t.Cleanup(func() { must(t, d.Close()) })
	e := newEnd(t, d, RC, 64)
	small, err := d.CreateCQ(CQInitAttr{CQE: 2})
	must(t, err)
	var qps [2]*QP
	for i := range qps {
		qps[i], err = e.pd.CreateQP(QPInitAttr{SendCQ: small})
		must(t, err)
		must(t, qps[i].Init(nil))
	}
	if qps[0].Lane() == qps[1].Lane() {
		t.Fatal("both are on one lane")
	}
	for i := range uint64(3) {
		must(t, qps[0].PostRecv(RecvWR{WRID: i}))
	}
	must(t, qps[0].Modify(bg, &QPAttr{State: StateErr}, AttrState))
	var wcs [8]WC
	if n, err := small.Poll(wcs[:]); n != 2 || err != nil {
		t.Errorf("%d completions, %v", n, err)
	}
	_, err = small.Poll(wcs[:])
	refused(t, err, ErrOverrun, "2")
	_, err = small.Wait(bg, wcs[:])
	refused(t, err, ErrOverrun)
	if s := qps[1].State(); s != StateErr {
		t.Fatalf("the other lane's queue pair is in %v", s)
	}
	told := map[EventType]any{}
	for len(told) < 2 {
		ev := next(t, d.Events())
		told[ev.Type] = ev.CQ
		if ev.Type == EventQPFatal {
			told[ev.Type] = ev.QP
		}
	}
	if told[EventCQErr] != small || told[EventQPFatal] != qps[1] {
		t.Errorf("events %v", told)
	}
	for _, q := range qps {
		must(t, q.Close())
	}
	must(t, small.Close())
}

// TestTimesAskedFor: a completion has the times that its queue was asked for and no other, also
// when it was put aside while another queue pair was closed.
func TestTimesAskedFor(t *testing.T) {
	d := openDevice(t, "pipe:times", nil)
	pd, err := d.AllocPD()
	must(t, err)
	for _, flags := range []WCExFlags{0, WCExStandard, WCExWithCompletionTimestamp, WCExWithCompletionTimestampWallclock,
		WCExWithCompletionTimestamp | WCExWithCompletionTimestampWallclock} {
		cq, err := d.CreateCQ(CQInitAttr{CQE: 16, WCFlags: flags})
		must(t, err)
		var qps [2]*QP
		for i := range qps {
			qps[i], err = pd.CreateQP(QPInitAttr{SendCQ: cq})
			must(t, err)
			must(t, qps[i].Init(nil))
			must(t, qps[i].PostRecv(RecvWR{WRID: uint64(i)}))
			must(t, qps[i].Modify(bg, &QPAttr{State: StateErr}, AttrState))
		}
		must(t, qps[0].Close())
		var wcs [4]WCEx
		n, err := cq.PollEx(wcs[:])
		must(t, err)
		wc := &wcs[0]
		if n != 1 || wc.WRID != 1 || wc.Status != WCWRFlushErr ||
			(wc.Timestamp != 0) != (flags&WCExWithCompletionTimestamp != 0) ||
			(wc.Wallclock != 0) != (flags&WCExWithCompletionTimestampWallclock != 0) {
			t.Errorf("flags 0x%x: %d completions, %+v", flags, n, *wc)
		}
		must(t, qps[1].Close())
		must(t, cq.Close())
	}
	must(t, pd.Close())
}

// resizeUnderLoad exchanges messages while another goroutine changes the size of the queue: all
// complete, those of each queue pair in order.
func resizeUnderLoad(t *testing.T, cq *CQ, pairs [4][2]*QP) {
	stop := make(chan bool)
	var resizing sync.WaitGroup
	resizing.Go(func() {
		for n := 1024; ; n ^= 1024 ^ 4096 {
			select {
			case <-stop:
				return
			default:
				must(t, cq.Resize(n))
			}
		}
	})
	for range 4 {
		const each = 64
		for i, p := range pairs {
			for n := range uint64(each) {
				must(t, p[1].PostRecv(RecvWR{WRID: uint64(i)<<8 | n | 1<<16}))
			}
			for n := range uint64(each) {
				must(t, p[0].PostSend(SendWR{WRID: uint64(i)<<8 | n, Opcode: WRSend}))
			}
		}
		var next [2][4]uint64
		for got := 0; got < 2*4*each; {
			var wcs [7]WC
			n, err := cq.Wait(bg, wcs[:])
			must(t, err)
			got += n
			for _, wc := range wcs[:n] {
				at := &next[wc.WRID>>16][wc.WRID>>8&0xff]
				if wc.Status != WCSuccess || wc.WRID&0xff != *at {
					t.Fatalf("%+v after %d", wc, *at)
				}
				*at++
			}
		}
	}
	close(stop)
	resizing.Wait()
}

// BenchmarkPollFull is what it costs to take completions that are there, one by one, with and
// without CQSingleThreaded, and with times.
func BenchmarkPollFull(b *testing.B) {
	d := openDevice(b, "pipe:poll-full", nil)
	pd, err := d.AllocPD()
	must(b, err)
	defer pd.Close()
	for name, attr := range map[string]CQInitAttr{"shared": {}, "single": {Flags: CQSingleThreaded},
		"times": {WCFlags: WCExWithCompletionTimestamp}} {
		b.Run(name, func(b *testing.B) {
			const most = 1024
			attr.CQE = most
			cq, err := d.CreateCQ(attr)
			must(b, err)
			q, err := pd.CreateQP(QPInitAttr{SendCQ: cq, Cap: QPCap{MaxRecvWR: most}})
			must(b, err)
			must(b, q.Init(nil))
			must(b, q.Modify(bg, &QPAttr{State: StateErr}, AttrState))
			recvs := make([]RecvWR, most)
			var wcs [1]WC
			var exs [1]WCEx
			for b.Loop() {
				b.StopTimer()
				must(b, q.PostRecv(recvs...))
				b.StartTimer()
				for range most {
					if attr.WCFlags != 0 {
						cq.PollEx(exs[:])
					} else {
						cq.Poll(wcs[:])
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/most, "ns/completion")
			must(b, q.Close())
			must(b, cq.Close())
		})
	}
}
