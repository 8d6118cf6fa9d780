package mr

// Memory windows: a second key to a part of a region, made and taken back through a queue pair.
//
//	type 2B   AllocWindow ──▶ free ── BindWindow (BIND_MW) ──▶ bound
//	                          ▲                                  │
//	                          ├── Invalidate (LOCAL_INV, SEND_WITH_INV)
//	                          └── InvalidateAll (the end of a life of its QP)
//
//	type 1    AllocWindow ──▶ free ── BindWindow (ibv_bind_mw) ──▶ bound ──┐ BindWindow:
//	                          ▲                                     │ ▲    │ elsewhere
//	                          └─────── BindWindow of 0 bytes ───────┘ └────┘
//
// A window's index stays the same for life; the low byte of its rkey changes with each bind, so
// that a key handed out earlier does not fit the next binding. With type 2B the consumer chooses
// it, and only the QP that bound the window can use and invalidate it. As a QP lives on one lane,
// an invalidation can not race with an access through the same window. A window of type 1 is for
// all QPs of its domain: an access by another lane that was found right just before the window was
// bound elsewhere may end just after. It is still to memory that is registered, and what it has
// read does not leave (Span.Still).

import (
	"fmt"
	"sync/atomic"
)

// WindowType is a window's type (ibv_mw_type).
type WindowType uint8

// The types of windows. 2 is what the architecture calls 2B.
const (
	Window1 WindowType = 1
	Window2 WindowType = 2
)

// Window is a memory window. Its methods may be called from any goroutine.
type Window struct {
	typ    WindowType
	entry  atomic.Pointer[entry] // what its slot in the table points to
	region *Region               // what it is bound to, under Table.mu
	serial uint32                // of the bind that did that, under Table.mu
	gone   bool                  // deallocated, under Table.mu

	next, last *Window // in the list of Table.opened, under Table.mu
}

// RKey is the present key: the one from allocation until the first bind, then that of the last
// bind.
func (w *Window) RKey() uint32 { return w.entry.Load().key }

// PD is the protection domain of the window.
func (w *Window) PD() PD { return w.entry.Load().pd }

// Type is the type that the window was allocated with.
func (w *Window) Type() WindowType { return w.typ }

// Bound tells whether the window is bound to a region now.
func (w *Window) Bound() bool { return w.entry.Load().kind == kindBoundWindow }

// IncRKey returns rkey with its low byte counted up: a key of the same window (ibv_inc_rkey).
func IncRKey(rkey uint32) uint32 { return rkey&^0xff | (rkey+1)&0xff }

// AllocWindow makes a free window. The error is ErrInvalid if pd does not exist or typ is none,
// ErrFull when MaxWindows exist.
func (t *Table) AllocWindow(pd PD, typ WindowType) (*Window, error) {
	if typ != Window1 && typ != Window2 {
		return nil, fmt.Errorf("mr: allocate window of type %d: there are 1 and 2: %w", typ, ErrInvalid)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	use, err := t.use(pd)
	if err != nil {
		return nil, fmt.Errorf("mr: allocate window: %w", err)
	}
	if t.windows >= MaxWindows {
		return nil, fmt.Errorf("mr: allocate window: %d windows exist, the most a table holds: %w", t.windows, ErrFull)
	}
	w := &Window{typ: typ}
	e := &entry{pd: pd, kind: kindFreeWindow, window: w}
	t.insert(e)
	w.entry.Store(e)
	t.windows++
	use.windows++
	return w, nil
}

// DeallocWindow ends the window, bound or not, and returns once no lane can be using it. Like
// Deregister it must not be called from inside a turn. The error is ErrInvalid when it was
// deallocated before.
func (t *Table) DeallocWindow(w *Window) error {
	if err := t.unpublishWindow(w); err != nil {
		return fmt.Errorf("mr: deallocate window %#08x: %w", w.RKey(), err)
	}
	t.quiesce()
	return nil
}

func (t *Table) unpublishWindow(w *Window) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := w.entry.Load()
	if w.gone || t.lookup(e.key) != e {
		return fmt.Errorf("the window is not allocated in this table (any more): %w", ErrInvalid)
	}
	t.remove(e)
	w.entry.Store(&entry{key: e.key, pd: e.pd, kind: kindFreeWindow, window: w})
	t.unbind(w, e)
	w.gone = true
	t.windows--
	t.pds[e.pd].windows--
	return nil
}

// Bind is what a bind asks for (ibv_mw_bind_info and what goes with it).
type Bind struct {
	Type   WindowType // that the window must be of
	QPN    uint32     // through which it is bound
	Key    uint32     // the window's present rkey; of type 1 the upper 24 bits count
	NewKey uint32     // the rkey that it gets: the same upper 24 bits
	LKey   uint32     // the region
	Addr   uint64     // the first byte, in the region's address space
	Length uint64     // bytes; 0 unbinds type 1
	// RemoteWrite, RemoteRead, RemoteAtomic, FlushGlobal, FlushPersistent, and for type 2 ZeroBased
	Access Access
	// Serial is, of type 1, which of the window's binds it is, in the order in which they were
	// asked for. Through several QPs they may come in another: one that comes after a later one
	// counts as executed just before that, and leaves the window as it is.
	Serial uint32
}

// BindWindow executes a bind of a QP of domain pd: from now on the window opens a part of a region
// under the new key.
//
// BadKey: no such window or region, or NewKey is another window's. BadPD: one of them is of another
// domain. BadState: the window is not of the type, or of type 2 and bound already, or the region is
// zero-based or the whole address space. BadAccess: type 2 and 0 bytes, the region has no MWBind,
// or the window asks for more than the region can give, or for ZeroBased with type 1. BadRange: not
// inside the region. Misaligned: RemoteAtomic, and aligned addresses would not be aligned memory.
// The caller is inside a turn.
func (t *Table) BindWindow(pd PD, b *Bind) Status {
	t.mu.Lock()
	defer t.mu.Unlock()
	old, e := t.lookupWindow(b), t.lookup(b.LKey)
	if s := checkWindowOf(pd, old, b); s != OK {
		return s
	}
	w := old.window
	frees := b.Length == 0 && w.typ == Window1
	if !frees {
		if s := checkBind(pd, e, b); s != OK {
			return s
		}
	}
	if w.typ == Window1 && int32(b.Serial-w.serial) < 0 {
		return OK
	}
	w.serial = b.Serial
	if frees {
		t.unbind(w, old)
		t.republish(w, &entry{key: b.NewKey, pd: pd, kind: kindFreeWindow, window: w})
		return OK
	}
	offset := b.Addr - e.base
	bound := &entry{
		key: b.NewKey, pd: pd, kind: kindBoundWindow, access: b.Access,
		base: b.Addr, mem: e.mem[offset : offset+b.Length : offset+b.Length], mapping: e.mapping, window: w,
	}
	if b.Access&ZeroBased != 0 {
		bound.base = 0
	}
	t.unbind(w, old)
	if w.typ == Window2 {
		bound.qpn = b.QPN
		t.open(w, b.QPN)
	}
	w.region = e.region
	w.region.bindings++
	t.republish(w, bound)
	return OK
}

// lookupWindow finds the window that a bind names. Binds of type 1 through several QPs may come in
// another order than that in which their keys were chosen, so of the key only the part counts that
// never changes.
func (t *Table) lookupWindow(b *Bind) *entry {
	if b.Type == Window1 {
		e := t.slots.Load().slot(b.Key).Load()
		if e == nil || e.key>>8 != b.Key>>8 {
			return nil
		}
		return e
	}
	return t.lookup(b.Key)
}

// checkWindowOf holds the rules of section 7.5 about the window itself, with the compliance
// statements they come from.
func checkWindowOf(pd PD, w *entry, b *Bind) Status {
	switch {
	case w == nil || w.kind == kindRegion || b.NewKey>>8 != w.key>>8:
		return BadKey
	case w.pd != pd: // C10-72
		return BadPD
	case w.window.typ != b.Type:
		return BadState
	case b.Type == Window2 && w.kind != kindFreeWindow:
		return BadState
	}
	return OK
}

// checkBind holds those about the region and the range of it.
func checkBind(pd PD, mr *entry, b *Bind) Status {
	const flush = FlushGlobal | FlushPersistent
	const grantable = RemoteAny | ZeroBased | OptionalAccess
	switch {
	case mr == nil || mr.kind != kindRegion:
		return BadKey
	case mr.pd != pd: // C10-72
		return BadPD
	case mr.access&ZeroBased != 0 || mr.whole:
		return BadState
	case b.Length == 0: // o10-37.2.40: length 0 is how type 1 unbinds
		return BadAccess
	case mr.access&MWBind == 0: // C10-73
		return BadAccess
	case b.Access&^grantable != 0 || b.Access&ZeroBased != 0 && b.Type == Window1:
		return BadAccess
	case b.Access&(RemoteWrite|RemoteAtomic) != 0 && mr.access&LocalWrite == 0: // C10-74
		return BadAccess
	case b.Access&flush&^mr.access != 0: // what a region is made of is not for a window to say
		return BadAccess
	}
	offset, size := b.Addr-mr.base, uint64(len(mr.mem)) // C10-75; see entry.span about overflow
	if offset > size || b.Length > size-offset {
		return BadRange
	}
	if b.Access&RemoteAtomic != 0 && !atomicBase(mr, b.Addr, b.Access) {
		return Misaligned
	}
	return OK
}

// atomicBase tells whether aligned addresses of the window will be aligned memory.
func atomicBase(mr *entry, addr uint64, a Access) bool {
	base := addr
	if a&ZeroBased != 0 {
		base = 0
	}
	return (AddrOf(mr.mem)+addr-mr.base)%8 == base%8
}

// Invalidate executes a LOCAL_INV, or the invalidation of an arrived SEND_WITH_INV, on QP qpn of
// domain pd: the bound window rkey becomes free and its key stops working. A free window stays
// free. Regions made by Register can not be invalidated, nor windows of type 1: BadState. The
// caller is inside a turn.
func (t *Table) Invalidate(pd PD, qpn uint32, rkey uint32) Status {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.lookup(rkey)
	switch {
	case e == nil:
		return BadKey
	case e.pd != pd:
		return BadPD
	case e.kind == kindRegion || e.window.typ == Window1:
		return BadState
	case e.kind == kindFreeWindow:
		return OK
	case e.qpn != qpn:
		return BadAccess
	}
	t.free(e)
	return OK
}

// InvalidateAll does that to each window of type 2 that is bound through QP qpn, whose life ends:
// its next peer, or another QP that gets its number, has not been given their keys. The caller is
// inside a turn of the QP's lane.
func (t *Table) InvalidateAll(qpn uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for w := t.opened[qpn]; w != nil; w = t.opened[qpn] {
		t.free(w.entry.Load())
	}
}

// free makes a bound window a free one, under its key. The caller holds Table.mu.
func (t *Table) free(e *entry) {
	t.unbind(e.window, e)
	t.republish(e.window, &entry{key: e.key, pd: e.pd, kind: kindFreeWindow, window: e.window})
}

// checkWindow is the part of a remote access check that only windows have.
func (e *entry) checkWindow(pd PD, qpn uint32) Status {
	switch {
	case e.pd != pd:
		return BadPD
	case e.kind != kindBoundWindow:
		return BadState
	case e.window.typ == Window1: // for the whole domain
		return OK
	case e.qpn != qpn:
		return BadAccess
	}
	return OK
}

// open lists a window of type 2 with the QP that it was bound through. The caller holds Table.mu.
func (t *Table) open(w *Window, qpn uint32) {
	if w.next = t.opened[qpn]; w.next != nil {
		w.next.last = w
	}
	t.opened[qpn] = w
}

// unbind lets a window go of what it is bound to under e, if it is. The caller holds Table.mu.
func (t *Table) unbind(w *Window, e *entry) {
	if w.region == nil {
		return
	}
	w.region.bindings--
	w.region = nil
	if w.typ == Window1 {
		return
	}
	switch {
	case w.last != nil:
		w.last.next = w.next
	case w.next != nil:
		t.opened[e.qpn] = w.next
	default:
		delete(t.opened, e.qpn)
	}
	if w.next != nil {
		w.next.last = w.last
	}
	w.next, w.last = nil, nil
}

// republish gives a window's slot a new meaning. The index, and with it the slot, stays. The caller
// holds Table.mu.
func (t *Table) republish(w *Window, e *entry) {
	t.slots.Load().slot(e.key).Store(e)
	w.entry.Store(e)
}
