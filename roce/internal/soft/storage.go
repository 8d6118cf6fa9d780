package soft

// FLUSH to storage: what the engine wants synced is synced on a goroutine of its own, as that takes
// milliseconds, while the lane goes on; or, without goroutines, on the spot.
//
// The memory may have been deregistered by then, and unmapped: a sync touches no byte of it, and
// fails if it is gone.

import (
	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/roce/internal/storage"
)

// maxSyncs is how many syncs of a device are under way at the same time, each on a thread. The
// others wait, on none.
const maxSyncs = 8

// sync does what peers have asked for since the last time. The caller has the turn lock.
func (l *lane) sync(t qp.Time) {
	for s, ok := l.engine.PollSync(); ok; s, ok = l.engine.PollSync() {
		if l.dev.cfg.NoBackground {
			l.engine.Synced(t, s, storage.Sync(s.Mem) == nil)
			continue
		}
		l.dev.syncs.Add(1)
		go l.syncBeside(s)
	}
}

// syncBeside is sync beside the lane.
func (l *lane) syncBeside(s qp.Sync) {
	defer l.dev.syncs.Done()
	l.dev.syncing <- struct{}{}
	err := storage.Sync(s.Mem)
	<-l.dev.syncing
	l.do(func(e *qp.Engine, now qp.Time) error {
		e.Synced(now, s, err == nil)
		return nil
	})
}
