package docs

// The front door: what a visitor reads first, and the way from there. Stages: the README is short;
// every link of every document leads somewhere; every document is in the index, and can be read; go
// doc shows what the records hold.

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// readmeLines is how long the README may be: what it is, two commands, who begins where.
const readmeLines = 150

// pageLines is how long a page may be that people read from its top to its end. rocev2.md is looked
// things up in.
const pageLines = 400

// pages are the documents that people read: all of Markdown but what is generated (docs/learn), the
// benchmark's results, and what is built: make programs has a whole Debian there.
func pages(t *testing.T) (names []string) {
	t.Helper()
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (path == "learn" || slices.Contains([]string{"testdata", "build", "node_modules", ".git"}, d.Name())) {
			return fs.SkipDir
		}
		if filepath.Ext(path) == ".md" && path != filepath.Join("..", "bench", "RESULTS.md") {
			names = append(names, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(names) < 15 {
		t.Fatalf("only %d documents were found", len(names))
	}
	return names
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestReadmeIsShort(t *testing.T) {
	if n := strings.Count(read(t, "../README.md"), "\n"); n > readmeLines {
		t.Errorf("README.md has %d lines, %d are allowed: what is more belongs into docs", n, readmeLines)
	}
}

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// anchor is what a heading is called in links to it.
func anchor(heading string) string {
	heading = strings.ToLower(strings.TrimSpace(strings.TrimLeft(heading, "#")))
	heading = regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(heading, "")
	return strings.ReplaceAll(heading, " ", "-")
}

func TestLinksLeadSomewhere(t *testing.T) {
	found := 0
	for _, name := range pages(t) {
		for _, l := range link.FindAllStringSubmatch(read(t, name), -1) {
			if strings.Contains(l[1], "://") {
				continue
			}
			found++
			file, place, _ := strings.Cut(l[1], "#")
			if file == "" {
				file = filepath.Base(name)
			}
			target := filepath.Join(filepath.Dir(name), filepath.FromSlash(file))
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s, which is not there", name, l[1])
				continue
			}
			if place != "" && !hasAnchor(read(t, target), place) {
				t.Errorf("%s links to %s: %s has no such heading", name, l[1], target)
			}
		}
	}
	if found < 80 {
		t.Errorf("only %d links were found", found)
	}
}

func hasAnchor(text, place string) bool {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") && anchor(line) == place || strings.Contains(line, `<a id="`+place+`">`) {
			return true
		}
	}
	return false
}

func TestIndexHasEveryPage(t *testing.T) {
	index := read(t, "README.md")
	own, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range own {
		if name != "README.md" && !strings.Contains(index, "]("+name+")") {
			t.Errorf("docs/README.md does not name %s", name)
		}
		if n := strings.Count(read(t, name), "\n"); n > pageLines && name != "rocev2.md" {
			t.Errorf("%s has %d lines, %d are allowed: make two pages of it", name, n, pageLines)
		}
	}
}

// TestRecordsShowTheirFields: go doc shows of an alias its comment alone, so the comments of the
// records in roce/types.go have the fields, with their types, in their order.
func TestRecordsShowTheirFields(t *testing.T) {
	records := map[string]*ast.StructType{}
	eachType(t, "../qp", func(s *ast.TypeSpec, _ *ast.CommentGroup) {
		if fields, ok := s.Type.(*ast.StructType); ok {
			records[s.Name.Name] = fields
		}
	})
	ours := strings.NewReplacer("wire.", "", "mr.", "", "Cap", "QPCap", "Time", "qp.Time")
	found := 0
	eachType(t, "../roce", func(s *ast.TypeSpec, doc *ast.CommentGroup) {
		of, ok := s.Type.(*ast.SelectorExpr)
		if !ok || s.Assign == 0 || records[of.Sel.Name] == nil || !exportsFields(records[of.Sel.Name]) {
			return
		}
		found++
		var want, said []string
		for _, f := range records[of.Sel.Name].Fields.List {
			kind := ours.Replace(types.ExprString(f.Type))
			if f.Names == nil {
				want = append(want, kind)
			}
			for _, name := range f.Names {
				if name.IsExported() {
					want = append(want, name.Name+" "+kind)
				}
			}
		}
		for _, l := range regexp.MustCompile(`(?m)^\t((?:\w+, )*\w+) *(?: ([\w.*\[\]]+))?(?: *//.*)?$`).FindAllStringSubmatch(doc.Text(),
			-1) {
			for name := range strings.SplitSeq(l[1], ", ") {
				said = append(said, strings.TrimSpace(name+" "+l[2]))
			}
		}
		if !slices.Equal(said, want) {
			t.Errorf("roce.%s: its comment has the fields\n\t%s\nqp.%s has\n\t%s",
				s.Name, strings.Join(said, "\n\t"), of.Sel.Name, strings.Join(want, "\n\t"))
		}
	})
	if found < 10 {
		t.Errorf("only %d records were found", found)
	}
}

func exportsFields(s *ast.StructType) bool {
	return slices.ContainsFunc(s.Fields.List, func(f *ast.Field) bool {
		return slices.ContainsFunc(f.Names, (*ast.Ident).IsExported)
	})
}

// eachType calls do with each type that the package in folder declares, and its comment.
func eachType(t *testing.T, folder string, do func(s *ast.TypeSpec, doc *ast.CommentGroup)) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			group, ok := d.(*ast.GenDecl)
			if !ok || group.Tok != token.TYPE {
				continue
			}
			for _, s := range group.Specs {
				spec := s.(*ast.TypeSpec)
				if doc := spec.Doc; doc != nil {
					do(spec, doc)
				} else {
					do(spec, group.Doc)
				}
			}
		}
	}
}
