package rdmacm

// The agent of a device: what all IDs on it share. And the seam between IDs and the speaker of the
// connection manager's protocol for them. There are two: for a software device this package itself
// (machine.go), by queue pair 1 of the device or of somebody else (QP1); and in a build with the
// tag verbs, for a device of the kernel, the kernel (kernel.go; kernel_none.go stands for none).
//
// Above the seam are the states of an ID and its events, its address and port, its queue pair and
// its groups: what a call needs, which event comes of it and which error a mistake has is the same
// for both.
//
// Stages: the seam; queue pair 1; beginning and end; work in the background.

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goroce/goroce/cm"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/wire"
)

// speaker speaks for all IDs on a device.
type speaker interface {
	// newID makes what an ID has below it. The ID's agent is used by it already.
	newID(id *ID) (cmID, error)
	// abandoned says whether nobody uses the device, which is this package's and is to be closed by
	// agent.finish, or by refused that this has failed and is to be tried again. The caller has the
	// lock of agents.
	abandoned(is, refused bool)
	// hush ends all that goes on, close gives the rest back.
	hush()
	close() error
}

// cmID is what an ID has below it on one device. Its methods are called with the ID's lock, in
// states in which the table of moves has the call. What a peer does comes to the ID by happened and
// its kin.
type cmID interface {
	at() *agent

	// bind gives the address a port: the one that it has, or if that is 0 a free one, or 0 if that
	// is left to the table of ports.
	bind(addr netip.AddrPort) (port uint16, err error)
	// resolveAddr finds the neighbour; it ends in addrResolved, now or later.
	resolveAddr(p path, timeout time.Duration)
	// resolveRoute ends in routeDone or routeFailed, now or later.
	resolveRoute(timeout time.Duration)
	// listen listens on the ID's local address, or if that is unspecified on all of the device that
	// the ID's claim is about.
	listen(backlog int) error

	// connect sends what id.own says.
	connect(private []byte) error
	// agree holds what id.own says against what the peer has said.
	agree() error
	// accept sends what id.own says. The queue pair is in RTS, if the ID has one and raises.
	accept(private []byte) error
	// establish says that the queue pair is ready, or that data has come before RTU.
	establish() error
	// reject refuses the peer's request or acceptance, disconnect ends the connection or answers
	// the peer's end. That the peer is gone meanwhile is told by an event, and is no error.
	reject(reason wire.CMRejReason, private []byte)
	disconnect()

	// ask is connect in PSUDP, and answer both accept and reject.
	ask(private []byte) error
	answer(a *cm.Answer) error

	// raises says whether the ID brings its queue pair to RTR and RTS; otherwise the device does.
	raises() bool
	// attr is what a queue pair of a type needs to get to RTR or RTS. ErrState if that is not known
	// yet; ErrUnreachable if the device does not have the local address any more.
	attr(to roce.QPState, t roce.QPType) (roce.QPAttr, roce.AttrMask, error)

	// close ends all. Nothing is told of the ID any more.
	close()
}

// QP1 is queue pair 1 of a software device, which carries the messages of the connection manager,
// or stands for one that is elsewhere: where several processes have an address, one of them has it
// for all, and the others are its clients (Config.QP1). What has no place is lost, and repeated by
// its sender. But for Ready, calls come one at a time, from any goroutine, with locks held that
// make others wait.
type QP1 interface {
	// Ready has a token when something has come since the last Receive, or there is room again. It
	// may be closed at the end, of which Receive tells.
	Ready() <-chan struct{}
	// Receive gives what has come to take, whose bytes are lent for the call, and says whether
	// there may be more. It waits for nothing, and takes in some hundred at most. An error says
	// that nothing will come any more: to the IDs that is as if their peers were silent; but those
	// that listen are told of EventDeviceRemoval, and no other can listen.
	Receive(take func(from cm.Path, mad []byte)) (more bool, err error)
	// Room says whether Send has room. Send sends to queue pair 1 of a peer, from p.Local, and
	// waits for nothing. The message is lent for the call.
	Room() bool
	Send(p cm.Path, mad *wire.MAD)
	// Close comes last, before the device is closed.
	Close() error
}

// OpenQP1 opens the device's own, for one who shares it out. The error is ErrBusy if it is in use,
// as by IDs on the device, and ErrNotSupported if the device has none, or must find out link
// addresses, which those of package udp need not.
func OpenQP1(dev *roce.Device) (QP1, error) {
	g, err := openGSI(dev)
	if err != nil {
		return nil, err
	}
	if g.slow {
		return nil, errors.Join(fmt.Errorf("%w: device %s must find out link addresses", ErrNotSupported, dev.Name()),
			g.Close())
	}
	return g, nil
}

// lingerTime is how long a device that this package has opened stays open for messages that its
// last IDs have left behind: a lost DREQ is sent again after 4.6 s.
const lingerTime = 10 * time.Second

type agent struct {
	dev       *roce.Device
	users     int    // IDs; under agents
	ownedName string // the name under which this package has opened dev; "" if it has not
	over      bool   // its queue pair 1 has ended, and another has its place (share); under agents
	closing   atomic.Bool
	lentQP1   bool // queue pair 1 is that of a Config.QP1

	ctx   context.Context // ends with the agent
	end   context.CancelFunc
	tasks sync.WaitGroup

	speaker
}

// newAgent makes an agent and its speaker.
func newAgent(dev *roce.Device, qp1 func(*roce.Device) (QP1, error)) (_ *agent, err error) {
	a := &agent{dev: dev, lentQP1: qp1 != nil}
	a.ctx, a.end = context.WithCancel(context.Background())
	if isKernel(dev) {
		a.speaker, err = newKernel(a)
	} else {
		a.speaker, err = newMachine(a, qp1)
	}
	if err != nil {
		a.end()
		return nil, err
	}
	return a, nil
}

// stop ends the agent: what is still to be sent leaves first.
func (a *agent) stop() error {
	a.end()
	a.hush()
	a.tasks.Wait()
	return a.close()
}

// background runs f on a goroutine that the agent's end waits for. ctx ends then.
func (a *agent) background(f func(ctx context.Context)) {
	a.tasks.Go(func() { f(a.ctx) })
}
