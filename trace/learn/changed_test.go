package learn

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/trace/world"
)

// untrue are the sentences that a change makes untrue, in one text.
func untrue(t *testing.T, name string, changes ...world.Change) string {
	t.Helper()
	c := Find(name).Change(changes)
	var all []string
	for _, u := range c.Untrue {
		require.NotEmpty(t, u.Why)
		all = append(all, u.Text)
	}
	marked := 0
	for _, text := range [][]Passage{c.Lesson.Text, c.Lesson.NIC, c.Lesson.Why} {
		for _, p := range text {
			for _, x := range p.Pieces {
				if x.Untrue != "" {
					marked++
				}
			}
		}
	}
	require.GreaterOrEqual(t, marked, len(all))
	return strings.Join(all, "\n")
}

// TestUntrue: a sentence of the lesson that is not true any more is found, and no other.
func TestUntrue(t *testing.T) {
	require.Empty(t, untrue(t, "write"))
	require.Empty(t, untrue(t, "write", world.Change{Packet: 1, Action: world.Mark}))
	lost := untrue(t, "write", world.Change{Packet: 1, Action: world.Drop})
	require.NotContains(t, lost, "makes packet 1", "it does")
	require.NotContains(t, lost, "It answers with packet", "it does, later")
	require.Contains(t, untrue(t, "write", world.Change{Packet: 2, Action: world.Drop}), "The completion is made when packet 2 (ACK) has "+
		"arrived")
	text := Find("write").Change([]world.Change{{Packet: 1, Action: world.Drop}}).Lesson.Text
	require.True(t, slices.ContainsFunc(text, func(p Passage) bool {
		return strings.Contains(p.String(), "It answers with packet 3 "+
			"(ACK).")
	}))
	atomic := untrue(t, "lost-atomic", world.Change{Packet: 1, Action: world.Drop})
	require.Contains(t, atomic, "It is executed, the counter is 11.")
	require.Contains(t, untrue(t, "rnr", world.Change{Packet: 2, Action: world.Drop}), "A's device waits.")
	saved := untrue(t, "lost-packet", world.Change{Packet: 2, Action: world.Deliver})
	require.Contains(t, saved, "packet 2 is lost.")
	require.Contains(t, saved, "It does not keep packet 3")
	require.NotContains(t, saved, "The packets are not kept anywhere.")
}

// TestUntrueValues: sentences about values in memory and about order fall when these are others,
// with what they are now; what only names a packet that is lost stays.
func TestUntrueValues(t *testing.T) {
	for _, x := range []struct {
		name   string
		action world.Action
		packet int
		falls  []string
		stays  string
	}{
		{"torn-read", world.Delay, 1, []string{"What A has is neither", "was read before that", "sees that they differ"},
			"Now it has 2 and 2"},
		{"torn-read", world.Drop, 1, []string{"What A has is neither", "sees that they differ"}, "Now it has 2 and 2"},
		{"atomic-covers", world.Drop, 1, []string{"it is 15", "brings back the 10", "A's 5 are lost"}, "B's program loads it"},
		{"atomic-covers", world.Delay, 1, []string{"it is 15", "brings back the 10", "A's 5 are lost"}, "B's program loads it"},
		{"atomic-covers", world.Corrupt, 1, []string{"it is 15", "brings back the 10", "A's 5 are lost"}, "B's program loads it"},
		{"capabilities", world.Drop, 3, []string{"writes \"evil\"", "its bytes are not there"}, "C, somewhere on the way"},
		{"lost-packet", world.Delay, 4, []string{"nor 4 and 6"}, "B's device gets packet 3"},
		{"lost-packet", world.Drop, 3, []string{"nor 4 and 6", "B's device gets packet 3"}, "two more follow it"},
		{"lost-packet", world.Drop, 8, nil, "nor 4 and 6"},
		{"packets", world.Drop, 2, nil, "makes three packets of it"},
		{"myth-no-cpu", world.Drop, 1, nil, "The remote program takes no part"},
		{"num-sge", world.Corrupt, 1, nil, "Nothing is queued"},
		{"local-rights", world.Drop, 1, nil, "is for a receive into memory"},
		{"ud", world.Drop, 3, []string{"It is dropped, too"}, "has posted no second receive"},
		{"rnr", world.Delay, 1, nil, "(SEND_ONLY) leaves"},
		{"uc", world.Drop, 4, []string{"as if nothing had happened"}, "is the next message"},
		{"scatter-gather", world.Drop, 1, nil, "no trace of where they came from"},
	} {
		text := untrue(t, x.name, world.Change{Packet: x.packet, Action: x.action})
		for _, words := range x.falls {
			require.Contains(t, text, words, "%s %s:%d", x.name, x.action, x.packet)
		}
		require.NotContains(t, text, x.stays, "%s %s:%d", x.name, x.action, x.packet)
	}
	for _, u := range Find("atomic-covers").Change([]world.Change{{Packet: 1, Action: world.Drop}}).Untrue {
		if strings.HasPrefix(u.Text, "A's 5 are lost") {
			require.Equal(t, "here the counter is 16 at the end", u.Why)
		}
	}
}

// TestBindings: the sentences that claims are bound to are there, and the claims true of the
// lesson.
func TestBindings(t *testing.T) {
	for name, all := range bindings {
		l := Find(name)
		require.NotNil(t, l, name)
		p := l.Play(nil)
		var text strings.Builder
		for _, passage := range Passages(l.Text, p) {
			text.WriteString(passage.String() + "\n")
		}
		for _, b := range all {
			require.Contains(t, text.String(), b.words, name)
			require.NoError(t, b.claim(p), "%s: %s", name, b.words)
		}
	}
}

// TestOwnFaults: what a lesson does to a packet stays with that packet, whatever its number
// becomes, and does not go to one that is sent again.
func TestOwnFaults(t *testing.T) {
	p := Find("lost-atomic").Play([]world.Change{{Packet: 1, Action: world.Drop}})
	require.Equal(t, world.Lost, p.Packets[0].Fate)
	require.Equal(t, "FETCH_ADD", p.Packets[1].Label)
	require.Equal(t, world.Delivered, p.Packets[1].Fate, "it is repeated, and the lesson did not mean it")
	require.Equal(t, "ATOMIC_ACKNOWLEDGE", p.Packets[2].Label)
	require.Equal(t, world.Lost, p.Packets[2].Fate, "the answer is what it means")
	require.EqualValues(t, "drop", p.Packets[2].Change)
	lost := 0
	for _, x := range Find("selective-repeat").Play([]world.Change{{Packet: 1, Action: world.Drop}}).Packets {
		if x.Fate == world.Lost {
			require.Contains(t, []uint32{1000, 1001, 3001}, x.PSN)
			lost++
		}
	}
	require.Equal(t, 3, lost)
	for _, x := range Find("retry-exceeded").Play([]world.Change{{Packet: 1, Action: world.Deliver}}).Packets[1:] {
		require.Equal(t, x.From == 0, x.Fate == world.Lost, "packet %d", x.N)
	}
}

// TestShowChanged: a terminal has what happened, what came of it, and what is not true any more.
func TestShowChanged(t *testing.T) {
	l := Find("rnr")
	var out bytes.Buffer
	require.NoError(t, l.ShowChanged(&out, l.Change([]world.Change{{Packet: 2, Action: world.Drop}}), 96))
	for _, want := range []string{"What came of it", "ack timeout of 1.049 ms", "(docs/rocev2.md, section 4.7)", "Not true any more",
		"A's device waits."} {
		require.Contains(t, strings.Join(strings.Fields(out.String()), " "), want)
	}
	for line := range strings.Lines(out.String()) {
		require.LessOrEqual(t, len([]rune(line)), 97, line)
	}
}
