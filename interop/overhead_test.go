package interop

// What our program on a device of the kernel costs beside perftest's: the same test between two
// ends in the guest on rxe0, once with both ends ours and once with both ends perftest's, in turns.
// The ratios are for people, no test holds them: the guest's processors are emulated, and its two
// have to do for both ends and the kernel.
//
//	sudo go test ./interop -run TestVerbsOverhead -v -overhead=15
//
// Stages of a round: ours and theirs, in alternating order; the medians of the rounds' figures and
// of their ratios make a row.

import (
	"flag"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var overheadRounds = flag.Int("overhead", 1, "rounds of TestVerbsOverhead; with more than one they are as long as figures need")

// comparisons are what is measured. The column of a row of results that has the figure is 4 for
// latencies, t_typical, and 3 for bandwidths, the average.
var comparisons = []struct {
	test    string
	size, n int
	column  int
	wanted  string
}{
	{"write-lat", 8, 3000, 4, "at most 1.10"},
	{"write-lat", 4096, 2000, 4, "at most 1.10"},
	{"write-bw", 8, 10000, 3, "at least 0.95"},
	{"write-bw", 65536, 1000, 3, "at least 0.95"},
}

func TestVerbsOverhead(t *testing.T) {
	a, _ := theVerbs(t)
	for _, c := range comparisons {
		n := rounds
		if *overheadRounds > 1 {
			n = c.n
		}
		options := fmt.Sprintf(" -n %d -s %d", n, c.size)
		commands := [2]string{
			verbsRoce + " perf " + c.test + options + " -u " + patience + " -d " + verbsDevice,
			tool(c.test) + " -F -d rxe0 -x " + a.gid + options,
		}
		var figures [3][]float64 // ours, theirs, ratio
		for round := range *overheadRounds {
			var now [2]float64
			for i := range commands {
				k := (i + round) % 2
				now[k] = figure(t, a.guestPair(t, commands[k], commands[k]), c.size, n, c.column)
			}
			for i, x := range []float64{now[0], now[1], now[0] / now[1]} {
				figures[i] = append(figures[i], x)
			}
		}
		low, high := slices.Min(figures[2]), slices.Max(figures[2])
		t.Logf("%-9s %5d B: ours %9.2f, perftest %9.2f, ratio %.3f (%.3f to %.3f in %d rounds; wanted %s)", c.test, c.size,
			median(figures[0]), median(figures[1]), median(figures[2]), low, high, *overheadRounds, c.wanted)
	}
}

// figure takes a column of the row of results.
func figure(t *testing.T, out string, size, n, column int) float64 {
	t.Helper()
	found := row(size, n).FindString(out)
	require.NotEmpty(t, found, out)
	x, err := strconv.ParseFloat(regexp.MustCompile(`\s+`).Split(strings.TrimSpace(found), -1)[column], 64)
	require.NoError(t, err, found)
	require.Positive(t, x, found)
	return x
}

func median(all []float64) float64 {
	all = slices.Sorted(slices.Values(all))
	return (all[(len(all)-1)/2] + all[len(all)/2]) / 2
}
