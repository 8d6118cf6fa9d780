package mr

// The table: who owns which key.
//
// Stages of this file: the protection domains; registering and deregistering a region; how keys are
// drawn; how the slot array is published and grows.
//
// One mutex orders all writers. Readers never take it: they load the current slot array, then the
// slot, then compare all 32 bits of the key. What a slot points to is immutable, so a reader sees
// an old or a new entry and never half of one.

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
)

// Table maps keys to memory for one device. All methods may be called concurrently, except that
// Local, Remote, BindWindow and Invalidate belong inside a lane's Enter/Exit.
type Table struct {
	slots atomic.Pointer[slotArray]

	mu      sync.Mutex
	rnd     func() uint64
	lastPD  PD
	pds     map[PD]*pdUse
	regions int
	windows int
	opened  map[uint32]*Window // type 2 and bound, by QP: the newest, then Window.next
	readers []*Reader
}

// pdUse counts what keeps a domain from being freed.
type pdUse struct{ regions, windows int }

// entry is what a key means. It is immutable once published; a change of meaning publishes another
// entry.
type entry struct {
	key    uint32
	qpn    uint32 // bound window: the only QP that may use it
	pd     PD
	kind   kind
	access Access
	base   uint64 // the address of mem[0] in the key's address space
	mem    []byte
	whole  bool // region: all of the address space; mem is empty
	null   bool // and nothing is there

	mapping *Mapping // where mem belongs to; nil: free window
	region  *Region
	window  *Window
}

// Mapping stands for the memory of a region from when it was registered, or given other memory,
// until it has that no more. Keys, rights and windows come and go without it.
type Mapping struct{ gone atomic.Bool }

// Gone says whether the memory may belong to others by now. Any goroutine may ask. If the answer is
// no, the application has not deregistered the memory before, so that it was still there.
func (m *Mapping) Gone() bool { return m.gone.Load() }

type kind uint8

const (
	kindRegion kind = iota
	kindFreeWindow
	kindBoundWindow
)

// NewTable returns an empty table. rnd supplies the bits that make keys unpredictable; it is called
// with the table's mutex held, and must be cryptographically strong wherever peers are not trusted.
func NewTable(rnd func() uint64) *Table {
	t := &Table{rnd: rnd, pds: make(map[PD]*pdUse), opened: make(map[uint32]*Window)}
	t.slots.Store(newSlotArray(minSlots))
	return t
}

// AllocPD makes a protection domain. The error is ErrFull when MaxPDs exist.
func (t *Table) AllocPD() (PD, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.pds) >= MaxPDs {
		return 0, fmt.Errorf("mr: allocate protection domain: %d exist, the most a table holds: %w",
			len(t.pds), ErrFull)
	}
	for {
		// Counting on instead of reusing means that a stale handle stays invalid for four billion
		// allocations.
		t.lastPD++
		if _, used := t.pds[t.lastPD]; t.lastPD != 0 && !used {
			t.pds[t.lastPD] = new(pdUse)
			return t.lastPD, nil
		}
	}
}

// FreePD frees a protection domain. The error is ErrBusy while regions or windows of it exist,
// ErrInvalid when there is no such domain.
func (t *Table) FreePD(pd PD) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	use, err := t.use(pd)
	if err != nil {
		return fmt.Errorf("mr: free protection domain: %w", err)
	}
	if use.regions+use.windows > 0 {
		return fmt.Errorf("mr: free protection domain %d: %d regions and %d windows of it exist, free them first: %w",
			pd, use.regions, use.windows, ErrBusy)
	}
	delete(t.pds, pd)
	return nil
}

func (t *Table) use(pd PD) (*pdUse, error) {
	if use := t.pds[pd]; use != nil {
		return use, nil
	}
	return nil, fmt.Errorf("protection domain %d does not exist (never allocated, or freed): %w", pd, ErrInvalid)
}

// Region is registered memory. Its methods may be called from any goroutine, also after
// deregistration.
type Region struct {
	now      atomic.Pointer[meaning]
	entry    *entry // under Table.mu; nil once deregistered, which lets go of the buffer
	bindings int    // windows bound to it, under Table.mu
}

// meaning is what a region says of itself. It is immutable.
type meaning struct {
	key    uint32
	pd     PD
	access Access
	iova   uint64
	length uint64
}

// means gives the region a published entry. The caller holds Table.mu.
func (r *Region) means(e *entry) {
	m := &meaning{e.key, e.pd, e.access, e.base, uint64(len(e.mem))}
	if e.whole {
		m.length = math.MaxUint64
	}
	r.entry = e
	r.now.Store(m)
}

// LKey is the key for local scatter/gather entries.
func (r *Region) LKey() uint32 { return r.now.Load().key }

// RKey is the key to give to peers. It equals LKey; without a remote right it opens nothing.
func (r *Region) RKey() uint32 { return r.now.Load().key }

// PD is the protection domain of the region.
func (r *Region) PD() PD { return r.now.Load().pd }

// Len is the length in bytes.
func (r *Region) Len() uint64 { return r.now.Load().length }

// IOVA is the address that keys use for the first byte.
func (r *Region) IOVA() uint64 { return r.now.Load().iova }

// Access is the set of rights given at registration.
func (r *Region) Access() Access { return r.now.Load().access }

// Register makes buf reachable under a key, for the holders of pd and with rights a. The first byte
// has address iova in the key's address space; use [AddrOf](buf) for the verbs default, 0 with
// ZeroBased. The table keeps buf alive until Deregister. buf may be empty, and the same bytes may
// be registered any number of times.
//
// The error is ErrInvalid for a broken rule (it names value and rule), ErrFull when MaxRegions
// exist.
func (t *Table) Register(pd PD, buf []byte, iova uint64, a Access) (*Region, error) {
	return t.register(&entry{pd: pd, kind: kindRegion, access: a, base: iova, mem: buf})
}

// RegisterAll makes the whole address space of the process reachable under a key, with the
// addresses that it has (implicit on-demand registration). Nothing of it is kept alive. What is not
// mapped faults when it is accessed (Span); the first 4096 addresses are never in range. The errors
// are those of Register; ZeroBased and MWBind are refused, too.
func (t *Table) RegisterAll(pd PD, a Access) (*Region, error) {
	return t.register(&entry{pd: pd, kind: kindRegion, access: a, whole: true})
}

// RegisterNull makes a region of all addresses at which nothing is (ibv_alloc_null_mr): what is
// written there is dropped, and what is read is zeros. It is for local use and has no remote
// rights. The errors are those of Register.
func (t *Table) RegisterNull(pd PD) (*Region, error) {
	return t.register(&entry{pd: pd, kind: kindRegion, access: LocalWrite, whole: true, null: true})
}

func (t *Table) register(e *entry) (*Region, error) {
	if err := checkRegister(e); err != nil {
		return nil, fmt.Errorf("mr: register %d bytes: %w", len(e.mem), err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	use, err := t.use(e.pd)
	if err != nil {
		return nil, fmt.Errorf("mr: register %d bytes: %w", len(e.mem), err)
	}
	if t.regions >= MaxRegions {
		return nil, fmt.Errorf("mr: register: %d regions exist, the most a table holds: %w", t.regions, ErrFull)
	}
	r := new(Region)
	e.region, e.mapping = r, new(Mapping)
	t.insert(e)
	r.means(e)
	t.regions++
	use.regions++
	return r, nil
}

// checkRegister holds the rules of sections 7.2 and 7.3 that concern a registration alone.
func checkRegister(e *entry) error {
	buf, iova, a := e.mem, e.base, e.access
	switch {
	case e.whole && a&(ZeroBased|MWBind) != 0:
		return fmt.Errorf("access %v: the whole address space takes neither ZeroBased nor MWBind: %w", a, ErrInvalid)
	case a&^knownAccess != 0:
		return fmt.Errorf("access %v has bits that mean nothing (%v): %w", a, a&^knownAccess, ErrInvalid)
	case a&(RemoteWrite|RemoteAtomic) != 0 && a&LocalWrite == 0:
		return fmt.Errorf("access %v: RemoteWrite and RemoteAtomic need LocalWrite: %w", a, ErrInvalid)
	case a&ZeroBased != 0 && iova != 0:
		return fmt.Errorf("iova %#x: the addresses of a ZeroBased region start at 0: %w", iova, ErrInvalid)
	case uint64(len(buf)) > math.MaxUint64-iova:
		return fmt.Errorf("iova %#x: the end of the region would be beyond 2^64-1: %w", iova, ErrInvalid)
	case a&RemoteAtomic != 0 && len(buf) > 0 && AddrOf(buf)%8 != iova%8:
		// Atomics check the remote address; it must imply that the memory is aligned for the CPU
		// too.
		return fmt.Errorf("iova %#x and buffer address %#x differ modulo 8, so RemoteAtomic could not be atomic: %w",
			iova, AddrOf(buf), ErrInvalid)
	}
	return nil
}

// Deregister ends the validity of the region's key and returns once no lane can be touching the
// memory any more: from then on the buffer belongs to the caller alone. It must not be called from
// inside a lane's turn, which it would wait for. The error is ErrBusy while windows are bound to
// the region, ErrInvalid when it was deregistered before.
func (t *Table) Deregister(r *Region) error {
	if err := t.unpublish(r); err != nil {
		return fmt.Errorf("mr: deregister key %#08x: %w", r.LKey(), err)
	}
	t.quiesce()
	return nil
}

func (t *Table) unpublish(r *Region) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.checkIdle(r); err != nil {
		return err
	}
	t.remove(r.entry)
	r.entry.mapping.gone.Store(true)
	t.pds[r.entry.pd].regions--
	r.entry = nil
	t.regions--
	return nil
}

// checkIdle is an error unless the region exists and no window is bound to it. The caller holds
// Table.mu.
func (t *Table) checkIdle(r *Region) error {
	if r.entry == nil || t.lookup(r.entry.key) != r.entry {
		return fmt.Errorf("the region is not registered in this table (any more): %w", ErrInvalid)
	}
	if r.bindings > 0 {
		return fmt.Errorf("%d windows are bound to it, invalidate them first: %w", r.bindings, ErrBusy)
	}
	return nil
}

// Len tells how many regions and windows exist.
func (t *Table) Len() (regions, windows int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.regions, t.windows
}

// Keys.
//
// A key is index<<8 | key byte. The slot of an entry is given by the low bits of the index, as many
// as the slot array has; the high bits of the index are as random as the key byte. So a key is 32
// random bits under the one condition that its slot was free, and yet finding it costs one array
// access and one comparison.
const (
	minSlots = 1 << 10
	maxSlots = 1 << 21 // at most half full with MaxRegions and MaxWindows
)

type slotArray struct {
	mask    uint32
	entries []atomic.Pointer[entry]
}

func newSlotArray(n int) *slotArray {
	return &slotArray{mask: uint32(n - 1), entries: make([]atomic.Pointer[entry], n)}
}

func (s *slotArray) slot(key uint32) *atomic.Pointer[entry] {
	return &s.entries[key>>8&s.mask]
}

// lookup is the reader's side: lock-free, allocation-free.
func (t *Table) lookup(key uint32) *entry {
	if e := t.slots.Load().slot(key).Load(); e != nil && e.key == key {
		return e
	}
	return nil
}

// maxIndex is an index of which all bits are ones.
const maxIndex = 1<<24 - 1

// insert draws a key for e and publishes it. With at most half of the slots taken, two draws are
// enough on average.
func (t *Table) insert(e *entry) {
	s := t.roomy()
	for {
		key := uint32(t.rnd())
		if index := key >> 8; index == 0 || index == maxIndex {
			continue // 0 is the kernel's reserved lkey; fields that nobody has set may be all ones
		}
		if slot := s.slot(key); slot.Load() == nil {
			e.key = key
			slot.Store(e)
			return
		}
	}
}

func (t *Table) remove(e *entry) { t.slots.Load().slot(e.key).Store(nil) }

// roomy returns the slot array, doubled first if one more entry would fill more than half of it.
// Entries keep their keys: their indices were different in the bits used so far, so they are
// different in one bit more. A reader that still looks at the old array finds what was valid when
// its turn began, which is all that quiescence promises.
func (t *Table) roomy() *slotArray {
	old := t.slots.Load()
	n := len(old.entries)
	if 2*(t.regions+t.windows+1) <= n || n == maxSlots {
		return old
	}
	grown := newSlotArray(2 * n)
	for i := range old.entries {
		if e := old.entries[i].Load(); e != nil {
			grown.slot(e.key).Store(e)
		}
	}
	t.slots.Store(grown)
	return grown
}
