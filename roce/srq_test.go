package roce

// Shared receive queues over several lanes, and what they cost. What they promise, of any device,
// is in package conformance; the protocol in the worlds of qp/qptest.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"github.com/goroce/goroce/internal/step"
	"github.com/goroce/goroce/qp"
)

// newShared makes a shared receive queue, of requests of n bytes in the end's memory: request i
// lies at i*n.
func newShared(t testing.TB, e *end, wr, n int) *SRQ {
	t.Helper()
	s, err := e.pd.CreateSRQ(SRQInitAttr{MaxWR: wr, MaxSGE: 1})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	for i := range wr {
		must(t, s.PostRecv(RecvWR{WRID: uint64(i), SGL: []SGE{e.mr.SGE(i*n, n)}}))
	}
	return s
}

// TestSRQLanes: queue pairs of all lanes take their requests from one queue at the same time, while
// the application posts from two goroutines and resizes it. Every message arrives once, in the
// order of its queue pair, and no request is lost.
func TestSRQLanes(t *testing.T) {
	const pairs, messages, size, slots = 8, 300, 16, 24
	name := names["pipe"](t)
	var devices [2]*Device
	for i := range devices {
		d, err := Open(name(i), &Config{Lanes: 4})
		must(t, err)
		t.Cleanup(func() { must(t, d.Close()) })
		devices[i] = d
	}
	b := newEnd(t, devices[1], RC, slots*size)
	srq := newShared(t, b, slots, size)
	next := map[uint32]uint64{} // by the receiver's number
	var wg sync.WaitGroup
	for range pairs {
		a := newEnd(t, devices[0], RC, size)
		q, err := b.pd.CreateQP(QPInitAttr{SendCQ: b.cq, SRQ: srq})
		must(t, err)
		t.Cleanup(func() { must(t, q.Close()) })
		must(t, a.qp.Connect(bg, q.Endpoint(), nil))
		must(t, q.Connect(bg, a.qp.Endpoint(), nil))
		next[q.QPN()] = 0
		wg.Go(func() {
			for i := range uint64(messages) {
				binary.LittleEndian.PutUint64(a.buf, i)
				a.post(SendWR{Opcode: WRSend, SGL: []SGE{a.mr.SGE(0, size)}})
				a.wait()
			}
		})
	}
	wg.Go(func() {
		for i := range uint32(500) {
			must(t, srq.Modify(SRQAttr{MaxWR: slots + i%100, Limit: i % 10}, SRQMaxWR|SRQLimit))
		}
	})
	spent := make(chan uint64, slots)
	for range 2 {
		wg.Go(func() {
			for id := range spent {
				must(t, srq.PostRecv(RecvWR{WRID: id, SGL: []SGE{b.mr.SGE(int(id)*size, size)}}))
			}
		})
	}
	for range pairs * messages {
		wc := b.wait()
		if got := binary.LittleEndian.Uint64(b.buf[wc.WRID*size:]); got != next[wc.QPN] {
			t.Fatalf("QP 0x%06x got message %d, want %d", wc.QPN, got, next[wc.QPN])
		}
		next[wc.QPN]++
		spent <- wc.WRID
	}
	close(spent)
	wg.Wait()
	must(t, srq.Modify(SRQAttr{MaxWR: slots}, SRQMaxWR))
	refused(t, srq.Modify(SRQAttr{MaxWR: slots - 1}, SRQMaxWR), ErrInvalid, "24 work requests are outstanding")
}

// TestSRQDomains: the keys of a request are of the queue's domain, whatever that of the queue pair.
func TestSRQDomains(t *testing.T) {
	da, db := openPipes(t, nil)
	a, b, other := newEnd(t, da, RC, 64), newEnd(t, db, RC, 64), newEnd(t, db, RC, 64)
	s, err := other.pd.CreateSRQ(SRQInitAttr{MaxSGE: 1})
	must(t, err)
	defer func() { must(t, s.Close()) }()
	q, err := b.pd.CreateQP(QPInitAttr{SendCQ: b.cq, SRQ: s})
	must(t, err)
	defer func() { must(t, q.Close()) }()
	must(t, a.qp.Connect(bg, q.Endpoint(), nil))
	must(t, q.Connect(bg, a.qp.Endpoint(), nil))
	must(t, s.PostRecv(RecvWR{WRID: 1, SGL: []SGE{other.mr.SGE(0, 8)}}, RecvWR{WRID: 2, SGL: []SGE{b.mr.SGE(0, 8)}}))
	fill(a.buf, 1)
	a.post(SendWR{Opcode: WRSend, SGL: []SGE{a.mr.SGE(0, 8)}})
	a.wait()
	if wc := b.wait(); wc.WRID != 1 || string(other.buf[:8]) != string(a.buf[:8]) {
		t.Errorf("%+v", wc)
	}
	a.post(SendWR{Opcode: WRSend, SGL: []SGE{a.mr.SGE(0, 8)}})
	if wc := a.waitAny(); wc.Status != WCRemOpErr {
		t.Errorf("the sender's completion: %v", wc.Status)
	}
	if wc := b.waitAny(); wc.WRID != 2 || wc.Status != WCLocProtErr {
		t.Errorf("a request with a key of the queue pair's domain: %+v", wc)
	}
	_, err = a.pd.CreateQP(QPInitAttr{SendCQ: a.cq, SRQ: s})
	refused(t, err, ErrInvalid, "the SRQ is of device")
}

// TestSRQLowAlready: a limit above what is posted raises its event at once.
func TestSRQLowAlready(t *testing.T) {
	a, _ := connected(t, wires[0], RC, 64)
	s := newShared(t, a, 4, 16)
	must(t, s.Modify(SRQAttr{MaxWR: 9, Limit: 5}, SRQMaxWR|SRQLimit))
	for {
		ev := next(t, a.dev.Events())
		if ev.Type == EventSRQLimit && ev.SRQ == s {
			break
		}
	}
	if at, err := s.Query(); err != nil || at != (SRQAttr{MaxWR: 9, MaxSGE: 1}) {
		t.Errorf("%+v, %v", at, err)
	}
}

// crowd is many queue pairs at one end, on one shared receive queue and one completion queue, with
// those at the other end that send to them.
type crowd struct {
	a, b  *end
	srq   *SRQ // nil: each has a receive queue of its own
	sends []*QP
	recvs map[uint32]*QP // by number
	wcs   [64]WC
	room  int // bytes of a request
}

// newCrowd connects n pairs, in a random order. Their send queues have one place. It returns what a
// queue pair of the receiving end takes of memory, in bytes. There is no background: it would wake
// up for each end while the only goroutine is at the other, and take turns.
func newCrowd(t testing.TB, n, size int, shares bool) (c *crowd, each int64) {
	t.Helper()
	const slots = 256
	segment := fmt.Sprintf("pipe:test-%d", serial.Add(1))
	open := func(n int) *end {
		d, err := Open(segment, &Config{NoBackground: true})
		must(t, err)
		t.Cleanup(func() { must(t, d.Close()) })
		return newEnd(t, d, RC, n)
	}
	c = &crowd{a: open(size), b: open(slots * size), room: size, recvs: map[uint32]*QP{}}
	if shares {
		c.srq = newShared(t, c.b, slots, size)
	}
	small := QPCap{MaxSendWR: 1, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1}
	var receivers []*QP
	create := func(e *end, attr QPInitAttr) *QP {
		attr.SendCQ, attr.Cap, attr.SQSigAll = e.cq, small, true
		q, err := e.pd.CreateQP(attr)
		must(t, err)
		t.Cleanup(func() { must(t, q.Close()) })
		return q
	}
	for range n {
		c.sends = append(c.sends, create(c.a, QPInitAttr{}))
	}
	before := allocated()
	for range n {
		receivers = append(receivers, create(c.b, QPInitAttr{SRQ: c.srq}))
	}
	o := DefaultConnectOptions()
	for i, q := range receivers {
		must(t, q.Connect(bg, c.sends[i].Endpoint(), &o))
	}
	each = (allocated() - before) / int64(n)
	for i, q := range c.sends {
		r := receivers[i]
		c.recvs[r.QPN()] = r
		must(t, q.Connect(bg, r.Endpoint(), &o))
		if !shares {
			must(t, r.PostRecv(c.request(i%slots)))
		}
	}
	rand.Shuffle(n, func(i, j int) { c.sends[i], c.sends[j] = c.sends[j], c.sends[i] })
	return c, each
}

// request is the receive request with the i-th place in memory.
func (c *crowd) request(i int) RecvWR {
	return RecvWR{WRID: uint64(i), SGL: []SGE{c.b.mr.SGE(i*c.room, c.room)}}
}

// again posts the request of a completion once more.
func (c *crowd) again(wc *WC) error {
	if c.srq != nil {
		return c.srq.PostRecv(c.request(int(wc.WRID)))
	}
	return c.recvs[wc.QPN].PostRecv(c.request(int(wc.WRID)))
}

// allocated is how many bytes are in use.
func allocated() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// round sends one message on each of so many queue pairs, beginning with the first-th, and posts
// again what they took.
func (c *crowd) round(first, n int) error {
	for i := range n {
		q := c.sends[(first+i)%len(c.sends)]
		if err := q.PostSend(SendWR{Opcode: WRSend, SGL: []SGE{c.a.mr.SGE(0, c.room)}}); err != nil {
			return err
		}
	}
	for _, e := range []*end{c.b, c.a} {
		for got := 0; got < n; {
			k, err := e.cq.Poll(c.wcs[:])
			if err != nil {
				return err
			}
			got += k
			for i := range c.wcs[:k] {
				wc := &c.wcs[i]
				if wc.Status != WCSuccess {
					return fmt.Errorf("%+v", *wc)
				}
				if e == c.b {
					if err := c.again(wc); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

// TestSRQCrowd: ten thousand queue pairs with one receive queue and one completion queue. Each
// takes at most 4 KiB beyond its send queue, and all of them work.
func TestSRQCrowd(t *testing.T) {
	pairs := 10000
	if testing.Short() || step.Raced {
		pairs = 1000
	}
	c, each := newCrowd(t, pairs, 64, true)
	if each > 4096 {
		t.Errorf("a queue pair takes %d bytes, at most 4096", each)
	}
	t.Logf("%d bytes each", each)
	for i := 0; i < pairs; i += 50 {
		must(t, c.round(i, 50))
	}
}

// BenchmarkSRQ is the cost of a message of 64 bytes, both ends on one processor, to as many queue
// pairs at a time as there are, at most 64: into receive queues of their own, and into one that all
// share.
func BenchmarkSRQ(b *testing.B) {
	for _, c := range []struct {
		pairs  int
		shares bool
	}{{1, false}, {1, true}, {64, false}, {64, true}, {10000, false}, {10000, true}} {
		b.Run(fmt.Sprintf("%d pairs/shared %v", c.pairs, c.shares), func(b *testing.B) {
			crowd, _ := newCrowd(b, c.pairs, 64, c.shares)
			n, at := min(c.pairs, 64), 0
			for i := 0; i < c.pairs; i += n {
				must(b, crowd.round(i, n))
			}
			b.ReportAllocs()
			b.ResetTimer()
			for i := 0; i < b.N; i += n {
				must(b, crowd.round(at, n))
				at += n
			}
		})
	}
}

// TestSRQSizes: what a caller gets wrong is an error that names the value.
func TestSRQSizes(t *testing.T) {
	a, _ := connected(t, wires[0], RC, 64)
	for _, c := range []struct {
		attr SRQInitAttr
		text string
	}{
		{SRQInitAttr{MaxWR: -1}, "a queue of -1 requests"},
		{SRQInitAttr{MaxWR: qp.MaxSRQWR + 1}, fmt.Sprint(qp.MaxSRQWR + 1)},
		{SRQInitAttr{MaxSGE: qp.MaxSGE + 1}, "33 elements a request, at most 32"},
		{SRQInitAttr{MaxWR: 3, Limit: 4}, "the limit 4"},
	} {
		_, err := a.pd.CreateSRQ(c.attr)
		refused(t, err, ErrInvalid, c.text)
	}
	s := newShared(t, a, 2, 16)
	var post *PostError
	err := s.PostRecv(RecvWR{})
	if !errors.As(err, &post) || post.QPN != 0 || !errors.Is(err, ErrFull) {
		t.Errorf("%v", err)
	}
	refused(t, s.Modify(SRQAttr{}, SRQMaxWR), ErrInvalid, "of 0 work requests")
	refused(t, s.Modify(SRQAttr{MaxWR: 1}, SRQMaxWR), ErrInvalid, "a size of 1, but 2 work requests are outstanding")
}
