package porttest

// Two goroutines wait for one port, and one of them watches it. Every kind of port that is Watched
// keeps these rules:
//
//	watch    a packet, the alarm and room to send end the Watch of the watcher, and not the
//	         other's
//	own      Rouse ends the Watch that it names, the present one or the next, and not the other's
//	leave    after Leave the background watches: what comes, and what has come already
//	alarm    the alarm goes on when the port changes hands, and the last SetAlarm counts
//	free     closing gives back every descriptor
//
// No test has a time limit: a wake-up that is lost hangs. One too many is seen by a flag that is
// raised before the cause is given.

import (
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/wire"
)

// watchedPort is a port under test, and another one that sends to it.
type watchedPort struct {
	waiting
	transport.Seats
	t      *testing.T
	peer   transport.Port
	path   *wire.Path
	batch  *wire.Batch
	frames []wire.Frame
}

// waiting is a port, with what its waiter shows to tests.
type waiting interface {
	transport.Port
	Asleep(who transport.Watcher) bool
	Sockets() []int
}

// watchedRules is a test for each.
var watchedRules = []struct {
	name string
	test func(w *watchedPort)
}{
	{"Packet", testWatchedPacket},
	{"Leave", testWatchedLeave},
	{"Left", testWatchedLeft},
	{"Take", testWatchedTake},
	{"Rouse", testWatchedRouse},
	{"Alarm", testWatchedAlarm},
	{"AlarmHandedOver", testWatchedAlarmHandedOver},
	{"HandOver", testWatchedHandOver},
}

// TestWatched holds kinds of port whose ports are Watched to these rules.
func TestWatched(t *testing.T, kinds ...Kind) {
	for _, k := range kinds {
		t.Run(k.Name, func(t *testing.T) {
			for _, r := range watchedRules {
				t.Run(r.name, func(t *testing.T) {
					to, peer := k.Open(t, 0, transport.Options{}), k.Open(t, 1, transport.Options{})
					r.test(&watchedPort{waiting: to.(waiting), Seats: k.seats(to), t: t, peer: peer,
						path: PathBetween(t, peer, to, 0, 64), batch: wire.NewBatch(1, 64),
						frames: make([]wire.Frame, 4)})
				})
			}
			t.Run("Descriptors", func(t *testing.T) { testWatchedDescriptors(t, k) })
		})
	}
}

// seats are those of a port, or of one around it.
func (k *Kind) seats(p transport.Port) transport.Seats {
	if k.Around != nil {
		p = k.Around(p)
	}
	return transport.SeatsOf(p)
}

// send has the peer send a packet, and returns when it lies in a socket of the port.
func (w *watchedPort) send(number int) {
	Put(w.t, w.batch, w.path, number, 8)
	SendAll(w.t, w.peer, w.batch)
	var fds []unix.PollFd
	for _, fd := range w.Sockets() {
		fds = append(fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
	for {
		if n, err := unix.Poll(fds, -1); err != unix.EINTR {
			if n == 0 || err != nil {
				w.t.Fatalf("poll: %d, %v", n, err)
			}
			return
		}
	}
}

// receive takes the one packet that is there, and then nothing is.
func (w *watchedPort) receive(want int) {
	w.t.Helper()
	n, err := w.Recv(w.frames)
	if err != nil || n != 1 || Number(w.t, &w.frames[0]) != want {
		w.t.Fatalf("%d packets instead of number %d, %v", n, want, err)
	}
	if n, err := w.Recv(w.frames); n != 0 || err != nil { // with which what was lent is given back
		w.t.Fatalf("%d packets too many, %v", n, err)
	}
}

// watch is a Watch. The relief takes the port first, if it does not have it.
func (w *watchedPort) watch(who transport.Watcher) error {
	if who == transport.Relief {
		w.Take()
	}
	return w.Watch(who)
}

// nap is one Watch, by a goroutine of its own.
type nap struct {
	may   atomic.Bool // there is a cause to end it
	ended chan struct{}
}

// nap returns when the goroutine sleeps.
func (w *watchedPort) nap(who transport.Watcher) *nap {
	n := &nap{ended: make(chan struct{})}
	go func() {
		defer close(n.ended)
		if err := w.watch(who); err != nil {
			w.t.Error(err)
		}
		if !n.may.Load() {
			w.t.Errorf("the Watch of watcher %d has ended without cause", who)
		}
	}()
	for !w.Asleep(who) {
		select {
		case <-n.ended:
			return n
		default:
			runtime.Gosched()
		}
	}
	return n
}

// by gives the nap its cause, and waits for its end.
func (n *nap) by(cause func()) {
	n.may.Store(true)
	cause()
	<-n.ended
}

func (w *watchedPort) rouse(who transport.Watcher) func() { return func() { w.Rouse(who) } }

// testWatchedPacket: a packet ends the Watch of the relief and not that of the background (watch),
// whichever of them sat down first.
func testWatchedPacket(w *watchedPort) {
	var back, relief *nap
	for i := range 40 {
		if i%20 == 0 { // the background is first
			back, relief = w.nap(transport.Background), w.nap(transport.Relief)
		} else if relief = w.nap(transport.Relief); i%20 == 10 {
			back.by(w.rouse(transport.Background))
			back = w.nap(transport.Background)
		}
		relief.by(func() { w.send(i) })
		w.receive(i)
		if i%20 == 19 {
			w.Leave()
			back.by(w.rouse(transport.Background))
		}
	}
}

// testWatchedLeave: after Leave a packet ends the Watch of the background (leave), whether it has
// sat down before the relief, behind it or after it; and so does one before any relief.
func testWatchedLeave(w *watchedPort) {
	sent := 0
	wakes := func(back *nap) {
		back.by(func() { w.send(sent) })
		w.receive(sent)
		sent++
	}
	wakes(w.nap(transport.Background)) // no relief has ever sat down
	for range 10 {
		back := w.nap(transport.Background)
		w.nap(transport.Relief).by(w.rouse(transport.Relief))
		w.Leave()
		wakes(back)

		relief := w.nap(transport.Relief)
		back = w.nap(transport.Background)
		relief.by(w.rouse(transport.Relief))
		w.Leave()
		wakes(back)

		w.nap(transport.Relief).by(w.rouse(transport.Relief))
		w.Leave()
		wakes(w.nap(transport.Background))
	}
}

// testWatchedLeft: a packet that lay in the socket when the relief left wakes the background
// (leave), and none does while the relief has the port and is awake.
func testWatchedLeft(w *watchedPort) {
	for i := range 20 {
		back := w.nap(transport.Background)
		w.nap(transport.Relief).by(w.rouse(transport.Relief))
		w.send(i)
		back.by(w.Leave)
		w.receive(i)
	}
}

// testWatchedTake: from Take on only a Rouse ends the Watch of the background (take), before the
// relief has ever slept, and though a packet has come and the alarm has rung.
func testWatchedTake(w *watchedPort) {
	for i := range 20 {
		w.Take()
		w.send(i)
		w.SetAlarm(0)
		w.nap(transport.Background).by(w.rouse(transport.Background))
		w.SetAlarm(-1)
		w.Leave()
		w.receive(i)
	}
}

// testWatchedRouse: Rouse ends the Watch that it names (own), with the relief there and without,
// the present Watch or the next one; any number of Rouses are one.
func testWatchedRouse(w *watchedPort) {
	watch := func(who transport.Watcher) {
		if err := w.watch(who); err != nil { // hangs if the wake-up was lost
			w.t.Fatal(err)
		}
	}
	for range 20 {
		w.Rouse(transport.Relief)
		w.Rouse(transport.Relief)
		back := w.nap(transport.Background)
		watch(transport.Relief)
		relief := w.nap(transport.Relief)
		relief.by(w.rouse(transport.Relief))

		relief = w.nap(transport.Relief)
		back.by(w.rouse(transport.Background))
		w.Rouse(transport.Background)
		watch(transport.Background)
		back = w.nap(transport.Background)
		relief.by(w.rouse(transport.Relief))
		w.Leave()
		back.by(w.Wake) // is Rouse(Background)
	}
}

// short is the time of an alarm that comes in a test, and long of one that must not.
const short, long = time.Millisecond, time.Hour

// testWatchedAlarm: the alarm ends the Watch of the watcher only, set before or during it; the last
// SetAlarm counts, and one of less than 0 stops it (alarm).
func testWatchedAlarm(w *watchedPort) {
	alarm := func(d time.Duration) func() { return func() { w.SetAlarm(d) } }
	for _, who := range []transport.Watcher{transport.Background, transport.Relief} {
		var back *nap
		if who == transport.Relief {
			back = w.nap(transport.Background)
		}
		w.nap(who).by(alarm(short))
		w.SetAlarm(-1) // one that has come ends every Watch until then
		w.nap(who).by(alarm(0))

		w.SetAlarm(long)
		w.nap(who).by(alarm(short))

		before := time.Now()
		w.SetAlarm(short)
		w.SetAlarm(4 * short)
		if err := w.watch(who); err != nil {
			w.t.Fatal(err)
		}
		if d := time.Since(before); d < 4*short {
			w.t.Errorf("an alarm that was replaced came after %v", d)
		}

		for _, stop := range []time.Duration{-1, long} {
			w.SetAlarm(short)
			w.SetAlarm(stop)
			n := w.nap(who)
			// This does not synchronise: it lets the alarm come if it does.
			if err := w.peer.Wait(3 * short); err != nil {
				w.t.Fatal(err)
			}
			n.by(w.rouse(who))
		}
		if w.SetAlarm(-1); back != nil {
			back.by(w.rouse(transport.Background))
			w.Leave()
		}
	}
}

// testWatchedAlarmHandedOver: the alarm goes on when the port changes hands, in both directions,
// and ends the Watch of the one that has it then (alarm).
func testWatchedAlarmHandedOver(w *watchedPort) {
	for i := range 10 {
		d := short / time.Duration(1+i%3)
		back := w.nap(transport.Background)
		w.SetAlarm(long)
		relief := w.nap(transport.Relief)
		// The background's turn or the relief's sets it: there is one alarm.
		relief.by(func() { w.SetAlarm(d) })
		w.SetAlarm(-1)
		relief = w.nap(transport.Relief)
		relief.by(w.rouse(transport.Relief))
		w.SetAlarm(d)
		back.by(w.Leave)

		w.SetAlarm(long)
		back = w.nap(transport.Background)
		back.may.Store(true) // the alarm may come before the relief does, and is still there then
		w.SetAlarm(d)
		if err := w.watch(transport.Relief); err != nil {
			w.t.Fatal(err)
		}
		w.Leave()
		<-back.ended
		w.SetAlarm(-1)
	}
}

// TestWatchedHandOver hands the port to and fro as a lane does, while packets come at any moment:
// each finds somebody who receives it (leave, watch).
func testWatchedHandOver(w *watchedPort) {
	const hands = 2000
	var (
		turn     sync.Mutex
		got      = make(chan int, 4)
		frames   = make([]wire.Frame, 4)
		finished atomic.Bool // the relief has gone for good
		over     atomic.Bool
		all      sync.WaitGroup
	)
	receive := func() {
		turn.Lock()
		defer turn.Unlock()
		n, err := w.Recv(frames)
		if err != nil {
			w.t.Error(err)
		}
		for i := range frames[:n] {
			got <- Number(w.t, &frames[i])
		}
	}
	watch := func(who transport.Watcher) {
		if err := w.watch(who); err != nil {
			w.t.Error(err)
		}
	}
	all.Go(func() {
		for receive(); !over.Load(); receive() {
			watch(transport.Background)
		}
	})
	all.Go(func() {
		defer finished.Store(true)
		for i := range hands {
			for range 1 + i%3 {
				receive()
				watch(transport.Relief)
			}
			if i%2 == 0 {
				receive()
			}
			w.Leave()
			for range i % 5 {
				runtime.Gosched()
			}
		}
	})
	for i := 0; !finished.Load(); i++ {
		Put(w.t, w.batch, w.path, i, 8)
		SendAll(w.t, w.peer, w.batch)
		if n := <-got; n != i {
			w.t.Errorf("packet %d instead of %d", n, i)
		}
	}
	over.Store(true)
	w.Rouse(transport.Background)
	all.Wait()
}

// WatchedRoom: after a Send that found no room, room ends the Watch of the relief and not of the
// background (watch); it is told of a shortage that begins while it sleeps. batch is more than
// there is room for, until makeRoom.
func WatchedRoom(t *testing.T, p transport.Port, batch *wire.Batch, makeRoom func()) {
	w := &watchedPort{waiting: p.(waiting), Seats: transport.SeatsOf(p), t: t}
	send := func() {
		n, err := p.Send(batch)
		if err != nil {
			t.Fatal(err)
		}
		batch.Drop(n)
	}
	back, relief := w.nap(transport.Background), w.nap(transport.Relief)
	back.may.Store(true) // it may look again, too
	relief.by(send)
	if batch.Len() == 0 {
		t.Fatal("there was room for all")
	}
	<-back.ended
	back, relief = w.nap(transport.Background), w.nap(transport.Relief)
	relief.by(makeRoom)
	for send(); batch.Len() > 0; send() {
		if err := w.watch(transport.Relief); err != nil { // for ever, if nobody tells of room
			t.Fatal(err)
		}
	}
	// There is room, which is no news any more.
	w.nap(transport.Relief).by(w.rouse(transport.Relief))
	back.by(w.rouse(transport.Background))
	w.Leave()
}

// testWatchedDescriptors: a port whose relief was used gives back every descriptor (free), and
// Rouse after that does nothing.
func testWatchedDescriptors(t *testing.T, k Kind) {
	k.Open(t, 1, transport.Options{}) // whatever is opened once for all ports is open now
	use := func() {
		p := k.Open(t, 0, transport.Options{})
		w := k.seats(p)
		w.Rouse(transport.Relief)
		w.Take()
		for range 2 {
			if err := w.Watch(transport.Relief); err != nil {
				t.Fatal(err)
			}
			w.SetAlarm(0)
		}
		w.Leave()
		w.Rouse(transport.Background)
		if err := w.Watch(transport.Background); err != nil {
			t.Fatal(err)
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		w.Rouse(transport.Relief)
		if err := w.Watch(transport.Relief); err != transport.ErrClosed {
			t.Errorf("Watch after Close: %v", err)
		}
	}
	use()
	before := descriptors(t)
	for range 3 {
		use()
	}
	if after := descriptors(t); after > before {
		t.Errorf("%d descriptors, and %d before", after, before)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(open)
}
