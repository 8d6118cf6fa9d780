package roce

// Memory that the application has unmapped or protected while it is registered: whoever accesses it
// by its key gets the protocol's error, is counted, and the process goes on.

import (
	"encoding/binary"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/internal/step"
)

// gonePages is how many pages a mapping has. They are few: nothing else of the process is so small
// that it could be mapped in their place.
const gonePages = 4

// mapping maps pages and registers them with all rights.
func mapping(t *testing.T, pd *PD) (*MR, []byte) {
	t.Helper()
	mem, err := unix.Mmap(-1, 0, gonePages*unix.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	must(t, err)
	for i := range mem {
		mem[i] = byte(i)
	}
	mr, err := pd.RegMR(mem, LocalWrite|RemoteRead|RemoteWrite|RemoteAtomic)
	must(t, err)
	return mr, mem
}

// goneCase is one access to the memory that is gone: of a by its own key, or of b by a's.
type goneCase struct {
	name   string
	run    func(a, b *end, gone *MR)
	a, b   WCStatus // of a's request, and of b's
	writes bool     // memory that can be read is no help
}

// none stands for no completion.
const none = WCStatus(255)

var goneCases = []goneCase{
	{"WRITE to it", func(a, b *end, gone *MR) {
		b.post(SendWR{Opcode: WRWrite, SGL: []SGE{b.mr.SGE(0, 64)}, RemoteAddr: gone.Addr(), RKey: gone.RKey()})
	}, none, WCRemAccessErr, true},
	{"WRITE that begins before it", func(a, b *end, gone *MR) {
		b.post(SendWR{Opcode: WRWrite, SGL: []SGE{b.mr.SGE(0, gone.Len())}, RemoteAddr: gone.Addr(), RKey: gone.RKey()})
	}, none, WCRemAccessErr, true},
	{"READ from it", func(a, b *end, gone *MR) {
		b.post(SendWR{Opcode: WRRead, SGL: []SGE{b.mr.SGE(0, 64)}, RemoteAddr: gone.Addr(), RKey: gone.RKey()})
	}, none, WCRemAccessErr, false},
	{"READ of all", func(a, b *end, gone *MR) {
		b.post(SendWR{Opcode: WRRead, SGL: []SGE{b.mr.SGE(0, gone.Len())}, RemoteAddr: gone.Addr(), RKey: gone.RKey()})
	}, none, WCRemAccessErr, false},
	{"fetch and add", func(a, b *end, gone *MR) {
		b.post(SendWR{Opcode: WRAtomicFetchAndAdd, CompareAdd: 1, SGL: []SGE{b.mr.SGE(0, 8)}, RemoteAddr: gone.Addr(), RKey: gone.RKey()})
	}, none, WCRemAccessErr, true},
	{"compare and swap", func(a, b *end, gone *MR) {
		b.post(SendWR{Opcode: WRAtomicCmpAndSwp, CompareAdd: binary.NativeEndian.Uint64([]byte{0, 1, 2, 3, 4, 5, 6, 7}),
			// it would swap
			SGL: []SGE{b.mr.SGE(0, 8)}, RemoteAddr: gone.Addr(), RKey: gone.RKey()})
	}, none, WCRemAccessErr, true},
	{"SEND into it", func(a, b *end, gone *MR) {
		a.recv(1, gone.SGE(0, 64))
		b.post(SendWR{Opcode: WRSend, SGL: []SGE{b.mr.SGE(0, 64)}})
	}, WCLocProtErr, WCRemOpErr, true},
	{"SEND from it", func(a, b *end, gone *MR) {
		b.recv(1, b.mr.SGE(0, 64))
		a.post(SendWR{Opcode: WRSend, SGL: []SGE{gone.SGE(0, 64)}})
	}, WCLocProtErr, none, false},
	{"WRITE from it in pieces", func(a, b *end, gone *MR) {
		a.post(SendWR{Opcode: WRWrite, SGL: []SGE{gone.SGE(0, 10), a.mr.SGE(0, 10)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
	}, WCLocProtErr, none, false},
	{"READ into it", func(a, b *end, gone *MR) {
		a.post(SendWR{Opcode: WRRead, SGL: []SGE{gone.SGE(0, 64)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
	}, WCLocProtErr, none, true},
	{"atomic result into it", func(a, b *end, gone *MR) {
		a.post(SendWR{Opcode: WRAtomicFetchAndAdd, SGL: []SGE{gone.SGE(0, 8)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
	}, WCLocProtErr, none, true},
}

// racedAtomics is why what writes to protected pages is skipped with the race detector.
const racedAtomics = "the race detector's atomics write in C, where a fault ends the process"

// TestMemoryGone: each access ends in its error, whichever way the memory has gone.
func TestMemoryGone(t *testing.T) {
	page := unix.Getpagesize()
	for _, way := range []struct {
		name     string
		take     func(mem []byte) error
		readable bool
	}{
		{"unmapped", unix.Munmap, false},
		{"no access", func(mem []byte) error { return unix.Mprotect(mem, unix.PROT_NONE) }, false},
		{"read-only", func(mem []byte) error { return unix.Mprotect(mem, unix.PROT_READ) }, true},
	} {
		t.Run(way.name, func(t *testing.T) {
			if way.readable && step.Raced {
				t.Skip(racedAtomics)
			}
			overWires(t, func(t *testing.T, w wire2) {
				da, db := w.open(t, nil)
				for _, c := range goneCases {
					if way.readable && !c.writes {
						continue
					}
					a, b := newEnd(t, da, RC, gonePages*page), newEnd(t, db, RC, gonePages*page)
					connect(t, a, b)
					gone, mem := mapping(t, a.pd)
					must(t, way.take(mem))
					before := da.Stats().Engine.MemoryFaults
					c.run(a, b, gone)
					for _, e := range []struct {
						*end
						want WCStatus
					}{{a, c.a}, {b, c.b}} {
						if e.want == none {
							continue
						}
						if wc := e.waitAny(); wc.Status != e.want {
							t.Errorf("%s: %v, want %v", c.name, wc.Status, e.want)
						}
					}
					if n := da.Stats().Engine.MemoryFaults; n == before {
						t.Errorf("%s: no fault is counted", c.name)
					}
					must(t, gone.Close())
					if way.name != "unmapped" {
						must(t, unix.Munmap(mem))
					}
				}
				a, b := newEnd(t, da, RC, 64), newEnd(t, db, RC, 64)
				connect(t, a, b)
				a.post(SendWR{Opcode: WRWrite, SGL: []SGE{a.mr.SGE(0, 8)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
				a.wait()
			})
		})
	}
}

// TestMemoryGoneDatagram: the same for a datagram, which nobody answers for.
func TestMemoryGoneDatagram(t *testing.T) {
	overWires(t, func(t *testing.T, w wire2) {
		da, db := w.open(t, nil)
		a, b := newEnd(t, da, UD, 64), newEnd(t, db, UD, 64)
		must(t, a.qp.Activate(7))
		must(t, b.qp.Activate(7))
		to, err := b.pd.CreateAH(bg, AHAttr{DGID: a.qp.Endpoint().GID})
		must(t, err)
		defer func() { must(t, b.pd.DestroyAH(to)) }()
		gone, mem := mapping(t, a.pd)
		must(t, unix.Munmap(mem))
		a.recv(1, gone.SGE(0, 100))
		a.recv(2, a.mr.SGE(0, 64))
		send := SendWR{Opcode: WRSend, SGL: []SGE{b.mr.SGE(0, 8)}, AH: to, RemoteQPN: a.qp.QPN(), RemoteQKey: 7}
		b.post(send)
		b.wait()
		if wc := a.waitAny(); wc.WRID != 1 || wc.Status != WCLocProtErr {
			t.Errorf("%+v", wc)
		}
		b.post(send)
		b.wait()
		if wc := a.waitAny(); wc.WRID != 2 || wc.Status != WCSuccess {
			t.Errorf("the next datagram: %+v", wc)
		}
		must(t, gone.Close())
	})
}

// TestMemoryGoneUC: a receive request whose memory is gone ends in its error, and gives way to the
// next one.
func TestMemoryGoneUC(t *testing.T) {
	overWires(t, func(t *testing.T, w wire2) {
		da, db := w.open(t, nil)
		a, b := newEnd(t, da, UC, 64), newEnd(t, db, UC, 64)
		connect(t, a, b)
		gone, mem := mapping(t, a.pd)
		must(t, unix.Munmap(mem))
		a.recv(1, gone.SGE(0, 64))
		a.recv(2, a.mr.SGE(0, 64))
		for i, want := range []WCStatus{WCLocProtErr, WCSuccess} {
			b.post(SendWR{Opcode: WRSend, SGL: []SGE{b.mr.SGE(0, 8)}})
			b.wait()
			if wc := a.waitAny(); wc.WRID != uint64(i+1) || wc.Status != want {
				t.Errorf("%+v, want %v", wc, want)
			}
		}
		must(t, gone.Close())
	})
}

// TestNoMemory: what can be no memory is refused, or costs the access its error as memory that has
// gone does.
func TestNoMemory(t *testing.T) {
	a, b := connected(t, wires[0], RC, 64)
	for _, at := range []uintptr{1, 8, 4095, ^uintptr(0) - 7} {
		_, err := a.pd.RegMRAt(at, 64, 0, LocalWrite|RemoteRead)
		refused(t, err, ErrInvalid, "64 bytes at address")
	}
	if unsafe.Sizeof(uintptr(0)) == 4 {
		return
	}
	far := uint64(1) << 62 // no address of any process
	mr, err := a.pd.RegMRAt(uintptr(far), 64, 0, LocalWrite|RemoteRead)
	must(t, err)
	b.post(SendWR{Opcode: WRRead, SGL: []SGE{b.mr.SGE(0, 8)}, RemoteAddr: mr.Addr(), RKey: mr.RKey()})
	if wc := b.waitAny(); wc.Status != WCRemAccessErr {
		t.Errorf("%v", wc.Status)
	}
	must(t, mr.Close())
}
