package mr

import (
	"errors"
	"testing"
)

const testQPN = 17

// room is a region of 256 bytes and a window of the same domain.
type room struct {
	t    *testing.T
	tab  *Table
	pd   PD
	r    *Region
	base uint64
	w    *Window
}

func newRoom(t *testing.T, typ WindowType) *room {
	tab, pd := newTestTable(t)
	buf := make([]byte, 256)
	w, err := tab.AllocWindow(pd, typ)
	if err != nil {
		t.Fatal(err)
	}
	return &room{t, tab, pd, mustRegister(t, tab, pd, buf, AddrOf(buf), LocalWrite|MWBind), AddrOf(buf), w}
}

func (x *room) remote(qpn, key uint32, va uint64, n uint32, need Access, want Status) {
	x.t.Helper()
	if _, s := x.tab.Remote(x.pd, qpn, key, va, n, need); s != want {
		x.t.Errorf("Remote(qpn %d, %#x, %d bytes, %v) = %v, want %v", qpn, key, n, need, s, want)
	}
}

func (x *room) bind(qpn, old, key uint32, addr, n uint64, a Access, want Status) {
	x.t.Helper()
	if s := x.tab.BindWindow(x.pd, &Bind{x.w.Type(), qpn, old, key, x.r.LKey(), addr, n, a, 0}); s != want {
		x.t.Fatalf("BindWindow(qpn %d, %#x, %#x, %d bytes, %v) = %v, want %v", qpn, old, key, n, a, s, want)
	}
}

// A window is free, bound, and free again; what can be done with it then is up to its state.
func TestWindowIsBoundAndInvalidated(t *testing.T) {
	x := newRoom(t, Window2)
	tab, pd, r, base, w, remote := x.tab, x.pd, x.r, x.base, x.w, x.remote
	first := w.RKey()
	remote(testQPN, first, base, 1, RemoteRead, BadState) // free
	key := IncRKey(first)
	x.bind(testQPN, first, key, base+64, 64, RemoteWrite|RemoteRead, OK)
	if w.RKey() != key || !w.Bound() {
		t.Fatalf("bound window has key %#x, want %#x", w.RKey(), key)
	}
	remote(testQPN, first, base+64, 1, RemoteRead, BadKey) // the key before the bind
	// The region itself grants no remote right.
	remote(testQPN, key, base+64, 64, RemoteWrite, OK)
	if tab.MappingOf(key) != tab.MappingOf(r.LKey()) {
		t.Error("the window's memory is not the region's")
	}
	// This is inside the region, but outside the window.
	remote(testQPN, key, base+63, 1, RemoteRead, BadRange)
	remote(testQPN, key, base+128, 1, RemoteRead, BadRange)
	remote(testQPN, key, base+64, 8, RemoteAtomic, BadAccess)    // right not granted
	remote(testQPN+1, key, base+64, 1, RemoteRead, BadAccess)    // 2B: another QP
	remote(testQPN, r.RKey(), base+64, 1, RemoteRead, BadAccess) // by the region's key
	if _, s := tab.Local(pd, key, base+64, 1, 0); s != BadKey {
		t.Errorf("local use of a window: %v", s)
	}
	x.bind(testQPN, key, IncRKey(key), base, 8, 0, BadState) // it is bound
	if err := tab.Deregister(r); !errors.Is(err, ErrBusy) {
		t.Errorf("Deregister with a window bound: %v", err)
	}

	for _, c := range []struct {
		pd   PD
		qpn  uint32
		key  uint32
		want Status
	}{
		{pd, testQPN, IncRKey(key), BadKey},
		{pd + 1, testQPN, key, BadPD},
		{pd, testQPN + 1, key, BadAccess},
		{pd, testQPN, r.RKey(), BadState}, // a user region can not be invalidated
		{pd, testQPN, key, OK},
		{pd, testQPN, key, OK}, // free stays free
	} {
		if s := tab.Invalidate(c.pd, c.qpn, c.key); s != c.want {
			t.Errorf("Invalidate(%d, %d, %#x) = %v, want %v", c.pd, c.qpn, c.key, s, c.want)
		}
	}
	remote(testQPN, key, base+64, 1, RemoteRead, BadState)
	if w.Bound() {
		t.Error("invalidated window says it is bound")
	}
}

// A window that was bound and invalidated is bound again, for another QP, and taken away with the
// binding in place.
func TestBoundWindowIsTakenAway(t *testing.T) {
	x := newRoom(t, Window2)
	key := IncRKey(x.w.RKey())
	x.bind(testQPN, x.w.RKey(), key, x.base+64, 64, RemoteRead, OK)
	if s := x.tab.Invalidate(x.pd, testQPN, key); s != OK {
		t.Fatal(s)
	}
	x.bind(testQPN+1, key, IncRKey(key), x.base, 8, RemoteRead, OK)
	x.remote(testQPN+1, IncRKey(key), x.base, 8, RemoteRead, OK)
	if err := x.tab.DeallocWindow(x.w); err != nil {
		t.Fatal(err)
	}
	x.remote(testQPN+1, IncRKey(key), x.base, 8, RemoteRead, BadKey)
	if err := x.tab.DeallocWindow(x.w); !errors.Is(err, ErrInvalid) {
		t.Errorf("second DeallocWindow: %v", err)
	}
	if err := errors.Join(x.tab.Deregister(x.r), x.tab.FreePD(x.pd)); err != nil {
		t.Error(err)
	}
}

// Every rule of section 7.5 about binding, one row each.
func TestBindRules(t *testing.T) {
	tab, pd := newTestTable(t)
	otherPD, _ := tab.AllocPD()
	buf := make([]byte, 64)
	base := AddrOf(buf)
	good := mustRegister(t, tab, pd, buf, base, LocalWrite|MWBind)
	readOnly := mustRegister(t, tab, pd, buf, base, MWBind)
	noBind := mustRegister(t, tab, pd, buf, base, LocalWrite)
	zero := mustRegister(t, tab, pd, buf, 0, LocalWrite|MWBind|ZeroBased)
	foreign := mustRegister(t, tab, otherPD, buf, base, LocalWrite|MWBind)
	shifted := mustRegister(t, tab, pd, buf, 4, LocalWrite|MWBind)
	w, _ := tab.AllocWindow(pd, Window2)
	other, _ := tab.AllocWindow(pd, Window2)
	rkey := w.RKey()

	for _, c := range []struct {
		name          string
		pd            PD
		rkey, newRKey uint32
		lkey          uint32
		addr, n       uint64
		a             Access
		want          Status
	}{
		{"whole region", pd, rkey, IncRKey(rkey), good.LKey(), base, 64, RemoteWrite | RemoteRead | RemoteAtomic, OK},
		{"same key byte", pd, rkey, rkey, good.LKey(), base, 64, RemoteRead, OK},
		{"read-only region, read", pd, rkey, rkey, readOnly.LKey(), base, 64, RemoteRead, OK},
		{"read-only region, write", pd, rkey, rkey, readOnly.LKey(), base, 64, RemoteWrite, BadAccess},
		{"read-only region, atomic", pd, rkey, rkey, readOnly.LKey(), base, 64, RemoteAtomic, BadAccess},
		{"local right", pd, rkey, rkey, good.LKey(), base, 64, LocalWrite, BadAccess},
		{"region without MWBind", pd, rkey, rkey, noBind.LKey(), base, 64, RemoteRead, BadAccess},
		{"length 0", pd, rkey, rkey, good.LKey(), base, 0, RemoteRead, BadAccess},
		{"one beyond", pd, rkey, rkey, good.LKey(), base, 65, RemoteRead, BadRange},
		{"one before", pd, rkey, rkey, good.LKey(), base - 1, 2, RemoteRead, BadRange},
		{"length wraps", pd, rkey, rkey, good.LKey(), base + 8, ^uint64(0), RemoteRead, BadRange},
		{"zero-based region", pd, rkey, rkey, zero.LKey(), 0, 64, RemoteRead, BadState},
		{"region of another domain", pd, rkey, rkey, foreign.LKey(), base, 64, RemoteRead, BadPD},
		{"QP of another domain", otherPD, rkey, rkey, foreign.LKey(), base, 64, RemoteRead, BadPD},
		{"no such region", pd, rkey, rkey, good.LKey() ^ 1, base, 64, RemoteRead, BadKey},
		{"window as region", pd, rkey, rkey, other.RKey(), base, 64, RemoteRead, BadKey},
		{"region as window", pd, good.RKey(), good.RKey(), good.LKey(), base, 64, RemoteRead, BadKey},
		{"no such window", pd, rkey ^ 1, rkey, good.LKey(), base, 64, RemoteRead, BadKey},
		{"new key of another window", pd, rkey, other.RKey(), good.LKey(), base, 64, RemoteRead, BadKey},
		{"atomic, addresses not aligned as memory", pd, rkey, rkey, shifted.LKey(), 8, 8, RemoteAtomic, Misaligned},
		{"zero-based atomic, not aligned as memory", pd, rkey, rkey, good.LKey(), base + 4, 8, RemoteAtomic | ZeroBased, Misaligned},
		{"zero-based atomic", pd, rkey, rkey, good.LKey(), base + 8, 8, RemoteAtomic | ZeroBased, OK},
	} {
		s := tab.BindWindow(c.pd, &Bind{Window2, testQPN, c.rkey, c.newRKey, c.lkey, c.addr, c.n, c.a, 0})
		if s != c.want {
			t.Errorf("%s: %v, want %v", c.name, s, c.want)
		}
		if s == OK { // back to the start: free, with the first key
			free(t, tab, pd, c.newRKey)
			if rkey != c.newRKey {
				tab.BindWindow(pd, &Bind{Window2, testQPN, c.newRKey, rkey, good.LKey(), base, 1, 0, 0})
				free(t, tab, pd, rkey)
			}
		}
	}
}

func free(t *testing.T, tab *Table, pd PD, rkey uint32) {
	t.Helper()
	if s := tab.Invalidate(pd, testQPN, rkey); s != OK {
		t.Fatal(s)
	}
}

func TestZeroBasedWindow(t *testing.T) {
	tab, pd := newTestTable(t)
	buf := make([]byte, 64)
	r := mustRegister(t, tab, pd, buf, AddrOf(buf), LocalWrite|MWBind)
	w, _ := tab.AllocWindow(pd, Window2)
	if s := tab.BindWindow(pd, &Bind{Window2, testQPN, w.RKey(), w.RKey(), r.LKey(), AddrOf(buf) + 16, 8, RemoteWrite | ZeroBased,
		0}); s != OK {
		t.Fatal(s)
	}
	span, s := tab.Remote(pd, testQPN, w.RKey(), 2, 6, RemoteWrite)
	if s != OK {
		t.Fatal(s)
	}
	span.Write([]byte{1, 2, 3, 4, 5, 6}, 0)
	if buf[17] != 0 || buf[18] != 1 || buf[23] != 6 || buf[24] != 0 {
		t.Fatalf("written at the wrong place: %v", buf[16:32])
	}
}

// A window of type 1 is for every QP of its domain, is bound again while it is bound, unbound by a
// bind of nothing, and invalidated by nobody.
func TestWindowOfType1(t *testing.T) {
	x := newRoom(t, Window1)
	tab, pd, base, w, remote := x.tab, x.pd, x.base, x.w, x.remote
	first := w.RKey()
	remote(testQPN, first, base, 1, RemoteRead, BadState)
	key := IncRKey(first)
	x.bind(testQPN, first, key, base+64, 64, RemoteRead, OK)
	remote(testQPN, key, base+64, 64, RemoteRead, OK)
	remote(testQPN+1, key, base+64, 64, RemoteRead, OK)
	if _, s := tab.Remote(pd+1, testQPN, key, base+64, 1, RemoteRead); s != BadPD {
		t.Errorf("from another domain: %v", s)
	}
	if s := tab.Invalidate(pd, testQPN, key); s != BadState {
		t.Errorf("Invalidate = %v, want %v", s, BadState)
	}
	span, _ := tab.Remote(pd, testQPN, key, base+64, 64, RemoteRead) // by another lane
	if !span.Still() {
		t.Error("the window has not been bound elsewhere yet")
	}
	// Another QP binds it elsewhere, and knows an older key.
	again := IncRKey(key)
	x.bind(testQPN+1, first, again, base, 8, RemoteWrite, OK)
	if span.Still() {
		t.Error("what is read now was not given to the peer")
	}
	remote(testQPN, key, base+64, 1, RemoteRead, BadKey)
	remote(testQPN, again, base, 8, RemoteWrite, OK)
	if err := tab.Deregister(x.r); !errors.Is(err, ErrBusy) {
		t.Errorf("Deregister with a window bound: %v", err)
	}
	last := IncRKey(again)
	x.bind(testQPN, again, last, 0, 0, 0, OK)
	remote(testQPN, again, base, 8, RemoteWrite, BadKey)
	remote(testQPN, last, base, 8, RemoteWrite, BadState)
	if w.Bound() || w.RKey() != last {
		t.Errorf("key %#x, bound %v", w.RKey(), w.Bound())
	}
	x.bind(testQPN, last, last^0x100, base, 8, RemoteWrite, BadKey)
	x.bind(testQPN, last^0x100, last, base, 8, RemoteWrite, BadKey)
	x.bind(testQPN, last, last, base, 8, RemoteWrite|ZeroBased, BadAccess)
	if s := tab.BindWindow(pd, &Bind{Window2, testQPN, last, key, x.r.LKey(), base, 8, 0, 0}); s != BadState {
		t.Errorf("bound as type 2: %v", s)
	}
	if err := tab.Deregister(x.r); err != nil {
		t.Error(err)
	}
	if _, err := tab.AllocWindow(pd, 3); !errors.Is(err, ErrInvalid) {
		t.Errorf("type 3: %v", err)
	}
}
