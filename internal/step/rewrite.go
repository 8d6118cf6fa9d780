package step

// The rewritten build: go test with an overlay, in which the files of some packages are replaced.
//
// Stages: which files → a file: its imports, and what the language itself has, rewritten in place
// so that all lines stay → the overlay → the test is run in that build.

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	module = "github.com/goroce/goroce"
	here   = module + "/internal/step"
)

// replaced are the imports that this package has its own of.
var replaced = map[string]bool{"sync": true, "sync/atomic": true, "time": true, "context": true, "runtime": true,
	module + "/roce/internal/ticks": true}

// Rebuilt says that the test runs in a build in which some packages are rewritten; elsewhere it has
// the calling test run in one, by its name, and returns false. A package is a folder of the module,
// or a file in it; behind a colon, the imports that stay. The alarms of package soft, which are the
// kernel's, are those of other systems there.
func Rebuilt(t *testing.T, packages ...string) bool {
	t.Helper()
	if Rewritten {
		return true
	}
	if Raced {
		t.Skip("the orders of steps are played without the race detector")
	}
	if _, err := exec.LookPath("go"); err != nil {
		t.Skipf("no go tool to build with: %v", err)
	}
	list, err := overlay(t.TempDir(), packages)
	if err != nil {
		t.Fatal(err)
	}
	stories := "" // those that the present -run names
	if _, below, ok := strings.Cut(flag.Lookup("test.run").Value.String(), "/"); ok {
		stories = "/" + below
	}
	out, err := exec.Command("go", "test", "-overlay="+list, "-count=1", "-vet=off", "-v", "-timeout=20m",
		"-run=^"+t.Name()+"$"+stories, ".").CombinedOutput()
	if err != nil {
		t.Fatalf("%s\n%s", finding.Find(out), out)
	}
	t.Logf("%s", out)
	return false
}

// finding is the first line of what Play says of an order.
var finding = regexp.MustCompile(`(order|seed) \d+, switches.*`)

// overlay writes the rewritten files into a folder, and the list of them. Files that are replaced
// in the present build already (by mutants, in GOFLAGS) are read there.
func overlay(dir string, packages []string) (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	list := map[string]string{}
	if m := regexp.MustCompile(`-overlay=(\S+)`).FindStringSubmatch(os.Getenv("GOFLAGS")); m != nil {
		text, err := os.ReadFile(m[1])
		if err != nil {
			return "", err
		}
		if err := json.Unmarshal(text, &struct{ Replace *map[string]string }{&list}); err != nil {
			return "", err
		}
	}
	put := func(path string, text []byte) error {
		to := filepath.Join(dir, fmt.Sprintf("%d-%s", len(list), filepath.Base(path)))
		list[path] = to
		return os.WriteFile(to, text, 0o600)
	}
	for _, p := range packages {
		p, keep, _ := strings.Cut(p, ":")
		files, err := filesOf(filepath.Join(root, filepath.FromSlash(p)))
		if err != nil {
			return "", err
		}
		for _, path := range files {
			from := path
			if to, ok := list[path]; ok {
				from = to
			}
			text, err := os.ReadFile(from)
			if err == nil {
				text, err = Rewrite(path, text, strings.Fields(keep))
			}
			if err == nil {
				err = put(path, text)
			}
			if err != nil {
				return "", err
			}
		}
	}
	if err := portable(root, list, put); err != nil {
		return "", err
	}
	built := filepath.Join(root, "internal", "step", "built.go")
	if err := put(built, []byte("package step\n\nconst Rewritten = true\n")); err != nil {
		return "", err
	}
	text, err := json.Marshal(map[string]any{"Replace": list})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, text, 0o600)
}

// portable has the file of other systems take the place of Linux' alarms.
func portable(root string, list map[string]string, put func(path string, text []byte) error) error {
	soft := filepath.Join(root, "roce", "internal", "soft")
	linux, other := filepath.Join(soft, "alarm_linux.go"), filepath.Join(soft, "alarm_other.go")
	if _, ok := list[linux]; !ok {
		return nil
	}
	text, err := os.ReadFile(other)
	if err != nil {
		return err
	}
	_, text, _ = bytes.Cut(text, []byte("\n\n"))
	return put(linux, text)
}

// moduleRoot is the folder above this one that has go.mod.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, missing := os.Stat(filepath.Join(dir, "go.mod")); missing == nil {
			return dir, nil
		}
		if filepath.Dir(dir) == dir {
			return "", fmt.Errorf("no go.mod above")
		}
		dir = filepath.Dir(dir)
	}
	return "", err
}

// filesOf are the files that are built of a package, or one file.
func filesOf(path string) ([]string, error) {
	if strings.HasSuffix(path, ".go") {
		return []string{path}, nil
	}
	p, err := build.ImportDir(path, 0)
	if err != nil {
		return nil, err
	}
	for i, name := range p.GoFiles {
		p.GoFiles[i] = filepath.Join(path, name)
	}
	return p.GoFiles, nil
}

// edits are what changes in a file: pieces of text that others take the place of.
type edits struct {
	fset *token.FileSet
	text []byte
	list []edit
}

type edit struct {
	from, to int
	by       string
}

func (e *edits) put(from, to token.Pos, by string) {
	e.list = append(e.list, edit{e.fset.Position(from).Offset, e.fset.Position(to).Offset, by})
}

func (e *edits) insert(at token.Pos, text string) { e.put(at, at, text) }

func (e *edits) source(n ast.Node) string {
	return string(e.text[e.fset.Position(n.Pos()).Offset:e.fset.Position(n.End()).Offset])
}

// Rewrite rewrites a file, but for the imports that stay.
func Rewrite(path string, text []byte, keep []string) ([]byte, error) {
	e := &edits{fset: token.NewFileSet(), text: text}
	f, err := parser.ParseFile(e.fset, path, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, spec := range f.Imports {
		name, err := strconv.Unquote(spec.Path.Value)
		if err == nil && replaced[name] && !slices.Contains(keep, name) {
			e.put(spec.Path.Pos(), spec.Path.End(), strconv.Quote(here+"/"+filepath.Base(name)))
		}
	}
	e.language(f)
	slices.SortStableFunc(e.list, func(a, b edit) int { return a.from - b.from })
	var b bytes.Buffer
	at := 0
	for _, edit := range e.list {
		b.Write(text[at:edit.from])
		b.WriteString(edit.by)
		at = edit.to
	}
	b.Write(text[at:])
	name := fmt.Sprintf("package %s; import step_ %q", f.Name.Name, here)
	clause := regexp.MustCompile(`(?m)^package ` + f.Name.Name + `$`)
	out := clause.ReplaceAllLiteral(b.Bytes(), []byte(name))
	return append(out, "\nvar _ = step_.Go\n"...), nil
}

// language rewrites go, close, select, and what is sent and received.
func (e *edits) language(root ast.Node) {
	var pairs []ast.Expr // receives whose second value is used
	ast.Inspect(root, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			e.put(n.Go, n.Go+2, "step_.Go(func() {")
			e.insert(n.End(), " })")
		case *ast.SendStmt:
			e.insert(n.Pos(), "step_.Send(")
			e.put(n.Arrow, n.Arrow+2, ",")
			e.insert(n.End(), ")")
		case *ast.AssignStmt:
			if len(n.Lhs) == 2 && len(n.Rhs) == 1 {
				pairs = append(pairs, n.Rhs[0])
			}
		case *ast.UnaryExpr:
			if n.Op == token.ARROW {
				name := "step_.Recv("
				if slices.Contains(pairs, ast.Expr(n)) {
					name = "step_.Recv2("
				}
				e.put(n.OpPos, n.OpPos+2, name)
				e.insert(n.End(), ")")
			}
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.Ident); ok && f.Name == "close" && len(n.Args) == 1 {
				e.put(f.Pos(), f.End(), "step_.Close")
			}
		case *ast.SelectStmt:
			e.selects(n)
			return false
		}
		return true
	})
}

// selects makes a switch of a select.
func (e *edits) selects(s *ast.SelectStmt) {
	otherwise, cases := false, ""
	for _, c := range s.Body.List {
		c := c.(*ast.CommClause)
		for _, body := range c.Body {
			e.language(body)
		}
		if c.Comm == nil {
			otherwise = true
			continue
		}
		n := strings.Count(cases, "step_.")
		gets := ""
		switch comm := c.Comm.(type) {
		case *ast.SendStmt:
			cases += fmt.Sprintf(", step_.S(%s, %s)", e.source(comm.Chan), e.source(comm.Value))
		case *ast.ExprStmt:
			cases += fmt.Sprintf(", step_.R(%s)", e.source(comm.X.(*ast.UnaryExpr).X))
		case *ast.AssignStmt:
			from := e.source(comm.Rhs[0].(*ast.UnaryExpr).X)
			cases += fmt.Sprintf(", step_.R(%s)", from)
			name := [...]string{1: "Got", 2: "Got2"}[len(comm.Lhs)]
			left := string(e.text[e.fset.Position(comm.Pos()).Offset:e.fset.Position(comm.TokPos).Offset])
			gets = fmt.Sprintf(" %s%s step_.%s(%s)", left, comm.Tok, name, from)
		}
		e.put(c.Case, c.Colon+1, fmt.Sprintf("case %d:%s", n, gets))
	}
	e.put(s.Select, s.Select+6, fmt.Sprintf("switch step_.Select(%v%s)", otherwise, cases))
}
