package soft

// FLUSHes to storage: what the engines want synced is synced on a goroutine of its own, as that
// takes milliseconds, while the lanes go on; or, where the device has no goroutines, on the spot.
// The memory may have been deregistered by then, and unmapped: a sync touches no byte of it, and
// fails if it is gone.
//
// Stages: as many syncs as there is room for → one beside the lanes → slow storage, for tests.

import (
	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/roce/internal/storage"
	"github.com/goroce/goroce/wire"
)

// maxSyncs is how many syncs of a device are under way at the same time, each on a goroutine and a
// thread. The others wait in qp.Storage, on none.
const maxSyncs = 8

// sync begins what peers have asked for, as far as there is room. The caller has the turn lock.
func (l *lane) sync(t qp.Time) {
	for s, ok := l.engine.PollSync(); ok; s, ok = l.engine.PollSync() {
		if !l.drive.Attended() {
			l.engine.Synced(t, s, storage.Sync(s.Mem) == nil)
			continue
		}
		l.dev.syncs.Add(1)
		go l.dev.syncBeside(s)
	}
}

// syncBeside is sync beside the lanes. The turn in which it says how that went begins the next.
func (d *Device) syncBeside(s qp.Sync) {
	defer d.syncs.Done()
	err := storage.Sync(s.Mem)
	d.lanes[wire.LaneOf(s.QP().QPN(), len(d.lanes))].do(func(e *qp.Engine, now qp.Time) error {
		e.Synced(now, s, err == nil)
		return nil
	})
}

// HoldStorage keeps all syncs that are yet to begin waiting, as slow storage would, until release
// is called, once: for tests of what peers make of that.
func (d *Device) HoldStorage() (release func()) {
	d.storage.SetMost(0)
	return func() {
		d.storage.SetMost(maxSyncs)
		d.eachLane(func(*qp.Engine) error { return nil }) // a turn
	}
}
