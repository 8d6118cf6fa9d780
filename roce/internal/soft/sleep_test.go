package soft

// A background that sleeps without a deadline.

import (
	"testing"
	"time"
)

// TestTimerWhileAsleep: a request to nobody ends by its timer although nobody polls when the timer
// is due: the post has to wake the background, which sleeps without a deadline.
func TestTimerWhileAsleep(t *testing.T) {
	overWires(t, func(t *testing.T, w wire2) {
		a, b := connected(t, w, RC, 64)
		must(t, b.qp.Modify(bg, &QPAttr{State: StateReset}, AttrState))
		must(t, a.qp.Modify(bg, &QPAttr{State: StateReset}, AttrState))
		o := QPAttr{Timeout: 8, RetryCnt: 1} // 2 x 1 ms
		must(t, a.qp.Connect(b.qp.Endpoint(), &o))
		for range 20 {
			for !a.qp.lane.sleeping() {
				// not to synchronise: to let the background come to rest
				time.Sleep(time.Millisecond)
			}
			must(t, a.cq.ReqNotify(false))
			a.post(SendWR{Opcode: WRSend})
			<-a.told
			if wc := a.waitAny(); wc.Status != WCRetryExcErr {
				t.Fatalf("%v", wc.Status)
			}
			must(t, a.qp.Modify(bg, &QPAttr{State: StateReset}, AttrState))
			must(t, a.qp.Connect(b.qp.Endpoint(), &o))
		}
	})
}

// sleeping tells whether the background sleeps on the port.
func (l *lane) sleeping() bool { return l.drive.Asleep() }
