//go:build !race

package roce

import "testing"

// TestBuildingAllocatesNothing: nor do requests that are built piece by piece.
func TestBuildingAllocatesNothing(t *testing.T) {
	a, b := connected(t, wires[1], RC, 64)
	x := a.qp.Ex()
	data, pieces := make([]byte, 20), []SGE{a.mr.SGE(0, 8), a.mr.SGE(8, 8)}
	var wcs [8]WC
	var none [1]WC
	list := func() {
		x.WRStart()
		for range 4 {
			x.WRRDMAWrite(b.mr.RKey(), b.mr.Addr())
			x.WRSetInlineData(data)
			x.WRRDMAWrite(b.mr.RKey(), b.mr.Addr())
			x.WRSetSGEList(pieces)
		}
		if err := x.WRComplete(); err != nil {
			t.Error(err)
		}
		for got := 0; got < 8; {
			n, err := a.cq.Poll(wcs[:])
			_, err2 := b.cq.Poll(none[:])
			if err != nil || err2 != nil {
				t.Error(err, err2)
			}
			got += n
		}
	}
	for range 100 {
		list()
	}
	if n := testing.AllocsPerRun(500, list); n != 0 {
		t.Errorf("%v allocations a list", n)
	}
}

// TestNoAllocation: in the steady state a message costs no garbage, from post to completion, sent
// and received.
func TestNoAllocation(t *testing.T) {
	overWires(t, func(t *testing.T, w wire2) {
		a, b := connected(t, w, RC, 64<<10)
		var wcs [4]WC
		sgl := []SGE{a.mr.SGE(0, 20000)}
		into := []SGE{b.mr.SGE(0, 20000)}
		send := SendWR{Opcode: WRSend, SGL: sgl}
		read := SendWR{Opcode: WRRead, SGL: sgl, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()}
		recv := RecvWR{SGL: into}
		message := func() {
			if b.qp.PostRecv(recv) != nil || a.qp.PostSend(send, read) != nil {
				t.Error("post failed")
			}
			for got := 0; got < 3; {
				x, err := a.cq.Poll(wcs[:])
				y, err2 := b.cq.Poll(wcs[x:])
				if err != nil || err2 != nil {
					t.Error(err, err2)
				}
				got += x + y
			}
		}
		for range 300 {
			message()
		}
		if n := testing.AllocsPerRun(1000, message); n != 0 {
			t.Errorf("%v allocations per message", n)
		}
	})
}
