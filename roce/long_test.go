package roce

// Messages of many megabytes over every wire, whose packets fill any socket buffer. That operations
// do what they promise, with messages from nothing to many packets, is in package conformance.

import "testing"

func TestLong(t *testing.T) {
	size := 16 << 20
	if testing.Short() {
		size = 1<<20 + 1
	}
	overWires(t, func(t *testing.T, w wire2) {
		a, b := connected(t, w, RC, size)
		fill(a.buf, 1)
		b.recv(7, b.mr.SGE(0, size))
		a.post(SendWR{Opcode: WRSend, SGL: []SGE{a.mr.SGE(0, size)}})
		a.wait()
		if wc := b.wait(); wc.ByteLen != uint32(size) {
			t.Errorf("%+v", wc)
		}
		same(t, b.buf, a.buf)
		for i, op := range []WROpcode{WRWrite, WRRead} {
			from, to := a.buf, b.buf
			if op == WRRead {
				from, to = b.buf, a.buf
			}
			fill(from, 2+i)
			a.post(SendWR{Opcode: op, SGL: []SGE{a.mr.SGE(0, size)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
			a.wait()
			same(t, to, from)
		}
	})
}

// TestLongUC: of UC nobody repeats what is lost, so a message is as long as what a socket's buffer
// holds. The kernel counts more for a packet than its bytes.
func TestLongUC(t *testing.T) {
	overWires(t, func(t *testing.T, w wire2) {
		a, b := connected(t, w, UC, 1<<20+1)
		size := min(len(a.buf), max(a.dev.PortInfo().RecvBuffer, 4<<20)/4)
		fill(a.buf, 1)
		b.recv(7, b.mr.SGE(0, size))
		a.post(SendWR{Opcode: WRSend, SGL: []SGE{a.mr.SGE(0, size)}})
		a.wait()
		b.wait()
		same(t, b.buf[:size], a.buf[:size])
	})
}
