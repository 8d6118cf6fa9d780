package drive

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/qp"
)

// The table of doc.go, cell by cell. What a lane makes of it has its tests in package soft.

const (
	tableNow   = qp.Time(1_000_000)
	tableUntil = tableNow + 1000 // until when who sleeps does
)

// events are the rows.
var events = map[string]func(m *Machine) Call{
	"Comes":          func(m *Machine) Call { m.Comes(); return CallNobody },
	"StandsBy":       func(m *Machine) Call { m.StandsBy(tableNow); return CallNobody },
	"Parks":          func(m *Machine) Call { return m.Parks(tableUntil+1, tableNow) },
	"Rises":          func(m *Machine) Call { m.Rises(); return CallNobody },
	"Sits":           func(m *Machine) Call { m.Sits(); return CallNobody },
	"Dozes":          func(m *Machine) Call { return m.Dozes(tableUntil+1, tableNow) },
	"Stirs":          func(m *Machine) Call { m.Stirs(); return CallNobody },
	"Leaves":         func(m *Machine) Call { return m.Leaves(tableUntil+1, tableNow) },
	"Due later":      func(m *Machine) Call { return m.Due(tableNow+1, tableNow) },
	"Due now":        func(m *Machine) Call { return m.Due(tableNow, tableNow) },
	"Due not before": func(m *Machine) Call { return m.Due(tableUntil, tableNow) },
	"Mail":           func(m *Machine) Call { return m.Mail() },
	"HandsOver":      func(m *Machine) Call { return m.HandsOver(tableNow) },
	"Posts": func(m *Machine) Call {
		m.Earn()
		m.PollsNow(tableNow)
		return m.Posts(tableNow)
	},
}

var (
	places = map[byte]place{'s': placeStandsBy, 'd': placeOnDuty, 'p': placeParked}
	seats  = map[byte]seat{'b': seatBackground, 'r': seatRelief}
	calls  = map[string]Call{"": CallNobody, "@": CallSetAlarm, "!": CallBackground, "^": CallRelief, "*": CallBoth, "+": CallStandby}
)

// in is a machine in a state of the table.
func in(state string, relieved bool) *Machine {
	m := new(Machine)
	m.Begin(relieved)
	m.Attend(0)
	m.goes(places[state[0]])
	m.sits(seats[state[1]])
	if strings.HasSuffix(state, "z") {
		m.asleep.Store(int64(tableUntil))
		m.alarmAt = tableUntil
	}
	return m
}

// state is what the table calls it.
func (m *Machine) state() string {
	s := string("-sdp"[m.place()]) + string("br"[m.sitter.Load()])
	if m.Asleep() {
		s += "z"
	}
	return s
}

// table is what stands in doc.go: rows of an event, and what it leads to from each state.
func table(t *testing.T) (states []string, rows [][]string) {
	text, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	for _, line := range strings.Split(string(text), "\n") {
		line, row := strings.CutPrefix(line, "//\t")
		fields := regexp.MustCompile(`\s{2,}`).Split(strings.TrimSpace(line), -1)
		// one blank is left behind the longest name
		if name, first, ok := strings.Cut(line, " before "); ok && row {
			fields = append([]string{name + " before"}, strings.Fields(first)...)
		}
		switch {
		case !row:
		case states == nil && fields[0] == "sb":
			states = fields
		case states != nil && len(fields) == len(states)+1:
			rows = append(rows, fields)
		}
	}
	return states, rows
}

// TestTable walks every cell, without a lease and with one, which ends no standby.
func TestTable(t *testing.T) {
	states, rows := table(t)
	require.Len(t, states, 10)
	require.Len(t, rows, len(events))
	for _, row := range rows {
		event := events[row[0]]
		require.NotNil(t, event, "no event is called %q", row[0])
		for i, cell := range row[1:] {
			if cell == "." {
				continue
			}
			for _, leased := range []bool{false, true} {
				m := in(states[i], true)
				to := strings.TrimRight(cell, "@!^*+")
				want := calls[cell[len(to):]]
				if leased {
					m.PollsNow(tableNow)
				}
				if leased && want == CallStandby {
					want = CallNobody
				}
				call := event(m)
				require.Equal(t, to, m.state(), "%s in %s, leased: %v", row[0], states[i], leased)
				require.Equal(t, want, call, "%s in %s, leased: %v", row[0], states[i], leased)
			}
		}
	}
}

// TestAlarm: an alarm that is set is the time that the event has named, and one that is set
// already is not set again; until it goes off.
func TestAlarm(t *testing.T) {
	m := in("db", true)
	require.Equal(t, CallSetAlarm, m.Parks(tableUntil, tableNow))
	require.Equal(t, tableUntil, m.AlarmAt())
	m.Rises()
	require.Equal(t, CallNobody, m.Parks(tableUntil, tableNow+1))
	m.Rises()
	require.Equal(t, CallSetAlarm, m.Parks(tableUntil, tableUntil))
	m.Rises()
	require.Equal(t, CallSetAlarm, m.Parks(qp.Never, tableUntil))
	require.Equal(t, qp.Never, m.AlarmAt())
	require.Equal(t, CallSetAlarm, m.Due(tableUntil+5, tableUntil))
	require.Equal(t, tableUntil+5, m.AlarmAt())
}

// TestUnwatched: of a port without alarms the background watches alone. What is due later wakes it;
// but after deadlines have come and gone it sleeps to the latest of them, and the next request's is
// later still.
func TestUnwatched(t *testing.T) {
	m := in("db", false)
	require.False(t, m.Sits())
	require.Equal(t, CallNobody, m.Parks(m.Until(tableUntil, tableNow), tableNow))
	require.Equal(t, CallBackground, m.Due(tableUntil-1, tableNow))
	m.Rises()
	require.Equal(t, tableUntil, m.Until(qp.Never, tableNow))
	m.Parks(m.Until(qp.Never, tableNow), tableNow)
	require.Equal(t, CallNobody, m.Due(tableUntil+1, tableNow))
	require.Equal(t, qp.Never, m.Until(qp.Never, tableUntil))
}

// TestUnattended: without a background nobody sits, nothing is postponed, no post is held, and
// nobody is woken from a standby.
func TestUnattended(t *testing.T) {
	m := new(Machine)
	m.Begin(true)
	m.Earn()
	require.False(t, m.MayRelieve())
	require.False(t, m.Sits())
	require.False(t, m.Postpones(tableNow))
	m.LetHold(true)
	require.False(t, m.MayHold())
	require.Equal(t, CallNobody, m.HandsOver(tableNow))
}

// TestEnded: a lane that ends has no relief any more, and its background takes no turns.
func TestEnded(t *testing.T) {
	m := in("db", true)
	require.True(t, m.TakesTurns())
	m.End()
	require.False(t, m.TakesTurns())
	require.False(t, m.Sits())
}

// TestLease: an application that polls has the lane for LeaseLife from its last poll, unless it
// goes to sleep.
func TestLease(t *testing.T) {
	m := in("sb", true)
	m.Polls(tableNow)
	require.True(t, m.Polled() && m.Leased(tableNow+LeaseLife-1))
	require.False(t, m.Leased(tableNow+LeaseLife))
	m.Polls(tableNow + LeaseLife/2)
	require.True(t, m.Leased(tableNow+LeaseLife))
	m.StopsPolling()
	require.False(t, m.Polled() || m.Leased(tableNow+LeaseLife))
}

// TestLeaseOfAnother: who waits ends no lease that another goroutine has got since, and calls no
// background then; a lease that has run out ends with the wait.
func TestLeaseOfAnother(t *testing.T) {
	for _, ends := range []string{"HandsOver", "Leaves"} {
		m := in("sr", true)
		m.Polls(tableNow)
		require.Equal(t, CallNobody, events[ends](m), ends)
		require.True(t, m.Leased(tableNow+LeaseLife-1), ends)
		m = in("sr", true)
		m.Polls(tableNow - LeaseLife)
		require.Equal(t, CallStandby, events[ends](m), ends)
		require.False(t, m.Polled(), ends)
	}
}

// TestTrustOfRelief: a background that takes over forgets what the application has earned, but not
// where it gives way to that application as relief.
func TestTrustOfRelief(t *testing.T) {
	for state, keeps := range map[string]bool{"sb": false, "sr": true, "srz": true, "pr": true} {
		m := in(state, true)
		m.Earn()
		m.Comes()
		m.TakesOver(tableNow)
		require.Equal(t, keeps, m.earned(), state)
	}
}

// TestStaysUp: the background polls on for as long as it was busy since it came, within bounds; and
// stands by for longer the longer an application has polled.
func TestStaysUp(t *testing.T) {
	for _, c := range []struct{ busy, stays qp.Time }{
		{0, minStayUp}, {50 * microsecond, 50 * microsecond}, {1e9, MaxStayUp},
	} {
		m := in("db", true)
		m.TakesOver(tableNow)
		end := tableNow + c.busy
		require.True(t, m.StaysUp(true, end))
		require.True(t, m.StaysUp(false, end+c.stays-1))
		require.False(t, m.StaysUp(false, end+c.stays))
	}
	for _, c := range []struct{ polled, look qp.Time }{
		{0, minStandby}, {800 * microsecond, 100 * microsecond}, {1e9, MaxStandby},
	} {
		m := in("db", true)
		m.StandsBy(tableNow)
		m.StandsBy(tableNow + c.polled/2) // it stands by since then, not anew
		require.Equal(t, c.look, m.NextLook(tableNow+c.polled))
	}
}
