package soft

// FLUSHes to storage of several lanes.

import (
	"testing"

	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/qp"
)

// TestStorageOfLanes: the lanes of a device share its storage. Where one sync at a time is under
// way, its end begins the next, whichever lane that is of, and each lane hears of its own.
func TestStorageOfLanes(t *testing.T) {
	name := udpNames()
	a, err := Open(name(0), Config{})
	must(t, err)
	defer a.Close()
	b, err := Open(name(1), Config{Lanes: 4})
	must(t, err)
	defer b.Close()
	t.Run("", func(t *testing.T) {
		var from []*end
		release := b.HoldStorage()
		const each = 3
		for range 8 {
			x, y := newEnd(t, a, RC, 64), newEnd(t, b, RC, 64)
			connect(t, x, y)
			region, err := regMR(y.pd, make([]byte, 64), LocalWrite|RemoteWrite|mr.FlushPersistent)
			must(t, err)
			defer func() { must(t, region.Close()) }()
			from = append(from, x)
			for range each {
				x.post(SendWR{Opcode: qp.WRFlush, RemoteAddr: region.Addr(), RKey: region.RKey(),
					Flush: qp.FlushInfo{Placement: qp.PlacementPersistent, Selectivity: qp.SelectivityMR}})
			}
			y.recv(1)
			x.post(SendWR{Opcode: WRSend})
			y.wait() // once it is there, the FLUSHes are
		}
		b.storage.SetMost(1)
		b.lanes[3].do(func(*qp.Engine, qp.Time) error { return nil })
		for _, x := range from {
			for range each + 1 {
				x.wait()
			}
		}
		release()
	})
}
