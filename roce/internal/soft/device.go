package soft

// The device: the addresses of one port, its memory table and its lanes.
// Stages: configuration, what it tells its owner, Open, what it is, Close.

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/ports"
	"github.com/goroce/goroce/wire"
)

// The kinds of errors that are not the engine's or the memory table's.
var (
	ErrClosed      = errors.New("the object or its owner is closed")
	ErrUnreachable = errors.New("the destination can not be reached")
)

// Config says how a device works; package roce explains the fields that it hands on.
type Config struct {
	Wrap         func(transport.Port) transport.Port
	Ports        []transport.Port
	Foreign      func(f *wire.Frame)
	Dealt        []byte
	Lanes        int
	Transport    transport.Options
	Window       int
	Congestion   qp.CongestionParams
	NoECN        bool
	PinMemory    bool
	NoBackground bool
	Purpose      qp.Purpose
	Records      int // that each lane keeps

	// Event is told of asynchronous events, on a goroutine that has a lane's turn, or on that which
	// listens to the port, also at once: it must not wait, nor call the device. nil: nobody is
	// interested.
	Event func(Event)

	world *world // nil: machine
}

// Event is an asynchronous event. QP, CQ and SRQ are the contexts of the objects that it concerns.
type Event struct {
	Type        qp.EventType
	QP, CQ, SRQ any
	Err         error // EventPortErr: what the port reported
}

// Device is a software RNIC. All methods may be called from any goroutine.
type Device struct {
	name   string
	cfg    Config
	world  // that it lives in
	info   transport.Info
	mem    *mr.Table
	lanes  []*lane
	groups memberships // of the queue pairs

	failing atomic.Int32 // lanes whose port reports an error
	loop    loop         // of the application that waits for events
	listener

	storage *qp.Storage    // where FLUSHes wait for their turn; nil: each lane has one of its own
	syncs   sync.WaitGroup // those that storage is at

	mu      sync.Mutex // calls that control the device or what was made on it
	closed  bool
	srqs    int             // shared receive queues
	xrcds   qp.XRCD         // the newest XRC domain
	numbers map[uint32]*SRQ // shared receive queues of XRC
}

// Open opens the ports of a name, unless there are Config.Ports, and starts the lanes.
func Open(name string, cfg Config) (*Device, error) {
	d := &Device{
		name:    name,
		cfg:     cfg,
		world:   machine,
		numbers: make(map[uint32]*SRQ),
		groups:  memberships{of: make(map[wire.GID]*membership)},
	}
	if cfg.world != nil {
		d.world = *cfg.world
	}
	if !cfg.NoBackground { // else a lane may speak for no other
		d.storage = qp.NewStorage(maxSyncs, d.yield)
	}
	if !d.cfg.NoECN { // a socket's packets have its own traffic class for free
		d.cfg.Transport.TrafficClass = qp.ECT(d.cfg.Transport.TrafficClass)
	}
	list, err := d.openPorts()
	if err == nil {
		err = d.checkDealt()
	}
	if err == nil {
		if d.info = list[0].Info(); len(d.info.GIDs) == 0 {
			err = fmt.Errorf("%w: the port has no address", qp.ErrInvalid)
		}
	}
	if err != nil {
		CloseGiven(list)
		return nil, err
	}
	d.gids.Store(&d.info.GIDs)
	d.mem, d.mtu = mr.NewTable(random.Uint64), d.maxMTU(d.info)
	for i, p := range list {
		d.lanes = append(d.lanes, newLane(d, i, len(list), p))
	}
	for _, l := range d.lanes {
		if d.cfg.NoBackground {
			break
		}
		if err := l.start(); err != nil {
			d.closeLanes()
			return nil, err
		}
	}
	d.listen()
	return d, nil
}

// CloseGiven closes ports of a device that is not opened.
func CloseGiven(ports []transport.Port) {
	for _, p := range ports {
		if p != nil {
			p.Close()
		}
	}
}

// openPorts opens a port for each lane, or takes those that are given; with an error they are to be
// closed.
func (d *Device) openPorts() (list []transport.Port, err error) {
	lanes := cmp.Or(d.cfg.Lanes, len(d.cfg.Ports), 1)
	switch n := len(d.cfg.Ports); {
	case lanes < 0 || lanes > transport.MaxLanes || lanes&(lanes-1) != 0:
		return d.cfg.Ports, fmt.Errorf("%w: %d lanes (Config.Lanes or Ports), want a power of two from 1 to %d",
			qp.ErrInvalid, lanes, transport.MaxLanes)
	case slices.Contains(d.cfg.Ports, nil):
		return d.cfg.Ports, fmt.Errorf("%w: one of Config.Ports is nil", qp.ErrInvalid)
	case twice(d.cfg.Ports):
		return d.cfg.Ports, fmt.Errorf("%w: one of Config.Ports is there twice, and each is a lane", qp.ErrInvalid)
	case n == 0:
		if list, err = ports.OpenLanes(d.name, lanes, d.cfg.Transport); err != nil {
			return nil, err
		}
	case lanes != n:
		return d.cfg.Ports, fmt.Errorf("%w: Config.Lanes is %d, but there are %d Ports, each a lane",
			qp.ErrInvalid, lanes, n)
	default:
		list = slices.Clone(d.cfg.Ports)
	}
	for i := range list {
		if d.cfg.Wrap != nil {
			list[i] = d.cfg.Wrap(list[i])
		}
	}
	return list, nil
}

// twice tells whether one of the ports is there again: two lanes would receive from it at a time.
func twice(ports []transport.Port) bool {
	for i, p := range ports {
		if reflect.TypeOf(p).Comparable() && slices.Contains(ports[:i], p) {
			return true
		}
	}
	return false
}

// DealtSize is what Config.Dealt takes: a deck for each lane.
const DealtSize = transport.MaxLanes * int(unsafe.Sizeof(qp.Deck{}))

func (d *Device) checkDealt() error {
	if m := d.cfg.Dealt; m != nil && (len(m) < DealtSize || uintptr(unsafe.Pointer(&m[0]))%8 != 0) {
		return fmt.Errorf("%w: Config.Dealt has %d bytes, want %d at a multiple of 8", qp.ErrInvalid, len(m), DealtSize)
	}
	return nil
}

// dealt is the deck of a lane, nil if nobody keeps one.
func (d *Device) dealt(lane int) *qp.Deck {
	if d.cfg.Dealt == nil {
		return nil
	}
	return (*qp.Deck)(unsafe.Pointer(&d.cfg.Dealt[lane*int(unsafe.Sizeof(qp.Deck{}))]))
}

// congestion returns the constants of the congestion control. Virtual interfaces may claim speeds
// that stem from a time when there was little else: tun says 10 Mbit/s.
func (d *Device) congestion() qp.CongestionParams {
	const least = 1000
	c := d.cfg.Congestion
	if c == (qp.CongestionParams{}) {
		c = qp.DefaultCongestion
		if d.info.SpeedMbps >= least {
			c.LineRate = uint64(d.info.SpeedMbps) * 1e6
		}
	}
	return c
}

// tell hands an event to the owner.
func (d *Device) tell(e Event) {
	if d.cfg.Event != nil {
		d.cfg.Event(e)
	}
}

// emptiestLane is where the next queue pair goes. The caller has d.mu.
func (d *Device) emptiestLane() *lane {
	best := d.lanes[0]
	for _, l := range d.lanes {
		if l.pairs < best.pairs {
			best = l
		}
	}
	return best
}

// eachLane runs a control operation on the engine of every lane, from the first one on, until one
// fails.
func (d *Device) eachLane(f func(e *qp.Engine) error) error {
	for _, l := range d.lanes {
		if err := l.do(func(e *qp.Engine, _ qp.Time) error { return f(e) }); err != nil {
			return err
		}
	}
	return nil
}

// Flush sends what is left to later turns of the lanes.
func (d *Device) Flush() {
	for _, l := range d.lanes {
		l.flush()
	}
}

// Opened is what the first port said of itself when the device was opened.
func (d *Device) Opened() transport.Info { return d.info }

// Info is what the first port says of itself now; of a closed device, what it said first.
func (d *Device) Info() (info transport.Info, open bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return d.info, false
	}
	return d.lanes[0].port.Info(), true
}

// Clock reads the device's clock, which stamps completions: nanoseconds since the process started.
func (d *Device) Clock() uint64 { return uint64(d.now()) }

// Records appends what each lane has recorded since the last call. It waits for the end of a turn.
func (d *Device) Records(dst []qp.Record) []qp.Record {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, l := range d.lanes {
		dst = l.records(dst)
	}
	return dst
}

// LaneStats are the counters of each lane. They wait for the end of a turn.
func (d *Device) LaneStats() []Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := make([]Stats, len(d.lanes))
	for i, l := range d.lanes {
		list[i] = l.stats()
	}
	return list
}

// Close ends the device: its goroutines have ended and its ports are free when it returns. What was
// made on it must be closed already. A second Close does nothing.
func (d *Device) Close() error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil
	}
	d.closed = true
	d.mu.Unlock() // storage may take its time, and others may ask for counters
	d.deafen()
	d.syncs.Wait() // no queue pair is left: nothing waits for its turn, and none can be added
	err := d.closeLanes()
	d.syncs.Wait() // that the last turns have taken
	return err
}

func (d *Device) closeLanes() (err error) {
	for _, l := range d.lanes {
		if e := l.close(); err == nil {
			err = e
		}
	}
	return err
}
