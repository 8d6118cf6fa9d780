package roce

// The device: what applications open, and make everything else on.
// Stages: which there are, configuration, Open, what is made on a device, Close.

import (
	"fmt"
	"sync"

	"github.com/goroce/goroce/roce/internal/soft"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/ports"
	"github.com/goroce/goroce/wire"
)

// DeviceInfo is a device that exists on this machine and whether it can be opened.
type DeviceInfo struct {
	Name      string // for Open: "udp:eth0", "udp:192.168.1.5"
	Interface string // "eth0"
	GID       GID    // the first, if the device is one of all addresses of the interface
	MTU       MTU    // the largest path MTU that fits the interface; 0: not even the smallest does
	NetMTU    int    // of the interface: bytes of an IP packet
	MAC       string // "" if the interface has none
	SpeedMbps int    // 0: unknown
	Up        bool   // administratively up, with a carrier
	Err       error  // nil if Open works now; otherwise what is missing
}

// Devices lists the devices of this machine, usable or not: for each kind of port one of each
// interface that has addresses, followed by one of each address; and in a build with the tag verbs
// those of the kernel, or, under the name "verbs:", what is missing if there are none. It opens and
// closes each, so that what it says is what Open does.
func Devices() ([]DeviceInfo, error) {
	list, err := ports.List()
	if err != nil {
		return nil, &Error{Op: "Devices", Device: "this machine", Err: err}
	}
	var devices []DeviceInfo
	for _, l := range list {
		devices = append(devices, DeviceInfo{Name: l.Name, Interface: l.Interface, GID: l.GID,
			MTU: wire.MTUForNet(l.NetMTU), NetMTU: l.NetMTU, MAC: l.MAC, SpeedMbps: l.SpeedMbps, Up: l.Up, Err: l.Err})
	}
	return append(devices, hwDevices()...), nil
}

// DealtSize is how many bytes Config.Dealt has.
const DealtSize = soft.DealtSize

// Config changes how a device works. The zero value is right for most uses.
type Config struct {
	// Wrap, if not nil, is given the port of each lane and returns the one to use: the place for
	// fault.Wrap and capture.Wrap (packages transport/fault and transport/capture).
	Wrap func(transport.Port) transport.Port

	// Ports, if there are any, are used instead of opening the name, which then is only what the
	// device is called. Each is a lane, so they are a power of two, none is there twice, and Lanes
	// is 0 or their number.
	// They are the device's, which closes them, also if Open fails.
	Ports []transport.Port

	// Dealt, if not nil, is DealtSize bytes in which the device keeps which queue pair numbers it
	// has dealt: of zeros at first, in memory that outlives the process (a file that is mapped,
	// shared). Whoever takes the place of a process, with the same Ports of the same space, goes on
	// there, so that a peer that still knows a number as the dead process's does not meet a
	// stranger: none comes again before all others have. It begins at a multiple of 8.
	Dealt []byte

	// Foreign, if not nil, is shown each packet that came here for another slot of the address, as
	// those do that travel in one run with ours; LaneStats.Foreign counts them. It is lost unless
	// it is handed on: an RC peer sends it again. Bytes and frame are lent for the call, which is
	// made in a turn: it must not wait, nor call the device. Several lanes may make it at once.
	// Nothing of it was checked, so who is handed it should check it as a port's.
	Foreign func(f *wire.Frame)

	// Lanes is how many threads can run the device at the same time, 1 to transport.MaxLanes, a
	// power of two; 0 is 1. Each lane is a packet queue with its share of the queue pairs. It pays
	// when one processor is too slow: then there should be about as many lanes as processors to
	// spare, and a completion queue and a goroutine for the queue pairs of each (QP.Lane).
	Lanes int

	// Transport is passed on when the name is opened: UDP port, socket buffer sizes.
	Transport transport.Options

	// Window is how many packets an RC queue pair may have unacknowledged; 0 means as many as suit
	// the path: qp.DefaultWindow at first, up to qp.MaxWindow while nothing queues, after losses as
	// few as the path holds. 1 to 2^22; what is outside is taken for the nearest.
	Window int

	// Congestion are the constants of the congestion control, DCQCN; zero is
	// qp.DefaultCongestion with the line rate that the interface has, if it says so. It does
	// nothing until a switch marks packets.
	Congestion CongestionParams

	// NoECN keeps switches from marking our packets, and so congestion control from acting.
	// Otherwise the packets of RC and UC queue pairs say ECT(0) in the ECN field of the IP header,
	// unless their traffic class has ECN bits of its own. It is not covered by the ICRC, so every
	// peer takes it.
	NoECN bool

	// PinMemory keeps registered memory from being paged out, as a NIC's driver does: RegMR locks
	// its pages (mlock), Close unlocks those that no other region has, also if the application had
	// locked them itself. RegMR then takes the time that the system needs to find the pages, and
	// fails with ErrLimit beyond RLIMIT_MEMLOCK, and with ErrNotSupported where the system is not
	// Linux. Without it memory is paged as any other, which is only a matter of time: nothing here
	// depends on where pages are.
	PinMemory bool

	// Faults is a list of things that go wrong on purpose, for a program that tests what it does
	// then; "" is what the environment variable GOROCE_FAULTS says. docs/faults.md has the rules:
	// "CreateQP:2:ENOMEM, wr.RDMA_READ:3:REM_ACCESS_ERR, recv:1-3:RNR, tx.SEND:5:drop,
	// link:1s:down=300ms". A device with rules about packets or the link sends no runs, and is
	// slower. Of an RDMA device of the kernel only verbs can fail so; others are ErrNotSupported.
	Faults string

	// Records is how many of its newest records each lane keeps for Device.Records, up to 2^24, 40
	// bytes each: what it sends, receives, drops, executes and completes, and why it sends again. 0
	// keeps none, and costs nothing.
	Records int

	// NoBackground starts no goroutine (but a port may have one that watches its interface). Then
	// nothing at all happens between the application's own calls: no timer fires and no peer is
	// answered unless somebody polls a completion queue of the device. CQ.Wait polls without
	// sleeping. PostSend sends before it returns, as far as the peer's and the port's room allows.
	NoBackground bool
}

// Device is an RNIC (ibv_context). All methods may be called from any goroutine.
type Device struct {
	name string
	provider
	events EventQueue[AsyncEvent]
	faults *faults // nil: nothing fails on purpose

	watching sync.Mutex // calls of watchers; taken last
	watchers map[*func(AsyncEvent)]struct{}

	ending sync.Mutex // calls of Close, one at a time; taken first

	mu      sync.Mutex // calls that make and close things
	objects objects    // everything that was made on the device and is not closed
	atClose []func() error
	closed  bool
}

// Open opens a device by name (ibv_open_device). cfg may be nil.
//
//	udp:ADDRESS      UDP sockets on a local address, "udp:127.0.0.1", "udp:fe80::1%eth0":
//	                 no privilege needed, any OS
//	packet:ADDRESS   AF_PACKET sockets: faster, Linux, needs CAP_NET_RAW
//	xdp:ADDRESS      AF_XDP sockets: Linux, needs CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF
//	auto:ADDRESS     xdp if the driver does it without copies, else packet if that works here,
//	                 else udp: see PortInfo().Why; hub:ADDRESS if processes share it already
//	hub:ADDRESS      UDP sockets of an address that other processes of the user share, by way of
//	                 a hub (package roce/hub), which is started if there is none: Linux
//	pipe:NAME        a wire inside this process that all devices opened with this name are
//	                 plugged into
//	verbs:DEVICE     an RDMA device of the kernel, "verbs:mlx5_0", by way of libibverbs;
//	                 "verbs:mlx4_0/2" is the second port of one. The program must be built with
//	                 the tag verbs, else the error is ErrNotSupported
//
// In place of the address, the name of an interface stands for all its addresses, IPv4 and IPv6,
// link-local ones too: "udp:eth0". They are the rows of the device's GID table (GIDs), in the
// beginning IPv4 before IPv6 and link-local last. An address that goes leaves its row empty, and
// has it again when it is back; one that comes gets a row of its own. EventGIDChange tells of it.
// AHAttr.SGIDIndex and ConnectOptions.SGIDIndex name the row to send from; what arrives is for RC
// and UC to be for that address, for UD for any of the rows. Outside of Linux it is the first
// address alone.
//
// The rows of the GID table of a verbs device are those of RoCE v2 as they are when it is opened,
// IPv4 addresses first, link-local ones last: not the indexes that ibv_devinfo prints. What Config
// says of packets it does not have, which is ErrNotSupported; PinMemory, NoBackground and, but for
// the UDP port, Transport mean nothing there.
//
// The error says what is missing: no such address, the port is in use by another process, and so
// on. Devices lists what can be opened here.
func Open(name string, cfg *Config) (*Device, error) {
	d := &Device{name: name, objects: newObjects()}
	d.events.init(maxEvents)
	if cfg == nil {
		cfg = new(Config)
	}
	faults, err := newFaults(cfg.Faults)
	if err != nil {
		soft.CloseGiven(cfg.Ports)
		return nil, d.fail("Open", err)
	}
	d.faults = faults
	p, err := openProvider(d, cfg)
	if err != nil {
		return nil, d.fail("Open", err)
	}
	d.provider = p
	return d, nil
}

// Name is the name that the device was opened with.
func (d *Device) Name() string { return d.name }

// HandOver takes in a copy of a packet that came to another device of the address, which was shown
// it (Config.Foreign), as if it had come here. False: there is no room, no queue pair of this
// device is meant, or it is a device of the kernel. Any goroutine may call it, until Close.
func (d *Device) HandOver(f *wire.Frame) bool {
	s, ok := d.provider.(interface{ HandOver(f *wire.Frame) bool })
	return ok && s.HandOver(f)
}

// create runs f, which makes something on the device, unless the device is closed.
func (d *Device) create(op string, f func() error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return d.fail(op, ErrClosed)
	}
	if err := d.faults.verb(op); err != nil {
		return d.fail(op, err)
	}
	return d.fail(op, f())
}

// destroy runs f, which ends x unless something still needs it. A second time nothing happens.
func (d *Device) destroy(x object, f func() error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.objects.has(x) {
		return nil
	}
	if err := d.objects.busy(x.kind(), x); err != nil {
		return d.fail("Close", err)
	}
	if err := f(); err != nil {
		return d.fail("Close", err)
	}
	d.objects.remove(x)
	return nil
}

// AllocPD makes a protection domain (ibv_alloc_pd). ErrLimit if the device has no more, ErrClosed.
func (d *Device) AllocPD() (p *PD, err error) {
	err = d.create("AllocPD", func() error {
		below, err := d.provider.allocPD()
		if err == nil {
			p = &PD{dev: d, pd: below}
			d.objects.add(p)
		}
		return err
	})
	return p, err
}

// Flush sends what is left to later calls: requests that were posted, and acknowledgements of what
// was received (CQ.Poll). It is for a process that is about to exit and cannot close what it has
// opened. It waits for no peer, and for a port that has no room some microseconds only. A device
// that is closed owes nothing. Any goroutine.
func (d *Device) Flush() { d.provider.flush() }

// Close ends the device (ibv_close_device): its goroutines have ended and its port is free when it
// returns. While anything that was made on the device is still open, Close does nothing and the
// error (ErrBusy) says what is left. A second Close does nothing, but waits for the first; if that
// could not close the device, it tries again.
//
// Close queue pairs and device before the process exits, or at least Flush: what the stack owes
// then leaves first. A process that ends right after a Poll takes with it the ACK of what that Poll
// has received, which waits for the application's next call or the background (CQ.Poll), and its
// peer repeats the request until it gives up.
func (d *Device) Close() error {
	d.ending.Lock()
	defer d.ending.Unlock()
	if ends, err := d.mayEnd(); !ends {
		return d.fail("Close", err)
	}
	err := d.provider.close()
	d.events.close()
	return d.fail("Close", err)
}

// mayEnd calls what AtClose was given, and says whether the device is to be closed then, which is
// so once. From then on nothing can be made on it.
func (d *Device) mayEnd() (bool, error) {
	for {
		f, ends, err := d.nextAtClose()
		if f == nil {
			return ends, err
		}
		if err := f(); err != nil {
			d.mu.Lock()
			d.atClose = append(d.atClose, f)
			d.mu.Unlock()
			return false, err
		}
	}
}

// nextAtClose takes what is to be called next. If there is nothing, it closes the device to new
// things unless something is open.
func (d *Device) nextAtClose() (f func() error, ends bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := len(d.atClose); n > 0 {
		f, d.atClose = d.atClose[n-1], d.atClose[:n-1]
		return f, false, nil
	}
	if d.closed {
		return nil, false, nil
	}
	err = d.objects.busy("device "+d.name, nil)
	d.closed = err == nil
	return nil, d.closed, err
}

// AtClose has Close call f before it looks whether something on the device is still open: for what
// another package keeps on a device for as long as that is there, as roce/rdmacm keeps queue pair
// 1. f may close things of the device, but must not call Close, which waits for it. If it returns
// an error the device stays open, Close returns the error, and a later Close calls f again;
// otherwise f is called once. The last f comes first. ErrClosed.
func (d *Device) AtClose(f func() error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return d.fail("AtClose", ErrClosed)
	}
	d.atClose = append(d.atClose, f)
	return nil
}

// checkOwn is an error if something that was made on a device is given to another.
func (d *Device) checkOwn(what string, of *Device) error {
	if of == d {
		return nil
	}
	return fmt.Errorf("%w: the %s is of device %s", ErrInvalid, what, of.name)
}
