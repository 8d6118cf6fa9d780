package browser

// What the page shows of a whole capture: the verdict, graphs, and what a filter leaves.

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"os"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/trace"
	"github.com/goroce/goroce/trace/page"
	"github.com/goroce/goroce/trace/timeline"
)

var shots = flag.String("shots", "", "write pictures of the verdict and the graphs to this folder; docs/pictures has the first")

// TestAnalyst drives what is about a whole capture.
func TestAnalyst(t *testing.T) {
	browser := start(t)
	for _, c := range []struct {
		name string
		test func(t *testing.T, browser context.Context)
	}{
		{"in one file", analystStatic},
		{"served", analystServed},
		{"graphs", graphKeys},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, browser) })
	}
}

const capture = "../../../testdata/captures/retries.pcapng"

// read calls f with each packet of the capture until it returns false, and told with each record.
func read(t *testing.T, f func(p *trace.Packet) bool, told func(x *timeline.Entry)) {
	t.Helper()
	data, err := os.ReadFile(capture)
	require.NoError(t, err)
	src, err := trace.NewSource(bytes.NewReader(data))
	require.NoError(t, err)
	src.EachNotes(func(text []byte) {
		for line := range bytes.Lines(text) {
			if x, err := timeline.ParseEntry(line); err == nil {
				told(&x)
			}
		}
	})
	for {
		p, err := src.Next()
		if errors.Is(err, io.EOF) || err == nil && !f(p) {
			return
		}
		require.NoError(t, err)
	}
}

func study(t *testing.T, s *page.Study) {
	read(t, func(p *trace.Packet) bool {
		s.Add(p)
		return true
	}, s.Told)
}

// shot takes a picture, if pictures are wanted.
func (x *tab) shot(name string) {
	if *shots == "" {
		return
	}
	picture, err := chromedp.Run(x.ctx, chromedp.CaptureScreenshot())
	require.NoError(x, err)
	require.NoError(x, os.WriteFile(*shots+"/"+name+".png", small(x.T, picture), 0o600))
}

// filter types an expression in place of what is there.
func (x *tab) filter(expression string) {
	x.Helper()
	value[bool](x, `(byId('expression-text').value = '', byId('expression-text').focus(), true)`)
	x.do(chromedp.SendKeys("#expression-text", expression+kb.Enter))
}

const (
	selectedIs = `document.querySelector('.packet.selected')?.dataset.n === `
	shownIs    = `document.querySelector('#shown').textContent === `
)

// analystStatic: findings lead to their packets, n and N to problems, an expression leaves packets.
func analystStatic(t *testing.T, browser context.Context) {
	w := &page.Window{Title: "retries", Study: page.NewStudy()}
	study(t, w.Study)
	read(t, w.Add, w.Told)
	x := open(t, browser, file(t, w), 1280, 800, "light")
	x.wait(`document.querySelectorAll('.findings > li').length > 5`)
	require.Contains(t, x.text("#verdict"), "signs of loss")
	require.Contains(t, x.text("#verdict"), "Seen: ")
	require.Contains(t, x.text("#verdict"), "As its device has recorded")
	x.wait(`document.querySelectorAll('.entry.request').length > 3`)
	first := value[string](x, `String(study.verdict.problems[0])`)
	x.press("n")
	x.wait(selectedIs + `'` + first + `'`)
	x.wait(`document.querySelector('#detail-title')?.textContent === 'Packet ` + first + `'`)
	x.shot("verdict")
	x.press("n", "N")
	x.wait(selectedIs + `'` + first + `'`)
	x.press("N")
	x.wait(shownIs + `'No problem before this packet.'`)
	value[bool](x, `(document.querySelectorAll('.findings .reason button')[0].click(), true)`)
	x.wait(selectedIs + `document.querySelectorAll('.findings .reason button')[0].textContent`)

	x.press("f")
	x.wait(`document.activeElement.id === 'expression-text'`)
	x.filter("infiniband.aeth.syndrome == 0x60")
	x.wait(shownIs + `'3 of 475 packets'`)
	x.filter("infiniband.bth.psnn == 1")
	x.wait(`/infiniband.bth.psn is one/.test(document.querySelector('#expression-wrong').textContent)`)
	x.filter("frame.time_relative < 0.02 && roce.icrc == right")
	x.wait(`/^[0-9]+ of 475 packets$/.test(document.querySelector('#shown').textContent) && !(` + shownIs + `'3 of 475 packets')`)
}

// analystServed: the same of a capture in windows; what is not in the window is asked for.
func analystServed(t *testing.T, browser context.Context) {
	x := open(t, browser, serve(t, &page.Site{
		Count: 50,
		Read: func(_ context.Context, w *page.Window) error {
			read(t, w.Add, w.Told)
			return nil
		},
		Study: func(_ context.Context, s *page.Study) error {
			study(t, s)
			return nil
		},
	}), 1280, 800, "dark")
	x.expected = "400"
	x.wait(`document.querySelectorAll('.findings > li').length > 5`)
	x.press("n")
	x.wait(selectedIs + `String(study.verdict.problems[0])`)
	require.Greater(t, value[int](x, `app.play.from`), 1)
	x.shot("served")
	x.filter("infiniband.aeth.syndrome == 0x60")
	x.wait(shownIs + `'3 packets'`)
	x.filter("ip.src == x")
	x.wait(`/"x" is no address/.test(document.querySelector('#expression-wrong').textContent)`)
	x.wait(shownIs + `'3 packets'`)
}

// graphKeys: each graph has its cursor, its words and its table, and leads to packets.
func graphKeys(t *testing.T, browser context.Context) {
	w := &page.Window{Title: "retries", Study: page.NewStudy()}
	study(t, w.Study)
	read(t, w.Add, w.Told)
	x := open(t, browser, file(t, w), 1280, 800, "light")
	x.wait(`document.querySelectorAll('#graph path.mark').length > 5`)
	for _, graph := range []string{"rate", "took", "psn"} {
		x.click("#graph-" + graph)
		x.wait(`document.querySelector('#graph-` + graph + `').getAttribute('aria-pressed') === 'true'`)
		x.wait(`document.querySelectorAll('#graph svg .` + map[string]string{"rate": "rate", "took": "took", "psn": "acked"}[graph] + `').length > 0`)
		x.shot("graph-" + graph)
	}
	x.do(chromedp.Focus("#graph-cursor"))
	before := value[string](x, `document.querySelector('#graph-cursor').getAttribute('aria-valuetext')`)
	require.Contains(t, before, "packets; PSN")
	x.do(chromedp.KeyEvent(kb.ArrowRight))
	x.wait(`document.querySelector('#graph-cursor').getAttribute('aria-valuenow') === '1'`)
	require.NotEqual(t, before, value[string](x, `document.querySelector('#graph-cursor').getAttribute('aria-valuetext')`))
	x.do(chromedp.KeyEvent(kb.End), chromedp.KeyEvent(kb.Enter))
	x.wait(`app.selected > 0 && Boolean(document.querySelector('.packet.selected'))`)
	x.click("#graph-table")
	x.wait(`document.querySelectorAll('#graph table tbody tr').length > 5`)
	require.Contains(t, x.text("#graph"), "sent again")
	x.do(chromedp.Focus("#ladder"))
	x.press("g")
	x.wait(`!document.querySelector('#graph')`)
	x.press("g")
	x.wait(`Boolean(document.querySelector('#graph'))`)
}
