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
	require.Contains(t, atomic, "Packet 1 (FETCH_ADD) is executed, the counter is 11.")
	require.Contains(t, untrue(t, "rnr", world.Change{Packet: 2, Action: world.Drop}), "A's device waits so long")
	saved := untrue(t, "lost-packet", world.Change{Packet: 2, Action: world.Deliver})
	require.Contains(t, saved, "Packet 2 is lost.")
	require.Contains(t, saved, "It does not keep packet 3")
	require.NotContains(t, saved, "The packets are not kept anywhere.")
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
// becomes,
// and does not go to one that is sent again.
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
	require.NoError(t, l.ShowChanged(&out, l.Change([]world.Change{{Packet: 2, Action: world.Drop}})))
	for _, want := range []string{"What came of it", "ack timeout of 1.049 ms", "(docs/rocev2.md, section 4.7)", "Not true any more",
		"A's device waits so long"} {
		require.Contains(t, strings.Join(strings.Fields(out.String()), " "), want)
	}
	for line := range strings.Lines(out.String()) {
		require.LessOrEqual(t, len([]rune(line)), width+1, line)
	}
}
