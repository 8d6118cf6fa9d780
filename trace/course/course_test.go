package course

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/trace/learn"
	"github.com/goroce/goroce/trace/quiz"
)

var generate = flag.Bool("generate", false, "write docs/course")

const folder = "../../docs/course"

// TestDocsAreNotStale: docs/course is what "go generate ./trace/course" writes.
func TestDocsAreNotStale(t *testing.T) {
	files, err := Docs()
	require.NoError(t, err)
	require.Len(t, files, len(Names))
	for name, text := range files {
		if *generate {
			require.NoError(t, os.MkdirAll(folder, 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(folder, name), text, 0o644))
		}
		have, err := os.ReadFile(filepath.Join(folder, name))
		require.NoError(t, err)
		require.True(t, bytes.Equal(text, have), "%s is not what the course says: go generate ./trace/course", name)
	}
}

// TestItems: each item is shown by a lesson that plays and shows what it claims, or worked; the
// module's predictions and steps are all there, each with a lesson.
func TestItems(t *testing.T) {
	seen := map[string]*Item{}
	for _, p := range Parts {
		for i := range p.Items {
			x := &p.Items[i]
			require.NotContains(t, seen, x.Name)
			seen[x.Name] = x
			_, _, err := x.found()
			require.NoError(t, err, x.Name)
			for _, name := range strings.Fields(x.Lessons) {
				l := learn.Find(name)
				if !l.Terminal {
					require.Empty(t, l.Differs(l.Play(nil)), "%s: %s", x.Name, name)
				}
			}
			for _, kind := range strings.Fields(x.Quizzes) {
				_, err := quiz.Ask(1, 3, quiz.Find(kind))
				require.NoError(t, err)
			}
		}
	}
	for _, begins := range []string{"1:", "2:", "3:", "4:", "5:", "7:", "8:", "9:", "10:", "R1", "R2", "R3", "R4", "R5", "R6", "A:",
		"B:", "C:",
		"D:", "WHAT", "WHY", "WHERE", "WHO", "WHEN", "WITHOUT", "WHICH"} {
		found := false
		for name, x := range seen {
			found = found || strings.HasPrefix(name, begins) && x.Lessons != ""
		}
		require.True(t, found, begins)
	}
	_, _, err := (&Item{Name: "of nowhere"}).found()
	require.ErrorContains(t, err, "nowhere")
	for _, x := range []Item{{Lessons: "no"}, {Tasks: "Z1"}, {Quizzes: "no"}} {
		_, _, err := x.found()
		require.Error(t, err)
	}
}

// TestEveryTaskIsUsed: the sheet has nothing that the table does not name.
func TestEveryTaskIsUsed(t *testing.T) {
	used := map[string]bool{}
	for _, p := range Parts {
		for _, x := range p.Items {
			for _, name := range strings.Fields(x.Tasks) {
				used[name] = true
			}
		}
	}
	for _, task := range quiz.Sheet() {
		require.True(t, used[task.Name], task.Name)
	}
}

// TestPlan: an afternoon is no longer than one.
func TestPlan(t *testing.T) {
	require.Len(t, Plan, 2)
	for _, a := range Plan {
		minutes := 0
		for _, u := range a.Units {
			minutes += u.Minutes
			for _, name := range strings.Fields(u.Lessons) {
				require.NotNil(t, learn.Find(name), name)
			}
		}
		require.LessOrEqual(t, minutes, 240)
		require.Greater(t, minutes, 150)
	}
}

// TestSlides: two for each lesson, well-formed, with the pictures, and nothing from elsewhere.
func TestSlides(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, Slides(&out))
	html := out.String()
	lessons := 0
	for _, a := range Plan {
		for _, u := range a.Units {
			lessons += len(strings.Fields(u.Lessons))
		}
	}
	require.Equal(t, lessons, strings.Count(html, `<section class="question"`))
	require.Equal(t, lessons, strings.Count(html, "<svg "))
	require.NotContains(t, html, "ZgotmplZ")
	require.False(t, strings.Contains(strings.ReplaceAll(html, "http://www.w3.org/2000/svg", ""), "://"), "something is from elsewhere")
	_, body, _ := strings.Cut(html, "<main>")
	body, _, _ = strings.Cut(body, "</main>")
	d := xml.NewDecoder(strings.NewReader("<main>" + body + "</main>"))
	d.Entity = xml.HTMLEntity
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else {
			require.NoError(t, err)
		}
	}
}
