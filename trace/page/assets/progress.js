'use strict';
// What a learner has done: steps, answers and changes, kept in this browser if it lets a page keep
// something, and written to a file that a teacher can collect. Nothing is sent anywhere.

const KEPT = 'goroce.progress';

/** progress is {name, lessons: {NAME: {steps, of, free, changes, answers: [{answer, right, at}]}}}. */
let progress = keptProgress();

/** keptProgress reads what was kept; a browser may refuse that to a page from disk. */
function keptProgress() {
  try {
    const all = JSON.parse(localStorage.getItem(KEPT));
    if (all && typeof all.lessons === 'object') return all;
  } catch {
    // nothing is kept: what is done now lasts as long as the page
  }
  return { name: '', lessons: {} };
}

function keepProgress() {
  try {
    localStorage.setItem(KEPT, JSON.stringify(progress));
  } catch {
    // see keptProgress
  }
}

/** doneIn is what was done in a lesson. */
function doneIn(name) {
  const done = progress.lessons[name] || { steps: 0, of: 0, free: false, changes: 0, answers: [] };
  progress.lessons[name] = done;
  return done;
}

/** keepStep notes how far the walk has come. */
function keepStep() {
  const done = doneIn(app.lesson.name);
  done.of = app.lesson.steps.length;
  if (walking()) done.steps = Math.max(done.steps, app.step + 1);
  else done.free = true;
  keepProgress();
}

/** keepAnswer notes an answer; all of them count, in their order. */
function keepAnswer(l, answer) {
  doneIn(l.name).answers.push({ answer, right: answer === l.right, at: new Date().toISOString() });
  keepProgress();
}

function keepChange() {
  doneIn(app.lesson.name).changes++;
  keepProgress();
}

/** markOf is what the list of lessons shows: ✓ answered right, … begun. */
function markOf(name) {
  const done = progress.lessons[name];
  if (!done) return '';
  if (done.answers.some((a) => a.right)) return el('span', { class: 'mark good', title: 'answered' }, ' ✓');
  return done.steps > 1 || done.free ? el('span', { class: 'mark', title: 'begun' }, ' …') : '';
}

/** progressFile is what a teacher collects. */
function progressFile() {
  const lessons = world.lessons.filter((l) => progress.lessons[l.name]).map((l) => {
    const done = progress.lessons[l.name];
    return { lesson: l.name, steps: done.steps, of: done.of, freePlay: done.free, changes: done.changes, answers: done.answers, right: done.answers.some((a) => a.right), rightAtOnce: Boolean(done.answers[0]?.right) };
  });
  return { kind: 'goroce progress', version: 1, name: progress.name, written: new Date().toISOString(), right: lessons.filter((l) => l.right).length, lessonsInAll: world.lessons.length, lessons };
}

/** saveProgress hands the file to the browser, as a download. */
function saveProgress() {
  const file = new Blob([JSON.stringify(progressFile(), null, 2) + '\n'], { type: 'application/json' });
  const link = el('a', { href: URL.createObjectURL(file), download: `roce-lessons${progress.name ? '-' + progress.name.replace(/[^\p{L}\p{N}]+/gu, '-') : ''}.json` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

/** openProgress shows it. */
function openProgress() {
  if (!world) return;
  const rows = progressFile().lessons;
  const name = el('input', { type: 'text', id: 'progress-name', autocomplete: 'name', value: progress.name, input: (e) => {
    progress.name = e.target.value.trim();
    keepProgress();
  } });
  openDialog('What you have done',
    rows.length ? el('div', { class: 'scroll', tabindex: 0, role: 'group', 'aria-label': 'Lessons' }, el('table', { class: 'done' }, el('thead', {}, el('tr', {}, ['Lesson', 'Steps', 'Changes', 'Question'].map((x) => el('th', { scope: 'col' }, x)))),
      el('tbody', {}, rows.map((r) => el('tr', {}, el('td', {}, world.lessons.find((l) => l.name === r.lesson).title), el('td', {}, `${r.steps} of ${r.of}`), el('td', {}, r.changes), el('td', {}, !r.answers.length ? '' : r.rightAtOnce ? 'right at once' : r.right ? `right, ${plural(r.answers.length, 'answer')}` : 'not yet')))))) : el('p', {}, 'Nothing yet.'),
    el('p', {}, el('label', {}, 'Your name, for the file ', name)),
    el('div', { class: 'buttons' },
      el('button', { type: 'button', id: 'progress-save', class: 'primary', click: saveProgress }, 'Save as a file'),
      el('button', { type: 'button', id: 'progress-forget', click: () => {
        progress = { name: '', lessons: {} };
        keepProgress();
        if (app.lesson) showLesson();
        openProgress();
      } }, 'Forget all of it')),
    el('p', { class: 'remark' }, 'It is kept in this browser only. The file is JSON: give it to your teacher.'));
}
