package docs

// A build without the tag verbs has no C of ours: neither in what is compiled, nor in what is
// linked.

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// cgoPackages are the packages of this module that a build compiles with cgo.
func cgoPackages(t *testing.T, tags string) (list []string) {
	t.Helper()
	cmd := exec.Command("go", "list", "-tags", tags, "-deps", "-f", "{{if .CgoFiles}}{{.ImportPath}}{{end}}", "./...")
	cmd.Dir, cmd.Env = "..", append(os.Environ(), "CGO_ENABLED=1")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	for _, p := range strings.Fields(string(out)) {
		if strings.HasPrefix(p, module) {
			list = append(list, strings.TrimPrefix(p, module))
		}
	}
	slices.Sort(list)
	return slices.Compact(list) // also as its tests see it
}

// TestCgoTakesTheTag: cgo is on, and yet nothing of ours is compiled with it.
func TestCgoTakesTheTag(t *testing.T) {
	if with := cgoPackages(t, "verbs"); !slices.Equal(with, []string{"roce/internal/librdmacm", "roce/internal/verbs"}) {
		t.Errorf("with the tag verbs: %q", with)
	}
	if without := cgoPackages(t, ""); len(without) != 0 {
		t.Errorf("without a tag: %q", without)
	}
}

// TestCommandWithoutC: the command builds without cgo, and has no symbol that cgo makes.
func TestCommandWithoutC(t *testing.T) {
	if testing.Short() {
		t.Skip("links the command")
	}
	program := filepath.Join(t.TempDir(), "roce.exe")
	build := exec.Command("go", "build", "-pgo=off", "-o", program, "../cmd/roce")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.Command("go", "tool", "nm", program).Output()
	if err != nil {
		t.Fatal(err)
	}
	symbols := string(out)
	if !strings.Contains(symbols, module+"roce.Open") {
		t.Fatal("the symbols are not those of the command")
	}
	for _, c := range []string{"_Cfunc_", "_cgoexp", "runtime/cgo.", "goroce_", "ibv_"} {
		for line := range strings.Lines(symbols) {
			if strings.Contains(line, c) {
				t.Errorf("a symbol of C: %s", line)
				break
			}
		}
	}
}
