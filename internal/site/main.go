// Command site writes a folder that can be put on any web server: the lessons, the slides of the
// course, all documents with their pictures, and a page that leads to them. It is a module of its
// own, so that what reads Markdown is no dependency of anybody else's.
//
//	main.go   what there is, and where it goes (this file)
//	pages.go  a document as a page: its links lead to pages, pictures, or the repository
//
// Nothing in it needs the server to do more than to send files, and nothing comes from elsewhere.
package main

import (
	"embed"
	"errors"
	"flag"
	"html/template"
	"io"
	"io/fs"
	"log"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goroce/goroce/trace/course"
	"github.com/goroce/goroce/trace/learn"
	"github.com/goroce/goroce/trace/page"
)

func main() {
	root := flag.String("root", "../..", "the repository's `folder`")
	out := flag.String("out", "../../dist/site", "the `folder` to write")
	flag.Parse()
	if err := write(*root, *out); err != nil {
		log.Fatal(err)
	}
}

// made are the pages that are no documents.
var made = map[string]func(io.Writer) error{
	"index.html":   index,
	"lessons.html": func(w io.Writer) error { return page.Write(w, nil) },
	"slides.html":  course.Slides,
}

// write writes the whole site.
func write(root, out string) error {
	for name, make := range made {
		if err := create(out, name, make); err != nil {
			return err
		}
	}
	s, err := collect(root)
	if err != nil {
		return err
	}
	for _, name := range s.documents {
		if err := create(out, pageOf(name), func(w io.Writer) error { return s.page(w, name) }); err != nil {
			return err
		}
	}
	for _, name := range s.pictures {
		if err := create(out, name, func(w io.Writer) error {
			return copyFile(w, filepath.Join(root,
				name))
		}); err != nil {
			return err
		}
	}
	return nil
}

func create(out, name string, write func(io.Writer) error) error {
	name = filepath.Join(out, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

func copyFile(w io.Writer, name string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}

// site is what the repository has for people. Names are relative to it, with slashes.
type site struct {
	root                string
	documents, pictures []string
}

// collect finds the documents at the top, in docs and in bench, and the pictures of docs.
func collect(root string) (*site, error) {
	s := &site{root: root}
	top, err := fs.Glob(os.DirFS(root), "*.md")
	if err != nil {
		return nil, err
	}
	results, err := fs.Glob(os.DirFS(root), "bench/*.md")
	if err != nil {
		return nil, err
	}
	s.documents = append(top, results...)
	err = fs.WalkDir(os.DirFS(root), "docs", func(name string, d fs.DirEntry, err error) error {
		switch path.Ext(name) {
		case ".md":
			s.documents = append(s.documents, name)
		case ".svg", ".png":
			s.pictures = append(s.pictures, name)
		}
		return err
	})
	return s, err
}

// pageOf is where a document goes.
func pageOf(name string) string { return strings.TrimSuffix(name, ".md") + ".html" }

//go:embed index.html page.html style.css
var texts embed.FS

var (
	templates = template.Must(template.ParseFS(texts, "*.html"))
	style     = func() template.CSS {
		text, err := texts.ReadFile("style.css")
		if err != nil {
			panic(err) // it is embedded, or the program is not whole
		}
		return template.CSS(text)
	}()
)

// index writes the page that leads to everything.
func index(w io.Writer) error {
	return templates.ExecuteTemplate(w, "index.html", map[string]any{"Style": style, "Chapters": learn.Chapters(),
		"Count": len(learn.All()), "First": learn.All()[0].Name, "Plan": course.Plan})
}

// has says whether the site has a file of the repository.
func (s *site) has(name string) bool {
	return slices.Contains(s.documents, name) || slices.Contains(s.pictures, name)
}
