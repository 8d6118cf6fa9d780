package main

import (
	"bytes"
	"html/template"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
)

// repository is where links go that lead to what the site does not have, such as sources.
const repository = "https://github.com/goroce/goroce/blob/main/"

// The documents have anchors and details of their own, as HTML; they are the project's.
var markdown = goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithRendererOptions(html.WithUnsafe()),
	goldmark.WithParserOptions(parser.WithAutoHeadingID()))

// page writes a document as a page.
func (s *site) page(w io.Writer, name string) error {
	source, err := os.ReadFile(filepath.Join(s.root, filepath.FromSlash(name)))
	if err != nil {
		return err
	}
	tree := markdown.Parser().Parse(text.NewReader(source),
		parser.WithContext(parser.NewContext(parser.WithIDs(anchors{}))))
	title := name
	err = ast.Walk(tree, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch n := n.(type) {
		case *ast.Link:
			if entering {
				n.Destination = []byte(s.target(name, string(n.Destination)))
			}
		case *ast.Image:
			if entering {
				n.Destination = []byte(s.target(name, string(n.Destination)))
			}
		case *ast.Heading:
			if entering && n.Level == 1 {
				title = plain(string(n.Lines().Value(source)))
			}
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		return err
	}
	var body bytes.Buffer
	if err := markdown.Renderer().Render(&body, source, tree); err != nil {
		return err
	}
	return templates.ExecuteTemplate(w, "page.html", map[string]any{"Style": style, "Title": title,
		"Body": template.HTML(reachable.Replace(body.String())), "Up": strings.Repeat("../", strings.Count(name, "/"))})
}

// reachable lets what scrolls be scrolled by keys; a heading of a column that has none is a cell.
var reachable = strings.NewReplacer("<pre>", `<pre tabindex="0">`, "<th></th>", "<td></td>",
	"<table>", `<div class="wide" tabindex="0" role="group" aria-label="Table"><table>`, "</table>", "</table></div>")

// target is where a link of a document leads.
func (s *site) target(from, link string) string {
	if strings.Contains(link, "://") || strings.HasPrefix(link, "mailto:") || strings.HasPrefix(link, "#") {
		return link
	}
	file, place, anchored := strings.Cut(link, "#")
	name := path.Join(path.Dir(from), file)
	switch {
	case !s.has(name):
		return repository + name
	case strings.HasSuffix(file, ".md"):
		file = pageOf(file)
	}
	if anchored {
		file += "#" + place
	}
	return file
}

// anchors call headings as GitHub does, which the documents' links rely on.
type anchors struct{}

// Generate returns what a heading is called.
func (anchors) Generate(value []byte, _ ast.NodeKind) []byte { return []byte(anchor(string(value))) }

// Put is told what is called so already.
func (anchors) Put([]byte) {}

var (
	punctuation = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	linked      = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
)

func anchor(heading string) string {
	heading = strings.ToLower(strings.TrimSpace(plain(heading)))
	return strings.ReplaceAll(punctuation.ReplaceAllString(heading, ""), " ", "-")
}

// plain is a heading without marks.
func plain(heading string) string {
	return strings.NewReplacer("`", "", "**", "", `\`, "").Replace(linked.ReplaceAllString(heading, "$1"))
}
