package mr

// Reading and writing memory that has been checked.
//
// Stages: the range → what becomes of an access that faults → bytes, also of no region → atomics.

import (
	"runtime/debug"
	"sync/atomic"
)

// Span is a checked range of registered memory, valid until the lane's Exit. It is a small value to
// be passed by copy. The zero Span is empty.
//
// The application may have unmapped the memory since it was registered, or made it read-only. Then
// an access faults: it returns Faulted if the goroutine has asked for panics instead of crashes
// (runtime/debug.SetPanicOnFault), as whoever drives a lane does. Bytes before those that faulted
// may have been written. Memory that was unmapped and then mapped by others cannot be told from the
// application's: it is accessed.
//
// Arguments outside the span panic: the check was for those bytes, so that is a mistake of the
// caller and not of a peer.
type Span struct {
	mem []byte
	by  *entry // the window of type 1 that it was reached by, or &nowhere; nil: another key
}

// nowhere is of spans of a null region, which have no memory.
var nowhere entry

// Null tells whether the span is of a null region: it reads as zeros, and keeps nothing.
func (s Span) Null() bool { return s.by == &nowhere }

// Still says whether what was read of the span was read before its key was taken back. Only a
// window of type 1 may be bound elsewhere by another lane meanwhile, so ask after reading for a
// peer. It swaps because that comes after all loads before it, which a load need not do.
func (s Span) Still() bool { return s.by == nil || s.by.window.entry.CompareAndSwap(s.by, s.by) }

// Len is the number of bytes that were checked; 0 of a null region.
func (s Span) Len() uint32 { return uint32(len(s.mem)) }

// Bytes is the span's memory, to be read only, by a function that defers Catch.
func (s Span) Bytes() []byte { return s.mem }

// near is how far from the memory a fault may be said to have happened: some processors name a
// page. Of an address that is none to the processor, as those from noAddress on are, amd64 says
// that it is 0.
const (
	near      = 1 << 16
	noAddress = 1 << 47
)

// Catch is to be deferred by a function that accesses registered memory: if that faults, st becomes
// Faulted and the panic ends. Other panics go on.
func Catch(mem []byte, st *Status) {
	p := recover()
	if p == nil {
		return
	}
	if fault, ok := p.(interface{ Addr() uintptr }); ok {
		at, from := uint64(fault.Addr()), AddrOf(mem)
		if at+near >= from && at < from+uint64(len(mem))+near || at == 0 && from+uint64(len(mem)) >= noAddress {
			*st = Faulted
			return
		}
	}
	panic(p)
}

// ReadProcess copies len(dst) bytes at an address of the process, of which nothing need be
// registered, as the inline data of a request is read. It returns OK, BadRange or Faulted.
func ReadProcess(dst []byte, addr uint64) Status {
	span, st := anywhere(addr, uint32(len(dst)))
	if st != OK {
		return st
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	return span.Read(dst, 0)
}

// Read copies len(dst) bytes at offset off of the span to dst. It returns OK or Faulted.
func (s Span) Read(dst []byte, off uint32) (st Status) {
	if s.Null() {
		clear(dst)
		return OK
	}
	src := s.mem[off : uint64(off)+uint64(len(dst))]
	defer Catch(src, &st)
	copy(dst, src)
	return OK
}

// Write copies src to offset off of the span. It returns OK or Faulted.
//
// The last bytes are stored last, in a store of their own, since applications wait for an RDMA
// WRITE by polling its last byte: memmove promises no order, and for larger sizes does store the
// tail early. If the range ends on a multiple of 8 (4), the last 8 (4) bytes are one store that
// comes after all others: an application that polls exactly that word with sync/atomic finds every
// other byte of the write in place. (On amd64 it is a plain store, as that is all it takes there;
// elsewhere, and for the race detector, it is one of sync/atomic.) A range that ends elsewhere has
// no such word; its last 1 to 3 bytes are plain stores, ordered on machines that keep stores in
// order.
func (s Span) Write(src []byte, off uint32) (st Status) {
	if s.Null() {
		return OK
	}
	dst := s.mem[off : uint64(off)+uint64(len(src))]
	if len(dst) == 0 {
		return OK
	}
	defer Catch(dst, &st)
	end := AddrOf(dst) + uint64(len(dst))
	switch {
	case end%8 == 0 && len(dst) >= 8:
		last := len(dst) - 8
		copy(dst[:last], src)
		storeLast64(dst[last:], native64(src[last:]))
	case end%4 == 0 && len(dst) >= 4:
		last := len(dst) - 4
		copy(dst[:last], src)
		storeLast32(dst[last:], native32(src[last:]))
	default:
		last := len(dst) - min(len(dst), max(1, int(end%4)))
		copy(dst[:last], src)
		for i := last; i < len(dst); i++ {
			dst[i] = src[i]
		}
	}
	return OK
}

// Aligned8 tells whether the span's memory is 8 bytes or more on a multiple of 8, as CompareSwap,
// FetchAdd and Store8 need it. In a region with RemoteAtomic it follows from an aligned address;
// with ATOMIC WRITE, which needs only RemoteWrite, it must be asked.
func (s Span) Aligned8() bool { return len(s.mem) >= 8 && AddrOf(s.mem)%8 == 0 }

// CompareSwap stores swap if the first 8 bytes, as a native-endian integer, equal compare; it
// returns what they were before, and OK or Faulted. Like FetchAdd and Store8 it is atomic against
// other lanes and against sync/atomic in the application, which is more than verbs promises
// (IBV_ATOMIC_GLOB). The span must be Aligned8.
func (s Span) CompareSwap(compare, swap uint64) (orig uint64, st Status) {
	defer Catch(s.mem, &st)
	word := word64(s.mem)
	for {
		if orig = atomic.LoadUint64(word); orig != compare || atomic.CompareAndSwapUint64(word, compare, swap) {
			return orig, OK
		}
	}
}

// FetchAdd adds to the first 8 bytes, modulo 2^64, and returns what they were before, and OK or
// Faulted. The span must be Aligned8.
func (s Span) FetchAdd(add uint64) (orig uint64, st Status) {
	defer Catch(s.mem, &st)
	return atomic.AddUint64(word64(s.mem), add) - add, OK
}

// Store8 stores 8 bytes as given, with no change of byte order, in one store (ATOMIC WRITE). It
// returns OK or Faulted. The span must be Aligned8.
func (s Span) Store8(b [8]byte) (st Status) {
	defer Catch(s.mem, &st)
	atomic.StoreUint64(word64(s.mem), native64(b[:]))
	return OK
}
