package roce

// The device: one address on one port, its memory table and its lanes.
// Stages: what can be opened, configuration, Open, what the device can tell, what is made on it, Close.

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/ports"
)

// Config changes how a device works. The zero value is right for most uses.
type Config struct {
	// Wrap, if not nil, is given the port of each lane and returns the one to use: the place for fault.Wrap and
	// capture.Wrap (packages transport/fault and transport/capture).
	Wrap func(transport.Port) transport.Port

	// Port, if not nil, is used instead of opening the name, which then is only what the device is called. The device closes it.
	// It is one lane.
	Port transport.Port

	// Lanes is how many threads can run the device at the same time, 1 to transport.MaxLanes, a power of two; 0 is 1. Each lane
	// is a packet queue with its share of the queue pairs. It pays when one processor is too slow: then there should be about as
	// many lanes as processors to spare, and a completion queue and a goroutine for the queue pairs of each (QP.Lane).
	Lanes int

	// Transport is passed on when the name is opened: UDP port, socket buffer sizes.
	Transport transport.Options

	// Window is how many packets an RC queue pair may have unacknowledged; 0 means as many as suit the path: qp.DefaultWindow at
	// first, up to qp.MaxWindow while nothing queues, after losses as few as the path holds.
	Window int

	// Congestion are the constants of the congestion control, DCQCN; zero is qp.DefaultCongestion with the line rate that the
	// interface has, if it says so. It does nothing until a switch marks packets.
	Congestion qp.CongestionParams

	// NoECN keeps switches from marking our packets, and so congestion control from acting. Otherwise the packets of RC and
	// UC queue pairs say ECT(0) in the ECN field of the IP header, unless their traffic class has ECN bits of its own. It is
	// not covered by the ICRC, so every peer takes it.
	NoECN bool

	// PinMemory keeps registered memory from being paged out, as a NIC's driver does: RegMR locks its pages (mlock), Close unlocks
	// those that no other region has, also if the application had locked them itself. RegMR then takes the time that the system
	// needs to find the pages, and fails with ErrLimit beyond RLIMIT_MEMLOCK, and where the system is not Linux. Without it memory
	// is paged as any other, which is only a matter of time: nothing here depends on where pages are.
	PinMemory bool

	// NoBackground starts no goroutine. Then nothing at all happens between the application's own
	// calls: no timer fires and no peer is answered unless somebody polls a completion queue of the
	// device. CQ.Wait polls without sleeping. PostSend sends before it returns, as far as the
	// peer's and the port's room allows.
	NoBackground bool
}

// Device is a software RNIC. All methods may be called from any goroutine.
type Device struct {
	name  string
	cfg   Config
	info  transport.Info
	mem   *mr.Table
	lanes []*lane
	queue eventQueue

	failing atomic.Int32 // lanes whose port reports an error

	mu      sync.Mutex // control calls
	objects objects    // everything that was made on the device and is not closed
	closed  bool
}

// Open opens a device by name. cfg may be nil.
//
//	udp:ADDRESS      UDP sockets on a local address, "udp:127.0.0.1", "udp:fe80::1%eth0": no privilege needed, any OS
//	packet:ADDRESS   AF_PACKET sockets: faster, Linux, needs CAP_NET_RAW
//	xdp:ADDRESS      AF_XDP sockets: Linux, needs CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF
//	auto:ADDRESS     xdp if the driver does it without copies, else packet if that works here, else udp: see PortInfo().Why
//	pipe:NAME        a wire inside this process that all devices opened with this name are plugged into
//
// In place of the address, the name of an interface stands for its first address: "udp:eth0".
//
// The error says what is missing: no such address, the port is in use by another process, and so on. Devices lists what
// can be opened here.
func Open(name string, cfg *Config) (*Device, error) {
	d := &Device{name: name}
	if cfg != nil {
		d.cfg = *cfg
	}
	if !d.cfg.NoECN { // a socket's packets have its own traffic class for free
		d.cfg.Transport.TrafficClass = qp.ECT(d.cfg.Transport.TrafficClass)
	}
	ports, err := d.openPorts()
	if err != nil {
		return nil, d.fail("Open", err)
	}
	d.info = ports[0].Info()
	if len(d.info.GIDs) == 0 {
		for _, p := range ports {
			p.Close()
		}
		return nil, d.fail("Open", fmt.Errorf("%w: the port has no address", ErrInvalid))
	}
	d.mem = mr.NewTable(random.Uint64)
	d.objects = make(objects)
	d.queue.init()
	for i, p := range ports {
		d.lanes = append(d.lanes, newLane(d, i, len(ports), p))
	}
	for _, l := range d.lanes {
		if d.cfg.NoBackground {
			break
		}
		if err := l.start(); err != nil {
			d.closeLanes()
			return nil, d.fail("Open", err)
		}
	}
	return d, nil
}

// congestion returns the constants of the congestion control. Virtual interfaces may claim speeds that stem from a time when
// there was little else: tun says 10 Mbit/s.
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

// openPorts opens a port for each lane.
func (d *Device) openPorts() (list []transport.Port, err error) {
	lanes := max(d.cfg.Lanes, 1)
	switch {
	case d.cfg.Lanes < 0:
		return nil, fmt.Errorf("%w: Config.Lanes is %d, want a power of two from 1 to %d, or 0", ErrInvalid, d.cfg.Lanes, transport.MaxLanes)
	case d.cfg.Port == nil:
		if list, err = ports.OpenLanes(d.name, lanes, d.cfg.Transport); err != nil {
			return nil, err
		}
	case lanes > 1:
		return nil, fmt.Errorf("%w: Config.Lanes is %d, but Config.Port is one lane", ErrInvalid, lanes)
	default:
		list = []transport.Port{d.cfg.Port}
	}
	for i := range list {
		if d.cfg.Wrap != nil {
			list[i] = d.cfg.Wrap(list[i])
		}
	}
	return list, nil
}

// emptiestLane is where the next queue pair goes.
func (d *Device) emptiestLane() *lane {
	best := d.lanes[0]
	for _, l := range d.lanes {
		if l.pairs < best.pairs {
			best = l
		}
	}
	return best
}

// eachLane runs a control operation on the engine of every lane, from the first one on, until one fails.
func (d *Device) eachLane(f func(e *qp.Engine) error) error {
	for _, l := range d.lanes {
		if err := l.do(func(e *qp.Engine, _ qp.Time) error { return f(e) }); err != nil {
			return err
		}
	}
	return nil
}

// Name is the name that the device was opened with.
func (d *Device) Name() string { return d.name }

// AllocPD makes a protection domain (ibv_alloc_pd).
func (d *Device) AllocPD() (*PD, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, d.fail("AllocPD", ErrClosed)
	}
	h, err := d.mem.AllocPD()
	if err != nil {
		return nil, d.fail("AllocPD", err)
	}
	p := &PD{dev: d, handle: h}
	d.objects.add(p)
	return p, nil
}

// CreateCQ makes a completion queue for at least cqe completions (ibv_create_cq); the engine rounds up to a power of two.
// A queue that overruns loses completions for good and its queue pairs go to the error state, so make it as large as the
// sum of the send and receive queues that complete there.
func (d *Device) CreateCQ(cqe int) (*CQ, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, d.fail("CreateCQ", ErrClosed)
	}
	c := newCQ(d)
	err := d.eachLane(func(e *qp.Engine) error {
		q, err := e.CreateCQ(cqe)
		if err == nil {
			q.Context = c
			c.lanes = append(c.lanes, q)
		}
		return err
	})
	if err != nil {
		c.destroy()
		return nil, d.fail("CreateCQ", err)
	}
	d.objects.add(c)
	return c, nil
}

// Close ends the device: its goroutines have ended and its port is free when it returns. While anything that was made on
// the device is still open, Close does nothing and the error (ErrBusy) says what is left. A second Close does nothing.
//
// Close queue pairs and device before the process exits: what the stack owes then leaves first. A
// process that ends right after a Poll takes with it the ACK of what that Poll has received, which
// waits for the application's next call or the background (CQ.Poll), and its peer repeats the
// request until it gives up.
func (d *Device) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	if err := d.objects.busy("device "+d.name, nil); err != nil {
		return d.fail("Close", err)
	}
	d.closed = true
	err := d.closeLanes()
	d.queue.close()
	return d.fail("Close", err)
}

func (d *Device) closeLanes() (err error) {
	for _, l := range d.lanes {
		if e := l.close(); err == nil {
			err = e
		}
	}
	return err
}
