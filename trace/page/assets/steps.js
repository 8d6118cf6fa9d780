'use strict';
// The walk through a lesson: a step is some sentences, the moment of the play that they are about,
// its packets, and the terms that are new. Behind the last step is free play: the whole text, the
// question, and what can be done to packets.

/** walking says whether the steps of a lesson are shown. In free play app.step is -1. */
const walking = () => Boolean(app.lesson) && app.step >= 0;

/** walkTo goes to a step; behind the last one is free play. */
function walkTo(n) {
  const steps = app.lesson.steps;
  if (n >= steps.length) {
    freePlay();
    return;
  }
  pause();
  app.step = Math.max(0, n);
  keepStep();
  showLesson();
  byId('spoken').textContent = `Step ${app.step + 1}: ${byId('said').textContent}`; // a screen reader says it
  travel(steps[app.step].time);
}

/** stepAt is the last step that is not after a time. */
const stepAt = (time) => Math.max(0, app.lesson.steps.findLastIndex((s) => s.time <= time));

/** freePlay ends the walk: all that happened is in sight, and may be changed. */
function freePlay() {
  if (!walking()) return;
  pause();
  app.step = -1;
  keepStep();
  const within = byId('lesson').contains(document.activeElement);
  showLesson();
  if (within) byId('to-walk').focus();
  byId('lesson').scrollTop = 0;
  arrive(app.end);
}

/** walkAgain undoes all changes and begins at the first step. */
function walkAgain() {
  if (!app.lesson) return;
  app.step = 0;
  if (app.changes.length) undoChanges();
  arrive(app.stops[0] || 0);
  walkTo(0);
}

/** turnWalk goes from walk to free play, and back. */
const turnWalk = () => (walking() ? freePlay() : walkAgain());

/** arrive is at a time. */
function arrive(time) {
  cancelAnimationFrame(app.travel);
  app.now = time;
  const row = lastStop(ladder.rows.times, time);
  if (row >= 0) reveal(row);
  showClock();
  showEnds();
  draw();
}

const STOP_TIME = 450; // milliseconds from one thing that happens to the next
const MOST_TIME = 1500; // of a step

/** travel lets the time pass up to a moment, so that packets are seen to move. */
function travel(time) {
  cancelAnimationFrame(app.travel);
  const points = [app.now, ...app.stops.filter((s) => s > app.now && s <= time)];
  const parts = points.length - 1;
  if (!parts || matchMedia('(prefers-reduced-motion: reduce)').matches) {
    arrive(time);
    return;
  }
  const long = Math.min(MOST_TIME, STOP_TIME * parts);
  let begun = 0;
  let seen = 0;
  const frame = (t) => {
    begun = begun || t;
    const part = ((t - begun) / long) * parts;
    const i = Math.floor(part);
    if (i >= parts) {
      arrive(time);
      return;
    }
    if (i > seen) {
      app.now = points[i];
      showEnds();
      showClock();
      seen = i;
    }
    app.now = points[i] + (points[i + 1] - points[i]) * (part - i);
    drawLadder();
    app.travel = requestAnimationFrame(frame);
  };
  app.travel = requestAnimationFrame(frame);
}

/** inStep says whether the step is about a packet. */
const inStep = (p) => walking() && (app.lesson.steps[app.step].packets || []).includes(p.n);

/** later says whether a packet leaves at this very moment, and a later step tells of it. */
function later(p) {
  if (!walking() || p.sent !== app.now) return false;
  const first = app.lesson.steps.findIndex((s) => (s.packets || []).includes(p.n));
  return first > app.step;
}

/** walkView is the step in the panel. */
function walkView(l) {
  const steps = l.steps;
  const s = steps[app.step];
  return el('div', { class: 'walk' },
    el('div', { class: 'track', role: 'group', 'aria-label': 'Steps' }, steps.map((_, i) => el('button', { type: 'button', id: 'step-' + i, class: i < app.step ? 'past' : '', 'aria-label': `Step ${i + 1} of ${steps.length}`, 'aria-current': i === app.step ? 'step' : false, click: () => walkTo(i) }))),
    el('div', { class: 'said', id: 'said' }, passages(s.text)),
    newTerms(s.terms),
    el('div', { class: 'steps' },
      el('button', { type: 'button', id: 'walk-back', disabled: app.step === 0, click: () => walkTo(app.step - 1) }, '← Back'),
      el('span', { class: 'remark' }, `${app.step + 1} of ${steps.length}`),
      el('button', { type: 'button', id: 'walk-on', class: 'primary', click: () => walkTo(app.step + 1) }, app.step + 1 < steps.length ? 'Next →' : 'Now you →')),
    el('p', { class: 'remark keys' }, el('span', { class: 'k' }, el('kbd', {}, '→'), ' ', el('kbd', {}, '←'), ' go on and back. '), el('button', { type: 'button', id: 'to-free', class: 'link', click: freePlay }, 'Free play'), ' ', el('kbd', { class: 'k' }, 'f'), ' is where you change what happens.'));
}

/** freeHead stands above the text in free play. */
function freeHead(l) {
  return el('div', { class: 'free' },
    el('button', { type: 'button', id: 'to-walk', click: walkAgain }, '← Step by step ', el('kbd', {}, 'f')),
    l.terminal ? '' : el('p', {}, el('b', {}, 'Now you. '), 'Choose a packet: click its arrow, or press ', el('kbd', {}, '↓'), '. Then lose it, delay it, let it come twice. What follows? Say it first, then look.'));
}
