package docs

// The structure of the repository, held by tests, for all systems at once: the files are read, not
// built. Stages: read every Go file; look at who imports whom and at what the engine may not know;
// measure packages, files, functions and comments, and hold them against their limits.

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"
)

const module = "github.com/goroce/goroce/"

// source is a Go file. Names are relative to the module, with slashes.
type source struct {
	name, folder string
	test         bool
	lines        []string
	file         *ast.File
	fset         *token.FileSet
}

var sources = sync.OnceValues(func() (all []*source, err error) {
	err = filepath.WalkDir("..", func(name string, d fs.DirEntry, err error) error {
		if base := d.Name(); err == nil && d.IsDir() && base != ".." && (base[0] == '.' || base == "testdata" || base == "build") {
			return fs.SkipDir
		}
		if err != nil || d.IsDir() || filepath.Ext(name) != ".go" {
			return err
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		name = strings.TrimPrefix(filepath.ToSlash(name), "../")
		s := &source{name: name, folder: path.Dir(name), test: strings.HasSuffix(name, "_test.go"),
			lines: strings.Split(strings.TrimSuffix(string(text), "\n"), "\n"), fset: token.NewFileSet()}
		s.file, err = parser.ParseFile(s.fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
		all = append(all, s)
		return err
	})
	return all, err
})

// each calls f with every file.
func each(t *testing.T, f func(s *source)) {
	t.Helper()
	all, err := sources()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 100 {
		t.Fatalf("only %d Go files were found", len(all))
	}
	for _, s := range all {
		f(s)
	}
}

// imports are the packages that the file names, those of this module without its path.
func (s *source) imports() (paths []string) {
	for _, spec := range s.file.Imports {
		paths = append(paths, strings.TrimPrefix(strings.Trim(spec.Path.Value, `"`), module))
	}
	return paths
}

func (s *source) line(p token.Pos) int { return s.fset.Position(p).Line }

// mayImport says for the packages of the stack, and for what only tests use of it, which others of
// this module they may import. A name with /... stands for the packages below it too. Of several
// rows for a package the first counts.
var mayImport = []struct{ importer, imported string }{
	{"wire", ""},
	{"wire/layers", "wire"},
	{"wire/pcapng", ""},
	{"mr", ""},
	{"qp", "wire mr"},
	{"qp/qptest/...", "wire wire/pcapng mr qp qp/qptest/..."},
	{"cm", "wire internal/fair"},
	{"internal/fair", "wire"},
	{"transport", "wire"},
	{"transport/internal/porttest", "wire transport/... internal/netns"}, // the rooms' tests
	{"transport/...", "wire wire/pcapng transport/..."},
	{"roce/internal/hub", "wire cm transport/... roce/internal/soft"},
	{"roce/internal/...", "wire mr qp transport/... roce/internal/..."},
	{"roce", "wire mr qp transport/... roce/internal/..."},
	{"roce/conformance", "roce"},
	{"roce/rsocket/internal/stream", ""},
	{"roce/rsocket", "roce roce/rdmacm roce/rsocket/internal/stream"},
	{"roce/rdmacm", "wire cm qp roce internal/route internal/fair roce/internal/hub roce/internal/librdmacm roce/internal/verbs"},
	{"roce/hub", "wire cm qp transport/... roce roce/rdmacm roce/internal/hub"},
	{"internal/route", "wire"},
	{"trace/...", "wire wire/pcapng mr qp trace/..."},
}

// within says whether a package is in a list of names as mayImport has them.
func within(names, pkg string) bool {
	for _, name := range strings.Fields(names) {
		tree, below := strings.CutSuffix(name, "/...")
		if pkg == tree || below && strings.HasPrefix(pkg, tree+"/") {
			return true
		}
	}
	return false
}

// TestImportsRunOneWay: facade, engine room, then protocol, memory and ports, then wire. Tests may
// import what they like.
func TestImportsRunOneWay(t *testing.T) {
	each(t, func(s *source) {
		for _, rule := range mayImport {
			if s.test || !within(rule.importer, s.folder) {
				continue
			}
			for i, imported := range s.imports() {
				ours := strings.Contains(s.file.Imports[i].Path.Value, module)
				if ours && imported != s.folder && !within(rule.imported, imported) {
					t.Errorf("%s imports %s; it may import: %s", s.name, imported, rule.imported)
				}
			}
			return
		}
		if !s.test && within("wire/... mr/... qp/... cm/... transport/... roce/... trace/...", s.folder) {
			t.Errorf("%s: mayImport has no row for its package", s.name)
		}
	})
}

// TestEngineIsPure: the protocols read no clock, do no I/O and start nothing, so that a test can be
// their whole world.
func TestEngineIsPure(t *testing.T) {
	const forbidden = "net os/... syscall time context log/... sync golang.org/x/... runtime io/..."
	each(t, func(s *source) {
		if !within("qp cm internal/fair roce/internal/soft/drive roce/rsocket/internal/stream trace/world", s.folder) || s.test {
			return
		}
		for _, imported := range s.imports() {
			if within(forbidden, imported) {
				t.Errorf("%s: the engine imports %s", s.name, imported)
			}
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n.(type) {
			case *ast.GoStmt, *ast.ChanType, *ast.SelectStmt, *ast.SendStmt:
				t.Errorf("%s:%d: the engine has a goroutine, channel or select", s.name, s.line(n.Pos()))
			}
			return true
		})
	})
}

// TestOnlyVerbsIsC: a build without the tag verbs has none of our cgo. The libraries for programs
// in C are another module.
func TestOnlyVerbsIsC(t *testing.T) {
	found := 0
	each(t, func(s *source) {
		for _, imported := range s.imports() {
			if imported != "C" {
				continue
			}
			found++
			if within("dropin/engine", s.folder) {
				continue
			}
			if s.lines[0] != "//go:build verbs" || !within("roce/internal/verbs roce/internal/librdmacm", s.folder) {
				t.Errorf("%s uses cgo: that is for roce/internal/verbs and librdmacm, behind the tag verbs", s.name)
			}
		}
	})
	if found == 0 {
		t.Error("no file uses cgo: the test looks at the wrong thing")
	}
}

// A measure is something that is counted in a package, file or function.
type measure struct{ what, where string }

// What is measured.
const (
	files     = "files that are no tests"
	lines     = "lines of a file"
	body      = "lines of a function"
	wide      = "lines with comments that end beyond column 100"
	broad     = "lines of code that end beyond column 120, or 140 in a test"
	misplaced = "comments about a file above its package clause"
)

// Columns; a tab is four.
const (
	widestComment = 100
	widestCode    = 120
	widestTest    = 140
)

var limits = map[string]int{files: 20, lines: 500, body: 60, wide: 0, broad: 0, misplaced: 0}

// roomy packages are one thing each, which would be harder to follow in two.
var roomy = map[measure]int{
	{files, "wire"}:               32,
	{files, "qp"}:                 42,
	{files, "qp/qptest"}:          25,
	{files, "roce"}:               24,
	{files, "roce/internal/soft"}: 22,
}

// TestSizes holds every measure against its limit.
func TestSizes(t *testing.T) {
	sum, where := map[measure]int{}, map[measure][]string{}
	add := func(m measure, n int, at string) {
		sum[m] += n
		where[m] = append(where[m], at)
	}
	each(t, func(s *source) { s.measure(add) })
	for m, n := range sum {
		if limit := max(limits[m.what], roomy[m]); n > limit {
			places := strings.Join(where[m][:min(len(where[m]), 40)], "\n\t")
			t.Errorf("%s: %d %s; the limit is %d\n\t%s", m.where, n, m.what, limit, places)
		}
	}
}

// measure reports the measures of a file, and where each was taken.
func (s *source) measure(add func(m measure, n int, at string)) {
	if !s.test {
		add(measure{files, s.folder}, 1, s.name)
	}
	add(measure{lines, s.name}, len(s.lines), s.name)
	for _, d := range s.file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok {
			first, last := s.line(f.Pos()), s.line(f.End())
			add(measure{body, s.name + " " + funcName(f)}, last-first+1, fmt.Sprintf("%s:%d", s.name, first))
		}
	}
	for _, n := range s.wideComments() {
		add(measure{wide, s.folder}, 1, fmt.Sprintf("%s:%d", s.name, n))
	}
	for _, n := range s.broadLines() {
		add(measure{broad, s.folder}, 1, fmt.Sprintf("%s:%d", s.name, n))
	}
	for _, g := range s.file.Comments {
		if g.End() < s.file.Package && g != s.file.Doc && !directive.MatchString(g.List[0].Text) {
			add(measure{misplaced, s.folder}, 1, s.name)
		}
	}
}

// funcName is a function's name, behind that of its receiver's type if it is a method.
func funcName(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	return types.ExprString(f.Recv.List[0].Type) + "." + f.Name.Name
}

// directive is a comment for programs.
var directive = regexp.MustCompile(`^//(go:|nolint|line )`)

// wideComments returns the lines on which a comment ends too far to the right.
func (s *source) wideComments() (at []int) {
	for _, g := range s.file.Comments {
		for _, c := range g.List {
			for n := s.line(c.Pos()); n <= s.line(c.End()); n++ {
				if columns(s.lines[n-1]) > widestComment && !directive.MatchString(c.Text) {
					at = append(at, n)
				}
			}
		}
	}
	return at
}

// broadLines returns the lines of code that end too far to the right, but for those of texts
// between backquotes.
func (s *source) broadLines() (at []int) {
	text := map[int]bool{}
	ast.Inspect(s.file, func(n ast.Node) bool {
		if b, ok := n.(*ast.BasicLit); ok && strings.HasPrefix(b.Value, "`") {
			for n := s.line(b.Pos()); n <= s.line(b.End()); n++ {
				text[n] = true
			}
		}
		return true
	})
	widest := widestCode
	if s.test {
		widest = widestTest
	}
	for i, line := range s.lines {
		if columns(line) > widest && !text[i+1] && !directive.MatchString(line) {
			at = append(at, i+1)
		}
	}
	return at
}

func columns(line string) int { return utf8.RuneCountInString(strings.ReplaceAll(line, "\t", "    ")) }

// TestModuleCanBeInstalled: go install refuses a program whose go.mod replaces or excludes modules,
// and a module cannot be packed if the name of a file has odd characters, or if two names are one
// where case does not count.
func TestModuleCanBeInstalled(t *testing.T) {
	text, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(text), "module "+strings.TrimSuffix(module, "/")+"\n") {
		t.Errorf("go.mod does not begin with the module's path: %.60s", text)
	}
	if found := regexp.MustCompile(`(?m)^\s*(replace|exclude)\b.*`).Find(text); found != nil {
		t.Errorf("go.mod: %s", found)
	}
	names := map[string]string{}
	err = filepath.WalkDir("..", func(name string, d fs.DirEntry, err error) error {
		if err == nil && (d.Name() == ".git" || d.Name() == "build") && d.IsDir() {
			return fs.SkipDir
		}
		if other, taken := names[strings.ToLower(name)]; taken {
			t.Errorf("%s and %s", other, name)
		}
		names[strings.ToLower(name)] = name
		if !plain.MatchString(d.Name()) {
			t.Errorf("%q has characters that not every file system takes", name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

var plain = regexp.MustCompile(`^[A-Za-z0-9._=+-]+$`)

// TestAllIsFuzzed: make fuzz knows each package that has a fuzz target.
func TestAllIsFuzzed(t *testing.T) {
	text, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(text), "\nFUZZ ?= ")
	list, _, _ = strings.Cut(list, "\n")
	found := 0
	each(t, func(s *source) {
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && s.test && strings.HasPrefix(f.Name.Name, "Fuzz") {
				if found++; !strings.Contains(list+" ", "./"+s.folder+":") {
					t.Errorf("%s: %s is in a package that FUZZ of the Makefile does not name", s.name, f.Name.Name)
				}
			}
		}
	})
	if found == 0 {
		t.Error("no fuzz target is found: the test looks at the wrong thing")
	}
}
