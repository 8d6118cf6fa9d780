package pages

// On Linux: huge pages, reserved ones (MAP_HUGETLB) or transparent ones (madvise), and memory that
// children do not get.

import (
	"bytes"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	protection = unix.PROT_READ | unix.PROT_WRITE
	private    = unix.MAP_ANON | unix.MAP_PRIVATE
)

// hugePages maps reserved huge pages; nil: there are not enough, or the system has none.
func hugePages(n int) *Pages {
	size := hugeSize()
	whole, ok := roundUp(n, max(size, 1))
	if size == 0 || !ok {
		return nil
	}
	at, err := unix.MmapPtr(-1, 0, nil, uintptr(whole), protection, private|unix.MAP_HUGETLB)
	if err != nil {
		return nil
	}
	b := unsafe.Slice((*byte)(at), whole)
	keepFromChildren(b)
	return &Pages{Bytes: b[:n:n], Size: size, mapped: b}
}

// hugeSize is the size of a reserved huge page, a power of two; 0: the system has none.
func hugeSize() (size int) {
	info, _ := os.ReadFile("/proc/meminfo") // nothing to read is no size
	if _, rest, ok := bytes.Cut(info, []byte("Hugepagesize:")); ok {
		fmt.Sscan(string(rest), &size)
	}
	if size <= 0 || size&(size-1) != 0 {
		return 0
	}
	return size << 10
}

// transparent is the size of a transparent huge page; where it is another, the alignment does no
// harm.
const transparent = 2 << 20

// mapPages maps whole pages. Where huge ones are wanted it maps more, and gives back what lies
// before the first huge page and behind the last byte.
func mapPages(whole int, huge bool) ([]byte, error) {
	spare := 0
	if huge && whole >= transparent {
		spare = transparent
	}
	if whole+spare < whole {
		return nil, errNoMemory
	}
	at, err := unix.MmapPtr(-1, 0, nil, uintptr(whole+spare), protection, private)
	if err != nil {
		return nil, fmt.Errorf("mmap of %d bytes: %w", whole, err)
	}
	b := unsafe.Slice((*byte)(at), whole+spare)
	if spare > 0 {
		skip := int(-uintptr(at) & (transparent - 1))
		unmapPages(b[:skip])
		unmapPages(b[skip+whole:])
		b = b[skip : skip+whole]
		unix.Madvise(b, unix.MADV_HUGEPAGE) // a wish
	}
	keepFromChildren(b)
	return b, nil
}

// keepFromChildren: a process that forks without executing would share the pages with its child,
// and the first of both to write would get a copy, of which a NIC knows nothing.
func keepFromChildren(b []byte) { unix.Madvise(b, unix.MADV_DONTFORK) }

// unmapPages cannot fail for pages that are mapped.
func unmapPages(b []byte) {
	if len(b) > 0 {
		unix.MunmapPtr(unsafe.Pointer(unsafe.SliceData(b)), uintptr(len(b)))
	}
}
