package rdmacm

// The identifier: making one, its addresses and options, its end. How it gets a peer is in the
// other files: resolve.go, listen.go, connect.go, datagram.go.

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/goroce/goroce/cm"
	"github.com/goroce/goroce/roce"
)

// ID is one end of a connection, a listener, or one end of datagrams (rdma_cm_id). All methods may
// be called from any goroutine. Those that have to wait for others return at once, and an event
// says how it ended.
type ID struct {
	// Context is the application's own, which nothing here looks at.
	Context any

	space PortSpace

	mu          sync.Mutex // taken before the agent's
	ch          *EventChannel
	state       state
	local, peer netip.AddrPort
	claim       *hold  // on the local port
	below       []cmID // what it has of the devices it uses: one, or of a listener several
	path        cm.Path
	mtu         roce.MTU
	options     options
	parts       bool // it answers a peer that disconnects by itself: nobody else does

	qp     *roce.QP
	groups map[roce.GID]bool // that the ID is a member of; true: with its queue pair

	backlog int          // how many requests may wait to be answered
	waiting atomic.Int32 // how many do, also of peers that have withdrawn them meanwhile
	asker   *ID          // the listener whose request the ID is, until it is answered
	sidr    bool         // that request is one for a queue pair's number
	forgone atomic.Bool  // its listener was closed with that request: nobody is told of the ID
	own     ConnParam    // what this side has said
}

// options are what SetTOS and its kin set.
type options struct {
	tos        uint8
	reuseAddr  bool
	afOnly     bool
	ackTimeout uint8 // 0: as the path has it
}

// CreateID makes an identifier (rdma_create_id). ErrNotSupported of PSIPoIB, ErrInvalid of what is
// no port space, ErrClosed.
func (ch *EventChannel) CreateID(space PortSpace) (*ID, error) {
	switch {
	case space == PSIPoIB:
		return nil, fmt.Errorf("rdmacm: CreateID: %w: %v is of InfiniBand alone", ErrNotSupported, space)
	case portSpaceNames[space] == "":
		return nil, fmt.Errorf("rdmacm: CreateID: %w: port space 0x%04x, want PSTCP, PSUDP or PSIB",
			ErrInvalid, uint16(space))
	}
	if err := ch.enter(); err != nil {
		return nil, fmt.Errorf("rdmacm: CreateID: %w", err)
	}
	return &ID{space: space, ch: ch}, nil
}

// fail gives an error the call's name; nil stays nil.
func fail(op string, err error) error {
	if err == nil {
		return nil
	}
	return &callError{op, err}
}

// callError is why a call failed.
type callError struct {
	op  string // "Listen 192.0.2.1:7471"
	err error
}

// Error says which call failed, and why. One that another call of the same name has made is not
// said twice.
func (e *callError) Error() string {
	name, _, _ := strings.Cut(e.op, " ")
	return "rdmacm: " + e.op + ": " + strings.TrimPrefix(e.err.Error(), "rdmacm: "+name+": ")
}

// Unwrap returns the cause.
func (e *callError) Unwrap() error { return e.err }

// PortSpace is what CreateID was given.
func (id *ID) PortSpace() PortSpace { return id.space }

// Channel is the event channel that the ID's events go to.
func (id *ID) Channel() *EventChannel {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.ch
}

// LocalAddr is the local address and port; invalid if it has none yet (rdma_get_local_addr,
// rdma_get_src_port).
func (id *ID) LocalAddr() netip.AddrPort {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.local
}

// PeerAddr is the peer's address and port; invalid if there is no peer (rdma_get_peer_addr,
// rdma_get_dst_port).
func (id *ID) PeerAddr() netip.AddrPort {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.peer
}

// Device is the device that the ID is on; nil if that is not known yet, or if it listens on several
// (id->verbs), of which one that goes away does not count any more.
func (id *ID) Device() *roce.Device {
	id.mu.Lock()
	defer id.mu.Unlock()
	if a := id.agent(); a != nil {
		return a.dev
	}
	return nil
}

// one is what the ID has of its one device; nil if it has none or several. The caller has the lock.
func (id *ID) one() cmID {
	if len(id.below) != 1 {
		return nil
	}
	return id.below[0]
}

// agent is that of the ID's one device; nil if it has none or several. The caller has the lock.
func (id *ID) agent() *agent {
	if c := id.one(); c != nil {
		return c.at()
	}
	return nil
}

// raises says whether the ID brings its queue pair to RTS itself.
func (id *ID) raises() bool {
	id.mu.Lock()
	defer id.mu.Unlock()
	c := id.one()
	return c == nil || c.raises()
}

// use takes over one use of an agent. The caller has the lock.
func (id *ID) use(a *agent) error {
	c, err := a.newID(id)
	if err != nil {
		a.release()
		return err
	}
	id.below = append(id.below, c)
	return nil
}

// unuse gives the agents back. The caller has the lock.
func (id *ID) unuse() {
	for _, c := range id.below {
		c.close()
		c.at().release()
	}
	id.below = nil
}

// AddressVector is how datagrams get to the peer, and the path MTU (id->route.path_rec). ErrState
// if no address was resolved.
func (id *ID) AddressVector() (roce.AHAttr, roce.MTU, error) {
	id.mu.Lock()
	defer id.mu.Unlock()
	a := id.agent()
	if id.state == closed {
		return roce.AHAttr{}, 0, fail("AddressVector", ErrClosed)
	}
	if a == nil || id.path == (cm.Path{}) {
		return roce.AHAttr{}, 0, fail("AddressVector", fmt.Errorf("%w: the ID is in the state %v, and has no peer",
			ErrState, id.state))
	}
	return addressVector(a.dev, id.path), id.mtu, nil
}

// SetTOS sets the IPv4 TOS or IPv6 traffic class of the connection (RDMA_OPTION_ID_TOS), before
// Connect or, on a listener, for what is accepted there. The packets of queue pairs have ECN bits
// of their own (roce.Config.NoECN).
func (id *ID) SetTOS(tos uint8) error {
	return id.set("SetTOS", func() error { id.options.tos = tos; return nil })
}

// SetReuseAddr lets several IDs have a port as long as none of them listens
// (RDMA_OPTION_ID_REUSEADDR). It comes before the ID is bound, or is ErrState.
func (id *ID) SetReuseAddr(reuse bool) error {
	return id.set("SetReuseAddr", func() error {
		if id.state != idle {
			return fmt.Errorf("%w: the ID is in the state %v, it must be %v", ErrState, id.state, idle)
		}
		id.options.reuseAddr = reuse
		return nil
	})
}

// SetAFOnly keeps an ID that is bound to all IPv6 addresses from IPv4 (RDMA_OPTION_ID_AFONLY). It
// comes before the ID is bound, or is ErrState.
func (id *ID) SetAFOnly(only bool) error {
	return id.set("SetAFOnly", func() error {
		if id.state != idle {
			return fmt.Errorf("%w: the ID is in the state %v, it must be %v", ErrState, id.state, idle)
		}
		id.options.afOnly = only
		return nil
	})
}

// SetAckTimeout sets the ack timeout of this side's queue pair (RDMA_OPTION_ID_ACK_TIMEOUT), before
// Connect or Accept or, on a listener, for what is accepted there: 4.096 us * 2^timeout, 1 to 31; 0
// is what follows from the path, 17 or 18. The peer of the side that connects takes it over, but
// not less than its device takes to acknowledge.
func (id *ID) SetAckTimeout(timeout uint8) error {
	return id.set("SetAckTimeout", func() error {
		if timeout > 31 {
			return fmt.Errorf("%w: ack timeout %d, want 0 to 31", ErrInvalid, timeout)
		}
		id.options.ackTimeout = timeout
		return nil
	})
}

func (id *ID) set(op string, f func() error) error {
	id.mu.Lock()
	defer id.mu.Unlock()
	if id.state == closed {
		return fail(op, ErrClosed)
	}
	return fail(op, f())
}

// Migrate moves the ID to another channel, and its events that nobody has taken with it
// (rdma_migrate_id). The devices stay those of the old one as far as they are known. ErrClosed.
func (id *ID) Migrate(to *EventChannel) error {
	id.mu.Lock()
	defer id.mu.Unlock()
	return fail("Migrate", id.migrate(to, nil))
}

// migrate is Migrate. request is the event that the ID was made for, and goes before all others of
// it: an ID that has none any more, as it was taken, stays. nil: the ID goes anyway. The caller has
// the lock, so that nothing is told of the ID meanwhile, nor looked for in vain (untold).
func (id *ID) migrate(to *EventChannel, request *Event) error {
	if id.state == closed {
		return ErrClosed
	}
	if err := to.enter(); err != nil {
		return err
	}
	from, goes := id.ch, request == nil
	var moved, requests []*Event
	from.events.Remove(func(e *Event) bool {
		if e.Listener == id {
			requests = append(requests, e)
		}
		goes = goes || e == request
		mine := e == request || goes && e.ID == id && e.Listener == nil
		if mine {
			moved = append(moved, e)
		}
		return mine
	})
	if !goes {
		to.leave()
		return nil
	}
	id.ch = to
	from.leave()
	for _, e := range requests { // its new ID is of the channel where the request is taken
		e.ID.mu.Lock()
		e.ID.migrate(to, e)
		e.ID.mu.Unlock()
	}
	for _, e := range moved {
		to.events.Put(e)
	}
	return nil
}

// about is the ID whose channel an event goes to.
func (e *Event) about() *ID {
	if e.Listener != nil {
		return e.Listener
	}
	return e.ID
}

// put tells of an event. The caller has the lock.
func (id *ID) put(e *Event) {
	if e.ID == nil {
		e.ID = id
	}
	if id.forgone.Load() {
		return
	}
	if id.ch.sink != nil {
		id.ch.sink(e)
		return
	}
	id.ch.events.Put(e)
}

// happened moves the ID by what happened, and tells the event that the table has for it. It says
// whether the state allowed that. The caller has the lock.
func (id *ID) happened(on input, e *Event) bool {
	m, ok := id.state.next(on)
	if !ok {
		return false
	}
	if m.to == over && m.from != over {
		id.lower() // of one that the application has closed already there is nothing to say
	}
	id.state = m.to
	if m.from == requested && id.untold() {
		return true
	}
	if m.event != none {
		if e == nil {
			e = new(Event)
		}
		e.Type = m.event
		id.put(e)
	}
	return true
}

// deviceGone takes in that a device of the ID is gone, c being what the ID has of it. The caller
// has the lock.
func (id *ID) deviceGone(c cmID) {
	id.loses(c, fmt.Errorf("%w: device %s is gone", ErrUnreachable, c.at().dev.Name()))
}

// loses takes in that a device is of no more use to the ID. A listener on several listens on the
// others; the last one is told of. The caller has the lock.
func (id *ID) loses(c cmID, why error) {
	i := slices.Index(id.below, c)
	switch {
	case i < 0:
	case len(id.below) > 1:
		id.backlog -= id.backlog / len(id.below)
		id.below = slices.Delete(id.below, i, i+1)
		c.close()
		c.at().release()
	default:
		id.happened(removed, new(Event).errno(syscall.ENODEV, why))
	}
}

// addressGone tells that the device does not have the ID's address any more. The state is as it
// was: the address may come back. The caller has the lock.
func (id *ID) addressGone() {
	if id.state != closed && id.state != over {
		err := fmt.Errorf("%w: the device has lost the address %v", ErrUnreachable, id.local.Addr())
		id.put((&Event{Type: EventAddrChange}).errno(syscall.EADDRNOTAVAIL, err))
	}
}

// Close ends the ID (rdma_destroy_id), whatever it is doing, and with it its queue pair
// (rdma_destroy_qp). A connection that was not disconnected is: the peer is told, without waiting
// for its answer. Requests that nobody has answered are refused. Events of the ID that were not
// taken are gone. A second Close does nothing.
func (id *ID) Close() error {
	id.mu.Lock()
	if id.state == closed {
		id.mu.Unlock()
		return nil
	}
	id.step(callClose)
	id.answered()
	var requests []*ID
	id.ch.events.Remove(func(e *Event) bool {
		if e.about() == id && e.Listener != nil {
			e.ID.forgone.Store(true) // before whoever looks for the event in vain (untold)
			requests = append(requests, e.ID)
		}
		return e.about() == id
	})
	below, ch := id.below, id.ch
	for _, c := range below {
		c.close()
	}
	err := id.destroyQP()
	if id.claim != nil {
		releasePort(id.space, id.local.Port(), id.claim)
		id.claim = nil
	}
	id.below = nil
	id.mu.Unlock()
	for _, r := range requests {
		r.unheard()
	}
	for _, c := range below {
		c.at().release()
	}
	ch.leave()
	return fail("Close", err)
}

// now is the machine's time.
func now() cm.Time { return cm.Time(time.Since(epoch)) }

var epoch = time.Now()
