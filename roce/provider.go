package roce

// The seam between the verbs and the kinds of devices below them. There are two: the software RNIC
// of this module (internal/soft), and one that a build adds by a tag: the devices of the kernel
// (hw_verbs.go, internal/verbs). hw_none.go stands for none.
//
// What is not called per message goes through the interfaces of this file: one for a device, one
// for each thing that is made on it. Posting and polling do not: QP, SRQ and CQ know the concrete
// type of each kind and branch. An interface would let the slices of work requests escape, which
// costs an allocation and some 30 ns a post (measured with Go 1.26).
//
// Providers check what only they can know, and return plain errors. Above the seam are what all
// kinds have in common: who may be closed when (objects.go), what belongs to what, the call and the
// device in the text of an error.

import (
	"context"
	"errors"
	"time"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/roce/internal/soft"
	"github.com/goroce/goroce/transport"
)

// provider is an open device.
type provider interface {
	attr() DeviceAttr
	portAttr() PortAttr
	portInfo() transport.Info
	gids() []GID
	// gidLink is the index of the interface that has the address of a row; 0: not known
	gidLink(row int) int
	stats() []Stats // of each lane
	records(dst []qp.Record) []qp.Record
	// rawClock reads the clock that completions are stamped with
	rawClock() (uint64, error)
	flush()

	allocPD() (pdProvider, error)
	// openXRCD makes what x stands for.
	openXRCD(x *XRCD) (xrcdProvider, error)
	// createChannel makes what ch stands for, if there is more to it than its queue of events.
	createChannel(ch *CompChannel)
	// createCQ makes what c stands for. notify is told of what ReqNotify asked for; nil if there is
	// no channel.
	createCQ(c *CQ, attr *CQInitAttr, notify func()) (cqProvider, error)
	close() error
}

// pdProvider is a protection domain.
type pdProvider interface {
	regMR(buf []byte, iova uint64, access Access) (mrProvider, error)
	// regAll registers the whole address space.
	regAll(access Access) (mrProvider, error)
	// allocNullMR makes a region where nothing is.
	allocNullMR() (mrProvider, error)
	allocMW(typ MWType) (mwProvider, error)
	createAH(ctx context.Context, attr AHAttr) (*AH, error)
	destroyAH(ah *AH) error
	// createQP makes what q stands for.
	createQP(q *QP, attr *QPInitAttr) (qpProvider, error)
	// createSRQ makes what s stands for.
	createSRQ(s *SRQ, attr *SRQInitAttr) (srqProvider, error)
	close() error
}

// mrProvider is a memory region.
type mrProvider interface {
	LKey() uint32
	RKey() uint32
	IOVA() uint64
	// rereg changes what flags name; of the others only the pd is sure to be one.
	rereg(flags ReregFlags, pd pdProvider, buf []byte, iova uint64, access Access) error
	Close() error
}

// mwProvider is a memory window.
type mwProvider interface {
	RKey() uint32
	Bound() bool
	// bind posts a bind of a window of type 1 to q. The keys in b are its own affair.
	bind(q *QP, wrid uint64, flags SendFlags, b BindInfo) error
	Close() error
}

// cqProvider is a completion queue, but for polling it.
type cqProvider interface {
	Cap() int
	Len() int
	ReqNotify(solicitedOnly bool) error
	Wait(ctx context.Context, wcs []WC) (int, error)
	Resize(cqe int) error
	Moderate(count int, period time.Duration) error
	Close() error
}

// qpProvider is a queue pair, but for posting to it.
type qpProvider interface {
	QPN() uint32
	Type() QPType
	State() QPState
	StartPSN() PSN
	Lane() int
	Modify(ctx context.Context, attr *QPAttr, mask AttrMask) error
	Query() (QPAttr, error)
	AttachMcast(group GID) error
	DetachMcast(group GID) error
	Close() error
}

// xrcdProvider is an XRC domain.
type xrcdProvider interface {
	Close() error
}

// srqProvider is a shared receive queue, but for posting to it.
type srqProvider interface {
	Number() uint32
	Modify(attr SRQAttr, mask SRQAttrMask) error
	Query() (SRQAttr, error)
	Close() error
}

// openProvider opens the kind of device that a name asks for.
func openProvider(d *Device, cfg *Config) (provider, error) {
	if len(cfg.Ports) == 0 && isHW(d.name) {
		if err := d.faults.onlyVerbs(); err != nil {
			return nil, err
		}
		return openHW(d, cfg)
	}
	where, start, ok := "", false, false
	if len(cfg.Ports) == 0 {
		where, start, ok = atHub(d.name, cfg)
	}
	var noHub error
	if ok {
		p, err := openHub(d, where, start, cfg)
		if err == nil || start {
			return p, err
		}
		noHub = err // it may have ended just then, and the address be free
	}
	s, err := d.openSoft(cfg)
	if err != nil {
		return nil, errors.Join(noHub, err)
	}
	return softDevice{s}, nil
}

// openSoft opens the software RNIC of a device.
func (d *Device) openSoft(cfg *Config) (*soft.Device, error) {
	return soft.Open(d.name, soft.Config{Wrap: d.faults.wrap(cfg.Wrap), Purpose: d.faults.purpose(),
		Records: cfg.Records, Ports: cfg.Ports, Dealt: cfg.Dealt, Foreign: cfg.Foreign, Lanes: cfg.Lanes,
		Transport: cfg.Transport, Window: cfg.Window, Congestion: cfg.Congestion, NoECN: cfg.NoECN,
		PinMemory: cfg.PinMemory, NoBackground: cfg.NoBackground, Event: d.softEvent})
}
