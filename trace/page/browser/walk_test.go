package browser

// The guided visit of a lesson: its steps, what is in sight, labels, terms, what is kept.

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

// TestVisit drives the lessons as a first visitor does.
func TestVisit(t *testing.T) {
	browser := start(t)
	for _, c := range []struct {
		name string
		test func(t *testing.T, browser context.Context)
	}{
		{"opens at the beginning", opensAtTheBeginning},
		{"a walk by keys", walkByKeys},
		{"every lesson", everyVisit},
		{"terms", terms},
		{"progress", progress},
		{"inside the NIC", insideTheNIC},
		{"a recording", recording},
		{"answered by keys", answeredByKeys},
		{"one small file", oneSmallFile},
		{"axe", axe},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, browser) })
	}
}

// visit opens the lessons' page; lesson "" is the first.
func visit(t *testing.T, browser context.Context, lesson string, width, height int64) *tab {
	t.Helper()
	url := file(t, nil)
	if lesson != "" {
		url += "#lesson=" + lesson
	}
	x := open(t, browser, url, width, height, "light")
	x.wait(`world !== null && app.lesson !== null && document.querySelector('#lesson h2') !== null`)
	return x
}

// opensAtTheBeginning: at step 0 nothing has happened, nothing is marked as changed, and the queues
// and memory of A and B are beside each other and in sight.
func opensAtTheBeginning(t *testing.T, browser context.Context) {
	x := visit(t, browser, "", 1280, 800)
	require.Zero(t, value[int](x, `app.step`))
	require.True(t, value[bool](x, `app.now === app.stops[0]`))
	require.Zero(t, value[int](x, `document.querySelectorAll('#ends .new').length`))
	x.wait(`document.querySelectorAll('.packet.future').length === 2`)
	at := value[[][]float64](x, `[...document.querySelectorAll('.end')].map((e) => { const r = e.getBoundingClientRect(); return [r.left, r.top, r.right, r.bottom]; })`)
	require.Len(t, at, 2)
	require.Equal(t, at[0][1], at[1][1], "beside each other")
	require.Less(t, at[0][2], at[1][0])
	for _, host := range at {
		require.LessOrEqual(t, host[3], 800.0, "in sight")
		require.LessOrEqual(t, host[2], 1280.0)
	}
	require.Contains(t, x.text(".region .name"), "8,192 bytes")
}

// walkByKeys: → goes through all steps to free play, ← back; each change of memory is seen.
func walkByKeys(t *testing.T, browser context.Context) {
	x := visit(t, browser, "write", 1280, 800)
	steps := value[int](x, `app.lesson.steps.length`)
	changed := 0
	for i := range steps {
		x.wait(fmt.Sprintf(`app.step === %d && app.now === app.lesson.steps[%d].time`, i, i))
		require.Equal(t, fmt.Sprintf("%d of %d", i+1, steps), x.text(".walk .steps .remark"))
		require.True(t, value[bool](x, `document.querySelector('#changes').hidden`))
		changed += value[int](x, `document.querySelectorAll('.end:nth-child(2) .new').length`)
		x.do(chromedp.KeyEvent(kb.ArrowRight))
	}
	require.Positive(t, changed, "B's memory has changed before the reader's eyes")
	x.wait(`app.step === -1 && app.now === app.end && !document.querySelector('#changes').hidden`)
	x.press("f")
	x.wait(`app.step === 0 && app.now === app.stops[0]`)
	x.do(chromedp.KeyEvent(kb.ArrowRight))
	x.wait(`app.step === 1`)
	x.do(chromedp.KeyEvent(kb.ArrowLeft))
	x.wait(`app.step === 0`)
	// a change ends the walk
	x.press("j", "d")
	x.wait(`app.step === -1 && app.play.packets[0].fate === 'lost'`)
	x.press("f")
	x.wait(`app.step === 0 && app.changes.length === 0`)
}

// badSteps are what is wrong with the steps of a lesson: each has text, its packets have left by
// then, and its terms have a meaning.
const badSteps = `(() => {
  const bad = [];
  app.lesson.steps.forEach((s, i) => {
    walkTo(i);
    arrive(s.time);
    if (document.querySelector('#said').textContent.length < 10) bad.push('step ' + i + ' says nothing');
    for (const n of s.packets || []) if (app.play.packets[n - 1].sent > s.time) bad.push('packet ' + n + ' is told before it leaves');
    for (const n of s.terms || []) if (!meaning(n)) bad.push(n + ' has no meaning');
  });
  return bad;
})()`

// badLabels are texts of the ladder that are cut or out of it, labels that are above each other,
// and lost packets whose arrow or label is above another's label.
const badLabels = `(() => {
  const box = document.querySelector('#ladder');
  box.scrollTop = 0;
  Object.defineProperty(box, 'clientHeight', { value: 1e6, configurable: true }); // all rows are drawn
  drawLadder();
  delete box.clientHeight;
  const bad = [];
  const svg = document.querySelector('#drawing svg');
  if (!svg) return bad;
  if (svg.querySelectorAll('.packet').length !== ladder.rows.arrows.length) bad.push('not all packets are drawn');
  const rect = (e) => e.getBoundingClientRect();
  const over = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 2 && b.top < a.bottom - 2;
  const all = rect(svg);
  for (const t of svg.querySelectorAll('text')) {
    if (t.textContent.includes('…')) bad.push('cut: ' + t.textContent);
    if (rect(t).left < all.left - 1 || rect(t).right > all.right + 1) bad.push('out of the drawing: ' + t.textContent);
  }
  const labels = [...svg.querySelectorAll('.packet .label, .packet .why, .entry text')];
  const owner = (e) => e.closest('.packet, .entry');
  const boxes = labels.map(rect);
  labels.forEach((a, i) => labels.forEach((b, k) => {
    if (k > i && owner(a) !== owner(b) && over(boxes[i], boxes[k])) bad.push(a.textContent + ' is above ' + b.textContent);
  }));
  const parts = '.packet.lost .shaft, .packet.lost .cross, .packet .badge rect';
  for (const part of svg.querySelectorAll(parts)) {
    labels.forEach((b, k) => {
      if (owner(b) !== owner(part) && over(rect(part), boxes[k])) bad.push(owner(part).id + ' covers ' + b.textContent);
    });
  }
  for (const head of document.querySelectorAll('#heads div')) if (head.scrollWidth > head.clientWidth + 1) bad.push('cut: ' + head.textContent);
  return bad.slice(0, 5);
})()`

// everyVisit walks through each lesson, and holds that all labels can be read, on a screen and on a
// phone; and with its second packet lost, late or twice.
func everyVisit(t *testing.T, browser context.Context) {
	x := visit(t, browser, "", 1280, 800)
	readable := func(what string, widths ...int64) {
		t.Helper()
		for _, width := range widths {
			x.do(chromedp.EmulateViewport(width, 800))
			x.wait(fmt.Sprintf(`innerWidth === %d`, width))
			require.Empty(t, value[[]string](x, badLabels), "%s, %d wide", what, width)
			require.LessOrEqual(t, value[int64](x, `document.documentElement.scrollWidth`), width, what)
		}
	}
	for i, name := range value[[]string](x, `world.lessons.map((l) => l.name)`) {
		value[any](x, `openLesson('`+name+`')`)
		x.wait(`app.lesson.name === '` + name + `'`)
		require.Empty(t, value[[]string](x, badSteps), name)
		value[any](x, `freePlay()`)
		readable(name, 1280, 390)
		if n := min(2, value[int](x, `app.lesson.terminal ? 0 : app.play.packets.length`)); n > 0 {
			action := []string{"drop", "delay", "drop", "duplicate"}[i%4]
			value[any](x, fmt.Sprintf(`(app.changes = [{ packet: %d, action: '%s' }], replay(), 1)`, n, action))
			readable(fmt.Sprintf("%s, %s %d", name, action, n), 390, 1280)
		}
	}
}

// terms: a new one is explained below the step, and where it is pointed at; the glossary has all.
func terms(t *testing.T, browser context.Context) {
	x := visit(t, browser, "write", 1280, 800)
	x.wait(`document.querySelectorAll('.terms dt').length > 0`)
	require.LessOrEqual(t, value[int](x, `Math.max(...app.lesson.steps.map((s) => (s.terms || []).length))`), 3)
	x.hover(".said .term")
	x.wait(`!document.querySelector('#tip').hidden`)
	name := x.text(".said .term")
	require.Contains(t, x.text("#tip"), strings.TrimSuffix(name, "s"))
	value[any](x, `document.querySelector('.said .term').focus()`)
	x.wait(`document.activeElement.getAttribute('aria-describedby') === 'tip'`)
	x.press("g")
	x.wait(`document.querySelector('#help').open && document.querySelectorAll('.glossary dt').length > 40`)
	x.do(chromedp.KeyEvent(kb.Escape))
	x.wait(`!document.querySelector('#help').open`)
}

// progress: steps and answers are kept over a reload, and can be taken out as a file.
func progress(t *testing.T, browser context.Context) {
	url := file(t, nil)
	x := open(t, browser, url+"#lesson=send", 1280, 800, "light")
	x.wait(`app.lesson?.name === 'send'`)
	value[any](x, `document.querySelector('#open-progress').click()`)
	x.click("#progress-forget") // what other pages from disk have left
	x.do(chromedp.KeyEvent(kb.Escape))
	x.do(chromedp.KeyEvent(kb.ArrowRight))
	x.press("f")
	value[any](x, `document.querySelector('#answer-2').click()`)
	value[any](x, `document.querySelector('#answer-0').click()`)
	x.do(chromedp.Reload())
	x.wait(`app.lesson?.name === 'send' && document.querySelector('.mark.good') !== null`)
	value[any](x, `(openProgress(), document.querySelector('#progress-name').value = 'Ada L.', document.querySelector('#progress-name').dispatchEvent(new Event('input')))`)
	var kept struct {
		Kind, Name string
		Lessons    []struct {
			Lesson             string
			Steps, Of          int
			Right, RightAtOnce bool
			Answers            []struct {
				Answer int
				Right  bool
			}
		}
	}
	require.NoError(t, json.Unmarshal([]byte(value[string](x, `JSON.stringify(progressFile())`)), &kept))
	require.Equal(t, "goroce progress", kept.Kind)
	require.Equal(t, "Ada L.", kept.Name)
	require.Len(t, kept.Lessons, 1)
	require.Equal(t, "send", kept.Lessons[0].Lesson)
	require.Equal(t, 2, kept.Lessons[0].Steps)
	require.True(t, kept.Lessons[0].Right)
	require.False(t, kept.Lessons[0].RightAtOnce)
	require.Len(t, kept.Lessons[0].Answers, 2)
	x.click("#progress-save") // the browser's policy lets it
	x.click("#progress-forget")
	x.wait(`document.querySelector('.mark.good') === null`)
}

// insideTheNIC: six stages in their order, and more than the first at the end.
func insideTheNIC(t *testing.T, browser context.Context) {
	for _, name := range []string{"write", "send", "read"} {
		x := visit(t, browser, name, 1280, 800)
		x.press("i")
		x.wait(`document.querySelector('#inside').open`)
		steps := value[[]string](x, `[...document.querySelectorAll('.lane .stage')].map((s) => s.textContent).filter((s) => s[0] === 'R')`)
		require.Equal(t, []string{"R1", "R2", "R3", "R4", "R5", "R6"}, steps)
		require.True(t, value[bool](x, `app.lesson.inside.every((s, i, all) => s.time > 0 && (i === 0 || s.time >= all[i - 1].time))`))
		require.Positive(t, value[int](x, `document.querySelectorAll('.lane .future').length`))
		value[any](x, `freePlay()`)
		x.wait(`document.querySelectorAll('.lane .future').length === 0`)
	}
}

// recording: the lesson that a browser cannot play is shown all the same.
func recording(t *testing.T, browser context.Context) {
	x := visit(t, browser, "unmapped", 1280, 800)
	x.wait(`document.querySelectorAll('.packet').length === 4`)
	require.Contains(t, x.text("#lesson"), "recording")
	value[any](x, `freePlay()`)
	require.True(t, value[bool](x, `document.querySelector('#changes').hidden`))
}

// answeredByKeys: with an answer focused the keys of the page still work.
func answeredByKeys(t *testing.T, browser context.Context) {
	x := visit(t, browser, "write", 1280, 800)
	x.press("f")
	value[any](x, `(document.querySelector('#answer-0').focus(), document.querySelector('#answer-0').click())`)
	x.do(chromedp.KeyEvent(kb.ArrowDown))
	x.wait(`app.answered === 1`)
	x.press("]")
	x.wait(`app.lesson.name === 'packets'`)
}

// oneSmallFile: the page is one file, and its first picture is there soon: how soon is said, not
// asked for.
func oneSmallFile(t *testing.T, browser context.Context) {
	url := file(t, nil)
	info, err := os.Stat(strings.TrimPrefix(url, "file://"))
	require.NoError(t, err)
	require.Less(t, info.Size(), int64(6_000_000))
	x := open(t, browser, url, 1280, 800, "light")
	x.wait(`performance.getEntriesByName('first-contentful-paint').length > 0 && document.querySelector('#lesson h2') !== null`)
	t.Logf("%d bytes, first contentful paint after %.0f ms, the lesson after %.0f ms", info.Size(),
		value[float64](x, `performance.getEntriesByName('first-contentful-paint')[0].startTime`), value[float64](x, `app.shown`))
}

// axe: no rule of axe-core is broken, where GOROCE_AXE names its axe.min.js.
func axe(t *testing.T, browser context.Context) {
	name := os.Getenv("GOROCE_AXE")
	if name == "" {
		t.Skip("GOROCE_AXE names no axe.min.js (npm: axe-core; Debian: node-axe-core)")
	}
	program, err := os.ReadFile(name)
	require.NoError(t, err)
	for _, c := range []struct {
		scheme        string
		width, height int64
	}{{"light", 1280, 800}, {"dark", 1280, 800}, {"light", 390, 844}} {
		x := open(t, browser, file(t, nil), c.width, c.height, c.scheme)
		x.wait(`document.querySelector('#lesson h2') !== null`)
		value[any](x, string(program)+`; 1`)
		for _, state := range []string{`1`, `(walkTo(4), arrive(app.lesson.steps[4].time))`, `(freePlay(), select(1), openPacket())`, `(change('drop'), 1)`,
			`(document.querySelector('#answer-0').click(), 1)`, `(openGlossary('lkey'), 1)`, `(openProgress(), 1)`, `(byId('help').close(), openLesson('selective-repeat'))`,
			`(openLesson('send').then(() => byId('inside').querySelector('summary').click()))`} {
			value[any](x, state)
			broken := value[[]string](x, `axe.run(document).then((r) => r.violations.map((v) => v.id + ': ' + v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160) + ' ' + n.failureSummary).join(' | ')))`)
			require.Empty(t, broken, "%s, %d: %s", c.scheme, c.width, state)
		}
	}
}
