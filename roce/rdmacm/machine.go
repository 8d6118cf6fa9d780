package rdmacm

// A software device: we speak, by queue pair 1 and the machine (package cm), which all IDs on the
// device share. A goroutine moves messages, time and events between the two. Calls of IDs change
// the machine under its lock and send what comes of it themselves; they wake the goroutine if there
// is something else to do.
//
// Stages: beginning and end; the goroutine's round; changing the machine; what it tells, handed to
// the IDs (machineid.go); queue pair 1 of a device at a hub (package roce/hub), which has to know
// who listens on what.

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/goroce/goroce/cm"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/internal/hub"
)

type machine struct {
	a    *agent
	done chan struct{} // closed when the goroutine has ended
	wake chan struct{} // holds a token while the goroutine has something to do

	own *gsi   // qp1, if it is the device's own
	hub *atHub // qp1, if it is a hub's

	unwatch func()      // ends what the device tells
	moved   atomic.Bool // an address of the device has come or gone
	gone    atomic.Bool // the device is

	mu      sync.Mutex // taken after an ID's
	cm      *cm.Machine
	qp1     QP1
	alarm   cm.Time   // when the goroutine looks again whatever comes
	lookAt  cm.Time   // when the port's MTU is to be looked at again
	orphan  time.Time // since when nobody uses the device; zero: somebody does, or it is not ours
	refused bool      // the device could not be closed, for what others have on it
	deaf    error     // why nothing comes any more; nil: it may

	ids map[*machineID]bool // all; true: it was told that its address is gone; under mu
}

// newMachine makes queue pair 1 of a device, or has it from open, and starts its goroutine.
func newMachine(a *agent, open func(*roce.Device) (QP1, error)) (_ *machine, err error) {
	dev := a.dev
	m := &machine{a: a, done: make(chan struct{}), wake: make(chan struct{}, 1), ids: make(map[*machineID]bool)}
	if open == nil {
		m.hub = hubOf(dev)
	}
	switch {
	case open != nil:
		if m.qp1, err = open(dev); err == nil && m.qp1 == nil {
			err = fmt.Errorf("%w: Config.QP1 has returned none", ErrInvalid)
		}
	case m.hub != nil:
		m.qp1 = m.hub
	default:
		if m.own, err = openGSI(dev); err == nil {
			m.qp1, m.own.kick = m.own, m.kick
		}
	}
	if err != nil {
		return nil, fmt.Errorf("queue pair 1 of device %s: %w", dev.Name(), err)
	}
	attr := dev.Query()
	m.cm = cm.New(cm.Config{Rand: random, CommID: m.hub.commID(), CAGUID: attr.NodeGUID,
		MTU: dev.QueryPort().ActiveMTU, AckDelay: attr.LocalCAAckDelay,
		RdAtomic: uint8(min(attr.MaxQPRdAtom, attr.MaxQPInitRdAtom, MaxRdAtomic-1))})
	m.unwatch = dev.OnEvent(m.happened)
	go m.run()
	return m, nil
}

// random is hard to guess, and another in each process: package math/rand begins with what the
// kernel has given to the program, which processes share that a program in C has forked before it
// loads us. To peers that meet them one after the other on an address their IDs would be stale.
func random() uint64 {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return binary.NativeEndian.Uint64(b[:])
}

// happened takes in what the device tells, for the goroutine to look at.
func (m *machine) happened(e roce.AsyncEvent) {
	switch e.Type {
	case roce.EventGIDChange:
		m.moved.Store(true)
	case roce.EventDeviceFatal:
		m.gone.Store(true)
	default:
		return
	}
	m.kick()
}

func (m *machine) hush()        { m.unwatch(); <-m.done }
func (m *machine) close() error { return m.qp1.Close() }

// kick wakes the goroutine.
func (m *machine) kick() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// run is the goroutine. It sleeps when nothing has come, nothing is due and nobody calls.
func (m *machine) run() {
	defer close(m.done)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	deaf := false
	for {
		events, next, err := m.round()
		for i := range events {
			deliver(m.whose(&events[i]), &events[i])
		}
		m.tellChanges()
		ready := m.qp1.Ready()
		if err != nil { // nothing comes any more; what waits for an answer ends in its time
			ready = nil
			if !deaf {
				m.tellDeaf(err)
			}
		}
		deaf = err != nil
		timer.Reset(time.Duration(min(next-now(), cm.Time(time.Hour))))
		select {
		case <-ready:
		case <-m.wake:
		case <-timer.C:
		case <-m.a.ctx.Done():
			m.round()
			return
		}
	}
}

// round takes in what has come and what is due, sends what is to be sent, and says what happened
// and when to come again.
func (m *machine) round() (events []cm.Event, next cm.Time, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t := now(); t >= m.lookAt { // requests that want a larger path MTU than it are refused
		m.lookAt = t + cm.Time(time.Second)
		m.cm.SetMTU(m.a.dev.QueryPort().ActiveMTU)
	}
	more, err := m.qp1.Receive(func(from cm.Path, mad []byte) { m.cm.HandleMAD(now(), from, mad) })
	m.deaf = err
	if more {
		m.kick()
	}
	m.cm.HandleTimeout(now())
	m.transmit()
	for {
		e, ok := m.cm.PollEvent()
		if !ok {
			break
		}
		events = append(events, e)
	}
	next = m.cm.PollTimeout()
	if !m.orphan.IsZero() {
		over := cm.Time(m.orphan.Add(lingerTime).Sub(epoch))
		if inUse, _ := m.cm.Len(); inUse == 0 && !m.refused || now() >= over {
			m.orphan = time.Time{}
			go m.a.finish()
		}
		next = min(next, over)
	}
	m.alarm = next
	return events, next, err
}

// transmit sends what is to be sent, as long as there is room: completions of what is on its way
// wake the goroutine. The caller has the lock.
func (m *machine) transmit() {
	var msg cm.Message
	for m.qp1.Room() && m.cm.PollTransmit(&msg) {
		m.qp1.Send(msg.Path, &msg.MAD)
	}
}

func (m *machine) abandoned(is, refused bool) {
	m.mu.Lock()
	m.orphan, m.refused = time.Time{}, refused
	if is {
		m.orphan = time.Now()
	}
	m.mu.Unlock()
	m.kick()
}

// do changes the machine, sends what is to be sent then, and has the goroutine see what else comes
// of it. An error is one of this package's.
func (m *machine) do(f func(m *cm.Machine) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	defer func() {
		m.transmit()
		if m.cm.HasEvents() || m.cm.PollTimeout() < m.alarm {
			m.kick()
		}
	}()
	err := f(m.cm)
	for _, e := range [...]struct{ theirs, ours error }{{cm.ErrInvalid, ErrInvalid}, {cm.ErrState, ErrState},
		{cm.ErrClosed, ErrState},
		{cm.ErrInUse, errTaken}, {cm.ErrLimit, roce.ErrLimit}} {
		if errors.Is(err, e.theirs) {
			return fmt.Errorf("%w: %w", e.ours, err)
		}
	}
	return err
}

// ended tells whether nothing comes to queue pair 1 any more.
func (m *machine) ended() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.deaf != nil
}

// slow says whether the port has to find out link addresses before it can send.
func (m *machine) slow() bool { return m.own != nil && m.own.slow }

// reach waits until packets can get to a neighbour, and keeps the way for the messages to it: these
// need no search, of which there may be none to be had.
func (m *machine) reach(ctx context.Context, w cm.Path) error {
	ah, err := m.own.find(ctx, w)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.own.learn(w, ah)
	return nil
}

// whose is the ID of an event: of a request that of its listener; nil: nobody's any more. It is
// asked when the events before it have been delivered, for one of these may have made the ID.
func (m *machine) whose(e *cm.Event) (id *machineID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case e.Listener != nil:
		id, _ = e.Listener.Context.(*machineID)
	case e.Query != nil:
		id, _ = e.Query.Context.(*machineID)
	default:
		id, _ = e.Conn.Context.(*machineID)
	}
	return id
}

// deliver hands an event of the machine to its ID.
func deliver(c *machineID, e *cm.Event) {
	switch {
	case c == nil:
	case e.Type == cm.EventConnectRequest || e.Type == cm.EventSIDRRequest:
		c.request(e)
	default:
		c.told(e)
	}
}

// atHub is the hub's queue pair 1. All methods do nothing of nil.
type atHub struct{ hub.QP1 }

// hubOf is that of a device; nil if it has one of its own.
func hubOf(dev *roce.Device) *atHub {
	if c := hub.Of(dev); c != nil {
		return &atHub{hub.QP1{Client: c}}
	}
	return nil
}

// commID makes communication IDs the process's own; nil: all are.
func (h *atHub) commID() func(uint32) uint32 {
	if h == nil {
		return nil
	}
	return h.CommID
}

// listen has requests for a service come to this process. ErrBusy if another one listens there.
func (h *atHub) listen(service uint64, o *cm.ListenOptions) error {
	if h == nil {
		return nil
	}
	taken, err := h.Listen(hub.Service{ID: service, Address: o.Address, Only: int(o.Only)})
	switch {
	case taken:
		return addressError{fmt.Errorf("%w: %w", ErrBusy, err), syscall.EADDRINUSE}
	case err != nil:
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return nil
}

// unlisten ends that.
func (h *atHub) unlisten(service uint64, o *cm.ListenOptions) {
	if h != nil {
		h.Unlisten(hub.Service{ID: service, Address: o.Address, Only: int(o.Only)})
	}
}
