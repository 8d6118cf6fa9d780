package mr

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// newTestTable is a table with repeatable keys and one domain.
func newTestTable(t testing.TB) (*Table, PD) {
	t.Helper()
	tab := NewTable(rand.New(rand.NewPCG(1, 2)).Uint64)
	pd, err := tab.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	return tab, pd
}

func mustRegister(t testing.TB, tab *Table, pd PD, buf []byte, iova uint64, a Access) *Region {
	t.Helper()
	r, err := tab.Register(pd, buf, iova, a)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestPDLifeCycle(t *testing.T) {
	tab, pd := newTestTable(t)
	r := mustRegister(t, tab, pd, make([]byte, 8), 0, 0)
	w, err := tab.AllocWindow(pd, Window2)
	if err != nil {
		t.Fatal(err)
	}
	err = tab.FreePD(pd)
	if !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), "1 regions and 1 windows") {
		t.Fatalf("FreePD with objects: %v", err)
	}
	if err := errors.Join(tab.Deregister(r), tab.DeallocWindow(w), tab.FreePD(pd)); err != nil {
		t.Fatal(err)
	}
	if err := tab.FreePD(pd); !errors.Is(err, ErrInvalid) {
		t.Fatalf("second FreePD: %v", err)
	}
	if _, err := tab.Register(pd, nil, 0, 0); !errors.Is(err, ErrInvalid) {
		t.Fatalf("Register in a freed domain: %v", err)
	}
	if _, err := tab.AllocWindow(pd, Window2); !errors.Is(err, ErrInvalid) {
		t.Fatalf("AllocWindow in a freed domain: %v", err)
	}
	if next, _ := tab.AllocPD(); next == pd || next == 0 {
		t.Fatalf("AllocPD gave %d after %d was freed", next, pd)
	}
}

// Every row of section 7.2 that concerns registration.
func TestRegisterRules(t *testing.T) {
	tab, pd := newTestTable(t)
	words := make([]byte, 64)
	base := AddrOf(words)
	for _, c := range []struct {
		name string
		buf  []byte
		iova uint64
		a    Access
		ok   bool
	}{
		{"no rights", words, base, 0, true},
		{"everything", words, base, LocalWrite | RemoteWrite | RemoteRead | RemoteAtomic | MWBind, true},
		{"flush", words, base, FlushGlobal, true},
		{"remote read alone", words, base, RemoteRead, true},
		{"remote write alone", words, base, RemoteWrite, false},
		{"remote atomic alone", words, base, RemoteAtomic, false},
		{"remote write with local write", words, base, LocalWrite | RemoteWrite, true},
		{"flush persistent", words, base, LocalWrite | FlushPersistent, true},
		{"hints", words, base, OnDemand | HugeTLB | RelaxedOrdering, true},
		{"any optional bit", words, base, 1 << 29, true},
		{"unknown bit 10", words, base, 1 << 10, false},
		{"unknown bit 30", words, base, 1 << 30, false},
		{"zero-based", words, 0, ZeroBased, true},
		{"zero-based elsewhere", words, 8, ZeroBased, false},
		{"empty", nil, 0x1234, LocalWrite | RemoteWrite | RemoteAtomic, true},
		{"to the last address", words, math.MaxUint64 - 64, 0, true},
		{"wraps", words, math.MaxUint64 - 63, 0, false},
		{"atomic, iova aligned as memory", words[3:], 3, LocalWrite | RemoteAtomic, true},
		{"atomic, iova not aligned as memory", words[3:], 0, LocalWrite | RemoteAtomic, false},
		{"no atomic, iova not aligned as memory", words[3:], 0, LocalWrite | RemoteWrite, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := tab.Register(pd, c.buf, c.iova, c.a)
			if !c.ok {
				if !errors.Is(err, ErrInvalid) {
					t.Fatalf("error %v, want ErrInvalid", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if r.LKey() != r.RKey() || r.IOVA() != c.iova || r.Len() != uint64(len(c.buf)) || r.Access() != c.a || r.PD() != pd {
				t.Fatalf("region says %#x %#x %#x %d %v %d", r.LKey(), r.RKey(), r.IOVA(), r.Len(), r.Access(), r.PD())
			}
			if err := tab.Deregister(r); err != nil {
				t.Fatal(err)
			}
		})
	}
	if regions, windows := tab.Len(); regions+windows != 0 {
		t.Fatalf("%d regions, %d windows left", regions, windows)
	}
}

// Rights, ranges and overflow, one row each.
func TestRemoteAccess(t *testing.T) {
	tab, pd := newTestTable(t)
	other, _ := tab.AllocPD()
	const base = 0x7f00_0000_1000
	full := mustRegister(t, tab, pd, make([]byte, 100), base, LocalWrite|RemoteWrite|RemoteRead)
	ro := mustRegister(t, tab, pd, make([]byte, 100), base, 0)
	low := mustRegister(t, tab, pd, make([]byte, 100), 0, RemoteRead|ZeroBased)
	high := mustRegister(t, tab, pd, make([]byte, 100), math.MaxUint64-100, RemoteRead)
	empty := mustRegister(t, tab, pd, nil, base, RemoteRead)

	for _, c := range []struct {
		name string
		pd   PD
		key  uint32
		va   uint64
		n    uint32
		need Access
		want Status
	}{
		{"whole", pd, full.RKey(), base, 100, RemoteWrite, OK},
		{"last byte", pd, full.RKey(), base + 99, 1, RemoteRead, OK},
		{"nothing at the end", pd, full.RKey(), base + 100, 0, RemoteRead, OK},
		{"one before", pd, full.RKey(), base - 1, 1, RemoteRead, BadRange},
		{"one beyond", pd, full.RKey(), base + 1, 100, RemoteRead, BadRange},
		{"nothing beyond the end", pd, full.RKey(), base + 101, 0, RemoteRead, BadRange},
		{"longest", pd, full.RKey(), base, math.MaxUint32, RemoteRead, BadRange},
		{"va+n wraps", pd, full.RKey(), math.MaxUint64, 2, RemoteRead, BadRange},
		{"va wraps into the region", pd, full.RKey(), math.MaxUint64 - 50, 100, RemoteRead, BadRange},
		{"right not granted", pd, full.RKey(), base, 8, RemoteAtomic, BadAccess},
		{"one of two rights", pd, full.RKey(), base, 8, RemoteWrite | RemoteAtomic, BadAccess},
		{"lkey-only region", pd, ro.RKey(), base, 1, RemoteRead, BadAccess},
		{"other domain", other, full.RKey(), base, 1, RemoteRead, BadPD},
		{"no domain", 0, full.RKey(), base, 1, RemoteRead, BadPD},
		{"wrong key byte", pd, full.RKey() ^ 1, base, 1, RemoteRead, BadKey},
		{"wrong index, same slot", pd, full.RKey() ^ 1<<31, base, 1, RemoteRead, BadKey},
		{"wrong index, other slot", pd, full.RKey() ^ 1<<8, base, 1, RemoteRead, BadKey},
		{"key 0", pd, 0, base, 1, RemoteRead, BadKey},
		{"key ffffffff", pd, math.MaxUint32, base, 1, RemoteRead, BadKey},
		{"zero-based start", pd, low.RKey(), 0, 100, RemoteRead, OK},
		{"zero-based beyond", pd, low.RKey(), 1, 100, RemoteRead, BadRange},
		{"zero-based below", pd, low.RKey(), math.MaxUint64, 1, RemoteRead, BadRange},
		{"high", pd, high.RKey(), math.MaxUint64 - 100, 100, RemoteRead, OK},
		{"high, at 0", pd, high.RKey(), 0, 0, RemoteRead, BadRange},
		{"empty region, nothing", pd, empty.RKey(), base, 0, RemoteRead, OK},
		{"empty region, a byte", pd, empty.RKey(), base, 1, RemoteRead, BadRange},
	} {
		if s, got := tab.Remote(c.pd, 7, c.key, c.va, c.n, c.need); got != c.want || got == OK && s.Len() != c.n {
			t.Errorf("%s: %v with %d bytes, want %v", c.name, got, s.Len(), c.want)
		}
	}
}

func TestLocalAccess(t *testing.T) {
	tab, pd := newTestTable(t)
	other, _ := tab.AllocPD()
	const base = 0x7f00_0000_1000
	full := mustRegister(t, tab, pd, make([]byte, 100), base, LocalWrite|RemoteWrite|RemoteRead)
	ro := mustRegister(t, tab, pd, make([]byte, 100), base, 0)
	for _, c := range []struct {
		name string
		key  uint32
		need Access
		want Status
	}{
		{"read without rights", ro.LKey(), 0, OK},
		{"scatter without LocalWrite", ro.LKey(), LocalWrite, BadAccess},
		{"scatter", full.LKey(), LocalWrite, OK},
		{"wrong key", full.LKey() + 1, 0, BadKey},
	} {
		if _, got := tab.Local(pd, c.key, base, 100, c.need); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	if _, got := tab.Local(other, full.LKey(), base, 1, 0); got != BadPD {
		t.Errorf("other domain: %v", got)
	}
}

func TestStaleKey(t *testing.T) {
	tab, pd := newTestTable(t)
	r := mustRegister(t, tab, pd, make([]byte, 8), 0, RemoteRead)
	if err := tab.Deregister(r); err != nil {
		t.Fatal(err)
	}
	for range 10_000 { // whatever takes its slot later, the old key stays dead
		mustRegister(t, tab, pd, make([]byte, 8), 0, RemoteRead)
	}
	if _, s := tab.Remote(pd, 0, r.RKey(), 0, 8, RemoteRead); s != BadKey {
		t.Fatalf("stale key: %v", s)
	}
	if err := tab.Deregister(r); !errors.Is(err, ErrInvalid) {
		t.Fatalf("second Deregister: %v", err)
	}
	stranger, _ := newTestTable(t)
	other := mustRegister(t, tab, pd, nil, 0, 0)
	if err := stranger.Deregister(other); !errors.Is(err, ErrInvalid) {
		t.Fatalf("Deregister in another table: %v", err)
	}
}

// The table holds as many regions as promised, finds every one of them, and says so when it is
// full.
func TestMaxRegions(t *testing.T) {
	if testing.Short() {
		t.Skip("half a million regions")
	}
	tab, pd := newTestTable(t)
	keys := make([]uint32, MaxRegions)
	for i := range keys {
		keys[i] = mustRegister(t, tab, pd, make([]byte, 1), uint64(i), RemoteRead).RKey()
	}
	for i, k := range keys {
		if _, s := tab.Remote(pd, 0, k, uint64(i), 1, RemoteRead); s != OK {
			t.Fatalf("region %d, key %#x: %v", i, k, s)
		}
	}
	if _, err := tab.Register(pd, nil, 0, 0); !errors.Is(err, ErrFull) {
		t.Fatalf("one too many: %v", err)
	}
}

// Keys must not tell where the next one will be. This is a sanity check of how the random bits are
// used, not of rnd: each of the 32 bits is set about half of the time, differences do not repeat,
// and the order of slots is not that of allocation.
func TestKeysAreUnpredictable(t *testing.T) {
	const n = 4096
	tab, pd := newTestTable(t)
	var ones [32]int
	seen, diffs := map[uint32]bool{}, map[uint32]int{}
	ascending := 0
	var last uint32
	for range n {
		k := mustRegister(t, tab, pd, nil, 0, 0).RKey()
		if seen[k] || k>>8 == 0 || k>>8 == 0xffffff {
			t.Fatalf("key %#x given twice, or reserved", k)
		}
		seen[k] = true
		diffs[k-last]++
		if k > last {
			ascending++
		}
		for b := range ones {
			ones[b] += int(k >> b & 1)
		}
		last = k
	}
	for b, c := range ones {
		if c < n*4/10 || c > n*6/10 {
			t.Errorf("bit %d is set in %d of %d keys", b, c, n)
		}
	}
	for d, c := range diffs {
		if c > 3 {
			t.Errorf("the difference %#x between neighbours occurs %d times", d, c)
		}
	}
	if ascending < n*4/10 || ascending > n*6/10 {
		t.Errorf("%d of %d keys are larger than the one before", ascending, n)
	}
}

func TestNames(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{Access(0).String(), "0"},
		{(LocalWrite | RemoteAtomic | RelaxedOrdering).String(), "LocalWrite|RemoteAtomic|RelaxedOrdering"},
		{Access(1<<10 | 1<<31).String(), "bit10|bit31"},
		{BadRange.String(), "range not inside the region"},
		{Status(99).String(), "unknown status"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
	for s := range Status(len(statusNames)) {
		if s.String() == "" {
			t.Errorf("status %d has no name", s)
		}
	}
}

// TestNullRegion: it reads as zeros at any address and keeps nothing, is for its own domain,
// locally, and never becomes anything else.
func TestNullRegion(t *testing.T) {
	table, pd := newTestTable(t)
	other, err := table.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	r, err := table.RegisterNull(pd)
	if err != nil {
		t.Fatal(err)
	}
	if r.Len() != math.MaxUint64 || r.IOVA() != 0 {
		t.Errorf("%d bytes at %#x", r.Len(), r.IOVA())
	}
	for _, addr := range []uint64{0, 1, 1 << 20, math.MaxUint64 - 8} {
		got := []byte{1, 2, 3}
		for _, need := range []Access{0, LocalWrite} {
			span, st := table.Local(pd, r.LKey(), addr, 8, need)
			if st != OK || !span.Null() || span.Write(got, 5) != OK || span.Read(make([]byte, 8), 0) != OK {
				t.Errorf("at %#x: %v", addr, st)
			}
			if need == 0 && (span.Read(got, 0) != OK || [3]byte(got) != [3]byte{}) {
				t.Errorf("at %#x there is %v", addr, got)
			}
		}
	}
	for name, st := range map[string]Status{
		"beyond the end": second(table.Local(pd, r.LKey(), math.MaxUint64, 8, 0)),
		"another domain": second(table.Local(other, r.LKey(), 0, 8, 0)),
		"a READ":         second(table.Remote(pd, 7, r.RKey(), 4096, 8, RemoteRead)),
		"a WRITE":        second(table.Remote(pd, 7, r.RKey(), 4096, 8, RemoteWrite)),
		"a FLUSH":        second(table.RemoteAll(pd, 7, r.RKey(), FlushGlobal)),
		"an atomic":      second(table.Remote(pd, 7, r.RKey(), 4096, 8, RemoteAtomic)),
		"invalidation":   table.Invalidate(pd, 7, r.RKey()),
	} {
		if st == OK {
			t.Errorf("%s is allowed", name)
		}
	}
	for c := Change(1); c <= allChanges; c++ {
		to := Registration{PD: other, Mem: make([]byte, 8), Access: LocalWrite}
		if err := table.Reregister(r, c, to); !errors.Is(err, ErrInvalid) {
			t.Errorf("registered again (%d): %v", c, err)
		}
	}
	if err := table.Deregister(r); err != nil {
		t.Error(err)
	}
	if _, st := table.Local(pd, r.LKey(), 0, 8, 0); st != BadKey {
		t.Errorf("deregistered: %v", st)
	}
}

func second(_ Span, st Status) Status { return st }
