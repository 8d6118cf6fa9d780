package roce

// A bad network changes nothing but the time it takes.

import (
	"testing"

	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/fault"
)

// TestLossyNetwork runs the streams of TestManyQueuePairs and one-sided operations over a port that
// loses, repeats, reorders and damages packets.
func TestLossyNetwork(t *testing.T) {
	seed := uint64(0)
	faulty := func(p transport.Port) transport.Port {
		seed++
		return fault.Wrap(p, fault.Config{Seed: seed, Loss: 0.02, Duplicate: 0.02, Reorder: 0.02, Corrupt: 0.02})
	}
	overWires(t, func(t *testing.T, w wire2) {
		t.Run("send", func(t *testing.T) { manyQueuePairs(t, w, faulty, 3, 200) })
		t.Run("one-sided", func(t *testing.T) {
			a, b := connectedOn(t, w, faulty, RC, 256<<10)
			half := 128 << 10
			for i := range 30 {
				size := 1 + i*4321%half
				fill(a.buf[:size], i)
				a.post(SendWR{Opcode: WRWrite, SGL: []SGE{a.mr.SGE(0, size)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
				a.post(SendWR{Opcode: WRRead, SGL: []SGE{a.mr.SGE(half, size)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
				a.wait()
				a.wait()
				same(t, a.buf[half:half+size], a.buf[:size])
			}
			// Every addition is made exactly once, whatever was repeated.
			clear(b.buf[:8])
			for i := range uint64(100) {
				a.post(SendWR{
					WRID:       i,
					Opcode:     WRAtomicFetchAndAdd,
					CompareAdd: 1,
					SGL:        []SGE{a.mr.SGE(0, 8)},
					RemoteAddr: b.mr.Addr(),
					RKey:       b.mr.RKey(),
				})
				a.wait()
				if a.buf[0] != byte(i) {
					t.Fatalf("addition %d found %d", i, a.buf[0])
				}
			}
			if s := a.dev.Stats(); s.Engine.Retransmitted == 0 {
				t.Error("nothing was retransmitted: the network was not bad")
			}
		})
	})
}

// TestSelectiveRepeat: two ends that agreed on it move the same bytes over the same bad network,
// and keep what comes after a gap.
func TestSelectiveRepeat(t *testing.T) {
	faulty := func(p transport.Port) transport.Port {
		return fault.Wrap(p, fault.Config{Seed: 7, Loss: 0.03, Duplicate: 0.02, Reorder: 0.02, Corrupt: 0.02})
	}
	overWires(t, func(t *testing.T, w wire2) {
		const size, messages = 32 << 10, 32
		da, db := w.open(t, faulty)
		a, b := newEnd(t, da, RC, size*messages), newEnd(t, db, RC, size*messages)
		o := DefaultConnectOptions()
		o.SelectiveRepeat = true
		must(t, a.qp.Connect(bg, b.qp.Endpoint(), &o))
		must(t, b.qp.Connect(bg, a.qp.Endpoint(), &o))
		if attr, err := a.qp.Query(); err != nil || !attr.SelectiveRepeat {
			t.Errorf("Query: selective repeat %v, %v", attr.SelectiveRepeat, err)
		}
		fill(a.buf, 3)
		for i := range messages {
			a.post(SendWR{Opcode: WRWrite, SGL: []SGE{a.mr.SGE(i*size, size)}, RemoteAddr: b.mr.Addr() + uint64(i*size), RKey: b.mr.RKey()})
		}
		for range messages {
			a.wait()
		}
		same(t, b.buf, a.buf)
		if db.Stats().Engine.Kept == 0 {
			t.Error("nothing was kept behind a gap")
		}
	})
}
