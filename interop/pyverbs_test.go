package interop

// pyverbs' own tests, on rxe0 in the guest and over the libraries of dropin on the host: what
// passes there passes here, test by test.
//
// Stages: the tests, as Debian packs them; a guest with Python; both run them; the two lists are
// held against each other, and skips are counted by reason.

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/internal/nobody"
	"github.com/goroce/goroce/interop/lab"
)

// outcome is how a test has ended: "ok", "skipped" or "failed".
type outcome struct{ Test, How, Why string }

// suiteLimit only ends what would hang.
const suiteLimit = 20 * time.Minute

// notHere are tests that do not pass over us, by what their names begin with, and why.
var notHere = []struct{ name, why string }{
	{"tests.test_device.DeviceTest.test_query_gid_ex_bad_flow", "a GID table without empty rows; roce run --profile has those"},
	{"tests.test_rdmacm.", "two children of a process that has had the device, with one address between them"},
}

// excused says whether a test is one of them.
func excused(name string) bool {
	for _, n := range notHere {
		if strings.HasPrefix(name, n.name) {
			return true
		}
	}
	return false
}

func TestPyverbs(t *testing.T) {
	matrix(t, false)
	over := theLibraries(t)
	folder, modules := pyverbsTests(t)
	l := pythonGuest(t, folder)
	there := pyverbsThere(t, l, modules)
	here := pyverbsHere(t, l, over, folder, modules)
	require.Greater(t, len(here), 200, "Debian's has 273")
	require.Greater(t, count(there)["ok"], 60, "of Debian's 87 pass on rxe0: else nothing is held against anything")
	for _, name := range slices.Sorted(maps.Keys(there)) {
		if there[name].How == "ok" && here[name].How != "ok" && !excused(name) {
			t.Errorf("%s passes on rxe0, and is %s here: %s", name, cmp.Or(here[name].How, "not there"), here[name].Why)
		}
	}
	reasons := map[string]int{}
	for name, o := range here {
		switch {
		case o.How == "failed" && !excused(name):
			t.Errorf("%s: %s", name, o.Why)
		case o.How != "ok":
			reasons[o.How+": "+o.Why]++
		}
	}
	t.Log("rxe0", count(there))
	t.Log("here", count(here))
	for _, why := range slices.Sorted(maps.Keys(reasons)) {
		t.Log(reasons[why], why)
	}
	for _, name := range slices.Sorted(maps.Keys(there)) {
		if there[name].How != "ok" && here[name].How == "ok" {
			t.Logf("here, and on rxe0 %s: %s: %s", there[name].How, name, there[name].Why)
		}
	}
}

// count is how many tests have ended how.
func count(all map[string]outcome) map[string]int {
	n := map[string]int{}
	for _, o := range all {
		n[o.How]++
	}
	return n
}

// pyverbsTests is a folder with the package tests and what plays it, and the names of its modules.
func pyverbsTests(t *testing.T) (folder string, modules []string) {
	t.Helper()
	files, err := filepath.Glob("/usr/share/doc/rdma-core/tests/*.py*")
	require.NoError(t, err)
	if len(files) == 0 {
		lacks(t, "python3-pyverbs")
	}
	folder = nobody.Folder(t)
	require.NoError(t, os.Mkdir(folder+"/tests", 0o755))
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		name, packed := strings.CutSuffix(filepath.Base(file), ".gz")
		if packed { // Debian packs the larger ones
			z, err := gzip.NewReader(bytes.NewReader(text))
			require.NoError(t, err)
			text, err = io.ReadAll(z)
			require.NoError(t, err)
		}
		require.NoError(t, os.WriteFile(filepath.Join(folder, "tests", name), text, 0o644))
		if module := strings.TrimSuffix(name, ".py"); strings.HasPrefix(module, "test_") {
			modules = append(modules, "tests."+module)
		}
	}
	text, err := os.ReadFile("testdata/outcomes.py")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(folder+"/outcomes.py", text, 0o644))
	return folder, modules
}

// pythonGuest is a guest with Python and the tests in it.
func pythonGuest(t *testing.T, folder string) *lab.Lab {
	t.Helper()
	config := arenaKernel
	config.Python, config.Files = true, map[string]string{}
	files, err := filepath.Glob(folder + "/tests/*.py")
	require.NoError(t, err)
	for _, file := range append(files, folder+"/outcomes.py") {
		at, err := filepath.Rel(folder, file)
		require.NoError(t, err)
		config.Files["/root/pyverbs/"+at] = file
	}
	l, err := lab.Start(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

// pyverbsThere plays modules on rxe0, each in a process of its own.
func pyverbsThere(t *testing.T, l *lab.Lab, modules []string) map[string]outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), suiteLimit)
	defer cancel()
	gid, err := l.GIDIndex(netip.MustParseAddr(lab.GuestIPv4))
	require.NoError(t, err)
	all := map[string]outcome{}
	for _, module := range modules {
		out, err := l.Command(ctx, "python3", "/root/pyverbs/outcomes.py", "/root/pyverbs", "--dev", lab.Device, "--gid",
			strconv.Itoa(gid), module).CombinedOutput()
		keepOutcomes(t, all, out, err, "rxe0: "+module)
	}
	return all
}

// pyverbsHere plays them over the libraries by roce run, as an ordinary user.
func pyverbsHere(t *testing.T, l *lab.Lab, over, folder string, modules []string) map[string]outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), suiteLimit)
	defer cancel()
	roce := filepath.Join(over, "roce")
	out, err := exec.Command("go", "build", "-pgo=off", "-o", roce, "github.com/goroce/goroce/cmd/roce").CombinedOutput()
	require.NoError(t, err, "%s", out)
	all := map[string]outcome{}
	for _, module := range modules {
		c := l.Host(ctx, roce, "run", "-q", "--dev", "udp:"+lab.HostIPv4, "--", "/usr/bin/python3", folder+"/outcomes.py", folder,
			"--dev", "roce0", "--gid", "0", module)
		nobody.Runs(t, c.Cmd)
		out, err := c.CombinedOutput()
		keepOutcomes(t, all, out, err, module)
	}
	return all
}

// keepOutcomes takes the outcomes from what a run has printed.
func keepOutcomes(t *testing.T, all map[string]outcome, out []byte, err error, what string) {
	t.Helper()
	n := len(all)
	for line := range bytes.Lines(out) {
		var o outcome
		if json.Unmarshal(line, &o) == nil && o.Test != "" && all[o.Test].How != "failed" {
			all[o.Test] = o
		}
	}
	if err != nil || len(all) == n {
		t.Errorf("%s: %d tests, and then %v\n%s", what, len(all)-n, err, out)
	}
}
