package perf

// --perform-warm-up: messages before those that count.

import (
	"context"

	"github.com/goroce/goroce/roce"
)

// warmUp fills the send queues once and waits until all is done, so that the measured part finds
// warm caches and an open window. It is for one-sided operations: SENDs would need receives.
func (s *stream) warmUp(ctx context.Context) error {
	for _, q := range s.queues {
		for q.posted < s.o.TxDepth {
			n := min(len(q.wrs), s.o.TxDepth-q.posted)
			s.address(q, n)
			if w := &q.wrs[n-1]; w.Flags&roce.SendSignaled == 0 {
				w.Flags |= roce.SendSignaled
				q.signed = q.posted
			}
			if err := q.PostSend(q.wrs[:n]...); err != nil {
				return err
			}
		}
	}
	all := func() bool {
		for _, q := range s.queues {
			if q.done < q.posted {
				return false
			}
		}
		return true
	}
	take := func(wcs []roce.WC) error {
		for i := range wcs {
			if err := s.check(&wcs[i]); err != nil {
				return err
			}
			s.queues[wcs[i].WRID&indexMask].done = int(wcs[i].WRID >> countShift)
		}
		return nil
	}
	if err := s.wait.Until(ctx, s.wcs, all, take); err != nil {
		return err
	}
	s.rig.size(s.size)
	return nil
}
