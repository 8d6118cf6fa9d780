//go:build !race

package roce

import "testing"

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
