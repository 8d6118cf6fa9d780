package roce

// Memory regions and windows: bytes that keys open.

import (
	"fmt"
	"math"

	"github.com/goroce/goroce/mr"
)

// MR is a registered memory region (ibv_mr). All methods may be called from any goroutine.
//
// The stack reads and writes the bytes during its turns. A completion is the edge after which the application may look at
// what arrived; an application that polls the memory itself must do so with sync/atomic.
type MR struct {
	pd     *PD
	buf    []byte
	region *mr.Region
	closed bool // under dev.mu
}

func (m *MR) kind() string     { return "MR" }
func (m *MR) label() string    { return fmt.Sprintf("0x%08x", m.region.LKey()) }
func (m *MR) needs(x any) bool { return x == any(m.pd) }

// RegMR registers buf with the given rights (ibv_reg_mr); keys then use its real addresses. The same bytes may be registered
// any number of times, buf may be empty, and it stays alive until Close. RemoteWrite and RemoteAtomic need LocalWrite;
// RemoteAtomic needs memory aligned to 8 bytes at addresses that are.
func (p *PD) RegMR(buf []byte, access Access) (*MR, error) {
	iova := mr.AddrOf(buf)
	if access&ZeroBased != 0 {
		iova = 0
	}
	return p.RegMRIOVA(buf, iova, access)
}

// RegMRIOVA registers buf so that keys use the address iova for its first byte (ibv_reg_mr_iova). Peers then learn nothing
// about where the buffer is.
func (p *PD) RegMRIOVA(buf []byte, iova uint64, access Access) (*MR, error) {
	var m *MR
	if p.dev.cfg.PinMemory { // before the lock: it may take a while
		if err := pin(buf); err != nil {
			return nil, p.dev.fail("RegMR", err)
		}
	}
	err := p.create("RegMR", func() error {
		region, err := p.dev.mem.Register(p.handle, buf, iova, access)
		if err == nil {
			m = &MR{pd: p, buf: buf, region: region}
			p.dev.objects.add(m)
		}
		return err
	})
	if err != nil && p.dev.cfg.PinMemory {
		unpin(buf)
	}
	return m, err
}

// LKey is the key for local scatter/gather elements.
func (m *MR) LKey() uint32 { return m.region.LKey() }

// RKey is the key to give to peers. Without a remote right it opens nothing.
func (m *MR) RKey() uint32 { return m.region.RKey() }

// Addr is the address that keys use for the first byte: the peer's SendWR.RemoteAddr for offset 0.
func (m *MR) Addr() uint64 { return m.region.IOVA() }

// Len is the length in bytes.
func (m *MR) Len() int { return len(m.buf) }

// Bytes is the registered memory itself.
func (m *MR) Bytes() []byte { return m.buf }

// SGE names n bytes from offset off. It checks nothing; a range outside the region makes the work request that uses it
// complete with WCLocProtErr. n is at most 2^32-1.
func (m *MR) SGE(off, n int) SGE {
	return SGE{Addr: m.region.IOVA() + uint64(off), Length: uint32(min(uint64(n), math.MaxUint32)), LKey: m.region.LKey()}
}

// Close deregisters the region (ibv_dereg_mr). When it returns, the stack has stopped touching the memory; requests that
// still name it complete with WCLocProtErr, and a peer that does loses its connection. While windows are bound to the
// region the error is ErrBusy. A second Close does nothing.
func (m *MR) Close() error {
	d := m.pd.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	if m.closed {
		return nil
	}
	if err := d.mem.Deregister(m.region); err != nil {
		return d.fail("Close", err)
	}
	m.closed = true
	if d.cfg.PinMemory {
		unpin(m.buf)
	}
	d.objects.remove(m)
	return nil
}

// MW is a memory window of type 2 (ibv_mw): a second key to a part of a region, made by a WRBindMW request and taken back
// by WRLocalInv or by the peer's WRSendWithInv. All methods may be called from any goroutine.
type MW struct {
	pd     *PD
	window *mr.Window
	closed bool // under dev.mu
}

func (w *MW) kind() string     { return "MW" }
func (w *MW) label() string    { return fmt.Sprintf("0x%08x", w.window.RKey()) }
func (w *MW) needs(x any) bool { return x == any(w.pd) }

// AllocMW makes a window (ibv_alloc_mw of type 2).
func (p *PD) AllocMW() (*MW, error) {
	var w *MW
	err := p.create("AllocMW", func() error {
		window, err := p.dev.mem.AllocWindow(p.handle)
		if err == nil {
			w = &MW{pd: p, window: window}
			p.dev.objects.add(w)
		}
		return err
	})
	return w, err
}

// RKey is the present key: that of the last bind, or the one the window was born with. BindInfo.NewKey must share its upper
// 24 bits; IncRKey makes a fresh one.
func (w *MW) RKey() uint32 { return w.window.RKey() }

// Bound tells whether the window is bound to a region now.
func (w *MW) Bound() bool { return w.window.Bound() }

// Close frees the window, bound or not (ibv_dealloc_mw). A second Close does nothing.
func (w *MW) Close() error {
	d := w.pd.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	if w.closed {
		return nil
	}
	if err := d.mem.DeallocWindow(w.window); err != nil {
		return d.fail("Close", err)
	}
	w.closed = true
	d.objects.remove(w)
	return nil
}

// IncRKey returns rkey with its low byte counted up: the next key of the same window (ibv_inc_rkey).
func IncRKey(rkey uint32) uint32 { return rkey&^0xff | (rkey+1)&0xff }
