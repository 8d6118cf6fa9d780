package mr

import "testing"

// TestWindowBindsOutOfOrder: binds of type 1 that come in another order than they were asked for,
// through several QPs, leave the window as the latest has it. So the key that the application knows
// last is the one that works.
func TestWindowBindsOutOfOrder(t *testing.T) {
	x := newRoom(t, Window1)
	first := x.w.RKey()
	early, late := IncRKey(first), IncRKey(IncRKey(first))
	bind := func(serial, key uint32, addr, n uint64, want Status) {
		t.Helper()
		if s := x.tab.BindWindow(x.pd, &Bind{Window1, testQPN, first, key, x.r.LKey(), addr, n, RemoteRead, serial}); s != want {
			t.Errorf("bind %d: %v, want %v", serial, s, want)
		}
	}
	bind(3, late, x.base+64, 64, OK)
	bind(2, early, x.base, 64, OK)
	bind(1, early, 0, 0, OK)              // unbinds
	bind(1, early, x.base, 1e6, BadRange) // what is wrong with it is said all the same
	if x.w.RKey() != late {
		t.Errorf("the window has key %#x, want %#x", x.w.RKey(), late)
	}
	x.remote(testQPN, late, x.base+64, 64, RemoteRead, OK)
	x.remote(testQPN, early, x.base, 64, RemoteRead, BadKey)
	bind(4, first, 0, 0, OK)
	x.remote(testQPN, first, x.base+64, 64, RemoteRead, BadState)
	if err := x.tab.Deregister(x.r); err != nil {
		t.Error(err)
	}
}
