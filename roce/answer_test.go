package roce

// Memory at an address, and what makes no address handle to answer a datagram with.

import (
	"math"
	"runtime"
	"testing"
	"unsafe"
)

// TestAnswerRefused: a completion that leads back to nobody.
func TestAnswerRefused(t *testing.T) {
	e := newEnd(t, openDevice(t, "pipe:answer", nil), UD, 64)
	_, err := e.pd.CreateAHFromWC(bg, &WC{Opcode: WCSend}, e.buf)
	refused(t, err, ErrInvalid, "without WCGRH")
	_, err = AHAttrFromWC(nil, nil)
	refused(t, err, ErrInvalid)
	_, err = e.pd.CreateAHFromWC(bg, &WC{Opcode: WCRecv, Flags: WCGRH}, e.buf[:GRHSize-1])
	refused(t, err, ErrInvalid, "neither")
}

// TestRegMRAt: memory that is given by address and length is the same memory.
func TestRegMRAt(t *testing.T) {
	a, b := connected(t, wires[0], RC, 64)
	mem := make([]byte, 4096)
	defer runtime.KeepAlive(mem)
	mr, err := b.pd.RegMRAt(uintptr(unsafe.Pointer(&mem[0])), 4096, 0x1000, LocalWrite|RemoteWrite)
	must(t, err)
	defer func() { must(t, mr.Close()) }()
	if mr.Addr() != 0x1000 || mr.Len() != 4096 {
		t.Errorf("address 0x%x, %d bytes", mr.Addr(), mr.Len())
	}
	fill(a.buf, 3)
	a.post(SendWR{Opcode: WRWrite, SGL: []SGE{a.mr.SGE(0, 64)}, RemoteAddr: 0x1000 + 4032, RKey: mr.RKey()})
	a.wait()
	same(t, mem[4032:], a.buf)

	none, err := b.pd.RegMRAt(0, 0, 0, LocalWrite)
	must(t, err)
	must(t, none.Close())
	_, err = b.pd.RegMRAt(0, 1, 0, LocalWrite)
	refused(t, err, ErrInvalid, "1 bytes at address")
	_, err = b.pd.RegMRAt(uintptr(unsafe.Pointer(&mem[0])), math.MaxInt+1, 0, LocalWrite)
	refused(t, err, ErrInvalid)
}
