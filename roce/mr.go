package roce

// Memory regions and windows: bytes that keys open.

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/goroce/goroce/mr"
)

// MR is a registered memory region (ibv_mr). All methods may be called from any goroutine.
//
// The stack reads and writes the bytes while the application runs. A completion is the edge after
// which the application may look at what arrived; an application that polls the memory itself must
// do so with sync/atomic.
type MR struct {
	pd  *PD
	buf []byte
	mr  mrProvider
}

func (m *MR) kind() string     { return "MR" }
func (m *MR) label() string    { return fmt.Sprintf("0x%08x", m.mr.LKey()) }
func (m *MR) needs(x any) bool { return x == any(m.pd) }

// RegMR registers buf with the given rights (ibv_reg_mr); keys then use its real addresses. The
// same bytes may be registered any number of times, buf may be empty, and it stays alive until
// Close. RemoteWrite and RemoteAtomic need LocalWrite; RemoteAtomic needs memory aligned to 8 bytes
// at addresses that are. ErrInvalid names the rule, ErrLimit is a device without a free region.
func (p *PD) RegMR(buf []byte, access Access) (*MR, error) {
	iova := mr.AddrOf(buf)
	if access&ZeroBased != 0 {
		iova = 0
	}
	return p.RegMRIOVA(buf, iova, access)
}

// RegMRIOVA registers buf so that keys use the address iova for its first byte (ibv_reg_mr_iova).
// Peers then learn nothing about where the buffer is. A verbs device takes only an iova that is as
// far into its page as buf, and no empty buf: ErrNotSupported.
func (p *PD) RegMRIOVA(buf []byte, iova uint64, access Access) (m *MR, err error) {
	err = p.createSlowly("RegMR", "MR", func() (object, error) {
		below, err := p.pd.regMR(buf, iova, access)
		m = &MR{pd: p, buf: buf, mr: below}
		return m, err
	})
	if err != nil {
		return nil, err
	}
	return m, nil
}

// RegMRAt registers length bytes at an address that the Go runtime need not know: of a mapping, or
// of a C program that this stack serves. (The address of Go memory keeps nothing alive: that is for
// RegMR.) Keys use the address iova for the first byte. The memory must stay until Close; if it
// goes sooner, see the package comment on memory. ErrInvalid of a range that begins below 4096 or
// ends beyond the address space.
func (p *PD) RegMRAt(addr uintptr, length, iova uint64, access Access) (*MR, error) {
	const lowest = 4096 // nothing is mapped below it
	n := uintptr(length)
	if length > math.MaxInt || n > 0 && addr < lowest || addr+n < addr {
		return nil, p.dev.fail("RegMR", fmt.Errorf("%w: %d bytes at address %#x", ErrInvalid, length, addr))
	}
	at := *(*unsafe.Pointer)(unsafe.Pointer(&addr))
	return p.RegMRIOVA(unsafe.Slice((*byte)(at), int(length)), iova, access)
}

// LKey is the key for local scatter/gather elements.
func (m *MR) LKey() uint32 { return m.mr.LKey() }

// RKey is the key to give to peers. Without a remote right it opens nothing.
func (m *MR) RKey() uint32 { return m.mr.RKey() }

// Addr is the address that keys use for the first byte: the peer's SendWR.RemoteAddr for offset 0.
func (m *MR) Addr() uint64 { return m.mr.IOVA() }

// Len is the length in bytes.
func (m *MR) Len() int { return len(m.buf) }

// Bytes is the registered memory itself.
func (m *MR) Bytes() []byte { return m.buf }

// SGE names n bytes from offset off. It checks nothing; a range outside the region makes the work
// request that uses it complete with WCLocProtErr. n is at most 2^32-1.
func (m *MR) SGE(off, n int) SGE {
	return SGE{Addr: m.mr.IOVA() + uint64(off), Length: uint32(min(uint64(n), math.MaxUint32)), LKey: m.mr.LKey()}
}

// Close deregisters the region (ibv_dereg_mr). When it returns, the stack has stopped touching the
// memory; requests that still name it complete with WCLocProtErr, and a peer that does loses its
// connection. While windows are bound to the region the error is ErrBusy. A second Close does
// nothing.
func (m *MR) Close() error { return m.pd.dev.destroy(m, m.mr.Close) }

// MW is a memory window of type 2 (ibv_mw): a second key to a part of a region, made by a WRBindMW
// request and taken back by WRLocalInv or by the peer's WRSendWithInv. All methods may be called
// from any goroutine.
type MW struct {
	pd *PD
	mw mwProvider
}

func (w *MW) kind() string     { return "MW" }
func (w *MW) label() string    { return fmt.Sprintf("0x%08x", w.mw.RKey()) }
func (w *MW) needs(x any) bool { return x == any(w.pd) }

// AllocMW makes a window (ibv_alloc_mw of type 2). ErrLimit if the device has no more, ErrClosed,
// ErrNotSupported of a device without windows.
func (p *PD) AllocMW() (w *MW, err error) {
	err = p.create("AllocMW", func() error {
		below, err := p.pd.allocMW()
		if err == nil {
			w = &MW{pd: p, mw: below}
			p.dev.objects.add(w)
		}
		return err
	})
	return w, err
}

// RKey is the present key: that of the last bind, or the one the window was born with.
// BindInfo.NewKey must share its upper 24 bits; IncRKey makes a fresh one.
func (w *MW) RKey() uint32 { return w.mw.RKey() }

// Bound tells whether the window is bound to a region now; of a verbs device, which does not say,
// whether the last request that was posted for it was a bind.
func (w *MW) Bound() bool { return w.mw.Bound() }

// Close frees the window, bound or not (ibv_dealloc_mw). A second Close does nothing.
func (w *MW) Close() error { return w.pd.dev.destroy(w, w.mw.Close) }

// IncRKey returns rkey with its low byte counted up: the next key of the same window
// (ibv_inc_rkey).
func IncRKey(rkey uint32) uint32 { return rkey&^0xff | (rkey+1)&0xff }
