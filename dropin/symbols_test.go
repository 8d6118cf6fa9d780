package dropin

// What the libraries export and import.

import (
	"bufio"
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// libraries are those of which programs import.
var libraries = []string{"libibverbs.so.1", "librdmacm.so.1", "libmlx5.so.1", "libmlx4.so.1", "libefa.so.1",
	"libhns.so.1", "libmana.so.1"}

// exports are the symbols of a library, with their versions.
func exports(t *testing.T, library string) map[string]bool {
	t.Helper()
	f, err := elf.Open(filepath.Join(built, library))
	require.NoError(t, err)
	defer f.Close()
	symbols, err := f.DynamicSymbols()
	require.NoError(t, err)
	all := map[string]bool{}
	for _, s := range symbols {
		if s.Section != elf.SHN_UNDEF && s.Version != "" {
			all[s.Name+"@"+s.Version] = true
		}
	}
	return all
}

// TestSymbols: each library has the symbols of its list, in their versions.
func TestSymbols(t *testing.T) {
	needs(t, "true")
	for _, library := range libraries {
		has := exports(t, library)
		f, err := os.Open("symbols/" + strings.TrimSuffix(library, ".so.1") + ".txt")
		require.NoError(t, err)
		defer f.Close()
		n := 0
		for lines := bufio.NewScanner(f); lines.Scan(); n++ {
			row := strings.Fields(lines.Text())
			if row[1] == "-" {
				row[1] = "ibv_query_gid_type"
			}
			require.True(t, has[row[1]+"@"+row[0]], "%s lacks %s of %s", library, row[1], row[0])
		}
		require.NotZero(t, n)
	}
}

// TestImports: whatever the programs and libraries here that use verbs import of these libraries,
// there is.
func TestImports(t *testing.T) {
	needs(t, "ibv_devinfo")
	has := map[string]map[string]bool{}
	for _, library := range libraries {
		has[library] = exports(t, library)
	}
	files, imports := 0, 0
	for _, pattern := range []string{"/usr/bin/ib*", "/usr/bin/*perf*", "/usr/bin/fio", "/usr/bin/ucx*",
		debian13 + "/usr/bin/ib*", debian13 + "/usr/lib/python3/dist-packages/pyverbs/*/*.so",
		"/usr/sbin/tgtd", "/usr/bin/qemu-system-x86*",
		"/usr/bin/r*", "/usr/bin/u*", "/usr/bin/cmtime", "/usr/bin/mckey",
		"/usr/lib/x86_64-linux-gnu/lib*.so.*", "/usr/lib/x86_64-linux-gnu/ucx/*.so",
		"/usr/lib/python3/dist-packages/pyverbs/*.so"} {
		matches, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, file := range matches {
			base := filepath.Base(file)
			if strings.HasPrefix(base, "libibverbs.so") || strings.HasPrefix(base, "librdmacm.so") ||
				strings.HasPrefix(base, "libmlx") || strings.HasPrefix(base, "libefa") ||
				strings.HasPrefix(base, "libhns") || strings.HasPrefix(base, "libmana") {
				continue // what these take the place of
			}
			f, err := elf.Open(file)
			if err != nil {
				continue // a script
			}
			symbols, _ := f.ImportedSymbols()
			f.Close()
			some := false
			for _, s := range symbols {
				if from, ok := has[s.Library]; ok {
					require.True(t, from[s.Name+"@"+s.Version], "%s wants %s@%s of %s", file, s.Name, s.Version, s.Library)
					imports++
					some = true
				}
			}
			if some {
				files++
			}
		}
	}
	t.Logf("%d imports of %d files", imports, files)
	require.Greater(t, imports, 100)
}

// TestOldSystems: nothing newer of glibc is wanted than 2.34, which the systems of 2022 have.
func TestOldSystems(t *testing.T) {
	needs(t, "true")
	for _, library := range append([]string{"libgoroce-engine.so"}, libraries...) {
		f, err := elf.Open(filepath.Join(built, library))
		require.NoError(t, err)
		defer f.Close()
		symbols, err := f.ImportedSymbols()
		require.NoError(t, err)
		for _, s := range symbols {
			minor, ok := strings.CutPrefix(s.Version, "GLIBC_2.")
			if !ok {
				continue
			}
			minor, _, _ = strings.Cut(minor, ".")
			n, err := strconv.Atoi(minor)
			require.NoError(t, err, fmt.Sprint(s))
			require.LessOrEqual(t, n, 34, "%s wants %s@%s", library, s.Name, s.Version)
		}
	}
}
