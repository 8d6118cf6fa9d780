package analysis

// The table of what the analysis says against what happened, in docs/captures.md.

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

//go:generate go test . -count=1 -run ^(TestWorlds|TestCaptured)$ -write

var writeTable = flag.Bool("write", false, "write the tables of docs/captures.md anew (go generate)")

const tablePage = "../../docs/captures.md"

// verdicts5 is how often a cause that the analysis names is what happened.
type verdicts5 struct {
	right, guessed, misguessed int
	unknowable                 int // the capture has what was said, and the sender had not heard it
	invented                   int // the sender had gone back before, and only went on
	wrong                      int
}

func (v *verdicts5) guess(right bool) {
	if right {
		v.guessed++
	} else {
		v.misguessed++
	}
}

// truth is that by cause.
type truth [numCauses]verdicts5

// check holds the table against the page's, or writes it.
func (x *truth) check(t *testing.T, name string, flows int) {
	t.Helper()
	begin := fmt.Sprintf("<!-- go generate ./trace/analysis makes this table: %s -->\n", name)
	const end = "<!-- the end of the table -->\n"
	text, err := os.ReadFile(tablePage)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, closed := strings.Cut(rest, end)
	require.True(t, ok && closed, "%s has no place for the table %q", tablePage, name)
	var b strings.Builder
	fmt.Fprintf(&b, "%s%s| %d %s flows: the sender went back | right | a guess that is right | a guess that is not | cannot be known | "+
		"it only went on | wrong |\n|---|---|---|---|---|---|---|\n", before, begin, flows, name)
	var sum verdicts5
	for c := range numCauses {
		v := x[c]
		fmt.Fprintf(&b, "| %v | %d | %d | %d | %d | %d | %d |\n", c, v.right, v.guessed, v.misguessed, v.unknowable, v.invented, v.wrong)
		sum.right, sum.guessed, sum.misguessed = sum.right+v.right, sum.guessed+v.guessed, sum.misguessed+v.misguessed
		sum.unknowable, sum.invented, sum.wrong = sum.unknowable+v.unknowable, sum.invented+v.invented, sum.wrong+v.wrong
	}
	fmt.Fprintf(&b, "| all | %d | %d | %d | %d | %d | %d |\n%s%s", sum.right, sum.guessed, sum.misguessed, sum.unknowable,
		sum.invented, sum.wrong, end, after)
	if *writeTable {
		require.NoError(t, os.WriteFile(tablePage, []byte(b.String()), 0o644))
		return
	}
	require.Equal(t, b.String(), string(text), "go generate ./trace/analysis")
}
