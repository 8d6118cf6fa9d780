package learn

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/trace/glossary"
)

// guided are the chapters that are a guided visit: every packet is in a step or left out by name,
// and every abbreviation is a term.
var guided = []string{"operations", "refusals", "loss"}

// newTerms are the most that a step may bring.
const newTerms = 3

// TestSteps: the steps of every lesson go forward in time, they have all of its text, and what they
// point at has happened by then.
func TestSteps(t *testing.T) {
	for _, c := range Chapters() {
		for _, l := range c.Lessons {
			p := l.Play(nil)
			w := walk(l.Text, p)
			last := int64(0)
			var said []string
			for _, s := range w.steps {
				require.GreaterOrEqual(t, s.Time, last, l.Name)
				require.NotEmpty(t, s.Text, l.Name)
				last = s.Time
				said = append(said, s.String())
			}
			var whole []string
			for _, passage := range Passages(l.Text, p) {
				whole = append(whole, passage.String())
			}
			words := func(all []string) string {
				return strings.ToLower(strings.Join(strings.Fields(strings.Join(all, " ")), " "))
			}
			require.Equal(t, words(whole), words(said), l.Name)
			for i, s := range l.Steps(p) {
				if len(s.Terms) > newTerms {
					t.Errorf("%s, step %d brings %d terms: %q", l.Name, i+1, len(s.Terms), s.Terms)
				}
			}
			if !slices.Contains(guided, c.Name) {
				continue
			}
			for _, err := range w.wrong {
				t.Errorf("%s: %v (steps.go says how a text is bound to its play)", l.Name, err)
			}
		}
	}
}

// TestCues: one that is wrong is found.
func TestCues(t *testing.T) {
	p := Find("write").Play(nil)
	for _, bad := range []string{"{: 9 sent} x {1 RDMA_WRITE_ONLY} {2 ACK}", "{: 1 flies} x {2 ACK}", "{: A poll 7} x {: without 1 2}",
		"x {2 ACK} y. {: 1 sent} z.", "{: 1 sent} x {2 ACK}", "x {1 RDMA_WRITE_ONLY}",
		"{: without 1 2} {2 ACK}", "{: without x} y {1 RDMA_WRITE_ONLY} {2 ACK}"} {
		require.NotEmpty(t, walk(bad, p).wrong, bad)
	}
	require.Empty(t, walk("a {1 RDMA_WRITE_ONLY}. {: 1-2 arrives} b. {: A poll} c.", p).wrong)
	require.Len(t, walk("{: without others} a. b. {:} c.\n\nd.", p).steps, 3)
}

// known are words in capitals that everybody knows who comes here, and names of what is pointed at.
var known = []string{"IP", "UDP", "TCP", "KB", "MB", "GB", "OK", "FIRST", "MIDDLE", "LAST", "ONLY", "REM", "LOC", "NIC", "NICs", "RoCE"}

// TestTerms: each term is explained where it is first used, in words that are known by then; and no
// abbreviation of a guided chapter is without an explanation.
func TestTerms(t *testing.T) {
	abbreviation := regexp.MustCompile(`\b[A-Z][A-Z0-9]+s?\b`)
	seen := map[string]bool{}
	for _, c := range Chapters() {
		for _, l := range c.Lessons {
			p := l.Play(nil)
			for i, s := range l.Steps(p) {
				for _, name := range s.Terms {
					require.False(t, seen[name], "%s, step %d: %s is not new", l.Name, i+1, name)
					seen[name] = true
				}
				for _, name := range s.Terms {
					x := glossary.Find(name)
					require.NotNil(t, x, name)
					require.NotEmpty(t, x.Means, name)
					for _, u := range glossary.In(x.Means) {
						if !seen[u.Name] && !strings.HasPrefix(name, "IBV_") {
							t.Errorf("%s, step %d: %s is explained by %s, which comes later", l.Name, i+1, name, u.Name)
						}
					}
				}
				if !slices.Contains(guided, c.Name) {
					continue
				}
				for _, piece := range saidIn(s) {
					for _, word := range abbreviation.FindAllString(piece.Text, -1) {
						if !slices.Contains(known, word) && len(glossary.In(word)) == 0 {
							t.Errorf("%s, step %d: %s is no term", l.Name, i+1, word)
						}
					}
				}
			}
		}
	}
}

// saidIn are the pieces of a step that are no pointers.
func saidIn(s Step) (all []Piece) {
	for _, passage := range s.Text {
		for _, x := range passage.Pieces {
			if x.Packet == 0 && x.Host == "" {
				all = append(all, x)
			}
		}
	}
	return all
}
