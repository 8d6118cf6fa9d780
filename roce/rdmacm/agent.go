package rdmacm

// The agent of a device: its queue pair 1 and its machine (package cm), which all IDs on the device
// share. A goroutine moves messages, time and events between the two; calls of IDs change the
// machine under the agent's lock and wake that goroutine.
//
// Stages: beginning and end; the goroutine's round; work in the background; what the machine tells,
// handed to the IDs.

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goroce/goroce/cm"
	"github.com/goroce/goroce/roce"
)

// lingerTime is how long a device that this package has opened stays open for messages that its
// last IDs have left behind: a lost DREQ is sent again after 4.6 s.
const lingerTime = 10 * time.Second

type agent struct {
	dev       *roce.Device
	users     int    // IDs; under agents
	ownedName string // the name under which this package has opened dev; "" if it has not
	closing   atomic.Bool

	ctx   context.Context // ends with the agent
	end   context.CancelFunc
	tasks sync.WaitGroup
	done  chan struct{} // closed when the goroutine has ended
	wake  chan struct{} // holds a token while the goroutine has something to do

	gsi *gsi // the goroutine's

	mu      sync.Mutex // taken after an ID's
	machine *cm.Machine
	lookAt  cm.Time   // when the port's MTU is to be looked at again
	orphan  time.Time // since when nobody uses the device; zero: somebody does, or it is not ours
	refused bool      // the device could not be closed, for what others have on it
}

// newAgent makes queue pair 1 of a device and starts its goroutine.
func newAgent(dev *roce.Device) (*agent, error) {
	g, err := openGSI(dev)
	if err != nil {
		return nil, fmt.Errorf("queue pair 1 of device %s: %w", dev.Name(), err)
	}
	attr := dev.Query()
	a := &agent{dev: dev, gsi: g, done: make(chan struct{}), wake: make(chan struct{}, 1)}
	a.machine = cm.New(cm.Config{Rand: rand.Uint64, CAGUID: attr.NodeGUID, MTU: dev.QueryPort().ActiveMTU, AckDelay: attr.LocalCAAckDelay,
		RdAtomic: uint8(min(attr.MaxQPRdAtom, attr.MaxQPInitRdAtom, MaxRdAtomic-1))})
	a.ctx, a.end = context.WithCancel(context.Background())
	go a.run()
	return a, nil
}

// stop ends the agent: what its machine still wants to send leaves first.
func (a *agent) stop() error {
	a.end()
	<-a.done
	a.tasks.Wait()
	return a.gsi.close()
}

// kick wakes the goroutine.
func (a *agent) kick() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// run is the goroutine. It sleeps when nothing has come, nothing is due and nobody calls.
func (a *agent) run() {
	defer close(a.done)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		events, next, err := a.round()
		for i := range events {
			a.deliver(events[i].id, &events[i].Event)
		}
		if err != nil { // queue pair 1 is gone, and nothing more will come
			next = cm.Never
		}
		timer.Reset(time.Duration(min(next-now(), cm.Time(time.Hour))))
		select {
		case <-a.gsi.ch.Ready():
			a.gsi.ch.TryGet()
		case <-a.wake:
		case f := <-a.gsi.answers:
			a.gsi.answered(f)
		case <-timer.C:
		case <-a.ctx.Done():
			a.round()
			return
		}
	}
}

// round takes in what has come and what is due, sends what is to be sent, and says what happened
// and when to come again.
func (a *agent) round() (events []happening, next cm.Time, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if t := now(); t >= a.lookAt { // requests that want a larger path MTU than it are refused
		a.lookAt = t + cm.Time(time.Second)
		a.machine.SetMTU(a.dev.QueryPort().ActiveMTU)
	}
	more, err := a.gsi.receive(func(from cm.Path, mad []byte) { a.machine.HandleMAD(now(), from, mad) })
	if more {
		a.kick()
	}
	a.machine.HandleTimeout(now())
	var m cm.Message
	for a.gsi.room() && a.machine.PollTransmit(&m) {
		a.gsi.send(m.Path, &m.MAD)
	}
	for {
		e, ok := a.machine.PollEvent()
		if !ok {
			break
		}
		events = append(events, happening{whose(&e), e})
	}
	next = a.machine.PollTimeout()
	if !a.orphan.IsZero() {
		over := cm.Time(a.orphan.Add(lingerTime).Sub(epoch))
		if inUse, _ := a.machine.Len(); inUse == 0 && !a.refused || now() >= over {
			a.orphan = time.Time{}
			go a.finish()
		}
		next = min(next, over)
	}
	return events, next, err
}

// abandoned says whether nobody uses the device, which is this package's.
func (a *agent) abandoned(is bool) {
	a.mu.Lock()
	a.orphan, a.refused = time.Time{}, false
	if is {
		a.orphan = time.Now()
	}
	a.mu.Unlock()
	a.kick()
}

// do changes the machine, and has the goroutine see what comes of it. An error is one of this
// package's.
func (a *agent) do(f func(m *cm.Machine) error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	defer a.kick()
	err := f(a.machine)
	for _, e := range [...]struct{ theirs, ours error }{{cm.ErrInvalid, ErrInvalid}, {cm.ErrState, ErrState}, {cm.ErrClosed, ErrState},
		{cm.ErrInUse, ErrBusy}, {cm.ErrLimit, roce.ErrLimit}} {
		if errors.Is(err, e.theirs) {
			return fmt.Errorf("%w: %w", e.ours, err)
		}
	}
	return err
}

// slow says whether the port has to find out link addresses before it can send.
func (a *agent) slow() bool { return a.gsi.slow }

// reach waits until packets can get to a neighbour.
func (a *agent) reach(ctx context.Context, from, to roce.GID) error {
	ah, err := a.gsi.find(ctx, cm.Path{Local: from, Remote: to})
	if err != nil {
		return err
	}
	return a.gsi.pd.DestroyAH(ah)
}

// background runs f on a goroutine that the agent's end waits for. ctx ends then.
func (a *agent) background(f func(ctx context.Context)) {
	a.tasks.Go(func() { f(a.ctx) })
}

// happening is an event and whose it is; nil: nobody's any more.
type happening struct {
	id *ID
	cm.Event
}

// whose is the ID of an event: of a request that of its listener. The caller has the lock.
func whose(e *cm.Event) (id *ID) {
	switch {
	case e.Listener != nil:
		id, _ = e.Listener.Context.(*ID)
	case e.Query != nil:
		id, _ = e.Query.Context.(*ID)
	default:
		id, _ = e.Conn.Context.(*ID)
	}
	return id
}

// deliver hands an event of the machine to its ID.
func (a *agent) deliver(id *ID, e *cm.Event) {
	switch {
	case id == nil:
	case e.Type == cm.EventConnectRequest || e.Type == cm.EventSIDRRequest:
		id.request(a, e)
	default:
		id.told(e)
	}
}
