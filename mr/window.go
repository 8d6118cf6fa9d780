package mr

// Memory windows of type 2B: a second key to a part of a region, made and taken back through a
// queue pair.
//
//	AllocWindow ──▶ free ── BindWindow (BIND_MW) ──▶ bound
//	                ▲                                  │
//	                └── Invalidate (LOCAL_INV, SEND_WITH_INV)
//
// A window's index stays the same for life; the low byte of its rkey is chosen by the consumer at
// each bind, so that a key handed out earlier does not fit the next binding. Only the QP that bound
// a window can use and invalidate it. As a QP lives on one lane, an invalidation can not race with
// an access through the same window.

import (
	"fmt"
	"sync/atomic"
)

// Window is a memory window. Its methods may be called from any goroutine.
type Window struct {
	entry  atomic.Pointer[entry] // what its slot in the table points to
	region *Region               // what it is bound to, under Table.mu
	gone   bool                  // deallocated, under Table.mu
}

// RKey is the present key: the one from allocation until the first bind, then that of the last
// bind.
func (w *Window) RKey() uint32 { return w.entry.Load().key }

// PD is the protection domain of the window.
func (w *Window) PD() PD { return w.entry.Load().pd }

// Bound tells whether the window is bound to a region now.
func (w *Window) Bound() bool { return w.entry.Load().kind == kindBoundWindow }

// AllocWindow makes a free window of type 2B. The error is ErrInvalid if pd does not exist, ErrFull
// when MaxWindows exist.
func (t *Table) AllocWindow(pd PD) (*Window, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	use, err := t.use(pd)
	if err != nil {
		return nil, fmt.Errorf("mr: allocate window: %w", err)
	}
	if t.windows >= MaxWindows {
		return nil, fmt.Errorf("mr: allocate window: %d windows exist, the most a table holds: %w", t.windows, ErrFull)
	}
	w := new(Window)
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
	w.unbind()
	w.gone = true
	t.windows--
	t.pds[e.pd].windows--
	return nil
}

// BindWindow executes a BIND_MW work request of QP qpn in domain pd: the free window whose present
// key is rkey opens n bytes at addr of the region lkey with rights a (RemoteWrite, RemoteRead,
// RemoteAtomic, ZeroBased), from now on under newRKey, which may differ from rkey in
// the low byte only.
//
// BadState: the window is bound already, or the region is zero-based. BadAccess: n is 0, the region
// has no MWBind, or the window asks for more than the region can give. The caller is inside a turn.
func (t *Table) BindWindow(pd PD, qpn, rkey, newRKey, lkey uint32, addr, n uint64, a Access) Status {
	t.mu.Lock()
	defer t.mu.Unlock()
	free, e := t.lookup(rkey), t.lookup(lkey)
	if s := checkBind(pd, free, newRKey, e, addr, n, a); s != OK {
		return s
	}
	w, offset := free.window, addr-e.base
	bound := &entry{
		key: newRKey, qpn: qpn, pd: pd, kind: kindBoundWindow, access: a,
		base: addr, mem: e.mem[offset : offset+n : offset+n], window: w,
	}
	if a&ZeroBased != 0 {
		bound.base = 0
	}
	w.region = e.region
	w.region.bindings++
	t.republish(w, bound)
	return OK
}

// checkBind holds the rules of section 7.5, with the compliance statements they come from.
func checkBind(pd PD, w *entry, newRKey uint32, mr *entry, addr, n uint64, a Access) Status {
	const grantable = RemoteWrite | RemoteRead | RemoteAtomic | ZeroBased | OptionalAccess
	switch {
	case w == nil || w.kind == kindRegion || newRKey>>8 != w.key>>8:
		return BadKey
	case mr == nil || mr.kind != kindRegion:
		return BadKey
	case w.pd != pd || mr.pd != pd: // C10-72
		return BadPD
	case w.kind != kindFreeWindow:
		return BadState
	case mr.access&ZeroBased != 0:
		return BadState
	case n == 0: // o10-37.2.40: length 0 is how type 1 unbinds
		return BadAccess
	case mr.access&MWBind == 0: // C10-73
		return BadAccess
	case a&^grantable != 0:
		return BadAccess
	case a&(RemoteWrite|RemoteAtomic) != 0 && mr.access&LocalWrite == 0: // C10-74
		return BadAccess
	}
	offset, size := addr-mr.base, uint64(len(mr.mem)) // C10-75; see entry.span about overflow
	if offset > size || n > size-offset {
		return BadRange
	}
	if a&RemoteAtomic != 0 && !atomicBase(mr, addr, a) {
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
// free. Regions made by Register can not be invalidated: BadState. The caller is inside a turn.
func (t *Table) Invalidate(pd PD, qpn uint32, rkey uint32) Status {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.lookup(rkey)
	switch {
	case e == nil:
		return BadKey
	case e.pd != pd:
		return BadPD
	case e.kind == kindRegion:
		return BadState
	case e.kind == kindFreeWindow:
		return OK
	case e.qpn != qpn:
		return BadAccess
	}
	e.window.unbind()
	t.republish(e.window, &entry{key: e.key, pd: e.pd, kind: kindFreeWindow, window: e.window})
	return OK
}

// checkWindow is the part of a remote access check that only windows have.
func (e *entry) checkWindow(pd PD, qpn uint32) Status {
	switch {
	case e.pd != pd:
		return BadPD
	case e.kind != kindBoundWindow:
		return BadState
	case e.qpn != qpn:
		return BadAccess
	}
	return OK
}

// unbind lets go of the region. The caller holds Table.mu.
func (w *Window) unbind() {
	if w.region != nil {
		w.region.bindings--
		w.region = nil
	}
}

// republish gives a window's slot a new meaning. The index, and with it the slot, stays. The caller
// holds Table.mu.
func (t *Table) republish(w *Window, e *entry) {
	t.slots.Load().slot(e.key).Store(e)
	w.entry.Store(e)
}
