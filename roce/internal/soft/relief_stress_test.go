package soft

// All ways to wait for completions at once, on one lane, at all paces. Each flow is an exchange of
// messages between two queue pairs, whose ends take their completions by Wait, Poll or ReqNotify
// and pause for random microseconds; when some messages have been exchanged the queue pairs are
// closed and made anew.
//
// A wake-up that is lost hangs. UC repeats nothing, so that nothing can hide one. RC has no ack
// timeout here; its probes, which may be what woke somebody, are counted, and shown.

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goroce/goroce/qp"
)

func TestReliefStress(t *testing.T) { reliefStress(t) }

// TestReliefStressOne is the same on one processor, where who waits for another goroutine without
// letting it run waits for ever.
func TestReliefStressOne(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	reliefStress(t)
}

func reliefStress(t *testing.T) {
	overWires(t, func(t *testing.T, w wire2) {
		for typ, name := range map[QPType]string{UC: "UC", RC: "RC"} {
			t.Run(name, func(t *testing.T) {
				a, b := w.open(t)
				var flows sync.WaitGroup
				for seed := range uint64(4) {
					f := newFlow(t, a, b, typ, seed)
					flows.Go(f.run)
				}
				flows.Wait()
				sa, sb := a.Stats().Engine, b.Stats().Engine
				if sa.AckTimeouts+sb.AckTimeouts != 0 {
					t.Errorf("%d ack timeouts", sa.AckTimeouts+sb.AckTimeouts)
				}
				if typ == UC && sa.SentPkts+sb.SentPkts != 4*flowLives*2*flowRounds {
					t.Errorf("%d packets were sent", sa.SentPkts+sb.SentPkts)
				}
				t.Logf("%d packets, %d probes", sa.SentPkts+sb.SentPkts, sa.Probes+sb.Probes)
			})
		}
	})
}

// flowLives is how many pairs of queue pairs a flow has, flowRounds how many messages go to and fro
// between each.
const flowLives, flowRounds = 5, 80

// flow is one exchange.
type flow struct {
	t    *testing.T
	typ  QPType
	ends [2]flowEnd
}

// flowEnd is one side of it, in the life at hand.
type flowEnd struct {
	*rand.Rand
	pd       *PD
	cq       *CQ
	qp       *QP
	told     chan struct{} // holds a token after a completion that ReqNotify asked for
	notified bool          // it uses ReqNotify, and never Wait of the queue
	channel  *Channel
	event    *atomic.Bool // of the channel
}

func newFlow(t *testing.T, a, b *Device, typ QPType, seed uint64) *flow {
	f := &flow{t: t, typ: typ}
	for i, d := range []*Device{a, b} {
		e := &f.ends[i]
		e.Rand = rand.New(rand.NewPCG(seed, uint64(i)))
		e.notified = (seed+uint64(i))%4 == 3
		var err error
		e.pd, err = d.AllocPD()
		must(t, err)
		e.told, e.event = make(chan struct{}, 1), new(atomic.Bool)
		e.channel = d.NewChannel(e.event.Load, e.told)
		e.cq, err = d.CreateCQ(CQInit{CQE: 64, Channel: e.channel, Notify: func() {
			e.event.Store(true)
			select {
			case e.told <- struct{}{}:
			default:
			}
		}})
		must(t, err)
		t.Cleanup(func() {
			must(t, e.cq.Close())
			must(t, e.pd.Close())
		})
	}
	return f
}

func (f *flow) run() {
	for range flowLives {
		f.open()
		var peer sync.WaitGroup
		peer.Go(func() {
			e := &f.ends[1]
			for range flowRounds {
				f.next(e)
				f.say(e)
			}
		})
		e := &f.ends[0]
		for range flowRounds {
			f.say(e)
			f.next(e)
		}
		peer.Wait()
		for i := range f.ends {
			f.check(f.ends[i].qp.Close())
		}
	}
}

// check is must for a goroutine that is not the test's.
func (f *flow) check(err error) {
	if err != nil {
		f.t.Error(err)
	}
}

// open makes the queue pairs of a life, with room for the first message.
func (f *flow) open() {
	for i := range f.ends {
		e := &f.ends[i]
		var err error
		e.qp, err = createQP(e.pd, QPInit{Type: f.typ, SendCQ: e.cq})
		f.check(err)
	}
	o := QPAttr{RetryCnt: 7}
	for i := range f.ends {
		f.check(f.ends[i].qp.Connect(f.ends[1-i].qp.Endpoint(), &o))
		f.check(postRecv(f.ends[i].qp, RecvWR{}))
	}
}

// say sends a message; there is room for the answer already.
func (f *flow) say(e *flowEnd) {
	e.pause()
	f.check(postSend(e.qp, SendWR{Opcode: WRSend}))
}

// next takes a message, and makes room for one more.
func (f *flow) next(e *flowEnd) {
	e.pause()
	var wcs [1]WC
	var n int
	var err error
	switch poll := e.IntN(3) == 0; {
	case poll:
		for n == 0 && err == nil {
			n, err = e.cq.Poll(wcs[:])
		}
	case e.notified:
		n, err = e.notify(wcs[:])
	default:
		if e.IntN(2) == 0 {
			e.cq.spin.Store(0) // it sleeps at once
		}
		n, err = e.cq.Wait(context.Background(), wcs[:])
	}
	f.check(err)
	if n != 1 || wcs[0].Status != WCSuccess || wcs[0].Opcode != WCRecv || wcs[0].QPN != e.qp.QPN() {
		f.t.Errorf("%d completions: %+v", n, wcs[0])
	}
	f.check(postRecv(e.qp, RecvWR{}))
}

// notify arms, looks, and waits for the channel, by Wait or for its token.
func (e *flowEnd) notify(wcs []WC) (n int, err error) {
	for {
		if err = e.cq.ReqNotify(false); err != nil {
			return n, err
		}
		if n, err = e.cq.Poll(wcs); n > 0 || err != nil {
			return n, err
		}
		switch e.IntN(3) {
		case 0:
			<-e.told
		case 1:
			e.channel.spin.Store(0) // it sleeps at once
			fallthrough
		default:
			e.channel.Wait(context.Background())
			select {
			case <-e.told:
			default:
			}
		}
		e.event.Store(false)
	}
}

// pause is none, a few microseconds, or long enough for everybody to go to sleep.
func (e *flowEnd) pause() {
	switch e.IntN(4) {
	case 0:
		for end := now() + qp.Time(e.IntN(30_000)); now() < end; {
		}
	case 1:
		time.Sleep(time.Duration(e.IntN(300)) * time.Microsecond)
	}
}
