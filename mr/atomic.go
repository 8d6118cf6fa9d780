package mr

// The only unsafe code of the package: seeing bytes as the words that sync/atomic works on, and as
// an address.

import (
	"encoding/binary"
	"unsafe"
)

// AddrOf is the address of buf[0], the iova that verbs gives a region by default. It is stable for
// as long as the memory is registered: the table's reference keeps buf on the heap, and heap
// objects do not move. It is a number, and keeps nothing alive by itself.
func AddrOf(buf []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(buf)))) }

// lowest is the first address that may be mapped, highest the last one that a pointer can have.
const (
	lowest  = 4096
	highest = uint64(^uintptr(0) >> 1)
)

// bytesAt are n bytes at an address of which nothing is known. What they are of is not kept alive.
func bytesAt(addr uint64, n uint32) (mem []byte) {
	header := struct {
		at       uintptr
		len, cap int
	}{uintptr(addr), int(n), int(n)}
	return *(*[]byte)(unsafe.Pointer(&header))
}

// word64 is the word at b[0:8]; the caller has checked that it is aligned.
func word64(b []byte) *uint64 { return (*uint64)(unsafe.Pointer((*[8]byte)(b))) }

// word32 is the word at b[0:4]; the caller has checked that it is aligned.
func word32(b []byte) *uint32 { return (*uint32)(unsafe.Pointer((*[4]byte)(b))) }

func native64(b []byte) uint64 { return binary.NativeEndian.Uint64(b) }
func native32(b []byte) uint32 { return binary.NativeEndian.Uint32(b) }
