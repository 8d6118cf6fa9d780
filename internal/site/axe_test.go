package main

import (
	"context"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var axe = flag.String("axe", os.Getenv("GOROCE_AXE"), "axe.min.js of the npm package axe-core: no page may break a rule of it")

// TestAccessible: axe finds nothing wrong with the pages, wide and on a phone.
func TestAccessible(t *testing.T) {
	if *axe == "" {
		t.Skip("-axe names no axe.min.js (npm pack axe-core)")
	}
	rules, err := os.ReadFile(*axe)
	require.NoError(t, err)
	folder, _ := written(t)
	server := httptest.NewServer(http.FileServer(http.Dir(folder)))
	defer server.Close()
	all, stop := chromedp.NewExecAllocator(context.Background(), append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(chromium(t)), chromedp.NoSandbox)...)
	defer stop()
	ctx, stop := chromedp.NewContext(all)
	defer stop()
	require.NoError(t, chromedp.Do(ctx))
	for _, width := range []int64{1280, 390} {
		for _, name := range []string{"index.html", "docs/README.html", "docs/course/README.html", "docs/course/answers.html",
			"docs/learn/01-operations.html", "docs/verbs.html", "slides.html", "slides.html#3", "slides.html#4",
			"lessons.html", "lessons.html#lesson=table-full"} {
			assert.Empty(t, broken(t, ctx, server.URL+"/"+name, string(rules), width), "%s at %d", name, width)
		}
	}
}

// patience ends a test of a page that does not begin.
const patience = time.Minute

// broken are the rules that a page breaks, and where.
func broken(t *testing.T, ctx context.Context, url, rules string, width int64) (found []string) {
	t.Helper()
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	require.NoError(t, chromedp.Do(ctx, chromedp.EmulateViewport(width, 800), chromedp.Navigate("about:blank"), chromedp.Navigate(url)))
	// until the world has begun
	_, err := chromedp.Run(ctx, chromedp.Evaluate[int](`(async () => { while (!document.querySelector('h1').textContent)
		await new Promise((ok) => setTimeout(ok, 20)); return 0; })()`, chromedp.EvalAwaitPromise))
	require.NoError(t, err)
	_, err = chromedp.Run(ctx, chromedp.Evaluate[int](rules+"; 0"))
	require.NoError(t, err)
	found, err = chromedp.Run(ctx, chromedp.Evaluate[[]string](`axe.run().then((r) => r.violations.map(
		(v) => v.id + ': ' + v.nodes.slice(0, 3).map((n) => n.html.slice(0, 200)).join(' | ')))`, chromedp.EvalAwaitPromise))
	require.NoError(t, err)
	return found
}

// chromium is the browser's program.
func chromium(t *testing.T) string {
	for _, name := range []string{"chromium-headless-shell", "chromium", "google-chrome"} {
		if program, err := exec.LookPath(name); err == nil {
			return program
		}
	}
	t.Skip("chromium-headless-shell is missing")
	return ""
}
