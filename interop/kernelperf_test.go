package interop

// roce perf -R on a device of the kernel: both ends meet by the kernel's connection manager, the
// other end is perftest's or ours.

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/interop/lab"
)

// kernelPerf are the tests, by ours' names and theirs, with options of both, and how many queue
// pairs these make.
var kernelPerf = []struct {
	ours, theirs, options string
	pairs                 int
}{
	{"send-bw", "ib_send_bw", "-c UD", 1},
	{"write-bw", "ib_write_bw", "-q 2", 2},
	{"send-lat", "ib_send_lat", "", 1},
}

// TestKernelPerf plays them in the guest, each with ours at one end or both.
func TestKernelPerf(t *testing.T) {
	a, _ := theVerbs(t)
	for i, g := range kernelPerf {
		if i > 0 && os.Getenv(everyProgram) == "" {
			t.Run(g.ours, func(t *testing.T) { t.Skip("played by make programs") })
			continue
		}
		rounds := 200 // of each queue pair
		options := fmt.Sprintf("-R -n %d -F %s", rounds, g.options)
		ours := ours(verbsDevice, strings.Fields("perf "+g.ours+" "+options))
		theirs := strings.Fields(g.theirs + " -d rxe0 " + options)
		to := func(command []string) []string { return append(command[:len(command):len(command)], lab.GuestIPv4) }
		for _, p := range []pairing{
			{"ours-to-ours", ours, to(ours)},
			{"ours-to-theirs", theirs, to(ours)},
			{"theirs-to-ours", ours, to(theirs)},
		} {
			t.Run(g.ours+strings.ReplaceAll(g.options, " ", "")+"/"+p.name, func(t *testing.T) {
				said := a.guestMeeting(t, p.serve, p.call)
				require.Regexp(t, fmt.Sprintf(`(?m)^ *\d+ +%d +\d`, rounds*g.pairs), said)
			})
		}
	}
}
