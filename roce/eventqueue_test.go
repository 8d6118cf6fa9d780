package roce

// Queues of events: what is put is taken, in order, by whichever way somebody waits for it.

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
)

// TestEventQueue: the token is there while there are events and not otherwise, and the end is told.
func TestEventQueue(t *testing.T) {
	var q EventQueue[int]
	q.init(3)
	token := func() bool {
		select {
		case <-q.Ready():
			return true
		default:
			return false
		}
	}
	if _, ok := q.TryGet(); ok || token() {
		t.Error("an empty queue has something")
	}
	for i := range 5 {
		q.put(i)
	}
	if n := q.lostCount(); n != 2 {
		t.Errorf("%d are lost, want 2", n)
	}
	q.remove(func(i int) bool { return i == 3 })
	var got []int
	for token() {
		e, ok := q.TryGet()
		if !ok {
			t.Fatal("a token for nothing")
		}
		got = append(got, e)
	}
	if !slices.Equal(got, []int{2, 4}) {
		t.Errorf("took %v, want 2 and 4", got)
	}
	q.put(7)
	q.remove(func(int) bool { return true })
	if token() {
		t.Error("a token for what was removed")
	}
	ended, cancel := context.WithCancel(bg)
	cancel()
	if _, err := q.Get(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("Get: %v", err)
	}
	q.put(8)
	q.close()
	q.put(9)
	if e, err := q.Get(bg); e != 8 || err != nil {
		t.Errorf("what was there before the end: %d, %v", e, err)
	}
	if _, err := q.Get(bg); !errors.Is(err, ErrClosed) || !token() {
		t.Errorf("after the end: %v", err)
	}
	if _, err := q.FD(); !errors.Is(err, ErrClosed) {
		t.Errorf("FD after the end: %v", err)
	}
}

// TestEventQueueManyTakers: every event goes to one of those who wait, and all of them hear of the
// end.
func TestEventQueueManyTakers(t *testing.T) {
	var q EventQueue[int]
	q.init(0)
	const takers, events = 4, 2000
	var all sync.WaitGroup
	var mu sync.Mutex
	seen := map[int]int{}
	for range takers {
		all.Go(func() {
			for {
				e, err := q.Get(bg)
				if errors.Is(err, ErrClosed) {
					return
				}
				mu.Lock()
				seen[e]++
				mu.Unlock()
			}
		})
	}
	for i := range events {
		q.put(i)
	}
	q.close()
	all.Wait()
	if len(seen) != events {
		t.Errorf("%d of %d events were taken", len(seen), events)
	}
	for e, n := range seen {
		if n != 1 {
			t.Errorf("event %d was taken %d times", e, n)
		}
	}
}

// TestCompChannelShared: several queues tell one channel, each once for each request, and a queue
// that is closed is not heard of any more.
func TestCompChannelShared(t *testing.T) {
	overWires(t, func(t *testing.T, w wire2) {
		da, db := w.open(t, nil)
		ch, err := da.CreateCompChannel()
		must(t, err)
		var cqs []*CQ
		var qps []*QP
		for i := range 3 {
			cq, err := da.CreateCQ(CQInitAttr{CQE: 16, Channel: ch, Context: i})
			must(t, err)
			if cq.Channel() != ch || cq.Context() != i {
				t.Errorf("queue %d has another channel or context", i)
			}
			e := newEnd(t, da, RC, 8)
			qp, err := e.pd.CreateQP(QPInitAttr{SendCQ: cq})
			must(t, err)
			peer := newEnd(t, db, RC, 8)
			must(t, qp.Connect(bg, peer.qp.Endpoint(), nil))
			must(t, peer.qp.Connect(bg, qp.Endpoint(), nil))
			cqs, qps = append(cqs, cq), append(qps, qp)
		}
		refused(t, ch.Close(), ErrBusy, "3 CQs")
		for _, i := range []int{2, 0, 1, 1} {
			must(t, cqs[i].ReqNotify(false))
			must(t, qps[i].PostSend(SendWR{Opcode: WRWrite, Flags: SendSignaled}))
			if got := next(t, &ch.EventQueue); got != cqs[i] {
				t.Errorf("queue %v is told instead of %d", got.Context(), i)
			}
			var wcs [2]WC
			if n, err := cqs[i].Poll(wcs[:]); n != 1 || err != nil || wcs[0].Status != WCSuccess {
				t.Errorf("%d completions, %v, %v", n, wcs[0].Status, err)
			}
		}
		must(t, cqs[0].ReqNotify(false))
		must(t, qps[0].Modify(bg, &QPAttr{State: StateErr}, AttrState))
		must(t, qps[0].PostSend(SendWR{Opcode: WRWrite}))
		<-ch.Ready()
		for i := range cqs {
			must(t, qps[i].Close())
			must(t, cqs[i].Close())
		}
		if cq, ok := ch.TryGet(); ok {
			t.Errorf("queue %v is told after its end", cq.Context())
		}
		must(t, ch.Close())
		must(t, ch.Close())
		_, err = da.CreateCQ(CQInitAttr{CQE: 1, Channel: ch})
		refused(t, err, ErrClosed, "channel")
	})
}

// TestCQInitAttr: every attribute that is wrong is named.
func TestCQInitAttr(t *testing.T) {
	d, other := openDevice(t, "pipe:cqattr", nil), openDevice(t, "pipe:cqattr", nil)
	ch, err := other.CreateCompChannel()
	must(t, err)
	defer ch.Close()
	_, err = d.CreateCQ(CQInitAttr{CQE: 1, Channel: ch})
	refused(t, err, ErrInvalid, "completion channel is of device")
	for _, v := range []int{-1, 1} {
		_, err = d.CreateCQ(CQInitAttr{CQE: 1, Vector: v})
		refused(t, err, ErrInvalid, "completion vector", "the device has 1")
	}
	cq, err := d.CreateCQ(CQInitAttr{CQE: 1})
	must(t, err)
	refused(t, cq.ReqNotify(false), ErrInvalid, "no channel")
	must(t, cq.Close())
	refused(t, cq.ReqNotify(false), ErrClosed)
}

// TestChannelHearsNothingOfWaiters: of two goroutines in Wait one gives up; the channel, which has
// been asked to tell of a completion, does not tell of that, and does tell of the completion.
func TestChannelHearsNothingOfWaiters(t *testing.T) {
	overWires(t, func(t *testing.T, w wire2) {
		a, b := connected(t, w, RC, 64)
		var ends [2]context.CancelFunc
		ended := make(chan error, 2)
		for i := range ends {
			var ctx context.Context
			ctx, ends[i] = context.WithCancel(bg)
			go func() {
				var wcs [1]WC
				_, err := b.cq.Wait(ctx, wcs[:])
				ended <- err
			}()
		}
		must(t, b.cq.ReqNotify(false))
		ends[0]()
		<-ended
		if _, told := b.ch.TryGet(); told {
			t.Error("told of nothing")
		}
		b.recv(1)
		a.post(SendWR{Opcode: WRSend})
		if got := next(t, &b.ch.EventQueue); got != b.cq {
			t.Error("another queue")
		}
		ends[1]()
		<-ended
		a.wait()
		for b.cq.Len() > 0 {
			b.waitAny()
		}
	})
}
