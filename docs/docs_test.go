// Package docs holds the documents of the project, and checks that what cites them is right.
package docs

import (
	"go/ast"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// citation is "section 4.6", alone or in a row: "sections 4.6 and 1.7". Sections of RFCs are named
// with theirs.
var (
	citation = regexp.MustCompile(`\bsections? (\d+(?:\.\d+)?)(?:(?:,| and|, and) (\d+(?:\.\d+)?))*`)
	number   = regexp.MustCompile(`\d+(?:\.\d+)?`)
	heading  = regexp.MustCompile(`(?m)^##+ (\d+(?:\.\d+)?)[. ]`)
)

// sections are the numbers of a document's headings.
func sections(t *testing.T, document string) map[string]bool {
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, h := range heading.FindAllStringSubmatch(string(text), -1) {
		known[h[1]] = true
	}
	return known
}

// TestWalk: the functions that a request passes, as design.md has them, are where it says.
func TestWalk(t *testing.T) {
	text, err := os.ReadFile("design.md")
	if err != nil {
		t.Fatal(err)
	}
	declared := map[string]bool{}
	each(t, func(s *source) {
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				declared[s.name+" "+strings.TrimPrefix(funcName(f), "*")] = true
			}
		}
	})
	rows := regexp.MustCompile("(?m)^\\|.*\\| `([a-z/_]+\\.go)` \\| `([A-Za-z.]+)` \\|$").FindAllStringSubmatch(string(text), -1)
	if len(rows) < 20 {
		t.Fatalf("only %d rows were found", len(rows))
	}
	for _, r := range rows {
		if !declared[r[1]+" "+r[2]] {
			t.Errorf("design.md names %s in %s, which is not there", r[2], r[1])
		}
	}
}

// TestCitations: every section that a comment cites is a heading of rocev2.md; in roce/rsocket, of
// rsocket.md.
func TestCitations(t *testing.T) {
	documents := map[string]map[string]bool{"rocev2.md": sections(t, "rocev2.md"), "rsocket.md": sections(t, "rsocket.md")}
	cited := 0
	check := func(path string, text []byte) {
		document := "rocev2.md"
		if strings.Contains(filepath.ToSlash(path), "roce/rsocket/") || path == "rsocket.md" {
			document = "rsocket.md"
		}
		for i, line := range strings.Split(string(text), "\n") {
			if strings.Contains(line, "RFC") {
				continue
			}
			for _, c := range citation.FindAllString(line, -1) {
				for _, n := range number.FindAllString(c, -1) {
					if cited++; !documents[document][n] {
						t.Errorf("%s:%d cites section %s, which %s does not have", path, i+1, n, document)
					}
				}
			}
		}
	}
	for document := range documents {
		text, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		check(document, text)
	}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == "build" {
			return fs.SkipDir
		}
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || filepath.Base(path) == "docs_test.go" {
			return err
		}
		text, err := os.ReadFile(path)
		check(path, text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if cited < 100 {
		t.Errorf("only %d citations were found", cited)
	}
}
