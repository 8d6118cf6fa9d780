// Package browser drives the page of the traces in a headless Chromium, by mouse and by keys. It is
// a module of its own, so that what drives the browser is no dependency of anybody else's.
package browser

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/mr"
	"github.com/goroce/goroce/qp"
	"github.com/goroce/goroce/trace"
	"github.com/goroce/goroce/trace/learn"
	"github.com/goroce/goroce/trace/page"
	"github.com/goroce/goroce/trace/timeline"
	"github.com/goroce/goroce/trace/world"
)

var pictures = flag.Bool("pictures", false, "take the pictures of docs/pictures anew")

// hostile is what somebody could write into a capture.
const hostile = "</script><script>alert('x')</script><img src=x onerror=alert(1)>"

// traffic is all that two hosts do with each other in a short while: every operation, in all sizes.
func traffic(w *world.World) {
	a, b := w.AddHost("A"), w.AddHost("B")
	const access = mr.LocalWrite | mr.RemoteWrite | mr.RemoteRead | mr.RemoteAtomic
	from, to := a.RegMR("from", 8192, access), b.RegMR("to", 8192, access)
	ca, cb := a.CreateCQ(256), b.CreateCQ(256)
	p, q := a.CreateQP(ca, world.QPInit{}), b.CreateQP(cb, world.QPInit{})
	w.Connect(p, q)
	for i := range 48 {
		n := 64 << (i % 7)
		wr := qp.SendWR{WRID: uint64(i), Flags: qp.SendSignaled, SGL: []qp.SGE{from.SGE(0, n)}, RemoteAddr: to.Addr(0), RKey: to.RKey()}
		switch i % 4 {
		case 0:
			wr.Opcode = qp.WRWrite
		case 1:
			wr.Opcode = qp.WRSend
			_ = q.PostRecv(qp.RecvWR{WRID: uint64(i), SGL: []qp.SGE{to.SGE(0, 8192)}})
		case 2:
			wr.Opcode = qp.WRRead
		case 3:
			wr.Opcode, wr.CompareAdd, wr.SGL = qp.WRAtomicFetchAndAdd, 7, []qp.SGE{from.SGE(0, 8)}
		}
		_ = p.PostSend(wr)
		w.RunFor(20 * world.Microsecond)
		ca.Poll()
		cb.Poll()
	}
	w.Run()
}

// records are n packets of such traffic, again and again; some are lost, marked or damaged.
func records(n int) (all []trace.Record) {
	start := int64(1_700_000_000_000_000_000)
	changes := []world.Change{{Packet: 7, Action: world.Drop}, {Packet: 16, Action: world.Mark}, {Packet: 30, Action: world.Corrupt}}
	for len(all) < n {
		last := int64(0)
		for _, p := range world.Run(traffic, changes).Packets {
			last = max(last, p.Sent)
			all = append(all, trace.Record{Time: start + p.Sent, Link: trace.LinkRaw, Length: len(p.Bytes), Data: p.Bytes})
		}
		start += last + 1_000_000
	}
	return all[:n]
}

// fill adds packets to a window, the second with a comment.
func fill(w *page.Window, all []trace.Record) {
	for i, r := range all {
		p := trace.Packet{Record: r}
		if p.Number = i + 1; i == 1 {
			p.Comment = hostile
		}
		p.Decode()
		if !w.Add(&p) {
			return
		}
	}
}

// file writes a static page and returns its URL.
func file(t *testing.T, w *page.Window) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "page.html")
	out, err := os.Create(name)
	require.NoError(t, err)
	require.NoError(t, page.Write(out, w))
	require.NoError(t, out.Close())
	return "file://" + name
}

// TestPage drives the page in all its ways, in one browser.
func TestPage(t *testing.T) {
	browser := start(t)
	for _, c := range []struct {
		name string
		test func(t *testing.T, browser context.Context)
	}{
		{"a packet opens", packetOpens},
		{"keys", keys},
		{"filter", filter},
		{"slider", slider},
		{"ten thousand packets", tenThousand},
		{"served in windows", servedInWindows},
		{"the token", token},
		{"live", live},
		{"live, cut", liveCut},
		{"a lesson", lesson},
		{"a lesson, served", lessonServed},
		{"every lesson", everyLesson},
		{"light and dark", lightAndDark},
		{"phone", phone},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, browser) })
	}
}

// static opens a file of 300 packets.
func static(t *testing.T, browser context.Context) *tab {
	t.Helper()
	w := &page.Window{Title: "capture " + hostile}
	fill(w, records(300))
	x := open(t, browser, file(t, w), 1400, 900, "light")
	x.wait(`document.querySelectorAll('.packet').length > 10`)
	return x
}

// packetOpens: a click shows bytes and fields; a field marks its bytes, and a byte its fields.
func packetOpens(t *testing.T, browser context.Context) {
	x := static(t, browser)
	x.click("#packet-3 .hit")
	x.wait(`document.querySelector('#detail-title')?.textContent === 'Packet 3'`)
	x.wait(`document.querySelector('#packet-3').getAttribute('aria-selected') === 'true'`)
	x.wait(`document.querySelector('#ladder').getAttribute('aria-activedescendant') === 'packet-3'`)
	require.Greater(t, value[int](x, `document.querySelectorAll('tr.field').length`), 15)
	require.Contains(t, x.text("table.fields"), "opcode")

	x.hover("tr.field[data-field='2'] td.name")
	x.wait(`document.querySelectorAll('.b.on').length === 1`)
	x.hover(".b[data-at='13']")
	x.wait(`document.querySelectorAll('tr.field.on').length === 1`)
	require.Contains(t, x.text("tr.field.on"), "source")
	x.hover(".b[data-at='0']")
	x.wait(`document.querySelectorAll('tr.field.on').length === 2`) // version and header length

	x.click("#packet-2 .hit")
	x.wait(`document.querySelector('#detail-title')?.textContent === 'Packet 2'`)
	require.Contains(t, x.text("#detail"), hostile, "it is text")
	require.Contains(t, x.text("#title"), hostile)
	require.Zero(t, value[int](x, `document.querySelectorAll('img').length`))
}

// keys: all of it without a mouse.
func keys(t *testing.T, browser context.Context) {
	x := static(t, browser)
	selected := func(n string) {
		t.Helper()
		x.wait(`document.querySelector('.packet.selected')?.dataset.n === '` + n + `'`)
	}
	x.press("j", "j")
	selected("2")
	x.press("k")
	selected("1")
	x.press("\r")
	x.wait(`document.activeElement.dataset.field === '0'`)
	x.do(chromedp.KeyEvent(kb.ArrowDown))
	x.wait(`document.activeElement.dataset.field === '1'`)
	require.NotEqual(t, "none", value[string](x, `getComputedStyle(document.activeElement).outlineStyle`), "the focus is visible")
	x.do(chromedp.KeyEvent(kb.Escape))
	x.wait(`document.activeElement.id === 'ladder'`)
	x.do(chromedp.KeyEvent(kb.End))
	selected("300")
	x.do(chromedp.KeyEvent(kb.Home))
	selected("1")
	before := value[float64](x, `ladder.height`)
	x.press("+")
	require.Greater(t, value[float64](x, `ladder.height`), before)
	x.press("0")
	require.Equal(t, before, value[float64](x, `ladder.height`))
	x.press("?")
	x.wait(`document.querySelector('#help').open`)
	require.Contains(t, x.text("#help"), "only problems")
	x.do(chromedp.KeyEvent(kb.Escape))
	x.wait(`!document.querySelector('#help').open`)
	x.press("p")
	x.wait(`document.querySelector('#filter-wrong').checked`)
	x.wait(`/^[0-9]+ of 300 packets$/.test(document.querySelector('#shown').textContent)`)
	x.press("p", "/")
	x.wait(`document.activeElement.id === 'filter-text'`)
	x.press("p") // is text here
	x.wait(`document.querySelector('#filter-text').value.endsWith('p') && !document.querySelector('#filter-wrong').checked`)
}

// filter: by text, opcode and host.
func filter(t *testing.T, browser context.Context) {
	x := static(t, browser)
	x.click("#filter-text")
	x.press("R", "E", "A", "D")
	x.wait(`/^[0-9]+ of 300 packets$/.test(document.querySelector('#shown').textContent)`)
	x.wait(`document.querySelectorAll('.packet').length > 0 && [...document.querySelectorAll('.packet .label')].every((l) => /read/i.test(l.textContent))`)
	x.press("x", "y")
	x.wait(`document.querySelector('#drawing .empty') !== null`)
	value[int](x,
		`(() => { const t = document.querySelector('#filter-text'); t.value = ''; document.querySelector('#filter-op').value = 'RC SEND_ONLY'; t.dispatchEvent(new Event('input', { bubbles: true })); return 1; })()`)
	x.wait(`document.querySelectorAll('.packet').length > 0 && [...document.querySelectorAll('.packet .label')].every((l) => /SEND_ONLY/.test(l.textContent))`)
}

// slider: packets that have not left yet are faint.
func slider(t *testing.T, browser context.Context) {
	x := static(t, browser)
	require.Zero(t, value[int](x, `document.querySelectorAll('.packet.future').length`))
	value[int](x, `(() => { const s = document.querySelector('#slider'); s.value = 4; s.dispatchEvent(new Event('input')); return 1; })()`)
	x.wait(`document.querySelectorAll('.packet.future').length > 5 && document.querySelectorAll('.packet:not(.future)').length > 2`)
	before := value[int](x, `Number(document.querySelector('#slider').value)`)
	x.click("#step-on")
	x.wait(`Number(document.querySelector('#slider').value) === ` + strconv.Itoa(before+1))
	x.do(chromedp.KeyEvent(kb.ArrowLeft))
	x.wait(`Number(document.querySelector('#slider').value) <= ` + strconv.Itoa(before+1))
	x.click("#play")
	x.wait(`Number(document.querySelector('#slider').value) > ` + strconv.Itoa(before+2))
	x.click("#play")
	x.wait(`document.querySelector('#play').getAttribute('aria-label') === 'Play'`)
}

// tenThousand: only what is in sight is in the page.
func tenThousand(t *testing.T, browser context.Context) {
	w := &page.Window{Title: "many", Count: page.MaxCount}
	fill(w, records(page.MaxCount+1))
	x := open(t, browser, file(t, w), 1400, 900, "light")
	x.wait(`document.querySelector('#shown').textContent === '10,000 packets'`)
	x.wait(`document.querySelectorAll('.packet').length > 10`)
	require.Less(t, value[int](x, `document.querySelectorAll('.packet').length`), 100)
	x.do(chromedp.KeyEvent(kb.End))
	x.wait(`document.querySelector('.packet.selected')?.dataset.n === '10000'`)
	require.Less(t, value[int](x, `document.querySelectorAll('.packet').length`), 100)
	require.Contains(t, x.text("#pages"), "There are more")
}

// servedInWindows: the token disappears, and the windows follow each other.
func servedInWindows(t *testing.T, browser context.Context) {
	all := records(250)
	x := open(t, browser, serve(t, &page.Site{Title: hostile, Count: 100, Read: func(_ context.Context, w *page.Window) error {
		fill(w, all)
		return nil
	}}), 1400, 900, "light")
	x.wait(`document.querySelector('#shown').textContent === '100 packets'`)
	require.Empty(t, value[string](x, `location.hash`))
	x.do(chromedp.Click(`//button[text()='Later']`))
	x.wait(`document.querySelector('#packet-101') !== null`)
	x.click("#packet-102 .hit")
	x.wait(`document.querySelectorAll('tr.field').length > 15`)
	x.do(chromedp.Click(`//button[text()='Earlier']`))
	x.wait(`document.querySelector('#packet-1') !== null`)
	require.Contains(t, x.text("#title"), hostile)
	x.press("p") // of all of the capture
	x.wait(`app.play.wrong && document.querySelectorAll('.packet').length > 5`)
	require.True(t, value[bool](x, `app.play.packets.every((p) => p.wrong) && app.play.packets.some((p) => p.n > 100)`))
	x.press("p")
	x.wait(`!app.play.wrong && document.querySelector('#shown').textContent === '100 packets'`)
}

// live: packets appear as they come, and open.
func live(t *testing.T, browser context.Context) {
	l := page.NewLive("live", 0)
	x := open(t, browser, serve(t, &page.Site{Live: l}), 1400, 900, "light")
	x.wait(`document.querySelector('#drawing .empty') !== null`)
	all := records(40)
	l.Say(all[0].Time, "begins")
	for _, r := range all[:10] {
		l.Add(r)
	}
	x.wait(`document.querySelector('#shown').textContent === '10 packets'`)
	for _, r := range all[10:] {
		l.Add(r)
	}
	x.wait(`document.querySelector('#shown').textContent === '40 packets'`)
	x.wait(`document.querySelector('#packet-40') !== null`) // it follows
	x.click("#packet-40 .hit")
	x.wait(`document.querySelectorAll('tr.field').length > 15`)

	// what the devices are at
	require.True(t, value[bool](x, `document.querySelector('#ends').hidden`))
	host := value[string](x, `app.play.hosts[0].name`)
	l.Did([]timeline.Entry{{Time: all[39].Time + 9, Node: host, Record: qp.Record{
		Kind:   qp.RecordRequest,
		QPN:    9,
		Value:  77,
		Length: 5,
		Op:     uint8(qp.WRSend),
	}}})
	x.wait(`/#77 SEND 5 B/.test(document.querySelector('#ends .queue')?.textContent)`)
	require.NotContains(t, x.text("#ends"), "RQ")
	l.Did([]timeline.Entry{{Time: all[39].Time + 19, Node: host, Record: qp.Record{Kind: qp.RecordCompletion, QPN: 9, Value: 77}}})
	x.wait(`/empty/.test(document.querySelector('#ends .queue').textContent)`)
}

// lesson: a student drops a packet, sees the NAK and the retry, and undoes it.
func lesson(t *testing.T, browser context.Context) {
	teach(t, open(t, browser, file(t, nil), 1400, 900, "light"))
}

func lessonServed(t *testing.T, browser context.Context) {
	teach(t, open(t, browser, serve(t, &page.Site{}), 1400, 900, "light"))
}

func teach(t *testing.T, x *tab) {
	x.wait(`document.querySelector('#lesson h2') !== null`)
	require.NotContains(t, x.text("#lesson"), "[object")
	x.press("]")
	x.wait(`document.querySelector('#lesson h2').textContent === 'A message of several packets'`)
	require.Equal(t, "#lesson=packets", value[string](x, `location.hash`))
	count := value[int](x, `app.play.packets.length`)
	x.press("j", "j", "d")
	x.wait(`document.querySelector('#packet-2.lost .cross') !== null`)
	x.wait(`[...document.querySelectorAll('.packet.nak .label')].some((l) => /NAK/.test(l.textContent))`)
	x.wait(`app.play.packets.filter((p) => p.op === 'RC RDMA_WRITE_MIDDLE').length === 2`)
	x.wait(`document.querySelectorAll('.entry.retry').length === 1`)
	require.Contains(t, x.text(".told"), "2: drop")
	require.Contains(t, x.text(".told li.cause"), "tells A at")
	require.Contains(t, value[string](x, `document.querySelector('.told li.cause a').href`), "docs/rocev2.md#44-")
	require.NotEmpty(t, value[string](x, `document.querySelector('.told li.cause button.point').textContent`))
	require.Greater(t, value[int](x, `app.play.packets.length`), count)

	// queues and memory at the time of the slider
	require.Contains(t, x.text("#ends"), "SQ")
	x.wait(`document.querySelectorAll('#ends .hex').length >= 2`)
	value[int](x, `(() => { const s = document.querySelector('#slider'); s.value = 2; s.dispatchEvent(new Event('input')); return 1; })()`)
	x.wait(`[...document.querySelectorAll('#ends .cell')].some((c) => /RDMA_WRITE 3000 B/.test(c.textContent))`)

	x.click("#changes .chip button")
	x.wait(`app.play.packets.length === ` + strconv.Itoa(count))
	for _, action := range []string{"delay", "duplicate", "mark", "corrupt"} {
		x.click("#change-" + action)
		x.wait(`document.querySelector('#change-` + action + `').getAttribute('aria-pressed') === 'true'`)
		x.wait(`app.play.packets[1].change === '` + action + `'`)
	}
	x.press("r")
	x.wait(`app.changes.length === 0`)

	// the pointers of the text, and the question
	x.click("#lesson .point")
	x.wait(`document.querySelector('#detail-title').textContent === 'Packet 1'`)
	value[int](x, `document.querySelector('#lesson input[value="1"]').click() || 1`)
	x.wait(`document.querySelector('#lesson fieldset .verdict.good') !== null`)
}

// samePlay: the world in the page plays a lesson as the one that is here does, to the byte.
func samePlay(x *tab, name string) {
	x.Helper()
	var there struct{ Play json.RawMessage }
	require.NoError(x, json.Unmarshal([]byte(value[string](x, `globalThis.rocePlay('`+name+`', '[]')`)), &there))
	l := learn.Find(name)
	require.NotNil(x, l, "%s: go generate ./trace/page", name)
	if l.Terminal {
		return
	}
	here, err := json.Marshal(l.Play(nil))
	require.NoError(x, err)
	require.True(x, string(here) == string(there.Play), "%s: go generate ./trace/page", name)
}

// everyLesson: each can be opened, and something done to a packet.
func everyLesson(t *testing.T, browser context.Context) {
	x := open(t, browser, file(t, nil), 1400, 900, "light")
	x.wait(`world !== null && document.querySelector('#lesson h2') !== null`)
	names := value[[]string](x, `world.lessons.map((l) => l.name)`)
	require.Greater(t, len(names), 20)
	for i, name := range names {
		samePlay(x, name)
		value[any](x, `openLesson('`+name+`')`)
		x.wait(`document.querySelector('#lesson h2').textContent === app.lesson.title && app.lesson.name === '` + name + `'`)
		if i%4 == 0 && value[int](x, `app.play.packets.length`) > 0 {
			action := [...]string{"drop", "delay", "duplicate", "mark", "corrupt", "deliver"}[i/4%6]
			value[any](x, `(select(1), change('`+action+`'))`)
			x.wait(`app.changes.length === 1`)
		}
		require.NotContains(t, value[string](x, `document.body.innerText`), "[object", name)
	}
}

// contrast is that of a kind of packet, and of text, with what is behind it.
const contrast = `(() => {
  const bright = (c) => { const [r, g, b] = c.match(/[0-9.]+/g).map((x) => { const v = x / 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const back = bright(getComputedStyle(document.body).backgroundColor);
  const probe = document.createElement('i');
  document.body.append(probe);
  const all = ['text', 'soft', 'request', 'ack', 'response', 'nak', 'cm', 'cnp', 'other', 'wrong', 'accent'].map((name) => {
    probe.style.color = 'var(--' + name + ')';
    const c = bright(getComputedStyle(probe).color);
    return (Math.max(c, back) + 0.05) / (Math.min(c, back) + 0.05);
  });
  probe.remove();
  return Math.min(...all);
})()`

// lightAndDark: both can be read; WCAG asks for 4.5.
func lightAndDark(t *testing.T, browser context.Context) {
	x := static(t, browser)
	light := value[string](x, `getComputedStyle(document.body).backgroundColor`)
	require.Greater(t, value[float64](x, contrast), 4.5)
	x.scheme("dark")
	x.wait(`getComputedStyle(document.body).backgroundColor !== '` + light + `'`)
	require.Greater(t, value[float64](x, contrast), 4.5)
}

// phone: nothing is wider than the screen.
func phone(t *testing.T, browser context.Context) {
	for _, url := range []string{file(t, nil) + "#lesson=packets", func() string {
		w := &page.Window{Title: "capture"}
		fill(w, records(50))
		return file(t, w)
	}()} {
		x := open(t, browser, url, 390, 844, "light")
		x.wait(`document.querySelectorAll('.packet').length > 3`)
		require.LessOrEqual(t, value[int](x, `document.documentElement.scrollWidth`), 390)
		if value[int](x, `app.play.hosts.length`) == 2 {
			require.LessOrEqual(t, value[int](x, `document.querySelector('#drawing svg').getBoundingClientRect().right`), 390)
		}
		value[int](x, `(() => { select(2); openPacket(); return 1; })()`)
		x.wait(`document.querySelectorAll('tr.field').length > 15`)
		require.LessOrEqual(t, value[int](x, `document.documentElement.scrollWidth`), 390)
	}
}

// TestPictures takes the pictures of the documentation, with -pictures.
func TestPictures(t *testing.T) {
	if !*pictures {
		t.Skip("pictures are taken with -pictures")
	}
	browser := start(t)
	w := &page.Window{Title: "capture.pcapng"}
	fill(w, records(300))
	capture, lessons := file(t, w), file(t, nil)
	for _, c := range []struct {
		name, url, scheme string
		width, height     int64
		steps             string
	}{
		{"ladder", capture, "light", 1280, 760, `select(5); openPacket()`},
		{"packet", capture, "dark", 1280, 860,
			`select(1); openPacket().then(() => document.querySelector('tr.field[data-field="16"]').focus())`},
		{"lesson", lessons + "#lesson=write", "light", 1360, 860, `select(1); openPacket(); goTo(3)`},
		{"drop", lessons + "#lesson=packets", "dark", 1360, 860, `select(2); change('drop'); openPacket(); goTo(8)`},
		{"phone", lessons + "#lesson=packets", "light", 390, 844,
			`select(2); change('drop'); document.querySelector('#packets').scrollIntoView()`},
	} {
		x := open(t, browser, c.url, c.width, c.height, c.scheme)
		x.wait(`document.querySelectorAll('.packet').length > 0`)
		value[any](x, `(async () => { `+c.steps+`; await new Promise((ok) => setTimeout(ok, 300)); return 1; })()`)
		picture, err := chromedp.Run(x.ctx, chromedp.CaptureScreenshot())
		require.NoError(t, err)
		picture = small(t, picture)
		require.Less(t, len(picture), 150_000, c.name)
		folder := filepath.Join("..", "..", "..", "docs", "pictures")
		require.NoError(t, os.MkdirAll(folder, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(folder, c.name+".png"), picture, 0o644))
		require.False(t, strings.Contains(value[string](x, `document.body.innerText`), "[object"))
	}
}
