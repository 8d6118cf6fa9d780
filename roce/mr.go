package roce

// Memory regions and windows: bytes that keys open.

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/goroce/goroce/mr"
)

// MR is a registered memory region (ibv_mr). All methods may be called from any goroutine.
//
// The stack reads and writes the bytes while the application runs. A completion is the edge after
// which the application may look at what arrived; an application that polls the memory itself must
// do so with sync/atomic.
type MR struct {
	dev *Device
	mr  mrProvider

	changes sync.Mutex // Rereg and Close
	now     atomic.Pointer[registration]
}

// registration is what a region is made of. It is immutable.
type registration struct {
	pd     *PD
	buf    []byte
	access Access
	held   []*Buffer // that buf is of
}

func newMR(below mrProvider, r registration) *MR {
	m := &MR{dev: r.pd.dev, mr: below}
	m.now.Store(&r)
	return m
}

func (m *MR) kind() string    { return "MR" }
func (m *MR) label() string   { return fmt.Sprintf("0x%08x", m.mr.LKey()) }
func (m *MR) needs() []object { return []object{m.now.Load().pd} }

// RegMR registers buf with the given rights (ibv_reg_mr); keys then use its real addresses. The
// same bytes may be registered any number of times, buf may be empty, and it stays alive until
// Close. RemoteWrite and RemoteAtomic need LocalWrite; RemoteAtomic needs memory aligned to 8 bytes
// at addresses that are. FlushPersistent is for a mapping of a file: a peer's FLUSH then returns
// when the bytes are on its storage (msync); of other memory it says no more than a FLUSH for
// visibility. Keep the region until it has returned: if it is closed, or given other memory,
// before, that FLUSH fails with WCRemOpErr. Storage works for eight FLUSHes of a device and for two
// of a queue pair at a time. However long it takes, a peer that asks again is told to wait, by RNR
// NAKs: it needs a RetryCnt above 0, and an RNRRetry of 7, or it may give up. ErrNotSupported of
// FlushPersistent where the system or the device cannot. ErrInvalid names the rule, ErrLimit is a
// device without a free region.
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
	held := holdBuffers(buf)
	err = p.createSlowly("RegMR", "MR", func() (object, error) {
		below, err := p.pd.regMR(buf, iova, access)
		m = newMR(below, registration{p, buf, access, held})
		return m, err
	})
	if err != nil {
		releaseBuffers(held)
		return nil, err
	}
	return m, nil
}

// RegMRAt registers length bytes at an address that the Go runtime need not know: of a mapping, or
// of a C program that this stack serves. (The address of Go memory keeps nothing alive: that is for
// RegMR.) Keys use the address iova for the first byte. The memory must stay until Close; if it
// goes sooner, see the package comment on memory. ErrInvalid of a range that begins below 4096 or
// ends beyond the address space.
//
// With OnDemand, RegMRAt(0, math.MaxUint64, 0, access) registers the whole address space of the
// process, by the addresses that it has (implicit on-demand registration). Then nothing is kept
// alive, Bytes is nil, and what is not mapped is an error of the request that names it. It is meant
// for local use: with a remote right the peer can do to the process whatever it likes. It may not
// be ZeroBased, nor have windows. ErrNotSupported of a device that has no such thing.
func (p *PD) RegMRAt(addr uintptr, length, iova uint64, access Access) (*MR, error) {
	if addr == 0 && length == math.MaxUint64 && access&OnDemand != 0 {
		return p.regAll(iova, access)
	}
	const lowest = 4096 // nothing is mapped below it
	n := uintptr(length)
	if length > math.MaxInt || n > 0 && addr < lowest || addr+n < addr {
		return nil, p.dev.fail("RegMR", fmt.Errorf("%w: %d bytes at address %#x", ErrInvalid, length, addr))
	}
	at := *(*unsafe.Pointer)(unsafe.Pointer(&addr))
	return p.RegMRIOVA(unsafe.Slice((*byte)(at), int(length)), iova, access)
}

// regAll registers the whole address space.
func (p *PD) regAll(iova uint64, access Access) (m *MR, err error) {
	err = p.createSlowly("RegMR", "MR", func() (object, error) {
		if iova != 0 {
			return nil, fmt.Errorf("%w: address %#x for the whole address space, which has addresses of its own",
				ErrInvalid, iova)
		}
		below, err := p.pd.regAll(access)
		m = newMR(below, registration{pd: p, access: access})
		return m, err
	})
	if err != nil {
		return nil, err
	}
	return m, nil
}

// AllocNullMR makes a null region (ibv_alloc_null_mr): it has all addresses, from 0 on, and no
// memory. What is received or read into it is dropped, and what is sent from it is zeros, of any
// length. It is for local use: only LKey means anything, Len is 0, and Rereg is ErrInvalid.
// ErrLimit is a device without a free region, ErrNotSupported one that has no such thing.
func (p *PD) AllocNullMR() (m *MR, err error) {
	err = p.create("AllocNullMR", func() error {
		below, err := p.pd.allocNullMR()
		if err == nil {
			m = newMR(below, registration{pd: p, access: LocalWrite})
			p.dev.objects.add(m)
		}
		return err
	})
	return m, err
}

// ReregFlags say what MR.Rereg changes (ibv_rereg_mr_flags), a set.
type ReregFlags = mr.Change

// What MR.Rereg can change.
const (
	ReregTranslation = mr.ChangeTranslation // the memory
	ReregPD          = mr.ChangePD          // the protection domain
	ReregAccess      = mr.ChangeAccess      // the rights
)

// Rereg registers the region again (ibv_rereg_mr), as what flags name of a domain of the same
// device, memory, and rights; what they do not name stays, and its argument is not looked at. Keys
// then use the real addresses of buf, or 0 with ZeroBased. With another memory or domain LKey and
// RKey are others: tell peers anew. When Rereg returns, the stack has stopped touching what was
// before, as after Close, and requests that still name it complete with WCLocProtErr.
//
// If it fails the region is what it was: ErrBusy while windows are bound to it, ErrInvalid of a
// broken rule of RegMR, of no flags, of ReregAccess alone that changes ZeroBased, or of a domain of
// another device, ErrClosed, ErrNotSupported. But a device of the kernel may say in the text that
// the region is lost: then it can only be closed (IBV_REREG_MR_ERR_CMD).
func (m *MR) Rereg(flags ReregFlags, pd *PD, buf []byte, access Access) error {
	m.changes.Lock()
	defer m.changes.Unlock()
	old := m.now.Load()
	to := *old
	var fresh, gone []*Buffer
	if flags&ReregPD != 0 {
		to.pd = pd
	}
	if flags&ReregAccess != 0 {
		to.access = access
	}
	if flags&ReregTranslation != 0 {
		fresh, gone = holdBuffers(buf), old.held
		to.buf, to.held = buf, fresh
	}
	err := m.become(flags, &to)
	if err != nil {
		gone = fresh
	}
	releaseBuffers(gone)
	return err
}

// become registers the region again as to says. Meanwhile its domain is kept from being closed.
func (m *MR) become(flags ReregFlags, to *registration) error {
	d := m.dev
	if to.pd == nil || to.pd.dev != d {
		return d.fail("Rereg", fmt.Errorf("%w: the PD is none of this device", ErrInvalid))
	}
	iova := mr.AddrOf(to.buf)
	if to.access&ZeroBased != 0 {
		iova = 0
	}
	now := &underway{what: "MR", pd: to.pd}
	if err := to.pd.create("Rereg", func() error {
		if !d.objects.has(m) {
			return fmt.Errorf("MR: %w", ErrClosed)
		}
		d.objects.add(now)
		return nil
	}); err != nil {
		return err
	}
	err := m.mr.rereg(flags, to.pd.pd, to.buf, iova, to.access)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.objects.remove(now)
	if err == nil {
		d.objects.remove(m)
		m.now.Store(to)
		d.objects.add(m) // it needs another domain
	}
	return d.fail("Rereg", err)
}

// LKey is the key for local scatter/gather elements.
func (m *MR) LKey() uint32 { return m.mr.LKey() }

// RKey is the key to give to peers. Without a remote right it opens nothing.
func (m *MR) RKey() uint32 { return m.mr.RKey() }

// Addr is the address that keys use for the first byte: the peer's SendWR.RemoteAddr for offset 0.
func (m *MR) Addr() uint64 { return m.mr.IOVA() }

// Len is the length in bytes.
func (m *MR) Len() int { return len(m.now.Load().buf) }

// Bytes is the registered memory itself.
func (m *MR) Bytes() []byte { return m.now.Load().buf }

// SGE names n bytes from offset off. It checks nothing; a range outside the region makes the work
// request that uses it complete with WCLocProtErr. n is at most 2^32-1.
func (m *MR) SGE(off, n int) SGE {
	return SGE{Addr: m.mr.IOVA() + uint64(off), Length: uint32(min(uint64(n), math.MaxUint32)), LKey: m.mr.LKey()}
}

// Close deregisters the region (ibv_dereg_mr). When it returns, the stack has stopped touching the
// memory; requests that still name it complete with WCLocProtErr, and a peer that does loses its
// connection. While windows are bound to the region the error is ErrBusy. A second Close does
// nothing.
func (m *MR) Close() error {
	m.changes.Lock()
	defer m.changes.Unlock()
	return m.dev.destroy(m, func() error {
		err := m.mr.Close()
		if err == nil {
			releaseBuffers(m.now.Load().held)
		}
		return err
	})
}

// MW is a memory window (ibv_mw): a second key to a part of a region. All methods may be called
// from any goroutine.
//
// One of type 1 is bound by QP.BindMW, as often as one likes, and opens its range to the peers of
// every queue pair of the domain. One of type 2 is bound by a WRBindMW request and taken back by
// WRLocalInv or by the peer's WRSendWithInv, and opens its range to the peer of the queue pair that
// has bound it, until that is reset or closed: then it is free again. A WRSendWithInv behind a READ
// through the window needs SendFence, or it takes the window from under the READ's responses.
type MW struct {
	pd  *PD
	typ MWType
	mw  mwProvider
}

func (w *MW) kind() string    { return "MW" }
func (w *MW) label() string   { return fmt.Sprintf("0x%08x", w.mw.RKey()) }
func (w *MW) needs() []object { return []object{w.pd} }

// AllocMW makes a window of type MWType1 or MWType2 (ibv_alloc_mw), else ErrInvalid. ErrLimit if
// the device has no more, ErrClosed, ErrNotSupported of a device without windows.
func (p *PD) AllocMW(typ MWType) (w *MW, err error) {
	err = p.create("AllocMW", func() error {
		if typ != MWType1 && typ != MWType2 {
			return fmt.Errorf("%w: a window of type %d: there are 1 and 2", ErrInvalid, typ)
		}
		below, err := p.pd.allocMW(typ)
		if err == nil {
			w = &MW{pd: p, typ: typ, mw: below}
			p.dev.objects.add(w)
		}
		return err
	})
	return w, err
}

// Type is the type that the window was made with.
func (w *MW) Type() MWType { return w.typ }

// RKey is the present key: that of the last bind, or the one the window was born with. A bind
// counts when QP.BindMW returns (type 1), or when its request has been executed (type 2).
// BindInfo.NewKey must share its upper 24 bits; IncRKey makes a fresh one.
func (w *MW) RKey() uint32 { return w.mw.RKey() }

// Bound tells whether the window is bound to a region now; of a verbs device, which does not say,
// whether the last request that was posted for it was a bind.
func (w *MW) Bound() bool { return w.mw.Bound() }

// MWBindAttr says what QP.BindMW binds (ibv_mw_bind).
type MWBindAttr struct {
	WRID  uint64
	Flags SendFlags
	// the region, which needs the right MWBind and must not be ZeroBased; nil if Length is 0
	MR     *MR
	Addr   uint64 // the first byte, as the region's keys count addresses
	Length uint64 // bytes; 0 unbinds the window
	// RemoteWrite, RemoteRead, RemoteAtomic, and of the region's rights to FLUSH
	Access Access
}

// BindMW binds a window of type 1 (ibv_bind_mw): it posts that to the send queue, where it takes a
// slot and completes with WCBindMW in its turn. When BindMW returns, RKey is the window's new key,
// which a later request of the queue may tell the peer. What the window was bound to before is
// closed when the bind is executed; a WRITE of another queue pair that has just been let in may end
// after that.
//
// The error is that of PostSend, or ErrInvalid of a window of type 2, or of an object of another
// protection domain. What is wrong with the range or the rights is said by the completion,
// WCMWBindErr; then the key opens nothing and the queue pair has failed.
func (q *QP) BindMW(w *MW, b MWBindAttr) error {
	info := BindInfo{Addr: b.Addr, Length: b.Length, Access: b.Access}
	err := func() error {
		if err := q.faults.verb("BindMW"); err != nil {
			return err
		}
		switch {
		case w == nil || w.pd != q.pd:
			return fmt.Errorf("%w: the window is not of the PD of QP 0x%06x", ErrInvalid, q.QPN())
		case b.MR == nil && b.Length != 0:
			return fmt.Errorf("%w: %d bytes of no region", ErrInvalid, b.Length)
		case b.MR != nil && b.MR.now.Load().pd != q.pd:
			return fmt.Errorf("%w: the region is not of the PD of QP 0x%06x", ErrInvalid, q.QPN())
		case b.MR != nil:
			info.LKey = b.MR.LKey()
		}
		return w.mw.bind(q, b.WRID, b.Flags, info)
	}()
	return q.pd.dev.fail("BindMW", err)
}

// Close frees the window, bound or not (ibv_dealloc_mw). A second Close does nothing.
func (w *MW) Close() error { return w.pd.dev.destroy(w, w.mw.Close) }

// IncRKey returns rkey with its low byte counted up: the next key of the same window
// (ibv_inc_rkey).
func IncRKey(rkey uint32) uint32 { return mr.IncRKey(rkey) }
