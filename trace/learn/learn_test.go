package learn

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/trace/world"
)

// TestLessons: each lesson shows what it claims, its text points at what is there, and it has all
// that a lesson has.
func TestLessons(t *testing.T) {
	names := map[string]bool{}
	for _, l := range All() {
		t.Run(l.Name, func(t *testing.T) {
			if l.Terminal && l.Claims == nil {
				t.Skip("this system cannot show it")
			}
			p := l.Play(nil)
			require.Empty(t, l.Differs(p))
			require.False(t, p.Unfinished)
			require.NotEmpty(t, l.Claims)
			for _, text := range []string{l.Text, l.NIC, l.Why} {
				for _, passage := range Passages(text, p) {
					for _, piece := range passage.Pieces {
						require.NoError(t, piece.wrong)
						require.NotContains(t, piece.Text, "{")
					}
				}
			}
			require.Regexp(t, regexp.MustCompile(`^[a-z0-9-]+$`), l.Name)
			require.False(t, names[l.Name], "two lessons of this name")
			names[l.Name] = true
			require.NotEmpty(t, l.Title)
			require.NotEmpty(t, strings.TrimSpace(l.Text))
			require.NotEmpty(t, l.Question)
			require.GreaterOrEqual(t, len(l.Answers), 2)
			require.Less(t, l.Right, len(l.Answers))
			require.Len(t, slices.Compact(slices.Sorted(slices.Values(l.Answers))), len(l.Answers))
			require.NotEmpty(t, strings.TrimSpace(l.Why))
		})
	}
}

// TestAnyChange: whatever a student does to a packet, the lesson plays, comes to rest, and says
// what differs instead of failing.
func TestAnyChange(t *testing.T) {
	for _, l := range All() {
		n := len(l.Play(nil).Packets)
		for i := 1; i <= min(n, 12); i++ {
			for _, action := range []world.Action{world.Drop, world.Delay, world.Duplicate, world.Mark, world.Corrupt, world.Deliver} {
				p := l.Play([]world.Change{{Packet: i, Action: action}})
				require.False(t, p.Unfinished, "%s: packet %d, %s", l.Name, i, action)
				for _, d := range l.Differs(p) {
					require.NotEmpty(t, d)
				}
				require.NoError(t, l.Show(io.Discard, p, 96))
			}
		}
	}
}

// TestClaimsClaim: none is true of every play, and none minds a play that it does not expect.
func TestClaimsClaim(t *testing.T) {
	var plays []*world.Play
	for _, l := range All() {
		plays = append(plays, l.Play(nil))
	}
	plays = append(plays, world.Run(func(*world.World) {}, nil))
	for _, l := range All() {
		for i, claim := range l.Claims {
			require.True(t, slices.ContainsFunc(plays, func(p *world.Play) bool {
				return claim(p) != nil
			}), "claim %d of %s is true of all plays", i, l.Name)
		}
	}
}

// TestShown: as text, as a picture that is well-formed XML, and as JSON.
func TestShown(t *testing.T) {
	for _, l := range All() {
		p := l.Play(nil)
		var text, picture bytes.Buffer
		require.NoError(t, l.Show(&text, p, 96))
		require.Contains(t, text.String(), l.Title)
		require.NotContains(t, text.String(), "{")
		require.NoError(t, l.WriteSVG(&picture, p))
		for d := xml.NewDecoder(&picture); ; {
			if _, err := d.Token(); err == io.EOF {
				break
			} else {
				require.NoError(t, err, l.Name)
			}
		}
		page, err := json.Marshal(l.Page(p))
		require.NoError(t, err)
		require.Contains(t, string(page), `"chapter":"`)
	}
}

// TestNotes: the sentences of a text are with their packets, and only where they are true.
func TestNotes(t *testing.T) {
	l := Find("lost-ack")
	p := l.Play(nil)
	require.Len(t, p.Notes, 2)
	require.Equal(t, 3, p.Notes[0].Packet)
	require.Equal(t, "Packet 3 is lost: the ACK of the first.", p.Notes[0].Text)
	require.Contains(t, p.Notes[1].Text, "packet 4 (ACK) is about the second")
	require.Len(t, l.Play([]world.Change{{Packet: 3, Action: world.Deliver}}).Notes, 1)
}

// TestFind: by name.
func TestFind(t *testing.T) {
	require.Equal(t, All()[0], Find(All()[0].Name))
	require.Nil(t, Find("no such lesson"))
}

// TestPointers: one that points at nothing is found.
func TestPointers(t *testing.T) {
	p := Find("write").Play(nil)
	for _, bad := range []string{"{99 ACK}", "{1 ACK}", "{C 1 SUCCESS}", "{A 2 SUCCESS}", "{A 1 LOC_PROT_ERR}", "{A event CQ_ERR}",
		"{A refuses 1 EINVAL}", "{A}", "{what is this thing}"} {
		require.Error(t, Passages(bad, p)[0].Pieces[0].wrong, bad)
	}
	all := Passages("one {2 ACK} two\nthree\n\n    x\n    y\n", p)
	require.Equal(t, "one packet 2 (ACK) two three", all[0].String())
	require.Equal(t, 2, all[0].Pieces[1].Packet)
	require.Equal(t, "x\ny", all[1].Lines)
}

// TestDocsAreNotStale: docs/learn is what "go generate ./trace/learn" writes.
func TestDocsAreNotStale(t *testing.T) {
	const folder = "../../docs/learn"
	if unmapped.Claims == nil {
		t.Skip("this system cannot play all lessons")
	}
	want, err := Docs()
	require.NoError(t, err)
	have := map[string]bool{}
	require.NoError(t, filepath.WalkDir(folder, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		have[filepath.ToSlash(strings.TrimPrefix(name, filepath.FromSlash(folder)+string(filepath.Separator)))] = true
		return nil
	}))
	for name, text := range want {
		got, err := os.ReadFile(filepath.Join(folder, filepath.FromSlash(name)))
		require.NoError(t, err, "go generate ./trace/learn")
		require.True(t, bytes.Equal(text, got), "%s is not what the lessons say: go generate ./trace/learn", name)
	}
	for name := range have {
		require.Contains(t, want, name, "a file that no lesson has: remove docs/learn, and go generate ./trace/learn")
	}
}

// TestFates: what a student does to a packet is what is shown of it, also where a switch does more.
func TestFates(t *testing.T) {
	for _, name := range []string{"ecn", "pfc", "write"} {
		l := Find(name)
		for n := range 20 {
			for _, a := range []world.Action{world.Duplicate, world.Corrupt, world.Mark} {
				for i, x := range l.Play([]world.Change{{Packet: n + 1, Action: a}}).Packets {
					what := fmt.Sprintf("%s %s:%d: packet %d is %s", name, a, n+1, i+1, x.Fate)
					require.Equal(t, x.Arrived == 0, x.Fate == world.Lost, what)
					require.Equal(t, x.Again != 0, x.Fate == world.Duplicated, what)
					require.Equal(t, x.Change == world.Corrupt && x.Arrived != 0, x.Fate == world.Corrupted, what)
				}
			}
		}
	}
}
