package rdmacm

// The event channel: which devices its IDs may be on, and the events that it hands out.

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/goroce/goroce/roce"
)

// Config says which devices are used. The zero value is right where nothing else of the process
// uses the addresses.
type Config struct {
	// Devices are those that IDs may be on. An address is looked for on them, and a route must lead
	// to one. They are open as long as IDs are on them: Device.Close answers ErrBusy. Devices
	// without an interface (pipe) are on no route: they are taken if the route leads to none of the
	// others.
	Devices []*roce.Device

	// Kind is the kind of devices that are opened where Devices is empty, one for each address that
	// is used: "udp", "hub", "packet", "xdp" or "auto", or "verbs", the device of the kernel that
	// has the address, which is ErrNotSupported without the tag; "" is "udp". They are shared by
	// all channels of the process, and closed after their last ID. Where an address is to be "udp"
	// and other processes share it, it is "hub".
	Kind string

	// Open, if not nil, finds the device of an address of this machine where Devices is empty, in
	// place of opening one of Kind. It may return the same one again, which is the caller's as
	// those of Devices are, and stays open as long as IDs are on it. An error is that of the call
	// that needed the address; but who listens on all addresses does without those of which it says
	// syscall.EADDRNOTAVAIL. Several goroutines may call it at once.
	Open func(addr netip.Addr) (*roce.Device, error)

	// QP1, if not nil, is asked for the queue pair 1 of a software device that the caller has
	// opened, when the first ID of the process is on it: one that is elsewhere, as where several
	// processes have an address. It is closed before the device. The first channel on a device is
	// asked, for all: one that has QP1 where that had none, or none where that had, is refused
	// (ErrInvalid).
	QP1 func(dev *roce.Device) (QP1, error)

	// Born, if not nil, makes the ID.Context of the ID of an EventConnectRequest, before anybody
	// can take the event. It must not wait, and may call nothing of either ID. Listen does not ask
	// it.
	Born func(child, listener *ID) any

	// Unborn, if not nil, is told of an ID that Born was asked about and whose event nobody will
	// take: its peer has withdrawn the request, or its listener is closed. It is closed right
	// afterwards. It must not wait, and may call nothing of the ID.
	Unborn func(child *ID)
}

// EventChannel tells what happens to IDs (rdma_event_channel). All methods may be called from any
// goroutine.
type EventChannel struct {
	devices []*roce.Device
	kind    string
	opens   func(netip.Addr) (*roce.Device, error)
	qp1     func(*roce.Device) (QP1, error)
	born    func(child, listener *ID) any
	unborn  func(child *ID)
	events  *roce.EventSource[*Event]
	// sink, if not nil, is called with each event instead of queueing it: by whoever makes it, with
	// the lock of its ID, so that it must not wait and call nothing of the ID.
	sink func(*Event)

	mu     sync.Mutex
	ids    int
	closed bool
}

// Event is something that happened to an ID (rdma_cm_event). It is the taker's: there is nothing to
// acknowledge.
type Event struct {
	Type EventType
	// ID is what it happened to. That of EventConnectRequest is a new one, which is to be accepted,
	// rejected or closed.
	ID       *ID
	Listener *ID // EventConnectRequest: the one that listens; nil with others

	// Status is 0; or of EventRejected the reason (section 9.3; 28: the application's); or of
	// EventUnreachable in PSUDP the SIDR status, if positive; otherwise a negative errno.
	Status int
	Err    error // Status in words; nil if that is 0

	// Param is what the peer says: of EventConnectRequest, EventConnectResponse, EventEstablished
	// and EventRejected. ResponderResources and InitiatorDepth are from this side's view: as they
	// are they can be given to Accept.
	Param ConnParam
	// Datagram is where datagrams go to: of EventEstablished in PSUDP and EventMulticastJoin.
	Datagram DatagramParam
	Context  any // of EventMulticastJoin and EventMulticastError: what JoinMulticast was given
}

// String prints "RDMA_CM_EVENT_REJECTED: <why>".
func (e *Event) String() string {
	if e.Err != nil {
		return fmt.Sprintf("%v: %v", e.Type, e.Err)
	}
	return e.Type.String()
}

// NewEventChannel makes a channel (rdma_create_event_channel). cfg may be nil. ErrInvalid names
// what is wrong with it.
func NewEventChannel(cfg *Config) (*EventChannel, error) {
	if cfg == nil {
		cfg = new(Config)
	}
	ch := &EventChannel{
		devices: slices.Clone(cfg.Devices),
		kind:    cfg.Kind,
		opens:   cfg.Open,
		qp1:     cfg.QP1,
		born:    cfg.Born,
		unborn:  cfg.Unborn,
		events:  roce.NewEventSource[*Event](),
	}
	if ch.kind == "" {
		ch.kind = "udp"
	}
	if kinds := []string{"udp", "hub", "packet", "xdp", "auto", "verbs"}; !slices.Contains(kinds, ch.kind) {
		return nil, fmt.Errorf("rdmacm: %w: Config.Kind %q, want one of %s",
			ErrInvalid, ch.kind, strings.Join(kinds, ", "))
	}
	if len(ch.devices) > 0 && ch.opens != nil {
		return nil, fmt.Errorf("rdmacm: %w: Config has both Devices and Open", ErrInvalid)
	}
	if slices.Contains(ch.devices, nil) {
		return nil, fmt.Errorf("rdmacm: %w: a device of Config.Devices is nil", ErrInvalid)
	}
	return ch, nil
}

// Events is where events are taken (rdma_get_cm_event): blocking, in a select statement, or by a
// file descriptor.
func (ch *EventChannel) Events() *roce.EventQueue[*Event] { return ch.events.Queue() }

// Get is Events().Get: it takes the oldest event and waits for one if need be. The error is ctx's,
// or ErrClosed.
func (ch *EventChannel) Get(ctx context.Context) (*Event, error) { return ch.Events().Get(ctx) }

// Close ends the channel (rdma_destroy_event_channel): a goroutine that waits gets ErrClosed. While
// IDs are on it the error is ErrBusy. A second Close does nothing.
func (ch *EventChannel) Close() error {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.ids > 0 {
		return fmt.Errorf("rdmacm: %w: the event channel still has %d IDs", ErrBusy, ch.ids)
	}
	ch.closed = true
	ch.events.Close()
	return nil
}

// enter counts an ID. ErrClosed.
func (ch *EventChannel) enter() error {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.closed {
		return fmt.Errorf("event channel: %w", ErrClosed)
	}
	ch.ids++
	return nil
}

func (ch *EventChannel) leave() {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.ids--
}

// errno gives an event the status of an error.
func (e *Event) errno(code syscall.Errno, err error) *Event {
	e.Status, e.Err = -int(code), err
	return e
}
