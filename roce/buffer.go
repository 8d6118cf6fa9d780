package roce

// Memory made for registration: pages of the system's, outside of Go's heap.
//
// Stages: AllocBuffer maps and remembers → a region that is made of such bytes holds the buffer
// (holdBuffers) → closing the region lets go (releaseBuffers) → Close gives the pages back, unless
// a region holds it.

import (
	"fmt"
	"slices"
	"sync"
	"unsafe"

	"github.com/goroce/goroce/roce/internal/pages"
)

// Buffer is memory to register that is not of Go's heap. Any bytes can be registered; a Buffer is
// for memory that is large, or written by a NIC for long: it begins on a page, costs the garbage
// collector nothing, can be of huge pages, and is not collected: it stays until Close. Methods may
// be called from any goroutine.
type Buffer struct {
	pages *pages.Pages // nil: closed
	held  int          // regions that are made of it
}

// buffers are those of the process that are not closed. The lock guards their fields too.
var buffers struct {
	sync.Mutex
	all []*Buffer
}

// BufferOptions say of what kind the memory is.
type BufferOptions struct {
	// HugePages asks for huge pages, which make a large region cheaper to register and to access:
	// those that the administrator has reserved (vm.nr_hugepages), else whatever the system gives
	// by itself (madvise). No error where there are none: see PageSize.
	HugePages bool
}

// AllocBuffer maps size bytes, all 0 (on systems without mmap they are of Go's heap). opts may be
// nil. ErrInvalid of a size below 1, ErrLimit if the system has no such memory. The memory is not
// inherited by a child process that is forked without executing a program.
func AllocBuffer(size int, opts *BufferOptions) (*Buffer, error) {
	if size < 1 {
		return nil, &Error{Op: "AllocBuffer", Err: fmt.Errorf("%w: %d bytes, at least 1 is needed", ErrInvalid, size)}
	}
	p, err := pages.Alloc(size, opts != nil && opts.HugePages)
	if err != nil {
		return nil, &Error{Op: "AllocBuffer", Err: fmt.Errorf("%w: %w", ErrLimit, err)}
	}
	b := &Buffer{pages: p}
	buffers.Lock()
	defer buffers.Unlock()
	buffers.all = append(buffers.all, b)
	return b, nil
}

// Bytes is the memory, nil after Close. It is no more than any other slice to Go: one that is kept
// beyond Close leads to memory that is not there, and to a fault.
func (b *Buffer) Bytes() []byte {
	buffers.Lock()
	defer buffers.Unlock()
	if b.pages == nil {
		return nil
	}
	return b.pages.Bytes
}

// PageSize is how large the pages are that the system has promised, in bytes: that of reserved huge
// pages, or the usual one, even if the system uses larger ones by itself. 0 after Close.
func (b *Buffer) PageSize() int {
	buffers.Lock()
	defer buffers.Unlock()
	if b.pages == nil {
		return 0
	}
	return b.pages.Size
}

// Close gives the memory back. While a region is made of it the error is ErrBusy, and the memory
// stays. A second Close does nothing. A Buffer that is forgotten is never given back: slices of it
// may be in use.
func (b *Buffer) Close() error {
	buffers.Lock()
	defer buffers.Unlock()
	switch {
	case b.pages == nil:
		return nil
	case b.held > 0:
		return &Error{Op: "Buffer.Close", Err: fmt.Errorf("%w: %d memory regions are made of the %d bytes",
			ErrBusy, b.held, len(b.pages.Bytes))}
	}
	buffers.all = slices.DeleteFunc(buffers.all, func(x *Buffer) bool { return x == b })
	b.pages.Free()
	b.pages = nil
	return nil
}

// holdBuffers keeps the buffers that buf lies in from being closed, until they are released.
func holdBuffers(buf []byte) (held []*Buffer) {
	from, n := uintptr(unsafe.Pointer(unsafe.SliceData(buf))), uintptr(len(buf))
	buffers.Lock()
	defer buffers.Unlock()
	for _, b := range buffers.all {
		begin, m := uintptr(unsafe.Pointer(unsafe.SliceData(b.pages.Bytes))), uintptr(len(b.pages.Bytes))
		if from < begin+m && begin < from+n {
			b.held++
			held = append(held, b)
		}
	}
	return held
}

// releaseBuffers undoes holdBuffers.
func releaseBuffers(held []*Buffer) {
	buffers.Lock()
	defer buffers.Unlock()
	for _, b := range held {
		b.held--
	}
}
