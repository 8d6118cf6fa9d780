package roce

// Mappings of files: what peers write is in the file, a FLUSH says that it is on storage, and pages
// that may only be read are read.

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"unsafe"
	"weak"

	"golang.org/x/sys/unix"

	"github.com/goroce/goroce/internal/step"
)

// mapFile maps a file of some pages.
func mapFile(t *testing.T, prot int) (mem []byte, name string) {
	t.Helper()
	name = filepath.Join(t.TempDir(), "file")
	data := make([]byte, gonePages*unix.Getpagesize())
	fill(data, 9)
	must(t, os.WriteFile(name, data, 0o600))
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	mem, err = unix.Mmap(int(f.Fd()), 0, len(data), prot, unix.MAP_SHARED)
	must(t, err)
	return mem, name
}

// flushOf is a FLUSH of a whole region to storage.
func flushOf(m *MR) SendWR {
	return SendWR{
		Opcode:     WRFlush,
		RemoteAddr: m.Addr(),
		RKey:       m.RKey(),
		Flush:      FlushInfo{Placement: PlacementPersistent, Selectivity: SelectivityMR},
	}
}

// TestFlushFile: data and FLUSH, and the file has it.
func TestFlushFile(t *testing.T) {
	overWires(t, func(t *testing.T, w wire2) {
		a, b := connected(t, w, RC, 4096)
		mem, name := mapFile(t, unix.PROT_READ|unix.PROT_WRITE)
		region, err := b.pd.RegMR(mem, LocalWrite|RemoteWrite|FlushPersistent|FlushGlobal)
		must(t, err)
		fill(a.buf, 4)
		a.post(SendWR{Opcode: WRWrite, SGL: []SGE{a.mr.SGE(0, 4096)}, RemoteAddr: region.Addr() + 100, RKey: region.RKey()})
		a.post(flushOf(region))
		a.wait()
		if wc := a.wait(); wc.Opcode != WCFlush {
			t.Errorf("%+v", wc)
		}
		must(t, region.Close())
		must(t, unix.Munmap(mem))
		got, err := os.ReadFile(name)
		must(t, err)
		if !bytes.Equal(got[100:4196], a.buf) {
			t.Error("the file has something else")
		}
	})
}

// TestFlushGone: storage cannot be asked for memory that is gone, and the peer hears of it.
func TestFlushGone(t *testing.T) {
	overWires(t, func(t *testing.T, w wire2) {
		a, b := connected(t, w, RC, 64)
		mem, _ := mapFile(t, unix.PROT_READ|unix.PROT_WRITE)
		region, err := b.pd.RegMR(mem, LocalWrite|RemoteWrite|FlushPersistent)
		must(t, err)
		must(t, unix.Munmap(mem))
		a.post(flushOf(region))
		if wc := a.waitAny(); wc.Status != WCRemOpErr {
			t.Errorf("%+v", wc)
		}
		must(t, region.Close())
	})
}

// slowStorage keeps all syncs of a device waiting until free is called.
func slowStorage(t *testing.T, d *Device) (free func()) {
	free = sync.OnceFunc(d.provider.(softDevice).HoldStorage())
	t.Cleanup(free)
	return free
}

// TestFlushOfOthers: the region is closed, or given other memory, and other memory is mapped where
// it was, when storage gets to it.
func TestFlushOfOthers(t *testing.T) {
	for _, how := range []string{"closed", "rereg"} {
		t.Run(how, func(t *testing.T) {
			a, b := connected(t, wires[0], RC, 64)
			mem, _ := mapFile(t, unix.PROT_READ|unix.PROT_WRITE)
			region, err := b.pd.RegMR(mem, LocalWrite|RemoteWrite|FlushPersistent)
			must(t, err)
			free := slowStorage(t, b.dev)
			a.post(flushOf(region))
			b.recv(1)
			a.post(SendWR{Opcode: WRSend}) // passes the FLUSH: once it is there, the FLUSH is
			b.wait()
			if how == "closed" {
				must(t, region.Close())
			} else {
				must(t, region.Rereg(ReregTranslation, nil, make([]byte, 64), 0))
			}
			at, n := unsafe.Pointer(&mem[0]), uintptr(len(mem))
			must(t, unix.Munmap(mem))
			other, err := unix.MmapPtr(-1, 0, at, n, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_FIXED_NOREPLACE)
			must(t, err)
			free()
			if wc := a.waitAny(); wc.Status != WCRemOpErr {
				t.Errorf("FLUSH to storage: %v, but the file was never synced", wc.Status)
			}
			must(t, unix.MunmapPtr(other, n))
			if how == "rereg" {
				must(t, region.Close())
			}
		})
	}
}

// TestSlowFlush: storage that lets a peer ask more often than it has retries does not end the
// connection. (How long that may take is for the scripts of qp/qptest, in virtual time.)
func TestSlowFlush(t *testing.T) {
	overWires(t, func(t *testing.T, w wire2) {
		o := DefaultConnectOptions()
		o.RetryCnt = 2 // each wait doubles: 7 of them take seconds
		a, b := connectedBy(t, w, nil, &o)
		mem, _ := mapFile(t, unix.PROT_READ|unix.PROT_WRITE)
		region, err := b.pd.RegMR(mem, LocalWrite|RemoteWrite|FlushPersistent)
		must(t, err)
		free := slowStorage(t, b.dev)
		a.post(SendWR{Opcode: WRWrite, SGL: []SGE{a.mr.SGE(0, 64)}, RemoteAddr: region.Addr(), RKey: region.RKey()})
		a.post(flushOf(region))
		a.post(SendWR{Opcode: WRWrite, SGL: []SGE{a.mr.SGE(0, 64)}, RemoteAddr: region.Addr(), RKey: region.RKey()})
		// Meanwhile the first WRITE may be acknowledged.
		for b.dev.Stats().Engine.FlushWaits <= uint64(o.RetryCnt)+1 {
			var wcs [1]WC
			n, err := a.cq.Poll(wcs[:])
			must(t, err)
			if n == 1 && (wcs[0].Status != WCSuccess || wcs[0].Opcode != WCRDMAWrite) {
				t.Fatalf("%v of %v while storage is slow", wcs[0].Status, wcs[0].Opcode)
			}
			runtime.Gosched()
		}
		free()
		for a.wait().Opcode != WCFlush {
		}
		a.wait()
		must(t, region.Close())
		must(t, unix.Munmap(mem))
	})
}

// TestFlushesOfClosed: connections that were made, have flushed to slow storage and were closed
// leave nothing behind, no goroutine and no queue pair, and the device can be closed meanwhile.
func TestFlushesOfClosed(t *testing.T) {
	da, db := openPipes(t, nil)
	a, b := newEnd(t, da, RC, 64), newEnd(t, db, RC, 64)
	mem, _ := mapFile(t, unix.PROT_READ|unix.PROT_WRITE)
	region, err := b.pd.RegMR(mem, LocalWrite|RemoteWrite|FlushPersistent)
	must(t, err)
	slowStorage(t, db)
	before := runtime.NumGoroutine()
	const rounds = 100
	var closed []weak.Pointer[QP]
	for range rounds {
		x, err := a.pd.CreateQP(QPInitAttr{SendCQ: a.cq})
		must(t, err)
		y, err := b.pd.CreateQP(QPInitAttr{SendCQ: b.cq})
		must(t, err)
		must(t, x.Connect(bg, y.Endpoint(), nil))
		must(t, y.Connect(bg, x.Endpoint(), nil))
		must(t, y.PostRecv(RecvWR{}))
		must(t, x.PostSend(flushOf(region), flushOf(region), flushOf(region), SendWR{Opcode: WRSend}))
		b.wait() // the SEND passes the FLUSHes: once it is there, they are
		must(t, x.Close())
		must(t, y.Close())
		closed = append(closed, weak.Make(y))
	}
	if n := runtime.NumGoroutine() - before; n > rounds/10 { // a few may be of something else
		t.Errorf("%d goroutines wait for storage", n)
	}
	runtime.GC()
	kept := 0
	for _, y := range closed {
		if y.Value() != nil {
			kept++
		}
	}
	if kept > rounds/10 { // the newest may be on a stack
		t.Errorf("%d of %d queue pairs that are closed wait for storage", kept, rounds)
	}
	for _, x := range []interface{ Close() error }{region, b.qp, b.mr, b.cq, b.ch, b.pd, db} {
		must(t, x.Close())
	}
	must(t, unix.Munmap(mem))
}

// TestFlushWithoutBackground: the sync is made by the application's own call.
func TestFlushWithoutBackground(t *testing.T) {
	open := func() *Device {
		d, err := Open("pipe:flush-without-background", &Config{NoBackground: true})
		must(t, err)
		t.Cleanup(func() { must(t, d.Close()) })
		return d
	}
	a, b := newEnd(t, open(), RC, 64), newEnd(t, open(), RC, 64)
	connect(t, a, b)
	mem, _ := mapFile(t, unix.PROT_READ|unix.PROT_WRITE)
	region, err := b.pd.RegMR(mem, LocalWrite|RemoteWrite|FlushPersistent)
	must(t, err)
	a.post(flushOf(region))
	var wcs, others [1]WC
	for n := 0; n == 0; {
		_, err := b.cq.Poll(others[:])
		must(t, err)
		n, err = a.cq.Poll(wcs[:])
		must(t, err)
	}
	if wcs[0].Status != WCSuccess || wcs[0].Opcode != WCFlush {
		t.Errorf("%+v", wcs[0])
	}
	must(t, region.Close())
	must(t, unix.Munmap(mem))
}

// TestReadOnlyMapping: it can be read by peers, and one that was registered with more rights than
// its pages have refuses what they do not allow.
func TestReadOnlyMapping(t *testing.T) {
	for _, c := range []struct {
		name   string
		rights Access
		op     WROpcode
		want   WCStatus
		faults bool
	}{
		{"READ", RemoteRead, WRRead, WCSuccess, false},
		{"WRITE without the right", RemoteRead, WRWrite, WCRemAccessErr, false},
		{"WRITE with a right that the pages do not have", LocalWrite | RemoteRead | RemoteWrite, WRWrite, WCRemAccessErr, true},
		{"READ with that right", LocalWrite | RemoteRead | RemoteWrite, WRRead, WCSuccess, false},
		{"FLUSH", RemoteRead | FlushPersistent, WRFlush, WCSuccess, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.faults && step.Raced {
				t.Skip(racedAtomics)
			}
			overWires(t, func(t *testing.T, w wire2) {
				a, b := connected(t, w, RC, 4096)
				mem, _ := mapFile(t, unix.PROT_READ)
				region, err := b.pd.RegMR(mem, c.rights)
				must(t, err)
				wr := SendWR{Opcode: c.op, RemoteAddr: region.Addr(), RKey: region.RKey(), SGL: []SGE{a.mr.SGE(0, 4096)}}
				if c.op == WRFlush {
					wr = flushOf(region)
				}
				a.post(wr)
				if wc := a.waitAny(); wc.Status != c.want {
					t.Errorf("%v, want %v", wc.Status, c.want)
				}
				if c.op == WRRead {
					same(t, a.buf, mem[:4096])
				}
				if faults := b.dev.Stats().Engine.MemoryFaults; (faults > 0) != c.faults {
					t.Errorf("%d memory faults", faults)
				}
				must(t, region.Close())
				must(t, unix.Munmap(mem))
			})
		})
	}
}
