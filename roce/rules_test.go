package roce

// The rules of the architecture that a compiler does not check: who imports whom, and that the engine is pure.

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const module = "github.com/goroce/goroce/"

// TestImportsRunOneWay: a package of the stack imports those listed, directly or not, and no others of this module.
func TestImportsRunOneWay(t *testing.T) {
	for pkg, allowed := range map[string]string{
		"wire":      "",
		"mr":        "",
		"qp":        "wire mr",
		"transport": "wire",
		"roce":      "wire mr qp transport transport/...",
	} {
		out, err := exec.Command("go", "list", "-deps", module+pkg).Output()
		if err != nil {
			t.Fatalf("go list: %v", err)
		}
		for _, dep := range strings.Fields(string(out)) {
			name, ours := strings.CutPrefix(dep, module)
			if strings.HasPrefix(name, "transport/") {
				name = "transport/..." // whose own rules are in transport/ports
			}
			if ours && name != pkg && !strings.Contains(" "+allowed+" ", " "+name+" ") {
				t.Errorf("%s imports %s; it may import: %s", pkg, name, allowed)
			}
		}
	}
}

// TestEngineIsPure: the protocol reads no clock, does no I/O and starts nothing, so that a test can be its whole world.
func TestEngineIsPure(t *testing.T) {
	forbidden := map[string]bool{"net": true, "os": true, "syscall": true, "time": true, "context": true, "log": true,
		"log/slog": true, "sync": true, "golang.org/x/sys/unix": true}
	files, err := filepath.Glob("../qp/*.go")
	must(t, err)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, nil, 0)
		must(t, err)
		for _, spec := range file.Imports {
			if path := strings.Trim(spec.Path.Value, `"`); forbidden[path] {
				t.Errorf("%v: the engine imports %s", fset.Position(spec.Pos()), path)
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n.(type) {
			case *ast.GoStmt, *ast.ChanType, *ast.SelectStmt, *ast.SendStmt:
				t.Errorf("%v: the engine has a goroutine, channel or select", fset.Position(n.Pos()))
			}
			return true
		})
	}
}
