package mr

import (
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// model is the table as a list, with unbounded integers for addresses: slow, and obvious.
type model struct {
	pds     []PD
	regions []*modelRegion
	windows []*modelWindow
	dead    []uint32 // keys that must not work any more
}

type modelRegion struct {
	r  *Region
	pd PD
}

type modelWindow struct {
	w     *Window
	pd    PD
	key   uint32
	to    *modelRegion // nil = free
	qpn   uint32
	start *big.Int // in the window's address space
	n     uint64
	a     Access
}

func (m *model) remote(pd PD, qpn, key uint32, va uint64, n uint32, need Access) bool {
	for _, r := range m.regions {
		if r.r.RKey() == key {
			return r.pd == pd && r.r.Access()&need == need && inside(va, n, new(big.Int).SetUint64(r.r.IOVA()), r.r.Len())
		}
	}
	for _, w := range m.windows {
		if w.key == key {
			return w.pd == pd && w.to != nil && (w.qpn == qpn || w.w.Type() == Window1) && w.a&need == need && inside(va, n, w.start, w.n)
		}
	}
	return false
}

func inside(va uint64, n uint32, start *big.Int, size uint64) bool {
	first := new(big.Int).SetUint64(va)
	beyond := new(big.Int).Add(first, new(big.Int).SetUint64(uint64(n)))
	end := new(big.Int).Add(start, new(big.Int).SetUint64(size))
	return first.Cmp(start) >= 0 && beyond.Cmp(end) <= 0
}

// TestAgainstModel drives table and model with the same random operations and asks both about
// random accesses.
func TestAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		d := &drive{NewTable(rand.New(rand.NewPCG(seed, 0)).Uint64), &model{}}
		t.Repeat(map[string]func(*rapid.T){
			"allocPD":       d.allocPD,
			"register":      d.register,
			"deregister":    d.deregister,
			"reregister":    d.reregister,
			"allocWindow":   d.allocWindow,
			"deallocWindow": d.deallocWindow,
			"bind":          d.bind,
			"invalidate":    d.invalidate,
			"endLife":       d.endLife,
			"":              func(t *rapid.T) { checkAgainstModel(t, d.tab, d.m) },
		})
	})
}

// drive is a table and its model, which are told the same.
type drive struct {
	tab *Table
	m   *model
}

// pick chooses one of n; of nothing, the operation does not take place.
func pick(t *rapid.T, n int) int {
	if n == 0 {
		t.Skip("nothing there")
	}
	return rapid.IntRange(0, n-1).Draw(t, "which")
}

func rights(t *rapid.T) Access { return Access(rapid.Uint32Range(0, 1023).Draw(t, "rights")) }

func qpn(t *rapid.T) uint32 { return rapid.Uint32Range(1, 3).Draw(t, "qpn") }

func (d *drive) allocPD(t *rapid.T) {
	pd, err := d.tab.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	d.m.pds = append(d.m.pds, pd)
}

func (d *drive) register(t *rapid.T) {
	pd := d.m.pds[pick(t, len(d.m.pds))]
	buf := make([]byte, rapid.IntRange(0, 40).Draw(t, "len"))
	iova := rapid.SampledFrom([]uint64{0, 8, 1000, AddrOf(buf), math.MaxUint64 - 20, math.MaxUint64 - 40}).Draw(t, "iova")
	a := rights(t)
	r, err := d.tab.Register(pd, buf, iova, a)
	if refused := checkRegister(&entry{mem: buf, base: iova, access: a}) != nil; refused != (err != nil) {
		t.Fatalf("Register: %v", err)
	}
	if err == nil {
		d.m.regions = append(d.m.regions, &modelRegion{r, pd})
	}
}

func (d *drive) deregister(t *rapid.T) {
	m := d.m
	i := pick(t, len(m.regions))
	busy := false
	for _, w := range m.windows {
		busy = busy || w.to == m.regions[i]
	}
	if err := d.tab.Deregister(m.regions[i].r); (err != nil) != busy {
		t.Fatalf("Deregister, window bound %v: %v", busy, err)
	}
	if !busy {
		m.dead = append(m.dead, m.regions[i].r.RKey())
		m.regions = append(m.regions[:i], m.regions[i+1:]...)
	}
}

func (d *drive) reregister(t *rapid.T) {
	m := d.m
	r := m.regions[pick(t, len(m.regions))]
	c := Change(rapid.IntRange(1, 7).Draw(t, "change"))
	to := Registration{PD: m.pds[pick(t, len(m.pds))], Mem: make([]byte, rapid.IntRange(0, 64).Draw(t, "size")), Access: rights(t)}
	to.IOVA = AddrOf(to.Mem)
	if to.Access&ZeroBased != 0 {
		to.IOVA = 0
	}
	busy := false
	for _, w := range m.windows {
		busy = busy || w.to == r
	}
	key := r.r.RKey()
	err := d.tab.Reregister(r.r, c, to)
	switch {
	case errors.Is(err, ErrBusy) != busy:
		t.Fatalf("Reregister: %v, windows bound: %v", err, busy)
	case err != nil && r.r.RKey() != key:
		t.Fatalf("Reregister: %v, and the key has changed", err)
	case err != nil:
		return
	}
	if c != ChangeAccess {
		m.dead = append(m.dead, key)
	}
	if c&ChangePD != 0 {
		r.pd = to.PD
	}
	if c&ChangeAccess != 0 && r.r.Access() != to.Access || c&ChangeTranslation != 0 && r.r.Len() != uint64(len(to.Mem)) {
		t.Fatalf("registered again: %v, %d bytes", r.r.Access(), r.r.Len())
	}
}

func (d *drive) allocWindow(t *rapid.T) {
	pd := d.m.pds[pick(t, len(d.m.pds))]
	w, err := d.tab.AllocWindow(pd, rapid.SampledFrom([]WindowType{Window1, Window2}).Draw(t, "type"))
	if err != nil {
		t.Fatal(err)
	}
	d.m.windows = append(d.m.windows, &modelWindow{w: w, pd: pd, key: w.RKey()})
}

func (d *drive) deallocWindow(t *rapid.T) {
	m := d.m
	i := pick(t, len(m.windows))
	if err := d.tab.DeallocWindow(m.windows[i].w); err != nil {
		t.Fatal(err)
	}
	m.dead = append(m.dead, m.windows[i].key)
	m.windows = append(m.windows[:i], m.windows[i+1:]...)
}

func (d *drive) bind(t *rapid.T) {
	m := d.m
	w, r := m.windows[pick(t, len(m.windows))], m.regions[pick(t, len(m.regions))]
	pd, q := m.pds[pick(t, len(m.pds))], qpn(t)
	key := w.key&^0xff | rapid.Uint32Range(0, 255).Draw(t, "key byte")
	addr := r.r.IOVA() + rapid.Uint64Range(0, 40).Draw(t, "offset")
	n, a := rapid.Uint64Range(0, 40).Draw(t, "n"), rights(t)
	s := d.tab.BindWindow(pd, &Bind{w.w.Type(), q, w.key, key, r.r.LKey(), addr, n, a, 0})
	type1 := w.w.Type() == Window1
	if type1 && n == 0 && w.pd == pd {
		if s != OK {
			t.Fatalf("unbound: %v", s)
		}
		if key != w.key {
			m.dead = append(m.dead, w.key)
		}
		w.key, w.to = key, nil
		return
	}

	ra := r.r.Access()
	allowed := (type1 && a&ZeroBased == 0 || !type1 && w.to == nil) && w.pd == pd && r.pd == pd && n > 0 && ra&MWBind != 0 &&
		ra&ZeroBased == 0 && a&(LocalWrite|MWBind|OnDemand|HugeTLB) == 0 && (a&^ra)&(FlushGlobal|FlushPersistent) == 0 &&
		(a&(RemoteWrite|RemoteAtomic) == 0 || ra&LocalWrite != 0) && n <= math.MaxUint32 && inside(addr, uint32(n),
		new(big.Int).SetUint64(r.r.IOVA()), r.r.Len())
	if s != Misaligned && (s == OK) != allowed {
		t.Fatalf("BindWindow: %v, allowed %v", s, allowed)
	}
	if s != OK {
		return
	}
	if key != w.key {
		m.dead = append(m.dead, w.key)
	}
	start := new(big.Int).SetUint64(addr)
	if a&ZeroBased != 0 {
		start = new(big.Int)
	}
	w.key, w.to, w.qpn, w.start, w.n, w.a = key, r, q, start, n, a
}

func (d *drive) invalidate(t *rapid.T) {
	w, q := d.m.windows[pick(t, len(d.m.windows))], qpn(t)
	s := d.tab.Invalidate(w.pd, q, w.key)
	if allowed := w.w.Type() == Window2 && (w.to == nil || w.qpn == q); (s == OK) != allowed {
		t.Fatalf("Invalidate: %v, allowed %v", s, allowed)
	}
	if s == OK {
		w.to = nil
	}
}

// endLife frees the windows of type 2 that are bound through a queue pair.
func (d *drive) endLife(t *rapid.T) {
	q := qpn(t)
	d.tab.InvalidateAll(q)
	for _, w := range d.m.windows {
		if w.to != nil && w.qpn == q && w.w.Type() == Window2 {
			w.to = nil
		}
	}
}

func checkAgainstModel(t *rapid.T, tab *Table, m *model) {
	if regions, windows := tab.Len(); regions != len(m.regions) || windows != len(m.windows) {
		t.Fatalf("Len %d, %d, want %d, %d", regions, windows, len(m.regions), len(m.windows))
	}
	live := map[uint32]bool{}
	for _, r := range m.regions {
		live[r.r.RKey()] = true
	}
	for _, w := range m.windows {
		live[w.key] = true
		if w.w.RKey() != w.key || w.w.Bound() != (w.to != nil) {
			t.Fatalf("window says %#x %v, want %#x %v", w.w.RKey(), w.w.Bound(), w.key, w.to != nil)
		}
	}
	keys := []uint32{0}
	for k := range live {
		keys = append(keys, k, k^1)
	}
	for _, k := range m.dead {
		if !live[k] { // a window may have taken up an old key byte again
			keys = append(keys, k)
		}
	}
	bases := []uint64{0, 8, 1000, math.MaxUint64 - 20, math.MaxUint64 - 40}
	for _, r := range m.regions {
		bases = append(bases, r.r.IOVA())
	}
	if len(m.pds) == 0 {
		return
	}
	for range 20 {
		pd := rapid.SampledFrom(m.pds).Draw(t, "pd")
		key := rapid.SampledFrom(keys).Draw(t, "key")
		va := rapid.SampledFrom(bases).Draw(t, "base") + uint64(int64(rapid.IntRange(-2, 42).Draw(t, "offset")))
		n := rapid.Uint32Range(0, 42).Draw(t, "n")
		need := rapid.SampledFrom([]Access{0, RemoteRead, RemoteWrite, RemoteAtomic}).Draw(t, "need")
		qpn := rapid.Uint32Range(1, 3).Draw(t, "qpn")
		_, s := tab.Remote(pd, qpn, key, va, n, need)
		if want := m.remote(pd, qpn, key, va, n, need); (s == OK) != want {
			t.Fatalf("Remote(pd %d, qpn %d, key %#x, va %#x, n %d, %v) = %v, model says %v", pd, qpn, key, va, n, need, s, want)
		}
	}
}
