package roce

// Regions of the whole address space, and regions that are registered again.

import (
	"errors"
	"math"
	"runtime"
	"testing"
	"unsafe"
)

// addrOf is an SGE of bytes that nobody has registered, by the key of all memory.
func addrOf(all *MR, b []byte) SGE {
	return SGE{Addr: uint64(uintptr(unsafe.Pointer(&b[0]))), Length: uint32(len(b)), LKey: all.LKey()}
}

// TestAllMemory: with the key of the address space any memory is sent and received, locally and by
// a peer that was given the right.
func TestAllMemory(t *testing.T) {
	overWires(t, func(t *testing.T, w wire2) {
		a, b := connected(t, w, RC, 64)
		here, err := a.pd.RegMRAt(0, math.MaxUint64, 0, LocalWrite|OnDemand)
		must(t, err)
		there, err := b.pd.RegMRAt(0, math.MaxUint64, 0, LocalWrite|RemoteWrite|OnDemand)
		must(t, err)
		defer func() { must(t, here.Close()); must(t, there.Close()) }()
		if here.Bytes() != nil || here.Addr() != 0 || here.Len() != 0 {
			t.Errorf("%d bytes at %#x", here.Len(), here.Addr())
		}
		from, to := make([]byte, 10000), make([]byte, 10000)
		fill(from, 6)
		b.recv(1, addrOf(there, to))
		a.post(SendWR{Opcode: WRSend, SGL: []SGE{addrOf(here, from)}})
		a.wait()
		b.wait()
		same(t, to, from)
		clear(to)
		a.post(SendWR{Opcode: WRWrite, SGL: []SGE{addrOf(here, from)}, RemoteAddr: addrOf(there, to).Addr, RKey: there.RKey()})
		a.wait()
		same(t, to, from)
		runtime.KeepAlive(from)
		// an address that is never mapped
		a.post(SendWR{Opcode: WRSend, SGL: []SGE{{Addr: 8, Length: 8, LKey: here.LKey()}}})
		if wc := a.waitAny(); wc.Status != WCLocProtErr {
			t.Errorf("%+v", wc)
		}
	})
}

// TestAllMemoryRefused: addresses are its own, and nothing else is of that length.
func TestAllMemoryRefused(t *testing.T) {
	e := newEnd(t, openDevice(t, "pipe:all-memory", nil), RC, 8)
	for name, f := range map[string]func() (*MR, error){
		"without OnDemand": func() (*MR, error) { return e.pd.RegMRAt(0, math.MaxUint64, 0, LocalWrite) },
		"at an address":    func() (*MR, error) { return e.pd.RegMRAt(0, math.MaxUint64, 8, OnDemand) },
		"zero-based":       func() (*MR, error) { return e.pd.RegMRAt(0, math.MaxUint64, 0, OnDemand|ZeroBased) },
		"for windows":      func() (*MR, error) { return e.pd.RegMRAt(0, math.MaxUint64, 0, OnDemand|MWBind) },
	} {
		if _, err := f(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestReregHolds: a domain and a Buffer are held by the region that is of them now, and only by it.
func TestReregHolds(t *testing.T) {
	d := openDevice(t, "pipe:rereg-holds", nil)
	var pds [2]*PD
	var buffers [2]*Buffer
	for i := range pds {
		var err error
		pds[i], err = d.AllocPD()
		must(t, err)
		buffers[i], err = AllocBuffer(4096, nil)
		must(t, err)
	}
	m, err := pds[0].RegMR(buffers[0].Bytes(), LocalWrite)
	must(t, err)
	refused(t, m.Rereg(ReregTranslation|ReregAccess, nil, buffers[1].Bytes(), RemoteWrite), ErrInvalid, "Rereg on pipe:rereg-holds")
	must(t, m.Rereg(ReregTranslation|ReregPD, pds[1], buffers[1].Bytes(), 0))
	must(t, buffers[0].Close())
	must(t, pds[0].Close())
	refused(t, buffers[1].Close(), ErrBusy)
	refused(t, pds[1].Close(), ErrBusy)
	refused(t, m.Rereg(ReregPD, pds[0], nil, 0), ErrClosed)
	must(t, m.Close())
	must(t, buffers[1].Close())
	must(t, pds[1].Close())
}
