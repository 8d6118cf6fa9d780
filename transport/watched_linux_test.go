package transport

// Two goroutines wait for one port, and one of them watches it. Every kind of port that is Watched
// keeps these rules:
//
//	watch    a packet, the alarm and room to send end the Watch of the watcher, and not the other's
//	own      Rouse ends the Watch that it names, the present one or the next, and not the other's
//	leave    after Leave the background watches: what comes, and what has come already
//	alarm    the alarm goes on when the port changes hands, and the last SetAlarm counts
//	free     closing gives back every descriptor
//
// No test has a time limit: a wake-up that is lost hangs. One too many is seen by a flag that is
// raised before the cause is given.

import (
	"os"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/wire"
)

// watchedPort is a port under test, and another one that sends to it.
type watchedPort struct {
	Watched
	t      *testing.T
	s      *sleeper
	peer   Port
	path   *wire.Path
	batch  *wire.Batch
	frames []wire.Frame
}

// overWatched runs f for every kind of port that is Watched.
func overWatched(t *testing.T, f func(w *watchedPort)) {
	kinds := 0
	for _, k := range kindsUnderTest() {
		t.Run(k.name, func(t *testing.T) {
			to := k.open(t, 0, Options{})
			p, ok := bare(to).(Watched)
			if !ok {
				return
			}
			kinds++
			peer := k.open(t, 1, Options{})
			w := &watchedPort{Watched: p, t: t, s: sleeperOf(p), peer: peer, path: pathBetween(t, peer, to, 0, 64),
				batch: wire.NewBatch(1, 64), frames: make([]wire.Frame, 4)}
			f(w)
		})
	}
	if kinds == 0 {
		t.Error("no kind of port is Watched")
	}
}

// bare is the port without what a test has put around it.
func bare(p Port) Port {
	if n, ok := p.(nsPort); ok {
		return n.Port
	}
	return p
}

func sleeperOf(p Port) *sleeper {
	switch p := p.(type) {
	case *udpPort:
		return &p.sleep
	case *packetPort:
		return &p.sleep
	default:
		return &p.(*xdpPort).sleep
	}
}

// send has the peer send a packet, and returns when it lies in a socket of the port.
func (w *watchedPort) send(number int) {
	put(w.t, w.batch, w.path, number, 8)
	sendAll(w.t, w.peer, w.batch)
	var fds []unix.PollFd
	for _, fd := range w.s.rx {
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
	if err != nil || n != 1 || number(w.t, &w.frames[0]) != want {
		w.t.Fatalf("%d packets instead of number %d, %v", n, want, err)
	}
	if n, err := w.Recv(w.frames); n != 0 || err != nil { // with which what was lent is given back
		w.t.Fatalf("%d packets too many, %v", n, err)
	}
}

// nap is one Watch, by a goroutine of its own.
type nap struct {
	may   atomic.Bool // there is a cause to end it
	ended chan struct{}
}

// nap returns when the goroutine sleeps.
func (w *watchedPort) nap(who Watcher) *nap {
	n := &nap{ended: make(chan struct{})}
	go func() {
		defer close(n.ended)
		if err := w.Watch(who); err != nil {
			w.t.Error(err)
		}
		if !n.may.Load() {
			w.t.Errorf("the Watch of watcher %d has ended without cause", who)
		}
	}()
	for !w.asleep(who) {
		select {
		case <-n.ended:
			return n
		default:
			runtime.Gosched()
		}
	}
	return n
}

func (w *watchedPort) asleep(who Watcher) bool {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	e := &w.s.seats[who]
	return e.state.Load() == sleeping && e.taken && (e.hears || who == Background && w.s.relieved)
}

// by gives the nap its cause, and waits for its end.
func (n *nap) by(cause func()) {
	n.may.Store(true)
	cause()
	<-n.ended
}

func (w *watchedPort) rouse(who Watcher) func() { return func() { w.Rouse(who) } }

// TestWatchedPacket: a packet ends the Watch of the relief and not that of the background (watch),
// whichever of them sat down first.
func TestWatchedPacket(t *testing.T) {
	overWatched(t, func(w *watchedPort) {
		var back, relief *nap
		for i := range 40 {
			if i%20 == 0 { // the background is first
				back, relief = w.nap(Background), w.nap(Relief)
			} else if relief = w.nap(Relief); i%20 == 10 {
				back.by(w.rouse(Background))
				back = w.nap(Background)
			}
			relief.by(func() { w.send(i) })
			w.receive(i)
			if i%20 == 19 {
				w.Leave()
				back.by(w.rouse(Background))
			}
		}
	})
}

// TestWatchedLeave: after Leave a packet ends the Watch of the background (leave), whether it has
// sat down before the relief, behind it or after it; and so does one before any relief.
func TestWatchedLeave(t *testing.T) {
	overWatched(t, func(w *watchedPort) {
		sent := 0
		wakes := func(back *nap) {
			back.by(func() { w.send(sent) })
			w.receive(sent)
			sent++
		}
		wakes(w.nap(Background)) // no relief has ever sat down
		for range 10 {
			back := w.nap(Background)
			w.nap(Relief).by(w.rouse(Relief))
			w.Leave()
			wakes(back)

			relief := w.nap(Relief)
			back = w.nap(Background)
			relief.by(w.rouse(Relief))
			w.Leave()
			wakes(back)

			w.nap(Relief).by(w.rouse(Relief))
			w.Leave()
			wakes(w.nap(Background))
		}
	})
}

// TestWatchedLeft: a packet that lay in the socket when the relief left wakes the background
// (leave), and none does while the relief has the port and is awake.
func TestWatchedLeft(t *testing.T) {
	overWatched(t, func(w *watchedPort) {
		for i := range 20 {
			back := w.nap(Background)
			w.nap(Relief).by(w.rouse(Relief))
			w.send(i)
			back.by(w.Leave)
			w.receive(i)
		}
	})
}

// TestWatchedTake: from Take on only a Rouse ends the Watch of the background (take), before the relief
// has ever slept, and though a packet has come and the alarm has rung.
func TestWatchedTake(t *testing.T) {
	overWatched(t, func(w *watchedPort) {
		for i := range 20 {
			w.Take()
			w.send(i)
			w.SetAlarm(0)
			w.nap(Background).by(w.rouse(Background))
			w.SetAlarm(-1)
			w.Leave()
			w.receive(i)
		}
	})
}

// TestWatchedRouse: Rouse ends the Watch that it names (own), with the relief there and without, the
// present Watch or the next one; any number of Rouses are one.
func TestWatchedRouse(t *testing.T) {
	overWatched(t, func(w *watchedPort) {
		watch := func(who Watcher) {
			if err := w.Watch(who); err != nil { // hangs if the wake-up was lost
				t.Fatal(err)
			}
		}
		for range 20 {
			w.Rouse(Relief)
			w.Rouse(Relief)
			back := w.nap(Background)
			watch(Relief)
			relief := w.nap(Relief)
			relief.by(w.rouse(Relief))

			relief = w.nap(Relief)
			back.by(w.rouse(Background))
			w.Rouse(Background)
			watch(Background)
			back = w.nap(Background)
			relief.by(w.rouse(Relief))
			w.Leave()
			back.by(w.Wake) // is Rouse(Background)
		}
	})
}

// short is the time of an alarm that comes in a test, and long of one that must not.
const short, long = time.Millisecond, time.Hour

// TestWatchedAlarm: the alarm ends the Watch of the watcher only, set before or during it; the last
// SetAlarm counts, and one of less than 0 stops it (alarm).
func TestWatchedAlarm(t *testing.T) {
	overWatched(t, func(w *watchedPort) {
		alarm := func(d time.Duration) func() { return func() { w.SetAlarm(d) } }
		for _, who := range []Watcher{Background, Relief} {
			var back *nap
			if who == Relief {
				back = w.nap(Background)
			}
			w.nap(who).by(alarm(short))
			w.SetAlarm(-1) // one that has come ends every Watch until then
			w.nap(who).by(alarm(0))

			w.SetAlarm(long)
			w.nap(who).by(alarm(short))

			before := time.Now()
			w.SetAlarm(short)
			w.SetAlarm(4 * short)
			if err := w.Watch(who); err != nil {
				w.t.Fatal(err)
			}
			if d := time.Since(before); d < 4*short {
				w.t.Errorf("an alarm that was replaced came after %v", d)
			}

			for _, stop := range []time.Duration{-1, long} {
				w.SetAlarm(short)
				w.SetAlarm(stop)
				n := w.nap(who)
				if err := w.peer.Wait(3 * short); err != nil { // not to synchronise: for the alarm to come if it does
					w.t.Fatal(err)
				}
				n.by(w.rouse(who))
			}
			if w.SetAlarm(-1); back != nil {
				back.by(w.rouse(Background))
				w.Leave()
			}
		}
	})
}

// TestWatchedAlarmHandedOver: the alarm goes on when the port changes hands, in both directions, and
// ends the Watch of who has it then (alarm).
func TestWatchedAlarmHandedOver(t *testing.T) {
	overWatched(t, func(w *watchedPort) {
		for i := range 10 {
			d := short / time.Duration(1+i%3)
			back := w.nap(Background)
			w.SetAlarm(long)
			relief := w.nap(Relief)
			relief.by(func() { w.SetAlarm(d) }) // set by the background's turn or the relief's: there is one
			w.SetAlarm(-1)
			relief = w.nap(Relief)
			relief.by(w.rouse(Relief))
			w.SetAlarm(d)
			back.by(w.Leave)

			w.SetAlarm(long)
			back = w.nap(Background)
			back.may.Store(true) // the alarm may come before the relief does, and is still there then
			w.SetAlarm(d)
			if err := w.Watch(Relief); err != nil {
				w.t.Fatal(err)
			}
			w.Leave()
			<-back.ended
			w.SetAlarm(-1)
		}
	})
}

// TestWatchedHandOver hands the port to and fro as a lane does, while packets come at any moment:
// each finds somebody who receives it (leave, watch).
func TestWatchedHandOver(t *testing.T) {
	overWatched(t, func(w *watchedPort) {
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
				got <- number(w.t, &frames[i])
			}
		}
		watch := func(who Watcher) {
			if err := w.Watch(who); err != nil {
				w.t.Error(err)
			}
		}
		all.Go(func() {
			for receive(); !over.Load(); receive() {
				watch(Background)
			}
		})
		all.Go(func() {
			defer finished.Store(true)
			for i := range hands {
				for range 1 + i%3 {
					receive()
					watch(Relief)
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
			put(w.t, w.batch, w.path, i, 8)
			sendAll(w.t, w.peer, w.batch)
			if n := <-got; n != i {
				w.t.Errorf("packet %d instead of %d", n, i)
			}
		}
		over.Store(true)
		w.Rouse(Background)
		all.Wait()
	})
}

// TestWatchedRoom: after a Send that found no room, room ends the Watch of the relief and not of the
// background (watch); it is told of a shortage that begins while it sleeps.
func TestWatchedRoom(t *testing.T) {
	ns := vethPair(t)
	p := ns.open(t, "udp:10.9.0.1", Options{SendBuffer: 4096}).Port.(*udpPort)
	w := &watchedPort{Watched: p, t: t, s: &p.sleep}
	silent, _ := wire.ParseGID("10.9.0.77") // what is sent there waits for its address
	batch := wire.NewBatch(64, 1100)
	for i := range 64 {
		put(t, batch, pathTo(t, nsPort{p, ns}, silent, 0, 64), i, 1024)
	}
	send := func() {
		n, err := p.Send(batch)
		if err != nil {
			t.Fatal(err)
		}
		batch.Drop(n)
	}
	back, relief := w.nap(Background), w.nap(Relief)
	back.may.Store(true) // it may look again, too
	relief.by(send)
	if batch.Len() == 0 {
		t.Fatal("there was room for all")
	}
	<-back.ended
	back, relief = w.nap(Background), w.nap(Relief)
	var err error
	relief.by(func() {
		ns.do(func() {
			err = exec.Command("ip", "neigh", "replace", "10.9.0.77", "lladdr", "02:00:00:00:00:03", "dev", "v0", "nud", "permanent").Run()
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	for send(); batch.Len() > 0; send() {
		if err := w.Watch(Relief); err != nil { // for ever, if nobody tells of room
			t.Fatal(err)
		}
	}
	w.nap(Relief).by(w.rouse(Relief)) // there is room, which is no news any more
	back.by(w.rouse(Background))
	w.Leave()
}

// TestWatchedDescriptors: a port whose relief was used gives back every descriptor (free), and Rouse
// after that does nothing.
func TestWatchedDescriptors(t *testing.T) {
	for _, k := range kindsUnderTest() {
		t.Run(k.name, func(t *testing.T) {
			k.open(t, 1, Options{}) // whatever is opened once for all ports is open now
			use := func() {
				port := k.open(t, 0, Options{})
				w, ok := bare(port).(Watched)
				if !ok {
					port.Close()
					return
				}
				w.Rouse(Relief)
				for range 2 {
					if err := w.Watch(Relief); err != nil {
						t.Fatal(err)
					}
					w.SetAlarm(0)
				}
				w.Leave()
				w.Rouse(Background)
				if err := w.Watch(Background); err != nil {
					t.Fatal(err)
				}
				if err := port.Close(); err != nil {
					t.Fatal(err)
				}
				w.Rouse(Relief)
				if err := w.Watch(Relief); err != ErrClosed {
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
		})
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip(err)
	}
	return len(open)
}
