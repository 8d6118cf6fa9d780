package roce

// Many goroutines on many queue pairs of one device: posting, polling, waiting, connecting and
// closing at the same time.

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/goroce/goroce/transport"
)

// TestManyQueuePairs runs a stream of numbered messages on each of many queue pairs, two goroutines
// each, which share completion queues two by two, while others register memory, query and make
// queue pairs.
func TestManyQueuePairs(t *testing.T) {
	overWires(t, func(t *testing.T, w wire2) {
		manyQueuePairs(t, w, nil, 8, 300)
	})
}

func manyQueuePairs(t *testing.T, w wire2, wrap func(transport.Port) transport.Port, pairs, messages int) {
	da, db := w.open(t, wrap)
	var all sync.WaitGroup
	for i := range pairs {
		a, b := newEnd(t, da, RC, 32<<10), newEnd(t, db, RC, 32<<10)
		connect(t, a, b)
		carry(&all, a, b, messages, i)
	}
	stop := make(chan struct{})
	var noise sync.WaitGroup
	noise.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				churn(t, da)
			}
		}
	})
	all.Wait()
	close(stop)
	noise.Wait()
}

const slots = 16 // requests in flight on each queue pair
const slotSize = 2 << 10

// carry has a stream go from a to b. Where either end fails the other does not wait for it.
func carry(all *sync.WaitGroup, a, b *end, messages, seed int) {
	ctx, fail := context.WithCancel(context.Background())
	a.t.Cleanup(fail)
	for _, goes := range []func() bool{
		func() bool { return stream(ctx, a, messages, seed) },
		func() bool { return absorb(ctx, b, messages, seed) },
	} {
		all.Go(func() {
			if !goes() {
				fail()
			}
		})
	}
}

// stream sends messages of changing lengths, each with its number in front.
func stream(ctx context.Context, e *end, messages, seed int) bool {
	inFlight := 0
	for i := range messages {
		if inFlight == slots && !e.reap(ctx, &inFlight) {
			return false
		}
		at := i % slots * slotSize
		n := 8 + (i*37+seed)%(slotSize-8)
		fill(e.buf[at:at+n], i+seed)
		binary.LittleEndian.PutUint64(e.buf[at:], uint64(i))
		if err := e.qp.PostSend(SendWR{WRID: uint64(i), Opcode: WRSend, SGL: []SGE{e.mr.SGE(at, n)}}); err != nil {
			e.t.Error(err)
			return false
		}
		inFlight++
	}
	for inFlight > 0 {
		if !e.reap(ctx, &inFlight) {
			return false
		}
	}
	return true
}

// reap takes at least one completion.
func (e *end) reap(ctx context.Context, inFlight *int) bool {
	var wcs [4]WC
	n, err := e.cq.Wait(ctx, wcs[:])
	if err != nil {
		e.t.Error(err)
		return false
	}
	*inFlight -= n
	for _, wc := range wcs[:n] {
		if wc.Status != WCSuccess {
			e.t.Errorf("%v %d: %v", wc.Opcode, wc.WRID, wc.Status)
			return false
		}
	}
	return true
}

// absorb receives and checks what stream sends, in order.
func absorb(ctx context.Context, e *end, messages, seed int) bool {
	post := func(i int) {
		if err := e.qp.PostRecv(RecvWR{WRID: uint64(i), SGL: []SGE{e.mr.SGE(i%slots*slotSize, slotSize)}}); err != nil {
			e.t.Error(err)
		}
	}
	for i := range min(slots, messages) {
		post(i)
	}
	want := make([]byte, slotSize)
	for i := 0; i < messages; {
		var wcs [4]WC
		n, err := e.cq.Wait(ctx, wcs[:])
		if err != nil {
			e.t.Error(err)
			return false
		}
		for _, wc := range wcs[:n] {
			size := 8 + (i*37+seed)%(slotSize-8)
			fill(want[:size], i+seed)
			binary.LittleEndian.PutUint64(want, uint64(i))
			if wc.Status != WCSuccess || wc.WRID != uint64(i) || wc.ByteLen != uint32(size) {
				e.t.Errorf("message %d of QP %06x: %+v", i, wc.QPN, wc)
				return false
			}
			same(e.t, e.buf[i%slots*slotSize:][:size], want[:size])
			if i += 1; i-1+slots < messages {
				post(i - 1 + slots)
			}
		}
	}
	return true
}

// churn makes and closes one of everything.
func churn(t *testing.T, d *Device) {
	fail := func(err error) {
		if err != nil {
			t.Error(err)
		}
	}
	pd, err := d.AllocPD()
	fail(err)
	cq, err := d.CreateCQ(CQInitAttr{CQE: 4})
	fail(err)
	mr, err := pd.RegMR(make([]byte, 100), LocalWrite)
	fail(err)
	q, err := pd.CreateQP(QPInitAttr{SendCQ: cq})
	fail(err)
	fail(q.Connect(bg, Endpoint{GID: d.GIDs()[0], QPN: 0x123456}, nil))
	fail(q.PostRecv(RecvWR{SGL: []SGE{mr.SGE(0, 100)}}))
	fail(q.PostSend(SendWR{Opcode: WRSend, SGL: []SGE{mr.SGE(0, 100)}}))
	_, err = q.Query()
	fail(err)
	fail(q.Close())
	d.Stats()
	d.QueryPort()
	fail(mr.Close())
	fail(cq.Close())
	fail(pd.Close())
}

// TestSharedQueue has several goroutines post to one queue pair and several poll one completion
// queue: every request completes exactly once.
func TestSharedQueue(t *testing.T) {
	overWires(t, func(t *testing.T, w wire2) {
		a, b := connected(t, w, RC, 64)
		const posters, each = 4, 400
		tokens := make(chan struct{}, 100) // no more in flight than the queue holds
		seen := make(chan uint64, posters*each)
		var all sync.WaitGroup
		for p := range posters {
			all.Go(func() {
				for i := range each {
					tokens <- struct{}{}
					wr := SendWR{
						WRID:       uint64(p*each + i),
						Opcode:     WRWrite,
						SGL:        []SGE{a.mr.SGE(0, 8)},
						RemoteAddr: b.mr.Addr(),
						RKey:       b.mr.RKey(),
					}
					if err := a.qp.PostSend(wr); err != nil {
						t.Error(err)
					}
				}
			})
			all.Go(func() {
				var wcs [1]WC
				for range each {
					if _, err := a.cq.Wait(context.Background(), wcs[:]); err != nil || wcs[0].Status != WCSuccess {
						t.Errorf("%v %+v", err, wcs[0])
					}
					seen <- wcs[0].WRID
					<-tokens
				}
			})
		}
		all.Wait()
		close(seen)
		ids := map[uint64]int{}
		for id := range seen {
			ids[id]++
		}
		for id := range uint64(posters * each) {
			if ids[id] != 1 {
				t.Errorf("request %d completed %d times", id, ids[id])
			}
		}
	})
}

// TestCloseUnderFire closes queue pairs, regions and completion queues while peers write to them
// and others post and poll. All that is asked: no panic, no race, and an ErrClosed or a completion
// for everybody.
func TestCloseUnderFire(t *testing.T) {
	overWires(t, func(t *testing.T, w wire2) {
		da, db := w.open(t, nil)
		for round := range 10 {
			a, b := newEnd(t, da, RC, 4096), newEnd(t, db, RC, 4096)
			o := DefaultConnectOptions()
			o.Timeout, o.RetryCnt = 6, 1 // half a millisecond
			must(t, a.qp.Connect(bg, b.qp.Endpoint(), &o))
			must(t, b.qp.Connect(bg, a.qp.Endpoint(), &o))
			var all sync.WaitGroup
			all.Go(func() {
				for {
					wr := SendWR{Opcode: WRWrite, SGL: []SGE{a.mr.SGE(0, 4096)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()}
					if err := a.qp.PostSend(wr, wr, wr); err != nil && a.qp.State() == StateErr {
						return
					}
					if _, err := a.cq.Poll(make([]WC, 8)); err != nil {
						t.Error(fmt.Errorf("round %d: %w", round, err))
					}
					if a.qp.State() == StateErr {
						return
					}
				}
			})
			all.Go(func() {
				var wcs [1]WC
				b.cq.Wait(context.Background(), wcs[:])
			})
			if round%2 == 0 {
				must(t, b.mr.Close())
			}
			must(t, b.qp.Close())
			must(t, b.cq.Close())
			all.Wait()
		}
	})
}

// TestDeviceClosedUnderFire closes all of two devices, and the devices, while others post, poll and
// wait. Nobody is told that a port has failed which is merely being closed.
func TestDeviceClosedUnderFire(t *testing.T) {
	overWires(t, func(t *testing.T, w wire2) {
		if strings.Contains(w.name, " ") { // its devices have queue pairs of their own
			return
		}
		for range 2 {
			da, db := w.open(t, nil)
			a, b := newEnd(t, da, RC, 4096), newEnd(t, db, RC, 4096)
			connect(t, a, b)
			ctx, stop := context.WithCancel(bg)
			var users, closers sync.WaitGroup
			for _, ends := range [][2]*end{{a, b}, {b, a}} {
				x, y := ends[0], ends[1]
				x.dev.OnEvent(func(e AsyncEvent) {
					if e.Type == EventPortErr || e.Type == EventPortActive {
						t.Error(e)
					}
				})
				wr := SendWR{Opcode: WRWrite, SGL: []SGE{x.mr.SGE(0, 4096)}, RemoteAddr: y.mr.Addr(), RKey: y.mr.RKey()}
				started := make(chan struct{})
				for _, use := range []func(wcs []WC){
					func(wcs []WC) { x.cq.Poll(wcs) },
					func(wcs []WC) { x.cq.Wait(ctx, wcs) },
					func([]WC) { x.qp.PostSend(wr, wr, wr) },
				} {
					users.Go(func() {
						use(make([]WC, 8))
						started <- struct{}{}
						for ctx.Err() == nil {
							use(make([]WC, 8))
						}
					})
				}
				closers.Go(func() {
					for range 3 {
						<-started
					}
					for _, c := range []interface{ Close() error }{x.mr, x.qp, x.cq, x.ch, x.pd, x.dev} {
						if err := c.Close(); err != nil {
							t.Error(err)
						}
					}
				})
			}
			closers.Wait()
			stop()
			users.Wait()
		}
	})
}
