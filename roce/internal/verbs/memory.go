//go:build verbs

package verbs

// What a protection domain holds beside queue pairs: regions, windows and address handles.
//
// A post reads windows, regions and address handles under the send lock of its queue pair. Whoever
// destroys one first makes it impossible to find, then waits until every queue pair of the domain
// has been out of its lock once (quiesce).

/*
#include "glue.h"
*/
import "C"

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/roce/internal/pin"
)

// PD is a protection domain.
type PD struct {
	dev *Device
	pd  *C.struct_ibv_pd

	mu      sync.Mutex
	queues  map[*QP]struct{}
	regions map[uint32]*MR // by lkey
	windows map[uint32]*MW // by the part of the rkey that never changes
}

// AllocPD makes a protection domain.
func (d *Device) AllocPD() (*PD, error) {
	pd, errno := C.ibv_alloc_pd(d.context)
	if pd == nil {
		return nil, Refused("ibv_alloc_pd", errno)
	}
	return &PD{dev: d, pd: pd, queues: map[*QP]struct{}{}, regions: map[uint32]*MR{}, windows: map[uint32]*MW{}}, nil
}

// Close frees the domain.
func (p *PD) Close() error { return answered("ibv_dealloc_pd", int(C.ibv_dealloc_pd(p.pd))) }

// quiesce waits until no post is under way that began before.
func (p *PD) quiesce() {
	p.mu.Lock()
	queues := make([]*QP, 0, len(p.queues))
	for q := range p.queues {
		queues = append(queues, q)
	}
	p.mu.Unlock()
	for _, q := range queues {
		q.send.mu.Lock()
		q.send.mu.Unlock()
	}
}

// MR is a memory region.
type MR struct {
	mr   *C.struct_ibv_mr
	null bool

	mu   sync.Mutex // calls that change it
	pd   *PD
	buf  []byte
	pins *runtime.Pinner
	now  atomic.Pointer[keys]
}

// keys are what a region goes by.
type keys struct {
	lkey, rkey uint32
	iova       uint64
}

// registered are all regions of the process. The device writes into their memory whether or not the
// application still knows of it, so it must not be collected.
var registered sync.Map // of *MR

// pinned keeps Go's memory where it is, until the pins are undone; other memory is left alone.
func pinned(buf []byte) *runtime.Pinner {
	pins := new(runtime.Pinner)
	if len(buf) > 0 {
		pins.Pin(unsafe.SliceData(buf))
	}
	return pins
}

// checkAccess holds rights against what the kernel wants.
func checkAccess(access mr.Access) error {
	if access&(mr.RemoteWrite|mr.RemoteAtomic) != 0 && access&mr.LocalWrite == 0 {
		return invalid("access %v: RemoteWrite and RemoteAtomic need LocalWrite", access)
	}
	return nil
}

// RegMR registers buf under the address iova, which must lie as far into a page as buf does.
func (p *PD) RegMR(buf []byte, iova uint64, access mr.Access) (*MR, error) {
	at, page := mr.AddrOf(buf), uint64(os.Getpagesize())
	switch {
	case len(buf) == 0:
		return nil, unsupported("a region without bytes, on a device of the kernel")
	case iova%page != at%page:
		return nil, unsupported("address 0x%x for memory at 0x%x: the kernel wants both equally far into a "+
			"page of %d bytes", iova, at, page)
	}
	return p.register(buf, unsafe.Pointer(unsafe.SliceData(buf)), C.size_t(len(buf)), iova, access)
}

// RegAll registers the address space of the process.
func (p *PD) RegAll(access mr.Access) (*MR, error) {
	const all = ^C.size_t(0)
	return p.register(nil, nil, all, 0, access)
}

// AllocNullMR makes a region where nothing is. ErrUnsupported if the driver has none.
func (p *PD) AllocNullMR() (*MR, error) {
	ibv, errno := C.ibv_alloc_null_mr(p.pd)
	if ibv == nil {
		return nil, Refused("ibv_alloc_null_mr", errno)
	}
	m := &MR{mr: ibv, null: true, pd: p, pins: pinned(nil)}
	m.enlist(0)
	return m, nil
}

func (p *PD) register(buf []byte, start unsafe.Pointer, length C.size_t, iova uint64, access mr.Access) (*MR, error) {
	if err := checkAccess(access); err != nil {
		return nil, err
	}
	m := &MR{pd: p, buf: buf, pins: pinned(buf)}
	// The address says by itself where the region begins.
	flags := C.uint(access &^ mr.ZeroBased)
	ibv, errno := C.goroce_reg_mr(p.pd, start, length, C.uint64_t(iova), flags)
	if ibv == nil {
		m.pins.Unpin()
		err := Refused("ibv_reg_mr_iova", errno)
		if errors.Is(err, qp.ErrLimit) {
			err = fmt.Errorf("%w: %d bytes are pinned (%s)", err, len(buf), pin.Limit())
		}
		return nil, err
	}
	m.mr = ibv
	registered.Store(m, nil)
	m.enlist(iova)
	return m, nil
}

// enlist makes the region one that binds find, by its present keys.
func (m *MR) enlist(iova uint64) {
	m.now.Store(&keys{uint32(m.mr.lkey), uint32(m.mr.rkey), iova})
	m.pd.mu.Lock()
	m.pd.regions[m.LKey()] = m
	m.pd.mu.Unlock()
}

// strike undoes it, and waits until no post is under way that has found it.
func (m *MR) strike() {
	m.pd.mu.Lock()
	delete(m.pd.regions, m.LKey())
	m.pd.mu.Unlock()
	m.pd.quiesce()
}

// LKey is the key for local elements.
func (m *MR) LKey() uint32 { return m.now.Load().lkey }

// RKey is the key for peers.
func (m *MR) RKey() uint32 { return m.now.Load().rkey }

// IOVA is the address that keys use for the first byte.
func (m *MR) IOVA() uint64 { return m.now.Load().iova }

// Rereg changes what c names; pd, buf and iova, and access mean something only then. Keys then use
// the addresses of buf.
func (m *MR) Rereg(c mr.Change, pd *PD, buf []byte, iova uint64, access mr.Access) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	moves := c&mr.ChangeTranslation != 0
	switch {
	case m.null:
		return invalid("a null region has neither memory nor rights to change")
	case moves && len(buf) == 0:
		return unsupported("a region without bytes, on a device of the kernel")
	case moves && iova != mr.AddrOf(buf) || c&mr.ChangeAccess != 0 && access&mr.ZeroBased != 0:
		return unsupported("to register again at addresses that are not those of the memory, on a device of the kernel")
	}
	if err := checkAccess(access); c&mr.ChangeAccess != 0 && err != nil {
		return err
	}
	if c&mr.ChangeAccess == 0 {
		access = 0 // the library refuses what no flag names
	}
	pins := m.pins
	if moves {
		pins = pinned(buf)
	} else {
		buf = nil
	}
	m.strike()
	result, errno := C.ibv_rereg_mr(m.mr, C.int(c), pd.pd, unsafe.Pointer(unsafe.SliceData(buf)), C.size_t(len(buf)),
		C.int(access))
	if result != 0 && result != C.IBV_REREG_MR_ERR_DO_FORK_OLD { // with that it is done
		if moves {
			pins.Unpin()
		}
		m.enlist(m.IOVA())
		return reregRefused(int(result), errno)
	}
	if moves {
		m.pins.Unpin()
		m.pins, m.buf = pins, buf
	} else {
		iova = m.IOVA()
	}
	m.pd = pd
	m.enlist(iova)
	return nil
}

// reregRefused says what has become of a region that was not registered again.
func reregRefused(result int, errno error) error {
	err := Refused("ibv_rereg_mr", errno)
	if lost := result == C.IBV_REREG_MR_ERR_CMD || result == C.IBV_REREG_MR_ERR_CMD_AND_DO_FORK_NEW; lost &&
		!errors.Is(err, errors.ErrUnsupported) {
		return fmt.Errorf("%w; the region may be lost: close it", err)
	}
	return err
}

// Close deregisters the region. The error is ErrBusy while windows are bound to it.
func (m *MR) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.strike()
	if err := answeredAs("ibv_dereg_mr", int(C.ibv_dereg_mr(m.mr)), boundErrnos); err != nil {
		m.enlist(m.IOVA())
		return err
	}
	m.pins.Unpin()
	registered.Delete(m)
	return nil
}

// boundErrnos are how drivers say that windows are bound to a region.
var boundErrnos = map[syscall.Errno]error{syscall.EINVAL: qp.ErrBusy}

// MW is a memory window.
type MW struct {
	pd    *PD
	typ   mr.WindowType
	mw    *C.struct_ibv_mw // its rkey is written under the send lock of the queue pair that binds
	binds sync.Mutex       // of type 1, which may come through several queue pairs
	last  *MR              // type 1: of the last bind; under binds
	rkey  atomic.Uint32
	bound atomic.Bool
}

// windowKey is the part of a window's rkey that never changes.
func windowKey(rkey uint32) uint32 { return rkey >> 8 }

// AllocMW makes a window. ErrUnsupported if the device has none.
func (p *PD) AllocMW(typ mr.WindowType) (*MW, error) {
	if p.dev.attr.max_mw == 0 {
		return nil, unsupported("%s has no memory windows", p.dev.device)
	}
	mw, errno := C.goroce_alloc_mw(p.pd, C.int(typ))
	if mw == nil {
		return nil, Refused("ibv_alloc_mw", errno)
	}
	w := &MW{pd: p, typ: typ, mw: mw}
	w.rkey.Store(uint32(mw.rkey))
	p.mu.Lock()
	p.windows[windowKey(uint32(mw.rkey))] = w
	p.mu.Unlock()
	return w, nil
}

// RKey is the key of the last bind that was posted, or the one that the window was born with.
func (w *MW) RKey() uint32 { return w.rkey.Load() }

// Bound tells whether the last that was posted for the window was a bind. Devices do not say what
// has become of it, nor what peers have invalidated.
func (w *MW) Bound() bool { return w.bound.Load() }

// Bind posts a bind of a window of type 1 to a queue pair of its domain. The library chooses the
// key.
func (w *MW) Bind(q *QP, wrid uint64, flags qp.SendFlags, b qp.BindInfo) error {
	if w.typ != mr.Window1 {
		return invalid("the window is of type 2, which WRBindMW binds")
	}
	w.binds.Lock()
	defer w.binds.Unlock()
	q.send.mu.Lock()
	defer q.send.mu.Unlock()
	if q.closed {
		return closed("QP")
	}
	if state := qp.QPState(q.state.Load()); state < qp.StateRTS {
		return fmt.Errorf("%w: BindMW needs RTS, QP 0x%06x is in %v", qp.ErrState, q.qpn, state)
	}
	bind := C.struct_ibv_mw_bind{wr_id: C.uint64_t(wrid), send_flags: C.uint(flags & allFlags)}
	bind.bind_info.addr, bind.bind_info.length = C.uint64_t(b.Addr), C.uint64_t(b.Length)
	bind.bind_info.mw_access_flags = C.uint(b.Access)
	m := w.last // librxe of rdma-core 44 looks into the region also where there are no bytes of it
	if b.Length > 0 {
		if m = w.pd.region(b.LKey); m == nil {
			return invalid("region 0x%08x: it is closed, or not of the PD", b.LKey)
		}
	}
	if m == nil || w.pd.region(m.LKey()) != m {
		return unsupported("unbinding a window that is bound to nothing, on a device of the kernel")
	}
	bind.bind_info.mr = m.mr
	if err := q.full("ibv_bind_mw", int(C.goroce_bind_mw(q.qp, w.mw, &bind)), q.cap.MaxSendWR); err != nil {
		return err
	}
	w.rkey.Store(uint32(w.mw.rkey))
	w.bound.Store(b.Length > 0)
	w.last = m
	return nil
}

// Close frees the window.
func (w *MW) Close() error {
	p, key := w.pd, windowKey(w.RKey())
	p.mu.Lock()
	delete(p.windows, key)
	p.mu.Unlock()
	p.quiesce()
	err := answered("ibv_dealloc_mw", int(C.goroce_dealloc_mw(w.mw)))
	if err != nil {
		p.mu.Lock()
		p.windows[key] = w
		p.mu.Unlock()
	}
	return err
}

// window and region find what a bind names.
func (p *PD) window(rkey uint32) *MW {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.windows[windowKey(rkey)]
}

func (p *PD) region(lkey uint32) *MR {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.regions[lkey]
}

// AH is what a qp.AH of such a device carries.
type AH struct {
	pd   *PD
	ah   *C.struct_ibv_ah
	dead atomic.Bool
}

// CreateAH makes an address handle. The driver may have to find the neighbour's Ethernet address,
// which takes a second or two if there is none; ctx is looked at before that only.
func (p *PD) CreateAH(ctx context.Context, attr qp.AHAttr) (*qp.AH, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var a C.struct_ibv_ah_attr
	if err := p.dev.writeAV(&a, &attr); err != nil {
		return nil, err
	}
	ah, errno := C.ibv_create_ah(p.pd, &a)
	if ah == nil {
		return nil, Refused("ibv_create_ah", errno)
	}
	return qp.ForeignAH(attr, &AH{pd: p, ah: ah}), nil
}

// DestroyAH ends an address handle.
func (p *PD) DestroyAH(handle *qp.AH) error {
	a, ok := handle.Foreign().(*AH)
	if !ok || a.pd != p || a.dead.Swap(true) {
		return invalid("the address handle is not of this PD, or destroyed")
	}
	p.quiesce()
	return answered("ibv_destroy_ah", int(C.ibv_destroy_ah(a.ah)))
}

// writeAV writes an address vector as the library wants it.
func (d *Device) writeAV(to *C.struct_ibv_ah_attr, a *qp.AHAttr) error {
	switch {
	case int(a.SGIDIndex) >= len(d.rows):
		return invalid("sgid_index %d, the device has %d GIDs", a.SGIDIndex, len(d.rows))
	case a.FlowLabel >= 1<<20:
		return invalid("flow label 0x%x is wider than 20 bits", a.FlowLabel)
	case a.DGID.IsZero():
		return invalid("no destination GID: RoCE needs the peer's address (a GRH)")
	}
	from := &d.rows[a.SGIDIndex]
	if from.gid.Is4() != a.DGID.Is4() {
		return invalid("destination %v and source GID[%d] %v are of different IP versions",
			a.DGID, a.SGIDIndex, from.gid)
	}
	hops := a.HopLimit
	if hops == 0 {
		hops = 64
	}
	to.is_global, to.port_num, to.sl = 1, C.uint8_t(d.port), C.uint8_t(a.SL)
	to.grh.dgid = C.union_ibv_gid(a.DGID)
	to.grh.flow_label, to.grh.sgid_index = C.uint32_t(a.FlowLabel), C.uint8_t(from.index)
	to.grh.hop_limit, to.grh.traffic_class = C.uint8_t(hops), C.uint8_t(a.TrafficClass)
	return nil
}

// readAV reads one back.
func (d *Device) readAV(a *C.struct_ibv_ah_attr) qp.AHAttr {
	return qp.AHAttr{DGID: [16]byte(a.grh.dgid), SGIDIndex: d.rowOf(uint8(a.grh.sgid_index)),
		TrafficClass: uint8(a.grh.traffic_class), HopLimit: uint8(a.grh.hop_limit), FlowLabel: uint32(a.grh.flow_label),
		SL: uint8(a.sl)}
}
