package roce

import (
	"bytes"
	"errors"
	"os"
	"runtime"
	"testing"
	"unsafe"
)

// TestBuffer: zeroed pages of the size that was asked for, which stay while a region is made of
// them, and are given back once.
func TestBuffer(t *testing.T) {
	for _, opts := range []*BufferOptions{nil, {}, {HugePages: true}} {
		for _, size := range []int{1, 4096, 100_000, 5<<20 + 1} {
			b, err := AllocBuffer(size, opts)
			must(t, err)
			mem := b.Bytes()
			at := uintptr(unsafe.Pointer(&mem[0]))
			if len(mem) != size || cap(mem) != size || at%uintptr(os.Getpagesize()) != 0 || b.PageSize() < os.Getpagesize() {
				t.Errorf("%d of %d bytes at %#x, pages of %d", len(mem), cap(mem), at, b.PageSize())
			}
			if n := bytes.Count(mem, []byte{0}); n != size {
				t.Errorf("%d of %d bytes are not 0", size-n, size)
			}
			mem[0], mem[size-1] = 1, 2
			for range 2 {
				must(t, b.Close())
			}
			if b.Bytes() != nil || b.PageSize() != 0 {
				t.Error("a closed buffer has bytes")
			}
		}
	}
	for _, size := range []int{0, -1} {
		if _, err := AllocBuffer(size, nil); !errors.Is(err, ErrInvalid) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
	for _, huge := range []bool{false, true} {
		if _, err := AllocBuffer(int(^uint(0)>>1), &BufferOptions{HugePages: huge}); !errors.Is(err, ErrLimit) {
			t.Errorf("the whole address space: %v", err)
		}
	}
}

// TestBufferRegions: each region that touches a buffer keeps it, also one that is given by its
// address, and one that could not be made does not. The collector takes nothing of it.
func TestBufferRegions(t *testing.T) {
	d := openDevice(t, "pipe:"+t.Name(), nil)
	pd, err := d.AllocPD()
	must(t, err)
	b, err := AllocBuffer(8192, nil)
	must(t, err)
	mem := b.Bytes()
	mem[8191] = 7
	if _, err := pd.RegMR(mem, RemoteWrite); !errors.Is(err, ErrInvalid) {
		t.Errorf("RemoteWrite without LocalWrite: %v", err)
	}
	part, err := pd.RegMR(mem[8000:], LocalWrite)
	must(t, err)
	all, err := pd.RegMRAt(uintptr(unsafe.Pointer(&mem[0])), 8192, 0, LocalWrite)
	must(t, err)
	beside, err := pd.RegMR(make([]byte, 8192), LocalWrite)
	must(t, err)
	runtime.GC()
	for _, m := range []*MR{part, all} {
		if err := b.Close(); !errors.Is(err, ErrBusy) {
			t.Errorf("closed below a region: %v", err)
		}
		if mem[8191] != 7 {
			t.Error("the memory has changed")
		}
		for range 2 { // only once does the region let go
			must(t, m.Close())
		}
	}
	must(t, b.Close())
	must(t, beside.Close())
	must(t, pd.Close())
}
