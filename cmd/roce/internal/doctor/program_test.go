package doctor

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// fits is the record of a program that will run.
func fits() *program {
	return &program{file: "/usr/bin/app", loader: "/lib64/ld-linux-x86-64.so.2",
		needs: []need{{library: libraries[0], functions: 12, found: "/lib/libibverbs.so.1", ours: true}}}
}

// programCases are what can be the matter with a program, and what is said of it.
var programCases = []struct {
	name    string
	program func(p *program) // makes it of fits
	check   string
	grade   Grade
	says    string
}{
	{"all is there", func(*program) {}, "libibverbs", Right, "12 functions, all in /lib/libibverbs.so.1"},
	{"it is linked", func(*program) {}, "loader", Right, "linked with 1 of rdma-core's libraries"},
	{"LD_LIBRARY_PATH does not count", func(p *program) { p.setuid = true }, "loader", Wrong, "from a copy without the bit"},
	{"another C library", func(p *program) { p.loader = "/lib/ld-musl-x86_64.so.1" }, "loader", Wrong, "is of musl"},
	{"no RDMA", func(p *program) { p.needs = nil }, "loader", Wrong, "ldd /usr/bin/app"},
	{"it loads the library itself", func(p *program) { p.needs, p.itself = nil, true }, "loader", Note, "itself"},
	{"nothing is set", func(p *program) { p.needs[0].found = "" }, "libibverbs", Wrong, "make dropin"},
	{"rdma-core's connection manager", func(p *program) { p.needs[0] = need{library: libraries[1], functions: 3} },
		"librdmacm", Note, "3 functions, of rdma-core's own"},
	{"another folder comes first", func(p *program) { p.needs[0].ours = false },
		"libibverbs", Wrong, "/lib/libibverbs.so.1 is not goroce's"},
	{"the program names a folder", func(p *program) { p.needs[0].ours, p.needs[0].fixed = false, true },
		"libibverbs", Wrong, "--remove-rpath"},
	{"a function is missing", func(p *program) { p.needs[0].missing = []string{"ibv_fly@IBVERBS_9"} },
		"libibverbs", Wrong, "1 of 12 functions are not in /lib/libibverbs.so.1: ibv_fly@IBVERBS_9"},
}

func TestProgramVerdicts(t *testing.T) {
	for _, c := range programCases {
		p := fits()
		c.program(p)
		found := false
		for _, v := range judgeProgram(p) {
			if v.Check == c.check {
				found = true
				require.Equal(t, c.grade, v.Grade, "%s: %+v", c.name, v)
				require.Contains(t, v.Says+" "+v.Do, c.says, c.name)
			}
		}
		require.True(t, found, "%s: nothing is said of %s", c.name, c.check)
	}
}

// TestReadProgram reads this test's own program, which is linked with no library of rdma-core's but
// has the name of one among its strings; the module dropin has a test with real ones.
func TestReadProgram(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	p, err := readProgram(self)
	require.NoError(t, err)
	require.Equal(t, [3]any{true, false, 0}, [3]any{p.itself, p.setuid, len(p.needs)})

	text := filepath.Join(t.TempDir(), "text")
	require.NoError(t, os.WriteFile(text, []byte("no program"), 0o600))
	_, err = readProgram(text)
	require.ErrorContains(t, err, "want a program or a library in ELF")
	_, err = readProgram(text + "s")
	require.ErrorIs(t, err, os.ErrNotExist)
}
