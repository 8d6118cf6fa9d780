package roce

// Memory at an address, and the address handle that answers a datagram.

import (
	"math"
	"runtime"
	"testing"
	"unsafe"
)

// TestAnswerADatagram: the handle made from a completion leads back to the sender.
func TestAnswerADatagram(t *testing.T) {
	overWires(t, func(t *testing.T, w wire2) {
		da, db := w.open(t, nil)
		a, b := newEnd(t, da, UD, 256), newEnd(t, db, UD, 256)
		must(t, a.qp.Activate(7))
		must(t, b.qp.Activate(7))
		there, err := a.pd.CreateAH(bg, AHAttr{DGID: b.qp.Endpoint().GID})
		must(t, err)
		defer func() { must(t, a.pd.DestroyAH(there)) }()
		a.recv(1, a.mr.SGE(0, 100))
		b.recv(2, b.mr.SGE(0, 100))
		a.post(SendWR{Opcode: WRSend, AH: there, RemoteQPN: b.qp.QPN(), RemoteQKey: 7})
		a.wait()
		question := b.wait()
		back, err := b.pd.CreateAHFromWC(bg, &question, b.buf[:GRHSize])
		must(t, err)
		defer func() { must(t, b.pd.DestroyAH(back)) }()
		b.post(SendWR{Opcode: WRSend, Flags: SendInline, Inline: []byte("yes"), AH: back, RemoteQPN: question.SrcQP, RemoteQKey: 7})
		b.wait()
		if answer := a.wait(); answer.WRID != 1 || answer.SrcQP != b.qp.QPN() {
			t.Errorf("%+v", answer)
		}
		same(t, a.buf[GRHSize:GRHSize+3], []byte("yes"))

		_, err = b.pd.CreateAHFromWC(bg, &WC{Opcode: WCSend}, b.buf[:GRHSize])
		refused(t, err, ErrInvalid, "without WCGRH")
		_, err = AHAttrFromWC(nil, nil)
		refused(t, err, ErrInvalid)
		_, err = b.pd.CreateAHFromWC(bg, &question, make([]byte, GRHSize-1))
		refused(t, err, ErrInvalid, "neither")
	})
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
