package mr

import (
	"errors"
	"math"
	"runtime"
	"sync/atomic"
	"testing"
)

// TestReregister walks what can be changed, in every combination.
func TestReregister(t *testing.T) {
	for c := ChangeTranslation; c <= allChanges; c++ {
		tab, pd := newTestTable(t)
		other, _ := tab.AllocPD()
		before, after := make([]byte, 64), make([]byte, 128)
		r := mustRegister(t, tab, pd, before, AddrOf(before), LocalWrite|RemoteRead)
		old, mapping := r.LKey(), tab.MappingOf(r.LKey())
		if err := tab.Reregister(r, c, Registration{other, after, AddrOf(after), LocalWrite | RemoteWrite}); err != nil {
			t.Fatalf("%v: %v", c, err)
		}
		mem, domain, right, no := before, pd, RemoteRead, RemoteWrite
		if c&ChangeTranslation != 0 {
			mem = after
		}
		if c&ChangePD != 0 {
			domain = other
		}
		if c&ChangeAccess != 0 {
			right, no = no, right
		}
		if got := r.LKey() == old; got != (c == ChangeAccess) {
			t.Errorf("%v: the key has stayed: %v", c, got)
		}
		if r.PD() != domain || r.Len() != uint64(len(mem)) || r.IOVA() != AddrOf(mem) || r.Access() != LocalWrite|right {
			t.Errorf("%v: PD %d, %d bytes at %#x, %v", c, r.PD(), r.Len(), r.IOVA(), r.Access())
		}
		checkMapping(t, tab, r, mapping, c)
		span, s := tab.Remote(domain, 1, r.RKey(), AddrOf(mem), uint32(len(mem)), right)
		if s != OK || &span.Bytes()[0] != &mem[0] {
			t.Errorf("%v: %v", c, s)
		}
		if _, s := tab.Remote(domain, 1, r.RKey(), AddrOf(mem), 8, no); s != BadAccess {
			t.Errorf("%v, with a right that it has not: %v", c, s)
		}
		if _, s := tab.Remote(pd+other-domain, 1, r.RKey(), AddrOf(mem), 8, right); s != BadPD {
			t.Errorf("%v, from the other domain: %v", c, s)
		}
		if _, s := tab.Local(domain, old, AddrOf(mem), 8, 0); (s == OK) != (c == ChangeAccess) {
			t.Errorf("%v, with the old key: %v", c, s)
		}
		if n, _ := tab.Len(); n != 1 {
			t.Errorf("%v: %d regions", c, n)
		}
		if err := tab.FreePD(domain); !errors.Is(err, ErrBusy) {
			t.Errorf("%v: FreePD: %v", c, err)
		}
		if err := tab.FreePD(pd + other - domain); err != nil {
			t.Errorf("%v: FreePD of the one that it is not in: %v", c, err)
		}
		if err := tab.Deregister(r); err != nil {
			t.Error(err)
		}
		if err := tab.Reregister(r, c, Registration{}); !errors.Is(err, ErrInvalid) {
			t.Errorf("%v, deregistered: %v", c, err)
		}
	}
}

// checkMapping wants the mapping of r from before c to be gone if c gave it other memory.
func checkMapping(t *testing.T, tab *Table, r *Region, before *Mapping, c Change) {
	t.Helper()
	now, moved := tab.MappingOf(r.LKey()), c&ChangeTranslation != 0
	if before.Gone() != moved || (now != before) != moved || now.Gone() {
		t.Errorf("%v: the mapping is gone: %v", c, before.Gone())
	}
}

// TestReregisterRefused: the error, and the region is what it was.
func TestReregisterRefused(t *testing.T) {
	x := newRoom(t, Window2)
	buf := make([]byte, 8)
	for name, c := range map[string]struct {
		change Change
		to     Registration
	}{
		"nothing":                   {0, Registration{}},
		"unknown change":            {8, Registration{}},
		"no such domain":            {ChangePD, Registration{PD: 99}},
		"rights that need another":  {ChangeAccess, Registration{Access: RemoteWrite}},
		"unknown right":             {ChangeAccess, Registration{Access: 1 << 30}},
		"zero-based, not moved":     {ChangeAccess, Registration{Access: ZeroBased}},
		"zero-based, and elsewhere": {ChangeAccess | ChangeTranslation, Registration{Mem: buf, IOVA: 8, Access: ZeroBased}},
		"beyond the last address":   {ChangeTranslation, Registration{Mem: buf, IOVA: math.MaxUint64}},
	} {
		if err := x.tab.Reregister(x.r, c.change, c.to); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	all, err := x.tab.RegisterAll(x.pd, LocalWrite)
	if err != nil {
		t.Fatal(err)
	}
	if err := x.tab.Reregister(all, ChangeAccess, Registration{Access: LocalWrite | MWBind}); !errors.Is(err, ErrInvalid) ||
		all.Access() != LocalWrite {
		t.Errorf("windows of the whole address space: %v, rights %v", err, all.Access())
	}
	x.bind(testQPN, x.w.RKey(), x.w.RKey(), x.base, 8, RemoteRead, OK)
	if err := x.tab.Reregister(x.r, ChangeAccess, Registration{}); !errors.Is(err, ErrBusy) {
		t.Errorf("with a window bound: %v", err)
	}
	if x.r.Access() != LocalWrite|MWBind || x.r.Len() != 256 || x.r.IOVA() != x.base {
		t.Errorf("%v, %d bytes", x.r.Access(), x.r.Len())
	}
}

// TestReregisterWaits: a lane that has found the old memory has left its turn when the call is
// over.
func TestReregisterWaits(t *testing.T) {
	tab, pd := newTestTable(t)
	before, after := make([]byte, 8), make([]byte, 8)
	r := mustRegister(t, tab, pd, before, AddrOf(before), LocalWrite|RemoteWrite)
	reader := tab.NewReader()
	reader.Enter()
	span, s := tab.Remote(pd, 1, r.RKey(), AddrOf(before), 8, RemoteWrite)
	if s != OK {
		t.Fatal(s)
	}
	var over atomic.Bool
	done := make(chan error)
	go func() {
		err := tab.Reregister(r, ChangeTranslation, Registration{Mem: after, IOVA: AddrOf(after)})
		over.Store(true)
		done <- err
	}()
	for r.IOVA() != AddrOf(after) { // it has got as far as to wait
		runtime.Gosched()
	}
	for range 1000 { // time enough to end for one that does not
		runtime.Gosched()
	}
	if over.Load() {
		t.Error("it has not waited")
	}
	span.Write([]byte{1, 2, 3, 4, 5, 6, 7, 8}, 0)
	reader.Exit()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	reader.Close()
}

// TestRegisterAll: every address is in range that a pointer can have.
func TestRegisterAll(t *testing.T) {
	tab, pd := newTestTable(t)
	r, err := tab.RegisterAll(pd, LocalWrite|RemoteRead|FlushGlobal|OnDemand)
	if err != nil {
		t.Fatal(err)
	}
	if r.Len() != math.MaxUint64 || r.IOVA() != 0 {
		t.Errorf("%d bytes at %#x", r.Len(), r.IOVA())
	}
	mem := []byte("anything")
	span, s := tab.Local(pd, r.LKey(), AddrOf(mem), 8, LocalWrite)
	if s != OK || string(span.Bytes()) != "anything" {
		t.Errorf("%v", s)
	}
	runtime.KeepAlive(mem)
	for name, c := range map[string]struct {
		addr uint64
		n    uint32
		want Status
	}{
		"0":                  {0, 8, BadRange},
		"the first page":     {4095, 8, BadRange},
		"behind it":          {4096, 8, OK},
		"kernel addresses":   {1<<63 - 4, 8, BadRange},
		"wraps":              {math.MaxUint64 - 3, 8, BadRange},
		"nothing at nowhere": {0, 0, OK},
	} {
		if _, s := tab.Remote(pd, 1, r.RKey(), c.addr, c.n, RemoteRead); s != c.want {
			t.Errorf("%s: %v, want %v", name, s, c.want)
		}
	}
	if _, s := tab.Remote(pd, 1, r.RKey(), AddrOf(mem), 8, RemoteWrite); s != BadAccess {
		t.Errorf("a right that was not given: %v", s)
	}
	if _, s := tab.RemoteAll(pd, 1, r.RKey(), FlushGlobal); s != BadRange {
		t.Errorf("all of it: %v", s)
	}
	w, err := tab.AllocWindow(pd, Window2)
	if err != nil {
		t.Fatal(err)
	}
	b := Bind{Type: Window2, QPN: testQPN, Key: w.RKey(), NewKey: w.RKey(), LKey: r.LKey(), Addr: AddrOf(mem), Length: 8}
	if s := tab.BindWindow(pd, &b); s != BadState {
		t.Errorf("a window of it: %v", s)
	}
	for _, a := range []Access{ZeroBased, MWBind, RemoteWrite} {
		if _, err := tab.RegisterAll(pd, a); !errors.Is(err, ErrInvalid) {
			t.Errorf("%v: %v", a, err)
		}
	}
	buf := make([]byte, 8)
	if err := tab.Reregister(r, ChangeTranslation, Registration{Mem: buf, IOVA: AddrOf(buf)}); err != nil || r.Len() != 8 {
		t.Errorf("registered again: %d bytes, %v", r.Len(), err)
	}
}
