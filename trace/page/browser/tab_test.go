package browser

// A tab of a headless Chromium: what the tests do with it, and what must never happen in one.

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// chromium returns the path of the program, or skips the test with the reason.
// GOROCE_REQUIRE_TOOLS=1, which CI sets, turns that into a failure.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium-headless-shell", "chromium", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("GOROCE_REQUIRE_TOOLS") != "" {
		t.Fatal("chromium-headless-shell is not installed, and GOROCE_REQUIRE_TOOLS is set")
	}
	t.Skip("chromium-headless-shell is not installed (GOROCE_REQUIRE_TOOLS=1 makes this a failure)")
	return ""
}

// start starts the browser.
func start(t *testing.T) context.Context {
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium(t)))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	all, stop := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(stop)
	ctx, stop := chromedp.NewContext(all)
	t.Cleanup(stop)
	require.NoError(t, chromedp.Do(ctx))
	return ctx
}

// patience ends a test that would wait for ever.
const patience = 30 * time.Second

// tab is a page that is open.
type tab struct {
	*testing.T
	ctx context.Context

	expected string // what the browser is to complain of

	mu     sync.Mutex
	errors []string
}

// open opens a page in a tab of its own. Exceptions, errors in the console, violations of the
// policy and dialogs fail the test.
func open(t *testing.T, browser context.Context, url string, width, height int64, scheme string) *tab {
	t.Helper()
	ctx, stop := chromedp.NewContext(browser)
	x := &tab{T: t, ctx: ctx}
	require.NoError(t, chromedp.Do(ctx))
	t.Cleanup(func() {
		stop()
		x.mu.Lock()
		defer x.mu.Unlock()
		for _, e := range x.errors {
			require.True(t, x.expected != "" && strings.Contains(e, x.expected), "the browser complained: %s", e)
		}
	})
	require.NoError(t, chromedp.Listen(ctx, x.listen))
	_, err := chromedp.Call(ctx, log.Enable, cdp.Empty{})
	require.NoError(t, err)
	x.scheme(scheme)
	x.do(chromedp.EmulateViewport(width, height), chromedp.Navigate(url))
	return x
}

func (x *tab) listen(event any) {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		text := e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			text += " " + e.ExceptionDetails.Exception.Description
		}
		x.errors = append(x.errors, text)
	case *runtime.EventConsoleAPICalled:
		x.errors = append(x.errors, "the console was used: "+string(e.Type))
	case *log.EventEntryAdded:
		x.errors = append(x.errors, e.Entry.Text)
	case *page.EventJavascriptDialogOpening:
		x.errors = append(x.errors, "a dialog: "+e.Message)
	}
}

// scheme prefers "light" or "dark".
func (x *tab) scheme(name string) {
	x.Helper()
	_, err := chromedp.Call(x.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}})
	require.NoError(x, err)
}

func (x *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	x.Helper()
	ctx, stop := context.WithTimeout(x.ctx, patience)
	defer stop()
	require.NoError(x, chromedp.Do(ctx, steps...))
}

// value evaluates an expression, or awaits it.
func value[T any](x *tab, expression string) T {
	x.Helper()
	ctx, stop := context.WithTimeout(x.ctx, patience)
	defer stop()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	require.NoError(x, err, expression)
	return v
}

// wait waits, frame by frame, until an expression is true; meanwhile the page may be loaded again.
func (x *tab) wait(expression string) {
	x.Helper()
	ctx, stop := context.WithTimeout(x.ctx, patience)
	defer stop()
	look := `new Promise((ok) => { const look = () => ((` + expression + `) ? ok(true) : requestAnimationFrame(look)); look(); })`
	_, err := chromedp.Run(ctx, chromedp.Evaluate[bool](look, chromedp.EvalAwaitPromise))
	for err != nil && ctx.Err() == nil && strings.Contains(err.Error(), "navigated") {
		_, err = chromedp.Run(ctx, chromedp.Evaluate[bool](look, chromedp.EvalAwaitPromise))
	}
	if err != nil {
		x.Fatalf("never true: %s: %v\nthe browser says: %q\nthe page: %.600s",
			expression, err, x.errors, value[string](x, "document.body.innerText"))
	}
}

// press presses keys, one after the other.
func (x *tab) press(keys ...string) {
	x.Helper()
	for _, k := range keys {
		x.do(chromedp.KeyEvent(k))
	}
}

// middle is the middle of an element on the screen.
func (x *tab) middle(selector string) (float64, float64) {
	x.Helper()
	quoted, _ := json.Marshal(selector)
	at := value[[]float64](x, `(() => { const r = document.querySelector(`+string(quoted)+
		`).getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()`)
	return at[0], at[1]
}

// click clicks with the mouse in the middle of an element.
func (x *tab) click(selector string) {
	x.Helper()
	at, down := x.middle(selector)
	x.do(chromedp.MouseClickXY(at, down))
}

// hover moves the mouse there.
func (x *tab) hover(selector string) {
	x.Helper()
	at, down := x.middle(selector)
	x.do(chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, at, down))
}

// text is an element's.
func (x *tab) text(selector string) string {
	x.Helper()
	quoted, _ := json.Marshal(selector)
	return value[string](x, `document.querySelector(`+string(quoted)+`).textContent`)
}
