'use strict';
// The page as a whole: what is shown, the filter, the selection, keys.

const app = {
  mode: '', // file, live or lessons
  play: { hosts: [], packets: [] },
  stops: [], // times, see clock.js
  now: 0,
  end: 0,
  playing: 0, // the timer, 0 while nothing plays
  selected: 0, // the number of a packet, 0: none
  filter: { host: '', qp: '', op: '', text: '', wrong: false, setup: false },
  lesson: null,
  changes: [],
  told: [], // what the changes have made of it, see told.js
  untrue: [], // sentences of the lesson
  answered: null, // which answer was given
  unfollow: null, // stops the live view
  failed: '', // what went wrong, in place of the packets
};

/** draw draws the ladder soon, once. */
let drawing = 0;
function draw() {
  if (drawing) return;
  drawing = requestAnimationFrame(() => {
    drawing = 0;
    drawLadder();
    drawOverview();
  });
}

/** say tells of something that has happened; screen readers say it too. */
function say(text) {
  byId('shown').textContent = text;
}

/** showPlay takes a play; keep leaves selection and filter as they are. */
function showPlay(play, { title, keep } = {}) {
  app.play = play;
  app.failed = '';
  ladder.hosts = play.hosts;
  if (!keep) {
    app.selected = 0;
    app.filter = { host: '', qp: '', op: '', text: '', wrong: false, setup: byId('filter-setup').checked };
    const setup = byId('filter-setup').checked;
    byId('filter').reset();
    byId('filter-setup').checked = setup;
    byId('ladder').scrollTop = 0;
    ladder.height = usualHeight();
    pause();
  }
  byId('title').textContent = title || play.title || '';
  document.title = title || play.title || 'RoCE';
  offerFilters();
  setClock(keep);
  refilter();
  showEnds();
  showPages();
  if (!keep || !app.selected) showPacket(null);
  else openPacket();
}

/** refilter arranges the rows anew. */
function refilter() {
  ladder.rows = arrange(app.play, app.filter);
  const n = ladder.rows.arrows.length;
  const all = ladder.rows.total;
  say(n === all ? plural(n, 'packet') : `${n.toLocaleString('en')} of ${plural(all, 'packet')}`);
  showChanges();
  draw();
}

/** offerFilters fills the lists with what occurs. */
function offerFilters() {
  const options = (id, first, values) => {
    const list = byId(id);
    const before = list.value;
    refill(list, el('option', { value: '' }, first), values.map(([value, text]) => el('option', { value }, text)));
    list.value = values.some(([value]) => String(value) === before) ? before : '';
  };
  const some = (name) => [...new Set(app.play.packets.map((p) => p[name]))].filter((x) => x !== '' && x !== undefined);
  options('filter-host', 'all', app.play.hosts.map((h, i) => [i, h.name]));
  options('filter-qp', 'all', some('qpn').sort((a, b) => a - b).slice(0, 500).map((q) => [q, '0x' + hex(q, 6)]));
  options('filter-op', 'all', some('op').sort().map((o) => [o, o]));
}

function readFilter(e) {
  if (e && e.target.id === 'filter-wrong' && app.mode === 'file' && !given.static && (app.play.more || app.play.from > 1 || app.play.wrong || app.play.chosen)) {
    attempt(() => openFile(1)); // there is more of the capture than this window
    return;
  }
  app.filter = { host: byId('filter-host').value, qp: byId('filter-qp').value, op: byId('filter-op').value, text: byId('filter-text').value.trim(), wrong: byId('filter-wrong').checked, setup: byId('filter-setup').checked };
  refilter();
}

/** select selects a packet by its number and scrolls it into sight. */
function select(n) {
  app.selected = n;
  const arrow = ladder.rows.arrows.find((a) => a.packet.n === n);
  if (arrow) reveal(arrow.row);
  showChanges();
  draw();
}

/** openPacket shows the selected packet's bytes and fields. */
async function openPacket(focus) {
  const p = app.play.packets.find((x) => x.n === app.selected);
  if (!p) {
    showPacket(null);
    return;
  }
  const source = app.mode === 'live' ? liveSource : fileSource;
  try {
    const whole = app.lesson ? p : await source.detail(p);
    if (app.selected !== p.n) return;
    showPacket(whole);
  } catch (e) {
    showPacket({ ...p, wrong: String(e.message || e) });
  }
  if (focus) {
    byId('detail').querySelector('tr.field')?.focus();
    byId('detail').scrollIntoView({ block: 'nearest' });
  }
}

/** walk selects another packet, some rows from the selected one. */
function walk(by) {
  const arrows = ladder.rows.arrows;
  if (!arrows.length) return;
  const at = arrows.findIndex((a) => a.packet.n === app.selected);
  const from = at < 0 ? (by > 0 ? -1 : arrows.length) : at;
  const next = Math.min(Math.max(from + by, 0), arrows.length - 1);
  select(arrows[next].packet.n);
  openPacket();
}

function zoom(factor) {
  const box = byId('ladder');
  const middle = (box.scrollTop + box.clientHeight / 2) / ladder.height;
  ladder.height = Math.min(64, Math.max(2, ladder.height * factor));
  byId('extent').style.height = ladder.rows.times.length * ladder.height + 30 + 'px';
  box.scrollTop = middle * ladder.height - box.clientHeight / 2;
  draw();
}

/** showPages are the windows of a capture that has more packets than a page. */
function showPages() {
  const bar = byId('pages');
  const { from, more, damage } = app.play;
  const list = app.play.packets;
  bar.hidden = app.mode !== 'file' || !(more || damage || from > 1 || app.play.wrong || app.play.chosen);
  if (bar.hidden) return;
  const last = list.length ? list[list.length - 1].n : 0;
  const first = list.length ? list[0].n : from || 1;
  refill(bar,
    el('span', {}, list.length ? `${app.play.wrong ? 'Problems in packets' : app.play.chosen ? 'What the expression leaves of packets' : 'Packets'} ${first.toLocaleString('en')} to ${last.toLocaleString('en')} of the capture.` : 'No packets here.'),
    damage ? el('span', { class: 'wrongtext' }, damage) : '',
    more && given.static ? el('span', { class: 'remark' }, 'There are more: this file has a limit (--from, --rows, 6 MB).') : '',
    given.static ? '' : [
      el('button', { type: 'button', disabled: !(from > 1), click: () => openFile(Math.max(1, first - given.count)) }, 'Earlier'),
      el('button', { type: 'button', disabled: !more, click: () => openFile(last + 1) }, 'Later'),
      el('label', {}, 'from packet ', el('input', { type: 'number', min: 1, value: first, change: (e) => openFile(Math.max(1, Math.floor(Number(e.target.value)) || 1)) }))]);
}

/** openFile shows a window of the capture; if only problems are wanted, those of all of it. */
async function openFile(from) {
  enter('file');
  say('Reading …');
  const wrong = !given.static && byId('filter-wrong').checked;
  showPlay(await fileSource.play(from, wrong, wantedExpression()));
  byId('filter-wrong').checked = app.filter.wrong = wrong;
  refilter();
  attempt(loadVerdict);
}

async function openLive() {
  enter('live');
  app.unfollow?.();
  showPlay(await liveSource.play(), { title: 'A running demonstration' });
  const newest = () => app.play.packets.at(-1)?.n || 0;
  app.unfollow = liveSource.follow(newest, (more) => {
    const following = app.now >= app.end;
    app.play.hosts = more.hosts;
    app.play.entries = more.entries || [];
    app.play.moments = more.moments;
    ladder.hosts = more.hosts;
    const last = newest();
    app.play.packets.push(...(more.packets || []).filter((p) => p.n > last));
    app.play.packets.splice(0, Math.max(0, app.play.packets.length - given.count));
    offerFilters();
    setClock(true);
    showEnds();
    refilter();
    if (following) {
      drawLadder();
      byId('ladder').scrollTop = byId('ladder').scrollHeight;
    }
  });
}

/** enter changes what is shown. */
function enter(mode) {
  app.mode = mode;
  showStudied();
  if (mode !== 'live') {
    app.unfollow?.();
    app.unfollow = null;
  }
  if (mode !== 'lessons') {
    app.lesson = null;
    app.changes = [];
    showLesson();
    if (location.hash) history.replaceState(null, '', location.pathname + location.search);
  }
  const modes = [['file', 'Capture', given.file, () => openFile()], ['live', 'Live', given.live, openLive], ['lessons', 'Lessons', true, () => openLessons()]].filter((m) => m[2]);
    byId('modes').replaceChildren(...modes.map(([id, text, , open]) => el('button', { type: 'button', 'aria-pressed': id === mode ? 'true' : 'false', click: () => attempt(open) }, text)));
}

async function openLessons(name) {
  enter('lessons');
  say('Starting the world …');
  await openLesson(name);
}

/** attempt shows what goes wrong, until something else is shown. */
async function attempt(f) {
  try {
    await f();
  } catch (e) {
    say('');
    app.failed = 'This did not work: ' + (e.message || e);
    draw();
  }
}

const KEYS = [
  ['↓ ↑ or j k', 'next, previous packet', { ArrowDown: () => walk(1), ArrowUp: () => walk(-1), j: () => walk(1), k: () => walk(-1), PageDown: () => walk(15), PageUp: () => walk(-15), Home: () => walk(-1e9), End: () => walk(1e9) }],
  ['Enter', 'the packet’s fields (↑ ↓ there go from field to field)', { Enter: () => openPacket(true) }],
  ['Esc', 'back to the ladder', { Escape: () => byId('ladder').focus() }],
  ['→ ←', 'one step on, one step back in time', { ArrowRight: () => step(1), ArrowLeft: () => step(-1) }],
  ['Space', 'play, pause', { ' ': () => togglePlay() }],
  ['+ − 0', 'zoom in, out, as it was', { '+': () => zoom(1.25), '=': () => zoom(1.25), '-': () => zoom(0.8), 0: () => zoom(usualHeight() / ladder.height) }],
  ['/', 'filter by text', { '/': () => byId('filter-text').focus() }],
  ['n N', 'in a capture: next, previous problem', { n: () => nextProblem(1), N: () => nextProblem(-1) }],
  ['f', 'in a capture: filter by an expression', { f: () => byId('expression-text').focus() }],
  ['g', 'in a capture: graphs', { g: () => study.verdict && toggleGraphs() }],
  ['p', 'only problems', { p: () => byId('filter-wrong').click() }],
  ['d l u m c v', 'in a lesson: drop, delay, duplicate, mark, corrupt, deliver the packet', Object.fromEntries(ACTIONS.map((a) => [a.key, () => change(a.action)]))],
  ['r', 'in a lesson: everything as it was', { r: () => undoChanges() }],
  ['] [', 'in a lesson: next, previous lesson', { ']': () => turnLesson(1), '[': () => turnLesson(-1) }],
  ['?', 'these keys', { '?': () => openHelp() }],
];

function openHelp() {
  refill(byId('help'), el('h2', { id: 'help-title' }, 'Keys'),
    el('dl', {}, KEYS.map(([keys, what]) => [el('dt', {}, keys.split(' ').map((k) => (k === 'or' ? ' or ' : [el('kbd', {}, k), ' ']))), el('dd', {}, what)])),
    el('p', { class: 'remark' }, 'Blue: requests. Green: acknowledgements. Teal: responses of READs and atomics. Orange: NAKs. Violet: the connection manager. Dashed: lost, or marked by a switch. At the right edge is the whole of it, problems in red.'),
    el('button', { type: 'button', class: 'primary', click: () => byId('help').close() }, 'Close'));
  byId('help').showModal();
}

/** press handles a key, unless it belongs to what has the focus. */
function press(e) {
  if (e.ctrlKey || e.metaKey || e.altKey || byId('help').open) return;
  const at = e.target;
  const tag = at.tagName;
  if (e.key === 'Escape') {
    byId('ladder').focus();
    return;
  }
  if (tag === 'SELECT' || tag === 'TEXTAREA' || (tag === 'INPUT' && !['range', 'checkbox'].includes(at.type))) return;
  if ((tag === 'BUTTON' || tag === 'SUMMARY' || at.type === 'checkbox') && (e.key === ' ' || e.key === 'Enter')) return;
  if (at.type === 'range' && /^(Arrow|Page|Home|End)/.test(e.key)) return;
  const scrolls = /^(ArrowUp|ArrowDown|Page|Home|End)/.test(e.key);
  if (scrolls && (byId('side').contains(at) || byId('lesson').contains(at))) return;
  for (const [, , keys] of KEYS) {
    if (!keys[e.key]) continue;
    e.preventDefault();
    keys[e.key]();
    return;
  }
}

function listen() {
  const box = byId('ladder');
  box.addEventListener('scroll', draw, { passive: true });
  box.addEventListener('click', (e) => {
    const node = e.target.closest('.packet');
    if (!node) return;
    select(Number(node.dataset.n));
    openPacket();
    box.focus();
  });
  box.addEventListener('wheel', (e) => {
    if (!e.ctrlKey) return;
    e.preventDefault();
    zoom(e.deltaY < 0 ? 1.1 : 0.9);
  }, { passive: false });
  byId('overview').addEventListener('click', (e) => {
    box.scrollTop = (e.offsetY / byId('overview').clientHeight) * box.scrollHeight - box.clientHeight / 2;
  });
  byId('filter').addEventListener('input', readFilter);
  byId('filter').addEventListener('submit', (e) => e.preventDefault());
  byId('zoom-in').addEventListener('click', () => zoom(1.25));
  byId('zoom-out').addEventListener('click', () => zoom(0.8));
  byId('play').addEventListener('click', togglePlay);
  byId('step-on').addEventListener('click', () => step(1));
  byId('step-back').addEventListener('click', () => step(-1));
  byId('slider').addEventListener('input', (e) => {
    const stop = Number(e.target.value);
    pause();
    goTo(stop);
  });
  byId('help-open').addEventListener('click', openHelp);
  document.addEventListener('keydown', press);
  addEventListener('hashchange', () => { // the URL of a new server was put into the place of the old one's
    if (keepToken()) location.reload();
  });
  new ResizeObserver(draw).observe(box);
  new ResizeObserver(() => graphs.open && study.verdict && !byId('graphs').hidden && drawGraph()).observe(byId('packets'));
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);
}

listen();
showExpression();
keepToken();
attempt(() => {
  if (wanted('lesson')) return openLessons(wanted('lesson'));
  if (given.live) return openLive();
  if (given.file) return openFile();
  return openLessons();
});
