package soft

// The hands of package drive, which knows who runs a lane: what that one sleeps on, and is woken
// with.
//
// Stages: the hands → what an event calls for (carryOut) → what the events want to know of the
// lane.

import (
	"time"

	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/roce/internal/soft/drive"
	"github.com/goroce/goroce/transport"
)

// hands are a lane's.
type hands struct {
	// the port, if two can watch it in turn; nil: the background alone does
	seats   transport.Seats
	standby alarm         // what a background that stands by sleeps on
	done    chan struct{} // closed when the background has ended; nil: there was none
	relief  relief
}

// carryOut wakes whom an event calls for. But for Standby and Both the caller has the turn lock.
func (l *lane) carryOut(c drive.Call) {
	switch c {
	case drive.CallNobody:
	case drive.CallSetAlarm:
		l.seats.SetAlarm(waitFor(l.drive.AlarmAt(), l.clock.at))
	case drive.CallBackground:
		l.count.Wakes++
		l.port.Wake()
	case drive.CallRelief:
		l.count.Wakes++
		l.rouseRelief()
	case drive.CallBoth:
		l.port.Wake()
		l.rouseRelief()
	case drive.CallStandby:
		if l.done != nil { // else a test plays the background
			l.standby.end()
		}
	}
}

// waitFor is the argument of port.Wait to sleep until a deadline.
func waitFor(until, t qp.Time) time.Duration {
	if until == qp.Never {
		return -1
	}
	return time.Duration(max(until-t, 0))
}

// rouseRelief wakes the goroutine that watches the port as relief, if there is one.
func (l *lane) rouseRelief() {
	if l.seats != nil {
		l.seats.Rouse(transport.Relief)
	}
}

// inUse tells whether an application polls the lane, however long its present turn takes.
func (l *lane) inUse() bool {
	return l.drive.Polled() && (l.turns.held() || l.drive.Leased(l.clock.now()))
}

// bedtime is until when the one who watches the port is to sleep. An alarm is worth the exact time
// of what is due next.
func (l *lane) bedtime(t qp.Time) qp.Time {
	if l.seats != nil && l.deadline == l.engine.PollTimeout() {
		l.deadline = l.engine.NextTimeout()
	}
	return l.drive.Until(l.deadline, t)
}
