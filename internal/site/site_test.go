package main

import (
	"html"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/trace/learn"
)

// written is the site in a folder, and its pages by name.
func written(t *testing.T) (folder string, pages map[string]string) {
	t.Helper()
	folder, pages = t.TempDir(), map[string]string{}
	require.NoError(t, write("../..", folder))
	require.NoError(t, fs.WalkDir(os.DirFS(folder), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || path.Ext(name) != ".html" {
			return err
		}
		text, err := os.ReadFile(filepath.Join(folder, filepath.FromSlash(name)))
		pages[name] = string(text)
		return err
	}))
	return folder, pages
}

var (
	leads = regexp.MustCompile(`(?:href|src)="([^"]*)"`)
	names = regexp.MustCompile(`id="([^"]*)"`)
)

// TestLinks: every link of every page leads to a page and a place of the site, to a picture, or to
// a file of the repository.
func TestLinks(t *testing.T) {
	folder, pages := written(t)
	places := map[string]bool{}
	for name, text := range pages {
		for _, id := range names.FindAllStringSubmatch(text, -1) {
			places[name+"#"+html.UnescapeString(id[1])] = true
		}
	}
	for _, l := range learn.All() {
		places["lessons.html#lesson="+l.Name] = true
	}
	found := 0
	for name, text := range pages {
		if name == "lessons.html" || name == "slides.html" {
			continue
		}
		for _, m := range leads.FindAllStringSubmatch(text, -1) {
			found++
			link := html.UnescapeString(m[1])
			if source, ok := strings.CutPrefix(link, repository); ok {
				source, _, _ = strings.Cut(source, "#")
				_, err := os.Stat(filepath.Join("../..", source))
				require.NoError(t, err, name)
				continue
			}
			if strings.Contains(link, "://") {
				continue
			}
			file, place, anchored := strings.Cut(link, "#")
			at := name
			if file != "" {
				at = path.Join(path.Dir(name), file)
			}
			require.FileExists(t, filepath.Join(folder, at), "%s: %s", name, link)
			if anchored && strings.HasSuffix(at, ".html") {
				require.True(t, places[at+"#"+place], "%s: %s", name, link)
			}
		}
	}
	require.Greater(t, found, 700)
}

// TestIndex: it leads to each lesson, and to the course.
func TestIndex(t *testing.T) {
	_, pages := written(t)
	for _, l := range learn.All() {
		require.Contains(t, pages["index.html"], `href="lessons.html#lesson=`+l.Name+`"`)
	}
	for _, name := range []string{"slides.html", "docs/course/README.html", "docs/README.html"} {
		require.Contains(t, pages["index.html"], `href="`+name+`"`)
		require.Contains(t, pages, name)
	}
}

// TestAnchors: headings are called as GitHub calls them.
func TestAnchors(t *testing.T) {
	for heading, want := range map[string]string{
		"6. From PostSend to the wire, and back": "6-from-postsend-to-the-wire-and-back",
		"`udp` and [packet](x.md#y)":             "udp-and-packet",
		"A_B - c":                                "a_b---c",
	} {
		require.Equal(t, want, anchor(heading))
	}
}
