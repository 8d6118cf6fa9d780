'use strict';
// Lessons: the list, the text, the question, and the scenario player. A student changes what
// happens to a packet, and the world is run again at once.

const ACTIONS = [
  { action: 'drop', key: 'd', name: 'Drop', title: 'It is lost on the way' },
  { action: 'delay', key: 'l', name: 'Delay', title: 'It comes 50 µs later, behind others' },
  { action: 'duplicate', key: 'u', name: 'Duplicate', title: 'It comes twice' },
  { action: 'mark', key: 'm', name: 'Mark', title: 'A switch marks it: congestion (ECN)' },
  { action: 'corrupt', key: 'c', name: 'Corrupt', title: 'A bit of it flips on the way' },
  { action: 'deliver', key: 'v', name: 'Deliver', title: 'Nothing happens to it, whatever the lesson does' },
];

/** openLesson plays a lesson from its beginning. */
async function openLesson(name) {
  const w = await startWorld();
  app.changes = [];
  app.answered = null;
  const first = w.lessons.some((l) => l.name === name) ? name : w.lessons[0].name;
  history.replaceState(null, '', '#lesson=' + encodeURIComponent(first));
  playLesson(first, false);
  byId('lesson').scrollTop = 0;
}

/** playLesson runs the lesson's world with the changes. */
function playLesson(name, keep) {
  const { lesson, play, told, untrue } = world.play(name, app.changes);
  Object.assign(app, { lesson, told: told || [], untrue: untrue || [] });
  if (!keep) byId('filter-setup').checked = lesson.setUp;
  showPlay(play, { title: lesson.title, keep });
  showLesson();
}

/** turnLesson goes to the next or the previous lesson. */
function turnLesson(by) {
  if (!app.lesson || !world) return;
  const next = world.lessons[world.lessons.findIndex((l) => l.name === app.lesson.name) + by];
  if (next) openLesson(next.name);
}

/** replay runs the lesson's world again. */
function replay() {
  pause();
  playLesson(app.lesson.name, true);
}

/** change does something to the selected packet, or undoes it. */
function change(action) {
  const n = app.selected;
  if (!app.lesson || !app.play.packets.some((p) => p.n === n)) {
    if (app.lesson) say('Choose a packet first: click an arrow, or press ↓.');
    return;
  }
  const same = app.changes.some((c) => c.packet === n && c.action === action);
  app.changes = app.changes.filter((c) => c.packet !== n);
  if (!same) app.changes.push({ packet: n, action });
  app.changes.sort((a, b) => a.packet - b.packet);
  replay();
  const done = ACTIONS.find((a) => a.action === action);
  say(same ? `Packet ${n} as it was.` : `Packet ${n}: ${done.title.toLowerCase()}. ${plural(app.play.packets.length, 'packet')} now.`);
}

function undoChanges() {
  if (!app.lesson || !app.changes.length) return;
  app.changes = [];
  replay();
  say('Everything as it was.');
}

/** showChanges is the bar below the ladder. */
function showChanges() {
  const bar = byId('changes');
  bar.hidden = !app.lesson;
  if (bar.hidden) return;
  const packet = app.play.packets.find((p) => p.n === app.selected);
  const now = app.changes.find((c) => c.packet === app.selected);
  const focused = document.activeElement && bar.contains(document.activeElement) ? document.activeElement.id : '';
  refill(bar,
    el('span', { class: 'which' }, packet ? `Packet ${packet.n}:` : 'Choose a packet, then:'),
    ACTIONS.filter((a) => a.action !== 'deliver' || (packet && packet.change)).map((a) => el('button', { type: 'button', id: 'change-' + a.action, title: a.title, disabled: !packet, 'aria-pressed': now && now.action === a.action ? 'true' : 'false', 'aria-keyshortcuts': a.key, click: () => change(a.action) }, a.name, ' ', el('kbd', {}, a.key))),
    app.changes.map((c) => el('span', { class: 'chip' }, `${c.packet}: ${c.action}`, el('button', { type: 'button', 'aria-label': `Undo: ${c.action} packet ${c.packet}`, click: () => {
      app.changes = app.changes.filter((x) => x !== c);
      replay();
    } }, '×'))),
    app.changes.length > 1 ? el('button', { type: 'button', click: undoChanges }, 'Undo all ', el('kbd', {}, 'r')) : '');
  if (focused && byId(focused)) byId(focused).focus();
}

/** showLesson is the panel at the left. */
function showLesson() {
  const box = byId('lesson');
  const l = app.lesson;
  box.hidden = !l;
  byId('main').classList.toggle('teaching', Boolean(l));
  showChanges();
  if (!l) return;
  const focused = box.contains(document.activeElement) ? document.activeElement.id : '';
  const open = box.querySelector('details') ? box.querySelector('details').open : false;
  refill(box,
    listOfLessons(l, open),
    el('div', { class: 'chapter' }, l.chapterTitle), el('h2', {}, l.title),
    l.terminal ? el('p', { class: 'verdict' }, 'A browser cannot play this lesson: run ', el('code', {}, 'roce learn ' + l.name), ' in a terminal.') : '',
    told(),
    passages(l.text),
    (l.nic || []).length ? [el('h3', {}, 'With a NIC'), passages(l.nic)] : '',
    question(l),
    el('div', { class: 'steps' }, turnButton('Previous', '[', -1), turnButton('Next', ']', 1)));
  if (focused) byId(focused)?.focus();
}

const turnButton = (text, key, by) => {
  const at = world.lessons.findIndex((l) => l.name === app.lesson.name) + by;
  return el('button', { type: 'button', id: 'lesson-' + text.toLowerCase(), disabled: !world.lessons[at], title: world.lessons[at] ? world.lessons[at].title : '', click: () => turnLesson(by) }, by < 0 ? '← ' : '', text, ' ', el('kbd', {}, key), by > 0 ? ' →' : '');
};

/** listOfLessons is by chapters. */
function listOfLessons(current, open) {
  const list = el('details', { open }, el('summary', {}, `${plural(world.lessons.length, 'lesson')}`));
  let chapter = null;
  let items = null;
  for (const l of world.lessons) {
    if (l.chapter !== chapter) {
      chapter = l.chapter;
      items = el('ol');
      list.append(el('div', { class: 'chapter' }, l.chapterTitle), items);
    }
    items.append(el('li', {}, el('button', { type: 'button', id: 'open-' + l.name, 'aria-current': l.name === current.name ? 'true' : 'false', click: () => openLesson(l.name) }, l.title)));
  }
  return list;
}

/** passages are paragraphs; a pointer to a packet in them selects it. */
const passages = (list) => (list || []).map((p) => (p.lines ? el('pre', {}, p.lines) : el('p', { class: 'text' }, (p.pieces || []).map(piece))));

const piece = (x) => struck(x, x.packet ? pointTo(x.packet, x.text) : x.host ? el('b', {}, x.text) : x.text);

/** question asks, and says at once whether the answer is right. */
function question(l) {
  if (!l.question) return '';
  const done = app.answered;
  return el('fieldset', {}, el('legend', {}, 'Question'), el('div', {}, l.question),
    (l.answers || []).map((answer, i) => el('label', {}, el('input', { type: 'radio', id: 'answer-' + i, name: 'answer', value: i, checked: done === i, change: () => {
      app.answered = i;
      showLesson();
    } }), ' ', answer)),
    done === null ? '' : el('div', { class: 'verdict ' + (done === l.right ? 'good' : 'bad'), role: 'status' }, el('b', {}, done === l.right ? 'Right. ' : 'No. '), done === l.right || app.answered !== null ? passages(l.why) : ''));
}
