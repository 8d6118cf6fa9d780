'use strict';
// Inside the NIC: what an adapter does of a request, stage by stage, above the queues and memory of
// both ends; the stages of this moment in full. This stack is software and does some of it
// otherwise, and each stage says how.

/** insideView is the lane, if the lesson has one. */
function insideView() {
  const stages = app.lesson?.inside || [];
  if (!stages.length) return '';
  const reached = stages.findLastIndex((s) => s.time <= app.now);
  const since = reached >= 0 ? stages[reached].time : -1;
  return el('details', { class: 'inside', id: 'inside', open: app.inside, toggle: (e) => {
    app.inside = e.target.open;
  } },
  el('summary', {}, 'Inside the NIC: what an adapter does (this stack is software: ', el('i', {}, 'in italics'), ' what it does instead)'),
  el('ol', { class: 'lane' }, stages.map((s, i) => el('li', { class: i > reached ? 'future' : s.time === since ? 'current' : '', 'aria-current': s.time === since && i <= reached ? 'step' : false },
    el('button', { type: 'button', class: 'link', click: () => goTo(lastStop(app.stops, s.time)) }, el('b', { class: 'stage' }, s.step), ' ', s.name),
    s.time === since && i <= reached ? [el('span', {}, s.nic), el('i', {}, s.here)] : ''))));
}
