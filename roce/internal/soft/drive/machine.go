package drive

// Who watches the port, where the background is, and who sleeps: the table of the package comment.
//
// Stages: the states → the lease of an application that polls → the background → the relief →
// sleeping, and waking the sleeper → what an application that is trusted may leave.

import (
	"sync/atomic"

	"github.com/goroce/goroce/qp"
)

const microsecond = qp.Time(1000)

const (
	// LeaseLife is how long after its last poll an application is believed to poll on. Then the
	// background takes over.
	LeaseLife = 50 * microsecond
	// minStandby and MaxStandby bound how often the background looks whether the application is
	// still polling, if nobody tells it: the longer the application has been at it, the rarer, as
	// each look takes microseconds from a processor that the application or its peer may be polling
	// on.
	minStandby = 50 * microsecond
	MaxStandby = 1000 * microsecond
	// minStayUp and MaxStayUp bound how long the background goes on polling after it last had
	// something to do, before it sleeps: as long as it has been busy since it woke up, so that it
	// takes at most twice the time. In a stream of 20 Gbit/s 100 us are 15 % of the bandwidth at
	// the same cost, as the sender does not have to wake it. 100 us for everybody would spare it
	// waking up for READs 60 us apart (45 -> 10 us, BenchmarkRead), but take its processor from
	// other processes in between: two paced flows and their receiver on two processors came to 0.6
	// to 0.94 : 1 instead of 0.93 to 0.99 ("bench fair").
	minStayUp = 20 * microsecond
	MaxStayUp = 100 * microsecond
)

// place is where the background is.
type place int32

const (
	placeAbsent place = iota // there is none
	placeStandsBy
	placeOnDuty
	placeParked // changes to and from it are made under the turn lock
)

// seat is who watches the port. It changes under the turn lock.
type seat int32

const (
	seatBackground seat = iota
	seatRelief
)

// Call is whom the lane is to wake, or when.
type Call uint8

// The calls.
const (
	CallNobody     Call = iota
	CallSetAlarm        // of the one who watches the port, to AlarmAt
	CallBackground      // which sleeps on the port
	CallRelief          // which does
	CallBoth            // whichever does: who watches may change meanwhile
	CallStandby         // the background, which sleeps on its own alarm
)

// Machine is who runs one lane. The zero Machine is of a lane without a background, on a port that
// knows no relief. Methods are for the holder of the lane's turn lock, unless they say otherwise.
type Machine struct {
	where  atomic.Int32 // a place
	sitter atomic.Int32 // a seat
	lease  atomic.Int64 // when an application last polled; 0 says that none does
	// the one who watches the port sleeps until then at the latest; 0: it is awake, or there is
	// none
	asleep atomic.Int64
	ended  atomic.Bool

	relievable bool    // the port can be watched by a relief, and has alarms
	alarmAt    qp.Time // when the alarm goes off that is set for the one who watches the port
	// the latest deadline that a background without alarms has slept for
	horizon qp.Time

	// the background's own
	standsBySince qp.Time
	onDutySince   qp.Time
	busyAt        qp.Time // when its turns last had something to do

	trust
	pollers
}

// Begin says whether the port can be watched by a relief. It is the first call.
func (m *Machine) Begin(relievable bool) { m.relievable, m.alarmAt = relievable, qp.Never }

// Attend says that there is a background from now on, which sends what an application leaves
// behind. It stands by.
func (m *Machine) Attend(t qp.Time) { m.StandsBy(t) }

// Attended tells whether there is one. Any goroutine.
func (m *Machine) Attended() bool { return m.place() != placeAbsent }

// End says that the lane ends: the background goes, and no relief sits down. Any goroutine.
func (m *Machine) End() { m.ended.Store(true) }

// Ended tells whether it does. Any goroutine.
func (m *Machine) Ended() bool { return m.ended.Load() }

func (m *Machine) place() place  { return place(m.where.Load()) }
func (m *Machine) goes(to place) { m.where.Store(int32(to)) }
func (m *Machine) sits(who seat) { m.sitter.Store(int32(who)) }

// Relieved tells whether the relief has the port. Any goroutine.
func (m *Machine) Relieved() bool { return seat(m.sitter.Load()) == seatRelief }

// Asleep tells whether the one who watches the port sleeps. It is for tests.
func (m *Machine) Asleep() bool { return m.asleep.Load() != 0 }

// Polls gives an application a lease, or a longer one: it is going to poll again soon. It is stored
// only now and then, as others read it. Any goroutine.
func (m *Machine) Polls(t qp.Time) {
	if t-qp.Time(m.lease.Load()) > LeaseLife/8 {
		m.lease.Store(int64(t))
	}
}

// PollsNow is Polls that is stored at once: its turns have been here for long.
func (m *Machine) PollsNow(t qp.Time) { m.lease.Store(int64(t)) }

// Polled tells whether an application has polled since it last went to sleep. Any goroutine.
func (m *Machine) Polled() bool { return m.lease.Load() != 0 }

// Leased tells whether the last poll is so recent that the application is believed to poll on. Any
// goroutine.
func (m *Machine) Leased(t qp.Time) bool { return t-qp.Time(m.lease.Load()) < LeaseLife }

// StopsPolling ends the lease: the application is going to sleep, and what it polled before does
// not mean that it polls on. If another goroutine polls beside it that has a lease again at once.
// Any goroutine.
func (m *Machine) StopsPolling() { m.lease.Store(0) }

// HandsOver is an application that has stopped polling, and leaves the lane to the background. That
// comes, unless another goroutine polls. Any goroutine.
func (m *Machine) HandsOver(t qp.Time) Call {
	if m.Leased(t) {
		return CallNobody
	}
	m.lease.Store(0)
	if m.place() == placeStandsBy {
		return CallStandby
	}
	return CallNobody
}

// Comes is the background that finds nobody polling, and comes on duty. The background.
func (m *Machine) Comes() { m.goes(placeOnDuty) }

// TakesOver is its first turn there. It no longer relies on the application, unless that has the
// port as relief, and keeps what it has earned.
func (m *Machine) TakesOver(t qp.Time) {
	m.onDutySince, m.busyAt = t, t
	if !m.Relieved() {
		m.forget()
	}
}

// TakesTurns tells whether the turns are the background's. It goes to park otherwise.
func (m *Machine) TakesTurns() bool { return !m.Ended() && !m.Relieved() }

// StaysUp tells whether the background goes on polling after a turn; busy says that the turn had
// something to do.
func (m *Machine) StaysUp(busy bool, t qp.Time) bool {
	if busy {
		m.busyAt = t
		return true
	}
	return t-m.busyAt < min(max(m.busyAt-m.onDutySince, minStayUp), MaxStayUp)
}

// StandsBy is the background that finds an application polling. It looks again before it sleeps:
// one that has stopped meanwhile could not see that it is to be woken. The background.
func (m *Machine) StandsBy(t qp.Time) {
	if m.place() != placeStandsBy {
		m.standsBySince = t
		m.goes(placeStandsBy)
	}
}

// NextLook is how long the background stands by before it looks again. The background.
func (m *Machine) NextLook(t qp.Time) qp.Time {
	return min(max((t-m.standsBySince)/8, minStandby), MaxStandby)
}

// Until is until when the one who watches the port is to sleep. Where an alarm can be set for that
// one, it is the deadline. Elsewhere, after deadlines in the future have come and gone (the usual:
// all was acknowledged in time), it is until the latest of them rather than for ever: the next
// request's is later still, so that posting it need not wake the background.
func (m *Machine) Until(deadline, t qp.Time) qp.Time {
	if !m.relievable {
		if deadline != qp.Never {
			m.horizon = max(m.horizon, deadline)
		} else if m.horizon > t {
			return m.horizon
		}
	}
	return max(deadline, 1)
}

// Parks is the background that goes to sleep on the port until then, or behind the relief.
func (m *Machine) Parks(until, t qp.Time) Call {
	m.goes(placeParked)
	if m.Relieved() {
		return CallNobody
	}
	return m.announce(until, t)
}

// Rises is the background that has slept on the port, or behind the relief.
func (m *Machine) Rises() {
	m.goes(placeOnDuty)
	if !m.Relieved() {
		m.asleep.Store(0)
	}
}

// Sits is a goroutine that is to be the relief; false: it cannot, or another one is. No post is
// held then: a relief that sleeps would not send it.
func (m *Machine) Sits() bool {
	if !m.MayRelieve() || m.Ended() {
		return false
	}
	m.sits(seatRelief)
	m.asleep.Store(0)
	m.setMayHold(false)
	return true
}

// MayRelieve tells whether Sits could be true. Any goroutine.
func (m *Machine) MayRelieve() bool {
	return m.relievable && m.Attended() && !m.Relieved()
}

// Dozes is the relief that goes to sleep until then.
func (m *Machine) Dozes(until, t qp.Time) Call { return m.announce(until, t) }

// Stirs is the relief that has slept.
func (m *Machine) Stirs() { m.asleep.Store(0) }

// Leaves is the relief that gives the seat back. A background that is parked sleeps on until then,
// now as the one who watches; mail that came before found nobody asleep, so the lane has to look
// for it. Any other background takes the lane over, unless another goroutine polls.
func (m *Machine) Leaves(until, t qp.Time) Call {
	m.sits(seatBackground)
	if m.place() == placeParked {
		return m.announce(until, t)
	}
	return m.HandsOver(t)
}

// announce says that the one who watches is going to sleep: whoever has the next turn sees it, and
// what the sleeper must be woken for.
func (m *Machine) announce(until, t qp.Time) Call {
	m.asleep.Store(int64(until))
	return m.setAlarm(until, t)
}

// setAlarm says when the one who watches wakes up if nothing happens. An alarm that is set already
// stays.
func (m *Machine) setAlarm(at, t qp.Time) Call {
	if !m.relievable || at == m.alarmAt && t < at {
		return CallNobody
	}
	m.alarmAt = at
	return CallSetAlarm
}

// AlarmAt is when the one who watches the port is to wake up; qp.Never: only when something
// happens.
func (m *Machine) AlarmAt() qp.Time { return m.alarmAt }

// Due sees to it that the one who watches the port does not sleep past at, if it sleeps. If that is
// still to come, setting its alarm will do.
func (m *Machine) Due(at, t qp.Time) Call {
	until := m.asleep.Load()
	if int64(at) >= until {
		return CallNobody
	}
	if m.relievable && at > t {
		if m.asleep.CompareAndSwap(until, int64(at)) {
			return m.setAlarm(at, t)
		}
		return CallNobody
	}
	if !m.asleep.CompareAndSwap(until, 0) {
		return CallNobody
	}
	if m.Relieved() {
		return CallRelief
	}
	return CallBackground
}

// Mail wakes the one who watches the port, if it sleeps: packets have come by another lane. Before
// that one sleeps it announces so, and then looks for mail. Any goroutine.
func (m *Machine) Mail() Call {
	if until := m.asleep.Load(); until != 0 && m.asleep.CompareAndSwap(until, 0) {
		return CallBoth
	}
	return CallNobody
}

// trusting tells whether the application can be relied on to call again at once. While the
// background is on duty it would only be in the way; and without one nobody would send what the
// application leaves.
func (m *Machine) trusting() bool { return m.earned() && m.place() == placeStandsBy }

// Postpones leaves what is due to the next call of an application that polls, unless it was left
// often or long enough.
func (m *Machine) Postpones(t qp.Time) bool { return m.trusting() && m.postpones(t) }

// PostponesAwoken is the same for an application that the relief has found something for.
func (m *Machine) PostponesAwoken(t qp.Time) bool { return m.streak >= PromptAsleep && m.postpones(t) }

// LetHold says whether posts may be held from now on. Somebody must be there to send them if the
// application does not come back.
func (m *Machine) LetHold(yes bool) { m.setMayHold(yes && m.trusting() && !m.Relieved()) }

// Posts is an application that has posted. While one that has earned trust polls, whoever
// sleeps on the port is woken, and the background stands by for the posts that are held from then
// on.
func (m *Machine) Posts(t qp.Time) Call {
	if m.earned() && m.place() != placeStandsBy && m.Leased(t) {
		return m.Due(0, t)
	}
	return CallNobody
}
