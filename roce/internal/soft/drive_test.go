package soft

// The lanes of two devices under simulation. Applications, backgrounds and reliefs are what they
// always are, goroutines, but time is virtual (testing/synctest): it passes while a packet is under
// way, while somebody sleeps, and a random bit with each look at the clock, so that a seed
// interleaves the steps of whoever is at it. The rules, for every world:
//
//	wake   nothing that happens is slept through: every request completes, and if a wake-up is
//	       lost nobody is left to run, which synctest reports
//	soon   what a peer waits for, though the application may have gone without a word, is done
//	       within drive.MaxStandby and some more: one-sided requests, and ACKs that were asked for
//	fair   of several applications on a lane each gets what it waits for, within the same time
//	idle   a device whose applications have gone does nothing at all, not a turn, for ten seconds
//	once   an exchange of messages between two that sleep in Wait wakes no background, and each of
//	       the two as often as packets come

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/roce/internal/soft/drive"
	"github.com/goroce/goroce/transport"
)

// soonEnough is the bound of the rules: the longest that a background stands by, and time for both
// ends' steps.
const soonEnough = time.Duration(drive.MaxStandby) + 500*time.Microsecond

func TestDrive(t *testing.T) {
	worlds := 80
	if testing.Short() {
		worlds = 30
	}
	for seed := range uint64(worlds) {
		synctest.Test(t, func(t *testing.T) { newDriveWorld(t, seed).run() })
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// TestDriveSparse: two applications that sleep in Wait exchange messages with pauses in between
// (once).
func TestDriveSparse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newDriveWorld(t, 1)
		w.watched, w.latency = true, 40*time.Microsecond // so far away that who waits sleeps
		w.open()
		const warm, rounds = 20, 50
		a, b := w.pair(RC, waits, waits)
		var both sync.WaitGroup
		b.prompt = true
		both.Go(func() { b.echo(1 << 30) })
		for range warm { // until Wait sleeps at once
			time.Sleep(time.Millisecond)
			a.exchange()
		}
		before := [2][2]int{w.ports[0].wakes(), w.ports[1].wakes()}
		for range rounds {
			time.Sleep(time.Millisecond)
			a.exchange()
		}
		after := [2][2]int{w.ports[0].wakes(), w.ports[1].wakes()}
		a.stop()
		both.Wait()
		for i := range w.ports {
			after := after[i]
			if n := after[transport.Background] - before[i][transport.Background]; n != 0 {
				t.Errorf("device %d: the background woke up %d times", i, n)
			}
			// The server sees the message and the ACK of its answer, the client the answer.
			if n := after[transport.Relief] - before[i][transport.Relief]; n > (1+i)*(rounds+1) {
				t.Errorf("device %d: the relief woke up %d times in %d exchanges", i, n, rounds)
			}
		}
		w.close()
	})
}

// driveWorld is two devices on a wire, and the time.
type driveWorld struct {
	*testing.T
	mu      sync.Mutex
	rng     *rand.Rand
	start   time.Time
	watched bool // the ports can be watched by two
	latency time.Duration
	ports   [2]*drivePort
	devices [2]*Device
	ends    []*driveEnd
}

func newDriveWorld(t *testing.T, seed uint64) *driveWorld {
	return &driveWorld{T: t, rng: rand.New(rand.NewPCG(seed, 9)), watched: seed%4 != 0,
		latency: 5 * time.Microsecond, start: time.Now()}
}

// upTo is a random time.
func (w *driveWorld) upTo(d time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Duration(w.rng.Int64N(int64(d)) + 1)
}

func (w *driveWorld) intN(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rng.IntN(n)
}

// clock is a look at the clock, which takes time.
func (w *driveWorld) clock() qp.Time {
	time.Sleep(w.upTo(300 * time.Nanosecond))
	return qp.Time(time.Second + time.Since(w.start))
}

// open makes the devices.
func (w *driveWorld) open() {
	world := world{now: w.clock, alarm: newTimerAlarm, exact: true, space: txSpace,
		yield: func() { runtime.Gosched(); time.Sleep(w.upTo(100 * time.Nanosecond)) }}
	w.ports[0], w.ports[1] = newDrivePort(w, "10.0.0.1"), newDrivePort(w, "10.0.0.2")
	w.ports[0].peer, w.ports[1].peer = w.ports[1], w.ports[0]
	for i := range w.devices {
		var port transport.Port = w.ports[i]
		if !w.watched {
			port = struct{ transport.Port }{port}
		}
		d, err := Open("drive", Config{Ports: []transport.Port{port}, world: &world})
		must(w, err)
		w.devices[i] = d
	}
}

// run plays some flows at once, and then looks whether both devices rest.
func (w *driveWorld) run() {
	w.open()
	var all sync.WaitGroup
	for range 1 + w.intN(3) {
		typ := []QPType{RC, RC, UC}[w.intN(3)]
		a, b := w.pair(typ, habit(w.intN(3)), habit(w.intN(4)))
		rounds := 5 + w.intN(15)
		all.Go(func() {
			for range rounds {
				a.think()
				if b.habit == isGone || typ == RC && w.intN(3) == 0 {
					a.reaches(b)
				} else {
					a.exchange()
				}
			}
			a.stop()
		})
		if b.habit != isGone {
			all.Go(func() { b.echo(1 << 30) })
		}
	}
	all.Wait()
	time.Sleep(100 * time.Millisecond)
	before := w.turns()
	time.Sleep(10 * time.Second)
	if after := w.turns(); after != before {
		w.Errorf("idle devices took turns: %d and then %d", before, after)
	}
	for i, p := range w.ports {
		if p.slowest > soonEnough {
			w.Errorf("device %d: an ACK left after %v", i, p.slowest)
		}
		if n := len(p.asks); n != 0 {
			w.Errorf("device %d: %d requests are not acknowledged", i, n)
		}
	}
	w.close()
}

func (w *driveWorld) turns() (n [2]uint64) {
	for i, d := range w.devices {
		n[i] = d.Stats().Lane.Turns
	}
	return n
}

func (w *driveWorld) close() {
	for _, e := range w.ends {
		must(w, e.qp.Close())
		must(w, e.mr.Close())
		must(w, e.cq.Close())
		must(w, e.pd.Close())
	}
	for _, d := range w.devices {
		must(w, d.Close())
	}
}

// habit is how an application gets its completions.
type habit int

const (
	polls habit = iota
	waits
	isNotified
	isGone // it does nothing: what peers want of it is one-sided
)

// driveEnd is one application with its queue pair.
type driveEnd struct {
	*end
	w     *driveWorld
	habit habit

	prompt bool          // it answers at once
	delay  time.Duration // moderation of its notifications: it hears so much later at most

	ended context.Context
	stop  func() // both ends of the pair
}

// pair makes two connected applications.
func (w *driveWorld) pair(typ QPType, ha, hb habit) (a, b *driveEnd) {
	ended, stop := context.WithCancel(context.Background())
	make1 := func(d *Device, h habit) *driveEnd {
		e := &driveEnd{end: &end{t: w, dev: d, buf: make([]byte, 64), told: make(chan struct{}, 1)}, w: w, habit: h, ended: ended}
		var err error
		e.pd, err = d.AllocPD()
		must(w, err)
		e.cq, err = d.CreateCQ(CQInit{CQE: 64, Notify: func() {
			select {
			case e.told <- struct{}{}:
			default:
			}
		}})
		must(w, err)
		if w.intN(3) == 0 {
			e.delay = w.upTo(300 * time.Microsecond).Round(time.Microsecond)
			must(w, e.cq.Moderate(w.intN(5), e.delay))
		}
		e.mr, err = regMR(e.pd, e.buf, LocalWrite|RemoteRead|RemoteWrite)
		must(w, err)
		e.qp, err = createQP(e.pd, QPInit{Type: typ, SendCQ: e.cq})
		must(w, err)
		w.ends = append(w.ends, e)
		return e
	}
	a, b = make1(w.devices[0], ha), make1(w.devices[1], hb)
	a.stop = func() {
		stop()
		for _, e := range []*driveEnd{a, b} {
			select {
			case e.told <- struct{}{}:
			default:
			}
		}
	}
	w.ports[0].meets(a.qp, b.qp)
	w.ports[1].meets(b.qp, a.qp)
	o := QPAttr{RetryCnt: 7} // no ack timeout: it would hide what is forgotten
	must(w, a.qp.Connect(b.qp.Endpoint(), &o))
	must(w, b.qp.Connect(a.qp.Endpoint(), &o))
	for _, e := range []*driveEnd{a, b} {
		must(w, postRecv(e.qp, RecvWR{}))
		must(w, postRecv(e.qp, RecvWR{}))
	}
	return a, b
}

// think is what an application does beside.
func (e *driveEnd) think() {
	switch e.w.intN(5) {
	case 0:
		time.Sleep(e.w.upTo(20 * time.Microsecond))
	case 1:
		time.Sleep(e.w.upTo(time.Millisecond))
	case 2:
		time.Sleep(e.w.upTo(10 * time.Millisecond))
	}
}

// exchange sends a message and takes the answer.
func (e *driveEnd) exchange() {
	must(e.t, postSend(e.qp, SendWR{Opcode: WRSend}))
	if e.next(WCRecv) {
		must(e.t, postRecv(e.qp, RecvWR{}))
	}
}

// echo answers messages until the pair ends.
func (e *driveEnd) echo(rounds int) {
	for range rounds {
		if !e.next(WCRecv) {
			return
		}
		if !e.prompt {
			e.think()
		}
		must(e.t, postRecv(e.qp, RecvWR{}))
		must(e.t, postSend(e.qp, SendWR{Opcode: WRSend}))
	}
}

// reaches does something one-sided, whose answer must come soon whatever the peer's application
// does.
func (e *driveEnd) reaches(to *driveEnd) {
	if e.qp.Type() != RC {
		return
	}
	op := []qp.WROpcode{WRWrite, qp.WRRead}[e.w.intN(2)]
	start := time.Now()
	must(e.t, postSend(e.qp, SendWR{
		Opcode:     op,
		Flags:      SendSignaled,
		SGL:        []SGE{e.mr.SGE(0, 8)},
		RemoteAddr: to.mr.Addr(),
		RKey:       to.mr.RKey(),
	}))
	e.next(qp.WCRDMAWrite, qp.WCRDMARead)
	if took := time.Since(start); took > soonEnough+e.delay {
		e.t.Errorf("%v took %v", op, took)
	}
}

// next takes a completion in the application's way; false: the pair has ended before.
func (e *driveEnd) next(want ...WCOpcode) bool {
	var wcs [1]WC
	for {
		n, err := e.some(wcs[:])
		switch {
		case errors.Is(err, context.Canceled):
			return false
		case err != nil:
			e.t.Errorf("%v", err)
			return false
		case n == 0:
			continue
		}
		for _, op := range want {
			if wcs[0].Opcode == op && wcs[0].Status == WCSuccess {
				return true
			}
		}
		e.t.Errorf("completion %+v, want %v", wcs[0], want)
		return false
	}
}

func (e *driveEnd) some(wcs []WC) (n int, err error) {
	if e.ended.Err() != nil {
		return 0, e.ended.Err()
	}
	switch e.habit {
	case polls:
		return e.cq.Poll(wcs)
	case waits:
		return e.cq.Wait(e.ended, wcs)
	}
	if err := e.cq.ReqNotify(false); err != nil {
		return 0, err
	}
	if n, err = e.cq.Poll(wcs); n > 0 || err != nil {
		return n, err
	}
	<-e.told
	return 0, nil
}
